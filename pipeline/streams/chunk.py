"""What a learner sees of a chunk of a stream: cells that were made for all learners, or rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ikmap.cells import Cells
from pipeline.rows.stream_data import Stream
from pipeline.streams.grow import cells_of_chunk
from pipeline.streams.participant import Participant


@dataclass(frozen=True)
class Chunk:
    """What a learner sees of a chunk.

    Attributes
    ----------
    rows : Cells, float64 ndarray or csr_array; ndarray of int32
        The last are cells of a map that grows.
    block_rows : int
    offsets : ndarray of int64, shape (blocks + 1, t + 1)
        Of a map that grows, before the first block and after each; else empty.
    own : bool
        They are rows whose cells the state itself looks for (:class:`~pipeline.streams.redraw.Redrawing`).
    """

    rows: Any
    block_rows: int
    offsets: np.ndarray
    own: bool = False

    def known(self, block: int, stream: Stream, participant: Participant) -> np.ndarray | None:
        """Offsets of the cells that there are before a block; -1: after the last. None: the learner is given rows."""
        if self.offsets.size:
            found: np.ndarray = self.offsets[block]
            return found
        return None if participant.shared is None else participant.shared.offsets(stream.store)

    def block(self, state: Any, start: int, stop: int) -> Any:
        """Rows of a block as the learner takes them, once it has been told of all cells there are by then."""
        if not self.offsets.size:
            rows = self.rows[start:stop]
            return state.cells(rows) if self.own else rows
        before, after = self.offsets[start // self.block_rows :][:2]
        grow(state, before, after)
        return Cells(self.rows[start:stop], after).packed()


def grow(state: Any, before: np.ndarray, after: np.ndarray) -> None:
    """Tell a state of the cells there are from now on, if they are more."""
    if not np.array_equal(before, after):
        state.grow(before, after)


def chunk_of(stream: Stream, participant: Participant, k: int) -> Chunk:
    """What a learner sees of chunk k."""
    none = np.zeros((0, 0), dtype=np.int64)
    if participant.shared is None:
        return Chunk(stream.features(k), stream.block_rows, none, own=participant.redraw_rows is not None)
    _, arrays = stream.store.read_group(cells_of_chunk(participant.shared, k))
    if "offsets" in arrays:
        return Chunk(arrays["codes"], stream.block_rows, arrays["offsets"])
    rows = Cells(arrays["codes"], participant.shared.offsets(stream.store)).packed()
    return Chunk(rows, stream.block_rows, none)
