"""Compiled sweeps of dual coordinate descent for eight problems at once, and their certificates, for any row layout.

One pass over the rows serves the problems side by side, each with its own dual variable in the row: the row's cells are
read once, and one cache line for each of them holds the weights of all eight. The arithmetic of a problem is that of
``_linear_svm_loops``, operation by operation, so its result does not depend on what stands beside it.
"""

import numpy as np
from numba import njit

from ikmap.learners._lanes_loops import (
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
from ikmap.learners._linear_svm_loops import (
    AHEAD,
    LOGISTIC,
    SQUARED_HINGE,
    loss_and_gap,
    new_dual,
    row_cost,
    shuffle,
)
from ikmap.learners._rows_loops import axpy, fetch, squared_norm

LOSS_SUM, GAP_SUM, MOST, SQUARES, MOVES, KEPT, LENGTH = range(7)
"""Rows of what a sweep says of each problem: sums of losses and of shares of the gap as seen at the rows' visits, largest
projected gradient, sum and number of the squared steps in a row's own margin, rows still active, growth of |w|^2."""
_0, _1, _8, _ALL = np.uint64(0), np.uint64(1), np.uint64(LANES), np.uint64(2**LANES - 1)


@njit(cache=True, nogil=True, forceinline=True)
def tally(seen, row, value):
    """seen[row] += value."""
    at = _8 * np.uint64(row)
    store(seen, at, add(load(seen, at), value))


@njit(cache=True, nogil=True, forceinline=True)
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


@njit(cache=True, nogil=True, forceinline=True)
def hinge_steps(loss, cost, norm, margin, alpha, at, mask, threshold, seen):
    """A step in each variable alpha[at : at + 8] of the problems in ``mask``, as :func:`_linear_svm_loops.new_dual`.

    Returns (the vector of changes, bit masks of the problems that moved and of those that leave the row out from now on).
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
    tally(seen, SQUARES, multiply(own, own))
    tally(seen, MOVES, choose(moved, splat(1.0), zero))
    tally(seen, KEPT, choose(mask & (_ALL ^ leaves), splat(1.0), zero))
    tally(seen, LENGTH, multiply(change, add(add(margin, margin), own)))
    return change, moved, leaves


@njit(cache=True, nogil=True)
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
            seen[SQUARES, k] += own * own
            seen[MOVES, k] += 1.0
            seen[LENGTH, k] += changes[k] * (2.0 * margins[k] + own)
            moved |= _1 << np.uint64(k)
    return moved


@njit(cache=True, nogil=True)
def sweep_lanes(
    rows, norms, y, signs, class_cost, sample_weight, bias, loss, W, alpha, order, active, threshold, state, seen
):  # fmt: skip
    """One sweep over the rows of ``order``, shuffled first; update W and alpha in place.

    Row i is visited for the problems whose bits are set in ``active[i]``. A problem's bit is cleared where its dual
    variable rests at a bound, with a gradient that keeps it there by more than its ``threshold``. The shuffle is of all
    rows: so each problem sees its rows in an order that does not depend on the others.

    ``signs`` (n_classes, 8) is 1 where a row of that class is positive in that problem, else -1; ``threshold`` (8,),
    ``W`` (columns + 1, 8), ``alpha`` (n, 8); ``seen`` (7, 8) is filled in. Returns the generator's state.
    """
    last = _8 * np.uint64(W.shape[0] - 1)
    state = shuffle(order, order.size, state)
    visits = np.empty(order.size + 1, np.int32)
    size = 0
    for i in order:
        visits[size] = i
        size += active[i] != 0
    seen[:] = 0.0
    margins, changes, step = np.empty(LANES), np.empty(LANES), np.empty(LANES)
    for s in range(size):
        i = visits[s]
        if s + AHEAD < size:
            fetch(rows, visits[s + AHEAD])
        cost, norm = row_cost(i, y, class_cost, sample_weight), squared_norm(rows, i, norms) + bias * bias
        mask, sign, at = np.uint64(active[i]), load(signs, _8 * np.uint64(y[i])), _8 * np.uint64(i)
        product = dot_lanes(rows, i, visits[min(s + 1, size - 1)], W)
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
    return state


@njit(cache=True, nogil=True)
def certify_lanes(rows, y, signs, class_cost, sample_weight, bias, loss, W, alpha, sums):
    """For each problem: sum of losses, the duality gap as :func:`_linear_svm_loops.certificate`, and |w|^2; (3, 8).

    |w|^2 is the sum of alpha_i m_i, margins m_i, which saves a pass over the weights.
    """
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


@njit(cache=True, nogil=True)
def accumulate_lanes(rows, y, signs, class_cost, sample_weight, bias, loss, W, alpha):
    """Clip alpha into its bounds and add sum_i alpha_i c_i x_i to each column of W."""
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


@njit(cache=True, nogil=True)
def swap_lanes(one, k, other, j):
    """Let column k of ``one`` and column j of ``other``, both (rows, 8), change places."""
    for r in range(one.shape[0]):
        one[r, k], other[r, j] = other[r, j], one[r, k]


@njit(cache=True, nogil=True)
def take_lanes(W, lanes, coef, columns):
    """coef[:, columns] = W[:-1, lanes], a cache line at a time."""
    for r in range(coef.shape[0]):
        for k in range(lanes.size):
            coef[r, columns[k]] = W[r, lanes[k]]
