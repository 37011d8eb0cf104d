"""iForest cells against ikpykit and scikit-learn, all three on the very same trees."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from sklearn.tree import ExtraTreeRegressor

from benchmarks import environment, peers
from benchmarks.data import load
from benchmarks.harness import Case, Comparison, Disagreement, Options, Side
from ikmap.partitioners import IForestPartitions
from ikmap.rows import as_rows

TITLE = "iForest cells"
ABOUT = "mapping rows to the leaves of t = 100 trees: ikpykit, and scikit-learn's apply tree by tree"

T = 100
LEAF = -1


def cases(options: Options) -> Iterator[Case]:
    for name in options.datasets or ("a9a", "covtype-93k", "usps"):
        for psi in (256,) if options.quick else (256, 4096):
            yield Case(f"{name}, psi {psi}", partial(same_trees, name, psi, options, False))
            yield Case(f"{name}, psi {psi}, full depth", partial(same_trees, name, psi, options, True))


def same_trees(name: str, psi: int, options: Options, full: bool) -> Comparison:
    """ikpykit's trees (depth at most log2 psi) are given to us and to scikit-learn; or trees that isolate them all."""
    data = load(name, options)
    psi = min(psi, data.y.size // 2)
    # scikit-learn compares in float32: rows that float32 holds make all of us walk the same way. Peers get them in
    # float32, which spares them a conversion for every tree.
    dense = data.dense.astype(np.float32).astype(np.float64)
    single, rows = np.ascontiguousarray(dense, dtype=np.float32), as_rows(dense)
    ikpykit = None if full else peers.find("ikpykit.kernel")
    label, applied = "ikpykit IsoKernel(iforest)", "scikit-learn tree.apply"
    if ikpykit is None:
        trees = grow(dense, psi)
        ikpykit_side = [] if full else [Side.absent(label, "ikpykit", target=5.0)]
    else:
        kernel = ikpykit.IsoKernel(method="iforest", n_estimators=T, max_samples=psi, random_state=0).fit(dense)
        trees = kernel.iso_kernel_.trees_
        ikpykit_side = [
            Side(label, lambda: kernel.transform(single), target=5.0, warm=lambda: kernel.transform(single[:16]))
        ]
    model = from_trees(trees, dense.shape[1], psi)

    def cells() -> np.ndarray:
        return model.cells(rows, options.threads).codes

    def apply() -> np.ndarray:
        leaves = np.empty((dense.shape[0], T), dtype=np.int32)
        for i, tree in enumerate(trees):
            leaves[:, i] = tree.tree_.apply(single)
        return leaves

    def check(results: dict[str, Any]) -> str:
        numbers = [cell_of_node(tree) for tree in trees]
        expected = np.stack([number[results[applied][:, i]] for i, number in enumerate(numbers)], axis=1)
        found = {"ours": results["ours"]}
        if label in results:
            found[label] = results[label].indices.reshape(-1, T) - np.arange(T) * psi
        for who, codes in found.items():
            if not np.array_equal(codes, expected):
                raise Disagreement(f"{who}: {int((codes != expected).sum())} cells differ from scikit-learn's leaves")
        return f"all {expected.size} cells equal"

    steps = dense.shape[0] * T * np.mean([tree.get_depth() for tree in trees])
    return Comparison(
        Side("ours", cells),
        [*ikpykit_side, Side(applied, apply, target=3.0)],
        check,
        rows=dense.shape[0],
        bound=lambda seconds: (
            f"at most {steps / dense.shape[0] / T:.3g} dependent steps a tree, "
            f"{seconds * options.threads / steps * 1e9:.2g} ns each on a thread; one gather from a table of this size "
            f"takes {1e9 / environment.gather_rate(int(model.feature.size)):.2g} ns where nothing waits for it"
        ),
    )


def grow(dense: np.ndarray, psi: int) -> list[ExtraTreeRegressor]:
    """Random trees that isolate each point of a subsample."""
    trees = []
    for i in range(T):
        rng = np.random.default_rng([0, i])
        chosen = rng.choice(dense.shape[0], psi, replace=False)
        tree = ExtraTreeRegressor(max_features=1, splitter="random", random_state=i)
        trees.append(tree.fit(dense[chosen], rng.random(psi)))
    return trees


def cell_of_node(tree: ExtraTreeRegressor) -> np.ndarray:
    """Number of each leaf among the leaves, by node."""
    leaf = tree.tree_.children_left == LEAF
    return np.where(leaf, np.cumsum(leaf) - 1, LEAF).astype(np.int32)


def from_trees(trees: Sequence[ExtraTreeRegressor], n_features: int, psi: int) -> IForestPartitions:
    """The same trees as one of our models: both number nodes in preorder, left child first.

    scikit-learn goes left at ``x <= threshold`` in float32, we at ``x < threshold``.
    """
    inner = [tree.tree_ for tree in trees]
    leaf = np.concatenate([tree.children_left == LEAF for tree in inner])
    threshold = np.concatenate([np.nextafter(tree.threshold, np.inf) for tree in inner])
    right = np.concatenate([tree.children_right for tree in inner])
    cell = np.concatenate([cell_of_node(tree) for tree in trees])
    return IForestPartitions(
        feature=np.where(leaf, LEAF, np.concatenate([tree.feature for tree in inner])).astype(np.int32),
        threshold=np.where(leaf, 0.0, threshold),
        right=np.where(leaf, cell, right).astype(np.int32),
        roots=np.r_[0, np.cumsum([tree.node_count for tree in inner])].astype(np.int64),
        psi=psi,
        n_features=n_features,
    )
