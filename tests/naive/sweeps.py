"""Stochastic gradient descent as it is defined (algorithms.md, 12.4), on dense features, one weight after the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np

SLOPES: dict[str, Callable[[float, float], float]] = {
    "squared": lambda f, y: -2 * (y - f),
    "hinge": lambda f, y: -y if y * f < 1 else 0.0,
    "squared_hinge": lambda f, y: -2 * y * max(1 - y * f, 0.0),
    "logistic": lambda f, y: -y / (1 + math.exp(y * f)),
}
"""Derivative of each loss with respect to the decision f."""
LOSSES: dict[str, Callable[[float, float], float]] = {
    "squared": lambda f, y: (y - f) ** 2,
    "hinge": lambda f, y: max(0.0, 1 - y * f),
    "squared_hinge": lambda f, y: max(0.0, 1 - y * f) ** 2,
    "logistic": lambda f, y: math.log(1 + math.exp(-y * f)),
}


def descended(
    w: Sequence[float] | np.ndarray,
    phi: np.ndarray,
    y: Sequence[float] | np.ndarray,
    order: Iterable[int],
    loss: str,
    alpha: float,
    eta: float,
    n_steps: float = 0.0,
) -> np.ndarray:
    """Return the weights after one step for each row of `order`, down ``alpha / 2 |w|^2 + loss(y_i, w . phi_i)``."""
    now = [float(value) for value in w]
    for i in order:
        step = eta / (1 + eta * alpha * n_steps)
        n_steps += 1
        decision = sum(value * float(feature) for value, feature in zip(now, phi[i], strict=True))
        slope = SLOPES[loss](decision, float(y[i]))
        gradient = [alpha * value + slope * float(feature) for value, feature in zip(now, phi[i], strict=True)]
        now = [value - step * part for value, part in zip(now, gradient, strict=True)]
    return np.array(now)
