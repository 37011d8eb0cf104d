"""Blocks of the min-max (GMM) kernel against NumPy, SciPy, and what the processor can do at most."""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from scipy.spatial.distance import cdist

from benchmarks.data import read_labels_and_rows
from benchmarks.harness import Case, Comparison, Disagreement, Options, Side
from ikmap._simd import vectors
from ikmap.compiled import compiled
from ikmap.kernels import MinMaxKernel

TITLE = "Min-max kernel matrices"
ABOUT = (
    "R_1 of 2,048 rows with as many others, float64; NumPy by broadcasting, SciPy by cdist(cityblock), "
    "min = (|u| + |v| - L1) / 2; the bound: as many vector minima and additions in registers, then a division for each "
    "pair and writing the matrix"
)

ROWS = 2048
BLOCK = 64
"""Rows that NumPy takes at a time."""
LANES, CHAINS = 8, 16

_OF_8 = vectors("Float64x8", ir.DoubleType(), types.float64, LANES)
add, minimum, splat, store = _OF_8.add, _OF_8.minimum, _OF_8.splat, _OF_8.store


def cases(options: Options) -> Iterator[Case]:
    for name in options.datasets or ("spambase", "usps", "784 columns"):
        yield Case(name, partial(against_others, name, options))
        yield Case(f"{name}, bound", partial(against_the_processor, name, options))


def rows_of(name: str, options: Options) -> tuple[np.ndarray, np.ndarray]:
    """Two sets of non-negative rows."""
    n = 64 if options.quick else ROWS
    if name == "784 columns":
        X: Any = np.random.default_rng(0).random((2 * n, 784))
    else:
        X, _, _ = read_labels_and_rows(name, options)
        X = X if isinstance(X, np.ndarray) else X.toarray()
        X = np.ascontiguousarray(X[: 2 * n] - X.min())
    return X[: len(X) // 2], X[len(X) // 2 :]


def against_others(name: str, options: Options) -> Comparison:
    U, V = rows_of(name, options)

    def broadcast(first: int) -> np.ndarray:
        u = U[first : first + BLOCK, None]
        return np.asarray(np.minimum(u, V).sum(axis=2) / np.maximum(u, V).sum(axis=2))

    def numpy() -> np.ndarray:
        with ThreadPoolExecutor(options.threads) as pool:
            return np.vstack(list(pool.map(broadcast, range(0, len(U), BLOCK))))

    def distances(rows: np.ndarray) -> np.ndarray:
        both = rows.sum(axis=1)[:, None] + V.sum(axis=1)
        minima = (both - cdist(rows, V, "cityblock")) / 2
        return np.asarray(minima / (both - minima))

    def scipy() -> np.ndarray:
        with ThreadPoolExecutor(options.threads) as pool:
            return np.vstack(list(pool.map(distances, np.array_split(U, options.threads))))

    def check(results: dict[str, Any]) -> str:
        apart = max(np.abs(found - results["ours"]).max() for found in results.values())
        if not apart < 1e-9:
            raise Disagreement(f"values differ by {apart:.2g}")
        return f"values equal within {apart:.1g}"

    ours = Side("ours", lambda: MinMaxKernel().matrix(U, V, options.threads), input_bytes=U.nbytes + V.nbytes)
    return Comparison(ours, [Side("NumPy", numpy, target=10.0), Side("SciPy", scipy, target=3.0)], check)


def against_the_processor(name: str, options: Options) -> Comparison:
    U, V = rows_of(name, options)
    vector_pairs = math.prod((len(U), len(V), U.shape[1])) // LANES
    share = vector_pairs // (CHAINS * options.threads)

    sums = np.ones(len(V))

    def some(rows: np.ndarray) -> None:
        busy(share, np.zeros(LANES))
        for row in rows:
            np.divide(sums, 3.0, out=row)

    def bound() -> np.ndarray:
        out = np.empty((len(U), len(V)))
        with ThreadPoolExecutor(options.threads) as pool:
            list(pool.map(some, np.array_split(out, options.threads)))
        return out

    ours = Side("ours", lambda: MinMaxKernel().matrix(U, V, options.threads), input_bytes=U.nbytes + V.nbytes)
    about = (
        f"{vector_pairs * LANES / 1e9:.3g} billion minima and additions, {len(U) * len(V) / 1e6:.3g} million divisions"
    )
    return Comparison(ours, [Side("the processor", bound, target=2.0)], lambda _: about, relation="<=")


@compiled
def busy(steps: int, out: np.ndarray) -> None:
    """So many times 16 minima and 16 additions of vectors of 8, of which none waits for another."""
    x, y = splat(1.0), splat(1e9)
    a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = splat(0.0)
    b0 = b1 = b2 = b3 = b4 = b5 = b6 = b7 = splat(1.0)
    for _ in range(steps):
        a0, a1 = minimum(add(a0, x), y), minimum(add(a1, x), y)
        a2, a3 = minimum(add(a2, x), y), minimum(add(a3, x), y)
        a4, a5 = minimum(add(a4, x), y), minimum(add(a5, x), y)
        a6, a7 = minimum(add(a6, x), y), minimum(add(a7, x), y)
        b0, b1 = minimum(add(b0, x), y), minimum(add(b1, x), y)
        b2, b3 = minimum(add(b2, x), y), minimum(add(b3, x), y)
        b4, b5 = minimum(add(b4, x), y), minimum(add(b5, x), y)
        b6, b7 = minimum(add(b6, x), y), minimum(add(b7, x), y)
    a = add(add(add(a0, a1), add(a2, a3)), add(add(a4, a5), add(a6, a7)))
    b = add(add(add(b0, b1), add(b2, b3)), add(add(b4, b5), add(b6, b7)))
    store(out, np.uint64(0), add(a, b))
