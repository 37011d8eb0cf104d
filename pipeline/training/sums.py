"""Learners that sum up something over all rows in each round, such as ridge regression."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import iadd
from typing import ClassVar

from ikmap.json_values import JsonObject
from ikmap.methods import Learner, RoundsLearner
from ikmap.methods.learner import RoundState
from pipeline.record_types import TrainedRecord
from pipeline.rows.block_sizes import BLOCK_BYTES, packed_row_bytes
from pipeline.rows.cell_blocks import CellBlocks, SpooledBlocks
from pipeline.rows.row_weights import weight_rule
from pipeline.running.worker_memory import worker_limit
from pipeline.training.rounds import SOLVER, Arrays, Generations, Held, Rounds
from pipeline.training.runner import CellSizes

SUM_ROWS = 8192
"""Number of rows that are read from a file at once."""
HELD_SHARE = 0.5
"""Pieces are held in memory up to this share of a worker's memory; those beyond it are in temporary files."""
MOST_PIECES = 16
"""Number of pieces that a plan reckons with: each has sums over all cells."""


type SumsOf = Callable[[object], object]
"""The sums over the rows of a piece that an order asks for."""


@dataclass(frozen=True)
class SumsRounds(Rounds[RoundState, object, SumsOf, object]):
    """The problem of a :class:`~ikmap.methods.RoundsLearner`: each round adds up the sums of all pieces."""

    metrics_schema: ClassVar[Mapping[str, JsonObject]] = SOLVER

    @property
    def method(self) -> RoundsLearner:
        """The learner."""
        return self.params.learner_as(RoundsLearner, self.learner)

    def begin(self) -> RoundState:
        return self.method.begin(self.offsets)

    def order(self, state: RoundState) -> object:
        return state.order

    def work(self, order: object, piece: int, held: Held[SumsOf], own: Generations) -> tuple[object, Arrays]:  # noqa: ARG002
        return held.data(order), {}

    def absorb(self, state: RoundState, order: object, shares: Iterator[object]) -> RoundState:  # noqa: ARG002
        state.absorb(reduce(iadd, shares))
        return state

    def checkpoint(self, state: RoundState) -> Arrays:
        return state.checkpoint()

    def restore(self, arrays: Arrays) -> RoundState:
        return self.method.begin(self.offsets, arrays)

    @property
    def n_pieces(self) -> int:
        return len(self._pieces())

    def _pieces(self) -> list[tuple[int, int]]:
        return self.method.pieces(self.train.n_rows, self.offsets)

    def open(self, piece: int, in_memory: bool) -> Held[SumsOf]:
        train, method, offsets = self.train, self.method, self.offsets
        assert self.fitted is not None
        begin, end = method.pieces(train.n_rows, offsets)[piece]
        ranges = [[(start, min(start + SUM_ROWS, end))] for start in range(begin, end, SUM_ROWS)]
        weight_of = weight_rule(train.preparation.task)
        blocks = CellBlocks(self.store, self.fitted.cells_name("train"), offsets, ranges, weight_of)
        if in_memory:
            parts = [part for block in blocks for part in method.held(block)]
            return Held(lambda order: method.sums(order, parts), end - begin, (blocks,))
        spooled = SpooledBlocks(blocks, offsets, visit_rows=None)

        def sums(order: object) -> object:
            return method.sums(order, (part for block in spooled for part in method.held(block)))

        return Held(sums, end - begin, (blocks,))

    def size(self, piece: int) -> int:
        start, stop = self._pieces()[piece]
        return (stop - start) * (packed_row_bytes(self.offsets) + 16)

    def room(self) -> float:
        limit = worker_limit()
        return float("inf") if limit is None else HELD_SHARE * limit

    def finish(self, state: RoundState) -> TrainedRecord:
        return self.trained(*self.method.finish(state, self.offsets))

    @classmethod
    def solver(cls, learner: Learner, cells_bytes: int) -> str:
        requested = str(learner.value_at("solver"))  # all that learn in rounds have it
        if requested != "auto":
            return requested
        return "memory" if cells_bytes <= BLOCK_BYTES else "distributed"

    @classmethod
    def needs(cls, learner: Learner, sizes: CellSizes, solver: str, blocks: float) -> tuple[float, str]:  # noqa: ARG003
        cells, vectors = sizes.cells_bytes, (8 + MOST_PIECES) * sizes.weights_bytes
        visited = 4.0 * min(cells, BLOCK_BYTES) + vectors
        if solver == "memory":
            return max(visited, 1.25 * cells + 8 * sizes.rows + vectors), "in memory (solver memory)"
        if solver == "distributed":
            return visited, "in pieces, in the memory of the workers where it suffices (solver distributed)"
        return visited, "block by block (solver block)"
