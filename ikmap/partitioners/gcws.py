"""GCWS partitions: the cell of a row is a code of its weighted minwise hash."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from ikmap import seed_paths
from ikmap._threads import for_each_block, usable_cores
from ikmap.cells import Cells
from ikmap.partitioners._gcws_draws_loops import LANES, draw, logarithms
from ikmap.partitioners._gcws_loops import NEW, cut, hash_rows, take_csr, take_dense
from ikmap.partitioners.base import Partitions
from ikmap.rows import Rows, as_rows, csr_arrays
from ikmap.seeds import generator

LEAST_VALUES, MOST_VALUES = 1 << 16, 1 << 20
"""Non-zeros of a block of rows: few enough for the cache; but of many columns more, as each block draws anew."""
VALUES_OF_A_COLUMN = 64
TABLE_BYTES, COORDINATE_BYTES = 1 << 31, 20 * LANES
"""Bytes that the tables of draws of all threads may take together, and those of one coordinate."""


@dataclass(frozen=True, eq=False)
class GCWSPartitions(Partitions):
    """t hashes, in which two rows share a code with the probability of their pGMM kernel to the power gamma.

    With u~ the values of a row, positive ones and absolute values of negative ones as coordinates of their own, hash j
    takes the coordinate i with the smallest ln c - r (tau_i + 1 - beta), where tau_i = floor(p ln u~_i / r + beta) and
    r, c ~ Gamma(2, 1), beta ~ U(0, 1) are drawn for j and i. A row of zeros has no cell (-1).

    Parameters
    ----------
    seed : int
        Draws of hash j and coordinate i come from (seed, j, i) alone: no table of them is kept, and they are the same
        for all p, b and numbers of hashes, columns and rows.
    t : int
        Number of hashes.
    p : float
        Exponent of the values, in (0, 1e6].
    b : int
        Bits of a code, 1 to 16.
    gamma : int
        So many independent hashes make one code.
    full : bool
        Codes are made of i and tau of the winner, of i alone otherwise.
    n_features : int

    Notes
    -----
    Arithmetic is float32 with fused multiply-add, after logarithms in float64; of coordinates with the same value of
    the smallest, those with |u| = 1 come first, then those of lower number. Coordinates and tau are mixed before they
    are cut to b bits, by other random bits for each hash, so that no bit of a code is lost where all values are
    positive. Source: Li, Tunable GMM kernels, sections 4 and 5; algorithms.md, 10.3 and 10.4.
    """

    kind: ClassVar[str] = "gcws"

    seed: int
    t: int
    p: float
    b: int
    gamma: int
    full: bool
    n_features: int

    @property
    def n_partitions(self) -> int:
        return self.t

    @property
    def offsets(self) -> np.ndarray:
        return np.arange(self.t + 1, dtype=np.int64) << self.b

    @cached_property
    def _keys(self) -> np.ndarray:
        """Keys of the hashes of each code, uint64 of shape (gamma, t), with t rounded up to LANES."""
        width = -(-self.t // LANES) * LANES
        keys = [
            generator(self.seed, seed_paths.GCWS, g).integers(2**64, size=width, dtype=np.uint64)
            for g in range(self.gamma)
        ]
        return np.array(keys)

    def cells(self, X: Rows, n_threads: int | None = None) -> Cells:
        """Map points to cells.

        Parameters
        ----------
        X : float64 ndarray or csr_array, shape (n, d)
        n_threads : int, optional
            At most this many threads; default: all usable cores.

        Returns
        -------
        Cells
            int32 codes of shape (n, t), each in [0, 2^b); -1 in rows without a value.
        """
        n, d = X.shape
        if d != self.n_features:
            raise ValueError(f"X has {d} columns, the model was fitted on {self.n_features}")
        codes = np.empty((n, self.t), dtype=np.int32)
        threads = n_threads or usable_cores()
        values = X.size if isinstance(X, np.ndarray) else X.nnz
        wanted = min(max(VALUES_OF_A_COLUMN * d, LEAST_VALUES), MOST_VALUES)
        coordinates = TABLE_BYTES // (threads * COORDINATE_BYTES)
        if 2 * d > coordinates:  # a block has no more of them than values
            wanted = min(wanted, coordinates)
        at_once = min(max(1, n * wanted // max(values, 1)), max(64, -(-n // threads)))

        def work(start: int, stop: int) -> None:
            self._hash(as_rows(X[start:stop]), codes[start:stop])

        for_each_block(work, n, at_once, n_threads)
        return Cells(codes, self.offsets)

    def _hash(self, X: Rows, codes: np.ndarray) -> None:
        slots, sizes, ends, coordinates = non_zeros(X)
        logs = np.empty(sizes.size)
        logarithms(sizes, logs)
        x = (self.p * logs).astype(np.float32)
        tables = np.empty((coordinates.size, 4, LANES), np.float32)
        labels = np.empty((coordinates.size, LANES), np.uint32)
        words = np.empty((codes.shape[0], LANES), np.uint32)
        for start in range(0, self.t, LANES):
            words[:] = 0
            for keys in self._keys[:, start : start + LANES]:
                draw(np.ascontiguousarray(keys), coordinates, tables, labels)
                hash_rows(tables, labels, slots, x, ends, self.full, words)
            cut(words, ends, np.uint32(32 - self.b), codes[:, start : start + LANES])


def non_zeros(X: Rows) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the values of rows for loops: slots, absolute values, row starts, and the coordinate of each slot."""
    n, d = X.shape
    values = int(np.count_nonzero(X)) if isinstance(X, np.ndarray) else int(X.nnz)
    most = min(values, 2 * d) + 1
    bits = max(4, (2 * most).bit_length())
    places, found = np.full(1 << bits, NEW, np.int32), np.empty(most, np.uint64)
    slots, sizes, ends = np.empty(values, np.int32), np.empty(values), np.empty((n + 1, 2), np.int64)
    where = (places, found, np.uint64(64 - bits), slots, sizes, ends)
    if isinstance(X, np.ndarray):
        used = take_dense(X, *where)
    else:
        rows = X if X.has_sorted_indices else X.sorted_indices()
        used = take_csr(*csr_arrays(rows), *where)
    return slots, sizes, ends, found[:used].copy()
