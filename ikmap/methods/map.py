"""What a map to cells says of itself: name, options, what there is to choose, memory, and how it is fitted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ikmap.methods.kinds import Integer
from ikmap.methods.options import FEATURES, MethodOptions, option
from ikmap.methods.psi import psi_option, search_of_psi
from ikmap.methods.sample import Sample
from ikmap.methods.search import Search

if TYPE_CHECKING:
    import numpy as np

    from ikmap.cells import Cells
    from ikmap.partitioners import Partitions
    from ikmap.rows import Rows
    from ikmap.splits import CellSplit


def t_option(default: int) -> Any:
    """Return the field ``t`` of a map's options."""
    words = "partitionings, the integers per row; of all maps (default: 300 for iforest, 100 for others)"
    return option(default, Integer(1), group=FEATURES, help=words)


class MapOptions(MethodOptions):
    """Of all maps to cells."""

    t: int = t_option(100)


class PsiOptions(MapOptions):
    """Of maps that cut space into psi cells, t times."""

    psi: int | str = psi_option()


type Value = Any
"""The number that is chosen or given for a map, int or float; a tuple of them where it has several."""


@dataclass(frozen=True)
class MapShape:
    """Sizes of what a map is fitted on.

    Attributes
    ----------
    n, d : int
        Rows and columns.
    row_bytes : float
        Of a row in memory.
    dense : bool
    """

    n: int
    d: int
    row_bytes: float
    dense: bool


@dataclass(frozen=True, kw_only=True)
class Map:
    """Base of all maps to cells: ``options`` is one of its :attr:`Options` in all methods.

    ``value`` is what was chosen or given for :meth:`parameter`, such as psi.

    Attributes
    ----------
    name : str
        For ``--partitioner``.
    title : str
        For people: how space is cut into cells, in a few words.
    about : str
        The same for the report, as half a sentence: "the nearest of ψ points". ψ stands for the value that is chosen.
    Options : type
        What it can be told.
    models : tuple of str
        Modules of the kinds of models that it makes.
    nested : bool
        One search for the largest value has the cells of all smaller ones: cross-validation does them together.
    loops : tuple of str
        Modules of compiled loops of its own, outside `ikmap`; those within it are found by their names.
    tables : frozenset of str
        What it knows of its cells beside their numbers, such as "depth": names of :meth:`cell_tables`.
    in_units : bool
        The values of :meth:`search` have a unit that only the rows tell.
    reaches_all : bool
        Every row has a cell in some partitioning. Where rows may have none at all, linear classifiers on the cells
        learn an intercept, which is all that they can say of such a row.
    by_size : bool
        Its cells depend on how large the values of a column are beside those of others, as distances do.
    endless : bool
        Its cells go on splitting as its value grows, so a larger value than the last of a sweep is another map.
    """

    name: str
    title: str
    about: str
    nested: bool = False

    Options: ClassVar[type[MethodOptions]]
    models: ClassVar[tuple[str, ...]] = ("ikmap.partitioners",)
    loops: ClassVar[tuple[str, ...]] = ()
    tables: ClassVar[frozenset[str]] = frozenset()
    in_units: ClassVar[bool] = False
    reaches_all: ClassVar[bool] = True
    endless: ClassVar[bool] = False
    by_size: ClassVar[bool] = False

    def compiled(self, options: Any) -> frozenset[str]:
        """Words by which loops say who needs them (:mod:`ikmap._compiled`)."""
        # As it grows, its cells may need two bytes each instead of one.
        return frozenset({self.name} | ({"narrow", "wide"} if self.grows(options) else set()))

    def parameter(self, options: Any) -> str:
        """Name of the number that is chosen or given for it."""
        raise NotImplementedError

    def search(self, options: Any, n_rows: int, sample: Sample | None = None) -> Search | None:
        """What cross-validation on so many rows is to choose for it.

        Parameters
        ----------
        sample : Sample, optional
            The training rows. Where the values have a unit that depends on the rows, they are multiples of it as long
            as there is none: whether there is something to choose, and how many values, is the same.
        """
        raise NotImplementedError

    def refined(
        self, options: Any, chosen: Sequence[Value], n_rows: int, number: int, sample: Sample | None = None
    ) -> Search | None:
        """What is to be tried after :meth:`search`, and again after that; None: nothing more.

        Parameters
        ----------
        chosen : sequence of numbers
            Values that were the best so far, each for some learner: they are among those to try.
        number : int
            How often it was asked before.
        sample : Sample, optional
            As of :meth:`search`.
        """
        return None

    def partitionings(self, options: Any, value: Value) -> int:
        """How many integers a row has: t, unless the value says it."""
        return int(options.t)

    def given(self, options: Any) -> Value | None:
        """What the options say of :meth:`parameter`; None where it is to be chosen."""
        raise NotImplementedError

    def unsearched(self, options: Any, psi: int, n_rows: int) -> Value:
        """The value on so many rows where nothing can choose it: as given, else `psi`, or the middle one of a search.

        Parameters
        ----------
        psi : int
            For maps whose number is psi.
        """
        given = self.given(options)
        if given is not None:
            return given
        if self.parameter(options) == "psi":
            return psi
        search = self.search(options, n_rows)
        assert search is not None
        middle: Value = search.values[len(search.values) // 2]
        return middle

    def comparable(self, options: Any, value: Value, n_rows: int) -> Value:
        """What cross-validation on so many rows has in place of a given value, which may be too much for a fold."""
        return value

    def refused(self, options: Any, value: Value, n_rows: int) -> str | None:
        """What is wrong with a value for so many training rows, in a line that says what was found and expected."""
        return None

    def too_large(
        self, options: Any, value: Value, rows: Rows, seed: int, room: float, of_cell: float = 0.0
    ) -> str | None:
        """What is wrong with a value whose model, fitted on these rows, does not fit into so many bytes, in a line.

        Parameters
        ----------
        of_cell : float
            Bytes that a learner which follows the splits keeps of each cell beside the model.
        """
        return None

    def n_cells(self, options: Any, value: Value) -> int:
        """The most cells that a partitioning will have, about: by it, plans are made."""
        raise NotImplementedError

    def fit(self, options: Any, value: Value, sample: Sample, n_threads: int = 1) -> Partitions:
        """The partitionings, the same for any number of threads."""
        raise NotImplementedError

    def in_parts(self, options: Any) -> bool:
        """Whether partitionings are fitted on all rows, each by itself: tasks may then fit some (:meth:`fit_part`)."""
        return False

    def fit_part(
        self, options: Any, value: Value, rows: Rows, seed: int, start: int, stop: int, n_threads: int = 1
    ) -> Partitions:
        """Partitionings ``start .. stop - 1`` of those that :meth:`fit` makes of a sample of these rows."""
        raise NotImplementedError

    def joined(self, options: Any, parts: Sequence[Any]) -> Partitions:
        """What :meth:`fit` makes, of its parts in order."""
        raise NotImplementedError

    def cell_tables(self, options: Any, model: Any, sample: Sample) -> Mapping[str, np.ndarray]:
        """What it knows of the cells of a model, fitted on this sample: by name a number for each feature column."""
        return {}

    def grows(self, options: Any) -> bool:
        """Whether it gets new cells for the rows of a stream (:meth:`extend`). For a training set it never does."""
        return False

    def extend(self, options: Any, model: Any, rows: Rows, n_threads: int = 1) -> tuple[Partitions, Cells]:
        """The map with the cells that some more rows call for, and the cells of these rows in it.

        It grows by one row after the other, so that nothing depends on how rows are cut into calls. A cell keeps its
        number within its partitioning, and a row that was mapped its cells; new cells have the numbers that follow.

        Parameters
        ----------
        model : Partitions
            As :meth:`fit` or this method gave it. It is not changed: others may hold it.
        """
        raise NotImplementedError

    def redraws(self, options: Any) -> bool:
        """Whether partitionings of a stream can be drawn anew from recent rows (:meth:`redrawn`)."""
        return False

    def redrawn(
        self, options: Any, value: Value, model: Any, sample: Sample, number: int, n_threads: int = 1
    ) -> tuple[Partitions, np.ndarray]:
        """The map with the half of its partitionings drawn anew that were drawn longest ago.

        Parameters
        ----------
        model : Partitions
            As :meth:`fit` or this method gave it. It is not changed.
        sample : Sample
            Recent rows, and the seed of what is drawn.
        number : int
            How often it has been drawn anew then, from 1.

        Returns
        -------
        Partitions
        ndarray of bool, shape (t,)
            Partitionings that were drawn anew; the others have the same cells as before.
        """
        import numpy as np

        from ikmap.partitioners.redrawn import drawn_longest_ago, replaced

        drawn = np.zeros(model.n_partitions, dtype=bool)
        start, stop = drawn_longest_ago(drawn.size, number)
        drawn[start:stop] = True
        new = self.fit(options.replace(t=stop - start), value, sample, n_threads)
        return replaced(model, start, new), drawn

    def sharing(self, options: Any, value: Value) -> Any:
        """What values have in common whose cells :meth:`path` finds together, in one task of cross-validation."""
        return None if self.nested else value

    def path(
        self,
        options: Any,
        values: Sequence[Value],
        seed: int,
        fit_rows: Rows,
        map_rows: Sequence[Rows],
        n_threads: int = 1,
    ) -> Iterator[tuple[Value, list[Cells]]]:
        """Cells of several sets of rows for every value, ascending, all partitionings drawn from `fit_rows`."""
        n, d = fit_rows.shape
        sample = Sample(n, d, None, fit_rows.__getitem__, seed)
        for value in sorted(values):
            fitted = self.fit(options, value, sample, n_threads)
            yield value, [fitted.cells(rows, n_threads) for rows in map_rows]

    def sweeps(self, options: Any) -> bool:
        """Whether its cells split one after the other as its value grows, and :meth:`events` tells of it."""
        return False

    def events(
        self,
        options: Any,
        limit: Value,
        seed: int,
        fit_rows: Rows,
        map_rows: Sequence[Rows],
        n_threads: int = 1,
    ) -> tuple[list[Cells], Iterator[CellSplit]]:
        """Cells of several sets of rows before any split, and all splits up to a value, ascending.

        What :meth:`fit` makes of `fit_rows` for a value has the cells after all splits with that value or less.

        Parameters
        ----------
        limit : int or float
            The last value of :meth:`search`.
        """
        raise NotImplementedError

    def lineage(self, options: Any, model: Any) -> tuple[np.ndarray, np.ndarray]:
        """What all :meth:`splits` of a model amount to, of columns that are numbered as they come to be.

        The first columns are those before any split. Of the two that a split makes, one keeps the column of what is
        split; the other has the next. The first array has, for each column, the one that it was split from, or itself;
        the second the column of each feature of the model.
        """
        raise NotImplementedError

    def splits(
        self, options: Any, model: Any, map_rows: Sequence[Rows], n_threads: int = 1
    ) -> tuple[list[Cells], Iterator[CellSplit]]:
        """The same of what :meth:`fit` has made for the limit: of a map with :meth:`in_parts`, which may then be swept
        over more rows than fit in memory. The rows that it was fitted on have a cell in every partitioning.
        """
        raise NotImplementedError

    def needed_bytes(self, options: Any, value: Value, shape: MapShape) -> tuple[float, float]:
        """Memory of the model, and what mapping takes beside it: estimates."""
        return 0.0, 0.0

    def planned(self, options: Any, value: Value, shape: MapShape) -> str:
        """What the plan of a run says of it."""
        return f"{self.parameter(options)} = {value}"


class PsiMap(Map):
    """Base of maps that cut space into psi cells by points drawn from the rows."""

    def parameter(self, options: Any) -> str:
        return "psi"

    def search(self, options: Any, n_rows: int, sample: Sample | None = None) -> Search | None:
        return search_of_psi(n_rows) if options.psi == "auto" else None

    def given(self, options: Any) -> Value | None:
        return None if options.psi == "auto" else int(options.psi)

    def redraws(self, options: Any) -> bool:
        return True

    def comparable(self, options: Any, value: Value, n_rows: int) -> Value:
        from ikmap.model_selection import psis_that_fit

        return psis_that_fit(n_rows, psis=[int(value)])[0]

    def refused(self, options: Any, value: Value, n_rows: int) -> str | None:
        return f"--psi {value}: found {n_rows} training rows, expected at least psi" if value > n_rows else None

    def n_cells(self, options: Any, value: Value) -> int:
        return int(value)

    def fit(self, options: Any, value: Value, sample: Sample, n_threads: int = 1) -> Partitions:
        import numpy as np

        from ikmap.partitioners import draw_subsamples

        draws = draw_subsamples(sample.n_rows, options.t, int(value), sample.seed)
        used, position = np.unique(draws, return_inverse=True)
        return self.partitions(options, sample.take(used), position.reshape(draws.shape), sample.seed, n_threads)

    def planned(self, options: Any, value: Value, shape: MapShape) -> str:
        return f"psi = {value}, about {points_drawn(shape.n, options.t, value):,.0f} different points"

    def partitions(self, options: Any, points: Rows, draws: Any, seed: int, n_threads: int) -> Partitions:
        """The partitionings by points, of which `draws` has the numbers, shape (t, psi)."""
        raise NotImplementedError


def points_drawn(n: int, t: int, psi: float) -> float:
    """How many different ones of n rows t subsamples of psi have, about."""
    import math

    return n * -math.expm1(t * math.log1p(-min(psi / n, 1 - 1e-12)))
