"""Evaluate: predict the test rows with a learner's model and add up how good that is."""

from __future__ import annotations

from typing import Any

from ikmap.cells import Cells
from ikmap.learners.rows import Block
from ikmap.model import Model
from ikmap.rows import nbytes_of
from ikmap.tasks import Task as LearningTask
from ikmap.tasks.capabilities import calibrated
from ikmap.tasks.scoring import accumulate, total
from ikmap.tasks.weighted import weighted_metrics, weighted_sums
from pipeline.record_types import Record
from pipeline.rows.parts import WEIGHTS
from pipeline.rows.prepared import PreparedRows
from pipeline.rows.values import check_values, kernel_in
from pipeline.running.dispatch import Task
from pipeline.running.foreign import checked_decisions
from pipeline.running.stage import Context, Stage
from pipeline.stages.calibrate import reading_of
from pipeline.stages.named_rows import name_rows
from pipeline.storage.arrays import read
from pipeline.storage.fitted import Fitted
from pipeline.storage.models import MODELS, load_model
from pipeline.storage.store import Store

TASK_BYTES = 16 << 20
"""Stored cells that a task predicts, or one shard: to predict them takes no longer than a task's way to a worker."""


def evaluate(
    context: Context,
    learner: str,
    fitted: Fitted | None,
    content_hash: str,
    reading_hash: str | None = None,
    source: object = None,
) -> Record:
    """Predict the test rows, by their cells where the learner works on cells.

    Parameters
    ----------
    reading_hash : str, optional
        Of what the stage :mod:`~pipeline.stages.calibrate` has found out.
    source : Source, optional
        What the test rows were read from, which knows their ids.

    Returns
    -------
    dict
        The metrics of the task (:func:`ikmap.tasks.scoring.accumulate`); weighted: those of rows as the data weighs
        them.
    """
    store = context.store
    reading = reading_of(store, context.params, learner, reading_hash)
    judged = context.params.decision_task(learner, PreparedRows(store, "test").preparation.task)
    task = calibrated(judged, reading)
    n, step = _tasks_of(store, fitted)
    tasks = [
        Task(f"test-{start:09d}", (store, learner, fitted, content_hash, start, min(start + step, n), task))
        for start in range(0, n, step)
    ]
    stage = Stage(context, f"evaluate:{learner}", len(tasks))
    records = stage.run(tally_of_rows, tasks)
    sums = [record["weighed"] for record in records if "weighed" in record]
    weighted: dict[str, Any] = {"weighted": weighted_metrics(task, sums)} if sums else {}
    figures: dict[str, Any] = total(task, [record["tally"] for record in records]).metrics()
    name_rows(stage, source, figures)
    return stage.finish(**figures, **weighted)


def _tasks_of(store: Store, fitted: Fitted | None) -> tuple[int, int]:
    """Number of test rows, and of the rows of a task."""
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
) -> Record:
    """Task: predict some test rows and count what the task counts, such as right and wrong ones."""
    model: Any = load_model(store, f"{MODELS}/{learner}", Model, content_hash)
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
    weighted = {} if weight is None else {"weighed": weighted_sums(task, block.y, decision, weight)}
    return {
        "rows": stop - start,
        "bytes_read": int(size) + block.y.nbytes,
        "bytes_written": 0,
        "tally": state.as_json(),
        **weighted,
    }
