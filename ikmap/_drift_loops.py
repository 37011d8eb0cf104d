"""Compiled loops of drift detectors: they take in losses one by one, and say with which they raise an alarm."""

import numpy as np

from ikmap.compiled import compiled

LEVELS, BUCKETS = 48, 5
CLOCK, LEAST, GRACE = 32, 5, 10


@compiled({"cells-online": "f8[::1], f8, f8[:, ::1], f8[:, ::1], i8[::1], f8[::1], u1[::1]"})
def adwin_pass(values, delta, totals, spreads, counts, numbers, alarms):
    """ADWIN2 of Bifet and Gavalda (2007): a window that is cut where its older and its newer part differ.

    The window is an exponential histogram: level i has up to five buckets of 2^i values, oldest first, each with the
    sum of its values in `totals` and that of their squared distances from their mean in `spreads`. `numbers`: values in
    the window, their sum, their squared distances from their mean, and values seen. `alarms` is set where a cut was
    made after which the mean is larger.
    """
    n, total, spread, seen = numbers[0], numbers[1], numbers[2], numbers[3]
    for at in range(values.size):
        x = values[at]
        if n > 0:
            spread += n * (x - total / n) ** 2 / (n + 1)
        n += 1
        total += x
        seen += 1
        totals[0, counts[0]] = x
        spreads[0, counts[0]] = 0.0
        counts[0] += 1
        level, size = 0, 1.0
        while counts[level] > BUCKETS:
            apart = (totals[level, 0] - totals[level, 1]) / size
            above = counts[level + 1]
            totals[level + 1, above] = totals[level, 0] + totals[level, 1]
            spreads[level + 1, above] = spreads[level, 0] + spreads[level, 1] + 0.5 * size * apart**2
            counts[level + 1] += 1
            counts[level] -= 2
            for k in range(counts[level]):
                totals[level, k] = totals[level, k + 2]
                spreads[level, k] = spreads[level, k + 2]
            level, size = level + 1, 2 * size
        if seen % CLOCK != 0 or n <= GRACE:
            continue
        cut = True
        while cut and n > GRACE:
            cut = False
            within = np.log(2.0 * np.log(n) / delta)
            variance = max(spread / n, 0.0)
            older, of_older = 0.0, 0.0
            for level in range(LEVELS - 1, -1, -1):
                for k in range(counts[level]):
                    older += 2.0**level
                    of_older += totals[level, k]
                    newer = n - older
                    if older < LEAST or newer < LEAST:
                        continue
                    change = (total - of_older) / newer - of_older / older
                    inverse = 1.0 / (older - LEAST + 1) + 1.0 / (newer - LEAST + 1)
                    bound = np.sqrt(2.0 * inverse * variance * within) + 2.0 / 3.0 * within * inverse
                    if abs(change) > bound:
                        cut = True
                        if change > 0:
                            alarms[at] = 1
                        break
                if cut:
                    break
            if cut:  # the oldest bucket goes
                level = LEVELS - 1
                while counts[level] == 0:
                    level -= 1
                size = 2.0**level
                n -= size
                total -= totals[level, 0]
                apart = totals[level, 0] / size - total / n
                spread -= spreads[level, 0] + size * n * apart**2 / (size + n)
                counts[level] -= 1
                for k in range(counts[level]):
                    totals[level, k] = totals[level, k + 1]
                    spreads[level, k] = spreads[level, k + 1]
    numbers[0], numbers[1], numbers[2], numbers[3] = n, total, spread, seen


@compiled({"cells-online": "f8[::1], f8, f8, i8, f8[::1], u1[::1]"})
def page_hinkley_pass(values, delta, threshold, least, numbers, alarms):
    """Page (1954) and Hinkley: an alarm where values add up to far more than their mean, and then it starts again.

    `numbers`: values since the last alarm, their mean, the sum of what they lie above it by more than delta, and the
    least that this sum has been.
    """
    for at in range(values.size):
        numbers[0] += 1
        numbers[1] += (values[at] - numbers[1]) / numbers[0]
        numbers[2] += values[at] - numbers[1] - delta
        numbers[3] = min(numbers[3], numbers[2])
        if numbers[0] >= least and numbers[2] - numbers[3] > threshold:
            alarms[at] = 1
            numbers[:] = 0.0
