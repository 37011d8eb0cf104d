"""Mondrian partitions: trees of cuts at random times, in the boxes of the data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ikmap._threads import for_each_block
from ikmap.arrays import Array, Floats
from ikmap.cells import Cells
from ikmap.partitioners._mondrian_loops import LEAF, ends, grow, insert, row_keys, trace
from ikmap.partitioners.base import Partitions
from ikmap.rows import Rows, as_dense, as_rows
from ikmap.seeds import generator
from ikmap.splits import CellSplit

WALK_BLOCK = 1024
OF_NODES = ("times", "features", "thresholds", "children", "boxes", "keys", "numbers")
"""Arrays with an entry for each node, in the order in which loops take them."""
FIRST_NODES = 256
"""Nodes that a tree first has room for."""


@dataclass(frozen=True, eq=False)
class MondrianPartitions(Partitions):
    """t Mondrian trees of one lifetime, in which two rows share a cell with probability exp(-lifetime |x - y|_1).

    Parameters
    ----------
    times : ndarray of float64, shape (N,)
        Nodes of all trees, one tree after the other: when the node is cut; in a leaf, the lifetime.
    features : ndarray of int32, shape (N,)
        The attribute that is cut, or -1 in a leaf.
    thresholds : ndarray of float64, shape (N,)
        A row goes left when its value is at most this.
    children : ndarray of int32, shape (N, 2)
        Left and right child, counted from the tree's root; -1 in a leaf.
    boxes : ndarray of float64, shape (N, 2, d)
        Least and largest values of the rows of a node.
    keys : ndarray of uint64, shape (N,)
        Keys from which all draws of a node are made.
    numbers : ndarray of int32, shape (N,)
        The cell of a node within its tree. Cells are numbered as they come to be: when one is cut, its left part keeps
        the number, and the right one gets the next. So a cell has the same number for all lifetimes.
    roots, offsets_ : ndarray of int64, shape (M + 1,)
        Where the nodes, and the feature columns, of each tree begin.
    lifetime : float

    Notes
    -----
    Source: Balog, Lakshminarayanan, Ghahramani, Roy and Teh, The Mondrian Kernel, sections 2 and 3; algorithms.md,
    section 12.
    """

    kind: ClassVar[str] = "mondrian"

    times: Floats
    features: np.ndarray
    thresholds: Floats
    children: np.ndarray
    boxes: Floats
    keys: np.ndarray
    numbers: np.ndarray
    roots: np.ndarray
    offsets_: np.ndarray
    lifetime: float

    @property
    def n_partitions(self) -> int:
        return int(self.roots.size - 1)

    @property
    def n_features(self) -> int:
        """Number d of columns."""
        return int(self.boxes.shape[2])

    @property
    def is_in_preorder(self) -> bool:
        """True if the left child of a node is the next node, as in trees of :func:`fit_mondrian`."""
        inner = np.flatnonzero(self.features >= 0)
        tree_of = np.repeat(np.arange(self.n_partitions), np.diff(self.roots))[inner]
        return bool((self.roots[tree_of] + self.children[inner, 0] == inner + 1).all())

    @property
    def offsets(self) -> np.ndarray:
        return self.offsets_

    def cells(self, X: Rows, n_threads: int | None = None) -> Cells:
        """Map points to cells, -1 where a tree knows none: the trees stay as they are (algorithms.md, 12.2 c).

        Whether a row outside the box of a node would have been cut off is drawn by the values of the row, so equal rows
        have equal cells, wherever they stand.

        Raises
        ------
        ValueError
            X has another number of columns.
        """
        self._check_columns(X)
        n = X.shape[0]
        codes = np.empty((n, self.n_partitions), dtype=np.int32)

        def work(start: int, stop: int) -> None:
            rows = np.ascontiguousarray(as_dense(as_rows(X[start:stop])))
            own = words(rows)
            for m in range(self.n_partitions):
                last, until = self.traced(rows, own, m)
                numbers = self.numbers[self.roots[m] : self.roots[m + 1]]
                codes[start:stop, m] = np.where(until < np.inf, -1, numbers[last])

        for_each_block(work, n, WALK_BLOCK, n_threads)
        return Cells(codes, self.offsets)

    def _check_columns(self, X: Rows) -> None:
        if X.shape[1] != self.n_features:
            raise ValueError(f"X has {X.shape[1]} columns, the model was fitted on {self.n_features}")

    def at(self, lifetime: float) -> MondrianPartitions:
        """Return the trees at a shorter lifetime, with the nodes and cell numbers that :func:`fit_mondrian` gives it.

        Raises
        ------
        ValueError
            It is longer, or negative; or the trees have been extended, so that numbers of cells do not tell their age.
        """
        if not 0.0 <= lifetime <= self.lifetime:
            raise ValueError(f"expected a lifetime from 0 to {self.lifetime:g}, which the trees have; got {lifetime!r}")
        if not self.is_in_preorder:
            raise ValueError("trees that were extended by more rows have no shorter lifetime: fit them on all rows")
        tree_of = np.repeat(np.arange(self.n_partitions), np.diff(self.roots))
        inner = np.flatnonzero(self.features >= 0)
        begins = np.zeros(self.times.size)
        for side in (0, 1):
            begins[self.roots[tree_of[inner]] + self.children[inner, side]] = self.times[inner]
        kept = begins <= lifetime
        kept[self.roots[:-1]] = True
        cut = (self.features >= 0) & (self.times <= lifetime)
        before = np.concatenate([[0], np.cumsum(kept)])
        roots = before[self.roots]
        children = before[self.roots[tree_of][:, None] + self.children] - roots[tree_of][:, None]
        of_nodes = {
            "times": np.where(cut, self.times, lifetime),
            "features": np.where(cut, self.features, LEAF).astype(np.int32),
            "thresholds": np.where(cut, self.thresholds, 0.0),
            "children": np.where(cut[:, None], children, LEAF).astype(np.int32),
            "boxes": self.boxes,
            "keys": self.keys,
            "numbers": self.numbers,
        }
        cells = 1 + np.bincount(tree_of, weights=cut, minlength=self.n_partitions).astype(np.int64)
        return MondrianPartitions(
            **{name: array[kept] for name, array in of_nodes.items()},
            roots=roots,
            offsets_=np.concatenate([[0], np.cumsum(cells)]),
            lifetime=float(lifetime),
        )

    def extended(self, X: Rows, n_threads: int | None = None) -> tuple[MondrianPartitions, Cells]:
        """Return the trees after some more rows, one after the other, and the cells of these rows.

        What is known keeps its cells, and they keep their numbers. The law is that of trees that were grown on all rows
        at once. Sources: Lakshminarayanan, Roy and Teh, Mondrian Forests (2014), algorithm 4; algorithms.md, 12.3.

        Raises
        ------
        ValueError
            X has another number of columns.
        """
        self._check_columns(X)
        rows = np.ascontiguousarray(as_dense(X))
        n, M = len(rows), self.n_partitions
        codes = np.empty((n, M), dtype=np.int32)
        trees: list[list[np.ndarray]] = [[]] * M
        n_cells = np.diff(self.offsets_)

        def work(start: int, stop: int) -> None:
            cells = np.empty(n, dtype=np.int32)
            for m in range(start, stop):
                own = slice(self.roots[m], self.roots[m + 1])
                arrays = [getattr(self, name)[own] for name in OF_NODES]
                count = len(arrays[0])
                room = [np.concatenate([array, np.empty((2 * n, *array.shape[1:]), array.dtype)]) for array in arrays]
                count, n_cells[m] = insert(rows, self.lifetime, *room, count, int(n_cells[m]), cells)
                trees[m] = [array[:count].copy() for array in room]
                codes[:, m] = cells

        for_each_block(work, M, 1, n_threads)
        grown = _together(trees, n_cells, self.lifetime)
        return grown, Cells(codes, grown.offsets)

    def splits(self, map_rows: Sequence[Rows], n_threads: int | None = None) -> tuple[list[Cells], Iterator[CellSplit]]:
        """Return the cells of sets of rows at lifetime 0, and all splits up to the lifetime of the trees, ascending.

        Raises
        ------
        ValueError
            The trees have been extended by more rows.
        """
        return mondrian_splits(self, map_rows, n_threads)

    @property
    def lineage(self) -> tuple[np.ndarray, np.ndarray]:
        """Column that each column was split from, and column of each feature, after all splits."""
        return mondrian_lineage(self)

    def traced(self, rows: np.ndarray, own: np.ndarray, m: int) -> tuple[np.ndarray, np.ndarray]:
        """Follow rows, a float64 array in C order, with their :func:`words` down tree m.

        Returns
        -------
        last : ndarray of int32, shape (n,)
            The last node that a row reaches, counted from the root.
        until : ndarray of float64, shape (n,)
            When the row is cut off from all that the tree knows; infinity where it is in a leaf.
        """
        last, until = np.empty(len(rows), dtype=np.int32), np.empty(len(rows))
        trace(rows, own, int(self.roots[m]), *(getattr(self, name) for name in OF_NODES[:-1]), last, until)
        return last, until


def words(rows: np.ndarray) -> np.ndarray:
    """Return a hash of the values of each row of a float64 array in C order, uint64 of shape (n,)."""
    hashes = np.empty(len(rows), dtype=np.uint64)
    row_keys(rows, hashes)
    return hashes


def fit_mondrian(
    X: Rows, n_trees: int, lifetime: float, seed: int, *, first: int = 0, n_threads: int | None = None
) -> MondrianPartitions:
    """Grow Mondrian trees on the boxes of the data.

    Parameters
    ----------
    X : float64 ndarray or csr_array, shape (n, d), n >= 1
    n_trees : int
        M.
    lifetime : float
        Inverse width of the Laplace kernel, >= 0, in one over the unit of the columns.
    seed : int
    first : int
        Number of the first tree: trees are drawn by their numbers, so some of many may be grown by themselves
        (:func:`joined_trees`).
    n_threads : int, optional
        At most this many threads, a tree each; default: all usable cores.

    Raises
    ------
    ValueError
        There are no rows, or no trees, or the lifetime is negative or not finite.
    """
    if X.shape[0] == 0 or n_trees < 1 or not 0.0 <= lifetime < np.inf:
        raise ValueError(
            f"expected rows, trees and a lifetime >= 0, got {X.shape[0]} rows, {n_trees} trees, lifetime {lifetime!r}"
        )
    rows = np.ascontiguousarray(as_dense(X))
    trees: list[list[np.ndarray]] = [[]] * n_trees
    n_cells = np.empty(n_trees, dtype=np.int64)

    def work(start: int, stop: int) -> None:
        for m in range(start, stop):
            tree = grown_tree(rows, float(lifetime), seed, first + m)
            assert tree is not None
            trees[m], n_cells[m] = tree

    for_each_block(work, n_trees, 1, n_threads)
    return _together(trees, n_cells, float(lifetime))


def grown_tree(
    rows: np.ndarray, lifetime: float, seed: int, number: int, room: int = FIRST_NODES, most: int | None = None
) -> tuple[list[np.ndarray], int] | None:
    """Return the arrays of :data:`OF_NODES` of a tree and its number of cells, or None beyond `most` nodes."""
    key = generator(seed, number).integers(2**64, dtype=np.uint64)
    n, d = rows.shape
    while True:
        arrays: list[Array] = [
            np.empty(room), np.empty(room, np.int32), np.empty(room), np.empty((room, 2), np.int32),
            np.empty((room, 2, d)), np.empty(room, np.uint64), np.empty(room, np.int32),
        ]  # fmt: skip
        count, n_cells = grow(rows, np.arange(n), key, lifetime, *arrays)
        if count:
            return [array[:count].copy() for array in arrays], int(n_cells)
        if room == most:
            return None
        # Draws belong to nodes: a tree that needs more room is the same when it is grown again.
        room = min(4 * room, 2 * n - 1 if most is None else most)


def joined_trees(parts: Sequence[MondrianPartitions]) -> MondrianPartitions:
    """Join the trees of several models of one lifetime, one model after the other."""
    trees = [
        [getattr(part, name)[part.roots[m] : part.roots[m + 1]] for name in OF_NODES]
        for part in parts
        for m in range(part.n_partitions)
    ]
    n_cells = np.concatenate([np.diff(part.offsets_) for part in parts])
    return _together(trees, n_cells, parts[0].lifetime)


def _together(trees: Sequence[Sequence[np.ndarray]], n_cells: np.ndarray, lifetime: float) -> MondrianPartitions:
    """Join trees, each with the arrays of :data:`OF_NODES`, one after the other."""
    of_nodes = {name: np.concatenate([tree[k] for tree in trees]) for k, name in enumerate(OF_NODES)}
    roots = np.cumsum([0, *(tree[0].size for tree in trees)], dtype=np.int64)
    offsets = np.concatenate([[0], np.cumsum(n_cells)]).astype(np.int64)
    return MondrianPartitions(**of_nodes, roots=roots, offsets_=offsets, lifetime=lifetime)


def mondrian_splits(
    model: MondrianPartitions, row_sets: Sequence[Rows], n_threads: int | None = None
) -> tuple[list[Cells], Iterator[CellSplit]]:
    """Return the cells of sets of rows at lifetime 0, and all splits up to the lifetime of the trees, ascending.

    After all splits with a value or a smaller one, the cells are those of ``model.at(value)``.

    Notes
    -----
    Source: The Mondrian Kernel, section 3 and algorithm 4; algorithms.md, section 12.4. Rows are followed through the
    trees once. As nodes are in preorder, the rows of a node are then a slice.

    Raises
    ------
    ValueError
        The trees have been extended by more rows.
    """
    if not model.is_in_preorder:
        raise ValueError("trees that were extended by more rows cannot be swept: fit them on all rows")
    followed = [_Followed(model, rows, n_threads) for rows in row_sets]
    whole = np.arange(model.n_partitions + 1, dtype=np.int64)
    start = [Cells(np.zeros((paths.n_rows, model.n_partitions), np.int32), whole) for paths in followed]
    return start, _splits(model, followed)


def mondrian_lineage(model: MondrianPartitions) -> tuple[np.ndarray, np.ndarray]:
    """Return the column that each column was split from, and the column of each feature, after all splits.

    Columns are numbered as in :class:`~ikmap.learners.sweeps.columns.Columns`: the first are the trees as a whole, and
    then every split brings that of its right part.

    Returns
    -------
    origin : ndarray of int64, shape (C,)
        An earlier column, or itself.
    column_of : ndarray of int64, shape (C,)
        By feature column of ``model.offsets``.
    """
    tree_of, inner, right = _in_order(model)
    M, C = model.n_partitions, int(model.offsets[-1])
    column_of, origin = np.empty(C, dtype=np.int64), np.arange(C)
    column_of[model.offsets[:-1]] = np.arange(M)
    first = model.offsets[tree_of]
    column_of[first + model.numbers[right]] = np.arange(M, C)
    origin[M:] = column_of[first + model.numbers[inner]]
    return origin, column_of


def _in_order(model: MondrianPartitions) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return tree, node and right child, among all nodes, of the cuts in the order of time."""
    inner = np.flatnonzero(model.features >= 0)
    inner = inner[np.argsort(model.times[inner], kind="stable")]
    tree_of = np.searchsorted(model.roots, inner, side="right") - 1
    return tree_of, inner, model.roots[tree_of] + model.children[inner, 1]


def _splits(model: MondrianPartitions, followed: Sequence[_Followed]) -> Iterator[CellSplit]:
    tree_of, inner, right = _in_order(model)
    values = model.times[inner]
    trees, nodes = tree_of.tolist(), (inner - model.roots[tree_of]).tolist()
    sides = [of.sides(trees, nodes) for of in followed]
    lost = [of.lost(values) for of in followed]
    for k, (value, m, parent, number) in enumerate(
        zip(values.tolist(), trees, model.numbers[inner].tolist(), model.numbers[right].tolist(), strict=True)
    ):
        rows = [next(of) for of in sides]
        yield CellSplit(value, m, parent, parent, number, rows, [of[k] for of in lost])


@dataclass
class _Tree:
    """Rows of a tree in the order of their last node, and the starts of the rows of the children of each node."""

    order: np.ndarray
    left: list[int]
    right: list[int]
    end: list[int]


class _Followed:
    """A set of rows, with their paths through all trees."""

    def __init__(self, model: MondrianPartitions, rows: Rows, n_threads: int | None) -> None:
        dense = np.ascontiguousarray(as_dense(rows))
        self.n_rows, own = len(dense), words(dense)
        self._trees: list[_Tree] = [None] * model.n_partitions  # type: ignore[list-item]
        lost: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = [None] * model.n_partitions  # type: ignore[list-item]

        def work(start: int, stop: int) -> None:
            for m in range(start, stop):
                last, until = model.traced(dense, own, m)
                children = model.children[model.roots[m] : model.roots[m + 1]]
                end = np.empty(len(children), dtype=np.int32)
                ends(children, end)
                order = np.argsort(last, kind="stable").astype(np.int32)
                sorted_last = last[order]
                nodes = np.arange(len(children), dtype=np.int32)
                places = (np.searchsorted(sorted_last, at).tolist() for at in (nodes + 1, children[:, 1], end))
                self._trees[m] = _Tree(order, *places)
                gone = np.flatnonzero(until < np.inf)
                lost[m] = until[gone], gone, np.full(gone.size, m)

        for_each_block(work, model.n_partitions, 1, n_threads)
        when, who, where = (np.concatenate(of) for of in zip(*lost, strict=True))
        by_time = np.argsort(when, kind="stable")
        self._lost = when[by_time], who[by_time], where[by_time]

    def sides(self, trees: Sequence[int], nodes: Sequence[int]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the rows in the left and in the right part of nodes when they split."""
        for m, node in zip(trees, nodes, strict=True):
            tree = self._trees[m]
            a, b, c = tree.left[node], tree.right[node], tree.end[node]
            yield tree.order[a:b], tree.order[b:c]

    def lost(self, values: np.ndarray) -> _Lost:
        """Return the rows that are cut off between consecutive times, and their places."""
        when, who, where = self._lost
        return _Lost(np.searchsorted(when, values, side="right").tolist(), who, where)


class _Lost:
    """Rows and trees of lost cells, by the number of the split."""

    def __init__(self, ends: list[int], who: np.ndarray, where: np.ndarray) -> None:
        self._ends, self._who, self._where = ends, who, where
        self._nothing = who[:0], where[:0]

    def __getitem__(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        a, b = self._ends[k - 1] if k else 0, self._ends[k]
        return (self._who[a:b], self._where[a:b]) if a < b else self._nothing
