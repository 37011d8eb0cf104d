"""A map that grows and a learner that forgets, by their definitions: one row at a time, every weight written out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def growing_bins(
    X: np.ndarray, columns: np.ndarray, shifts: np.ndarray, width: float, known: list[list[list[int]]]
) -> tuple[np.ndarray, np.ndarray]:
    """Cells of rows in bins of two columns; `known` holds the bins met so far, a list for each partitioning."""
    codes = np.empty((len(X), len(columns)), dtype=np.int64)
    widths = np.empty((len(X), len(columns)), dtype=np.int64)
    for r, x in enumerate(X):
        for i, pair in enumerate(columns):
            bins = [int(np.floor((x[j] + shift) / width)) for j, shift in zip(pair, shifts[i], strict=True)]
            if bins not in known[i]:
                known[i].append(bins)
            codes[r, i] = known[i].index(bins)
        widths[r] = [len(met) for met in known]
    return codes, widths


class Forgetting:
    """A weight for each (partitioning, cell), all of which decay before each step."""

    def __init__(self, eta: float, forget: float) -> None:
        self.eta, self.forget = eta, forget
        self.weights: dict[tuple[int, int], float] = {}

    def decision(self, codes: Sequence[int]) -> float:
        return sum(self.weights.get((i, c), 0.0) for i, c in enumerate(codes) if c >= 0) / len(codes)

    def learn(self, codes: Sequence[int], sign: float) -> None:
        f = self.decision(codes)
        self.weights = {key: (1 - self.eta * self.forget) * w for key, w in self.weights.items()}
        if sign * f < 1:
            for i, c in enumerate(codes):
                if c >= 0:
                    self.weights[i, c] = self.weights.get((i, c), 0.0) + self.eta * sign

    def norm(self) -> float:
        return float(np.sqrt(sum(w**2 for w in self.weights.values())))
