"""A learner that stopped before its tolerance is named, whatever kind it is of."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ikmap.methods import LEARNERS
from pipeline.training.train import train
from tests.support.narrow import number
from tests.support.one_process import Heard
from tests.support.params_for import params_for
from tests.support.runs import context, mapped, points, store_rows


@pytest.mark.parametrize(
    ("learner", "task"),
    [("svm", "auto"), ("ridge", "regression"), ("fourier-linear", "auto"), ("two-stage-gmm", "auto")],
)
def test_a_learner_that_has_not_converged_is_named(learner: str, task: str, tmp_path: Path) -> None:
    params = params_for(learners=(learner,), task=task, tol=1e-300, t=3)
    heard = Heard()
    given: Any
    if LEARNERS[learner].about.on == "cells":
        ctx, *given = mapped(tmp_path, 60, params, psi=4)
    else:
        ctx, given = context(tmp_path, params), (None, params.value(learner))
        store_rows(ctx.store, *points(60))
    result: Any = train(replace(ctx, events=heard), learner, *given)
    assert not result["converged"]
    assert number(result["duality_gap"]) > 1e-300
    assert heard.lines == [f"{learner}: duality gap {result['duality_gap']:.2g} is above --tol 1e-300"]
