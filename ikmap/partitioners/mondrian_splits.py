"""Splits of the cells of Mondrian trees as the lifetime grows, with the rows on either side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ikmap._threads import for_each_block
from ikmap.cells import Cells
from ikmap.partitioners._mondrian_loops import ends
from ikmap.partitioners.mondrian import MondrianPartitions, words
from ikmap.rows import Rows, as_dense
from ikmap.splits import CellSplit


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
