"""Text packed by Zstandard, which the standard library cannot unpack: Arrow does. It goes forward only."""

from __future__ import annotations

from typing import BinaryIO

import pyarrow as pa

from pipeline.errors import in_one_line
from pipeline.sources.files.forward import ForwardFile


class ZstdFile(ForwardFile):
    """The unpacked content of another stream.

    Raises
    ------
    EOFError
        On reading: the packed data stop before their end.
    OSError
        On reading: they are damaged.
    """

    WHAT = "packed text"

    def __init__(self, stream: BinaryIO) -> None:
        self._unpacked = pa.CompressedInputStream(pa.PythonFile(stream, mode="r"), "zstd")

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        try:
            data = self._unpacked.read(len(buffer))
        except OSError as error:
            if "truncated" in str(error).lower():
                raise EOFError from error
            raise OSError(f"damaged: {in_one_line(error, most=None)}") from error
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)
