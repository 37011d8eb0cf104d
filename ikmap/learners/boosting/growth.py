"""Trees that are grown leaf by leaf, by histograms of the gradients and hessians of rows in bins."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from ikmap import seed_paths
from ikmap._threads import for_each_block
from ikmap.arrays import Floats
from ikmap.learners.boosting._growth_loops import (
    add_rows,
    best_split,
    divide,
    fill_bins,
    fill_bytes,
    fill_words,
    overlaps,
)
from ikmap.partitioners._iforest_loops import LEAF
from ikmap.partitioners.forest import bin_edges
from ikmap.rows import Rows, as_dense
from ikmap.seeds import generator

BIN_BLOCK = 8192
"""Number of rows whose bins are written at a time."""
EDGE_ROWS = 200_000
"""Largest number of rows that the edges of bins are taken from."""
MOST_BINS = 256
"""Largest number of bins of a byte."""
OPEN_BYTES = 8
"""Number of bytes that a column of two bins is tried to share."""
PARALLEL_WORK = 1 << 18
"""Number of values from which on a histogram is made by several threads."""
WORD_BITS = 62
"""Bits of a sum of words."""
MOST_BITS = 30
"""Bits of the whole number of a gradient or a hessian."""
MIN_HESSIAN = 1e-3
"""Smallest sum of hessians in a leaf."""


@dataclass(frozen=True)
class Bins:
    """Rows whose values are numbers of bins.

    Columns of two bins share a byte if no row is in the upper bin of two of them, as the columns of one-hot words.

    Attributes
    ----------
    codes : ndarray of uint8, shape (n, number of bytes of a row)
    edges : ndarray of float64
        Ascending edges of the bins of each column, column after column: a value is in bin b if b edges are at or below.
    begins : ndarray of int64, shape (d + 1,)
        Where the edges of each column begin.
    places : ndarray of int64, shape (d,)
        Byte of each column.
    members : ndarray of int64, shape (d,)
        What a byte for several columns is for rows in the upper bin of this one, from 1; 0 for a column whose byte is
        the number of its bin.
    """

    codes: np.ndarray
    edges: Floats
    begins: np.ndarray
    places: np.ndarray
    members: np.ndarray

    @property
    def first_bins(self) -> np.ndarray:
        """Number of the first bin of each byte among the bins of all bytes, shape (number of bytes + 1,)."""
        sizes = np.ones(self.codes.shape[1], dtype=np.int64)
        alone = self.members == 0
        sizes[self.places[alone]] = np.diff(self.begins)[alone] + 1
        np.maximum.at(sizes, self.places, self.members + 1)
        first_bins: np.ndarray = np.r_[0, np.cumsum(sizes)]
        return first_bins

    def ranges(self, feature: np.ndarray, cut: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the byte of each node, or LEAF, and the range [low, high) of the bytes of rows that go right."""
        inner = feature != LEAF
        members = np.where(inner, self.members[feature], 0)
        places = np.where(inner, self.places[feature], LEAF)
        return places, np.where(members, members, cut), np.where(members, members + 1, MOST_BINS)

    def take(self, rows: np.ndarray) -> Bins:
        """Return some rows, by number."""
        return replace(self, codes=self.codes[rows])


def binned(X: Rows, seed: int, n_threads: int | None = None) -> Bins:
    """Return the bins of rows; the edges are those of all rows, or of :data:`EDGE_ROWS` rows drawn by the seed."""
    n, d = X.shape
    sample = X
    if n > EDGE_ROWS:
        sample = X[np.sort(generator(seed, seed_paths.BOOSTING_EDGES).choice(n, EDGE_ROWS, replace=False))]
    edges = bin_edges(sample)
    begins = np.r_[0, np.cumsum([own.size for own in edges], dtype=np.int64)]
    every = np.concatenate([*edges, np.empty(0)])
    codes = np.empty((n, d), dtype=np.uint8)

    def work(start: int, stop: int) -> None:
        fill_bins(np.ascontiguousarray(as_dense(X[start:stop])), every, begins, codes[start:stop])

    for_each_block(work, n, BIN_BLOCK, n_threads)
    places, members = _shared_bytes(codes, np.flatnonzero(np.diff(begins) == 1))
    if members.any():
        full, codes = codes, np.zeros((n, int(places.max()) + 1), dtype=np.uint8)

        def join(start: int, stop: int) -> None:
            fill_bytes(full[start:stop], places, members, codes[start:stop])

        for_each_block(join, n, BIN_BLOCK, n_threads)
    return Bins(codes, every, begins, places, members)


def _shared_bytes(codes: np.ndarray, two_bins: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the byte of each column and its number in it, by the bins of rows and the columns of two bins.

    Each column of two bins goes to the first byte none of whose columns it overlaps, among the last :data:`OPEN_BYTES`.
    """
    shared: list[list[int]] = []
    taken: list[np.ndarray] = []
    for column in two_bins.tolist():
        for number in range(max(0, len(shared) - OPEN_BYTES), len(shared)):
            if len(shared[number]) < MOST_BINS - 1 and not overlaps(codes, column, taken[number]):
                break
        else:
            number = len(shared)
            shared.append([])
            taken.append(np.zeros(len(codes), dtype=np.bool_))
            if number >= OPEN_BYTES:
                taken[number - OPEN_BYTES] = np.empty(0, dtype=np.bool_)
        shared[number].append(column)
        taken[number] |= codes[:, column] > 0
    places, members = np.full(codes.shape[1], -1, dtype=np.int64), np.zeros(codes.shape[1], dtype=np.int64)
    several = [columns for columns in shared if len(columns) > 1]
    for number, columns in enumerate(several):
        places[columns], members[columns] = number, np.arange(1, len(columns) + 1)
    alone = np.flatnonzero(places < 0)
    places[alone] = len(several) + np.arange(alone.size)
    return places, members


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
    l2: float = 0.0


@dataclass(frozen=True)
class Words:
    """Gradients and hessians of rows as whole numbers, whose sums are exact.

    Attributes
    ----------
    words : ndarray of int64, shape (n, 2)
        The gradient; the hessian shifted by `shift` bits, plus 1.
    shift : int
    gradient_unit, hessian_unit : float
        Gradient and hessian that a whole number of 1 stands for.
    """

    words: np.ndarray
    shift: int
    gradient_unit: float
    hessian_unit: float

    def sums(self, words: np.ndarray) -> tuple[float, float]:
        """Return the sums of gradients and hessians that summed words stand for."""
        return float(words[0]) * self.gradient_unit, float(words[1] >> self.shift) * self.hessian_unit


def whole_words(gradient: Floats, hessian: Floats, out: np.ndarray | None = None) -> Words:
    """Return gradients and hessians as whole numbers of as many bits as their sums have room for, at most 30."""
    n = gradient.size
    shift = int(n).bit_length()
    scales = []
    for values, bits in ((gradient, WORD_BITS - shift), (hessian, WORD_BITS - 2 * shift)):
        largest = float(np.abs(values).max(initial=0.0))
        exponent = np.frexp(largest)[1] if largest else 0
        scales.append(float(2.0 ** (min(bits, MOST_BITS) - exponent)))
    words = np.empty((n, 2), dtype=np.int64) if out is None else out
    fill_words(gradient, hessian, *scales, shift, words)
    return Words(words, shift, 1 / scales[0], 1 / scales[1])


@dataclass(eq=False)
class Leaf:
    """A leaf of a tree that grows.

    Attributes
    ----------
    begin, end : int
        Place of its rows among all rows of the tree.
    histogram : ndarray of int64, shape (number of all bins, 2), or None
        None once it cannot be split.
    gain, column, cut
        The best split: a row goes left if its bin is below the cut.
    left, right : Leaf or None
        Children, once it is split.
    """

    begin: int
    end: int
    histogram: np.ndarray | None = None
    gain: float = 0.0
    column: int = LEAF
    cut: int = 0
    left: Leaf | None = None
    right: Leaf | None = None


@dataclass(frozen=True)
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
    leaves : list of Leaf
        Leaves by number.
    """

    feature: np.ndarray
    cut: np.ndarray
    right: np.ndarray
    leaves: list[Leaf]


class Grower:
    """Grows trees on binned rows, one after the other, with the same result for any number of threads."""

    def __init__(self, bins: Bins, settings: TreeSettings, n_threads: int = 1) -> None:
        self._bins, self._settings, self._n_threads = bins, settings, n_threads
        self._first_bins = bins.first_bins
        self._spare: list[np.ndarray] = []
        self._scratch = np.empty(len(bins.codes), dtype=np.uint32)
        self._pool = ThreadPoolExecutor(n_threads) if n_threads > 1 else None

    def close(self) -> None:
        """End the threads."""
        if self._pool is not None:
            self._pool.shutdown()

    def each(self, work: Callable[[int, int], None], n: int, least: int) -> None:
        """Call ``work(start, stop)`` for parts of ``range(n)``, on all threads if `n` is at least `least`."""
        if self._pool is None or n < least:
            work(0, n)
            return
        ends = [n * k // self._n_threads for k in range(self._n_threads + 1)]
        for done in [self._pool.submit(work, *part) for part in pairwise(ends)]:
            done.result()

    def grow(self, rows: np.ndarray, words: Words, columns: np.ndarray) -> Tree:
        """Grow a tree on some rows, by splits of some columns.

        Parameters
        ----------
        rows : ndarray of uint32
            Numbers of the rows, which are put into the order of the leaves.
        columns : ndarray of int64
            Ascending numbers of columns.
        """
        places = np.unique(self._bins.places[columns])
        root = Leaf(0, rows.size, self._sum(rows, words, places))
        self._find_split(root, words, columns)
        leaves = [root]
        while len(leaves) < self._settings.max_leaves:
            best = max(leaves, key=lambda leaf: leaf.gain)
            if best.column == LEAF:
                break
            leaves.remove(best)
            leaves += self._split(best, rows, words, columns, places)
        for leaf in leaves:
            self._give_back(leaf)
        return _in_preorder(root, len(leaves))

    def _split(self, leaf: Leaf, rows: np.ndarray, words: Words, columns: np.ndarray, places: np.ndarray) -> list[Leaf]:
        assert leaf.histogram is not None
        own = rows[leaf.begin : leaf.end]
        member, low, high = self._bins.members[leaf.column], leaf.cut, MOST_BINS
        if member:
            low, high = member, member + 1
        place = self._bins.places[leaf.column]
        middle = leaf.begin + divide(self._bins.codes, own, place, low, high, self._scratch)
        leaf.left, leaf.right = Leaf(leaf.begin, middle), Leaf(middle, leaf.end)
        small, large = sorted((leaf.left, leaf.right), key=lambda child: child.end - child.begin)
        least = 2 * self._settings.min_leaf
        if large.end - large.begin >= least:
            small.histogram = self._sum(rows[small.begin : small.end], words, places)
            large.histogram, leaf.histogram = leaf.histogram, None
            large.histogram -= small.histogram
            self._find_split(large, words, columns)
            if small.end - small.begin >= least:
                self._find_split(small, words, columns)
            else:
                self._give_back(small)
        else:
            self._give_back(leaf)
        return [leaf.left, leaf.right]

    def _find_split(self, leaf: Leaf, words: Words, columns: np.ndarray) -> None:
        settings = self._settings
        units = words.gradient_unit, words.hessian_unit, words.shift
        limits = settings.min_leaf, MIN_HESSIAN, settings.l2
        leaf.gain, leaf.column, leaf.cut = best_split(
            leaf.histogram, columns, self._bins.places, self._bins.members, self._first_bins, *units, *limits
        )
        if leaf.column == LEAF:
            leaf.gain = 0.0
            self._give_back(leaf)

    def _sum(self, rows: np.ndarray, words: Words, places: np.ndarray) -> np.ndarray:
        """Return the histograms of some rows by some of their bytes."""
        parts: list[np.ndarray] = []

        def work(start: int, stop: int) -> None:
            try:  # threads share the list
                histogram = self._spare.pop()
            except IndexError:
                histogram = np.empty((int(self._first_bins[-1]), 2), dtype=np.int64)
            histogram[:] = 0
            add_rows(self._bins.codes, rows[start:stop], words.words, places, self._first_bins, histogram)
            parts.append(histogram)

        self.each(work, rows.size, max(1, PARALLEL_WORK // max(1, places.size)))
        first, *others = parts
        for other in others:
            first += other
            self._spare.append(other)
        return first

    def _give_back(self, leaf: Leaf) -> None:
        if leaf.histogram is not None:
            self._spare.append(leaf.histogram)
            leaf.histogram = None


def _in_preorder(root: Leaf, n_leaves: int) -> Tree:
    """Return the nodes of a tree in preorder, and its leaves from left to right."""
    feature = np.empty(2 * n_leaves - 1, dtype=np.int32)
    cut, right = np.zeros(feature.size, dtype=np.int64), np.empty(feature.size, dtype=np.int32)
    leaves: list[Leaf] = []
    stack: list[tuple[Leaf, int]] = [(root, -1)]
    for node in range(feature.size):
        leaf, parent = stack.pop()
        if parent >= 0:
            right[parent] = node
        feature[node], cut[node] = (LEAF, 0) if leaf.left is None else (leaf.column, leaf.cut)
        if leaf.left is None or leaf.right is None:
            right[node] = len(leaves)
            leaves.append(leaf)
        else:
            stack += [(leaf.right, node), (leaf.left, -1)]
    return Tree(feature, cut, right, leaves)
