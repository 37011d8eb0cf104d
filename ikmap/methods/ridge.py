"""Ridge regression on cells, by conjugate gradients with a certified duality gap."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ikmap.methods.kinds import Choice, Real
from ikmap.methods.learners import BatchOptions
from ikmap.methods.options import MethodOptions, option
from ikmap.methods.rounds import RoundsLearner
from ikmap.methods.sample import Training
from ikmap.methods.sweeping import ridge_sweep

if TYPE_CHECKING:
    import numpy as np

    from ikmap.learners.rows import Block
    from ikmap.splits import CellSplit, Swept

PATH_TOL = 1e-2
"""Duality gap that suffices to compare values of C."""


class RidgeOptions(MethodOptions):
    """Of ridge regression on cells."""

    C: float | str | None = option(
        None,
        Real(0, words=("auto",)),
        help="weight of the squared errors, for features scaled so that K(x, x) = 1: 1 / (2 alpha), where Ridge of "
        "scikit-learn has alpha; auto chooses it by cross-validation, with psi (default: auto with psi, else 0.5)",
        setting=BatchOptions.specs()["C"].setting,
    )
    tol: float = option(1e-3, Real(0), help=BatchOptions.specs()["tol"].help)
    solver: str = option(
        "auto",
        Choice(("auto", "memory", "block", "distributed")),
        help="how ridge is solved, with the same result: all rows in the memory of one worker, block by block from a "
        "file, or in pieces by many workers; auto goes by size",
    )


class _Ridge(RoundsLearner):
    Options: ClassVar[type[MethodOptions]] = RidgeOptions
    told: ClassVar[Mapping[str, Any]] = {
        "duality_gap": {"description": "Certified, relative; of several problems the largest.", "type": "number"},
        "iterations": {"type": "integer", "minimum": 0},
        "converged": {"type": "boolean"},
        "alpha": {
            "description": "Weight of the squared norm of the weights, as of scikit-learn's Ridge: 1 / (2 C).",
            "type": "number",
            "exclusiveMinimum": 0,
        },
    }

    def _problem(self, options: Any, offsets: np.ndarray) -> Any:
        from ikmap.learners.ridge.conjugate_gradients import Problem

        return Problem(1 / (2 * float(options.C)), options.tol, 1 / math.sqrt(offsets.size - 1))

    def begin(self, options: Any, offsets: np.ndarray) -> Any:
        import numpy as np

        from ikmap.learners.ridge.conjugate_gradients import ConjugateGradients

        return ConjugateGradients(self._problem(options, offsets), np.zeros(int(offsets[-1])))

    def restore(self, options: Any, offsets: np.ndarray, arrays: Mapping[str, np.ndarray]) -> Any:
        from ikmap.learners.ridge.conjugate_gradients import ConjugateGradients

        return ConjugateGradients.restore(self._problem(options, offsets), arrays)

    def pieces(self, n_rows: int, offsets: np.ndarray) -> list[tuple[int, int]]:
        from ikmap.learners.ridge.sums import pieces

        return pieces(n_rows, offsets)

    def held(self, block: Block) -> Sequence[Any]:
        from ikmap.learners.ridge.sums import Tile

        return list(Tile.of(block))

    def sums(self, order: Any, parts: Iterable[Any]) -> Any:
        from ikmap.learners.ridge.sums import sums_of

        return sums_of(order, parts)

    def finish(self, options: Any, state: Any, offsets: np.ndarray) -> tuple[Any, dict[str, Any]]:
        from ikmap.learners.ridge.ridge import RidgeFit

        return self._made(RidgeFit.of(state), 1 / (2 * float(options.C)), offsets)

    def _made(self, fit: Any, alpha: float, offsets: np.ndarray) -> tuple[Any, dict[str, Any]]:
        model = fit.model(math.sqrt(offsets.size - 1), {"alpha": alpha}, self.name)
        return model, {**fit.certificate(), "alpha": alpha}

    def fit(self, options: Any, training: Training) -> tuple[Any, dict[str, Any]]:
        from ikmap.learners.ridge.ridge import fit_ridge

        offsets = training.rows.offsets
        problem = self._problem(options, offsets)
        return self._made(fit_ridge([training.block], problem, training.n_threads), problem.alpha, offsets)

    def sweeps(self, options: Any) -> bool:
        return True

    def sweep(self, options: Any, training: Training, held_out: Block, splits: Iterator[CellSplit]) -> Iterator[Swept]:
        yield from ridge_sweep(float(options.C), training, held_out, splits)

    def path(self, options: Any, training: Training, Cs: Sequence[float]) -> Iterator[Any]:
        from ikmap.learners.ridge.ridge import fit_ridge_path

        offsets = training.rows.offsets
        problem = self._problem(options.replace(C=Cs[0], tol=max(options.tol, PATH_TOL)), offsets)
        alphas = [1 / (2 * C) for C in sorted(Cs)]
        for alpha, fit in zip(
            alphas, fit_ridge_path([training.block], problem, alphas, training.n_threads), strict=True
        ):
            yield self._made(fit, alpha, offsets)[0]


RIDGE = _Ridge(name="ridge", title="ridge regression on cells", on="cells", tasks=frozenset({"regression"}))
