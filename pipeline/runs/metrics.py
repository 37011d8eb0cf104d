"""Write ``metrics.json`` and end a run; batch runs and runs on a stream do so in the same way."""

from __future__ import annotations

import platform
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from types import TracebackType

from distributed import performance_report

from ikmap.json_values import Json
from pipeline.errors import ClusterLost
from pipeline.params import Params
from pipeline.record_types import ChooseResult, Record, RecordView, Result, SelectResult, Summary, UsedGPU
from pipeline.report import write_report
from pipeline.running.import_ahead import import_ahead
from pipeline.running.measured import peak_rss_bytes
from pipeline.running.stage import Context
from pipeline.runs.verdicts import verdicts_of
from pipeline.storage.durable import write_json
from pipeline.storage.rundir import RunDirectory

PACKAGES = ("ikmap", "numpy", "scipy", "numba", "scikit-learn", "dask", "distributed", "zarr", "pyarrow")


class DaskReport:
    """Dask's report of what its workers did; none where the workers or the scheduler were lost."""

    def __init__(self, file: str) -> None:
        self._report = performance_report(filename=file, stacklevel=2)  # it shows the code that leaves this one

    def __enter__(self) -> None:
        self._report.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not isinstance(error, ClusterLost):  # nobody is there to ask, and to try would hide the error
            self._report.__exit__(kind, error, trace)


@dataclass(frozen=True)
class Invocation:
    """The start of a run, as `metrics.json` describes it.

    Attributes
    ----------
    command : str
        The command line that reproduces the run.
    config_toml : str
        The options as a TOML file, which is also written to ``run.toml``.
    cluster : mapping
        kind, workers, threads, and dashboard if there is one.
    sources : sequence of mappings
        url, size and checksum of the files.
    memory_limit : int or None
        Bytes each worker may use.
    explain : bool
        Whether the plan is to be shown.
    dry_run : bool
        Whether the run is to stop once the plan is shown.
    dask_report : bool
        Whether to keep Dask's own report of what its workers did.
    start_seconds : float
        Seconds from the beginning of the command until the cluster was there: imports, finding the data, processes.
    stop : callable
        Function that stops the cluster, where this run is the last to use it; called when all work is done.
    chosen : callable
        Function that returns an invocation with the command and the options of the model that a race has chosen.
    """

    command: str
    config_toml: str
    cluster: RecordView
    sources: Sequence[RecordView] = ()
    memory_limit: int | None = None
    explain: bool = False
    dry_run: bool = False
    dask_report: bool = True
    start_seconds: float = 0.0
    stop: Callable[[], None] = lambda: None
    chosen: Callable[[Invocation, Params], Invocation] = lambda asked, _: asked

    def watched(self, run: RunDirectory) -> AbstractContextManager[object]:
        """Return the context manager around the work of a run: Dask's report, if it is wanted."""
        return DaskReport(str(run.path / "dask-report.html")) if self.dask_report else nullcontext()

    def prepare_to_draw(self) -> None:
        """Begin to import what Dask's report is drawn with, while workers are busy and this process only waits."""
        if self.dask_report:
            import_ahead("distributed.dashboard.components.scheduler")


def finish_run(
    context: Context,
    invocation: Invocation,
    *,
    data: Result,
    stages: Sequence[Summary],
    selection: SelectResult | None,
    choice: ChooseResult | None = None,
    learners: RecordView,
    gpu: UsedGPU,
    online: Result | None = None,
) -> Record:
    """Write ``metrics.json`` and ``report.html``, and mark the run as finished.

    Parameters
    ----------
    data : mapping
        Sizes and labels of the rows.
    stages : sequence of mappings
        Summaries of the stages (:func:`records_of_stages`).
    gpu : mapping
        Result of the stage that made the cells.
    choice : dict, optional
        Result of the race that chose the model.
    online : mapping, optional
        How the stream was cut, for a run on a stream.

    Returns
    -------
    dict
        The contents of ``metrics.json``.
    """
    params, run = context.params, context.run
    psis = {name: result["psi"] for name, result in learners.items() if "psi" in result}
    Cs = weights_of_loss(params, selection)
    metrics: Record = {
        **({"gpu": gpu["gpu"]} if "gpu" in gpu else {}),
        "schema_version": 1,
        "run": about_run(context, invocation),
        "data": dict(data),
        "params": {**params.plain(), **params.as_json(), "psi": _in_one(psis), **({"C": _in_one(Cs)} if Cs else {})},
        **({} if online is None else {"online": dict(online)}),
        "stages": list(stages),
        "selection": selection,
        **({} if choice is None else {"choice": dict(choice)}),
        "learners": dict(learners),
    }
    metrics["verdicts"] = verdicts_of(metrics)
    for verdict in metrics["verdicts"]:
        context.events.message(verdict["message"])
    write_json(run.path / "metrics.json", metrics)
    write_report(metrics, run.path / "report.html")
    run.manifest["status"] = "finished"
    run.save()
    return metrics


def records_of_stages(run: RunDirectory, done_before: Collection[str], last: Sequence[str] = ()) -> list[Summary]:
    """Return the summaries of all stages in the order in which they ended, but `last` at the end."""
    stages = run.manifest["stages"]
    summaries: list[Summary] = []
    for name in [*(name for name in stages if name not in last), *last]:
        summary = stages[name]["record"].copy()
        if name in done_before:
            summary["tasks_skipped"] = summary["tasks"]
        summaries.append(summary)
    return summaries


def weights_of_loss(params: Params, selection: SelectResult | None) -> dict[str, float]:
    """Return C of each learner that has one: as chosen, else as given."""
    chosen = {} if selection is None else selection.get("chosen_C", {})
    given = {name: C for name in params.learners if (C := params.methods[name].get("C")) is not None}
    return {name: chosen.get(name, C) for name, C in given.items()}


def _in_one(values: Mapping[str, Json]) -> Json:
    """Return one value if all learners agree, as they do unless it was chosen for each; else all by learner."""
    return dict(values) if len(set(values.values())) > 1 else next(iter(values.values()), None)


def about_run(context: Context, invocation: Invocation) -> Record:
    """Return the entry `run` of ``metrics.json``: the command, its surroundings, and its wall-clock time by part."""
    manifest = context.run.manifest
    parts = {name: manifest[name] for name in ("start_seconds", "seconds", "stop_seconds")}
    return {
        "id": manifest["id"],
        "command": invocation.command,
        "seed": context.params.seed,
        "started": manifest["started"],
        **parts,
        "compile_seconds": manifest.get("compile_seconds", 0.0),
        "wall_seconds": round(sum(parts.values()), 3),
        "versions": dict(versions()),
        "cluster": dict(invocation.cluster),
        "config_toml": invocation.config_toml,
        "client_peak_rss_bytes": peak_rss_bytes(),
    }


@cache
def versions() -> Mapping[str, str]:
    """Return the versions of Python and of the packages that decide results; they are looked up once."""
    known = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            known[package] = version(package)
        except PackageNotFoundError:
            continue
    return known
