"""Write ``metrics.json`` and end a run; batch runs and runs on a stream do so in the same way."""

from __future__ import annotations

import platform
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from distributed import performance_report

from ikmap.json_values import Json
from pipeline.params import Params
from pipeline.record_types import Record, RecordView
from pipeline.report import write_report
from pipeline.running.measured import peak_rss_bytes
from pipeline.running.stage import Context
from pipeline.runs.verdicts import verdicts_of
from pipeline.storage.durable import write_json
from pipeline.storage.rundir import RunDirectory

PACKAGES = ("ikmap", "numpy", "scipy", "numba", "scikit-learn", "dask", "distributed", "zarr", "pyarrow")


@dataclass(frozen=True)
class Invocation:
    """What `metrics.json` says of how a run was started.

    Attributes
    ----------
    command : str
        The command line that reproduces the run.
    config_toml : str
        The options as a TOML file, which is also written to ``run.toml``.
    cluster : mapping
        kind, workers, threads, and where it has one, dashboard.
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
        From the beginning of the command until the cluster was there: imports, looking for the data, processes.
    stop : callable
        Stops the cluster, where this run is the last to use it; called when all work is done.
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

    def watched(self, run: RunDirectory) -> AbstractContextManager[object]:
        """What the work of a run is done in."""
        return performance_report(filename=str(run.path / "dask-report.html")) if self.dask_report else nullcontext()


def finish_run(
    context: Context,
    invocation: Invocation,
    *,
    data: RecordView,
    stages: Sequence[RecordView],
    selection: RecordView | None,
    learners: RecordView,
    gpu: RecordView,
    online: RecordView | None = None,
) -> Record:
    """Write ``metrics.json`` and ``report.html``, and mark the run as finished.

    Parameters
    ----------
    data : mapping
        What was found out about the rows.
    stages : sequence of mappings
        :func:`records_of_stages`.
    gpu : mapping
        The result of the stage that made the cells.
    online : mapping, optional
        How the stream was cut, of a run on one.

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


def records_of_stages(run: RunDirectory, done_before: Collection[str], last: Sequence[str] = ()) -> list[Record]:
    """The records of all stages in the order in which they ended, but `last` at the end."""
    stages = run.manifest["stages"]
    records = []
    for name in [*(name for name in stages if name not in last), *last]:
        record = dict(stages[name]["record"])
        records.append({**record, "tasks_skipped": record["tasks"]} if name in done_before else record)
    return records


def weights_of_loss(params: Params, selection: RecordView | None) -> dict[str, float]:
    """C of each learner that has one: as chosen, else as given."""
    chosen = (selection or {}).get("chosen_C", {})
    of = {name: params.methods[name].get("C") for name in params.learners}
    return {name: chosen.get(name, C) for name, C in of.items() if C is not None}


def _in_one(of: Mapping[str, Json]) -> Json:
    """One number where all learners agree, as they do unless cross-validation chose for each; else by learner."""
    return dict(of) if len(set(of.values())) > 1 else next(iter(of.values()), None)


def about_run(context: Context, invocation: Invocation) -> Record:
    """The entry `run` of ``metrics.json``: what was run, where, and where the time of the clock on the wall went."""
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
        "versions": versions(),
        "cluster": dict(invocation.cluster),
        "config_toml": invocation.config_toml,
        "client_peak_rss_bytes": peak_rss_bytes(),
    }


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that decide results."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
