"""A throwaway sweep: a map of cuts that arrive one after the other, and naive Bayes that follows them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from annotated_types import Gt

from ikmap.cells import Cells
from ikmap.learners.rows import Block
from ikmap.methods import (
    Candidates,
    CellSplit,
    Doc,
    FollowsSplits,
    LearnerAbout,
    Map,
    MapAbout,
    Sample,
    Searched,
    SearchSpace,
    Sweepable,
    Swept,
    Symbol,
    Training,
)
from ikmap.methods.method import Number
from ikmap.partitioners import Partitions
from ikmap.rows import Rows, as_csr, as_dense
from ikmap.seeds import generator
from ikmap.tasks import criterion_of
from tests.plugins.counting import NaiveBayes, both_sides

LIMIT = 6.0


@dataclass(frozen=True, eq=False)
class Cuts(Partitions):
    """Each partitioning cuts one column; its cuts are ``cuts[starts[i]:starts[i + 1]]``, as they arrived.

    Cut k gives what is right of it, up to the next cut that was there, the number k + 1; the rest keeps its number.
    """

    kind: ClassVar[str] = "throwaway-cuts"

    columns: np.ndarray
    cuts: np.ndarray
    starts: np.ndarray

    @property
    def n_partitions(self) -> int:
        return int(self.columns.size)

    @property
    def offsets(self) -> np.ndarray:
        return self.starts + np.arange(self.starts.size)

    def cells(self, X: Rows, n_threads: int | None = None) -> Cells:
        values = as_csr(X)[:, self.columns].toarray()
        codes = np.empty(values.shape, dtype=np.int32)
        for i, (a, b) in enumerate(zip(self.starts[:-1], self.starts[1:], strict=True)):
            cuts = self.cuts[a:b]
            order = np.argsort(cuts)
            number_of = np.concatenate([[0], order + 1])
            codes[:, i] = number_of[np.searchsorted(cuts[order], values[:, i], side="right")]
        return Cells(codes, self.offsets)


def arrivals(X: np.ndarray, t: int, seed: int, limit: float) -> tuple[np.ndarray, list[tuple[float, int, float]]]:
    """Columns, and (value, partitioning, cut) of all cuts up to a value, ascending: those up to a smaller one first."""
    columns, found = np.empty(t, np.int64), []
    for i in range(t):
        rng = generator(seed, i)
        columns[i] = rng.integers(X.shape[1])
        low, high = X[:, columns[i]].min(), X[:, columns[i]].max()
        value = rng.exponential()
        while value <= limit:
            found.append((value, i, low + (high - low) * rng.random()))
            value += rng.exponential()
    return columns, sorted(found)


class ArrivingCuts(Map, Sweepable):
    about: ClassVar[MapAbout] = MapAbout(
        name="arriving-cuts",
        title="cuts that arrive",
        summary="one column is cut as cuts arrive",
        models=("tests.plugins.sweeping",),
    )
    swept: ClassVar[str] = "lifetime"
    lifetime: Annotated[
        float,
        Gt(0),
        Doc("how long cuts arrive; auto chooses it"),
        Searched(by_default=True),
        Symbol("λ", "lifetime", "How long cuts arrive: the longer, the more cells."),
    ] = 3.0

    def search_space(self, searched: frozenset[str], n_rows: int, sample: Sample | None = None) -> SearchSpace:
        return {"lifetime": Candidates((1.5, 3.0, LIMIT))} if "lifetime" in searched else {}

    def n_cells(self) -> int:
        return int(4 * self.lifetime) + 20

    def fit(self, sample: Sample, n_threads: int = 1) -> Cuts:
        X = as_dense(sample.take(np.arange(sample.n_rows)))
        columns, arrived = arrivals(X, self.t, sample.seed, self.lifetime)
        cuts = [[cut for _, i, cut in arrived if i == j] for j in range(self.t)]
        starts = np.concatenate([[0], np.cumsum([len(each) for each in cuts])]).astype(np.int64)
        return Cuts(columns, np.array([cut for each in cuts for cut in each], dtype=np.float64), starts)

    def events(
        self, limit: Number, sample: Sample, map_rows: Sequence[Rows], n_threads: int = 1
    ) -> tuple[list[Cells], Iterator[CellSplit]]:
        fit_rows = as_dense(sample.take(np.arange(sample.n_rows)))
        columns, found = arrivals(fit_rows, self.t, sample.seed, limit)
        values = [as_dense(rows)[:, columns] for rows in map_rows]
        codes = [np.zeros(of.shape, np.int32) for of in values]
        whole = np.arange(self.t + 1, dtype=np.int64)

        def splits() -> Iterator[CellSplit]:
            cuts: list[list[float]] = [[] for _ in columns]
            for value, i, cut in found:
                left_of = [(c, k + 1) for k, c in enumerate(cuts[i]) if c <= cut]
                parent = max(left_of)[1] if left_of else 0
                cuts[i].append(cut)
                rows = []
                for of, at in zip(codes, values, strict=True):
                    inside = np.flatnonzero(of[:, i] == parent)
                    right = at[inside, i] >= cut
                    rows.append((inside[~right], inside[right]))
                split = CellSplit(value, i, parent, parent, len(cuts[i]), rows)
                split.apply(codes)
                yield split

        return [Cells(of.copy(), whole) for of in codes], splits()


class SweptBayes(NaiveBayes, FollowsSplits):
    """Naive Bayes on cells: a split changes the counts of two cells, and the decisions of the rows in them."""

    about: ClassVar[LearnerAbout] = LearnerAbout(
        name="swept-bayes", title="naive Bayes that sweeps", models=("tests.plugins.counting",)
    )

    def sweep(self, training: Training, held_out: Block, splits: Iterator[CellSplit]) -> Iterator[Swept]:
        assert training.task is not None
        criterion, y, n_classes = criterion_of(training.task), training.y, len(training.classes)
        rows: Any = held_out.rows
        n_rows = np.bincount(y, minlength=n_classes) + self.smooth

        def shares(of: np.ndarray) -> np.ndarray:
            found: np.ndarray = np.log((np.bincount(y[of], minlength=n_classes) + self.smooth) / n_rows)
            return found

        def score(changed: np.ndarray) -> None:
            decision = both_sides(np.log(n_rows) + terms[changed].sum(axis=1))
            scores[changed] = criterion.row_scores(held_out.y[changed], criterion.scored_values(decision))

        # What each cell of a row says; before the first split, all rows are in cell 0.
        terms = np.tile(shares(np.arange(y.size)), (held_out.y.size, rows.n_partitions, 1))
        scores = np.zeros(held_out.y.size)
        score(np.arange(scores.size))
        for split in splits:
            of_training, of_held_out = split.rows
            for learned, moved in zip(of_training, of_held_out, strict=True):
                terms[moved, split.partitioning] = shares(learned)
            score(np.concatenate(of_held_out))
            yield Swept(split.value, float(scores.sum()))
