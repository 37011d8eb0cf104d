"""Scores of novelty, as their definitions read: one row, one partitioning after the other."""

from __future__ import annotations

import numpy as np


def similarities(train: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Mean over the training rows of the share of partitionings in which a new row has the same cell; -1 is none."""
    found = np.zeros(len(new))
    for r, row in enumerate(new):
        for other in train:
            found[r] += sum(a == b >= 0 for a, b in zip(row, other, strict=True)) / row.size
    return found / len(train)


def sphere(row: np.ndarray, points: np.ndarray) -> int:
    """Number of the nearest point, or -1 where it is farther away than that point is from the next one."""
    distances = [((row - point) ** 2).sum() for point in points]
    nearest = int(np.argmin(distances))
    others = [((points[nearest] - point) ** 2).sum() for k, point in enumerate(points) if k != nearest]
    return nearest if distances[nearest] <= min(others, default=np.inf) else -1


def path_length(row: np.ndarray, points: np.ndarray, tree: tuple[np.ndarray, np.ndarray, np.ndarray]) -> float:
    """Edges from the root to the leaf of a row, and c(m) for the m points of the subsample that share the leaf."""
    feature, threshold, right = tree

    def walk(x: np.ndarray) -> tuple[int, int]:
        node, depth = 0, 0
        while feature[node] >= 0:
            node, depth = node + 1 if x[feature[node]] < threshold[node] else int(right[node]), depth + 1
        return node, depth

    leaf, depth = walk(row)
    together = sum(walk(point)[0] == leaf for point in points)
    return depth + unsuccessful_search(together)


def unsuccessful_search(m: int) -> float:
    """c(m) of the isolation forest."""
    if m < 2:
        return 0.0
    if m == 2:
        return 1.0
    return 2.0 * (np.log(m - 1) + 0.5772156649015329) - 2.0 * (m - 1) / m


def areas(normal: np.ndarray, novel: np.ndarray) -> float:
    """Share of pairs of a normal and a novel row of which the novel one scores higher; ties count half."""
    wins = [float(b > a) + 0.5 * float(b == a) for a in normal for b in novel]
    return sum(wins) / len(wins)
