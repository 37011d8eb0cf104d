"""Fitted random partitionings of space, which map a row to t cells: Voronoi cells, isolation trees and others.

Open ``base.py`` first for what they all offer. Partitioners by drawn points are fitted in two steps, so that the data
may be larger than memory: :func:`draw_subsamples` draws the numbers of rows, and fitting then needs only those rows.
Mondrian and binning partitionings are fitted on all rows.
"""

from __future__ import annotations

import numpy as np

from ikmap.partitioners.base import Partitions
from ikmap.partitioners.binning import BinningPartitions
from ikmap.partitioners.forest import ForestPartitions
from ikmap.partitioners.gcws import GCWSPartitions
from ikmap.partitioners.iforest import IForestPartitions, fit_iforest
from ikmap.partitioners.mondrian import MondrianPartitions
from ikmap.partitioners.side_by_side import SideBySide
from ikmap.partitioners.spheres import SpherePartitions, fit_spheres
from ikmap.partitioners.subsample import draw_subsamples, rows_drawn
from ikmap.partitioners.voronoi import VoronoiPartitions, fit_voronoi
from ikmap.rows import Rows

__all__ = [
    "METHODS",
    "BinningPartitions",
    "ForestPartitions",
    "GCWSPartitions",
    "IForestPartitions",
    "MondrianPartitions",
    "Partitions",
    "SideBySide",
    "SpherePartitions",
    "VoronoiPartitions",
    "draw_subsamples",
    "fit_iforest",
    "fit_partitions",
    "fit_spheres",
    "fit_voronoi",
    "rows_drawn",
]


def fit_partitions(
    X: Rows,
    draws: np.ndarray,
    *,
    method: str,
    seed: int,
    max_depth: str | int | None = None,
    n_threads: int | None = None,
) -> Partitions:
    """Fit the partitionings of one method.

    Parameters
    ----------
    X : float64 ndarray or csr_array, shape (n, d)
    draws : ndarray of int, shape (t, psi)
        Row numbers of each subsample.
    method : {"anne", "iforest"}
    seed : int
    max_depth : None, "log2", or int >= 1
        For "iforest" only.

    Raises
    ------
    ValueError
        If the method is unknown, or max_depth is given for a method without depth.
    """
    if method not in _FIT:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, got {method!r}")
    return _FIT[method](X, draws, seed, max_depth, n_threads)


def _fit_voronoi(
    X: Rows, draws: np.ndarray, _seed: int, max_depth: str | int | None, _n_threads: int | None
) -> Partitions:
    if max_depth is not None:
        raise ValueError('max_depth is for method "iforest"; "anne" partitions have no depth')
    return fit_voronoi(X, draws)


def _fit_iforest(
    X: Rows, draws: np.ndarray, seed: int, max_depth: str | int | None, n_threads: int | None
) -> Partitions:
    return fit_iforest(X, draws, seed, max_depth=max_depth, n_threads=n_threads)


_FIT = {"anne": _fit_voronoi, "iforest": _fit_iforest}
METHODS = tuple(_FIT)
