"""The number of cells in a partitioning: an option of maps that cut space into psi cells, and of kernels like them."""

from __future__ import annotations

from typing import Any

from ikmap.methods.kinds import Integer
from ikmap.methods.options import FEATURES, option


def psi_option() -> Any:
    """The field ``psi`` of a method's options."""
    return option(
        "auto",
        Integer(1, words=("auto",)),
        group=FEATURES,
        common=True,
        help="cells per partitioning; auto: by cross-validation",
    )


def psis_to_try(n_rows: int) -> tuple[int, ...]:
    """Values of psi that every fold of so many rows has enough rows for."""
    from ikmap.model_selection import psis_that_fit

    return tuple(psis_that_fit(n_rows))
