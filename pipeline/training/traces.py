"""Traces: figures that learners declare by name and that are recorded as they learn."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ikmap.methods import stream_learner
from pipeline.record_types import Record


def traces_of(learner: str, state: Any) -> list[float | None]:
    """What a state tells now, in the order of the learner's names; None for what is no finite number."""
    names = stream_learner(learner).traced
    told = state.traces() if names else {}
    return [finite(told.get(name)) for name in names]


def as_result(learner: str, recorded: np.ndarray) -> Record:
    """What ``metrics.json`` has of them: nothing for a learner that has none.

    Parameters
    ----------
    recorded : ndarray, shape (points, names)
        NaN for what is no number.
    """
    names = stream_learner(learner).traced
    if not names:
        return {}
    return {"traces": {name: [*map(finite, column)] for name, column in zip(names, recorded.T, strict=True)}}


def finite(value: float | None) -> float | None:
    """A number as a record has it."""
    return float(value) if value is not None and math.isfinite(value) else None
