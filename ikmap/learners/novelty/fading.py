"""The isolation distributional kernel of a stream, whose counts of rows fade."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
import scipy.sparse as sp

from ikmap.arrays import Floats
from ikmap.cells import Cells, absent_code, in_wider_layout
from ikmap.json_values import JsonObject, Label
from ikmap.learners.novelty._fading_loops import fading_pass
from ikmap.learners.novelty.cell_scores import CellMasses
from ikmap.learners.rows import Rows, check_rows

BINS = 1 << 14
"""Number of bins of scores: the threshold is their quantile to within this fraction of [0, 1]."""
RECENT_ROWS = 1000
"""About so many rows make the recent share of alerts."""


class Step(NamedTuple):
    """Predictions for rows before they were counted: 1 for novel rows, else 0."""

    predicted: np.ndarray


@dataclass
class FadingMasses:
    """Counts of rows by cell, in which the weight of a row halves with every `half_life` later rows.

    A row scores 1 - K(x, P), where P are the rows before it, by their weights. The threshold is the quantile of the
    scores that rows had when they came, with the same weights. The first row has none.

    Attributes
    ----------
    offsets : ndarray of int64, shape (t + 1,)
    alert_rate : float
    half_life : float or None
        In rows; None: rows do not fade, and weights are whole numbers.
    learner : str
    masses : ndarray of float64, shape (offsets[-1],)
    bins, numbers : ndarray of float64
        See :func:`~ikmap.learners.novelty._fading_loops.fading_pass`.
    """

    offsets: np.ndarray
    alert_rate: float
    half_life: float | None
    learner: str
    masses: Floats
    bins: Floats
    numbers: Floats
    n_seen: int = 0

    @classmethod
    def start(cls, offsets: np.ndarray, alert_rate: float, half_life: float | None, learner: str) -> Self:
        """Return the state before the first row."""
        numbers = np.array([1.0, 0.0, 0.0, 0.0, BINS - 1, 0.0])
        return cls(offsets, alert_rate, half_life, learner, np.zeros(int(offsets[-1])), np.zeros(BINS), numbers)

    @property
    def n_support(self) -> int:
        """Number of kept rows, which is 0."""
        return 0

    @property
    def threshold(self) -> float:
        """Score above which a row is novel."""
        return float((self.numbers[4] + 1) / BINS)

    def partial_fit(self, rows: Rows, y: np.ndarray) -> Step:  # noqa: ARG002
        """Score each row and count it, one after the other; labels are not looked at."""
        assert isinstance(rows, Cells)
        check_rows(rows, self.masses.size)
        codes = np.ascontiguousarray(rows.codes)
        if codes.dtype.kind == "i":
            codes = codes.view(f"u{codes.itemsize}")
        predicted = np.empty(rows.n_rows, dtype=np.int32)
        kept = 1.0 if self.half_life is None else float(np.exp2(-1.0 / self.half_life))
        absent = absent_code(codes.dtype, rows.offsets)
        of = (self.masses, self.bins, self.numbers, kept, self.alert_rate, 1.0 / RECENT_ROWS)
        fading_pass(codes, rows.offsets, absent, *of, predicted)
        self.n_seen += rows.n_rows
        return Step(predicted)

    def decision_function(self, rows: Rows) -> np.ndarray:
        """Return the scores less the threshold, shape (n, 1)."""
        assert isinstance(rows, Cells)
        return self.model([]).decision_function(rows)

    def model(self, classes: list[Label], params: JsonObject | None = None) -> CellMasses:  # noqa: ARG002
        """Return the model with the current counts."""
        divisor = float((self.offsets.size - 1) * self.numbers[1]) or 1.0
        return CellMasses(self.masses.copy(), divisor, self.threshold, self.learner, params or {})

    def traces(self) -> dict[str, float]:
        """Return the recent share of alerts, the wanted share, and the similarity at the threshold."""
        return {"alert_rate": float(self.numbers[5]), "asked": self.alert_rate, "similarity": 1.0 - self.threshold}

    def grow(self, old: np.ndarray, new: np.ndarray) -> None:
        """Continue with more cells, in which there were no rows."""
        self.masses, self.offsets = in_wider_layout(self.masses, old, new), new

    def carry(self, matrix: sp.csr_array, offsets: np.ndarray) -> None:
        """Continue with partly redrawn partitionings: masses become the matrix times the masses before."""
        self.masses, self.offsets = matrix @ self.masses, offsets

    def checkpoint(self) -> dict[str, np.ndarray]:
        """Return the state as arrays, for :meth:`restore`."""
        return {
            "masses": self.masses.copy(),
            "bins": self.bins.copy(),
            "numbers": self.numbers.copy(),
            "offsets": self.offsets.copy(),
            "n_seen": np.array(self.n_seen),
        }

    def restore(self, arrays: Mapping[str, np.ndarray]) -> Self:
        """Return the state from which :meth:`checkpoint` made the arrays."""
        masses, bins, numbers, offsets = (np.array(arrays[name]) for name in ("masses", "bins", "numbers", "offsets"))
        n_seen = int(arrays["n_seen"])
        return replace(self, masses=masses, bins=bins, numbers=numbers, offsets=offsets, n_seen=n_seen)
