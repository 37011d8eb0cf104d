"""Checks of decisions and of a scorer, whose states add up over shards."""

from __future__ import annotations

import pickle

import numpy as np

from ikmap.conformance import CheckFailed, json_values, member, true
from ikmap.tasks.checks.common import (
    Case,
    N,
    Rows,
    again,
    again_json,
    check_array,
    check_by_row,
    near,
    rows_of,
)
from ikmap.tasks.task import MetricState

COLUMN_KINDS = {"int64": "iu", "float64": "f", "string": "UO", "bool": "b"}
"""Kinds of the arrays for each type of column that scoring writes."""


def check_decisions(case: Case) -> None:
    """Refuse decisions whose predictions and columns have other shapes or types than they say."""
    rows = rows_of(case)
    decisions, some = rows.task.decisions, slice(10, 20)
    with member(decisions, "predict"):
        predicted = decisions.predict(rows.decision)
        check_array(predicted, rows.n, "biuf", "predictions")
        expected = np.dtype(decisions.dtype)
        true(predicted.dtype == expected, f"predictions: found {predicted.dtype}, expected {expected} as dtype says")
        check_by_row(predicted, decisions.predict(rows.decision[some]), some, "predictions")
    with member(decisions, "columns"):
        columns = decisions.columns
        true(columns, "found no columns, expected the prediction at least")
        for name, kind in columns.items():
            true(kind in COLUMN_KINDS, f"{name}: found {kind!r}, expected one of {', '.join(COLUMN_KINDS)}")
    with member(decisions, "values"):
        values = decisions.values(rows.decision)
        true(list(values) == list(columns), f"found {list(values)}, expected {list(columns)} as columns says")
        for name, array in values.items():
            check_array(array, rows.n, COLUMN_KINDS[columns[name]], name)
    with member(decisions, "probabilities"):
        probability = decisions.probabilities(rows.decision)
        if probability is not None:
            check_probabilities(probability, rows.n, len(rows.task.codec.classes))


def check_probabilities(probability: np.ndarray, n: int, classes: int) -> None:
    """Refuse numbers that are not the probabilities of the classes of n rows."""
    true(probability.shape == (n, classes), f"found the shape {probability.shape}, expected ({n}, {classes})")
    inside = np.isfinite(probability).all() and (probability >= 0).all() and (probability <= 1).all()
    true(inside, "found probabilities outside [0, 1]")
    true(np.allclose(probability.sum(axis=1), 1.0), "found probabilities of a row that do not sum up to 1")


def state_of(rows: Rows, some: slice | None = None, numbered: bool = True) -> MetricState:
    """Return the state of rows, or of some of them."""
    scorer, some = rows.task.scorer, slice(0, rows.n) if some is None else some
    numbers = np.arange(rows.n, dtype=np.int64)[some] if numbered else None
    with member(scorer, "accumulate"):
        state = scorer.accumulate(rows.target[some], rows.decision[some], numbers)
    with member(state, "rows"):
        count = some.stop - some.start
        true(state.rows == count, f"found {state.rows}, expected {count}")
    return state


def metrics_of(state: MetricState) -> dict[str, object]:
    """Return the metrics of a state, which are JSON values."""
    with member(state, "metrics"):
        metrics = state.metrics()
        json_values(metrics, "metrics")
        return dict(again(metrics))


def restored(rows: Rows, state: MetricState) -> MetricState:
    """Return the state that a record gives back."""
    with member(state, "as_json"):
        record = state.as_json()
        json_values(record, "record of the state")
    with member(rows.task.scorer, "state_from"):
        return rows.task.scorer.state_from(again_json(record))


def no_rows(rows: Rows) -> MetricState:
    """Return the state of no rows."""
    with member(rows.task.scorer, "state_from"):
        state = rows.task.scorer.state_from(None)
        true(state.rows == 0, f"the state of no rows, state_from(None): found {state.rows} rows, expected 0")
        return state


def check_scorer(case: Case) -> None:
    """Refuse a scorer whose states of shards do not add up to the state of all rows."""
    rows = rows_of(case)
    whole = state_of(rows)
    expected = metrics_of(whole)
    metrics_of(state_of(rows, numbered=False))
    shards = [state_of(rows, some) for some in rows.shards()]
    first, second, third = shards
    before = again_json(first.as_json())
    with member(whole, "__add__"):
        sums = {
            "a state and that of no rows": no_rows(rows) + whole,
            "shards in their order": first + second + third,
            "shards in reverse order": third + second + first,
            "shards, the last two first": first + (second + third),
        }
        true(again_json(first.as_json()) == before, "changes a state that it adds to, expected a new state")
        for title, state in sums.items():
            true(state.rows == rows.n, f"sum of {title}: found {state.rows} rows, expected {rows.n}")
            near(metrics_of(state), expected, f"metrics of the sum of {title}")
    with member(rows.task.scorer, "state_from"):
        near(metrics_of(restored(rows, whole)), expected, "metrics of the state that a record gives back")
        state = restored(rows, first) + restored(rows, second) + restored(rows, third)
        near(metrics_of(state), expected, "metrics of the sum of states that records give back")
    with member(whole, "as_json"):
        near(metrics_of(pickle.loads(pickle.dumps(whole))), expected, "metrics of a pickled state")


def check_main_metric(case: Case) -> None:
    """Refuse metrics without the main metric, or with fields that the schema does not describe."""
    rows, kind = rows_of(case), case.task.kind
    whole = state_of(rows)
    metrics = metrics_of(whole)
    with member(kind, "presenter"):
        presenter = kind.presenter
    with member(presenter, "metric"):
        key = presenter.metric.key
    with member(whole, "metrics"):
        true(key in metrics, f"found {', '.join(metrics)}, expected the main metric {key!r} of the presenter too")
        value = metrics[key]
        if not isinstance(value, int | float):
            raise CheckFailed(f"{key} of {N} rows: found {value!r}, expected a number")
        undescribed = sorted(metrics.keys() - presenter.schema.learner.keys() - {key})
        true(not undescribed, f"found {undescribed}, which schema.learner of the presenter does not describe")
    empty = no_rows(rows)
    none = metrics_of(empty)
    with member(empty, "metrics"):
        true(none.get(key) is None, f"{key} of no rows: found {none.get(key)!r}, expected None")
