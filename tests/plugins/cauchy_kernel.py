"""A throwaway kernel, as a stranger's package would have it: K(x, y) = 1 / (1 + |x - y|_1 / width)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Gt

from ikmap.kernels.points import L1, PointKernel, Points, pair_sums
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


class Cauchy(KernelMethod):
    """What the arithmetic says of itself."""

    about: ClassVar[KernelAbout] = KernelAbout(name=CauchyKernel.name, title="throwaway kernel", models=(__name__,))
    cauchy_width: Annotated[
        float,
        Gt(0),
        Doc("width of the throwaway kernel"),
        Searched(by_default=True),
        Symbol("w", "width", parameter="width"),
    ] = 1.0

    def search_space(self, searched: frozenset[str], n_rows: int, sample: Sample | None = None) -> SearchSpace:
        return {"cauchy_width": Candidates(WIDTHS)} if "cauchy_width" in searched else {}

    def kernel(self, n_columns: int) -> CauchyKernel:
        return CauchyKernel(self.cauchy_width)


@contextmanager
def known() -> Iterator[None]:
    """Have the kernel known by its name."""
    register(Cauchy, "throwaway")
    try:
        yield
    finally:
        del KERNELS[Cauchy.about.name]
