"""Forest partitions: the cell of a point is its leaf in a tree that is grown by the targets of a subsample."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from ikmap._threads import for_each_block
from ikmap.arrays import Floats
from ikmap.partitioners._forest_loops import BINS, ENTROPY, GINI, SQUARED, grow_guided
from ikmap.partitioners._iforest_loops import LEAF
from ikmap.partitioners.trees import TreePartitions
from ikmap.rows import Rows
from ikmap.seeds import generator

CRITERIA = {"gini": GINI, "entropy": ENTROPY, "squared": SQUARED}
SPLITS = 1
"""Second number of the seed path of a tree's splits; its subsample uses the path without it."""


@dataclass(frozen=True, eq=False)
class ForestPartitions(TreePartitions):
    """t trees, each grown by the targets of a subsample of the training points."""

    kind: ClassVar[str] = "forest"


@dataclass(frozen=True)
class Growth:
    """Settings by which the trees of a forest grow.

    Attributes
    ----------
    splits : {"random", "best"}
        "random": the best of one random split of each column; "best": the best of all splits.
    n_tried : int
        Number of columns that are compared for a split, drawn from those that vary.
    max_depth : int or None
        Largest number of splits above a leaf; None: any number.
    min_leaf : int
        Least number of points in a leaf.
    """

    splits: Literal["random", "best"] = "random"
    n_tried: int = 1
    max_depth: int | None = None
    min_leaf: int = 5


def columns_of(X: Rows) -> Iterator[Floats]:
    """Yield one column after the other."""
    if isinstance(X, np.ndarray):
        yield from X.T
        return
    by_column = X.tocsc()
    for k in range(X.shape[1]):
        values = np.zeros(X.shape[0])
        own = slice(by_column.indptr[k], by_column.indptr[k + 1])
        values[by_column.indices[own]] = by_column.data[own]
        yield values


def bin_edges(X: Rows, max_bins: int = BINS) -> list[Floats]:
    """Return the edges of the bins of each column, at most one less than bins, ascending.

    A value is in bin b if b edges are at or below it. A column of at most `max_bins` different values has an edge
    between each two neighbours; in one of more values, each bin has about as many points.
    """
    edges = []
    for column in columns_of(X):
        values, counts = np.unique(column, return_counts=True)
        if values.size > max_bins:
            ends = np.searchsorted(np.cumsum(counts), np.arange(1, max_bins) * column.size / max_bins)
            values = values[np.unique(np.r_[ends, values.size - 1])]
        middle = values[:-1] + (values[1:] - values[:-1]) / 2
        # Of two neighbours without a number between them, the upper one divides them.
        edges.append(np.where(middle > values[:-1], middle, values[1:]))
    return edges


def whole_numbers(targets: np.ndarray) -> np.ndarray:
    """Return the numbers less their mean as whole numbers of 30 bits, whose sums are exact in any order."""
    away = targets - targets.mean()
    largest = float(np.abs(away).max())
    scale = 2.0**30 / largest if largest else 0.0
    whole: np.ndarray = np.rint(away * scale).astype(np.int64)
    return whole


def fit_forest(
    X: Rows,
    draws: np.ndarray,
    targets: np.ndarray,
    seed: int,
    *,
    criterion: str,
    growth: Growth,
    n_threads: int | None = None,
) -> ForestPartitions:
    """Grow the trees of a forest.

    Parameters
    ----------
    X : float64 ndarray or csr_array, shape (n, d)
        Points.
    draws : ndarray of int, shape (t, psi)
        Row numbers of each subsample (:func:`~ikmap.partitioners.subsample.draw_subsamples`).
    targets : ndarray, shape (n,)
        Class numbers for "gini" and "entropy", numbers for "squared".
    seed : int
        Tree i draws its columns and splits from ``generator(seed, i, 1)``.
    criterion : {"gini", "entropy", "squared"}
    growth : Growth

    Notes
    -----
    Source: extremely randomized trees (Geurts, Ernst and Wehenkel, 2006) for "random"; random forests (Breiman, 2001)
    for "best", on the bins of a histogram.
    """
    n_partitions, psi = draws.shape
    edges = bin_edges(X)
    codes = np.empty((len(edges), X.shape[0]), dtype=np.uint8)
    for k, column in enumerate(columns_of(X)):
        codes[k] = np.searchsorted(edges[k], column, side="right")
    if criterion == "squared":
        classes, numbers, n_outputs = np.zeros(X.shape[0], dtype=np.int32), whole_numbers(targets), 1
    else:
        classes, numbers = np.asarray(targets, dtype=np.int32), np.ones(X.shape[0], dtype=np.int64)
        n_outputs = int(classes.max()) + 1
    shape = (n_partitions, 2 * max(1, psi // growth.min_leaf))
    feature, right = np.empty(shape, dtype=np.int32), np.empty(shape, dtype=np.int32)
    cut, n_nodes = np.empty(shape, dtype=np.int64), np.empty(n_partitions, dtype=np.int64)
    depth = -1 if growth.max_depth is None else growth.max_depth

    def work(start: int, stop: int) -> None:
        for i in range(start, stop):
            state = generator(seed, i, SPLITS).integers(2**64, size=1, dtype=np.uint64)
            own = np.ascontiguousarray(codes[:, draws[i]]), classes[draws[i]], numbers[draws[i]], n_outputs
            how = CRITERIA[criterion], growth.n_tried, growth.splits == "random", depth, growth.min_leaf
            n_nodes[i] = grow_guided(*own, *how, state, feature[i], cut[i], right[i])

    for_each_block(work, n_partitions, 1, n_threads)
    kept = np.arange(shape[1]) < n_nodes[:, None]
    feature, cut = feature[kept], cut[kept]
    threshold = np.zeros(feature.size)
    begins = np.r_[0, np.cumsum([e.size for e in edges])]
    inner = feature != LEAF
    threshold[inner] = np.concatenate([*edges, np.empty(0)])[begins[feature[inner]] + cut[inner] - 1]
    return ForestPartitions(
        feature=feature,
        threshold=threshold,
        right=right[kept],
        roots=np.r_[0, np.cumsum(n_nodes)],
        n_features=int(X.shape[1]),
    )
