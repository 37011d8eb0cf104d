"""Cells of isolation trees: a row belongs to the leaf that it falls into, in each of t random trees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from ikmap.methods.kinds import Choice
from ikmap.methods.map import MapShape, PsiMap, PsiOptions, Value, points_drawn
from ikmap.methods.options import FEATURES, MethodOptions, option

if TYPE_CHECKING:
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
