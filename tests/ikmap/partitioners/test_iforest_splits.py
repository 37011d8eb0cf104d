"""Isolation trees cut off at a depth, and their cells as they split, against trees cut off node by node."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ikmap.methods import MAPS
from ikmap.methods.checks.maps import check_splits
from ikmap.methods.options import OptionError
from ikmap.partitioners import draw_subsamples
from ikmap.partitioners.iforest import fit_iforest
from ikmap.partitioners.iforest_splits import iforest_splits
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
    codes, value = [cells.codes.copy() for cells in start], 0
    for split in [*splits, None]:
        if split is None or split.value > value:
            at = whole.at(value)
            np.testing.assert_array_equal(codes[0], at.cells(X).codes)
            np.testing.assert_array_equal(codes[1], at.cells(queries).codes)
        if split is not None:
            assert split.left == split.parent
            split.apply(codes)
            value = split.value
    assert value == 6


def test_the_method_tells_of_its_splits() -> None:
    one = MAPS["iforest"]
    options = one.Options(t=3, psi=64, max_depth="auto")
    assert (one.parameter(options), one.sweeps(options), one.given(options)) == ("max_depth", True, None)
    check_splits(one, options)
    rows: Any = np.random.default_rng(0).random((50, 2))  # fewer than psi, as a fold may have
    for value, (cells,) in one.path(options, (2, 64), 0, rows, [rows]):
        assert (cells.codes >= 0).all()
        assert np.unique(cells.codes[:, 0]).size <= 2**value


def test_two_things_to_choose_are_refused_and_depths_have_to_be_there() -> None:
    with pytest.raises(OptionError, match=r"--max-depth auto: found --psi auto, .* type --psi 4096"):
        MAPS["iforest"].Options(max_depth="auto")
    X = DATA["uniform"] if "uniform" in DATA else next(iter(DATA.values()))
    model = fit_iforest(X, draw_subsamples(N, T, PSI, SEED), SEED, max_depth=3)
    with pytest.raises(ValueError, match="expected trees of all depths"):
        model.at(2)
    with pytest.raises(ValueError, match="a whole number >= 1, got 0"):
        fit_iforest(X, draw_subsamples(N, T, PSI, SEED), SEED, max_depth=0)
