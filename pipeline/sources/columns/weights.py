"""The column of a table that says how much each row counts: finite numbers >= 0, one in every row."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ikmap.arrays import Floats
from ikmap.tables import NUMBER
from pipeline.errors import InputError
from pipeline.sources.columns.cells import WEIGHT, WantedColumn, Where, as_numbers


def weights_in(cells: pa.ChunkedArray, name: str, where: Where, nothing: str) -> Floats:
    """Return the weights of some rows.

    Parameters
    ----------
    name : str
        Name of the column.
    nothing : str
        What a cell without a value is, for people.

    Raises
    ------
    InputError
        A cell is no finite number >= 0.
    """
    weights, _ = as_numbers(cells, WantedColumn(name, NUMBER, "weight"), frozenset({""}), where)
    bad = np.flatnonzero(~(weights >= 0))
    if bad.size:
        row = int(bad[0])
        what = f"{weights[row]:g}" if weights[row] < 0 else nothing
        raise InputError(f"{where(row)}: found {what}, expected {WEIGHT}")
    return weights
