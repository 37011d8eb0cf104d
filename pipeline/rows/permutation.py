"""A pseudo-random order of n rows that any process can evaluate anywhere, in no memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ikmap import seed_paths
from ikmap.arrays import Int64s, Words
from ikmap.seeds import generator

ROUNDS = 8
STEPS = ((np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)), (np.uint64(27), np.uint64(0x94D049BB133111EB)))
BLOCK = 1 << 15
"""Number of rows that are worked on at once: intermediate results stay near the processor."""
TABLE_BITS = 18
"""Number of bits of a half, at most, for which tables of what is mixed in are made: 16 MB."""


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
    return _walk(rows, n, seed, forward=True)


def row_in_shuffle(positions: Int64s, n: int, seed: int) -> Int64s:
    """Return the row at each position of the shuffle: the inverse of :func:`position_in_shuffle`."""
    return _walk(positions, n, seed, forward=False)


@dataclass(frozen=True, eq=False)
class _Network:
    """A Feistel network on numbers below n: each round mixes one half of the bits into the other.

    Attributes
    ----------
    half : int
        Number of bits of a half.
    keys : uint64 array (ROUNDS,)
    tables : int64 array (ROUNDS, 2^half), optional
        What each round mixes in for each value of a half: to look it up takes less time than to compute it for each
        row. None where halves have more values than that pays for.
    """

    half: int
    keys: Words
    tables: Int64s | None

    def run(self, values: Int64s, *, forward: bool) -> None:
        """Run some numbers through all rounds, in place."""
        left, right = values >> self.half, values & ((1 << self.half) - 1)
        mixed = np.empty_like(values)
        for k in range(ROUNDS) if forward else reversed(range(ROUNDS)):
            source, changed = (right, left) if forward else (left, right)
            if self.tables is None:
                mixed = _mixed(source, self.keys[k], self.half)
            else:
                np.take(self.tables[k], source, out=mixed, mode="clip")  # "raise" would go by way of a buffer
            changed ^= mixed
            left, right = right, left
        np.left_shift(left, self.half, out=values)
        values |= right


@lru_cache(maxsize=4)
def _network(n: int, seed: int) -> _Network:
    half = max(1, (max(n - 1, 1).bit_length() + 1) // 2)
    keys = generator(seed, seed_paths.PERMUTATION).integers(2**64, size=ROUNDS, dtype=np.uint64)
    if half > TABLE_BITS:
        return _Network(half, keys, None)
    return _Network(half, keys, np.stack([_mixed(np.arange(1 << half), key, half) for key in keys]))


def _mixed(values: Int64s, key: np.uint64, half: int) -> Int64s:
    """Return `half` bits for each value, by the steps of SplitMix64."""
    mixed = values.astype(np.uint64) ^ key
    for shift, factor in STEPS:
        mixed ^= mixed >> shift
        mixed *= factor
    mixed ^= mixed >> np.uint64(31)
    return (mixed & np.uint64((1 << half) - 1)).astype(np.int64)


def _walk(numbers: Int64s, n: int, seed: int, *, forward: bool) -> Int64s:
    network = _network(n, seed)
    results = values = np.array(numbers, dtype=np.int64)
    places: Int64s | None = None  # places of the values in the result; None: all
    while values.size:
        for begin in range(0, values.size, BLOCK):
            network.run(values[begin : begin + BLOCK], forward=forward)
        if places is not None:
            results[places] = values
        outside = np.flatnonzero(values >= n)
        places = outside if places is None else places[outside]
        values = values[outside]
    return results
