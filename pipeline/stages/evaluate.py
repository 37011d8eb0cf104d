"""Evaluate: predict the test rows with a learner's model and add up the metrics."""

from __future__ import annotations

from ikmap.cells import Cells
from ikmap.json_values import JsonObject, MutableJsonObject
from ikmap.learners.rows import Block
from ikmap.rows import nbytes_of
from ikmap.tasks import Task as LearningTask
from ikmap.tasks.capabilities import calibrated
from ikmap.tasks.scoring import accumulate, total
from ikmap.tasks.weighted import weighted_metrics, weighted_sums
from pipeline.record_types import EvaluationRecord
from pipeline.rows.parts import WEIGHTS
from pipeline.rows.prepared import PreparedRows
from pipeline.rows.values import check_values, kernel_in
from pipeline.running.dispatch import Task
from pipeline.running.foreign import checked_decisions
from pipeline.running.stage import Context, Stage
from pipeline.sources import Source
from pipeline.stages.calibrate import calibrator_of
from pipeline.stages.named_rows import name_rows
from pipeline.storage.arrays import read
from pipeline.storage.fitted import Fitted
from pipeline.storage.models import MODELS, load_decider
from pipeline.storage.store import Store

TASK_BYTES = 16 << 20
"""Bytes of stored cells, or one shard, that a task predicts: it takes no longer than sending the task to a worker."""


def evaluate(
    context: Context,
    learner: str,
    fitted: Fitted | None,
    content_hash: str,
    calibrator_hash: str | None = None,
    source: Source | None = None,
) -> JsonObject:
    """Predict the test rows, by their cells where the learner works on cells.

    Parameters
    ----------
    calibrator_hash : str, optional
        Content hash of the calibrator, if the stage :mod:`~pipeline.stages.calibrate` has fitted one.
    source : Source, optional
        Source of the test rows, which knows their ids.

    Returns
    -------
    dict
        The metrics of the task (:func:`ikmap.tasks.scoring.accumulate`); weighted: the metrics with the sample weights
        of the data.
    """
    store = context.store
    calibrator = calibrator_of(store, context.params, learner, calibrator_hash)
    decided = context.params.decision_task(learner, PreparedRows(store, "test").preparation.task)
    task = calibrated(decided, calibrator)
    n, step = _tasks_of(store, fitted)
    tasks = [
        Task(f"test-{start:09d}", (store, learner, fitted, content_hash, start, min(start + step, n), task))
        for start in range(0, n, step)
    ]
    stage = Stage(context, f"evaluate:{learner}", len(tasks))
    records = stage.run(tally_of_rows, tasks)
    sums = [record["weighed"] for record in records if "weighed" in record]
    metrics: MutableJsonObject = dict(total(task, [record["tally"] for record in records]).metrics())
    name_rows(stage, source, metrics)
    if sums:
        metrics["weighted"] = weighted_metrics(task, sums)
    return stage.finish(metrics)


def _tasks_of(store: Store, fitted: Fitted | None) -> tuple[int, int]:
    """Return the number of test rows, and the number of rows of a task."""
    if fitted is None:
        rows = PreparedRows(store, "test")
        return rows.n_rows, max(1, min(rows.n_rows, TASK_BYTES // rows.row_bytes))
    codes = store.open_arrays(fitted.cells_name("test"))["codes"]
    assert codes.shards is not None
    n, step = codes.shape[0], codes.shards[0]
    return n, step * max(1, TASK_BYTES // (codes.dtype.itemsize * codes.shape[1] * step))


def tally_of_rows(
    store: Store,
    learner: str,
    fitted: Fitted | None,
    content_hash: str,
    start: int,
    stop: int,
    task: LearningTask,
) -> EvaluationRecord:
    """Task: predict some test rows and accumulate the metrics of the task, such as right and wrong rows."""
    model = load_decider(store, f"{MODELS}/{learner}", content_hash)
    test = PreparedRows(store, "test")
    if fitted is None:
        block = test.read(start, stop)
        rows = block.rows
        check_values(learner, rows, test.where, test.preparation.column_names, start, kernel_in(model))
        size = nbytes_of(rows)
    else:
        arrays = store.open_arrays(fitted.cells_name("test"))
        codes, targets = (read(arrays[key], slice(start, stop)) for key in ("codes", "labels"))
        size = codes.nbytes
        weights = read(arrays[WEIGHTS], slice(start, stop)) if WEIGHTS in arrays else None
        block = Block(Cells(codes, fitted.offsets(store)).packed(), targets, weights)
    decision = checked_decisions(model, block.rows, learner, task.decisions.outputs)
    state = accumulate(task, block.y, decision, test.numbers(start, stop))
    weight = block.sample_weight
    record: EvaluationRecord = {
        "rows": stop - start,
        "bytes_read": int(size) + block.y.nbytes,
        "bytes_written": 0,
        "tally": state.as_json(),
    }
    if weight is not None:
        record["weighed"] = weighted_sums(task, block.y, decision, weight)
    return record
