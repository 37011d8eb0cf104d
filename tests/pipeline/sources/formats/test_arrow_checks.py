"""Record batches from outside are validated before anything looks into them; what Arrow raises is one line."""

from __future__ import annotations

import io
import os
import signal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ikmap.tables.frames import columns_of
from pipeline.errors import InputError
from pipeline.sources import ReadRequest
from pipeline.sources.feeds.directory import DirectoryFeed
from pipeline.sources.formats.arrow_checks import checked_batch
from tests.support.damaged_files import HUGE, Outcome, outcomes
from tests.support.opening import opened

CODES = np.array([3, 2, 1, 0] * 10, dtype=np.int32)
WORDS = pa.DictionaryArray.from_arrays(pa.array(CODES), ["a", "b", "c", "d"])
TABLE = pa.table({"x": np.arange(40.0), "word": WORDS, "y": np.arange(40) % 2})


def ipc(table: pa.Table) -> bytes:
    out = io.BytesIO()
    with pa.ipc.new_file(out, table.schema) as writer:
        writer.write_table(table, max_chunksize=20)
    return out.getvalue()


def read(url: Path) -> int:
    source = opened(str(url))
    return sum(block.X.shape[0] for fragment in source.fragments() for block in source.read(fragment))


def test_a_code_that_no_word_has(tmp_path: Path) -> None:
    """Unvalidated, Arrow would take the word from memory that is not there."""
    path, whole = tmp_path / "a.arrow", ipc(TABLE)
    path.write_bytes(whole)
    assert read(path) == 40
    codes = CODES[:20].tobytes()
    second = whole.index(codes, whole.index(codes) + 1)
    path.write_bytes(whole[:second] + (77).to_bytes(4, "little") + whole[second + 4 :])
    with pytest.raises(InputError) as error:
        read(path)
    assert str(error.value).startswith(f"{path}: record batch 2: damaged: ")
    assert "77" in str(error.value)
    assert str(error.value).endswith("; copy or download it again")
    assert "\n" not in str(error.value)


def flipped(path: Path) -> None:
    """Write a Parquet file with checksums of its pages, and one wrong number in the second row group."""
    values = np.arange(40.0)
    table = pa.table({"x": values, "y": np.arange(40) % 2})
    pq.write_table(
        table, path, row_group_size=20, compression="none", use_dictionary=False, write_page_checksum=True,
        column_encoding="PLAIN",
    )  # fmt: skip
    whole, number = bytearray(path.read_bytes()), values[25:26].tobytes()
    whole[whole.index(number) + 1] ^= 1
    path.write_bytes(whole)


def test_checksums_of_parquet_pages(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    flipped(path)
    with pytest.raises(InputError, match=r"a.parquet: row group 2: damaged: .*(CRC|checksum)") as error:
        read(path)
    assert "\n" not in str(error.value)
    source = opened(str(path))
    with pytest.raises(InputError, match=r"a.parquet: row group 2: damaged: .*(CRC|checksum)"):
        list(source.read(source.fragments()[0]))


def test_files_of_a_stream_are_checked_too(tmp_path: Path) -> None:
    flipped(tmp_path / "a.parquet")
    (tmp_path / "_SUCCESS").touch()
    feed = DirectoryFeed(str(tmp_path), "auto", ReadRequest(), 1.0, print)
    with pytest.raises(InputError, match=r"a.parquet: row group 2: damaged: "):
        list(feed.arrivals({}))


ERRORS: list[BaseException] = [
    pa.ArrowInvalid("two\nlines"), pa.ArrowKeyError("k"), pa.ArrowNotImplementedError("n"), pa.ArrowMemoryError("m"),
    NotImplementedError("n"), MemoryError("malloc of size 1 failed"), IndexError("i"), KeyError("k"), OSError("o"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid"), OverflowError("large"), ValueError("v"), MemoryError(),
]  # fmt: skip


@pytest.mark.parametrize("error", ERRORS, ids=[f"{type(error).__name__} {error}"[:30] for error in ERRORS])
def test_whatever_arrow_raises_is_one_line(error: BaseException) -> None:
    def fails() -> pa.RecordBatch:
        raise error

    with pytest.raises(InputError) as found:
        checked_batch("file.arrow: record batch 3", fails)
    said = str(found.value)
    assert said.startswith("file.arrow: record batch 3: damaged: ")
    assert said.endswith("; copy or download it again")
    assert "\n" not in said
    assert ("more memory" in said) == isinstance(error, MemoryError)


def test_other_errors_are_not_hidden() -> None:
    def fails() -> pa.RecordBatch:
        raise InputError("remote.arrow: cut off")

    with pytest.raises(InputError, match=r"^remote.arrow: cut off$"):
        checked_batch("x", fails)


def test_tables_in_memory_are_checked() -> None:
    offsets = pa.py_buffer(np.array([0, 1000, 2], dtype=np.int32).tobytes())
    words = pa.StringArray.from_buffers(2, offsets, pa.py_buffer(b"ab"))
    with pytest.raises(ValueError, match=r"^column 'word': damaged: "):
        list(columns_of(pa.table({"word": words}), ["word"]))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "mutants"),
    [
        *[("arrow words", 16), ("arrow lz4", 6), ("parquet words", 6), ("npz sparse", 4), ("libsvm", 4), ("csv", 4)],
        *[("arrow stream", 6), ("orc words", 6), ("json lines words", 6), ("arff words", 6), ("sqlite words", 6)],
    ],
)
def test_a_sample_of_damaged_files(kind: str, mutants: int) -> None:
    """All of them: ``python -m tests.soaks.damaged_files``. Unvalidated, numbers 8 and 15 of "arrow words" crash."""
    found = dict(outcomes(kind, mutants, seed=0))
    assert found.pop(-1).what == "read"
    assert len(found) == mutants
    assert {number: outcome for number, outcome in found.items() if not outcome.good} == {}


def dies(path: Path, number: int) -> Outcome:  # noqa: ARG001
    """In place of a reader: end the process, take much memory, or read."""
    if number == 1:
        os.kill(os.getpid(), signal.SIGSEGV)
    if number == 2:
        np.ones(HUGE // 8 + (16 << 17))
    return Outcome("read")


@pytest.mark.slow
def test_the_harness_sees_processes_that_die_and_take_memory() -> None:
    found = [outcome.what for _, outcome in outcomes("csv", 4, 0, dies)]
    assert found[:3] + found[4:] == ["read", "read", "died", "read"]
    assert found[3] == "memory" or not Path("/proc/self/clear_refs").exists()
