"""Ranges of columns: columns of very different ranges have very different influence on a distance."""

from __future__ import annotations

import numpy as np

from ikmap.arrays import Floats
from ikmap.json_values import JsonObject
from pipeline.rows.prepared import READ_BYTES, PreparedRows

SOME = 1000
"""Number of rows whose values are looked at."""
MOST = 10.0
"""Largest ratio of the range of a column to the range that a quarter of the columns are within.

Columns in [0, 1] of which a random quarter was multiplied by 1, 3, 10, 30 and 100, accuracy of ``anne`` in
cross-validation: wine .952, .955, .888, .801, .747; breast cancer .969, .960, .932, .924, .921.
"""


def ranges_of(rows: PreparedRows, first: Floats | None = None) -> JsonObject:
    """Return the widest column and its range, and the range that a quarter of the columns are within.

    Constant columns are left out. The result is empty for sparse rows, which cannot be scaled.

    Parameters
    ----------
    first : float64 array (n, columns), optional
        The first of the rows, at least as many as are looked at, where they have been read.
    """
    preparation = rows.preparation
    if not preparation.dense or preparation.scale != "none":
        return {}
    count = min(rows.n_rows, SOME, max(1, READ_BYTES // rows.row_bytes))
    X = np.asarray(rows.take(np.arange(count)).rows) if first is None else first[:count]
    ranges = X.max(axis=0) - X.min(axis=0)
    varying = ranges[ranges > 0]
    if varying.size < 2:
        return {}
    widest = int(ranges.argmax())
    name = str(widest + 1) if preparation.column_names is None else preparation.column_names[widest]
    return {
        "widest": name,
        "range": float(ranges[widest]),
        "quarter": float(np.quantile(varying, 0.25, method="lower")),
    }
