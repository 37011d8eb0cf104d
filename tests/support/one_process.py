"""Whole runs in this process: tasks are done here and now, without workers, so damage can be tried many times."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from cluster import ClusterHandle
from flows.options.batch import BatchOptions
from flows.options.online import OnlineOptions
from flows.options.score import ScoreOptions
from flows.runs.batch import batch_params, chosen_invocation, find_data, identity, sources_of
from flows.runs.online import online_identity, online_params
from pipeline.monitoring.events import QuietProgress
from pipeline.record_types import Result
from pipeline.running.repair import check_models
from pipeline.running.stage import Context as RunContext
from pipeline.runs.batch import Call, call_directly, run_batch
from pipeline.runs.metrics import Invocation
from pipeline.runs.new_data import open_data
from pipeline.runs.online import run_online
from pipeline.runs.score import score
from pipeline.runs.score_output import Output
from pipeline.runs.trained_model import open_run
from pipeline.sources import Sizes
from pipeline.storage.durable import read_json
from pipeline.storage.lru_cache import PROCESS
from pipeline.storage.rundir import RunDirectory
from tests.support.in_process import InProcess
from tests.support.sizes import sizes_made_small


class Heard(QuietProgress):
    """What a run says."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def message(self, text: str) -> None:
        self.lines.append(text)


@contextmanager
def one_process() -> Iterator[None]:
    """A stream writes a checkpoint after every chunk, however long a chunk takes."""
    with sizes_made_small() as sizes:
        sizes.checkpoints(always=True)
        yield


@contextmanager
def commands_in_this_process() -> Iterator[None]:
    """Run the commands themselves (``flows.batch.main`` and so on) here and now, from options to what they print."""
    client: Any = InProcess()
    here = ClusterHandle(client, "local", workers=1, threads=1, memory_limit=None, dashboard_link=None)
    with one_process(), commands_find(here), pytest.MonkeyPatch.context() as patch:
        patch.setattr("flows.runs.batch.prepare", lambda _: None)  # there are no workers to fork
        yield


@contextmanager
def commands_find(cluster: ClusterHandle) -> Iterator[None]:
    """Have commands in this process find a cluster, which they leave running, in place of starting one."""

    def connect(*_: Any, **__: Any) -> ClusterHandle:
        return replace(cluster, _stack=ExitStack())

    with pytest.MonkeyPatch.context() as patch:
        for command in ("batch", "score", "paper_runs"):
            patch.setattr(f"flows.runs.{command}.connect", connect)
        yield


def forget() -> None:
    """Be another process: nothing of what was read is remembered."""
    PROCESS.forget()


@dataclass(frozen=True)
class Command:
    """A small run."""

    options: BatchOptions
    sizes: Sizes = Sizes()  # noqa: RUF009 - immutable

    def run(
        self, directory: Path, call: Call = call_directly, heard: Heard | None = None, client: InProcess | None = None
    ) -> dict[str, Any]:
        """Run it, or go on with it."""
        forget()
        options, events = self.options, heard or Heard()
        data, params = replace(find_data(options, events), sizes=self.sizes), batch_params(options)
        sources = sources_of(data)
        more = online_identity(options) if isinstance(options, OnlineOptions) else {}
        held = RunDirectory(directory, {**identity(params, data, sources), **more})
        if held.repaired:
            events.message(held.repaired)
        asked = Invocation(
            "test",
            options.to_toml(),
            {"kind": "local", "workers": 1, "threads": 1},
            sources,
            dask_report=False,
            chosen=partial(chosen_invocation, options),
        )
        context = RunContext(client or InProcess(), held, params, events)
        try:
            check_models(held, events.message)
            if (metrics := held.metrics(events.message)) is not None:
                return metrics
            if isinstance(options, OnlineOptions):
                return run_online(context, data, asked, online_params(options), alerts=options.alerts, call=call)
            return run_batch(context, data, asked, call=call)
        finally:
            held.close()


def score_file(options: ScoreOptions, sizes: Sizes = Sizes()) -> dict[str, Any]:  # noqa: B008 - immutable
    """Score a file with a finished run, as ``flows.score`` does."""
    forget()
    model = open_run(options.model, options.learner)
    data = open_data(model, options.input, options.format, options.label, sizes)
    client: Any = InProcess()
    with Output(options.output) as output:
        return score(client, model, data, output, Heard())


def results(directory: Path) -> dict[str, Any]:
    """Everything that is to have the same bits, however a run came about."""
    found: dict[str, Any] = {}
    root = zarr.open_group(str(directory / "store.zarr"), mode="r")
    for name, array in root.members(max_depth=None):
        # Solutions that have been merged may be left by a run that was stopped just then.
        if isinstance(array, zarr.Array) and "-solved/" not in name and "-counts/" not in name:
            found[name] = (str(array.dtype), array.shape, np.asarray(array[...]).tobytes())
    for file in sorted((directory / "predictions").glob("*")):
        found[file.name] = file.read_bytes()
    metrics = read_json(directory / "metrics.json")
    untimed = ("seconds", "curve")
    for name, learner in metrics["learners"].items():
        found[f"learner {name}"] = {key: value for key, value in learner.items() if not key.endswith(untimed)}
        found[f"curve {name}"] = learner.get("curve", {}).get("accuracy")
    return found


def write_rows(folder: Path, n: int = 240) -> Path:
    """A file that is quickly learned, of three classes."""
    rng = np.random.default_rng(3)
    X = np.round(rng.random((n, 5)) * (rng.random((n, 5)) < 0.8), 3)
    y = np.floor((X[:, 0] + X[:, 1] * X[:, 2]) * 2.4).clip(0, 2).astype(int)
    lines = (f"{k} " + " ".join(f"{j + 1}:{v:g}" for j, v in enumerate(x) if v) for k, x in zip(y, X, strict=True))
    path = folder / "rows.libsvm"
    path.write_text("\n".join(lines) + "\n")
    return path


def commands(file: Path) -> dict[str, Command]:
    """Runs that leave every kind of object: sparse rows, ranges, both partitioners, all solvers, a stream."""
    common: dict[str, Any] = {"input": str(file), "t": 7, "psi": 8}
    return {
        "batch": Command(
            BatchOptions(
                **common, C=1.0, learner=("svm", "ogd", "kernel-ogd"), partitioner="anne", shard_rows=64, gamma=1.0
            )
        ),
        "distributed": Command(
            BatchOptions(**common, C=1.0, learner=("logistic",), solver="distributed", parts=2, partitioner="iforest")
        ),
        "stream": Command(
            OnlineOptions(
                **common,
                learner=("ogd", "kernel-ogd"),
                partitioner="anne",
                initial=60,
                block_rows=2,
                gamma=1.0,
                order="file",
            )
        ),
    }


@dataclass
class Snapshots:
    """Copies of a run directory, by what had just been done: a :data:`~pipeline.runs.batch.Call`."""

    directory: Path
    folder: Path
    taken: dict[str, Path] = field(default_factory=dict)

    def __call__(self, name: str, work: Callable[[], Result]) -> Result:
        result = work()
        self.take(name)
        return result

    def take(self, name: str) -> None:
        where = self.folder / f"{len(self.taken):03d}-{name.replace(':', '-')}"
        shutil.copytree(self.directory, where, symlinks=True)
        self.taken[name] = where
