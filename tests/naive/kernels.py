"""Kernels and their approximate features by plain loops over rows and columns."""

from __future__ import annotations

import math

import numpy as np

TERMS = {
    "laplacian": lambda x, y: abs(x - y),
    "gaussian": lambda x, y: (x - y) * (x - y),
    "chi2": lambda x, y: 2.0 * (x * y) / (x + y) if x + y else 0.0,
}
COMMON = {
    "laplacian": lambda x, y: min(abs(x), abs(y)) if x * y > 0 else 0.0,
    "gaussian": lambda x, y: x * y,
    "chi2": TERMS["chi2"],
}


def _sums(X, Y, term):
    out = np.zeros((len(X), len(Y)))
    for i, x in enumerate(X.tolist()):
        for j, y in enumerate(Y.tolist()):
            total = 0.0
            for a, b in zip(x, y, strict=True):
                total += term(a, b)
            out[i, j] = total
    return out


def _values(sums, name, gamma):
    return sums if name == "chi2" else np.exp(-gamma * sums)


def kernel(X, Y, name, gamma=None):
    """Kernel matrix of dense rows: sums column by column."""
    return _values(_sums(X, Y, TERMS[name]), name, gamma)


def sparse_kernel(X, Y, name, gamma=None):
    """The same from norms and what two rows have in common, as it is made of sparse rows."""
    common = _sums(X, Y, COMMON[name])
    if name == "chi2":
        return common
    origin = np.zeros((1, X.shape[1]))
    left, right = _sums(X, origin, TERMS[name]), _sums(Y, origin, TERMS[name])
    return _values(np.maximum(left + right.T - 2.0 * common, 0.0), name, gamma)


def nystroem_matrix(K, rank):
    """Lambda_r^(-1/2) V_r^T of the kernel matrix of some points."""
    values, vectors = np.linalg.eigh(K)
    rows = []
    for k in sorted(range(len(values)), key=lambda k: -values[k])[:rank]:
        if values[k] > 1e-12 * values.max():
            rows.append(vectors[:, k] / math.sqrt(values[k]))
    return np.array(rows)


def fourier_features(X, frequencies):
    """All sines, then all cosines, over the root of their number."""
    scale = 1.0 / math.sqrt(len(frequencies))
    out = np.empty((len(X), 2 * len(frequencies)))
    for i, x in enumerate(X):
        for j, v in enumerate(frequencies):
            angle = sum(a * b for a, b in zip(x, v, strict=True))
            out[i, j] = math.sin(angle) * scale
            out[i, len(frequencies) + j] = math.cos(angle) * scale
    return out


def chi2_features(X, order, period):
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
