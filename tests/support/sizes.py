"""Make the blocks, chunks and pieces small into which rows are cut, so that small data has several of each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest


class SmallSizes:
    """Sizes of this process that are other than usual until the end of a test: what they are changes no result."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch

    def stream_chunks(self, blocks: int) -> None:
        """Cut streams into chunks of so many blocks."""
        self._patch.setattr("pipeline.stages.shuffle.CHUNK_ROWS", 1)
        self._patch.setattr("pipeline.stages.shuffle.CHUNK_BLOCKS", blocks)

    def stream_bytes(self, chunk: int, task: int | None = None) -> None:
        """Cut streams into chunks of so many bytes, and write so many at a time."""
        self._patch.setattr("pipeline.stages.shuffle.CHUNK_BYTES", chunk)
        if task is not None:
            self._patch.setattr("pipeline.stages.shuffle.TASK_BYTES", task)

    def checkpoints(self, *, always: bool) -> None:
        """Let states of streams be written after every chunk, however long that takes, or never."""
        self._patch.setattr("pipeline.streams.checkpoints.SHARE", float("inf") if always else -1.0)

    def learning_blocks(self, piece_rows: int | None = None, block_bytes: int | None = None) -> None:
        """Let learners that go through all rows once learn from blocks of so many bytes, made of such pieces."""
        if piece_rows is not None:
            self._patch.setattr("pipeline.rows.block_sizes.PIECE_ROWS", piece_rows)
        if block_bytes is not None:
            self._patch.setattr("pipeline.rows.block_sizes.STREAM_BYTES", block_bytes)

    def counted_pieces(self, tasks: int) -> None:
        """Count rows piece by piece, in so many tasks at most."""
        self._patch.setattr("pipeline.training.counts.COUNT_BYTES", 1)
        self._patch.setattr("pipeline.training.counts.TASKS", tasks)

    def solver_blocks(self, *, held: int | None = None, block: int | None = None, visit: int | None = None) -> None:
        """Let batch learners hold so many bytes of a part in memory, read blocks of it, and visit blocks of a file."""
        if held is not None:
            self._patch.setattr("pipeline.training.dual.HELD_BYTES", held)
        if block is not None:
            self._patch.setattr("pipeline.training.dual.BLOCK_BYTES", block)
        if visit is not None:
            self._patch.setattr("pipeline.training.dual_tasks.VISIT_BYTES", visit)

    def sums_in_files(self) -> None:
        """Let workers hold no rows of ridge regression in memory, and read few of them at a time."""
        self._patch.setattr("pipeline.training.sums.HELD_SHARE", 0.0)

    def ridge_pieces(self, least_rows: int, read_rows: int | None = None) -> None:
        """Cut rows of ridge regression into pieces of so many, of which so many are read at a time."""
        self._patch.setattr("ikmap.learners.ridge.sums.LEAST_ROWS", least_rows)
        self._patch.setattr("ikmap.learners.ridge.sums.ROWS_PER_CELL", 1)
        if read_rows is not None:
            self._patch.setattr("pipeline.training.sums.SUM_ROWS", read_rows)

    def trees_in_parts(self, rows: int) -> None:
        """Fit trees part by part, and sweep over stored cells, from so many rows on."""
        self._patch.setattr("pipeline.stages.fit_parts.MANY_ROWS", rows)

    def rounds_checkpoints(self) -> None:
        """Let rounds of training be written each, however short they are."""
        self._patch.setattr("pipeline.training.engine.CHECKPOINT_SECONDS", 0.0)


@contextmanager
def sizes_made_small() -> Iterator[SmallSizes]:
    """Make sizes small within this, where no test's own fixture can."""
    with pytest.MonkeyPatch.context() as patch:
        yield SmallSizes(patch)
