"""Make blocks, chunks, pieces and waits small, so that small data has several of each, and a test need not wait."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest


class SmallSizes:
    """Sizes and times that are other than usual until the end of a test: what they are changes no result."""

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

    def late_rows(self, together: int) -> None:
        """Read so many of the rows again, at a time, whose labels have come."""
        self._patch.setattr("pipeline.streams.labels.TOGETHER", together)

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

    def blocks_together(self, size: int) -> None:
        """Let the solver combine blocks of cells up to so many bytes."""
        self._patch.setattr("ikmap.learners.dual.block_minimization.TOGETHER_BYTES", size)

    def shared_sweeps(self, rows: int) -> None:
        """Let two threads share a sweep over so many rows, every second time whichever was faster."""
        for name, value in {"FEWEST_ROWS": rows, "PATIENCE": 1e6, "FIRST_TRIED": 1, "TRIED_AGAIN": 2}.items():
            self._patch.setattr(f"ikmap.learners.dual.shared_pass.{name}", value)

    def dense_rows(self) -> None:
        """Make all rows of tables dense, however few of their values are not 0."""
        self._patch.setattr("pipeline.rows.density.DENSE_SHARE", 0.0)

    def all_tasks_are_long(self) -> None:
        """Let every task take so long that workers are sent one at a time."""
        self._patch.setattr("pipeline.running.dispatch.AHEAD_SECONDS", 0.0)

    def looks_at_workers(self, seconds: float, *, lost: float | None = None) -> None:
        """Let a run look every so many seconds whether there are workers, and give up after so many without any."""
        self._patch.setattr("pipeline.running.dispatch.LOOK_SECONDS", seconds)
        if lost is not None:
            self._patch.setattr("pipeline.running.dispatch.LOST_SECONDS", lost)

    def working_set(self, rows: int) -> None:
        """Let kernel machines begin with so many rows."""
        self._patch.setattr("ikmap.learners.kernel.working_set.FIRST_ROWS", rows)

    def longest_row(self, size: int) -> None:
        """Refuse lines and rows of files that are longer than so many bytes."""
        self._patch.setattr("pipeline.sources.files.limits.LONGEST_ROW", size)

    def dense_scores(self, size: int) -> None:
        """Let tables of scores be dense up to so many bytes."""
        self._patch.setattr("ikmap.partitioners.voronoi.scores.DENSE_BYTES", size)

    def calibration(self, *, fit_bytes: int = 0, numbers: int = 0, enough_rows: int = 0) -> None:
        """Calibrate by learners of so many bytes of rows, so many numbers of evidence, folds of so many rows."""
        places = {
            "pipeline.stages.calibrate.FIT_BYTES": fit_bytes,
            "ikmap.tasks.classification.evidence.MOST_NUMBERS": numbers,
            "pipeline.stages.calibrate.ENOUGH_ROWS": enough_rows,
        }
        for place, size in places.items():
            if size:
                self._patch.setattr(place, size)

    def rounds_checkpoints(self, seconds: float = 0.0) -> None:
        """Let rounds of training be written each, however short they are, or at most once in so many seconds."""
        self._patch.setattr("pipeline.training.engine.CHECKPOINT_SECONDS", seconds)


@contextmanager
def sizes_made_small() -> Iterator[SmallSizes]:
    """Make sizes small within this, where no test's own fixture can."""
    with pytest.MonkeyPatch.context() as patch:
        yield SmallSizes(patch)
