"""Maps to cells: configured objects that are fitted on rows and send each row to t integers."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Self

from annotated_types import Ge

from ikmap.methods.about import MapAbout
from ikmap.methods.capabilities import Redrawable
from ikmap.methods.fields import Doc, FieldError, Searched, Symbol
from ikmap.methods.method import Candidates, Method, SearchSpace
from ikmap.methods.sample import Sample

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ikmap.partitioners import Partitions
    from ikmap.rows import Rows

type T = Annotated[
    int, Ge(1), Doc("partitionings, the integers per row; of all maps (default: 300 for iforest, 100 for others)")
]
"""Number of partitionings."""

OF_CELLS = (
    "With few, large cells the learner sees only coarse differences between rows; with many small ones it sees fine "
    "differences, and with too many it memorises single training rows. Of all settings, this matters most."
)
PSI_DOC = "cells per partitioning; auto: by cross-validation"
type Psi = Annotated[
    int, Ge(1), Doc(PSI_DOC), Searched(by_default=True), Symbol("ψ", "cells per partitioning", OF_CELLS)
]
"""Number of cells of a partitioning."""


@dataclass(frozen=True)
class RowsInfo:
    """Sizes of the rows that a map is fitted on.

    Attributes
    ----------
    n, d : int
        Rows and columns.
    row_bytes : float
        Bytes of a row in memory.
    dense : bool
    """

    n: int
    d: int
    row_bytes: float
    dense: bool


@dataclass(frozen=True)
class MapMemory:
    """Bytes that a map takes: estimates.

    Attributes
    ----------
    model : float
        Of what is fitted.
    scratch : float
        Of what mapping takes beside it.
    """

    model: float = 0.0
    scratch: float = 0.0


class Map(Method):
    """Base of all maps to cells.

    What only some maps can do is a capability (:mod:`ikmap.methods.capabilities`), which a map has as a further base.

    Attributes
    ----------
    about : MapAbout
    t : int
        Number of partitionings, the integers per row.
    """

    about: ClassVar[MapAbout]
    t: T = 100

    @property
    def description(self) -> MapAbout:
        """Description of the map; of a map that is put together from several, their descriptions joined."""
        return self.about

    @property
    def n_partitions(self) -> int:
        """Number of integers that a row has."""
        return self.t

    @abstractmethod
    def n_cells(self) -> int:
        """Return the largest number of cells that a partitioning will have, about: by it, plans are made."""

    @abstractmethod
    def fit(self, sample: Sample, n_threads: int = 1) -> Partitions:
        """Return the partitionings drawn from the sample, the same for any number of threads.

        Raises
        ------
        DoesNotFit
            They would take more memory than there is.
        """

    def within(self, n_rows: int) -> Self:
        """Return the map as far as so many rows allow it, such as with psi <= n_rows.

        A run on n rows is refused where this is another map than the one that was asked for.
        """
        return self

    def unsearched(self, searched: frozenset[str], n_rows: int, psi: int) -> Self | None:
        """Return the map with values for what nothing can choose: psi, and else the middle of the search space.

        None: only cross-validation on the rows can tell them.
        """
        values: dict[str, object] = {
            path: candidates.values[len(candidates.values) // 2]
            for path, candidates in self.search_space(searched, n_rows).items()
        }
        return self.at(values | ({"psi": psi} if "psi" in values else {}))

    def memory(self, rows: RowsInfo) -> MapMemory:
        """Return the memory that the map takes, fitted on rows of these sizes."""
        return MapMemory()

    def plan_words(self, rows: RowsInfo) -> str:
        """Return what the plan of a run says of the map."""
        return ", ".join(f"{path} = {self.value_at(path)}" for path in self.tunable(frozenset()))


class PsiMap(Map, Redrawable):
    """Base of maps that cut space into psi cells by points drawn from the rows.

    Attributes
    ----------
    psi : int
        Number of cells of a partitioning.
    """

    psi: Psi = 256

    @abstractmethod
    def partitions(self, points: Rows, draws: NDArray[np.int64], seed: int, n_threads: int) -> Partitions:
        """Return the partitionings by drawn points.

        Parameters
        ----------
        points : ndarray or csr_array, shape (n_points, d)
        draws : ndarray of int64, shape (t, psi)
            Numbers of the points of each partitioning.
        """

    def search_space(self, searched: frozenset[str], n_rows: int, sample: Sample | None = None) -> SearchSpace:
        return {"psi": candidates_of_psi(n_rows)} if "psi" in searched else {}

    def within(self, n_rows: int) -> Self:
        return self if self.psi <= n_rows else self.at({"psi": max(1, n_rows)})

    def n_cells(self) -> int:
        return self.psi

    def fit(self, sample: Sample, n_threads: int = 1) -> Partitions:
        import numpy as np

        from ikmap.partitioners import draw_subsamples

        draws = draw_subsamples(sample.n_rows, self.t, self.psi, sample.seed)
        used, position = np.unique(draws, return_inverse=True)
        return self.partitions(sample.take(used), position.reshape(draws.shape), sample.seed, n_threads)

    def redrawn(
        self, model: Partitions, sample: Sample, number: int, n_threads: int = 1
    ) -> tuple[Partitions, NDArray[np.bool_]]:
        return redrawn_half(self, model, sample, number, n_threads)

    def plan_words(self, rows: RowsInfo) -> str:
        return f"psi = {self.psi}, about {points_drawn(rows.n, self.t, self.psi):,.0f} different points"


def redrawn_half(
    one: Map, model: Partitions, sample: Sample, number: int, n_threads: int
) -> tuple[Partitions, NDArray[np.bool_]]:
    """Draw half of the partitionings anew, those that were drawn longest ago, as a map of so few partitionings does."""
    import numpy as np

    from ikmap.partitioners.redrawn import drawn_longest_ago, replaced

    drawn = np.zeros(model.n_partitions, dtype=bool)
    start, stop = drawn_longest_ago(drawn.size, number)
    drawn[start:stop] = True
    new = one.at({"t": stop - start}).fit(sample, n_threads)
    return replaced(model, start, new), drawn


def candidates_of_psi(n_rows: int) -> Candidates:
    """Return the values of psi that every fold of so many rows has enough rows for: from two cells to one a row."""
    from ikmap.model_selection import psis_that_fit

    return Candidates(tuple(psis_that_fit(n_rows)), 2, n_rows)


def points_drawn(n: int, t: int, psi: float) -> float:
    """Return about how many different ones of n rows t subsamples of psi rows have."""
    return n * -math.expm1(t * math.log1p(-min(psi / n, 1 - 1e-12)))


def refused_on(one: Map, n_rows: int) -> FieldError | None:
    """Return what is wrong with a map for so many training rows, or None."""
    less = one.within(n_rows)
    for path in one.tunable(frozenset()):
        if one.value_at(path) != less.value_at(path):
            value = one.value_at(path)
            assert isinstance(value, int | float)
            name = path.rpartition(".")[2]
            return FieldError(name, f"{n_rows} training rows", f"at least {name}", value=value)
    return None
