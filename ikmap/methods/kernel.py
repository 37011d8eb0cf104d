"""Kernels on rows: configured objects that make the kernel's arithmetic."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from ikmap.methods.about import KernelAbout
from ikmap.methods.method import Method

if TYPE_CHECKING:
    from ikmap.kernels import Kernel
    from ikmap.learners.rows import Rows
    from ikmap.maps import FourierMap


class KernelMethod(Method):
    """Base of all kernels on rows.

    Everything that has to do with one kernel stands in its class, in a file of this folder, beside the arithmetic in
    :mod:`ikmap.kernels`. A learner with a kernel has the field ``kernel``, which names one of them; the fields of that
    one are then options of the run.

    Attributes
    ----------
    about : KernelAbout
    shares : tuple of str, or None
        Fields that decide the part of its values that takes long; it may depend on none of them. Its kernel is then a
        :class:`ikmap.kernels.SharedKernel`, and cross-validation of a learner that needs all pairs of rows computes
        that part once for all values of the others. None: its values have no such part.
    """

    about: ClassVar[KernelAbout]
    shares: ClassVar[tuple[str, ...] | None] = None

    @abstractmethod
    def kernel(self, n_columns: int) -> Kernel:
        """Return the kernel, for rows of so many columns; for cells, of so many partitionings."""

    def tunable(self, searched: frozenset[str]) -> tuple[str, ...]:
        """Return the fields that are searched, then those that are given."""
        names = super().tunable(searched)
        return tuple(sorted(names, key=lambda name: name not in searched))

    def refused(self, rows: Rows) -> tuple[int, int, float, str] | None:
        """Return row, column (from 0), value and what is expected instead, of the first value that it cannot take."""
        return None


class HasFourier(ABC):
    """A kernel with random features whose products are about its values."""

    @abstractmethod
    def fourier(self, features: int, n_columns: int, seed: int) -> FourierMap:
        """Return a map to so many random features."""


class HasOrthogonalFourier(HasFourier):
    """A kernel whose frequencies can be drawn at right angles to each other."""

    @abstractmethod
    def orthogonal_fourier(self, features: int, n_columns: int, seed: int) -> FourierMap:
        """Return a map to so many random features, of frequencies that are orthogonal within blocks of the columns."""
