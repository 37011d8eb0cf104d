"""The rows that learners take, and the linear model that they make."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ikmap.cells import Cells
from ikmap.learners.linear_model import LinearModel
from ikmap.learners.rows import check_rows, n_columns, n_rows, row_arrays, squared_norms
from tests.naive import learners as naive
from tests.support.narrow import present, read_back

OFFSETS = np.array([0, 3, 8, 10])  # Blocks of different widths.


def random_cells(n: int = 50, seed: int = 0) -> Cells:
    rng = np.random.default_rng(seed)
    widths = np.diff(OFFSETS)
    return Cells(np.column_stack([rng.integers(0, w, n) for w in widths]).astype(np.int32), OFFSETS)


def model(k: int = 1, **options: Any) -> LinearModel:
    rng = np.random.default_rng(3)
    values = {"divisor": 3.0, "learner": "svm", "classes": list(range(max(2, k))), "params": {"C": 1.0}}
    return LinearModel(coef=rng.normal(size=(10, k)), intercept=rng.normal(size=k), **{**values, **options})


@pytest.mark.parametrize("k", [1, 3])
def test_decisions_sum_in_order_and_do_not_depend_on_chunks(k: int) -> None:
    cells, m = random_cells(), model(k)
    decision = m.decision_function(cells)
    for i, row in enumerate(cells.columns()):
        total = np.zeros(k)
        for column in row:
            total += m.coef[column]
        np.testing.assert_array_equal(decision[i], (total / 3.0 + m.intercept)[0 if k == 1 else slice(None)])
    parts = [m.decision_function(cells[a:b]) for a, b in ((0, 1), (1, 30), (30, 50))]
    np.testing.assert_array_equal(np.concatenate(parts), decision)
    np.testing.assert_array_equal(m.decision_function(cells.packed()), decision)
    csr = cells.to_csr(normalize=False)
    csr.data /= 3.0
    for rows in (csr, sp.csr_matrix(csr), csr.toarray(), np.asfortranarray(csr.toarray())):
        np.testing.assert_allclose(m.decision_function(rows), decision, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("t", [1, 4, 11, 40])
@pytest.mark.parametrize("k", [1, 3])
def test_decisions_of_integer_weights_are_exact(k: int, t: int) -> None:
    """However many partitionings, and however they are taken together."""
    rng = np.random.default_rng(t)
    cells = Cells(rng.integers(0, 5, (30, t)).astype(np.int32), np.arange(t + 1) * 5)
    coef = rng.integers(-99, 99, (5 * t, k)).astype(float)
    m = LinearModel(coef, np.zeros(k), 7.0, "svm", list(range(max(2, k))))
    expected = naive.one_hot(cells.codes, cells.offsets) @ coef / 7.0
    np.testing.assert_array_equal(m.decision_function(cells), expected)
    np.testing.assert_array_equal(m.decision_function(cells.packed()), m.decision_function(cells))


def test_ties_go_to_plus_one_and_to_the_lowest_class() -> None:
    cells = random_cells(4)
    assert LinearModel(np.zeros((10, 1)), np.zeros(1), 1.0, "ogd", ["a", "b"]).predict(cells).tolist() == ["b"] * 4
    three = LinearModel(np.zeros((10, 3)), np.array([0.0, 1.0, 1.0]), 1.0, "ogd", [5, 6, 7])
    assert three.predict_index(cells).tolist() == [1] * 4
    assert three.predict_index(cells).dtype == np.int32
    assert three.predict(cells).tolist() == [6] * 4


def test_model_survives_its_parts() -> None:
    m = model(3)
    again = read_back(m)
    assert again.content_hash == m.content_hash
    np.testing.assert_array_equal(again.decision_function(random_cells()), m.decision_function(random_cells()))


def test_model_of_other_shape_than_its_classes_is_refused() -> None:
    with pytest.raises(ValueError, match="3 classes need coef"):
        model(1, classes=[0, 1, 2])


def test_missing_cells_count_nothing() -> None:
    cells = random_cells()
    codes = cells.codes.copy()
    codes[np.random.default_rng(1).random(codes.shape) < 0.3] = -1
    codes[5] = -1
    holes, m = Cells(codes, OFFSETS), model()
    X = naive.one_hot(codes, OFFSETS)
    np.testing.assert_allclose(m.decision_function(holes)[:, 0], X @ m.coef[:, 0] / 3.0 + m.intercept, rtol=1e-13)
    np.testing.assert_allclose(squared_norms(row_arrays(holes, 0.5)), (X * 0.5 * X * 0.5).sum(axis=1))


def test_norms_of_every_layout() -> None:
    rng = np.random.default_rng(0)
    X = sp.random_array((30, 7), density=0.3, rng=rng, format="csr")
    expected = (X.toarray() ** 2).sum(axis=1)
    np.testing.assert_allclose(squared_norms(row_arrays(X)), expected)
    np.testing.assert_allclose(squared_norms(row_arrays(X.toarray())), expected)
    np.testing.assert_allclose(squared_norms(row_arrays(random_cells(), 0.5)), [0.75])
    twice = sp.csr_array((np.array([1.0, 2.0]), np.array([1, 1]), np.array([0, 2])), shape=(1, 3))
    np.testing.assert_allclose(squared_norms(row_arrays(twice)), [9.0])
    assert twice.nnz == 2


def test_bad_rows_are_named() -> None:
    cells = random_cells()
    for i, j, code in ((3, 0, 3), (49, 2, 2), (0, 1, -2)):
        codes = cells.codes.copy()
        codes[i, j] = code
        with pytest.raises(ValueError, match=f"row {i}, column {j}: cell {code}"):
            check_rows(Cells(codes, OFFSETS))
    X = np.ones((4, 3))
    X[2, 1] = np.nan
    for rows in (X, sp.csr_array(X)):
        with pytest.raises(ValueError, match="row 2, column 1"):
            check_rows(rows)
    with pytest.raises(ValueError, match="10 feature columns, expected 11"):
        check_rows(cells, 11)
    check_rows(cells, 10)
    assert (n_rows(cells), n_columns(cells), n_rows(X), n_columns(X)) == (50, 10, 4, 3)


def test_cells_read_back_from_csr_may_use_every_column() -> None:
    cells, value = present(Cells.from_csr(random_cells().to_csr()))
    check_rows(cells)
    np.testing.assert_array_equal(model().decision_function(cells), model().decision_function(random_cells()))
    assert value == 1 / np.sqrt(3)
    codes = cells.codes.copy()
    codes[8, 2] = 10
    with pytest.raises(ValueError, match="row 8, column 2"):
        check_rows(Cells(codes, cells.offsets))
