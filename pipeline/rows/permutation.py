"""A pseudo-random order of n rows that any process can evaluate anywhere, in no memory."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ikmap import seed_paths
from ikmap.arrays import Array, Int64s, Words
from ikmap.seeds import generator
from pipeline.rows._permutation_loops import tabulate, walk

ROUNDS = 8
TABLE_BITS = 18
"""Number of bits of a half, at most, for which tables of what is mixed in are made (8 MB): to look it up takes less
time than to compute it for each row."""


def position_in_shuffle(rows: Int64s, n: int, seed: int) -> Int64s:
    """Return the position of each row in a seeded shuffle of ``range(n)``.

    A Feistel network on the smallest even number of bits that holds n, followed until it lands below n: a
    bijection of ``range(n)`` for every seed.

    Parameters
    ----------
    rows : ndarray of int64
        Row numbers in ``range(n)``.

    Returns
    -------
    ndarray of int64
    """
    return _walked(rows, n, seed, forward=True)


def row_in_shuffle(positions: Int64s, n: int, seed: int) -> Int64s:
    """Return the row at each position of the shuffle: the inverse of :func:`position_in_shuffle`."""
    return _walked(positions, n, seed, forward=False)


def _walked(numbers: Int64s, n: int, seed: int, *, forward: bool) -> Int64s:
    half, keys, tables = _network(n, seed, forward=forward)
    walked = np.array(numbers, dtype=np.uint64)
    walk(walked, np.uint64(n), np.uint64(half), keys, tables, not forward)
    return walked.view(np.int64)


@lru_cache(maxsize=4)
def _network(n: int, seed: int, *, forward: bool) -> tuple[int, Words, Array]:
    """Return the bits of a half, the key of each round, and tables of what each round mixes in, or empty ones."""
    half = max(1, (max(n - 1, 1).bit_length() + 1) // 2)
    keys = generator(seed, seed_paths.PERMUTATION).integers(2**64, size=ROUNDS, dtype=np.uint64)
    keys = keys if forward else np.ascontiguousarray(keys[::-1])
    tables = np.zeros((ROUNDS, 1 << half if half <= TABLE_BITS else 0), dtype=np.uint32)
    tabulate(keys, np.uint64((1 << half) - 1), tables)
    return half, keys, tables
