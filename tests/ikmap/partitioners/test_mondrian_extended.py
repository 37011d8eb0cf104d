"""Mondrian trees that grow as rows come: those of the naive version, and MO7 of algorithms.md, section 12."""

from __future__ import annotations

import numpy as np
import pytest

from ikmap.partitioners.mondrian import fit_mondrian, mondrian_splits
from ikmap.seeds import generator
from tests.naive import mondrian as naive


@pytest.mark.parametrize("lifetime", [0.0, 2.0, 1e9])
def test_rows_that_come_change_trees_as_in_the_naive_version(lifetime: float) -> None:
    rng = np.random.default_rng(0)
    X = np.c_[rng.random((10, 2)), np.ones(10)]
    more = np.c_[rng.random((25, 2)) * 2 - 0.5, np.ones(25)]
    more[7] = X[2]
    more[9] = more[4]
    model = fit_mondrian(X, 5, lifetime, 3)
    grown, cells = model.extended(more, 2)
    for m in range(5):
        tree = naive.grown(X, int(generator(3, m).integers(2**64, dtype=np.uint64)), lifetime)
        leaves = naive.leaves(tree)
        for number, leaf in enumerate(leaves):
            leaf["number"] = number
        known = [len(leaves)]
        expected = [naive.insert(tree, x, lifetime, known) for x in more]
        np.testing.assert_array_equal(cells.codes[:, m], expected)
        assert grown.offsets[m + 1] - grown.offsets[m] == known[0]


def test_cells_stay_and_pieces_change_nothing() -> None:
    rng = np.random.default_rng(1)
    X, more = rng.random((40, 3)), rng.random((60, 3)) * 1.5
    model = fit_mondrian(X, 8, 3.0, 0)
    frozen = model.cells(more).codes
    whole, cells = model.extended(more)
    assert (frozen < 0).any()
    assert (cells.codes >= 0).all()
    first_new = np.diff(model.offsets)
    # A row that the trees had no cell for when it came first gets a new one, and keeps it.
    np.testing.assert_array_equal(cells.codes[0][frozen[0] < 0], first_new[frozen[0] < 0])
    np.testing.assert_array_equal(whole.cells(np.r_[X, more]).codes, np.r_[model.cells(X).codes, cells.codes])
    pieces, found = model, []
    for start, stop in ((0, 1), (1, 1), (1, 33), (33, 60)):
        pieces, some = pieces.extended(more[start:stop], 1)
        found.append(some.codes)
    assert pieces.content_hash == whole.content_hash
    np.testing.assert_array_equal(np.concatenate(found), cells.codes)
    assert not whole.is_in_preorder
    for refused in (lambda: whole.at(1.0), lambda: mondrian_splits(whole, [X]), lambda: model.extended(X[:, :2])):
        with pytest.raises(ValueError, match=r"fit them on all rows|X has 2 columns"):
            refused()


@pytest.mark.slow
def test_any_order_of_rows_has_the_law_of_all_at_once() -> None:  # MO7
    X = np.random.default_rng(2).random((20, 2))
    K = np.exp(-4.0 * np.abs(X[:, None] - X[None]).sum(axis=2))
    M = 4000
    for order, first in ((np.arange(20), 1), (np.argsort(X[:, 0]), 2), (np.argsort(-X[:, 1]), 7)):
        model, _ = fit_mondrian(X[order[:first]], M, 4.0, first).extended(X[order[first:]])
        codes = model.cells(X).codes
        k = (codes[:, None] == codes[None]).mean(axis=2)
        off = (k - K)[np.triu_indices(20, 1)]
        assert np.sqrt(np.mean(off**2)) < 1.5 * np.sqrt(np.mean(K * (1 - K)) / M)
        assert abs(off.mean()) < 0.003
