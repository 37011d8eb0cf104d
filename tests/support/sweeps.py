"""The columns of a sweep in the order of the cells, to compare a sweep with a map of one value."""

from __future__ import annotations

import numpy as np

from ikmap.learners.sweeps.columns import Columns


def offsets_and_order(columns: Columns) -> tuple[np.ndarray, np.ndarray]:
    """Return the current offsets of the cells, and the column of each of their feature columns."""
    order = [numbers[number] for numbers in columns._column_of for number in sorted(numbers)]
    offsets = np.cumsum([0, *map(len, columns._column_of)], dtype=np.int64)
    return offsets, np.array(order, dtype=np.int64)
