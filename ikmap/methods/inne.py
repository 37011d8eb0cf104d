"""Cells of iNNE, spheres around drawn points: a row belongs to the nearest point, unless it is too far away."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from ikmap.methods.about import MapAbout
from ikmap.methods.anne import Anne
from ikmap.methods.map import MapMemory, PsiMap, RowsInfo

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ikmap.partitioners import Partitions
    from ikmap.rows import Rows


class INNE(PsiMap):
    """Spheres around psi points, each as large as the distance to the nearest other point."""

    about: ClassVar[MapAbout] = MapAbout(
        name="inne",
        title="spheres around psi points",
        summary="some training rows (ψ of them, see below) are drawn at random, and a row belongs to the nearest of "
        "them if it is no farther away than the next of these points",
        reaches_all=False,  # a row may lie outside all spheres
        by_size=True,
        loop_words=frozenset({"anne"}),
    )

    def partitions(self, points: Rows, draws: NDArray[np.int64], seed: int, n_threads: int) -> Partitions:
        from ikmap.partitioners import fit_spheres

        return fit_spheres(points, draws)

    def memory(self, rows: RowsInfo) -> MapMemory:
        nearest = Anne(t=self.t, psi=self.psi).memory(rows)
        return MapMemory(nearest.model + 8.0 * self.t * self.psi, nearest.scratch)
