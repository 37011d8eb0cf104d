"""Weighted minwise hashing, one hash, one row and one value at a time; and the kernel that it estimates."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from ikmap import seed_paths
from ikmap.seeds import generator

WORD = 2**64


def mixed(word: int) -> int:
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 % WORD
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB % WORD
    return word ^ (word >> 31)


def stirred(word: int) -> int:
    word = (word ^ (word >> 16)) * 0x21F0AAAD % 2**32
    word = (word ^ (word >> 15)) * 0x735A2D97 % 2**32
    return word ^ (word >> 15)


def logarithm(x: float) -> float:
    """ln x by the same operations, exponents taken by frexp."""
    m, e = math.frexp(x)
    if m < float.fromhex("0x1.6a09e667f3bcdp-1"):
        m, e = 2.0 * m, e - 1
    s = (m - 1.0) / (m + 1.0)
    z, total = s * s, 1.0 / 19.0
    for k in range(17, 1, -2):
        total = total * z + 1.0 / k
    two = s + s
    return e * 0.6931471803691238 + (two + (two * (z * total) + e * 1.9082149292705877e-10))


def gamma_of(word: int) -> float:
    return -logarithm(((word >> 32) + 0.5) * 2.0**-32 * (((word % 2**32) + 0.5) * 2.0**-32))


def fused(a: np.float32, b: np.float32, c: np.float32) -> np.float32:
    """a b + c, rounded once to float32: the nearest of the neighbours of the sum in float64."""
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    near = np.float32(float(exact))
    around = [np.nextafter(near, np.float32(-np.inf)), near, np.nextafter(near, np.float32(np.inf))]
    return min(around, key=lambda x: (abs(Fraction(float(x)) - exact), int(x.view(np.uint32)) & 1))


def draws(key: int, coordinate: int) -> tuple[np.float32, np.float32, np.float32, np.float32, int]:
    """1/r, beta, -r, ln c - r (1 - beta), and 32 bits."""
    step, at = 0x9E3779B97F4A7C15, key + coordinate * 0xD1342543DE82EF95
    first, second, last = (mixed((at + k * step) % WORD) for k in (1, 2, 3))
    r, c, beta = gamma_of(first), gamma_of(second), (last >> 40) * 2.0**-24
    rest = logarithm(c) - (r - r * beta)
    return np.float32(1.0 / r), np.float32(beta), np.float32(-r), np.float32(rest), last % 2**32


def code(u: np.ndarray, key: int, p: float, full: bool) -> int:
    """32 bits of what one hash says of a row that is not zero."""
    order = sorted(np.flatnonzero(u), key=lambda i: (abs(u[i]) != 1.0, i))
    best, word = np.float32(np.inf), 0
    for i in order:
        inverse, beta, minus_r, rest, label = draws(key, 2 * int(i) + int(u[i] < 0))
        tau = np.float32(0.0)
        if abs(u[i]) != 1.0:
            tau = np.floor(fused(np.float32(p * logarithm(abs(float(u[i])))), inverse, beta)) + np.float32(0.0)
        a = fused(minus_r, tau, rest)
        if a < best:
            best, word = a, stirred(label ^ stirred(int(tau.view(np.uint32)))) if full else label
    return word


def gcws_codes(X: np.ndarray, seed: int, t: int, p: float, b: int, gamma: int = 1, full: bool = True) -> np.ndarray:
    """Codes of rows, shape (n, t); -1 in rows of zeros."""
    width = -(-t // 32) * 32
    keys = [generator(seed, seed_paths.GCWS, g).integers(2**64, size=width, dtype=np.uint64) for g in range(gamma)]
    codes = np.full((len(X), t), -1, dtype=np.int32)
    for i, u in enumerate(X):
        for j in range(t):
            if np.any(u):
                word = 0
                for of in keys:
                    word = stirred(word) ^ code(u, int(of[j]), p, full)
                codes[i, j] = word >> (32 - b)
    return codes


def pgmm(A: np.ndarray, B: np.ndarray, p: float) -> np.ndarray:
    """The pGMM kernel of all pairs of rows; 1 of two rows of zeros."""
    signed = [np.concatenate([np.maximum(X, 0), np.maximum(-X, 0)], axis=1) ** p for X in (A, B)]
    K = np.empty((len(A), len(B)))
    for i, u in enumerate(signed[0]):
        for j, v in enumerate(signed[1]):
            most = np.maximum(u, v).sum()
            K[i, j] = np.minimum(u, v).sum() / most if most else 1.0
    return K
