"""Odd rows: trees, cells, insertion and splits are those of the naive version, whatever the values are (MO5, MO7)."""

from __future__ import annotations

import numpy as np
import pytest

from ikmap.partitioners.mondrian import fit_mondrian, mondrian_splits
from ikmap.seeds import generator
from tests.naive import mondrian as naive

KINDS = (
    "plain", "rounded", "huge", "denormal", "zeros of both signs", "units apart", "constant column", "all the same",
    "far from zero",
)  # fmt: skip


def odd_rows(kind: str, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    X = rng.random((n, d))
    match kind:
        case "rounded":
            X = np.round(X * 3)
        case "huge":
            X *= 1e300
        case "denormal":
            X *= 1e-310
        case "zeros of both signs":
            X = np.where(rng.random((n, d)) < 0.5, 0.0, -0.0) + np.round(X)
        case "units apart":
            X = rng.standard_cauchy((n, d)) * 10.0 ** rng.integers(-8, 8, size=d)
        case "constant column":
            X[:, 0] = 7.0
        case "all the same":
            X[:] = X[0]
        case "far from zero":
            X = X * 1e16 + 1
    return X


@pytest.mark.parametrize("kind", KINDS)
def test_odd_rows_have_the_cells_of_the_naive_version(kind: str) -> None:
    rng = np.random.default_rng(KINDS.index(kind))
    for _ in range(6):
        n, more, d, seed = (int(rng.integers(1, high)) for high in (14, 14, 5, 10**6))
        X = odd_rows(kind, n + more, d, rng)
        span = float(np.ptp(X, axis=0).sum()) or 1.0
        lifetime = float(rng.choice([0.0, 0.3, 2.0, 10.0, 1e6])) / span
        if not np.isfinite(lifetime):
            lifetime = 1e300
        model = fit_mondrian(X[:n], 3, lifetime, seed)
        codes = model.cells(X).codes
        assert (codes[:n] >= 0).all()
        grown, cells = model.extended(X[n:])
        np.testing.assert_array_equal(grown.cells(X).codes, np.r_[codes[:n], cells.codes])
        for m in range(3):
            tree = naive.grown(X[:n], int(generator(seed, m).integers(2**64, dtype=np.uint64)), lifetime)
            assert [naive.cell(tree, x) for x in X] == codes[:, m].tolist()
            leaves = naive.leaves(tree)
            for number, leaf in enumerate(leaves):
                leaf["number"] = number
            known = [len(leaves)]
            assert [naive.insert(tree, x, lifetime, known) for x in X[n:]] == cells.codes[:, m].tolist()
        start, splits = mondrian_splits(model, [X[:n], X[n:]])
        swept = [of.codes.copy() for of in start]
        for split in splits:
            split.apply(swept)
        np.testing.assert_array_equal(swept[0], codes[:n])
        np.testing.assert_array_equal(np.where(codes[n:] < 0, -1, swept[1]), codes[n:])  # some are lost later still


def test_differences_that_overflow_end_in_trees() -> None:
    X = np.array([[-1.5e308, 1.0], [1.5e308, 2.0], [0.0, -1.5e308], [0.0, 1.5e308]])
    model = fit_mondrian(X, 5, 1.0, 0)
    assert (np.diff(model.offsets) == 4).all()
    codes = model.cells(X).codes
    assert all(len(set(column)) == 4 for column in codes.T)
