"""Random binning: grids of random pitch and shift, whose cells are the bins with training rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ikmap._threads import for_each_block
from ikmap.arrays import Floats
from ikmap.cells import Cells
from ikmap.partitioners._binning_loops import bins, numbers_of
from ikmap.partitioners.base import Partitions
from ikmap.rows import Rows, as_dense, as_rows
from ikmap.seeds import generator

BLOCK = 4096


@dataclass(frozen=True, eq=False)
class BinningPartitions(Partitions):
    """Random grids, in which two rows share a bin with probability exp(-lifetime |x - y|_1).

    Parameters
    ----------
    pitches, shifts : ndarray of float64, shape (t, d)
        Width of the bins of a grid in each column, and where one of them begins.
    words : ndarray of uint64, shape (offsets[t],)
        A word for each bin with training rows, ascending within each grid.
    offsets_ : ndarray of int64, shape (t + 1,)
        Where the bins of each grid begin.

    Notes
    -----
    Source: Rahimi and Recht (2007), section 4; algorithms.md, section 13.2. A bin is known by 64 bits made of its d
    numbers: that any two of a million bins have the same has a probability below 1e-7.
    """

    kind: ClassVar[str] = "binning"

    pitches: Floats
    shifts: Floats
    words: np.ndarray
    offsets_: np.ndarray

    @property
    def n_partitions(self) -> int:
        return int(self.pitches.shape[0])

    @property
    def offsets(self) -> np.ndarray:
        return self.offsets_

    def part(self, start: int, stop: int) -> BinningPartitions:
        """Return the grids ``start .. stop - 1``."""
        offsets = self.offsets_[start : stop + 1]
        words = self.words[offsets[0] : offsets[-1]]
        return BinningPartitions(self.pitches[start:stop], self.shifts[start:stop], words, offsets - offsets[0])

    def cells(self, X: Rows, n_threads: int | None = None) -> Cells:
        """Map points to bins, -1 where no training row was in the same one.

        Raises
        ------
        ValueError
            X has another number of columns.
        """
        d = self.pitches.shape[1]
        if X.shape[1] != d:
            raise ValueError(f"X has {X.shape[1]} columns, the model was fitted on {d}")
        n = X.shape[0]
        codes = np.empty((n, self.n_partitions), dtype=np.int32)

        def work(start: int, stop: int) -> None:
            rows = np.ascontiguousarray(as_dense(as_rows(X[start:stop])))
            words, found = np.empty(stop - start, np.uint64), np.empty(stop - start, np.int32)
            for i in range(self.n_partitions):
                bins(rows, self.pitches[i], self.shifts[i], words)
                numbers_of(words, self.words[self.offsets_[i] : self.offsets_[i + 1]], found)
                codes[start:stop, i] = found

        for_each_block(work, n, BLOCK, n_threads)
        return Cells(codes, self.offsets)


def fit_binning(X: Rows, t: int, lifetime: float, seed: int, *, n_threads: int | None = None) -> BinningPartitions:
    """Draw grids, and find the bins that rows lie in.

    Parameters
    ----------
    X : float64 ndarray or csr_array, shape (n, d), n >= 1
    t : int
        Number of grids.
    lifetime : float
        Inverse width of the Laplace kernel, > 0, in one over the unit of the columns. The grids of one seed are those
        of any other lifetime, stretched.
    seed : int
    n_threads : int, optional
        At most this many threads, a grid each; default: all usable cores.

    Raises
    ------
    ValueError
        There are no rows, or no grids, or the lifetime is not above 0 and finite.
    """
    if X.shape[0] == 0 or t < 1 or not 0.0 < lifetime < np.inf:
        raise ValueError(f"expected rows, grids and a lifetime > 0, got {X.shape[0]} rows, {t} grids, {lifetime!r}")
    rows = np.ascontiguousarray(as_dense(X))
    n, d = rows.shape
    pitches, shifts = np.empty((t, d)), np.empty((t, d))
    known: list[np.ndarray] = [np.empty(0, np.uint64)] * t

    def work(start: int, stop: int) -> None:
        words = np.empty(n, dtype=np.uint64)
        for i in range(start, stop):
            rng = generator(seed, i)
            pitches[i] = rng.gamma(2.0, size=d) / lifetime
            shifts[i] = rng.random(d) * pitches[i]
            bins(rows, pitches[i], shifts[i], words)
            known[i] = np.unique(words)

    for_each_block(work, t, 1, n_threads)
    offsets = np.cumsum([0, *(of.size for of in known)], dtype=np.int64)
    return BinningPartitions(pitches, shifts, np.concatenate(known), offsets)
