"""The posterior over the values of a field of a map, from the log likelihood along a sweep."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ikmap.arrays import Floats


def posterior(values: Sequence[float], log_likelihood: Sequence[float], limit: float) -> Floats:
    """Return the probability of each checkpoint, which stands for all values up to the next one, or to the limit.

    Parameters
    ----------
    values, log_likelihood : sequences of float
        Values and log likelihoods of the checkpoints of a sweep, in ascending order of the values.
    limit : float
        Up to which the sweep went; the prior is uniform up to there.

    Returns
    -------
    ndarray of float64, shape (number of checkpoints,)
        Sums to 1. Predictions averaged with these weights are those of the mixture over values.

    Notes
    -----
    Source: The Mondrian Kernel, supplement B; algorithms.md, section 12.4.
    """
    spans = np.diff([*values, max(limit, values[-1])])
    logs = np.asarray(log_likelihood, dtype=np.float64) + np.log(np.maximum(spans, np.finfo(float).tiny))
    weights = np.exp(logs - logs.max())
    found: np.ndarray = weights / weights.sum()
    return found
