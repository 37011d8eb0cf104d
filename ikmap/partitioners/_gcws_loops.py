"""Compiled hashing of GCWS: non-zeros of rows, and the coordinate that each hash takes of them."""

import numpy as np

from ikmap._simd import LANES as HALF
from ikmap._simd import below, choose, floor, fused, load, splat, store
from ikmap.compiled import compiled
from ikmap.partitioners._gcws_draws_loops import LANES

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
NEW = -1


@compiled
def slot_of(places, found, n_found, coordinate, shift):
    """The slot of a coordinate, the next one if it is new: its place in a table that is open to both."""
    k = (np.uint64(coordinate) * GOLDEN) >> shift
    last = np.uint64(places.size - 1)
    while places[k] != NEW and found[places[k]] != np.uint64(coordinate):
        k = (k + np.uint64(1)) & last
    if places[k] == NEW:
        places[k] = n_found
        found[n_found] = coordinate
    return places[k]


@compiled
def put_after(slots, sizes, n, more_slots, more_sizes, n_more):
    """Append the first n_more of some entries to the first n; returns how many there are."""
    for k in range(n_more):
        slots[n + k], sizes[n + k] = more_slots[k], more_sizes[k]
    return n + n_more


@compiled({"gcws dense": "f8[:, ::1], i4[::1], u8[::1], u8, i4[::1], f8[::1], i8[:, ::1]"})
def take_dense(X, places, found, shift, slots, sizes, ends):
    """Non-zeros of dense rows: slots and absolute values, of each row those of absolute value 1 first.

    ends[i]: where row i begins, and where its other values do; at last, where all end. found: coordinates by slot, 2 i
    for a positive value of column i, 2 i + 1 for a negative one. Returns how many there are.
    """
    n, n_found = 0, 0
    other_slots, other_sizes = np.empty(X.shape[1], np.int32), np.empty(X.shape[1])
    for i in range(X.shape[0]):
        ends[i, 0], others = n, 0
        for column in range(X.shape[1]):
            u = X[i, column]
            if u != 0.0:
                slot = slot_of(places, found, n_found, 2 * column + (u < 0.0), shift)
                n_found = max(n_found, slot + 1)
                if abs(u) == 1.0:
                    slots[n], sizes[n] = slot, 1.0
                    n += 1
                else:
                    other_slots[others], other_sizes[others] = slot, abs(u)
                    others += 1
        ends[i, 1] = n
        n = put_after(slots, sizes, n, other_slots, other_sizes, others)
    ends[X.shape[0], 0] = n
    return n_found


@compiled({"gcws sparse": "f8[::1], i4[::1], i8[::1], i4[::1], u8[::1], u8, i4[::1], f8[::1], i8[:, ::1]"})
def take_csr(data, indices, indptr, places, found, shift, slots, sizes, ends):
    """The same of sparse rows, whose columns ascend."""
    n, n_found, longest = 0, 0, 0
    for i in range(indptr.size - 1):
        longest = max(longest, indptr[i + 1] - indptr[i])
    other_slots, other_sizes = np.empty(longest, np.int32), np.empty(longest)
    for i in range(indptr.size - 1):
        ends[i, 0], others = n, 0
        for k in range(indptr[i], indptr[i + 1]):
            u = data[k]
            if u != 0.0:
                slot = slot_of(places, found, n_found, 2 * np.int64(indices[k]) + (u < 0.0), shift)
                n_found = max(n_found, slot + 1)
                if abs(u) == 1.0:
                    slots[n], sizes[n] = slot, 1.0
                    n += 1
                else:
                    other_slots[others], other_sizes[others] = slot, abs(u)
                    others += 1
        ends[i, 1] = n
        n = put_after(slots, sizes, n, other_slots, other_sizes, others)
    ends[indptr.size - 1, 0] = n
    return n_found


@compiled
def stirred(word):
    """32 bits in which every one depends on every one of others."""
    word = np.uint32((word ^ (word >> np.uint32(16))) * np.uint32(0x21F0AAAD))
    word = np.uint32((word ^ (word >> np.uint32(15))) * np.uint32(0x735A2D97))
    return np.uint32(word ^ (word >> np.uint32(15)))


@compiled({"gcws": "f4[:, :, ::1], u4[:, ::1], i4[::1], f4[::1], i8[:, ::1], b1, u4[:, ::1]"})
def hash_rows(tables, labels, slots, x, ends, full, out):
    """Fold LANES more hashes of every row into out, shape (rows, LANES).

    Of the coordinates of a row, a hash takes the one with the smallest a = ln c - r (tau + 1 - beta), where
    tau = floor(x / r + beta) and x = p ln u; the first one of equals. Folded in are the label of that coordinate and,
    if full, tau. Where x = 0, tau is 0 too, and a is the fourth table.
    """
    width = np.uint64(4 * LANES)
    half = np.uint64(HALF)
    beta_at, r_at, a_at = np.uint64(LANES), np.uint64(2 * LANES), np.uint64(3 * LANES)
    tau = np.empty(LANES, np.float32)
    word = np.empty(LANES, np.uint32)
    bits = tau.view(np.uint32)
    for i in range(ends.shape[0] - 1):
        low = high = splat(np.float32(np.inf))
        tau_low = tau_high = label_low = label_high = splat(np.float32(0.0))
        for k in range(ends[i, 0], ends[i, 1]):
            at = np.uint64(slots[k]) * width + a_at
            of = np.uint64(slots[k]) * np.uint64(LANES)
            a = load(tables, at)
            less = below(a, low)
            low = choose(less, a, low)
            label_low = choose(less, load(labels, of), label_low)
            a = load(tables, at + half)
            less = below(a, high)
            high = choose(less, a, high)
            label_high = choose(less, load(labels, of + half), label_high)
        for k in range(ends[i, 1], ends[i + 1, 0]):
            at = np.uint64(slots[k]) * width
            of = np.uint64(slots[k]) * np.uint64(LANES)
            value = splat(x[k])
            t = floor(fused(value, load(tables, at), load(tables, at + beta_at)))
            a = fused(load(tables, at + r_at), t, load(tables, at + a_at))
            less = below(a, low)
            low = choose(less, a, low)
            label_low = choose(less, load(labels, of), label_low)
            if full:
                tau_low = choose(less, t, tau_low)
            at += half
            t = floor(fused(value, load(tables, at), load(tables, at + beta_at)))
            a = fused(load(tables, at + r_at), t, load(tables, at + a_at))
            less = below(a, high)
            high = choose(less, a, high)
            label_high = choose(less, load(labels, of + half), label_high)
            if full:
                tau_high = choose(less, t, tau_high)
        store(word, np.uint64(0), label_low)
        store(word, half, label_high)
        if full:
            store(tau, np.uint64(0), tau_low)
            store(tau, half, tau_high)
            for j in range(LANES):
                # Adding 0 turns -0 into 0.
                tau[j] += np.float32(0.0)
            for j in range(LANES):
                word[j] = stirred(word[j] ^ stirred(bits[j]))
        for j in range(LANES):
            out[i, j] = stirred(out[i, j]) ^ word[j]


@compiled({"gcws": "u4[:, ::1], i8[:, ::1], u4, i4[:, :]"})
def cut(words, ends, shift, codes):
    """codes = the upper bits of the words; -1 in rows without a value."""
    n, width = codes.shape
    for i in range(n):
        if ends[i, 0] == ends[i + 1, 0]:
            for j in range(width):
                codes[i, j] = -1
        else:
            for j in range(width):
                codes[i, j] = words[i, j] >> shift
