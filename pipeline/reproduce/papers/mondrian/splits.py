"""Rows of the Mondrian paper's CPU set: seeded splits, and its measure of error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ikmap.cells import Cells
from ikmap.kernels import LaplacianKernel
from ikmap.learners.ridge.kernel_ridge import fit_kernel_ridge
from ikmap.learners.sweeps.ridge import RidgeSweep
from ikmap.rows import as_dense
from ikmap.seeds import generator

SPLIT = 200
"""Stream of random numbers: which rows are for training, validation and test."""
DELTA_SQUARED = 1e-4
"""Ridge constant of all experiments."""


@dataclass(frozen=True, eq=False)
class Splits:
    """Rows and targets for training, validation and test; `shift` has been subtracted from the targets to learn."""

    train: tuple[np.ndarray, np.ndarray]
    validation: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]
    shift: float

    @classmethod
    def of(cls, rows: Any, target: np.ndarray, seed: int, part: int) -> Splits:
        """Four fifths, a tenth and a tenth of the rows, which is 6,554, 819 and 819 of the paper's 8,192."""
        X, n = as_dense(rows), len(target)
        order = generator(seed, SPLIT, part).permutation(n)
        held_out = n // 10
        at = np.split(order, [n - 2 * held_out, n - held_out])
        shift = float(target[at[0]].mean())
        sides = [(X[of], target[of]) for of in at]
        return cls((sides[0][0], sides[0][1] - shift), sides[1], sides[2], shift)

    def error(self, predicted: np.ndarray, side: tuple[np.ndarray, np.ndarray]) -> float:
        """``100 |yhat - y| / |y|`` of predictions without the shift."""
        return float(100 * np.linalg.norm(predicted + self.shift - side[1]) / np.linalg.norm(side[1]))

    @property
    def training_error_side(self) -> tuple[np.ndarray, np.ndarray]:
        """The training rows with targets as they are in the file."""
        return self.train[0], self.train[1] + self.shift


def exact_laplace(splits: Splits, lifetime: float) -> tuple[float, float]:
    """Validation and test error of kernel ridge regression."""
    model = fit_kernel_ridge(*splits.train, LaplacianKernel(lifetime), DELTA_SQUARED)
    first, second = (splits.error(model.predict(side[0]), side) for side in (splits.validation, splits.test))
    return first, second


def ridge_on_cells(cells: list[Cells], y: np.ndarray) -> list[np.ndarray]:
    """Predictions for all sets of rows but the first, from which ridge regression learns."""
    sweep = RidgeSweep(cells, y, DELTA_SQUARED)
    point = sweep.solved()
    return [sweep.decisions(point, which) for which in range(1, len(cells))]


def ridge_on_features(features: list[np.ndarray], y: np.ndarray) -> list[np.ndarray]:
    """The same of dense features."""
    Z = features[0]
    A = Z.T @ Z
    A[np.diag_indices(len(A))] += DELTA_SQUARED
    w = np.linalg.solve(A, Z.T @ y)
    return [of @ w for of in features[1:]]
