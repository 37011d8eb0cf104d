"""iNNE partitions: the cell of a point is the sphere around its nearest neighbour in a subsample, if it lies inside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from ikmap._threads import for_each_block
from ikmap.arrays import Floats, Int64s, Integers
from ikmap.cells import Cells
from ikmap.partitioners._spheres_loops import leave_out_csr, leave_out_dense, radii_csr, radii_dense
from ikmap.partitioners.base import Partitions
from ikmap.partitioners.voronoi import VoronoiPartitions, fit_voronoi
from ikmap.rows import Rows, as_dense, csr_arrays

BLOCK_ROWS = 1024


@dataclass(frozen=True, eq=False)
class SpherePartitions(Partitions):
    """t partitionings, each into psi spheres and the space outside.

    The radius of a sphere is the distance of its center to the nearest other point of the subsample. A row whose
    nearest point is farther away than that has no cell in that partitioning (-1).

    Parameters
    ----------
    nearest : VoronoiPartitions
    squared : ndarray of float64, shape (t, psi)
        Squared radii; infinite for a subsample of one point.

    Notes
    -----
    Distances are added up in float64 in column order, so that a row's cells depend on nothing but the row.
    Source: Bandaragoda et al., Isolation-based anomaly detection using nearest-neighbor ensembles, 2018, section 3; as
    the partitionings of a kernel: Ting et al., Isolation Distributional Kernel, KDD 2020, section 3.
    """

    kind: ClassVar[str] = "inne"

    nearest: VoronoiPartitions
    squared: Floats

    @property
    def n_partitions(self) -> int:
        return self.nearest.n_partitions

    @property
    def offsets(self) -> np.ndarray:
        return self.nearest.offsets

    def part(self, start: int, stop: int) -> SpherePartitions:
        """Return the partitionings ``start .. stop - 1``."""
        return SpherePartitions(self.nearest.part(start, stop), self.squared[start:stop])

    def cells(self, X: Rows, n_threads: int | None = None) -> Cells:
        """Map points to cells: int32 codes of shape (n, t), each in [0, psi), or -1.

        Parameters
        ----------
        X : float64 ndarray or csr_array, shape (n, d)
        n_threads : int, optional
            At most this many threads; default: all usable cores.
        """
        nearest = self.nearest.cells(X, n_threads)
        codes, centers, members = nearest.codes, self.nearest.centers, self.nearest.members

        def work(start: int, stop: int) -> None:
            rows = X[start:stop]
            of = (members, self.squared, codes[start:stop])
            if isinstance(centers, np.ndarray):
                leave_out_dense(np.ascontiguousarray(as_dense(rows), dtype=np.float64), centers, *of)
            else:
                leave_out_csr(*_parts(rows), *_parts(centers), *of)

        for_each_block(work, codes.shape[0], BLOCK_ROWS, n_threads)
        return nearest


def fit_spheres(X: Rows, draws: np.ndarray) -> SpherePartitions:
    """Fit sphere partitions.

    Parameters
    ----------
    X : float64 ndarray or csr_array, shape (n, d)
        Points; only those named in `draws` are kept.
    draws : ndarray of int, shape (t, psi)
        Row numbers of each subsample (:func:`~ikmap.partitioners.subsample.draw_subsamples`).
    """
    nearest = fit_voronoi(X, draws)
    squared = np.empty(nearest.members.shape)
    if isinstance(nearest.centers, np.ndarray):
        radii_dense(np.ascontiguousarray(nearest.centers), nearest.members, squared)
    else:
        radii_csr(*_parts(nearest.centers), nearest.members, squared)
    return SpherePartitions(nearest, squared)


def _parts(rows: sp.csr_array) -> tuple[Floats, Integers, Int64s]:
    """Return the arrays of sparse rows, with entries in column order."""
    csr = sp.csr_array(rows)
    if not csr.has_sorted_indices:
        csr = csr.sorted_indices()
    return csr_arrays(csr)
