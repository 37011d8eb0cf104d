"""What a reader is told first of a learner: only what the test rows are enough to say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn import metrics

from ikmap.json_values import JsonObject
from ikmap.tasks import CLASSIFICATION, NOVELTY, REGRESSION
from ikmap.tasks.verdict import (
    auc_by_chance,
    highest_share,
    in_percent,
    interval_of_auc,
    interval_of_r2,
    interval_of_share,
    r2_by_chance,
)
from pipeline.report.scores import wilson_interval


def on_classes(confusion: list[list[int]], **figures: Any) -> list[tuple[str, str]]:
    params = {"methods": {"ours": {"class_weight": "none"}}, **figures.pop("params", {})}
    about = {"confusion": confusion, "labels": [str(k) for k in range(len(confusion))], **figures}
    found = CLASSIFICATION.presenter.verdicts("ours", about, {"data": {}, "params": params, "selection": None})
    assert all(verdict.learner == "ours" for verdict in found)
    return [(verdict.kind, verdict.message) for verdict in found]


def test_a_majority_class_that_is_taken_for_a_result() -> None:
    (first, said), (second, missed) = on_classes([[385_000, 3], [96_236, 8]], roc_auc=0.545)
    assert (first, second) == ("baseline", "unfound")
    assert said == (
        "ours is right on 80.0% of 481,247 rows, not certainly better than always answering 0 (80.0%), though it ranks "
        "rows better than chance (ROC AUC 0.545): give --threshold-for balanced, or another --learner"
    )
    assert missed == ("ours finds 8 of 96,244 rows of class 1: give --threshold-for balanced, or another --learner")


def test_what_is_better_than_chance_is_said_of_a_learner_that_is_no_better_than_a_constant() -> None:
    """Its order of the rows, or else the share that it finds of each class; one of them is enough."""
    [(kind, said), _] = on_classes([[800, 0], [200, 0]], roc_auc=0.8)
    assert kind == "baseline"
    assert "though it ranks rows better than chance (ROC AUC 0.800): " in said
    for area in (0.5, None):
        [(kind, said)] = on_classes([[600, 200], [50, 150]], roc_auc=area)
        assert kind == "baseline"
        assert "though its mean recall of 75.0% is better than chance: " in said


@pytest.mark.parametrize(
    ("confusion", "area", "kinds"),
    [
        ([[800, 0], [200, 0]], 0.5, ["nothing"]),
        ([[500, 300], [125, 75]], 0.501, ["nothing"]),  # guesses
        ([[780, 20], [100, 100]], 0.8, []),
        ([[60, 40], [35, 65]], 0.66, []),
        ([[11, 9], [8, 12]], 0.55, ["few"]),  # better than half, by less than 40 rows can say
        ([[1100, 900], [800, 1200]], 0.6, []),
        ([[50, 5, 5], [5, 20, 5], [4, 4, 2]], 0.7, []),
    ],
)
def test_a_learner_and_a_constant(confusion: list[list[int]], area: float, kinds: list[str]) -> None:
    assert [kind for kind, _ in on_classes(confusion, roc_auc=area)] == kinds


def test_accuracy_given_up_on_purpose_is_no_fault() -> None:
    confusion = [[600, 200], [40, 160]]  # right on fewer rows than the constant is
    assert [kind for kind, _ in on_classes(confusion, roc_auc=0.8)] == ["baseline"]
    assert on_classes(confusion, roc_auc=0.8, params={"threshold_for": "balanced"}) == []
    assert on_classes(confusion, roc_auc=0.8, params={"methods": {"ours": {"class_weight": "balanced"}}}) == []


def test_rare_classes_that_are_not_found() -> None:
    """Of too few rows it cannot be said."""
    counts = np.diag([900, 0, 0, 80]).tolist()
    counts[1][0], counts[2][0] = 20, 2
    [(kind, said)] = on_classes(counts, roc_auc=0.99)
    assert kind == "unfound"
    assert said == "ours finds 0 of 20 rows of class 1: give --class-weight balanced, or another --learner"
    many = np.zeros((9, 9), dtype=int)
    many[0, 0], many[1:, 0] = 900, 30
    assert "and of 3 classes more as few" in on_classes((many + np.eye(9, dtype=int)).tolist(), roc_auc=0.9)[-1][1]


@pytest.mark.parametrize(
    ("error", "chance", "poor"), [(0.1675, 0.037, True), (0.032, 0.025, False), (0.012, 0.001, False)]
)
def test_probabilities_that_are_off(error: float, chance: float, poor: bool) -> None:
    found = on_classes([[80, 20], [20, 80]], roc_auc=0.9, calibration_error=error, calibration_chance=chance)
    assert [kind for kind, _ in found] == ["calibration"] * poor
    if poor:
        assert "off by 16.8% on average (right ones would be by 3.7%): give --calibration isotonic" in found[0][1]


def test_predictions_that_are_all_right() -> None:
    """Warn unless few rows are of another class than the most frequent one; streams have no test rows."""
    [(kind, said)] = on_classes([[300, 0, 0], [0, 60, 0], [0, 0, 40]])
    assert kind == "perfect"
    assert said.startswith("ours is right on all 400 test rows: unless the label follows from the columns, one of them")
    assert on_classes([[300, 0, 0], [0, 60, 0], [0, 1, 39]]) == []
    assert on_classes([[300, 0], [0, 99]]) == []
    about: JsonObject = {"confusion": [[300, 0], [0, 200]], "labels": ["0", "1"]}
    stream: JsonObject = {"data": {}, "params": {}, "selection": None, "online": {"rows": 500}}
    assert CLASSIFICATION.presenter.verdicts("ours", about, stream) == []


def test_numbers_and_their_mean() -> None:
    def kinds(r2: float, rows: int) -> list[str]:
        return [v.kind for v in REGRESSION.presenter.verdicts("ours", {"r2": r2, "by_decile": [{"rows": rows}]}, {})]

    assert kinds(-0.1, 1000) == ["nothing"]
    assert kinds(0.003, 1000) == kinds(0.999, 3) == ["few"]
    assert kinds(0.003, 10_000) == kinds(0.5, 20) == kinds(0.9999, 1000) == kinds(1.0, 20) == []
    assert kinds(0.999999, 1000) == ["perfect"]


def test_what_few_rows_do_not_tell() -> None:
    """Nothing is held against predictions that are all right, nor is a little more than a constant called nothing."""
    assert on_classes([[198, 0], [0, 2]], roc_auc=1.0) == []
    assert on_classes([[50, 0], [0, 0]], roc_auc=None) == []
    [(kind, said)] = on_classes([[253, 11], [16, 20]], roc_auc=None)
    assert kind == "baseline"
    assert said.startswith("ours is right on 91.0% of 300 rows, not certainly better than always answering 0 (88.0%), ")
    [(kind, said)] = on_classes([[11, 9], [8, 12]])
    assert (kind, said) == (
        "few",
        "ours is right on 57.5% of 40 rows, not certainly better than always answering 0 (50.0%): these rows do not "
        "tell whether it has learned anything",
    )


def test_quantiles_are_not_judged_as_the_mean() -> None:
    """A right quantile of 0.9 lies far from the mean."""
    quantiles = [{"level": level, "not_above": level + 0.01, "pinball": 0.1} for level in (0.1, 0.9)]
    learner: JsonObject = {"r2": -1.5, "rmse": 2.0, "by_decile": [{"rows": 500}], "quantiles": quantiles[1:]}
    assert REGRESSION.presenter.verdicts("ours", learner, {}) == ()
    assert REGRESSION.presenter.quality(learner, {}) == (
        "predicts the quantile 0.9, which the true value is not above on 91.0% of {rows}; its mean pinball loss is 0.1"
    )
    both = {**learner, "quantiles": quantiles}
    assert "the quantile 0.1, which" in REGRESSION.presenter.quality(both, {})
    quantiles[1]["level"] = 0.5
    assert REGRESSION.presenter.verdicts("ours", learner, {}) == ()
    assert REGRESSION.presenter.quality(learner, {}).startswith(
        "predicts the median, which the true value is not above"
    )


def test_scores_and_labels() -> None:
    def kinds(area: float, *rows: int) -> list[str]:
        return [v.kind for v in NOVELTY.presenter.verdicts("ours", {"roc_auc": area, "rows_by_label": list(rows)}, {})]

    assert kinds(0.3, 1000, 50) == kinds(0.55, 1000, 50) == ["nothing"]
    assert kinds(0.6, 1000, 50) == kinds(0.51, 100_000, 50_000) == []
    assert NOVELTY.presenter.verdicts("ours", {"roc_auc": None, "rows_by_label": [1000, 0]}, {}) == ()


@pytest.mark.slow
def test_what_chance_reaches() -> None:
    """Scores and predictions that say nothing of the targets are rarely above the limits."""
    rng = np.random.default_rng(0)
    own = rng.permutation(np.arange(300) < 60)
    areas = np.array([metrics.roc_auc_score(own, rng.random(300)) for _ in range(400)])
    assert (areas > auc_by_chance(60, 240)).mean() == pytest.approx(0.025, abs=0.02)
    y, predicted = rng.normal(size=(2, 400, 300))
    r = np.array([np.corrcoef(a, b)[0, 1] for a, b in zip(y, predicted, strict=True)])
    assert (r**2 > r2_by_chance(300)).mean() == pytest.approx(0.05, abs=0.03)
    for hits, n in ((0, 4), (8, 96_244), (50, 100)):
        assert highest_share(hits, n) == pytest.approx(wilson_interval(hits / n, n)[1], abs=1e-4)


def test_how_good_classes_are_is_told_by_what_fits() -> None:
    """Accuracy against the most frequent class, or ranks where one of two classes is rare."""
    quality = CLASSIFICATION.presenter.quality
    even: JsonObject = {
        "labels": ["no", "yes"],
        "confusion": [[40, 10], [5, 45]],
        "roc_auc": 0.9,
        "average_precision": 0.8,
    }
    assert quality(even, {"data": {"class_counts_train": [60, 40]}}) == (
        "is right on 85.0% of {rows} (95% interval 76.7% to 90.7%), always answering no would be on 50.0%"
    )
    rare: JsonObject = {**even, "confusion": [[960, 0], [30, 10]]}
    assert quality(rare, {}) == (
        "has ROC AUC 0.900 (95% interval 0.836 to 0.964; by chance 0.5) and average precision 0.800 (by chance 0.04) "
        "on {rows}; 4.0% of them are of class yes"
    )
    # Average precision is that of the second class.
    common: JsonObject = {**even, "confusion": [[10, 30], [0, 960]]}
    assert quality(common, {}) == (
        "has ROC AUC 0.900 (95% interval 0.836 to 0.964; by chance 0.5) on {rows}; 4.0% of them are of class no"
    )
    assert quality({**rare, "roc_auc": None}, {}).startswith("is right on 97.0% of {rows}")
    assert quality({}, {}) == ""


def test_how_good_numbers_and_scores_are() -> None:
    groups = [{"rows": 200}, {"rows": 200}]
    assert REGRESSION.presenter.quality({"r2": 0.64, "rmse": 2.5, "by_decile": groups}, {}) == (
        "explains 64.0% of the variance of {rows} (R2; 95% interval 58.0% to 69.3%), always answering the mean would "
        "explain nothing; the root of its mean squared error is 2.5"
    )
    assert REGRESSION.presenter.quality({"r2": 0.64}, {}) == ""
    scores: JsonObject = {"roc_auc": 0.75, "rows_by_label": [100, 100], "average_precision": None}
    assert NOVELTY.presenter.quality(scores, {}) == (
        "has ROC AUC 0.750 (95% interval 0.683 to 0.817; by chance 0.5) by the labels of {rows}"
    )
    assert NOVELTY.presenter.quality({"roc_auc": 0.75, "rows_by_label": [100, 0]}, {}) == ""


def test_intervals_hold_what_they_promise() -> None:
    """About 95% of the intervals of many samples of a known population hold the true value."""
    rng = np.random.default_rng(0)
    inside = {"share": 0, "auc": 0, "r2": 0}
    true_area, n = 0.7602499389065233, 400  # of two normals that lie 1 apart
    for _ in range(n):
        low, high = interval_of_share(rng.binomial(80, 0.1) / 80, 80)
        inside["share"] += low <= 0.1 <= high
        own, others = rng.normal(1, 1, 60), rng.normal(0, 1, 90)
        area = (own[:, None] > others).mean()
        low, high = interval_of_auc(float(area), 60, 90)
        inside["auc"] += low <= true_area <= high
        x = rng.normal(size=100)
        y = x + rng.normal(size=100)
        low, high = interval_of_r2(float(np.corrcoef(x, y)[0, 1] ** 2), 100)
        inside["r2"] += low <= 0.5 <= high
    assert all(0.92 < count / n < 0.98 for count in inside.values()), inside
    assert interval_of_share(0.0, 10)[0] == 0.0
    assert interval_of_r2(0.5, 3) == (0.0, 1.0)
    assert interval_of_r2(-0.5, 300) == (-0.5, -0.5)
    assert interval_of_auc(1.0, 3, 900) == interval_of_share(1.0, 3)
    assert interval_of_auc(0.0, 900, 3) == interval_of_share(0.0, 3)


def test_only_all_and_none_are_a_hundred_percent_and_none() -> None:
    shares = (0, 0.00003, 0.005, 0.25, 0.9912, 0.99996, 0.9999996, 1)
    assert [in_percent(share) for share in shares] == [
        "0.0%", "0.003%", "0.50%", "25.0%", "99.12%", "99.996%", "99.99996%", "100.0%",
    ]  # fmt: skip
