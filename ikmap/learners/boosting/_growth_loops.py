"""Compiled loops of gradient boosting: histograms of whole numbers, splits, and rows on their way down.

A code of a row is the bin of one column, or says in which of several columns of two bins the row is in the upper bin.
It is a byte, or two bytes if some column has more bins than a byte tells apart.

All sums are of whole numbers, so that they have the same bits in any order, and the histogram of one child is that of
its parent less that of the other child. A second word of each row holds its hessian, shifted by some bits, plus 1: its
sum holds the sum of the hessians and the number of rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ikmap._barrier_loops import wait_at_barrier
from ikmap._simd import prefetch
from ikmap.compiled import compiled, group
from ikmap.learners.boosting._loss_loops import derive, mixed
from ikmap.partitioners._iforest_loops import LEAF

MOST_BINS = 1 << 16
"""Number of bins that two bytes tell apart: above the codes of all rows."""
AHEAD = 16
"""Number of rows by which a loop asks for memory ahead, as the rows of a node may stand far apart."""
FAR_AHEAD = 64
"""Number of rows by which a loop asks ahead that is done with a row sooner than memory answers."""
LINE_BYTES = 64
"""Bytes of memory that the processor fetches at once."""
MOST_LINES = 4
"""Most lines of a row that a loop asks for: the processor fetches those that follow by itself."""
ROUNDING = 1e-12
"""Gain, as a share of the score of the whole leaf, that a split must exceed."""
DIVIDED_ROWS = 1 << 13
"""Number of rows from which on several threads divide them."""
ROW_COST, BARRIER_COST = 3, 1500
"""Rough nanoseconds that a thread takes to look a row up, and that threads take to wait for each other at a barrier."""
ALONE, BY_ROWS, BY_BYTES = 0, 1, 2
"""Ways in which threads make a histogram: one does, or each adds up some rows, or each adds up some bytes."""


@group("i8, i8, i8[::1], i8[::1], i8[:, :, ::1], f8[:, ::1], i8[:, :, ::1]")
class Workspace(NamedTuple):
    """Numbers and arrays that a thread of a team grows a tree with, beside the rows.

    Number of the thread; number of threads; their barrier (:func:`~ikmap._barrier_loops.wait_at_barrier`). The other
    arrays are those of all threads: of each, a number of rows, a histogram, and for two children the gain, the column
    and the cut of a split.
    """

    thread: int
    n_threads: int
    barrier: np.ndarray
    counts: np.ndarray
    partial: np.ndarray
    gains: np.ndarray
    splits: np.ndarray


def _of_codes(signature: str) -> tuple[str, ...]:
    """Return a signature for codes of one byte, and for those of two."""
    return tuple(signature.format(codes=codes) for codes in ("u1[:, ::1]", "u2[:, ::1]"))


@compiled({"boosting": "u1[:, ::1], i8, b1[::1]"})
def overlaps(codes, column, taken):
    """Return whether some row is in the upper bin of a column of two bins and is taken."""
    for i in range(taken.size):  # noqa: SIM110
        if codes[i, column] and taken[i]:
            return True
    return False


@compiled({"boosting": _of_codes("{codes}, i8[::1], i8[::1], {codes}")})
def fill_bytes(codes, places, members, stored):
    """Write the bytes of rows from the bins of their columns; `stored` is of zeros.

    Parameters
    ----------
    places : (d,)
        Byte of each column.
    members : (d,)
        Number of the column in a byte for several columns, from 1; 0 if it has a byte of its own.
    """
    for i in range(codes.shape[0]):
        for j in range(codes.shape[1]):
            if members[j] == 0:
                stored[i, places[j]] = codes[i, j]
            elif codes[i, j]:
                stored[i, places[j]] = members[j]


@compiled
def _far_apart(rows):
    """Return whether most of these rows, in ascending order, have others between them, so that a loop asks ahead."""
    return rows.size > 0 and rows[rows.size - 1] - rows[0] > 2 * rows.size


@compiled({"boosting": _of_codes("{codes}, u4[::1], i8[:, ::1], i8[::1], i8[::1], i8[:, ::1]")})
def add_rows(codes, rows, words, columns, first_bins, histogram):
    """Add the words of some rows to the histogram of each byte.

    Parameters
    ----------
    codes : (n, number of bytes of a row)
    rows : (m,)
        Numbers of the rows.
    columns : (any number,)
        Numbers of the bytes.
    first_bins : (number of bytes of a row + 1,)
        Number of the first bin of each byte.
    histogram : (number of all bins, 2)
    """
    n_columns, width = columns.size, np.uint64(codes.shape[1])
    n_lines, last = min(MOST_LINES, -(-codes.shape[1] * codes.itemsize // LINE_BYTES)), rows.size - 1
    in_line, far_apart = np.uint64(LINE_BYTES // codes.itemsize), _far_apart(rows)
    for i in range(rows.size):
        if far_apart:
            ahead = np.uint64(rows[min(i + AHEAD, last)])
            prefetch(words, np.uint64(2) * ahead)
            for line in range(n_lines):
                prefetch(codes, ahead * width + np.uint64(line) * in_line)
        row = np.uint64(rows[i])
        first, second = words[row, 0], words[row, 1]
        for k in range(n_columns):
            column = np.uint64(columns[k])
            place = np.uint64(first_bins[column]) + np.uint64(codes[row, column])
            histogram[place, 0] += first
            histogram[place, 1] += second


@compiled
def _score(gradient, hessian, l2, largest):
    """Return by how much the best value of a leaf reduces the loss, times 2, if none is larger than `largest`."""
    weight = hessian + l2
    if abs(gradient) > largest * weight:
        return largest * (2.0 * abs(gradient) - largest * weight)
    return gradient * gradient / weight if weight > 0.0 else 0.0


@compiled({"boosting": "i8[:, ::1], i8[::1], i8[::1], i8[::1], i8[::1], f8, f8, i8, i8, f8, f8, f8"})
def best_split(
    histogram,
    columns,
    places,
    members,
    first_bins,
    gradient_unit,
    hessian_unit,
    shift,
    min_leaf,
    min_hessian,
    l2,
    largest,
):
    """Return gain, column and first bin on the right of the best split; the column is LEAF if no split is allowed.

    Of equal splits, that of the first column and the first bin is taken. A gain that could be one of rounding is none.

    Parameters
    ----------
    gradient_unit, hessian_unit : float
        Gradient and hessian that a 1 in the sums stands for.
    largest : float
        Bound of the value of a leaf, up to its sign.
    """
    low_bits = (np.int64(1) << shift) - 1
    begin, end = first_bins[places[columns[0]]], first_bins[places[columns[0]] + 1]
    whole_first = whole_second = np.int64(0)
    for b in range(begin, end):
        whole_first += histogram[b, 0]
        whole_second += histogram[b, 1]
    n = whole_second & low_bits
    whole = _score(whole_first * gradient_unit, (whole_second >> shift) * hessian_unit, l2, largest)
    best, best_column, best_cut = ROUNDING * whole, np.int64(LEAF), np.int64(0)
    for k in range(columns.size):
        column = columns[k]
        begin, end = first_bins[places[column]], first_bins[places[column] + 1]
        first = second = np.int64(0)
        member = members[column]
        if member:  # two bins, of which the upper one has a bin of its own
            first = whole_first - histogram[begin + member, 0]
            second = whole_second - histogram[begin + member, 1]
            n_left = second & low_bits
            left = (second >> shift) * hessian_unit
            right = (histogram[begin + member, 1] >> shift) * hessian_unit
            if n_left < min_leaf or n - n_left < min_leaf or left < min_hessian or right < min_hessian:
                continue
            of_left = _score(first * gradient_unit, left, l2, largest)
            of_right = _score((whole_first - first) * gradient_unit, right, l2, largest)
            gain = of_left + of_right - whole
            if gain > best:
                best, best_column, best_cut = gain, column, np.int64(1)
            continue
        for b in range(begin, end - 1):
            if histogram[b, 1] == 0:
                continue
            first += histogram[b, 0]
            second += histogram[b, 1]
            n_left = second & low_bits
            if n_left < min_leaf:
                continue
            if n - n_left < min_leaf:
                break
            left = (second >> shift) * hessian_unit
            right = ((whole_second - second) >> shift) * hessian_unit
            if left < min_hessian:
                continue
            if right < min_hessian:
                break
            of_left = _score(first * gradient_unit, left, l2, largest)
            of_right = _score((whole_first - first) * gradient_unit, right, l2, largest)
            gain = of_left + of_right - whole
            if gain > best:
                best, best_column, best_cut = gain, column, b - begin + 1
    return best, best_column, best_cut


@compiled
def _divide_alone(codes, rows, place, low, high, scratch):
    """Put the rows whose byte is not in [low, high) before the others, in the same order; return their number."""
    n_left, n_right = np.uint64(0), np.uint64(0)
    place, width, last = np.uint64(place), np.uint64(codes.shape[1]), rows.size - 1
    far_apart = _far_apart(rows)
    for i in range(rows.size):
        if far_apart:
            prefetch(codes, np.uint64(rows[min(i + FAR_AHEAD, last)]) * width + place)
        row = rows[i]
        code = np.int64(codes[np.uint64(row), place])
        left = np.uint64((code < low) | (code >= high))
        scratch[n_right] = row
        rows[n_left] = row
        n_left += left
        n_right += np.uint64(1) - left
    for i in range(np.int64(n_right)):
        rows[np.int64(n_left) + i] = scratch[i]
    return np.int64(n_left)


@compiled
def _divide_apart(codes, rows, place, low, high, scratch):
    """Write the rows whose byte is not in [low, high) from the begin of `scratch`, the others from its end on.

    Return the number of the former. The latter are in the opposite order.
    """
    n_left, n_right = np.uint64(0), np.uint64(rows.size - 1)
    place, width, last = np.uint64(place), np.uint64(codes.shape[1]), rows.size - 1
    far_apart = _far_apart(rows)
    for i in range(rows.size):
        if far_apart:
            prefetch(codes, np.uint64(rows[min(i + FAR_AHEAD, last)]) * width + place)
        row = rows[i]
        code = np.int64(codes[np.uint64(row), place])
        left = np.uint64((code < low) | (code >= high))
        # Without a branch that is guessed wrong: what is written to the wrong end, a later row writes over.
        scratch[n_left] = row
        scratch[n_right] = row
        n_left += left
        n_right -= np.uint64(1) - left
    return np.int64(n_left)


@compiled({"boosting": _of_codes("{codes}, u4[::1], i8, i8, i8, u4[::1], {{Workspace}}")})
def divide(codes, rows, place, low, high, scratch, space):
    """Put the rows whose byte is not in [low, high) before the others, in the same order; return their number.

    All threads of a team call it, and all are done when it returns; it returns -1 if one of them has failed. They
    wait at the barrier once more before they call it again.

    Parameters
    ----------
    scratch : (m,)
    """
    m, thread, n_threads, counts, barrier = rows.size, space.thread, space.n_threads, space.counts, space.barrier
    if n_threads == 1:
        return _divide_alone(codes, rows, place, low, high, scratch)
    if m < DIVIDED_ROWS:
        if thread == 0:
            counts[0] = _divide_alone(codes, rows, place, low, high, scratch)
        return counts[0] if wait_at_barrier(barrier, n_threads) else np.int64(-1)
    begin, end = m * thread // n_threads, m * (thread + 1) // n_threads
    counts[thread] = _divide_apart(codes, rows[begin:end], place, low, high, scratch[begin:end])
    if not wait_at_barrier(barrier, n_threads):
        return np.int64(-1)
    before, n_left = np.int64(0), np.int64(0)
    for k in range(n_threads):
        if k < thread:
            before += counts[k]
        n_left += counts[k]
    for i in range(counts[thread]):
        rows[before + i] = scratch[begin + i]
    first_right = n_left + begin - before
    for i in range(end - begin - counts[thread]):
        rows[first_right + i] = scratch[end - 1 - i]
    return n_left if wait_at_barrier(barrier, n_threads) else np.int64(-1)


@compiled
def _way(m, n_bytes, n_bins, n_threads):
    """Return the way in which so many threads make a histogram of m rows.

    By rough nanoseconds: a value and a bin take one, a row that is looked up and waiting for others more.
    """
    if n_threads == 1:
        return ALONE
    alone = m * (n_bytes + ROW_COST) + 2 * n_bins
    by_rows = m * (n_bytes + ROW_COST) // n_threads + 3 * n_bins + BARRIER_COST
    by_bytes = m * (-(-n_bytes // n_threads) + ROW_COST) + 2 * n_bins // n_threads
    if alone <= min(by_rows, by_bytes):
        return ALONE
    return BY_ROWS if by_rows < by_bytes else BY_BYTES


@compiled(
    {"boosting": _of_codes("{codes}, u4[::1], i8[:, ::1], i8[::1], i8[::1], i8[:, ::1], i8[:, ::1], {{Workspace}}")}
)
def fill_histogram(codes, rows, words, columns, first_bins, histogram, rest, space):
    """Write the sums of the words of some rows to the histogram of each byte, and take them from another histogram.

    All threads of a team call it, and all are done when it returns; it returns False if one of them has failed.

    Parameters
    ----------
    columns : (any number,)
        Numbers of the bytes; the bins of others hold anything afterwards.
    histogram : (number of all bins, 2)
    rest : (number of all bins, 2) or (0, 2)
        Histogram of more rows, of which that of the other ones is left.
    """
    m, n_bins = rows.size, histogram.shape[0]
    thread, n_threads, partial, barrier = space.thread, space.n_threads, space.partial, space.barrier
    way = _way(m, columns.size, n_bins, n_threads)
    if way == BY_ROWS:
        own = partial[thread]
        own[:] = 0
        add_rows(codes, rows[m * thread // n_threads : m * (thread + 1) // n_threads], words, columns, first_bins, own)
        if not wait_at_barrier(barrier, n_threads):
            return False
        begin, end = n_bins * thread // n_threads, n_bins * (thread + 1) // n_threads
        for b in range(begin, end):
            histogram[b, 0], histogram[b, 1] = partial[0, b, 0], partial[0, b, 1]
        for k in range(1, n_threads):
            for b in range(begin, end):
                histogram[b, 0] += partial[k, b, 0]
                histogram[b, 1] += partial[k, b, 1]
        _take_from(rest, histogram, begin, end)
    elif way == BY_BYTES:
        n_bytes = columns.size
        own_columns = columns[n_bytes * thread // n_threads : n_bytes * (thread + 1) // n_threads]
        for column in own_columns:
            histogram[first_bins[column] : first_bins[column + 1]] = 0
        if own_columns.size:
            add_rows(codes, rows, words, own_columns, first_bins, histogram)
        for column in own_columns:
            _take_from(rest, histogram, first_bins[column], first_bins[column + 1])
    elif thread == 0:
        histogram[:] = 0
        add_rows(codes, rows, words, columns, first_bins, histogram)
        _take_from(rest, histogram, 0, n_bins)
    return wait_at_barrier(barrier, n_threads)


@compiled
def _take_from(rest, histogram, begin, end):
    """Take some bins of a histogram from those of another one, if there is one."""
    for b in range(begin, min(end, rest.shape[0])):
        rest[b, 0] -= histogram[b, 0]
        rest[b, 1] -= histogram[b, 1]


@compiled
def _best_of(space, k, n_columns):
    """Return gain, column and cut of the best split that threads have found: of equal ones, of the first column."""
    gain, column, cut = 0.0, np.int64(LEAF), np.int64(0)
    for thread in range(min(space.n_threads, n_columns)):
        own, of_thread = space.gains[thread, k], space.splits[thread, k, 0]
        if of_thread != LEAF and (column == LEAF or own > gain or (own == gain and of_thread < column)):
            gain, column, cut = own, of_thread, space.splits[thread, k, 1]
    return gain, column, cut


@compiled(
    {
        "boosting": _of_codes(
            "{codes}, {{Derivation}}, u4[::1], u4[::1], i8[::1], i8[::1], i8[:, ::1], i8[:, ::1], {{Workspace}}"
        )
    }
)
def begin_tree(codes, derived, kept, rows, columns, first_bins, histogram, nothing, space):
    """Derive all rows, take up those that a tree grows on, and write the sums of their words to the histogram.

    All threads of a team call it.

    Parameters
    ----------
    kept, rows : (m,)
        Numbers of the rows of the tree, and where they are written.
    columns, first_bins, histogram
        As those of :func:`fill_histogram`.
    nothing : (0, 2)

    Returns
    -------
    float
        Largest gradient for a weight of 1; -1 if a thread has failed.
    """
    thread, n_threads, n, m = space.thread, space.n_threads, derived.margin.size, kept.size
    space.gains[thread, 0] = derive(derived, n * thread // n_threads, n * (thread + 1) // n_threads)
    start, stop = m * thread // n_threads, m * (thread + 1) // n_threads
    for i in range(start, stop):  # one slice as another takes seconds to compile, for the message of their sizes
        rows[i] = kept[i]
    if not wait_at_barrier(space.barrier, n_threads):
        return -1.0
    largest = 0.0  # found before the threads wait again, after which some may write gains
    for k in range(n_threads):
        largest = max(largest, space.gains[k, 0])
    if not fill_histogram(codes, rows, derived.words, columns, first_bins, histogram, nothing, space):
        return -1.0
    return largest


@compiled
def _whole_sums(rows, gradient, hessian, gradient_scale, hessian_scale):
    """Return the sums of the gradients and of the hessians of some rows, each of them as a whole number."""
    first = second = np.int64(0)
    for i in range(rows.size):
        ahead = np.uint64(rows[min(i + FAR_AHEAD, rows.size - 1)])
        prefetch(gradient, ahead)
        prefetch(hessian, ahead)
        row = np.uint64(rows[i])
        first += np.int64(np.rint(gradient[row] * gradient_scale))
        second += np.int64(np.rint(hessian[row] * hessian_scale))
    return first, second


@compiled({"boosting": "u4[::1], i8, i8, i8[:, ::1], f8[::1], f8[::1], f8, f8, i8[:, ::1]"})
def sums_of_leaves(rows, start, stop, ranges, gradient, hessian, gradient_scale, hessian_scale, sums):
    """Write the sums of the gradients and of the hessians of the rows of each leaf, as whole numbers.

    Parameters
    ----------
    start, stop : int
        The rows before and after are left out.
    ranges : (number of leaves, 2)
        Between which of the rows those of each leaf stand.
    sums : (number of leaves, 2)
    """
    for leaf in range(ranges.shape[0]):
        own = rows[max(start, ranges[leaf, 0]) : max(start, min(stop, ranges[leaf, 1]))]
        sums[leaf, 0], sums[leaf, 1] = _whole_sums(own, gradient, hessian, gradient_scale, hessian_scale)


@compiled(
    {
        "boosting": _of_codes(
            "{codes}, {{Derivation}}, u4[::1], u4[::1], u4[::1], i8[::1], i8[::1], i8[::1], i8[::1], i8[::1], "
            "f8, f8, i8, i8, f8, f8, f8, i8[:, ::1], i8[:, :, ::1], i8[:, ::1], i8[:, ::1], f8, f8, i8[:, ::1], "
            "{{Workspace}}"
        )
    }
)
def grow_tree(
    codes,
    derived,
    kept,
    rows,
    scratch,
    columns_of_bytes,
    first_bins,
    columns,
    places,
    members,
    gradient_unit,
    hessian_unit,
    shift,
    min_leaf,
    min_hessian,
    l2,
    largest,
    histogram,
    histograms,
    splits,
    ranges,
    leaf_gradient,
    leaf_hessian,
    sums,
    space,
):
    """Begin a tree, as :func:`begin_tree` does, and grow all of it.

    The leaf of the largest gain is split, of equal ones the older.
    It is what :class:`ikmap.learners.boosting.growth.Growth` does node by node, with the histogram of one child made
    from its rows, and that of the other by subtraction. All threads of a team call it: each does its share of every
    step, and finds for itself, from the same numbers, what the next step is.

    Parameters
    ----------
    kept, rows : (m,)
        Numbers of the rows, and where they are written; afterwards those of each node stand together.
    columns_of_bytes : (any number,)
        Numbers of the bytes that histograms are made of.
    largest : float
        Bound of the value of a leaf, up to its sign.
    histogram : (number of all bins, 2)
        Where the histogram of all rows is written.
    histograms : (most leaves, number of all bins, 2)
        Where those of the leaves are.
    splits : (most leaves - 1, 3)
        Where the node, the column and the cut of each split are written. The children of split s are the nodes 2 s + 1
        and 2 s + 2.
    ranges : (2 * most leaves - 1, 2)
        Where it is written between which of the rows those of each node stand. Each thread has its own.
    leaf_gradient, leaf_hessian : float
        Factors of the sums of leaves.
    sums : (2 * most leaves - 1, 2)
        Where the sums of the gradients and of the hessians of the rows of each leaf are written, as whole numbers. Each
        thread has its own, for a share of the rows.

    Returns
    -------
    int
        Number of splits; -1 if a thread has failed.
    float
        Largest gradient for a weight of 1.
    """
    most_nodes, most_leaves = ranges.shape[0], histograms.shape[0]
    thread, n_threads, barrier = space.thread, space.n_threads, space.barrier
    own_columns, nothing = columns[thread::n_threads].copy(), np.empty((0, 2), np.int64)
    largest_gradient = begin_tree(
        codes, derived, kept, rows, columns_of_bytes, first_bins, histograms[0], nothing, space
    )
    if largest_gradient < 0.0:
        return -1, largest_gradient
    for b in range(histogram.shape[0] * thread // n_threads, histogram.shape[0] * (thread + 1) // n_threads):
        histogram[b, 0], histogram[b, 1] = histograms[0, b, 0], histograms[0, b, 1]
    gains = np.zeros(most_nodes)
    column_of, cut_of = np.full(most_nodes, LEAF, np.int64), np.zeros(most_nodes, np.int64)
    slot_of, free = np.zeros(most_nodes, np.int64), np.empty(most_leaves, np.int64)
    n_free = most_leaves - 1  # the last ones of `free` are taken
    for k in range(most_leaves):
        free[k] = most_leaves - 1 - k
    ranges[0, 0], ranges[0, 1] = 0, rows.size
    if rows.size >= 2 * min_leaf:
        if own_columns.size:
            space.gains[thread, 0], space.splits[thread, 0, 0], space.splits[thread, 0, 1] = best_split(
                histograms[0], own_columns, places, members, first_bins, gradient_unit, hessian_unit, shift, min_leaf,
                min_hessian, l2, largest,
            )  # fmt: skip
        if not wait_at_barrier(barrier, n_threads):
            return -1, largest_gradient
        gains[0], column_of[0], cut_of[0] = _best_of(space, 0, columns.size)
    n_splits, n_nodes = 0, 1
    while n_splits < most_leaves - 1:
        node, most = -1, 0.0
        for candidate in range(n_nodes):
            if column_of[candidate] != LEAF and gains[candidate] > most:
                node, most = candidate, gains[candidate]
        if node < 0:
            break
        column, cut, slot = column_of[node], cut_of[node], slot_of[node]
        begin, end, member = ranges[node, 0], ranges[node, 1], members[column]
        low, high = (member, member + 1) if member else (cut, np.int64(MOST_BINS))
        n_left = divide(codes, rows[begin:end], places[column], low, high, scratch, space)
        if n_left < 0:
            return -1, largest_gradient
        middle = begin + n_left
        column_of[node] = LEAF  # it is no leaf any more that could be split
        splits[n_splits, 0], splits[n_splits, 1], splits[n_splits, 2] = node, column, cut
        left, right = n_nodes, n_nodes + 1
        ranges[left, 0], ranges[left, 1], ranges[right, 0], ranges[right, 1] = begin, middle, middle, end
        n_splits, n_nodes = n_splits + 1, n_nodes + 2
        small, large = (left, right) if middle - begin <= end - middle else (right, left)
        if n_splits == most_leaves - 1 or ranges[large, 1] - ranges[large, 0] < 2 * min_leaf:
            free[n_free] = slot
            n_free += 1
            # Before the next division, all have taken in what this one returned.
            if not wait_at_barrier(barrier, n_threads):
                return -1, largest_gradient
            continue
        n_free -= 1
        slot_of[small], slot_of[large] = free[n_free], slot
        own, of_small = histograms[slot_of[small]], rows[ranges[small, 0] : ranges[small, 1]]
        if not fill_histogram(
            codes, of_small, derived.words, columns_of_bytes, first_bins, own, histograms[slot], space
        ):  # fmt: skip
            return -1, largest_gradient
        if own_columns.size:
            for k, child in enumerate((small, large)):
                if ranges[child, 1] - ranges[child, 0] >= 2 * min_leaf:
                    space.gains[thread, k], space.splits[thread, k, 0], space.splits[thread, k, 1] = best_split(
                        histograms[slot_of[child]], own_columns, places, members, first_bins, gradient_unit,
                        hessian_unit, shift, min_leaf, min_hessian, l2, largest,
                    )  # fmt: skip
        if not wait_at_barrier(barrier, n_threads):
            return -1, largest_gradient
        for k, child in enumerate((small, large)):
            if ranges[child, 1] - ranges[child, 0] >= 2 * min_leaf:
                gains[child], column_of[child], cut_of[child] = _best_of(space, k, columns.size)
            if column_of[child] == LEAF:
                free[n_free] = slot_of[child]
                n_free += 1
    leaves = ranges[:n_nodes].copy()
    for split in range(n_splits):
        leaves[splits[split, 0]] = 0
    start, stop = rows.size * thread // n_threads, rows.size * (thread + 1) // n_threads
    of_rows = derived.gradient, derived.hessian
    sums_of_leaves(rows, start, stop, leaves, *of_rows, leaf_gradient, leaf_hessian, sums)
    return n_splits, largest_gradient


@compiled({"boosting": "i8[:, ::1], i8[::1], i4[::1], i8[::1], i4[::1], i8[::1]"})
def fill_tree(splits, taken, feature, cut, right, leaves):
    """Write the nodes of a tree in preorder.

    Parameters
    ----------
    splits : (any number, 3)
        Node, column and cut. The children of split s are the nodes 2 s + 1 and 2 s + 2.
    taken : (number of leaves - 1,)
        Numbers of the splits that the tree has.
    feature, cut, right : (2 * number of leaves - 1,)
        Column of each node, or LEAF; the first bin that goes right; the right child, or the number of the leaf.
    leaves : (number of leaves,)
        Where the node of each leaf is written.
    """
    split_of = np.full(2 * splits.shape[0] + 1, -1)
    for split in taken:
        split_of[splits[split, 0]] = split
    waiting = np.empty((leaves.size + 1, 2), np.int64)  # a node, and its parent if it is a right child, else -1
    waiting[0, 0], waiting[0, 1] = 0, -1
    height, n_leaves = 1, 0
    for number in range(feature.size):
        height -= 1
        node, parent = waiting[height]
        if parent >= 0:
            right[parent] = number
        split = split_of[node]
        if split < 0:
            feature[number], cut[number], right[number] = LEAF, 0, n_leaves
            leaves[n_leaves] = node
            n_leaves += 1
            continue
        feature[number], cut[number] = splits[split, 1], splits[split, 2]
        waiting[height, 0], waiting[height, 1] = 2 * split + 2, number
        waiting[height + 1, 0], waiting[height + 1, 1] = 2 * split + 1, -1
        height += 2


@compiled({"boosting": "u4[::1], i8, i8, i8[:, ::1], f8[::1], f8[::1]"})
def add_values(rows, start, stop, ranges, values, margin):
    """Add the value of each leaf to the margin of its rows, as far as these stand in [start, stop)."""
    for leaf in range(ranges.shape[0]):
        for i in range(max(start, ranges[leaf, 0]), min(stop, ranges[leaf, 1])):
            margin[np.uint64(rows[i])] += values[leaf]


@compiled({"boosting": _of_codes("{codes}, u4[::1], i8[::1], i8[::1], i8[::1], i4[::1], f8[::1], f8[::1]")})
def add_tree(codes, rows, places, low, high, right, values, margin):
    """Add the value of its leaf in a tree, whose nodes are in preorder, to the margin of some rows.

    Parameters
    ----------
    places, low, high : (number of nodes,)
        Byte of each node, or LEAF; a row goes right if its byte is in [low, high).
    right : (number of nodes,)
        Right child, or the number of the leaf.
    """
    for i in range(rows.size):
        row, node = np.uint64(rows[i]), 0
        while places[node] != LEAF:
            code = codes[row, places[node]]
            node = right[node] if low[node] <= code < high[node] else node + 1
        margin[row] += values[right[node]]


@compiled({"boosting": _of_codes("{codes}, i8[::1], i8[::1], i8[::1], i4[::1], u2[::1]")})
def find_leaves(codes, places, low, high, right, leaves):
    """Write the number of the leaf of each row in a tree, whose nodes are as those of :func:`add_tree`."""
    for i in range(codes.shape[0]):
        node = 0
        while places[node] != LEAF:
            code = codes[i, places[node]]
            node = right[node] if low[node] <= code < high[node] else node + 1
        leaves[i] = right[node]


@compiled({"boosting": "u2[:, ::1], u4[::1], i8[::1], f8[::1], f8[::1], f8, f8, f8[::1]"})
def backfit(leaves, rows, begins, gradient, hessian, l2, share, values):
    """Estimate the values of leaves anew, one tree after the other, given those of all other trees.

    Parameters
    ----------
    leaves : (number of trees, n)
        Leaf of each row in each tree.
    rows : (m,)
        Numbers of the rows that count.
    begins : (number of trees + 1,)
        Where the values of each tree begin.
    gradient : (n,)
        First derivatives of the losses, which follow the values: the loss is taken for a square with these hessians.
    l2 : float
        Weight of the squared values.
    share : float
        Share of the way to its best value that each leaf goes.
    values : (number of leaves of all trees,)
    """
    for t in range(leaves.shape[0]):
        own, of_row = values[begins[t] : begins[t + 1]], leaves[t]
        first, second = np.zeros(own.size), np.zeros(own.size)
        for i in range(rows.size):
            row = np.uint64(rows[i])
            first[of_row[row]] += gradient[row]
            second[of_row[row]] += hessian[row]
        for leaf in range(own.size):
            weight = second[leaf] + l2
            step = -share * (first[leaf] + l2 * own[leaf]) / weight if weight > 0.0 else 0.0
            first[leaf] = step
            own[leaf] += step
        for i in range(rows.size):
            row = np.uint64(rows[i])
            gradient[row] += hessian[row] * first[of_row[row]]


@compiled({"boosting": "u2[:, ::1], i8[::1], f8[::1], f8[::1]"})
def add_leaves(leaves, begins, values, margin):
    """Add the values of their leaves in all trees, one tree after the other, to the margins of all rows."""
    for t in range(leaves.shape[0]):
        own, of_row = values[begins[t] : begins[t + 1]], leaves[t]
        for i in range(margin.size):
            margin[i] += own[of_row[i]]


@compiled({"boosting": _of_codes("{codes}, i8[::1], i8[::1], i8[::1], b1[::1]")})
def mark_clashes(codes, places, members, seen, marked):
    """Mark each column for a row that is in its upper bin and in that of an earlier column of the same byte.

    Parameters
    ----------
    seen : (number of bytes of a row,)
        Of any negative numbers.
    """
    for i in range(codes.shape[0]):
        for j in range(codes.shape[1]):
            if members[j] and codes[i, j]:
                if seen[places[j]] == i:
                    marked[j] = True
                seen[places[j]] = i


@compiled({"boosting": "u8, u8, i8, b1[::1]"})
def fill_drawn(key, limit, first, drawn):
    """Write which rows are drawn: those for which a key draws a small number (:func:`mixed`).

    Parameters
    ----------
    limit : uint64
        A row is drawn if its number is below.
    first : int
        Number of the first row.
    """
    for i in range(drawn.size):
        drawn[i] = mixed(key, first + i) < limit


@compiled({"boosting": "f8[::1], i8[::1], f8[::1]"})
def add_in_blocks(values, blocks, sums):
    """Add each value to the sum of its block."""
    for i in range(values.size):
        sums[blocks[i]] += values[i]
