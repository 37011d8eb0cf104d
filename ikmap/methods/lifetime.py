"""What maps have whose cells approximate the Laplace kernel: a lifetime, which is its inverse width."""

from __future__ import annotations

from typing import Any, ClassVar

from ikmap.methods.kinds import Real
from ikmap.methods.map import Map, MapOptions, Value
from ikmap.methods.options import FEATURES, MethodOptions, Setting, option
from ikmap.methods.sample import Sample
from ikmap.methods.search import Search

CELLS = 1024
"""What plans reckon with: how many cells there are depends on the data."""
MULTIPLES = tuple(2.0**m for m in range(-5, 4))
"""Lifetimes that cross-validation tries, and the last one to which sweeps go: of one over the distance that is typical
of two rows."""
LOOKED_AT = 200
"""So many rows tell that distance."""
STREAM = 1_000_005
"""Seed path of drawing them."""


class LifetimeOptions(MapOptions):
    """Of maps that approximate the Laplace kernel exp(-lifetime |x - y|_1)."""

    lifetime: float | str = option(
        "auto",
        Real(0, words=("auto",)),
        group=FEATURES,
        help="lifetime of the maps mondrian and binning: the inverse width of the Laplace kernel, in one over the unit "
        "of the columns; auto: by a sweep over all of them where map and learner have one, else by cross-validation",
        setting=Setting("λ", "lifetime", "The longer cuts arrive, the more cells there are, and the smaller they are."),
    )


class LaplaceMap(Map):
    """Base of these maps."""

    Options: ClassVar[type[MethodOptions]] = LifetimeOptions
    in_units = True
    reaches_all = False  # a new row may lie where nothing is known
    endless = True

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
