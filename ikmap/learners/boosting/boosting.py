"""Gradient boosting in rounds: each grows a tree by what the trees before it have left, until held-out rows get worse.

The trees are partitionings whose leaves are cells, and the value of a leaf is the weight of its cell. So the result is
a linear model on cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ikmap import seed_paths
from ikmap.arrays import Floats
from ikmap.learners.boosting._growth_loops import add_tree, add_value, sums
from ikmap.learners.boosting.growth import Bins, Grower, Tree, TreeSettings, binned, whole_words
from ikmap.learners.boosting.losses import Loss
from ikmap.partitioners import ForestPartitions
from ikmap.partitioners._iforest_loops import LEAF
from ikmap.rows import Rows
from ikmap.seeds import generator

MANY_ROWS = 1 << 15
"""Number of rows from which on margins are computed by several threads."""


@dataclass(frozen=True)
class BoostingSettings:
    """Settings of gradient boosting.

    Attributes
    ----------
    rounds : int
        Largest number of rounds, each with a tree for each output.
    shrinkage : float
        Share of the best value of a leaf that it is given.
    tree : TreeSettings
    row_share, column_share : float
        Share of the rows, and of the columns, that each tree is grown on.
    held_out : float
        Share of the rows that are held out to end the rounds early; 0: all rounds are made.
    patience : int
        Number of rounds without improvement after which the rounds end.
    """

    rounds: int = 1000
    shrinkage: float = 0.1
    tree: TreeSettings = field(default_factory=TreeSettings)
    row_share: float = 1.0
    column_share: float = 1.0
    held_out: float = 0.1
    patience: int = 50


@dataclass(frozen=True)
class Boosted:
    """Trees and values of their leaves.

    Attributes
    ----------
    partitions : ForestPartitions
        The trees of the first round, one for each output, those of the second round, and so on.
    coef : ndarray of float64, shape (number of leaves, K)
        Value of each leaf, in the column of its output.
    intercept : ndarray of float64, shape (K,)
    losses : list of float
        Mean loss of the held-out rows before the first round and after each round that was made; empty if no rows are
        held out.
    rounds_made : int
        Number of rounds that were made.
    """

    partitions: ForestPartitions
    coef: Floats
    intercept: Floats
    losses: list[float]
    rounds_made: int


class _Fit:
    """The margins of one output and the memory to improve them."""

    def __init__(self, loss: Loss, target: Floats, held_target: Floats) -> None:
        self.loss, self.target, self.held_target = loss, target, held_target
        self.start = loss.start(target)
        self.margin = np.full(target.size, self.start)
        self.held_margin = np.full(held_target.size, self.start)

    def mean_loss(self) -> float:
        """Return the mean loss of the held-out rows."""
        return self.loss.mean(self.held_margin, self.held_target)


def boost(X: Rows, targets: Floats, loss: Loss, settings: BoostingSettings, seed: int, n_threads: int = 1) -> Boosted:
    """Fit the trees.

    Parameters
    ----------
    X : float64 ndarray or csr_array, shape (n, d)
    targets : ndarray of float64, shape (n, K)
        Targets of each output, which has trees of its own.
    seed : int
        Held-out rows, and rows and columns of trees, are drawn from it.

    Notes
    -----
    Source: Friedman, Greedy function approximation: a gradient boosting machine, 2001; Ke et al., LightGBM, 2017, for
    leaf-wise growth on histograms. The result has the same bits for any number of threads, since histograms are sums of
    whole numbers.
    """
    n, d = X.shape
    kept, held = _divided(n, settings.held_out, seed)
    bins = binned(X, seed, n_threads)
    held_codes = bins.codes[held]
    if held.size:
        bins = bins.take(kept)
    fits = [_Fit(loss, np.ascontiguousarray(y[kept]), y[held]) for y in targets.T]
    n_kept = kept.size
    gradient, hessian = np.empty(n_kept), np.empty(n_kept)
    words = np.empty((n_kept, 2), dtype=np.int64)
    grower = Grower(bins, settings.tree, n_threads)
    trees: list[Tree] = []
    values: list[Floats] = []
    losses = [sum(fit.mean_loss() for fit in fits)] if held.size else []
    best = 0
    try:
        for number in range(settings.rounds):
            for k, fit in enumerate(fits):

                def derive(start: int, stop: int, fit: _Fit = fit) -> None:
                    part = slice(start, stop)
                    loss.gradient(fit.margin[part], fit.target[part], gradient[part], hessian[part])

                grower.each(derive, n_kept, MANY_ROWS)
                rows, columns = _drawn(n_kept, d, settings, seed, number, k)
                tree = grower.grow(rows, whole_words(gradient, hessian, words), columns)
                value = _leaf_values(tree, rows, gradient, hessian, fit, settings)
                _improve(fit, tree, value, rows, bins, held_codes, grower)
                trees.append(replace(tree, leaves=[]))  # the values are all that is needed of leaves
                values.append(value)
            if held.size:
                losses.append(sum(fit.mean_loss() for fit in fits))
            if not held.size or losses[-1] < losses[best]:
                best = number + 1
            if number + 1 - best >= settings.patience or all(tree.feature.size == 1 for tree in trees[-len(fits) :]):
                break
    finally:
        grower.close()
    kept_trees = max(1, best) * len(fits)
    if best == 0:  # held-out rows say that no tree is better than the constant
        values = [np.zeros_like(value) for value in values]
    intercept = np.array([fit.start for fit in fits])
    return Boosted(
        _partitions(trees[:kept_trees], bins, d),
        _coef(values[:kept_trees], len(fits)),
        intercept,
        losses,
        len(trees) // len(fits),
    )


def _divided(n: int, held_out: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the ascending numbers of the rows to learn from, and of those that are held out."""
    n_held = min(round(held_out * n), n - 1)
    order = generator(seed, seed_paths.BOOSTING_HELD_OUT).permutation(n)
    return np.sort(order[n_held:]), np.sort(order[:n_held])


def _drawn(n: int, d: int, settings: BoostingSettings, seed: int, number: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of the rows and columns of a tree."""
    rows, columns = np.arange(n, dtype=np.uint32), np.arange(d, dtype=np.int64)
    if settings.row_share == 1.0 and settings.column_share == 1.0:
        return rows, columns
    random = generator(seed, seed_paths.BOOSTING_DRAWS, number, k)
    if settings.row_share < 1.0:
        drawn = random.choice(n, max(1, round(settings.row_share * n)), replace=False)
        rows = np.sort(drawn).astype(np.uint32)
    if settings.column_share < 1.0:
        columns = np.sort(random.choice(d, max(1, round(settings.column_share * d)), replace=False))
    return rows, columns


def _leaf_values(
    tree: Tree, rows: np.ndarray, gradient: Floats, hessian: Floats, fit: _Fit, settings: BoostingSettings
) -> Floats:
    """Return the value of each leaf, with shrinkage."""
    values = np.empty(len(tree.leaves))
    for number, leaf in enumerate(tree.leaves):
        first, second = sums(rows[leaf.begin : leaf.end], gradient, hessian)
        weight = second + settings.tree.l2
        newton = -first / weight if weight > 0 else 0.0
        values[number] = settings.shrinkage * fit.loss.leaf_value(leaf, rows, fit.margin, fit.target, newton)
    return values


def _improve(
    fit: _Fit, tree: Tree, values: Floats, rows: np.ndarray, bins: Bins, held_codes: np.ndarray, grower: Grower
) -> None:
    """Add the values of a tree to the margins of all rows."""
    nodes = *bins.ranges(tree.feature, tree.cut), tree.right, values

    def walk(codes: np.ndarray, margin: Floats) -> None:
        grower.each(lambda start, stop: add_tree(codes[start:stop], *nodes, margin[start:stop]), margin.size, MANY_ROWS)

    if rows.size == fit.margin.size:
        for leaf, value in zip(tree.leaves, values.tolist(), strict=True):
            add_value(rows[leaf.begin : leaf.end], value, fit.margin)
    else:
        walk(bins.codes, fit.margin)
    walk(held_codes, fit.held_margin)


def _partitions(trees: Sequence[Tree], bins: Bins, d: int) -> ForestPartitions:
    feature = np.concatenate([tree.feature for tree in trees])
    cut = np.concatenate([tree.cut for tree in trees])
    threshold, inner = np.zeros(feature.size), feature != LEAF
    threshold[inner] = bins.edges[bins.begins[feature[inner]] + cut[inner] - 1]
    return ForestPartitions(
        feature=feature,
        threshold=threshold,
        right=np.concatenate([tree.right for tree in trees]),
        roots=np.r_[0, np.cumsum([tree.feature.size for tree in trees])],
        n_features=d,
    )


def _coef(values: Sequence[Floats], n_outputs: int) -> Floats:
    coef = np.zeros((sum(value.size for value in values), n_outputs))
    begin = 0
    for number, value in enumerate(values):
        coef[begin : begin + value.size, number % n_outputs] = value
        begin += value.size
    return coef
