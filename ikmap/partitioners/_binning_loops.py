"""Compiled loops of random binning: the bin of a row in a grid, as one word, and its number."""

import math

import numpy as np

from ikmap.compiled import compiled
from ikmap.partitioners._gcws_draws_loops import STEP, mixed


@compiled({"binning": "f8[:, ::1], f8[::1], f8[::1], u8[::1]"}, error_model="numpy")
def bins(X, pitch, shift, words):
    """A word for each row, made of the numbers of its bin: ``floor((x_d - shift_d) / pitch_d)`` in each column."""
    for i in range(X.shape[0]):
        word = np.uint64(0)
        for d in range(X.shape[1]):
            at = math.floor((X[i, d] - shift[d]) / pitch[d])
            word = mixed((word ^ np.uint64(np.int64(at))) + STEP)
        words[i] = word


@compiled({"binning": "u8[::1], u8[::1], i4[::1]"})
def numbers_of(words, known, found):
    """Find the place of each word among some that ascend; -1 if it is none of them."""
    for i in range(words.size):
        low, high = 0, known.size
        while low < high:
            middle = (low + high) // 2
            if known[middle] < words[i]:
                low = middle + 1
            else:
                high = middle
        found[i] = low if low < known.size and known[low] == words[i] else -1
