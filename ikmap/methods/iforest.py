"""Cells of isolation trees: a row belongs to the leaf that it falls into, in each of t random trees."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from ikmap.methods.kinds import Choice
from ikmap.methods.map import MapShape, PsiMap, PsiOptions, Value, points_drawn
from ikmap.methods.options import FEATURES, MethodOptions, option
from ikmap.methods.sample import Sample

if TYPE_CHECKING:
    import numpy as np

    from ikmap.partitioners import Partitions
    from ikmap.rows import Rows


class IForestOptions(PsiOptions):
    """Of isolation trees."""

    max_depth: str = option(
        "none",
        Choice(("none", "log2")),
        group=FEATURES,
        help="depth of the iforest trees: until every point is isolated, or ceil(log2 psi)",
    )


class _IForest(PsiMap):
    Options: ClassVar[type[MethodOptions]] = IForestOptions
    tables = frozenset({"depth", "points"})

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
        drawn = points_drawn(shape.n, options.t, value)
        # Nodes; numbers that columns are given.
        return drawn * shape.row_bytes + options.t * value * 2 * 16, 0.0 if shape.dense else 40.0 * shape.d


IFOREST = _IForest(
    name="iforest",
    title="random trees",
    about="a random tree is grown on some training rows (ψ of them, see below), and a row belongs to the leaf that it "
    "falls into",
)
