"""A map that grows with a stream: each partitioning cuts two columns into bins, and numbers them as rows fall in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from annotated_types import Ge

from ikmap.cells import Cells
from ikmap.methods import Candidates, Doc, Growable, Map, MapAbout, Sample, Searched, SearchSpace
from ikmap.partitioners import Partitions
from ikmap.rows import Rows, as_csr


@dataclass(frozen=True, eq=False)
class Bins(Partitions):
    """Bins of two columns for each partitioning; the bins of cell c of partitioning i are ``keys[offsets[i] + c]``."""

    kind: ClassVar[str] = "throwaway-growing-bins"

    columns: np.ndarray
    shifts: np.ndarray
    width: float
    keys: np.ndarray
    starts: np.ndarray

    @property
    def n_partitions(self) -> int:
        return int(self.columns.shape[0])

    @property
    def offsets(self) -> np.ndarray:
        return self.starts

    def bins(self, X: Rows) -> np.ndarray:
        return np.floor((as_csr(X).toarray()[:, self.columns] + self.shifts) / self.width).astype(np.int64)

    def numbers(self) -> list[dict[tuple[int, ...], int]]:
        """The number of each cell, by its bins."""
        return [
            {tuple(key): c for c, key in enumerate(self.keys[a:b].tolist())}
            for a, b in zip(self.starts[:-1], self.starts[1:], strict=True)
        ]

    def cells(self, X: Rows, n_threads: int | None = None) -> Cells:
        known, bins = self.numbers(), self.bins(X)
        codes = [[of.get(tuple(key), -1) for of, key in zip(known, row, strict=True)] for row in bins.tolist()]
        return Cells(np.array(codes, dtype=np.int32).reshape(len(bins), -1), self.starts)

    def extended(self, X: Rows) -> Bins:
        known = self.numbers()
        for row in self.bins(X).tolist():
            for of, key in zip(known, row, strict=True):
                of.setdefault(tuple(key), len(of))
        starts = np.concatenate([[0], np.cumsum([len(of) for of in known])]).astype(np.int64)
        keys = np.array([key for of in known for key in of], dtype=np.int64).reshape(-1, 2)
        return Bins(self.columns, self.shifts, self.width, keys, starts)


class GrowingBins(Map, Growable):
    about: ClassVar[MapAbout] = MapAbout(
        name="growing-bins",
        title="bins as rows fall in",
        summary="two columns are cut into bins",
        models=("tests.plugins.growing_bins",),
    )
    bins: Annotated[int, Ge(1), Doc("bins of each of the two columns"), Searched(by_default=True)] = 4

    def search_space(self, searched: frozenset[str], n_rows: int, sample: Sample | None = None) -> SearchSpace:
        return {"bins": Candidates((2, 4, 8))} if "bins" in searched else {}

    def n_cells(self) -> int:
        return (self.bins + 1) ** 2

    def fit(self, sample: Sample, n_threads: int = 1) -> Bins:
        rng, d = np.random.default_rng(sample.seed), sample.n_columns
        columns = np.array([rng.choice(d, 2, replace=d < 2) for _ in range(self.t)])
        width = 1.0 / self.bins
        empty = Bins(
            columns,
            rng.random((self.t, 2)) * width,
            width,
            np.zeros((0, 2), np.int64),
            np.zeros(self.t + 1, np.int64),
        )
        return empty.extended(sample.take(np.arange(min(5, sample.n_rows))))

    def extend(self, model: Partitions, rows: Rows, n_threads: int = 1) -> tuple[Bins, Cells]:
        assert isinstance(model, Bins)
        grown = model.extended(rows)
        return grown, grown.cells(rows)
