"""Cells of isolation trees: a row belongs to the leaf that it falls into, in each of t random trees."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ikmap.methods.kinds import Integer
from ikmap.methods.map import MapShape, PsiMap, PsiOptions, Value, points_drawn, t_option
from ikmap.methods.options import FEATURES, MethodOptions, OptionError, Setting, option
from ikmap.methods.sample import Sample
from ikmap.methods.search import Search

if TYPE_CHECKING:
    import numpy as np

    from ikmap.cells import Cells
    from ikmap.partitioners import Partitions
    from ikmap.rows import Rows
    from ikmap.splits import CellSplit

DEPTHS = (2, 4, 6, 8, 11, 16, 22, 32, 45, 64)
"""What cross-validation tries; sweeps go to the last."""


class IForestOptions(PsiOptions):
    """Options of isolation trees. A tree costs less than a partitioning of other maps, and each cell says less."""

    t: int = t_option(300)
    max_depth: int | str = option(
        "none",
        Integer(1, words=("none", "log2", "auto")),
        group=FEATURES,
        help="depth of the iforest trees: until every point is isolated (none), ceil(log2 psi), or a number; auto: by "
        "a sweep over all depths of trees of --psi points where the learner has one, else by cross-validation",
        setting=Setting(
            "depth", "depth", "The deeper trees are cut, the more cells there are, and the smaller they are."
        ),
    )

    def check_together(self) -> None:
        """Refuse two things to choose at once."""
        super().check_together()
        if self.max_depth == "auto" and self.psi == "auto":
            raise OptionError(
                "--max-depth auto: found --psi auto, expected a number of points, whose trees the sweep goes through: "
                "type --psi 4096, or leave --max-depth out"
            )


class _IForest(PsiMap):
    Options: ClassVar[type[MethodOptions]] = IForestOptions
    tables = frozenset({"depth", "points"})

    # --- what is chosen: psi, or the depth of trees with the psi that is given

    def parameter(self, options: Any) -> str:
        return "max_depth" if options.max_depth == "auto" else "psi"

    def search(self, options: Any, n_rows: int, sample: Sample | None = None) -> Search | None:
        if options.max_depth == "auto":
            # Trees that are as deep as the last are whole, or nearly.
            return Search("max_depth", "max_depth", DEPTHS, {"max_depth": (1, DEPTHS[-1])})
        return super().search(options, n_rows, sample)

    def given(self, options: Any) -> Value | None:
        return None if options.max_depth == "auto" else super().given(options)

    def _told(self, options: Any, value: Value, n_rows: int) -> tuple[Any, Value]:
        """Options with a depth, and psi: of the folds of cross-validation, that of the rows there are."""
        if options.max_depth != "auto":
            return options, value
        return options.replace(max_depth=int(value)), super().comparable(options, int(options.psi), n_rows)

    def comparable(self, options: Any, value: Value, n_rows: int) -> Value:
        return value if options.max_depth == "auto" else super().comparable(options, value, n_rows)

    def refused(self, options: Any, value: Value, n_rows: int) -> str | None:
        return super().refused(options, options.psi if options.max_depth == "auto" else value, n_rows)

    def n_cells(self, options: Any, value: Value) -> int:
        return int(options.psi if options.max_depth == "auto" else value)

    def planned(self, options: Any, value: Value, shape: MapShape) -> str:
        if options.max_depth != "auto":
            return super().planned(options, value, shape)
        return f"max_depth = {value}, {super().planned(options, options.psi, shape)}"

    def fit(self, options: Any, value: Value, sample: Sample, n_threads: int = 1) -> Partitions:
        return super().fit(*self._told(options, value, sample.n_rows), sample, n_threads)

    # --- all depths in one pass

    def sharing(self, options: Any, value: Value) -> Any:
        return None if options.max_depth == "auto" else super().sharing(options, value)

    def path(
        self,
        options: Any,
        values: Sequence[Value],
        seed: int,
        fit_rows: Rows,
        map_rows: Sequence[Rows],
        n_threads: int = 1,
    ) -> Iterator[tuple[Value, list[Cells]]]:
        """The trees that isolate every point have those of all depths in them."""
        if options.max_depth != "auto":
            yield from super().path(options, values, seed, fit_rows, map_rows, n_threads)
            return
        whole = self._whole(options, seed, fit_rows, n_threads)
        for value in sorted(values):
            fitted = whole.at(int(value))
            yield value, [fitted.cells(rows, n_threads) for rows in map_rows]

    def sweeps(self, options: Any) -> bool:
        return bool(options.max_depth == "auto")

    def events(
        self,
        options: Any,
        limit: Value,
        seed: int,
        fit_rows: Rows,
        map_rows: Sequence[Rows],
        n_threads: int = 1,
    ) -> tuple[list[Cells], Iterator[CellSplit]]:
        from ikmap.partitioners.iforest_splits import iforest_splits

        return iforest_splits(self._whole(options, seed, fit_rows, n_threads), map_rows, int(limit), n_threads)

    def _whole(self, options: Any, seed: int, rows: Rows, n_threads: int) -> Any:
        """Trees of all depths."""
        n, d = rows.shape
        sample = Sample(n, d, None, rows.__getitem__, seed)
        psi = super().comparable(options, int(options.psi), n)
        return super().fit(options.replace(max_depth="none"), psi, sample, n_threads)

    # --- and what is fitted

    def cell_tables(self, options: Any, model: Any, sample: Sample) -> Mapping[str, np.ndarray]:
        """Points of the subsample in each leaf, and the expected path length there, by which they are told apart."""
        import numpy as np

        from ikmap.learners.novelty.depths import average_path_length, leaf_depths
        from ikmap.partitioners import draw_subsamples

        draws = draw_subsamples(sample.n_rows, model.n_partitions, model.psi, sample.seed)
        used, position = np.unique(draws, return_inverse=True)
        codes = model.cells(sample.take(used), 1).codes
        position, points = position.reshape(draws.shape), np.zeros(int(model.offsets[-1]))
        for i, start in enumerate(model.offsets[:-1]):
            points[start : start + model.psi] = np.bincount(codes[position[i], i], minlength=model.psi)
        depth = leaf_depths(model.feature, model.right, model.roots, model.offsets) + average_path_length(points)
        return {"depth": depth, "points": points}

    def partitions(self, options: Any, points: Rows, draws: Any, seed: int, n_threads: int) -> Partitions:
        from ikmap.partitioners import fit_iforest

        depth = None if options.max_depth == "none" else options.max_depth
        return fit_iforest(points, draws, seed, max_depth=depth, n_threads=n_threads)

    def needed_bytes(self, options: Any, value: Value, shape: MapShape) -> tuple[float, float]:
        psi = self.n_cells(options, value)
        drawn = points_drawn(shape.n, options.t, psi)
        # Nodes; numbers that columns are given.
        return drawn * shape.row_bytes + options.t * psi * 2 * 16, 0.0 if shape.dense else 40.0 * shape.d


IFOREST = _IForest(
    name="iforest",
    title="random trees",
    about="a random tree is grown on some training rows (ψ of them, see below), and a row belongs to the leaf that it "
    "falls into",
)
