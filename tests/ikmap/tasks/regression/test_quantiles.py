"""Quantiles of a target: pinball losses, coverage, intervals, and rows whose quantiles cross."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ikmap.methods.quantile import Levels
from ikmap.tasks import REGRESSION, LabelRequest, Task
from ikmap.tasks.regression.quantiles import with_quantiles
from ikmap.tasks.scoring import accumulate, total
from tests.naive.quantiles import pinball

LEVELS = [0.1, 0.25, 0.5, 0.9]
RNG = np.random.default_rng(2)
Y = RNG.normal(size=200)
DECISION = np.sort(RNG.normal(size=(200, 4)), axis=1)
DECISION[::10] = DECISION[::10, ::-1]
Y[3] = DECISION[3, 0]


def task_of() -> Task:
    stored, found = REGRESSION.read(Y, Y.size)
    assert stored is not None
    return with_quantiles(REGRESSION.find([found], LabelRequest()), LEVELS)


def test_figures_are_those_of_the_definition_in_any_pieces() -> None:
    task = task_of()
    parts = [accumulate(task, Y[s : s + 70], DECISION[s : s + 70]).as_json() for s in range(0, 200, 70)]
    figures: Any
    figures, f = total(task, parts).metrics(), np.sort(DECISION, axis=1)
    for k, level in enumerate(LEVELS):
        one = figures["quantiles"][k]
        assert one["level"] == level
        assert one["not_above"] == (f[:, k] >= Y).mean()
        assert one["pinball"] == pytest.approx(pinball(Y, f[:, k], level), rel=1e-12)
    assert figures["pinball"] == pytest.approx(np.mean([one["pinball"] for one in figures["quantiles"]]))
    assert [(one["low"], one["high"], one["nominal"]) for one in figures["intervals"]] == [
        (0.1, 0.9, 0.8), (0.25, 0.5, 0.25),
    ]  # fmt: skip
    for one, (low, high) in zip(figures["intervals"], ((0, 3), (1, 2)), strict=True):
        assert one["coverage"] == ((f[:, low] <= Y) & (f[:, high] >= Y)).mean()
        assert one["width"] == pytest.approx((f[:, high] - f[:, low]).mean())
    assert figures["crossed"] == 0.1
    assert figures["rmse"] == pytest.approx(np.sqrt(np.mean((Y - f[:, 2]) ** 2)))
    assert np.array_equal(task.decisions.predict(DECISION), f[:, 2])


def test_columns_of_scored_rows() -> None:
    values = task_of().decisions.values(DECISION)
    assert list(values) == ["prediction", "quantile_0.1", "quantile_0.25", "quantile_0.5", "quantile_0.9"]
    assert np.array_equal(np.column_stack(list(values.values())[1:]), np.sort(DECISION, axis=1))


@pytest.mark.parametrize("given", ["0.05, .5,0.95", [0.05, 0.5, 0.95], (0.05, 0.5, 0.95)])
def test_levels_are_read_as_they_are_given(given: object) -> None:
    assert Levels().check(given) == "0.05,0.5,0.95"


@pytest.mark.parametrize("given", ["0.95,0.5", "0.5,0.5", "0,0.5", "0.5,1", "a", "", [], 0.5, "0.5,nan"])
def test_levels_that_cross_or_are_none(given: object) -> None:
    with pytest.raises(ValueError, match=r"expected ascending numbers > 0 and < 1 with commas between, such as 0.05"):
        Levels().check(given)
