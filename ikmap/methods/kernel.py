"""What a kernel on rows says of itself: name, options, what there is to choose of it, and the kernel that follows.

Everything that has to do with one kernel stands in its object, in a file of this folder, beside the arithmetic in
:mod:`ikmap.kernels`. A learner with a kernel has the option ``kernel``, which names one of them; the options of that
one are then options of the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from ikmap.methods.kinds import Choice
from ikmap.methods.options import MethodOptions

if TYPE_CHECKING:
    from ikmap.kernels import Kernel
    from ikmap.methods.search import Search

type Chosen = Mapping[str, float]
"""Of each parameter that a kernel has the number that was chosen or given."""


@dataclass(frozen=True, kw_only=True)
class KernelMethod:
    """Base of all kernels on rows.

    In all methods, ``options`` is one of its :attr:`Options`, and ``chosen`` has a number for each of
    :meth:`parameters`.

    Attributes
    ----------
    name : str
        For ``--kernel``, and in a store.
    title : str
        For people.
    source : str
        Paper and section; empty for what every textbook has.
    on : {"cells", "rows"}
        Of the cells of a partitioner, or of the rows themselves: ``--kernel`` takes these.
    Options : type
        What it can be told.
    models : tuple of str
        Modules of the kernels that it makes: a process that reads a model with one has to import them.
    loops : tuple of str
        Modules of compiled loops of its own, outside `ikmap`.
    shares : tuple of str, or None
        Parameters that decide the part of its values that takes long; it may depend on none of them. Its kernel is then
        a :class:`ikmap.kernels.SharedKernel`, and cross-validation of a learner that needs all pairs of rows computes
        that part once for all values of the others. None: its values have no such part.
    """

    name: str
    title: str
    source: str = ""
    shares: tuple[str, ...] | None = None
    on: Literal["cells", "rows"] = "rows"

    Options: ClassVar[type[MethodOptions]] = MethodOptions
    models: ClassVar[tuple[str, ...]] = ("ikmap.kernels",)
    loops: ClassVar[tuple[str, ...]] = ()

    def parameters(self, options: Any) -> tuple[str, ...]:
        """Names of the numbers that are chosen or given for it."""
        return tuple(search.parameter for search in self.searches(options, 1000)) + tuple(self.given(options))

    def searches(self, options: Any, n_rows: int) -> tuple[Search, ...]:
        """What cross-validation on so many rows is to choose: every combination of the values of several options."""
        return ()

    def given(self, options: Any) -> Chosen:
        """The parameters that the options give a number to."""
        return {}

    def unsearched(self, options: Any, n_columns: int) -> Chosen:
        """Its numbers where nothing can choose them: as given, else the middle ones of its searches."""
        middle = {one.parameter: one.values[len(one.values) // 2] for one in self.searches(options, 1000)}
        return {**middle, **self.given(options)}

    def kernel(self, options: Any, chosen: Chosen, n_columns: int) -> Kernel:
        """The kernel, for rows of so many columns; for cells, of so many partitionings."""
        raise NotImplementedError

    def refused(self, rows: Any) -> tuple[int, int, float, str] | None:
        """Row, column (from 0), value and what is expected in its place, of the first value that it cannot take."""
        return None

    def fourier(self, kernel: Kernel, features: int, n_columns: int, seed: int) -> Any:
        """A map to random features whose products are about its values, where there is one."""
        raise NotImplementedError

    @property
    def has_fourier(self) -> bool:
        """Whether there is such a map."""
        return type(self).fourier is not KernelMethod.fourier


KERNELS: dict[str, KernelMethod] = {}
"""All of them by name; :mod:`ikmap.methods.registry` fills it."""


class KernelName(Choice):
    """One of the kernels that are known when it is asked: those of other packages too."""

    def __init__(self) -> None:
        super().__init__(())

    @property
    def known(self) -> tuple[str, ...]:
        return tuple(one.name for one in KERNELS.values() if one.on == "rows")
