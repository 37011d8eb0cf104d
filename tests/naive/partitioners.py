"""Subsamples, Voronoi cells, isolation trees and the isolation kernel, straight from their definitions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import ceil, log2

import numpy as np

from ikmap.seeds import generator


def subsamples(n: int, t: int, psi: int, seed: int) -> np.ndarray:
    """A whole Fisher-Yates shuffle of range(n) for each partitioning, of which the first psi entries are kept."""
    rows = []
    for i in range(t):
        order = list(range(n))
        for j, k in enumerate(generator(seed, i).integers(np.arange(n), n)):
            order[j], order[k] = order[k], order[j]
        rows.append(order[:psi])
    return np.array(rows)


def squared_distances(X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """Squared distances in float64, added up in column order."""
    total = np.zeros((X.shape[0], Z.shape[0]))
    with np.errstate(over="ignore", under="ignore"):
        for j in range(X.shape[1]):
            difference = X[:, j, None] - Z[None, :, j]
            total = total + difference * difference
    return total


def voronoi_cells(X: np.ndarray, fit_rows: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """Number of the nearest point of each subsample; ties go to the lowest number.

    Many tests ask for those of the same numbers: an answer is kept, for reading.
    """
    asked = [np.ascontiguousarray(array) for array in (X, fit_rows, draws)]
    return _voronoi_cells(*((array.tobytes(), array.dtype.str, array.shape) for array in asked))


type Numbers = tuple[bytes, str, tuple[int, ...]]


@lru_cache(maxsize=1000)
def _voronoi_cells(*asked: Numbers) -> np.ndarray:
    X, fit_rows, draws = (np.frombuffer(data, dtype).reshape(shape) for data, dtype, shape in asked)
    codes = np.empty((X.shape[0], draws.shape[0]), dtype=np.int32)
    for i, draw in enumerate(draws):
        for r, distances in enumerate(squared_distances(X, fit_rows[draw])):
            nearest = 0
            for k in range(1, draw.size):
                if distances[k] < distances[nearest]:
                    nearest = k
            codes[r, i] = nearest
    codes.flags.writeable = False
    return codes


@dataclass
class Leaf:
    cell: int


@dataclass
class Split:
    feature: int
    threshold: float
    left: Split | Leaf
    right: Split | Leaf


def grow_tree(points: np.ndarray, uniforms: np.ndarray, max_depth: str | None) -> Split | Leaf:
    """Tree of section 3.1: splits and leaves are numbered in preorder; split s uses ``uniforms[s]``."""
    psi = points.shape[0]
    deepest = psi if max_depth is None else ceil(log2(psi))
    numbers = iter(range(psi))
    choices = iter(uniforms)

    def grow(P: list[np.ndarray], depth: int) -> Split | Leaf:
        varying = [q for q in range(points.shape[1]) if max(x[q] for x in P) > min(x[q] for x in P)]
        if len(P) == 1 or not varying or depth == deepest:
            return Leaf(next(numbers))
        u, v = next(choices)
        q = varying[int(u * len(varying))]
        low, high = min(x[q] for x in P), max(x[q] for x in P)
        s = low + (1.0 - v) * (high - low)
        if not low < s <= high:
            s = high
        left, right = [x for x in P if x[q] < s], [x for x in P if x[q] >= s]
        return Split(q, s, grow(left, depth + 1), grow(right, depth + 1))

    return grow(list(points), 0)


def isolation_trees(
    fit_rows: np.ndarray, draws: np.ndarray, seed: int, max_depth: str | None = None
) -> list[Split | Leaf]:
    return [
        grow_tree(fit_rows[draw], generator(seed, i, 1).random((draw.size, 2)), max_depth)
        for i, draw in enumerate(draws)
    ]


def tree_cells(X: np.ndarray, trees: list[Split | Leaf]) -> np.ndarray:
    """Leaf of each row in each tree, walked down from the root."""
    codes = np.empty((X.shape[0], len(trees)), dtype=np.int32)
    for r, x in enumerate(X):
        for i, tree in enumerate(trees):
            node = tree
            while isinstance(node, Split):
                node = node.left if x[node.feature] < node.threshold else node.right
            codes[r, i] = node.cell
    return codes


def shallow_cells(X: np.ndarray, trees: list[Split | Leaf], max_depth: int) -> np.ndarray:
    """The same, where what lies below a depth is left out; cells are numbered as they come to be, level by level."""
    codes = np.empty((X.shape[0], len(trees)), dtype=np.int32)
    for i, tree in enumerate(trees):
        cells: list[tuple[Split | Leaf, np.ndarray]] = [(tree, np.arange(X.shape[0]))]
        of_level = [0]
        for _ in range(max_depth):
            children: list[int] = []
            for number in of_level:
                node, rows = cells[number]
                if isinstance(node, Split):
                    below = X[rows, node.feature] < node.threshold
                    cells[number] = (node.left, rows[below])
                    cells.append((node.right, rows[~below]))
                    children += [number, len(cells) - 1]
            of_level = children
        for number, (_, rows) in enumerate(cells):
            codes[rows, i] = number
    return codes


def preorder(tree: Split | Leaf) -> list[Split | Leaf]:
    """The nodes of a tree: each before its left branch, and that before its right one."""
    if isinstance(tree, Leaf):
        return [tree]
    return [tree, *preorder(tree.left), *preorder(tree.right)]


def isolation_kernel(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Share of the columns in which two rows of codes agree, for each pair."""
    return np.array([[sum(p == q for p, q in zip(x, y, strict=True)) / len(x) for y in b] for x in a])
