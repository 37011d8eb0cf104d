"""The base of maps that approximate the Laplace kernel, with its inverse width, the lifetime, as a field."""

from __future__ import annotations

from typing import Annotated, Self

from annotated_types import Gt

from ikmap.methods.fields import Doc, Searched, Symbol
from ikmap.methods.map import Map
from ikmap.methods.method import Candidates, SearchSpace
from ikmap.methods.sample import Sample

CELLS = 1024
"""Number of cells of a partitioning that plans assume; the real number depends on the data."""
MULTIPLES = tuple(2.0**m for m in range(-5, 4))
"""Lifetimes that cross-validation tries, as multiples of one over the typical distance of two rows; a sweep goes to the
last one."""
DISTANCE_ROWS = 200
"""Number of rows from which the typical distance is taken."""


class LaplaceMap(Map):
    """Base of maps that approximate the Laplace kernel exp(-lifetime |x - y|_1). The rows decide the unit of lifetimes.

    Attributes
    ----------
    lifetime : float or None
        None stands for a lifetime that cross-validation is to choose; such a map cannot be fitted.
    """

    lifetime: Annotated[
        float | None,
        Gt(0),
        Doc(
            "lifetime of the maps mondrian and binning: the inverse width of the Laplace kernel, in one over the unit "
            "of the columns; auto: by a sweep over all of them where map and learner have one, else by cross-validation"
        ),
        Searched(by_default=True),
        Symbol("λ", "lifetime", "The longer cuts arrive, the more cells there are, and the smaller they are."),
    ] = None

    @property
    def known_lifetime(self) -> float:
        """The lifetime, which has to be given or chosen by now.

        Raises
        ------
        ValueError
            There is no lifetime yet.
        """
        if self.lifetime is None:
            raise ValueError(f"{self.about.name} has no lifetime yet: give one, or have cross-validation choose it")
        return self.lifetime

    def search_space(self, searched: frozenset[str], n_rows: int, sample: Sample | None = None) -> SearchSpace:
        if "lifetime" not in searched:
            return {}
        unit = 1.0 if sample is None else 1.0 / typical_distance(sample)
        return {"lifetime": Candidates(tuple(unit * multiple for multiple in MULTIPLES))}

    def unsearched(self, searched: frozenset[str], n_rows: int, psi: int) -> Self | None:
        return None if "lifetime" in searched else self

    def n_cells(self) -> int:
        return CELLS


def typical_distance(sample: Sample) -> float:
    """Return the median of |x - y|_1 over pairs of some rows; the mean if the median is 0; 1 if all rows are equal."""
    import numpy as np

    from ikmap import seed_paths
    from ikmap.rows import as_dense
    from ikmap.seeds import generator

    drawn = generator(sample.seed, seed_paths.DISTANCES).permutation(sample.n_rows)[:DISTANCE_ROWS]
    rows = as_dense(sample.take(np.sort(drawn)))
    distances = np.concatenate([np.zeros(0), *(np.abs(rows[i] - rows[:i]).sum(axis=1) for i in range(1, len(rows)))])
    if not distances.any():
        return 1.0
    return float(np.median(distances)) or float(distances.mean())
