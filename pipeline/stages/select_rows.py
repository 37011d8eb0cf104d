"""Cross-validation of the learners that work on the rows themselves: each value of each, fold by fold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ikmap.model_selection import FOLDS, folds, psis_that_fit
from ikmap.rows import Rows
from ikmap.seeds import generator
from pipeline.baselines import GAMMAS, LAMBDAS, Sample, fit_fold, searched, start_online
from pipeline.engine import Record, Stage, Task
from pipeline.learners import LEARNERS
from pipeline.params import Params
from pipeline.prepared import PreparedRows
from pipeline.store import Store

STREAM = 2_000_004
"""Seed path of the rows that are looked at."""
KERNEL_ROWS = 4000
"""Rows that an SVM with a kernel is trained on to compare values: its time grows with the square of the rows."""


def values_of(name: str, params: Params, n_rows: int) -> list[float]:
    """Values that are tried for a learner, ascending."""
    found: dict[str, Sequence[float]] = {"psi": psis_that_fit(n_rows), "gamma": list(GAMMAS), "lambda": list(LAMBDAS)}
    return list(found[searched(name, params) or "psi"])


def row_tasks(store: Store, params: Params, n_rows: int) -> list[tuple[Task, str, float]]:
    """One task for each learner on rows that has something to choose, each value and each fold."""
    return [
        (Task(f"{name}-{value:g}-fold-{k}", (store, params, name, value, k, n_rows)), name, value)
        for name in params.learners
        if LEARNERS[name].on == "rows" and searched(name, params)
        for value in values_of(name, params, n_rows)
        for k in range(FOLDS)
    ]


def select_rows(stage: Stage, params: Params, n_rows: int) -> dict[str, dict[str, Any]]:
    """For each such learner: parameter, values, accuracy of each, and the chosen one (ties go to the smaller)."""
    tasks = row_tasks(stage.context.store, params, n_rows)
    records = stage.run(score_rows, [task for task, _, _ in tasks])
    correct: dict[str, dict[float, int]] = {}
    for (_, name, value), record in zip(tasks, records, strict=True):
        of = correct.setdefault(name, {})
        of[value] = of.get(value, 0) + record["correct"]
    found = {}
    for name, of in correct.items():
        accuracy = [count / n_rows for count in of.values()]
        values = list(of)
        found[name] = {
            "parameter": searched(name, params),
            "values": values,
            "accuracy": accuracy,
            "chosen": values[int(np.argmax(accuracy))],
        }
    return found


def cv_sample(store: Store, params: Params, n_rows: int) -> tuple[Rows, np.ndarray]:
    """The rows that cross-validation looks at: all, or a seeded sample in the order of the file."""
    train = PreparedRows(store, "train")
    rows = np.arange(train.n_rows)
    if n_rows < train.n_rows:
        drawn = generator(params.seed, STREAM).choice(train.n_rows, n_rows, replace=False, shuffle=False)
        rows = np.sort(drawn)
    return train.take(rows)


def score_rows(store: Store, params: Params, name: str, value: float, fold: int, n_rows: int) -> Record:
    """Task: number of held-out rows of one fold that are predicted right with one value."""
    X, y = cv_sample(store, params, n_rows)
    fit, held_out = folds(n_rows, params.seed)[fold]
    classes = list(range(len(PreparedRows(store, "train").preparation.classes)))
    if LEARNERS[name].way == "batch":
        if name.endswith("-svm"):
            fit = some_of(fit)
        predict = fit_fold(name, params, value, X[fit], y[fit])
    else:
        inside = X[fit]
        sample = Sample(fit.size, X.shape[1], len(classes), lambda numbers: inside[numbers])
        state = start_online(name, params, value, sample)
        order = np.arange(fit.size)
        if params.order == "shuffled":
            order = generator(params.seed, STREAM, fold).permutation(fit.size)
        state.partial_fit(inside[order], y[fit][order])
        predict = state.model(classes).predict_index
    correct = int((predict(X[held_out]) == y[held_out]).sum())
    read = X.nbytes if isinstance(X, np.ndarray) else X.data.nbytes + X.indices.nbytes
    return {"bytes_read": int(read), "correct": correct}


def some_of(rows: np.ndarray) -> np.ndarray:
    """At most :data:`KERNEL_ROWS` of some rows, evenly spaced."""
    return rows[np.linspace(0, rows.size - 1, min(rows.size, KERNEL_ROWS)).astype(np.int64)]
