"""Kernels whose values are made in two steps: one that takes long, and one number by number."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from ikmap.kernels.base import Kernel


class SharedKernel(Kernel):
    """Base: :meth:`shared` depends on the parameters of ``KernelMethod.shares`` only, all others come in afterwards."""

    @abstractmethod
    def shared(self, left: Any, right: Any, out: np.ndarray) -> None:
        """What takes long, for all pairs of two sets of prepared rows, to `out`: float64, shape (n, m).

        Bit for bit the same for a pair whatever else is in the sets, and for (x, y) and (y, x).
        """

    @abstractmethod
    def finish(self, out: np.ndarray) -> None:
        """Turn it into kernel values, in place, each by itself."""

    def values(self, left: Any, right: Any, out: np.ndarray) -> None:
        self.shared(left, right, out)
        self.finish(out)
