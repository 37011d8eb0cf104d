"""Calibration: turns decision values into probabilities, and has a threshold between two classes.

A calibration is fitted to decision values of rows that the learner had not learned from. With two classes these are
counted by bins (:class:`~ikmap.tasks.classification.class_scores.ClassScores`), and each row stands at the middle of
its bin. With more classes, which compete, Platt's method is to scale all decisions by one number, to add one number to
each, and to take the soft maximum; isotonic regression then maps these probabilities, for each class against the rest,
and they are scaled to sum 1.

Sources: J. Platt, "Probabilistic outputs for support vector machines", 1999, in the form of H.-T. Lin, C.-J. Lin,
R. C. Weng, "A note on Platt's probabilistic outputs for support vector machines", 2007; B. Zadrozny, C. Elkan,
"Transforming classifier scores into accurate multiclass probability estimates", KDD 2002; C. Guo, G. Pleiss, Y. Sun,
K. Q. Weinberger, "On calibration of modern neural networks", ICML 2017.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from scipy.special import expit, logsumexp

from ikmap.json_values import Json
from ikmap.model import Model
from ikmap.tasks.capabilities import Evidence
from ikmap.tasks.classification.class_scores import ClassScores
from ikmap.tasks.classification.evidence import DecisionEvidence
from ikmap.tasks.classification.threshold import Threshold

NONE, LOG_ODDS, PLATT, ISOTONIC = "none", "log-odds", "platt", "isotonic"
STEPS = 100
RIDGE = 1e-2


@dataclass(frozen=True, eq=False)
class Calibrator(Model):
    """A fitted calibration of decisions of shape (n, K).

    Attributes
    ----------
    how : {"none", "log-odds", "platt", "isotonic"}
        Method by which decisions become probabilities: none; decisions are log odds; log odds are a linear function of
        decisions; isotonic regression.
    lines : ndarray of float64, shape (K, 2)
        Slope and intercept for each column; with more than two classes also of isotonic regression.
    knots, levels : ndarrays of float64, shape (m,)
        Knots of isotonic regression: ascending values and the probability at each, column after column, with linear
        interpolation between them. Values are decisions, or with more than two classes probabilities.
    begins : ndarray of int64, shape (K + 1,)
        Where the knots of each column begin.
    threshold : float
        Smallest decision that means the second of two classes.
    chosen : dict
        Quality of the chosen threshold; empty if none was chosen.
    """

    kind: ClassVar[str] = "reading"

    how: str
    lines: np.ndarray
    knots: np.ndarray
    levels: np.ndarray
    begins: np.ndarray
    threshold: float = 0.0
    chosen: dict[str, Json] = field(default_factory=dict)

    @property
    def has_probabilities(self) -> bool:
        """True if decisions become probabilities."""
        return self.how != NONE

    def probabilities(self, decision: np.ndarray) -> np.ndarray:
        """Return the probability of each class, shape (n, classes), from decisions of shape (n, K)."""
        if decision.shape[1] == 1:
            own = self._own(decision[:, 0], 0)
            return np.column_stack([1.0 - own, own])
        if self.how == LOG_ODDS:  # scaled, so that rows far from every class still sum to 1
            return _shares(-np.logaddexp(0.0, -decision))
        soft = _shares(self.lines[:, 0] * decision + self.lines[:, 1])
        if self.how == PLATT:
            return soft
        each = np.column_stack([self._step(soft[:, k], k) for k in range(soft.shape[1])])
        return each / each.sum(axis=1, keepdims=True)

    def _own(self, decision: np.ndarray, k: int) -> np.ndarray:
        if self.how == ISOTONIC:
            return self._step(decision, k)
        line = decision if self.how == LOG_ODDS else self.lines[k, 0] * decision + self.lines[k, 1]
        return expit(line)

    def _step(self, values: np.ndarray, k: int) -> np.ndarray:
        own = slice(int(self.begins[k]), int(self.begins[k + 1]))
        return np.interp(values, self.knots[own], self.levels[own])


def _shares(logs: np.ndarray) -> np.ndarray:
    each: np.ndarray = np.exp(logs - logs.max(axis=1, keepdims=True))
    return each / each.sum(axis=1, keepdims=True)


def fit_calibrator(how: str, evidence: Evidence | None = None, threshold: Threshold | None = None) -> Calibrator:
    """Fit a calibrator to decision values of rows that were not learned from.

    Parameters
    ----------
    how : {"none", "log-odds", "platt", "isotonic"}
    evidence : ClassScores or DecisionEvidence
        Evidence on two classes, or on more. It is needed for "platt", "isotonic" and a threshold.
    threshold : Threshold, optional
        Goal by which the threshold between two classes is chosen.
    """
    lines = np.zeros((0, 2))
    steps: list[tuple[np.ndarray, np.ndarray]] = []
    if how in (PLATT, ISOTONIC):
        if isinstance(evidence, DecisionEvidence):
            lines = soft_maximum(evidence.target, evidence.decision.astype(np.float64))
            if how == ISOTONIC:
                soft = _shares(lines[:, 0] * evidence.decision + lines[:, 1])
                for k in range(len(lines)):
                    values, at = np.unique(soft[:, k], return_inverse=True)
                    own = np.bincount(at[evidence.target == k], minlength=values.size)
                    steps.append(isotonic(values, np.bincount(at) - own, own))
        else:
            assert isinstance(evidence, ClassScores)
            values, (others, own) = evidence.middles(0), evidence.columns[0].counts.T
            if how == PLATT:
                lines = np.array([platt(values, others, own)])
            else:
                steps = [isotonic(values, others, own)]
    knots, levels = (np.concatenate([np.zeros(0), *(step[i] for step in steps)]) for i in (0, 1))
    begins = np.r_[0, np.cumsum([step[0].size for step in steps])].astype(np.int64)
    if threshold is None:
        return Calibrator(how, lines, knots, levels, begins)
    assert isinstance(evidence, ClassScores)
    value, chosen = threshold.choose(evidence)
    return Calibrator(how, lines, knots, levels, begins, value, chosen)


def soft_maximum(target: np.ndarray, decision: np.ndarray) -> np.ndarray:
    """Return one slope for all classes and an intercept for each, shape (K, 2), by maximum likelihood.

    A small ridge penalty makes the solution unique.

    Parameters
    ----------
    target : ndarray of int, shape (n,)
    decision : ndarray of float64, shape (n, K)
    """
    from scipy.optimize import minimize  # which would take each process a tenth of a second to import

    n, outputs = decision.shape
    scale = float(decision.std()) or 1.0
    x, rows = decision / scale, np.arange(n)

    def loss(at: np.ndarray) -> tuple[float, np.ndarray]:
        logs = at[0] * x + at[1:]
        total = logsumexp(logs, axis=1)
        off = np.exp(logs - total[:, None])
        off[rows, target] -= 1.0
        value = float((total - logs[rows, target]).sum() + RIDGE * (at @ at)) / n
        slope = np.r_[(off * x).sum(), off.sum(axis=0)] + 2 * RIDGE * at
        return value, slope / n

    start = np.r_[1.0, np.zeros(outputs)]
    best = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 500, "ftol": 1e-12, "gtol": 1e-8}).x
    return np.column_stack([np.full(outputs, best[0] / scale), best[1:]])


def platt(values: np.ndarray, others: np.ndarray, own: np.ndarray) -> tuple[float, float]:
    """Return slope and intercept of the log odds, by Newton's method on Platt's targets.

    Parameters
    ----------
    values : ndarray of float64, shape (b,)
    others, own : ndarrays of int64, shape (b,)
        Number of rows at each value, of other classes and of the class.
    """
    rows, hits, misses = (others + own).astype(np.float64), float(own.sum()), float(others.sum())
    # Platt's targets are a little less sure than 1 and 0.
    target = (own * (hits + 1) / (hits + 2) + others / (misses + 2)) / rows
    scale = float(np.abs(values).max(initial=0.0)) or 1.0
    x = values / scale
    slope, intercept = 0.0, float(np.log((hits + 1) / (misses + 1)))

    def loss(a: float, b: float) -> float:
        z = a * x + b
        return float((rows * (np.logaddexp(0.0, z) - target * z)).sum())

    now = loss(slope, intercept)
    for _ in range(STEPS):
        p = expit(slope * x + intercept)
        off, curved = rows * (p - target), rows * p * (1 - p)
        gradient = np.array([(off * x).sum(), off.sum()])
        if np.abs(gradient).max() <= 1e-9 * rows.sum():
            break
        cross = (curved * x).sum()
        hessian = np.array([[(curved * x * x).sum(), cross], [cross, curved.sum()]]) + 1e-12 * np.eye(2)
        step = np.linalg.solve(hessian, gradient)
        size = 1.0
        while size > 1e-10:
            a, b = slope - size * step[0], intercept - size * step[1]
            if (then := loss(a, b)) < now + 1e-4 * size * -float(gradient @ step):
                slope, intercept, now = float(a), float(b), then
                break
            size /= 2
        else:
            break
    return slope / scale, intercept


def isotonic(values: np.ndarray, others: np.ndarray, own: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return ascending values and the probability at each: isotonic regression by pooling adjacent violators.

    Each pool of rows gets one row more, with the share of the class among all rows, so that no probability is 0 or 1.
    """
    share = (float(own.sum()) + 1) / (float(own.sum() + others.sum()) + 2)
    counts = zip(values.tolist(), (others + own).tolist(), own.tolist(), strict=True)
    pools = _pooled([value, value, n, hits] for value, n, hits in counts)
    # The further row may put pools of few rows out of order, so they are pooled once more.
    pools = _pooled([first, last, n + 1, hits + share] for first, last, n, hits in pools)
    table = np.array(pools, dtype=np.float64).reshape(-1, 4)
    level = table[:, 3] / table[:, 2]
    knots, at = np.unique(table[:, :2].ravel(), return_index=True)
    return knots, np.repeat(level, 2)[at]


def _pooled(entries: Iterable[list[float]]) -> list[list[float]]:
    """Join neighbouring pools (first value, last value, rows, rows of the class) until their shares ascend."""
    pools: list[list[float]] = []
    for entry in entries:
        pools.append(entry)
        while len(pools) > 1 and pools[-2][3] * pools[-1][2] >= pools[-1][3] * pools[-2][2]:
            _, last, rows, true = pools.pop()
            pools[-1] = [pools[-1][0], last, pools[-1][2] + rows, pools[-1][3] + true]
    return pools
