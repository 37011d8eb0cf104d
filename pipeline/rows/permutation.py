"""A pseudo-random order of n rows that any process can evaluate anywhere, in no memory."""

from __future__ import annotations

import numpy as np

from ikmap.seeds import generator

ROUNDS = 8
STREAM = 2_000_001
"""Seed path of the keys, apart from those of partitionings (their numbers)."""


def position_in_shuffle(rows: np.ndarray, n: int, seed: int) -> np.ndarray:
    """Position of each row in a seeded shuffle of ``range(n)``.

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
    return _walk(rows, n, _keys(seed), forward=True)


def row_in_shuffle(positions: np.ndarray, n: int, seed: int) -> np.ndarray:
    """Row at each position of the shuffle: the inverse of :func:`position_in_shuffle`."""
    return _walk(positions, n, _keys(seed)[::-1], forward=False)


def _keys(seed: int) -> np.ndarray:
    return generator(seed, STREAM).integers(2**64, size=ROUNDS, dtype=np.uint64)


def _walk(numbers: np.ndarray, n: int, keys: np.ndarray, *, forward: bool) -> np.ndarray:
    half = max(1, (max(n - 1, 1).bit_length() + 1) // 2)
    mask = np.uint64((1 << half) - 1)
    found = np.asarray(numbers, dtype=np.uint64).copy()
    todo = np.arange(found.size)
    while todo.size:
        left, right = found[todo] >> np.uint64(half), found[todo] & mask
        for key in keys:
            if forward:
                left, right = right, left ^ (_scramble(right ^ key) & mask)
            else:
                left, right = right ^ (_scramble(left ^ key) & mask), left
        found[todo] = left << np.uint64(half) | right
        todo = todo[found[todo] >= n]
    return found.astype(np.int64)


def _scramble(x: np.ndarray) -> np.ndarray:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
