"""The batch pipeline: ingest, choose psi and C, partition, map to cells, train, evaluate, report."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from distributed import performance_report

from ikmap.methods import LEARNERS
from ikmap.methods.map import Value
from pipeline.compiling import prepare, words_of
from pipeline.datasets import ResolvedDataset
from pipeline.durable import promised, write_json, write_text
from pipeline.engine import Context
from pipeline.errors import InputError
from pipeline.healing import stage_is_whole, until_whole
from pipeline.measured import peak_rss_bytes
from pipeline.params import Params
from pipeline.plan import largest_value, least_plan, make_plan
from pipeline.prepared import DATA, Preparation, count_targets
from pipeline.report import write_report
from pipeline.rundir import RunDirectory
from pipeline.side_by_side import side_by_side
from pipeline.stages.cells import cells, explain
from pipeline.stages.evaluate import evaluate
from pipeline.stages.ingest import ingest
from pipeline.stages.partition import Fitted, cores_of_a_host, partition
from pipeline.stages.select import searches, select
from pipeline.stages.train import train, wants_all_workers

PACKAGES = ("ikmap", "numpy", "scipy", "numba", "scikit-learn", "dask", "distributed", "zarr", "pyarrow")

Result = dict[str, Any]
Call = Callable[[str, Callable[[], Result]], Result]
"""How a stage is called: given its name and what to do. Prefect wraps it in a task, a plain run just calls it."""


def call_directly(name: str, work: Callable[[], Result]) -> Result:  # noqa: ARG001
    """Call a stage, and nothing else."""
    return work()


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
    dask_report : bool
        Whether to keep Dask's own report of what its workers did.
    start_seconds : float
        From the beginning of the command until the cluster was there: imports, looking for the data, processes.
    stop : callable
        Stops the cluster, where this run is the last to use it; called when all work is done.
    """

    command: str
    config_toml: str
    cluster: Mapping[str, Any]
    sources: Sequence[Mapping[str, Any]] = ()
    memory_limit: int | None = None
    explain: bool = False
    dask_report: bool = True
    start_seconds: float = 0.0
    stop: Callable[[], None] = lambda: None

    def watched(self, run: RunDirectory) -> AbstractContextManager[Any]:
        """What the work of a run is done in."""
        return performance_report(filename=str(run.path / "dask-report.html")) if self.dask_report else nullcontext()


def run_batch(
    context: Context, data: ResolvedDataset, invocation: Invocation, *, call: Call = call_directly
) -> dict[str, Any]:
    """Run every stage that is not finished yet and write the run's files.

    Stages finished by an earlier process are taken as they are; within the first unfinished one, finished tasks
    are not done again.

    Returns
    -------
    dict
        The contents of ``metrics.json``.

    Raises
    ------
    InputError
        The data or the machine is at fault.
    """
    run = context.run
    write_text(run.path / "run.toml", invocation.config_toml)
    done_before = set(run.manifest["stages"])
    run.begin_session(invocation.start_seconds)

    step = partial(call_stage, context, call, done_before)
    with stopped_after(context, invocation):
        found = until_whole(
            context, partial(_stages, context, data, invocation, step), partial(cannot_be_read_again, data, invocation)
        )

    metrics = _metrics(context, data, invocation, *found, done_before)
    write_json(run.path / "metrics.json", metrics)
    write_report(metrics, run.path / "report.html")
    run.manifest["status"] = "finished"
    run.save()
    return metrics


@contextmanager
def stopped_after(context: Context, invocation: Invocation) -> Iterator[None]:
    """What the work of a run is done in: watched by Dask, and when it is done, counted, and the cluster stopped.

    What comes after it tells of the run, and is none of its work.
    """
    run = context.run
    with invocation.watched(run):
        yield
        ended = time.perf_counter()
        run.end_session(context.elapsed)
    invocation.stop()
    run.sweep()  # nobody writes there any more
    run.manifest["stop_seconds"] = round(time.perf_counter() - ended, 3)


def _stages(
    context: Context, data: ResolvedDataset, invocation: Invocation, step: Callable[..., Result]
) -> tuple[Result, Result, Result | None, dict[str, Result]]:
    """All stages: what ingest, cells and select have found, and every learner's training and evaluation."""
    params = context.params
    check_least(context, data, invocation)
    compile_words(context, {source.format for source in data.sources if source})
    ingested = step("ingest", partial(ingest, context, data))
    selection = None
    if searches(params):
        check_largest(context, ingested, invocation)
        compile_for(context)
        selection = step("select", partial(select, context))
        say_chosen(context, selection)
    on_cells, values = widths(params, selection)
    compile_for(context, on_cells.values())
    Cs = (selection or {}).get("chosen_C", {})
    largest = max(on_cells.values(), default=0)
    if not _refused(params, largest, ingested):  # else the next stage says what is wrong
        _plan(context, ingested, largest, invocation, show=invocation.explain)
    fitted: dict[float, Fitted] = {}
    if on_cells:
        partitioned = step("partition", partial(partition, context, list(on_cells.values())))
        fitted = {model["value"]: Fitted(**model) for model in partitioned["fitted"]}
        if invocation.explain:
            explain(context, fitted.values())
        mapped = step("cells", partial(cells, context, list(fitted.values())))
    else:
        mapped = {"counted": count_targets(context.store, "train")}
    # With a worker for each, none waits for another's tasks: then its seconds are its own.
    apart = len(params.learners) <= int(invocation.cluster["workers"]) and not any(
        wants_all_workers(context, name, fitted[value]) for name, value in on_cells.items()
    )
    threads = max(1, cores_of_a_host(context) // (len(params.learners) if apart else 1))

    def learn(name: str) -> Result:
        asked = replace(context, params=params.setting(name, C=Cs[name])) if name in Cs else context
        of = fitted[on_cells[name]] if name in on_cells else None
        trained = step(f"train:{name}", partial(train, asked, name, of, values.get(name), threads))
        tested = step(f"evaluate:{name}", partial(evaluate, context, name, of, trained["content_hash"]))
        return {**tested, **trained}

    chains = {name: partial(learn, name) for name in params.learners}
    learners = side_by_side(chains) if apart else {name: chain() for name, chain in chains.items()}
    return ingested, mapped, selection, learners


def cannot_be_read_again(data: ResolvedDataset, invocation: Invocation, within: str) -> str | None:
    """Say why rows cannot be taken from their files once more; None where they can, or something else is damaged."""
    if not within.startswith("store.zarr/data"):
        return None
    sources = [source for source in data.sources if source is not None]
    for source, known in zip(sources, invocation.sources, strict=False):
        try:
            now = source.identity()
        except InputError as error:
            return str(error)
        if any(known[key] != value for key, value in now.items()):
            return f"{source.url} has changed since the run began"
    return None


def call_stage(context: Context, call: Call, done_before: set[str], name: str, work: Callable[[], Result]) -> Result:
    """Return what a stage has found: of an earlier process, if all that it wrote is still there, else by calling it.

    A stage that is made again is taken out of `done_before`.
    """
    finished = context.run.stage(name)
    if finished is not None and stage_is_whole(context.run, name):
        context.events.message(f"{name}: done before")
        return dict(finished["result"])
    if finished is not None:
        context.events.message(f"{name}: some of its output is missing and is made again")
        done_before.discard(name)
    # What the stage writes here is flushed once, before its first record or the manifest promises it (durable.taken).
    with promised():
        return call(name, work)


def compile_for(context: Context, values: Collection[Value] = (), more: str = "batch") -> None:
    """Have the workers compile, or load, the loops that the next stages need, as far as that is known by now.

    Parameters
    ----------
    values : collection of numbers
        Of the map, once they are chosen; before that, what their search needs is compiled.
    more : str
        Another word for the run.
    """
    about, params = prepared(context), context.params
    n_cells = [params.map.n_cells(params.map_options, value) for value in values]
    compile_words(context, words_of(params, dense=about.dense, task=about.task.loops, n_cells=n_cells) | {more})


def prepared(context: Context) -> Preparation:
    """What the ingest has found out about the rows."""
    return Preparation.from_json(context.store.need(DATA)["preparation"])


def compile_words(context: Context, words: Collection[str]) -> None:
    """Have the workers compile, or load, what is described by these words; the seconds are the run's, of no stage."""
    context.compiled(prepare(context.client, words, context.events.message))


def widths(params: Params, selection: Result | None) -> tuple[dict[str, Value], dict[str, float | None]]:
    """The map's value for each learner on cells, and psi, gamma, ... of each on rows: as chosen, else as given."""
    selected, tuned = (selection or {}).get("chosen", {}), (selection or {}).get("tuned", {})
    on_cells: dict[str, Value] = {}
    values: dict[str, float | None] = {}
    for name in params.learners:
        if LEARNERS[name].on == "cells":
            given = selected[name] if name in selected else params.map.given(params.map_options)
            assert given is not None
            on_cells[name] = given
        else:
            values[name] = tuned[name]["chosen"] if name in tuned else LEARNERS[name].given(params.of(name))
    return on_cells, values


def weights_of_loss(params: Params, selection: Result | None) -> dict[str, float]:
    """C of each learner that has one: as chosen, else as given."""
    chosen = (selection or {}).get("chosen_C", {})
    of = {name: params.methods[name].get("C") for name in params.learners}
    return {name: chosen.get(name, C) for name, C in of.items() if C is not None}


def psi_used(psis: Mapping[str, Value]) -> Any:
    """psi of the learners on cells as ``metrics.json`` has it: one number where they agree, else by learner."""
    return dict(psis) if len(set(psis.values())) > 1 else next(iter(psis.values()), None)


def check_largest(context: Context, ingested: Result, invocation: Invocation, *, show: bool = False) -> None:
    """Refuse, before cross-validation, what the largest psi that it may choose cannot fit."""
    largest = largest_value(context.params, ingested["rows_train"])
    if not _refused(context.params, largest, ingested):  # else a later stage says what is wrong
        _plan(context, ingested, largest, invocation, show=show)


def check_least(context: Context, data: ResolvedDataset, invocation: Invocation, *, stream: bool = False) -> None:
    """Refuse, before any row is stored, what cannot fit however many rows there turn out to be."""
    plan = least_plan(context.params, data, int(invocation.cluster["workers"]), stream=stream)
    if plan is not None and context.run.stage("ingest") is None:
        plan.check(invocation.memory_limit, context.run.path)


def say_chosen(context: Context, selection: Result) -> None:
    """Tell what cross-validation has chosen."""
    cut_short = selection.get("budget", {}).get("reached", False)
    how = "cross-validation that --budget cut short" if cut_short else f"{selection['folds']}-fold cross-validation"
    for what, key in ((selection.get("parameter"), "chosen"), ("C", "chosen_C")):
        if what in searches(context.params) and selection.get(key):
            chosen = ", ".join(f"{value:g} for {name}" for name, value in selection[key].items())
            context.events.message(f"{what} by {how}: {chosen}")
    for name, found in selection.get("tuned", {}).items():
        context.events.message(f"{found['parameter']} by {how}: {found['chosen']:g} for {name}")


def _refused(params: Params, value: Value, ingested: Result) -> bool:
    return params.on_cells and params.map.refused(params.map_options, value, ingested["rows_train"]) is not None


def _plan(context: Context, ingested: Result, value: Value, invocation: Invocation, *, show: bool = False) -> None:
    """Refuse what cannot fit; show the plan when asked."""
    about = prepared(context)
    plan = make_plan(
        context.params,
        value,
        rows_train=ingested["rows_train"],
        rows_test=ingested["rows_test"],
        columns=ingested["columns"],
        nnz=ingested["nnz"],
        outputs=about.task.outputs,
        workers=int(invocation.cluster["workers"]),
        dense=about.dense,
    )
    if show:
        for line in plan.lines:
            context.events.message(f"plan: {line}")
    plan.check(invocation.memory_limit, context.run.path)


def _metrics(
    context: Context,
    data: ResolvedDataset,
    invocation: Invocation,
    ingested: Result,
    mapped: Result,
    selection: Result | None,
    learners: dict[str, Result],
    done_before: set[str],
) -> dict[str, Any]:
    manifest = context.run.manifest
    stages = []
    # Learners side by side end in any order; each is shown whole.
    last = [f"{what}:{name}" for name in learners for what in ("train", "evaluate")]
    for name in [*(name for name in manifest["stages"] if name not in last), *last]:
        record = dict(manifest["stages"][name]["record"])
        if name in done_before:
            record["tasks_skipped"] = record["tasks"]
        stages.append(record)
    psis = {name: result["psi"] for name, result in learners.items() if "psi" in result}
    # One number where the learners agree, as they do unless cross-validation chose for each.
    psi = psi_used(psis)
    Cs = weights_of_loss(context.params, selection)
    C = Cs if len(set(Cs.values())) > 1 else next(iter(Cs.values()), None)
    seconds = {record["name"]: record["seconds"] for record in stages}
    return {
        **({"gpu": mapped["gpu"]} if "gpu" in mapped else {}),
        "schema_version": 1,
        "run": about_run(context, invocation),
        "data": {
            "name": data.name,
            **ingested,
            **mapped["counted"],
            "sources": [dict(source) for source in invocation.sources],
        },
        "params": {**context.params.plain(), **context.params.as_json(), "psi": psi, "C": C},
        "stages": stages,
        "selection": selection,
        "learners": {
            name: {
                **result,
                "train_seconds": seconds[f"train:{name}"],
                "predict_seconds": seconds[f"evaluate:{name}"],
            }
            for name, result in learners.items()
        },
    }


def about_run(context: Context, invocation: Invocation) -> dict[str, Any]:
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


LAYOUT = 6
"""Raised when what unfinished runs have stored can no longer be gone on from: parts have other names or contents."""


def run_identity(params: Mapping[str, Any], data: ResolvedDataset, sources: list[dict[str, Any]]) -> dict[str, Any]:
    """What makes two runs the same: parameters, preparation, and the contents of the files; not their places."""
    return {
        "layout": LAYOUT,
        "params": dict(params),
        "data": {
            "name": data.name,
            "task": data.task,
            "sources": sources,
            "format": data.format,
            "label": data.label,
            **data.csv,
            "columns": data.n_columns,
            "two_class": [list(side) for side in data.two_class] if data.two_class else None,
            "divide": data.divide,
            "split": None
            if data.test_url is not None
            else {"rule": data.split.rule, "fraction": data.split.fraction, "n_train": data.split.n_train},
        },
    }


def default_run_directory(name: str, started: str) -> Path:
    """``runs/<dataset>-<time>``."""
    return Path("runs") / f"{name}-{started}"
