"""Isolation trees cut off at a depth, and their cells as they split, against trees cut off node by node."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ikmap.methods import FieldError, Sample, configured
from ikmap.methods.checks.maps import check_splits
from ikmap.methods.iforest import IForest
from ikmap.methods.values import cells_of_values, parameter_of, sweepable
from ikmap.partitioners import draw_subsamples
from ikmap.partitioners.iforest import fit_iforest
from ikmap.partitioners.iforest_splits import iforest_splits
from pipeline.resolve import flag
from tests.naive.partitioners import isolation_trees, shallow_cells
from tests.support.point_sets import DATA, LAYOUTS, N, queries_of

T, PSI, SEED = 4, 16, 3


@pytest.mark.parametrize("name", DATA)
def test_cells_of_a_depth_are_those_of_trees_cut_off_there(name: str) -> None:
    X, queries = DATA[name], queries_of(DATA[name])
    draws = draw_subsamples(N, T, PSI, SEED)
    trees = isolation_trees(X, draws, SEED)
    for depth in (1, 2, 3, 5, 40):
        expected = shallow_cells(queries, trees, depth)
        for convert in LAYOUTS.values():
            model = fit_iforest(convert(X), draws, SEED, max_depth=depth)
            np.testing.assert_array_equal(model.cells(convert(queries)).codes, expected)
        assert (model.n_leaves <= 2**depth).all()


@pytest.mark.parametrize("n_threads", [1, 2])
def test_after_the_splits_of_a_depth_the_cells_are_those_of_the_trees(n_threads: int) -> None:
    X = DATA["duplicates"] if "duplicates" in DATA else next(iter(DATA.values()))
    queries = queries_of(X)
    whole = fit_iforest(X, draw_subsamples(N, T, PSI, SEED), SEED)
    start, splits = iforest_splits(whole, [X, queries], 6, n_threads)
    codes = [cells.codes.copy() for cells in start]
    value = 0
    for split in [*splits, None]:
        if split is None or split.value > value:
            at = whole.at(value)
            np.testing.assert_array_equal(codes[0], at.cells(X).codes)
            np.testing.assert_array_equal(codes[1], at.cells(queries).codes)
        if split is not None:
            assert split.left == split.parent
            split.apply(codes)
            value = int(split.value)
    assert value == 6


def test_the_method_tells_of_its_splits() -> None:
    one, searched = configured("iforest", {"t": 3, "psi": 64, "max_depth": "auto"})
    assert isinstance(one, IForest)
    assert parameter_of(one, searched) == "max_depth"
    assert sweepable(one, searched) is one
    check_splits(one, one)
    rows: Any = np.random.default_rng(0).random((50, 2))  # fewer than psi, as a fold may have
    sample = Sample(50, 2, None, rows.__getitem__, 0)
    for value, (cells,) in cells_of_values(one, searched, (2, 64), sample, [rows]):
        assert (cells.codes >= 0).all()
        assert isinstance(value, int)
        assert np.unique(cells.codes[:, 0]).size <= 2**value


def test_where_psi_is_searched_there_is_no_sweep() -> None:
    one, searched = configured("iforest", {"psi": "auto", "max_depth": 5})
    assert isinstance(one, IForest)
    assert parameter_of(one, searched) == "psi"
    assert sweepable(one, searched) is None


def test_two_things_to_choose_are_refused_and_depths_have_to_be_there() -> None:
    with pytest.raises(FieldError) as caught:
        configured("iforest", {"max_depth": "auto"})
    assert caught.value.worded(flag) == (
        "--max-depth auto: found --psi auto, expected a number of points, whose trees the sweep goes through: "
        "type --psi 4096, or leave --max-depth out"
    )
    X = DATA["uniform"] if "uniform" in DATA else next(iter(DATA.values()))
    model = fit_iforest(X, draw_subsamples(N, T, PSI, SEED), SEED, max_depth=3)
    with pytest.raises(ValueError, match="expected trees of all depths"):
        model.at(2)
    with pytest.raises(ValueError, match="a whole number >= 1, got 0"):
        fit_iforest(X, draw_subsamples(N, T, PSI, SEED), SEED, max_depth=0)
