"""The container of cells: selection, packing, one-hot form and back."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from ikmap.cells import Cells, packed_dtype


@st.composite
def ragged_cells(draw: st.DrawFn, rows: st.SearchStrategy[int] = st.integers(0, 8)) -> Cells:  # noqa: B008
    widths = np.array(draw(st.lists(st.sampled_from([1, 2, 5, 256, 257, 70_000]), min_size=1, max_size=5)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    codes = rng.integers(0, widths, size=(draw(rows), widths.size)).astype(np.int32)
    return Cells(codes, np.r_[0, np.cumsum(widths)].astype(np.int64))


@given(cells=ragged_cells())
def test_one_hot_form(cells: Cells) -> None:
    expected = np.zeros((cells.n_rows, cells.n_columns))
    for r in range(cells.n_rows):
        for i in range(cells.n_partitions):
            expected[r, cells.offsets[i] + cells.codes[r, i]] = 1.0
    raw, normalised = cells.to_csr(normalize=False), cells.to_csr()
    assert isinstance(raw, sp.csr_array)
    assert raw.shape == normalised.shape == expected.shape
    np.testing.assert_array_equal(raw.toarray(), expected)
    np.testing.assert_array_equal(normalised.toarray(), expected / np.sqrt(cells.n_partitions))
    for X in (raw, normalised):
        X.check_format(full_check=True)
        assert X.has_canonical_format
        np.testing.assert_array_equal(np.diff(X.indptr), np.full(cells.n_rows, cells.n_partitions))


@given(cells=ragged_cells(st.integers(1, 8)), normalize=st.booleans())
def test_one_hot_form_and_back(cells: Cells, normalize: bool) -> None:
    found = Cells.from_csr(cells.to_csr(normalize))
    assert found is not None
    again, value = found
    assert value == (1 / np.sqrt(cells.n_partitions) if normalize else 1.0)
    assert again.n_columns == cells.n_columns
    np.testing.assert_array_equal(again.columns(), cells.columns())
    assert again.codes.dtype == np.int32


@pytest.mark.parametrize(
    "X",
    [
        np.array([[1.0, 0, 1], [0, 1, 0]]),
        np.array([[1.0, 0, 1], [0, 1, 2]]),
        np.array([[-1.0, 0], [0, -1.0]]),
        np.zeros((2, 3)),
        np.zeros((0, 3)),
    ],
    ids=["row lengths", "values", "negative", "no entries", "no rows"],
)
def test_other_matrices_are_not_one_hot(X: np.ndarray) -> None:
    assert Cells.from_csr(sp.csr_array(X)) is None


@given(cells=ragged_cells())
def test_packing_keeps_the_cells(cells: Cells) -> None:
    packed = cells.packed()
    np.testing.assert_array_equal(packed.codes, cells.codes)
    np.testing.assert_array_equal(packed.columns(), cells.columns())
    assert packed.codes.dtype.kind == "u"
    assert packed.codes.dtype.itemsize <= cells.codes.dtype.itemsize
    assert packed.packed() is packed


@pytest.mark.parametrize(
    ("width", "dtype"),
    [(1, np.uint8), (256, np.uint8), (257, np.uint16), (65_536, np.uint16), (65_537, np.uint32)],
)
def test_smallest_type(width: int, dtype: type) -> None:
    assert packed_dtype(np.array([0, 1, 1 + width])) == dtype


def test_no_cell_survives_packing() -> None:
    codes = np.array([[-1, 3], [255, -1]], dtype=np.int32)
    np.testing.assert_array_equal(Cells(codes, np.array([0, 256, 512])).packed().codes, codes)


@given(cells=ragged_cells(st.integers(1, 8)), seed=st.integers(0, 100))
def test_selection(cells: Cells, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = cells.n_rows
    for rows in (slice(1, None, 2), rng.random(n) < 0.5, rng.integers(0, n, size=3), slice(0, 0)):
        part = cells[rows]
        np.testing.assert_array_equal(part.codes, cells.codes[rows])
        assert part.codes.flags.c_contiguous
        assert len(part) == part.n_rows == cells.codes[rows].shape[0]
        np.testing.assert_array_equal(part.offsets, cells.offsets)


@pytest.mark.parametrize(
    ("codes", "offsets", "message"),
    [
        (np.zeros((2, 3)), [0, 1, 2, 3], r"codes must be a 2-d integer array, got float64 \(2, 3\)"),
        (np.zeros(3, dtype=np.int32), [0, 1, 2, 3], r"codes must be a 2-d integer array, got int32 \(3,\)"),
        (np.zeros((2, 3), dtype=np.int32), [0, 1, 2], r"offsets must have t \+ 1 = 4 entries, got \(3,\)"),
    ],
)
def test_bad_parts(codes: np.ndarray, offsets: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Cells(codes, np.array(offsets))
