"""Estimators that choose a model by themselves: parameters, and models that do not fit into memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from ikmap import AutoClassifier
from ikmap.auto.race import Choice, Entry, Race
from ikmap.learners.rows import Block

FEW: dict[str, Any] = {"cv": 2, "max_rows": 100, "budget": 20.0, "n_jobs": 1, "random_state": 0}


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


def test_what_does_not_fit_into_memory_is_left_for_the_next_best(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ikmap.methods.forest.MOST_BYTES", 1000)
    X, y = load_breast_cancer(return_X_y=True)
    choices = [
        Choice(
            Entry(name, (name,), 0.1, 0.0, 2, 1.0, 0.0),
            "logistic",
            name,
            "none",
            {"logistic": {"C": 1.0}, name: {"t": 4, "psi": 8}},
        )
        for name in ("forest", "iforest")
    ]

    class Finished:
        """A race that has ended."""

        def choice(self, refusal: Callable[[Choice], str]) -> Choice:
            return next((own for own in choices if not refusal(own)), choices[0])

    estimator, block, finished = AutoClassifier(**FEW), Block(X, y), cast("Race", Finished())
    choice, model = estimator._fit_best(finished, block, [0, 1], 0)
    assert choice is choices[1]
    assert ((model.decision_function(X)[:, 0] >= 0) == y).mean() > 0.8
    choices.pop()
    with pytest.raises(ValueError, match=r"^partitioner forest: .* give fewer t or a smaller psi"):
        estimator._fit_best(finished, block, [0, 1], 0)
