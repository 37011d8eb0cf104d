"""Compiled loop of NORMA as a sum over stored rows (algorithms.md 11.1, 11.5)."""

import numpy as np

from ikmap.compiled import compiled
from ikmap.learners.online.norma_steps import FOLD, FOLD_AVERAGED, SCALE, SEEN, fold, respond, scaled


@compiled(
    {"norma-dual": "f8[:, ::1], f8[::1], i8, f8[::1], b1, i8, i8, f8[:, ::1], i8[::1], f8[::1], f8[:, ::1], f8[:, ::1]"}
)
def norma_dual_pass(kernel, y, loss, fixed, averages, stored, tau, coefficients, rounds, numbers, moving, said):
    """Predict the rows of a block, and learn from each. Returns the number of terms there are then.

    Parameters
    ----------
    kernel : ndarray of float64, shape (n, stored + n)
        Of the block's rows with those that are stored, and with each other.
    y, loss, fixed, averages, numbers, moving
        As of ``norma_pass`` of NORMA on cells.
    stored : int
        Terms there are before the block.
    tau : int
        Terms count for so many rounds; 0: for ever.
    coefficients : ndarray of float64, shape (stored + n, K), or (stored + n, 2 K) with `averages`
    rounds : ndarray of int64, shape (stored + n,)
        Rounds, from 1, in which terms were added; of those of the block written.
    said : ndarray of float64, shape (n, 3)
        Written: the prediction, whether it was beyond a threshold, and the row's number within the block of a term that
        is new, by term.
    """
    n_outputs, alerts, width = moving.shape[1], fixed[6] != 0.0, coefficients.shape[1]
    sums, alpha = np.empty(width), np.zeros(width)
    count, low = stored, 0
    for i in range(y.size):
        now = np.int64(numbers[SEEN]) + 1
        while tau > 0 and low < count and rounds[low] < now - tau:
            low += 1
        sums[:] = 0.0
        for j in range(low, count):
            # One after the other: the sum is the same wherever the block began.
            value = kernel[i, j] if j < stored else kernel[i, stored + np.int64(said[j - stored, 2])]
            for k in range(width):
                sums[k] += coefficients[j, k] * value
        predicted, beyond, adds = respond(sums, y[i], loss, fixed, averages, 1.0, numbers, moving, alpha)
        said[i, 0], said[i, 1] = predicted, beyond
        if numbers[SCALE] < (FOLD_AVERAGED if averages else FOLD):
            fold(coefficients[:count], averages, numbers)
        if adds:
            scaled(alpha, n_outputs, averages, alerts, numbers)
            coefficients[count] = alpha
            rounds[count] = now
            said[count - stored, 2] = i
            count += 1
    return count
