"""The number of cells in a partitioning: an option of maps that cut space into psi cells, and of kernels like them."""

from __future__ import annotations

from typing import Any

from ikmap.methods.kinds import Integer
from ikmap.methods.options import FEATURES, Setting, option
from ikmap.methods.search import Search

OF_CELLS = (
    "With few, large cells the learner sees only coarse differences between rows; with many small ones it sees fine "
    "differences, and with too many it memorises single training rows. Of all settings, this matters most."
)


def psi_option(meaning: str = OF_CELLS) -> Any:
    """The field ``psi`` of a method's options; `meaning` is what it does there, for the report."""
    return option(
        "auto",
        Integer(1, words=("auto",)),
        group=FEATURES,
        common=True,
        help="cells per partitioning; auto: by cross-validation",
        setting=Setting("ψ", "cells per partitioning", meaning),
    )


def search_of_psi(n_rows: int) -> Search:
    """Return the values of psi that every fold of so many rows has enough rows for: from two cells to one a row."""
    from ikmap.model_selection import psis_that_fit

    return Search("psi", "psi", tuple(psis_that_fit(n_rows)), {"psi": (2, n_rows)})
