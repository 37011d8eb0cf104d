"""What NORMA's options say: a loss for each task, steps that cannot be, and numbers that nothing can choose."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ikmap.methods import FieldError, Sample
from ikmap.methods.anne import Anne
from ikmap.methods.norma import Norma
from ikmap.tasks import NOVELTY, REGRESSION
from pipeline.errors import InputError
from pipeline.params import Params
from pipeline.sources.datasets.registry import ResolvedDataset
from pipeline.stages.task import requested_task


def flag(name: str) -> str:
    return "--" + name.replace("_", "-")


@pytest.mark.parametrize(
    ("task", "loss"),
    [("binary", "hinge"), ("multiclass", "hinge"), ("novelty", "novelty"), ("regression", "squared"), ("auto", "auto")],
)
def test_the_task_says_the_loss(task: str, loss: str) -> None:
    assert Params.given(learners=("norma",), task=task).of("norma").record()["loss"] == loss
    assert Params.given(learners=("norma",), task=task, loss="huber").of("norma").record()["loss"] == "huber"


def test_nothing_is_searched_for_novelty() -> None:
    anne, searched = Anne.of_record({})
    norma = Params.given(learners=("norma",), task="novelty").of("norma")
    psis = [norma.unsearched_psi(n) for n in (1000, 40)]
    assert [anne.unsearched(searched, 40, psi) for psi in psis if psi] == [Anne(psi=32), Anne(psi=10)]
    assert Params.given(learners=("norma",), task="binary").of("norma").unsearched_psi(1000) is None
    for psi, width in (("auto", 10), (64, 64)):
        assert (
            Params.given(learners=("norma",), partitioner="anne", task="novelty", psi=psi).map_value("norma", 40)
            == width
        )


@pytest.mark.parametrize(
    ("learner", "given", "said"),
    [
        ("norma", {"loss": "hinge"}, "--norma.loss hinge: found task regression, expected one of squared, epsilon"),
        ("norma", {"eta": 3.0}, "--norma.loss squared, eta: found 3 with the squared loss, expected a number below"),
    ],
)
def test_what_does_not_suit_the_task_of_a_data_set(learner: str, given: dict[str, Any], said: str) -> None:
    data = ResolvedDataset(name="mine", train_url="mine.csv", task="regression")
    with pytest.raises(InputError) as refused:
        requested_task(Params.given(learners=(learner,), psi=8, **given), data)
    assert str(refused.value).startswith(said)
    assert 'defined with task = "regression"' in str(refused.value)


def test_a_search_has_nothing_to_go_by_without_labels() -> None:
    data = ResolvedDataset(name="mine", train_url="mine.csv", task="novelty")
    with pytest.raises(InputError, match="has no labels to choose numbers by; expected --task novelty"):
        requested_task(Params.given(learners=("norma",)), data)
    assert requested_task(Params.given(learners=("norma",), psi=8), data) is NOVELTY


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"loss": "novelty", "eta": 2.0}, "--loss novelty, eta: found 2 with regularization 1, expected a product"),
        ({"horizon": 5}, "--horizon 5: found --schedule auto, expected --schedule horizon"),
        ({"nu": -0.5}, "--nu: found -0.5, expected a number >= 0 and <= 1, or 'auto'"),
        ({"loss": "nu", "nu": 0.0}, "--loss nu, nu: found 0 and rho 0 at first: nothing is ever below rho"),
    ],
)
def test_options_that_cannot_be(given: dict[str, Any], said: str) -> None:
    with pytest.raises(FieldError) as refused:
        Norma.of_record(given)
    assert refused.value.worded(flag).startswith(said)


def test_what_is_asked_for_is_what_is_done() -> None:
    rule = Norma(schedule="horizon", eta=3.0, offset="no", iterate="mean").rule("hinge", 900)
    assert rule.eta == pytest.approx(0.1)
    assert (rule.decreasing, rule.offset, rule.average) == (False, False, True)
    assert Norma(schedule="horizon", horizon=100).rule("hinge", 900).eta == pytest.approx(0.1)
    kept = [Norma.of_record({"iterate": how})[0].rule("squared", 9) for how in ("auto", "late", "mean", "last")]
    assert [(rule.average, rule.late) for rule in kept] == [(False, False), (True, True), (True, False), (False, False)]
    assert Norma(loss="squared").ignored(frozenset()) == {"nu", "clip_rho", "threshold"}


def test_targets_are_centred_at_their_median() -> None:
    y = np.concatenate([np.random.default_rng(0).normal(5, 2, size=5000), np.full(200, 1e6)])
    _, found = REGRESSION.read(y, y.size)
    task = REGRESSION.find([found], None)  # type: ignore[arg-type]
    sample = Sample(y.size, 3, task, lambda numbers: numbers, 0, np.array([0, 2, 4]))
    state = Norma(loss="huber").start(sample)
    assert state.center == pytest.approx(5, abs=0.2)
    assert state.unit == pytest.approx(2, rel=0.1)
    few = REGRESSION.of(3.0, 0.5, [1.0])
    sample = Sample(9, 3, few, lambda numbers: numbers, 0, np.array([0, 2, 4]))
    state = Norma(loss="squared").start(sample)
    assert (state.center, state.unit) == (3.0, 0.5)
