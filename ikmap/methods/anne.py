"""Voronoi cells (aNNE): a row belongs to the nearest of psi training rows, t times."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ikmap.methods.map import MapShape, PsiMap, PsiOptions, Value, points_drawn
from ikmap.methods.options import MethodOptions

if TYPE_CHECKING:
    from ikmap.cells import Cells
    from ikmap.partitioners import Partitions
    from ikmap.rows import Rows


class _Anne(PsiMap):
    Options: ClassVar[type[MethodOptions]] = PsiOptions
    by_size = True

    def partitions(self, options: Any, points: Rows, draws: Any, seed: int, n_threads: int) -> Partitions:
        from ikmap.partitioners import fit_voronoi

        return fit_voronoi(points, draws)

    def path(
        self,
        options: Any,
        values: Sequence[Value],
        seed: int,
        fit_rows: Rows,
        map_rows: Sequence[Rows],
        n_threads: int = 1,
    ) -> Iterator[tuple[Value, list[Cells]]]:
        from ikmap.partitioners import draw_subsamples, fit_voronoi

        # Subsamples nest: one search at the largest psi serves them all.
        psis = sorted(map(int, values))
        model = fit_voronoi(fit_rows, draw_subsamples(fit_rows.shape[0], options.t, psis[-1], seed))
        paths = [model.cells_of_prefixes(rows, psis, n_threads) for rows in map_rows]
        yield from ((psi, [path[k] for path in paths]) for k, psi in enumerate(psis))

    def needed_bytes(self, options: Any, value: Value, shape: MapShape) -> tuple[float, float]:
        from ikmap.partitioners.voronoi.scores import DENSE_BYTES
        from ikmap.partitioners.voronoi.search import SCRATCH_BYTES

        drawn = points_drawn(shape.n, options.t, value)
        spread = 4.0 * shape.d * drawn
        # Numbers that columns are given; points after scaling, the same in tiles of float32, principal axes,
        # memberships; rows that are being searched.
        search = (
            (0.0 if shape.dense else 40.0 * shape.d)
            + drawn * (shape.row_bytes + 150)
            + (spread if shape.dense else min(spread, DENSE_BYTES))
            + 24 * options.t * value
            + 2 * SCRATCH_BYTES
        )
        return drawn * shape.row_bytes + options.t * value * 4, search


ANNE = _Anne(
    name="anne",
    title="the nearest of psi points",
    about="some training rows (ψ of them, see below) are drawn at random, and a row belongs to the nearest of them",
    nested=True,
)
