"""Figures of classifiers against scikit-learn, however rows are grouped; calibration, thresholds, searches."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy.special import expit
from sklearn import metrics
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from ikmap.tasks import CLASSIFICATION, REGRESSION, Task, criterion_of
from ikmap.tasks.capabilities import calibrated
from ikmap.tasks.classification.calibration import LOG_ODDS, fit_calibrator, isotonic, platt, soft_maximum
from ikmap.tasks.classification.class_scores import ClassScores, bits_for
from ikmap.tasks.classification.threshold import Threshold
from ikmap.tasks.score_histogram import bins_of, lower_edge, upper_edge
from ikmap.tasks.scoring import accumulate, total
from tests.support.narrow import entries, items, number


def rows(n: int = 4000, classes: int = 2, seed: int = 0) -> tuple[Task, np.ndarray, np.ndarray]:
    """A task, targets, and decisions that say something of them."""
    rng = np.random.default_rng(seed)
    target = np.minimum(rng.integers(classes + 1, size=n), classes - 1).astype(np.int32)
    if classes == 2:
        decision = (1.5 * target - 1 + rng.normal(size=n))[:, None]
    else:
        decision = rng.normal(size=(n, classes)) + 1.5 * (target[:, None] == np.arange(classes))
    return CLASSIFICATION.of([f"c{k}" for k in range(classes)]), target, decision


def test_the_interval_of_an_accuracy() -> None:
    """Half of 95 % of a normal one: of right and wrong rows by their share, of weighed ones by their deviation."""
    task, _, _ = rows()
    right = np.arange(100) < 80
    assert criterion_of(task).spread(right) == pytest.approx(1.96 * 0.4 / 10)
    assert criterion_of(task).spread(right * 1.0) == pytest.approx(1.96 * 0.4 / 10)
    assert criterion_of(task).spread(np.array([0.0, 3.0, 3.0, 0.0])) == pytest.approx(1.96 * 1.5 / 2)


def test_edges_of_bins() -> None:
    for value in (0.0, -0.0, 1e-310, 1.0, -1.0, 3.7, -3.7, 1e300, -1e300):
        number = int(bins_of(np.array([value]), 10)[0])
        low, high = lower_edge(number, 10), upper_edge(number, 10)
        assert low <= value <= high
        assert bins_of(np.array([low, high]), 10).tolist() == [number] * 2
        assert bins_of(np.array([np.nextafter(low, -np.inf)]), 10)[0] == number - 1 or low == 0.0


@pytest.mark.parametrize("classes", [2, 3, 4, 5, 7])
def test_figures_are_those_of_scikit_learn(classes: int) -> None:
    task, target, decision = rows(classes=classes)
    task = calibrated(task, fit_calibrator("log-odds"))
    found = accumulate(task, target, decision).metrics()
    predicted, probability = task.decisions.predict(decision), task.decisions.probabilities(decision)
    assert probability is not None
    average = "binary" if classes == 2 else "macro"
    own = np.eye(classes)[target]
    ranks: Any = (target, decision[:, 0]) if classes == 2 else (own, decision)
    expected = {
        "accuracy": metrics.accuracy_score(target, predicted),
        "balanced_accuracy": metrics.balanced_accuracy_score(target, predicted),
        "f1": metrics.f1_score(target, predicted, average=average),
        "log_loss": metrics.log_loss(target, probability),
        "brier": ((probability[:, 1] - target) ** 2).mean()
        if classes == 2
        else ((probability - own) ** 2).sum(axis=1).mean(),
    }
    assert {key: found[key] for key in expected} == pytest.approx(expected, abs=1e-9)
    recall = metrics.recall_score(target, predicted, average=None)
    assert found["recall"] == pytest.approx(recall.tolist())
    assert found["precision"] == pytest.approx(metrics.precision_score(target, predicted, average=None).tolist())
    area = metrics.roc_auc_score(*ranks, average="macro")
    assert 0 < number(found["roc_auc_error"]) < 2e-3
    assert abs(number(found["roc_auc"]) - area) <= number(found["roc_auc_error"])
    assert found["average_precision"] == pytest.approx(
        metrics.average_precision_score(*ranks, average="macro"), abs=2e-3
    )
    curves = entries(found.get("curves", {}))
    assert len(curves) == (1 if classes == 2 else classes if classes <= 4 else 0)
    for curve in curves.values():
        x, y = np.array(curve["roc"]).T
        assert (x[0], y[0], x[-1], y[-1]) == (0, 0, 1, 1)
        assert (np.diff(x) >= 0).all()
        assert (np.diff(y) >= 0).all()
    json.dumps(found)


@pytest.mark.parametrize("classes", [2, 3])
def test_figures_add_up_in_any_grouping(classes: int) -> None:
    task, target, decision = rows(600, classes)
    task = calibrated(task, fit_calibrator("log-odds"))
    whole = accumulate(task, target, decision, np.arange(600)).metrics()
    assert items(whole["worst"]) == sorted(items(whole["worst"]), key=lambda row: (-row["off"], row["row"]))
    assert {(row["true"], row["predicted"]) for row in items(whole["worst"])} <= {
        (a, b) for a in task.codec.classes for b in task.codec.classes if a != b
    }
    for cuts in ([0, 1, 7, 600], [0, 599, 600], list(range(0, 601, 50))):
        parts = [
            json.loads(json.dumps(accumulate(task, target[a:b], decision[a:b], np.arange(a, b)).as_json()))
            for a, b in pairwise(cuts)
        ]
        assert total(task, parts).metrics() == whole
    assert total(task, []).metrics()["log_loss"] is None


def test_figures_without_probabilities_or_of_one_class() -> None:
    task, target, decision = rows(50)
    found = accumulate(task, target, decision).metrics()
    assert {found[key] for key in ("log_loss", "brier", "calibration_error", "calibration_chance")} == {None}
    assert task.decisions.columns == {"prediction": "string", "score": "float64"}
    found = accumulate(task, np.zeros(50, dtype=np.int32), decision).metrics()
    assert (found["roc_auc"], found["average_precision"], items(found["recall"])[1]) == (None, None, None)
    assert "curves" not in found


def test_the_worst_rows_are_furthest_on_the_wrong_side() -> None:
    """Of the threshold, or of the decision for their class; by their number where they are as far."""
    target, decision = np.array([0, 1, 1, 0, 1], dtype=np.int32), np.array([[3.0], [-0.5], [0.25], [2.0], [-2.0]])

    def worst(task: Task, decision: np.ndarray) -> list[tuple[int, float]]:
        found: Any = accumulate(task, target, decision, np.arange(10, 15)).metrics()
        return [(row["row"], row["off"]) for row in found["worst"]]

    task = CLASSIFICATION.of(["a", "b"])
    assert worst(task, decision) == [(10, 3.0), (13, 2.0), (14, 2.0), (11, 0.5)]
    reading = fit_calibrator("none", ClassScores.of(target, decision), Threshold.parse("recall:1"))
    assert reading.threshold == pytest.approx(-2.0, abs=2e-3)
    assert worst(calibrated(task, reading), decision) == [(10, 3.0 - reading.threshold), (13, 2.0 - reading.threshold)]
    three = np.column_stack([np.zeros(5), decision[:, 0], np.full(5, -1.0)])
    assert worst(CLASSIFICATION.of(["a", "b", "c"]), three) == [(10, 3.0), (13, 2.0), (14, 2.0), (11, 0.5)]


def test_calibration_error_is_that_of_the_definition() -> None:
    task, target, decision = rows(3000)
    task = calibrated(task, fit_calibrator("log-odds"))
    p = expit(decision[:, 0])
    bins = np.minimum((p * 15).astype(int), 14)
    off = sum(abs(p[bins == b].sum() - target[bins == b].sum()) for b in range(15)) / 3000
    assert accumulate(task, target, decision).metrics()["calibration_error"] == pytest.approx(off, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "shift"), [(3000, 0.0), (200, 0.0), (40, -6.0)])
def test_calibration_error_by_chance_is_that_of_perfect_probabilities(n: int, shift: float) -> None:
    task, _, decision = rows(n)
    task, decision = calibrated(task, fit_calibrator("log-odds")), decision + shift
    p, rng = expit(decision[:, 0]), np.random.default_rng(1)
    drawn = [accumulate(task, (rng.random(n) < p).astype(np.int32), decision).metrics() for _ in range(200)]
    said = drawn[0]["calibration_chance"]
    assert said == pytest.approx(np.mean([found["calibration_error"] for found in drawn]), rel=0.1)


def test_many_classes_take_a_bounded_number_of_bins() -> None:
    assert [bits_for(k) for k in (1, 3, 105, 1000)] == [10, 10, 7, 4]


def test_platt_is_logistic_regression_on_his_targets() -> None:
    _, target, decision = rows(2000, seed=3)
    values = decision[:, 0]
    own = target.astype(np.int64)
    slope, intercept = platt(values, 1 - own, own)
    y = np.r_[np.ones(2000), np.zeros(2000)]
    high, low = (own.sum() + 1) / (own.sum() + 2), 1 / ((1 - own).sum() + 2)
    t = np.where(own == 1, high, low)
    peer = LogisticRegression(C=1e12, tol=1e-10).fit(np.r_[values, values][:, None], y, sample_weight=np.r_[t, 1 - t])
    assert (slope, intercept) == pytest.approx((peer.coef_[0, 0], peer.intercept_[0]), abs=1e-5)
    assert platt(1e6 * values, 1 - own, own)[0] == pytest.approx(1e-6 * slope)


def test_isotonic_regression_is_that_of_scikit_learn_but_never_sure() -> None:
    _, target, decision = rows(1500, seed=4)
    values, own = np.sort(decision[:, 0]), target[np.argsort(decision[:, 0])].astype(np.int64)
    knots, levels = isotonic(values, 1 - own, own)
    assert (np.diff(knots) > 0).all()
    assert (np.diff(levels) >= 0).all()
    assert levels.min() > 0
    assert levels.max() < 1
    peer = IsotonicRegression(out_of_bounds="clip").fit(values, own).predict(values)
    assert np.abs(np.interp(values, knots, levels) - peer).mean() < 0.02
    # One row of the other class at the end is no reason to lift all that follow.
    values = np.arange(101.0)
    own = (values > 60).astype(np.int64)
    counts = np.where(values == 0, 1, 50)
    knots, levels = isotonic(values, counts * (1 - own), counts * own)
    assert levels[0] < 0.01
    assert levels[-1] > 0.99


def test_a_soft_maximum_is_the_same_for_decisions_of_any_scale() -> None:
    """And of decisions that say nothing it is the share of each class."""
    _, target, decision = rows(900, 3, seed=3)
    lines = soft_maximum(target, decision)
    for scale in (1e-6, 1e6):
        again = soft_maximum(target, scale * decision)
        np.testing.assert_allclose(scale * again[:, 0], lines[:, 0], rtol=1e-6)
        np.testing.assert_allclose(again[:, 1], lines[:, 1], rtol=1e-5, atol=1e-6)
    for same in (0.0, 7.0):
        lines = soft_maximum(target, np.full((900, 3), same))
        logs = same * lines[:, 0] + lines[:, 1]
        shares = np.exp(logs) / np.exp(logs).sum()
        np.testing.assert_allclose(shares, np.bincount(target) / 900, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["platt", "isotonic"])
@pytest.mark.parametrize("classes", [2, 4])
def test_calibrated_probabilities(how: str, classes: int) -> None:
    task, target, decision = rows(40_000, classes, seed=5)
    decision = 5 * decision - 2  # far from log odds
    fit, tested = slice(0, 20_000), slice(20_000, None)
    reading = fit_calibrator(how, CLASSIFICATION.evidence(task, target[fit], decision[fit]))
    read = calibrated(task, reading)
    found = accumulate(read, target[tested], decision[tested]).metrics()
    assert number(found["calibration_error"]) < 0.02
    raw = calibrated(task, fit_calibrator("log-odds"))
    assert number(found["log_loss"]) < number(accumulate(raw, target[tested], decision[tested]).metrics()["log_loss"])
    probability = read.decisions.probabilities(decision)
    assert probability is not None
    assert probability.sum(axis=1) == pytest.approx(1)
    assert (probability > 0).all()
    assert [*read.decisions.values(decision[:3])] == [
        "prediction",
        "score",
        *(f"probability_c{k}" for k in range(classes)),
    ]
    # Cut anywhere, the evidence is the same; as plain data too.
    parts = [CLASSIFICATION.evidence(task, target[a:b], decision[a:b]).as_json() for a, b in ((0, 7), (7, 20_000))]
    assert fit_calibrator(how, CLASSIFICATION.evidence_from(task, parts)).content_hash == reading.content_hash


@pytest.mark.slow
@pytest.mark.parametrize(
    ("word", "measure"),
    [
        ("cost:5:1", lambda y, p: -(5 * ((p == 0) & (y == 1)).sum() + ((p == 1) & (y == 0)).sum())),
        ("f1", metrics.f1_score),
        ("balanced", metrics.balanced_accuracy_score),
    ],
)
def test_a_threshold_is_the_best_there_is(word: str, measure: Any) -> None:
    task, target, decision = rows(3000, seed=6)
    reading = fit_calibrator("none", ClassScores.of(target, decision), Threshold.parse(word))
    found = measure(target, calibrated(task, reading).decisions.predict(decision))
    best = max(
        measure(target, (decision[:, 0] >= t).astype(int)) for t in np.quantile(decision, np.linspace(0, 1, 200))
    )
    assert found >= best - abs(best) * 1e-3
    assert calibrated(task, reading).decisions.probabilities(decision) is None


def test_thresholds_for_precision_and_recall() -> None:
    task, target, decision = rows(3000, seed=7)
    for word, measure in (("precision:0.9", metrics.precision_score), ("recall:0.9", metrics.recall_score)):
        reading = fit_calibrator("none", ClassScores.of(target, decision), Threshold.parse(word))
        predicted = calibrated(task, reading).decisions.predict(decision)
        assert measure(target, predicted) >= 0.9
        assert reading.chosen["reached"]
        of = (reading.chosen["precision"], reading.chosen["recall"])
        assert of == pytest.approx(
            (metrics.precision_score(target, predicted), metrics.recall_score(target, predicted))
        )
    noise = np.random.default_rng(0).normal(size=(3000, 1))
    target = (np.arange(3000) % 10 == 0).astype(np.int32)
    reading = fit_calibrator("none", ClassScores.of(target, np.sort(noise, axis=0)), Threshold.parse("precision:1"))
    assert reading.chosen["reached"] in (True, False)
    for bad in ("cost", "cost:1", "cost:a:b", "precision:2", "precision:0", "recall", "f1:3", "best"):
        with pytest.raises(ValueError, match="expected cost:MISSED:FALSE"):
            Threshold.parse(bad)


@pytest.mark.parametrize("classes", [2, 3])
def test_what_searches_go_by_adds_up_over_rows(classes: int) -> None:
    task, target, decision = rows(800, classes, seed=8)
    own: Any = target if classes == 2 else np.eye(classes)[target]
    area = metrics.roc_auc_score(own, decision[:, 0] if classes == 2 else decision)
    for by, expected in (
        ("roc_auc", area),
        ("balanced_accuracy", metrics.balanced_accuracy_score(target, task.decisions.predict(decision))),
    ):
        judge = criterion_of(task, by)
        scores = judge.row_scores(target, judge.scored_values(decision))
        assert judge.score(scores.sum(), scores.size) == pytest.approx(expected)
        assert judge.metric.key == by
    for by in ("log_loss", "brier"):
        judge = criterion_of(task, by)
        noise = np.random.default_rng(0).normal(size=decision.shape)
        better, worse = (judge.row_scores(target, judge.scored_values(d)).sum() for d in (decision, noise))
        assert better > worse
        assert 0 < judge.score(better, 800) < judge.score(worse, 800)
    assert criterion_of(task) == criterion_of(task, "accuracy")


@pytest.mark.parametrize("classes", [2, 3])
def test_log_odds_are_judged_as_they_are(classes: int) -> None:
    """Decisions that are too sure are worse, though Platt's method would make up for it."""
    task, target, decision = rows(800, classes, seed=8)
    judge = criterion_of(calibrated(task, fit_calibrator(LOG_ODDS)), "log_loss")
    scores = judge.row_scores(target, judge.scored_values(decision))
    own = expit(decision)
    probability = np.column_stack([1 - own, own]) if classes == 2 else own / own.sum(axis=1, keepdims=True)
    assert judge.score(scores.sum(), 800) == pytest.approx(metrics.log_loss(target, probability))
    sure, fitted = (j.row_scores(target, 9 * decision).sum() for j in (judge, criterion_of(task, "log_loss")))
    assert sure < fitted


@pytest.mark.slow
def test_squares_of_differences_are_the_variance_of_delong() -> None:
    """Of the area under the curve: against a bootstrap of the difference of two."""
    task, target, a = rows(600, seed=9)
    b = a + np.random.default_rng(1).normal(size=a.shape)
    judge = criterion_of(task, "roc_auc")
    off = judge.row_scores(target, a) - judge.row_scores(target, b)
    rng, found = np.random.default_rng(2), []
    for _ in range(400):
        at = rng.integers(600, size=600)
        areas = [metrics.roc_auc_score(target[at], of[at, 0]) for of in (a, b)]
        found.append(areas[0] - areas[1])
    assert off.std() / 600**0.5 == pytest.approx(np.std(found), rel=0.15)


def test_a_fold_without_a_class_is_judged_by_the_others() -> None:
    task, _, _ = rows(10, 3)
    small = criterion_of(task, "roc_auc").among(np.array([2, 0, 2, 0]))
    assert small.targets.tolist() == [1, 0, 1, 0]
    assert small.task.codec.classes == ["c0", "c2"]
    assert small.constant is None
    wide = small.widen(np.array([[2.0], [-1.0]]))
    assert task.decisions.predict(wide).tolist() == [2, 0]
    one = criterion_of(task, "log_loss").among(np.array([1, 1]))
    assert one.constant is not None
    assert task.decisions.predict(one.widen(np.repeat(one.constant, 2, axis=0))).tolist() == [1, 1]
    two = CLASSIFICATION.of(["a", "b"])
    for k in (0, 1):
        one = criterion_of(two, "roc_auc").among(np.full(3, k))
        assert one.constant is not None
        assert two.decisions.predict(one.widen(np.repeat(one.constant, 3, axis=0))).tolist() == [k] * 3


def test_a_fold_without_a_class_is_judged_by_predictions_of_the_others() -> None:
    task, _, _ = rows(10, 3)
    small = criterion_of(task).among(np.array([2, 0, 2, 0]))
    assert (small.targets.tolist(), small.task.codec.classes, small.constant) == ([1, 0, 1, 0], ["c0", "c2"], None)
    assert small.criterion.task == small.task
    assert small.widen(np.array([1, 0])).tolist() == [2, 0]
    one = criterion_of(task, "balanced_accuracy").among(np.array([1, 1]))
    assert one.constant is not None
    assert one.widen(one.constant).tolist() == [1]
    numbers = criterion_of(REGRESSION.of(0.0, 1.0, []))
    whole = numbers.among(np.array([0.5, 2.0]))
    assert (whole.criterion, whole.task, whole.targets.tolist()) == (numbers, numbers.task, [0.5, 2.0])
    assert (whole.widen(np.array([3.0])).tolist(), whole.constant) == ([3.0], None)
