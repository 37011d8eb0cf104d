"""Streams that are made of another one as it is read, and so only go forward."""

from __future__ import annotations

import io
from typing import ClassVar

from pipeline.sources.files.limits import MEBIBYTE


class ForwardFile(io.RawIOBase):
    """A stream that seeks by reading on; a subclass reads, and counts in `_at` the bytes that it gave out."""

    WHAT: ClassVar[str]
    """Words for what is read, for messages."""

    _at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = 0) -> int:
        target = offset if whence == 0 else self._at + offset
        if whence == 2 or target < self._at:
            raise io.UnsupportedOperation(f"{self.WHAT} is read forwards")
        while self._at < target and self.read(min(MEBIBYTE, target - self._at)):
            pass
        return self._at
