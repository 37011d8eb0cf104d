"""Importance: how much worse a learner's predictions are when the values of one column are shuffled among test rows.

The columns are those of the data: all features that are made of one column are shuffled together. Of the columns that
matter most, partial dependence: what the learner says on average when all rows have the same value there. Source:
L. Breiman, "Random forests", Machine Learning 45, 2001; J. Friedman, "Greedy function approximation", Annals of
Statistics 29, 2001.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from ikmap.json_values import number_of
from ikmap.model import Model
from ikmap.rows import as_csr, as_dense
from ikmap.seeds import generator
from ikmap.tables import CATEGORY, TIME
from ikmap.tasks.capabilities import calibrated
from ikmap.tasks.classification.calibration import Calibrator
from ikmap.tasks.importance import importance_metrics, responses
from ikmap.tasks.scoring import accumulate
from pipeline.errors import InputError
from pipeline.params import Params
from pipeline.record_types import Record
from pipeline.rows.originals import Original, original_values, originals_of
from pipeline.rows.prepared import PreparedRows
from pipeline.running.dispatch import Task
from pipeline.running.stage import Context, Stage
from pipeline.stages.calibrate import reading_of
from pipeline.storage.fitted import Fitted
from pipeline.storage.models import MODELS, load_model
from pipeline.storage.store import Store

ROWS = 10_000
"""Test rows, drawn by the seed, among which values are shuffled."""
REPEATS = 3
DEPENDENCE_ROWS = 1_000
"""Of these, the rows over which partial dependence is averaged."""
AT_ONCE = 4
"""Columns of a task."""
MOST_COLUMNS = 1_000
SHOWN = 4
"""Columns of which partial dependence is computed."""
VALUES, WORDS = 20, 10
"""Numbers, and words or times, at which it is."""
STREAM = 2_000_008


def refuse_importance(params: Params, rows: PreparedRows) -> None:
    """Refuse what there is no importance of.

    Raises
    ------
    InputError
    """
    task, columns = rows.preparation.task, len(originals_of(rows)) if params.importance else 0
    if params.importance and not task.kind.presenter.metric.ranks:
        raise InputError(f"--importance: found --task {task.name}, of which no figure says how good predictions are")
    if columns > MOST_COLUMNS:
        raise InputError(
            f"--importance: found {columns:,} columns, expected at most {MOST_COLUMNS:,}; leave it out, or --drop some"
        )


def importance(
    context: Context, learner: str, fitted: Fitted | None, content_hash: str, reading_hash: str | None = None
) -> Record:
    """Measure how much each column matters to a learner.

    Returns
    -------
    dict
        importance: for each column, the most important first, by how much the figures get worse (mean over the repeats)
        and the standard deviation of the last of them; partial_dependence: of the first columns; importance_rows.
    """
    store, params = context.store, context.params
    test = PreparedRows(store, "test")
    columns, task = originals_of(test), test.preparation.task
    reading = reading_of(store, params, learner, reading_hash)
    of = (store, params, learner, fitted, content_hash, reading)
    groups = [columns[k : k + AT_ONCE] for k in range(0, len(columns), AT_ONCE)]
    stage = Stage(context, f"importance:{learner}", None)
    records = stage.run(shuffle_columns, [Task(f"columns-{k:04d}", (*of, group)) for k, group in enumerate(groups)])
    found = [one for record in records for one in record["columns"]]
    by = importance_metrics(task)[-1]
    order = sorted(range(len(found)), key=lambda k: (-found[k][by], k))
    first = [columns[k] for k in order[:SHOWN] if found[k][by] > 0]
    shown = stage.run(depend, [Task(f"depends-{column.number:04d}", (*of, column)) for column in first])
    return stage.finish(
        importance=[found[k] for k in order],
        importance_rows=min(ROWS, test.n_rows),
        partial_dependence=[record["dependence"] for record in shown],
    )


def drawn(test: PreparedRows, params: Params, most: int) -> np.ndarray:
    """Numbers of some test rows, ascending."""
    if test.n_rows <= most:
        return np.arange(test.n_rows)
    found: np.ndarray = np.sort(generator(params.seed, STREAM).choice(test.n_rows, most, replace=False, shuffle=False))
    return found


class Judged:
    """A learner's decisions on changed copies of some test rows."""

    def __init__(
        self, store: Store, params: Params, learner: str, fitted: Fitted | None, content_hash: str,
        reading: Calibrator | None, most: int,
    ) -> None:  # fmt: skip
        self.test = PreparedRows(store, "test")
        self.task = calibrated(params.decision_task(learner, self.test.preparation.task), reading)
        self.numbers = drawn(self.test, params, most)
        block: Any = self.test.take(self.numbers)
        self.X, self.y = as_dense(block.rows), block.y
        self._model: Any = load_model(store, f"{MODELS}/{learner}", Model, content_hash)
        self._partitions = None if fitted is None else fitted.load(store)

    def decide(self, X: np.ndarray) -> np.ndarray:
        """Decisions, shape (n, K), on features."""
        rows: Any = X if self.test.preparation.dense else as_csr(X)
        given = rows if self._partitions is None else self._partitions.cells(rows, n_threads=1)
        found: np.ndarray = self._model.decision_function(given)
        return found

    def figures(self, X: np.ndarray) -> dict[str, float]:
        """By which columns are weighed; those that are known."""
        metrics = accumulate(self.task, self.y, self.decide(X)).metrics()
        values = {key: number_of(metrics[key]) for key in importance_metrics(self.task)}
        return {key: float(value) for key, value in values.items() if value is not None}


def shuffle_columns(
    store: Store,
    params: Params,
    learner: str,
    fitted: Fitted | None,
    content_hash: str,
    reading: Calibrator | None,
    columns: Sequence[Original],
) -> Record:
    """Task: by how much the figures get worse when each of some columns is shuffled."""
    judged = Judged(store, params, learner, fitted, content_hash, reading, ROWS)
    whole, found = judged.figures(judged.X), []
    for column in columns:
        worse: dict[str, list[float]] = {key: [] for key in importance_metrics(judged.task)}
        features = list(column.features)
        X = judged.X.copy()
        for repeat in range(REPEATS):
            order = generator(params.seed, STREAM, column.number, repeat).permutation(judged.y.size)
            X[:, features] = judged.X[order][:, features]
            for key, value in judged.figures(X).items():
                worse[key].append(whole[key] - value)
        means = {key: float(np.mean(values)) if values else 0.0 for key, values in worse.items()}
        spread = float(np.std(worse[importance_metrics(judged.task)[-1]] or [0.0]))
        found.append({"column": column.name, **means, "deviation": spread})
    return {"rows": judged.y.size, "bytes_read": judged.X.nbytes, "columns": found}


def depend(
    store: Store,
    params: Params,
    learner: str,
    fitted: Fitted | None,
    content_hash: str,
    reading: Calibrator | None,
    column: Original,
) -> Record:
    """Task: what the learner says on average when all rows have the same value in a column."""
    judged = Judged(store, params, learner, fitted, content_hash, reading, ROWS)
    values = original_values(judged.test, judged.numbers, column)
    rows = np.linspace(0, judged.y.size - 1, min(DEPENDENCE_ROWS, judged.y.size)).astype(np.int64)
    features, said, points = list(column.features), [], []
    for at in chosen_rows(values, column.kind):
        X = judged.X[rows].copy()
        X[:, features] = judged.X[at][features]
        points.append(shown_value(values[at], column.kind))
        said.append(responses(judged.task, judged.decide(X)))
    names = list(said[0]) if said else []
    of = {name: [round(float(one[name].mean()), 6) for one in said] for name in names}
    found = {"column": column.name, "kind": column.kind, "values": points, "responses": of}
    return {"rows": judged.y.size, "bytes_read": judged.X.nbytes, "dependence": found}


def chosen_rows(values: np.ndarray, kind: str) -> list[int]:
    """Rows whose values stand for the column: ascending and evenly spread, or the most frequent words first."""
    if kind == CATEGORY:
        words = np.array(["" if word is None else str(word) for word in values])
        known, first, counts = np.unique(words, return_index=True, return_counts=True)
        order = np.lexsort((known, -counts))[:WORDS]
        return [int(first[k]) for k in order]
    there = np.flatnonzero(~np.isnan(values.astype(np.float64)))
    known, first = np.unique(values[there].astype(np.float64), return_index=True)
    if not known.size:
        return []
    most = WORDS if kind == TIME else VALUES
    spread = np.quantile(values[there].astype(np.float64), np.linspace(0, 1, most), method="closest_observation")
    wanted = known if known.size <= most else np.unique(spread)
    return [int(there[first[k]]) for k in np.searchsorted(known, wanted)]


def shown_value(value: Any, kind: str) -> Any:
    """A value as JSON, for people."""
    if kind == CATEGORY:
        return "missing" if value is None else str(value)
    if kind == TIME:
        return datetime.fromtimestamp(float(value), UTC).strftime("%Y-%m-%d %H:%M")
    return float(value)
