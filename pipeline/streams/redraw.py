"""Partitionings that are redrawn after an alarm of drift: the cells of a learner whose map is its own from then on.

The first alarm begins the gathering of rows, with the block after that of the row that raised it. At the end of the
block with which there are enough rows, the half of the partitionings that were drawn longest ago are drawn anew from
the rows gathered, and the weights of their cells are carried over (:mod:`ikmap.partitioners.redrawn`). Alarms in
between change nothing. So memory is that of two halves and of the rows gathered, however often there was an alarm.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import ClassVar, Protocol, cast

import numpy as np
import scipy.sparse as sp

from ikmap.arrays import Floats
from ikmap.learners.rows import Rows as LearnerRows
from ikmap.methods import Redrawable, Sample, import_models
from ikmap.methods.learner import State
from ikmap.model import from_parts, row_parts, rows_of_parts
from ikmap.partitioners.base import Partitions
from ikmap.partitioners.redrawn import carry_matrix, seed_of_redraw
from ikmap.rows import Rows
from pipeline.record_types import EndRecord, LearnRecord
from pipeline.running.working_clock import working_clock
from pipeline.storage.models import save_model
from pipeline.streams.participant import Standing, StreamBlock
from pipeline.streams.rows import StoredRows, StreamRows
from pipeline.streams.streamed_learner import StreamedLearner

LEAST_ROWS = 1000
"""Number of rows that new partitionings are drawn from by default; more, where the map needs more."""
_MODEL, _ROWS = "model.", "gathered"


class Carries(Protocol):
    """A state that carries weights over to new cells."""

    def carry(self, matrix: sp.csr_array, offsets: np.ndarray) -> None:
        """Carry the weights over by a matrix from old cells to new ones, which have new offsets."""


class RedrawnCells(StreamRows):
    """Cells of partitionings that are a learner's own, of which half are redrawn after an alarm.

    Parameters
    ----------
    streamed : StreamedLearner
    partitions : Partitions
        The partitionings as they were fitted.
    redrawable : Redrawable
        Map with the numbers that were chosen or given for it.
    seed : int
        Seed of the run.
    n_columns : int
        Number of columns of the rows.
    n_threads : int
    """

    prefix: ClassVar[str] = "redraw."

    def __init__(
        self,
        streamed: StreamedLearner,
        partitions: Partitions,
        redrawable: Redrawable,
        seed: int,
        n_columns: int,
        n_threads: int = 1,
    ) -> None:
        self._streamed, self._partitions, self._map, self._seed = streamed, partitions, redrawable, seed
        self._n_columns, self._n_threads = n_columns, n_threads
        self._number = 0
        """Number of times that half of the partitionings were redrawn."""
        self._gathered: list[Rows] | None = None

    def taken(self, stored: StoredRows) -> LearnerRows:
        return self._partitions.cells(cast("Rows", stored), self._n_threads).packed()

    def begin_chunk(self, standing: Standing, k: int) -> None:
        self._rows = standing.stream.features(k)
        self._redraws: list[int] = []
        self._seconds: list[float] = []

    def rows_come(self, standing: Standing, block: StreamBlock) -> None:
        began = working_clock()
        block.rows = self.taken(self._rows[block.at])
        block.map_seconds += working_clock() - began

    def rows_learned(self, standing: Standing, block: StreamBlock) -> None:
        began, least_rows = working_clock(), self._streamed.redraw_rows or LEAST_ROWS
        if self._gathered is not None:
            self._gathered.append(self._rows[block.at].copy())
            if sum(part.shape[0] for part in self._gathered) >= least_rows:
                self._draw(standing.learner, _stacked(self._gathered))
                self._gathered = None
                self._redraws.append(block.first + len(block))
        elif block.alarmed:
            self._gathered = []
        block.map_seconds += working_clock() - began
        self._seconds.append(round(block.map_seconds, 6))

    def end_chunk(self) -> LearnRecord:
        del self._rows
        return {"redraws": self._redraws, "map_seconds_of_blocks": self._seconds}

    def at_end(self, standing: Standing, chunks: int, ended: bool, offsets: np.ndarray | None) -> EndRecord:
        if not self._number or self._streamed.fitted is None:
            return {}
        own, name = self._partitions, self._streamed.learner
        most_cells, content_hash = int(np.diff(own.offsets).max()), own.content_hash
        fitted = replace(self._streamed.fitted, learner=name, most_cells=most_cells, content_hash=content_hash)
        save_model(standing.stream.store, fitted.name, own, offsets=own.offsets.tolist())
        return {"redrawn": asdict(fitted), "outputs": [fitted.name], "bytes_written": own.nbytes}

    def _draw(self, learner: State, rows: Rows) -> None:
        self._number += 1
        seed = seed_of_redraw(self._seed, self._number)
        sample = Sample(rows.shape[0], self._n_columns, None, rows.__getitem__, seed)
        before = self._partitions
        after, drawn = self._map.redrawn(before, sample, self._number, self._n_threads)
        cells_before, cells_after = (partitions.cells(rows, self._n_threads) for partitions in (before, after))
        cast("Carries", learner).carry(carry_matrix(cells_before, cells_after, drawn), after.offsets)
        self._partitions = after

    def checkpoint(self) -> Mapping[str, np.ndarray]:
        arrays = {"number": np.array(self._number), "gathers": np.array(self._gathered is not None)}
        if self._number:
            arrays["about"] = np.frombuffer(json.dumps(self._partitions.metadata()).encode(), dtype=np.uint8)
            arrays |= {_MODEL + name: array for name, array in self._partitions.arrays().items()}
        if self._gathered:
            arrays |= row_parts(_ROWS, _stacked(self._gathered))
        return arrays

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        if "about" in arrays:
            import_models()
            of_model = {name.removeprefix(_MODEL): a for name, a in arrays.items() if name.startswith(_MODEL)}
            self._partitions = cast("Partitions", from_parts(json.loads(bytes(arrays["about"])), of_model))
        self._number, self._gathered = int(arrays["number"]), None
        if arrays["gathers"]:
            has_rows = any(name.startswith(_ROWS) for name in arrays)
            self._gathered = [rows_of_parts(_ROWS, arrays, self._n_columns)] if has_rows else []


def _stacked(parts: list[Rows]) -> Rows:
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(cast("list[Floats]", parts))
    return sp.csr_array(sp.vstack(parts, format="csr"))
