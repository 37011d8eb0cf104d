"""Traces: figures that learners declare by name and that are recorded as they learn."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import numpy as np


def traces_of(names: Collection[str], state: Any) -> list[float | None]:
    """What a state tells now, in the order of its learner's names; None for what is no finite number."""
    told = state.traces() if names else {}
    return [finite(told.get(name)) for name in names]


def as_result(names: Collection[str], recorded: np.ndarray) -> dict[str, Any]:
    """What ``metrics.json`` has of them: nothing for a learner that has none.

    Parameters
    ----------
    names : collection of str
        Those of the learner (:attr:`~ikmap.methods.StreamLearner.traced`).
    recorded : ndarray, shape (points, names)
        NaN for what is no number.
    """
    if not names:
        return {}
    return {"traces": {name: [*map(finite, column)] for name, column in zip(names, recorded.T, strict=True)}}


def finite(value: float | None) -> float | None:
    """A number as a record has it."""
    return float(value) if value is not None and math.isfinite(value) else None
