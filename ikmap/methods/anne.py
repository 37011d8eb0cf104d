"""Voronoi cells (aNNE): a row belongs to the nearest of psi drawn training rows, t times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from ikmap.methods.about import MapAbout
from ikmap.methods.capabilities import Path
from ikmap.methods.map import MapMemory, PsiMap, RowsInfo, points_drawn
from ikmap.methods.method import Number
from ikmap.methods.sample import Sample

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ikmap.cells import Cells
    from ikmap.partitioners import Partitions
    from ikmap.rows import Rows


class Anne(PsiMap, Path):
    """Voronoi cells: each row falls into the cell of the nearest of psi points (Isolation Kernel paper, section 4)."""

    about: ClassVar[MapAbout] = MapAbout(
        name="anne",
        title="the nearest of psi points",
        summary="some training rows (ψ of them, see below) are drawn at random, and a row belongs to the nearest of "
        "them",
        by_size=True,
    )

    def partitions(self, points: Rows, draws: NDArray[np.int64], seed: int, n_threads: int) -> Partitions:
        from ikmap.partitioners import fit_voronoi

        return fit_voronoi(points, draws)

    @property
    def along(self) -> frozenset[str]:
        return frozenset({"psi"})

    @property
    def small_first(self) -> bool:
        return True

    def path(
        self, values: Sequence[Mapping[str, Number]], sample: Sample, map_rows: Sequence[Rows], n_threads: int = 1
    ) -> Iterator[list[Cells]]:
        """Find the cells of all psi by one search at the largest psi: subsamples nest."""
        import numpy as np

        from ikmap.partitioners import draw_subsamples, fit_voronoi

        psis = [int(fields["psi"]) for fields in values]
        draws = draw_subsamples(sample.n_rows, self.t, psis[-1], sample.seed)
        model = fit_voronoi(sample.take(np.arange(sample.n_rows)), draws)
        paths = [model.cells_of_prefixes(rows, psis, n_threads) for rows in map_rows]
        yield from ([path[k] for path in paths] for k in range(len(psis)))

    def memory(self, rows: RowsInfo) -> MapMemory:
        from ikmap.partitioners.voronoi.scores import DENSE_BYTES
        from ikmap.partitioners.voronoi.search import BLOCK_PSI, SCRATCH_BYTES

        drawn = points_drawn(rows.n, self.t, self.psi)
        # Points stand in tiles once, but for the first ones of each partitioning, which stand there for each.
        places = min(self.t * self.psi, drawn + self.t * min(self.psi, BLOCK_PSI))
        spread = 4.0 * (rows.d + 1) * places
        # New numbers of the columns; scaled points, and again in tiles of float32; principal axes; memberships; rows
        # that are being searched.
        search = (
            (0.0 if rows.dense else 40.0 * rows.d)
            + drawn * (rows.row_bytes + 150)
            + (spread if rows.dense else min(spread, DENSE_BYTES + 4.0 * places))
            + 24 * self.t * self.psi
            + 2 * SCRATCH_BYTES
        )
        return MapMemory(drawn * rows.row_bytes + self.t * self.psi * 4, search)
