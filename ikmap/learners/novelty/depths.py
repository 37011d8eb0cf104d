"""Path lengths of isolation trees, by leaf."""

from __future__ import annotations

import numpy as np

from ikmap.arrays import Floats

EULER_GAMMA = 0.5772156649015329


def average_path_length(points: np.ndarray) -> Floats:
    """Return c(n), the mean length of an unsuccessful search in a binary search tree of n points; 0 for n < 2, 1 for 2.

    Source: Isolation Forest (Liu, Ting and Zhou, ICDM 2008), equation 1, with H(i) by ln(i) + Euler's constant.
    """
    n = np.asarray(points, dtype=np.float64)
    large = np.maximum(n, 3.0)
    found = 2.0 * (np.log(large - 1.0) + EULER_GAMMA) - 2.0 * (large - 1.0) / large
    return np.where(n > 2, found, np.where(n == 2, 1.0, 0.0))


def leaf_depths(feature: np.ndarray, right: np.ndarray, roots: np.ndarray, offsets: np.ndarray) -> Floats:
    """Return the depth of each leaf, by feature column, float64 of shape (offsets[-1],).

    Parameters
    ----------
    feature, right, roots
        Arrays of :class:`~ikmap.partitioners.iforest.IForestPartitions`: trees in preorder, -1 in a leaf.
    offsets : ndarray of int64, shape (t + 1,)
        Feature columns of the trees. Columns without a leaf have 0.
    """
    found = np.zeros(int(offsets[-1]))
    for i in range(roots.size - 1):
        own = slice(int(roots[i]), int(roots[i + 1]))
        mine, to_right = feature[own], right[own]
        depth = np.zeros(mine.size)
        for node in range(mine.size):  # parents come before their children
            if mine[node] < 0:
                found[offsets[i] + to_right[node]] = depth[node]
            else:
                depth[node + 1] = depth[to_right[node]] = depth[node] + 1.0
    return found
