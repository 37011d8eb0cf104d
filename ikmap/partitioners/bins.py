"""Bins of the values of columns, between which trees that are grown by labels split."""

from __future__ import annotations

import numpy as np

from ikmap._threads import for_each_block
from ikmap.arrays import Floats
from ikmap.partitioners._bins_loops import BYTE_BINS, fill_bins
from ikmap.rows import Rows, as_dense

EDGE_VALUES = 1 << 18
"""Number of values, of whole columns, whose edges are found at a time."""


def bin_edges(X: Rows, max_bins: int = BYTE_BINS, n_threads: int | None = 1) -> list[Floats]:
    """Return the edges of the bins of each column, at most one less than bins, ascending.

    A value is in bin b if b edges are at or below it. A column of at most `max_bins` different values has an edge
    between each two neighbours; in one of more values, each bin has about as many points. A value with the points of
    several bins has an edge beside it, above and, from three bins on, below.
    """
    edges = [np.empty(0)] * X.shape[1]
    by_column = X if isinstance(X, np.ndarray) else X.tocsc()

    def work(start: int, stop: int) -> None:
        for k, column in enumerate(np.ascontiguousarray(as_dense(by_column[:, start:stop]).T), start):
            edges[k] = _edges_of(column, max_bins)

    for_each_block(work, X.shape[1], max(1, EDGE_VALUES // max(1, X.shape[0])), n_threads)
    return edges


def _edges_of(column: Floats, max_bins: int) -> Floats:
    values, counts = np.unique(column, return_counts=True)
    if values.size > max_bins:
        ends = np.searchsorted(np.cumsum(counts), np.arange(1, max_bins) * column.size / max_bins)
        kept, bins = np.unique(ends, return_counts=True)
        # A value that is the end of several bins leaves their places free: its neighbours take them.
        kept = np.r_[kept, kept[bins > 1] + 1, kept[bins > 2] - 1, values.size - 1]
        values = values[np.unique(kept.clip(0, values.size - 1))]
    middle = values[:-1] + (values[1:] - values[:-1]) / 2
    # Of two neighbours without a number between them, the upper one divides them.
    between: Floats = np.where(middle > values[:-1], middle, values[1:])
    return between


def bins_of(X: Rows, edges: Floats, begins: np.ndarray, dtype: type[np.unsignedinteger]) -> np.ndarray:
    """Return the bin of each value, shape (n, d).

    Parameters
    ----------
    edges : ndarray of float64
        Ascending edges of each column, column after column.
    begins : ndarray of int64, shape (d + 1,)
        Where the edges of each column begin.
    """
    codes = np.empty(X.shape, dtype=dtype)
    fill_bins(np.ascontiguousarray(as_dense(X)), edges, begins, codes)
    return codes
