"""A learner that stopped before its tolerance is named, whatever kind it is of."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pipeline.record_types import TrainResult
from pipeline.training import train as module
from tests.support.params_for import params_for


@pytest.mark.parametrize("learner", ["svm", "ridge", "fourier-linear", "two-stage-gmm"])
def test_a_learner_that_has_not_converged_is_named(learner: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    context: Any = SimpleNamespace(
        params=params_for(learners=(learner,), tol=0.01), events=SimpleNamespace(message=lines.append)
    )
    result: TrainResult = {"content_hash": "of the model", "converged": False, "duality_gap": 0.5}
    monkeypatch.setattr(module, "runner_of", lambda _: SimpleNamespace(train=lambda _: result))
    assert module.train(context, learner, None) == result
    assert lines == [f"{learner}: duality gap 0.5 is above --tol 0.01"]
