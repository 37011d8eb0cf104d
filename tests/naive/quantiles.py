"""Online quantile regression and pinball losses, one Python step at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np


def quantile_steps(
    codes: np.ndarray, n_cells: int, y: np.ndarray, levels: Sequence[float], eta: float
) -> tuple[np.ndarray, Callable[[Sequence[int]], list[float]]]:
    """What was predicted of each row before it was learned from; then a function that predicts."""
    t = codes.shape[1]
    weights = [[[0.0] * n_cells for _ in range(t)] for _ in levels]
    rows = [[0] * n_cells for _ in range(t)]
    intercepts, predicted, distances = [0.0] * len(levels), [], []
    seen: list[float] = []

    def predict(row: Sequence[int]) -> list[float]:
        return [
            b + sum(w[j][c] for j, c in enumerate(row) if c >= 0) / t for b, w in zip(intercepts, weights, strict=True)
        ]

    for row, target in zip(codes.tolist(), y.tolist(), strict=True):
        found = predict(row)
        predicted.append(found)
        if not seen:
            intercepts = [target] * len(levels)
        else:
            distances.append(abs(target - sum(seen) / len(seen)))
            unit = 4 * eta * sum(distances) / len(distances)
            for j, c in enumerate(row):
                if c >= 0:
                    rows[j][c] += 1
            for k, level in enumerate(levels):
                slope = level if target > found[k] else level - 1 if target < found[k] else 0.0
                intercepts[k] += unit * slope / math.sqrt(len(seen))
                for j, c in enumerate(row):
                    if c >= 0:
                        weights[k][j][c] += unit * slope / math.sqrt(rows[j][c])
        seen.append(target)
    return np.array(predicted), predict


def pinball(y: Iterable[float], f: Iterable[float], level: float) -> float:
    """Mean pinball loss."""
    return np.mean([level * (a - b) if a >= b else (level - 1) * (a - b) for a, b in zip(y, f, strict=True)])
