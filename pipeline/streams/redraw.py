"""Partitionings drawn anew after an alarm: a learner on cells, and the map that is its own from then on.

The first alarm begins the gathering of rows, with the block after that of the row that raised it. At the end of the
block with which there are enough, the half of the partitionings that were drawn longest ago are drawn anew from the
rows gathered, and what was learned of their cells is carried over (:mod:`ikmap.partitioners.redrawn`). Alarms in
between change nothing. So memory is that of two halves and of the rows gathered, however often there was an alarm.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self, cast

import numpy as np
import scipy.sparse as sp

from ikmap.arrays import Floats
from ikmap.cells import Cells
from ikmap.methods import Map, Sample, import_models
from ikmap.methods.map import Value
from ikmap.model import from_parts, row_parts, rows_of_parts
from ikmap.partitioners.base import Partitions
from ikmap.partitioners.redrawn import carry_matrix, seed_of_redraw
from ikmap.rows import Rows

LEAST_ROWS = 1000
"""Rows that new partitionings are drawn from, unless told otherwise; more, where the map needs more."""
PREFIX = "redraw."
_MODEL, _ROWS = "model.", "gathered"


@dataclass(frozen=True)
class Redraw:
    """How partitionings are drawn anew.

    Attributes
    ----------
    map : Map
    options : MethodOptions
        Of the map.
    value : Value
    seed : int
        Of the run.
    rows : int
        Gathered after an alarm, at least so many.
    n_columns : int
        Of the rows.
    n_threads : int
    """

    map: Map
    options: Any
    value: Value
    seed: int
    rows: int
    n_columns: int
    n_threads: int = 1


class Redrawing:
    """A learner's state and the partitionings on whose cells it learns.

    Whatever it is asked for beside that, the learner's state answers.

    Parameters
    ----------
    state : state of a StreamLearner that carries
    partitions : Partitions
    how : Redraw

    Attributes
    ----------
    partitions : Partitions
        As they are now.
    number : int
        How often half of them were drawn anew.
    """

    def __init__(self, state: Any, partitions: Partitions, how: Redraw) -> None:
        self._state, self.partitions, self._how = state, partitions, how
        self.number = 0
        self._gathered: list[Rows] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._state, name)

    def cells(self, rows: Rows) -> Cells:
        """Cells of rows, as they are now."""
        return self.partitions.cells(rows, self._how.n_threads).packed()

    def partial_fit(self, rows: Cells | Rows, y: np.ndarray) -> Any:
        """Learn from cells; of rows, these are looked for first."""
        return self._state.partial_fit(rows if isinstance(rows, Cells) else self.cells(rows), y)

    def end_block(self, rows: Rows, *, alarmed: bool) -> bool:
        """Note the rows of a block that was learned from; whether partitionings were drawn anew then."""
        if self._gathered is None:
            self._gathered = [] if alarmed else None
            return False
        self._gathered.append(rows.copy())
        if sum(part.shape[0] for part in self._gathered) < self._how.rows:
            return False
        self._draw(_stacked(self._gathered))
        self._gathered = None
        return True

    def _draw(self, rows: Rows) -> None:
        how = self._how
        self.number += 1
        seed = seed_of_redraw(how.seed, self.number)
        sample = Sample(rows.shape[0], how.n_columns, None, rows.__getitem__, seed)
        before = self.partitions
        after, drawn = how.map.redrawn(how.options, how.value, before, sample, self.number, how.n_threads)
        were, are = (one.cells(rows, how.n_threads) for one in (before, after))
        self._state.carry(carry_matrix(were, are, drawn), after.offsets)
        self.partitions = after

    def checkpoint(self) -> dict[str, np.ndarray]:
        """That of the learner, its partitionings if they are no longer the first ones, and the rows gathered."""
        own = {"number": np.array(self.number), "gathers": np.array(self._gathered is not None)}
        if self.number:
            own["about"] = np.frombuffer(json.dumps(self.partitions.metadata()).encode(), dtype=np.uint8)
            own |= {_MODEL + name: array for name, array in self.partitions.arrays().items()}
        if self._gathered:
            own |= row_parts(_ROWS, _stacked(self._gathered))
        return {**self._state.checkpoint(), **{PREFIX + name: array for name, array in own.items()}}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> Self:
        """The state of which :meth:`checkpoint` gave these arrays."""
        own = {name.removeprefix(PREFIX): array for name, array in arrays.items() if name.startswith(PREFIX)}
        of_state = {name: array for name, array in arrays.items() if not name.startswith(PREFIX)}
        partitions = self.partitions
        if "about" in own:
            import_models()
            of_model = {name.removeprefix(_MODEL): a for name, a in own.items() if name.startswith(_MODEL)}
            partitions = cast("Partitions", from_parts(json.loads(bytes(own["about"])), of_model))
        found = type(self)(self._state.restore(of_state), partitions, self._how)
        found.number = int(own["number"])
        if own["gathers"]:
            there = any(name.startswith(_ROWS) for name in own)
            found._gathered = [rows_of_parts(_ROWS, own, self._how.n_columns)] if there else []
        return found


def _stacked(parts: list[Rows]) -> Rows:
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(cast("list[Floats]", parts))
    return sp.csr_array(sp.vstack(parts, format="csr"))
