"""The Nystroem map: features from the kernel with b points, in the r largest eigendirections (algorithms.md 6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from ikmap._threads import single_threaded_blas
from ikmap.arrays import Floats
from ikmap.json_values import JsonObject
from ikmap.kernels import kernel_as_dict, kernel_from
from ikmap.kernels.base import AnyKernel
from ikmap.learners.rows import Rows
from ikmap.maps.projection import project
from ikmap.model import Model
from ikmap.seeds import generator

SMALLEST = 1e-12
"""Eigenvalues at most so large, as a share of the largest, are dropped."""


@dataclass(frozen=True, eq=False)
class NystroemMap(Model):
    """Map of a row x to ``M k_b(x)``, with k_b the kernel with b points and M = Lambda_r^(-1/2) V_r^T.

    Parameters
    ----------
    points : ndarray of float64 or csr_array, shape (b, d), or Cells, b rows
    matrix : ndarray of float64, shape (r, b)
        M.
    kernel : dict
        Name and parameters of the kernel.

    Notes
    -----
    Source: Williams and Seeger, "Using the Nystroem method to speed up kernel machines"; as NOGD uses it, Lu et al.,
    "Large scale online kernel learning".
    """

    kind: ClassVar[str] = "nystroem"
    version: ClassVar[int] = 1

    points: Rows
    matrix: Floats
    kernel: JsonObject

    @classmethod
    def fit(cls, points: Rows, kernel: AnyKernel, rank: int, n_threads: int | None = None) -> Self:
        """Map from these b points (dense, CSR, or Cells), in at most `rank` directions.

        Raises
        ------
        ValueError
            If there are no points, the rank is not positive, or the kernel is 0 everywhere.
        """
        points = kernel.checked(points)
        K = kernel.matrix(points, n_threads=n_threads)
        if K.size == 0 or rank < 1:
            raise ValueError(f"a Nystroem map needs points and a rank >= 1, got {K.shape[0]} points, rank {rank}")
        with single_threaded_blas:  # whose last bits depend on the number of threads
            values, vectors = np.linalg.eigh(K)
        values, vectors = values[::-1][:rank], vectors[:, ::-1][:, :rank]
        kept = values > max(0.0, SMALLEST * values[0])
        if not kept.any():
            raise ValueError("the kernel of the points has no positive eigenvalue")
        matrix = vectors[:, kept].T / np.sqrt(values[kept])[:, None]
        return cls(points, np.ascontiguousarray(matrix), kernel_as_dict(kernel))

    @property
    def n_features(self) -> int:
        """Number r of features."""
        return int(self.matrix.shape[0])

    def transform(self, X: Rows, n_threads: int | None = None) -> Floats:
        """Return the features of rows, float64 of shape (n, r).

        Raises
        ------
        ValueError
            If the kernel is not defined for the rows, or they have another number of columns than the points.
        """
        return project(kernel_from(self.kernel).matrix(X, self.points, n_threads), self.matrix.T, n_threads)


def draw_points(n: int, b: int, seed: int) -> np.ndarray:
    """Draw ascending numbers of b of n rows (of all, if there are fewer), uniformly without replacement."""
    return np.sort(generator(seed).choice(n, min(b, n), replace=False, shuffle=False))
