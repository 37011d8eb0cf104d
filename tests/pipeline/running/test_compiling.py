"""What a run needs compiled: known before it begins, done once on a host, told, and no part of any stage's seconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from distributed import Client, LocalCluster

from cluster import ClusterHandle, connect
from flows.options.batch import BatchOptions
from flows.options.online import OnlineOptions
from flows.options.score import ScoreOptions
from flows.runs.batch import run as run_batch
from flows.runs.online import run as run_online
from flows.runs.score import run as run_score
from ikmap.compiled import LOOPS, parsed
from ikmap.tasks import CLASSIFICATION, REGRESSION
from ikmap.tasks import Task as LearningTask
from pipeline.errors import InputError
from pipeline.monitoring.events import QuietProgress
from pipeline.record_types import TaskRecord
from pipeline.rows.preparation import Preparation
from pipeline.running import compile as command
from pipeline.running import compiling
from pipeline.running.compiling import (
    Job,
    Progress,
    missing,
    needed,
    prepare,
    words_of,
    words_of_learner,
    words_of_map,
    words_of_rows,
)
from pipeline.running.dispatch import Task
from pipeline.running.measured import measured
from pipeline.running.stage import Stage
from pipeline.stages.choose import words_of_race
from tests import ROOT
from tests.support.machine import no_process_to_fork_from
from tests.support.one_process import commands_find
from tests.support.params_for import params_for
from tests.support.runs import compiled_late, context
from tests.support.sizes import SmallSizes

pytestmark = pytest.mark.system

ONE = {"cell-masses"}
FEW = {*ONE, "kernel-terms"}
MAPPED = ("anne", "inne", "mondrian", "anne,mondrian")
"""Words of few and short loops."""


class Heard(QuietProgress):
    """Remembers what is said."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def message(self, text: str) -> None:
        self.lines.append(text)


@pytest.fixture
def workers_anew() -> Iterator[None]:
    """No worker is forked from a process that has been prepared for them.

    It would have what was compiled before; and if it were started now, all later workers of this test process would
    have the environment of this moment.
    """
    with no_process_to_fork_from():
        yield


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers_anew: None) -> Path:  # noqa: ARG001
    """Of this process and of workers that are started now."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def two_workers(empty_cache: Path) -> Iterator[ClusterHandle]:  # noqa: ARG001
    with connect("local", workers=2, memory_limit="2GB") as cluster:
        yield cluster


def compiled_here(names: list[str]) -> tuple[dict[str, int], bool]:
    """In a worker: how many signatures of each loop it has compiled itself, and whether it has them all."""
    from ikmap.compiled import LOOPS

    loops: dict[str, Any] = {name: LOOPS[name].dispatcher for name in names}
    return {name: sum(loop.stats.cache_misses.values()) for name, loop in loops.items()}, all(
        loop.signatures for loop in loops.values()
    )


def test_each_loop_is_compiled_by_one_worker_and_loaded_by_the_others(two_workers: ClusterHandle) -> None:
    jobs = needed(FEW)
    assert jobs == missing(FEW)
    heard = Heard()
    assert prepare(two_workers.client, FEW, heard.message) > 0.0
    assert heard.lines[0] == f"compiling for this processor, once per installation: 0 of {len(jobs)}"
    assert heard.lines[-1].startswith(f"compiled {len(jobs)} loops in ")
    found = two_workers.client.run(compiled_here, [job.name for job in jobs])
    assert all(has_all for _, has_all in found.values())
    total = sum((Counter(by_name) for by_name, _ in found.values()), Counter[str]())
    assert total == {job.name: len(job.signatures) for job in jobs}
    assert missing(FEW) == []
    heard = Heard()
    assert prepare(two_workers.client, FEW, heard.message) == 0.0
    assert heard.lines == []


@pytest.mark.usefixtures("workers_anew")
def test_where_nothing_can_be_stored_each_worker_compiles_and_the_user_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file"))
    heard = Heard()
    with connect("local", workers=1, memory_limit="2GB") as cluster:
        assert prepare(cluster.client, ONE, heard.message) > 0.0
        [(_, has_all)] = cluster.client.run(compiled_here, [job.name for job in needed(ONE)]).values()
    assert has_all
    assert "cannot be stored" in heard.lines[0]
    assert "NUMBA_CACHE_DIR" in heard.lines[0]


@pytest.mark.usefixtures("empty_cache")
def test_it_does_not_wait_for_ever_for_workers_that_have_left(small_sizes: SmallSizes) -> None:
    small_sizes.looks_at_workers(0.05, lost=0.2)
    with LocalCluster(n_workers=1, processes=False, dashboard_address=None) as cluster, Client(cluster) as client:
        client.wait_for_workers(1)

        def say(line: str) -> None:
            assert line.startswith("compiling for this processor")
            for worker in list(cluster.workers.values()):
                cluster.sync(worker.close)

        with pytest.raises(InputError, match=r"no workers for 0\.2 seconds"):
            prepare(client, ONE, say)


def test_the_command_compiles_what_is_missing_and_then_nothing(
    empty_cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(ONE) == 0
    (job,) = needed(ONE)
    assert "compiled 1 loop in" in capsys.readouterr().err
    stored = {file: file.stat().st_mtime_ns for file in (empty_cache / "ikmap").iterdir()}
    assert len(stored) >= len(job.signatures)
    assert command.main(ONE) == 0
    assert "everything has been compiled before" in capsys.readouterr().err
    assert {file: file.stat().st_mtime_ns for file in (empty_cache / "ikmap").iterdir()} == stored
    assert command.main(["no-such-word"]) == 2
    assert "no-such-word" in capsys.readouterr().err


def test_the_line_tells_how_many_are_done_and_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("pipeline.running.compiling.time.monotonic", lambda: now[0])
    jobs = [Job(f"loop{k}", ("i8",), weight) for k, weight in enumerate((6, 3, 1))]
    lines: list[str] = []
    progress = Progress(jobs, lines.append)
    now[0] += 12.0
    progress.done(jobs[:1])
    progress.tell()
    progress.done(jobs[1:2])
    progress.tell()  # too soon after the last
    assert lines == [
        "compiling for this processor, once per installation: 0 of 3",
        "compiling for this processor, once per installation: 1 of 3, about 8 s left",
    ]
    assert progress.finish() == 12.0
    assert lines[-1] == "compiled 3 loops in 12.0 s"


def test_words_describe_what_is_known() -> None:
    params = params_for(learners=("svm", "ogd"))
    words = words_of(params, dense=True, task={"multiclass"})
    assert {"anne", "dense", "multiclass", "svm", "ogd", "cells-batch", "cells-online", "wide"} == words
    assert {"dense", "sparse", "binary", "multiclass"} <= words_of(params)
    assert words_of(params_for(learners=("ogd",)), dense=False, task={"binary"}, n_cells=[256, 257]) == {
        "anne", "sparse", "binary", "ogd", "cells-online", "narrow", "wide",
    }  # fmt: skip
    assert "anne" not in words_of(params_for(learners=("kernel-svm",)))
    weights = [job.weight for job in needed(words)]
    assert weights == sorted(weights, reverse=True)


def test_words_of_methods_follow_from_their_names_and_kinds() -> None:
    def of(learner: str, *, scoring: bool = False) -> frozenset[str]:
        return words_of_learner(params_for(learners=(learner,)).of(learner), scoring=scoring)

    assert of("logistic") == {"logistic", "cells-batch"}
    assert of("kernel-svm") == {"kernel-svm", "rows-batch"}
    assert of("idk") == {"idk", "cells-online", "cell-masses", "fading-masses"}
    assert of("idk", scoring=True) == of("svm", scoring=True) == {"cells-online"}
    assert of("kernel-ogd", scoring=True) == set()
    maps = {name: words_of_map(params_for(partitioner=name, learners=("svm",)).map) for name in MAPPED}
    assert maps == {
        "anne": {"anne"},
        "inne": {"inne", "anne"},
        "mondrian": {"mondrian", "narrow", "wide"},  # it may grow
        "anne,mondrian": {"anne", "mondrian", "narrow", "wide"},
    }


def test_sweeps_are_compiled_where_the_map_is_swept() -> None:
    def words(**given: Any) -> frozenset[str]:
        return words_of(params_for(partitioner="mondrian", learners=("svm",), **given))

    assert "sweep" in words()
    assert "sweep" not in words(lifetime=2.0)


def compile_late() -> TaskRecord:
    @numba.njit
    def nobody_declared_me(x: np.ndarray) -> np.ndarray:
        return np.sort(x).cumsum()

    nobody_declared_me(np.arange(3.0))
    return {"rows": 10}


def test_what_compiles_later_is_named_and_taken_out_of_task_and_stage(
    tmp_path: Path,
) -> None:
    record = measured(compile_late, ())
    assert record["compile_seconds"] > 0.0
    assert any("nobody_declared_me" in name and "float64" in name for name in record["compiled"])
    heard = Heard()
    of_run = context(tmp_path / "run")
    of_run.events = heard
    now = [0.0]
    of_run.clock, of_run._started = (lambda: now[0]), 0.0
    stage = Stage(of_run, "cells", 1)
    [done] = stage.run(compile_late, [Task("one", ())])
    now[0] = done["compile_seconds"] + 2.0
    stage.finish({})
    summary = of_run.run.manifest["stages"]["cells"]["record"]
    assert summary["seconds"] == pytest.approx(2.0, abs=1e-3)
    assert summary["rows_per_second"] == pytest.approx(5.0, abs=0.1)
    assert of_run.run.manifest["compile_seconds"] == pytest.approx(done["compile_seconds"], abs=2e-3)
    assert any("compiling" in line for line in heard.lines)


def libsvm(path: Path, classes: int) -> str:
    rng = np.random.default_rng(0)
    X = np.round(rng.random((300, 6)) * (rng.random((300, 6)) < 0.6), 3)
    y = np.floor(X[:, 0] * classes).astype(int)
    rows = (" ".join(f"{j + 1}:{v:g}" for j, v in enumerate(row) if v) for row in X)
    path.write_text("\n".join(f"{label} {row}" for label, row in zip(y, rows, strict=True)) + "\n")
    return str(path)


RUNS: dict[str, dict[str, Any]] = {
    "default": {},
    "anne": {"partitioner": "anne", "learner": ("svm", "ogd"), "psi": 16},
    "given psi": {"psi": 16},
    "scaled": {"psi": 16, "scale": "minmax"},
}


@pytest.fixture(scope="module")
def one_worker() -> Iterator[ClusterHandle]:
    """A cluster for the first runs. What a loop of one of them compiled is on the disk for the others, too."""
    with connect("local", workers=1, memory_limit="2GB") as cluster:
        yield cluster


@pytest.mark.parametrize(
    ("classes", "name"),
    [
        *product((0, 2, 3), ("default",)),
        *product((2, 3), ("given psi",)),
        (3, "anne"),
        (0, "scaled"),  # sparse rows are not
    ],
)
def test_the_declared_loops_are_all_that_usual_runs_need(
    one_worker: ClusterHandle, tmp_path: Path, classes: int, name: str
) -> None:
    """Runs learn the digits (0 classes), and sparse rows of two and three classes; the second has a worker anew."""
    options = RUNS[name]
    given = {"input": libsvm(tmp_path / "rows.libsvm", classes)} if classes else {}
    run = tmp_path / "run"
    with commands_find(one_worker):
        metrics = run_batch(
            BatchOptions(run_dir=str(run), t=10, workers=1, memory_limit="2GB", **given, **options),
            events=QuietProgress(),
        )
    assert compiled_late(run) == []
    assert metrics["run"]["compile_seconds"] <= metrics["run"]["seconds"]
    if name != "given psi":
        return
    again = run_batch(
        BatchOptions(run_dir=str(tmp_path / "again"), t=10, workers=1, memory_limit="2GB", **given, **options),
        events=QuietProgress(),
    )
    assert again["run"]["compile_seconds"] == 0.0, "the second run compiles nothing"
    if classes:
        output = str(tmp_path / "predictions.parquet")
        asked = ScoreOptions(model=str(run), input=given["input"], output=output, workers=1, memory_limit="2GB")
        assert run_score(asked, events=QuietProgress())["compile_seconds"] == 0.0


def test_nor_does_a_stream_need_more(one_worker: ClusterHandle, tmp_path: Path) -> None:
    rows = libsvm(tmp_path / "rows.libsvm", 2)
    run = tmp_path / "run"
    options = OnlineOptions(
        input=rows, initial=100, psi=16, t=10, learner=("ogd",), run_dir=str(run), workers=1, memory_limit="2GB"
    )
    with commands_find(one_worker):
        run_online(options, events=QuietProgress())
    assert compiled_late(run) == []


@pytest.mark.parametrize("task", [CLASSIFICATION.of([0, 1]), CLASSIFICATION.of([0, 1, 2]), REGRESSION.of()])
def test_the_installation_compiles_what_the_bare_command_needs(task: LearningTask) -> None:
    """The words in .ci/make-venv are ones that there are, and all of it is among what they stand for."""
    script = (ROOT / ".ci" / "make-venv").read_text(encoding="utf-8").replace("\\\n", " ")
    words = frozenset(script.partition("-m pipeline.running.compile ")[2].partition("|")[0].split())
    assert words
    assert words <= compiling.everything()
    asked = {(job.name, signature) for job in needed(words) for signature in job.signatures}
    bare = words_of_race(Preparation(3, None, True, task)) | words_of_rows(["csv"])
    assert {(job.name, signature) for job in needed(bare) for signature in job.signatures} <= asked


def test_declared_signatures_have_a_type_for_each_argument() -> None:
    compiling._import_loops()
    wrong = {
        loop.name: signature
        for loop in LOOPS.values()
        for signature in loop.variants
        if len(parsed(signature)) != loop.dispatcher.py_func.__code__.co_argcount
    }
    assert wrong == {}
