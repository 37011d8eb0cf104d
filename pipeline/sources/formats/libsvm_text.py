"""LIBSVM text by its first lines: whether a file is such, which is asked of every file whose name does not tell."""

from __future__ import annotations

import re

from pipeline.sources.files.file import File
from pipeline.sources.files.limits import MEBIBYTE


def looks_like_libsvm(line: bytes) -> bool:
    """Return whether the first tokens of a line are those of LIBSVM text."""
    tokens = line.partition(b"#")[0].split()[:50]
    if not tokens:
        return False
    pair = re.compile(rb"(qid|\d+):[^\s|]+")  # nor is a time of day in text that | divides
    return _parses(tokens[0]) and all(pair.fullmatch(token) for token in tokens[1:])


def _parses(token: bytes) -> bool:
    try:
        float(token)
    except ValueError:
        return False
    return True


def first_row(file: File, limit: int = MEBIBYTE) -> bytes:
    """The first line (at most `limit` bytes) that is neither blank nor a comment; empty if there is none."""
    with file.open() as stream:
        comment = False
        while part := stream.readline(limit):
            stripped = part.strip()
            if not comment and stripped and not stripped.startswith(b"#"):
                return part
            # A long comment comes in several parts.
            comment = not part.endswith(b"\n") and (comment or stripped.startswith(b"#"))
    return b""
