"""The column of a table that says how much each row counts: finite numbers >= 0, one in every row."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ikmap.arrays import Floats
from ikmap.tables import NUMBER
from pipeline.errors import InputError
from pipeline.sources.columns.cells import Where, as_numbers

EXPECTED = "a finite number >= 0 in every row (the weight; --weight)"


def weights_in(cells: pa.ChunkedArray, where: Where, nothing: str) -> Floats:
    """Weights of some rows; `nothing` is what a cell without a value is, for people.

    Raises
    ------
    InputError
        One is none.
    """
    try:
        weights, _ = as_numbers(cells, NUMBER, frozenset({""}), where)
    except InputError as error:
        raise InputError(f"{str(error).partition(', expected ')[0]}, expected {EXPECTED}") from None
    bad = np.flatnonzero(~(weights >= 0))
    if bad.size:
        row = int(bad[0])
        what = f"{weights[row]:g}" if weights[row] < 0 else nothing
        raise InputError(f"{where(row)}: found {what}, expected {EXPECTED}")
    return weights
