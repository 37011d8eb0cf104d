"""Linear SVMs and logistic regression for many values of C, each started from the previous solution."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from ikmap.arrays import Floats
from ikmap.learners.dual.linear_svm import SVMFit, SVMParams, fit_linear_svm
from ikmap.learners.rows import Blocks


def fit_linear_svm_path(
    blocks: Blocks,
    n_classes: int,
    params: SVMParams,
    Cs: Sequence[float],
) -> Iterator[SVMFit]:
    """Solve for every C in ascending order, each from the previous solution and only when it is asked for.

    Parameters
    ----------
    blocks, n_classes, params
        The same as in :func:`fit_linear_svm`; ``params.C`` does not matter.
    Cs : sequence of float
        Values of C, > 0, in any order.

    Yields
    ------
    SVMFit
        Certified like any other; ``alphas`` has as many rows as there are problems.
    """
    alpha0, ladder = None, sorted(Cs)
    for C, following in zip(ladder, [*ladder[1:], None], strict=True):
        fit = fit_linear_svm(blocks, n_classes, replace(params, C=C), alpha0=alpha0)
        if following is not None:
            alpha0 = _scaled(fit, params.loss, C, following)
        yield fit
        del fit  # Its weights, which may be large, are not needed for the next.


def _scaled(fit: SVMFit, loss: str, before: float, C: float) -> Floats:
    """Return dual variables to start from at C, scaled from the solution at a smaller C."""
    ratio = C / before
    if loss == "logistic":
        return fit.alphas * ratio
    if loss == "epsilon_insensitive":
        bound = np.abs(fit.alphas).max(axis=1, keepdims=True, initial=0.0)
        return np.where(np.abs(fit.alphas) >= bound * (1 - 1e-9), fit.alphas * ratio, fit.alphas)
    if loss == "hinge":
        # What rests at the upper bound mostly stays there; every bound grows by the same factor.
        bound = fit.alphas.max(axis=1, keepdims=True, initial=0.0)
        return np.where(fit.alphas >= bound * (1 - 1e-9), fit.alphas * ratio, fit.alphas)
    # Of numbers, sum(b z) - epsilon sum(|b|) stands for sum(a): twice the dual objective of the old solution.
    gain = 2.0 * fit.dual if loss == "squared_epsilon_insensitive" else fit.alphas.sum(axis=1)
    # The best multiple s: sum(a) = |w|^2 + sum(a^2 / 2C_i) at the old solution, and D(s a) is a parabola.
    length = np.einsum("jk,jk->k", fit.coef, fit.coef) + fit.intercept**2
    rest = np.maximum(gain - length, 0.0)
    scale = (length + rest) / np.maximum(length + rest / ratio, np.finfo(float).tiny)
    alphas: Floats = fit.alphas * scale[:, None]
    return alphas
