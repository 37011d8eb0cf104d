"""Rows of the Mondrian paper's CPU set, its measure of error, and its two ways to solve ridge regression."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ikmap.arrays import Floats
from ikmap.cells import Cells
from ikmap.kernels import LaplacianKernel
from ikmap.learners.ridge.kernel_ridge import fit_kernel_ridge
from ikmap.learners.sweeps.columns import GROWTH, Columns
from ikmap.learners.sweeps.gradient import GradientSettings, GradientSweep
from ikmap.learners.sweeps.ridge import RidgeSweep
from ikmap.rows import Rows, as_dense
from ikmap.seeds import generator
from ikmap.splits import CellSplit
from pipeline.record_types import RecordView

SPLIT = 200
"""Stream of random numbers: which rows are for training, validation and test."""
DELTA_SQUARED = 1e-4
"""Ridge constant of all experiments."""
SGD = "sgd"
"""Option ``solver`` of a study, for stochastic gradient descent."""


@dataclass(frozen=True, eq=False)
class Splits:
    """Rows and targets for training, validation and test; `shift` has been subtracted from the targets to learn."""

    train: tuple[np.ndarray, np.ndarray]
    validation: tuple[np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray]
    shift: float

    @classmethod
    def of(cls, rows: Rows, target: np.ndarray, seed: int, part: int) -> Splits:
        """Four fifths, a tenth and a tenth of the rows, which is 6,554, 819 and 819 of the paper's 8,192."""
        X, n = as_dense(rows), len(target)
        order = generator(seed, SPLIT, part).permutation(n)
        held_out = n // 10
        at = np.split(order, [n - 2 * held_out, n - held_out])
        shift = float(target[at[0]].mean())
        sides = [(X[of], target[of]) for of in at]
        return cls((sides[0][0], sides[0][1] - shift), sides[1], sides[2], shift)

    def error(self, predicted: Floats, side: tuple[np.ndarray, np.ndarray]) -> float:
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


@dataclass(frozen=True, eq=False)
class Fitted:
    """A model of the cells at one lifetime.

    Attributes
    ----------
    value : float
        The lifetime.
    weights : ndarray, shape (number of columns,)
    columns : Columns
    log_likelihood : float or None
        Of the targets; None if weights are not the exact ones.
    """

    value: float
    weights: Floats
    columns: Columns
    log_likelihood: float | None = None

    def decisions(self, which: int, weights: np.ndarray | None = None) -> Floats:
        """Return the decisions of one set of rows, by these weights or by others of the same columns."""
        return self.columns.decisions(self.weights if weights is None else weights, which)


def descent(options: RecordView, n_rows: int, growth: float = GROWTH) -> GradientSettings:
    """Return how to descend towards what the exact solution minimises: the sum of squares and ``delta^2 |w|^2``."""
    alpha = 2 * DELTA_SQUARED / n_rows  # of half the squared norm, beside the mean over the rows
    return GradientSettings("squared", alpha, options["eta"], options.get("epochs", 1), growth)


def swept(
    options: RecordView,
    start: Sequence[Cells],
    y: np.ndarray,
    splits: Iterable[CellSplit],
    growth: float = GROWTH,
) -> Iterator[Fitted]:
    """Follow the cells of trees as they split, and yield the model at every checkpoint.

    Parameters
    ----------
    options : mapping
        ``solver``: "sgd" for stochastic gradient descent with ``eta`` and ``epochs``; otherwise weights are exact.
    start : sequence of Cells
        Of sets of rows, of which the first is learned from.
    y : ndarray
        Targets of the first set.
    splits : iterable of CellSplit
    growth : float
        Share by which the number of columns grows between checkpoints.
    """
    if options.get("solver") == SGD:
        descending = GradientSweep(start, y[:, None], descent(options, len(y), growth))
        for value in descending.follow(splits):
            yield Fitted(value, descending.weights[:, 0], descending.columns)
        return
    exact = RidgeSweep(start, y, DELTA_SQUARED, growth)
    for point in exact.follow(splits):
        yield Fitted(point.value, point.weights, exact.columns, point.log_likelihood)


def ridge_on_cells(options: RecordView, cells: list[Cells], y: np.ndarray) -> list[np.ndarray]:
    """Return predictions for all sets of rows but the first, from which ridge regression learns."""
    if options.get("solver") == SGD:
        descending = GradientSweep(cells, y[:, None], descent(options, len(y)))
        descending.learn(options["epochs"])
        return [descending.decisions(which)[:, 0] for which in range(1, len(cells))]
    sweep = RidgeSweep(cells, y, DELTA_SQUARED)
    point = sweep.solved()
    return [sweep.decisions(point, which) for which in range(1, len(cells))]


def ridge_on_features(options: RecordView, features: list[np.ndarray], y: np.ndarray) -> list[np.ndarray]:
    """Return the same of dense features."""
    Z = features[0]
    if options.get("solver") == SGD:
        w = _descended(Z, y, descent(options, len(y)))
    else:
        A = Z.T @ Z
        A[np.diag_indices(len(A))] += DELTA_SQUARED
        w = np.linalg.solve(A, Z.T @ y)
    return [X @ w for X in features[1:]]


def _descended(Z: Floats, y: np.ndarray, settings: GradientSettings) -> Floats:
    """Return the weights of dense features, by the steps that :class:`GradientSweep` takes on cells."""
    w, n_steps = np.zeros(Z.shape[1]), 0
    for epoch in range(settings.epochs):
        for i in generator(settings.seed, epoch).permutation(len(y)):
            step = settings.eta / (1 + settings.eta * settings.alpha * n_steps)
            n_steps += 1
            w -= step * (settings.alpha * w + 2 * (Z[i] @ w - y[i]) * Z[i])
    return w
