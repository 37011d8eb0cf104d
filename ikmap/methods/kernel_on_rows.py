"""What learners with a kernel on the rows themselves share: the option that names it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from ikmap.methods.kernel import KERNELS, KernelMethod, KernelName
from ikmap.methods.learner import Learner
from ikmap.methods.options import BASELINES, MethodOptions, OptionError, option
from ikmap.methods.search import JOINED, Search, combined, numbers_of

if TYPE_CHECKING:
    from ikmap.kernels import Kernel
    from ikmap.kernels.tabled import KernelTable

TABLE_BYTES = 512 << 20
"""Cross-validation computes what kernel values share once, where the table of it is no larger; else for each value."""


class KernelOptions(MethodOptions):
    """Which kernel; its own options are those of the method that this names."""

    __slots__ = ("_of_kernel", "_table")

    kernel: str = option(
        "laplacian",
        KernelName(),
        group=BASELINES,
        help="kernel on the rows themselves, for kernel-ogd, kernel-svm, nogd and fourier-linear",
    )

    def with_kernel(self, of_kernel: MethodOptions) -> Self:
        """The same, with these options of the kernel; without them, they are the defaults."""
        found = type(self)(**vars(self))
        object.__setattr__(found, "_of_kernel", of_kernel)
        return found

    @property
    def of_kernel(self) -> Any:
        """Options of the kernel."""
        return getattr(self, "_of_kernel", None) or KERNELS[self.kernel].Options()

    def with_table(self, table: KernelTable) -> Self:
        """The same, with the kernel's values of two numbered rows looked up."""
        found = self.with_kernel(self.of_kernel)
        object.__setattr__(found, "_table", table)
        return found

    @property
    def table(self) -> KernelTable | None:
        """Where the kernel's values are looked up."""
        return getattr(self, "_table", None)

    def replace(self, **values: Any) -> Self:
        found = super().replace(**values)
        return found.with_kernel(self.of_kernel) if found.kernel == self.kernel else found

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other) and self.of_kernel == other.of_kernel  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return super().__hash__()


@dataclass(frozen=True, kw_only=True)
class OnKernel(Learner):
    """Base of learners with that option: what there is to choose for them is what their kernel says."""

    on: Literal["cells", "rows"] = "rows"
    all_pairs: ClassVar[bool] = False
    """Whether it needs the kernel of about every two rows that it learns from."""

    def uses(self, values: Mapping[str, Any]) -> tuple[str, ...]:
        spec = self.Options.specs()["kernel"]
        given = values.get("kernel")
        try:
            return (spec.check(spec.default if given is None else given),)
        except ValueError as error:
            raise OptionError(f"--kernel {given}: {error}") from None

    def bound(self, options: Any, others: Mapping[str, Any]) -> Any:
        return options.with_kernel(others[options.kernel])

    def parameter(self, options: Any) -> str | None:
        return JOINED.join(kernel_of(options).parameters(options.of_kernel)) or None

    def search(self, options: Any, n_rows: int) -> Search | None:
        kernel, of_kernel = kernel_of(options), options.of_kernel
        searches, given = kernel.searches(of_kernel, n_rows), kernel.given(of_kernel)
        if len(searches) == 1 and not given:
            return searches[0]
        return combined(searches, given) if searches else None

    def given(self, options: Any) -> Any:
        kernel, of_kernel = kernel_of(options), options.of_kernel
        if kernel.searches(of_kernel, 1000):
            return None
        values = tuple(kernel.given(of_kernel).values())
        return values if len(values) > 1 else next(iter(values), None)

    def sharing(self, options: Any, value: Any) -> Hashable | None:
        kernel = kernel_of(options)
        if not self.all_pairs or kernel.shares is None:
            return None
        chosen = numbers_of(self.parameter(options) or "", value)
        return tuple(chosen[name] for name in kernel.shares)

    def share(self, options: Any, value: Any, learned: Any, tested: Any) -> tuple[Any, Any, Any]:
        from ikmap.kernels import SharedKernel
        from ikmap.kernels.tabled import KernelTable, numbered

        n, m = learned.shape[0], tested.shape[0]
        if 8 * n * (n + m) > TABLE_BYTES:
            return options, learned, tested
        kernel = kernel_on_rows(options, value, learned.shape[1])
        assert isinstance(kernel, SharedKernel)
        table = KernelTable.of(kernel, learned, tested)
        return options.with_table(table), numbered(0, n), numbered(n, m)


def kernel_of(options: Any) -> KernelMethod:
    """The kernel that ``--kernel`` names."""
    return KERNELS[options.kernel]


def kernel_on_rows(options: Any, value: Any, n_columns: int) -> Kernel:
    """That kernel with the number that was chosen or given for each of its parameters."""
    kernel, of_kernel = kernel_of(options), options.of_kernel
    names = kernel.parameters(of_kernel)
    chosen = {} if value is None else numbers_of(JOINED.join(names), value)
    found = kernel.kernel(of_kernel, chosen, n_columns)
    return found if options.table is None else options.table.kernel(found)
