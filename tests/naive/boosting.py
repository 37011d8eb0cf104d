"""Gradient boosting straight from its definition: every split of every leaf is looked at by itself, row by row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import frexp

import numpy as np

from tests.naive.forest import edges_of

MIN_HESSIAN = 1e-3
ROUNDING = 1e-12
type Derivatives = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


@dataclass(eq=False)
class Node:
    """A leaf with its rows, or a split with two children."""

    rows: list[int]
    gain: float = 0.0
    column: int = -1
    cut: int = 0
    children: list[Node] = field(default_factory=list)
    value: float = 0.0


def whole(values: np.ndarray, bits: int) -> tuple[list[int], float]:
    """Return values as whole numbers of so many bits, at most 30, and the value of a 1."""
    largest = max(abs(float(v)) for v in values)
    exponent = frexp(largest)[1] if largest else 0
    scale = 2.0 ** (min(bits, 30) - exponent)
    return [round(float(v) * scale) for v in values], 1 / scale


def score(gradient: float, hessian: float, l2: float) -> float:
    return gradient * gradient / (hessian + l2) if hessian + l2 > 0 else 0.0


def find_split(
    node: Node,
    bins: list[list[int]],
    columns: list[int],
    gradient: tuple[list[int], float],
    hessian: tuple[list[int], float],
    min_leaf: int,
    l2: float,
) -> None:
    """Give a leaf its best split, if there is one."""

    def sums(rows: list[int]) -> tuple[float, float]:
        return sum(gradient[0][r] for r in rows) * gradient[1], sum(hessian[0][r] for r in rows) * hessian[1]

    if len(node.rows) < 2 * min_leaf:
        return
    parent = score(*sums(node.rows), l2)
    best = ROUNDING * parent
    for column in columns:
        cuts = sorted({bins[column][r] + 1 for r in node.rows})[:-1]
        for cut in cuts:
            left = [r for r in node.rows if bins[column][r] < cut]
            right = [r for r in node.rows if bins[column][r] >= cut]
            (g, h), (g_right, h_right) = sums(left), sums(right)
            if min(len(left), len(right)) < min_leaf or min(h, h_right) < MIN_HESSIAN:
                continue
            gain = score(g, h, l2) + score(g_right, h_right, l2) - parent
            if gain > best:
                best = gain
                node.gain, node.column, node.cut = gain, column, cut


def grow(
    bins: list[list[int]],
    rows: list[int],
    gradient: np.ndarray,
    hessian: np.ndarray,
    *,
    columns: list[int] | None = None,
    max_leaves: int = 31,
    min_leaf: int = 20,
    l2: float = 0.0,
) -> Node:
    """Grow a tree: of all leaves, that with the largest gain is split next; of equal ones, the older."""
    shift = len(gradient).bit_length()
    words = whole(gradient, 62 - shift), whole(hessian, 62 - 2 * shift)
    columns = list(range(len(bins))) if columns is None else columns
    root = Node(rows)
    find_split(root, bins, columns, *words, min_leaf, l2)
    leaves = [root]
    while len(leaves) < max_leaves:
        best = leaves[0]
        for leaf in leaves:
            if leaf.gain > best.gain:
                best = leaf
        if best.column < 0:
            break
        leaves.remove(best)
        left = Node([r for r in best.rows if bins[best.column][r] < best.cut])
        right = Node([r for r in best.rows if bins[best.column][r] >= best.cut])
        best.children = [left, right]
        for child in best.children:
            find_split(child, bins, columns, *words, min_leaf, l2)
            leaves.append(child)
    return root


def preorder(node: Node) -> list[Node]:
    return [node, *(inner for child in node.children for inner in preorder(child))]


def bins_of(X: np.ndarray) -> tuple[list[list[float]], list[list[int]]]:
    """Return the edges of each column, and the bins of its values."""
    edges = [edges_of(column) for column in X.T]
    return edges, [[sum(e <= v for e in own) for v in column] for own, column in zip(edges, X.T.tolist(), strict=True)]


def squared(margin: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return margin - target, np.ones(len(target))


def logistic(margin: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    probability = 1 / (1 + np.exp(-margin))
    return probability - target, probability * (1 - probability)


def boost(
    X: np.ndarray,
    y: np.ndarray,
    derivatives: Derivatives,
    start: float,
    *,
    rounds: int,
    shrinkage: float,
    max_leaves: int = 31,
    min_leaf: int = 20,
    l2: float = 0.0,
) -> tuple[list[Node], np.ndarray]:
    """Return the tree of each round, with the values of leaves, and the margins of the rows at the end."""
    _, bins = bins_of(X)
    margin, trees = np.full(len(y), start), []
    for _ in range(rounds):
        gradient, hessian = derivatives(margin, y)
        tree = grow(bins, list(range(len(y))), gradient, hessian, max_leaves=max_leaves, min_leaf=min_leaf, l2=l2)
        for leaf in preorder(tree):
            if not leaf.children:
                leaf.value = -shrinkage * sum(gradient[leaf.rows]) / (sum(hessian[leaf.rows]) + l2)
                margin[leaf.rows] += leaf.value
        trees.append(tree)
    return trees, margin
