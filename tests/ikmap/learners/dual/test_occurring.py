from typing import Any

import numpy as np
import pytest

from ikmap.cells import Cells
from ikmap.learners.dual.linear_svm import SVMParams, fit_linear_svm
from ikmap.learners.dual.occurring import only_occurring
from ikmap.learners.rows import Block, row_arrays


def few_of_many(gaps: bool) -> tuple[Cells, np.ndarray]:
    """Rows that have three cells of a thousand in each partitioning, and classes that these tell."""
    rng = np.random.default_rng(0)
    drawn = rng.integers(3, size=(120, 8))
    codes = (np.array([7, 300, 999])[drawn] + np.arange(8)).astype(np.int32) % 1000
    if gaps:
        codes[5], codes[40, 3] = -1, -1
    cells = Cells(codes, np.arange(9, dtype=np.int64) * 1000)
    return cells, (drawn.sum(axis=1) % 3).astype(np.int32)


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("packed", [False, True])
def test_every_cell_keeps_its_column(gaps: bool, packed: bool) -> None:
    cells, _ = few_of_many(gaps)
    cells = cells.packed() if packed else cells
    rows: Any = row_arrays(cells)
    found: Any = only_occurring(rows, cells.n_columns, 1 << 20)
    assert found is not None
    (few, first, *rest), columns = found
    assert few.dtype == rows[0].dtype
    assert rest == list(rows[2:])
    there = ~cells.missing
    assert np.array_equal(columns[(few + first)[there].astype(np.int64)], cells.columns()[there])
    if gaps:
        assert (few[~there] == rows[3]).all()
    occurring = np.unique(cells.columns()[there])
    assert set(occurring) <= set(columns)
    assert set(columns) - set(occurring) <= set(cells.offsets[:-1])


def test_left_as_it_is_where_nothing_is_gained() -> None:
    cells, _ = few_of_many(gaps=False)
    rows = row_arrays(cells)
    assert only_occurring(rows, cells.n_columns, rows[0].nbytes - 1) is None
    everything = Cells(np.arange(12, dtype=np.int32).reshape(6, 2) % 6, np.array([0, 6, 12]))
    assert only_occurring(row_arrays(everything), 12, 1 << 20) is None
    shared = Cells(cells.codes, np.r_[np.zeros(8, np.int64), 1000])
    assert only_occurring(row_arrays(shared), 1000, 1 << 20) is None
    assert only_occurring(row_arrays(np.ones((3, 2))), 2, 1 << 20) is None


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("gaps", [False, True])
def test_same_solution_with_and_without_columns_that_do_not_occur(n_classes: int, gaps: bool) -> None:
    cells, y = few_of_many(gaps)
    y = np.minimum(y, n_classes - 1).astype(np.int32)
    params = SVMParams(tol=1e-6, fit_intercept=True)
    fewer = fit_linear_svm([Block(cells, y)], n_classes, params)
    whole = fit_linear_svm([Block(cells.to_csr(), y)], n_classes, params)  # of sparse rows nothing is left out
    assert fewer.coef.shape == whole.coef.shape == (8000, 1 if n_classes == 2 else 3)
    assert np.array_equal(fewer.n_iter, whole.n_iter)
    np.testing.assert_allclose(fewer.alphas, whole.alphas, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(fewer.coef, whole.coef, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(fewer.gap, whole.gap, rtol=1e-3, atol=1e-12)
    assert np.count_nonzero(fewer.coef.any(axis=1)) <= 8 * 3
