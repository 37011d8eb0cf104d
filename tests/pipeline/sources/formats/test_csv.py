"""CSV and TSV: against a reference parser, header and label rules, and every fault by its words."""

from __future__ import annotations

import gzip
import io
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import InputError
from pipeline.sources import RawRows, Sizes, Source
from pipeline.sources.columns import table_plan
from pipeline.sources.columns.request import TableRequest
from pipeline.sources.formats.csv import CsvTable
from pipeline.sources.formats.csv_text import SAMPLE_BYTES, first_records, records
from tests.naive.readers import csv_cells
from tests.support.at_once import AtOnce
from tests.support.narrow import present
from tests.support.opening import opened
from tests.support.sizes import SmallSizes


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("csv")


def write(path: Path, content: str | bytes) -> str:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


def read_all(source: Source) -> list[RawRows]:
    return [block for fragment in source.fragments() for block in source.read(fragment)]


def joined(blocks: list[RawRows]) -> tuple[np.ndarray, np.ndarray | None]:
    for block in blocks:
        assert block.X.dtype == np.float64
        assert block.X.flags.c_contiguous
    y = None if blocks[0].y is None else np.concatenate([block.y for block in blocks])
    return np.concatenate([block.X for block in blocks]), y


numbers = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.integers(-(10**20), 10**20).map(str),
    st.floats(-100, 100).map(lambda v: f" {v:+.4f} "),
    st.sampled_from(["1.", ".5", "-0", "1E5", "1e-400", "00012", "123456789012345678901234567890"]),
)
names = st.text('abcé,;\t\n" x', max_size=5)


@st.composite
def tables(draw: st.DrawFn) -> tuple[str, str, bool, int, bool]:
    """(text, delimiter, header, position of the label, labels are text)."""
    delimiter = draw(st.sampled_from(",\t;"))
    d, n = draw(st.integers(1, 4)), draw(st.integers(1, 12))
    at = draw(st.integers(0, d))
    header, as_text = draw(st.booleans()), draw(st.booleans())
    kind = names.map(lambda s: "l" + s + "l") if as_text else numbers

    def cell(text: str) -> str:
        # The first record tells the delimiter: another one in the plain text of it would be as good.
        special = f'{delimiter}\n"' if any(lines) else ',\t;\n"'
        if draw(st.booleans()) or any(c in text for c in special):
            return '"' + text.replace('"', '""') + '"'
        return text

    lines: list[str] = []
    for _ in range(n):
        lines += [""] * draw(st.integers(0, 4)) if draw(st.integers(0, 9)) == 0 else []
        lines.append(delimiter.join(cell(draw(kind if j == at else numbers)) for j in range(d + 1)))
    if header:
        lines.insert(0, delimiter.join("Class" if j == at else f'"x{delimiter}{j}"' for j in range(d + 1)))
    end = draw(st.sampled_from(["\n", "\r\n"]))
    return end.join(lines) + draw(st.sampled_from(["", end])), delimiter, header, at, as_text


@pytest.mark.slow
@given(table=tables(), block_bytes=st.integers(1, 100), skip=st.integers(0, 5))
def test_equals_the_reference_however_it_is_cut(
    folder: Path, table: tuple[str, str, bool, int, bool], block_bytes: int, skip: int
) -> None:
    text, delimiter, header, at, as_text = table
    records = csv_cells(text, delimiter)[header:]
    name = "a.tsv" if delimiter == "\t" else "a.csv"
    url = write(folder / name, text)
    source = opened(url, label=at, sizes=Sizes(block=block_bytes))
    (file,) = source.files
    assert isinstance(file, CsvTable)
    assert file.delimiter == delimiter
    assert (source.column_names is not None) == header
    blocks = read_all(source)
    X, labels_read = joined(blocks)
    y = present(labels_read)
    expected = [[float(c) for j, c in enumerate(record) if j != at] for record in records]
    assert [[v.hex() for v in row] for row in X.tolist()] == [[v.hex() for v in row] for row in expected]
    labels = [record[at].strip() for record in records]
    assert y.dtype == (object if as_text else np.float64)
    assert y.tolist() == (labels if as_text else [float(c) for c in labels])

    (fragment,) = source.fragments()
    assert sum(b.n_bytes for b in blocks) == len(text.encode()) - fragment.start
    rest = list(source.read(fragment, skip=skip))
    assert len(rest) == len(blocks[skip:])
    for a, b in zip(rest, blocks[skip:], strict=True):
        assert np.array_equal(a.X, b.X)
        assert np.array_equal(present(a.y), present(b.y))
        assert (a.first_line, a.n_bytes) == (b.first_line, b.n_bytes)

    gz = write(folder / f"{name}.gz", gzip.compress(text.encode()))
    packed = opened(gz, label=at, sizes=Sizes(block=block_bytes))
    again = read_all(packed)
    assert len(again) == len(blocks)
    assert np.array_equal(joined(again)[0], X)
    assert np.array_equal(present(joined(again)[1]), y)


@pytest.mark.parametrize(
    ("text", "names", "n_rows"),
    [
        ("a,b,class\n1,2,x\n", ("a", "b"), 1),
        ("a,TARGET,b\n1,2,3\n", ("a", "b"), 1),
        ("0,1,2,class\n1,2,3,x\n4,5,6,y\n", ("0", "1", "2"), 2),  # numbers for names
        (",a,y\n0,1,2\n1,2,3\n", ("", "a"), 2),  # an unnamed index
        ("?,3,1\n2,4,0\nNA,6,1\n", None, 3),  # what stands for nothing is no name
        ("1,2,3\n4,5,6\n", None, 2),
        ("1,2,setosa\n4,5,setosa\n", None, 2),  # text labels in a headerless table
        ("\n\n1,2,setosa\n", None, 1),
        ("\ufeffa,label\n1,2\n", ("a",), 1),  # a byte order mark
        ("\ufeff1,2\n3,4\n", None, 2),
    ],
)
def test_header_is_recognised(folder: Path, text: str, names: tuple[str, ...] | None, n_rows: int) -> None:
    source = opened(write(folder / "h.csv", text))
    assert source.column_names == names
    assert source.n_columns == read_all(source)[0].X.shape[1]
    assert sum(b.X.shape[0] for b in read_all(source)) == n_rows


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (",text,mood\n0,great movie,good\n1,dull,bad\n", ("", "text")),
        ('"",text,mood\n5,great movie,good\n', ("", "text")),
        ("text,,mood\ngreat movie,5,good\n", ("text", "")),
        (",text,mood\nfirst,great movie,good\n", None),  # a word below: a missing cell of a row
        ("NA,text,mood\n0,great movie,good\n", None),
        (",,mood\n0,1,good\n", None),  # no two columns have the same name
        (",7,mood\n0,great movie,good\n", None),
        (",text,mood\n", None),
        (";a b;c\n1,5;u;v\n", ("", "a b")),
    ],
)
def test_an_index_without_a_name_stands_in_a_header(folder: Path, text: str, names: tuple[str, ...] | None) -> None:
    assert opened(write(folder / "index.csv", text), label="-1").column_names == names


@pytest.mark.parametrize(
    ("label", "names", "y"),
    [
        ("b", ("a", "c", "class"), [2.0]),
        ("-1", ("a", "b", "c"), ["u"]),
        (-4, ("b", "c", "class"), [1.0]),
        ("0", ("b", "c", "class"), [1.0]),
    ],
)
def test_label_by_name_or_position(folder: Path, label: str | int, names: tuple[str, ...], y: list[object]) -> None:
    text = "a,b,c,class\n1,2,3,u\n" if y == ["u"] else "a,b,c,class\n1,2,3,4\n"
    source = opened(write(folder / "l.csv", text), label=label)
    assert source.column_names == names
    assert present(read_all(source)[0].y).tolist() == y


def test_a_name_goes_before_a_position(folder: Path) -> None:
    source = opened(write(folder / "n.csv", "1,0,y\n5,6,7\n"), label="0")
    assert source.column_names == ("1", "y")


def test_scoring_needs_no_label(folder: Path) -> None:
    named = write(folder / "s.csv", "a,b\n1,2\n")
    for label in (None, "clicked"):
        source = opened(named, label=label, require_label=False, n_columns=2)
        (block,) = read_all(source)
        assert block.y is None
        assert block.X.tolist() == [[1.0, 2.0]]
    bare = write(folder / "b.csv", "1,2\n3,4\n")
    assert read_all(opened(bare, require_label=False, n_columns=2))[0].y is None
    assert present(read_all(opened(bare, require_label=False, n_columns=1))[0].y).tolist() == [2.0, 4.0]
    labelled = write(folder / "y.csv", "a,y\n1,2\n")
    assert present(read_all(opened(labelled, require_label=False))[0].y).tolist() == [2.0]


HEAD = "a,b,class\n"
NOT_UTF8 = (
    "found bytes that are not UTF-8, expected {} in UTF-8; convert the file, from Latin-1 for example: "
    "iconv -f latin1 -t utf-8 FILE > NEW"
)
CARRIAGE_RETURN = (
    "found a carriage return in a cell without quotes, expected lines that end in \\n or \\r\\n; where lines end in "
    "\\r alone: tr '\\r' '\\n' < FILE > NEW"
)

OPEN_QUOTE = (
    "found a quote, here or before, that is not closed within 1,000 bytes, expected quotes in pairs; write a cell that "
    'has a quote as "27"" monitor", or leave out all quotes: tr -d \'"\' < FILE > NEW'
)
NO_NUMBER = "found an empty cell or a word of --missing, expected a label"

FAULTS = [
    (HEAD + "1,2,x\n\n1,2,\n", {}, "line 4, column 'class': found an empty cell, expected a label"),
    (HEAD + "1,2,3\n1,2,\n", {}, f"line 3, column 'class': {NO_NUMBER}"),
    (HEAD + "-Inf,1,x\n", {}, "line 2, column 'a': found -inf, expected a finite number"),
    (HEAD + "1,2,nan\n", {}, f"line 2, column 'class': {NO_NUMBER}"),
    (HEAD + "1,2,x\n1,2\n", {}, "line 3: found 2 cells, expected 3"),
    (HEAD + '"1",2,"x\ny"\n1,2,x,4\n', {}, "line 4: found 4 cells, expected 3"),
    ("a,b\n1,2\n", {}, "found no column named label, target, class or y; give --label, one of the columns 'a', 'b'"),
    (HEAD + "1,2,x\n", {"label": "clas"}, "no label column 'clas'; did you mean 'class'? the columns are 'a', 'b', 'class'"),  # noqa: E501
    (HEAD + "1,2,x\n", {"label": "zzz"}, "no label column 'zzz'; the columns are 'a', 'b', 'class'"),
    (HEAD + "1,2,x\n", {"label": 3}, "no label column '3'; the columns are 'a', 'b', 'class'"),
    ("1,2\n", {"label": "b"}, "no label column 'b'; the file has no header, so give a position from 0 to 1, or -1 for the last"),  # noqa: E501
    ("y,b,class\n1,2,x\n", {}, "columns 'y' and 'class' could each be the label; choose one by its name"),
    (HEAD, {}, "found a header (line 1) but no rows, expected at least one"),
    ("\n\n\n", {}, "found no rows, expected a table"),
    ("a,a,y\n1,2,3\n", {}, "line 1: column name 'a' appears twice (columns 1 and 2), expected different names"),
    ("y\n1\n", {}, "found no feature columns beside the label, expected at least one"),
    (HEAD + "1,2,x\n", {"n_columns": 3}, "found 2 feature columns, but the training data has 3; give data with the same columns"),  # noqa: E501
    (HEAD + "1,2,x\n", {"n_columns": 1}, "found 2 feature columns, but the training data has 1; give data with the same columns"),  # noqa: E501
    (b"a,class\n1,x\n2,\xff\xfe\n", {}, "line 3, column 'class': " + NOT_UTF8.format("text") + ", or train with --encoding cp1252"),  # noqa: E501
    (b"a,class\n1,0\n1\r2,1\n", {}, "line 3: " + CARRIAGE_RETURN),
]  # fmt: skip


@pytest.mark.parametrize(("text", "options", "words"), FAULTS)
@pytest.mark.parametrize("block_bytes", [None, 4])
def test_faults(folder: Path, text: str | bytes, options: dict, words: str, block_bytes: int | None) -> None:
    url = write(folder / "fault.csv", text)
    with pytest.raises(InputError) as error:
        read_all(opened(url, **options, sizes=Sizes(block=block_bytes)))
    assert str(error.value) == f"{url}: {words}"


@pytest.mark.slow
def test_text_after_numeric_labels(folder: Path) -> None:
    rows = f"1.{'0' * 60},2,3\n" * 6000  # beyond the rows that decide what the labels are
    url = write(folder / "late.csv", HEAD + rows + "1,2,cat\n")
    with pytest.raises(InputError) as error:
        read_all(opened(url))
    assert str(error.value) == (
        f"{url}: line 6002, column 'class': found 'cat', expected a number as in the first rows (the label); if "
        "labels are words, train with --category class"
    )


def test_open_quote(folder: Path, small_sizes: SmallSizes) -> None:
    small_sizes.longest_row(1000)
    url = write(folder / "quote.csv", HEAD + '1,2,"x\n' + "1,2,x\n" * 400)
    with pytest.raises(InputError) as error:
        read_all(opened(url, sizes=Sizes(block=100)))
    assert str(error.value) == f"{url}: line 2: {OPEN_QUOTE}"


@pytest.mark.parametrize("quoted", ["", '"x"'])
def test_a_quote_that_stands_for_itself_holds_back_no_row(quoted: str, folder: Path, small_sizes: SmallSizes) -> None:
    """A quote at the beginning of a cell that is never closed still does, and is named."""
    small_sizes.longest_row(1000)
    head = f'\n{HEAD}1,27" monitor,x\n'
    url = write(folder / "inch.csv", head + f"{quoted},2,x\n" * 400)
    source = opened(url, sizes=Sizes(block=100))
    assert source.column_names == ("a", "b")
    assert source.files[0].least_rows() == 401
    assert sum(block.X.shape[0] for block in read_all(source)) == 401
    url = write(folder / "open.csv", head + f"{quoted},2,x\n" * 9 + '3,"monitor,x\n' + "4,5,x\n" * 400)
    with pytest.raises(InputError) as error:
        read_all(opened(url, sizes=Sizes(block=100)))
    where, _, what = str(error.value).removeprefix(f"{url}: line ").partition(": ")
    assert 4 <= int(where) <= 13
    assert what == OPEN_QUOTE


def test_the_first_records_end_where_those_of_the_reader_do(folder: Path) -> None:
    """They are a sample of so many bytes, of whole records."""
    line = b'1,2" x,"a\nb"\n'
    for blank, n in ((b"", 40_000), (b"\r\n" * 200_000, 40_000), (b"\xef\xbb\xbf\n", 3)):
        path = folder / "first.csv"
        path.write_bytes(blank + line * n)
        with path.open("rb") as stream:
            start, at, first, more = first_records(stream, "first.csv", ",;")
        assert (start, at) == (len(blank), 1 + blank.count(b"\n"))
        assert first == line
        assert more == line * min(n - 1, -(-SAMPLE_BYTES // len(line)))
    for text in (b"", b"\n\r\n", b"\n\r"):
        assert first_records(io.BufferedReader(io.BytesIO(text)), "none.csv", ",")[2:] == (b"", b"")
    assert first_records(io.BufferedReader(io.BytesIO(b"\na,b")), "a.csv", ",") == (1, 2, b"a,b", b"")


@pytest.mark.parametrize(("delimiter", "point"), [(",", "."), (";", ","), ("\t", ".")])
@pytest.mark.parametrize("block", [None, 8])
@pytest.mark.parametrize("wide", [False, True])
def test_numbers_that_stand_for_nothing(
    delimiter: str, point: str, block: int | None, wide: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They do whatever stands beside them, in the cell and in the rows of their block."""
    if wide:
        monkeypatch.setattr(table_plan, "WIDE", 0)
    meant = {"39": 39.0, "-999": None, " -999": None, "-999 ": None, '"-999"': None, "NA": None, "-9990": -9990.0,
             f" -999{point}0": -999.0, " 0": None, f" 0{point}5": 0.5}  # fmt: skip
    plain = {"39": 39.0, "-999": None, f"0{point}5": 0.5, " -9990": -9990.0}
    request = TableRequest(missing=("-999", "NA", "0"))
    for cells in (meant, plain, plain | {"NA": None}):
        lines = [delimiter.join((cell, f"0{point}5", "1")) for cell in cells]
        url = write(folder / "missing.csv", "\n".join([delimiter.join("abY"), *lines, ""]))
        source = opened(url, label="Y", request=request, sizes=Sizes(block=block))
        assert isinstance(source.plan.columns, int) == wide
        X = np.concatenate([block.X for block in read_all(source)])
        assert [None if v != v else v for v in X[:, 0].tolist()] == list(cells.values())
        assert set(X[:, 1].tolist()) == {0.5}


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("cells", ["1,2,-999", '"1",2,-999', "1,2, -999", '"1",2, -999 '])
def test_a_label_that_stands_for_nothing_is_none(
    wide: bool, cells: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if wide:
        monkeypatch.setattr(table_plan, "WIDE", 0)
    url = write(folder / "label.csv", f"{HEAD}1,2,3\n{cells}\n")
    with pytest.raises(InputError) as error:
        read_all(opened(url, request=TableRequest(missing=("-999",))))
    assert str(error.value) == f"{url}: line 3, column 'class': {NO_NUMBER}"


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_memory_does_not_grow_with_the_file(folder: Path, ending: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.sources.files.read_ahead.ThreadPoolExecutor", AtOnce)
    peaks = []
    for n_rows in (20_000, 80_000):
        text = ("a,b,c,class\n" + "1.25,2.5,3,x\n" * n_rows).encode()
        url = write(folder / f"large.csv{ending}", gzip.compress(text) if ending else text)
        source = opened(url, sizes=Sizes(block=1 << 14))
        read = 0
        tracemalloc.start()
        for block in source.read(source.fragments()[0]):
            read += block.X.shape[0]
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert read == n_rows
    assert peaks[1] < peaks[0] + (1 << 17)
    assert peaks[1] < 6 << 20


def test_a_cell_may_be_longer_than_the_csv_module_takes_by_itself(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    text = "x" * 300_000
    path.write_text("text,a,y\n" + "".join(f"{text if k == 2 else 'short'},{k},{k % 2}\n" for k in range(20)))
    assert [row[1][0] for row in records(path.read_bytes(), "long.csv", ",", 1)][3] == text
