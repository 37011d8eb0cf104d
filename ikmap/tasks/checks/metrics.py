"""Checks of a metric: scores of rows that add up, and a value that gets better as they do."""

from __future__ import annotations

import numpy as np

from ikmap.capability import capability
from ikmap.conformance import CheckFailed, json_values, member, true
from ikmap.tasks.capabilities import HasClasses
from ikmap.tasks.checks.abilities import calibrated_rows
from ikmap.tasks.checks.common import (
    Case,
    Rows,
    cases_of,
    check_array,
    check_by_row,
    check_finite,
    decisions_for,
    rows_of,
)
from ikmap.tasks.criteria import ComparesRows, Criterion, OfSums, adds_up
from ikmap.tasks.exact_sums import ExactSum
from ikmap.tasks.metric import Metric, Sentences
from ikmap.tasks.registry import TASKS
from ikmap.tasks.task import TaskKind

UNITS = ("share", "number")


def kinds_with(criterion: type[Criterion]) -> list[TaskKind]:
    """Return the registered kinds of task that have a metric."""
    return [kind for kind in TASKS.values() if criterion.tasks & _names(kind)]


def _names(kind: TaskKind) -> set[str]:
    """Return the name of a kind of task, and those of the kinds that it is derived from."""
    return {str(vars(ancestor)["name"]) for ancestor in type(kind).__mro__ if "name" in vars(ancestor)}


def check_described(criterion: type[Criterion]) -> None:
    """Refuse a metric that is not described, or that no registered task has."""
    with member(criterion, "metric"):
        metric = criterion.metric
        if not isinstance(metric, Metric):
            raise CheckFailed(f"found {metric!r}, expected an ikmap.tasks.Metric")
        is_word = metric.key == metric.key.lower() and metric.key.isidentifier()
        true(is_word, f"key: found {metric.key!r}, expected a word in lower case")
        true(metric.unit in UNITS, f"unit: found {metric.unit!r}, expected one of {', '.join(UNITS)}")
        true(isinstance(metric.sentences, Sentences), f"sentences: found {metric.sentences!r}, expected Sentences")
        sentences = metric.sentences
        for name in ("of_test", "of_stream", "so_far", "lead", "lead_of_stream", "table"):
            text = getattr(sentences, name)
            try:
                shown = text.format(rows="12 test rows", which="at random", value="0.5")
            except (KeyError, IndexError, ValueError) as error:
                raise CheckFailed(
                    f"sentences, {name}: found {error} in {text!r}, expected {{rows}} or {{value}}"
                ) from None
            true(shown.strip(), f"sentences, {name}: found no words")
    with member(criterion, "tasks"):
        tasks = criterion.tasks
        true(isinstance(tasks, frozenset), f"found {tasks!r}, expected a frozenset of names of tasks")
        true(kinds_with(criterion), f"found {', '.join(sorted(tasks))}, expected some of {', '.join(TASKS)}")


def check_metric(criterion: type[Criterion], case: Case) -> None:
    """Refuse a metric whose scores of rows do not add up, or whose value gets worse as they get larger."""
    rows = calibrated_rows(rows_of(case))
    metric = criterion(rows.task)
    values, scores = _scores(metric, rows)
    if isinstance(metric, OfSums):
        with member(metric, "terms"):
            terms = metric.terms(rows.target, values)
            true(terms.ndim == 2 and len(terms) == rows.n, f"found shape {terms.shape}, expected ({rows.n}, k)")
            for some in rows.shards():
                check_by_row(terms, metric.terms(rows.target[some], values[some]), some, "terms")
        with member(metric, "value"):
            json_values(metric.value(terms.sum(axis=0), rows.n), "value")
    if adds_up(metric) and not isinstance(metric, ComparesRows):
        with member(metric, "row_scores"):
            total = ExactSum()
            for some in rows.shards():
                part = metric.row_scores(rows.target[some], values[some])
                check_by_row(scores, part, some, "scores")
                total = total + ExactSum.of(part)
            true(total == ExactSum.of(scores), "sums of the scores of shards do not add up to that of all rows")
    total_score = float(ExactSum.of(scores))
    value = _value(metric, total_score, rows.n)
    with member(metric, "score"):
        if metric.metric.unit == "share":
            true(0 <= value <= 1, f"found {value}, expected a share in [0, 1]")
        worse, better = sorted((total_score, total_score / 2))
        if worse < better:
            low, high = _value(metric, worse, rows.n), _value(metric, better, rows.n)
            rises = high > low if metric.metric.higher_is_better else high < low
            words = "a higher" if metric.metric.higher_is_better else "a lower"
            true(
                rises, f"found {high} for larger scores, and {low} for smaller ones, expected {words} value for larger"
            )
    with member(metric, "spread"):
        spread = metric.spread(scores)
        json_values(float(spread), "spread")
        true(spread >= 0, f"found {spread}, expected half the width of an interval")
    _check_among(metric, rows)


def _scores(metric: Criterion, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """Return the values that a metric scores, and the score of each row."""
    with member(metric, "scored_values"):
        values = metric.scored_values(rows.decision)
        true(len(values) == rows.n, f"found {len(values)} values, expected one for each of {rows.n} rows")
    with member(metric, "row_scores"):
        scores = metric.row_scores(rows.target, values)
        check_array(scores, rows.n, "bf", "scores")
        check_finite(scores, "scores")
    return values, scores


def _value(metric: Criterion, total: float, n: int) -> float:
    """Return the value of a metric, a finite number."""
    with member(metric, "score"):
        value = float(metric.score(total, float(n)))
        true(
            np.isfinite(value), f"found {value} for scores that add up to {total} of {n} rows, expected a finite number"
        )
        return value


def _check_among(metric: Criterion, rows: Rows) -> None:
    """Refuse a metric that cannot score a fold in which a class is missing."""
    targets = rows.target
    if capability(rows.task, HasClasses) is not None:
        targets = targets[targets != targets.max()]
    with member(metric, "among"):
        narrowed = metric.among(targets)
        if narrowed.constant is not None:
            values = np.repeat(narrowed.constant, targets.size, axis=0)
        else:
            decision = decisions_for(narrowed.task, narrowed.targets)
            values = narrowed.widen(narrowed.criterion.scored_values(decision))
        true(len(values) == targets.size, f"found {len(values)} values, expected one for each of {targets.size} rows")
    with member(metric, "row_scores"):
        scores = metric.row_scores(targets, values)
        check_array(scores, targets.size, "bf", "scores of rows among which a class is missing")
        check_finite(scores, "scores of rows among which a class is missing")


def cases_with(criterion: type[Criterion]) -> list[Case]:
    """Return the label sets that the kinds of task of a metric take."""
    return [case for kind in kinds_with(criterion) for case in cases_of(kind)]
