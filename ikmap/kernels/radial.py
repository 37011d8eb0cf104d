"""Kernels that fall exponentially with a distance: the Laplacian and the Gaussian one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from ikmap.arrays import Floats
from ikmap.kernels.points import L1, SQUARES, PointKernel, Points, pair_sums


@dataclass(frozen=True)
class _RadialKernel(PointKernel):
    """K(x, y) = exp(-gamma distance(x, y)).

    Parameters
    ----------
    gamma : float
        Inverse width, >= 0 and finite.
    """

    measure: ClassVar[int]

    gamma: float

    def __post_init__(self) -> None:
        if not 0 <= self.gamma < np.inf:
            raise ValueError(f"gamma must be a number >= 0, got {self.gamma!r}")

    def values(self, left: Points, right: Points, out: Floats) -> None:
        """Write the kernel values of all pairs to `out`."""
        pair_sums(left, right, self.measure, out)
        out *= -self.gamma
        np.exp(out, out=out)


@dataclass(frozen=True)
class LaplacianKernel(_RadialKernel):
    """K(x, y) = exp(-gamma |x - y|_1).

    Parameters
    ----------
    gamma : float
        Inverse width, >= 0 and finite.
    """

    name: ClassVar[str] = "laplacian"
    measure: ClassVar[int] = L1

    @classmethod
    def of_psi(cls, psi: int, n_columns: int) -> Self:
        """Return the kernel psi^(-|x - y|_1 / d), with gamma = ln(psi) / d (algorithms.md 8.4)."""
        return cls(math.log(psi) / n_columns)


@dataclass(frozen=True)
class GaussianKernel(_RadialKernel):
    """K(x, y) = exp(-gamma |x - y|^2).

    Parameters
    ----------
    gamma : float
        1 / (2 sigma^2), >= 0 and finite.
    """

    name: ClassVar[str] = "gaussian"
    measure: ClassVar[int] = SQUARES
