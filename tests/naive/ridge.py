"""Ridge regression by its normal equations, written out."""

from __future__ import annotations

import numpy as np


def ridge(X: np.ndarray, y: np.ndarray, alpha: float, weight: np.ndarray | None = None) -> tuple[np.ndarray, float]:
    """Weights and intercept that minimise 1/2 sum s (y - X w - b)^2 + alpha/2 |w|^2."""
    s = np.ones(y.size) if weight is None else weight
    both = np.column_stack([X, np.ones(y.size)])
    penalty = alpha * np.eye(both.shape[1])
    penalty[-1, -1] = 0.0
    solution = np.linalg.solve(both.T @ (s[:, None] * both) + penalty, both.T @ (s * y))
    return solution[:-1], float(solution[-1])


def objective(
    X: np.ndarray, y: np.ndarray, alpha: float, w: np.ndarray, b: float, weight: np.ndarray | None = None
) -> float:
    """What is minimised."""
    s = np.ones(y.size) if weight is None else weight
    return float(0.5 * (s * (y - X @ w - b) ** 2).sum() + alpha / 2 * (w @ w))
