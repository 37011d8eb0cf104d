"""Probabilities of classes from log odds."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from ikmap.arrays import Floats


def probabilities(decisions: Floats) -> Floats:
    """Return the probability of each class, shape (n, n_classes), from log odds of shape (n,) or (n, n_classes).

    Of more than two classes each has odds of its own, and their probabilities are scaled to sum 1.
    """
    if decisions.ndim == 1:
        return np.column_stack([expit(-decisions), expit(decisions)])
    # The log of each probability minus the largest one: rows far from every class still sum to 1.
    logs = -np.logaddexp(0.0, -decisions)
    shares: Floats = np.exp(logs - logs.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True)
