"""The cells of Mondrian trees as their lifetime grows: which cell splits when, and which rows are on which side."""

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
    """Cells of sets of rows at lifetime 0, and all splits up to the lifetime of the trees, ascending.

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
    start = [Cells(np.zeros((of.n_rows, model.n_partitions), np.int32), whole) for of in followed]
    return start, _splits(model, followed)


def _splits(model: MondrianPartitions, followed: Sequence[_Followed]) -> Iterator[CellSplit]:
    inner = np.flatnonzero(model.features >= 0)
    tree_of = np.repeat(np.arange(model.n_partitions), np.diff(model.roots))[inner]
    order = np.argsort(model.times[inner], kind="stable")
    children = model.roots[tree_of][:, None] + model.children[inner]
    numbers = model.numbers[children]
    before = -np.inf
    for k in order:
        m, value = int(tree_of[k]), float(model.times[inner[k]])
        node = int(inner[k] - model.roots[m])
        yield CellSplit(
            value, m, int(model.numbers[inner[k]]), int(numbers[k, 0]), int(numbers[k, 1]),
            [of.sides(m, node) for of in followed], [of.lost(before, value) for of in followed],
        )  # fmt: skip
        before = value


@dataclass
class _Tree:
    """Rows in the order of the last node that they reach, and where in it those of the children of each node begin."""

    order: np.ndarray
    left: np.ndarray
    right: np.ndarray
    end: np.ndarray


class _Followed:
    """A set of rows that has been followed through all trees."""

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
                self._trees[m] = _Tree(
                    order, *(np.searchsorted(sorted_last, at) for at in (nodes + 1, children[:, 1], end))
                )
                gone = np.flatnonzero(until < np.inf)
                lost[m] = until[gone], gone, np.full(gone.size, m)

        for_each_block(work, model.n_partitions, 1, n_threads)
        when, who, where = (np.concatenate(of) for of in zip(*lost, strict=True))
        by_time = np.argsort(when, kind="stable")
        self._lost = when[by_time], who[by_time], where[by_time]

    def sides(self, m: int, node: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows that are in the left and in the right part of a node of tree m when it splits."""
        tree = self._trees[m]
        a, b, c = tree.left[node], tree.right[node], tree.end[node]
        return tree.order[a:b], tree.order[b:c]

    def lost(self, before: float, value: float) -> tuple[np.ndarray, np.ndarray]:
        """Rows that are cut off after one time and up to another, and the trees where they are."""
        when, who, where = self._lost
        a, b = np.searchsorted(when, [before, value], side="right")
        return who[a:b], where[a:b]
