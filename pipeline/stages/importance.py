"""Importance: how much worse a learner's predictions are when the values of one column are shuffled among test rows.

The columns are those of the data: all features that are made of one column are shuffled together. For the columns that
matter most, partial dependence: the mean response of the learner when all rows have the same value there. Source:
L. Breiman, "Random forests", Machine Learning 45, 2001; J. Friedman, "Greedy function approximation", Annals of
Statistics 29, 2001.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import cast

import numpy as np

from ikmap import seed_paths
from ikmap.json_values import Json, JsonObject, number_of
from ikmap.rows import Rows, as_csr, as_dense, row_blocks
from ikmap.seeds import generator
from ikmap.tables import CATEGORY, TIME
from ikmap.tasks.capabilities import calibrated
from ikmap.tasks.classification.calibration import Calibrator
from ikmap.tasks.importance import importance_metrics, responses
from ikmap.tasks.scoring import accumulate
from pipeline.errors import InputError
from pipeline.params import Params
from pipeline.record_types import DependenceRecord, ImportanceRecord, ImportanceResult
from pipeline.rows.originals import Original, original_values, originals_of
from pipeline.rows.prepared import PreparedRows
from pipeline.running.dispatch import Task
from pipeline.running.stage import Context, Stage
from pipeline.stages.calibrate import calibrator_of
from pipeline.storage.fitted import Fitted
from pipeline.storage.models import MODELS, load_decider
from pipeline.storage.store import Store

ROWS = 10_000
"""Number of test rows, drawn by the seed, among which values are shuffled."""
REPEATS = 3
DEPENDENCE_ROWS = 1_000
"""Number of these rows over which partial dependence is averaged."""
AT_ONCE = 4
"""Number of columns of a task."""
MOST_COLUMNS = 1_000
ROW_COPIES = 4
"""Copies of a row that are there at a time, about: dense, sparse, and what the learner makes of them."""
SHOWN = 4
"""Number of columns whose partial dependence is computed."""
VALUES, WORDS = 20, 10
"""Number of numbers, and of words or times, at which partial dependence is computed."""


def refuse_importance(params: Params, rows: PreparedRows) -> None:
    """Refuse a task whose columns have no importance, and too many columns.

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
    context: Context, learner: str, fitted: Fitted | None, content_hash: str, calibrator_hash: str | None = None
) -> ImportanceResult:
    """Measure how much each column matters to a learner.

    Returns
    -------
    dict
        importance: for each column, the most important first, by how much each metric gets worse (mean over the
        repeats; None: it has no value on these rows) and the standard deviation of the last that has values;
        partial_dependence: of the first columns;
        importance_rows.
    """
    store, params = context.store, context.params
    test = PreparedRows(store, "test")
    columns, task = originals_of(test), test.preparation.task
    calibrator = calibrator_of(store, params, learner, calibrator_hash)
    common = (store, params, learner, fitted, content_hash, calibrator)
    groups = [columns[k : k + AT_ONCE] for k in range(0, len(columns), AT_ONCE)]
    stage = Stage(context, f"importance:{learner}", None)
    records = stage.run(shuffle_columns, [Task(f"columns-{k:04d}", (*common, group)) for k, group in enumerate(groups)])
    measured_columns = [column_importance for record in records for column_importance in record["columns"]]
    measured = [key for key in importance_metrics(task) if any(each[key] is not None for each in measured_columns)]
    losses = [number_of(each[measured[-1]]) or 0.0 if measured else 0.0 for each in measured_columns]
    by_importance = sorted(range(len(losses)), key=lambda k: (-losses[k], k))
    first = [columns[k] for k in by_importance[:SHOWN] if losses[k] > 0]
    dependences = stage.run(depend, [Task(f"depends-{column.number:04d}", (*common, column)) for column in first])
    result: ImportanceResult = {
        "importance": [measured_columns[k] for k in by_importance],
        "importance_rows": min(ROWS, test.n_rows),
        "partial_dependence": [record["dependence"] for record in dependences],
    }
    return stage.finish(result)


def drawn(test: PreparedRows, params: Params, most: int) -> np.ndarray:
    """Draw at most `most` test rows by the seed; return their numbers, ascending."""
    if test.n_rows <= most:
        return np.arange(test.n_rows)
    numbers: np.ndarray = np.sort(
        generator(params.seed, seed_paths.IMPORTANCE).choice(test.n_rows, most, replace=False, shuffle=False)
    )
    return numbers


class Decided:
    """A learner's decisions on changed copies of some test rows."""

    def __init__(
        self, store: Store, params: Params, learner: str, fitted: Fitted | None, content_hash: str,
        calibrator: Calibrator | None, most: int,
    ) -> None:  # fmt: skip
        self.test = PreparedRows(store, "test")
        self.task = calibrated(params.decision_task(learner, self.test.preparation.task), calibrator)
        self.numbers = drawn(self.test, params, most)
        block = self.test.take(self.numbers)
        self.X, self.y = cast("Rows", block.rows), block.y
        self._model = load_decider(store, f"{MODELS}/{learner}", content_hash)
        self._partitions = None if fitted is None else fitted.load(store)

    @property
    def bytes_read(self) -> int:
        """Bytes of the rows that are held."""
        X = self.X
        return int(X.nbytes if isinstance(X, np.ndarray) else X.data.nbytes + X.indices.nbytes + X.indptr.nbytes)

    def decide(self, rows: np.ndarray, others: np.ndarray, features: Sequence[int]) -> np.ndarray:
        """Return the decisions, shape (n, K), on copies of n rows that have some features of n others.

        Only a block of the copies is there at a time, dense: words that are one-hot may have many features.
        """
        decisions: list[np.ndarray] = []
        for part in row_blocks(rows.size, ROW_COPIES * 8 * self.X.shape[1]):
            X = np.array(as_dense(self.X[rows[part]]))
            if features:
                X[:, list(features)] = as_dense(self.X[others[part]][:, list(features)])
            copies: Rows = X if self.test.preparation.dense else as_csr(X)
            if self._partitions is not None:
                copies = self._partitions.cells(copies, n_threads=1)
            decisions.append(self._model.decision_function(copies))
        return np.concatenate(decisions)

    def metrics(self, order: np.ndarray, features: Sequence[int]) -> dict[str, float]:
        """Return the metrics by which importance is measured, without those that have no value.

        Each row has some features of another one, in the order of their numbers.
        """
        decisions = self.decide(np.arange(self.y.size), order, features)
        metrics = accumulate(self.task, self.y, decisions).metrics()
        values = {key: number_of(metrics[key]) for key in importance_metrics(self.task)}
        return {key: float(value) for key, value in values.items() if value is not None}


def shuffle_columns(
    store: Store,
    params: Params,
    learner: str,
    fitted: Fitted | None,
    content_hash: str,
    calibrator: Calibrator | None,
    columns: Sequence[Original],
) -> ImportanceRecord:
    """Task: measure by how much the metrics get worse when each of some columns is shuffled."""
    decided = Decided(store, params, learner, fitted, content_hash, calibrator, ROWS)
    before = decided.metrics(np.arange(decided.y.size), [])
    measured_columns: list[JsonObject] = []
    for column in columns:
        worse: dict[str, list[float]] = {key: [] for key in before}
        for repeat in range(REPEATS):
            order = generator(params.seed, seed_paths.IMPORTANCE, column.number, repeat).permutation(decided.y.size)
            for key, value in decided.metrics(order, column.features).items():
                worse[key].append(before[key] - value)
        means = {key: float(np.mean(worse[key])) if key in worse else None for key in importance_metrics(decided.task)}
        spread = float(np.std(worse[list(worse)[-1]])) if worse else None
        measured_columns.append({"column": column.name, **means, "deviation": spread})
    return {"rows": decided.y.size, "bytes_read": decided.bytes_read, "columns": measured_columns}


def depend(
    store: Store,
    params: Params,
    learner: str,
    fitted: Fitted | None,
    content_hash: str,
    calibrator: Calibrator | None,
    column: Original,
) -> DependenceRecord:
    """Task: average the responses of the learner over copies of the rows with the same value in a column."""
    decided = Decided(store, params, learner, fitted, content_hash, calibrator, ROWS)
    values = original_values(decided.test, decided.numbers, column)
    rows = np.linspace(0, decided.y.size - 1, min(DEPENDENCE_ROWS, decided.y.size)).astype(np.int64)
    answers, points = [], []
    for at in chosen_rows(values, column.kind):
        points.append(shown_value(values[at], column.kind))
        answers.append(responses(decided.task, decided.decide(rows, np.full(rows.size, at), column.features)))
    names = list(answers[0]) if answers else []
    mean_responses = {name: [float(f"{answer[name].mean():.6g}") for answer in answers] for name in names}
    dependence: JsonObject = {"column": column.name, "kind": column.kind, "values": points, "responses": mean_responses}
    return {"rows": decided.y.size, "bytes_read": decided.bytes_read, "dependence": dependence}


def chosen_rows(values: np.ndarray, kind: str) -> list[int]:
    """Return rows whose values stand for the column: ascending and evenly spread, or the most frequent words first."""
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


def shown_value(value: float | str | None, kind: str) -> Json:
    """Return a value as JSON, for people."""
    if kind == CATEGORY:
        return "missing" if value is None else str(value)
    assert value is not None
    if kind == TIME:
        return datetime.fromtimestamp(float(value), UTC).strftime("%Y-%m-%d %H:%M")
    return float(value)
