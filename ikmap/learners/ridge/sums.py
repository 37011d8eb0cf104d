"""Sums over rows of cells, piece by piece, with the same bits for any blocks and any place of the rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import numpy as np
import scipy.sparse as sp

from ikmap.arrays import Floats
from ikmap.cells import Cells
from ikmap.learners.ridge._ridge_loops import ONES, RESIDUALS, add_sums
from ikmap.learners.rows import Block

TILE = 2048
"""Rows that the loop takes at once: their values stay in the fastest cache."""
MOST_PIECES = 16
"""Most pieces of the rows: so many threads or workers can be at work at once. Each has its own sums over all cells."""
LEAST_ROWS, ROWS_PER_CELL = 4096, 8
"""A piece has at least so many rows, and rows for each cell of a partitioning: else adding up pieces takes long."""


@dataclass(frozen=True, eq=False)
class Tile:
    """Some rows in the form of the loops.

    Attributes
    ----------
    codes : ndarray of unsigned integers, shape (t, n)
    absent : int
        The code of no cell; -1 where every row has all cells.
    base : ndarray of uint64, shape (t,)
        Feature column of the first cell of each partitioning.
    y, weight : ndarrays of float64, shape (n,)
        `weight` is empty where all rows weigh 1.
    """

    codes: np.ndarray
    absent: int
    base: np.ndarray
    y: Floats
    weight: Floats

    @classmethod
    def of(cls, block: Block) -> Iterator[Self]:
        """Yield some rows of a training set, tile by tile."""
        rows = block.rows
        assert isinstance(rows, Cells)
        if rows.codes.dtype.kind == "i":
            rows = rows.packed()
        absent = -1 if rows.complete else rows.absent
        base = rows.offsets[:-1].astype(np.uint64)
        for start in range(0, rows.n_rows, TILE):
            some = slice(start, start + TILE)
            weight = np.empty(0) if block.sample_weight is None else block.sample_weight[some].astype(np.float64)
            y = block.y[some].astype(np.float64)
            yield cls(np.ascontiguousarray(rows.codes[some].T), absent, base, y, weight)

    @property
    def nbytes(self) -> int:
        """Number of bytes of the arrays."""
        return self.codes.nbytes + self.y.nbytes + self.weight.nbytes


@dataclass(frozen=True, eq=False)
class Order:
    """The sums to compute in a round.

    Attributes
    ----------
    kind : int
        Of :mod:`ikmap.learners.ridge._ridge_loops`.
    shift : float
        Subtracted from targets.
    p : ndarray of float64, shape (n_columns,)
        Weights whose sums over each row's cells are made.
    """

    kind: int
    shift: float
    p: Floats


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums over some rows.

    Attributes
    ----------
    cells : ndarray of float64, shape (n_columns,)
        Over the rows of each cell.
    rows : ndarray of float64, shape (3,)
        Weighted squares, values, and targets.
    """

    cells: Floats
    rows: Floats

    @classmethod
    def none(cls, n_columns: int) -> Self:
        """Return the sums of no rows."""
        return cls(np.zeros(n_columns), np.zeros(3))

    def __iadd__(self, other: Self) -> Self:
        np.add(self.cells, other.cells, out=self.cells)
        np.add(self.rows, other.rows, out=self.rows)
        return self


def sums_of(order: Order, tiles: Iterable[Tile]) -> Sums:
    """Return the sums over the rows of some tiles in their order; their division changes no bit."""
    sums = Sums.none(order.p.size)
    for tile in tiles:
        add_sums(
            tile.codes, tile.absent, tile.base, tile.y, tile.weight, order.kind, order.shift, order.p, sums.cells,
            sums.rows,
        )  # fmt: skip
    return sums


def pieces(n_rows: int, offsets: np.ndarray) -> list[tuple[int, int]]:
    """Cut rows into consecutive pieces, by the sizes only."""
    cells = int(offsets[-1]) // max(1, offsets.size - 1)
    count = int(np.clip(n_rows // max(LEAST_ROWS, ROWS_PER_CELL * cells), 1, MOST_PIECES))
    ends = [n_rows * k // count for k in range(count + 1)]
    return list(pairwise(ends))


def matrix_sums(order: Order, X: Floats | sp.csr_array, y: np.ndarray, weight: Floats | None = None) -> Sums:
    """Return the sums over the rows of a dense or CSR matrix, whose columns stand for cells."""
    if order.kind == ONES:
        value = np.ones(y.size)
    else:
        value = X @ order.p
        if order.kind == RESIDUALS:
            value = (y - order.shift) - value
    s = np.ones(y.size) if weight is None else weight
    rows = np.array([(s * value**2).sum(), (s * value).sum(), (s * y).sum()])
    return Sums(np.asarray(X.T @ (s * value)), rows)
