"""Checks of the capabilities that a task has: each answers, row by row and in the shapes that callers expect."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ikmap.capability import capability
from ikmap.conformance import CheckFailed, json_values, member, true
from ikmap.json_values import Json
from ikmap.tasks.capabilities import (
    AlertsRows,
    Calibratable,
    Census,
    EncodesWords,
    HasClasses,
    KnowsLabels,
    LearnsFromSome,
    NeedsLoops,
    Thresholds,
    WeighsRows,
    WeightedScorer,
)
from ikmap.tasks.checks.common import (
    Case,
    Rows,
    SoftProbabilities,
    again,
    again_json,
    check_array,
    check_by_row,
    check_finite,
    decisions_for,
    near,
    rows_of,
    targets_of,
    unknown_rows,
)
from ikmap.tasks.checks.scores import check_probabilities
from ikmap.tasks.task import Task
from ikmap.tasks.weighted import WEIGHT

SOME = slice(10, 20)
"""Rows whose answers may not depend on the rows beside them."""


def checks_of_capabilities(case: Case) -> Iterator[tuple[str, Callable[[], None]]]:
    """Yield title and check of each capability that a task has."""
    for title, ability, check in (
        ("weights of rows", WeighsRows, _weights),
        ("compiled loops", NeedsLoops, _loops),
        ("alerts", AlertsRows, _alerts),
        ("census", Census, _census),
        ("rows to learn from", LearnsFromSome, _learned),
        ("labels without a target", KnowsLabels, _unseen),
        ("targets by which words are encoded", EncodesWords, _encoded),
        ("fewer classes", HasClasses, _narrowed),
        ("calibration", Calibratable, _calibrated),
        ("threshold", Thresholds, _threshold),
        ("metrics of weighted rows", WeightedScorer, _weighted),
    ):
        if capability(case.task, ability) is not None:
            yield title, lambda check=check: check(case)  # type: ignore[misc]


def of_task[C](task: Task, ability: type[C]) -> C:
    """Return the part of a task that has a capability."""
    part = capability(task, ability)
    if part is None:
        raise CheckFailed(f"found a task without {ability.__name__}")
    return part


def _weights(case: Case) -> None:
    rows, kind = rows_of(case), of_task(case.task, WeighsRows)
    with member(kind, "sample_weight"):
        weight = kind.sample_weight(case.task.codec, rows.target)
        check_array(weight, rows.n, "iuf", "weights")
        check_finite(weight, "weights")
        true((weight >= 0).all(), "found a weight below 0")
        check_by_row(weight, kind.sample_weight(case.task.codec, rows.target[SOME]), SOME, "weights")


def _loops(case: Case) -> None:
    kind = of_task(case.task, NeedsLoops)
    with member(kind, "loops"):
        words = kind.loops(case.task.codec)
        more = sorted(words - kind.all_loops)
        true(not more, f"found {more}, which all_loops does not have")


def _alerts(case: Case) -> None:
    rows, kind = rows_of(case), of_task(case.task, AlertsRows)
    with member(kind, "alerted"):
        alerted = kind.alerted(rows.decision)
        check_array(alerted, rows.n, "b", "mask")
        check_by_row(alerted, kind.alerted(rows.decision[SOME]), SOME, "alerts")


def _census(case: Case) -> None:
    rows, codec = rows_of(case), of_task(case.task, Census)
    with member(codec, "census"):
        parts = [codec.census(rows.target), *(codec.census(rows.target[some]) for some in rows.shards())]
        json_values(parts, "census")
        whole, *shards = [again_json(part) for part in parts]
    with member(codec, "counted"):
        fields = codec.counted([whole])
        json_values(fields, "fields")
        near(again(codec.counted(shards)), again(fields), "fields of three parts")
        undescribed = sorted(fields.keys() - case.task.kind.presenter.schema.rows.keys())
        true(not undescribed, f"found the fields {undescribed}, which schema.rows of the presenter does not describe")
    with member(codec, "missing"):
        missing = codec.missing(rows.target)
        true(missing == "", f'among all rows: found {missing!r}, expected ""')


def _learned(case: Case) -> None:
    targets, codec = targets_of(case), of_task(case.task, LearnsFromSome)
    with member(codec, "learned"):
        mask = codec.learned(targets)
        if mask is not None:
            check_array(mask, targets.size, "b", "mask")
            true(mask.any(), "found no row to learn from")
            some = codec.learned(targets[SOME])
            if some is None:
                raise CheckFailed(f"found None for rows {SOME.start} to {SOME.stop - 1}, expected a mask as for all")
            check_by_row(mask, some, SOME, "mask")


def _unseen(case: Case) -> None:
    codec = of_task(case.task, KnowsLabels)
    unknown = unknown_rows(case.task.codec, targets_of(case))
    with member(codec, "unseen_labels"):
        labels = codec.unseen_labels([case.part])
        json_values(labels, "labels")
        true(bool(labels) == bool(unknown.any()), f"found {labels}, and {unknown.sum()} rows without a target")


def _encoded(case: Case) -> None:
    rows, codec = rows_of(case), of_task(case.task, EncodesWords)
    with member(codec, "encoding_outputs"):
        names, unit = codec.encoding_outputs()
        true(all(isinstance(name, str) for name in names), f"found {names}, expected suffixes of names")
        true(np.isfinite(unit) and unit > 0, f"found {unit}, expected the value that a 1 stands for")
    if not names:
        return
    with member(codec, "encoding_targets"):
        numbers = codec.encoding_targets(rows.target)
        expected = (rows.n, len(names))
        true(numbers.shape == expected, f"found the shape {numbers.shape}, expected {expected}")
        true(numbers.dtype == np.int64, f"found {numbers.dtype}, expected int64")
        check_by_row(numbers, codec.encoding_targets(rows.target[SOME]), SOME, "numbers")


def _narrowed(case: Case) -> None:
    rows, kind = rows_of(case), of_task(case.task, HasClasses)
    left = rows.target[rows.target != rows.target.max()]
    with member(kind, "narrowed"):
        fewer = kind.narrowed(case.task, left)
        check_array(fewer.targets, left.size, "iu", "targets")
        if fewer.constant is not None:
            return  # there is nothing to learn
        small = decisions_for(fewer.task, fewer.targets)
        wide = fewer.decisions(small)
        expected = (left.size, case.task.decisions.outputs)
        true(wide.shape == expected, f"decisions: found the shape {wide.shape}, expected {expected}")
        predicted = fewer.predictions(fewer.task.decisions.predict(small))
        check_array(predicted, left.size, "iu", "predictions")
        true(np.isin(predicted, left).all(), "predictions: found a class that is not among the rows")
        true((case.task.decisions.predict(wide) == predicted).all(), "decisions: predict others than predictions()")


def _calibrated(case: Case) -> None:
    rows, kind = rows_of(case), of_task(case.task, Calibratable)
    with member(kind, "evidence"):
        parts = [kind.evidence(case.task, rows.target[some], rows.decision[some]) for some in rows.shards()]
        total = parts[0] + parts[1] + parts[2]
        true(total.rows == rows.n, f"sum of the evidence: found {total.rows} rows, expected {rows.n}")
        records: list[Json] = [part.as_json() for part in parts]
        json_values(records, "record of the evidence")
    with member(kind, "evidence_from"):
        given_back = kind.evidence_from(case.task, [again_json(record) for record in records])
        true(given_back.rows == rows.n, f"evidence of records: found {given_back.rows} rows, expected {rows.n}")
        none = kind.evidence_from(case.task, [])
        true(none.rows == 0, f"evidence of no records: found {none.rows} rows, expected 0")
    with member(kind, "calibrated"):
        task = kind.calibrated(case.task, None)
        true(isinstance(task, Task), f"found a {type(task).__name__}, expected an ikmap.tasks.Task")
        task = kind.calibrated(case.task, SoftProbabilities())
        probability = task.decisions.probabilities(rows.decision)
        if probability is None:
            raise CheckFailed("found decisions without probabilities, though the calibration has some")
        check_probabilities(probability, rows.n, len(task.codec.classes))


def _threshold(case: Case) -> None:
    kind = of_task(case.task, Thresholds)
    with member(kind, "threshold_refusal"):
        refusal = kind.threshold_refusal(case.task.codec)
        true(isinstance(refusal, str), f"found {refusal!r}, expected text")
    with member(kind, "most_evidence"):
        most = kind.most_evidence(case.task)
        true(most is None or most > 0, f"found {most!r}, expected a number of rows or None")


def _weighted(case: Case) -> None:
    rows, scorer = rows_of(case), of_task(case.task, WeightedScorer)
    with member(scorer, "weighted_terms"):
        terms = scorer.weighted_terms(rows.target, rows.decision)
        for name, values in terms.items():
            check_array(values, rows.n, "bf", name)
            check_finite(values, name)
            some = scorer.weighted_terms(rows.target[SOME], rows.decision[SOME])
            true(name in some, f"found no term {name!r} of some rows alone")
            check_by_row(values, some[name], SOME, name)
        sums = {WEIGHT: float(rows.n), **{name: float(values.sum()) for name, values in terms.items()}}
    with member(scorer, "weighted_metrics"):
        metrics = scorer.weighted_metrics(sums)
        json_values(metrics, "metrics")
        key = case.task.kind.presenter.metric.key
        true(key in metrics, f"found {', '.join(metrics)}, expected the main metric {key!r} too")


def calibrated_rows(rows: Rows) -> Rows:
    """Return the same rows in the task with probabilities, if its decisions can be calibrated."""
    kind = capability(rows.task, Calibratable)
    if kind is None:
        return rows
    with member(kind, "calibrated"):
        return Rows(kind.calibrated(rows.task, SoftProbabilities()), rows.target, rows.decision)
