"""Compiled loops of the losses of gradient boosting: gradients and hessians by the margins of rows."""

from __future__ import annotations

import numpy as np

from ikmap.compiled import compiled


@compiled({"boosting": "f8[::1], f8[::1], f8[::1], f8[::1]"})
def logistic_gradient(margin, target, gradient, hessian):
    """Write the derivatives of log(1 + exp(margin)) - target * margin, for targets 0 and 1."""
    for i in range(margin.size):
        probability = 1.0 / (1.0 + np.exp(-margin[i]))
        gradient[i] = probability - target[i]
        hessian[i] = probability * (1.0 - probability)


@compiled({"boosting": "f8[::1], f8[::1], f8[::1], f8[::1]"})
def squared_gradient(margin, target, gradient, hessian):
    """Write the derivatives of (margin - target)^2 / 2."""
    for i in range(margin.size):
        gradient[i] = margin[i] - target[i]
        hessian[i] = 1.0


@compiled({"boosting": "f8[::1], f8[::1], f8, f8[::1], f8[::1]"})
def quantile_gradient(margin, target, level, gradient, hessian):
    """Write the derivatives of the pinball loss of a quantile, with hessians of 1."""
    for i in range(margin.size):
        gradient[i] = -level if target[i] > margin[i] else 1.0 - level
        hessian[i] = 1.0
