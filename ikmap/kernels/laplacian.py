"""The Laplacian kernel exp(-gamma |x - y|_1), and the width that Isolation Kernel experiments give it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ikmap.kernels.base import Kernel
from ikmap.kernels.points import L1, Points, pair_sums
from ikmap.rows import Rows


@dataclass(frozen=True)
class LaplacianKernel(Kernel):
    """K(x, y) = exp(-gamma |x - y|_1).

    Parameters
    ----------
    gamma : float
        Inverse width, >= 0.
    """

    name: ClassVar[str] = "laplacian"

    gamma: float

    @classmethod
    def of_psi(cls, psi: int, n_columns: int) -> LaplacianKernel:
        """The kernel psi^(-|x - y|_1 / d): gamma = ln(psi) / d (algorithms.md 8.4)."""
        return cls(math.log(psi) / n_columns)

    def points(self, rows: Rows) -> Points:
        """Prepared rows."""
        return Points(rows)

    def values(self, left: Points, right: Points, out: np.ndarray) -> None:
        """Kernel values of all pairs."""
        pair_sums(left, right, L1, out)
        out *= -self.gamma
        np.exp(out, out=out)
