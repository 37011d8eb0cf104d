"""Columns that number rows, and whole numbers that measure something."""

from __future__ import annotations

import numpy as np
import pytest

from ikmap.tables.ids import id_columns, numbers_rows

N = 3000
RNG = np.random.default_rng(0)
IDS = {
    "one after the other": np.arange(N) + 1,
    "shuffled": RNG.permutation(N) + 10**6,
    "with gaps": np.cumsum(RNG.integers(1, 100, N)),
    "a part of all": RNG.permutation(5 * N)[:N],
    "a few rows twice": np.r_[np.arange(N - 10), np.arange(10)],
    "some missing": np.where(np.arange(N) % 200 == 0, np.nan, np.arange(N)),
}
MEASURED = {
    "uniform": RNG.integers(0, 10**6, N),
    "from a range too wide to say": RNG.integers(0, 10**12, N),
    "amounts in cents": np.rint(np.exp(RNG.normal(8, 1.5, N)) * 100),
    "years": RNG.integers(1900, 2020, N),
    "each as often": np.arange(N) % 48,
    "half of them missing": np.where(np.arange(N) % 2 == 0, np.nan, np.arange(N)),
    "fractions": np.arange(N) / 2,
    "ten rows": np.arange(10),
    "none": np.full(N, np.nan),
}


@pytest.mark.parametrize("name", IDS)
def test_ids(name: str) -> None:
    assert numbers_rows(IDS[name].astype(float))


@pytest.mark.parametrize("name", MEASURED)
def test_measurements(name: str) -> None:
    assert not numbers_rows(MEASURED[name].astype(float))


def test_columns_of_a_table() -> None:
    columns = {name: values.astype(float) for name, values in (IDS | MEASURED).items() if values.size == N}
    found = id_columns(np.column_stack(list(columns.values())))
    assert [list(columns)[j] for j in found] == list(IDS)


def test_columns_whose_first_cells_are_missing_or_alone_whole() -> None:
    ids = np.arange(200.0)
    X = np.column_stack([ids, np.r_[np.nan, ids[1:]], np.r_[0.5, ids[1:]], np.r_[ids[:-1], 0.5], np.full(200, np.nan)])
    assert id_columns(X) == [j for j in range(X.shape[1]) if numbers_rows(X[:, j])] == [0, 1]
    assert id_columns(X[:0]) == id_columns(X[:, :0]) == []


def test_nan_that_processors_signal_is_a_missing_cell() -> None:
    column = np.arange(float(N))
    column.view(np.uint64)[7] = 0x7FF0000000000001
    assert id_columns(column[:, None]) == [0]
