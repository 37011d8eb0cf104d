"""Compiled pass of rows over masses that fade: score each row, compare it with the threshold, then count it."""

import numpy as np

from ikmap.compiled import compiled

LARGEST = 1e100
"""Weights of new rows grow in place of old ones fading; here they are all divided by it."""


@compiled(
    {
        "fading-masses narrow": "u1[:, ::1], i8[::1], i8, f8[::1], f8[::1], f8[::1], f8, f8, f8, i4[::1]",
        "fading-masses wide": "u2[:, ::1], i8[::1], i8, f8[::1], f8[::1], f8[::1], f8, f8, f8, i4[::1]",
        "fading-masses": "u4[:, ::1], i8[::1], i8, f8[::1], f8[::1], f8[::1], f8, f8, f8, i4[::1]",
    }
)
def fading_pass(codes, offsets, absent, masses, bins, numbers, kept, alert_rate, recent, predicted):
    """Take in rows one after the other.

    `numbers`: weight of the next row, weights of all rows, of those with a score and of the scores above the
    threshold, the bin of the threshold, and the recent share of alerts. A row weighs `kept` of the row after it.
    `bins`: weights of scores in [0, 1]. `recent`: share that a row has in the recent share of alerts.
    """
    n, t = codes.shape
    weight, total, scored, above = numbers[0], numbers[1], numbers[2], numbers[3]
    edge, alerts = np.int64(numbers[4]), numbers[5]
    last = bins.size - 1
    for i in range(n):
        mass = 0.0
        for j in range(t):
            if codes[i, j] != absent:
                mass += masses[offsets[j] + codes[i, j]]
                masses[offsets[j] + codes[i, j]] += weight
        predicted[i] = 0
        if total > 0.0:
            score = 1.0 - mass / (t * total)
            if score > (edge + 1) / bins.size:
                predicted[i] = 1
            alerts += recent * (predicted[i] - alerts)
            here = min(max(np.int64(score * bins.size), 0), last)
            bins[here] += weight
            scored += weight
            if here > edge:
                above += weight
            while above > alert_rate * scored and edge < last:
                edge += 1
                above -= bins[edge]
            while edge > 0 and above + bins[edge] <= alert_rate * scored:
                above += bins[edge]
                edge -= 1
        total += weight
        weight /= kept
        if weight > LARGEST:
            masses /= weight
            bins /= weight
            total /= weight
            scored = bins.sum()
            above = bins[edge + 1 :].sum()
            weight = 1.0
    numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5] = weight, total, scored, above, edge, alerts
