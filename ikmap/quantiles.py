"""Levels of quantiles that are predicted together."""

from __future__ import annotations

from collections.abc import Iterable


def middle_of(levels: Iterable[float]) -> int:
    """Return the index of the level of the prediction: the one nearest to a half, in a tie the lower one."""
    off = [round(abs(float(level) - 0.5), 12) for level in levels]  # 0.95 is nearer to a half than 0.05 by a rounding
    return off.index(min(off))
