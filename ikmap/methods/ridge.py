"""Ridge regression on cells, by conjugate gradients with a certified duality gap."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from annotated_types import Gt

from ikmap.methods.about import LearnerAbout
from ikmap.methods.capabilities import FollowsC, FollowsSplits
from ikmap.methods.fields import Doc, Searched
from ikmap.methods.learner import C_SYMBOL, RoundsLearner, RoundState, Tolerance
from ikmap.methods.sample import Sample, Training
from ikmap.methods.sweeping import ridge_sweep

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ikmap.learners.linear_model import LinearModel
    from ikmap.learners.ridge.conjugate_gradients import ConjugateGradients, Problem
    from ikmap.learners.ridge.ridge import RidgeFit
    from ikmap.learners.ridge.sums import Order, Sums
    from ikmap.learners.rows import Block, PieceRows
    from ikmap.methods.learner import Arrays, Summary
    from ikmap.splits import CellSplit, Swept

PATH_TOL = 1e-2
"""Relative duality gap that suffices to compare values of C."""


class Ridge(RoundsLearner, FollowsC, FollowsSplits):
    """Ridge regression on cells, by conjugate gradients."""

    about: ClassVar[LearnerAbout] = LearnerAbout(
        name="ridge",
        title="ridge regression on cells",
        tasks=frozenset({"regression"}),
        metrics_schema={
            "duality_gap": {"description": "Certified, relative; of several problems the largest.", "type": "number"},
            "iterations": {"type": "integer", "minimum": 0},
            "converged": {"type": "boolean"},
            "alpha": {
                "description": "Weight of the squared norm of the weights, as of scikit-learn's Ridge: 1 / (2 C).",
                "type": "number",
                "exclusiveMinimum": 0,
            },
        },
    )
    C: Annotated[
        float,
        Gt(0),
        Doc(
            "weight of the squared errors, for features scaled so that K(x, x) = 1: 1 / (2 alpha), where Ridge of "
            "scikit-learn has alpha; auto chooses it by cross-validation, with psi (default: auto with psi, else 0.5)"
        ),
        Searched(with_map=True),
        C_SYMBOL,
    ] = 0.5
    tol: Tolerance = 1e-3
    solver: Annotated[
        Literal["auto", "memory", "block", "distributed"],
        Doc(
            "how ridge is solved, with the same result: all rows in the memory of one worker, block by block from a "
            "file, or in pieces by many workers; auto goes by size"
        ),
    ] = "auto"
    sweep_by: Annotated[
        Literal["auto", "exact", "sgd"],
        Doc(
            "how ridge is solved along a sweep over lifetimes: exactly, which takes the square of the rows in memory, "
            "or by stochastic gradient descent; auto: exactly for up to 3000 rows without weights"
        ),
    ] = "auto"

    @property
    def alpha(self) -> float:
        """Weight of the squared norm of the weights."""
        return 1 / (2 * self.C)

    def _problem(self, offsets: NDArray[np.int64], tol: float) -> Problem:
        from ikmap.learners.ridge.conjugate_gradients import Problem

        return Problem(self.alpha, tol, 1 / math.sqrt(offsets.size - 1))

    def begin(self, sample: Sample, arrays: Arrays | None = None) -> ConjugateGradients:
        import numpy as np

        from ikmap.learners.ridge.conjugate_gradients import ConjugateGradients

        assert sample.offsets is not None
        problem = self._problem(sample.offsets, self.tol)
        if arrays is not None:
            return ConjugateGradients.restore(problem, arrays)
        return ConjugateGradients(problem, np.zeros(int(sample.offsets[-1])))

    def pieces(self, sample: Sample, n_pieces: int) -> list[tuple[int, int]]:
        from ikmap.learners.ridge.sums import pieces

        assert sample.offsets is not None
        return pieces(sample.n_rows, sample.offsets)

    def hold(self, rows: PieceRows, sample: Sample) -> Callable[[Order], Sums]:
        from ikmap.learners.ridge.sums import Tile, sums_of

        if rows.in_memory:
            tiles = [tile for block in rows.blocks for tile in Tile.of(block)]
            return lambda order: sums_of(order, tiles)
        return lambda order: sums_of(order, (tile for block in rows.blocks for tile in Tile.of(block)))

    def row_bytes(self, columns: int, outputs: int) -> int:
        return columns + 16

    def takes_weights(self, task: str) -> bool:
        return True

    def finish(self, state: RoundState, sample: Sample) -> tuple[LinearModel, Summary]:
        from ikmap.learners.ridge.conjugate_gradients import ConjugateGradients
        from ikmap.learners.ridge.ridge import RidgeFit

        assert isinstance(state, ConjugateGradients)
        assert sample.offsets is not None
        return self._model_of(RidgeFit.of(state), self.alpha, sample.offsets)

    def _model_of(self, fit: RidgeFit, alpha: float, offsets: NDArray[np.int64]) -> tuple[LinearModel, Summary]:
        model = fit.model(math.sqrt(offsets.size - 1), {"alpha": alpha}, self.about.name)
        certificate = fit.certificate()
        return model, {
            "duality_gap": certificate["duality_gap"],
            "iterations": certificate["iterations"],
            "converged": certificate["converged"],
            "alpha": alpha,
        }

    def fit(self, training: Training) -> tuple[LinearModel, Summary]:
        from ikmap.learners.ridge.ridge import fit_ridge

        offsets = training.cells.offsets
        problem = self._problem(offsets, self.tol)
        return self._model_of(fit_ridge([training.block], problem, training.n_threads), self.alpha, offsets)

    def sweep(self, training: Training, held_out: Block, splits: Iterator[CellSplit]) -> Iterator[Swept]:
        yield from ridge_sweep(self.C, training, held_out, splits, self.sweep_by)

    def path(self, training: Training, Cs: Sequence[float]) -> Iterator[LinearModel]:
        from ikmap.learners.ridge.ridge import fit_ridge_path

        offsets = training.cells.offsets
        problem = self._problem(offsets, max(self.tol, PATH_TOL))
        alphas = [1 / (2 * C) for C in sorted(Cs)]
        for alpha, fit in zip(
            alphas, fit_ridge_path([training.block], problem, alphas, training.n_threads), strict=True
        ):
            yield self._model_of(fit, alpha, offsets)[0]
