"""Random binning: bins as they are defined (algorithms.md, section 13.2), and its property RB1."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

from ikmap.methods.lifetime import typical_distance
from ikmap.methods.sample import Sample
from ikmap.partitioners.binning import fit_binning
from ikmap.seeds import generator


def test_cells_are_the_bins_of_the_definition() -> None:
    rng = np.random.default_rng(0)
    X, new = rng.random((60, 3)), rng.random((80, 3)) * 1.4 - 0.2
    model = fit_binning(X, 5, 2.0, 7, n_threads=2)
    codes, of_new = model.cells(X, 1).codes, model.cells(new, 2).codes
    unseen = 0
    for i in range(5):
        draws = generator(7, i)
        pitch = draws.gamma(2.0, size=3) / 2.0
        shift = draws.random(3) * pitch
        code_of: dict[Any, int] = {}
        for x, code in zip(X, codes[:, i], strict=True):
            at = tuple(math.floor((x[d] - shift[d]) / pitch[d]) for d in range(3))
            assert code_of.setdefault(at, code) == code
        assert sorted(code_of.values()) == list(range(model.offsets[i + 1] - model.offsets[i]))
        for x, code in zip(new, of_new[:, i], strict=True):
            at = tuple(math.floor((x[d] - shift[d]) / pitch[d]) for d in range(3))
            assert code_of.get(at, -1) == code
            unseen += at not in code_of
    assert unseen > 10


@pytest.mark.slow
def test_the_share_of_common_bins_is_the_laplace_kernel() -> None:  # RB1
    X = np.random.default_rng(0).random((30, 2))
    K = np.exp(-4.0 * np.abs(X[:, None] - X[None]).sum(axis=2))
    sizes, errors = (50, 200, 800, 3200), []
    for t in sizes:
        codes = fit_binning(X, t, 4.0, 1).cells(X).codes
        assert (codes >= 0).all()  # exactly t entries
        errors.append(np.sqrt(np.mean(((codes[:, None] == codes[None]).mean(axis=2) - K) ** 2)))
        assert errors[-1] < 1.5 * np.sqrt(np.mean(K * (1 - K)) / t)
    assert np.polyfit(np.log(sizes), np.log(errors), 1)[0] == pytest.approx(-0.5, abs=0.1)


def test_sparse_rows_and_threads_change_nothing() -> None:
    X = np.random.default_rng(2).random((50, 4)).round(1) * (np.random.default_rng(3).random((50, 4)) < 0.5)
    one, two = fit_binning(X, 4, 3.0, 0, n_threads=1), fit_binning(csr_array(X), 4, 3.0, 0, n_threads=2)
    assert one.content_hash == two.content_hash
    np.testing.assert_array_equal(one.cells(X).codes, two.cells(csr_array(X)).codes)


@pytest.mark.parametrize(("n", "t", "lifetime"), [(0, 1, 1.0), (3, 0, 1.0), (3, 1, 0.0), (3, 1, np.inf)])
def test_bad_input(n: int, t: int, lifetime: float) -> None:
    with pytest.raises(ValueError, match="expected rows, grids and a lifetime > 0"):
        fit_binning(np.ones((n, 2)), t, lifetime, 0)
    with pytest.raises(ValueError, match="X has 3 columns"):
        fit_binning(np.ones((2, 2)), 1, 1.0, 0).cells(np.ones((2, 3)))


def test_the_unit_of_lifetimes() -> None:
    def unit(X: np.ndarray) -> float:
        return typical_distance(Sample(X.shape[0], X.shape[1], None, X.__getitem__, 0))

    X = np.random.default_rng(0).random((1000, 3))
    assert unit(X) == pytest.approx(1.0, rel=0.1)  # three times 1/3, of which the median is near
    assert unit(100 * X) == pytest.approx(100 * unit(X))
    mostly = np.zeros((100, 2))
    mostly[:10] = 1.0
    assert 0 < unit(mostly) < 2
    assert unit(np.ones((5, 2))) == 1.0
    assert unit(np.ones((1, 2))) == 1.0
