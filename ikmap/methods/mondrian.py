"""Cells of Mondrian trees: rows share a cell as often as the Laplace kernel says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ikmap.methods.lifetime import CELLS, LaplaceMap, LifetimeOptions
from ikmap.methods.map import MapShape, Value
from ikmap.methods.options import MethodOptions
from ikmap.methods.sample import Sample

if TYPE_CHECKING:
    import numpy as np

    from ikmap.cells import Cells
    from ikmap.partitioners import Partitions
    from ikmap.rows import Rows
    from ikmap.splits import CellSplit


class MondrianOptions(LifetimeOptions):
    """Of Mondrian trees."""


def _rounded_down(value: float) -> str:
    """Two digits of a number, none of which makes it larger."""
    import math

    if value <= 0.0:
        return "0"
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return f"{math.floor(value / unit) * unit:.2g}"


class _Mondrian(LaplaceMap):
    Options: ClassVar[type[MethodOptions]] = MondrianOptions

    def fit(self, options: Any, value: Value, sample: Sample, n_threads: int = 1) -> Partitions:
        import numpy as np

        from ikmap.partitioners.mondrian import fit_mondrian

        rows = sample.take(np.arange(sample.n_rows))
        return fit_mondrian(rows, options.t, float(value), sample.seed, n_threads=n_threads)

    def too_large(
        self, options: Any, value: Value, rows: Rows, seed: int, room: float, of_cell: float = 0.0
    ) -> str | None:
        from ikmap.partitioners.mondrian_size import longest_lifetime

        longest = longest_lifetime(rows, options.t, float(value), seed, room, of_cell)
        if longest is None:
            return None
        what = f"--lifetime {value:g}: {options.t} Mondrian trees on {rows.shape[0]:,} rows"
        if of_cell:
            what = f"--lifetime auto: a sweep over {options.t} Mondrian trees on {rows.shape[0]:,} rows to {value:g}"
        return (
            f"{what} would take more than the {room / 1e6:,.0f} MB that a worker has left; give --lifetime "
            f"{_rounded_down(longest)}, fewer --t, or a larger --memory-limit"
        )

    def in_parts(self, options: Any) -> bool:
        return True

    def fit_part(
        self, options: Any, value: Value, rows: Rows, seed: int, start: int, stop: int, n_threads: int = 1
    ) -> Partitions:
        from ikmap.partitioners.mondrian import fit_mondrian

        return fit_mondrian(rows, stop - start, float(value), seed, first=start, n_threads=n_threads)

    def joined(self, options: Any, parts: Sequence[Any]) -> Partitions:
        from ikmap.partitioners.mondrian import joined_trees

        return joined_trees(parts)

    def path(
        self,
        options: Any,
        values: Sequence[Value],
        seed: int,
        fit_rows: Rows,
        map_rows: Sequence[Rows],
        n_threads: int = 1,
    ) -> Iterator[tuple[Value, list[Cells]]]:
        """The trees of the longest lifetime have those of all others in them."""
        from ikmap.partitioners.mondrian import fit_mondrian

        grown = fit_mondrian(fit_rows, options.t, float(max(values)), seed, n_threads=n_threads)
        for value in sorted(values):
            fitted = grown.at(float(value))
            yield value, [fitted.cells(rows, n_threads) for rows in map_rows]

    def grows(self, options: Any) -> bool:
        return True

    def extend(self, options: Any, model: Any, rows: Rows, n_threads: int = 1) -> tuple[Partitions, Cells]:
        grown: tuple[Partitions, Cells] = model.extended(rows, n_threads)
        return grown

    def sweeps(self, options: Any) -> bool:
        return True

    def events(
        self,
        options: Any,
        limit: Value,
        seed: int,
        fit_rows: Rows,
        map_rows: Sequence[Rows],
        n_threads: int = 1,
    ) -> tuple[list[Cells], Iterator[CellSplit]]:
        from ikmap.partitioners.mondrian import fit_mondrian

        grown = fit_mondrian(fit_rows, options.t, float(limit), seed, n_threads=n_threads)
        return self.splits(options, grown, map_rows, n_threads)

    def lineage(self, options: Any, model: Any) -> tuple[np.ndarray, np.ndarray]:
        from ikmap.partitioners.mondrian_splits import mondrian_lineage

        return mondrian_lineage(model)

    def splits(
        self, options: Any, model: Any, map_rows: Sequence[Rows], n_threads: int = 1
    ) -> tuple[list[Cells], Iterator[CellSplit]]:
        from ikmap.partitioners.mondrian_splits import mondrian_splits

        return mondrian_splits(model, map_rows, n_threads)

    def needed_bytes(self, options: Any, value: Value, shape: MapShape) -> tuple[float, float]:
        # Boxes of all nodes, and dense rows to grow on.
        return options.t * CELLS * 2 * (16.0 * shape.d + 40.0) + 8.0 * shape.n * shape.d, 0.0


MONDRIAN = _Mondrian(
    name="mondrian",
    title="Mondrian trees",
    about="the box of the training rows is cut at random times and places, each part by itself, until the lifetime "
    "ends; a row belongs to the part it lies in, if the tree knows it",
)
