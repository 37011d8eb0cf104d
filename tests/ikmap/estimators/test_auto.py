"""Estimators that choose a model by themselves: parameters, and models that do not fit into memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from ikmap import AutoClassifier
from ikmap.auto import candidates, race, trial
from ikmap.estimators import auto
from ikmap.methods.capabilities import DoesNotFit

FEW: dict[str, Any] = {"cv": 2, "max_rows": 100, "budget": 20.0, "n_jobs": 1, "random_state": 0}


@pytest.fixture(autouse=True)
def small_race(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (candidates, race, trial):
        monkeypatch.setattr(module, "T", 4)
    monkeypatch.setattr(candidates, "VARIANTS", {0: ()})
    monkeypatch.setattr(candidates, "MORE_VARIANTS", ())


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"cv": 1}, "cv: found 1"),
        ({"cv": "5"}, "cv: found '5'"),
        ({"max_rows": 0}, "max_rows: found 0"),
        ({"budget": "60"}, "budget: found '60'"),
        ({"budget": 0.0}, "budget: found 0"),
    ],
)
def test_parameters_out_of_range_are_named(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=f"^{said}"):
        AutoClassifier(**FEW | wrong).fit(np.arange(8.0)[:, None], [0, 1] * 4)


@pytest.mark.slow
def test_what_does_not_fit_into_memory_is_left_for_the_next_best(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = load_breast_cancer(return_X_y=True)
    made, usual = [], trial.fit_choice

    def first_one_is_too_large(*choice: Any) -> Any:
        made.append(choice[:3])
        if len(made) == 1:
            raise DoesNotFit("{partitioner} forest: too many bins; give fewer {t}")
        return usual(*choice)

    monkeypatch.setattr(auto, "fit_choice", first_one_is_too_large)
    model = AutoClassifier(**FEW).fit(X, y)
    assert len(made) == 2
    assert made[0] != made[1]
    assert (model.choice_.learner, model.choice_.partitioner) == made[1][:2]
    assert model.score(X, y) > 0.9

    def too_large(*_: Any) -> Any:
        raise DoesNotFit("{partitioner} forest: too many bins; give fewer {t}")

    monkeypatch.setattr(auto, "fit_choice", too_large)
    with pytest.raises(ValueError, match=r"^partitioner forest: too many bins; give fewer t$"):
        AutoClassifier(**FEW).fit(X, y)
