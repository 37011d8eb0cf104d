"""Learners by counts: workers count blocks of the rows, side by side; one task merges the counts into a model."""

from __future__ import annotations

from typing import Any

import numpy as np

from ikmap._threads import ahead
from ikmap.methods import Sample, counts_learner
from pipeline.params import Params
from pipeline.rows.block_sizes import learning_blocks, packed_row_bytes
from pipeline.rows.cell_blocks import CellBlocks
from pipeline.rows.prepared import PreparedRows
from pipeline.rows.row_blocks import RowBlocks
from pipeline.rows.row_weights import weigher
from pipeline.rows.values import check_values
from pipeline.running.dispatch import Task
from pipeline.running.stage import Record
from pipeline.storage.fitted import Fitted
from pipeline.storage.models import MODELS, save_model
from pipeline.storage.store import Store
from pipeline.training.runner import Lesson, Runner

COUNT_BYTES = 8 << 20
"""Rows that are counted at once; a task holds these, the next ones, and two counts."""
TASKS = 64
"""At most: each leaves its counts in the store until they are merged."""


class CountsRunner(Runner):
    """Trains a :class:`~ikmap.methods.CountsLearner`; what makes a task depends on the rows, never on the workers."""

    def train(self, lesson: Lesson) -> dict[str, Any]:
        store, params, learner, rows = lesson.context.store, lesson.context.params, lesson.learner, lesson.rows
        of = (store, params, learner, lesson.fitted, lesson.value)
        row_bytes = rows.row_bytes if lesson.fitted is None else packed_row_bytes(lesson.fitted.offsets(store))
        blocks = learning_blocks(rows.n_rows, row_bytes, params.seed, shuffled=False, block_bytes=COUNT_BYTES)
        groups = np.array_split(np.arange(len(blocks)), min(len(blocks), TASKS))
        names = [f"{MODELS}/{learner}-counts/{k:03d}" for k in range(len(groups))]
        stage = lesson.stage(len(groups) + 1)
        stage.run(
            count_blocks,
            [Task(f"count-{k:03d}", (*of, [blocks[b] for b in group], names[k])) for k, group in enumerate(groups)],
        )
        (record,) = stage.run(merge_counts, [Task("merge", (*of, names))])
        result = stage.finish(**lesson.chosen, content_hash=record["content_hash"], **record["learner"])
        store.delete(f"{MODELS}/{learner}-counts")  # only now: until here an interrupted run still needs them
        return result


def count_blocks(
    store: Store,
    params: Params,
    learner: str,
    fitted: Fitted | None,
    value: float | None,
    ranges: list[list[tuple[int, int]]],
    name: str,
) -> Record:
    """Task: count some blocks, one after the other, and store their counts together."""
    method, options = counts_learner(learner), params.of(learner)
    train, sample = _sample(store, params, fitted)
    weigh = weigher(params, learner, train.preparation.task)
    if sample.offsets is None:
        blocks: CellBlocks | RowBlocks = RowBlocks(store, ranges, weigh=weigh)
    else:
        assert fitted is not None
        blocks = CellBlocks(store, fitted.cells_name("train"), sample.offsets, ranges, weigh)
    counts: dict[str, np.ndarray] | None = None
    rows = 0
    for block, of in zip(ahead(blocks.__getitem__, range(len(blocks))), ranges, strict=True):
        check_values(learner, block.rows, train.where, train.preparation.column_names, of[0][0])
        found = method.count(options, value, block, sample)
        counts = found if counts is None else method.merge(counts, found)
        rows += block.y.size
    assert counts is not None
    written = store.write_group(name, counts, {})
    return {
        "rows": rows,
        "bytes_read": blocks.bytes_read,
        "bytes_written": written,
        "outputs": [name],
        "temporary": True,
    }


def merge_counts(
    store: Store, params: Params, learner: str, fitted: Fitted | None, value: float | None, names: list[str]
) -> Record:
    """Task: merge the counts of all tasks, in the order of their rows, and store the model."""
    method, options = counts_learner(learner), params.of(learner)
    _, sample = _sample(store, params, fitted)
    _, counts = store.read_group(names[0])
    read = sum(array.nbytes for array in counts.values())
    for name in names[1:]:
        _, found = store.read_group(name)
        read += sum(array.nbytes for array in found.values())
        counts = method.merge(counts, found)
    model, facts = method.finish(options, value, counts, sample)
    output = f"{MODELS}/{learner}"
    return {
        "bytes_read": read,
        "content_hash": save_model(store, output, model),
        "bytes_written": model.nbytes,
        "outputs": [output],
        "learner": facts,
    }


def _sample(store: Store, params: Params, fitted: Fitted | None) -> tuple[PreparedRows, Sample]:
    train = PreparedRows(store, "train")
    return train, train.sample(params.seed, None if fitted is None else fitted.offsets(store))
