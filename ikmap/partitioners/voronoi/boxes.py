"""Bounding boxes around tiles of near centres, so that distant tiles are not scored."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ikmap.arrays import Floats
from ikmap.partitioners.voronoi._scores_loops import LEAST_ERROR, TILE
from ikmap.partitioners.voronoi.scores import squared_norms
from ikmap.rows import Rows, as_dense

AXES = 16
"""Principal axes that boxes are made of, at most."""
MOST_FEATURES = 1024
"""Beyond, finding the axes costs more than most models can win back."""
SAMPLE = 8192


@dataclass(frozen=True, eq=False)
class Frame:
    """The first principal axes of the centres; a further coordinate has the length of the rest.

    With p the coordinates along orthonormal axes and q the length of the rest, |x - u|^2 is at least
    |p_x - p_u|^2 + (q_x - q_u)^2: the bound is itself a squared distance, in one dimension more.

    Parameters
    ----------
    axes : float64 ndarray, shape (d, k)
    """

    axes: Floats

    def points(self, X: Rows) -> Floats:
        """Return the coordinates of float64 rows and the length of the rest, shape (n, k + 1)."""
        along = X @ self.axes
        # Of the very numbers that have the coordinates: a length of rows rounded otherwise could exceed any bound.
        rest = squared_norms(X) - squared_norms(along)
        return np.concatenate([along, np.sqrt(np.maximum(rest, 0.0))[:, None]], axis=1)


def principal_frame(X: Rows) -> Frame:
    """Return the axes of largest variance around 0, from an even sample of the rows."""
    sample = as_dense(X[:: max(1, X.shape[0] // SAMPLE)])
    _, vectors = np.linalg.eigh(sample.T @ sample)
    return Frame(np.ascontiguousarray(vectors[:, ::-1][:, :AXES]))


def bounds(points: Floats) -> tuple[np.ndarray, np.ndarray]:
    """Return least and greatest coordinates of runs of 64 points, float32 (k, boxes), padded to multiples of 16."""
    starts = np.arange(0, points.shape[0], TILE)
    shape = (points.shape[1], -(-starts.size // 16) * 16)
    low, high = np.full(shape, np.inf, dtype=np.float32), np.full(shape, -np.inf, dtype=np.float32)
    low[:, : starts.size] = np.minimum.reduceat(points, starts).T
    high[:, : starts.size] = np.maximum.reduceat(points, starts).T
    return low, high


def reach_of(limit: np.ndarray, lengths: Floats) -> np.ndarray:
    """Return the squared distance beyond which no score is within the limit, with room for rounding."""
    squared = np.maximum(limit.astype(np.float64) + lengths**2, 0.0)
    reach = squared + 2.0**-18 * (lengths + np.sqrt(squared)) ** 2 + LEAST_ERROR
    return np.where(reach < np.finfo(np.float32).max, reach, np.inf).astype(np.float32)
