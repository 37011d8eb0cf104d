"""Compiled loops of online gradient descent (algorithms.md 5.3).

While every step has the same size, a weight is that size times an integer: the steps up less the steps down. These
integers are what the pass over cells adds up. They take an eighth to a quarter of the memory of weights, so that more
of them stay in the fastest caches, and their sums are exact, in whatever order they are made.
"""

# ruff: noqa: ARG001  (an overload shares the signature of what it stands for)
import numpy as np
from numba import njit
from numba.extending import overload

from ikmap.compiled import compiled
from ikmap.learners._memory_loops import opaque
from ikmap.learners._scores_loops import add_outer, scores

_0, _1, _16 = (np.uint64(k) for k in (0, 1, 16))


@compiled
def weighted_pass(rows, y, sample_weight, W, eta, divisor, predicted, n_updates):
    """Predict each row, then step on every class whose margin is below 1. Returns the rows stepped on.

    For any row layout. With one column of W, class 1 is positive; else class k is positive for column k.
    ``sample_weight`` scales the step (an empty array means all ones), and a row of weight 0 is only predicted.
    """
    n_classes = W.shape[1]
    f = np.empty(n_classes)
    step = np.empty(n_classes)
    support = 0
    for i in range(y.size):
        scores(rows, i, W, f)
        weight = sample_weight[i] if sample_weight.size else 1.0
        best = 0
        stepped = False
        for k in range(n_classes):
            f[k] /= divisor
            if f[k] > f[best]:
                best = k
            sign = 1.0 if y[i] == (k if n_classes > 1 else 1) else -1.0
            step[k] = 0.0
            if sign * f[k] < 1.0 and weight > 0.0:
                step[k] = eta * weight * sign
                n_updates[k] += 1
                stepped = True
        predicted[i] = best if n_classes > 1 else (1 if f[0] >= 0.0 else 0)
        if stepped:
            support += 1
            add_outer(rows, i, step, W)
    return support


@compiled
def headroom(steps, limit):
    """Return the steps that can be taken before one of the integers may pass ``limit``, which has their type."""
    least = greatest = steps[0]
    for c in range(np.uint64(steps.size)):
        least, greatest = min(least, steps[c]), max(greatest, steps[c])
    return np.int64(limit) - max(np.int64(greatest), -np.int64(least))


# The passes below take integers as a flat array: those of column c are steps[c K : c K + K]. They stop before a row
# where their type has room for fewer steps than ``least_room``, and return the first row not visited, the number of
# rows stepped on, and the steps that there is room for.


@njit(inline="always")
def _sum_of_row(codes, base, i, steps):
    """Sum of the integers of row i."""
    t = np.uint64(codes.shape[1])
    total, j = np.int64(0), _0
    # Sixteen at a time, or the loop ends too often for its end to be foreseen; opaque, or LLVM gathers with vector
    # instructions, which are slower than single loads on most processors.
    while j + _16 <= t:
        for q in range(_16):
            total += np.int64(steps[opaque(base[j + q] + np.uint64(codes[i, j + q]))])
        j += _16
    while j < t:
        total += np.int64(steps[opaque(base[j] + np.uint64(codes[i, j]))])
        j += _1
    return total


@njit(inline="always")
def _step_on_row(codes, base, i, steps, sign):
    """Add ``sign`` to the integers of row i."""
    t = np.uint64(codes.shape[1])
    j = _0
    while j + _16 <= t:
        for q in range(_16):
            c = base[j + q] + np.uint64(codes[i, j + q])
            steps[c] = steps.dtype.type(steps[c] + sign)
        j += _16
    while j < t:
        c = base[j] + np.uint64(codes[i, j])
        steps[c] = steps.dtype.type(steps[c] + sign)
        j += _1


@njit(inline="always")
def _shared(codes, i, other):
    """Number of cells that two rows share."""
    equal = np.int32(0)
    for j in range(np.uint64(codes.shape[1])):
        equal += np.int32(codes[i, j] == codes[other, j])
    return np.int64(equal)


@compiled(
    {
        "ogd binary narrow": "u1[:, ::1], u8[::1], i4[::1], i8, i1[::1], i1, i8, i8, i8, i4[::1], i8[::1]",
        "ogd binary wide": "u2[:, ::1], u8[::1], i4[::1], i8, i1[::1], i1, i8, i8, i8, i4[::1], i8[::1]",
    }
)
def binary_pass(codes, base, y, first, steps, limit, room, least_room, enough, predicted, n_updates):
    """Predict each row of cells, class 1 positive, then step if its sum of integers is below ``enough``.

    The sum of a row is made before the row ahead of it is learned from, and corrected by the cells that they share: so
    a wrong guess of the processor whether there will be a step, which is every third, does not hold up the next row.
    """
    n, support = np.uint64(y.size), 0
    i = np.uint64(first)
    total = _sum_of_row(codes, base, i, steps)
    while i < n:
        if room == 0:
            room = headroom(steps, limit)
            if room < least_room:
                room = 0
                break
        ahead = np.int64(0)
        if i + _1 < n:
            ahead = _sum_of_row(codes, base, i + _1, steps)
        predicted[i] = np.int32(total >= 0)
        sign = np.int64(1) if y[i] == 1 else np.int64(-1)
        if sign * total < enough:
            _step_on_row(codes, base, i, steps, sign)
            if i + _1 < n:
                ahead += sign * _shared(codes, i, i + _1)
            support += 1
            room -= 1
        total = ahead
        i += _1
    n_updates[0] += support
    return np.int64(i), support, room


def columns_of(rows, i, out):
    """Write the feature columns of row i of cells; return how many there are."""
    raise NotImplementedError("compiled code only")


@overload(columns_of)
def _columns_of(rows, i, out):
    def cells(rows, i, out):
        codes, base, _ = rows
        for j in range(codes.shape[1]):
            out[j] = base[j] + np.uint64(codes[i, j])
        return codes.shape[1]

    def gapped(rows, i, out):
        codes, base, _, absent = rows
        n = 0
        for j in range(codes.shape[1]):
            if codes[i, j] != absent:
                out[n] = base[j] + np.uint64(codes[i, j])
                n += 1
        return n

    return cells if len(rows) == 3 else gapped


@compiled
def _sums(columns, size, steps, out):
    """out[k] = sum of the integers of class k over some columns."""
    width = np.uint64(out.size)
    out[:] = 0
    for e in range(np.uint64(size)):
        c = columns[e] * width
        for k in range(width):
            out[k] += np.int64(steps[c + k])


@compiled(
    {
        "ogd multiclass": [
            "{cells}, i8, i4[::1], i8, i1[::1], i1, i8, i8, i8, i4[::1], i8[::1]",
            "{cells}, i8, i4[::1], i8, i2[::1], i2, i8, i8, i8, i4[::1], i8[::1]",
        ],
    }
)
def integer_pass(rows, t, y, first, steps, limit, room, least_room, enough, predicted, n_updates):
    """:func:`binary_pass` for any number of classes, one against the rest, and rows that lack some of t cells."""
    n_classes = n_updates.size
    columns, sums = np.empty(t, np.uint64), np.empty(n_classes, np.int64)
    support = 0
    for i in range(first, y.size):
        if room == 0:
            room = headroom(steps, limit)
            if room < least_room:
                return i, support, 0
        size = columns_of(rows, i, columns)
        _sums(columns, size, steps, sums)
        predicted[i] = np.argmax(sums) if n_classes > 1 else np.int64(sums[0] >= 0)
        stepped = False
        for k in range(n_classes):
            sign = np.int64(1) if y[i] == (k if n_classes > 1 else 1) else np.int64(-1)
            if sign * sums[k] < enough:
                for e in range(size):
                    steps[columns[e] * np.uint64(n_classes) + np.uint64(k)] += sign
                n_updates[k] += 1
                stepped = True
        if stepped:
            support += 1
            room -= 1
    return y.size, support, room


@compiled(
    {
        "ogd stream": "{cells}, i8, i1[::1], f8, f8, f8[:, ::1]",
        "ogd stream multiclass": "{cells}, i8, i2[::1], f8, f8, f8[:, ::1]",
    }
)
def integer_decisions(rows, t, steps, eta, divisor, out):
    """out[i] = eta (sums of the integers of row i) / divisor."""
    columns, sums = np.empty(t, np.uint64), np.empty(out.shape[1], np.int64)
    for i in range(out.shape[0]):
        _sums(columns, columns_of(rows, i, columns), steps, sums)
        for k in range(out.shape[1]):
            out[i, k] = eta * sums[k] / divisor
