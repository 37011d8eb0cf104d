"""Kernels whose values are made in two steps: one that takes long, and one number by number."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sized

from ikmap.arrays import Floats
from ikmap.cells import Cells
from ikmap.kernels.base import Kernel
from ikmap.rows import Rows


class SharedKernel[R: Cells | Rows, P: Sized](Kernel[R, P]):
    """Base: :meth:`shared` depends on the parameters of ``KernelMethod.shares`` only, all others come in afterwards."""

    @abstractmethod
    def shared(self, left: P, right: P, out: Floats) -> None:
        """What takes long, for all pairs of two sets of prepared rows, to `out`: float64, shape (n, m).

        Bit for bit the same for a pair whatever else is in the sets, and for (x, y) and (y, x).
        """

    @abstractmethod
    def finish(self, out: Floats) -> None:
        """Turn it into kernel values, in place, each by itself."""

    def values(self, left: P, right: P, out: Floats) -> None:
        self.shared(left, right, out)
        self.finish(out)
