"""A piece of the rows that boosting learns from, and the sums over it that the rounds order.

What a piece keeps, beside the bins of its rows, follows from the trees so far: one that has been lost is made again
from an order that has them all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np

from ikmap import seed_paths
from ikmap._thread_team import ThreadTeam
from ikmap.arrays import Floats
from ikmap.learners.boosting._growth_loops import (
    MOST_BINS,
    ROW_COST,
    Workspace,
    add_in_blocks,
    add_leaves,
    add_tree,
    add_values,
    backfit,
    begin_tree,
    divide,
    fill_drawn,
    fill_histogram,
    find_leaves,
    grow_tree,
    sums_of_leaves,
)
from ikmap.learners.boosting._loss_loops import Derivation, derive
from ikmap.learners.boosting.bins import Layout, edge_rows
from ikmap.learners.boosting.growth import Growing, Split, Tree
from ikmap.learners.boosting.losses import Loss
from ikmap.learners.rows import Block, PieceRows, concatenated
from ikmap.rows import Rows
from ikmap.seeds import generator

SUM_ROWS = 4096
"""Number of rows whose losses are added up at a time. Pieces begin at multiples of it, so that sums are the same."""
DERIVE_COST, ADD_COST, LEAF_COST, DIVIDE_COST, WALK_COST = 6, 2, 3, 2, 50
"""Rough nanoseconds that it takes for a row to derive it, to add the value of its leaf, to add it to the sums of its
leaf, to put it among the rows of a child, and to find its leaf."""
GROW_COST = 3
"""Rough nanoseconds that a tree takes for a byte of a row."""
BACKFIT_SHARE = 0.3
"""Share of the way to its best value that backfitting takes each leaf: the others are on their way too."""
WHOLE_TREE_BYTES = 1 << 26
"""Most bytes of the histograms of a tree that is grown at once."""


@dataclass(frozen=True)
class Drawn:
    """The facts on all rows by which a piece draws some of them.

    Attributes
    ----------
    loss : Loss
    seed : int
    n_rows, n_columns, n_outputs : int
    held_out, row_share : float
        Share of the rows that are held out, and of the others that each tree is grown on.
    backfits : bool
        True if the values of leaves are estimated anew, for which the leaves of all rows are kept.
    """

    loss: Loss
    seed: int
    n_rows: int
    n_columns: int
    n_outputs: int
    held_out: float
    row_share: float
    backfits: bool = False


# Orders


@dataclass(frozen=True)
class Look:
    """The order of the first round: rows to take edges from, and sums over the targets.

    Attributes
    ----------
    cut : float or None
        Place from which on rows are held out, where rows have places; None: rows are drawn.
    """

    cut: float | None = None


@dataclass(frozen=True, eq=False)
class Check:
    """The order to find columns that cannot share their bytes.

    Attributes
    ----------
    layout : Layout
    """

    layout: Layout


@dataclass(frozen=True, eq=False)
class Basis:
    """The basis of all trees.

    Attributes
    ----------
    layout : Layout
    starts : tuple of float
        First margin of each output.
    cut : float or None
        Place from which on rows are held out, where rows have places.
    """

    layout: Layout
    starts: tuple[float, ...]
    cut: float | None = None


@dataclass(frozen=True, eq=False)
class Grown:
    """A tree with the value of each leaf.

    Attributes
    ----------
    tree : Tree
    values : ndarray of float64, shape (number of leaves,)
    """

    tree: Tree
    values: Floats


@dataclass(frozen=True, eq=False)
class Order:
    """The order of a round of growth: it adds trees to the margins, divides rows, and says what is to be summed up.

    Attributes
    ----------
    basis : Basis or None
        None: pieces have it.
    first : int
        Number of the first of the trees; with a basis 0.
    trees : tuple of Grown
        Trees before the one that grows, of which pieces have those before the first.
    scored : tuple of int
        Outputs whose losses of held-out rows are summed up.
    growing : Growing or None
        None: only losses are wanted.
    splits : list of (int, int, int)
        Splits of the tree that grows, in order (:attr:`~ikmap.learners.boosting.growth.Growth.splits`).
    wanted : tuple of int
        Nodes whose histograms are made.
    leaves : ndarray of int64 or None
        Nodes whose gradients and hessians are summed up, once the tree is grown.
    """

    basis: Basis | None
    first: int
    trees: tuple[Grown, ...]
    scored: tuple[int, ...]
    growing: Growing | None
    splits: list[Split]
    wanted: tuple[int, ...]
    leaves: np.ndarray | None

    @property
    def tree(self) -> int:
        """Number of the tree that grows."""
        return self.first + len(self.trees)


@dataclass(frozen=True, eq=False)
class Backfit:
    """The order to estimate the values of the leaves of all trees anew, for a piece that has all rows.

    Attributes
    ----------
    basis, first, trees
        As those of an :class:`Order`.
    l2 : float
        Weight of the squared values.
    """

    basis: Basis | None
    first: int
    trees: tuple[Grown, ...]
    l2: float

    @property
    def tree(self) -> int:
        """Number of trees."""
        return self.first + len(self.trees)


# Sums


@dataclass(eq=False)
class Looked:
    """Findings of the first round.

    Attributes
    ----------
    rows : list of ndarray or csr_array
        Rows to take edges from.
    kept : int
        Number of rows that are not held out.
    weights : ndarray of float64, shape (2, number of blocks)
        Sums of the weights of rows that are not held out, and of rows that are, in blocks of :data:`SUM_ROWS` rows.
    largest_weight : float
        Largest weight of a row.
    sums : ndarray of float64, shape (K, number of blocks)
        Sums of the targets that are not held out, times the weights of the rows, in blocks.
    low, high : float
        Smallest and largest target of rows with a weight.
    targets : list of ndarray
        All targets that are not held out, for a loss that needs them.
    """

    rows: list[Rows]
    kept: int
    weights: Floats
    largest_weight: float
    sums: Floats
    low: float
    high: float
    targets: list[Floats]

    def __iadd__(self, other: Looked) -> Looked:
        """Add what was found in the rows that follow."""
        self.rows += other.rows
        self.kept += other.kept
        self.weights = np.concatenate([self.weights, other.weights], axis=1)
        self.largest_weight = max(self.largest_weight, other.largest_weight)
        self.sums = np.concatenate([self.sums, other.sums], axis=1)
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)
        self.targets += other.targets
        return self


@dataclass(eq=False)
class Clashes:
    """Columns that cannot share their bytes.

    Attributes
    ----------
    marked : ndarray of bool, shape (d,)
    """

    marked: np.ndarray

    def __iadd__(self, other: Clashes) -> Clashes:
        """Add the columns of other rows."""
        self.marked = self.marked | other.marked
        return self


@dataclass(eq=False)
class Sums:
    """Sums over rows.

    Attributes
    ----------
    histograms : ndarray of int64, shape (number of wanted nodes, number of all bins, 2)
    leaves : ndarray of int64, shape (number of leaves, 2)
        Sums of gradients and hessians.
    losses : ndarray of float64, shape (number of outputs, number of blocks)
        Losses of held-out rows, times their weights, in blocks of :data:`SUM_ROWS` rows.
    largest : float
        Largest gradient, up to its sign, for a loss without a bound of its own.
    values : ndarray of float64 or None
        Values of leaves, for a loss that needs all of their rows at once.
    lacking : bool
        True if a piece has not the trees to begin with, so that the sums are worth nothing.
    splits : list of (int, int, int) or None
        All splits of the tree, from a piece that has all rows and so has grown it.
    """

    histograms: np.ndarray
    leaves: np.ndarray
    losses: Floats
    largest: float = 0.0
    values: Floats | None = None
    lacking: bool = False
    splits: list[Split] | None = None

    @classmethod
    def none(cls) -> Sums:
        """Return that the piece lacks trees."""
        nothing = np.empty((0, 0))
        return cls(nothing, nothing, nothing, lacking=True)

    def __iadd__(self, other: Sums) -> Sums:
        """Add the sums over the rows that follow."""
        if self.lacking or other.lacking:
            self.lacking = True
            return self
        assert self.values is None
        assert self.splits is None
        self.histograms = np.require(self.histograms, requirements="W")
        self.histograms += other.histograms
        self.leaves = self.leaves + other.leaves
        self.losses = np.concatenate([self.losses, other.losses], axis=1)
        self.largest = max(self.largest, other.largest)
        return self


@dataclass(eq=False)
class Refitted:
    """Values of the leaves of all trees, which have been estimated anew.

    Attributes
    ----------
    values : list of ndarray
        Of each tree.
    residuals : list of float
        Of each output, the largest difference of a margin and its target.
    """

    values: list[Floats]
    residuals: list[float]


# The piece


@dataclass(eq=False)
class _Rows:
    """The rows of the tree that grows.

    Attributes
    ----------
    tree : int
        Number of the tree.
    order : ndarray of uint32
        Numbers of the rows, those of a node one after the other.
    largest : float
        Largest gradient, up to its sign.
    splits : list of (int, int, int)
        Splits that they are divided by.
    ranges : list of (int, int)
        Where the rows of each node begin and end.
    sums : ndarray of int64, shape (number of nodes, 2), or None
        Sums of the gradients and hessians of each leaf, of a tree that has been grown at once.
    """

    tree: int
    order: np.ndarray
    largest: float = 0.0
    splits: list[Split] = field(default_factory=list)
    ranges: list[tuple[int, int]] = field(default_factory=list)
    sums: np.ndarray | None = None

    def of(self, node: int) -> np.ndarray:
        """Return the rows of a node."""
        begin, end = self.ranges[node]
        return self.order[begin:end]

    def has(self, nodes: np.ndarray) -> bool:
        """Return whether rows are divided into some nodes, as they are not if the piece missed orders of the tree."""
        return bool(nodes.max() < len(self.ranges))

    def ranges_of(self, nodes: np.ndarray) -> np.ndarray:
        """Return where the rows of some nodes begin and end, shape (number of nodes, 2)."""
        return np.array([self.ranges[node] for node in nodes.tolist()], dtype=np.int64).reshape(-1, 2)


class Piece:
    """The rows of a piece, with their bins and margins, on one thread or several.

    Parameters
    ----------
    rows : PieceRows
        Their first row has a multiple of :data:`SUM_ROWS` as its number.
    drawn : Drawn
    places : ndarray of float64, optional
        Places of the rows in the order whose last rows are held out (:meth:`ikmap.divisions.Division.places`); without
        them, rows that are held out are drawn.
    """

    _kept: np.ndarray
    _held: np.ndarray
    _weight: Floats | None

    def __init__(self, rows: PieceRows, drawn: Drawn, places: Floats | None = None) -> None:
        assert rows.start % SUM_ROWS == 0
        self._rows, self._drawn, self._n, self._places = rows, drawn, rows.stop - rows.start, places
        self._team = ThreadTeam(rows.n_threads)
        self._has_sides = False
        self._layout: Layout | None = None
        self._n_trees = 0
        self._growing: _Rows | None = None

    def _take_sides(self, weights: Sequence[Floats | None], cut: float | None) -> None:
        """Find the rows that are held out and those that are learned from; rows of weight 0 are neither.

        Parameters
        ----------
        weights : sequence of ndarray or None
            Weights of the rows of each block; None: all weigh 1.
        cut : float or None
            Place from which on rows are held out; None: rows are drawn.
        """
        if self._has_sides:
            return
        drawn, start = self._drawn, self._rows.start
        held, present = np.zeros(self._n, dtype=np.bool_), np.ones(self._n, dtype=np.bool_)
        if cut is not None:
            assert self._places is not None
            held = self._places >= cut
        elif drawn.held_out > 0.0:
            key = generator(drawn.seed, seed_paths.BOOSTING_HELD_OUT).integers(2**64, dtype=np.uint64)
            fill_drawn(key, _limit(drawn.held_out), start, held)
            held[: 1 if start == 0 else 0] = False  # so that there is a row to learn from
        self._weight = None
        if all(weight is not None for weight in weights):
            self._weight = self._rows.zeros((self._n,), np.float64)
            self._weight[:] = np.concatenate(cast("list[Floats]", weights))
            present = self._weight > 0.0
        self._kept, self._held = (self._numbers(mask & present) for mask in (~held, held))
        self._has_sides = True

    def _numbers(self, mask: np.ndarray) -> np.ndarray:
        """Return the numbers of the rows in a mask, to be kept."""
        numbers = self._rows.zeros((int(np.count_nonzero(mask)),), np.uint32)
        numbers[:] = np.flatnonzero(mask)
        return numbers

    def sums(self, order: Look | Check | Order | Backfit) -> Looked | Clashes | Sums | Refitted:
        """Return the sums over the rows of the piece that are ordered."""
        if isinstance(order, Look):
            return self._look(order.cut)
        if isinstance(order, Check):
            clashes = Clashes(np.zeros(order.layout.n_columns, dtype=np.bool_))
            layout = order.layout.owned()
            for block in self._rows.blocks:
                clashes.marked |= layout.clashes(cast("Rows", block.rows))
            return clashes
        if self._is_behind(order):
            if order.basis is None:
                return Sums.none()
            self._begin(order.basis)
        for number in range(self._n_trees, order.tree):
            self._add(order.trees[number - order.first], number)
        self._n_trees = order.tree
        if isinstance(order, Backfit):
            return self._backfit(order.l2)
        losses = [self._losses(k) for k in order.scored]
        losses_of_blocks = np.array(losses) if losses else np.empty((0, self._n_blocks))
        if order.growing is None:
            nothing = np.empty((0, 0))
            return Sums(nothing, nothing, losses_of_blocks)
        assert self._layout is not None
        growing, bytes_ = order.growing, order.growing.bytes_of(self._layout)
        histograms, splits = np.zeros((len(order.wanted), int(self._first_bins[-1]), 2), dtype=np.int64), None
        if order.wanted == (0,):
            rows, kept = self._begun(order.tree, growing)
            derivation = self._derivation(order.tree, growing)
            if self._grows(growing):
                splits = self._grow(rows, kept, derivation, growing, bytes_, histograms[0])
            else:
                self._begin_tree(rows, kept, derivation, bytes_, histograms[0])
        else:
            rows = self._divided(order, growing)
            for node, histogram in zip(order.wanted, histograms, strict=True):
                self._fill_histogram(rows.of(node), bytes_, histogram)
        leaves, values = self._leaves(order, rows)
        return Sums(histograms, leaves, losses_of_blocks, rows.largest, values, splits=splits)

    # Before the first tree

    def _look(self, cut: float | None) -> Looked:
        drawn, start = self._drawn, self._rows.start
        numbers = edge_rows(drawn.n_rows, drawn.n_columns, drawn.seed)
        numbers = numbers[slice(*np.searchsorted(numbers, [start, self._rows.stop]))] - start
        chosen: list[Rows] = []
        weights: list[Floats | None] = []
        y, begin = np.empty(self._n), 0
        for block in self._rows.blocks:
            end = begin + block.y.size
            y[begin:end] = block.y
            weights.append(block.sample_weight)
            own = numbers[slice(*np.searchsorted(numbers, [begin, end]))] - begin
            if block.sample_weight is not None:
                own = own[block.sample_weight[own] > 0.0]
            if own.size:
                rows = cast("Rows", block.rows)
                chosen.append(rows if own.size == block.y.size else rows[own])
            begin = end
        self._take_sides(weights, cut)
        sums, targets = np.empty((drawn.n_outputs, self._n_blocks)), list[Floats]()
        for k in range(drawn.n_outputs):  # of many classes, the targets of one at a time
            target = self._target(k, y)[self._kept]
            sums[k] = self._in_blocks(self._weighted(target, self._kept), self._kept)
            if drawn.loss.by_rows:
                targets.append(target)
        sides = self._kept, self._held
        sums_of_weights = np.array([self._in_blocks(self._weighted(np.ones(own.size), own), own) for own in sides])
        largest_weight = 1.0
        if self._weight is not None:
            y, largest_weight = y[self._weight > 0.0], float(self._weight.max())
        bounds = float(y.min(initial=np.inf)), float(y.max(initial=-np.inf))
        return Looked(chosen, self._kept.size, sums_of_weights, largest_weight, sums, *bounds, targets)

    def _is_behind(self, order: Order | Backfit) -> bool:
        """Return whether the trees that an order has do not follow on those that the piece has."""
        return self._layout is None or not order.first <= self._n_trees <= order.tree

    def _begin(self, basis: Basis) -> None:
        """Begin with no tree."""
        zeros, n = self._rows.zeros, self._n
        if self._layout is None:
            layout = self._layout = basis.layout.owned()
            self._first_bins = layout.first_bins
            self._codes = zeros((n, layout.n_bytes), layout.dtype)
            self._y, begin = zeros((n,), np.float64), 0
            weights: list[Floats | None] = []
            for block in self._rows.blocks:
                part = slice(begin, begin + block.y.size)
                layout.fill(cast("Rows", block.rows), self._codes[part], self._rows.n_threads)
                self._y[part] = block.y
                weights.append(block.sample_weight)
                begin = part.stop
            self._take_sides(weights, basis.cut)
            self._margin = zeros((self._drawn.n_outputs, n), np.float64)
            self._gradient, self._hessian = zeros((n,), np.float64), zeros((n,), np.float64)
            self._words = zeros((n, 2), np.int64)
            self._order, self._scratch = zeros((n,), np.uint32), zeros((n,), np.uint32)
            n_bins, n_threads = int(self._first_bins[-1]), self._rows.n_threads
            self._shared = (
                np.zeros(n_threads, dtype=np.int64),
                np.empty((n_threads, n_bins, 2), dtype=np.int64),
                np.empty((n_threads, 2)),
                np.empty((n_threads, 2, 2), dtype=np.int64),
            )
        self._starts = basis.starts
        self._margin[:] = np.array(basis.starts)[:, None]
        self._n_trees, self._growing = 0, None
        self._leaves_of = [_Leaves(self._n) for _ in basis.starts]

    def _target(self, k: int, y: Floats | None = None) -> Floats:
        """Return the targets of an output: those of the rows, or 1 for the class of the output and 0 for others.

        They are the rows that are held, or have the targets `y`.
        """
        y = self._y if y is None else y
        return y if self._drawn.n_outputs == 1 else (y == k).astype(np.float64)

    # Sums over held-out rows

    @property
    def _n_blocks(self) -> int:
        return -(-self._n // SUM_ROWS)

    def _weighted(self, values: Floats, rows: np.ndarray) -> Floats:
        """Return the values of some rows times their weights."""
        return values if self._weight is None else values * self._weight[rows]

    def _in_blocks(self, values: Floats, rows: np.ndarray) -> Floats:
        sums = np.zeros(self._n_blocks)
        add_in_blocks(values, (rows // SUM_ROWS).astype(np.int64), sums)
        return sums

    def _losses(self, k: int) -> Floats:
        losses = self._drawn.loss.each(self._margin[k][self._held], self._target(k)[self._held])
        return self._in_blocks(self._weighted(losses, self._held), self._held)

    # A tree that is grown

    def _add(self, grown: Grown, number: int) -> None:
        """Add the values of a tree to the margins of all rows."""
        assert self._layout is not None
        margin, tree, rows = self._margin[number % self._drawn.n_outputs], grown.tree, self._growing
        if rows is not None and rows.tree == number and rows.order.size == self._kept.size and rows.has(tree.leaves):
            ranges, own = rows.ranges_of(tree.leaves), np.array(grown.values)

            def add(start: int, stop: int) -> None:
                add_values(rows.order, start, stop, ranges, own, margin)

            self._team.share(add, rows.order.size, ADD_COST)
            others = self._held
        elif self._weight is not None:
            others = np.concatenate([self._kept, self._held])
        else:
            others = np.arange(self._n, dtype=np.uint32)
        nodes = *self._layout.ranges(tree.feature, tree.cut), np.array(tree.right), np.array(grown.values)

        def walk(start: int, stop: int) -> None:
            add_tree(self._codes, others[start:stop], *nodes, margin)

        self._team.share(walk, others.size, WALK_COST)
        if self._drawn.backfits:
            self._leaves_of[number % self._drawn.n_outputs].add(self._codes, nodes[:4], grown.values)

    def _backfit(self, l2: float) -> Refitted:
        """Estimate the values of all leaves anew; margins are then those of trees that have been added in order."""
        drawn, values = self._drawn, list[list[Floats]]()
        residuals: list[float] = []
        for k, leaves in enumerate(self._leaves_of):
            margin, target = self._margin[k], self._target(k)
            drawn.loss.gradient(margin, target, self._gradient, self._hessian)
            if self._weight is not None:
                self._gradient *= self._weight
                self._hessian *= self._weight
            values.append(leaves.refit(self._kept, self._gradient, self._hessian, l2))
            margin[:] = self._starts[k]
            leaves.add_to(margin)
            residuals.append(float(np.abs((margin - target)[self._kept]).max(initial=0.0)))
        self._growing = None
        return Refitted([values[t % drawn.n_outputs][t // drawn.n_outputs] for t in range(self._n_trees)], residuals)

    # The tree that grows

    def _begun(self, tree: int, growing: Growing) -> tuple[_Rows, np.ndarray]:
        """Return the rows of a tree that begins to grow, and their ascending numbers, which are yet to be written."""
        kept = self._kept
        if growing.key is not None:
            drawn = np.empty(self._n, dtype=np.bool_)
            fill_drawn(np.uint64(growing.key), _limit(self._drawn.row_share), self._rows.start, drawn)
            kept = kept[drawn[kept]]
        self._growing = _Rows(tree, self._order[: kept.size], ranges=[(0, kept.size)])
        return self._growing, kept

    def _begin_tree(
        self, rows: _Rows, kept: np.ndarray, derivation: Derivation, bytes_: np.ndarray, histogram: np.ndarray
    ) -> None:
        """Derive all rows, and write the histogram of those that a tree begins with."""
        nothing = np.empty((0, 2), dtype=np.int64)

        def work(space: Workspace) -> float:
            of_bytes = bytes_, self._first_bins, histogram, nothing
            largest: float = begin_tree(self._codes, derivation, kept, rows.order, *of_bytes, space)
            return largest

        rows.largest = self._together(work, self._cost_of_beginning(rows, bytes_))

    def _cost_of_beginning(self, rows: _Rows, bytes_: np.ndarray) -> int:
        return self._n * DERIVE_COST + rows.order.size * (bytes_.size + ROW_COST)

    def _divided(self, order: Order, growing: Growing) -> _Rows:
        """Return the rows of the tree that grows, divided by its splits."""
        rows = self._growing
        if rows is None or rows.tree != order.tree or rows.splits != order.splits[: len(rows.splits)]:
            rows, kept = self._begun(order.tree, growing)
            rows.order[:] = kept
            rows.largest = self._derive(self._derivation(order.tree, growing))
        for split in order.splits[len(rows.splits) :]:
            self._divide(rows, *split)
            rows.splits.append(split)
        return rows

    def _grows(self, growing: Growing) -> bool:
        """Return whether the piece grows a whole tree at once.

        It does if it has all rows, unless the histograms of all leaves would take much memory.
        """
        in_bytes = 16 * int(self._first_bins[-1]) * growing.settings.max_leaves
        return self._n == self._drawn.n_rows and in_bytes <= WHOLE_TREE_BYTES

    def _grow(
        self,
        rows: _Rows,
        kept: np.ndarray,
        derivation: Derivation,
        growing: Growing,
        bytes_: np.ndarray,
        histogram: np.ndarray,
    ) -> list[Split]:
        """Derive all rows, write the histogram of those of the tree, and grow it; return its splits."""
        assert self._layout is not None
        n_nodes, scales = 2 * growing.settings.max_leaves - 1, growing.scales
        histograms = np.empty((growing.settings.max_leaves, *histogram.shape), dtype=np.int64)
        codes = self._codes, derivation, kept, rows.order, self._scratch, bytes_, self._first_bins
        of_columns = growing.columns_of(self._layout), self._layout.places, self._layout.members
        sums = np.zeros((self._team.n_threads, n_nodes, 2), dtype=np.int64)

        def work(space: Workspace) -> tuple[int, float, np.ndarray, np.ndarray]:
            splits, ranges = np.empty((n_nodes // 2, 3), dtype=np.int64), np.empty((n_nodes, 2), dtype=np.int64)
            written = histogram, histograms, splits, ranges
            of_leaves = scales.leaf_gradient, scales.leaf_hessian, sums[space.thread]
            n_splits, largest = grow_tree(*codes, *of_columns, *growing.limits, *written, *of_leaves, space)
            return n_splits, largest, splits, ranges

        cost = self._cost_of_beginning(rows, bytes_) + GROW_COST * rows.order.size * bytes_.size
        n, rows.largest, splits, ranges = self._together(work, cost)
        rows.splits = [(node, column, cut) for node, column, cut in splits[:n].tolist()]
        rows.ranges = [(begin, end) for begin, end in ranges[: 2 * n + 1].tolist()]
        rows.sums = sums.sum(axis=0)
        return rows.splits

    def _derivation(self, tree: int, growing: Growing) -> Derivation:
        """Return the inputs and the outputs of the derivatives of all rows for a tree."""
        k, loss, scales = tree % self._drawn.n_outputs, self._drawn.loss, growing.scales
        weight = np.empty(0) if self._weight is None else self._weight
        of_rows = self._margin[k], self._target(k), weight, self._gradient, self._hessian
        factors = scales.gradient, scales.hessian, scales.shift
        rounding = scales.by_chance, np.uint64(growing.rounding), self._rows.start
        return Derivation(loss.number, loss.level, *of_rows, *factors, *rounding, self._words)

    def _derive(self, derivation: Derivation) -> float:
        """Write derivatives and words of all rows; return the largest gradient for a weight of 1."""
        largest: list[float] = []
        self._team.share(lambda *part: largest.append(derive(derivation, *part)), self._n, DERIVE_COST)
        return max(largest)

    def _divide(self, rows: _Rows, node: int, column: int, cut: int) -> None:
        assert self._layout is not None
        begin, end = rows.ranges[node]
        member, low, high = int(self._layout.members[column]), cut, MOST_BINS
        if member:
            low, high = member, member + 1
        middle = begin + self._divided_at(rows.order[begin:end], int(self._layout.places[column]), low, high)
        rows.ranges += [(begin, middle), (middle, end)]

    def _divided_at(self, rows: np.ndarray, place: int, low: int, high: int) -> int:
        """Put the rows whose byte is not in [low, high) before the others, in the same order; return their number."""

        def work(space: Workspace) -> int:
            n_left: int = divide(self._codes, rows, place, low, high, self._scratch, space)
            return n_left

        return self._together(work, rows.size * DIVIDE_COST)

    def _fill_histogram(self, rows: np.ndarray, bytes_: np.ndarray, histogram: np.ndarray) -> None:
        """Write the sums of the words of some rows to a histogram."""
        nothing = np.empty((0, 2), dtype=np.int64)

        def work(space: Workspace) -> None:
            fill_histogram(self._codes, rows, self._words, bytes_, self._first_bins, histogram, nothing, space)

        self._together(work, rows.size * (bytes_.size + ROW_COST))

    def _together[A](self, work: Callable[[Workspace], A], cost: int) -> A:
        """Have threads do their shares of a step at once, which would take a single one `cost` nanoseconds."""

        def with_arrays(number: int, n_threads: int, barrier: np.ndarray) -> A:
            return work(Workspace(number, n_threads, barrier, *self._shared))

        return self._team.together(with_arrays, cost)

    def _leaves(self, order: Order, rows: _Rows) -> tuple[np.ndarray, Floats | None]:
        """Return the sums of the leaves and, for a loss that needs all rows of a leaf, their values."""
        if order.leaves is None:
            return np.empty((0, 2), dtype=np.int64), None
        assert order.growing is not None
        scales, ranges = order.growing.scales, rows.ranges_of(order.leaves)
        parts: list[np.ndarray] = []
        if rows.sums is not None:
            parts.append(rows.sums[order.leaves])

        def work(start: int, stop: int) -> None:
            own, factors = np.empty(ranges.shape, dtype=np.int64), (scales.leaf_gradient, scales.leaf_hessian)
            sums_of_leaves(rows.order, start, stop, ranges, self._gradient, self._hessian, *factors, own)
            parts.append(own)

        if rows.sums is None:
            self._team.share(work, rows.order.size, LEAF_COST)
        sums = np.sum(parts, axis=0)
        if not self._drawn.loss.by_rows:
            return sums, None
        k = order.tree % self._drawn.n_outputs
        margin, target = self._margin[k], self._target(k)
        values = [self._drawn.loss.leaf_value(margin[own], target[own]) for own in map(rows.of, order.leaves.tolist())]
        return sums, np.array(values)


class _Leaves:
    """Leaves of all rows in all trees of an output, and the values of the leaves.

    Parameters
    ----------
    n : int
        Number of rows.
    """

    def __init__(self, n: int) -> None:
        self._of_row = np.empty((0, n), dtype=np.uint16)
        self._values: list[Floats] = []

    def add(self, codes: np.ndarray, nodes: tuple[np.ndarray, ...], values: Floats) -> None:
        """Add a tree."""
        number = len(self._values)
        if number == len(self._of_row):
            wider = np.empty((max(16, 2 * number), self._of_row.shape[1]), dtype=np.uint16)
            wider[:number] = self._of_row
            self._of_row = wider
        find_leaves(codes, *nodes, self._of_row[number])
        self._values.append(np.array(values))

    def refit(self, rows: np.ndarray, gradient: Floats, hessian: Floats, l2: float) -> list[Floats]:
        """Estimate the values anew by the derivatives of the losses of these rows; return those of each tree."""
        values = np.concatenate(self._values)
        begins = self._begins
        backfit(self._trees, rows, begins, gradient, hessian, l2, BACKFIT_SHARE, values)
        self._values = np.split(values, begins[1:-1])
        return self._values

    def add_to(self, margin: Floats) -> None:
        """Add the values of their leaves to the margins of all rows."""
        add_leaves(self._trees, self._begins, np.concatenate(self._values), margin)

    @property
    def _trees(self) -> np.ndarray:
        return self._of_row[: len(self._values)]

    @property
    def _begins(self) -> np.ndarray:
        begins: np.ndarray = np.r_[0, np.cumsum([values.size for values in self._values], dtype=np.int64)]
        return begins


def _limit(share: float) -> np.uint64:
    """Return the number of 64 bits below which that share of all numbers is."""
    return np.uint64(int(share * 2.0**64))


def whole_piece(block: Block, n_threads: int) -> PieceRows:
    """Return all rows as one piece."""
    return PieceRows([concatenated([block])], 0, block.y.size, True, n_threads)
