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


@pytest.mark.slow
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


@pytest.mark.slow
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


@st.composite
def gapped_cells(draw: st.DrawFn) -> Cells:
    """Of some rows and partitionings there is no cell."""
    cells = draw(ragged_cells(st.integers(1, 8)))
    cells.codes[np.random.default_rng(draw(st.integers(0, 99))).random(cells.codes.shape) < 0.4] = -1
    cells.codes[-1, draw(st.integers(0, cells.n_partitions - 1))] = -1
    return cells


@given(cells=gapped_cells())
def test_no_cell_survives_packing(cells: Cells) -> None:
    packed = cells.packed()
    assert packed.codes.dtype == packed_dtype(cells.offsets, gaps=True)
    assert packed.packed() is packed
    assert not packed.complete
    np.testing.assert_array_equal(packed.missing, cells.codes < 0)
    np.testing.assert_array_equal(packed.codes[~packed.missing], cells.codes[~packed.missing])
    np.testing.assert_array_equal(packed.columns(), cells.columns())
    for least in (np.uint16, np.uint32):
        wider = packed.packed(least)
        assert wider.codes.dtype.itemsize >= np.dtype(least).itemsize
        np.testing.assert_array_equal(wider.columns(), cells.columns())
        np.testing.assert_array_equal(wider.packed().columns(), cells.columns())
        np.testing.assert_array_equal(wider[:0].packed().columns(), cells.columns()[:0])
        np.testing.assert_array_equal(wider[:-1].packed().columns(), cells.columns()[:-1])


@pytest.mark.parametrize(
    ("width", "dtype"), [(255, np.uint8), (256, np.uint16), (65_535, np.uint16), (65_536, np.uint32)]
)
def test_no_cell_takes_a_number_of_its_own(width: int, dtype: type) -> None:
    """256 cells stay in a byte as long as no row lacks one; the highest number is then a cell like others."""
    offsets = np.array([0, width])
    complete, gapped = (Cells(np.array([[0], [last]], dtype=np.int32), offsets) for last in (width - 1, -1))
    assert packed_dtype(offsets, gaps=True) == dtype
    assert gapped.packed().codes.dtype == dtype
    assert complete.packed().codes.dtype == packed_dtype(offsets)
    assert complete.packed().complete
    assert complete.packed().columns()[1, 0] == width - 1
    assert gapped.packed().absent == np.iinfo(dtype).max


@pytest.mark.slow
@given(cells=gapped_cells())
def test_one_hot_form_leaves_out_what_is_absent(cells: Cells) -> None:
    expected = np.zeros((cells.n_rows, cells.n_columns))
    for r in range(cells.n_rows):
        for i in range(cells.n_partitions):
            if cells.codes[r, i] >= 0:
                expected[r, cells.offsets[i] + cells.codes[r, i]] = 1.0
    for some in (cells, cells.packed()):
        X = some.to_csr()
        X.check_format(full_check=True)
        assert X.has_canonical_format
        np.testing.assert_array_equal(X.toarray(), expected / np.sqrt(cells.n_partitions))


@given(cells=gapped_cells())
def test_parts_of_several_types(cells: Cells) -> None:
    complete = Cells(np.zeros((2, cells.n_partitions), dtype=np.int32), cells.offsets)
    for parts in ([complete.packed(), cells.packed()], [cells.packed(), complete], [cells, cells.packed()]):
        found = Cells.concatenated(parts)
        np.testing.assert_array_equal(found.columns(), np.concatenate([part.columns() for part in parts]))
        np.testing.assert_array_equal(found.missing, np.concatenate([part.missing for part in parts]))


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


def test_rows_that_lack_cells_are_read_back_beside_complete_ones() -> None:
    cells = Cells(np.array([[0, 1, 2], [-1, 0, 1], [-1, -1, -1]], dtype=np.int32), np.array([0, 2, 4, 7]))
    matrix, value = cells.to_csr(), 1 / np.sqrt(3)
    assert Cells.from_csr(matrix) is None
    back = Cells.from_csr_like(matrix, 3, value)
    assert back is not None
    assert back.codes.tolist() == [[0, 3, 6], [2, 5, -1], [-1, -1, -1]]
    assert (back.to_csr() != matrix).nnz == 0
    assert Cells.from_csr_like(matrix, 2, value) is None
    assert Cells.from_csr_like(matrix, 3, 1.0) is None
