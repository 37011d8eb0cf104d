"""A throwaway kernel, as a stranger's package would have it: K(x, y) = 1 / (1 + |x - y|_1 / width)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ikmap.kernels import Kernel
from ikmap.kernels.points import L1, PointKernel, Points, pair_sums
from ikmap.methods import KERNELS, KernelMethod, MethodOptions, Search, option
from ikmap.methods.kinds import Real
from ikmap.methods.registry import register

WIDTHS = (0.125, 1.0, 8.0)


@dataclass(frozen=True)
class CauchyKernel(PointKernel):
    """The arithmetic."""

    name: ClassVar[str] = "throwaway-cauchy"

    width: float

    def values(self, left: Points, right: Points, out: np.ndarray) -> None:
        pair_sums(left, right, L1, out)
        out /= self.width
        out += 1.0
        np.reciprocal(out, out=out)


class CauchyOptions(MethodOptions):
    """How wide it is."""

    cauchy_width: float | str = option("auto", Real(0, words=("auto",)), help="width of the throwaway kernel")


class Cauchy(KernelMethod):
    """What the arithmetic says of itself."""

    Options: ClassVar[type[MethodOptions]] = CauchyOptions
    models = (__name__,)

    def searches(self, options: Any, n_rows: int) -> tuple[Search, ...]:  # noqa: ARG002
        return (Search("cauchy_width", "width", WIDTHS),) if options.cauchy_width == "auto" else ()

    def given(self, options: Any) -> dict[str, float]:
        return {} if options.cauchy_width == "auto" else {"width": options.cauchy_width}

    def kernel(self, options: Any, chosen: Any, n_columns: int) -> Kernel:  # noqa: ARG002
        return CauchyKernel(chosen["width"])


CAUCHY = Cauchy(name=CauchyKernel.name, title="throwaway kernel")


@contextmanager
def known() -> Iterator[None]:
    """The kernel can be named."""
    register(CAUCHY, "throwaway")
    try:
        yield
    finally:
        del KERNELS[CAUCHY.name]
