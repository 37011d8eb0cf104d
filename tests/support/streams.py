"""Streams of rows with classes for tests of online learners and kernel machines."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from ikmap.cells import Cells

LAYOUTS: dict[str, Callable[[np.ndarray], Any]] = {"dense": np.asarray, "csr": sp.csr_array}


def stream(kind: str, n: int, d: int = 6, n_classes: int = 2, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Dense rows ("any": of all values, "gaps": many zeros, "bits": zeros and ones), classes that depend on them."""
    rng = np.random.default_rng(seed)
    there = rng.random((n, d)) < 0.4
    X = {"any": rng.random((n, d)), "gaps": rng.random((n, d)) * there, "bits": there.astype(float)}[kind]
    score = X @ np.random.default_rng(99).normal(size=d) + 0.2 * rng.normal(size=n)
    edges = np.quantile(score, np.arange(1, n_classes) / n_classes) if n else np.zeros(n_classes - 1)
    return X, np.searchsorted(edges, score).astype(np.int32)


def cell_stream(n: int, t: int = 13, psi: int = 6, n_classes: int = 2, seed: int = 0) -> tuple[Cells, np.ndarray]:
    """Cells with a class that depends on some of them, with noise."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, psi, (n, t)).astype(np.int32)
    y = (codes[:, : t // 2].sum(axis=1) + rng.integers(0, psi, n)) % (5 * n_classes) // 5
    return Cells(codes, np.arange(t + 1) * psi), y.astype(np.int32)


def signs(y: np.ndarray, positive: int = 1) -> np.ndarray:
    """+1 for the positive class, -1 for all others."""
    return np.where(y == positive, 1.0, -1.0)


def equal_checkpoints(a: Any, b: Any) -> bool:
    """Whether the checkpoints of two states hold the same arrays, bit for bit."""
    left, right = a.checkpoint(), b.checkpoint()
    return left.keys() == right.keys() and all(
        left[name].dtype == right[name].dtype and np.array_equal(left[name], right[name]) for name in left
    )


def peak_bytes(work: Callable[[], Any]) -> int:
    """Most memory that NumPy and Python held at a time for this work."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        work()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
