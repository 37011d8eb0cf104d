"""The cells as they split are, at every lifetime, those of trees that are grown for it (MO5)."""

from __future__ import annotations

import numpy as np
import pytest

from ikmap.learners.sweeps.columns import Columns
from ikmap.partitioners.mondrian import fit_mondrian, mondrian_lineage, mondrian_splits
from tests.support.sweeps import offsets_and_order


@pytest.mark.parametrize("n_threads", [1, 2])
def test_after_each_split_the_cells_are_those_of_trees_of_that_lifetime(n_threads: int) -> None:
    rng = np.random.default_rng(0)
    X = np.c_[rng.random((30, 2)), np.ones(30)]
    X[7] = X[3]
    new = rng.random((40, 3)) * 1.5 - 0.2
    model = fit_mondrian(X, 4, 3.0, 5)
    start, splits = mondrian_splits(model, [X, new], n_threads)
    codes = [cells.codes.copy() for cells in start]
    assert not any(of.any() for of in codes)
    n_cells, value = np.ones(4, np.int64), 0.0
    lost = 0
    for split in splits:
        assert split.value >= value
        value = split.value
        for of, (left, right) in zip(codes, split.rows, strict=True):
            inside = set(np.flatnonzero(of[:, split.partitioning] == split.parent))
            lost += len(inside) - len({*left, *right})
            assert {*left, *right} <= inside
        split.apply(codes)
        assert (split.left, split.right) == (split.parent, n_cells[split.partitioning])
        n_cells[split.partitioning] += 1
        at = model.at(value)
        np.testing.assert_array_equal(codes[0], at.cells(X).codes)
        np.testing.assert_array_equal(codes[1], at.cells(new).codes)
        np.testing.assert_array_equal(n_cells, np.diff(at.offsets))
    assert n_cells.sum() == model.offsets[-1] > 20
    assert lost > 0


def test_no_rows_and_no_splits() -> None:
    model = fit_mondrian(np.ones((3, 2)), 2, 5.0, 0)
    start, splits = mondrian_splits(model, [np.ones((3, 2)), np.empty((0, 2))])
    assert [len(cells) for cells in start] == [3, 0]
    assert list(splits) == []


def test_what_all_splits_amount_to() -> None:
    X = np.random.default_rng(3).random((50, 2))
    model = fit_mondrian(X, 5, 6.0, 1)
    start, splits = mondrian_splits(model, [X])
    columns = Columns(start)
    origin = list(range(5)) + [columns.apply(split).left for split in splits]
    found, column_of = mondrian_lineage(model)
    np.testing.assert_array_equal(found, origin)
    offsets, order = offsets_and_order(columns)
    np.testing.assert_array_equal(column_of, order)
    np.testing.assert_array_equal(offsets, model.offsets)
