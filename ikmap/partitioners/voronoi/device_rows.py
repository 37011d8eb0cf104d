"""Rows and centres on a device, with scores in float32 and exact distances of chosen pairs in float64.

Written with functions of the array API standard only. Scores and the bounds of their errors are those of
:mod:`~ikmap.partitioners.voronoi.scores`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np
import scipy.sparse as sp

from ikmap.device import Device, DeviceArray, DeviceCSR, Namespace, in_order
from ikmap.partitioners.voronoi._nearest_loops import EVERYTHING
from ikmap.partitioners.voronoi._scores_loops import LEAST_ERROR
from ikmap.partitioners.voronoi.scores import FARTHEST, ROUNDOFF, DenseScores, SparseScores, squared_norms
from ikmap.rows import Rows, as_csr

CENTRE_BYTES = 256 << 20
"""Sparse centres are spread out over all columns in chunks of at most this size."""

DENSE_COST = 64
"""An entry of a sparse row costs a GPU as much as so many columns of a dense one."""
DENSE_BYTES = 1 << 30
"""Dense centres of sparse rows take at most so much."""


type Lists = tuple[DeviceArray, DeviceArray, DeviceArray, DeviceArray, int]
"""Columns, values, beginnings and numbers of entries of sparse rows, and the largest number of entries."""


@dataclass(frozen=True, eq=False)
class DeviceBlock[Left, Held]:
    """A block of rows on a device.

    Parameters
    ----------
    left : float32 matrix, shape (n, d)
        Minus twice the rows, shifted and scaled; 0 where nothing is known of a row's scores.
    lengths, units : float64 array, shape (n, 1)
        The same as in :class:`~ikmap.partitioners.voronoi.scores.Queries`.
    rows : arrays
        For exact distances.
    """

    left: Left
    lengths: DeviceArray
    units: DeviceArray
    rows: Held


type DenseBlock = DeviceBlock[DeviceArray, tuple[DeviceArray]]
type SparseBlock = DeviceBlock[DeviceCSR, Lists]


class DeviceRows[Left, Held](Protocol):
    """Rows and centres of one layout on a device."""

    norms: DeviceArray
    held_bytes: int
    row_bytes: int
    pair_bytes: int

    def block(self, X: Rows | DeviceArray) -> DeviceBlock[Left, Held]: ...
    def products(self, block: DeviceBlock[Left, Held]) -> DeviceArray: ...
    def operands(self, block: DeviceBlock[Left, Held]) -> tuple[object, ...]: ...
    def distances(self, block: DeviceBlock[Left, Held], row: DeviceArray, center: DeviceArray) -> DeviceArray: ...


def spread_out(centers: Rows) -> bool:
    """Return whether a GPU scores sparse rows and centres faster by all their coordinates. Zeros change no distance."""
    n, d = centers.shape
    filled = int(np.count_nonzero(centers)) if isinstance(centers, np.ndarray) else int(centers.nnz)
    return bool(n * d <= DENSE_COST * max(filled, n) and 8 * n * d <= DENSE_BYTES)


type EitherRows = DeviceRows[Any, Any]


class DenseRows:
    """Dense rows and centres on a device.

    ``row_bytes`` is what a row of a block takes, ``pair_bytes`` a pair whose distance is found, both roughly.
    """

    def __init__(self, scores: DenseScores, device: Device, product_error: float | None = None) -> None:
        self.device, self.scores = device, scores
        self.product_error = device.product_error if product_error is None else product_error
        self.centers = device.put(scores.operand)
        self.right = device.put(np.ascontiguousarray(scores.scaled().T, dtype=np.float32))
        self.norms = device.put(scores.squared.astype(np.float32)[None, :])
        self.shift = device.put(scores.shift[None, :])
        d = scores.n_lines
        self.held_bytes = 12 * scores.operand.size
        self.row_bytes = 48 * d
        self.pair_bytes = 32 * d + 32

    def block(self, X: Rows | DeviceArray) -> DenseBlock:
        """Return rows on the device, copied if necessary."""
        xp, scores = self.device.xp, self.scores
        if sp.issparse(X):
            rows = self.device.put_dense(cast("sp.csr_array", X))
        else:
            rows = self.device.put(X) if isinstance(X, np.ndarray) else cast(DeviceArray, X)
        moved = (rows - self.shift) * scores.scale
        lengths = xp.sqrt(xp.sum(moved * moved, axis=1, keepdims=True))
        within = lengths <= (FARTHEST if scores.scale else -1.0)  # not of a NaN
        left = xp.astype(xp.where(within, -2.0 * moved, 0.0), xp.float32)
        lengths = xp.where(within, lengths, -1.0)
        unit = (scores.n_lines + 8) * ROUNDOFF + self.product_error
        units = xp.full_like(lengths, unit)
        if scores.integral and not self.product_error:
            whole = xp.all(rows == xp.round(rows), axis=1, keepdims=True)
            units = xp.where(whole & ((lengths + scores.reach) ** 2 <= 2.0**24 * scores.scale**2), 0.0, units)
        return DeviceBlock(left, lengths, units, (rows,))

    def products(self, block: DenseBlock) -> DeviceArray:
        """Return the scores without the lengths of the centres, float32 of shape (n, U)."""
        return self.device.xp.matmul(block.left, self.right)

    def operands(self, block: DenseBlock) -> tuple[object, ...]:
        """Return rows and centres, row after row in memory, as kernels take them."""
        return in_order(self.device.xp, block.rows[0]), self.centers, np.int32(self.scores.n_lines)

    def distances(self, block: DenseBlock, row: DeviceArray, center: DeviceArray) -> DeviceArray:
        """Return squared distances of pairs, added up in column order, with the same bits as the compiled loops."""
        xp = self.device.xp
        difference = xp.take(block.rows[0], row, axis=0) - xp.take(self.centers, center, axis=0)
        return _added_up(difference * difference)


class SparseRows:
    """Sparse rows and centres on a device."""

    def __init__(self, scores: SparseScores, device: Device) -> None:
        self.device, self.scores = device, scores
        n, d = scores.shape
        self.norms = device.put(scores.squared.astype(np.float32)[None, :])
        self.lists = self._put_lists(sp.csr_array(scores.operand, shape=scores.shape))
        step = max(1, CENTRE_BYTES // (4 * max(d, 1)))
        self._starts = range(0, n, step)
        self._spread = self._right(0) if len(self._starts) == 1 else None
        self.held_bytes = 24 * scores.operand[0].size + min(4 * n * d, CENTRE_BYTES)
        self.row_bytes = 40 * scores.longest + 4 * n
        self.pair_bytes = 100 * scores.longest + 64

    def _put_lists(self, rows: sp.csr_array) -> Lists:
        """Return columns and values with a further entry of no column, row starts, and entries of each row."""
        columns = np.append(rows.indices, rows.shape[1]).astype(np.int64)
        begin = rows.indptr[:-1].astype(np.int64)
        sizes = np.diff(rows.indptr).astype(np.int64)
        put = self.device.put
        return put(columns), put(np.append(rows.data, 0.0)), put(begin), put(sizes), int(sizes.max(initial=0))

    def _right(self, start: int) -> DeviceArray:
        """Return some centres as a dense array, float32 of shape (d, step)."""
        chosen = self.scores.scaled(slice(start, start + self._starts.step))
        chosen = sp.csr_array((chosen.data.astype(np.float32), chosen.indices, chosen.indptr), shape=chosen.shape)
        return self.device.xp.matrix_transpose(self.device.put_dense(chosen))

    def block(self, X: Rows | DeviceArray) -> SparseBlock:
        """Return rows on the device."""
        scores, put = self.scores, self.device.put
        rows = as_csr(X if isinstance(X, np.ndarray) or sp.issparse(X) else self.device.get(X))
        scaled = sp.csr_array((rows.data * scores.scale, rows.indices, rows.indptr), shape=rows.shape)
        lengths = np.sqrt(squared_norms(scaled))
        lengths[~(lengths <= (FARTHEST if scores.scale else -1.0))] = -1.0
        entries = np.diff(rows.indptr)
        values = np.where(np.repeat(lengths < 0, entries), 0.0, -2.0 * scaled.data)
        left = sp.csr_array((values.astype(np.float32), rows.indices, rows.indptr), shape=rows.shape)
        units = (entries + scores.longest + 8) * ROUNDOFF + self.device.product_error
        if scores.integral and not self.device.product_error and (rows.data == np.rint(rows.data)).all():
            units[(lengths + scores.reach) ** 2 <= 2.0**24 * scores.scale**2] = 0.0
        on_device = self.device.put_csr(left)
        return DeviceBlock(on_device, put(lengths[:, None]), put(units[:, None]), self._put_lists(rows))

    def products(self, block: SparseBlock) -> DeviceArray:
        """Return the scores without the lengths of the centres, float32 of shape (n, U)."""
        xp = self.device.xp
        if self._spread is not None:
            return in_order(xp, block.left @ self._spread)
        return xp.concat([block.left @ self._right(start) for start in self._starts], axis=1)

    def operands(self, block: SparseBlock) -> tuple[object, ...]:
        """Return entries of rows and centres, as kernels take them."""
        return (*block.rows[:4], *self.lists[:4])

    def distances(self, block: SparseBlock, row: DeviceArray, center: DeviceArray) -> DeviceArray:
        """Return squared distances of pairs, added up in column order, with the same bits as the compiled loops."""
        xp = self.device.xp
        columns, values = self._entries(block.rows, row)
        center_columns, center_values = self._entries(self.lists, center)
        columns = xp.concat([columns, center_columns], axis=1)
        values = xp.concat([values, -center_values], axis=1)
        order = xp.argsort(columns, axis=1)  # of a column that both have, either may come first
        columns, values = xp.take_along_axis(columns, order, axis=1), xp.take_along_axis(values, order, axis=1)
        both = columns[:, 1:] == columns[:, :-1]
        nothing = values[:, :1] * 0.0
        added = xp.concat([xp.where(both, values[:, 1:], 0.0), nothing], axis=1)
        gone = xp.concat([nothing != nothing, both], axis=1)
        difference = xp.where(gone, 0.0, values + added)
        return _added_up(difference * difference)

    def _entries(self, lists: Lists, row: DeviceArray) -> tuple[DeviceArray, DeviceArray]:
        """Return columns and values of chosen rows, shape (p, longest + 1), filled up with zeros of no column."""
        xp = self.device.xp
        columns, values, begin, sizes, longest = lists
        place = self.device.put(np.arange(longest + 1, dtype=np.int64)[None, :])
        there = place < xp.take(sizes, row)[:, None]
        at = xp.where(there, xp.take(begin, row)[:, None] + place, columns.shape[0] - 1)
        flat = xp.reshape(at, (-1,))
        return xp.reshape(xp.take(columns, flat), at.shape), xp.reshape(xp.take(values, flat), at.shape)


def _added_up(terms: DeviceArray) -> DeviceArray:
    """Return the sums of rows, added up from left to right."""
    total = terms[:, 0]
    for j in range(1, terms.shape[1]):
        total = total + terms[:, j]
    return total


def limits_of[Left, Held](
    xp: Namespace, low: DeviceArray, block: DeviceBlock[Left, Held], reach: float
) -> tuple[DeviceArray, DeviceArray]:
    """Return scores beyond which no member can be the nearest, and whether any other member must be checked.

    It is ``margin_of`` of the compiled loops, but by the lowest score of each partitioning.

    Parameters
    ----------
    low : float32 array, shape (n, g)
    """
    lengths, units = block.lengths, block.units
    low = xp.astype(low, xp.float64)
    squared = low + lengths * lengths
    squared = xp.where(squared > 0.0, squared, 0.0)
    radius = 2.0 * xp.sqrt(squared)
    near = lengths + radius
    near = xp.where(near < reach, near, reach)
    trusted = squared + 6.0 * units * (2.0 * lengths + radius) ** 2 < radius * radius
    margin = 2.0 * units * (lengths + xp.where(trusted, near, reach)) ** 2 + LEAST_ERROR
    limit = low + margin
    limit = limit + xp.abs(limit) * 2.0**-22  # float32, and no less
    limit = xp.where((lengths < 0.0) | (limit > float(EVERYTHING)), float(EVERYTHING), limit)
    return xp.astype(limit, xp.float32), (lengths < 0.0) | (units > 0.0)
