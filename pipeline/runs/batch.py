"""The batch pipeline: ingest, choose psi and C, partition, map to cells, train, evaluate, report."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import cast

from ikmap.auto.candidates import STACKING
from ikmap.json_values import Json
from ikmap.methods import LEARNERS, refused_on
from ikmap.methods.values import Value, numbers_of, shown
from ikmap.tasks import TaskKind
from ikmap.tasks.capabilities import loops
from pipeline.errors import InputError, OnlyPlanned, writing
from pipeline.params import Params
from pipeline.record_types import (
    CellsResult,
    ChooseResult,
    IngestResult,
    Record,
    RecordView,
    Result,
    SelectResult,
)
from pipeline.rows.preparation import Preparation
from pipeline.rows.prepared import DATA, PreparedRows, count_targets
from pipeline.running.compiling import prepare, words_of, words_of_rows
from pipeline.running.dispatch import Task, run_tasks
from pipeline.running.repair import until_verified
from pipeline.running.side_by_side import side_by_side
from pipeline.running.stage import Context
from pipeline.runs.metrics import Invocation, finish_run, records_of_stages
from pipeline.runs.plan import DataSizes, largest_of, largest_value, least_plan, make_plan
from pipeline.sources.datasets.registry import ResolvedDataset
from pipeline.stages.calibrate import calibrate, is_requested, refuse_calibration
from pipeline.stages.cells import cells, explain
from pipeline.stages.choose import choose, note_scale, words_of_race
from pipeline.stages.evaluate import evaluate
from pipeline.stages.importance import importance, refuse_importance
from pipeline.stages.ingest import ingest
from pipeline.stages.partition import cores_of_a_host, partition
from pipeline.stages.select import searches, select
from pipeline.storage.durable import promised, write_text
from pipeline.storage.fitted import Fitted
from pipeline.storage.hold import Taken
from pipeline.storage.rundir import RunDirectory
from pipeline.storage.verify import stage_is_verified
from pipeline.training.train import fills_cluster, train

type Call = Callable[[str, Callable[[], Result]], Result]
"""A function that calls a stage, given its name and its work. Prefect wraps it in a task, a plain run just calls it."""


def call_directly[R](name: str, work: Callable[[], R]) -> R:  # noqa: ARG001
    """Call a stage, and nothing else."""
    return work()


def run_batch(context: Context, data: ResolvedDataset, invocation: Invocation, *, call: Call = call_directly) -> Record:
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

    steps = Steps(context, call, done_before)
    with stopped_after(context, invocation):
        work = partial(_stages, context, data, invocation, steps)
        outcome = until_verified(context, work, partial(cannot_be_read_again, data, invocation))

    if context.params.raced:
        invocation = invocation.chosen(invocation, outcome[0].params)
    context, ingested, mapped, selection, learners = outcome
    # Learners side by side end in any order; the stages of each are shown together.
    kinds = ["train", *(["calibrate"] if is_requested(context.params) else []), "evaluate"]
    kinds += ["importance"] if context.params.importance else []
    last = [f"{kind}:{name}" for name in learners for kind in kinds]
    stages = records_of_stages(run, done_before, last)
    seconds = {record["name"]: record["seconds"] for record in stages}
    return finish_run(
        context,
        invocation,
        data={
            "name": data.name,
            **ingested,
            **mapped["counted"],
            "sources": [dict(source) for source in invocation.sources],
        },
        stages=stages,
        selection=selection,
        choice=choice_of(context),
        learners={
            name: {
                **result,
                "train_seconds": seconds[f"train:{name}"],
                "predict_seconds": seconds[f"evaluate:{name}"],
            }
            for name, result in learners.items()
        },
        gpu=mapped,
    )


@contextmanager
def stopped_after(context: Context, invocation: Invocation) -> Iterator[None]:
    """Surround the work of a run: let Dask watch it, and at its end count its seconds and stop the cluster.

    Later work, such as writing the report, no longer needs the cluster.
    """
    run = context.run
    with invocation.watched(run):
        yield
        ended = time.perf_counter()
        run.end_session(context.elapsed)
    invocation.stop()
    run.sweep()  # no process writes to the directory any more
    run.manifest["stop_seconds"] = round(time.perf_counter() - ended, 3)


def _stages(
    context: Context, data: ResolvedDataset, invocation: Invocation, steps: Steps
) -> tuple[Context, IngestResult, CellsResult, SelectResult | None, dict[str, Result]]:
    """Run all stages.

    Returns
    -------
    tuple
        The context with the parameters that the labels have settled, the results of ingest, cells and select, and each
        learner's training and evaluation.
    """
    check_least(context, data, invocation)
    compile_words(context, words_of_rows(source.format for source in data.sources if source))
    ingested = steps.call("ingest", partial(ingest, context, data))
    context = decided(context, steps, invocation, ingested)
    params = context.params
    refuse_calibration(params, PreparedRows(context.store, "train"))
    refuse_importance(params, PreparedRows(context.store, "train"))
    selection = None
    if searches(params):
        check_largest(context, ingested, invocation, show=invocation.dry_run)
        stop_if_dry(invocation)
        compile_for(context)
        selection = steps.call("select", partial(select, context))
        say_chosen(context, selection)
    on_cells, values = map_values(params, selection, ingested["rows_train"])
    compile_for(context, on_cells.values())
    Cs = {} if selection is None else selection.get("chosen_C", {})
    largest = largest_of(params, on_cells.values())
    if not _refused(params, largest, ingested):  # else the next stage says what is wrong
        _plan(context, ingested, largest, invocation, show=invocation.explain)
    stop_if_dry(invocation)
    fitted: dict[Value, Fitted] = {}
    if on_cells:
        partitioned = steps.call("partition", partial(partition, context, list(on_cells.values())))
        models = [Fitted.of(fields, params.t) for fields in partitioned["fitted"]]
        fitted = {model.value: model for model in models}
        if invocation.explain:
            explain(context, fitted.values())
        mapped = steps.call("cells", partial(cells, context, list(fitted.values())))
    else:
        # On a worker: which rows are training rows is found out by compiled loops, which would have to be loaded here.
        task = Task("targets", (context.store,))
        ((_, record),) = run_tasks(context.client, context.key("count"), count_targets, [task])
        mapped = {"counted": record["counted"]}
    # With a worker for each, no learner waits for another's tasks: then its seconds are its own.
    apart = len(params.learners) <= int(invocation.cluster["workers"]) and not any(
        fills_cluster(context, name, fitted[on_cells[name]] if name in on_cells else None) for name in params.learners
    )
    threads = max(1, cores_of_a_host(context) // (len(params.learners) if apart else 1))

    rows_of_test = data.sources[1] or data.sources[0]

    def learn(name: str) -> Result:
        invocation.prepare_to_draw()
        with_C = replace(context, params=params.setting(name, C=Cs[name])) if name in Cs else context
        fitted_map = fitted[on_cells[name]] if name in on_cells else None
        training = with_C, name, fitted_map, values.get(name), threads
        trained = steps.call(f"train:{name}", partial(train, *training))
        calibration: Result = {}
        calibrator_hash = None
        if is_requested(params):
            calibrated = steps.call(f"calibrate:{name}", partial(calibrate, *training))
            calibration, calibrator_hash = calibrated, calibrated["reading_hash"]
        hashes = trained["content_hash"], calibrator_hash
        metrics = steps.call(
            f"evaluate:{name}", partial(evaluate, context, name, fitted_map, *hashes, source=rows_of_test)
        )
        importances: Result = {}
        if params.importance:
            importances = steps.call(f"importance:{name}", partial(importance, context, name, fitted_map, *hashes))
        return {**metrics, **trained, **calibration, **importances}

    chains = {name: partial(learn, name) for name in params.learners}
    learners = side_by_side(chains) if apart else {name: chain() for name, chain in chains.items()}
    return context, ingested, mapped, selection, learners


def decided(context: Context, steps: Steps, invocation: Invocation, ingested: IngestResult) -> Context:
    """Return the context with the parameters of the model that a race has chosen, or that the labels have settled."""
    params, run = context.params, context.run
    kind = prepared(context).task.kind
    if not params.raced or not is_raced(kind):
        return settled(context)
    stop_if_dry(invocation)
    compile_words(context, words_of_race(prepared(context)))

    def refusal(params: Params) -> str:
        try:
            check_largest(replace(context, params=params), ingested, invocation)
        except InputError as error:
            return str(error)
        return ""

    choice = steps.call("choose", partial(choose, context, _sizes(context, ingested).row_bytes, refusal))
    note_scale(context.store, choice["scale"])
    params = params.decided(choice["learner"], choice["partitioner"], choice["options"], choice["scale"])
    run.manifest["settled"] = params.as_json()
    run.save()  # before run.toml, whose options would else be taken for those of another run if this process is killed
    write_text(run.path / "run.toml", invocation.chosen(invocation, params).config_toml)
    return replace(context, params=params)


def choice_of(context: Context) -> ChooseResult | None:
    """Return the result of the race that chose the model of a run; None: there was none."""
    stage = context.run.stage("choose")
    return None if stage is None else cast("ChooseResult", stage["result"])


def is_raced(kind: TaskKind) -> bool:
    """Return whether there are candidates for a kind of task."""
    return kind.name in LEARNERS[STACKING].about.tasks


def settled(context: Context) -> Context:
    """Return the context with the parameters for the task that the rows turned out to have; the manifest has them too.

    The learner "auto" becomes the usual one of the task.
    """
    if not context.params.undecided:
        return context
    params = context.params.settled(prepared(context).task.kind)
    context.run.manifest["settled"] = params.as_json()
    return replace(context, params=params)


def cannot_be_read_again(data: ResolvedDataset, invocation: Invocation, within: str) -> str | None:
    """Say why damaged rows cannot be read from their files again; None if they can, or if no rows are damaged."""
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


@dataclass(frozen=True)
class Steps:
    """The stages of a run, called one by one.

    Attributes
    ----------
    context : Context
    stage_call : Call
    done_before : set of str
        Names of the stages that an earlier process has finished.
    """

    context: Context
    stage_call: Call
    done_before: set[str]

    def call[R: Result](self, name: str, work: Callable[[], R]) -> R:
        """Return the result of a stage, which is called only if it is not finished or some of its output is missing.

        A stage that is made again is taken out of `done_before`.
        """
        context = self.context
        finished = context.run.stage(name)
        if finished is not None and stage_is_verified(context.run, name):
            context.events.message(f"{name}: done before")
            context.run.delete_obsolete(name)  # which a process that was killed has perhaps not come to
            return cast("R", dict(finished["result"]))
        if finished is not None:
            context.events.message(f"{name}: some of its output is missing and is made again")
            self.done_before.discard(name)
        # The files of the stage are flushed once, before its first record or the manifest promises them
        # (durable.taken).
        with promised():
            return cast("R", self.stage_call(name, work))


def compile_for(context: Context, values: Collection[Value] = (), more: str = "batch") -> None:
    """Have the workers compile, or load, the loops that the next stages need, as far as that is known by now.

    Parameters
    ----------
    values : collection of numbers
        Values of the map, once they are chosen; before, the loops of their search are compiled.
    more : str
        A further word of the run.
    """
    preparation, params = prepared(context), context.params
    n_cells = [params.map_at(value).n_cells() for value in values]
    words = words_of(params, dense=preparation.dense, task=loops(preparation.task), n_cells=n_cells)
    compile_words(context, words | {more})


def prepared(context: Context) -> Preparation:
    """Return the preparation of the rows, as the ingest has stored it."""
    return Preparation.from_json(context.store.need(DATA)["preparation"])


def compile_words(context: Context, words: Collection[str]) -> None:
    """Have the workers compile or load the loops that these words describe; the seconds count for no stage."""
    context.compiled(prepare(context.client, words, context.events.message))


def map_values(
    params: Params, selection: SelectResult | None, n_rows: int
) -> tuple[dict[str, Value], dict[str, Value | None]]:
    """Return the map's value for each learner on cells, and the value of each on rows: as chosen, else as given."""
    selected = {} if selection is None else selection["chosen"]
    tuned = {} if selection is None else selection.get("tuned", {})
    on_cells: dict[str, Value] = {}
    values: dict[str, Value | None] = {}
    for name in params.learners:
        if LEARNERS[name].about.on == "cells":
            given = selected[name] if name in selected else params.map_value(name, n_rows)
            assert given is not None
            on_cells[name] = tuple(given) if isinstance(given, list) else given
        else:
            chosen = tuned[name]["chosen"] if name in tuned else params.value(name)
            values[name] = tuple(chosen) if isinstance(chosen, list) else chosen
    return on_cells, values


def check_largest(context: Context, ingested: IngestResult, invocation: Invocation, *, show: bool = False) -> None:
    """Refuse, before cross-validation, a run that does not fit with the largest psi that may be chosen."""
    largest = largest_value(context.params, ingested["rows_train"])
    if not _refused(context.params, largest, ingested):  # else a later stage says what is wrong
        _plan(context, ingested, largest, invocation, show=show)


def stop_if_dry(invocation: Invocation) -> None:
    """Stop a run that was only to show its plan.

    Raises
    ------
    OnlyPlanned
        The run was only to show its plan.
    """
    if invocation.dry_run:
        raise OnlyPlanned


def check_least(context: Context, data: ResolvedDataset, invocation: Invocation, *, stream: bool = False) -> None:
    """Refuse, before any row is stored, a run that cannot fit, however many rows there turn out to be."""
    workers = int(invocation.cluster["workers"])
    plans = [least_plan(params, data, workers, stream=stream) for params in context.params.alternatives()]
    if None not in plans and context.run.stage("ingest") is None:
        least = min((plan for plan in plans if plan is not None), key=lambda plan: plan.worker_bytes)
        least.check(invocation.memory_limit, context.run.path)


def say_chosen(context: Context, selection: SelectResult) -> None:
    """Say what cross-validation has chosen."""
    budget = selection.get("budget")
    cut_short = budget is not None and budget["reached"]
    method = "cross-validation that --budget cut short" if cut_short else f"{selection['folds']}-fold cross-validation"
    swept = selection.get("swept", {})
    for name, result in swept.items():
        parameter, C = result["parameter"], selection.get("chosen_C", {}).get(name)
        with_C = "" if C is None else f", with C {C:g}"
        context.events.message(
            f"{parameter} by one sweep over {result['tried']:,} values: {result['chosen']:g} for {name}{with_C}"
        )
    chosen_C: Mapping[str, Value] = selection.get("chosen_C", {})
    for parameter, by_learner in ((selection.get("parameter"), selection["chosen"]), ("C", chosen_C)):
        values = {name: value for name, value in by_learner.items() if name not in swept}
        if parameter in searches(context.params) and values:
            chosen = ", ".join(f"{shown(value)} for {name}" for name, value in values.items())
            context.events.message(f"{parameter} by {method}: {chosen}")
    for name, tuned in selection.get("tuned", {}).items():
        for parameter, number in numbers_of(tuned["parameter"], tuned["chosen"]).items():
            context.events.message(f"{parameter} by {method}: {number:g} for {name}")


def _refused(params: Params, value: Value, ingested: IngestResult) -> bool:
    return params.on_cells and refused_on(params.map_at(value), ingested["rows_train"]) is not None


def _sizes(context: Context, ingested: IngestResult) -> DataSizes:
    """Return the sizes of the rows of a run."""
    preparation = prepared(context)
    return DataSizes(
        ingested["rows_train"],
        ingested["rows_test"],
        ingested["columns"],
        ingested["nnz"],
        outputs=preparation.task.decisions.outputs,
        dense=preparation.dense,
    )


def _plan(
    context: Context, ingested: IngestResult, value: Value, invocation: Invocation, *, show: bool = False
) -> None:
    """Refuse a run that cannot fit; show the plan if `show` is set."""
    sizes, workers = _sizes(context, ingested), int(invocation.cluster["workers"])
    plan = make_plan(context.params, value, sizes, workers)
    if show:
        for line in plan.lines:
            context.events.message(f"plan: {line}")
    plan.check(invocation.memory_limit, context.run.path)


LAYOUT = 9
"""Version of the store: increase it whenever unfinished runs of the version before cannot go on."""


def run_identity(params: RecordView, data: ResolvedDataset, sources: list[Record]) -> Record:
    """Return the identity of a run: parameters, preparation, and the contents of the files; not their places."""
    return {
        "layout": LAYOUT,
        "params": dict(params),
        "data": {
            "name": data.name,
            "task": data.task,
            "sources": sources,
            "format": data.format,
            "label": data.label,
            **{key: list(value) if isinstance(value, tuple) else value for key, value in data.csv.items()},
            "columns": data.n_columns,
            "two_class": [list(side) for side in data.two_class] if data.two_class else None,
            "divide": data.divide,
            **({"drop": list(data.drop)} if data.drop else {}),
            **({"table": data.table.as_json()} if data.table.as_json() else {}),
            **({"inliers": list(data.inliers)} if data.inliers is not None else {}),
            "split": None
            if data.test_url is not None
            else {"rule": data.split.rule, "fraction": data.split.fraction, "n_train": data.split.n_train},
        },
    }


def new_run_directory(name: str, started: str, identity: Mapping[str, Json]) -> RunDirectory:
    """Open the new directory ``runs/<dataset>-<time>``, or if there is one, the first free name with -2, -3 and so on.

    Runs that are started in the same second thus have directories of their own. None of them has begun yet.
    """
    path = first = Path("runs") / f"{name}-{started}"
    number = 1
    while True:
        try:
            with writing(path):
                return RunDirectory(path, identity, begin=False, new=True)
        except Taken:
            number += 1
            path = first.with_name(f"{first.name}-{number}")
