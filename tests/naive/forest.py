"""Trees grown by labels, straight from their definition: every split of every drawn column is looked at by itself."""

from __future__ import annotations

from itertools import pairwise
from math import log

import numpy as np

from ikmap.seeds import generator

MASK = 2**64 - 1


class Uniforms:
    """SplitMix64 with whole numbers of Python."""

    def __init__(self, state: int) -> None:
        self.state = state

    def below(self, n: int) -> int:
        """Return a whole number in [0, n)."""
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        mixed = ((self.state ^ (self.state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & MASK
        return min(int((((mixed ^ (mixed >> 31)) >> 11) / 2**53) * n), n - 1)


def edges_of(column: np.ndarray, max_bins: int = 256) -> list[float]:
    """Return the values between which a column may be split: one between each two neighbours, or some by rank."""
    values = sorted(set(column.tolist()))
    if len(values) > max_bins:
        ordered = sorted(column.tolist())
        # The first value at or below which there is such a share of the points.
        shares = [k * len(ordered) / max_bins for k in range(1, max_bins)]
        ends = [next(v for j, v in enumerate(ordered) if j + 1 >= share) for share in shares]
        kept = {*ends, values[-1]}
        for place, value in enumerate(values):
            if ends.count(value) >= 2:
                kept.update(values[place + 1 : place + 2])
            if ends.count(value) >= 3:
                kept.update(values[max(0, place - 1) : place])
        values = sorted(kept)
    edges = []
    for low, high in pairwise(values):
        middle = low + (high - low) / 2
        edges.append(middle if middle > low else high)
    return edges


def purity(targets: list[int], criterion: str) -> float:
    """Return the number of rows minus their impurity times their number, or what orders splits as that does."""
    n = len(targets)
    if criterion == "squared":
        return float(sum(targets)) ** 2 / n
    counts = [targets.count(k) for k in sorted(set(targets))]
    if criterion == "gini":
        return sum(float(c) * c for c in counts) / n
    return sum(c * log(c / n) for c in counts)


def forest_tree(
    X: np.ndarray,
    targets: np.ndarray,
    edges: list[list[float]],
    seed: int,
    number: int,
    *,
    criterion: str,
    splits: str,
    n_tried: int,
    max_depth: int | None = None,
    min_leaf: int = 1,
) -> list[tuple[int, float]]:
    """Return the nodes of one tree in preorder: column and threshold, or (-1, 0.0) for a leaf.

    `targets` are classes, or numbers that are whole already.
    """
    uniforms = Uniforms(int(generator(seed, number, 1).integers(2**64, size=1, dtype=np.uint64)[0]))
    order = list(range(X.shape[1]))
    bins = [[sum(edge <= value for edge in edges[j]) for value in X[:, j].tolist()] for j in range(X.shape[1])]
    nodes: list[tuple[int, float]] = []

    def grow(rows: list[int], depth: int) -> None:
        own = [int(targets[row]) for row in rows]
        chosen, best = None, -np.inf
        deep = max_depth is not None and depth >= max_depth
        if len(rows) >= 2 * min_leaf and not deep and len(set(own)) > 1:
            tried, remaining = 0, len(order)
            while tried < n_tried and remaining:
                place = uniforms.below(remaining)
                column, remaining = order[place], remaining - 1
                order[place], order[remaining] = order[remaining], column
                low, high = min(bins[column][row] for row in rows), max(bins[column][row] for row in rows)
                if low == high:
                    continue
                tried += 1
                cuts = [low + 1 + uniforms.below(high - low)] if splits == "random" else range(low + 1, high + 1)
                seen = set()
                for cut in cuts:
                    left = [int(targets[row]) for row in rows if bins[column][row] < cut]
                    right = [int(targets[row]) for row in rows if bins[column][row] >= cut]
                    if len(left) in seen or min(len(left), len(right)) < min_leaf:
                        continue
                    seen.add(len(left))
                    both = purity(left, criterion) + purity(right, criterion)
                    if both > best:
                        chosen, best = (column, cut), both
        if chosen is None:
            nodes.append((-1, 0.0))
            return
        column, cut = chosen
        nodes.append((column, edges[column][cut - 1]))
        grow([row for row in rows if bins[column][row] < cut], depth + 1)
        grow([row for row in rows if bins[column][row] >= cut], depth + 1)

    grow(list(range(len(X))), 0)
    return nodes
