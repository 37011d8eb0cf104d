"""Compiled loops of NORMA: the pass over rows in primal form (algorithms.md 11.6)."""

import numpy as np

from ikmap.compiled import compiled
from ikmap.learners._scores_loops import add_outer, scores
from ikmap.learners.online.norma_steps import (
    COUNTED,
    FOLD,
    FOLD_AVERAGED,
    MASS,
    MASS_SUM,
    RECENT,
    SCALE,
    SEEN,
    SHARE,
    TOTAL,
    counts,
    fold,
    follow,
    mean_score,
    respond,
    scaled,
    step,
    step_size,
)

PASS = "f8[::1], i8, f8[::1], b1, f8, f8[:, ::1], f8[::1], f8[:, ::1], f8[::1], b1[::1]"
"""Signature of both passes below, after the rows."""

_0, _1, _2, _3, _4 = (np.uint64(k) for k in range(5))


@compiled({"norma multiclass": f"{{cells}}, {PASS}", "norma mondrian, norma binning": f"{{gapped}}, {PASS}"})
def norma_pass(rows, y, loss, fixed, averages, divisor, W, numbers, moving, predicted, beyond):
    """Predict each row, then take a step on it (algorithms.md 11.1, 11.6). Returns the rows that added something.

    Parameters
    ----------
    rows
        In any layout.
    y : ndarray of float64, shape (n,)
        With one output its target, else the number of the class.
    loss : int
    fixed : ndarray of float64, shape (8,)
        nu, eta, 1 if steps shrink with the square root of the round, lambda, 1 for an offset, 1 to keep rho at 0 or
        above, 1 where alerts are given by the mean function, and the power of a row's number that says what the
        function before it counts in the mean.
    averages : bool
        Decisions are those of the mean of the functions before each row.
    divisor : float
    W : ndarray of float64, shape (n_columns, K), or (n_columns, 2 K) with `averages`
        Weights are the scale times the first K columns; their sum before each row so far, as they count, is ``total``
        times these and the other columns.
    numbers : ndarray of float64, shape (N_NUMBERS,)
    moving : ndarray of float64, shape (4, K)
        Thresholds, offsets, and the sums of both before each row.
    predicted : ndarray of float64, shape (n,)
        Written: with one output the prediction, else the class; of alerts by the mean function 1 or 0.
    beyond : ndarray of bool, shape (n,)
        Written: whether some output was beyond its threshold.
    """
    n_outputs, alerts = moving.shape[1], fixed[6] != 0.0
    sums, alpha = np.empty(W.shape[1]), np.zeros(W.shape[1])
    kept = 0
    for i in range(y.size):
        scores(rows, i, W, sums)
        predicted[i], beyond[i], adds = respond(sums, y[i], loss, fixed, averages, divisor, numbers, moving, alpha)
        if numbers[SCALE] < (FOLD_AVERAGED if averages else FOLD):
            fold(W, averages, numbers)
        if adds:
            kept += 1
            scaled(alpha, n_outputs, averages, alerts, numbers)
            add_outer(rows, i, alpha, W)
    return kept


@compiled({"norma": f"{{cells}}, {PASS}"})
def norma_single_pass(rows, y, loss, fixed, averages, divisor, W, numbers, moving, predicted, beyond):
    """:func:`norma_pass`, bit for bit, for one output and rows of cells of which none is missing."""
    codes, base, _ = rows
    nu, eta0, shrinks, decay, has_offset, clip = (
        fixed[0], fixed[1], fixed[2], fixed[3], fixed[4] != 0.0, fixed[5] != 0.0,
    )  # fmt: skip
    alerts, power = fixed[6] != 0.0, fixed[7]
    t, w = np.uint64(codes.shape[1]), W.ravel()
    kept = 0
    a, seen, recent, counted = numbers[SCALE], numbers[SEEN], numbers[SHARE], numbers[COUNTED]
    threshold, offset, thresholds, offsets = moving[0, 0], moving[1, 0], moving[2, 0], moving[3, 0]
    for i in range(np.uint64(y.size)):
        eta, count = step_size(eta0, shrinks, seen), counts(power, seen)
        j = _0
        if averages:
            now, sums = 0.0, 0.0
            while j + _4 <= t:
                c0 = (base[j] + np.uint64(codes[i, j])) * _2
                c1 = (base[j + _1] + np.uint64(codes[i, j + _1])) * _2
                c2 = (base[j + _2] + np.uint64(codes[i, j + _2])) * _2
                c3 = (base[j + _3] + np.uint64(codes[i, j + _3])) * _2
                now += (w[c0] + w[c1]) + (w[c2] + w[c3])
                sums += (w[c0 + _1] + w[c1 + _1]) + (w[c2 + _1] + w[c3 + _1])
                j += _4
            while j < t:
                c0 = (base[j] + np.uint64(codes[i, j])) * _2
                now += w[c0]
                sums += w[c0 + _1]
                j += _1
            g = a * now / divisor + offset
            if alerts:
                predicted[i] = follow(mean_score(now, sums, numbers, divisor), nu, numbers)
            elif seen > 0.0:
                predicted[i] = (numbers[TOTAL] * now + sums) / (counted * divisor) + offsets / counted
            else:
                predicted[i] = g
            numbers[TOTAL] += count * a
        else:
            s0 = s1 = s2 = s3 = 0.0
            while j + _4 <= t:
                s0 += w[base[j] + np.uint64(codes[i, j])]
                s1 += w[base[j + _1] + np.uint64(codes[i, j + _1])]
                s2 += w[base[j + _2] + np.uint64(codes[i, j + _2])]
                s3 += w[base[j + _3] + np.uint64(codes[i, j + _3])]
                j += _4
            while j < t:
                s0 += w[base[j] + np.uint64(codes[i, j])]
                j += _1
            g = a * ((s0 + s1) + (s2 + s3)) / divisor + offset
            predicted[i] = g
        counted += count
        thresholds += count * threshold
        offsets += count * offset
        alpha, threshold, out = step(loss, y[i], g, threshold, nu, eta, clip)
        if has_offset:
            offset += alpha
        beyond[i] = out
        seen += 1.0
        recent += ((1.0 if out else 0.0) - recent) / min(seen, RECENT)
        a *= 1.0 - eta * decay
        if a < (FOLD_AVERAGED if averages else FOLD):
            numbers[SCALE] = a
            fold(W, averages, numbers)
            a = 1.0
        if alpha != 0.0:
            kept += 1
            delta = alpha / a
            j = _0
            if averages:
                back = -numbers[TOTAL] * delta
                while j < t:
                    c0 = (base[j] + np.uint64(codes[i, j])) * _2
                    w[c0] += delta
                    w[c0 + _1] += back
                    j += _1
                if alerts:
                    numbers[MASS] += delta
                    numbers[MASS_SUM] += back
            else:
                while j < t:
                    w[base[j] + np.uint64(codes[i, j])] += delta
                    j += _1
    numbers[SCALE], numbers[SEEN], numbers[SHARE], numbers[COUNTED] = a, seen, recent, counted
    moving[0, 0], moving[1, 0], moving[2, 0], moving[3, 0] = threshold, offset, thresholds, offsets
    return kept
