"""Regression as a task: what labels mean, exact figures that add up, and when auto chooses it."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import mean_absolute_error, mean_squared_error, r2_score

from ikmap.methods import LEARNERS
from ikmap.tasks import (
    BY_LABELS,
    CLASSIFICATION,
    REGRESSION,
    TASKS,
    BadLabel,
    Classification,
    LabelRequest,
    Regression,
    Task,
    TaskKind,
    criterion_of,
    task_by_labels,
    task_from,
    task_named,
)
from ikmap.tasks.capabilities import census_of, counted, settled, stored_targets, unseen_labels
from ikmap.tasks.exact_sums import ExactSum
from ikmap.tasks.regression.codec import NumberCodec
from ikmap.tasks.scoring import accumulate, state_from, total


def find(kind: TaskKind, *parts: np.ndarray) -> Task:
    return kind.find([json.loads(json.dumps(kind.read(part, part.size)[1])) for part in parts], LabelRequest())


def numbers(n: int = 3000, seed: int = 0) -> np.ndarray:
    return 1e5 + np.exp(np.random.default_rng(seed).normal(size=n)).round(3)


@pytest.mark.parametrize("scale", [1.0, 1e140, 1e-140])
def test_exact_sums(scale: float) -> None:
    rng = np.random.default_rng(0)
    values = scale * rng.normal(size=400) * 10.0 ** rng.integers(-8, 8, size=400)
    fractions = [Fraction(v) for v in values.tolist()]
    assert ExactSum.of(values).fraction == sum(fractions)
    squares = sum(v * v for v in fractions)
    found = ExactSum.of_squares(values).fraction
    assert found == squares if scale >= 1 else abs(found - squares) < squares * Fraction(1e-12)
    for whole in (ExactSum.of(values), ExactSum.of(-np.abs(values)), ExactSum.of(values[:0])):
        assert ExactSum.from_json(json.loads(json.dumps(whole.as_json()))) == whole
    assert ExactSum.of(values[:77]) + ExactSum.of(values[77:]) == ExactSum.of(values)
    assert float(ExactSum.of(np.array([1e100, 1.0, -1e100]))) == 1.0


def test_what_labels_mean() -> None:
    y = numbers()
    whole = find(REGRESSION, y)
    codec = whole.codec
    assert isinstance(codec, NumberCodec)
    # However the rows are cut, and also where they were stored before it was known that they are numbers.
    assert find(REGRESSION, y[:1], y[1:2000], y[2000:], y[:0]) == whole
    assert find(BY_LABELS, y[:500], y[500:]) == whole
    assert codec.mean == pytest.approx(y.mean(), rel=1e-15)
    assert codec.deviation == pytest.approx(y.std(), rel=1e-9)
    assert len(codec.deciles) < 9  # all labels lie in few of the bins in which deciles are found
    few = y[:2999] - 1e5
    near = find(REGRESSION, few).codec
    assert isinstance(near, NumberCodec)
    # Each is at most a thousandth above the number that so many rows do not exceed.
    exact = np.quantile(few, np.arange(1, 10) / 10, method="inverted_cdf")
    assert (near.deciles >= exact).all()
    assert (near.deciles <= exact * (1 + 2**-10)).all()
    assert task_from(json.loads(json.dumps(whole.as_json()))) == whole
    for kind in (REGRESSION, BY_LABELS):
        stored, found = kind.read(y[:90], 90)
        assert np.array_equal(codec.targets(stored, found), y[:90])
    assert np.array_equal(settled(whole).codec.targets(*stored_targets(whole, y)), y)
    assert np.array_equal(codec.encode(y, y.size), y)
    assert codec.unknown(codec.encode(None, 2)).all()
    assert whole.decisions.columns == {"prediction": "float64"}
    assert (codec.classes, whole.decisions.outputs) == ([], 1)
    assert counted(whole, [census_of(whole, y[:9]), census_of(whole, y[:0]), census_of(whole, y[9:])]) == {
        "target_range": [y.min(), y.max()]
    }


def test_figures_are_exact_and_add_up() -> None:
    y = numbers()
    task = find(REGRESSION, y)
    predicted = y + np.random.default_rng(1).normal(size=y.size)
    decision = predicted[:, None]
    whole: Any = accumulate(task, y, decision).metrics()
    assert whole["r2"] == pytest.approx(r2_score(y, predicted), rel=1e-9)
    assert whole["rmse"] == pytest.approx(mean_squared_error(y, predicted) ** 0.5, rel=1e-12)
    assert whole["mae"] == pytest.approx(mean_absolute_error(y, predicted), rel=1e-12)
    cuts = [slice(0, 1), slice(1, 900), slice(900, None)]
    kept = [json.loads(json.dumps(accumulate(task, y[cut], decision[cut]).as_json())) for cut in cuts]
    assert total(task, kept).metrics() == whole
    assert total(task, kept).rows == y.size
    assert sum(group["rows"] for group in whole["by_decile"]) == y.size
    off = y - predicted
    middle, share = (np.array(whole["residuals"][key]) for key in ("middle", "share"))
    assert share.sum() == pytest.approx(1)
    assert (middle * share).sum() == pytest.approx(off.mean(), abs=0.02)
    assert ((middle**2) * share).sum() == pytest.approx(off.var(), rel=0.05)
    assert np.mean(np.abs(off) > middle[-1]) == pytest.approx(0.01, abs=0.003)
    none = state_from(task, None).metrics()
    assert (none["r2"], none["rmse"], none["by_decile"]) == (None, None, [])
    same = accumulate(task, y[:1], decision[:1]).metrics()
    assert same["r2"] is None
    assert same["rmse"] == pytest.approx(abs(off[0]), rel=1e-9)


def test_figures_of_each_tenth() -> None:
    y = numbers() - 1e5
    predicted = y + np.random.default_rng(1).normal(size=y.size)
    task, off = find(REGRESSION, y), y - predicted
    assert isinstance(task.codec, NumberCodec)
    whole: Any = accumulate(task, y, predicted[:, None]).metrics()
    assert len(whole["by_decile"]) == 10
    of_row = np.searchsorted(task.codec.deciles, y)
    for k, group in enumerate(whole["by_decile"]):
        part = of_row == k
        means = {"target": y[part].mean(), "prediction": predicted[part].mean(), "mae": np.abs(off[part]).mean()}
        expected = {"rows": part.sum(), **means, "rmse": np.mean(off[part] ** 2) ** 0.5}
        assert group == pytest.approx(expected, rel=1e-9)


def test_scores_of_rows_add_up_to_r2() -> None:
    y = numbers()
    task = find(REGRESSION, y)
    predicted = y + np.random.default_rng(1).normal(size=y.size)
    criterion = criterion_of(task)
    scores = criterion.row_scores(y, predicted)
    found = float(criterion.score(scores.sum(), y.size))
    assert found == pytest.approx(r2_score(y, predicted), rel=1e-6)
    means = [criterion.score(part.sum(), part.size) for part in np.array_split(scores, 30)]
    assert criterion.spread(scores[:100]) == pytest.approx(1.96 * np.std(means), rel=0.5)


@pytest.mark.parametrize(
    ("labels", "row", "message"),
    [
        ([1.0, np.inf], 1, "^found target inf, expected a finite number$"),
        ([np.nan], 0, "^found target nan, expected a finite number$"),
        ([1.0, 2.0, -1e200], 2, r"^found target -1e\+200, expected a number of at most 1e\+150$"),
        (["1.5", "two"], 1, "^found target 'two', expected a finite number$"),
    ],
)
def test_labels_that_are_no_targets(labels: list[Any], row: int, message: str) -> None:
    y = np.array(labels, dtype=object if isinstance(labels[0], str) else float)
    with pytest.raises(BadLabel, match=message) as raised:
        REGRESSION.read(y, y.size)
    assert raised.value.row == row


def test_a_target_that_never_changes() -> None:
    with pytest.raises(ValueError, match=r"^found the same target 3 in all rows, expected numbers that differ; "):
        find(REGRESSION, np.full(9, 3.0))
    task = find(REGRESSION, numbers())
    with pytest.raises(
        ValueError, match=r"^found the same target 3 in all training rows, expected numbers that differ"
    ):
        counted(task, [census_of(task, np.full(9, 3.0))])


def test_what_auto_means() -> None:
    assert task_named("regression") is REGRESSION
    served = [one for one in TASKS.values() if one.name in LEARNERS["ogd"].about.tasks]
    assert task_by_labels(served, two_class=False) is BY_LABELS
    assert task_by_labels(served, two_class=True) is CLASSIFICATION
    assert task_by_labels([REGRESSION], two_class=False) is REGRESSION
    assert task_by_labels([], two_class=False) is CLASSIFICATION
    halves = np.arange(30) / 2
    assert isinstance(find(BY_LABELS, halves).kind, Regression)
    # Found in all rows, however they are cut: a block of whole numbers says nothing.
    assert isinstance(find(BY_LABELS, np.arange(2.0), halves).kind, Regression)
    assert isinstance(find(BY_LABELS, np.arange(2000.0), halves).kind, Regression)
    assert isinstance(find(BY_LABELS, np.arange(100.0).repeat(5)).kind, Classification)
    assert isinstance(find(BY_LABELS, np.arange(101.0)).kind, Regression)
    assert isinstance(find(BY_LABELS, np.arange(60.0), np.arange(50.0, 110.0)).kind, Regression)
    assert isinstance(find(BY_LABELS, np.arange(2000.0)).kind, Regression)
    assert isinstance(find(BY_LABELS, np.array([0.5, 1.0])).kind, Regression)
    assert isinstance(find(BY_LABELS, np.array([f"a{k}" for k in range(200)], dtype=object)).kind, Classification)


def test_whole_numbers_of_few_rows_each_are_no_classes() -> None:
    """Nobody knows how many rows a stream has that began with so few of each."""
    prices = np.arange(80.0)
    assert isinstance(find(BY_LABELS, prices).kind, Regression)
    assert isinstance(find(BY_LABELS, prices.repeat(5)[:-1]).kind, Regression)
    assert isinstance(find(BY_LABELS, *[prices] * 5).kind, Classification)
    assert isinstance(find(BY_LABELS, np.arange(11.0)).kind, Regression)
    assert isinstance(find(BY_LABELS, np.arange(10.0)).kind, Classification)
    assert isinstance(find(CLASSIFICATION, prices).kind, Classification)
    _, part = BY_LABELS.read(prices, prices.size)
    assert isinstance(BY_LABELS.find([part], LabelRequest(initial=True)).kind, Classification)


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (
            np.arange(3.0),
            "labels: 3 different numbers, all whole, taken as classes; to predict them as numbers, give --",
        ),
        (
            np.array([0.5, 1.0]),
            "labels: 2 different numbers, not all whole, taken as numbers to predict; if they are c",
        ),
        (
            np.arange(5000.0),
            "labels: more than 1,000 different numbers, all whole, taken as numbers to predict; if the",
        ),
        (
            np.arange(80.0),
            "labels: 80 different numbers, all whole, fewer than 5 rows for each on average, taken as numbers to pr",
        ),
        (np.array(["a", "b"], dtype=object), "labels: 2 different words, taken as classes"),
    ],
)
def test_what_is_said_of_labels_that_tell_the_task(labels: np.ndarray, said: str) -> None:
    _, found = BY_LABELS.read(labels, labels.size)
    assert BY_LABELS.reason([found], BY_LABELS.find([found], LabelRequest()).kind).startswith(said)


def test_targets_too_large_to_square_are_refused_where_labels_tell_the_task() -> None:
    with pytest.raises(ValueError, match=r"found target 5e\+180, expected a number of at most 1e\+150"):
        find(BY_LABELS, np.r_[np.arange(40) + 0.5, 5e180])


def test_text_after_numbers_is_no_target() -> None:
    task = find(REGRESSION, numbers())
    _, found = BY_LABELS.read(np.array(["a", "b"], dtype=object), 2)
    assert unseen_labels(task, [found]) == ["a", "b"]
