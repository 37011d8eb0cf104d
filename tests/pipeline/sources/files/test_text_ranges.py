"""CSV text in byte ranges: blocks, lines and errors are those of the file read as one, whatever stands in quotes."""

from __future__ import annotations

import gzip
import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipeline.errors import InputError
from pipeline.sources import Sizes, Source
from pipeline.sources.columns.read_request import CsvFormat
from pipeline.sources.files import text_ranges
from pipeline.sources.files.file import File, find_file
from pipeline.sources.files.records import Quotes, text_blocks
from pipeline.sources.files.text_ranges import range_blocks, record_ranges
from tests.naive import readers
from tests.support.calls import counted
from tests.support.narrow import present
from tests.support.opening import opened

HEAD = b"number,word,kind\n"
COMMAS = Quotes(",")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ranges")


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Count few bytes at a time, and keep no survey of another test's file."""
    monkeypatch.setattr(text_ranges, "_PIECE", 7)
    monkeypatch.setattr(text_ranges, "_SEARCH", 3)
    text_ranges._survey.cache_clear()
    yield
    text_ranges._survey.cache_clear()


def file_of(path: Path, content: bytes) -> File:
    path.write_bytes(content)
    text_ranges._survey.cache_clear()  # two files may be written within the clock's tick
    return find_file(str(path))


def blocks_of(file: File, start: int, range_bytes: int, block_bytes: int) -> list[tuple[int, bytes]]:
    ranges = record_ranges(file, start, 1, range_bytes, block_bytes, quotes=COMMAS)
    return [block for part in ranges for block in range_blocks(file, part, start, block_bytes, quotes=COMMAS)]


texts = st.one_of(
    st.text('ab,"\n\r é', min_size=1, max_size=120),
    st.lists(st.sampled_from(["a", ",", '"', "\n", "\r\n", '"\n"', '""', "x" * 30, '"' + "y\n" * 20 + '"']), min_size=1)
    .map("".join),
)  # fmt: skip


@pytest.mark.slow
@settings(max_examples=80)
@given(
    text=texts.map(str.encode),
    start=st.integers(0, 5),
    blocks_per_range=st.integers(1, 5),
    block_bytes=st.integers(1, 40),
    more=st.integers(0, 39),
)
@example(text=b'a\n"' + b"\n" * 99, start=0, blocks_per_range=1, block_bytes=3, more=0)
@example(text=b'a\n"\n\n\n\n\n\n\n\n\n\n"\nb\nc', start=0, blocks_per_range=1, block_bytes=4, more=0)
@example(text=b"\n" * 50, start=3, blocks_per_range=2, block_bytes=1, more=0)
@example(text=b"a" * 50, start=0, blocks_per_range=2, block_bytes=7, more=0)
@example(text=b'27" a,b\n' * 20, start=0, blocks_per_range=1, block_bytes=7, more=0)
@example(text=b'"a""b"" ""\n",c\n' * 9, start=0, blocks_per_range=1, block_bytes=1, more=0)
def test_blocks_are_those_of_the_whole_file(
    folder: Path, text: bytes, start: int, blocks_per_range: int, block_bytes: int, more: int
) -> None:
    start = min(start, len(text) - 1)
    file = file_of(folder / "a.csv", text)
    expected = readers.csv_blocks(text[start:], block_bytes)
    with file.open() as stream:
        stream.seek(start)
        assert list(text_blocks(stream, file.url, start, None, block_bytes, quotes=COMMAS)) == expected
    range_bytes = blocks_per_range * block_bytes + more % block_bytes
    assert blocks_of(file, start, range_bytes, block_bytes) == expected
    ranges = record_ranges(file, start, 1, range_bytes, block_bytes, quotes=COMMAS)
    ends = readers.csv_record_ends(text[start:])
    records = b"".join(block for _, block in expected)
    for part in ranges[1:]:  # it starts where a record does, and knows its line
        before = records[: part.start - start]
        assert len(before) in ends
        assert part.line == 1 + before.count(b"\n")
        assert part.start < len(text)


def test_many_records_become_many_ranges(folder: Path) -> None:
    file = file_of(folder / "many.csv", b'a,"b\nc"\n' * 1000)
    ranges = record_ranges(file, 0, 1, 400, 100, quotes=COMMAS)
    assert len(ranges) == 20
    assert [part.stop for part in ranges] == list(range(400, 8001, 400))
    assert [part.start for part in ranges] == list(range(0, 8000, 400))
    assert [part.line for part in ranges] == list(range(1, 2001, 100))


@pytest.mark.parametrize("word", [b'27" monitor', b'a "', b'""'])
def test_a_quote_that_opens_no_cell_holds_no_line_end(folder: Path, word: bytes) -> None:
    """One of them in a file made one block of all rows behind it."""
    rows = [b"a,b,x\n"] * 500
    without = file_of(folder / "without.csv", b"".join([b"-" * len(word) + b",b,x\n", *rows]))
    expected = record_ranges(without, 0, 1, 400, 100, quotes=COMMAS)
    file = file_of(folder / "within.csv", b"".join([word + b",b,x\n", *rows]))
    assert record_ranges(file, 0, 1, 400, 100, quotes=COMMAS) == expected
    assert len(expected) == -(-file.size // 400)
    sizes = [len(text) for _, text in blocks_of(file, 0, 400, 100)]
    assert max(sizes) <= 106
    source = opened(str(file.path), label="2", sizes=Sizes(400, 100), csv=CsvFormat(header=False))
    assert sum(block.X.shape[0] for fragment in source.fragments() for block in source.read(fragment)) == 501


def test_a_file_no_larger_than_a_range_is_not_surveyed(folder: Path) -> None:
    file = file_of(folder / "small.csv", b"a,b\n" * 100)
    packed = file_of(folder / "large.csv.gz", gzip.compress(os.urandom(4000)))
    with counted(text_ranges._look) as counts:
        assert record_ranges(file, 0, 5, 400, 100, quotes=COMMAS) == ((0, None, 5),)
        assert record_ranges(packed, 0, 5, 400, 100, quotes=COMMAS) == ((0, None, 5),)
    assert counts.number == 0


def test_the_survey_is_done_once_for_each_state_of_a_file(folder: Path) -> None:
    path = folder / "once.csv"
    file = file_of(path, b"a,b\n" * 100)
    with counted(text_ranges._look, note=lambda of: of["begin"]) as counts:
        first = record_ranges(file, 0, 1, 40, 10, quotes=COMMAS)
        assert record_ranges(find_file(str(path)), 0, 1, 40, 10, quotes=COMMAS) == first
        assert sorted(counts.notes) == list(range(0, 400, 40))
        path.write_bytes(b"a,b,c,d\n" * 50)  # of the same size
        os.utime(path, ns=(0, 10**9))
        assert record_ranges(find_file(str(path)), 0, 1, 40, 10, quotes=COMMAS) != first
    assert counts.number == 20


def test_memory_is_that_of_pieces(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_ranges, "_PIECE", 1 << 16)
    monkeypatch.setattr(text_ranges, "_SEARCH", 1 << 12)
    file = file_of(folder / "large.csv", b'a,"b\n",c\n' * 1_600_000)
    tracemalloc.start()
    ranges = record_ranges(file, 0, 1, 2 << 20, 1 << 16, quotes=COMMAS)
    surveyed = tracemalloc.get_traced_memory()[1]
    n_blocks = sum(1 for part in ranges for _ in range_blocks(file, part, 0, 1 << 16, quotes=COMMAS))
    read = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (len(ranges), n_blocks) == (7, 220)
    assert surveyed < 2 << 20  # a buffer of 1 MiB, pieces of 64 KiB
    assert read < 3 << 20  # a buffer of 1 MiB, some blocks of 64 KiB


@st.composite
def tables(draw: st.DrawFn) -> bytes:
    """Rows of a number, a word and a kind; quoted words may have line ends, delimiters and quotes."""
    end = draw(st.sampled_from(["\n", "\r\n"]))
    lines = []
    words = st.text('ab ,é"\n', max_size=12).map(lambda word: '"' + word.replace('"', '""') + '"')
    for _ in range(draw(st.integers(1, 25))):
        word = draw(st.one_of(st.sampled_from(["a", "b", "ccc"]), words))
        lines.append(f"{draw(st.integers(-99, 99))},{word},{draw(st.sampled_from('xy'))}")
        lines += [""] * draw(st.sampled_from([0, 0, 0, 1, 3]))
    mark = draw(st.sampled_from(["", "\ufeff"]))
    return (mark + HEAD.decode() + end.join(lines) + draw(st.sampled_from(["", end]))).encode()


def rows_of(source: Source) -> list[tuple[object, ...]]:
    """Cells, label, line and size of each block, as they are."""
    rows: list[tuple[object, ...]] = []
    for fragment in source.fragments():
        blocks = [
            (block.X.tobytes(), block.levels, present(block.y).tolist(), block.first_line, block.n_bytes)
            for block in source.read(fragment)
            if isinstance(block.X, np.ndarray)
        ]
        skipped = list(source.read(fragment, skip=1))
        assert [(block.first_line, block.n_bytes) for block in skipped] == [block[3:] for block in blocks[1:]]
        rows += blocks
    return rows


@pytest.mark.slow
@settings(max_examples=50)
@given(text=tables(), block_bytes=st.integers(20, 90), blocks_per_range=st.integers(1, 4))
def test_rows_are_those_of_the_whole_file(folder: Path, text: bytes, block_bytes: int, blocks_per_range: int) -> None:
    path = folder / "t.csv"
    file_of(path, text)
    expected = rows_of(opened(str(path), label="kind", sizes=Sizes(1 << 20, block_bytes)))
    assert rows_of(opened(str(path), label="kind", sizes=Sizes(blocks_per_range * block_bytes, block_bytes))) == (
        expected
    )
    packed = folder / "t.csv.gz"
    packed.write_bytes(gzip.compress(text))
    assert rows_of(opened(str(packed), label="kind", sizes=Sizes(block_bytes, block_bytes))) == expected


def test_several_files_are_cut_one_by_one(folder: Path) -> None:
    rows = [b'%d,"w\n%d",%s\n' % (k, k % 3, b"xy"[k % 2 : k % 2 + 1]) for k in range(200)]
    (folder / "files").mkdir()
    for k in range(3):
        (folder / "files" / f"{k}.csv").write_bytes(HEAD + b"".join(rows[: 60 * (k + 1)]))
    source = opened(str(folder / "files"), label="kind", sizes=Sizes(300, 100))
    fragments = source.fragments()
    assert [fragment.number for fragment in fragments] == list(range(len(fragments)))
    assert {fragment.file for fragment in fragments} == {0, 1, 2}
    read = [(block.url, block.X.shape[0]) for fragment in fragments for block in source.read(fragment)]
    for k in range(3):
        url = str(folder / "files" / f"{k}.csv")
        assert sum(n for of, n in read if of == url) == 60 * (k + 1)


FAULTS = [
    (b"oops,a,x", "line {line}, column 'number': found 'oops', expected a number"),
    (b"1,a", "line {line}: found 2 cells, expected 3"),
    (b"1,a,", "line {line}, column 'kind': found an empty cell, expected a label"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("row", "words"), FAULTS)
@pytest.mark.parametrize("at", [0, 207, 399])
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_faults_have_their_line_in_the_file(folder: Path, row: bytes, words: str, at: int, ending: str) -> None:
    good = [b"%d,word %d,%s" % (k, k % 5, b"xy"[k % 2 : k % 2 + 1]) for k in range(400)]
    if "label" not in words:  # such rows are counted by lines
        good[5] = b'5,"two\nlines",x'
    head = HEAD + b"\n".join(good[:50]) + b"\n"  # so that the kinds of columns are known
    rows = [*good[:at], row, *good[at + 1 :]]
    text = head + b"\n".join(rows) + b"\n"
    line = 1 + (head + b"\n".join([*rows[:at], b""])).count(b"\n")
    path = folder / f"faults.csv{ending}"
    path.write_bytes(gzip.compress(text) if ending else text)
    text_ranges._survey.cache_clear()
    for sizes in (Sizes(), Sizes(2000, 500), Sizes(500, 500), Sizes(64, 16)):
        source = opened(str(path), label="kind", sizes=sizes, csv=CsvFormat(encoding="utf-8" if ending else None))
        with pytest.raises(InputError) as error:
            rows_of(source)
        assert str(error.value).startswith(f"{path}: {words.format(line=line)}")
