"""Small sets of points with every trait that has ever broken a search: ties, duplicates, extremes, odd layouts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from ikmap.rows import as_csr, as_dense

N = 60


def _data() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    normal = rng.normal(size=(N, 4))
    grid = rng.integers(0, 3, size=(N, 3)).astype(float)
    sparse = rng.random((N, 40)) * (rng.random((N, 40)) < 0.1)
    twins = np.repeat(rng.normal(size=(N // 2, 5)), 2, axis=0)
    outlier = normal.copy()
    outlier[3] *= 1e6
    # Squares that float32 holds with few bits, or with all unless it flushes parts of sums.
    tiny = normal[:26] * np.where(np.arange(26) % 2, 1e-22, 3e-19)[:, None]
    return {
        "continuous": normal,
        "integer grid": grid,
        "integers of both signs": rng.integers(-50, 50, size=(N, 6)).astype(float),
        "integers too large for float32": rng.integers(-4000, 4000, size=(N, 3)).astype(float) * 4096 + 1,
        "zeros and ones": (rng.random((N, 12)) < 0.3).astype(float),
        "duplicated rows": normal[rng.integers(0, 4, size=N)],
        "one point many times": np.tile(normal[:1], (N, 1)),
        "offset 1e9, spread 1e-3": 1e9 + 1e-3 * normal,
        "offset 1e9, spread at rounding": 1e9 + 1e-7 * rng.integers(0, 5, size=(N, 2)),
        "far outlier": outlier,
        "outlier beyond float64's digits": np.r_[normal[:-1], 1e20 * normal[-1:]],
        "near ties": twins + 1e-12 * rng.normal(size=twins.shape),
        "ties to the last bit": np.nextafter(twins, np.inf * rng.choice([-1.0, 1.0], size=twins.shape)),
        "constant columns": np.c_[np.full(N, 3.3), normal[:, 0], np.full(N, -1e7)],
        "one column": normal[:, :1],
        "one column of few values": grid[:, :1],
        "zero rows": np.where(rng.random((N, 1)) < 0.5, 0.0, normal),
        "negative zeros": np.where(grid == 0, -0.0, grid - 1),
        "sparse": sparse,
        "sparse zeros and ones": (sparse > 0).astype(float),
        "columns of different size": normal * 10.0 ** np.array([-8, 0, 8, 3]),
        "beyond float32": 1e30 * normal,
        "below float32": 1e-30 * normal,
        "denormal in float32": 1e-22 * normal,
        "tiny beside units": np.r_[np.eye(4), -np.eye(4), tiny, -tiny],
        "squares overflow": 1e200 * normal,
        "squares underflow": 1e-161 * normal,
        "differences overflow": 1e307 * normal,
        "denormal": 5e-324 * rng.integers(0, 9, size=(N, 2)),
    }


DATA = _data()
LAYOUTS: dict[str, Callable[[Any], Any]] = {"dense": as_dense, "csr": as_csr}


def queries_of(X: np.ndarray) -> np.ndarray:
    """The points, points beside them, the origin, and points far away, also in one direction only."""
    with np.errstate(over="ignore"):
        extremes = np.array([1.0, -1e3, 1e9, 1e19, -1e40, 1e160])[:, None] * np.ones(X.shape[1])
    one_column = -1e40 * np.eye(1, X.shape[1])
    return np.r_[X, np.nextafter(X, np.inf), X[::-1] / 2 + X / 2, np.zeros((1, X.shape[1])), extremes, one_column]


def unusual_forms(X: np.ndarray, directory: Path) -> dict[str, Any]:
    """The same rows as arrays and matrices that a user might hold."""
    n, d = X.shape
    padded = np.zeros((2 * n, 2 * d))
    padded[::2, ::2] = X
    file = directory / "rows.npy"
    np.save(file, X)
    frozen = X.copy()
    frozen.flags.writeable = False
    csr = sp.csr_array(X)
    backwards = csr.copy()
    for r in range(n):
        row = slice(backwards.indptr[r], backwards.indptr[r + 1])
        backwards.indices[row] = backwards.indices[row][::-1].copy()
        backwards.data[row] = backwards.data[row][::-1].copy()
    backwards.has_sorted_indices = False
    all_stored = sp.csr_array((X.ravel().copy(), np.tile(np.arange(d), n), np.arange(0, n * d + 1, d)), shape=(n, d))
    halves = sp.csr_array((np.repeat(csr.data / 2, 2), np.repeat(csr.indices, 2), 2 * csr.indptr), shape=(n, d))
    long = sp.csr_array(csr)
    long.indices, long.indptr = csr.indices.astype(np.int64), csr.indptr.astype(np.int64)
    read_only = csr.copy()
    for part in (read_only.data, read_only.indices, read_only.indptr):
        part.flags.writeable = False
    return {
        "Fortran order": np.asfortranarray(X),
        "every other row and column": padded[::2, ::2],
        "memory map": np.load(file, mmap_mode="r"),
        "read-only": frozen,
        "unsorted columns": backwards,
        "explicit zeros": all_stored,
        "entries in two parts": halves,
        "64-bit indices": long,
        "csr_matrix": sp.csr_matrix(csr),
        "read-only csr": read_only,
    }
