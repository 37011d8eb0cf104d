"""A chunk of a stream as a learner sees it: cells that were made for all learners, or rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, cast

import numpy as np

from ikmap.arrays import Int32s
from ikmap.cells import Cells
from ikmap.learners.rows import Rows as LearnerRows
from ikmap.rows import Rows
from pipeline.rows.stream_data import Stream
from pipeline.streams.grow import cells_of_chunk
from pipeline.streams.participant import Participant


class Grows(Protocol):
    """A state of a learner on the cells of a map that grows."""

    def grow(self, before: np.ndarray, after: np.ndarray) -> None:
        """Take in the offsets of the cells, before and after the map has grown."""


class FindsCells(Protocol):
    """A state that finds the cells of rows itself (:class:`~pipeline.streams.redraw.Redrawing`)."""

    def cells(self, rows: Rows) -> Cells:
        """Return the cells of rows, as they are now."""


@dataclass(frozen=True)
class Chunk:
    """A chunk as a learner sees it.

    Attributes
    ----------
    rows : Cells, float64 ndarray or csr_array; ndarray of int32
        Whole numbers are cells of a map that grows.
    block_rows : int
    offsets : ndarray of int64, shape (blocks + 1, t + 1)
        Offsets of a map that grows, before the first block and after each; else empty.
    own : bool
        Whether the state itself finds the cells of the rows (:class:`~pipeline.streams.redraw.Redrawing`).
    """

    rows: LearnerRows | Int32s
    block_rows: int
    offsets: np.ndarray
    own: bool = False

    def known(self, block: int, stream: Stream, participant: Participant) -> np.ndarray | None:
        """Return the offsets of the cells known before a block (-1: after the last), or None for a learner on rows."""
        if self.offsets.size:
            known_offsets: np.ndarray = self.offsets[block]
            return known_offsets
        return None if participant.shared is None else participant.shared.offsets(stream.store)

    def block(self, state: object, start: int, stop: int) -> LearnerRows:
        """Return the rows of a block as the learner takes them; the state first takes in all cells known by then."""
        if not self.offsets.size:
            rows = cast("LearnerRows", self.rows)[start:stop]
            return cast("FindsCells", state).cells(cast("Rows", rows)) if self.own else rows
        before, after = self.offsets[start // self.block_rows :][:2]
        grow(state, before, after)
        return Cells(cast("Int32s", self.rows)[start:stop], after).packed()


def grow(state: object, before: np.ndarray, after: np.ndarray) -> None:
    """Let a state take in the offsets of the cells from now on, if there are more cells."""
    if not np.array_equal(before, after):
        cast("Grows", state).grow(before, after)


def chunk_of(stream: Stream, participant: Participant, k: int) -> Chunk:
    """Return chunk k as a learner sees it."""
    no_offsets = np.zeros((0, 0), dtype=np.int64)
    if participant.shared is None:
        return Chunk(stream.features(k), stream.block_rows, no_offsets, own=participant.redraw_rows is not None)
    _, arrays = stream.store.read_group(cells_of_chunk(participant.shared, k))
    if "offsets" in arrays:
        return Chunk(arrays["codes"], stream.block_rows, arrays["offsets"])
    rows = Cells(arrays["codes"], participant.shared.offsets(stream.store)).packed()
    return Chunk(rows, stream.block_rows, no_offsets)
