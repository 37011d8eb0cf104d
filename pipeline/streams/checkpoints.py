"""States that go from chunk to chunk of a stream: in memory between two tasks, and in a checkpoint now and then."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from pipeline.storage.durable import flush, read_arrays, reading, taken, write_arrays
from pipeline.storage.lru_cache import PROCESS, LRUCache

SHARE = 0.05
"""Share of its time that a state may spend on checkpoints."""
_NEXT = "next_chunk"


@dataclass(frozen=True)
class Place:
    """A state that goes through a stream, as this process and its checkpoint know it.

    Attributes
    ----------
    run : str
        Id of the run.
    file : str
        Path of the checkpoint.
    """

    run: str
    file: str


@dataclass
class Kept[S]:
    """A state between two tasks.

    Attributes
    ----------
    state : object
    chunks : int
        Number of chunks that it has gone through.
    since : float
        Seconds of work since the last checkpoint.
    cost : float
        Seconds that writing the last checkpoint took.
    """

    state: S
    chunks: int
    since: float = 0.0
    cost: float = 0.0


class Checkpoints[S]:
    """States of one kind, of which this process keeps those that it used last.

    Another process takes up the checkpoint of a state, and goes over the chunks since then again. So a checkpoint is
    written when writing takes little time compared with that.

    Parameters
    ----------
    most : int
        Number of states that are kept.
    """

    def __init__(self, most: int) -> None:
        self._kept: LRUCache[Place, Kept[S]] = PROCESS.keeps(most)

    def take(self, place: Place, chunks: int) -> Kept[S] | None:
        """Remove and return the state after so many chunks, or None if this process does not have it."""
        # Taken out, not copied: a task that fails half-way must not leave a state that has learned too much.
        kept = self._kept.take(place)
        return kept if kept is not None and kept.chunks == chunks else None

    def keep(self, place: Place, kept: Kept[S]) -> None:
        """Keep a state in this process."""
        self._kept.put(place, kept)

    def pass_on(
        self, place: Place, kept: Kept[S], seconds: float, arrays: Callable[[], Mapping[str, np.ndarray]]
    ) -> None:
        """Keep a state after another chunk, which took so many seconds; write a checkpoint of `arrays` if it is due."""
        kept.chunks, kept.since = kept.chunks + 1, kept.since + seconds
        if kept.cost <= SHARE * kept.since:
            began = time.perf_counter()
            write_checkpoint(place, kept.chunks, arrays())
            kept.since, kept.cost = 0.0, time.perf_counter() - began
        self.keep(place, kept)


def write_checkpoint(place: Place, chunks: int, arrays: Mapping[str, np.ndarray]) -> None:
    """Write the arrays of a state after so many chunks, once what those have left is on the disk."""
    flush(taken())
    write_arrays(place.file, {**arrays, _NEXT: np.array(chunks)}, place.run)


def read_checkpoint(place: Place) -> tuple[int, dict[str, np.ndarray]]:
    """Return the number of chunks before the checkpoint, and the arrays of the state."""
    arrays = read_arrays(place.file, place.run)
    with reading(place.file):
        return int(arrays.pop(_NEXT)), arrays
