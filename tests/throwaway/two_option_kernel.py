"""A throwaway kernel with two numbers to choose: K(x, y) = exp(-gamma sum_j |x_j - y_j|^p), 0 < p <= 2.

The sum takes long, and depends on p only.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ikmap.kernels import Kernel, SharedKernel
from ikmap.kernels.points import PointKernel, Points
from ikmap.methods import KERNELS, KernelMethod, MethodOptions, Search, option
from ikmap.methods.kinds import Real
from ikmap.methods.options import Setting
from ikmap.methods.registry import register
from ikmap.rows import Rows, as_dense

POWERS, GAMMAS = (0.5, 1.0, 2.0), (0.125, 1.0, 8.0)
COMPUTED: list[int] = []
"""Of each time that sums were computed, how many."""


@dataclass(frozen=True)
class PowerKernel(SharedKernel[Rows, Points], PointKernel):
    """The arithmetic."""

    name: ClassVar[str] = "throwaway-power"

    p: float
    gamma: float

    def shared(self, left: Points, right: Points, out: np.ndarray) -> None:
        COMPUTED.append(out.size)
        X, Y = as_dense(left.rows), as_dense(right.rows)
        for i, row in enumerate(X):
            out[i] = np.sum(np.abs(Y - row) ** self.p, axis=1)

    def finish(self, out: np.ndarray) -> None:
        out *= -self.gamma
        np.exp(out, out=out)


class PowerOptions(MethodOptions):
    """Its numbers."""

    power_p: float | str = option(
        "auto",
        Real(0, words=("auto",)),
        help="power of the throwaway kernel",
        setting=Setting("p", "power", "How much large differences count.", parameter="p"),
    )
    power_gamma: float | str = option(
        "auto",
        Real(0, words=("auto",)),
        help="width of the throwaway kernel",
        setting=Setting("γ", "width", "How fast the kernel falls.", parameter="gamma"),
    )


class Power(KernelMethod):
    """What the arithmetic says of itself."""

    Options: ClassVar[type[MethodOptions]] = PowerOptions
    models = (__name__,)

    def searches(self, options: Any, n_rows: int) -> tuple[Search, ...]:  # noqa: ARG002
        found = (Search("power_p", "p", POWERS), Search("power_gamma", "gamma", GAMMAS))
        return tuple(search for search in found if getattr(options, search.option) == "auto")

    def given(self, options: Any) -> dict[str, float]:
        found = {"p": options.power_p, "gamma": options.power_gamma}
        return {name: value for name, value in found.items() if value != "auto"}

    def kernel(self, options: Any, chosen: Any, n_columns: int) -> Kernel:  # noqa: ARG002
        return PowerKernel(chosen["p"], chosen["gamma"])


POWER = Power(name=PowerKernel.name, title="throwaway kernel of two numbers", shares=("p",))


@contextmanager
def known() -> Iterator[None]:
    """The kernel can be named."""
    register(POWER, "throwaway")
    try:
        yield
    finally:
        del KERNELS[POWER.name]
