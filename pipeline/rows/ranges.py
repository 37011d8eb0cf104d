"""How far the values of columns lie apart: columns of very different ranges say different amounts under a distance."""

from __future__ import annotations

import numpy as np

from pipeline.record_types import Record
from pipeline.rows.prepared import READ_BYTES, PreparedRows

SOME = 1000
"""Rows that are looked at."""
MOST = 10.0
"""How many times as far as those of a quarter of the columns the values of another one may lie apart.

Columns in [0, 1] of which a random quarter was multiplied by 1, 3, 10, 30 and 100, accuracy of ``anne`` in
cross-validation: wine .952, .955, .888, .801, .747; breast cancer .969, .960, .932, .924, .921.
"""


def ranges_of(rows: PreparedRows) -> Record:
    """Return the widest column and its range, and the range that a quarter of the columns are within.

    Columns that do not change are left out. Nothing is returned of sparse rows, which cannot be scaled.
    """
    about = rows.preparation
    if not about.dense or about.scale != "none":
        return {}
    X = rows.take(np.arange(min(rows.n_rows, SOME, max(1, READ_BYTES // rows.row_bytes)))).rows
    ranges = np.asarray(X).max(axis=0) - np.asarray(X).min(axis=0)
    varying = ranges[ranges > 0]
    if varying.size < 2:
        return {}
    widest = int(ranges.argmax())
    name = str(widest + 1) if about.column_names is None else about.column_names[widest]
    return {
        "widest": name,
        "range": float(ranges[widest]),
        "quarter": float(np.quantile(varying, 0.25, method="lower")),
    }
