"""Trials of a race: what a candidate decides on rows that it has not seen, and the folds that are held out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ikmap.auto.candidates import BOOSTING, CELLS_LEARNERS, LINEAR, Candidate
from ikmap.auto.trial import Decided, Searched, folds_at_random, run_trial
from ikmap.json_values import Label
from ikmap.learners.rows import Block
from ikmap.methods import Training
from ikmap.methods.base_models import BoostingPart, some_of
from ikmap.methods.boosting import Boosting
from tests.support.calls import counted

N = 150
SETTINGS = 16, 2.0
OPTIONS = {"rounds": 8, "min_leaf": 5}


def training_of(n_classes: int) -> Training:
    X = np.random.default_rng(0).normal(size=(N, 3))
    y = X[:, 0] + X[:, 1] * X[:, 2]
    classes: list[Label] = list(range(n_classes))
    return Training(Block(X, np.digitize(y, [-0.5, 0.5][: n_classes - 1]) if classes else y), classes, 3)


@pytest.mark.parametrize("n_classes", [0, 2, 3])
@pytest.mark.parametrize("name", [BOOSTING, LINEAR, "iforest", "anne"])
def test_a_candidate_decides_on_rows_outside(n_classes: int, name: str) -> None:
    training = training_of(n_classes)
    fit, held_out = folds_at_random(training.y, training.seed)[0]
    inside, outside = some_of(training, fit), some_of(training, held_out)
    candidate = {
        BOOSTING: Candidate(BOOSTING, BOOSTING, options=OPTIONS),
        LINEAR: Candidate(LINEAR, LINEAR),
        "iforest": Candidate("iforest", CELLS_LEARNERS[bool(n_classes)], "iforest"),
        "anne": Candidate("anne", CELLS_LEARNERS[bool(n_classes)], "anne", "minmax"),
    }[name]
    settings = SETTINGS if candidate.partitioner else None
    decided = run_trial(candidate, "fold", inside, outside, settings)
    assert isinstance(decided, Decided)
    assert decided.decisions.shape == (held_out.size, n_classes if n_classes > 2 else 1)
    if name == BOOSTING:
        model = BoostingPart(training, Boosting(**OPTIONS)).fit(fit)  # type: ignore[arg-type]
        assert np.array_equal(decided.decisions, model.decision_function(outside.rows))
        assert 1 <= decided.rounds <= 8
        assert decided.rounds * decided.decisions.shape[1] == model.partitions.n_partitions
    else:
        assert decided.rounds == 0
    # What rows outside are called changes nothing.
    other = replace(outside, block=outside.block._replace(y=outside.y[::-1]))
    again = run_trial(candidate, "fold", inside, other, settings)
    assert isinstance(again, Decided)
    assert np.array_equal(again.decisions, decided.decisions)
    if settings:
        assert isinstance(run_trial(candidate, "search", inside, outside), Searched)


def test_psi_is_tried_up_to_the_rows_of_the_smallest_fold() -> None:
    training = training_of(2)
    few, outside = some_of(training, np.arange(13)), some_of(training, np.arange(13, 40))
    candidate = Candidate("iforest", CELLS_LEARNERS[True], "iforest")
    found = run_trial(candidate, "search", few, outside, smallest=12)
    assert isinstance(found, Searched)
    assert {psi for psi, _ in found.losses} == {12}


@pytest.mark.parametrize("error", [ValueError, MemoryError, ZeroDivisionError])
def test_a_candidate_that_cannot_learn_is_told_and_ends_nothing(error: type[Exception]) -> None:
    """Scikit-learn's Ridge has divided by the sum of weights, some versions even where it is 0."""

    def refuse(_: int) -> None:
        raise error("all rows weigh 0")

    training = training_of(0)
    with counted(BoostingPart.learn, refuse):
        assert run_trial(Candidate(BOOSTING, BOOSTING), "fold", training, training) == "all rows weigh 0"


def test_each_fold_holds_out_its_share_of_each_class() -> None:
    y = np.repeat([0, 1], [141, 9])
    folds = folds_at_random(y, 3)
    assert sorted(np.concatenate([held_out for _, held_out in folds]).tolist()) == list(range(150))
    for fit, held_out in folds:
        assert np.array_equal(np.union1d(fit, held_out), np.arange(150))
        assert 1 <= y[held_out].sum() <= 2
    assert len(folds_at_random(np.arange(3), 0)) == 3
