"""A seeded shuffle by the definition of its Feistel network, one row at a time, in Python's own integers."""

from __future__ import annotations

from ikmap import seed_paths
from ikmap.seeds import generator
from pipeline.rows.permutation import ROUNDS

WORD = (1 << 64) - 1


def position(row: int, n: int, seed: int) -> int:
    """Position of a row in the shuffle of ``range(n)``."""
    half = max(1, (max(n - 1, 1).bit_length() + 1) // 2)
    keys = generator(seed, seed_paths.PERMUTATION).integers(2**64, size=ROUNDS, dtype="uint64").tolist()
    while True:
        left, right = row >> half, row & ((1 << half) - 1)
        for key in keys:
            left, right = right, left ^ splitmix(right ^ key) & ((1 << half) - 1)
        row = left << half | right
        if row < n:
            return row


def splitmix(value: int) -> int:
    """The last steps of SplitMix64."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        value = (value ^ value >> shift) * factor & WORD
    return value ^ value >> 31
