"""Where rows are handed out dense, and where as CSR."""

from __future__ import annotations

import numpy as np
import pytest

from ikmap.tables import ColumnPlan, Encoder
from ikmap.tables.encoders import Encoding, Number, OneHot
from pipeline.rows.density import DENSE_COLUMNS, encodes_dense, is_dense


@pytest.mark.parametrize(
    ("sparse", "columns", "nnz", "dense"),
    [
        (False, 100, 100, True),  # found dense
        (True, 100, 10 * 24, False),
        (True, 100, 10 * 25, True),
        (True, DENSE_COLUMNS, 10 * DENSE_COLUMNS, True),
        (True, DENSE_COLUMNS + 1, 10 * DENSE_COLUMNS + 10, False),
    ],
)
def test_sparse_rows_are_made_dense_if_they_hardly_grow(sparse: bool, columns: int, nnz: int, dense: bool) -> None:
    assert is_dense(sparse, 10, columns, nnz) is dense


def encoder(levels: int, words: int, numbers: int) -> Encoder:
    """Columns of numbers, and columns of so many words that have a feature each."""
    shown = tuple(f"w{k:04d}" for k in range(levels))
    number = Number(0.0, False, np.zeros(0), np.zeros(0))
    encodings: list[Encoding] = [number] * numbers + [OneHot(shown, np.arange(levels), shown)] * words
    plan = [ColumnPlan("", "number")] * numbers + [ColumnPlan("", "category")] * words
    return Encoder(tuple(plan), tuple(encodings))


@pytest.mark.parametrize(("levels", "words", "numbers"), [(4, 8, 0), (10, 2, 4), (229, 1, 400), (31, 1, 9)])
def test_few_words_beside_numbers_are_dense(levels: int, words: int, numbers: int) -> None:
    """Up to 4 words a column, and 3 more for each number beside it."""
    of = encoder(levels, words, numbers)
    assert levels <= 4 + 3 * numbers / words
    assert encodes_dense(of)


@pytest.mark.parametrize(("levels", "words", "numbers"), [(5, 8, 0), (11, 2, 4), (229, 2, 5)])
def test_many_words_are_sparse(levels: int, words: int, numbers: int) -> None:
    of = encoder(levels, words, numbers)
    assert levels > 4 + 3 * numbers / words
    assert not encodes_dense(of)
    assert encodes_dense(of, "minmax")  # scaling would fill them
