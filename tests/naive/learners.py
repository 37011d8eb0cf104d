"""Slow, obvious learners: everything dense, one Python step at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from scipy.special import expit

MASK = 2**64 - 1


def one_hot(codes: np.ndarray, offsets: np.ndarray, value: float = 1.0) -> np.ndarray:
    """Dense one-hot rows; a code of -1 leaves its block empty."""
    X = np.zeros((codes.shape[0], int(offsets[-1])))
    for i, row in enumerate(codes):
        for j, code in enumerate(row):
            if code >= 0:
                X[i, offsets[j] + code] = value
    return X


# --- online gradient descent (algorithms.md 4, 5)


def ogd_primal(
    codes: np.ndarray, offsets: np.ndarray, c: np.ndarray, eta: float, divisor: float
) -> tuple[np.ndarray, list[int], np.ndarray]:
    """Index form: decision before each step, support set, weights.

    Steps are counted, so that a decision is rounded only where the exact sum is scaled. A code of -1 is no cell.
    """
    steps = [0] * int(offsets[-1])
    decisions, support = [], []
    for i, row in enumerate(codes):
        columns = [offsets[j] + code for j, code in enumerate(row) if code >= 0]
        f = eta * sum(steps[column] for column in columns) / divisor
        decisions.append(f)
        if c[i] * f < 1:
            support.append(i)
            for column in columns:
                steps[column] += int(c[i])
    return np.array(decisions), support, eta * np.array(steps)


def ogd_full_product(
    codes: np.ndarray, offsets: np.ndarray, c: np.ndarray, eta: float, divisor: float
) -> tuple[np.ndarray, list[int], np.ndarray]:
    """The "naive primal" form: a product with the whole one-hot row."""
    X = one_hot(codes, offsets)
    w = np.zeros(X.shape[1])
    decisions, support = [], []
    for x, sign in zip(X, c, strict=True):
        f = (w @ x) / divisor
        decisions.append(f)
        if sign * f < 1:
            support.append(len(decisions) - 1)
            w += eta * sign * x
    return np.array(decisions), support, w


def ogd_dual(codes: np.ndarray, c: np.ndarray, eta: float) -> tuple[np.ndarray, list[int], list[float]]:
    """Sum over the support set of beta_i K(x_i, x): equal cells are counted, then divided once by t."""
    decisions = []
    support: list[int] = []
    beta: list[float] = []
    for i, row in enumerate(codes):
        total = sum(b * np.count_nonzero(codes[s] == row) for s, b in zip(support, beta, strict=True))
        f = total / codes.shape[1]
        decisions.append(f)
        if c[i] * f < 1:
            support.append(i)
            beta.append(eta * c[i])
    return np.array(decisions), support, beta


# --- dual coordinate descent (algorithms.md 8.1, 8.2)


def shuffled(order: Iterable[int], state: int) -> tuple[list[int], int]:
    """Fisher-Yates with splitmix64: the shuffled list and the generator's new state."""
    order = list(order)
    for last in range(len(order) - 1, 0, -1):
        state = (state + 0x9E3779B97F4A7C15) & MASK
        z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        z ^= z >> 31
        other = ((z >> 32) * (last + 1)) >> 32
        order[last], order[other] = order[other], order[last]
    return order, state


def logistic_root(margin: float, a: float, norm: float, cost: float) -> float:
    """The z in (0, C) with log(z / (C - z)) + norm (z - a) + margin = 0, by bisection on the logit."""
    low, high = -margin + norm * a - norm * cost, -margin + norm * a
    for _ in range(200):
        s = 0.5 * (low + high)
        z = cost * expit(s)
        if s + norm * (z - a) + margin > 0:
            high = s
        else:
            low = s
    return cost * expit(0.5 * (low + high))


def svm_sweeps(
    X: np.ndarray,
    c: np.ndarray,
    cost: np.ndarray,
    loss: str,
    eps: float,
    n_sweeps: int,
    shrinking: bool,
    state: int,
    sigma: float = 1.0,
    start: tuple[np.ndarray, np.ndarray] | None = None,
) -> tuple[np.ndarray, np.ndarray, int]:
    """The listing of 8.2 on dense rows; (alpha, w, sweeps made). sigma scales the quadratic term (CoCoA+)."""
    n = len(c)
    alpha, w = (np.zeros(n), np.zeros(X.shape[1])) if start is None else start
    everything = [i for i in range(n) if cost[i] > 0]
    order, n_active = list(everything), len(everything)
    high, low = np.inf, -np.inf
    for sweep in range(n_sweeps):
        head, state = shuffled(order[:n_active], state)
        order[:n_active] = head
        most = least = 0.0
        position = 0
        while position < n_active:
            i = order[position]
            margin, norm, old = c[i] * (X[i] @ w), sigma * (X[i] @ X[i]), alpha[i]
            if loss == "logistic":
                new = logistic_root(margin, old, norm, cost[i])
                most = max(most, abs(new - old) * (norm + 4 / cost[i]))
            else:
                diag, upper = (0.5 / cost[i], np.inf) if loss == "squared_hinge" else (0.0, cost[i])
                gradient = margin - 1 + diag * old
                if old == 0:
                    out, projected = gradient > high, min(gradient, 0)
                elif old == upper:
                    out, projected = gradient < low, max(gradient, 0)
                else:
                    out, projected = False, gradient
                if out and shrinking:
                    n_active -= 1
                    order[position], order[n_active] = order[n_active], i
                    continue
                most, least = max(most, projected), min(least, projected)
                new = old
                if abs(projected) > 1e-12:
                    new = min(max(old - gradient / (norm + diag), 0), upper) if norm + diag > 0 else upper
            alpha[i] = new
            w += sigma * (new - old) * c[i] * X[i]
            position += 1
        if most - least <= eps:
            if n_active == len(everything):
                return alpha, w, sweep + 1
            n_active, high, low = len(everything), np.inf, -np.inf
        else:
            high = most if most > 0 else np.inf
            low = least if least < 0 else -np.inf
    return alpha, w, n_sweeps


def svm_pass(
    X: np.ndarray,
    c: np.ndarray,
    cost: np.ndarray,
    loss: str,
    alpha: np.ndarray,
    w: np.ndarray,
    order: Iterable[int],
    threshold: float,
) -> tuple[list[int], float, float, float, list[float]]:
    """A sweep that leaves out rows at rest (not for the logistic loss); alpha and w change in place.

    Returns (rows kept, sum of losses, of shares of the gap, largest projected gradient, steps in the row's own margin).
    """
    kept, steps, losses, gap, largest = [], [], 0.0, 0.0, 0.0
    for i in order:
        margin, old = c[i] * (X[i] @ w), alpha[i]
        diag, upper = (0.5 / cost[i], np.inf) if loss == "squared_hinge" else (0.0, cost[i])
        slack, gradient = max(0.0, 1 - margin), margin - 1 + diag * old
        if loss == "squared_hinge":
            losses += cost[i] * slack**2
            gap += cost[i] * (slack - diag * old) ** 2 + old * max(0.0, margin - 1)
        else:
            losses += cost[i] * slack
            gap += (cost[i] - old) * slack + old * max(0.0, margin - 1)
        projected = min(gradient, 0) if old == 0 else max(gradient, 0) if old == upper else gradient
        largest = max(largest, abs(projected))
        new = min(max(old - gradient / (X[i] @ X[i] + diag), 0), upper) if abs(projected) > 1e-12 else old
        if new != old:
            steps.append((new - old) * (X[i] @ X[i]))
            alpha[i] = new
            w += (new - old) * c[i] * X[i]
        if new != old or projected != 0 or abs(margin - 1) <= threshold:
            kept.append(i)
    return kept, losses, gap, largest, steps


def svm_blocks(
    X: np.ndarray,
    c: np.ndarray,
    cost: np.ndarray,
    loss: str,
    passes: Iterable[Iterable[tuple[Any, int]]],
    shrinking: bool,
) -> tuple[np.ndarray, np.ndarray, set[int], list[float]]:
    """Block minimisation: one sweep over each group of each pass, given as (rows, seed).

    Returns (alpha, w, rows left out, momentum before every pass).
    """
    alpha, before, w, threshold, primal = np.zeros(len(c)), np.zeros(len(c)), np.zeros(X.shape[1]), np.inf, 0.0
    upper = np.where(cost > 0, np.inf, 0.0) if loss == "squared_hinge" else cost
    betas: list[float] = []
    gaps: list[float] = []
    duals: list[float] = []
    left_out: set[int] = set()
    for groups in passes:
        betas.append(momentum(gaps, duals))
        wanted = alpha + betas[-1] * (alpha - before)
        before, alpha = alpha, wanted.copy()
        w = X.T @ (c * wanted)
        visits = squares = losses = gap = 0.0
        whole = not left_out
        for rows, seed in groups:
            alpha[rows] = np.clip(wanted[rows], 0, upper[rows])
            w += X[rows].T @ (c[rows] * (alpha[rows] - wanted[rows]))
            order, _ = shuffled([i for i in rows if cost[i] > 0 and i not in left_out], seed)
            kept, row_losses, row_gaps, _, steps = svm_pass(X, c, cost, loss, alpha, w, order, threshold)
            left_out |= set(order) - set(kept)
            losses, gap, visits = losses + row_losses, gap + row_gaps, visits + len(order)
            squares += len(order) * np.mean(np.square(steps)) if steps else 0.0
        threshold = 3 * np.sqrt(squares / visits) if squares and shrinking else np.inf
        primal = float(0.5 * w @ w + losses) if whole else primal
        gaps.append(gap / primal)
        counts = cost > 0
        duals.append(svm_dual(X[counts], c[counts], cost[counts], loss, alpha[counts]))
    return alpha, w, left_out, betas


def momentum(gaps: list[float], duals: list[float]) -> float:
    """Momentum before the next sweep, given what all sweeps so far saw of the gap and the dual after each of them."""
    beta, since = 0.0, 4
    for made in range(4, len(gaps) + 1):
        if made > 4 and (gaps[made - 1] > gaps[made - 2] or duals[made - 1] < max(duals[: made - 1])):
            since = made
        elif made == 4 or made - since == 8:
            span, since = 2 if made == 4 else 8, made
            ratio = gaps[made - 1] / gaps[made - 1 - span]
            z = ratio ** (1 / (2 * span))
            if z < 1 and z * z > beta:
                q = z * z / ((1 + beta) * z - beta)
                best = (1 - np.sqrt(1 - q)) / (1 + np.sqrt(1 - q)) if q < 1 else 0.9
                beta = max(beta, min(best, 0.9) if best >= 0.2 else 0.0)
    if len(gaps) > 4 and gaps[-1] > 1.15 * gaps[-2]:
        return 0.0
    return beta if len(duals) > 1 and duals[-1] >= max(duals[:-1]) else 0.0


def cocoa(
    X: list[np.ndarray],
    c: list[np.ndarray],
    cost: list[np.ndarray],
    loss: str,
    rounds: int,
    random: Callable[[int, int], int],
) -> list[np.ndarray]:
    """CoCoA+ with momentum on parts (lists of dense rows, signs, costs), one sweep a round; alpha of every part.

    random(part, round) seeds the order of the rows. Every weight vector is made anew from the dual variables.
    """
    k = len(X)
    alpha = before = [np.zeros(len(part)) for part in c]
    theta, dual = 1.0, 0.0
    for r in range(1, rounds + 1):
        following = (1 + np.sqrt(1 + 4 * theta**2)) / 2
        beta = (theta - 1) / following
        wanted = [a + beta * (a - b) for a, b in zip(alpha, before, strict=True)]
        w = sum(X[p].T @ (c[p] * wanted[p]) for p in range(k))
        new = []
        for p in range(k):
            start = np.clip(wanted[p], 0, cost[p] if loss != "squared_hinge" else np.where(cost[p] > 0, np.inf, 0))
            local = w + k * X[p].T @ (c[p] * (start - wanted[p]))
            new.append(svm_sweeps(X[p], c[p], cost[p], loss, 0.0, 1, False, random(p, r), k, (start, local))[0])
        before, alpha = alpha, new
        rows = np.concatenate(cost) > 0
        every = [np.concatenate(each)[rows] for each in (X, c, cost, alpha)]
        reached = svm_dual(every[0], every[1], every[2], loss, every[3])
        theta = following if reached > dual else 1.0
        dual = reached
    return alpha


def whole_weights(columns: np.ndarray, n_columns: int, c: np.ndarray, alpha: np.ndarray, unit: float) -> list[int]:
    """Sums of c_i times the whole number nearest alpha_i unit: of every column, and of the constant feature."""
    w = [0] * (n_columns + 1)
    for row, sign, a in zip(columns.tolist(), c.tolist(), alpha.tolist(), strict=True):
        for column in [*row, n_columns]:
            w[column] += sign * round(a * unit)
    return w


def svm_gram(K: np.ndarray, c: np.ndarray, C: float, loss: str, n_sweeps: int) -> np.ndarray:
    """Coordinate descent on the dual without offset, from the Gram matrix alone; the coefficients a_i c_i."""
    diag, upper = (0.5 / C, np.inf) if loss == "squared_hinge" else (0.0, C)
    alpha = np.zeros(len(c))
    for _ in range(n_sweeps):
        for i in range(len(c)):
            gradient = c[i] * (K[i] @ (alpha * c)) - 1 + diag * alpha[i]
            alpha[i] = min(max(alpha[i] - gradient / (K[i, i] + diag), 0), upper)
    return alpha * c


def svm_primal(X: np.ndarray, c: np.ndarray, cost: np.ndarray, loss: str, w: np.ndarray) -> float:
    """Primal objective of 8.1."""
    margin = c * (X @ w)
    slack = np.maximum(0, 1 - margin)
    losses = {"hinge": slack, "squared_hinge": slack**2, "logistic": np.logaddexp(0, -margin)}
    return 0.5 * w @ w + cost @ losses[loss]


def svm_dual(X: np.ndarray, c: np.ndarray, cost: np.ndarray, loss: str, alpha: np.ndarray) -> float:
    """Dual objective (to be maximised)."""
    w = X.T @ (alpha * c)
    if loss == "hinge":
        rest = alpha.sum()
    elif loss == "squared_hinge":
        rest = alpha.sum() - (alpha**2 / (4 * cost)).sum()
    else:
        q = alpha / cost
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(q > 0, q * np.log(q), 0) + np.where(q < 1, (1 - q) * np.log(1 - q), 0)
        rest = -(cost * terms).sum()
    return rest - 0.5 * w @ w


# --- online learners with kernels and random features (algorithms.md 5.2, 6, 7)


def ogd_kernel(
    K: np.ndarray, c: np.ndarray, eta: float, unit: int | None = 2**32
) -> tuple[np.ndarray, list[int], list[int]]:
    """Dual form for any kernel matrix, its values rounded to whole steps or not: decisions, support set, signs."""
    steps = K.tolist() if unit is None else [[round(value * unit) for value in row] for row in K.tolist()]
    decisions = []
    support: list[int] = []
    signs: list[int] = []
    for i in range(len(c)):
        total = 0
        for s, sign in zip(support, signs, strict=True):
            total += sign * steps[s][i]  # one after the other: sum() makes up for what is rounded
        f = eta * total / (unit or 1)
        decisions.append(f)
        if c[i] * f < 1:
            support.append(i)
            signs.append(int(c[i]))
    return np.array(decisions), support, signs


def ogd_dense(
    Z: np.ndarray, c: np.ndarray, eta: float, w: np.ndarray | None = None
) -> tuple[np.ndarray, list[int], list[np.ndarray]]:
    """Linear form on dense features: decisions, support set, the weights after each step."""
    w = np.zeros(Z.shape[1]) if w is None else np.array(w)
    decisions, support, history = [], [], []
    for i, z in enumerate(Z):
        f = sum(a * b for a, b in zip(z, w, strict=True))
        decisions.append(f)
        if c[i] * f < 1:
            support.append(i)
            w = w + eta * c[i] * z
            history.append(w)
    return np.array(decisions), support, history
