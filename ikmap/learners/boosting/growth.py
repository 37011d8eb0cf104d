"""Trees that are grown leaf by leaf from histograms, which may come from anywhere, of many leaves at once.

The histograms are sums of whole numbers, so that a tree has the same bits however the rows are divided, and however
many leaves are looked at before they are split.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

import numpy as np

from ikmap.learners.boosting._growth_loops import best_split, fill_tree
from ikmap.learners.boosting.bins import Layout
from ikmap.partitioners._iforest_loops import LEAF

WORD_BITS = 62
"""Bits of a sum of words."""
MOST_BITS = 30
"""Bits of the whole number of a gradient or a hessian in a histogram."""
FEW_BITS = 16
"""Bits of the whole number of a hessian below which it is rounded by chance: from 8 million rows on."""
LEAST_EXPONENT = -900
"""Exponent of the smallest numbers that have scales of their own."""
MIN_HESSIAN = 1e-3
"""Smallest sum of hessians in a leaf, where rows have no weights."""


type Split = tuple[int, int, int]
"""Number of a node, and the column and the cut by which it is split."""


@dataclass(frozen=True)
class TreeSettings:
    """Settings by which a tree grows.

    Attributes
    ----------
    max_leaves : int
    min_leaf : int
        Smallest number of rows in a leaf.
    l2 : float
        Weight of the squared value of a leaf.
    """

    max_leaves: int = 31
    min_leaf: int = 20
    l2: float = 1.0


@dataclass(frozen=True)
class Scales:
    """Scales by which gradients and hessians become whole numbers, whose sums over all rows are exact.

    In a histogram, the word of a gradient has at most 30 bits, and that of a hessian, shifted by `shift` bits, plus 1,
    as many as there is room for. The sums of a leaf have as many bits as there is room for.

    Where there is little room, the hessian of a rare class is less than half of a 1: rounded to the nearest it is
    0 in every row. Rounded up or down by chance, its sums are right on average, and near that over many rows.

    Attributes
    ----------
    gradient, hessian : float
        Factors for histograms, powers of 2.
    leaf_gradient, leaf_hessian : float
        Factors for the sums of leaves.
    shift : int
        Number of bits of the number of rows.
    by_chance : bool
        True if hessians of histograms are rounded up or down by chance, and not to the nearest.
    """

    gradient: float
    hessian: float
    leaf_gradient: float
    leaf_hessian: float
    shift: int
    by_chance: bool

    @classmethod
    def of(cls, n: int, largest_gradient: float, largest_hessian: float) -> Scales:
        """Return the scales for n rows, and for bounds of gradients and hessians, which include the weights of rows."""
        shift = int(n).bit_length()
        exponents = [
            max(int(np.frexp(largest)[1]), LEAST_EXPONENT) if largest else 0
            for largest in (largest_gradient, largest_hessian)
        ]
        room = WORD_BITS - shift, WORD_BITS - 2 * shift
        gradient, hessian = (2.0 ** (min(bits, MOST_BITS) - e) for bits, e in zip(room, exponents, strict=True))
        leaf_gradient, leaf_hessian = (2.0 ** (room[0] - e) for e in exponents)
        return cls(gradient, hessian, leaf_gradient, leaf_hessian, shift, room[1] < FEW_BITS)


@dataclass(frozen=True, eq=False)
class Growing:
    """The settings, the scales and the draws by which a tree grows.

    Attributes
    ----------
    settings : TreeSettings
    scales : Scales
    key : int or None
        Key by which its rows are drawn; None: it grows on all that are not held out.
    columns : ndarray of int64 or None
        Ascending numbers of the columns whose splits are compared; None: of all.
    min_hessian : float
        Smallest sum of hessians in a leaf.
    largest_value : float
        Bound of the value of a leaf, up to its sign.
    rounding : int
        Key by which hessians are rounded, where that is by chance.
    """

    settings: TreeSettings
    scales: Scales
    key: int | None = None
    columns: np.ndarray | None = None
    min_hessian: float = MIN_HESSIAN
    largest_value: float = math.inf
    rounding: int = 0

    def columns_of(self, layout: Layout) -> np.ndarray:
        """Return the ascending numbers of the columns whose splits are compared."""
        return np.arange(layout.n_columns, dtype=np.int64) if self.columns is None else np.array(self.columns)

    def bytes_of(self, layout: Layout) -> np.ndarray:
        """Return the ascending numbers of the bytes whose histograms are made."""
        bytes_: np.ndarray = np.unique(layout.places[self.columns_of(layout)])
        return bytes_

    @property
    def limits(self) -> tuple[float, float, int, int, float, float, float]:
        """Gradient and hessian that a 1 in a histogram stands for, and the limits of leaves, for compiled loops."""
        scales, settings = self.scales, self.settings
        units = 1 / scales.gradient, 1 / scales.hessian, scales.shift
        return *units, settings.min_leaf, self.min_hessian, settings.l2, self.largest_value


@dataclass(eq=False)
class Node:
    """A leaf of a tree that grows, or of one that might.

    Attributes
    ----------
    number : int
        Number by which the rows of the leaf are known: 0 of all rows, 2 s + 1 and 2 s + 2 of the children of split s.
    n : int
        Number of rows.
    histogram : ndarray of int64, shape (number of all bins, 2), or None
        None once it is of no more use.
    gain, column, cut
        The best split: a row goes left if its bin is below the cut.
    left, right : Node or None
        Children, once it has been divided.
    known : bool
        True once it has been divided and the best splits of its children are known.
    """

    number: int
    n: int
    histogram: np.ndarray | None = None
    gain: float = 0.0
    column: int = LEAF
    cut: int = 0
    left: Node | None = None
    right: Node | None = None
    known: bool = False

    @property
    def children(self) -> tuple[Node, Node]:
        """The children, the one of fewer rows first."""
        assert self.left is not None
        assert self.right is not None
        return (self.left, self.right) if self.left.n <= self.right.n else (self.right, self.left)


@dataclass(frozen=True, eq=False)
class Tree:
    """A tree whose nodes are in preorder, as those of :class:`~ikmap.partitioners.trees.TreePartitions`.

    Attributes
    ----------
    feature : ndarray of int32, shape (N,)
        Column of each node, or -1 in a leaf.
    cut : ndarray of int64, shape (N,)
        First bin that goes right.
    right : ndarray of int32, shape (N,)
        Right child, or the number of the leaf.
    leaves : ndarray of int64, shape (number of leaves,)
        Number of each leaf as a :class:`Node`.
    """

    feature: np.ndarray
    cut: np.ndarray
    right: np.ndarray
    leaves: np.ndarray

    @classmethod
    def of(cls, splits: Sequence[Split], taken: Sequence[int]) -> Tree:
        """Return the tree that has some of the splits by which rows are divided, given the numbers of these."""
        n_leaves = 1 + len(taken)
        feature, right = np.empty(2 * n_leaves - 1, dtype=np.int32), np.empty(2 * n_leaves - 1, dtype=np.int32)
        cut, leaves = np.empty(feature.size, dtype=np.int64), np.empty(n_leaves, dtype=np.int64)
        fill_tree(
            np.array(splits, dtype=np.int64).reshape(-1, 3),
            np.array(taken, dtype=np.int64),
            feature,
            cut,
            right,
            leaves,
        )
        return cls(feature, cut, right, leaves)


@dataclass
class Growth:
    """A tree that grows: of all leaves, that with the largest gain is split next; of equal ones, the older.

    Parameters
    ----------
    layout : Layout
    growing : Growing
    histogram : ndarray of int64, shape (number of all bins, 2)
        Sums of the words of all rows.

    Attributes
    ----------
    splits : list of (int, int, int)
        Number of the node, column and cut of each split that the rows are, or may be, divided by, in order. The tree
        has some of them; the children of the others are only there to be looked at.
    """

    layout: Layout
    growing: Growing
    histogram: np.ndarray
    splits: list[Split] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._columns = self.growing.columns_of(self.layout)
        first = int(self.layout.places[self._columns[0]])
        whole = slice(*self.layout.first_bins[first : first + 2].tolist())
        self.root = Node(0, self._count(self.histogram[whole]), self.histogram)
        self._pushed = 1
        self._taken: list[int] = []
        if self.root.n >= 2 * self.growing.settings.min_leaf:
            self._find_split(self.root)
        self._asked: list[Node] = []
        self._heap: Heap = [(-self.root.gain, 0, self.root)]

    def _count(self, sums: np.ndarray) -> int:
        """Return the number of rows of some bins."""
        return int(sums[:, 1].sum()) & ((1 << self.growing.scales.shift) - 1)

    @property
    def _n_leaves(self) -> int:
        return 1 + len(self._taken)

    def wanted(self, most: int | None = None) -> list[int]:
        """Split leaves as far as their histograms are known; return the nodes whose histograms are needed to go on.

        They are children of leaves that may be split next, of at most `most` leaves; none: the tree is grown. To know
        the next leaf to be split, the histograms of one leaf suffice; those of more are asked for where asking takes
        long.
        """
        while self._n_leaves < self.growing.settings.max_leaves and (best := self._heap[0][2]).column != LEAF:
            is_last = self._n_leaves + 1 == self.growing.settings.max_leaves
            if best.left is None:
                self._divide(best)
            if not best.known and not is_last:
                self._asked = self._next(most)
                return [node.children[0].number for node in self._asked]
            heappop(self._heap)
            self._pushed = _push_children(self._heap, best, self._pushed)
            best.histogram = None
            assert best.left is not None
            self._taken.append(best.left.number // 2)
        return []

    def _next(self, most: int | None) -> list[Node]:
        """Return leaves that may be split next: those that would be if the children of unknown ones had no splits.

        Other leaves will not be split, whatever the histograms say.
        """
        heap, pushed, asked = list(self._heap), self._pushed, list[Node]()
        for _ in range(self.growing.settings.max_leaves - 1 - self._n_leaves):
            if not heap or len(asked) == most or (node := heappop(heap)[2]).column == LEAF:
                break
            if node.left is None:
                self._divide(node)
            if node.known:
                pushed = _push_children(heap, node, pushed)
            else:
                asked.append(node)
        return asked

    def absorb(self, histograms: np.ndarray) -> None:
        """Take in the histograms that were wanted, shape (number of nodes, number of all bins, 2)."""
        least = 2 * self.growing.settings.min_leaf
        for node, histogram in zip(self._asked, histograms, strict=True):
            small, large = node.children
            small.histogram, large.histogram, node.histogram = histogram, node.histogram, None
            assert large.histogram is not None
            large.histogram -= histogram
            for child in (small, large):
                if child.n >= least:
                    self._find_split(child)
                else:
                    child.histogram = None
            node.known = True

    def tree(self) -> Tree:
        """Return the tree."""
        return Tree.of(self.splits, self._taken)

    def _divide(self, node: Node) -> None:
        """Give a node its children, without their splits unless both are too small to have any."""
        assert node.histogram is not None
        begin = int(self.layout.first_bins[self.layout.places[node.column]])
        member = int(self.layout.members[node.column])
        if member:
            n_left = node.n - self._count(node.histogram[begin + member : begin + member + 1])
        else:
            n_left = self._count(node.histogram[begin : begin + node.cut])
        number = 2 * len(self.splits)
        node.left, node.right = Node(number + 1, n_left), Node(number + 2, node.n - n_left)
        node.known = max(n_left, node.n - n_left) < 2 * self.growing.settings.min_leaf
        if node.known:
            node.histogram = None
        self.splits.append((node.number, node.column, node.cut))

    def _find_split(self, node: Node) -> None:
        of_bytes = self.layout.places, self.layout.members, self.layout.first_bins
        node.gain, node.column, node.cut = best_split(node.histogram, self._columns, *of_bytes, *self.growing.limits)
        if node.column == LEAF:
            node.gain, node.histogram = 0.0, None


type Heap = list[tuple[float, int, Node]]
"""Leaves by less gain, and by the order in which they came to be."""


def _push_children(heap: Heap, node: Node, pushed: int) -> int:
    """Put the children of a node among the leaves, of which so many there have been; return how many there are now."""
    for number, child in enumerate((node.left, node.right), pushed):
        assert child is not None
        heappush(heap, (-child.gain, number, child))
    return pushed + 2
