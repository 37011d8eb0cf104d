"""Tunable min-max (GMM) kernels: the sum of minima over the sum of maxima of two rows (algorithms.md 10.2).

With u~ the 2d non-negative numbers of a row, its positive values and its negative ones with their signs turned,
R_p = sum min(u~, v~)^p / sum max(u~, v~)^p. All that takes long is R_p, one pass over the rows for each p; gamma and
le come in afterwards, number by number.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from ikmap.arrays import Floats
from ikmap.kernels._min_max_loops import PANEL, dense_minima, far_ratios, ratios, row_sums, sparse_minima
from ikmap.kernels._pairs_loops import bit_sums
from ikmap.kernels.points import Points, RowKernel
from ikmap.kernels.shared import SharedKernel
from ikmap.rows import Rows, as_dense

SMALLEST = 2.0**-300
"""Raised values this far below 1 count as 0. The largest of a row is at least 1."""
SPREAD = 600
"""Rows whose sizes differ by no more than 2 to the power of this are compared on one scale."""
DENSE_BYTES = 32 << 20
"""Sparse rows are laid out densely only where a tile of them takes no more."""
SLOWER = 40
"""Ratio of the times of the sparse and the dense loop for a pair of values, some columns being more common."""
MOST_P = 1000.0
"""Largest power: values of a row are scaled to less than 2, and 2 to the power of 1024 is beyond float64."""


@dataclass(frozen=True)
class MinMaxKernel(SharedKernel[Rows, "RaisedPoints"], RowKernel["RaisedPoints"]):
    """R_p^gamma, or with an `le` the exponential exp(-le (1 - R_p^gamma)), of dense or CSR rows of either sign.

    A row of zeros has R = 1 with another one, and 0 with all else. Multiplying all rows by one number changes nothing;
    values raised to p cannot overflow, for every row has a scale of its own.

    Parameters
    ----------
    p : float
        Power of the values, > 0 and at most 1000.
    gamma : float
        Power of the ratio, > 0. For values that are no whole numbers the kernel need not be positive semidefinite.
    le : float, optional
        Factor lambda_e of the exponential, > 0; None: there is none.

    Raises
    ------
    ValueError
        For a number that is not positive and finite, or a larger p.

    Notes
    -----
    Source: Li, "Several tunable GMM kernels", section 1.1.
    """

    name: ClassVar[str] = "gmm"

    p: float = 1.0
    gamma: float = 1.0
    le: float | None = None

    def __post_init__(self) -> None:
        for name, value in (("p", self.p), ("gamma", self.gamma), ("le", self.le)):
            if value is not None and not 0 < value < np.inf:
                raise ValueError(f"{name} must be a finite number > 0, got {value!r}")
        if self.p > MOST_P:
            raise ValueError(
                f"p must be at most {MOST_P:g}, as larger powers of values overflow, got {self.p!r}; "
                "give p 80 to have only the largest values count"
            )

    def points(self, rows: Rows) -> RaisedPoints:
        """Return prepared rows."""
        return RaisedPoints(rows, self.p)

    def shared(self, left: RaisedPoints, right: RaisedPoints, out: Floats) -> None:
        """Write R_p of all pairs to `out`."""
        if left.n_columns != right.n_columns:
            raise ValueError(f"rows have {left.n_columns} columns, those that they are compared with {right.n_columns}")
        if left.binary and right.binary:
            bit_sums(left.words, right.word_columns, True, out)
            ratios(out, left.norms_of_raised, right.norms_of_raised, out)
            return
        low, high = min(left.sizes[0], right.sizes[0]), max(left.sizes[1], right.sizes[1])
        if high - low > SPREAD:
            far_ratios(*left.entries, left.powers, *right.entries, right.powers, out)
            return
        minima = out
        if _dense_is_faster(left, right):
            signed = left.signed and right.signed
            if (left.n_padded, right.n_padded) != out.shape:
                minima = np.empty((left.n_padded, right.n_padded))
            dense_minima(left.panels(signed, high), right.panels(signed, high), minima)
        else:
            values, columns, indptr = left.entries
            used, others, owner, begin = right.by_column
            place = np.minimum(np.searchsorted(used, columns), max(0, used.size - 1))
            place = np.where(used[place] == columns, place, -1) if used.size else np.full(columns.size, -1)
            values, others = left.scaled(values, high), right.scaled(others, high, owner)
            sparse_minima(values, place, indptr, others, owner, begin, out)
        ratios(minima, left.norms_at(high), right.norms_at(high), out)

    def finish(self, out: Floats) -> None:
        """Turn R_p into kernel values, in place."""
        if self.gamma != 1.0:
            np.power(out, self.gamma, out=out)
        if self.le is not None:
            out -= 1.0
            out *= self.le
            np.exp(out, out=out)


def _dense_is_faster(left: RaisedPoints, right: RaisedPoints) -> bool:
    """Return whether to compare rows column by column, or only on their common columns; both give the same values."""
    d = left.n_columns * (2 if left.signed and right.signed else 1)
    if left.dense and right.dense and left.n_columns < PANEL:
        return True
    if 8 * d * max(left.n_padded, right.n_padded) > DENSE_BYTES:
        return left.dense and right.dense
    in_common = left.nnz * right.nnz / max(1, d)
    return SLOWER * in_common > len(left) * len(right) * d


class RaisedPoints(Points):
    """Rows whose absolute values are raised to a power, each scaled by a power of two of its own.

    Parameters
    ----------
    rows : ndarray of float64, C order, or canonical csr_array, shape (n, d)
    p : float

    Attributes
    ----------
    powers : ndarray of int64, shape (n,)
        A raised row is what stands here times 2 to the power of this, which is floor(k p) where the largest absolute
        value of the row is in [2^k, 2^(k + 1)).
    """

    def __init__(self, rows: Rows, p: float) -> None:
        super().__init__(rows)
        values: Floats = rows if isinstance(rows, np.ndarray) else rows.data
        self.nnz = int(np.count_nonzero(values))
        self.signed = bool((values < 0).any())
        largest = largest_values(rows)
        k = np.frexp(largest)[1] - (largest > 0)
        self.powers = np.floor(k * p).astype(np.int64)
        there = self.powers[largest > 0]
        self.sizes = (int(there.min()), int(there.max())) if there.size else (0, 0)
        rest = np.exp2(k * p - self.powers)
        shift, factor = (-k[:, None], rest[:, None]) if self.dense else (np.repeat(a, self.counts) for a in (-k, rest))
        raised = np.ldexp(np.abs(values), shift)
        if p != 1.0:
            np.power(raised, p, out=raised)
            raised *= factor
        raised[raised < SMALLEST] = 0.0
        self._raised = raised
        self._panels: dict[bool, np.ndarray] = {}

    @property
    def counts(self) -> np.ndarray:
        """Number of entries of each CSR row."""
        return np.diff(self.csr.indptr)

    @property
    def n_padded(self) -> int:
        """Number of rows, in whole panels."""
        return -(-len(self) // PANEL) * PANEL

    @cached_property
    def entries(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Raised values, columns and row starts; column j is 2j for a positive value, 2j + 1 for a negative one."""
        if self.dense:
            row, column = np.nonzero(self.rows)
            negative = self.rows[row, column] < 0
            begin = np.searchsorted(row, np.arange(len(self) + 1))
            return self._raised[row, column], 2 * column + negative, begin
        columns = 2 * self.csr.indices.astype(np.int64) + (self.csr.data < 0)
        return self._raised, columns, self.csr.indptr.astype(np.int64)

    @cached_property
    def by_column(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Columns in use, values by column, the row of each value, and the start of each column."""
        values, columns, indptr = self.entries
        order = np.argsort(columns, kind="stable")
        used, begin = np.unique(columns[order], return_index=True)
        owner = np.repeat(np.arange(len(self)), np.diff(indptr))
        return used, values[order], owner[order], np.append(begin, order.size)

    @cached_property
    def norms_of_raised(self) -> Floats:
        """Sum of each row, added up in the order of its columns."""
        n, d = len(self), self.n_columns
        out = np.empty(n)
        row_sums(self._raised.reshape(-1), np.arange(n + 1) * d if self.dense else self.entries[2], out)
        return out

    def norms_at(self, power: int) -> Floats:
        """Return the sums of rows on a common scale, a power of two that is at least that of every row."""
        return self.norms_of_raised * self._shift(power)

    def scaled(self, values: np.ndarray, power: int, owner: np.ndarray | None = None) -> Floats:
        """Return values of :attr:`entries` (or by column) on a common scale."""
        if self.sizes == (power, power):
            return values
        shift = self._shift(power)
        scaled: Floats = values * (np.repeat(shift, np.diff(self.entries[2])) if owner is None else shift[owner])
        return scaled

    def panels(self, signed: bool, power: int) -> Floats:
        """Return rows on a common scale in panels of 16, shape (ceil(n / 16), d, 16), or 2 d with their negative parts.

        Without these the rows are what is positive of them.
        """
        if signed not in self._panels:
            self._panels[signed] = self._laid_out(signed)
        panels = self._panels[signed]
        if self.sizes == (power, power):
            return panels
        shift = np.ones(self.n_padded)
        shift[: len(self)] = self._shift(power)
        return panels * shift.reshape(-1, 1, PANEL)

    def _laid_out(self, signed: bool) -> Floats:
        n, d = len(self), self.n_columns
        wide = np.zeros((self.n_padded, d, 2 if signed else 1))
        rows: Rows = self.rows
        raised = self._raised
        if not self.dense:
            raised = as_dense(sp.csr_array((raised, self.csr.indices, self.csr.indptr), shape=rows.shape))
            rows = as_dense(rows)
        wide[:n, :, 0] = np.where(rows > 0, raised, 0.0) if self.signed else raised
        if signed:
            wide[:n, :, 1] = np.where(rows < 0, raised, 0.0)
        wide = wide.reshape(-1, PANEL, d * wide.shape[2])
        return np.ascontiguousarray(wide.transpose(0, 2, 1))

    def _shift(self, power: int) -> Floats:
        return np.ldexp(1.0, np.minimum(self.powers - power, 0))


def largest_values(rows: Rows) -> Floats:
    """Return the largest absolute value of every row."""
    if isinstance(rows, np.ndarray):
        return np.abs(rows).max(axis=1, initial=0.0)
    out = np.zeros(rows.shape[0])
    there = np.flatnonzero(np.diff(rows.indptr))
    if there.size:
        out[there] = np.maximum.reduceat(np.abs(rows.data), rows.indptr[there])
    return out
