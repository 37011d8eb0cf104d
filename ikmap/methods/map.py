"""Maps to cells: configured objects that are fitted on rows and map each row to t integers."""

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
    int,
    Ge(1),
    Doc("partitionings, the integers per row; of all maps (default: 300 for iforest and forest, 100 for others)"),
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
        Numbers of rows and of columns.
    row_bytes : float
        Bytes of a row in memory.
    dense : bool
        True for dense rows, False for CSR.
    """

    n: int
    d: int
    row_bytes: float
    dense: bool


@dataclass(frozen=True)
class MapMemory:
    """Estimates of the bytes that a map takes.

    Attributes
    ----------
    model : float
        Bytes of the fitted map.
    scratch : float
        Bytes that fitting and mapping take beside it.
    """

    model: float = 0.0
    scratch: float = 0.0


class Map(Method):
    """Base of all maps to cells.

    What only some maps can do is a capability (:mod:`ikmap.methods.capabilities`), a further base class of a map.

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
        """Description of the map; that of a composed map joins the descriptions of its parts."""
        return self.about

    @property
    def n_partitions(self) -> int:
        """Number of integers of a row."""
        return self.t

    @abstractmethod
    def n_cells(self) -> int:
        """Return a number that no partitioning has more cells than (an estimate where the rows decide).

        Plans and the choice of loops go by it.
        """

    @abstractmethod
    def fit(self, sample: Sample, n_threads: int = 1) -> Partitions:
        """Return the partitionings drawn from the sample, the same for any number of threads.

        Raises
        ------
        DoesNotFit
            The partitionings would not fit into memory.
        """

    def within(self, n_rows: int) -> Self:
        """Return the map, with fields reduced as far as so many rows require, such as psi <= n_rows.

        A run on n rows is refused if this changes the map.
        """
        return self

    def unsearched(self, searched: frozenset[str], n_rows: int, psi: int) -> Self | None:
        """Return the map with psi, and with the middle candidates of other searched fields, if nothing can choose them.

        None: a value can only be chosen by cross-validation on the rows.
        """
        values: dict[str, object] = {
            path: candidates.values[len(candidates.values) // 2]
            for path, candidates in self.search_space(searched, n_rows).items()
        }
        return self.at(values | ({"psi": psi} if "psi" in values else {}))

    def memory(self, rows: RowsInfo) -> MapMemory:
        """Return the memory that the map takes for rows of these sizes."""
        return MapMemory()

    def plan_words(self, rows: RowsInfo) -> str:
        """Return words on the map for the plan of a run."""
        return ", ".join(f"{path} = {self.value_at(path)}" for path in self.tunable(frozenset()))


class PsiMap(Map, Redrawable):
    """Base of maps that divide space into psi cells by points drawn from the rows.

    Attributes
    ----------
    psi : int
        Number of cells of a partitioning.
    """

    psi: Psi = 256

    @abstractmethod
    def partitions(self, points: Rows, draws: NDArray[np.int64], seed: int, n_threads: int) -> Partitions:
        """Return the partitionings of drawn points.

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
        from ikmap.partitioners import draw_subsamples, rows_drawn

        used, position = rows_drawn(draw_subsamples(sample.n_rows, self.t, self.psi, sample.seed))
        return self.partitions(sample.take(used), position, sample.seed, n_threads)

    def redrawn(
        self, model: Partitions, sample: Sample, number: int, n_threads: int = 1
    ) -> tuple[Partitions, NDArray[np.bool_]]:
        return redrawn_half(self, model, sample, number, n_threads)

    def plan_words(self, rows: RowsInfo) -> str:
        return f"psi = {self.psi}, about {points_drawn(rows.n, self.t, self.psi):,.0f} different points"


def redrawn_half(
    method: Map, model: Partitions, sample: Sample, number: int, n_threads: int
) -> tuple[Partitions, NDArray[np.bool_]]:
    """Redraw the half of the partitionings that were drawn longest ago, by a fit of so many partitionings."""
    import numpy as np

    from ikmap.partitioners.redrawn import drawn_longest_ago, replaced

    drawn = np.zeros(model.n_partitions, dtype=bool)
    start, stop = drawn_longest_ago(drawn.size, number)
    drawn[start:stop] = True
    new = method.at({"t": stop - start}).fit(sample, n_threads)
    return replaced(model, start, new), drawn


def candidates_of_psi(n_rows: int) -> Candidates:
    """Return the candidates of psi for which every fold has enough rows, from two cells to one cell for each row."""
    from ikmap.model_selection import psis_that_fit

    return Candidates(tuple(psis_that_fit(n_rows)), 2, n_rows)


def points_drawn(n: int, t: int, psi: float) -> float:
    """Return about how many different rows t subsamples of psi of n rows have."""
    return n * -math.expm1(t * math.log1p(-min(psi / n, 1 - 1e-12)))


def refused_on(method: Map, n_rows: int) -> FieldError | None:
    """Return the error of a map that needs more than so many training rows, or None."""
    reduced = method.within(n_rows)
    for path in method.tunable(frozenset()):
        value = method.value_at(path)
        if value != reduced.value_at(path):
            assert isinstance(value, int | float)
            name = path.rpartition(".")[2]
            return FieldError(name, f"{n_rows} training rows", f"at least {name}", value=value)
    return None
