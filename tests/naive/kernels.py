"""Kernels and their approximate features by plain loops over rows and columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np

type Term = Callable[[float, float], float]

TERMS: dict[str, Term] = {
    "laplacian": lambda x, y: abs(x - y),
    "gaussian": lambda x, y: (x - y) * (x - y),
    "chi2": lambda x, y: 2.0 * (x * y) / (x + y) if x + y else 0.0,
    "intersection": min,
}
COMMON: dict[str, Term] = {
    "laplacian": lambda x, y: min(abs(x), abs(y)) if x * y > 0 else 0.0,
    "gaussian": lambda x, y: x * y,
    "chi2": TERMS["chi2"],
    "intersection": min,
}
ADDITIVE = ("chi2", "intersection")


def _sums(X: np.ndarray, Y: np.ndarray, term: Term) -> np.ndarray:
    out = np.zeros((len(X), len(Y)))
    for i, x in enumerate(X.tolist()):
        for j, y in enumerate(Y.tolist()):
            total = 0.0
            for a, b in zip(x, y, strict=True):
                total += term(a, b)
            out[i, j] = total
    return out


def _values(sums: np.ndarray, name: str, gamma: float | None) -> np.ndarray:
    if name in ADDITIVE:
        return sums
    assert gamma is not None
    return np.exp(-gamma * sums)


def kernel(X: np.ndarray, Y: np.ndarray, name: str, gamma: float | None = None) -> np.ndarray:
    """Kernel matrix of dense rows: sums column by column."""
    return _values(_sums(X, Y, TERMS[name]), name, gamma)


def sparse_kernel(X: np.ndarray, Y: np.ndarray, name: str, gamma: float | None = None) -> np.ndarray:
    """The same from norms and what two rows have in common, as it is made of sparse rows."""
    common = _sums(X, Y, COMMON[name])
    if name in ADDITIVE:
        return common
    origin = np.zeros((1, X.shape[1]))
    left, right = _sums(X, origin, TERMS[name]), _sums(Y, origin, TERMS[name])
    return _values(np.maximum(left + right.T - 2.0 * common, 0.0), name, gamma)


def nystroem_matrix(K: np.ndarray, rank: int) -> np.ndarray:
    """Lambda_r^(-1/2) V_r^T of the kernel matrix of some points."""
    values, vectors = np.linalg.eigh(K)
    rows = []
    for k in sorted(range(len(values)), key=lambda k: -values[k])[:rank]:
        if values[k] > 1e-12 * values.max():
            rows.append(vectors[:, k] / math.sqrt(values[k]))
    return np.array(rows)


def fourier_features(X: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
    """All sines, then all cosines, over the root of their number."""
    scale = 1.0 / math.sqrt(len(frequencies))
    out = np.empty((len(X), 2 * len(frequencies)))
    for i, x in enumerate(X):
        for j, v in enumerate(frequencies):
            angle = sum(a * b for a, b in zip(x, v, strict=True))
            out[i, j] = math.sin(angle) * scale
            out[i, len(frequencies) + j] = math.cos(angle) * scale
    return out


def chi2_features(X: np.ndarray, order: int, period: float) -> np.ndarray:
    """2 order + 1 features for each value, those of one side by side."""
    out = np.zeros((len(X), X.shape[1], 2 * order + 1))
    for i, row in enumerate(X):
        for j, x in enumerate(row):
            if x > 0:
                out[i, j, 0] = math.sqrt(x * period)
                for k in range(1, order + 1):
                    size = math.sqrt(2 * x * period / math.cosh(math.pi * k * period))
                    out[i, j, 2 * k - 1] = size * math.cos(k * period * math.log(x))
                    out[i, j, 2 * k] = size * math.sin(k * period * math.log(x))
    return out.reshape(len(X), -1)


def halves(x: Iterable[float]) -> list[float]:
    """A row's positive values and its negative ones with their signs turned, side by side."""
    return [half for value in x for half in (max(value, 0.0), max(-value, 0.0))]


def min_max_ratio(x: Iterable[float], y: Iterable[float], p: float = 1.0) -> float:
    """R_p of two rows: sum of minima over sum of maxima, raised to p, on a scale on which none is above 1."""
    x, y = halves(x), halves(y)
    largest = max([*x, *y], default=0.0)
    if largest == 0.0:
        return 1.0
    scale = 2.0 ** math.frexp(largest)[1]
    x, y = ([(value / scale) ** p for value in row] for row in (x, y))
    minima = maxima = 0.0
    for a, b in zip(x, y, strict=True):
        minima, maxima = minima + min(a, b), maxima + max(a, b)
    return minima / maxima


def min_max_kernel(
    X: np.ndarray, Y: np.ndarray, p: float = 1.0, gamma: float = 1.0, le: float | None = None
) -> np.ndarray:
    """R_p^gamma, or exp(-le (1 - R_p^gamma)), of dense rows."""
    R = np.array([[min_max_ratio(x, y, p) for y in Y.tolist()] for x in X.tolist()]).reshape(len(X), len(Y)) ** gamma
    return R if le is None else np.exp(-le * (1.0 - R))


def cosine_kernel(X: np.ndarray, Y: np.ndarray, le: float) -> np.ndarray:
    """exp(-le (1 - cos)) of dense rows; the cosine of two rows of zeros is 1, of one with another row 0."""
    out = np.empty((len(X), len(Y)))
    for i, x in enumerate(X):
        for j, y in enumerate(Y):
            lengths = np.sqrt(np.sum(x * x)) * np.sqrt(np.sum(y * y))
            cosine = np.sum(x * y) / lengths if lengths else float(not x.any() and not y.any())
            out[i, j] = np.exp(-le * (1.0 - cosine))
    return out
