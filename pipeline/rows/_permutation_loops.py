"""Compiled loops of the seeded shuffle: a Feistel network, followed from each number until it lands below n."""

import numpy as np

from ikmap.compiled import compiled

BLOCK = 1 << 11
"""Numbers that go through the network together: they stay in the processor's nearest cache."""


@compiled(inline="always")
def mixed(value, key, mask):
    """Return the bits of `mask` of a value that is mixed with a key by the last steps of SplitMix64."""
    word = value ^ key
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (word ^ (word >> np.uint64(31))) & mask


@compiled({"rows": "u8[::1], u8, u4[:, ::1]"})
def tabulate(keys, mask, tables):
    """Fill in what each round mixes in for each value of a half."""
    for k in range(tables.shape[0]):
        for value in range(tables.shape[1]):
            tables[k, value] = mixed(np.uint64(value), keys[k], mask)


@compiled({"rows": "u8[::1], u8, u8, u8[::1], u4[:, ::1], b1"})
def walk(numbers, n, half, keys, tables, exchanged):
    """Run each number through all rounds, again and again until it is below n; the results replace the numbers.

    Parameters
    ----------
    numbers : uint64 array
        Numbers below n.
    half : int
        Number of bits of a half.
    keys : uint64 array (rounds,)
        Of an even number of rounds.
    tables : uint32 array (rounds, 2^half)
        What each round mixes in for each value of a half. With no columns it is computed for each number.
    exchanged : bool
        Whether the halves change places before the rounds and after them: with the rounds in the opposite order, that
        is the way back.
    """
    mask = (np.uint64(1) << half) - np.uint64(1)
    known = tables.shape[1] > 0
    outside = np.empty(BLOCK, dtype=np.int64)
    one, other = np.empty(BLOCK, dtype=np.uint64), np.empty(BLOCK, dtype=np.uint64)
    for begin in range(0, numbers.size, BLOCK):
        block = numbers[begin : begin + BLOCK]
        n_outside = block.size
        for j in range(n_outside):
            outside[j] = j
        # All numbers of the block take a round together: a number's rounds wait for each other, those of many do not.
        while n_outside:
            for j in range(n_outside):
                left, right = block[outside[j]] >> half, block[outside[j]] & mask
                one[j], other[j] = (right, left) if exchanged else (left, right)
            for k in range(0, keys.size, 2):  # a round changes a half and exchanges both, so that two leave them there
                if known:
                    for j in range(n_outside):
                        one[j] ^= np.uint64(tables[k, other[j]])
                    for j in range(n_outside):
                        other[j] ^= np.uint64(tables[k + 1, one[j]])
                else:
                    for j in range(n_outside):
                        one[j] ^= mixed(other[j], keys[k], mask)
                    for j in range(n_outside):
                        other[j] ^= mixed(one[j], keys[k + 1], mask)
            left_over = 0
            for j in range(n_outside):
                i = outside[j]
                block[i] = (other[j] << half | one[j]) if exchanged else (one[j] << half | other[j])
                outside[left_over] = i
                left_over += block[i] >= n
            n_outside = left_over
