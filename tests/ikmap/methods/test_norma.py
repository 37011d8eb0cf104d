"""What NORMA's options say: a loss for each task, steps that cannot be, and numbers that nothing can choose."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ikmap.methods import LEARNERS, MAPS, Sample
from ikmap.methods.gaussian import GAUSSIAN
from ikmap.methods.norma_options import NormaOptions, rule_of
from ikmap.methods.options import OptionError
from ikmap.tasks import NOVELTY, REGRESSION
from pipeline.datasets.registry import ResolvedDataset
from pipeline.datasets.task import asked_task
from pipeline.errors import InputError
from pipeline.params import Params

NORMA, DUAL = LEARNERS["norma"], LEARNERS["norma-dual"]


@pytest.mark.parametrize(
    ("task", "loss"),
    [("binary", "hinge"), ("multiclass", "hinge"), ("novelty", "novelty"), ("regression", "squared"), ("auto", "auto")],
)
def test_the_task_says_the_loss(task: str, loss: str) -> None:
    assert Params.given(learners=("norma",), task=task).of("norma").loss == loss
    assert Params.given(learners=("norma",), task=task, loss="huber").of("norma").loss == "huber"


def test_nothing_is_searched_for_novelty() -> None:
    of_map = MAPS["anne"]
    for task, width in (("novelty", 32), ("binary", None)):
        options = Params.given(learners=("norma",), task=task).of("norma")
        assert NORMA.width(options, of_map, of_map.Options(), 1000) == width
    options = Params.given(learners=("norma",), task="novelty").of("norma")
    assert NORMA.width(options, of_map, of_map.Options(), 40) == 10
    assert NORMA.width(options, of_map, of_map.Options(psi=64), 40) == 64
    dual = Params.given(learners=("norma-dual",), task="novelty", kernel="gaussian").of("norma-dual")
    assert DUAL.search(dual, 1000) is None
    X = np.random.default_rng(0).random((30, 4))
    state = DUAL.start(dual, None, Sample(30, 4, NOVELTY.of(), X.__getitem__, 0))  # type: ignore[attr-defined]
    assert state.kernel.gamma == 2.0
    assert GAUSSIAN.unsearched(GAUSSIAN.Options(gamma=0.3), 4) == {"gamma": 0.3}
    laplacian = LEARNERS["norma-dual"].start(  # type: ignore[attr-defined]
        Params.given(learners=("norma-dual",), task="novelty").of("norma-dual"),
        None,
        Sample(30, 4, NOVELTY.of(), X.__getitem__, 0),
    )
    assert laplacian.kernel.gamma > 0


@pytest.mark.parametrize(
    ("learner", "given", "said"),
    [
        ("norma", {"loss": "hinge"}, "--norma.loss hinge: found task regression, expected one of squared, epsilon"),
        ("norma", {"eta": 3.0}, "--norma.loss squared, eta: found 3 with the squared loss, expected a number below"),
        ("norma-dual", {"loss": "nu"}, "--norma-dual.loss nu: found task regression"),
    ],
)
def test_what_does_not_suit_the_task_of_a_data_set(learner: str, given: dict[str, Any], said: str) -> None:
    data = ResolvedDataset(name="mine", train_url="mine.csv", task="regression")
    with pytest.raises(InputError) as refused:
        asked_task(Params.given(learners=(learner,), psi=8, **given) if learner == "norma" else
                   Params.given(learners=(learner,), **given), data)  # fmt: skip
    assert str(refused.value).startswith(said)
    assert 'defined with task = "regression"' in str(refused.value)


def test_a_search_has_nothing_to_go_by_without_labels() -> None:
    data = ResolvedDataset(name="mine", train_url="mine.csv", task="novelty")
    with pytest.raises(InputError, match="has no labels to choose numbers by; expected --task novelty"):
        asked_task(Params.given(learners=("norma",)), data)
    assert asked_task(Params.given(learners=("norma",), psi=8), data) is NOVELTY


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
    with pytest.raises(OptionError) as refused:
        NormaOptions(**given)
    assert str(refused.value).startswith(said)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"loss": "hinge", "regularization": 0.0}, "--loss hinge, truncation: found regularization 0"),
        ({"loss": "novelty"}, "--loss novelty, truncation: found steps that decrease"),
    ],
)
def test_rows_that_cannot_be_dropped(given: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError) as refused:
        DUAL.Options(truncation=0.1, **given)
    assert str(refused.value).startswith(said)
    assert DUAL.Options(truncation=0.1, loss="hinge", regularization=0.1).as_json()["truncation"] == 0.1


def test_what_is_asked_for_is_what_is_done() -> None:
    rule = rule_of(NormaOptions(schedule="horizon", eta=3.0, offset="no", iterate="mean"), "hinge", 900)
    assert (rule.eta, rule.decreasing, rule.offset, rule.average) == (pytest.approx(0.1), False, False, True)
    assert rule_of(NormaOptions(schedule="horizon", horizon=100), "hinge", 900).eta == pytest.approx(0.1)
    kept = [rule_of(NormaOptions(iterate=how), "squared", 9) for how in ("auto", "late", "mean", "last")]
    assert [(rule.average, rule.late) for rule in kept] == [(False, False), (True, True), (True, False), (False, False)]
    assert NormaOptions(loss="squared").unused == {"nu", "clip_rho", "threshold"}


def test_targets_are_centred_at_their_median() -> None:
    y = np.concatenate([np.random.default_rng(0).normal(5, 2, size=5000), np.full(200, 1e6)])
    _, found = REGRESSION.read(y, y.size)
    task = REGRESSION.find([found], None)  # type: ignore[arg-type]
    sample = Sample(y.size, 3, task, lambda numbers: numbers, 0, np.array([0, 2, 4]))
    state = NORMA.start(Params.given(learners=("norma",), task="regression", loss="huber").of("norma"), None, sample)  # type: ignore[attr-defined]
    assert state.center == pytest.approx(5, abs=0.2)
    assert state.unit == pytest.approx(2, rel=0.1)
    few = REGRESSION.of(3.0, 0.5, [1.0])
    sample = Sample(9, 3, few, lambda numbers: numbers, 0, np.array([0, 2, 4]))
    state = NORMA.start(Params.given(learners=("norma",), task="regression").of("norma"), None, sample)  # type: ignore[attr-defined]
    assert (state.center, state.unit) == (3.0, 0.5)
