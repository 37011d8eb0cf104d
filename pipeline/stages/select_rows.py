"""Cross-validation of the learners that work on the rows themselves: each value of each, fold by fold."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from ikmap.learners.rows import Rows as AnyRows
from ikmap.learners.rows import n_rows as count_rows
from ikmap.methods import LEARNERS, Sample, Search, Training, WholeLearner, method, stream_learner
from ikmap.model_selection import folds
from ikmap.rows import Rows
from ikmap.seeds import generator
from pipeline.engine import Record
from pipeline.params import Params
from pipeline.prepared import PreparedRows
from pipeline.store import Store

STREAM = 2_000_004
"""Seed path of the rows that are looked at."""


def searches_of_rows(params: Params, n_rows: int) -> dict[str, Search]:
    """What there is to choose for each learner on rows, of those for which there is something."""
    found = {name: method(name).search(params.of(name), n_rows) for name in params.learners}
    return {name: search for name, search in found.items() if search is not None}


def cv_sample(store: Store, params: Params, n_rows: int) -> tuple[Rows, np.ndarray]:
    """The rows that cross-validation looks at: all, or a seeded sample in the order of the file."""
    train = PreparedRows(store, "train")
    rows = np.arange(train.n_rows)
    if n_rows < train.n_rows:
        drawn = generator(params.seed, STREAM).choice(train.n_rows, n_rows, replace=False, shuffle=False)
        rows = np.sort(drawn)
    return train.take(rows)


def score_rows(store: Store, params: Params, name: str, value: float, fold: int, n_rows: int) -> Record:
    """Task: held-out rows of one fold that are predicted right with one value."""
    X, y = cv_sample(store, params, n_rows)
    fit, held_out = folds(n_rows, params.seed)[fold]
    classes = list(range(len(PreparedRows(store, "train").preparation.classes)))
    learner = LEARNERS[name]
    if isinstance(learner, WholeLearner):
        fit = some_of(fit, learner.compared_on)
        predict = fit_fold(learner, params, value, X[fit], y[fit])
    else:
        inside = X[fit]
        sample = Sample(fit.size, X.shape[1], len(classes), lambda numbers: inside[numbers], params.seed)
        state = stream_learner(name).start(params.of(name), value, sample)
        order = np.arange(fit.size)
        if params.order == "shuffled":
            order = generator(params.seed, STREAM, fold).permutation(fit.size)
        state.partial_fit(inside[order], y[fit][order])
        predict = state.model(classes).predict_index
    right = predict(X[held_out]) == y[held_out]
    read = X.nbytes if isinstance(X, np.ndarray) else X.data.nbytes + X.indices.nbytes
    return {"bytes_read": int(read), "held_out": int(held_out.size), "right": [[name, value, [packed_rows(right)]]]}


def fit_fold(
    learner: WholeLearner, params: Params, value: float | None, rows: AnyRows, y: np.ndarray
) -> Callable[[Any], np.ndarray]:
    """Predictor of the classes that these rows have, however few they are: for a comparison."""
    present = np.unique(y)
    if present.size == 1:
        return lambda tested: np.full(count_rows(tested), present[0])
    training = Training(rows, np.searchsorted(present, y), present.tolist(), params.seed, value)
    model, _ = learner.fit(params.of(learner.name), training)
    return lambda tested: present[model.predict_index(tested)]


def some_of(rows: np.ndarray, at_most: int | None) -> np.ndarray:
    """At most so many of some rows, evenly spaced."""
    n = rows.size if at_most is None else min(rows.size, at_most)
    return rows[np.linspace(0, rows.size - 1, n).astype(np.int64)] if n < rows.size else rows


def packed_rows(right: np.ndarray) -> str:
    """Which rows are right, as the text that a record holds: those that are wrong, mostly few, compressed."""
    return base64.b64encode(zlib.compress(np.packbits(~right).tobytes(), 9)).decode()


def unpacked_rows(text: str, n: int) -> np.ndarray:
    """The bool array of length n that :func:`packed_rows` has put into text."""
    return ~np.unpackbits(np.frombuffer(zlib.decompress(base64.b64decode(text)), np.uint8), count=n).astype(bool)
