"""Redraw partitionings after an alarm: a learner on cells, and the map that is its own from then on.

The first alarm begins the gathering of rows, with the block after that of the row that raised it. At the end of the
block with which there are enough rows, the half of the partitionings that were drawn longest ago are drawn anew from
the rows gathered, and the weights of their cells are carried over (:mod:`ikmap.partitioners.redrawn`). Alarms in
between change nothing. So memory is that of two halves and of the rows gathered, however often there was an alarm.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, Self, cast

import numpy as np
import scipy.sparse as sp

from ikmap.arrays import Floats
from ikmap.cells import Cells
from ikmap.methods import Redrawable, Sample, import_models
from ikmap.methods.learner import Progress, State
from ikmap.model import from_parts, row_parts, rows_of_parts
from ikmap.partitioners.base import Partitions
from ikmap.partitioners.redrawn import carry_matrix, seed_of_redraw
from ikmap.rows import Rows

LEAST_ROWS = 1000
"""Number of rows that new partitionings are drawn from by default; more, where the map needs more."""
PREFIX = "redraw."
_MODEL, _ROWS = "model.", "gathered"


class Carries(Protocol):
    """A state that carries weights over to new cells."""

    def carry(self, matrix: sp.csr_array, offsets: np.ndarray) -> None:
        """Carry the weights over by a matrix from old cells to new ones, which have new offsets."""


@dataclass(frozen=True)
class Redraw:
    """Settings by which partitionings are drawn anew.

    Attributes
    ----------
    map : Redrawable
        Map with the numbers that were chosen or given for it.
    seed : int
        Seed of the run.
    rows : int
        Least number of rows that are gathered after an alarm.
    n_columns : int
        Number of columns of the rows.
    n_threads : int
    """

    map: Redrawable
    seed: int
    rows: int
    n_columns: int
    n_threads: int = 1


class Redrawing:
    """A learner's state and the partitionings on whose cells it learns.

    All other attributes are those of the learner's state.

    Parameters
    ----------
    state : state of a StreamLearner that carries
    partitions : Partitions
    redraw : Redraw

    Attributes
    ----------
    partitions : Partitions
        The partitionings as they are now.
    number : int
        How often half of them were drawn anew.
    """

    def __init__(self, state: State, partitions: Partitions, redraw: Redraw) -> None:
        self._state, self.partitions, self._redraw = state, partitions, redraw
        self.number = 0
        self._gathered: list[Rows] | None = None

    def __getattr__(self, name: str) -> object:
        return getattr(self._state, name)

    def cells(self, rows: Rows) -> Cells:
        """Return the cells of rows, as they are now."""
        return self.partitions.cells(rows, self._redraw.n_threads).packed()

    def partial_fit(self, rows: Cells | Rows, y: np.ndarray, *sample_weight: Floats) -> Progress:
        """Learn from cells, or from rows, whose cells are found first."""
        return self._state.partial_fit(rows if isinstance(rows, Cells) else self.cells(rows), y, *sample_weight)

    def end_block(self, rows: Rows, *, alarmed: bool) -> bool:
        """Note the rows of a block that was learned from; return whether partitionings were drawn anew then."""
        if self._gathered is None:
            self._gathered = [] if alarmed else None
            return False
        self._gathered.append(rows.copy())
        if sum(part.shape[0] for part in self._gathered) < self._redraw.rows:
            return False
        self._draw(_stacked(self._gathered))
        self._gathered = None
        return True

    def _draw(self, rows: Rows) -> None:
        redraw = self._redraw
        self.number += 1
        seed = seed_of_redraw(redraw.seed, self.number)
        sample = Sample(rows.shape[0], redraw.n_columns, None, rows.__getitem__, seed)
        before = self.partitions
        after, drawn = redraw.map.redrawn(before, sample, self.number, redraw.n_threads)
        cells_before, cells_after = (partitions.cells(rows, redraw.n_threads) for partitions in (before, after))
        cast("Carries", self._state).carry(carry_matrix(cells_before, cells_after, drawn), after.offsets)
        self.partitions = after

    def checkpoint(self) -> dict[str, np.ndarray]:
        """Return the checkpoint of the learner with its partitionings, if they were redrawn, and the rows gathered."""
        own = {"number": np.array(self.number), "gathers": np.array(self._gathered is not None)}
        if self.number:
            own["about"] = np.frombuffer(json.dumps(self.partitions.metadata()).encode(), dtype=np.uint8)
            own |= {_MODEL + name: array for name, array in self.partitions.arrays().items()}
        if self._gathered:
            own |= row_parts(_ROWS, _stacked(self._gathered))
        return {**self._state.checkpoint(), **{PREFIX + name: array for name, array in own.items()}}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> Self:
        """Return the state whose checkpoint has these arrays."""
        own = {name.removeprefix(PREFIX): array for name, array in arrays.items() if name.startswith(PREFIX)}
        of_state = {name: array for name, array in arrays.items() if not name.startswith(PREFIX)}
        partitions = self.partitions
        if "about" in own:
            import_models()
            of_model = {name.removeprefix(_MODEL): a for name, a in own.items() if name.startswith(_MODEL)}
            partitions = cast("Partitions", from_parts(json.loads(bytes(own["about"])), of_model))
        restored = type(self)(self._state.restore(of_state), partitions, self._redraw)
        restored.number = int(own["number"])
        if own["gathers"]:
            has_rows = any(name.startswith(_ROWS) for name in own)
            restored._gathered = [rows_of_parts(_ROWS, own, self._redraw.n_columns)] if has_rows else []
        return restored


def _stacked(parts: list[Rows]) -> Rows:
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(cast("list[Floats]", parts))
    return sp.csr_array(sp.vstack(parts, format="csr"))
