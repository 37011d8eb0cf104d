"""Calibrate: decision values of training rows that were not learned from say how a learner's decisions are read.

Each fold is a task: it trains the learner on the other training rows, in memory, and counts the decision values of the
rows held out. Where training rows are many, the last fold holds out enough of them, and no more are asked for.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ikmap.cells import Cells, packed_dtype
from ikmap.json_values import Json
from ikmap.learners.rows import Block
from ikmap.seeds import generator
from ikmap.tasks import Task as LearningTask
from ikmap.tasks.capabilities import Calibratable, Thresholds, capability, missing_in
from ikmap.tasks.classification.calibration import LOG_ODDS, NONE, Calibrator, fit_calibrator
from ikmap.tasks.classification.threshold import Threshold
from pipeline.errors import InputError
from pipeline.params import Params
from pipeline.record_types import Record
from pipeline.rows.folds import folds_of
from pipeline.rows.parts import WEIGHTS
from pipeline.rows.prepared import READ_BYTES, PreparedRows
from pipeline.running.dispatch import Task
from pipeline.running.stage import Context, Stage
from pipeline.stages.select_rows import some_of
from pipeline.storage.arrays import read
from pipeline.storage.fitted import Fitted
from pipeline.storage.models import load_model, save_model
from pipeline.storage.store import Store
from pipeline.training.in_memory import train_in_memory

READINGS = "readings"
"""Where it stands in the store how the decisions of each learner are read."""
ENOUGH_ROWS = 50_000
"""So many held-out rows, or the last fold that has them, are enough."""
FIT_BYTES = 256 << 20
"""Of rows, or packed cells, that a fold is learned from; of more a seeded sample is taken."""
STREAM = 2_000_005
"""Seed path of that sample."""


def is_requested(params: Params) -> bool:
    """Whether the run has the stage."""
    return params.calibration != NONE or bool(params.threshold_for)


def refuse_calibration(params: Params, rows: PreparedRows) -> None:
    """Refuse a calibration or a threshold that the task cannot have.

    Raises
    ------
    InputError
    """
    task = rows.preparation.task
    without = "" if capability(task, Calibratable) else f"--task {task.name}, which has no classes"
    if params.calibration != NONE and without:
        raise InputError(f"--calibration {params.calibration}: found {without}, expected classes")
    thresholds = capability(task, Thresholds)
    why = without if thresholds is None else thresholds.threshold_refusal(task.codec)
    if params.threshold_for and why:
        raise InputError(f"--threshold-for {params.threshold_for}: found {why}, expected two classes")


def calibrate(context: Context, learner: str, fitted: Fitted | None, value: Any = None, n_threads: int = 1) -> Record:
    """Find out how the decisions of a learner are read, and store it.

    Parameters
    ----------
    fitted, value, n_threads
        As in :class:`~pipeline.training.runner.TrainingJob`.

    Returns
    -------
    dict
        reading_hash: content hash of the stored :class:`~ikmap.tasks.classification.calibration.Calibrator`;
        calibration, and where it was asked for, threshold: as in ``metrics.json``.
    """
    store, params = context.store, context.params
    rows = PreparedRows(store, "train")
    n, task = rows.n_rows, rows.preparation.task
    folds = folds_of(rows, np.arange(n), params)
    # The last folds first: in order of time they are nearest to what is to come.
    order = range(len(folds))[::-1]
    held_out = np.cumsum([folds[k][1].size for k in order])
    used = order[: 1 + int(np.searchsorted(held_out, ENOUGH_ROWS))]
    learned = int(min(most_rows(rows, fitted, store), folds[used[0]][0].size))
    of = (store, params, learner, fitted, value)
    stage = Stage(context, f"calibrate:{learner}", len(used))
    records = stage.run(decide_fold, [Task(f"fold-{k}", (*of, k, n_threads)) for k in used])
    known = [record for record in records if record["evidence"] is not None]
    if not known:
        raise InputError(
            f"--calibration {params.calibration}: found no fold whose other rows have every class, expected more rows "
            "of the rarest one; leave --calibration and --threshold-for out"
        )
    evidence = calibratable_of(task).evidence_from(task, [record["evidence"] for record in known])
    threshold = Threshold.parse(params.threshold_for) if params.threshold_for else None
    how = params.calibration
    if how == NONE and params.of(learner).log_odds:
        how = LOG_ODDS
    calibrator = fit_calibrator(how, evidence, threshold)
    if threshold is not None and not calibrator.chosen["reached"]:
        context.events.message(
            f"{learner}: no threshold reaches {params.threshold_for} on rows that were not learned from; the one with "
            f"the highest precision there ({calibrator.chosen['precision']:.4f}) is taken"
        )
    about: Json = {"how": how, "rows": evidence.rows, "folds": len(used), "rows_learned": learned}
    if learned < folds[used[0]][0].size:
        context.events.message(
            f"calibrate:{learner}: each fold learns from {learned:,} of {folds[used[0]][0].size:,} rows"
        )
    name = f"{READINGS}/{learner}"
    return stage.finish(
        reading_hash=save_model(store, name, calibrator),
        calibration=about,
        **({"decision_threshold": calibrator.chosen} if threshold is not None else {}),
        outputs=[name],
    )


def calibratable_of(task: LearningTask) -> Calibratable:
    """Return the part of a task that calibrates its decisions; runs of other tasks have no such stage."""
    calibratable = capability(task, Calibratable)
    assert calibratable is not None
    return calibratable


def most_rows(rows: PreparedRows, fitted: Fitted | None, store: Store) -> int:
    """How many rows a fold learns from at most: by their size only."""
    if fitted is None:
        return max(1, FIT_BYTES // rows.row_bytes)
    offsets = fitted.offsets(store)
    return max(1, FIT_BYTES // int((offsets.size - 1) * packed_dtype(offsets, gaps=True).itemsize))


def decide_fold(
    store: Store,
    params: Params,
    learner: str,
    fitted: Fitted | None,
    value: Any,
    fold: int,
    n_threads: int = 1,
) -> Record:
    """Task: learn from the rows of all folds but one, and count the decision values of that one."""
    rows = PreparedRows(store, "train")
    task = rows.preparation.task
    fit, held = folds_of(rows, np.arange(rows.n_rows), params)[fold]
    thresholds = capability(task, Thresholds)
    held = some_of(held, None if thresholds is None else thresholds.most_evidence(task))
    most = most_rows(rows, fitted, store)
    if fit.size > most:
        fit = np.sort(generator(params.seed, STREAM, fold).choice(fit, most, replace=False, shuffle=False))
    block = take(rows, fitted, store, fit)
    of_cells = isinstance(block.rows, Cells)
    size = block.rows.codes.nbytes if of_cells else fit.size * rows.row_bytes  # type: ignore[union-attr]
    width = 4 * block.rows.codes.shape[1] if of_cells else rows.row_bytes  # type: ignore[union-attr]
    evidence, asked = None, with_loss_of(params, learner, rows.n_rows / fit.size)
    if not missing_in(task, block.y):
        model = train_in_memory(asked, learner, value, task, block, n_threads)
        del block
        calibratable = calibratable_of(task)
        total = calibratable.evidence_from(task, [])
        step = max(1, READ_BYTES // (8 * task.decisions.outputs + width))
        for start in range(0, held.size, step):
            tested = take(rows, fitted, store, held[start : start + step])
            total = total + calibratable.evidence(task, tested.y, model.decision_function(tested.rows))
        evidence = total.as_json()
    return {"rows": int(held.size), "bytes_read": int(size), "bytes_written": 0, "evidence": evidence}


def with_loss_of(params: Params, learner: str, times: float) -> Params:
    """With a C so many times larger: then the loss of fewer rows weighs as much as that of all in the run's model."""
    C = params.methods[learner].get("C")
    return params.setting(learner, C=C * times) if isinstance(C, float | int) else params


def take(rows: PreparedRows, fitted: Fitted | None, store: Store, numbers: np.ndarray) -> Block:
    """Training rows by ascending number, or their cells, packed."""
    if fitted is None:
        return rows.take(numbers)
    arrays, offsets = store.open_arrays(fitted.cells_name("train")), fitted.offsets(store)
    dtype = packed_dtype(offsets, gaps=True)
    codes = np.empty((numbers.size, offsets.size - 1), dtype=dtype)
    targets = np.empty(numbers.size, dtype=arrays["labels"].dtype)
    weights = np.empty(numbers.size) if WEIGHTS in arrays else None
    stored = arrays["codes"]
    step = max(1, READ_BYTES // (4 * codes.shape[1]))
    step = -(-step // stored.chunks[0]) * stored.chunks[0]
    for start in range(int(numbers[0]) // step * step if numbers.size else 0, rows.n_rows, step):
        inside = slice(*np.searchsorted(numbers, [start, start + step]).tolist())
        if inside.stop > inside.start:
            some, whole = numbers[inside] - start, slice(start, min(start + step, rows.n_rows))
            # Casting turns -1, no cell, into the highest number, which "gaps" leaves free.
            codes[inside] = read(stored, whole)[some].astype(dtype)
            targets[inside] = read(arrays["labels"], whole)[some]
            if weights is not None:
                weights[inside] = read(arrays[WEIGHTS], whole)[some]
        elif inside.start == numbers.size:
            break
    return Block(Cells(codes, offsets).packed(), targets, weights, numbers)


def reading_of(store: Store, params: Params, learner: str, content_hash: str | None) -> Calibrator | None:
    """How the decisions of a learner are read: as found out, or as log odds where they are such; None: as they are."""
    if content_hash is not None:
        return load_model(store, f"{READINGS}/{learner}", Calibrator, content_hash)
    return fit_calibrator(LOG_ODDS) if params.of(learner).log_odds else None
