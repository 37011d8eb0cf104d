"""What learners with a kernel on the rows themselves share: the option that names it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

from ikmap.methods.kernel import KERNELS, KernelMethod, KernelName
from ikmap.methods.learner import Learner, Search
from ikmap.methods.options import BASELINES, MethodOptions, OptionError, option

if TYPE_CHECKING:
    from ikmap.kernels import Kernel


class KernelOptions(MethodOptions):
    """Which kernel; its own options are those of the method that this names."""

    __slots__ = ("_of_kernel",)

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
        return next(iter(kernel_of(options).parameters(options.of_kernel)), None)

    def search(self, options: Any, n_rows: int) -> Search | None:
        return next(iter(kernel_of(options).searches(options.of_kernel, n_rows)), None)

    def given(self, options: Any) -> float | None:
        return next(iter(kernel_of(options).given(options.of_kernel).values()), None)


def kernel_of(options: Any) -> KernelMethod:
    """The kernel that ``--kernel`` names."""
    return KERNELS[options.kernel]


def kernel_on_rows(options: Any, value: float | None, n_columns: int) -> Kernel:
    """That kernel with the number that was chosen or given for its parameter."""
    kernel, of_kernel = kernel_of(options), options.of_kernel
    names = kernel.parameters(of_kernel)
    chosen = {} if value is None else {names[0]: value}
    return kernel.kernel(of_kernel, chosen, n_columns)
