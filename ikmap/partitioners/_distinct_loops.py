"""Compiled loops that hash rows."""

from __future__ import annotations

import numba
import numpy as np

from ikmap.compiled import compiled


@compiled(
    {
        "anne dense": "f8[:, ::1], u8[::1]",
    }
)
def hash_dense_rows(rows, out):
    """64-bit hash of each row's values."""
    bits = rows.view(np.uint64)
    for r in range(rows.shape[0]):
        h = np.uint64(0x9E3779B97F4A7C15)
        for j in range(rows.shape[1]):
            h = _mix(h ^ bits[r, j])
        out[r] = h


@compiled(
    {
        "anne sparse": "f8[::1], i4[::1], i8[::1], u8[::1]",
    }
)
def hash_csr_rows(data, indices, indptr, out):
    """64-bit hash of each sparse row's columns and values."""
    bits = data.view(np.uint64)
    for r in range(out.size):
        h = np.uint64(0x9E3779B97F4A7C15)
        for a in range(indptr[r], indptr[r + 1]):
            h = _mix(_mix(h ^ bits[a]) ^ np.uint64(indices[a]))
        out[r] = h


@numba.njit(inline="always")
def _mix(h):
    h ^= h >> np.uint64(32)
    h *= np.uint64(0xD6E8FEB86659FD93)
    h ^= h >> np.uint64(29)
    h *= np.uint64(0x9FB21C651E98DF25)
    return h ^ (h >> np.uint64(32))
