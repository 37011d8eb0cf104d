"""A directory that grows: files of one format, written elsewhere and renamed into it, in order of name."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from pipeline.errors import InputError, NoRows
from pipeline.sources.columns.read_request import ReadRequest
from pipeline.sources.feeds.feed import TICK_SECONDS, Arrival, Feed
from pipeline.sources.files.lakehouse import refuse_inside
from pipeline.sources.named import Named, data_files
from pipeline.sources.open import opened_file
from pipeline.sources.source import Source
from pipeline.urls import Location

IDLE_SECONDS = 60.0
END = "_SUCCESS"
"""A file of this name says that no more will come."""


class DirectoryFeed(Feed):
    """Rows of the files in a directory, and of those that will be there.

    Parameters
    ----------
    path : str
    format : str
    request : ReadRequest
    idle_seconds : float
        The end is reached when no file has come for so long.
    say : callable
        Function that shows one line to the user, such as of a file that comes too late.
    """

    replays = False

    def __init__(
        self,
        path: str,
        format: str,
        request: ReadRequest,
        idle_seconds: float,
        say: Callable[[str], None],
    ) -> None:
        self.url = path.rstrip("/") or "/"
        self._folder = Path(path).expanduser().absolute()
        self._format, self._request = format, request
        self._idle_seconds, self._say = idle_seconds, say

    def arrivals(self, taken: Mapping[str, int]) -> Iterator[Arrival | None]:
        """Yield arrivals as :meth:`Feed.arrivals` does, after the last row that was taken in before."""
        refuse_inside([self._folder])
        seen = set(taken)
        last = list(taken)[-1] if taken else None
        if last is not None:
            yield from self._rows(last, taken[last])
        since = time.monotonic()
        while True:
            ended = (self._folder / END).exists()  # asked first: files renamed before it are then listed
            new = [name for name in data_files(seen.union(self._listed())) if name not in seen]
            for name in filter(self._has_bytes, new):
                seen.add(name)
                if last is not None and name < last:
                    self._say(f"{self.url}/{name}: came when {last} was taken in already, and is left out")
                    continue
                last = name
                yield from self._rows(name, 0)
                since = time.monotonic()
                break  # what has come while it was read may sort before the others
            else:
                if ended or time.monotonic() - since > self._idle_seconds:
                    return
                time.sleep(TICK_SECONDS)
                yield None

    def _listed(self) -> list[str]:
        """Names of the files that are there."""
        try:
            with os.scandir(self._folder) as entries:
                return [entry.name for entry in entries if entry.is_file()]
        except OSError as error:
            raise InputError(f"{self.url}: cannot be read: {error.strerror}") from error

    def _has_bytes(self, name: str) -> bool:
        """Return whether anything is in a file; an empty one may be filled later."""
        try:
            return (self._folder / name).stat().st_size > 0
        except OSError:  # opening it says what is wrong
            return True

    def _rows(self, name: str, skip: int) -> Iterator[Arrival]:
        """Rows of a file but the first `skip`."""
        source = self._open(name)
        row = 1
        if source is None:
            return
        for fragment in source.fragments():
            for block in source.read(fragment):
                arrival = Arrival.of(source, name, row, block)
                row += arrival.rows
                if row > skip + 1:
                    yield arrival.part(max(0, arrival.rows - (row - 1 - skip)), arrival.rows)

    def _open(self, name: str) -> Source | None:
        """Return a file, opened, which must have the columns of those before; None if it has no row."""
        url = f"{self.url}/{name}"
        request = self._request_like_known(self._request)
        try:
            file = opened_file(Named(Location(url)), self._format, request)
        except NoRows:
            return None
        except InputError as error:
            raise InputError(f"{error} (write files elsewhere and rename them into the directory)") from error
        if self.source is not None and file.format != self.source.format:
            raise InputError(
                f"{url}: found a file of format {file.format}, expected {self.source.format} as {self.source.url} "
                "is; give files of one format"
            )
        return self._planned(url, file, request)
