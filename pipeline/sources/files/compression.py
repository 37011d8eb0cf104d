"""Compressions of whole files: the endings of their names, how their content begins, and what unpacks them."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Compression:
    """One way of compressing files.

    Attributes
    ----------
    magic : bytes
        How the content of its files begins.
    unpacked : callable
        Returns the stream of what another stream holds, unpacked.
    """

    magic: bytes
    unpacked: Callable[[io.BufferedReader], Any]


def _zstd(raw: io.BufferedReader) -> io.RawIOBase:
    from pipeline.sources.files.zstandard import ZstdFile

    return ZstdFile(raw)


COMPRESSIONS = {
    "bz2": Compression(b"BZh", bz2.BZ2File),
    "xz": Compression(b"\xfd7zXZ\x00", lzma.LZMAFile),
    "gz": Compression(b"\x1f\x8b", lambda raw: gzip.GzipFile(fileobj=raw, mode="rb")),
    "zst": Compression(b"\x28\xb5\x2f\xfd", _zstd),
}
"""Compressions by the ending of a name, in the order in which compressed files are looked for."""
ENDINGS = tuple(f".{name}" for name in COMPRESSIONS)
_ENDING = re.compile(rf"\.({'|'.join(COMPRESSIONS)})$", re.IGNORECASE)


def without_ending(name: str) -> str:
    """Return the name of a file without the ending that tells how it is compressed."""
    return _ENDING.sub("", name)


def compression_of(start: bytes) -> str | None:
    """Return how a file is compressed whose content begins so; None: it is not."""
    return next((name for name, each in COMPRESSIONS.items() if start.startswith(each.magic)), None)
