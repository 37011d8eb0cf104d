"""Compiled steps of NORMA: what it does with one row, by the sums of the row (algorithms.md 11.1, 11.6)."""

import numpy as np
from numba import njit

from ikmap.learners.online.norma_rule import (
    EPSILON,
    HUBER,
    INSENSITIVE,
    LOGISTIC,
    NU,
    PERCEPTRON,
    SMALLEST_SIGMA,
    SQUARED,
)

FOLD, FOLD_AVERAGED = 1e-100, 1e-3
"""Scales below which weights are multiplied out: with a mean of all weights, whose sums lose digits as scales shrink,
earlier."""
RECENT = 1000
"""About so many rows make the recent share of errors, and the recent scores."""
LARGEST_EXPONENT = 700.0
"""Margins beyond which the slope of the logistic loss is that of this one, 1e-304: exp has no larger number."""
SLOWEST, SMOOTHED = 0.03, 300
"""Steps of the level of alerts, in parts of the deviation of scores, fall to this; alerts go by the mean of that level
over about so many rows."""

SCALE, TOTAL, SEEN, SHARE, MASS, MASS_SUM, LEVEL, MEAN_SCORE, SMOOTH_LEVEL, SCORED, DEVIATION, COUNTED = range(12)
N_NUMBERS = 12
"""Numbers that are kept beside weights: their scale; the factor of the sum of all functions; rows seen; recent share of
rows beyond the threshold; coefficients added up, in both kinds of columns; the level of alerts, the mean score and the
recent mean of that level; rows scored; mean absolute deviation of recent scores; what the functions count in that sum,
added up: rows seen, where all count the same."""


@njit(inline="always")
def step(loss, target, g, threshold, nu, eta, clip):
    """Return what a row adds to the expansion, the threshold after it, and whether it lies beyond the threshold.

    Parameters
    ----------
    loss : int
    target : float
        -1 or 1 for margins, the number for residuals.
    g : float
        Prediction before the step.
    threshold : float
        rho, epsilon or sigma.
    nu, eta : float
    clip : bool
        Keep rho at 0 or above.
    """
    if loss <= PERCEPTRON:
        margin = target * g
        if loss == PERCEPTRON:
            return (eta * target, threshold, True) if margin <= 0.0 else (0.0, threshold, False)
        beyond = margin < threshold
        if loss == NU:
            threshold += -eta * (1.0 - nu) if beyond else eta * nu
            if clip and threshold < 0.0:
                threshold = 0.0
        return eta * target if beyond else 0.0, threshold, beyond
    if loss == LOGISTIC:
        margin = target * g
        return eta * target / (1.0 + np.exp(min(margin, LARGEST_EXPONENT))), threshold, margin <= 0.0
    residual = target - g
    if loss == SQUARED:
        return eta * residual, threshold, residual != 0.0
    beyond = abs(residual) > threshold
    sign = 1.0 if residual > 0.0 else -1.0
    alpha = eta * sign
    if not beyond:
        alpha = 0.0 if loss in (EPSILON, INSENSITIVE) else eta * residual / threshold
    if loss not in (HUBER, INSENSITIVE):
        threshold += eta * (1.0 - nu) if beyond else -eta * nu
        threshold = max(threshold, 0.0 if loss == EPSILON else SMALLEST_SIGMA)
    return alpha, threshold, beyond


@njit(inline="always")
def step_size(eta, power, seen):
    """Step size of the row after `seen` others: eta, divided by the square root of the round where `power` is not 0."""
    return eta / np.sqrt(seen + 1.0) if power != 0.0 else eta


@njit(inline="always")
def counts(power, seen):
    """Return the count of the function before a row in the sum of all functions: a power of the row's number."""
    count = 1.0
    for _ in range(np.int64(power)):
        count *= seen + 1.0
    return count


@njit
def fold(W, averages, numbers):
    """Multiply the scale into the weights; with a sum of all weights, put what it has of them into its own columns."""
    a, total = numbers[SCALE], numbers[TOTAL]
    n_outputs = W.shape[1] // 2 if averages else W.shape[1]
    for j in range(W.shape[0]):
        for k in range(n_outputs):
            if averages:
                W[j, n_outputs + k] += total * W[j, k]
            W[j, k] *= a
    numbers[MASS_SUM] += total * numbers[MASS]
    numbers[MASS] *= a
    numbers[SCALE], numbers[TOTAL] = 1.0, 0.0


@njit(inline="always")
def mean_score(now, sums, numbers, divisor):
    """A row's value of the mean function, as a share of what it is where all rows stored share all cells; 0 at first.

    `now` and `sums` are the row's sums of the two kinds of columns.
    """
    mass = numbers[TOTAL] * numbers[MASS] + numbers[MASS_SUM]
    return (numbers[TOTAL] * now + sums) / (divisor * mass) if mass > 0.0 else 0.0


@njit(inline="always")
def follow(score, nu, numbers):
    """Move the level below which a share nu of the scores lies, and its recent mean. Returns whether this one did.

    Steps are in units of the mean absolute deviation of recent scores, whatever the scale of these.
    """
    numbers[SCORED] += 1.0
    part = 1.0 / min(numbers[SCORED], RECENT)
    if numbers[SCORED] == 1.0:
        numbers[LEVEL] = numbers[SMOOTH_LEVEL] = score
    alert = score < numbers[SMOOTH_LEVEL]
    numbers[MEAN_SCORE] += part * (score - numbers[MEAN_SCORE])
    numbers[DEVIATION] += part * (abs(score - numbers[MEAN_SCORE]) - numbers[DEVIATION])
    pace = numbers[DEVIATION] * max(1.0 / np.sqrt(numbers[SCORED]), SLOWEST)
    numbers[LEVEL] += pace * nu if score >= numbers[LEVEL] else -pace * (1.0 - nu)
    numbers[SMOOTH_LEVEL] += (numbers[LEVEL] - numbers[SMOOTH_LEVEL]) / min(numbers[SCORED], SMOOTHED)
    return alert


@njit
def respond(sums, y, loss, fixed, averages, divisor, numbers, moving, alpha):
    """Predict a row by its sums, move thresholds and offsets, and shrink: (predicted, beyond, whether it adds).

    ``alpha`` is written: what it adds, before it is divided by the scale (:func:`scaled`).
    """
    n_outputs = moving.shape[1]
    nu, decay, has_offset, clip, alerts = fixed[0], fixed[3], fixed[4] != 0.0, fixed[5] != 0.0, fixed[6] != 0.0
    seen, a, counted = numbers[SEEN], numbers[SCALE], numbers[COUNTED]
    eta, count = step_size(fixed[1], fixed[2], seen), counts(fixed[7], seen)
    if alerts:
        predicted = 1.0 if follow(mean_score(sums[0], sums[1], numbers, divisor), nu, numbers) else 0.0
    else:
        best, most = 0, 0.0
        for k in range(n_outputs):
            if averages and seen > 0.0:
                g = (numbers[TOTAL] * sums[k] + sums[n_outputs + k]) / (counted * divisor) + moving[3, k] / counted
            else:
                g = a * sums[k] / divisor + moving[1, k]
            if k == 0 or g > most:
                best, most = k, g
        predicted = np.float64(best) if n_outputs > 1 else most
    if averages:
        numbers[TOTAL] += count * a
    numbers[COUNTED] += count
    share, adds = 0, False
    for k in range(n_outputs):
        target = y if n_outputs == 1 else (1.0 if y == k else -1.0)
        g = a * sums[k] / divisor + moving[1, k]
        moving[2, k] += count * moving[0, k]
        moving[3, k] += count * moving[1, k]
        alpha[k], moving[0, k], out = step(loss, target, g, moving[0, k], nu, eta, clip)
        share += out
        adds |= alpha[k] != 0.0
        if has_offset:
            moving[1, k] += alpha[k]
    numbers[SEEN] += 1.0
    numbers[SHARE] += (share / n_outputs - numbers[SHARE]) / min(numbers[SEEN], RECENT)
    numbers[SCALE] = a * (1.0 - eta * decay)
    return predicted, share > 0, adds


@njit
def scaled(alpha, n_outputs, averages, alerts, numbers):
    """Turn what a row adds into what is added to both kinds of columns."""
    for k in range(n_outputs):
        alpha[k] /= numbers[SCALE]
        if averages:
            alpha[n_outputs + k] = -numbers[TOTAL] * alpha[k]
    if alerts:
        numbers[MASS] += alpha[0]
        numbers[MASS_SUM] += alpha[1]
