"""Calibrate the decisions of a learner on training rows that it has not learned from.

Each fold is a task: it trains the learner on the other training rows and counts the decision values of the rows held
out. Where training rows are many, the last fold holds out enough of them, and the others are left out. Many cells are
learned from block by block, as in training: a model of fewer rows has decisions of another scale. A learner that has
found such decisions as it was trained is not trained anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import cast

import numpy as np

from ikmap import seed_paths
from ikmap.arrays import Bools
from ikmap.cells import Cells, packed_dtype
from ikmap.divisions import TooFewKeys
from ikmap.learners.out_of_fold import OutOfFold
from ikmap.learners.rows import Block
from ikmap.methods import DualLearner, LearnsOutOfFold, Sample, StreamLearner
from ikmap.methods.values import Value
from ikmap.rows import Rows
from ikmap.seeds import generator
from ikmap.tasks import Task as LearningTask
from ikmap.tasks.capabilities import Calibratable, Evidence, Thresholds, capability, missing_in
from ikmap.tasks.classification.calibration import LOG_ODDS, NONE, Calibrator, fit_calibrator
from ikmap.tasks.classification.class_scores import ClassScores
from ikmap.tasks.classification.threshold import Threshold
from pipeline.errors import InputError
from pipeline.params import Params
from pipeline.record_types import CalibrationRecord, CalibrationResult
from pipeline.rows.block_sizes import learning_blocks, packed_row_bytes
from pipeline.rows.cell_blocks import CellBlocks
from pipeline.rows.folds import division_of, folds_of, is_divided
from pipeline.rows.parts import WEIGHTS
from pipeline.rows.prepared import READ_BYTES, PreparedRows
from pipeline.running.dispatch import Task
from pipeline.running.stage import Context, Stage
from pipeline.stages.select_rows import some_of
from pipeline.storage.arrays import read
from pipeline.storage.fitted import Fitted
from pipeline.storage.models import OUT_OF_FOLD, Decider, load_model, save_model
from pipeline.storage.store import Store
from pipeline.training.dual_tasks import model_of_kept
from pipeline.training.in_memory import model_of_stream, train_in_memory

READINGS = "readings"
"""Group of the store with the calibrator of each learner."""
ENOUGH_ROWS = 50_000
"""Number of held-out rows that is enough, or the last fold that has them."""
FIT_BYTES = 256 << 20
"""Bytes of rows, or packed cells, that a fold holds in memory. Of more, a learner that goes block by block reads cells
from the store; for others, and where a map has to be grown anew, a seeded sample is taken."""


def is_requested(params: Params) -> bool:
    """Return whether the run calibrates."""
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


def calibrate(
    context: Context, learner: str, fitted: Fitted | None, value: Value | None = None, n_threads: int = 1
) -> CalibrationResult:
    """Fit the calibrator of a learner, and store it.

    Parameters
    ----------
    fitted, value, n_threads
        As in :class:`~pipeline.training.runner.TrainingJob`.

    Returns
    -------
    dict
        reading_hash: content hash of the stored :class:`~ikmap.tasks.classification.calibration.Calibrator`;
        calibration and, where it was asked for, decision_threshold: as in ``metrics.json``.
    """
    store, params = context.store, context.params
    rows = PreparedRows(store, "train")
    task = rows.preparation.task
    known = capability(params.of(learner), LearnsOutOfFold) is not None
    work = _known(store, learner) if known else _by_folds(store, params, learner, fitted, value, n_threads)
    stage = Stage(context, f"calibrate:{learner}", len(work.tasks))
    records = stage.run(work.function, work.tasks)
    counted = [record for record in records if record["evidence"] is not None]
    if not counted:
        typed, left_out = _typed(params)
        if too_few := next((record["too_few"] for record in records if "too_few" in record), ""):
            raise InputError(f"{typed}, --split-by {params.split_by}: {too_few}; {left_out}")
        raise InputError(
            f"{typed}: found no fold whose other rows have every class, expected more rows of the rarest one; "
            f"{left_out}"
        )
    evidence = calibratable_of(task).evidence_from(task, [record["evidence"] for record in counted])
    refuse_missing_class(params, task, evidence)
    threshold = Threshold.parse(params.threshold_for) if params.threshold_for else None
    kind = params.calibration
    if kind == NONE and params.of(learner).log_odds:
        kind = LOG_ODDS
    calibrator = fit_calibrator(kind, evidence, threshold)
    if threshold is not None and not calibrator.chosen["reached"]:
        context.events.message(
            f"{learner}: no threshold reaches {params.threshold_for} on rows that were not learned from; the one with "
            f"the highest precision there ({calibrator.chosen['precision']:.4f}) is taken"
        )
    if work.learned < work.others:
        context.events.message(
            f"calibrate:{learner}: each fold learns from {work.learned:,} of {work.others:,} rows; its model is "
            "noisier than that of all rows, so probabilities may be off: compare calibration_error and "
            "calibration_chance of the test rows"
        )
    name, n_folds = f"{READINGS}/{learner}", work.folds - (len(records) - len(counted))
    result: CalibrationResult = {
        "reading_hash": save_model(store, name, calibrator),
        "calibration": {"how": kind, "rows": evidence.rows, "folds": n_folds, "rows_learned": work.learned},
    }
    if threshold is not None:
        result["decision_threshold"] = calibrator.chosen
    return stage.finish(result, [name])


def refuse_missing_class(params: Params, task: LearningTask, evidence: Evidence) -> None:
    """Refuse to judge by rows of one class alone, where two are to be told apart.

    Raises
    ------
    InputError
    """
    if not isinstance(evidence, ClassScores):
        return
    (column,) = evidence.columns
    if missing := missing_in(task, np.flatnonzero(column.counts.sum(axis=0))):
        typed, left_out = _typed(params)
        raise InputError(
            f"{typed}: found no row of {missing} among the {evidence.rows:,} training rows that were held out, "
            f"expected some; {left_out}, or give more rows of it"
        )


def _typed(params: Params) -> tuple[str, str]:
    """Return the options that have a run calibrate, with their values, and the advice to leave them out."""
    values = {"--calibration": params.calibration, "--threshold-for": params.threshold_for}
    typed = {option: value for option, value in values.items() if value not in (NONE, None)}
    return ", ".join(f"{option} {value}" for option, value in typed.items()), f"leave {' and '.join(typed)} out"


@dataclass(frozen=True)
class _Work:
    """The tasks of a calibration.

    Attributes
    ----------
    function : callable
    tasks : list of Task
    folds : int
        Number of folds that are held out.
    learned, others : int
        Number of rows that are learned from, and of all rows that are not held out.
    """

    function: Callable[..., CalibrationRecord]
    tasks: list[Task]
    folds: int
    learned: int
    others: int


def _known(store: Store, learner: str) -> _Work:
    """Count decisions that the learner has found on rows of folds that were held out."""
    stored = store.need(f"{OUT_OF_FOLD}/{learner}")["model"]
    learned = int(stored["rows_learned"])
    return _Work(count_out_of_fold, [Task("out-of-fold", (store, learner))], int(stored["folds"]), learned, learned)


def _by_folds(
    store: Store, params: Params, learner: str, fitted: Fitted | None, value: Value | None, n_threads: int
) -> _Work:
    """Train the learner on the rows of all folds but one, for each fold."""
    rows = PreparedRows(store, "train")
    folds = folds_of(rows, np.arange(rows.n_rows), params)
    # The last folds first: in order of time they are nearest to what is to come.
    order = range(len(folds))[::-1]
    held_out = np.cumsum([folds[k][1].size for k in order])
    used = order[: 1 + int(np.searchsorted(held_out, ENOUGH_ROWS))]
    others = int(folds[used[0]][0].size)
    learned = (
        others if by_blocks(params, learner, value, fitted) else min(most_rows(rows, params, fitted, store), others)
    )
    # An earlier version has learned large folds from a sample: a run that it began learns them anew, by another name.
    name = "fold" if others <= most_rows(rows, params, fitted, store) or learned < others else "whole-fold"
    tasks = [Task(f"{name}-{k}", (store, params, learner, fitted, value, k, n_threads)) for k in used]
    return _Work(decide_fold, tasks, len(used), learned, others)


def calibratable_of(task: LearningTask) -> Calibratable:
    """Return the part of a task that calibrates its decisions; runs of other tasks have no such stage."""
    calibratable = capability(task, Calibratable)
    assert calibratable is not None
    return calibratable


def most_rows(rows: PreparedRows, params: Params, fitted: Fitted | None, store: Store) -> int:
    """Return the most rows that a fold learns from, by their size only."""
    if fitted is None:
        return max(1, FIT_BYTES // rows.row_bytes)
    offsets = fitted.offsets(store)
    row_bytes = int((offsets.size - 1) * packed_dtype(offsets, gaps=True).itemsize)
    if params.map.description.sees_labels:  # whose rows grow a map of the fold
        row_bytes += rows.row_bytes
    return max(1, FIT_BYTES // row_bytes)


def by_blocks(params: Params, learner: str, value: Value | None, fitted: Fitted | None) -> bool:
    """Return whether a learner can learn from the stored cells of a fold block by block, however many they are."""
    if fitted is None or params.map.description.sees_labels:
        return False
    method = params.learner(learner, value)
    return any(capability(method, kind) is not None for kind in (DualLearner, StreamLearner))


def count_out_of_fold(store: Store, learner: str) -> CalibrationRecord:
    """Task: count the decision values that a learner has found on rows that it has not learned from."""
    rows = PreparedRows(store, "train")
    task = rows.preparation.task
    decisions = load_model(store, f"{OUT_OF_FOLD}/{learner}", OutOfFold).decisions
    thresholds = capability(task, Thresholds)
    known = np.flatnonzero(np.isfinite(decisions).all(axis=1))
    numbers = some_of(known, None if thresholds is None else thresholds.most_evidence(task))
    target = np.concatenate(list(rows.targets()))
    evidence = calibratable_of(task).evidence(task, target[numbers], decisions[numbers])
    size = int(decisions.nbytes + target.nbytes)
    return {"rows": int(numbers.size), "bytes_read": size, "bytes_written": 0, "evidence": evidence.as_json()}


def decide_fold(
    store: Store,
    params: Params,
    learner: str,
    fitted: Fitted | None,
    value: Value | None,
    fold: int,
    n_threads: int = 1,
) -> CalibrationRecord:
    """Task: learn from the rows of all folds but one, and count the decision values of the rows of that fold."""
    rows = PreparedRows(store, "train")
    task = rows.preparation.task
    fit, held_out = folds_of(rows, np.arange(rows.n_rows), params)[fold]
    thresholds = capability(task, Thresholds)
    held_out = some_of(held_out, None if thresholds is None else thresholds.most_evidence(task))
    most = most_rows(rows, params, fitted, store)
    in_blocks = fit.size > most and by_blocks(params, learner, value, fitted)
    if fit.size > most and not in_blocks:
        fit = np.sort(
            generator(params.seed, seed_paths.CALIBRATION, fold).choice(fit, most, replace=False, shuffle=False)
        )
    take_rows: Callable[[np.ndarray], Block] = partial(take, rows, fitted, store)
    grows = fitted is not None and params.map.description.sees_labels
    if fitted is not None and grows:
        take_rows = taken_by_own_map(rows, params, fitted, fit, n_threads)
    width = rows.row_bytes if fitted is None or grows else 0
    if fitted is not None:
        width += 4 * fitted.t
    unknown: CalibrationRecord = {
        "rows": int(held_out.size),
        "bytes_read": int(fit.size * width),
        "bytes_written": 0,
        "evidence": None,
    }
    fold_params = with_loss_of(params, learner, rows.n_rows / fit.size)
    division = division_of(rows, fit, params) if is_divided(params) else None
    model: Decider
    if in_blocks:
        assert fitted is not None
        kept = np.zeros(rows.n_rows, dtype=np.bool_)
        kept[fit] = True
        if missing_in(task, np.concatenate(list(rows.targets()))[kept]):
            return unknown
        model = learn_by_blocks(store, fold_params, learner, fitted, value, kept, n_threads)
    else:
        block = take_rows(fit)
        if missing_in(task, block.y):
            return unknown
        try:
            model = train_in_memory(fold_params, learner, value, task, block, n_threads, division)
        except TooFewKeys as error:
            return {**unknown, "too_few": str(error)}
        del block
    calibratable = calibratable_of(task)
    total = calibratable.evidence_from(task, [])
    step = max(1, READ_BYTES // (8 * task.decisions.outputs + width))
    for start in range(0, held_out.size, step):
        tested = take_rows(held_out[start : start + step])
        total = total + calibratable.evidence(task, tested.y, model.decision_function(tested.rows))
    return {**unknown, "evidence": total.as_json()}


def learn_by_blocks(
    store: Store,
    params: Params,
    learner: str,
    fitted: Fitted,
    value: Value | None,
    kept: Bools,
    n_threads: int = 1,
) -> Decider:
    """Return the model that a learner makes of the cells of some training rows, read block by block."""
    if capability(params.learner(learner, value), DualLearner) is not None:
        return model_of_kept(store, params, learner, fitted, kept, n_threads)
    rows, offsets = PreparedRows(store, "train"), fitted.offsets(store)
    numbers = np.flatnonzero(kept)
    sample = Sample(
        numbers.size,
        fitted.t,
        rows.preparation.task,
        lambda some: take(rows, fitted, store, numbers[some]).rows,
        params.seed,
        offsets,
        reaches_all=params.map.description.reaches_all,
    )
    shuffled = params.order == "shuffled"
    ranges = learning_blocks(rows.n_rows, packed_row_bytes(offsets), params.seed, shuffled=shuffled)
    blocks = CellBlocks(store, fitted.cells_name("train"), offsets, ranges, kept=kept)
    return model_of_stream(params, learner, value, rows.preparation.task, sample, blocks)


def taken_by_own_map(
    rows: PreparedRows, params: Params, fitted: Fitted, fit: np.ndarray, n_threads: int
) -> Callable[[np.ndarray], Block]:
    """Return what takes training rows by number, with cells of a map that has seen the labels of some rows alone.

    In the cells of the run, the rows that are held out have grown trees by their own labels.
    """
    learned = rows.take(fit)
    features = cast("Rows", learned.rows)
    sample = Sample(
        fit.size,
        features.shape[1],
        rows.preparation.task,
        features.__getitem__,
        params.seed,
        targets=learned.y.__getitem__,
    )
    own = params.map_at(fitted.value).within(fit.size)
    partitions = own.fit(sample.seen_by(params.map.description), n_threads)

    def taken(numbers: np.ndarray) -> Block:
        block = rows.take(numbers)
        cells = partitions.cells(cast("Rows", block.rows), n_threads)
        return block._replace(rows=cells.packed())

    return taken


def with_loss_of(params: Params, learner: str, times: float) -> Params:
    """Return the parameters with a larger C: the loss of fewer rows then weighs as much as that of all rows."""
    C = params.methods[learner].get("C")
    return params.setting(learner, C=C * times) if isinstance(C, float | int) else params


def take(rows: PreparedRows, fitted: Fitted | None, store: Store, numbers: np.ndarray) -> Block:
    """Return training rows by ascending number, or their cells, packed."""
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
        within = slice(*np.searchsorted(numbers, [start, start + step]).tolist())
        if within.stop > within.start:
            places, stored_rows = numbers[within] - start, slice(start, min(start + step, rows.n_rows))
            # Casting turns -1, no cell, into the highest number, which "gaps" leaves free.
            codes[within] = read(stored, stored_rows)[places].astype(dtype)
            targets[within] = read(arrays["labels"], stored_rows)[places]
            if weights is not None:
                weights[within] = read(arrays[WEIGHTS], stored_rows)[places]
        elif within.start == numbers.size:
            break
    return Block(Cells(codes, offsets).packed(), targets, weights, numbers)


def calibrator_of(store: Store, params: Params, learner: str, content_hash: str | None) -> Calibrator | None:
    """Return the stored calibrator of a learner, that of log odds if its decisions are log odds, or None."""
    if content_hash is not None:
        return load_model(store, f"{READINGS}/{learner}", Calibrator, content_hash)
    return fit_calibrator(LOG_ODDS) if params.of(learner).log_odds else None
