"""Cross-validation of the learners that work on the rows themselves: each value of each, fold by fold."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import cast

import numpy as np

from ikmap import seed_paths
from ikmap.divisions import Division, Fold
from ikmap.json_values import JsonObject
from ikmap.learners.rows import Block
from ikmap.learners.rows import Rows as LearnerRows
from ikmap.learners.rows import n_rows as count_rows
from ikmap.methods import (
    Learner,
    Sample,
    Search,
    SharesWork,
    StreamLearner,
    Training,
    WholeLearner,
    at_value,
    capability,
)
from ikmap.methods.values import Value
from ikmap.model_selection import FOLDS, folds
from ikmap.rows import Rows, nbytes_of
from ikmap.seeds import generator
from ikmap.tasks import Criterion, Metric, Task, criterion_of
from ikmap.tasks.capabilities import calibrated
from ikmap.tasks.classification.calibration import LOG_ODDS, NONE, fit_calibrator
from pipeline.params import Params
from pipeline.record_types import TrialRecord
from pipeline.rows.folds import division_of, folds_of, is_divided
from pipeline.rows.prepared import PreparedRows
from pipeline.rows.row_weights import weight_given, weight_rule, weighted_scores, weights_of
from pipeline.rows.split_rule import goes_by_time
from pipeline.running.foreign import checked_decisions
from pipeline.storage.models import Decider
from pipeline.storage.store import Store

FRACTIONS = "f8:"
"""Prefix of scores that are not only 0 and 1; no base64 has a colon."""


type Predictor = Callable[[LearnerRows], np.ndarray]
"""A function from rows, or cells, to what a criterion scores."""


def searches_of_rows(params: Params, n_rows: int) -> dict[str, Search]:
    """Return the search of each learner on rows that has values to choose from."""
    searches = {name: params.search_of(name, n_rows) for name in params.learners}
    return {name: search for name, search in searches.items() if search is not None}


def swept_rows(train: PreparedRows, params: Params, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the training rows that a sweep over `n_rows` learns from, and those that it is scored on, ascending."""
    if params.split_by is None:
        return _swept_rows(train.n_rows, n_rows, params.seed)
    rows = cv_rows(train, params, n_rows)
    fit, held_out = swept_fold(folds_of(train, rows, params), params)
    return rows[fit], rows[held_out]


def swept_fold(all_folds: Sequence[Fold], params: Params) -> Fold:
    """Return the fold that a sweep is scored on: the first, in order of time the last, nearest to what is to come."""
    return all_folds[-1 if goes_by_time(params.split_by) else 0]


@lru_cache(maxsize=2)
def _swept_rows(n_train: int, n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rows = cv_numbers(n_train, n_rows, seed)
    fit, held_out = folds(n_rows, seed)[0]
    return rows[fit], rows[held_out]


def cv_numbers(n_train: int, n_rows: int, seed: int) -> np.ndarray:
    """Return the ascending numbers of the training rows of cross-validation on `n_rows`: all, or a seeded sample."""
    if n_rows >= n_train:
        return np.arange(n_train)
    return np.sort(generator(seed, seed_paths.CANDIDATE_ROWS).choice(n_train, n_rows, replace=False, shuffle=False))


def cv_sample(store: Store, params: Params, n_rows: int) -> tuple[Task, Rows, np.ndarray, np.ndarray | None]:
    """Return the task, and the rows of cross-validation: all, or a seeded sample in the order of the file.

    Returns
    -------
    task, rows, targets, weights
        Weights are those of the data, or None if it has none.
    """
    train = PreparedRows(store, "train")
    block = train.take(cv_rows(train, params, n_rows))
    return train.preparation.task, cast("Rows", block.rows), block.y, block.sample_weight


def cv_rows(train: PreparedRows, params: Params, n_rows: int) -> np.ndarray:
    """Return the numbers of the training rows that cross-validation looks at, ascending."""
    return cv_numbers(train.n_rows, n_rows, params.seed)


def cv_folds(store: Store, params: Params, n_rows: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return, for each fold, the places among the rows of cross-validation to learn from, and those held out."""
    train = PreparedRows(store, "train")
    return folds_of(train, cv_rows(train, params, n_rows), params)


def size_of_search(train: PreparedRows, params: Params, n_rows: int) -> tuple[int, int]:
    """Return the number of folds of a search, and the number of rows whose values it tries.

    These are fewer where folds learn from fewer rows than usual.
    """
    if params.split_by is None:
        return FOLDS, n_rows
    all_folds = folds_of(train, cv_rows(train, params, n_rows), params)
    smallest = min(fit.size for fit, _ in all_folds)
    return len(all_folds), max(2, min(n_rows, smallest * FOLDS // (FOLDS - 1)))


def search_criterion(params: Params, task: Task, learner: str) -> Criterion:
    """Return the criterion of the search for a learner.

    Without ``--select-by`` it is the usual criterion of the task: log loss of classes. Log odds are scored as they are
    if no calibration is requested: a fit would hide that a candidate is too sure, or not sure enough.
    """
    if params.of(learner).log_odds and params.calibration == NONE:
        task = calibrated(task, fit_calibrator(LOG_ODDS))
    return criterion_of(task, task.kind.usual.criterion if params.select_by == "auto" else params.select_by)


def criteria_in_use(params: Params, criteria: Mapping[str, Criterion], metric: Metric) -> JsonObject:
    """Return the criteria that are not the main metric of the task, for ``selection`` in ``metrics.json``."""
    if params.select_by != "auto":
        return {"by": params.select_by}
    keys = {name: criterion.metric.key for name, criterion in criteria.items() if criterion.metric != metric}
    return {"by": keys} if keys else {}


def score_rows(store: Store, params: Params, name: str, values: Sequence[Value], fold: int, n_rows: int) -> TrialRecord:
    """Task: score each held-out row of one fold with each of some values, which share the work that takes long."""
    task, X, y, weight = cv_sample(store, params, n_rows)
    fit, held_out = cv_folds(store, params, n_rows)[fold]
    criterion = search_criterion(params, task, name)
    learner, paths = params.of(name), params.searched(name) - {"C"}
    whole = capability(learner, WholeLearner)
    if whole is not None:
        fit = some_of(fit, whole.compared_on)
    inside, outside = X[fit], X[held_out]
    if len(values) > 1:
        learner, inside, outside = _shared(params.learner(name, values[0]), inside, outside)
    train, division = PreparedRows(store, "train"), None
    if is_divided(params):
        division = division_of(train, cv_rows(train, params, n_rows)[fit], params)
    order = np.arange(fit.size)
    if params.order == "shuffled":
        order = generator(params.seed, seed_paths.CANDIDATE_ROWS, fold).permutation(fit.size)
    scores: list[tuple[str, Value, list[str]]] = []
    held_out_weight = weights_of(weight, held_out)
    for value in values:
        valued = at_value(learner, paths, value)
        if (whole := capability(valued, WholeLearner)) is not None:
            block = Block(inside, y[fit], weights_of(weight, fit))
            predict = fit_fold(whole, params, criterion, block, division)
        else:
            online = capability(valued, StreamLearner)
            assert online is not None
            sample = Sample(fit.size, inside.shape[1], task, inside.__getitem__, params.seed)
            state = online.start(sample)
            state.partial_fit(inside[order], y[fit][order], *weight_given(weights_of(weight, fit[order])))
            predict = predictor(criterion, state.model(task.codec.classes, {}), name)
        row_scores = weighted_scores(criterion, criterion.row_scores(y[held_out], predict(outside)), held_out_weight)
        scores.append((name, value, [packed_rows(row_scores)]))
    return {"bytes_read": nbytes_of(X), "held_out": int(held_out.size), "scores": scores}


def _shared(learner: Learner, inside: Rows, outside: Rows) -> tuple[Learner, Rows, Rows]:
    """Do the work that all values of a learner share; return a learner and rows to take in place of those given."""
    sharing = capability(learner, SharesWork)
    assert sharing is not None
    prepared, inside, outside = sharing.shared(inside, outside)
    return cast("Learner", prepared), inside, outside


def fit_fold(
    learner: WholeLearner, params: Params, criterion: Criterion, block: Block, division: Division | None = None
) -> Predictor:
    """Fit a predictor to compare candidates; it works even if some classes are not among the rows.

    Parameters
    ----------
    criterion : Criterion
        Criterion of the search.
    division : Division, optional
        Division of the rows, for a learner that holds out some of them.
    """
    small = criterion.among(block.y)
    constant = small.constant
    if constant is not None:
        return lambda tested: np.repeat(small.widen(constant), count_rows(tested), axis=0)
    weight = weight_rule(criterion.task)(block.y, block.sample_weight)
    weighted = block._replace(y=small.targets, sample_weight=weight)
    training = Training(weighted, small.task.codec.classes, params.seed, task=small.task, division=division)
    model = cast("Decider", learner.fit(training)[0])
    name, outputs = learner.about.name, small.task.decisions.outputs
    return lambda tested: small.widen(small.criterion.scored_values(checked_decisions(model, tested, name, outputs)))


def predictor(criterion: Criterion, model: object, learner: str) -> Predictor:
    """Return a function from rows to what a criterion scores: the predictions of a model, or its decisions."""
    decider, outputs = cast("Decider", model), criterion.task.decisions.outputs
    return lambda tested: criterion.scored_values(checked_decisions(decider, tested, learner, outputs))


def some_of(rows: np.ndarray, at_most: int | None) -> np.ndarray:
    """Return at most `at_most` of some rows, evenly spaced."""
    n = rows.size if at_most is None else min(rows.size, at_most)
    return rows[np.linspace(0, rows.size - 1, n).astype(np.int64)] if n < rows.size else rows


def packed_rows(scores: np.ndarray) -> str:
    """Return scores of rows as text for a record; of right and wrong, the wrong ones are stored, which are few."""
    if scores.dtype == np.bool_:
        return _text(np.packbits(~scores))
    return FRACTIONS + _text(np.ascontiguousarray(scores, dtype="<f8"))


def unpacked_rows(text: str, n: int) -> np.ndarray:
    """Return the array of length n that :func:`packed_rows` has put into text: bool or float64."""
    fractions = text.startswith(FRACTIONS)
    raw = zlib.decompress(base64.b64decode(text.removeprefix(FRACTIONS)))
    if fractions:
        return np.frombuffer(raw, "<f8", count=n)
    return ~np.unpackbits(np.frombuffer(raw, np.uint8), count=n).astype(bool)


def _text(array: np.ndarray) -> str:
    return base64.b64encode(zlib.compress(array.tobytes(), 9)).decode()
