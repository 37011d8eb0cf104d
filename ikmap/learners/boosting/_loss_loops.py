"""Compiled loops of the losses of gradient boosting: derivatives by the margins of rows, and their words."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ikmap.compiled import compiled, group

LOGISTIC, SQUARED, QUANTILE = 0, 1, 2
"""Numbers of the losses."""
BLOCK = 1024
"""Number of rows whose derivatives are in the processor's cache while their words are written."""


@group("i8, f8, f8[::1], f8[::1], f8[::1], f8[::1], f8[::1], f8, f8, i8, b1, u8, i8, i8[:, ::1]")
class Derivation(NamedTuple):
    """Numbers and arrays by which the derivatives of rows are found, and where they are written.

    Number of the loss and, for a quantile, its level; margins, targets and weights (empty: ones) of all rows; where
    their gradients and hessians are written, times the weights; factors by which these become whole numbers, and bits
    by which those of hessians are shifted; where the two words of each row are written.
    """

    loss: int
    level: float
    margin: np.ndarray
    target: np.ndarray
    weight: np.ndarray
    gradient: np.ndarray
    hessian: np.ndarray
    gradient_scale: float
    hessian_scale: float
    shift: int
    by_chance: bool
    key: np.uint64
    first: int
    words: np.ndarray


@compiled({"boosting": "i8, f8, f8[::1], f8[::1], f8[::1], f8[::1]"})
def fill_derivatives(loss, level, margin, target, gradient, hessian):
    """Write gradient and hessian of each row.

    The losses are log(1 + exp(margin)) - target * margin, for targets 0 and 1; (margin - target)^2 / 2; and the pinball
    loss of a quantile, with hessians of 1.
    """
    if loss == LOGISTIC:
        for i in range(margin.size):
            probability = 1.0 / (1.0 + np.exp(-margin[i]))
            gradient[i] = probability - target[i]
            hessian[i] = probability * (1.0 - probability)
    elif loss == SQUARED:
        for i in range(margin.size):
            gradient[i] = margin[i] - target[i]
            hessian[i] = 1.0
    else:
        for i in range(margin.size):
            gradient[i] = -level if target[i] > margin[i] else 1.0 - level
            hessian[i] = 1.0


@compiled
def mixed(key, number):
    """Return the number of 64 bits that a key draws for a row, by SplitMix64 from the number of the row."""
    z = key + np.uint64(number + 1) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@compiled
def fill_words(gradient, hessian, gradient_scale, hessian_scale, shift, words):
    """Write the two words of each row: its gradient as a whole number; its hessian, shifted, plus 1."""
    for i in range(gradient.size):
        words[i, 0] = np.int64(np.rint(gradient[i] * gradient_scale))
        words[i, 1] = (np.int64(np.rint(hessian[i] * hessian_scale)) << shift) + 1


@compiled
def round_by_chance(hessian, hessian_scale, shift, key, first, words):
    """Write the second word of each row anew: its hessian is rounded up or down so that it is right on average.

    Parameters
    ----------
    key : uint64
    first : int
        Number of the first row.
    """
    for i in range(hessian.size):
        uniform = np.float64(mixed(key, first + i) >> np.uint64(11)) * 2.0**-53
        words[i, 1] = (np.int64(np.floor(hessian[i] * hessian_scale + uniform)) << shift) + 1


@compiled({"boosting": "{Derivation}, i8, i8"})
def derive(rows, start, stop):
    """Write gradient, hessian and words of the rows in [start, stop); return the largest gradient for a weight of 1.

    The largest gradient is only found for a loss that has no bound of it.
    """
    largest = 0.0
    for begin in range(start, stop, BLOCK):
        end = min(stop, begin + BLOCK)
        gradient, hessian, words = rows.gradient[begin:end], rows.hessian[begin:end], rows.words[begin:end]
        fill_derivatives(rows.loss, rows.level, rows.margin[begin:end], rows.target[begin:end], gradient, hessian)
        if rows.weight.size:
            weight = rows.weight[begin:end]
            if rows.loss == SQUARED:
                for i in range(weight.size):
                    if weight[i] > 0.0:
                        largest = max(largest, abs(gradient[i]))
            for i in range(weight.size):
                gradient[i] *= weight[i]
                hessian[i] *= weight[i]
        elif rows.loss == SQUARED:
            for i in range(gradient.size):
                largest = max(largest, abs(gradient[i]))
        fill_words(gradient, hessian, rows.gradient_scale, rows.hessian_scale, rows.shift, words)
        if rows.by_chance:
            round_by_chance(hessian, rows.hessian_scale, rows.shift, rows.key, rows.first + begin, words)
    return largest
