"""Voronoi (aNNE) partitions: the cell of a point is its nearest neighbour in a small random subsample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from ikmap._threads import for_each_block
from ikmap.cells import Cells
from ikmap.device import Device
from ikmap.partitioners.base import Partitions
from ikmap.partitioners.distinct import distinct_rows
from ikmap.partitioners.mapper import Mapper, Place
from ikmap.partitioners.subsample import rows_drawn
from ikmap.partitioners.voronoi.device_rows import spread_out
from ikmap.partitioners.voronoi.fused import Fused, fits
from ikmap.partitioners.voronoi.products import Products
from ikmap.partitioners.voronoi.scores import DenseScores
from ikmap.partitioners.voronoi.search import CentreSearch, choose_scores
from ikmap.rows import Rows, as_dense, as_rows, take_rows


@dataclass(frozen=True, eq=False)
class VoronoiPartitions(Partitions):
    """t Voronoi partitionings of R^d, each around psi of the training points.

    Parameters
    ----------
    centers : float64 ndarray or csr_array, shape (U, d)
        The distinct points that the subsamples are made of.
    members : ndarray of int32, shape (t, psi)
        ``members[i, k]`` is the row of `centers` that is point k of subsample i.

    Notes
    -----
    Cells are exact: each equals the argmin, in float64, of the squared Euclidean distance (added up in column
    order) to the points of the subsample; ties go to the lowest number. Scores in float32 only narrow down the
    candidates: wherever rounding could have changed an answer, it is settled in float64.
    Source: Isolation Kernel, section 3.2 (aNNE); algorithms.md, section 3.2.
    """

    kind: ClassVar[str] = "anne"

    centers: np.ndarray | sp.csr_array
    members: np.ndarray

    @property
    def n_partitions(self) -> int:
        return int(self.members.shape[0])

    @property
    def psi(self) -> int:
        return int(self.members.shape[1])

    @property
    def n_features(self) -> int:
        return int(self.centers.shape[1])

    @property
    def offsets(self) -> np.ndarray:
        return np.arange(self.n_partitions + 1, dtype=np.int64) * self.psi

    def part(self, start: int, stop: int) -> VoronoiPartitions:
        """Return the partitionings ``start .. stop - 1``, with their points."""
        used, members = rows_drawn(self.members[start:stop])
        return VoronoiPartitions(take_rows(self.centers, used), members.astype(np.int32))

    def cells(self, X: Rows, n_threads: int | None = None) -> Cells:
        """Map points to cells.

        Parameters
        ----------
        X : float64 ndarray or csr_array, shape (n, d)
        n_threads : int, optional
            At most this many threads; default: all usable cores.

        Returns
        -------
        Cells
            int32 codes of shape (n, t), each in [0, psi).
        """
        return Cells(self._codes(X, [self.psi], n_threads)[0], self.offsets)

    def cells_of_prefixes(self, X: Rows, psis: Sequence[int], n_threads: int | None = None) -> list[Cells]:
        """Map points to the cells of every psi at once: subsamples nest, so one search serves all.

        Parameters
        ----------
        psis : sequence of int
            Ascending, the largest at most :attr:`psi`.

        Returns
        -------
        list of Cells
            Equal to what a model fitted with each psi (and the same seed) gives.
        """
        codes = self._codes(X, psis, n_threads)
        steps = np.arange(self.n_partitions + 1, dtype=np.int64)
        return [Cells(codes[e], steps * psi) for e, psi in enumerate(psis)]

    def explain(self, psis: Sequence[int] | None = None) -> list[str]:
        """Say how the cells will be found, and the estimates behind that choice."""
        return self._search.plan([self.psi] if psis is None else psis).why

    def mapper(self, device: Device, budget: int | None = None) -> Mapper:
        """Return a mapper on a device: one kernel for short rows, else products of matrices."""
        centers = self.centers
        kernels = device.shared_bytes > 0
        scores = DenseScores(as_dense(centers)) if kernels and spread_out(centers) else choose_scores(centers)
        place = Place(device, self.offsets, self.n_features, budget)
        if kernels and isinstance(scores, DenseScores) and fits(self.n_features, self.members.shape, centers.shape[0]):
            return Fused(scores, self.members, place)
        return Products(scores, self.members, place)

    def _codes(self, X: Rows, psis: Sequence[int], n_threads: int | None) -> np.ndarray:
        n = X.shape[0]
        if X.shape[1] != self.n_features:
            raise ValueError(f"X has {X.shape[1]} columns, the model was fitted on {self.n_features}")
        ends = np.asarray(psis, dtype=np.int64)
        if not ends.size or (np.diff(ends) <= 0).any() or not 1 <= ends[0] <= ends[-1] <= self.psi:
            raise ValueError(f"psis must ascend within 1..{self.psi}, got {list(psis)}")
        codes = np.empty((len(ends), n, self.n_partitions), dtype=np.int32)
        if n == 0:
            return codes
        search = self._search
        plan = search.plan(ends.tolist())

        def work(start: int, stop: int) -> None:
            search.find(plan, as_rows(X[start:stop]), ends.tolist(), codes[:, start:stop])

        for_each_block(work, n, search.rows_at_once(plan), n_threads)
        return codes

    @cached_property
    def _search(self) -> CentreSearch:
        return CentreSearch(self.centers, self.members)


def fit_voronoi(X: Rows, draws: np.ndarray) -> VoronoiPartitions:
    """Fit Voronoi partitions.

    Parameters
    ----------
    X : float64 ndarray or csr_array, shape (n, d)
        Points; only those named in `draws` are kept.
    draws : ndarray of int, shape (t, psi)
        Row numbers of each subsample (:func:`~ikmap.partitioners.subsample.draw_subsamples`).
    """
    used, position = rows_drawn(draws)
    points = as_rows(take_rows(X, used))
    first, inverse = distinct_rows(points)
    members = inverse[position].astype(np.int32)
    return VoronoiPartitions(centers=take_rows(points, first), members=members)
