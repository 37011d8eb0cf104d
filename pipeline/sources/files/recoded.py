"""Text in another encoding, read as UTF-8 while it streams by."""

from __future__ import annotations

import codecs
import io
from typing import TYPE_CHECKING

from pipeline.errors import InputError
from pipeline.sources.files.forward import ForwardFile
from pipeline.sources.files.limits import MEBIBYTE

_MARKS = ((codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
FALLBACK = "cp1252"
"""Encoding of text that is not UTF-8: the usual one of Western Windows, which has Latin-1 in it."""


if TYPE_CHECKING:
    from _typeshed import SupportsRead


class _Utf8(ForwardFile):
    """A stream of UTF-8 over one in another encoding."""

    WHAT = "recoded text"

    def __init__(self, stream: SupportsRead[bytes], encoding: str, url: str) -> None:
        self._stream, self._encoding, self._url = stream, encoding, url
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._ready, self._ended = b"", False

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._ready and not self._ended:
            raw = self._stream.read(MEBIBYTE)
            self._ended = not raw
            try:
                self._ready = self._decoder.decode(raw, final=self._ended).encode()
            except UnicodeError as error:
                raise InputError(
                    f"{self._url}: not {self._encoding} text ({error}); write it as UTF-8: iconv -f ENCODING -t utf-8 "
                    "FILE > NEW"
                ) from error
        n = min(len(buffer), len(self._ready))
        buffer[:n] = self._ready[:n]
        self._ready = self._ready[n:]
        self._at += n
        return n


def as_utf8(stream: SupportsRead[bytes], encoding: str, url: str) -> io.BufferedReader:
    """A stream as UTF-8."""
    return io.BufferedReader(_Utf8(stream, encoding, url), MEBIBYTE)


def encoding_of(start: bytes) -> str | None:
    """The encoding of text by how it begins; None: UTF-8."""
    for mark, name in _MARKS:
        if start.startswith(mark):
            return name
    try:
        start.decode()
    except UnicodeDecodeError as error:
        if error.start > len(start) - 4 or b"\0" in start:  # cut in the middle of a character; no text
            return None
        try:
            start.decode(FALLBACK)
        except UnicodeDecodeError:
            return None
        return FALLBACK
    return None
