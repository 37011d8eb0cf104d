"""LIBSVM text: against a reference parser, cut anywhere, with every fault by its words."""

from __future__ import annotations

import bz2
import gzip
import itertools
import lzma
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipeline.errors import InputError
from pipeline.sources import RawRows, Sizes, Source
from tests.naive.readers import libsvm_rows
from tests.support.at_once import AtOnce
from tests.support.narrow import csr, present
from tests.support.opening import opened
from tests.support.sizes import SmallSizes

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".bz2": bz2.compress,
    ".gz": gzip.compress,
    ".xz": lzma.compress,
}

digits = st.text("0123456789", min_size=1, max_size=25)
numbers = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.floats(-1e6, 1e6).map(lambda v: f"{v:+.3f}"),
    st.integers(-(10**6), 10**6).map(str),
    st.builds(
        "{}{}.{}{}".format,
        st.sampled_from(["", "+", "-"]),
        digits,
        digits | st.just(""),
        st.integers(-30, 30).map(lambda e: f"e{e}") | st.integers(0, 30).map(lambda e: f"E+{e}") | st.just(""),
    ),
    digits.map(lambda d: "." + d),
)
spaces = st.sampled_from([" ", " ", "  ", "\t", " \t "])


@st.composite
def rows(draw: st.DrawFn) -> str:
    row = draw(numbers) + draw(st.sampled_from(["", " qid:7", "\tqid:12"]))
    for index in sorted(draw(st.sets(st.integers(1, 60), max_size=6))):
        row += f"{draw(spaces)}{index}:{draw(numbers)}"
    return row + draw(st.sampled_from(["", " ", "\t", " # 3:4 comment", "#"]))


blanks = st.sampled_from(["", "  ", "# a comment 1:2", "\t#"])


@st.composite
def texts(draw: st.DrawFn) -> bytes:
    lines = draw(st.lists(rows() | blanks, max_size=12))
    lines.insert(draw(st.integers(0, len(lines))), draw(rows()))
    end = draw(st.sampled_from(["\n", "\r\n"]))
    return (end.join(lines) + draw(st.sampled_from(["", end]))).encode()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("libsvm")


def write(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    return str(path)


def read_all(source: Source) -> list[RawRows]:
    return [block for fragment in source.fragments() for block in source.read(fragment)]


def rows_of(blocks: list[RawRows]) -> list[tuple[float, dict[int, float]]]:
    found = []
    for block in blocks:
        X, y = csr(block.X), present(block.y)
        assert X.indices.dtype == np.int32
        assert X.data.dtype == y.dtype == np.float64
        assert X.shape[0] == len(y)
        for i, (a, b) in enumerate(itertools.pairwise(X.indptr)):
            assert (np.diff(X.indices[a:b]) > 0).all()
            pairs = dict(zip(X.indices[a:b].tolist(), X.data[a:b].tolist(), strict=True))
            found.append((float(y[i]), pairs))
    return found


def bits(found: list[tuple[float, dict[int, float]]]) -> list[tuple[str, dict[int, str]]]:
    """Values by ``float.hex``: -0.0 differs from 0.0."""
    return [(label.hex(), {i: v.hex() for i, v in row.items()}) for label, row in found]


def same(a: RawRows, b: RawRows) -> bool:
    return (
        a.first_line == b.first_line
        and a.n_bytes == b.n_bytes
        and np.array_equal(present(a.y), present(b.y))
        and a.X.shape == b.X.shape
        and all(np.array_equal(getattr(a.X, p), getattr(b.X, p)) for p in ("data", "indices", "indptr"))
    )


@pytest.mark.slow
@given(text=texts(), fragment_bytes=st.integers(1, 200), block_bytes=st.integers(1, 80))
@example(text=b"1", fragment_bytes=1, block_bytes=1)
@example(text=b"-0 1:-0.0", fragment_bytes=3, block_bytes=2)
@example(text=b"1 1:18446744073709551616 2:0.0000000000000000000000001", fragment_bytes=9, block_bytes=9)
@example(text=b"9007199254740993 1:9007199254740992e22 2:1e23", fragment_bytes=9, block_bytes=9)
def test_equals_the_reference_however_it_is_cut(
    folder: Path, text: bytes, fragment_bytes: int, block_bytes: int
) -> None:
    expected = bits(libsvm_rows(text))
    url = write(folder / "a.libsvm", text)
    source = opened(url, sizes=Sizes(fragment_bytes, block_bytes))
    fragments = source.fragments()
    assert [fragment.number for fragment in fragments] == list(range(-(-len(text) // fragment_bytes)))
    blocks = read_all(source)
    assert bits(rows_of(blocks)) == expected
    assert sum(block.n_bytes for block in blocks) == len(text)

    # Without fragments, the blocks of a compressed file are those of the plain one.
    whole = opened(url, sizes=Sizes(len(text), block_bytes))
    plain = read_all(whole)
    for ending in (".bz2", ".gz", ".xz"):
        url = write(folder / f"a.libsvm{ending}", COMPRESS[ending](text))
        packed = opened(url, sizes=Sizes(block=block_bytes))
        assert len(packed.fragments()) == 1
        blocks = read_all(packed)
        assert len(blocks) == len(plain)
        assert all(map(same, blocks, plain))


@pytest.mark.slow
@given(text=texts(), fragment_bytes=st.integers(1, 200), block_bytes=st.integers(1, 80), skip=st.integers(0, 9))
def test_skip_leaves_out_the_first_blocks(
    folder: Path, text: bytes, fragment_bytes: int, block_bytes: int, skip: int
) -> None:
    url = write(folder / "skip.libsvm", text)
    source = opened(url, sizes=Sizes(fragment_bytes, block_bytes))
    for fragment in source.fragments():
        expected = list(source.read(fragment))[skip:]
        blocks = list(source.read(fragment, skip=skip))
        assert len(blocks) == len(expected)
        assert all(map(same, blocks, expected))


@pytest.mark.slow
@settings(max_examples=100)
@given(st.lists(numbers, min_size=1, max_size=20))
def test_values_are_those_of_python(folder: Path, values: list[str]) -> None:
    finite = [v for v in values if np.isfinite(float(v))] or ["1"]
    text = "1 " + " ".join(f"{j}:{v}" for j, v in enumerate(finite, start=1))
    (block,) = read_all(opened(write(folder / "v.libsvm", text.encode())))
    assert [v.hex() for v in csr(block.X).data.tolist()] == [float(v).hex() for v in finite]


def test_skipped_blocks_are_not_parsed(folder: Path) -> None:
    url = write(folder / "bad-start.libsvm", b"1 1:2\n" + b"1 1:x\n" + b"1 3:4\n")
    source = opened(url, sizes=Sizes(block=6))
    blocks = list(source.read(source.fragments()[0], skip=2))
    assert [b.first_line for b in blocks] == [3]
    assert rows_of(blocks) == [(1.0, {2: 4.0})]


def test_shape_and_options(folder: Path) -> None:
    url = write(folder / "z.libsvm", b"3\n1.5 0:1 7:2\n")
    (block,) = read_all(opened(url, zero_based=True))
    assert block.X.shape == (2, 8)
    assert present(block.y).tolist() == [3.0, 1.5]
    source = opened(url, zero_based=True, n_columns=10)
    assert source.sparse
    assert source.n_columns == 10
    assert read_all(source)[0].X.shape == (2, 10)
    assert opened(url).n_columns is None


FAULTS = [
    (b"\x89PNG\r\n\x1a\n\0\0", "line 1, column 1: found '\\x89PNG', expected a number (the label)"),
    (b"1 1:2\n5.1,3.5,setosa\n", "line 2, column 1: found '5.1,3.5,setosa', expected a number (the label)"),
    (b"1 0.5 0.25\n", "line 1, column 3: found '0.5', expected index:value"),
    (b"1 1:2\n\n#\n1 2:3 x:4\n", "line 4, column 7: found 'x:4', expected index:value"),
    (b"1 1:2 -3:4\n", "line 1, column 7: found '-3:4', expected index:value"),
    (b"1 1:2 3\n", "line 1, column 7: found '3', expected index:value"),
    (b"1 1:2 qid:3\n", "line 1, column 7: found 'qid:3', expected index:value"),
    (b"1 qid:x 1:2\n", "line 1, column 3: found 'qid:x', expected qid:N with a whole number N"),
    (b"1 1:2\n1 5:\n", "line 2, column 5: found '' for index 5, expected a number"),
    (b"1 1:2e\n", "line 1, column 5: found '2e' for index 1, expected a number"),
    (b"1 1:1_0\n", "line 1, column 5: found '1_0' for index 1, expected a number"),
    (b"1 1:0x1\n", "line 1, column 5: found '0x1' for index 1, expected a number"),
    (b"1 1:.\n", "line 1, column 5: found '.' for index 1, expected a number"),
    (b"1 0:1\n", "line 1, column 3: found index 0, expected indices from 1 on"),
    (b"1 4:1 3:1\n", "line 1, column 7: found index 3 after index 4, expected ascending indices"),
    (b"1 4:1 4:1\n", "line 1, column 7: found index 4 after index 4, expected ascending indices"),
    (b"1 1:2\n1 3:nan\n", "line 2, column 5: found 'nan' for index 3, expected a finite number"),
    (b"1 3:-INF\n", "line 1, column 5: found '-INF' for index 3, expected a finite number"),
    (b"1 3:1e400 4:x\n", "line 1, column 5: found '1e400' for index 3, expected a finite number"),
    (b"nan 1:2\n", "line 1, column 1: found 'nan', expected a finite number (the label)"),
    (b"1 1:2\n1e999\n", "line 2, column 1: found '1e999', expected a finite number (the label)"),
    (b"1 2147483648:1\n", "line 1, column 3: found index 2147483648, expected at most 2147483647"),
    (b"1 99999999999999999999999:1\n", "line 1, column 3: found index 99999999999999999999999, expected at most 2147483647"),  # noqa: E501
    (b"hello\n", "line 1, column 1: found 'hello', expected a number (the label)"),
    (b"1 1:" + b"9" * 50 + b"x", "line 1, column 5: found '" + "9" * 40 + "...' for index 1, expected a number"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "words"), FAULTS)
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_faults(folder: Path, text: bytes, words: str, ending: str) -> None:
    url = write(folder / f"fault.libsvm{ending}", COMPRESS[ending](text))
    with pytest.raises(InputError) as error:
        read_all(opened(url))
    assert str(error.value) == f"{url}: {words}"


def test_line_is_that_of_the_file_in_any_piece(folder: Path) -> None:
    lines = [b"1 1:2 3:4"] * 40
    for at in (0, 7, 23, 39):
        url = write(folder / "line.libsvm", b"\n".join([*lines[:at], b"1 3:oops", *lines[at + 1 :]]))
        for fragment_bytes in (5, 10, 64, 1000):
            source = opened(url, sizes=Sizes(fragment_bytes, 13))
            words = f"line {at + 1}, column 5: found 'oops' for index 3, expected a number"
            with pytest.raises(InputError) as error:
                read_all(source)
            assert str(error.value) == f"{url}: {words}"


def test_more_columns_than_the_training_data(folder: Path) -> None:
    url = write(folder / "wide.libsvm", b"1 54:1\n" * 16 + b"1 3:1 55:1\n")
    assert read_all(opened(url, n_columns=55))[0].X.shape == (17, 55)
    with pytest.raises(InputError) as error:
        read_all(opened(url, n_columns=54))
    assert str(error.value) == (
        f"{url}: line 17: column 55, but the training data has 54 columns; give data with the same columns"
    )
    with pytest.raises(InputError, match="line 1: column 55, but the training data has 54 columns"):
        read_all(opened(url, n_columns=54, zero_based=True))


@pytest.mark.parametrize("text", [b"\n\n", b"# only\n#comments", b"   \r\n", b"#" + b"x" * (3 << 20)])
def test_no_rows(folder: Path, text: bytes) -> None:
    url = write(folder / "none.libsvm", text)
    with pytest.raises(InputError) as error:
        opened(url)
    assert str(error.value) == f"{url}: found no rows, expected LIBSVM text"


def test_endless_line(folder: Path, small_sizes: SmallSizes) -> None:
    small_sizes.longest_row(1000)
    url = write(folder / "endless.libsvm", b"1 1:1 " + b" " * 5000)
    with pytest.raises(InputError) as error:
        read_all(opened(url, sizes=Sizes(block=100)))
    assert str(error.value) == f"{url}: line 1: found a line longer than 1,000 bytes, expected text in lines"


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_memory_does_not_grow_with_the_file(folder: Path, ending: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipeline.sources.files.read_ahead.ThreadPoolExecutor", AtOnce)
    peaks = []
    for n_rows in (80_000, 320_000):
        text = b"1 1:0.5 2:0.25 7:1 9:0.125\n" * n_rows
        url = write(folder / f"large.libsvm{ending}", COMPRESS[ending](text))
        source = opened(url, sizes=Sizes(block=1 << 16))
        read = 0
        tracemalloc.start()
        for fragment in source.fragments():
            for block in source.read(fragment):
                read += block.X.shape[0]
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert read == n_rows
    assert peaks[1] < peaks[0] + (1 << 16)
    assert peaks[1] < 6 << 20  # buffers of 1 MiB, some blocks of 64 KiB
