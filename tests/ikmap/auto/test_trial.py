"""Trials of a race whose models are parts of a sum, and the sum that is made of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ikmap.auto.candidates import BOOSTING, CELLS_LEARNERS, LINEAR, Candidate
from ikmap.auto.trial import Decided, folds_of_sum, run_trial
from ikmap.json_values import Label
from ikmap.learners.cells_model import CellsModel
from ikmap.learners.rows import Block
from ikmap.methods import Training
from ikmap.methods.base_models import some_of
from ikmap.methods.stacking import Stacking
from tests.support.calls import counted

N = 150
SETTINGS = 16, 2.0
OPTIONS = {"rounds": 8, "min_leaf": 5}


def training_of(n_classes: int) -> Training:
    X = np.random.default_rng(0).normal(size=(N, 3))
    y = X[:, 0] + X[:, 1] * X[:, 2]
    classes: list[Label] = list(range(n_classes))
    return Training(Block(X, np.digitize(y, [-0.5, 0.5][: n_classes - 1]) if classes else y), classes, 3)


def tried(training: Training) -> dict[str, CellsModel]:
    """Return the models of all trials of a race, by name."""
    candidates = [
        (Candidate(BOOSTING, BOOSTING, options=OPTIONS), None),
        (Candidate("iforest", CELLS_LEARNERS[bool(training.classes)], "iforest"), SETTINGS),
        (Candidate(LINEAR, LINEAR), None),
        (Candidate("anne", CELLS_LEARNERS[bool(training.classes)], "anne", "minmax"), SETTINGS),
    ]
    models: dict[str, CellsModel] = {}
    for fit, held_out in folds_of_sum(training.y, training.seed):
        inside, outside = some_of(training, fit), some_of(training, held_out)
        for candidate, settings in candidates:
            decided = run_trial(candidate, "fold", inside, outside, settings, fit)
            assert isinstance(decided, Decided)
            if decided.model is not None:
                models[decided.name] = decided.model
    return models


@pytest.mark.parametrize("n_classes", [0, 2, 3])
def test_a_sum_of_models_that_are_known_is_the_one_that_learns_them_itself(n_classes: int) -> None:
    training = training_of(n_classes)
    learner = Stacking(base_models="boosting,iforest:16:2", **OPTIONS)
    models = tried(training)
    assert len(models) == 2 * learner.n_folds  # a linear model, or one of scaled columns, is no part
    with counted(some_of) as learned:
        known = learner.fit(replace(training, known=models.get))[0]
    assert learned.number == 0
    assert known.content_hash == learner.fit(training)[0].content_hash


def test_a_model_has_another_name_with_other_settings_or_rows() -> None:
    training = training_of(2)
    models = tried(training)
    for other in ("boosting,iforest:16:1", "boosting,iforest:8:2"):
        with counted(some_of) as learned:
            Stacking(base_models=other, **OPTIONS).fit(replace(training, known=models.get))
        assert learned.number == 5  # of the cells; boosting is known
    with counted(some_of) as learned:
        Stacking(base_models="boosting,iforest:16:2", **OPTIONS).fit(replace(training, seed=4, known=models.get))
    assert learned.number == 10
