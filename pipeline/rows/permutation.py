"""A pseudo-random order of n rows that any process can evaluate anywhere, in no memory."""

from __future__ import annotations

import numpy as np

from ikmap import seed_paths
from ikmap.seeds import generator

ROUNDS = 8
STEPS = ((np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)), (np.uint64(27), np.uint64(0x94D049BB133111EB)))
BLOCK = 1 << 15
"""Number of rows that are worked on at once: intermediate results stay near the processor."""


def position_in_shuffle(rows: np.ndarray, n: int, seed: int) -> np.ndarray:
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
    return _walk(rows, n, _keys(seed), forward=True)


def row_in_shuffle(positions: np.ndarray, n: int, seed: int) -> np.ndarray:
    """Return the row at each position of the shuffle: the inverse of :func:`position_in_shuffle`."""
    return _walk(positions, n, _keys(seed)[::-1], forward=False)


def _keys(seed: int) -> np.ndarray:
    return generator(seed, seed_paths.PERMUTATION).integers(2**64, size=ROUNDS, dtype=np.uint64)


def _walk(numbers: np.ndarray, n: int, keys: np.ndarray, *, forward: bool) -> np.ndarray:
    half = max(1, (max(n - 1, 1).bit_length() + 1) // 2)
    results = values = np.asarray(numbers, dtype=np.uint64).copy()
    places: np.ndarray | None = None  # places of the values in the result; None: all
    while values.size:
        for begin in range(0, values.size, BLOCK):
            _network(values[begin : begin + BLOCK], np.uint64(half), keys, forward)
        if places is not None:
            results[places] = values
        outside = np.flatnonzero(values >= np.uint64(n))
        places = outside if places is None else places[outside]
        values = values[outside]
    return results.astype(np.int64)


def _network(values: np.ndarray, half: np.uint64, keys: np.ndarray, forward: bool) -> None:
    """Run some numbers through all rounds, in place: SplitMix64's steps mix one half into the other."""
    mask = (np.uint64(1) << half) - np.uint64(1)
    left, right = values >> half, values & mask
    mixed, shifted = np.empty_like(values), np.empty_like(values)
    for key in keys:
        np.bitwise_xor(right if forward else left, key, out=mixed)
        for shift, factor in STEPS:
            np.right_shift(mixed, shift, out=shifted)
            mixed ^= shifted
            mixed *= factor
        np.right_shift(mixed, np.uint64(31), out=shifted)
        mixed ^= shifted
        mixed &= mask
        changed = left if forward else right
        changed ^= mixed
        left, right = right, left
    np.left_shift(left, half, out=values)
    values |= right
