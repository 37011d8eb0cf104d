"""bzip2 in fragments: together they hold every line once, wherever blocks and lines begin and end."""

from __future__ import annotations

import bz2
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from pipeline.errors import InputError
from pipeline.sources import Sizes
from pipeline.sources.files import bzip2
from pipeline.sources.files.file import File, find_file
from tests.support.narrow import csr
from tests.support.opening import opened

RNG = np.random.default_rng(0)


def text(n_lines: int, longest: int) -> bytes:
    """Lines of any length, some empty, that hardly compress."""
    lines = [RNG.integers(33, 126, size=n, dtype=np.uint8).tobytes() for n in RNG.integers(longest, size=n_lines)]
    return b"\n".join(lines) + b"\n"


def fragments(file: File, n: int) -> list[bytes]:
    starts = [k * file.size // n for k in range(n + 1)]
    return [bzip2.lines_of_fragment(file, a, b).read() for a, b in pairwise(starts)]


def written(path: Path, content: bytes) -> File:
    path.write_bytes(content)
    return find_file(str(path))


STREAMS: dict[str, Callable[[], bytes]] = {
    "short lines": lambda: bz2.compress(text(20_000, 80), 1),
    "lines longer than blocks": lambda: bz2.compress(text(6, 400_000), 1),
    "no end of line": lambda: bz2.compress(text(5, 150_000)[:-1], 1),
    "one line": lambda: bz2.compress(b"1 " * 200_000, 1),
    "several streams": lambda: b"".join(bz2.compress(text(3000, 80), level) for level in (1, 9, 2)),
    "an empty stream between": lambda: (
        bz2.compress(text(3000, 80), 1) + bz2.compress(b"") + bz2.compress(text(3000, 80), 1)
    ),
    "blocks that end with a line": lambda: b"".join(bz2.compress(b"x" * 999 + b"\n") for _ in range(50)),
    "zeros": lambda: bz2.compress(b"\n" * 5_000_000, 1),
}


@cache
def stream(kind: str) -> bytes:
    """Return a compressed stream, made when it is first wanted: every process of a session imports this file."""
    return STREAMS[kind]()


@pytest.mark.slow
@pytest.mark.parametrize("n", [1, 2, 3, 7, 40])
@pytest.mark.parametrize("kind", list(STREAMS))
def test_pieces_hold_every_line_once(kind: str, n: int, tmp_path: Path) -> None:
    whole = bz2.decompress(stream(kind))
    found = fragments(written(tmp_path / "a.bz2", stream(kind)), n)
    assert b"".join(found) == whole
    assert all(fragment.endswith(b"\n") for fragment in found[:-1] if fragment and not whole.endswith(fragment))


def test_every_mark_is_found_at_every_bit() -> None:
    for bit in range(8):
        for mark, begins in ((bzip2._BLOCK, True), (bzip2._END, False)):
            n = 8 * 20
            data = ((mark << (n - 48 - 16 - bit)) | (1 << (n - 1))).to_bytes(20)
            assert bzip2._marks(data) == [(16 + bit, begins)]
            assert bzip2._marks(data[2:]) == [(bit, begins)]
            assert bzip2._marks(data[3:]) == []


def test_a_mark_by_chance_within_a_block_is_seen_through() -> None:
    content = text(100, 80)
    data = bz2.compress(content)
    begin, end = bzip2._marks(data)
    assert bzip2._decompress(data, [begin, (begin[0] + 999, True), end]) == (content, 2)


@pytest.mark.parametrize(
    ("size", "n"), [(1, 1), (1 << 20, 2), (3 << 19, 3), (1 << 24, 16), (1 << 27, 16), (1 << 30, 128)]
)
def test_pieces_are_cut_by_the_size_of_the_file(size: int, n: int) -> None:
    starts = bzip2.fragment_starts(size)
    assert (starts[0], starts[-1], len(starts)) == (0, size, n + 1)
    assert max(np.diff(starts)) <= bzip2.MOST_BYTES


@pytest.fixture
def libsvm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """The same rows plain, and in bzip2 that is read in several fragments."""
    monkeypatch.setattr(bzip2, "LEAST_BYTES", 20_000)
    rows = [
        " ".join(["1", *(f"{j}:{v:.6f}" for j, v in enumerate(x, start=1))]) for x in RNG.random((5000, 6)).tolist()
    ]
    plain, packed = tmp_path / "rows", tmp_path / "rows.bz2"
    plain.write_text("\n".join(rows) + "\n")
    packed.write_bytes(bz2.compress(plain.read_bytes(), 1))
    return plain, packed


def read(path: Path, **options: Any) -> list[Any]:
    source = opened(str(path), "libsvm", **options)
    return [block for fragment in source.fragments() for block in source.read(fragment)]


def test_rows_are_those_of_the_plain_file(libsvm: tuple[Path, Path]) -> None:
    plain, packed = (read(path, sizes=Sizes(block=20_000)) for path in libsvm)
    assert len(opened(str(libsvm[1]), "libsvm").fragments()) > 2
    expected, found = (sp.vstack([block.X for block in blocks if block.X.shape[0]]) for blocks in (plain, packed))
    assert found.shape == expected.shape
    assert (found != expected).nnz == 0
    source = opened(str(libsvm[1]), "libsvm", sizes=Sizes(block=20_000))
    for fragment in source.fragments():
        blocks = [csr(block.X).toarray().tobytes() for block in source.read(fragment)]
        assert [csr(block.X).toarray().tobytes() for block in source.read(fragment, skip=1)] == blocks[1:]


@pytest.mark.parametrize("line", [1, 2400, 5000])
def test_a_fault_is_named_by_its_line_in_the_file(line: int, libsvm: tuple[Path, Path]) -> None:
    lines = libsvm[0].read_bytes().splitlines()
    lines[line - 1] = b"1 x"
    libsvm[1].write_bytes(bz2.compress(b"\n".join(lines), 1))
    with pytest.raises(InputError, match=rf"rows\.bz2: line {line}, column 3: found 'x', expected index:value"):
        read(libsvm[1])


def test_damaged_and_truncated_files_are_told(libsvm: tuple[Path, Path]) -> None:
    packed = libsvm[1].read_bytes()
    for at in (len(packed) // 3, 4 * len(packed) // 5):
        damaged = bytearray(packed)
        damaged[at] ^= 16
        libsvm[1].write_bytes(damaged)
        with pytest.raises(InputError, match=r"rows\.bz2: damaged: invalid bz2 data"):
            read(libsvm[1])
    libsvm[1].write_bytes(packed[:-20])
    with pytest.raises(InputError, match=r"rows\.bz2: truncated"):
        read(libsvm[1])
