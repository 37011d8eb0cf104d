"""Mondrian trees as they are defined (algorithms.md, 12.1 to 12.2), node by node."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np

from tests.naive.gcws import logarithm

MASK = (1 << 64) - 1
STEP = 0x9E3779B97F4A7C15


def mixed(word: int) -> int:
    """The finaliser of splitmix64."""
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & MASK
    return word ^ (word >> 31)


def uniform(key: int, number: int) -> float:
    return ((mixed((key + STEP * number) & MASK) >> 11) + 0.5) * 2.0**-53


def grown(X: np.ndarray, key: int, lifetime: float, begin: float = 0.0) -> dict[str, Any]:
    """A node, with its children in it."""
    low, high = X.min(axis=0), X.max(axis=0)
    node: dict[str, Any] = {"low": low, "high": high, "key": key, "time": lifetime, "rows": X}
    rate = 0.0
    for length in high - low:
        rate += float(length)
    time = begin - logarithm(uniform(key, 1)) / rate if rate > 0 else math.inf
    if time > lifetime:
        return node
    left = uniform(key, 2) * rate
    for d, length in enumerate(high - low):
        if length > 0:
            feature = d
            if left < length:
                break
            left -= float(length)
    at = float(low[feature] + uniform(key, 3) * (high[feature] - low[feature]))
    at = float(low[feature]) if at >= high[feature] else at
    goes_left = X[:, feature] <= at
    children = [
        grown(X[goes_left], mixed((key + STEP * 5) & MASK), lifetime, time),
        grown(X[~goes_left], mixed((key + STEP * 7) & MASK), lifetime, time),
    ]
    return node | {"time": time, "feature": feature, "at": at, "children": children}


def leaves(tree: dict[str, Any]) -> list[dict[str, Any]]:
    """By the numbers of their cells: when a cell is cut, its left part keeps the number; the right one has the next."""
    found = [tree]
    while inner := [node for node in found if "children" in node]:
        first = min(inner, key=lambda node: node["time"])
        at = [node is first for node in found].index(True)
        found[at] = first["children"][0]
        found.append(first["children"][1])
    return found


def cell(tree: dict[str, Any], x: np.ndarray) -> int:
    """The cell of a row in a tree that stays as it is, or -1."""
    own = 0
    for value in x:
        bits = struct.unpack("<Q", struct.pack("<d", float(value) + 0.0))[0]
        own = mixed(((own ^ bits) + STEP) & MASK)
    node, begin = tree, 0.0
    while True:
        rate = 0.0
        for value, low, high in zip(x, node["low"], node["high"], strict=True):
            rate += float(max(low - value, 0.0) + max(value - high, 0.0))
        if rate > 0 and begin - logarithm(uniform(node["key"] ^ own, 1)) / rate < node["time"]:
            return -1
        if "children" not in node:
            return [id(leaf) for leaf in leaves(tree)].index(id(node))
        begin = node["time"]
        node = node["children"][0 if x[node["feature"]] <= node["at"] else 1]


def insert(tree: dict[str, Any], x: np.ndarray, lifetime: float, cells: list[int]) -> int:
    """Let a tree, whose leaves have ``number``, grow by a row (algorithms.md, 12.3); `cells` has how many there are."""
    own = 0
    for value in x:
        bits = struct.unpack("<Q", struct.pack("<d", float(value) + 0.0))[0]
        own = mixed(((own ^ bits) + STEP) & MASK)
    node, begin = tree, 0.0
    while True:
        below, above = np.maximum(node["low"] - x, 0.0), np.maximum(x - node["high"], 0.0)
        rate = 0.0
        for length in below + above:
            rate += float(length)
        key = node["key"] ^ own
        time = begin - logarithm(uniform(key, 1)) / rate if rate > 0 else math.inf
        low, high = np.minimum(node["low"], x), np.maximum(node["high"], x)
        if time < node["time"]:
            left = uniform(key, 2) * rate
            for d, length in enumerate(below + above):
                if length > 0:
                    feature = d
                    if left < length:
                        break
                    left -= float(length)
            ends = (node["high"], x) if above[feature] > 0 else (x, node["low"])
            at = float(ends[0][feature] + uniform(key, 3) * (ends[1][feature] - ends[0][feature]))
            at = float(ends[0][feature]) if at >= ends[1][feature] else at
            leaf = {"low": x, "high": x, "key": mixed((key + STEP * 7) & MASK), "time": lifetime, "number": cells[0]}
            moved = dict(node)
            node.clear()
            node |= {"low": low, "high": high, "key": mixed((key + STEP * 5) & MASK), "time": time}
            node |= {"feature": feature, "at": at, "children": [moved, leaf] if above[feature] > 0 else [leaf, moved]}
            cells[0] += 1
            return cells[0] - 1
        node["low"], node["high"] = low, high
        if "children" not in node:
            return int(node["number"])
        begin = node["time"]
        node = node["children"][0 if x[node["feature"]] <= node["at"] else 1]


def on_whole_box(X: np.ndarray, lifetime: float, rng: np.random.Generator) -> np.ndarray:
    """The cells of rows in a Mondrian of the box around them all, cut without looking at the rows (12.1): numbers."""
    cells, known = np.empty(len(X), dtype=np.int64), [0]

    def cut(inside: np.ndarray, low: np.ndarray, high: np.ndarray, begin: float) -> None:
        sides = high - low
        time = begin + rng.exponential() / sides.sum()
        if time > lifetime:
            cells[inside] = known[0]
            known[0] += 1
            return
        d = int(rng.choice(len(sides), p=sides / sides.sum()))
        at = rng.uniform(low[d], high[d])
        left = X[inside, d] <= at
        for rows, upper in ((inside[left], True), (inside[~left], False)):
            a, b = low.copy(), high.copy()
            (b if upper else a)[d] = at
            cut(rows, a, b, time)

    cut(np.arange(len(X)), X.min(axis=0), X.max(axis=0), 0.0)
    return cells
