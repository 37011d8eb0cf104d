"""Parquet, .npy and .npz: rows come back as stored, however they are cut; every fault by its words."""

from __future__ import annotations

import io
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import InputError
from pipeline.sources import RawRows, Sizes, Source
from tests.support.narrow import present
from tests.support.opening import opened


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("arrays")


def read_all(source: Source) -> list[RawRows]:
    return [block for fragment in source.fragments() for block in source.read(fragment)]


def dense(block: RawRows) -> np.ndarray:
    if isinstance(block.X, np.ndarray):
        assert block.X.flags.c_contiguous
        assert block.X.dtype == np.float64
        return block.X
    assert block.X.indices.dtype == np.int32
    assert block.X.data.dtype == np.float64
    assert block.X.has_canonical_format
    return block.X.toarray()


def check(source: Source, X: np.ndarray, y: np.ndarray | None, skip: int) -> None:
    """The blocks hold X and y in order; `skip` leaves out the first ones; rows are counted."""
    blocks = read_all(source)
    assert np.array_equal(np.concatenate([dense(b) for b in blocks]), X)
    if y is None:
        assert all(b.y is None for b in blocks)
    else:
        found = np.concatenate([b.y for b in blocks])
        assert found.dtype == (object if y.dtype.kind in "OU" else np.float64)
        assert found.tolist() == y.tolist()
    row = 1
    for block in blocks:
        assert block.first_line == row
        assert block.X.shape[0] > 0
        row += block.X.shape[0]
    for fragment in source.fragments():
        whole = list(source.read(fragment))
        rest = list(source.read(fragment, skip=skip))
        assert len(rest) == len(whole[skip:])
        for a, b in zip(rest, whole[skip:], strict=True):
            assert np.array_equal(dense(a), dense(b))
            assert a.y is b.y is None or np.array_equal(present(a.y), present(b.y))
            assert (a.first_line, a.n_bytes) == (b.first_line, b.n_bytes)


DTYPES = ["<f8", ">f8", "<f4", "<i8", "<u2", "|b1", "<f2", "|i1"]


@st.composite
def matrices(draw: st.DrawFn) -> np.ndarray:
    shape = draw(st.tuples(st.integers(1, 30), st.integers(2, 5)))
    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    A = rng.integers(0, 100, shape).astype(draw(st.sampled_from(DTYPES)))
    return np.asfortranarray(A) if draw(st.booleans()) else A


sizes = st.integers(1, 400)


@pytest.mark.slow
@given(A=matrices(), fragment_bytes=sizes, block_bytes=sizes, label=st.integers(-2, 1), skip=st.integers(0, 5))
def test_npy(folder: Path, A: np.ndarray, fragment_bytes: int, block_bytes: int, label: int, skip: int) -> None:
    np.save(folder / "a.npy", A)
    options: dict[str, Any] = {"sizes": Sizes(fragment_bytes, block_bytes)}
    url = str(folder / "a.npy")
    X, y = np.delete(A, label, axis=1).astype(float), A[:, label].astype(float)
    check(opened(url, label=label, **options), X, y, skip)
    check(opened(url, **options), A[:, :-1].astype(float), A[:, -1].astype(float), skip)
    bare = opened(url, require_label=False, n_columns=A.shape[1], **options)
    check(bare, A.astype(float), None, skip)


@given(A=matrices(), block_bytes=sizes, skip=st.integers(0, 5), packed=st.booleans(), text=st.booleans())
def test_npz_dense(folder: Path, A: np.ndarray, block_bytes: int, skip: int, packed: bool, text: bool) -> None:
    y = np.array([f"l{v}" for v in range(len(A))]) if text else np.arange(len(A))
    (np.savez_compressed if packed else np.savez)(folder / "a.npz", X=A, y=y)
    source = opened(str(folder / "a.npz"), sizes=Sizes(block=block_bytes))
    assert not source.sparse
    check(source, A.astype(float), y, skip)


@pytest.mark.slow
@given(
    seed=st.integers(0, 1000),
    density=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    block_bytes=sizes,
    skip=st.integers(0, 5),
    packed=st.booleans(),
    shuffled=st.booleans(),
)
def test_npz_csr(
    folder: Path, seed: int, density: float, block_bytes: int, skip: int, packed: bool, shuffled: bool
) -> None:
    rng = np.random.default_rng(seed)
    n, d = rng.integers(1, 25, 2)
    X = sp.csr_array(sp.random_array((n, d), density=density, rng=rng, format="csr"))
    parts = {"data": X.data.copy(), "indices": X.indices.copy(), "indptr": X.indptr, "shape": X.shape}
    if shuffled:  # columns of a row in descending order
        for a, b in zip(X.indptr[:-1], X.indptr[1:], strict=True):
            for part in ("data", "indices"):
                parts[part][a:b] = parts[part][a:b][::-1].copy()
    y = rng.integers(0, 3, n)
    path = folder / "s.npz"
    (np.savez_compressed if packed else np.savez)(path, y=y, format=b"csr", **parts)
    source = opened(str(path), sizes=Sizes(block=block_bytes))
    assert source.sparse
    check(source, X.toarray(), y, skip)
    wider = np.hstack([X.toarray(), np.zeros((n, 2))])
    check(opened(str(path), n_columns=d + 2, sizes=Sizes(block=block_bytes)), wider, y, skip)


def test_npz_from_scipy_without_labels(folder: Path) -> None:
    X = sp.csr_array(np.eye(3))
    sp.save_npz(folder / "scipy.npz", X)
    check(opened(str(folder / "scipy.npz"), require_label=False), np.eye(3), None, 0)


def test_npz_member_with_the_labels(folder: Path) -> None:
    np.savez(folder / "named.npz", X=np.eye(2), target=np.array([4, 5]))
    check(opened(str(folder / "named.npz"), label="target"), np.eye(2), np.array([4.0, 5.0]), 0)


@pytest.mark.slow
@given(
    seed=st.integers(0, 1000),
    fragment_bytes=sizes,
    block_bytes=sizes,
    group=st.integers(1, 12),
    skip=st.integers(0, 5),
    text=st.booleans(),
)
def test_parquet(
    folder: Path, seed: int, fragment_bytes: int, block_bytes: int, group: int, skip: int, text: bool
) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 40))
    columns = {
        "f8": rng.normal(size=n),
        "f4": rng.normal(size=n).astype(np.float32),
        "i8": rng.integers(-9, 9, n),
        "u1": rng.integers(0, 9, n).astype(np.uint8),
        "b1": rng.random(n) < 0.5,
    }
    y = np.array([f"l{v}" for v in rng.integers(0, 3, n)]) if text else rng.integers(0, 3, n)
    table = pa.table({**columns, "Label": pa.array(y).dictionary_encode() if text and seed % 2 else pa.array(y)})
    pq.write_table(table, folder / "a.parquet", row_group_size=group)
    source = opened(str(folder / "a.parquet"), sizes=Sizes(fragment_bytes, block_bytes))
    assert source.column_names == tuple(columns)
    assert source.n_columns == 5
    assert source.fragments()[-1].stop == -(-n // group)
    check(source, np.column_stack([c.astype(float) for c in columns.values()]), y, skip)


def test_parquet_scoring_needs_no_label(folder: Path) -> None:
    pq.write_table(pa.table({"a": [1.0], "b": [2]}), folder / "s.parquet")
    source = opened(str(folder / "s.parquet"), label="clicked", require_label=False)
    check(source, np.array([[1.0, 2.0]]), None, 0)


def parquet(checksums: bool = False, **columns: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out, write_page_checksum=checksums)
    return out.getvalue()


def npy(array: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def npz(**arrays: Any) -> bytes:
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


CSR = {"data": [1.0, 2.0], "indices": [0, 1], "indptr": [0, 1, 2], "shape": [2, 2], "y": [0, 1]}
SAME = "give data with the same columns"
WITH_COMMA: Any = {"a, b": [[1.0]]}
FAULTS = [
    ("parquet", parquet(a=[1.0, np.inf], y=[1, 2]), "row 2, column 'a': found inf, expected a finite number"),
    ("parquet", parquet(a=[1.0, 2.0], y=[1, np.nan]), "row 2, column 'y': found a missing value, expected a label"),
    ("parquet", parquet(a=[1.0, 2.0], y=["u", None]), "row 2, column 'y': found a missing value, expected a label"),
    ("parquet", parquet(a=[[1.0]], y=[1]), "column 'a': found values of type list<element: double>, expected numbers, words, dates or times; leave it out: --drop a"),  # noqa: E501
    ("parquet", parquet(**WITH_COMMA, y=[1]), """column 'a, b': found values of type list<element: double>, expected numbers, words, dates or times; leave it out: --drop '"a, b"'"""),  # noqa: E501
    ("parquet", parquet(a=[1], y=[[1]]), "column 'y' (the label): found values of type list<element: int64>, expected words, numbers or booleans"),  # noqa: E501
    ("parquet", parquet(a=[1], b=[2]), "found no column named label, target, class or y; give --label, one of the columns 'a', 'b'"),  # noqa: E501
    ("parquet", parquet(a=pa.array([], pa.float64()), y=pa.array([], pa.int64())), "found no rows, expected at least one"),  # noqa: E501
    ("parquet", parquet(y=[1]), "found no feature columns beside the label, expected at least one"),
    ("npy", npy([1.0, 2.0]), "found an array of shape (2,), expected two dimensions (rows, columns)"),
    ("npy", npy(np.zeros((2, 2, 2))), "found an array of shape (2, 2, 2), expected two dimensions (rows, columns)"),
    ("npy", npy(np.array([["a", "b"]])), "found values of type <U1, expected numbers"),
    ("npy", npy(np.array([[1j, 2]])), "found values of type <c16, expected numbers"),
    ("npy", npy(np.array([[1, None]])), "found values of type |O, expected numbers"),
    ("npy", npy(np.zeros((1, 1), dtype="f8,i4")), "found values of type [('f0', '<f8'), ('f1', '<i4')], expected numbers"),  # noqa: E501
    ("npy", npy(np.zeros((0, 3))), "found no rows, expected at least one"),
    ("npy", npy([[1.0, 2.0], [np.nan, 1.0]]), "row 2, column 1: found nan, expected a finite number"),
    ("npy", npy([[1.0, -np.inf]]), "row 1, column 2: found -inf, expected a finite number (the label)"),
    ("npy", npy(np.zeros((9, 3)))[:-8], "truncated: found 336 bytes, expected 344 for shape (9, 3)"),
    ("npy", npy(np.zeros((9, 1))), "found no feature columns beside the label, expected at least one"),
    ("npy", npy(np.zeros((9, 3))), f"found 2 feature columns, but the training data has 7; {SAME}"),
    ("npz", npz(X=np.eye(2)), "no member 'y' with the labels; the members are 'X'"),
    ("npz", npz(y=[1, 2]), "found members 'y', expected X and y, or data, indices, indptr, shape and y"),
    ("npz", npz(X=np.eye(2), y=[1, 2, 3]), "member 'y': found shape (3,), expected (2,), a label a row"),
    ("npz", npz(X=np.eye(2), y=np.array([None, 1])), "member 'y': found values of type |O, expected numbers or text"),
    ("npz", npz(X=np.ones(2), y=[1, 2]), "member 'X': found an array of shape (2,), expected two dimensions (rows, columns)"),  # noqa: E501
    ("npz", npz(X=[[1.0], [np.nan]], y=[1, 2]), "row 2, column 1: found nan, expected a finite number"),
    ("npz", npz(X=np.eye(2), y=[1, np.inf]), "row 2 of member 'y': found inf, expected a finite number (the label)"),
    ("npz", npz(**CSR | {"format": b"csc"}), "found a sparse matrix of format 'csc', expected 'csr'"),
    ("npz", npz(**CSR | {"indices": [0, 2]}), "row 2, column 3: found a column out of range, expected 1 to 2"),
    ("npz", npz(**CSR | {"indptr": [0, 2, 2], "indices": [1, 1]}), "row 1, column 2: found the column twice, expected each column once in a row"),  # noqa: E501
    ("npz", npz(**CSR | {"data": [1, np.nan]}), "row 2, column 2: found nan, expected a finite number"),
    ("npz", npz(**CSR | {"indptr": [0, 3, 2]}), "member 'indptr', rows 1 to 2: found values that descend or pass the number of stored values, expected ascending ones"),  # noqa: E501
    ("npz", npz(**CSR | {"indptr": [0, 2]}), "member 'indptr': found <i8 values of shape (2,), expected integers of shape (3,)"),  # noqa: E501
    ("npz", npz(**CSR | {"shape": [2]}), "member 'shape': found [2], expected rows and columns"),
    ("npz", npz(**CSR | {"shape": [2, 9]}), f"found 9 feature columns, but the training data has 7; {SAME}"),
]  # fmt: skip


@pytest.mark.parametrize(("ending", "content", "words"), FAULTS, ids=lambda v: v if isinstance(v, str) else "")
def test_faults(folder: Path, ending: str, content: bytes, words: str) -> None:
    path = folder / f"fault.{ending}"
    path.write_bytes(content)
    with pytest.raises(InputError) as error:
        read_all(opened(str(path), n_columns=7 if "has 7" in words else None))
    assert str(error.value) == f"{path}: {words}"


@pytest.mark.parametrize(
    ("ending", "words"),
    [
        ("parquet", "not a Parquet file, or a truncated one: "),
        ("npy", "not a .npy array: "),
        ("npz", "not a .npz archive, or a truncated one: "),
    ],
)
def test_other_content(folder: Path, ending: str, words: str) -> None:
    path = folder / f"other.{ending}"
    for content in (b"1 1:2\n" * 40, b"x"):
        path.write_bytes(content)
        with pytest.raises(InputError) as error:
            opened(str(path))
        assert str(error.value).startswith(f"{path}: {words}")
        assert "\n" not in str(error.value)


@pytest.mark.parametrize("cut", [10, 300])
@pytest.mark.parametrize("ending", ["parquet", "npz"])
def test_truncated(folder: Path, ending: str, cut: int) -> None:
    rows = np.arange(400.0)
    content = parquet(a=rows, y=rows) if ending == "parquet" else npz(X=rows[:, None], y=rows)
    path = folder / f"cut.{ending}"
    path.write_bytes(content[:-cut])
    with pytest.raises(InputError, match=r"cut\.\w+: not a .*, or a truncated one: "):
        opened(str(path))


def test_damaged_parquet_page(folder: Path) -> None:
    content = bytearray(parquet(checksums=True, a=np.random.default_rng(0).normal(size=4000), y=np.arange(4000)))
    content[100:8000] = b"\xff" * 7900
    path = folder / "damaged.parquet"
    path.write_bytes(content)
    with pytest.raises(InputError, match="damaged"):
        read_all(opened(str(path)))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["npy", "npy-fortran", "npz", "npz-csr", "parquet"])
def test_memory_does_not_grow_with_the_file(folder: Path, kind: str) -> None:
    peaks, arrow = [], []
    for n in (100_000, 400_000):
        A = np.tile(np.arange(4.0), (n, 1))
        path = folder / f"large.{kind.partition('-')[0]}"
        if kind.startswith("npy"):
            np.save(path, np.asfortranarray(A) if "fortran" in kind else A)
        elif kind == "npz":
            np.savez_compressed(path, X=A, y=A[:, 0])
        elif kind == "npz-csr":
            X = sp.csr_array(A)
            np.savez(path, data=X.data, indices=X.indices, indptr=X.indptr, shape=X.shape, y=A[:, 0])
        else:  # one row group
            table = pa.table({name: A[:, j] + np.arange(n) for j, name in enumerate(["a", "b", "c", "y"])})
            pq.write_table(table, path, row_group_size=n)
            del table
        source = opened(str(path), sizes=Sizes(block=1 << 16))
        del A
        before = pa.total_allocated_bytes()
        read = used = 0
        tracemalloc.start()
        for fragment in source.fragments():
            for block in source.read(fragment):
                read += block.X.shape[0]
                used = max(used, pa.total_allocated_bytes() - before)
        peaks.append(tracemalloc.get_traced_memory()[1])
        arrow.append(used)
        tracemalloc.stop()
        assert read == n
    assert peaks[1] < peaks[0] + (1 << 17)
    assert peaks[1] < 6 << 20
    assert arrow[1] < 12 << 20  # buffers and dictionaries of four columns
