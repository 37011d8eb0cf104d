"""Metrics of rows that the data weighs: those of scikit-learn with sample weights, however the rows are cut."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from sklearn import metrics

from ikmap.tasks import CLASSIFICATION, REGRESSION, Task
from ikmap.tasks.capabilities import calibrated
from ikmap.tasks.classification.calibration import fit_calibrator
from ikmap.tasks.sections import Cell, Table
from ikmap.tasks.weighted import weighted_metrics, weighted_sections, weighted_sums

RNG = np.random.default_rng(5)
N = 300
WEIGHT = RNG.integers(0, 4, N) + RNG.random(N).round(2)


def in_pieces(task: Task, target: np.ndarray, decision: np.ndarray, weight: np.ndarray) -> dict[str, float | None]:
    parts = [
        json.loads(json.dumps(weighted_sums(task, target[a:b], decision[a:b], weight[a:b])))
        for a, b in pairwise([0, 1, 1, 120, N])
    ]
    found = weighted_metrics(task, parts)
    assert found == weighted_metrics(task, [weighted_sums(task, target, decision, weight)])
    return found


@pytest.mark.parametrize("classes", [2, 3])
def test_classes(classes: int) -> None:
    target = RNG.integers(0, classes, N)
    decision = (1.5 * target - 1 + RNG.normal(size=N))[:, None] if classes == 2 else RNG.normal(size=(N, classes))
    task = CLASSIFICATION.of([f"c{k}" for k in range(classes)])
    predicted = task.decisions.predict(decision)
    plain = {
        "accuracy": metrics.accuracy_score(target, predicted, sample_weight=WEIGHT),
        "balanced_accuracy": metrics.balanced_accuracy_score(target, predicted, sample_weight=WEIGHT),
    }
    assert in_pieces(task, target, decision, WEIGHT) == pytest.approx(plain, rel=1e-12)
    task = calibrated(task, fit_calibrator("log-odds"))
    probability: Any = task.decisions.probabilities(decision)
    off = (probability - np.eye(classes)[target]) ** 2
    brier = np.average(off[:, 1] if classes == 2 else off.sum(axis=1), weights=WEIGHT)
    loss = metrics.log_loss(target, probability, sample_weight=WEIGHT)
    assert in_pieces(task, target, decision, WEIGHT) == pytest.approx(
        plain | {"log_loss": loss, "brier": brier}, rel=1e-9
    )


def test_a_class_without_weight_has_no_recall() -> None:
    task, target, decision = CLASSIFICATION.of(["a", "b"]), np.arange(4) % 2, np.array([[-1.0], [-1.0], [1.0], [1.0]])
    found = weighted_metrics(task, [weighted_sums(task, target, decision, np.array([3.0, 0.0, 1.0, 0.0]))])
    assert found == {"accuracy": 0.75, "balanced_accuracy": 0.75}


def test_numbers() -> None:
    target = 50 + RNG.normal(size=N)
    decision = (target + 0.5 * RNG.normal(size=N))[:, None]
    task = REGRESSION.of(49.0, 1.0, [])
    expected = {
        "r2": metrics.r2_score(target, decision[:, 0], sample_weight=WEIGHT),
        "rmse": metrics.root_mean_squared_error(target, decision[:, 0], sample_weight=WEIGHT),
        "mae": metrics.mean_absolute_error(target, decision[:, 0], sample_weight=WEIGHT),
    }
    assert in_pieces(task, target, decision, WEIGHT) == pytest.approx(expected, rel=1e-9)
    same = weighted_metrics(task, [weighted_sums(task, np.full(3, 51.0), np.full((3, 1), 53.0), np.ones(3))])
    assert same == {"r2": None, "rmse": 2.0, "mae": 2.0}


@pytest.mark.parametrize(
    ("task", "key"), [(CLASSIFICATION.of(["a", "b"]), "accuracy"), (REGRESSION.of(0.0, 1.0, []), "r2")]
)
def test_rows_that_weigh_nothing_have_no_metrics(task: Task, key: str) -> None:
    sums = weighted_sums(task, np.array([0, 1]), np.array([[0.0], [1.0]]), np.zeros(2))
    assert weighted_metrics(task, [sums]) == {key: None}


def test_what_a_report_shows() -> None:
    """Metrics that any learner has, a learner a row; nothing where rows were not weighed."""
    learners: dict[str, Any] = {
        "ours": {"weighted": {"accuracy": 0.5, "brier": 0.25}},
        "theirs": {"weighted": {"accuracy": 0.75, "log_loss": None}},
        "others": {},
    }
    (section,) = weighted_sections({"data": {"weight": "w"}, "learners": learners})
    text, table = section.parts
    assert "by column w:" in str(text)
    rows: list[tuple[Cell, ...]] = [("ours", 0.5, 0.25), ("theirs", 0.75, "")]
    assert table == Table("", ("learner", "accuracy", "Brier score"), rows)
    assert weighted_sections({"data": {}, "learners": learners}) == []
    assert weighted_sections({"data": {"weight": "w"}, "learners": {"others": {}}}) == []
    assert weighted_sections({}) == []
