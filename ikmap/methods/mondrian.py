"""Cells of Mondrian trees: the probability that two rows share a cell is their Laplace kernel."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from ikmap.methods.about import MapAbout
from ikmap.methods.capabilities import DoesNotFit, FitsByPartitioning, Growable, Path, Sweepable
from ikmap.methods.lifetime import CELLS, LaplaceMap
from ikmap.methods.map import MapMemory, RowsInfo
from ikmap.methods.method import Number
from ikmap.methods.sample import Sample

if TYPE_CHECKING:
    from ikmap.cells import Cells
    from ikmap.partitioners import MondrianPartitions, Partitions
    from ikmap.rows import Rows
    from ikmap.splits import CellSplit


class Mondrian(LaplaceMap, Path, FitsByPartitioning, Growable, Sweepable):
    """Mondrian trees: cuts come at random times, sooner in larger boxes."""

    about: ClassVar[MapAbout] = MapAbout(
        name="mondrian",
        title="Mondrian trees",
        summary="the box of the training rows is cut at random times and places, each part by itself, until the "
        "lifetime ends; a row belongs to the part it lies in, if the tree knows it",
        reaches_all=False,  # a new row may lie where nothing is known
        loop_words=frozenset({"narrow", "wide"}),  # as it grows, its cells may need two bytes each instead of one
    )
    swept: ClassVar[str] = "lifetime"
    endless: ClassVar[bool] = True

    def fit(self, sample: Sample, n_threads: int = 1) -> Partitions:
        return self._grown(sample, self.known_lifetime, n_threads)

    def _grown(self, sample: Sample, lifetime: float, n_threads: int) -> MondrianPartitions:
        import numpy as np

        from ikmap.partitioners.mondrian import fit_mondrian

        rows = sample.take(np.arange(sample.n_rows))
        return fit_mondrian(rows, self.t, lifetime, sample.seed, n_threads=n_threads)

    # Parts of the trees

    def fit_part(self, rows: Rows, seed: int, start: int, stop: int, n_threads: int = 1) -> Partitions:
        from ikmap.partitioners.mondrian import fit_mondrian

        return fit_mondrian(rows, stop - start, self.known_lifetime, seed, first=start, n_threads=n_threads)

    def joined(self, parts: Sequence[Partitions]) -> Partitions:
        from ikmap.partitioners import MondrianPartitions
        from ikmap.partitioners.mondrian import joined_trees

        return joined_trees([part for part in parts if isinstance(part, MondrianPartitions)])

    def check_size(self, rows: Rows, seed: int, room: float, cell_bytes: float = 0.0) -> None:
        from ikmap.partitioners.mondrian_size import longest_lifetime

        lifetime = self.known_lifetime
        longest = longest_lifetime(rows, self.t, lifetime, seed, room, cell_bytes)
        if longest is None:
            return
        subject = f"{{lifetime}} {lifetime:g}: {self.t} Mondrian trees on {rows.shape[0]:,} rows"
        if cell_bytes:
            subject = (
                f"{{lifetime}} auto: a sweep over {self.t} Mondrian trees on {rows.shape[0]:,} rows to {lifetime:g}"
            )
        raise DoesNotFit(
            f"{subject} would take more than the {room / 1e6:,.0f} MB that a worker has left; give {{lifetime}} "
            f"{_rounded_down(longest)}, fewer {{t}}, or a larger {{memory_limit}}"
        )

    # All lifetimes in one pass

    @property
    def along(self) -> frozenset[str]:
        return frozenset({"lifetime"})

    def path(
        self, values: Sequence[Mapping[str, Number]], sample: Sample, map_rows: Sequence[Rows], n_threads: int = 1
    ) -> Iterator[list[Cells]]:
        """Grow trees of the longest lifetime, and cut them at each lifetime."""
        lifetimes = [float(fields["lifetime"]) for fields in values]
        grown = self._grown(sample, lifetimes[-1], n_threads)
        for lifetime in lifetimes:
            fitted = grown.at(lifetime)
            yield [fitted.cells(rows, n_threads) for rows in map_rows]

    def events(
        self, limit: Number, sample: Sample, map_rows: Sequence[Rows], n_threads: int = 1
    ) -> tuple[list[Cells], Iterator[CellSplit]]:
        return self._grown(sample, float(limit), n_threads).splits(map_rows, n_threads)

    # New cells for the rows of a stream

    def extend(self, model: Partitions, rows: Rows, n_threads: int = 1) -> tuple[Partitions, Cells]:
        from ikmap.partitioners import MondrianPartitions

        assert isinstance(model, MondrianPartitions)
        return model.extended(rows, n_threads)

    def memory(self, rows: RowsInfo) -> MapMemory:
        # Boxes of all nodes, and dense rows to grow on.
        return MapMemory(self.t * CELLS * 2 * (16.0 * rows.d + 40.0) + 8.0 * rows.n * rows.d)


def _rounded_down(value: float) -> str:
    """Return a number rounded down to two digits."""
    if value <= 0.0:
        return "0"
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return f"{math.floor(value / unit) * unit:.2g}"
