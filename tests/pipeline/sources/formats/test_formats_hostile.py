"""Hostile files: reading ends with rows or with one line, never with another exception, and in bounded memory."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
import struct
import tracemalloc
import warnings
import zipfile
from pathlib import Path
from typing import Any

import distributed  # noqa: F401 - in a worker it is loaded
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from ikmap.tables import NUMBER
from pipeline.errors import InputError
from pipeline.sources import Sizes, Source
from pipeline.sources.columns import kinds, table_plan
from pipeline.sources.files import bzip2, limits
from pipeline.sources.formats import csv_text, parquet
from tests.support.damaged_files import mutated
from tests.support.in_process import on_worker
from tests.support.narrow import csr as sparse_rows
from tests.support.opening import opened
from tests.support.sizes import SmallSizes

pytestmark = pytest.mark.slow

MATRIX = np.random.default_rng(0).integers(0, 9, (12, 4)).astype(float)


def read_all(source: Source) -> int:
    """Return how many rows come; all of them are numbers, but for missing cells of tables."""
    rows = 0
    for fragment in source.fragments():
        for block in source.read(fragment):
            rows += block.X.shape[0]
            values = block.X if isinstance(block.X, np.ndarray) else block.X.data
            assert (np.isfinite(values) | (np.isnan(values) if block.levels is not None else False)).all()
    return rows


def write(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    return str(path)


def refused(path: Path, content: bytes, **options: Any) -> str:
    """The line with which a file is refused, less its name."""
    url = write(path, content)
    with pytest.raises(InputError) as error:
        read_all(opened(url, **options))
    text = str(error.value)
    assert "\n" not in text
    assert text.startswith(f"{url}: ")
    return text.removeprefix(f"{url}: ")


def npy(array: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def header(text: str, values: int = 48, version: int = 1) -> bytes:
    """A .npy file with any header."""
    code = text.encode("latin1")
    length = struct.pack("<H" if version == 1 else "<I", len(code))
    return b"\x93NUMPY" + bytes([version, 0]) + length + code + bytes(values)


def shaped(shape: str, descr: str = "'<f8'", fortran: str = "False") -> bytes:
    return header(f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}}}\n")


def archive(*, method: int = zipfile.ZIP_STORED, **members: bytes | np.ndarray) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method, compresslevel=1) as packed:
        for name, content in members.items():
            packed.writestr(f"{name}.npy", content if isinstance(content, bytes) else npy(content))
    return out.getvalue()


def csr(**changed: bytes | np.ndarray) -> bytes:
    matrix = sp.csr_array(MATRIX)
    parts: dict[str, Any] = {name: getattr(matrix, name) for name in ("data", "indices", "indptr")}
    return archive(**{**parts, "shape": np.array(matrix.shape), "y": np.arange(12), **changed})


def table(**options: Any) -> bytes:
    out = io.BytesIO()
    columns = {"a": MATRIX[:, 0], "b": MATRIX[:, 1].astype(np.int32), "y": pa.array(["x", "y"] * 6)}
    pq.write_table(pa.table(columns), out, row_group_size=5, **options)
    return out.getvalue()


CSV = b"a,b,class\n" + b"".join(b"%g,%g,%s\n" % (a, b, b"x" if c > 4 else b'"y z"') for a, b, c, _ in MATRIX)
LIBSVM = b"".join(b"%d qid:3 1:%g 3:%g # c\n" % (a > 4, b, c) for a, b, c, _ in MATRIX)
VALID = {
    "a.npy": npy(MATRIX),
    "fortran.npy": npy(np.asfortranarray(MATRIX)),
    "big.npy": npy(MATRIX.astype(">i2")),
    "a.npz": archive(X=MATRIX, y=np.arange(12)),
    "text.npz": archive(X=np.asfortranarray(MATRIX), y=np.array(list("abcabcabcabc"))),
    "packed.npz": archive(method=zipfile.ZIP_DEFLATED, X=MATRIX, y=np.arange(12)),
    "csr.npz": csr(),
    "a.parquet": table(),
    "gzip.parquet": table(compression="gzip", use_dictionary=False),
    "second.parquet": table(compression="zstd", data_page_version="2.0"),
    "a.csv": CSV,
    "a.csv.gz": gzip.compress(CSV),
    "a.csv.xz": lzma.compress(CSV),
    "a.libsvm": LIBSVM,
    "a.libsvm.bz2": bz2.compress(LIBSVM),
    "libsvm": LIBSVM,
    "csv": CSV,
}


@pytest.mark.parametrize("name", VALID)
def test_damaged_files_end_in_rows_or_in_one_line(name: str, tmp_path: Path) -> None:
    assert read_all(opened(write(tmp_path / name, VALID[name]))) == 12
    draw = random.Random(name)
    lines = []
    for _ in range(150):
        url = write(tmp_path / name, mutated(VALID[name], draw))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                source = opened(url, require_label=draw.random() < 0.7)
                assert source.least_rows() >= 1
                read_all(source)
        except InputError as error:
            lines.append(str(error))
    assert lines
    assert not any("\n" in line for line in lines)


IMPOSSIBLE = {
    "NUL in the header": (header("{'descr': '<f8', 'shape': (2,\0 3)}"), "not a .npy array: "),
    "no header": (header("("), "not a .npy array: "),
    "deep header": (header("(" * 9000), "not a .npy array: "),
    "long number": (header("-" * 5000 + "1"), "not a .npy array: "),
    "long header": (header(" " * 20_000, version=2), "found a header of 20,000 bytes, expected at most 10,000"),
    "header longer than the file": (b"\x93NUMPY\x02\0\xff\xff\xff\x7f", "found a header of 2,147,483,647 bytes"),
    "unknown version": (b"\x93NUMPY\x09\0" + bytes(50), "not a .npy array: it starts with "),
    "stops in the header": (b"\x93NUMPY\x01\0\x10", "not a .npy array: "),
    "negative": (shaped("(-1, 3)"), "found the shape (-1, 3), expected whole numbers from 0 on"),
    "boolean": (shaped("(True, 3)"), "found the shape (True, 3), expected whole numbers from 0 on"),
    "too large": (shaped("(2**60, 3)".replace("2**60", str(2**60))), "found the shape (1152921504606846976, 3)"),
    "no columns": (shaped("(2, 0)"), "found no columns, expected at least one"),
    "no rows": (shaped("(0, 2)"), "found no rows, expected at least one"),
    "truncated": (shaped("(3, 3)"), "truncated: found "),
    "one dimension": (shaped("(6,)"), "found an array of shape (6,), expected two dimensions (rows, columns)"),
    "objects": (shaped("(2, 3)", "'|O'"), "found values of type |O, expected numbers"),
    "complex": (shaped("(1, 3)", "'<c16'"), "found values of type <c16, expected numbers"),
    "dates": (shaped("(2, 3)", "'<M8[s]'"), "found values of type <M8[s], expected numbers"),
    "structured": (shaped("(2, 3)", "[('a', '<f8')]"), "found values of type [('a', '<f8')], expected numbers"),
    "within each other": (shaped("(2, 3)", "('<f8', (2,))"), "found values of type |V16, expected numbers"),
    "nothing": (shaped("(2, 3)", "'<U0'"), "found values of type <U0, expected numbers"),
    "fortran and wrong length": (shaped("(9, 9)", fortran="True"), "truncated: found "),
}


@pytest.mark.parametrize(("content", "words"), IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_headers_that_cannot_be(content: bytes, words: str, tmp_path: Path) -> None:
    assert refused(tmp_path / "a.npy", content).startswith(words)
    found = refused(tmp_path / "a.npz", archive(X=content, y=np.arange(2)))
    assert found.startswith("member 'X': ")
    assert refused(tmp_path / "y.npz", archive(X=MATRIX, y=content)).startswith("member 'y': ")


HUGE = np.array([2, 2**62])
SPARSE = {
    "columns": (csr(shape=HUGE), "member 'shape': found 2 rows and 4611686018427387904 columns"),
    "rows": (csr(shape=HUGE[::-1].copy()), "member 'indptr': found"),
    "negative": (csr(shape=np.array([-2, 4])), "member 'shape': found -2 rows and 4 columns"),
    "no rows": (csr(shape=np.array([0, 4])), "found no rows, expected at least one"),
    "no columns": (csr(shape=np.array([12, 0])), "found no feature columns beside the label, expected at least one"),
    "no shape": (csr(shape=np.array(["x"])), "member 'shape': found ['x'], expected rows and columns"),
    "pickled shape": (csr(shape=np.array([{}, {}], dtype=object)), "member 'shape': found |O values"),
    "archive as shape": (csr(shape=archive(X=MATRIX)), "member 'shape': not a .npy array"),
    "format": (csr(format=np.array(b"csc")), "found a sparse matrix of format 'csc', expected 'csr'"),
    "descending": (csr(indptr=np.arange(13)[::-1].copy()), "member 'indptr', rows 1 to 12: found values that descend"),
    "unsigned": (csr(indptr=np.r_[2**63, np.zeros(12)].astype(np.uint64)), "member 'indptr', rows 1 to 12"),
    "beyond": (csr(indptr=np.arange(13) * 1000), "member 'indptr', rows 1 to 12: found values that descend or pass"),
}


@pytest.mark.parametrize(("content", "words"), SPARSE.values(), ids=SPARSE)
def test_sparse_matrices_that_cannot_be(content: bytes, words: str, tmp_path: Path) -> None:
    assert refused(tmp_path / "a.npz", content).startswith(words)


def patched(content: bytes, offset: int, value: bytes) -> bytes:
    """An archive with other bytes in the records of its members, local (from 4 on) and central (from 6 on)."""
    found = bytearray(content)
    for mark, at in ((b"PK\x03\x04", offset), (b"PK\x01\x02", offset + 2)):
        place = found.find(mark)
        while place >= 0:
            found[place + at : place + at + len(value)] = value
            place = found.find(mark, place + 4)
    return bytes(found)


def renamed(content: bytes) -> bytes:
    """The same, of which names say that they are UTF-8, and are not."""
    return patched(content.replace(b"X.npy", b"\xff.npy"), 6, b"\x00\x08")


BAD_ZIPS = {
    "method": (patched(archive(X=MATRIX, y=np.arange(12)), 8, b"\x63\x00"), "member 'y': cannot be read: "),
    "encrypted": (patched(archive(X=MATRIX, y=np.arange(12)), 6, b"\x01\x00"), "member 'y': cannot be read: "),
    "patched data": (patched(archive(X=MATRIX, y=np.arange(12)), 6, b"\x20\x00"), "member 'y': cannot be read: "),
    "version": (
        patched(archive(X=MATRIX, y=np.arange(12)), 4, b"\xff\x00"),
        "not a .npz archive, or a truncated one: ",
    ),
    "name": (renamed(archive(X=MATRIX, y=np.arange(12))), "not a .npz archive, or a truncated one: "),
    "labels are no characters": (
        archive(X=MATRIX, y=shaped("(12,)", "'<U1'").replace(bytes(48), b"\xff\xff\xff\x7f" * 12)),
        "row 1 of member 'y': found 0x7fffffff in the label, expected characters",
    ),
}


@pytest.mark.parametrize(("content", "words"), BAD_ZIPS.values(), ids=BAD_ZIPS)
def test_archives_that_cannot_be_unpacked(content: bytes, words: str, tmp_path: Path) -> None:
    assert refused(tmp_path / "a.npz", content).startswith(words)


def test_of_two_members_with_a_name_the_last_counts(tmp_path: Path) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as packed, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of zipfile, about what is being done here
        for X in (MATRIX, MATRIX + 1):
            packed.writestr("X.npy", npy(X))
        packed.writestr("y.npy", npy(np.arange(12)))
    source = opened(write(tmp_path / "a.npz", out.getvalue()))
    (block,) = source.read(source.fragments()[0])
    assert np.array_equal(block.X, np.load(tmp_path / "a.npz")["X"])


def peak(url: str) -> int:
    tracemalloc.start()
    try:
        read_all(opened(url))
    except InputError:
        pass
    finally:
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return found


def test_bombs_are_read_in_bounded_memory(tmp_path: Path, small_sizes: SmallSizes) -> None:
    """1 to 2 MB of file, hundreds of MB of contents."""
    rows = 16 << 20
    zeros = bytes(8 * rows)
    described = "{{'descr': '{}', 'fortran_order': False, 'shape': ({},)}}\n"
    none = {"data": np.zeros(0), "indices": np.zeros(0, dtype=int), "shape": np.array([rows, 3])}
    pointers = header(described.format("<i8", rows + 1), 8) + zeros
    labels = header(described.format("|u1", rows), rows)
    empty = archive(method=zipfile.ZIP_DEFLATED, indptr=pointers, y=labels, **none)
    long = header(described.format("<U4000000", 8), 128_000_000)
    wide = archive(method=zipfile.ZIP_DEFLATED, X=np.zeros((8, 3)), y=long)
    assert max(map(len, (empty, wide))) < 2 << 20
    assert peak(write(tmp_path / "empty.npz", empty)) < 100 << 20
    assert peak(write(tmp_path / "wide.npz", wide)) < 100 << 20
    small_sizes.longest_row(16 << 20)
    assert peak(write(tmp_path / "line.csv.gz", gzip.compress(b"a,class\n1," + zeros, 1))) < 4 * limits.LONGEST_ROW


def test_rows_much_longer_than_the_others_come_in_blocks_of_fewer(tmp_path: Path) -> None:
    lengths = np.r_[np.ones(500, dtype=int), np.full(20, 900), np.ones(500, dtype=int)]
    indices = np.concatenate([np.arange(n) for n in lengths])
    matrix = sp.csr_array((np.arange(1.0, indices.size + 1), indices, np.r_[0, np.cumsum(lengths)]), shape=(1020, 900))
    content = csr(data=matrix.data, indices=matrix.indices, indptr=matrix.indptr, shape=np.array(matrix.shape),
                  y=np.arange(1020))  # fmt: skip
    source = opened(write(tmp_path / "a.npz", content), sizes=Sizes(block=12_000))
    blocks = list(source.read(source.fragments()[0]))
    assert max(sparse_rows(block.X).nnz for block in blocks) <= 4000
    assert np.array_equal(sp.vstack([block.X for block in blocks]).toarray(), matrix.toarray())
    assert np.concatenate([block.y for block in blocks]).tolist() == list(range(1020))
    assert [block.first_line for block in source.read(source.fragments()[0], skip=3)] == [
        block.first_line for block in blocks[3:]
    ]


TYPES: dict[str, pa.Array] = {
    "list": pa.array([[1], [2], [3]]),
    "struct": pa.array([{"a": 1}, {"a": 2}, {"a": 3}]),
    "map": pa.array([[("a", 1)]] * 3, pa.map_(pa.string(), pa.int64())),
    "binary": pa.array([b"a", b"b", b"\xff"]),
    "nested nulls": pa.array([None, [None], None], pa.list_(pa.null())),
}
READ: dict[str, pa.Array] = {
    "null": pa.nulls(3),
    "timestamp": pa.array([0, 1, 2], pa.timestamp("us")),
    "date beyond Python": pa.array([2**31 - 1, 1, 2], pa.int32()).cast(pa.date32()),
    "text": pa.array(["a", "b", "c"]),
    "in a dictionary": pa.array([1, 2, 1]).dictionary_encode(),
    "half": pa.array(np.array([1, 2, 3], dtype=np.float16)),
    "wide decimal": pa.array([1, 2, 3]).cast(pa.decimal256(50, 2)),
    "decimal": pa.array([1, 2, 3]).cast(pa.decimal128(30, 5)),
    "bool": pa.array([True, False, True]),
    "uint64": pa.array([1, 2, 2**64 - 1], pa.uint64()),
}


@pytest.mark.parametrize("name", [*TYPES, *READ])
def test_types_of_parquet(name: str, tmp_path: Path) -> None:
    """Every type is read as numbers, words or times, or refused in one line."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": [1.0, 2.0, 3.0], "odd": {**TYPES, **READ}[name], "y": [0, 1, 0]}), path)
    if name in READ:
        assert read_all(opened(str(path))) == 3
    else:
        with pytest.raises(InputError, match=r"^[^\n]*column 'odd': found [^\n]*$"):
            read_all(opened(str(path)))


def test_what_arrow_cannot_cast_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinds, "kind_of_type", lambda _: NUMBER)
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"odd": TYPES["struct"], "y": [0, 1, 0]}), path)
    with pytest.raises(InputError, match=r"column 'odd': found values of type struct<.*>, expected numbers"):
        read_all(opened(str(path)))


def test_tables_without_columns_or_rows(tmp_path: Path) -> None:
    def parquet_of(found: pa.Table) -> bytes:
        out = io.BytesIO()
        pq.write_table(found, out)
        return out.getvalue()

    none = pa.table({"a": [1.0]}).select([])
    assert refused(tmp_path / "a.parquet", parquet_of(none)).startswith("found no columns, expected features")
    empty = pa.table({"a": pa.array([], pa.float64()), "y": pa.array([], pa.int64())})
    assert refused(tmp_path / "b.parquet", parquet_of(empty)) == "found no rows, expected at least one"
    assert refused(tmp_path / "a.csv", b"class\n1\n0\n").startswith("found no feature columns beside the label")
    assert refused(tmp_path / "b.csv", b"\n\n") == "found no rows, expected a table"
    assert refused(tmp_path / "c.csv", b'""\n""\n').startswith("found no feature columns beside the label")
    assert refused(tmp_path / "a.npz", archive(X=np.zeros((3, 0)), y=np.arange(3))).startswith("member 'X': found no")
    assert refused(tmp_path / "d.npz", archive()).startswith("no member 'y' with the labels; the members are none")
    assert read_all(opened(write(tmp_path / "a.libsvm", b"1\n0\n"))) == 2  # ingest tells that nothing is in them


def test_names_are_compared_in_one_pass(tmp_path: Path) -> None:
    """Not a timed test: comparing each of 40,000 names with those before it would take half a minute."""
    n = 40_000
    names = [f"c{j}" for j in range(n)]
    numbers = ",".join(["0.5"] * n)
    url = write(tmp_path / "a.csv", f"{','.join(names)},class\n{numbers},1\n{numbers},0\n".encode())
    source = opened(url)
    assert source.n_columns == n
    (block,) = source.read(source.fragments()[0])
    assert block.X.shape == (2, n)
    assert block.y is not None
    assert block.y.tolist() == [1, 0]
    names[-1] = names[7]
    found = refused(tmp_path / "b.csv", f"{','.join(names)},class\n{numbers},1\n".encode())
    assert found == f"line 1: column name 'c7' appears twice (columns 8 and {n}), expected different names"


def test_columns_have_a_limit_that_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_text, "MOST_COLUMNS", 3)
    monkeypatch.setattr(parquet, "MOST_COLUMNS", 2)
    found = refused(tmp_path / "a.csv", b"a,b,c,y\n1,2,3,4\n")
    assert found.startswith("line 1: found 4 columns, expected at most 3 in text; give LIBSVM text")
    found = refused(tmp_path / "a.parquet", table())
    assert found.startswith("found 3 columns, expected at most 2 in Parquet, of which each takes about 10 kB")


ODD_CELLS = ["1_000", " 2 ", "+.5", "1e3", "nan", "1e999", "\u0661", "x", "", "0x1", "1.", "-0"]


@pytest.mark.parametrize("cell", ODD_CELLS)
@pytest.mark.parametrize("text_labels", [False, True])
def test_wide_tables_are_read_as_narrow_ones(
    cell: str, text_labels: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Row by row, with the same values and the same words."""
    labels = ("x\u00e9_", "y") if text_labels else ("1", "0")
    rows = "".join(f"{a},{a / 3!r},{labels[a % 2]}\n" for a in range(6))
    url = write(tmp_path / "a.csv", f"a,b,class\n{rows}7,{cell},{labels[0]}\n{rows}".encode())

    def read() -> Any:
        try:
            source = opened(url)
            blocks = list(source.read(source.fragments()[0]))
            return [(block.X.tobytes(), block.y.tolist(), block.y.dtype) for block in blocks if block.y is not None]
        except InputError as error:
            return str(error)

    narrow = read()
    monkeypatch.setattr(table_plan, "WIDE", 0)
    assert read() == narrow


def test_a_worker_takes_shorter_lines(tmp_path: Path) -> None:
    url = write(tmp_path / "a.libsvm", b"1 1:1\n" * 3 + b"1 1:1" + b" " * (11 << 20) + b"\n")
    with on_worker(64 << 20):
        assert limits.longest_row() == 2 << 20
        with pytest.raises(InputError) as error:
            read_all(opened(url))
        found = refused(tmp_path / "a.npy", shaped("(1, 400000)"))
    assert str(error.value) == (
        f"{url}: line 4: found a line longer than 2,097,152 bytes, a 32nd part of --memory-limit, expected text in "
        "lines"
    )
    assert found.startswith("found a row of 3,200,000 bytes, expected at most 2,097,152, a 32nd part of --memory-limit")
    assert limits.longest_row() == limits.LONGEST_ROW


def test_lines_are_counted_from_the_start_of_the_file(
    tmp_path: Path, small_sizes: SmallSizes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a later fragment of a file too, plain and in bzip2."""
    monkeypatch.setattr(bzip2, "LEAST_BYTES", 1 << 16)
    small_sizes.longest_row(1 << 20)
    text = b"1 1:1\n" * 1000 + b"1 1:1" + b" " * (3 << 20) + b"\n"
    url = write(tmp_path / "a.libsvm", text)
    with pytest.raises(InputError, match=r"line 1001: found a line longer than 1,048,576 bytes"):
        read_all(opened(url, sizes=Sizes(1000, 500)))
    rng = np.random.default_rng(0)
    lines = b"".join(b"1 1:%.17g 2:%.17g\n" % (a, b) for a, b in rng.random((12_000, 2)))
    packed = bz2.compress(lines + b"1 1:1" + b" " * (3 << 20) + b"\n", 1)  # in blocks of 100 kB
    source = opened(write(tmp_path / "a.libsvm.bz2", packed), sizes=Sizes(block=100_000))
    assert len(source.fragments()) > 1
    with pytest.raises(InputError, match=r"line 12001: found a line longer than 1,048,576 bytes"):
        read_all(source)
    quoted = b"a,class\n" + b"1,x\n" * 100 + b'1,"' + b"x\n" * (1 << 20)
    said = refused(tmp_path / "a.csv", quoted, sizes=Sizes(block=300))
    assert said.startswith("line 102: found a quote, here or before, that is not closed within 1,048,576 bytes")
    long = b"\n\na" * 2 + b"," * (2 << 20)
    assert refused(tmp_path / "b.csv", long).startswith("line 5: found a line longer than 1,048,576 bytes")
