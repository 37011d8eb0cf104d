"""Support vector regression by dual coordinate descent, written out on dense rows."""

from __future__ import annotations

from typing import Any

import numpy as np


def svr_pass(
    X: np.ndarray,
    z: np.ndarray,
    cost: np.ndarray,
    epsilon: float,
    squared: bool,
    beta: np.ndarray,
    w: np.ndarray,
    order: Any,
    threshold: float,
    t: int,
) -> tuple[list[int], float, float, float, float]:
    """One sweep that leaves out rows at rest; beta and w change in place. Rows have t one-hot features, 4 k.

    Returns (rows kept, sum of losses, largest projected gradient, steps in the row's own prediction, growth of |w|^2).
    """
    kept, steps, losses, largest, growth = [], [], 0.0, 0.0, 0.0
    for i in order:
        old, predicted, norm = beta[i], total(X[i] * w, t), X[i] @ X[i]
        residual, diag = z[i] - predicted, 0.5 / cost[i] if squared else 0.0
        upper = np.inf if squared else cost[i]
        slack = max(0.0, abs(residual) - epsilon)
        losses += cost[i] * (slack**2 if squared else slack)
        # The derivatives of the dual on the two sides of `old`; it can move where one of them invites it to.
        slope = diag * old - residual
        left, right = slope + (epsilon if old > 0 else -epsilon), slope + (epsilon if old >= 0 else -epsilon)
        down, up = max(left, 0.0) if old > -upper else 0.0, min(right, 0.0) if old < upper else 0.0
        violation, new = max(down, -up), old
        largest = max(largest, violation)
        if violation > 1e-12:
            if norm + diag > 0:
                best = old - slope / (norm + diag)
                new = np.sign(best) * max(abs(best) - epsilon / (norm + diag), 0.0)
            else:
                new = np.sign(residual) * np.inf if abs(residual) > epsilon else 0.0
            new = min(max(new, -upper), upper)
        beta[i] = new
        w += (new - old) * X[i]
        growth += (new - old) * (2 * predicted + (new - old) * norm)
        if new != old:
            steps.append((new - old) * norm)
        elif violation == 0 and abs(abs(residual) - epsilon) > threshold and old in (0.0, upper, -upper):
            continue
        kept.append(i)
    return kept, losses, largest, float(np.sqrt(np.mean(np.square(steps)))) if steps else 0.0, growth


def total(products: np.ndarray, t: int) -> float:
    """Sum of one product for each of t features, in four partial sums."""
    s0, s1, s2, s3 = products.reshape(t, -1).sum(axis=1).reshape(-1, 4).cumsum(axis=0)[-1]
    return float((s0 + s1) + (s2 + s3))


def svr_primal(X: np.ndarray, z: np.ndarray, cost: np.ndarray, epsilon: float, squared: bool, w: np.ndarray) -> float:
    """|w|^2 / 2 and the losses."""
    slack = np.maximum(0.0, np.abs(z - X @ w) - epsilon)
    return float(0.5 * w @ w + cost @ (slack**2 if squared else slack))


def svr_dual(X: np.ndarray, z: np.ndarray, cost: np.ndarray, epsilon: float, squared: bool, beta: np.ndarray) -> float:
    """The dual objective."""
    w = X.T @ beta
    curved = (beta[cost > 0] ** 2 / (4 * cost[cost > 0])).sum() if squared else 0.0
    return float(z @ beta - epsilon * np.abs(beta).sum() - 0.5 * w @ w - curved)


def svr_cocoa(
    X: list[np.ndarray], z: list[np.ndarray], cost: list[np.ndarray], epsilon: float, squared: bool, orders: Any, t: int
) -> list[np.ndarray]:
    """CoCoA+ with momentum on parts, one sweep a round; beta of every part. ``orders[round][part]``: visits of rows.

    A pass of k times the quadratic term is one over rows sqrt(k) X, from weights w / sqrt(k).
    """
    k = len(X)
    beta = before = [np.zeros(part.size) for part in z]
    theta, dual = 1.0, 0.0
    for visits in orders:
        following = (1 + np.sqrt(1 + 4 * theta**2)) / 2
        momentum = (theta - 1) / following
        wanted = [b + momentum * (b - a) for b, a in zip(beta, before, strict=True)]
        w = sum(X[p].T @ wanted[p] for p in range(k))
        new = []
        for p in range(k):
            upper = np.where(cost[p] > 0, np.inf, 0.0) if squared else cost[p]
            start = np.clip(wanted[p], -upper, upper)
            local = (w + k * X[p].T @ (start - wanted[p])) / np.sqrt(k)
            svr_pass(np.sqrt(k) * X[p], z[p], cost[p], epsilon, squared, start, local, visits[p], np.inf, t)
            new.append(start)
        before, beta = beta, new
        every = [np.concatenate(each) for each in (X, z, cost, beta)]
        reached = svr_dual(every[0], every[1], every[2], epsilon, squared, every[3])
        theta = following if reached > dual else 1.0
        dual = reached
    return beta
