"""Kernels of products of rows: the linear one, and the radial one of their directions (algorithms.md 10.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ikmap.arrays import Floats
from ikmap.kernels.min_max import largest_values
from ikmap.kernels.points import PRODUCTS, SQUARES, PointKernel, Points, RowKernel, pair_sums
from ikmap.kernels.shared import SharedKernel
from ikmap.rows import Rows


class _Directions(Points):
    """Rows scaled to unit length; rows of zeros stay unchanged."""

    def __init__(self, rows: Rows) -> None:
        super().__init__(rows)
        # Scaled first: squares of very large or small values would leave the range of float64.
        for norms in (largest_values(rows), None):
            norms = np.sqrt(_squares(self.rows)) if norms is None else norms
            self.zero = norms == 0
            each = np.where(self.zero, 1.0, norms)
            if self.dense:
                self.rows = self.rows / each[:, None]
            else:
                self.rows = self.rows.copy()
                self.csr.data /= np.repeat(each, np.diff(self.csr.indptr))


def _squares(rows: Rows) -> Floats:
    """Return the squared length of every row, added up in the order of its columns."""
    if isinstance(rows, np.ndarray):
        return np.add.accumulate(rows * rows, axis=1)[:, -1] if rows.shape[1] else np.zeros(rows.shape[0])
    owner = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    return np.bincount(owner, weights=rows.data**2, minlength=rows.shape[0])


@dataclass(frozen=True)
class LinearKernel(PointKernel):
    """K(x, y) = x y."""

    name: ClassVar[str] = "linear"
    normalized: ClassVar[bool] = False

    def values(self, left: Points, right: Points, out: Floats) -> None:
        """Write the kernel values of all pairs to `out`."""
        pair_sums(left, right, PRODUCTS, out)


@dataclass(frozen=True)
class CosineKernel(LinearKernel):
    """K(x, y) = cos(x, y): the linear kernel of rows of unit length, where rows of zeros stay zero."""

    name: ClassVar[str] = "cosine"
    normalized: ClassVar[bool] = True

    def points(self, rows: Rows) -> _Directions:
        """Return prepared rows."""
        return _Directions(rows)


@dataclass(frozen=True)
class CosineRBFKernel(SharedKernel[Rows, _Directions], RowKernel[_Directions]):
    """K(x, y) = exp(-le (1 - cos(x, y))): the Gaussian of gamma = le / 2 on rows of unit length.

    The cosine of a row of zeros is 1 with another one, and 0 with all else.

    Parameters
    ----------
    le : float
        Inverse width, > 0 and finite.

    Notes
    -----
    Source: Li, "Several tunable GMM kernels", equation 5, who calls it RBF.
    """

    name: ClassVar[str] = "cosine-rbf"

    le: float

    def __post_init__(self) -> None:
        if not 0 < self.le < np.inf:
            raise ValueError(f"le must be a finite number > 0, got {self.le!r}")

    def points(self, rows: Rows) -> _Directions:
        """Return prepared rows."""
        return _Directions(rows)

    def shared(self, left: _Directions, right: _Directions, out: Floats) -> None:
        """Write 1 - cos of all pairs to `out`."""
        pair_sums(left, right, SQUARES, out)
        out *= 0.5
        # The distance of a direction from zero is 1, half of what stands for a cosine of 0.
        out[np.not_equal.outer(left.zero, right.zero)] = 1.0

    def finish(self, out: Floats) -> None:
        """Turn 1 - cos into kernel values, in place."""
        out *= -self.le
        np.exp(out, out=out)
