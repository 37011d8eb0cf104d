"""Cells of random binning: rows share a bin as often as the Laplace kernel says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from ikmap.methods.lifetime import CELLS, LaplaceMap, LifetimeOptions
from ikmap.methods.map import MapShape, Value
from ikmap.methods.options import MethodOptions
from ikmap.methods.sample import Sample

if TYPE_CHECKING:
    from ikmap.partitioners import Partitions


class BinningOptions(LifetimeOptions):
    """Of random binning."""


class _Binning(LaplaceMap):
    Options: ClassVar[type[MethodOptions]] = BinningOptions

    def fit(self, options: Any, value: Value, sample: Sample, n_threads: int = 1) -> Partitions:
        import numpy as np

        from ikmap.partitioners.binning import fit_binning

        rows = sample.take(np.arange(sample.n_rows))
        return fit_binning(rows, options.t, float(value), sample.seed, n_threads=n_threads)

    def redraws(self, options: Any) -> bool:
        return True

    def needed_bytes(self, options: Any, value: Value, shape: MapShape) -> tuple[float, float]:
        # Words of the bins, pitches and shifts; dense rows, and a word for each of them.
        model = options.t * (8.0 * CELLS + 16.0 * shape.d)
        return model, 8.0 * shape.n * (shape.d + 2)


BINNING = _Binning(
    name="binning",
    title="random binning",
    about="grids of random pitch and shift; a row belongs to the bin it lies in, if a training row was in it",
)
