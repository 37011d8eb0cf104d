"""Conjugate gradients for ridge regression, with a certified duality gap, as rounds of sums over the rows.

Hestenes, Stiefel (1952), on the normal equations ``A w = b`` of :mod:`ikmap.learners.ridge.ridge`. With g the gradient
at w, and the best intercept for it, the objective at w exceeds the optimum by ``g' A^-1 g / 2``. No eigenvalue of A is
below alpha, so that is at most ``|g|^2 / (2 alpha)``. Conjugate gradients learn more of A with every step: by
Gauss-Radau quadrature with a node at alpha, 1 / alpha is replaced by a smaller number, whose recurrence is that of
Meurant, Tichy (2013, "On computing quadrature-based bounds for the A-norm of the error in conjugate gradients",
section 4). Gradients and step lengths are what conjugate gradients have in hand, so the certificate costs nothing.

At the end the gradient is computed anew. By as much as it differs from what the steps made of it, the bound grows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from ikmap.arrays import Floats
from ikmap.learners.ridge._ridge_loops import ONES, PRODUCTS, RESIDUALS
from ikmap.learners.ridge.sums import Order, Sums

COUNT, CERTIFY, STEP, DONE = range(4)


@dataclass(frozen=True)
class Problem:
    """Parameters of the problem and of its solution.

    Attributes
    ----------
    alpha : float
        Weight of the squared norm of the weights, > 0.
    tol : float
        Relative duality gap to stop at.
    value : float
        Value of the feature of a cell.
    fit_intercept : bool
    max_iter : int
        Steps, at most.
    """

    alpha: float
    tol: float = 1e-3
    value: float = 1.0
    fit_intercept: bool = True
    max_iter: int = 1000


@dataclass
class ConjugateGradients:
    """The state of conjugate gradients: sums of :attr:`order` over all rows are handed to :meth:`absorb`.

    Attributes
    ----------
    problem : Problem
    w : ndarray of float64, shape (n_columns,)
        Weights of the features, whose entries are ``value``; at the start those to begin with.
    phase : int
        Purpose of the next sums.
    counts : ndarray, shape (n_columns,)
        Weight of the rows in each cell.
    mean, total : float
        Mean of the targets; weight of all rows.
    residual, direction : ndarrays
        The negative gradient, and where the next step goes.
    bound : float
        The objective exceeds the optimum by no more than half of this times the square of the residual.
    objective, gap : float
        Objective and gap, certified at `w` or estimated by the steps since then.
    steps : int
    """

    problem: Problem
    w: Floats
    phase: int = COUNT
    counts: np.ndarray = field(default_factory=lambda: np.zeros(0))
    mean: float = 0.0
    total: float = 0.0
    residual: np.ndarray = field(default_factory=lambda: np.zeros(0))
    direction: np.ndarray = field(default_factory=lambda: np.zeros(0))
    bound: float = 0.0
    objective: float = np.inf
    gap: float = np.inf
    steps: int = 0

    @property
    def order(self) -> Order | None:
        """Order of the next sums; None when the solution is done."""
        if self.phase == COUNT:
            return Order(ONES, 0.0, np.zeros_like(self.w))
        if self.phase == CERTIFY:
            return Order(RESIDUALS, self.intercept, self.problem.value * self.w)
        if self.phase == STEP:
            return Order(PRODUCTS, 0.0, self.problem.value * self.direction)
        return None

    @property
    def intercept(self) -> float:
        """Best intercept for the weights."""
        if not self.problem.fit_intercept or self.total == 0.0:
            return 0.0
        return self.mean - self.problem.value * dot(self.counts, self.w) / self.total

    @property
    def converged(self) -> bool:
        """True if the gap is small enough."""
        return self.gap <= self.problem.tol * self.objective

    @property
    def relative_gap(self) -> float:
        """Gap as a share of the objective."""
        return self.gap / self.objective if self.objective > 0 else 0.0

    def absorb(self, sums: Sums) -> None:
        """Continue with the ordered sums."""
        {COUNT: self._count, CERTIFY: self._certify, STEP: self._step}[self.phase](sums)

    def follow(self, problem: Problem) -> Self:
        """Return the state before the first round of another problem on the same rows, with these weights."""
        kept = {"counts": self.counts, "mean": self.mean, "total": self.total}
        return type(self)(problem, self.w.copy(), CERTIFY, **kept)  # type: ignore[arg-type]

    def _count(self, sums: Sums) -> None:
        self.counts, self.total = sums.cells.copy(), float(sums.rows[1])
        self.mean = float(sums.rows[2]) / self.total if self.total > 0 else 0.0
        self.phase = CERTIFY

    def _centred(self, sums: Sums) -> Floats:
        """Return the sums over cells of values less their mean."""
        if not self.problem.fit_intercept or self.total == 0.0:
            return self.problem.value * sums.cells
        return self.problem.value * (sums.cells - self.counts * (float(sums.rows[1]) / self.total))

    def _certify(self, sums: Sums) -> None:
        alpha = self.problem.alpha
        residual = self._centred(sums) - alpha * self.w
        self.objective = 0.5 * float(sums.rows[0]) + 0.5 * alpha * dot(self.w, self.w)
        self.gap = dot(residual, residual) / (2 * alpha)
        if self.bound > 0.0:
            off = residual - self.residual
            error = math.sqrt(self.bound * dot(self.residual, self.residual)) + math.sqrt(dot(off, off) / alpha)
            self.gap = min(self.gap, 0.5 * error * error)
        self.residual, self.direction, self.bound = residual, residual.copy(), 1.0 / alpha
        self.phase = DONE if self.converged or self.steps >= self.problem.max_iter else STEP

    def _step(self, sums: Sums) -> None:
        alpha = self.problem.alpha
        product = self._centred(sums) + alpha * self.direction
        before = dot(self.residual, self.residual)
        length = before / dot(self.direction, product)
        self.w += length * self.direction
        self.residual -= length * product
        now = dot(self.residual, self.residual)
        self.objective -= 0.5 * length * before
        # The bound is larger than the length; but for rounding, which leaves the one that is always right.
        more = self.bound - length
        self.bound = more / (alpha * more + now / before) if more > 0.0 else 1.0 / alpha
        self.gap = 0.5 * self.bound * now
        self.direction *= now / before
        self.direction += self.residual
        self.steps += 1
        if self.converged or self.steps >= self.problem.max_iter:
            self.phase = CERTIFY

    def checkpoint(self) -> dict[str, np.ndarray]:
        """Return the state as arrays."""
        numbers = [self.phase, self.mean, self.total, self.bound, self.objective, self.gap, self.steps]
        arrays = {name: getattr(self, name) for name in ("w", "counts", "residual", "direction")}
        return {**arrays, "numbers": np.array(numbers, dtype=np.float64)}

    @classmethod
    def restore(cls, problem: Problem, arrays: Mapping[str, np.ndarray]) -> Self:
        """Return the state from which :meth:`checkpoint` made the arrays."""
        phase, mean, total, bound, objective, gap, steps = arrays["numbers"].tolist()
        vectors = {name: arrays[name].copy() for name in ("w", "counts", "residual", "direction")}
        return cls(
            problem, phase=int(phase), mean=mean, total=total, bound=bound, objective=objective, gap=gap,
            steps=int(steps), **vectors,
        )  # fmt: skip


def dot(a: Floats, b: Floats) -> float:
    """Return the inner product, with bits that do not depend on the number of threads, unlike BLAS."""
    return float(np.multiply(a, b).sum())
