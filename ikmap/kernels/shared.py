"""Kernels whose values are made in two steps, a slow one and an elementwise one."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sized

from ikmap.arrays import Floats
from ikmap.cells import Cells
from ikmap.kernels.base import Kernel
from ikmap.rows import Rows


class SharedKernel[R: Cells | Rows, P: Sized](Kernel[R, P]):
    """Base of kernels whose :meth:`shared` part depends on the parameters of ``KernelMethod.shares`` only."""

    @abstractmethod
    def shared(self, left: P, right: P, out: Floats) -> None:
        """Write the slow part for all pairs of two sets of prepared rows to `out`, float64 of shape (n, m).

        Bit for bit the same for a pair whatever else is in the sets, and for (x, y) and (y, x).
        """

    @abstractmethod
    def finish(self, out: Floats) -> None:
        """Turn it into kernel values, in place, each by itself."""

    def values(self, left: P, right: P, out: Floats) -> None:
        self.shared(left, right, out)
        self.finish(out)
