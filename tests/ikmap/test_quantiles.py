"""Levels of quantiles that are predicted together."""

from __future__ import annotations

import pytest

from ikmap.quantiles import middle_of


@pytest.mark.parametrize(
    ("levels", "middle"),
    [((0.1,), 0), ((0.1, 0.9), 0), ((0.05, 0.95), 0), ((0.3, 0.7), 0), ((0.2, 0.6, 0.9), 1), ((0.05, 0.5, 0.95), 1)],
)
def test_the_prediction_is_the_quantile_next_to_a_half(levels: tuple[float, ...], middle: int) -> None:
    """The lower of two that are as near is taken, also where rounding makes the upper one nearer."""
    assert middle_of(levels) == middle
