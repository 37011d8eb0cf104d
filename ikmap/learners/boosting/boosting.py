"""Gradient boosting in rounds: each grows a tree by what the trees before it have left, until held-out rows get worse.

The trees are partitionings whose leaves are cells, and the value of a leaf is the weight of its cell. So the result is
a linear model on cells.

The state has the trees and grows the next one; the rows are held by pieces (:mod:`ikmap.learners.boosting.piece`), all
in memory as one of them, or many anywhere. The trees have the same bits either way, as all sums are of whole numbers or
in blocks of rows that do not depend on the pieces.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import scipy.sparse as sp

from ikmap import seed_paths
from ikmap.arrays import Array, Floats
from ikmap.divisions import Division
from ikmap.learners.boosting.bins import Layout, n_edge_rows
from ikmap.learners.boosting.growth import MIN_HESSIAN, Growing, Growth, Scales, Split, Tree, TreeSettings
from ikmap.learners.boosting.losses import Loss
from ikmap.learners.boosting.piece import (
    Backfit,
    Basis,
    Check,
    Clashes,
    Drawn,
    Grown,
    Look,
    Looked,
    Order,
    Piece,
    Refitted,
    Sums,
    whole_piece,
)
from ikmap.learners.rows import Block
from ikmap.partitioners import ForestPartitions
from ikmap.partitioners._bins_loops import BYTE_BINS
from ikmap.partitioners._iforest_loops import LEAF
from ikmap.rows import Rows
from ikmap.seeds import generator


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
    max_bins : int
        Most bins of a column, between which it is split.
    backfit : int
        Number of rounds after which the values of the leaves of all trees are estimated anew; 0: never.
    backfit_l2 : float
        Weight of the squared values there.
    """

    rounds: int = 1000
    shrinkage: float = 0.1
    tree: TreeSettings = field(default_factory=TreeSettings)
    row_share: float = 1.0
    column_share: float = 1.0
    held_out: float = 0.1
    patience: int = 50
    max_bins: int = BYTE_BINS
    backfit: int = 0
    backfit_l2: float = 300.0


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


@dataclass(frozen=True)
class Problem:
    """The problem that boosting solves, beside the rows.

    Attributes
    ----------
    settings : BoostingSettings
    loss : Loss
    seed : int
        Held-out rows, and rows and columns of trees, are drawn from it.
    n_rows, n_columns, n_outputs : int
    at_once : int or None
        Most leaves that are looked at in one round, which changes no tree; None: all that may be split next. With
        three, a tree takes hardly more rounds than with all, and hardly more histograms than with one.
    cut : float or None
        Place from which on rows are held out (:meth:`ikmap.divisions.Division.cut`); None: they are drawn by the seed.
    n_threads : int
        Number of threads that find the edges of bins.
    """

    settings: BoostingSettings
    loss: Loss
    seed: int
    n_rows: int
    n_columns: int
    n_outputs: int
    at_once: int | None = 3
    cut: float | None = None
    n_threads: int = 1

    @property
    def drawn(self) -> Drawn:
        """The facts by which rows are drawn."""
        sizes = self.n_rows, self.n_columns, self.n_outputs
        shares = self.settings.held_out, self.settings.row_share
        return Drawn(self.loss, self.seed, *sizes, *shares, self.settings.backfit > 0)

    def divided(self, division: Division | None) -> Problem:
        """Return the problem in which the rows that are held out follow a division of all rows."""
        if division is None or not self.settings.held_out:
            return self
        return replace(self, cut=division.cut(self.places(division), self.settings.held_out))

    def places(self, division: Division) -> Floats:
        """Return the places of some rows in the order whose last rows are held out."""
        return division.places(generator(self.seed, seed_paths.BOOSTING_HELD_OUT).integers(2**64, dtype=np.uint64))

    def growing(self, number: int, residual: float, weight: float, share: float) -> Growing:
        """Return the settings, the scales and the draws of a tree.

        Parameters
        ----------
        residual : float
            Bound of the difference of margins and targets.
        weight : float
            Largest weight of a row.
        share : float
            Mean weight of the rows, at most 1. What leaves are held against follows it: else small weights, such as
            shares of a whole, would leave nothing to split, and values next to 0.
        """
        settings, d = self.settings, self.n_columns
        tree, min_hessian = replace(settings.tree, l2=settings.tree.l2 * share), MIN_HESSIAN * share
        largest = weight * self.loss.largest_gradient(residual), weight * self.loss.largest_hessian
        scales = Scales.of(self.n_rows, *largest)
        columns, key = None, None
        if settings.row_share < 1.0 or settings.column_share < 1.0:
            random = generator(self.seed, seed_paths.BOOSTING_DRAWS, *divmod(number, self.n_outputs))
            if settings.row_share < 1.0:
                key = int(random.integers(2**64, dtype=np.uint64))
            if settings.column_share < 1.0:
                columns = np.sort(random.choice(d, max(1, round(settings.column_share * d)), replace=False))
        rounding = 0
        if scales.by_chance:
            path = seed_paths.BOOSTING_ROUNDING, *divmod(number, self.n_outputs)
            rounding = int(generator(self.seed, *path).integers(2**64, dtype=np.uint64))
        return Growing(tree, scales, key, columns, min_hessian, self.loss.largest_value, rounding)


class Boosting:
    """The state of boosting between two rounds, in each of which it orders sums over all rows.

    Attributes
    ----------
    order : Look, Check, Order, Backfit or None
        Order of the next sums; None when the last tree is there.
    """

    order: Look | Check | Order | Backfit | None
    _basis: Basis

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._trees: list[Grown] = []
        self._best_trees: list[Grown] = []  # where values are estimated anew, those of the best round
        self._losses: list[float] = []
        self._best = self._scored = 0
        self._growth: Growth | None = None
        self.order = Look(problem.cut)

    def absorb(self, sums: Looked | Clashes | Sums | Refitted) -> None:
        """Continue with the ordered sums over all rows."""
        if isinstance(sums, Looked):
            self._take_up(sums)
        elif isinstance(sums, Clashes):
            self._basis = replace(self._basis, layout=self._basis.layout.without(sums.marked))
            self._next_tree(everything=True)
        elif isinstance(sums, Refitted):
            self._trees = [Grown(own.tree, values) for own, values in zip(self._trees, sums.values, strict=True)]
            self._residuals = sums.residuals
            self._next_tree(rescored=True)
        else:
            order = self.order
            assert isinstance(order, Order | Backfit)
            if sums.lacking:  # some piece is new
                self.order = replace(order, basis=self._basis, first=0, trees=tuple(self._trees))
                return
            assert isinstance(order, Order)
            if order.leaves is not None:
                self._finish_tree(sums)
            elif self._growth is None:
                self._begin_tree(order, sums)
            else:
                self._growth.absorb(np.require(sums.histograms, requirements="W"))
                self._order_more()

    # From the beginning to the first tree

    def _take_up(self, looked: Looked) -> None:
        problem, loss = self._problem, self._problem.loss
        if not looked.kept:
            all_held_out = ", as all such rows are held out; give a smaller --held-out (validation_fraction in Python)"
            why = all_held_out if looked.weights[1].any() else ""
            raise ValueError(f"boosting: found no row to learn from whose weight is above 0{why}")
        layout = Layout.of(_joined(looked.rows), problem.settings.max_bins, problem.n_threads)
        kept, self._held = (math.fsum(weights) for weights in looked.weights)
        starts = tuple(loss.start(sums, kept, looked.kept, looked.targets) for sums in looked.sums)
        self._basis = Basis(layout, starts, problem.cut)
        self._largest_weight, self._share = looked.largest_weight, min(1.0, kept / looked.kept)
        self._residuals = [max(looked.high - start, start - looked.low) for start in starts]
        self._means = [0.0 for _ in starts]
        some = n_edge_rows(problem.n_rows, problem.n_columns) < problem.n_rows
        if some and layout.members.any():
            self.order = Check(layout)
        else:
            self._next_tree(everything=True)

    # Trees

    @property
    def _rounds(self) -> tuple[int, int]:
        """Number of rounds that are made, and of trees of the next round that are grown."""
        return divmod(len(self._trees), self._problem.n_outputs)

    def _next_tree(self, *, everything: bool = False, rescored: bool = False) -> None:
        """Order the histogram of all rows for the next tree, or only losses after the last one.

        `rescored` says that the margins of all outputs have changed since the losses were found.
        """
        self._growth = None
        n, K = len(self._trees), self._problem.n_outputs
        scored: tuple[int, ...] = ()
        if self._held and self._scored <= n:
            scored = tuple(range(K)) if n == 0 or rescored else ((n - 1) % K,)
        growing = None
        if not self._is_last:
            bounds = self._residuals[n % K], self._largest_weight, self._share
            growing = self._problem.growing(n, *bounds)
        elif not scored:
            self.order = None
            return
        first, basis = (0, self._basis) if everything else (n - 1, None)
        wanted = () if growing is None else (0,)
        self.order = Order(basis, first, tuple(self._trees[first:]), scored, growing, [], wanted, None)

    @property
    def _is_last(self) -> bool:
        """True if all rounds are made, or if no tree of the last round has a split.

        If rows or columns are drawn, those of the next round may have one: then it takes as many rounds without a
        split as `patience` has.
        """
        made, begun = self._rounds
        if begun or not made:
            return False
        settings = self._problem.settings
        enough = settings.patience if min(settings.row_share, settings.column_share) < 1.0 else 1
        last = self._trees[-enough * self._problem.n_outputs :]
        return made == settings.rounds or (made >= enough and all(grown.tree.feature.size == 1 for grown in last))

    def _begin_tree(self, order: Order, sums: Sums) -> None:
        """Take in the losses after the tree before, and the histogram of all rows."""
        if order.scored:
            for k, losses in zip(order.scored, sums.losses, strict=True):
                self._means[k] = math.fsum(losses) / self._held
            self._scored = len(self._trees) + 1
        made, begun = self._rounds
        if not begun and order.scored:
            self._losses.append(math.fsum(self._means))
            if self._losses[-1] < self._losses[self._best]:
                self._best = made
                self._best_trees = list(self._trees) if self._problem.settings.backfit else []
            if made - self._best >= self._problem.settings.patience:
                self.order = None
                return
        if order.growing is None:
            self.order = None
            return
        self._residual = sums.largest
        if sums.splits is not None:  # a piece that has all rows has grown the tree
            self._tree = Tree.of(sums.splits, range(len(sums.splits)))
            self._order_sums(sums.splits, (), self._tree.leaves)
            return
        histogram = np.require(sums.histograms[0], requirements="W")
        self._growth = Growth(self._basis.layout, order.growing, histogram)
        self._order_more()

    def _order_more(self) -> None:
        """Order the histograms that the tree needs, or the sums of its leaves once it is grown."""
        assert self._growth is not None
        wanted, leaves = tuple(self._growth.wanted(self._problem.at_once)), None
        if not wanted:
            self._tree = self._growth.tree()
            leaves = self._tree.leaves
        self._order_sums(self._growth.splits, wanted, leaves)

    def _order_sums(self, splits: Sequence[Split], wanted: tuple[int, ...], leaves: np.ndarray | None) -> None:
        """Order sums over rows that are divided by some splits: histograms of nodes, or the sums of leaves."""
        assert isinstance(self.order, Order)
        n, first = len(self._trees), max(0, len(self._trees) - 1)
        self.order = Order(
            None, first, tuple(self._trees[first:n]), (), self.order.growing, list(splits), wanted, leaves
        )

    def _finish_tree(self, sums: Sums) -> None:
        assert isinstance(self.order, Order)
        assert self.order.growing is not None
        settings, loss, scales = self._problem.settings, self._problem.loss, self.order.growing.scales
        if sums.values is None:
            gradients, hessians = (sums.leaves / (scales.leaf_gradient, scales.leaf_hessian)).T
            weights = hessians + self.order.growing.settings.l2
            best = np.divide(-gradients, weights, out=np.zeros(weights.size), where=weights > 0.0)
            best = np.clip(best, -loss.largest_value, loss.largest_value)
        else:
            best = sums.values
        values = settings.shrinkage * best
        k = len(self._trees) % self._problem.n_outputs
        if not loss.bounded:
            self._residuals[k] = self._residual + float(np.abs(values).max())
        self._trees.append(Grown(self._tree, values))
        made, begun = self._rounds
        if not self._held and not begun:
            self._best = made
        if settings.backfit and not begun and made % settings.backfit == 0:
            l2 = settings.backfit_l2 * self._share
            self.order = Backfit(None, len(self._trees) - 1, (self._trees[-1],), l2)
        else:
            self._next_tree()

    # The end, and going on after a break

    def boosted(self) -> Boosted:
        """Return the trees up to the best round."""
        K = self._problem.n_outputs
        kept = (self._best_trees or self._trees)[: max(1, self._best) * K]
        # Before the first round, held-out rows say that no tree is better than the constant.
        values = [grown.values if self._best else np.zeros_like(grown.values) for grown in kept]
        layout = self._basis.layout
        partitions = _partitions([grown.tree for grown in kept], layout)
        return Boosted(partitions, _coef(values, K), np.array(self._basis.starts), self._losses, self._rounds[0])

    @property
    def rests(self) -> bool:
        """True if a checkpoint loses nothing: no tree is half grown, and no values are about to be estimated anew."""
        if isinstance(self.order, Order):
            return self._growth is None and self.order.leaves is None
        return self.order is None

    def checkpoint(self) -> dict[str, Array]:
        """Return the state before the tree that grows, as arrays by name."""
        if isinstance(self.order, Look | Check):
            return {}
        layout, trees = self._basis.layout, [grown.tree for grown in self._trees]
        return {
            "edges": layout.edges,
            "begins": layout.begins,
            "places": layout.places,
            "members": layout.members,
            "starts": np.array(self._basis.starts),
            "held_from": np.array([] if self._basis.cut is None else [self._basis.cut]),
            "residuals": np.array(self._residuals),
            "means": np.array(self._means),
            "losses": np.array(self._losses),
            "weights": np.array([self._held, self._largest_weight, MIN_HESSIAN * self._share]),
            "share": np.array([self._share]),
            "numbers": np.array([self._best, self._scored, self.order is None]),
            "nodes": _ends([tree.feature.size for tree in trees]),
            "leaves": _ends([grown.values.size for grown in self._trees]),
            "feature": _concatenated([tree.feature for tree in trees], np.int32),
            "cut": _concatenated([tree.cut for tree in trees], np.int64),
            "right": _concatenated([tree.right for tree in trees], np.int32),
            "nodes_of_leaves": _concatenated([tree.leaves for tree in trees], np.int64),
            "values": _concatenated([grown.values for grown in self._trees], np.float64),
            "best_values": _concatenated([grown.values for grown in self._best_trees], np.float64),
        }

    @classmethod
    def restore(cls, problem: Problem, arrays: Mapping[str, Array]) -> Boosting:
        """Return the state from which :meth:`checkpoint` made the arrays."""
        state = cls(problem)
        if not arrays:
            return state
        layout = Layout(*(arrays[name] for name in ("edges", "begins", "places", "members")))
        state._basis = Basis(layout, tuple(arrays["starts"].tolist()), next(iter(arrays["held_from"].tolist()), None))
        state._residuals, state._means = arrays["residuals"].tolist(), arrays["means"].tolist()
        state._losses = arrays["losses"].tolist()
        state._held, state._largest_weight, min_hessian = arrays["weights"].tolist()
        state._share = next(iter(arrays.get("share", np.array([min_hessian / MIN_HESSIAN])).tolist()))
        state._best, state._scored, is_done = arrays["numbers"].tolist()
        best_values = arrays.get("best_values", np.empty(0))  # earlier versions had none, and no share
        places = zip(pairwise(arrays["nodes"].tolist()), pairwise(arrays["leaves"].tolist()), strict=True)
        for nodes, leaves in ((slice(*a), slice(*b)) for a, b in places):
            feature, cut, right = (arrays[name][nodes] for name in ("feature", "cut", "right"))
            tree = Tree(feature, cut, right, arrays["nodes_of_leaves"][leaves])
            state._trees.append(Grown(tree, arrays["values"][leaves]))
            if leaves.stop <= best_values.size:
                state._best_trees.append(Grown(tree, best_values[leaves]))
        if is_done:
            state.order = None
        else:
            state._next_tree(everything=True, rescored=problem.settings.backfit > 0)
        return state


def boost(
    X: Rows,
    targets: Floats,
    problem: Problem,
    n_threads: int = 1,
    *,
    sample_weight: Floats | None = None,
    division: Division | None = None,
) -> Boosted:
    """Fit the trees to rows in memory.

    Parameters
    ----------
    X : float64 ndarray or csr_array, shape (n, d)
    targets : ndarray, shape (n,)
        Numbers, 0 or 1, or the numbers of classes, each of which is an output.
    sample_weight : ndarray of float64, shape (n,), optional
        Weights of the rows: of their losses, their gradients and hessians, but not of their number in a leaf.
    division : Division, optional
        Division that the rows which are held out follow.

    Notes
    -----
    Source: Friedman, Greedy function approximation: a gradient boosting machine, 2001; Ke et al., LightGBM, 2017, for
    leaf-wise growth on histograms. The result has the same bits for any number of threads, since histograms are sums of
    whole numbers.
    """
    state = Boosting(replace(problem.divided(division), at_once=1, n_threads=n_threads))
    places = None if division is None else problem.places(division)
    piece = Piece(whole_piece(Block(X, targets, sample_weight), n_threads), problem.drawn, places)
    while state.order is not None:
        state.absorb(piece.sums(state.order))
    return state.boosted()


def _joined(rows: Sequence[Rows]) -> Rows:
    if len(rows) == 1:
        return rows[0]
    if isinstance(rows[0], np.ndarray):
        return np.concatenate(rows)
    return sp.csr_array(sp.vstack(rows, format="csr"))


def _ends(sizes: Sequence[int]) -> np.ndarray:
    ends: np.ndarray = np.r_[0, np.cumsum(sizes, dtype=np.int64)]
    return ends


def _concatenated(arrays: Sequence[Array], dtype: type[np.generic]) -> Array:
    return np.concatenate([*arrays, np.empty(0, dtype=dtype)])


def _partitions(trees: Sequence[Tree], layout: Layout) -> ForestPartitions:
    feature = np.concatenate([tree.feature for tree in trees])
    cut = np.concatenate([tree.cut for tree in trees])
    threshold, inner = np.zeros(feature.size), feature != LEAF
    threshold[inner] = layout.edges[layout.begins[feature[inner]] + cut[inner] - 1]
    return ForestPartitions(
        feature=feature,
        threshold=threshold,
        right=np.concatenate([tree.right for tree in trees]),
        roots=_ends([tree.feature.size for tree in trees]),
        n_features=layout.n_columns,
    )


def _coef(values: Sequence[Floats], n_outputs: int) -> Floats:
    coef = np.zeros((sum(value.size for value in values), n_outputs))
    begin = 0
    for number, value in enumerate(values):
        coef[begin : begin + value.size, number % n_outputs] = value
        begin += value.size
    return coef
