"""The base of learners with a kernel on the rows: the field that names the kernel, and shared kernel values."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, ClassVar, Self

from ikmap.methods.about import KernelAbout
from ikmap.methods.capabilities import SharesWork
from ikmap.methods.fields import Doc, within
from ikmap.methods.kernel import KernelMethod
from ikmap.methods.kinds import Choice
from ikmap.methods.laplacian import Laplacian
from ikmap.methods.learner import Learner
from ikmap.methods.method import SearchSpace
from ikmap.methods.sample import Sample

if TYPE_CHECKING:
    from ikmap.kernels import Kernel
    from ikmap.kernels.tabled import KernelTable
    from ikmap.learners.rows import Rows

TABLE_BYTES = 512 << 20
"""Largest table of the shared part of kernel values in cross-validation; a larger one is not stored."""


class KernelName(Choice):
    """A choice among the kernels that are registered by now, those of other packages included."""

    def __init__(self) -> None:
        super().__init__(())

    @property
    def known(self) -> tuple[str, ...]:
        from ikmap.methods.registry import KERNELS

        return tuple(name for name, kind in KERNELS.items() if kind.about.on == "rows")


type KernelField = Annotated[
    KernelMethod,
    KernelName(),
    Doc("kernel on the rows themselves, of learners that have one, such as kernel-svm, kernel-ridge and kernel-ogd"),
]
"""The field of a learner that names a kernel; the record of the learner has the name of the kernel."""


class Tabled(KernelMethod):
    """A kernel that looks up the values of numbered rows in a table. Cross-validation makes it; no option names it."""

    about: ClassVar[KernelAbout] = KernelAbout(name="tabled", title="kernel values that are looked up")
    base: KernelMethod
    table: KernelTable

    def __post_init__(self) -> None:
        """Check nothing: no user types these values."""

    def kernel(self, n_columns: int) -> Kernel:
        from ikmap.kernels import SharedKernel

        kernel = self.base.kernel(n_columns)
        assert isinstance(kernel, SharedKernel)
        return self.table.kernel(kernel)

    def tunable(self, searched: frozenset[str]) -> tuple[str, ...]:
        return self.base.tunable(searched)

    def at(self, values: Mapping[str, object]) -> Self:
        return replace(self, base=self.base.at(values))


class OnKernel(Learner, SharesWork):
    """Base of learners with a kernel on the rows. Cross-validation chooses the fields of the kernel.

    Attributes
    ----------
    kernel : KernelMethod
    all_pairs : bool
        True if the learner needs the kernel of nearly all pairs of training rows.
    """

    all_pairs: ClassVar[bool] = False
    kernel: KernelField = Laplacian()

    @classmethod
    def _held_in_record(cls, record: Mapping[str, object]) -> dict[str, object]:
        from ikmap.methods.registry import KERNELS

        kind = KERNELS.get(str(record.get("kernel")))
        return {} if kind is None else {"kernel": kind.of_record({})[0]}

    def tunable(self, searched: frozenset[str]) -> tuple[str, ...]:
        own = super().tunable(searched)
        return (*own, *(f"kernel.{path}" for path in self.kernel.tunable(within(searched, "kernel"))))

    def search_space(self, searched: frozenset[str], n_rows: int, sample: Sample | None = None) -> SearchSpace:
        space = self.kernel.search_space(within(searched, "kernel"), n_rows, sample)
        return {f"kernel.{path}": candidates for path, candidates in space.items()}

    def sharing(self) -> Hashable | None:
        shares = self.kernel.shares
        if not self.all_pairs or shares is None:
            return None
        return tuple(self.kernel.value_at(name) for name in shares)

    def shared(self, learned: Rows, tested: Rows) -> tuple[Self, Rows, Rows]:
        from ikmap.kernels import SharedKernel
        from ikmap.kernels.tabled import KernelTable, numbered
        from ikmap.learners.rows import n_columns, n_rows

        n, m = n_rows(learned), n_rows(tested)
        if 8 * n * (n + m) > TABLE_BYTES:
            return self, learned, tested
        kernel = self.kernel.kernel(n_columns(learned))
        assert isinstance(kernel, SharedKernel)
        table = KernelTable.of(kernel, learned, tested)
        return replace(self, kernel=Tabled(base=self.kernel, table=table)), numbered(0, n), numbered(n, m)
