"""Cells of isolation trees: a row belongs to one leaf in each of t random trees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from annotated_types import Ge

from ikmap.methods.about import MapAbout
from ikmap.methods.capabilities import CellTables, Path, Sweepable
from ikmap.methods.fields import AUTO, Doc, FieldError, Searched, Symbol
from ikmap.methods.map import MapMemory, PsiMap, RowsInfo, T, points_drawn
from ikmap.methods.method import Candidates, Number, SearchSpace
from ikmap.methods.sample import Sample

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ikmap.cells import Cells
    from ikmap.partitioners import IForestPartitions, Partitions
    from ikmap.rows import Rows
    from ikmap.splits import CellSplit

DEPTHS = (2, 4, 6, 8, 11, 16, 22, 32, 45, 64)
"""Depths that cross-validation tries; a sweep goes to the last one."""


class IForest(PsiMap, Path, Sweepable, CellTables):
    """Isolation trees. A tree is faster than a partitioning of other maps, but its cells carry less information.

    Attributes
    ----------
    max_depth : int, "none" or "log2"
    """

    about: ClassVar[MapAbout] = MapAbout(
        name="iforest",
        title="random trees",
        summary="a random tree is grown on some training rows (ψ of them, see below), and a row belongs to the leaf "
        "that it falls into",
        tables=frozenset({"depth", "points"}),
    )
    swept: ClassVar[str] = "max_depth"

    t: T = 300
    max_depth: Annotated[
        int | Literal["none", "log2"],
        Ge(1),
        Doc(
            "depth of the iforest trees: until every point is isolated (none), ceil(log2 psi), or a number; auto: by a "
            "sweep over all depths of trees of {psi} points where the learner has one, else by cross-validation"
        ),
        Searched(),
        Symbol("depth", "depth", "The deeper trees are cut, the more cells there are, and the smaller they are."),
    ] = "none"

    def check(self, searched: frozenset[str]) -> None:
        super().check(searched)
        if {"max_depth", "psi"} <= searched:
            raise FieldError(
                "max_depth",
                "{psi} auto",
                "a number of points, whose trees the sweep goes through: type {psi} 4096, or leave {max_depth} out",
                value=AUTO,
            )

    def tunable(self, searched: frozenset[str]) -> tuple[str, ...]:
        """Return psi, or the depth of trees with a given psi."""
        return ("max_depth",) if "max_depth" in searched else ("psi",)

    def search_space(self, searched: frozenset[str], n_rows: int, sample: Sample | None = None) -> SearchSpace:
        if "max_depth" in searched:
            # Trees of the last depth are complete, or nearly so.
            return {"max_depth": Candidates(DEPTHS, 1, DEPTHS[-1])}
        return super().search_space(searched, n_rows, sample)

    def partitions(self, points: Rows, draws: NDArray[np.int64], seed: int, n_threads: int) -> Partitions:
        from ikmap.partitioners import fit_iforest

        depth = None if self.max_depth == "none" else self.max_depth
        return fit_iforest(points, draws, seed, max_depth=depth, n_threads=n_threads)

    # All depths in one pass

    @property
    def along(self) -> frozenset[str]:
        return frozenset({"max_depth"})

    def path(
        self, values: Sequence[Mapping[str, Number]], sample: Sample, map_rows: Sequence[Rows], n_threads: int = 1
    ) -> Iterator[list[Cells]]:
        """Cut complete trees, which isolate every point, at each depth."""
        complete = self._complete(sample, n_threads)
        for fields in values:
            fitted = complete.at(int(fields["max_depth"]))
            yield [fitted.cells(rows, n_threads) for rows in map_rows]

    def events(
        self, limit: Number, sample: Sample, map_rows: Sequence[Rows], n_threads: int = 1
    ) -> tuple[list[Cells], Iterator[CellSplit]]:
        from ikmap.partitioners.iforest_splits import iforest_splits

        return iforest_splits(self._complete(sample, n_threads), map_rows, int(limit), n_threads)

    def _complete(self, sample: Sample, n_threads: int) -> IForestPartitions:
        """Return trees that isolate every point, with no more points than every fold of the rows has."""
        from ikmap.methods.search import smallest_fold
        from ikmap.partitioners import IForestPartitions

        psi = min(self.psi, smallest_fold(sample.n_rows))
        complete = self.at({"psi": psi, "max_depth": "none"}).fit(sample, n_threads)
        assert isinstance(complete, IForestPartitions)
        return complete

    # Fitted trees

    def cell_tables(self, model: Partitions, sample: Sample) -> Mapping[str, NDArray[np.float64]]:
        """Return the number of points of the subsample in each leaf, and the expected path length of the leaf."""
        import numpy as np

        from ikmap.learners.novelty.depths import average_path_length, leaf_depths
        from ikmap.partitioners import IForestPartitions, draw_subsamples, rows_drawn

        assert isinstance(model, IForestPartitions)
        draws = draw_subsamples(sample.n_rows, model.n_partitions, model.psi, sample.seed)
        used, position = rows_drawn(draws)
        codes = model.cells(sample.take(used), 1).codes
        points = np.zeros(int(model.offsets[-1]))
        for i, start in enumerate(model.offsets[:-1]):
            points[start : start + model.psi] = np.bincount(codes[position[i], i], minlength=model.psi)
        depth = leaf_depths(model.feature, model.right, model.roots, model.offsets) + average_path_length(points)
        return {"depth": depth, "points": points}

    def memory(self, rows: RowsInfo) -> MapMemory:
        drawn = points_drawn(rows.n, self.t, self.psi)
        # Nodes; new numbers of the columns.
        return MapMemory(drawn * rows.row_bytes + self.t * self.psi * 2 * 16, 0.0 if rows.dense else 40.0 * rows.d)

    def plan_words(self, rows: RowsInfo) -> str:
        words = super().plan_words(rows)
        return words if isinstance(self.max_depth, str) else f"max_depth = {self.max_depth}, {words}"
