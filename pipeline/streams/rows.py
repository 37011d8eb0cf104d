"""Rows of a stream as a learner takes them: as they are, or as cells of a map that stays or grows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Protocol, cast

import numpy as np

from ikmap.arrays import Int32s
from ikmap.cells import Cells
from ikmap.learners.rows import Rows as LearnerRows
from ikmap.methods.learner import State
from ikmap.rows import Rows
from pipeline.record_types import EndRecord, LearnRecord
from pipeline.rows.stream_data import Stream
from pipeline.running.working_clock import working_clock
from pipeline.storage.fitted import Fitted
from pipeline.streams.map_chunks import cells_of_chunk
from pipeline.streams.participant import Participant, Standing, StreamBlock

type StoredRows = Rows | Int32s
"""Rows as they are stored for a learner: rows, or the codes of their cells, as whole numbers."""


class StreamRows(Participant):
    """Rows of a stream for a learner that takes them as they are; what other learners take is told by subclasses."""

    def stored(self, stream: Stream, k: int) -> StoredRows:
        """Return the rows of chunk k as they are stored for the learner."""
        return stream.features(k)

    def taken(self, stored: StoredRows) -> LearnerRows:
        """Return stored rows as the learner takes them now."""
        return cast("Rows", stored)

    def begin_chunk(self, standing: Standing, k: int) -> None:
        self._chunk = self.taken(self.stored(standing.stream, k))

    def rows_come(self, standing: Standing, block: StreamBlock) -> None:
        block.rows = self._chunk[block.at]

    def end_chunk(self) -> LearnRecord:
        del self._chunk
        return {}


class StreamCells(StreamRows):
    """Cells of a map that stays as it is.

    Parameters
    ----------
    fitted : Fitted
    offsets : ndarray of int64
        Offsets of its cells.
    """

    def __init__(self, fitted: Fitted, offsets: np.ndarray) -> None:
        self.fitted, self.offsets = fitted, offsets

    def stored(self, stream: Stream, k: int) -> StoredRows:
        codes: Int32s = stream.store.read_group(cells_of_chunk(self.fitted, k))[1]["codes"]
        return codes

    def taken(self, stored: StoredRows) -> LearnerRows:
        return Cells(cast("Int32s", stored), self.offsets).packed()


class Grows(Protocol):
    """A state of a learner on the cells of a map that grows."""

    def grow(self, before: np.ndarray, after: np.ndarray) -> None:
        """Take in the offsets of the cells, before and after the map has grown."""


class GrowingCells(StreamCells):
    """Cells of a map that grows with the stream: the learner takes in the new cells of a block with the block.

    Attributes
    ----------
    offsets : ndarray of int64
        Offsets of the cells that the learner knows.
    """

    prefix: ClassVar[str] = "growth."

    def begin_chunk(self, standing: Standing, k: int) -> None:
        _, arrays = standing.stream.store.read_group(cells_of_chunk(self.fitted, k))
        self._codes, self._offsets = arrays["codes"], arrays["offsets"]

    def rows_come(self, standing: Standing, block: StreamBlock) -> None:
        began = working_clock()
        self._grow(standing.learner, self._offsets[block.number + 1])
        block.rows = self.taken(self._codes[block.at])
        block.map_seconds += working_clock() - began

    def end_chunk(self) -> LearnRecord:
        del self._codes, self._offsets
        return {}

    def at_end(self, standing: Standing, chunks: int, ended: bool, offsets: np.ndarray | None) -> EndRecord:
        assert offsets is not None
        self._grow(standing.learner, offsets)
        return {}

    def checkpoint(self) -> Mapping[str, np.ndarray]:
        return {"offsets": self.offsets}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        self.offsets = arrays["offsets"]

    def _grow(self, learner: State, offsets: np.ndarray) -> None:
        if not np.array_equal(self.offsets, offsets):
            cast("Grows", learner).grow(self.offsets, offsets)
        self.offsets = offsets
