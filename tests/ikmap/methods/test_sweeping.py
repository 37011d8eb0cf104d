"""Sweeps by gradient descent: weights of rows and of classes."""

from __future__ import annotations

import numpy as np
import pytest

from ikmap.learners.rows import Block
from ikmap.methods import Sample, Training
from ikmap.methods.learner import BatchClassifier
from ikmap.methods.linear_on_cells import LinearSVM, LogisticRegression
from ikmap.methods.mondrian import Mondrian
from ikmap.splits import Swept
from ikmap.tasks import CLASSIFICATION

LIMIT = 2.0


def swept(learner: BatchClassifier, y: np.ndarray, weight: np.ndarray | None = None) -> list[Swept]:
    assert isinstance(learner, LinearSVM | LogisticRegression)
    X = np.random.default_rng(0).random((90, 2))
    sets, splits = Mondrian(t=5, lifetime=LIMIT).events(
        LIMIT, Sample(60, 2, None, X[:60].__getitem__, 1), [X[:60], X[60:]]
    )
    training = Training(Block(sets[0], y[:60], weight), [0, 1], 1, task=CLASSIFICATION.of([0, 1]))
    return list(learner.sweep(training, Block(sets[1], y[60:]), splits))


@pytest.mark.parametrize("kind", [LinearSVM, LogisticRegression])
def test_balanced_classes_are_swept_as_rows_of_these_weights(kind: type[LinearSVM | LogisticRegression]) -> None:
    y = (np.arange(90) % 6 == 0).astype(np.int32)
    own = np.linspace(0.5, 1, 60)
    totals = np.bincount(y[:60], own)
    explicit = swept(kind(C=5.0), y, own * (own.sum() / 2 / totals)[y[:60]])
    assert swept(kind(C=5.0, class_weight="balanced"), y, own) == explicit
    assert swept(kind(C=5.0), y, own) != explicit
