"""Sweeps over rows that are stored: the very columns, and the steps, of rows in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ikmap.cells import Cells
from ikmap.learners.rows import Block
from ikmap.learners.sweeps import stored
from ikmap.learners.sweeps.columns import Columns
from ikmap.learners.sweeps.gradient import GradientSettings, GradientSweep
from ikmap.learners.sweeps.stored import StoredRows
from ikmap.partitioners.mondrian import fit_mondrian, joined_trees, mondrian_lineage, mondrian_splits
from ikmap.seeds import generator


def problem() -> tuple[np.ndarray, np.ndarray, Any]:
    X = np.random.default_rng(0).random((90, 3))
    return X, np.sin(6 * X[:, 0]) + X[:, 1], fit_mondrian(X, 7, 5.0, 3)


def rows_of(model: Any, X: np.ndarray, y: np.ndarray, weight: np.ndarray | None, *cuts: int) -> StoredRows:
    cells = model.cells(X)
    parts = [np.arange(a, b) for a, b in zip((0, *cuts), (*cuts, len(y)), strict=True)]
    blocks = [Block(cells[rows].packed(), y[rows], None if weight is None else weight[rows]) for rows in parts]
    (start,), _ = mondrian_splits(model, [X[:0]])
    return StoredRows(blocks, len(y), start, *mondrian_lineage(model))


def test_columns_are_those_of_rows_in_memory_at_every_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, model = problem()
    monkeypatch.setattr(stored, "SOME", 17)
    rows = rows_of(model, X, y, None, 40)
    start, splits = mondrian_splits(model, [X])
    columns = Columns(start)
    for number, split in enumerate(splits):
        columns.apply(split)
        if number % 9:
            continue
        found = list(rows.epoch(columns.n, number, 5, lambda y: y[:, None]))
        order = np.concatenate(
            [
                np.arange(*((0, 40), (40, 90))[k])[generator(5, number, int(k)).permutation((40, 50)[k])]
                for k in generator(5, number).permutation(2)
            ]
        )
        np.testing.assert_array_equal(np.concatenate([some.columns for some in found]), columns.of[0][order])
        np.testing.assert_array_equal(np.concatenate([some.targets for some in found])[:, 0], y[order])
    assert rows.mean() == pytest.approx(y.mean())


@pytest.mark.parametrize("heaviest", [None, 1.0, 9.0])
def test_steps_are_those_of_the_definition(heaviest: float | None) -> None:
    """No step is longer than the first of a row of weight 1: the error of the row would grow."""
    X, y, model = problem()
    weight = None if heaviest is None else heaviest * np.random.default_rng(1).random(90)
    rows = rows_of(model, X, y, weight, 30, 70)
    if weight is not None:
        assert rows.mean() == pytest.approx(np.average(y, weights=weight))
    settings = GradientSettings("squared", 1e-2, growth=0.4, seed=2)
    start, splits = mondrian_splits(model, [X[:0], X])
    swept = GradientSweep(start, np.zeros((0, 1)), settings, None, (rows, lambda y: y[:, None]))
    w, k, last, columns = np.zeros(0), 0.0, model.at(0.0).cells(X).codes, model.n_partitions
    for epoch, value in enumerate(swept.follow(splits)):
        n, before = swept.columns.n, w
        k, columns = k * columns / n, n
        table = np.full(n, -1)
        table[: len(before)] = np.arange(len(before))
        w = np.zeros(n)
        w[: len(before)] = before
        of = swept.columns.of[1]
        if epoch == 0:
            w[:] = 0.0
        else:
            for c in range(len(before), n):  # a new column has the weight of what its rows were in
                w[c] = before[last[of == c][0]]
        for block in generator(2, epoch).permutation(3):
            numbers = np.arange(*((0, 30), (30, 70), (70, 90))[block])
            for i in numbers[generator(2, epoch, int(block)).permutation(len(numbers))]:
                step = 0.5 / (1 + 0.5 * 1e-2 * k)
                k += 1
                off = y[i] - w[of[i]].sum() / np.sqrt(7)
                w *= 1 - step * 1e-2
                w[of[i]] += min(0.5, step * (1.0 if weight is None else weight[i])) * 2 * off / np.sqrt(7)
        np.testing.assert_allclose(swept.weights[:, 0], w, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(swept.decisions()[:, 0], w[of].sum(axis=1) / np.sqrt(7), rtol=1e-9, atol=1e-12)
        assert value <= 5.0
        last = of.copy()
    assert epoch >= 5


def test_a_sweep_over_rows_of_any_weight_learns() -> None:
    """Weights above 2 made the error grow at each step before steps were bounded."""
    X, y, model = problem()
    start, splits = mondrian_splits(model, [X, X])
    sweep = GradientSweep(start, y[:, None], GradientSettings("squared", 1e-3), np.full(90, 30.0))
    errors = [np.mean((sweep.decisions()[:, 0] - y) ** 2) for _ in sweep.follow(splits)]
    assert errors[-1] < 0.1 * y.var()


@pytest.mark.parametrize("own", [None, np.linspace(0.5, 2, 90)])
def test_classes_are_made_to_weigh_the_same(own: np.ndarray | None) -> None:
    X, y, model = problem()
    classes = np.digitize(y, [0.2, 1.5])
    rows = rows_of(model, X, classes, own, 30).balanced(3)
    weights = np.concatenate([block.sample_weight for block in rows.blocks if block.sample_weight is not None])
    totals = np.bincount(classes, weights)
    assert totals == pytest.approx(np.full(3, (90 if own is None else own.sum()) / 3))
    if own is not None:
        assert weights / own == pytest.approx((totals / np.bincount(classes, own))[classes])


def test_trees_in_parts_are_those_of_all_at_once() -> None:
    X, _, model = problem()
    parts = [fit_mondrian(X, b - a, 5.0, 3, first=a) for a, b in ((0, 3), (3, 4), (4, 7))]
    assert joined_trees(parts).content_hash == model.content_hash
    assert isinstance(joined_trees(parts).cells(X), Cells)
