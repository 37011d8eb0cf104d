"""Kernels on rows: configured objects that make the arithmetic of a kernel."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

from ikmap.methods.about import KernelAbout
from ikmap.methods.method import InvalidValue, Method

if TYPE_CHECKING:
    from ikmap.kernels import Kernel
    from ikmap.learners.rows import Rows
    from ikmap.maps import FourierMap


class KernelMethod(Method):
    """Base of all kernels on rows.

    Everything that has to do with one kernel stands in its class, in a file of this folder, and its arithmetic in
    :mod:`ikmap.kernels`. A learner with a kernel has the field ``kernel``, which names one; the fields of the named
    kernel are then options of the run.

    Attributes
    ----------
    about : KernelAbout
    shares : tuple of str, or None
        Fields on which the slow part of the kernel values depends; it can be none of them. The kernel is then a
        :class:`ikmap.kernels.SharedKernel`, and cross-validation of a learner that needs all pairs of rows computes
        the slow part once for all values of the other fields. None: no part is shared.
    """

    about: ClassVar[KernelAbout]
    shares: ClassVar[tuple[str, ...] | None] = None

    @abstractmethod
    def kernel(self, n_columns: int) -> Kernel:
        """Return the kernel for rows with so many columns, or for cells of so many partitionings."""

    def tunable(self, searched: frozenset[str]) -> tuple[str, ...]:
        """Return the fields that are searched, then those that are given."""
        names = super().tunable(searched)
        return tuple(sorted(names, key=lambda name: name not in searched))

    def first_invalid(self, rows: Rows) -> InvalidValue | None:
        """Return the first value of the rows that the kernel cannot take, or None."""
        return None


NON_NEGATIVE = "a value >= 0"
"""Expectation of methods that take no negative values."""


class NonNegativeRows:
    """A kernel, or a learner with it, that takes no negative values."""

    def first_invalid(self, rows: Rows) -> InvalidValue | None:
        """Return the first negative value of the rows, or None."""
        from ikmap.kernels.chi2 import first_negative

        negative = first_negative(rows)
        return None if negative is None else InvalidValue(*negative, NON_NEGATIVE)


class HasFourier(ABC):
    """A kernel with random Fourier features, whose products approximate its values."""

    @abstractmethod
    def fourier(self, features: int, n_columns: int, seed: int) -> FourierMap:
        """Return a map to random features, with so many frequencies."""


class HasOrthogonalFourier(HasFourier):
    """A kernel whose random frequencies can be drawn orthogonal to each other."""

    @abstractmethod
    def orthogonal_fourier(self, features: int, n_columns: int, seed: int) -> FourierMap:
        """Return a map to random features, with so many frequencies that are orthogonal in blocks of the columns."""
