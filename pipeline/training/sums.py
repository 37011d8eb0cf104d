"""Learners that sum up something over all rows in each round, such as ridge regression and boosting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import iadd
from typing import ClassVar, Self, cast

import numpy as np

from ikmap.divisions import TooFewKeys
from ikmap.json_values import JsonObject
from ikmap.learners.rows import Block, PieceRows
from ikmap.methods import Learner, RoundsLearner, Sample
from ikmap.methods.learner import RoundState, SumsOf
from ikmap.rows import Rows
from ikmap.tasks.capabilities import missing_in
from pipeline.errors import InputError
from pipeline.record_types import TrainedRecord
from pipeline.rows.block_sizes import BLOCK_BYTES, packed_row_bytes
from pipeline.rows.cell_blocks import CellBlocks, SpooledBlocks
from pipeline.rows.folds import division_of, is_divided
from pipeline.rows.prepared import READ_BYTES
from pipeline.rows.row_blocks import RowBlocks
from pipeline.rows.row_weights import weight_rule
from pipeline.rows.values import check_values
from pipeline.running.worker_memory import worker_limit
from pipeline.running.workers import workers_of
from pipeline.storage.mapped import MappedArrays
from pipeline.training.rounds import SOLVER, Arrays, Generations, Held, Rounds, RowsKey
from pipeline.training.runner import CellSizes, TrainingJob

SUM_ROWS = 8192
"""Number of rows of cells that are read from a file at once."""
HELD_SHARE = 0.5
"""Pieces are held in memory up to this share of a worker's memory; those beyond it are in temporary files."""
MOST_PIECES = 16
"""Number of pieces that a plan reckons with: each has sums over all cells."""


class CheckedRows(RowBlocks):
    """Training rows in blocks, whose values are refused if the learner cannot take them."""

    def __init__(self, rounds: SumsRounds, ranges: list[list[tuple[int, int]]]) -> None:
        super().__init__(rounds.store, ranges, weigh=weight_rule(rounds.train.preparation.task))
        self._learner, self._ranges = rounds.learner, ranges

    def __getitem__(self, k: int) -> Block:  # type: ignore[override]
        block, rows = super().__getitem__(k), self._rows
        first = self._ranges[k][0][0]
        check_values(self._learner, cast("Rows", block.rows), rows.where, rows.preparation.column_names, first)
        return block


@dataclass(frozen=True)
class SumsRounds(Rounds[RoundState, object, SumsOf, object]):
    """The problem of a :class:`~ikmap.methods.RoundsLearner`: each round adds up the sums of all pieces.

    Attributes
    ----------
    wanted_pieces : int
        Number of pieces that suits the cluster, for a learner whose model does not depend on it.
    n_threads : int
        Number of threads that work on a piece.
    """

    wanted_pieces: int = 1
    n_threads: int = 1

    metrics_schema: ClassVar[Mapping[str, JsonObject]] = SOLVER

    @property
    def method(self) -> RoundsLearner:
        """The learner."""
        return self.params.learner_as(RoundsLearner, self.learner)

    @property
    def sample(self) -> Sample:
        """Facts on all rows."""
        sample = self.train.sample(self.params.seed, None if self.fitted is None else self.offsets)
        if not is_divided(self.params):
            return sample
        return replace(sample, division=lambda numbers: division_of(self.train, numbers, self.params))

    @property
    def sends_orders(self) -> bool:
        return self.method.small_orders

    def rests(self, state: RoundState) -> bool:
        return self.method.rests(state)

    @property
    def rows_key(self) -> RowsKey:
        return self.path, f"{self.learner} in {self.wanted_pieces}", self.fitted

    def begin(self) -> RoundState:
        try:
            return self.method.begin(self.sample)
        except TooFewKeys as error:
            raise InputError(f"--learner {self.learner}, --split-by {self.params.split_by}: {error}") from None

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
        return self.method.begin(self.sample, arrays)

    @property
    def n_pieces(self) -> int:
        return len(self._pieces())

    def _pieces(self) -> list[tuple[int, int]]:
        return self.method.pieces(self.sample, self.wanted_pieces)

    def open(self, piece: int, in_memory: bool) -> Held[SumsOf]:
        sample, method = self.sample, self.method
        start, stop = method.pieces(sample, self.wanted_pieces)[piece]
        if self.fitted is None:
            return self._open_rows(start, stop, in_memory)
        offsets = self.offsets
        ranges = [[(begin, min(begin + SUM_ROWS, stop))] for begin in range(start, stop, SUM_ROWS)]
        weight_of = weight_rule(self.train.preparation.task)
        stored = CellBlocks(self.store, self.fitted.cells_name("train"), offsets, ranges, weight_of)
        blocks = stored if in_memory else SpooledBlocks(stored, offsets, visit_rows=None)
        rows = PieceRows(blocks, start, stop, in_memory, self.n_threads)
        return Held(method.hold(rows, sample), stop - start, (stored,))

    def _open_rows(self, start: int, stop: int, in_memory: bool) -> Held[SumsOf]:
        """Open a piece of a learner on rows, which keeps what it needs of them in memory or in files."""
        step = max(1, READ_BYTES // self.train.row_bytes)
        ranges = [[(begin, min(begin + step, stop))] for begin in range(start, stop, step)]
        blocks, files = CheckedRows(self, ranges), MappedArrays()
        rows = PieceRows(blocks, start, stop, in_memory, self.n_threads, np.zeros if in_memory else files.zeros)
        return Held(self.method.hold(rows, self.sample), stop - start, (blocks,), files.rest)

    def size(self, piece: int) -> int:
        start, stop = self._pieces()[piece]
        columns = self.train.preparation.n_columns if self.fitted is None else packed_row_bytes(self.offsets)
        return (stop - start) * self.method.row_bytes(columns, self.train.preparation.task.decisions.outputs)

    def room(self) -> float:
        limit = worker_limit()
        return float("inf") if limit is None else HELD_SHARE * limit

    @classmethod
    def of(cls, job: TrainingJob) -> Sequence[Self]:
        if job.fitted is None:
            _refuse_missing(job)
        (rounds,) = super().of(job)
        learner = job.context.params.learner_as(RoundsLearner, job.learner)
        solver = cls.solver(learner, job.held_bytes)
        if solver == "memory":
            return [replace(rounds, n_threads=job.n_threads)]
        by_size = -(-job.held_bytes // learner.piece_bytes)
        return [replace(rounds, wanted_pieces=max(by_size, _threads(job)))]

    def finish(self, state: RoundState) -> TrainedRecord:
        return self.trained(*self.method.finish(state, self.sample))

    @classmethod
    def solver(cls, learner: Learner, held_bytes: int) -> str:
        return cast("RoundsLearner", learner).choose_solver(held_bytes)

    @classmethod
    def needs(cls, learner: Learner, sizes: CellSizes, solver: str, blocks: float) -> tuple[float, str]:  # noqa: ARG003
        cells, vectors = sizes.cells_bytes, (8 + MOST_PIECES) * sizes.weights_bytes
        visited = 4.0 * min(cells, BLOCK_BYTES) + vectors
        if solver == "memory":
            return max(visited, 1.25 * cells + 8 * sizes.rows + vectors), "in memory (solver memory)"
        if solver == "distributed":
            return visited, "in pieces, in the memory of the workers where it suffices (solver distributed)"
        return visited, "block by block (solver block)"


def _refuse_missing(job: TrainingJob) -> None:
    """Refuse rows of which some class has none.

    Raises
    ------
    InputError
    """
    present = np.concatenate([np.unique(targets) for targets in job.rows.targets()])
    if missing := missing_in(job.rows.preparation.task, present):
        raise InputError(f"--learner {job.learner}: found no training row of {missing}; give another --seed or split")


def _threads(job: TrainingJob) -> int:
    """Return the number of threads of all workers that there are now."""
    workers = workers_of(job.context.client).values()
    return sum(int(worker["nthreads"]) for worker in workers)
