"""A throwaway kernel with two numbers to choose: K(x, y) = exp(-gamma sum_j |x_j - y_j|^p), 0 < p <= 2.

The sum takes long, and depends on p only.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Gt

from ikmap.kernels import SharedKernel
from ikmap.kernels.points import PointKernel, Points
from ikmap.methods import (
    KERNELS,
    Candidates,
    Doc,
    KernelAbout,
    KernelMethod,
    Sample,
    Searched,
    SearchSpace,
    Symbol,
    register,
)
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


class Power(KernelMethod):
    """What the arithmetic says of itself."""

    about: ClassVar[KernelAbout] = KernelAbout(
        name=PowerKernel.name, title="throwaway kernel of two numbers", models=(__name__,)
    )
    shares: ClassVar[tuple[str, ...] | None] = ("power_p",)
    power_p: Annotated[
        float,
        Gt(0),
        Doc("power of the throwaway kernel"),
        Searched(by_default=True),
        Symbol("p", "power", "How much large differences count.", parameter="p"),
    ] = 1.0
    power_gamma: Annotated[
        float,
        Gt(0),
        Doc("width of the throwaway kernel"),
        Searched(by_default=True),
        Symbol("γ", "width", "How fast the kernel falls.", parameter="gamma"),
    ] = 1.0

    def search_space(self, searched: frozenset[str], n_rows: int, sample: Sample | None = None) -> SearchSpace:
        tried = {"power_p": Candidates(POWERS), "power_gamma": Candidates(GAMMAS)}
        return {name: candidates for name, candidates in tried.items() if name in searched}

    def kernel(self, n_columns: int) -> PowerKernel:
        return PowerKernel(self.power_p, self.power_gamma)


@contextmanager
def known() -> Iterator[None]:
    """Have the kernel known by its name."""
    register(Power, "throwaway")
    try:
        yield
    finally:
        del KERNELS[Power.about.name]
