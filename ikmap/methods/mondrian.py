"""Cells of Mondrian trees: rows share a cell as often as the Laplace kernel says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ikmap.methods.kinds import Real
from ikmap.methods.map import Map, MapOptions, MapShape, Value
from ikmap.methods.options import FEATURES, MethodOptions, Setting, option
from ikmap.methods.sample import Sample
from ikmap.methods.search import Search

if TYPE_CHECKING:
    from ikmap.cells import Cells
    from ikmap.partitioners import Partitions
    from ikmap.rows import Rows
    from ikmap.splits import CellSplit

CELLS = 1024
"""What plans reckon with: how many cells there are depends on the data."""
MULTIPLES = tuple(2.0**m for m in range(-5, 4))
"""Lifetimes that cross-validation tries, and the last one to which sweeps go: of one over the distance that is typical
of two rows."""
LOOKED_AT = 200
"""So many rows tell that distance."""
STREAM = 1_000_005
"""Seed path of drawing them."""


class MondrianOptions(MapOptions):
    """Of Mondrian trees."""

    lifetime: float | str = option(
        "auto",
        Real(0, words=("auto",)),
        group=FEATURES,
        help="lifetime of the mondrian trees: the inverse width of the Laplace kernel, in one over the unit of the "
        "columns; auto: the best of a sweep over all of them, or by cross-validation",
        setting=Setting("λ", "lifetime", "The longer cuts arrive, the more cells there are, and the smaller they are."),
    )


class _Mondrian(Map):
    Options: ClassVar[type[MethodOptions]] = MondrianOptions
    in_units = True
    reaches_all = False  # a new row may be cut off from all that is known

    def parameter(self, options: Any) -> str:
        return "lifetime"

    def search(self, options: Any, n_rows: int, sample: Sample | None = None) -> Search | None:
        if options.lifetime != "auto":
            return None
        unit = 1.0 if sample is None else 1.0 / typical_distance(sample)
        return Search("lifetime", "lifetime", tuple(unit * multiple for multiple in MULTIPLES))

    def given(self, options: Any) -> Value | None:
        return None if options.lifetime == "auto" else float(options.lifetime)

    def n_cells(self, options: Any, value: Value) -> int:
        return CELLS

    def fit(self, options: Any, value: Value, sample: Sample, n_threads: int = 1) -> Partitions:
        import numpy as np

        from ikmap.partitioners.mondrian import fit_mondrian

        rows = sample.take(np.arange(sample.n_rows))
        return fit_mondrian(rows, options.t, float(value), sample.seed, n_threads=n_threads)

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
        from ikmap.partitioners.mondrian_splits import mondrian_splits

        grown = fit_mondrian(fit_rows, options.t, float(limit), seed, n_threads=n_threads)
        return mondrian_splits(grown, map_rows, n_threads)

    def needed_bytes(self, options: Any, value: Value, shape: MapShape) -> tuple[float, float]:
        # Boxes of all nodes, and dense rows to grow on.
        return options.t * CELLS * 2 * (16.0 * shape.d + 40.0) + 8.0 * shape.n * shape.d, 0.0


def typical_distance(sample: Sample) -> float:
    """The median of |x - y|_1 over pairs of some rows; the mean where that is 0, and 1 where all are the same."""
    import numpy as np

    from ikmap.rows import as_dense
    from ikmap.seeds import generator

    drawn = generator(sample.seed, STREAM).permutation(sample.n_rows)[:LOOKED_AT]
    rows = as_dense(sample.take(np.sort(drawn)))
    distances = np.concatenate([np.zeros(0), *(np.abs(rows[i] - rows[:i]).sum(axis=1) for i in range(1, len(rows)))])
    if not distances.any():
        return 1.0
    return float(np.median(distances)) or float(distances.mean())


MONDRIAN = _Mondrian(
    name="mondrian",
    title="Mondrian trees",
    about="the box of the training rows is cut at random times and places, each part by itself, until the lifetime "
    "ends; a row belongs to the part it lies in, if the tree knows it",
)
