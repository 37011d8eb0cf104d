"""Traces: numbers that learners declare by name and that are recorded as they learn."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Protocol, cast

import numpy as np

from ikmap.json_values import JsonObject


class Traced(Protocol):
    """A state of a learner that declares traces."""

    def traces(self) -> Mapping[str, float]:
        """Return the traces as they are now, by name."""


def traces_of(names: Collection[str], state: object) -> list[float | None]:
    """Return the traces of a state now, in the order of its learner's names; None in place of infinite numbers."""
    traces = cast("Traced", state).traces() if names else {}
    return [finite(traces.get(name)) for name in names]


def as_result(names: Collection[str], recorded: np.ndarray) -> JsonObject:
    """Return the entry ``traces`` of ``metrics.json``: none for a learner without traces.

    Parameters
    ----------
    names : collection of str
        Names of the learner's traces (:attr:`~ikmap.methods.StreamLearner.traced`).
    recorded : ndarray, shape (points, names)
        Traces as they were recorded; NaN in place of infinite numbers.
    """
    if not names:
        return {}
    return {"traces": {name: [*map(finite, column)] for name, column in zip(names, recorded.T, strict=True)}}


def finite(value: float | None) -> float | None:
    """Return a finite number as a float, and None in place of anything else."""
    return float(value) if value is not None and math.isfinite(value) else None
