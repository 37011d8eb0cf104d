"""Mondrian partitions: the very trees of the naive version, and properties MO1 to MO8 of algorithms.md, section 12."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from ikmap.partitioners.mondrian import MondrianPartitions, fit_mondrian
from ikmap.seeds import generator
from tests.naive import mondrian as naive


def rows(n: int = 40, d: int = 3, seed: int = 0) -> np.ndarray:
    """Some rows twice, and a column that is constant."""
    X = np.random.default_rng(seed).random((n, d))
    X[n // 2] = X[0]
    return np.c_[X, np.full(n, 3.0)]


def share(codes: np.ndarray) -> np.ndarray:
    """k_M of all pairs."""
    return (codes[:, None] == codes[None]).mean(axis=2)


@pytest.mark.parametrize("lifetime", [0.0, 0.7, 5.0, 1e9])
def test_trees_and_cells_are_those_of_the_naive_version(lifetime: float) -> None:
    X = rows()
    rng = np.random.default_rng(1)
    new = np.r_[X, X + rng.normal(size=X.shape) * 0.1, rng.normal(size=(5, 4)) * 50]
    model = fit_mondrian(X, 6, lifetime, 9)
    codes = model.cells(new).codes
    for m in range(6):
        key = int(generator(9, m).integers(2**64, dtype=np.uint64))
        tree = naive.grown(X, key, lifetime)
        leaves = naive.leaves(tree)
        assert model.offsets[m + 1] - model.offsets[m] == len(leaves)
        np.testing.assert_array_equal(codes[:, m], [naive.cell(tree, x) for x in new])
        for k, leaf in enumerate(leaves):
            assert (codes[: len(X), m] == k).sum() == len(leaf["rows"])


@pytest.mark.parametrize("lifetime", [0.0, 0.3, 2.0, 5.0])
def test_trees_of_a_shorter_lifetime_are_those_that_are_grown_for_it(lifetime: float) -> None:
    longer = fit_mondrian(rows(), 6, 5.0, 9)
    assert longer.at(lifetime).content_hash == fit_mondrian(rows(), 6, lifetime, 9).content_hash
    with pytest.raises(ValueError, match="expected a lifetime from 0 to 5"):
        longer.at(5.1)


def test_threads_layouts_and_blocks_change_nothing() -> None:
    X = rows(60)
    one = fit_mondrian(X, 5, 3.0, 0, n_threads=1)
    two = fit_mondrian(np.asfortranarray(X), 5, 3.0, 0, n_threads=2)
    assert one.content_hash == two.content_hash
    new = np.random.default_rng(3).random((200, 4)) * 4
    codes = one.cells(new, 1).codes
    np.testing.assert_array_equal(two.cells(new[::-1], 2).codes[::-1], codes)
    assert (codes < 0).any()
    assert (codes >= 0).any()


def test_the_share_of_common_cells_is_the_laplace_kernel() -> None:  # MO1, MO2
    X = np.random.default_rng(0).random((30, 2))
    K = np.exp(-4.0 * np.abs(X[:, None] - X[None]).sum(axis=2))
    errors = []
    for M in (50, 200, 800, 3200):
        codes = fit_mondrian(X, M, 4.0, 1).cells(X).codes
        assert (codes >= 0).all()
        k = share(codes)
        assert (np.diag(k) == 1).all()
        assert np.linalg.eigvalsh(k)[0] > -1e-10
        errors.append(np.sqrt(np.mean((k - K) ** 2)))
        assert errors[-1] < 1.5 * np.sqrt(np.mean(K * (1 - K)) / M)
    assert np.polyfit(np.log([50, 200, 800, 3200]), np.log(errors), 1)[0] == pytest.approx(-0.5, abs=0.1)


def test_no_lifetime_and_an_endless_one() -> None:  # MO3
    X = rows()
    assert (share(fit_mondrian(X, 4, 0.0, 0).cells(X).codes) == 1).all()
    endless = share(fit_mondrian(X, 4, 1e12, 0).cells(X).codes)
    same = (X[:, None] == X[None]).all(axis=2)
    np.testing.assert_array_equal(endless, same)


def test_partitions_of_longer_lifetimes_are_finer() -> None:  # MO4
    X = rows(80)
    found = [share(fit_mondrian(X, 30, lifetime, 4).cells(X).codes) for lifetime in (0.5, 1.0, 3.0, 9.0)]
    for before, after in pairwise(found):
        assert (after <= before).all()
    assert found[-1].mean() < found[0].mean()


def test_new_rows_share_cells_as_often_as_the_kernel_says() -> None:
    """A row that the trees have not seen: with those that they have, by the law of 12.3."""
    rng = np.random.default_rng(5)
    X, new = rng.random((20, 2)), rng.random((15, 2)) * 1.6 - 0.3
    model = fit_mondrian(X, 4000, 3.0, 2)
    k = (model.cells(new).codes[:, None] == model.cells(X).codes[None]).mean(axis=2)
    K = np.exp(-3.0 * np.abs(new[:, None] - X[None]).sum(axis=2))
    assert np.sqrt(np.mean((k - K) ** 2)) < 1.5 * np.sqrt(np.mean(K * (1 - K)) / 4000)
    assert abs(float((k - K).mean())) < 0.003


@pytest.mark.slow
def test_boxes_of_the_data_have_the_law_of_the_whole_box() -> None:  # MO6
    X = np.random.default_rng(1).random((8, 2)) * [1.0, 2.0]
    M, rng = 3000, np.random.default_rng(2)
    whole = share(np.array([naive.on_whole_box(X, 1.5, rng) for _ in range(M)]).T)
    ours = share(fit_mondrian(X, M, 1.5, 3).cells(X).codes)
    spread = np.sqrt(2 * np.maximum(ours * (1 - ours), 0.01) / M)
    assert (np.abs(whole - ours) < 4.5 * spread).all()
    assert abs(float((whole - ours).mean())) < 0.01


def test_cells_of_one_dimension() -> None:  # MO8
    X = np.linspace(0, 2, 4001)[:, None]
    model = fit_mondrian(X, 400, 5.0, 3)
    counts = np.diff(model.offsets)
    assert counts.mean() == pytest.approx(1 + 5 * 2, abs=4 * np.sqrt(10 / 400))


@pytest.mark.parametrize(("n", "M", "lifetime"), [(0, 1, 1.0), (3, 0, 1.0), (3, 1, -1.0), (3, 1, np.nan)])
def test_bad_input(n: int, M: int, lifetime: float) -> None:
    with pytest.raises(ValueError, match="expected rows, trees and a lifetime >= 0"):
        fit_mondrian(np.ones((n, 2)), M, lifetime, 0)


def test_other_columns_are_refused() -> None:
    with pytest.raises(ValueError, match="X has 3 columns, the model was fitted on 4"):
        fit_mondrian(rows(), 1, 1.0, 0).cells(np.ones((2, 3)))


class Tall(MondrianPartitions):
    """Trees of which each row reaches the node of its first value."""

    def traced(self, rows: np.ndarray, own: np.ndarray, m: int) -> tuple[np.ndarray, np.ndarray]:  # noqa: ARG002
        return rows[:, 0].astype(np.int32), np.full(len(rows), np.inf)


def test_cells_of_a_tree_behind_two_billion_nodes() -> None:
    """Their numbers are counted beyond 32 bits; memory that is never written to is never taken."""
    before, none = 2**31 + 5, np.empty(0)
    numbers = np.zeros(before + 3, dtype=np.int8)
    numbers[before:] = [4, 6, 5]
    model = Tall(
        times=none, features=none, thresholds=none, children=none, boxes=np.empty((0, 2, 1)), keys=none,
        numbers=numbers, roots=np.array([0, before, before + 3]), offsets_=np.array([0, 1, 8]), lifetime=1.0,
    )  # fmt: skip
    assert model.cells(np.array([[2.0], [0.0], [1.0]]), 1).codes.tolist() == [[0, 5], [0, 4], [0, 6]]
