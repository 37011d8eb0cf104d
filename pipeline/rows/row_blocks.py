"""Blocks of prepared rows to learn from, read from the store as they are visited."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from ikmap.learners.rows import Block, concatenated
from ikmap.rows import Rows, nbytes_of
from pipeline.rows.prepared import PreparedRows
from pipeline.rows.row_weights import WeightRule
from pipeline.storage.store import Store


class RowBlocks(Sequence[Block]):
    """Training rows in blocks that fit in memory.

    Parameters
    ----------
    store : Store
    blocks : list of lists of (start, stop)
        Rows of each block (:func:`~pipeline.rows.block_sizes.learning_blocks`).
    side : {"train", "test"}
    weigh : callable, optional
        Function for the weights of rows (:func:`~pipeline.rows.row_weights.weight_rule`); default: those of the data.
    """

    def __init__(
        self, store: Store, blocks: list[list[tuple[int, int]]], side: str = "train", weigh: WeightRule | None = None
    ) -> None:
        self._rows = PreparedRows(store, side)
        self._blocks, self._weigh = blocks, weigh
        self.bytes_read = 0

    def __len__(self) -> int:
        return len(self._blocks)

    def __getitem__(self, k: int) -> Block:  # type: ignore[override]
        block = concatenated([self._rows.read(start, stop) for start, stop in self._blocks[k]])
        self.bytes_read += nbytes_of(cast("Rows", block.rows))
        return block if self._weigh is None else block._replace(sample_weight=self._weigh(block.y, block.sample_weight))
