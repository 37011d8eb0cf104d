"""Compiled sweeps of dual coordinate descent for eight problems at once, and their certificates, for any row layout.

One pass over the rows serves the problems side by side, each with its own dual variable in the row: the row's cells are
read once, and one cache line for each of them holds the weights of all eight. The arithmetic of a problem is that of
``_linear_svm_loops``, operation by operation, so its result does not depend on what stands beside it.
"""

from typing import NamedTuple

import numpy as np

from ikmap.compiled import compiled, group
from ikmap.learners._rows_loops import fetch, squared_norm
from ikmap.learners.dual._lanes_loops import (
    LANES,
    add,
    at_most,
    axpy_lanes,
    choose,
    differs,
    divide,
    dot_lanes,
    larger,
    load,
    multiply,
    smaller,
    splat,
    store,
    subtract,
)
from ikmap.learners.dual._linear_svm_loops import (
    AHEAD,
    AT_FIRST,
    LOGISTIC,
    SQUARED_HINGE,
    loss_and_gap,
    new_dual,
    one_pass,
    row_cost,
)

LOSS_SUM, GAP_SUM, MOST, RMS, MOVES, KEPT, LENGTH = range(7)
"""Rows of what a sweep says of each problem: sums of losses and of shares of the gap as seen at the visits, largest
projected gradient, root mean square and number of the rows' steps in their own margin, rows still active, growth of
|w|^2."""
TOLD = (LOSS_SUM, GAP_SUM, MOST, LENGTH)
"""Rows that ``Progress.swept`` takes, in its order."""
_0, _1, _2, _3, _4, _8 = (np.uint64(k) for k in (0, 1, 2, 3, 4, LANES))
_ALL = np.uint64(2**LANES - 1)


@group("i4[::1], f8[:, ::1], f8[::1], f8[::1], f8, i8")
class Objectives(NamedTuple):
    """:class:`_linear_svm_loops.Objective` for eight problems, which differ in what class is positive.

    ``signs`` (n_classes, 8) is 1 where a row of that class is positive in that problem, else -1.
    """

    y: np.ndarray
    signs: np.ndarray
    class_cost: np.ndarray
    sample_weight: np.ndarray
    bias: float
    loss: int


@compiled(forceinline=True)
def tally(seen, row, value):
    """seen[row] += value."""
    at = _8 * np.uint64(row)
    store(seen, at, add(load(seen, at), value))


@compiled(forceinline=True)
def hinge_parts(loss, cost, margin, old):
    """Vectors of losses, shares of the gap and |margin - 1|, as :func:`_linear_svm_loops.loss_and_gap`."""
    zero, one, C = splat(0.0), splat(1.0), splat(cost)
    slack, excess = larger(subtract(one, margin), zero), larger(subtract(margin, one), zero)
    if loss == SQUARED_HINGE:
        rest = subtract(slack, multiply(old, splat(0.5 / cost)))
        losses, gaps = multiply(multiply(C, slack), slack), multiply(multiply(C, rest), rest)
    else:
        losses, gaps = multiply(C, slack), multiply(subtract(C, old), slack)
    return losses, add(gaps, multiply(old, excess)), larger(slack, excess)


@compiled(forceinline=True)
def hinge_steps(loss, cost, norm, margin, alpha, at, mask, threshold, seen):
    """A step in each variable alpha[at : at + 8] of the problems in ``mask``, as :func:`_linear_svm_loops.new_dual`.

    Returns (the vector of changes, bit masks of the problems that moved and of those that leave the row out).
    """
    zero, C, old = splat(0.0), splat(cost), load(alpha, at)
    losses, gaps, distance = hinge_parts(loss, cost, margin, old)
    diag = splat(0.5 / cost if loss == SQUARED_HINGE else 0.0)
    upper = splat(np.inf if loss == SQUARED_HINGE else cost)
    curvature = add(splat(norm), diag)
    gradient = add(subtract(margin, splat(1.0)), multiply(diag, old))
    below, above = at_most(old, zero), at_most(upper, old)
    projected = choose(above, larger(gradient, zero), gradient)
    projected = choose(below, smaller(gradient, zero), projected)
    size = larger(projected, subtract(zero, projected))
    new = smaller(larger(subtract(old, divide(gradient, curvature)), zero), upper)
    new = choose(at_most(curvature, zero), upper, new)
    moved = mask & differs(new, old) & (_ALL ^ at_most(size, splat(1e-12)))
    rests = at_most(size, zero) & (below | at_most(C, old)) & (_ALL ^ at_most(distance, load(threshold, _0)))
    leaves = mask & rests & (_ALL ^ moved)
    change = choose(moved, subtract(new, old), zero)
    store(alpha, at, choose(moved, new, old))
    own = multiply(change, splat(norm))
    tally(seen, LOSS_SUM, choose(mask, losses, zero))
    tally(seen, GAP_SUM, choose(mask, gaps, zero))
    store(seen, _8 * np.uint64(MOST), larger(load(seen, _8 * np.uint64(MOST)), choose(mask, size, zero)))
    tally(seen, RMS, multiply(own, own))
    tally(seen, MOVES, choose(moved, splat(1.0), zero))
    tally(seen, KEPT, choose(mask & (_ALL ^ leaves), splat(1.0), zero))
    tally(seen, LENGTH, multiply(change, add(add(margin, margin), own)))
    return change, moved, leaves


@compiled
def logistic_steps(cost, norm, margins, alpha, at, mask, changes, seen):
    """:func:`hinge_steps` for the logistic loss, whose variables reach no bound; ``margins``, ``changes``: arrays."""
    moved = _0
    for k in range(LANES):
        changes[k] = 0.0
        if not (mask >> np.uint64(k)) & _1:
            continue
        old = alpha[at, k]
        row_loss, row_gap = loss_and_gap(LOGISTIC, cost, margins[k], old)
        new, projected = new_dual(LOGISTIC, cost, margins[k], norm, old)
        seen[LOSS_SUM, k] += row_loss
        seen[GAP_SUM, k] += row_gap
        seen[MOST, k] = max(seen[MOST, k], abs(projected))
        seen[KEPT, k] += 1.0
        if new != old:
            changes[k], own = new - old, (new - old) * norm
            alpha[at, k] = new
            seen[RMS, k] += own * own
            seen[MOVES, k] += 1.0
            seen[LENGTH, k] += changes[k] * (2.0 * margins[k] + own)
            moved |= _1 << np.uint64(k)
    return moved


@compiled(
    {
        "cells-batch multiclass": (
            "{cells}, f8[::1], {Objectives}, f8[:, ::1], f8[:, ::1], i4[::1], u1[::1], f8[::1], f8[:, ::1]"
        ),
        "linear-model multiclass dense": (
            "{dense}, f8[::1], {Objectives}, f8[:, ::1], f8[:, ::1], i4[::1], u1[::1], f8[::1], f8[:, ::1]"
        ),
        "linear-model multiclass sparse": (
            "{csr}, f8[::1], {Objectives}, f8[:, ::1], f8[:, ::1], i4[::1], u1[::1], f8[::1], f8[:, ::1]"
        ),
    }
)
def sweep_lanes(rows, norms, objectives, W, alpha, order, active, threshold, seen):
    """One sweep over the rows of ``order``; update W and alpha in place.

    Row i is visited for the problems whose bits are set in ``active[i]``. A problem's bit is cleared where its dual
    variable rests at a bound, with a gradient that keeps it there by more than its ``threshold``.

    ``threshold`` (8,), ``W`` (columns + 1, 8), ``alpha`` (n, 8); ``seen`` (7, 8) is filled in.
    """
    y, signs, class_cost, sample_weight, bias, loss = objectives
    last = _8 * np.uint64(W.shape[0] - 1)
    visits = np.empty(order.size + 1, np.int32)
    size = 0
    for i in order:
        visits[size] = i
        size += active[i] != 0
    seen[:] = 0.0
    margins, changes = np.empty(LANES), np.empty(LANES)
    for s in range(size):
        i = np.int64(visits[s])
        if s + AHEAD < size:
            fetch(rows, np.int64(visits[s + AHEAD]))
        cost, norm = row_cost(i, y, class_cost, sample_weight), squared_norm(rows, i, norms) + bias * bias
        mask, sign, at = np.uint64(active[i]), load(signs, _8 * np.uint64(y[i])), _8 * np.uint64(i)
        product = dot_lanes(rows, i, np.int64(visits[min(s + 1, size - 1)]), W)
        margin = multiply(sign, add(product, multiply(splat(bias), load(W, last))))
        if loss == LOGISTIC:
            store(margins, _0, margin)
            moved = logistic_steps(cost, norm, margins, alpha, i, mask, changes, seen)
            change = load(changes, _0)
        else:
            change, moved, leaves = hinge_steps(loss, cost, norm, margin, alpha, at, mask, threshold, seen)
            active[i] = mask & (_ALL ^ leaves)
        if moved:
            change = multiply(change, sign)
            axpy_lanes(rows, i, change, W)
            store(W, last, add(load(W, last), multiply(splat(bias), change)))
    for k in range(LANES):
        seen[RMS, k] = np.sqrt(seen[RMS, k] / seen[MOVES, k]) if seen[MOVES, k] else 0.0


@compiled(
    {
        "cells-batch multiclass": "{cells}, {Objectives}, f8[:, ::1], f8[:, ::1], f8[:, ::1]",
        "linear-model multiclass dense": "{dense}, {Objectives}, f8[:, ::1], f8[:, ::1], f8[:, ::1]",
        "linear-model multiclass sparse": "{csr}, {Objectives}, f8[:, ::1], f8[:, ::1], f8[:, ::1]",
    }
)
def certify_lanes(rows, objectives, W, alpha, sums):
    """The three sums of :func:`_linear_svm_loops.certificate` for each problem: ``sums`` (3, 8) is filled in."""
    y, signs, class_cost, sample_weight, bias, loss = objectives
    last, n = _8 * np.uint64(W.shape[0] - 1), y.size
    sums[:] = 0.0
    margins = np.empty(LANES)
    for i in range(n):
        cost = row_cost(i, y, class_cost, sample_weight)
        if cost > 0.0:
            product, old = dot_lanes(rows, i, min(i + 1, n - 1), W), load(alpha, _8 * np.uint64(i))
            margin = add(product, multiply(splat(bias), load(W, last)))
            margin = multiply(load(signs, _8 * np.uint64(y[i])), margin)
            if loss == LOGISTIC:
                store(margins, _0, margin)
                for k in range(LANES):
                    row_loss, row_gap = loss_and_gap(loss, cost, margins[k], alpha[i, k])
                    sums[0, k] += row_loss
                    sums[1, k] += row_gap
            else:
                losses, gaps, _ = hinge_parts(loss, cost, margin, old)
                tally(sums, 0, losses)
                tally(sums, 1, gaps)
            tally(sums, 2, multiply(old, margin))


@compiled(
    {
        "cells-batch multiclass": "{cells}, {Objectives}, f8[:, ::1], f8[:, ::1]",
    }
)
def accumulate_lanes(rows, objectives, W, alpha):
    """Clip alpha into its bounds and add sum_i alpha_i c_i x_i to each column of W."""
    y, signs, class_cost, sample_weight, bias, loss = objectives
    last = _8 * np.uint64(W.shape[0] - 1)
    for i in range(y.size):
        cost, at = row_cost(i, y, class_cost, sample_weight), _8 * np.uint64(i)
        upper = np.inf if loss == SQUARED_HINGE and cost > 0.0 else cost
        start = smaller(larger(load(alpha, at), splat(0.0)), splat(upper))
        store(alpha, at, start)
        if differs(start, splat(0.0)):
            step = multiply(start, load(signs, _8 * np.uint64(y[i])))
            axpy_lanes(rows, i, step, W)
            store(W, last, add(load(W, last), multiply(splat(bias), step)))


@compiled(
    {
        "cells-batch multiclass": "f8[:, ::1], f8[::1]",
    }
)
def squared_lengths(W, out):
    """out[k] = W[:, k] . W[:, k], as :func:`_linear_svm_loops.squared_length`."""
    s0 = s1 = s2 = s3 = splat(0.0)
    j, n = _0, np.uint64(W.shape[0])
    while j + _4 <= n:
        w0, w1, w2, w3 = (
            load(W, _8 * j),
            load(W, _8 * (j + _1)),
            load(W, _8 * (j + _2)),
            load(W, _8 * (j + _3)),
        )
        s0, s1 = add(s0, multiply(w0, w0)), add(s1, multiply(w1, w1))
        s2, s3 = add(s2, multiply(w2, w2)), add(s3, multiply(w3, w3))
        j += _4
    while j < n:
        w0 = load(W, _8 * j)
        s0 = add(s0, multiply(w0, w0))
        j += _1
    store(out, _0, add(add(s0, s1), add(s2, s3)))


@compiled(
    {
        "cells-batch multiclass": (
            "{cells}, f8[::1], {Objective}, f8[::1], f8[::1], i4[::1], u1[::1], i8, f8, f8[:, ::1]"
        ),
        "linear-model multiclass dense": (
            "{dense}, f8[::1], {Objective}, f8[::1], f8[::1], i4[::1], u1[::1], i8, f8, f8[:, ::1]"
        ),
        "linear-model multiclass sparse": (
            "{csr}, f8[::1], {Objective}, f8[::1], f8[::1], i4[::1], u1[::1], i8, f8, f8[:, ::1]"
        ),
    }
)
def sweep_apart(rows, norms, objective, w, alpha, order, active, k, threshold, seen):
    """:func:`sweep_lanes` for the problem in lane k alone, with weights and dual variables of its own."""
    bit = np.uint8(1 << k)
    visits = np.empty(order.size + 1, np.int32)
    size = np.int64(0)  # not a literal: Numba would compile the pass for that too
    for i in order:
        visits[size] = i
        size += (active[i] & bit) != 0
    kept = visits.copy()
    left, losses, gap, most, rms, growth = one_pass(rows, norms, objective, w, alpha, kept, size, threshold, AT_FIRST)
    at = 0
    for s in range(size):
        if at < left and kept[at] == visits[s]:
            at += 1
        else:
            active[visits[s]] &= ~bit
    seen[LOSS_SUM, k], seen[GAP_SUM, k], seen[MOST, k], seen[RMS, k] = losses, gap, most, rms
    seen[KEPT, k], seen[LENGTH, k] = left, growth


@compiled(
    {
        "cells-batch multiclass": "f8[:, ::1], i8, f8[:, ::1], i8",
    }
)
def copy_lanes(W, count, coef, first):
    """coef[:, first : first + count] = W[:-1, :count]."""
    for r in range(np.uint64(coef.shape[0])):
        for k in range(np.uint64(count)):
            coef[r, np.uint64(first) + k] = W[r, k]
