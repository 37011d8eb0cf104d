"""Ridge regression on cells.

Weights w, of features x whose entries are ``1 / sqrt(t)`` for the cells of a row, and an intercept b minimise::

    1/2 sum_i s_i (y_i - w . x_i - b)^2 + alpha / 2 |w|^2

where s_i is what row i weighs. `alpha` is that of scikit-learn's ``Ridge`` on the same features, and ``delta^2`` in
algorithms.md; the linear machines' ``C`` is ``1 / (2 alpha)``. The intercept is not penalised.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypedDict, cast

import numpy as np

from ikmap.arrays import Floats
from ikmap.cells import Cells
from ikmap.json_values import JsonObject
from ikmap.learners.linear_model import LinearModel
from ikmap.learners.ridge.conjugate_gradients import ConjugateGradients, Problem
from ikmap.learners.ridge.sums import Sums, Tile, pieces, sums_of
from ikmap.learners.rows import Block, Blocks, check_rows, check_weights, concatenated, n_columns


class RidgeCertificate(TypedDict):
    """Evidence that a ridge regression is solved, as JSON values."""

    duality_gap: float
    iterations: int
    converged: bool


@dataclass(frozen=True, eq=False)
class RidgeFit:
    """A solution with its certificate.

    Attributes
    ----------
    coef : ndarray of float64, shape (n_columns,)
    intercept : float
    objective, gap : float
        The objective, and a bound on what it lies above the optimum.
    n_iter : int
    converged : bool
        True if ``gap <= tol * objective``.
    """

    coef: Floats
    intercept: float
    objective: float
    gap: float
    n_iter: int
    converged: bool

    @classmethod
    def of(cls, state: ConjugateGradients) -> RidgeFit:
        """Return the solution of conjugate gradients."""
        return cls(state.w, state.intercept, state.objective, state.gap, state.steps, state.converged)

    def certificate(self) -> RidgeCertificate:
        """Return the certificate for ``metrics.json``."""
        gap = self.gap / self.objective if self.objective > 0 else 0.0
        return {"duality_gap": gap, "iterations": self.n_iter, "converged": self.converged}

    def model(self, divisor: float, params: JsonObject, learner: str = "ridge") -> LinearModel:
        """Return the model, for cells with features of ``1 / divisor``."""
        return LinearModel(self.coef[:, None], np.array([self.intercept]), divisor, learner, [], params)


def fit_ridge(blocks: Blocks, problem: Problem, n_threads: int = 1) -> RidgeFit:
    """Solve in memory.

    Parameters
    ----------
    blocks : sequence of Block
        Rows of cells, with targets as float64.
    problem : Problem
    n_threads : int
        Changes no bit.

    Raises
    ------
    ValueError
        A row that is no row of cells, or a target that is no finite number.
    """
    return next(fit_ridge_path(blocks, problem, [problem.alpha], n_threads))


def fit_ridge_path(blocks: Blocks, problem: Problem, alphas: Sequence[float], n_threads: int = 1) -> Iterator[RidgeFit]:
    """Solve for every alpha, largest first, each from the solution before it; the next one only when it is asked for.

    Parameters
    ----------
    blocks, problem, n_threads
        The same as in :func:`fit_ridge`; ``problem.alpha`` does not matter.
    alphas : sequence of float
        In any order.
    """
    held = _Held(concatenated(blocks), n_threads)
    state: ConjugateGradients | None = None
    for alpha in sorted(alphas, reverse=True):
        one = replace(problem, alpha=alpha)
        state = ConjugateGradients(one, np.zeros(held.n_columns)) if state is None else state.follow(one)
        held.solve(state)
        if not state.converged:
            warn_unless_solved(state)
        yield RidgeFit.of(state)


def warn_unless_solved(state: ConjugateGradients) -> None:
    """Warn of a solution that misses the wanted gap."""
    from sklearn.exceptions import ConvergenceWarning

    warnings.warn(
        f"duality gap {state.relative_gap:.2g} is above tol={state.problem.tol:g} after {state.steps} steps",
        ConvergenceWarning,
        stacklevel=3,
    )


class _Held:
    """All rows in memory, in tiles, piece by piece."""

    def __init__(self, block: Block, n_threads: int) -> None:
        rows = cast("Cells", block.rows)
        check_rows(rows)
        if not np.isfinite(block.y).all():
            raise ValueError(f"row {int(np.flatnonzero(~np.isfinite(block.y))[0])}: target is not finite")
        if block.sample_weight is not None:
            check_weights(block.sample_weight, block.y.size)
        self.n_columns, self.n_threads = n_columns(rows), n_threads
        self._pieces = [
            list(Tile.of(Block(rows[start:stop], block.y[start:stop], _part(block.sample_weight, start, stop))))
            for start, stop in pieces(block.y.size, rows.offsets)
        ]

    def solve(self, state: ConjugateGradients) -> None:
        """Do rounds until it is done."""
        with ThreadPoolExecutor(max(1, min(self.n_threads, len(self._pieces)))) as pool:
            while (order := state.order) is not None:
                total: Sums | None = None
                for found in pool.map(lambda tiles, order=order: sums_of(order, tiles), self._pieces):
                    if total is None:
                        total = found
                    else:
                        total += found
                assert total is not None
                state.absorb(total)


def _part(weight: Floats | None, start: int, stop: int) -> Floats | None:
    return None if weight is None else weight[start:stop]
