"""A sweep of dual coordinate descent on cells that two threads make together (algorithms.md 8.2).

Each thread owns half of the partitionings, cells and weights alike, so that no weight travels between the cores. Rows
are taken in eights. Both threads sum up what their half says about each row of eight, as w stands before any of these
rows has moved, and count in their half how many cells each two of the rows share; they exchange sums and counts. Then
both make the eight steps, one after the other: a row that moved by s changes the sum of one that shares k cells with it
by s k. Each thread adds the steps to its half of w. So the cores meet once for eight rows.

Weights are whole numbers (see ``_rows_loops``), so none of this changes a bit of what one thread computes alone, and
the two can stop at any eight and leave the rest to one: when one of them is not let run, the other waits in vain.
"""

from typing import NamedTuple

import numpy as np

from ikmap._simd import prefetch
from ikmap.compiled import compiled
from ikmap.learners._memory_loops import acquire, copy, let_others_run, opaque, pause, release
from ikmap.learners._tally_loops import BYTES, EIGHT, add_multiples, nearest, tally
from ikmap.learners.dual._linear_svm_loops import loss_and_gap, new_dual, rests, row_cost

LINE = 16
"""Numbers of eight bytes in two cache lines, which processors fetch together: what each thread writes has its own."""
SUMMED, WAITED, STOP = 0, 1, 2 * LINE
"""Positions in ``flags``: for each thread, in its own line, the eights it has summed up and whether it has waited long;
the number of eights after which both stop."""
NEVER = 2**62
SUMS, COUNTS = 4 * EIGHT, 8 * EIGHT * EIGHT
"""Sizes of what is exchanged: of each thread two eights of sums, one being written while the other is read, and four of
counts, which are made one eight ahead."""
MOST, SQUARES, GROWTH, MOVES, KEPT, VISITED, LOSSES, GAP = range(8)
"""Places of the numbers that a shared pass returns, see :class:`_linear_svm_loops.Begun`."""
_PATIENCE = 3000
"""Pauses before a wait is a long one: some 50 us. Threads take longer to begin."""
_0, _1, _2, _3, _4, _7, _8 = (np.uint64(k) for k in (0, 1, 2, 3, 4, 7, 8))


class Exchange(NamedTuple):
    """Memory of both threads: in which they meet, and in which they leave what came out.

    ``kept`` takes the rows that stay in the order, ``told`` (2, LINE) what :func:`_linear_svm_loops.one_pass` is to be
    given to go on from told[0, VISITED], in lines of both threads: losses and gaps come from the helper's.
    """

    flags: np.ndarray
    sums: np.ndarray
    counts: np.ndarray
    kept: np.ndarray
    told: np.ndarray


@compiled(forceinline=True)
def _meet(flags, mine, eight, patience):
    """Wait until the other thread has summed up this eight, or has given up before it; whether that was long."""
    theirs, pauses = np.uint64(LINE) - mine, 0
    while acquire(flags, theirs) <= eight and acquire(flags, np.uint64(STOP)) > eight:
        pauses += 1
        if pauses < patience:
            pause()
        else:
            let_others_run()
    return pauses >= patience


@compiled
def shared_pass(helper, exchange, rows, norms, objective, w, alpha, order, size, threshold):
    """The part of thread ``helper`` (0: leads, 1: helps) in a sweep over the rows order[:size]."""
    flags, sums, counts, kept, told = exchange
    y, positive, class_cost, sample_weight, bias, loss = objective
    codes, base, scale, unit = rows
    flat, t = codes.ravel(), np.uint64(codes.shape[1])
    mine, own = np.uint64(LINE) * np.uint64(helper), _4 * np.uint64(helper)
    half = t // _2
    lo, wide = (half, t - half) if helper else (_0, half)
    per = np.uint64(BYTES // codes.itemsize)
    stride = (t - half + per - _1) // per * per
    cells = np.zeros(_2 * _8 * stride, codes.dtype)
    nothing = counts.dtype.type(0) - counts.dtype.type(stride - wide)  # the ends of the lines are equal, too
    old, cost, sign = np.empty(2 * EIGHT), np.empty(2 * EIGHT), np.empty(2 * EIGHT)
    before, ids = np.empty(2 * EIGHT, np.int64), np.empty(2 * EIGHT, np.int32)
    current = np.zeros(EIGHT + 1, np.int64)
    norm, constant = norms[0] + bias * bias, bias * bias / unit
    last = w[w.size - 1]
    left, moves, losses, gap, most, squares, growth = 0, 0, 0.0, 0.0, 0.0, 0.0, 0.0
    n = np.uint64(size)
    eights, stop = (n + _7) // _8, acquire(flags, np.uint64(STOP))
    for eight in range(eights + _1):
        start = eight * _8
        here = min(_8, n - start) if eight < eights else _0
        slot, other = (eight & _1) * _8, _8 - (eight & _1) * _8
        table = (own + (eight & _3)) * _8 * _8
        # What does not depend on w, while the other thread sums up the rows before.
        for r in range(here):
            if start + _8 + r < n:
                i = np.uint64(order[start + _8 + r])
                prefetch(flat, i * t + lo)
                prefetch(flat, i * t + lo + wide - _1)
                prefetch(alpha, i)
                prefetch(y, i)
        for r in range(here):
            i = np.uint64(order[start + r])
            copy(cells, (slot + r) * stride, flat, i * t + lo, wide)
            ids[slot + r], old[slot + r] = i, alpha[i]
            cost[slot + r] = row_cost(i, y, class_cost, sample_weight)
            before[slot + r] = nearest(alpha[i] * unit)
            sign[slot + r] = 1.0 if y[i] == positive else -1.0
        for k in range(here * _8):
            counts[table + k] = nothing
        for v in range(_0, stride, per):
            for r in range(here):
                tally(cells, slot * stride + v, stride, (slot + r) * stride + v, counts, table + r * _8)
        if eight > _0:
            late = _meet(flags, mine, eight - _1, _PATIENCE if eight > _1 else 32 * _PATIENCE)
            if helper:
                stop = acquire(flags, np.uint64(STOP))
                if stop < eight:
                    break
                if late:
                    release(flags, np.uint64(LINE + WAITED), _1)
            elif stop > eight and (late or acquire(flags, np.uint64(LINE + WAITED)) > _0):
                stop = eight + _1
                release(flags, np.uint64(STOP), stop)
            for r in range(_8):
                current[r] = sums[other + r] + sums[_2 * _8 + other + r]
            tables = ((eight - _1) & _3) * _8 * _8
            total = current[_0]
            for r in range(min(_8, n + _8 - start)):
                at, following = other + r, current[r + _1]
                margin = sign[at] * (scale * total + constant * last)
                new, projected = new_dual(loss, cost[at], margin, norm, old[at])
                step = nearest(new * unit) - before[at]
                if sign[at] < 0.0:
                    step = -step
                # The next row's sum by itself: the others' may arrive later.
                row, row2 = tables + r * _8, tables + (r + _4 * _8) * _8
                shared = np.int64(counts[row + r + _1]) + np.int64(counts[row2 + r + _1]) if r < _7 else 0
                total = following + step * shared
                add_multiples(current, _0, counts, row, row2, step)
                last += step
                if new != old[at]:
                    for j in range(wide):
                        w[base[lo + j] + np.uint64(cells[at * stride + j])] += step
                if helper:
                    row_loss, row_gap = loss_and_gap(loss, cost[at], margin, old[at])
                    losses += row_loss
                    gap += row_gap
                    continue
                most = max(most, abs(projected))
                if new != old[at]:
                    alpha[ids[at]] = new
                    moves += 1
                    moved = (new - old[at]) * norm
                    squares += moved * moved
                    growth += (new - old[at]) * (2.0 * margin + moved)
                elif rests(loss, cost[at], margin, old[at], projected, threshold):
                    continue
                kept[left] = ids[at]
                left += 1
            if eight == stop:
                break
        for r in range(here):
            s0 = s1 = s2 = s3 = 0
            line = (slot + r) * stride
            j = _0
            while j + _4 <= wide:
                s0 += w[opaque(base[lo + j] + np.uint64(cells[line + j]))]
                s1 += w[opaque(base[lo + j + _1] + np.uint64(cells[line + j + _1]))]
                s2 += w[opaque(base[lo + j + _2] + np.uint64(cells[line + j + _2]))]
                s3 += w[opaque(base[lo + j + _3] + np.uint64(cells[line + j + _3]))]
                j += _4
            while j < wide:
                s0 += w[opaque(base[lo + j] + np.uint64(cells[line + j]))]
                j += _1
            sums[_4 * own + slot + r] = (s0 + s1) + (s2 + s3)
        release(flags, mine + np.uint64(SUMMED), eight + _1)
    if helper:
        told[1, LOSSES], told[1, GAP] = losses, gap
        return
    told[0, MOST], told[0, SQUARES], told[0, GROWTH], told[0, MOVES] = most, squares, growth, moves
    told[0, KEPT], told[0, VISITED] = left, min(eights, stop) * _8
    if bias != 0.0:
        w[w.size - 1] = last  # which the helper does not read any more: it counts with a number of its own
