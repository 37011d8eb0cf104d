"""Text packed by Zstandard, which the standard library cannot unpack: Arrow does. It goes forward only."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa

CHUNK = 1 << 20


class ZstdFile(io.RawIOBase):
    """What another stream holds, unpacked.

    Raises
    ------
    EOFError
        On reading: the packed data stop before their end.
    OSError
        On reading: they are damaged.
    """

    def __init__(self, stream: Any) -> None:
        self._unpacked = pa.CompressedInputStream(pa.PythonFile(stream, mode="r"), "zstd")
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = 0) -> int:
        target = offset if whence == 0 else self._at + offset
        if whence == 2 or target < self._at:
            raise io.UnsupportedOperation("packed text is read forwards")
        while self._at < target and self.read(min(CHUNK, target - self._at)):
            pass
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        try:
            found = self._unpacked.read(len(buffer))
        except OSError as error:
            if "truncated" in str(error).lower():
                raise EOFError from error
            raise OSError(f"damaged: {' '.join(str(error).split())}") from error
        buffer[: len(found)] = found
        self._at += len(found)
        return len(found)
