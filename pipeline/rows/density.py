"""Decide whether rows are handed out dense or as CSR: the rule, in one place.

Dense rows take 8 bytes for each column, sparse ones 12 for each value that is not 0. From a quarter of such values on,
sparse rows save little and are slower; with fewer, encoding, trees and Voronoi cells are as fast or faster
(``python -m benchmarks onehot``, docs/tables.md).
"""

from __future__ import annotations

from ikmap.tables import Encoder

DENSE_SHARE = 0.25
"""Least share of values that are not 0 in dense rows."""
DENSE_COLUMNS = 8192
"""Most columns of rows that are made dense."""


def is_dense(sparse: bool, rows: int, columns: int, nnz: int) -> bool:
    """Return whether rows are handed out dense: those read dense, and sparse ones that hardly grow when made dense."""
    return not sparse or (nnz >= DENSE_SHARE * rows * columns and columns <= DENSE_COLUMNS)


def encodes_dense(encoder: Encoder, scale: str = "none") -> bool:
    """Return whether the features of a table are dense: not if it has many one-hot features and they are not scaled."""
    return scale != "none" or is_dense(True, 1, len(encoder.names), encoder.entries)
