"""Gradient boosting straight from its definition: every split of every leaf is looked at by itself, row by row."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import exp, floor, frexp, inf
from typing import Any

import numpy as np

from ikmap.seed_paths import BOOSTING_DRAWS, BOOSTING_HELD_OUT, BOOSTING_ROUNDING
from ikmap.seeds import generator
from tests.naive.forest import edges_of

MIN_HESSIAN = 1e-3
LARGEST = {"logistic": 4.0, "squared": inf}
ROUNDING = 1e-12


@dataclass(eq=False)
class Node:
    """A leaf with its rows, or a split with two children."""

    rows: list[int]
    gain: float = 0.0
    column: int = -1
    cut: int = 0
    children: list[Node] = field(default_factory=list)
    value: float = 0.0


def whole(values: np.ndarray, bits: int, bound: float, key: int | None = None) -> tuple[list[int], float]:
    """Return values as whole numbers of so many bits, and the value of a 1, by a bound of all values.

    With a key, a value is rounded up with a chance that is its fraction.
    """
    scale = 2.0 ** (bits - (frexp(bound)[1] if bound else 0))
    if key is None:
        return [round(float(v) * scale) for v in values], 1 / scale
    return [floor(float(v) * scale + (mixed(key, row) >> 11) / 2**53) for row, v in enumerate(values)], 1 / scale


def mixed(key: int, row: int) -> int:
    """Return the number of 64 bits of a row, by SplitMix64."""
    z = (key + (row + 1) * 0x9E3779B97F4A7C15) % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


def drawn(key: int, row: int, share: float) -> bool:
    """Return whether a row is drawn."""
    return mixed(key, row) < int(share * 2.0**64)


def score(gradient: float, hessian: float, l2: float, largest: float) -> float:
    weight = hessian + l2
    if abs(gradient) > largest * weight:
        return largest * (2 * abs(gradient) - largest * weight)
    return gradient * gradient / weight if weight > 0 else 0.0


def find_split(
    node: Node,
    bins: list[list[int]],
    columns: list[int],
    gradient: tuple[list[int], float],
    hessian: tuple[list[int], float],
    min_leaf: int,
    l2: float,
    min_hessian: float,
    largest: float,
) -> None:
    """Give a leaf its best split, if there is one."""

    def sums(rows: list[int]) -> tuple[float, float]:
        return sum(gradient[0][r] for r in rows) * gradient[1], sum(hessian[0][r] for r in rows) * hessian[1]

    if len(node.rows) < 2 * min_leaf:
        return
    parent = score(*sums(node.rows), l2, largest)
    best = ROUNDING * parent
    for column in columns:
        cuts = sorted({bins[column][r] + 1 for r in node.rows})[:-1]
        for cut in cuts:
            left = [r for r in node.rows if bins[column][r] < cut]
            right = [r for r in node.rows if bins[column][r] >= cut]
            (g, h), (g_right, h_right) = sums(left), sums(right)
            if min(len(left), len(right)) < min_leaf or min(h, h_right) < min_hessian:
                continue
            gain = score(g, h, l2, largest) + score(g_right, h_right, l2, largest) - parent
            if gain > best:
                best = gain
                node.gain, node.column, node.cut = gain, column, cut


def grow(
    bins: list[list[int]],
    rows: list[int],
    gradient: np.ndarray,
    hessian: np.ndarray,
    bounds: tuple[float, float],
    *,
    columns: list[int] | None = None,
    max_leaves: int = 31,
    min_leaf: int = 20,
    l2: float = 1.0,
    min_hessian: float = MIN_HESSIAN,
    largest: float = inf,
    word_bits: int = 62,
    rounding: int | None = None,
) -> Node:
    """Grow a tree: of all leaves, that with the largest gain is split next; of equal ones, the older.

    The value of a leaf, before it is shrunk, is that of its gradients and hessians as whole numbers. Hessians of fewer
    than 16 bits are rounded by chance, given a key.
    """
    shift = len(gradient).bit_length()
    bits = min(30, word_bits - shift), min(30, word_bits - 2 * shift)
    keys = None, rounding if bits[1] < 16 else None
    of_both = zip((gradient, hessian), bits, bounds, keys, strict=True)
    words = [whole(values, b, bound, key) for values, b, bound, key in of_both]
    fine = [whole(values, word_bits - shift, bound) for values, bound in zip((gradient, hessian), bounds, strict=True)]
    columns = list(range(len(bins))) if columns is None else columns
    root = Node(rows)
    find_split(root, bins, columns, words[0], words[1], min_leaf, l2, min_hessian, largest)
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
            find_split(child, bins, columns, words[0], words[1], min_leaf, l2, min_hessian, largest)
            leaves.append(child)
    for leaf in leaves:
        first, second = (float(sum(numbers[r] for r in leaf.rows)) * unit for numbers, unit in fine)
        leaf.value = -first / (second + l2) if second + l2 > 0 else 0.0
        leaf.value = min(max(leaf.value, -largest), largest)
    return root


def preorder(node: Node) -> list[Node]:
    return [node, *(inner for child in node.children for inner in preorder(child))]


def bins_of(X: np.ndarray, max_bins: int = 256) -> tuple[list[list[float]], list[list[int]]]:
    """Return the edges of each column, and the bins of its values."""
    edges = [edges_of(column, max_bins) for column in X.T]
    return edges, [[sum(e <= v for e in own) for v in column] for own, column in zip(edges, X.T.tolist(), strict=True)]


def squared(margin: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return margin - target, np.ones(len(target))


def logistic(margin: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    probability = np.array([1 / (1 + exp(-m)) for m in margin.tolist()])
    return probability - target, probability * (1 - probability)


def losses(kind: str, margin: np.ndarray, target: np.ndarray) -> list[float]:
    if kind == "logistic":
        return [float(np.logaddexp(0.0, m)) - t * m for m, t in zip(margin.tolist(), target.tolist(), strict=True)]
    return [(m - t) ** 2 / 2 for m, t in zip(margin.tolist(), target.tolist(), strict=True)]


def mean(values: list[float], weight: list[float]) -> float:
    """Return the weighted mean of values that are fewer than a block of rows."""
    total, weights = 0.0, 0.0
    for value, w in zip(values, weight, strict=True):
        total += value * w
        weights += w
    return total / weights


def leaf_of(node: Node, bins: list[list[int]], row: int) -> Node:
    while node.children:
        node = node.children[bins[node.column][row] >= node.cut]
    return node


def boost(
    X: np.ndarray,
    y: np.ndarray,
    kind: str,
    *,
    rounds: int,
    shrinkage: float,
    held_out: float = 0.0,
    row_share: float = 1.0,
    column_share: float = 1.0,
    patience: int = 50,
    seed: int = 0,
    max_leaves: int = 31,
    min_leaf: int = 20,
    l2: float = 1.0,
    weight: np.ndarray | None = None,
    held: list[int] | None = None,
    max_bins: int = 256,
    backfit: int = 0,
    backfit_l2: float = 300.0,
    word_bits: int = 62,
) -> tuple[list[Node], np.ndarray, list[float]]:
    """Return the tree of each round that was made, the margins of all rows at the end, and the losses of held-out rows.

    The values of leaves are those of the best round.

    The loss of a row is squared or logistic. Without `held`, rows that are held out are drawn. Every weight is above 0.
    """
    (n, d), bins = X.shape, bins_of(X, max_bins)[1]
    w = np.ones(n) if weight is None else weight
    key = int(generator(seed, BOOSTING_HELD_OUT).integers(2**64, dtype=np.uint64))
    held = [r for r in range(1, n) if drawn(key, r, held_out)] if held is None else held
    kept = [r for r in range(n) if r not in held]
    share = min(1.0, sum(w[kept].tolist()) / len(kept))
    drawn_anew = row_share < 1.0 or column_share < 1.0
    start = mean(y[kept].tolist(), w[kept].tolist())
    bound = float(max(y.max() - start, start - y.min()))
    if kind == "logistic":
        start = float(np.log(start / (1 - start)))
    margin, trees, values = np.full(n, start), list[Node](), list[list[float]]()
    means = [mean(losses(kind, margin[held], y[held]), w[held].tolist())] if held else []
    for number in range(rounds):
        gradient, hessian = (logistic if kind == "logistic" else squared)(margin, y)
        random, rows, columns = generator(seed, BOOSTING_DRAWS, number, 0), kept, list(range(d))
        if row_share < 1.0:
            key = int(random.integers(2**64, dtype=np.uint64))
            rows = [r for r in kept if drawn(key, r, row_share)]
        if column_share < 1.0:
            columns = sorted(random.choice(d, max(1, round(column_share * d)), replace=False).tolist())
        largest = float(max(w))
        bounds = (largest, 0.25 * largest) if kind == "logistic" else (largest * bound, largest)
        options: dict[str, Any] = {"columns": columns, "max_leaves": max_leaves, "min_leaf": min_leaf}
        options |= {"l2": l2 * share, "min_hessian": MIN_HESSIAN * share, "word_bits": word_bits}
        options["rounding"] = int(generator(seed, BOOSTING_ROUNDING, number, 0).integers(2**64, dtype=np.uint64))
        tree = grow(bins, rows, gradient * w, hessian * w, bounds, largest=LARGEST[kind], **options)
        leaves = [node for node in preorder(tree) if not node.children]
        for leaf in leaves:
            leaf.value *= shrinkage
        bound = max(abs(gradient)) + max(abs(leaf.value) for leaf in leaves)
        margin = np.array([margin[r] + leaf_of(tree, bins, r).value for r in range(n)])
        trees.append(tree)
        if backfit and len(trees) % backfit == 0:
            gradient, hessian = (logistic if kind == "logistic" else squared)(margin, y)
            refit(trees, bins, kept, (gradient * w).tolist(), (hessian * w).tolist(), backfit_l2 * share)
            margin = np.full(n, start)
            for each in trees:
                margin = np.array([margin[r] + leaf_of(each, bins, r).value for r in range(n)])
            bound = float(np.abs(margin - y)[kept].max())
        values.append([node.value for each in trees for node in preorder(each)])
        if held:
            means.append(mean(losses(kind, margin[held], y[held]), w[held].tolist()))
            if number + 1 - int(np.argmin(means)) >= patience:
                break
        last = trees[-patience:] if drawn_anew else [tree]
        if not any(each.children for each in last) and (len(last) == patience or not drawn_anew):
            break
    if means and (best := int(np.argmin(means))):
        nodes = [node for each in trees for node in preorder(each)]
        for node, value in zip(nodes, values[best - 1], strict=False):
            node.value = value
    return trees, margin, means


def refit(
    trees: list[Node], bins: list[list[int]], rows: list[int], gradient: list[float], hessian: list[float], l2: float
) -> None:
    """Take the values of the leaves of each tree .3 of the way to the best ones given those of all other trees.

    The loss of a row is taken for a square with its hessian, so that its gradient follows the values.
    """
    for tree in trees:
        of_row = {r: leaf_of(tree, bins, r) for r in rows}
        for leaf in (node for node in preorder(tree) if not node.children):
            own = [r for r in rows if of_row[r] is leaf]
            first = second = 0.0
            for r in own:
                first += gradient[r]
                second += hessian[r]
            step = -0.3 * (first + l2 * leaf.value) / (second + l2)
            leaf.value += step
            for r in own:
                gradient[r] += hessian[r] * step
