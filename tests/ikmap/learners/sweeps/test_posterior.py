"""The posterior over lifetimes, computed again from Bayes' rule on a fine grid of values."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ikmap.learners.sweeps.posterior import posterior


def by_rule(values: list[float], log_likelihood: list[float], limit: float, cells: int = 200_000) -> np.ndarray:
    """Sum prior times likelihood over a grid of values: those from a checkpoint to the next have its likelihood."""
    found = [0.0] * len(values)
    most = max(log_likelihood)
    width = (limit - values[0]) / cells
    for i in range(cells):
        value = values[0] + (i + 0.5) * width
        at = max(k for k in range(len(values)) if values[k] <= value)
        found[at] += width * math.exp(log_likelihood[at] - most)
    return np.array(found) / sum(found)


@pytest.mark.parametrize("of_all", [0.0, 12_345.0, -12_345.0])
def test_checkpoints_weigh_likelihood_times_the_values_that_they_stand_for(of_all: float) -> None:
    values, logs = [0.0, 0.125, 0.5, 0.5625, 2.0, 3.5], [-7.0, -3.0, -2.5, -1.0, -2.0, -4.0]
    found = posterior(values, [of_all + log for log in logs], 5.0)
    assert found == pytest.approx(by_rule(values, logs, 5.0, 20_000), rel=1e-9)
    assert found.sum() == pytest.approx(1.0)


def test_equal_likelihoods_leave_the_uniform_prior() -> None:
    assert posterior([1.0, 2.0, 4.0], [-3.0, -3.0, -3.0], 9.0) == pytest.approx([1 / 8, 2 / 8, 5 / 8])


def test_a_checkpoint_at_the_limit_stands_for_nothing() -> None:
    assert posterior([0.0, 1.0, 4.0], [0.0, 0.0, 50.0], 4.0) == pytest.approx([1 / 4, 3 / 4, 0.0])
    assert posterior([0.0, 1.0, 1.0, 4.0], [0.0, 50.0, 0.0, 0.0], 5.0) == pytest.approx([1 / 5, 0.0, 3 / 5, 1 / 5])


def test_likelihoods_that_are_far_apart_do_not_overflow() -> None:
    assert posterior([0.0, 1.0], [-1e5, 1e5], 2.0) == pytest.approx([0.0, 1.0])
