"""Cells of Mondrian trees: rows share a cell as often as the Laplace kernel says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from ikmap.methods.kinds import Real
from ikmap.methods.map import Map, MapOptions, MapShape, Value
from ikmap.methods.options import FEATURES, MethodOptions, Setting, option
from ikmap.methods.sample import Sample
from ikmap.methods.search import Search

if TYPE_CHECKING:
    from ikmap.partitioners import Partitions

CELLS = 1024
"""What plans reckon with: how many cells there are depends on the data."""


class MondrianOptions(MapOptions):
    """Of Mondrian trees."""

    lifetime: float = option(
        1.0,
        Real(0),
        group=FEATURES,
        help="lifetime of the mondrian trees: the inverse width of the Laplace kernel, in the unit of the columns",
        setting=Setting("λ", "lifetime", "The longer cuts arrive, the more cells there are, and the smaller they are."),
    )


class _Mondrian(Map):
    Options: ClassVar[type[MethodOptions]] = MondrianOptions
    reaches_all = False  # a new row may be cut off from all that is known

    def parameter(self, options: Any) -> str:
        return "lifetime"

    def search(self, options: Any, n_rows: int) -> Search | None:
        return None

    def given(self, options: Any) -> Value | None:
        return float(options.lifetime)

    def n_cells(self, options: Any, value: Value) -> int:
        return CELLS

    def fit(self, options: Any, value: Value, sample: Sample, n_threads: int = 1) -> Partitions:
        import numpy as np

        from ikmap.partitioners.mondrian import fit_mondrian

        rows = sample.take(np.arange(sample.n_rows))
        return fit_mondrian(rows, options.t, float(value), sample.seed, n_threads=n_threads)

    def needed_bytes(self, options: Any, value: Value, shape: MapShape) -> tuple[float, float]:
        # Boxes of all nodes, and dense rows to grow on.
        return options.t * CELLS * 2 * (16.0 * shape.d + 40.0) + 8.0 * shape.n * shape.d, 0.0


MONDRIAN = _Mondrian(
    name="mondrian",
    title="Mondrian trees",
    about="the box of the training rows is cut at random times and places, each part by itself, until the lifetime "
    "ends; a row belongs to the part it lies in, if the tree knows it",
)
