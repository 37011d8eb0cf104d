"""The Gaussian kernel exp(-gamma |x - y|^2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ikmap.kernels.base import Kernel
from ikmap.kernels.points import SQUARES, Points, pair_sums
from ikmap.rows import Rows


@dataclass(frozen=True)
class GaussianKernel(Kernel):
    """K(x, y) = exp(-gamma |x - y|^2).

    Parameters
    ----------
    gamma : float
        1 / (2 sigma^2), >= 0.
    """

    name: ClassVar[str] = "gaussian"

    gamma: float

    def points(self, rows: Rows) -> Points:
        """Prepared rows."""
        return Points(rows)

    def values(self, left: Points, right: Points, out: np.ndarray) -> None:
        """Kernel values of all pairs."""
        pair_sums(left, right, SQUARES, out)
        out *= -self.gamma
        np.exp(out, out=out)
