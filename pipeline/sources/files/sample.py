"""Samples of text from all over a file, which tell of what kind its columns are further down."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.sources.files.file import File
from pipeline.sources.files.text_ranges import is_divisible

SAMPLE_ROWS = 10_000
"""Most rows from the start of a file that tell of what kind its columns are."""
STRETCHES, STRETCH_BYTES = 8, 64 * 1024
"""Number of places behind the first rows from which text is taken, and bytes of text from each."""


def stretches(file: File, behind: int) -> Iterator[tuple[int, bytes]]:
    """Yield the byte at which some text begins, and its whole lines, from places that are spread over a file.

    Nothing is yielded where reading from the middle is not nearly free: of a file that is remote, compressed or in
    another encoding. The first line of a stretch may stand within quotes.

    Parameters
    ----------
    behind : int
        Byte behind the first rows, where the first stretch is taken.
    """
    if not is_divisible(file) or behind >= file.size:
        return
    with file.open() as stream:
        for k in range(STRETCHES):
            start = behind + (file.size - behind) * k // STRETCHES
            stream.seek(start)
            text = stream.read(STRETCH_BYTES)
            begin = text.find(b"\n") + 1
            end = len(text) if start + len(text) >= file.size else text.rfind(b"\n") + 1
            if 0 < begin < end:
                yield start + begin, text[begin:end]
