"""Learners by counts: workers count blocks of the rows, side by side, and the counts are merged into a model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce
from typing import ClassVar, NamedTuple

import numpy as np

from ikmap._threads import ahead
from ikmap.methods import CellTables, CountsLearner, Sample, capability
from pipeline.record_types import TrainedRecord
from pipeline.rows.block_sizes import learning_blocks, packed_row_bytes
from pipeline.rows.cell_blocks import CellBlocks
from pipeline.rows.prepared import PreparedRows
from pipeline.rows.row_blocks import RowBlocks
from pipeline.rows.row_weights import weight_rule
from pipeline.rows.values import check_values
from pipeline.storage.lru_cache import PROCESS, LRUCache
from pipeline.training.rounds import Arrays, Generations, Held, Rounds

COUNT_BYTES = 8 << 20
"""Bytes of rows that are counted at once; a task holds these, the next ones, and two counts."""
TASKS = 64
"""Most pieces: each leaves its counts in the store until they are merged."""

type Counts = dict[str, np.ndarray]

_kept_tables: LRUCache[tuple[str, str, int], Counts] = PROCESS.keeps(1)
"""Tables of a map by the store, the map's content hash and the seed of its draws."""


class Blocks(NamedTuple):
    """The blocks of a piece with their ranges of rows, which are read as they are visited."""

    train: PreparedRows
    sample: Sample
    blocks: CellBlocks | RowBlocks
    ranges: list[list[tuple[int, int]]]


@dataclass(frozen=True)
class Look:
    """The order of a pass over the rows, with the counts of the first pass if it is the second."""

    first: Counts | None


@dataclass(frozen=True)
class CountsRounds(Rounds[list[Counts], Look, Blocks, Counts]):
    """The problem of a :class:`~ikmap.methods.CountsLearner`: a round counts all rows, once or twice.

    The state has the counts of all rows in each pass. Pieces depend on the rows, never on the workers.
    """

    durable: ClassVar[bool] = True

    @property
    def method(self) -> CountsLearner:
        """The learner with the value that was chosen."""
        return self.params.learner_as(CountsLearner, self.learner, self.value)

    def begin(self) -> list[Counts]:
        return []

    def order(self, state: list[Counts]) -> Look | None:
        if not state:
            return Look(None)
        return Look(state[0]) if self.method.twice and len(state) == 1 else None

    def work(self, order: Look, piece: int, held: Held[Blocks], own: Generations) -> tuple[Counts, Arrays]:  # noqa: ARG002
        method, (train, sample, blocks, ranges) = self.method, held.data
        counts: Counts | None = None
        for block, block_ranges in zip(ahead(blocks.__getitem__, range(len(blocks))), ranges, strict=True):
            check_values(self.learner, block.rows, train.where, train.preparation.column_names, block_ranges[0][0])
            if order.first is None:
                block_counts = method.count(block, sample)
            else:
                block_counts = method.count_again(block, sample, order.first)
            counts = block_counts if counts is None else method.merge(counts, block_counts)
        assert counts is not None
        return counts, {}

    def absorb(self, state: list[Counts], order: Look, shares: Iterator[Counts]) -> list[Counts]:  # noqa: ARG002
        return [*state, reduce(self.method.merge, shares)]

    def checkpoint(self, state: list[Counts]) -> Arrays:
        return state[0]

    def restore(self, arrays: Arrays) -> list[Counts]:
        return [dict(arrays)]

    @property
    def n_pieces(self) -> int:
        return min(len(self._blocks(self.train)), TASKS)

    def _blocks(self, train: PreparedRows) -> list[list[tuple[int, int]]]:
        row_bytes = train.row_bytes if self.fitted is None else packed_row_bytes(self.offsets)
        return learning_blocks(train.n_rows, row_bytes, self.params.seed, shuffled=False, block_bytes=COUNT_BYTES)

    def open(self, piece: int, in_memory: bool) -> Held[Blocks]:  # noqa: ARG002
        train = self.train
        blocks, sample = self._blocks(train), self._sample(train)
        groups = np.array_split(np.arange(len(blocks)), min(len(blocks), TASKS))
        ranges = [blocks[b] for b in groups[piece]]
        weight_of = weight_rule(train.preparation.task)
        visited: CellBlocks | RowBlocks
        if self.fitted is None:
            visited = RowBlocks(self.store, ranges, weigh=weight_of)
        else:
            assert sample.offsets is not None
            visited = CellBlocks(self.store, self.fitted.cells_name("train"), sample.offsets, ranges, weight_of)
        rows = sum(stop - start for block in ranges for start, stop in block)
        return Held(Blocks(train, sample, visited, ranges), rows, (visited,))

    def finish(self, state: list[Counts]) -> TrainedRecord:
        counts: Counts = {}
        for counts_of_pass in state:
            counts |= counts_of_pass
        return self.trained(*self.method.finish(counts, self._sample(self.train)))

    def _sample(self, train: PreparedRows) -> Sample:
        fitted = self.fitted
        sample = train.sample(self.params.seed, None if fitted is None else self.offsets)
        if fitted is not None and self.params.of(self.learner).about.needs_tables:
            sample = replace(sample, tables=self._tables(sample))
        return sample

    def _tables(self, sample: Sample) -> Counts:
        """Return the map's tables of its cells, kept for further tasks: the map may have to read points of all rows."""
        assert self.fitted is not None
        key = (self.path, self.fitted.content_hash, sample.seed)
        with _kept_tables.lock:  # threads that want the same tables make them once
            tables = _kept_tables.get(key)
            if tables is None:
                with_tables = capability(self.params.map_at(self.fitted.value), CellTables)
                assert with_tables is not None
                tables_by_name = with_tables.cell_tables(self.fitted.load(self.store), sample)
                tables = {name: tables_by_name[name] for name in self.params.map.description.tables}
                _kept_tables.put(key, tables)
        return tables
