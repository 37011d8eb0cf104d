"""Cells of random binning: the probability that two rows share a bin is their Laplace kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from ikmap.methods.about import MapAbout
from ikmap.methods.capabilities import Redrawable
from ikmap.methods.lifetime import CELLS, LaplaceMap
from ikmap.methods.map import MapMemory, RowsInfo, redrawn_half
from ikmap.methods.sample import Sample

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ikmap.partitioners import Partitions


class Binning(LaplaceMap, Redrawable):
    """Random binning: grids of random pitch and shift."""

    about: ClassVar[MapAbout] = MapAbout(
        name="binning",
        title="random binning",
        summary="grids of random pitch and shift; a row belongs to the bin it lies in, if a training row was in it",
        reaches_all=False,  # a new row may lie where nothing is known
    )

    def fit(self, sample: Sample, n_threads: int = 1) -> Partitions:
        import numpy as np

        from ikmap.partitioners.binning import fit_binning

        rows = sample.take(np.arange(sample.n_rows))
        return fit_binning(rows, self.t, self.known_lifetime, sample.seed, n_threads=n_threads)

    def redrawn(
        self, model: Partitions, sample: Sample, number: int, n_threads: int = 1
    ) -> tuple[Partitions, NDArray[np.bool_]]:
        return redrawn_half(self, model, sample, number, n_threads)

    def memory(self, rows: RowsInfo) -> MapMemory:
        # Hashes of the bins, pitches and shifts; dense rows, and a hash of each.
        return MapMemory(self.t * (8.0 * CELLS + 16.0 * rows.d), 8.0 * rows.n * (rows.d + 2))
