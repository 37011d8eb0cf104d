"""The compiled loop of the forgetting learner."""

from __future__ import annotations

import numpy as np

from ikmap.compiled import compiled


@compiled({"forgetting": "i8[:, ::1], i4[::1], f8[::1], f8, f8, f8, i4[::1]"})
def forgetting_pass(
    columns: np.ndarray,
    y: np.ndarray,
    weights: np.ndarray,
    scale: float,
    eta: float,
    kept: float,
    predicted: np.ndarray,
) -> tuple[float, int]:
    """Decay all weights, then step where the margin is below 1. Returns the factor of the weights, and the steps."""
    t, steps = columns.shape[1], 0
    for r in range(columns.shape[0]):
        total = 0.0
        for j in range(t):
            if columns[r, j] >= 0:
                total += weights[columns[r, j]]
        f = scale * total / t
        predicted[r] = 1 if f >= 0 else 0
        sign = 1.0 if y[r] == 1 else -1.0
        scale *= kept
        if sign * f < 1.0:
            steps += 1
            for j in range(t):
                if columns[r, j] >= 0:
                    weights[columns[r, j]] += eta * sign / scale
        if scale < 1e-100:
            weights *= scale
            scale = 1.0
    return scale, steps
