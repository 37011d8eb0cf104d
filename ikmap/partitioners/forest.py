"""Forest partitions: the cell of a point is its leaf in a tree that is grown by the targets of a subsample."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from ikmap._threads import for_each_block
from ikmap.partitioners._forest_loops import ENTROPY, GINI, SQUARED, WIDTH, grow_guided
from ikmap.partitioners._iforest_loops import LEAF
from ikmap.partitioners.bins import bin_edges, bins_of
from ikmap.partitioners.trees import TreePartitions
from ikmap.rows import Rows
from ikmap.seeds import generator

CRITERIA = {"gini": GINI, "entropy": ENTROPY, "squared": SQUARED}
BLOCK = 8192
"""Number of rows whose bins are found at a time."""
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
    n, d = X.shape
    by_column = bin_edges(X, n_threads=n_threads)
    edges = np.concatenate([*by_column, np.empty(0)])
    begins = np.r_[0, np.cumsum([own.size for own in by_column], dtype=np.int64)]
    codes = np.zeros((n, -(-d // WIDTH) * WIDTH), dtype=np.uint8)

    def find_bins(start: int, stop: int) -> None:
        codes[start:stop, :d] = bins_of(X[start:stop], edges, begins, np.uint8)

    for_each_block(find_bins, n, BLOCK, n_threads)
    if criterion == "squared":
        classes, numbers, n_outputs = np.zeros(n, dtype=np.int32), whole_numbers(targets), 1
    else:
        classes, numbers = np.asarray(targets, dtype=np.int32), np.ones(n, dtype=np.int64)
        n_outputs = int(classes.max()) + 1
    shape = (n_partitions, 2 * max(1, psi // growth.min_leaf))
    feature, right = np.empty(shape, dtype=np.int32), np.empty(shape, dtype=np.int32)
    cut, n_nodes = np.empty(shape, dtype=np.int64), np.empty(n_partitions, dtype=np.int64)
    depth = -1 if growth.max_depth is None else growth.max_depth

    def work(start: int, stop: int) -> None:
        for i in range(start, stop):
            state = generator(seed, i, SPLITS).integers(2**64, size=1, dtype=np.uint64)
            own = codes, d, draws[i], classes[draws[i]], numbers[draws[i]], n_outputs
            how = CRITERIA[criterion], growth.n_tried, growth.splits == "random", depth, growth.min_leaf
            n_nodes[i] = grow_guided(*own, *how, state, feature[i], cut[i], right[i])

    for_each_block(work, n_partitions, 1, n_threads)
    kept = np.arange(shape[1]) < n_nodes[:, None]
    feature, cut = feature[kept], cut[kept]
    threshold = np.zeros(feature.size)
    inner = feature != LEAF
    threshold[inner] = edges[begins[feature[inner]] + cut[inner] - 1]
    return ForestPartitions(
        feature=feature,
        threshold=threshold,
        right=right[kept],
        roots=np.r_[0, np.cumsum(n_nodes)],
        n_features=int(d),
    )
