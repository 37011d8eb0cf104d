"""Learners by counts: workers count blocks of the rows, side by side; one task merges the counts into a model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ikmap._threads import ahead
from ikmap.methods import CellTables, CountsLearner, Sample, capability
from pipeline.params import Params
from pipeline.record_types import Record
from pipeline.rows.block_sizes import learning_blocks, packed_row_bytes
from pipeline.rows.cell_blocks import CellBlocks
from pipeline.rows.prepared import PreparedRows
from pipeline.rows.row_blocks import RowBlocks
from pipeline.rows.row_weights import weight_rule
from pipeline.rows.values import check_values
from pipeline.running.dispatch import Task
from pipeline.storage.fitted import Fitted
from pipeline.storage.lru_cache import PROCESS, LRUCache
from pipeline.storage.models import MODELS, save_model
from pipeline.storage.store import Store
from pipeline.training.runner import Runner, TrainingJob

COUNT_BYTES = 8 << 20
"""Rows that are counted at once; a task holds these, the next ones, and two counts."""
TASKS = 64
"""At most: each leaves its counts in the store until they are merged."""

_kept_tables: LRUCache[tuple[str, str, int], dict[str, np.ndarray]] = PROCESS.keeps(1)
"""Tables of a map by the store, the map's content hash and the seed of its draws."""


class CountsRunner(Runner[CountsLearner]):
    """Trains a :class:`~ikmap.methods.CountsLearner`; what makes a task depends on the rows, never on the workers."""

    def train(self, lesson: TrainingJob) -> Record:
        store, params, learner, rows = lesson.context.store, lesson.context.params, lesson.learner, lesson.rows
        of = (store, params, learner, lesson.fitted, lesson.value)
        row_bytes = rows.row_bytes if lesson.fitted is None else packed_row_bytes(lesson.fitted.offsets(store))
        blocks = learning_blocks(rows.n_rows, row_bytes, params.seed, shuffled=False, block_bytes=COUNT_BYTES)
        groups = np.array_split(np.arange(len(blocks)), min(len(blocks), TASKS))
        names = [f"{MODELS}/{learner}-counts/{k:03d}" for k in range(len(groups))]
        twice = params.learner_as(CountsLearner, learner).twice
        stage = lesson.stage((len(groups) + 1) * (2 if twice else 1))
        ranges = [[blocks[b] for b in group] for group in groups]
        stage.run(count_blocks, [Task(f"count-{k:03d}", (*of, ranges[k], name)) for k, name in enumerate(names)])
        first = ""
        if twice:
            first, again = f"{MODELS}/{learner}-counts/all", [f"{name}-again" for name in names]
            stage.run(merge_first, [Task("merge-first", (*of, names, first))])
            stage.run(
                count_blocks, [Task(f"again-{k:03d}", (*of, ranges[k], name, first)) for k, name in enumerate(again)]
            )
            names = again
        (record,) = stage.run(merge_counts, [Task("merge", (*of, names, first))])
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
    first: str = "",
) -> Record:
    """Task: count some blocks, one after the other, and store their counts together.

    In a second look at them, `first` names the counts of all rows in the first.
    """
    method = params.learner_as(CountsLearner, learner, value)
    train, sample = _sample(store, params, learner, fitted)
    before = store.read_group(first)[1] if first else None
    weigh = weight_rule(train.preparation.task)
    if sample.offsets is None:
        blocks: CellBlocks | RowBlocks = RowBlocks(store, ranges, weigh=weigh)
    else:
        assert fitted is not None
        blocks = CellBlocks(store, fitted.cells_name("train"), sample.offsets, ranges, weigh)
    counts: dict[str, np.ndarray] | None = None
    rows = 0
    for block, of in zip(ahead(blocks.__getitem__, range(len(blocks))), ranges, strict=True):
        check_values(learner, block.rows, train.where, train.preparation.column_names, of[0][0])
        found = method.count(block, sample) if before is None else method.count_again(block, sample, before)
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


def merge_first(
    store: Store,
    params: Params,
    learner: str,
    fitted: Fitted | None,  # noqa: ARG001
    value: float | None,  # noqa: ARG001
    names: list[str],
    first: str,
) -> Record:
    """Task: merge the counts of the first look at the rows, for the second."""
    counts, read = _merged(store, params.learner_as(CountsLearner, learner), names)
    written = store.write_group(first, counts, {})
    return {"bytes_read": read, "bytes_written": written, "outputs": [first], "temporary": True}


def _merged(store: Store, learner: CountsLearner, names: list[str]) -> tuple[dict[str, np.ndarray], int]:
    """Counts of all tasks, merged in the order of their rows, and the bytes read."""
    _, counts = store.read_group(names[0])
    read = sum(array.nbytes for array in counts.values())
    for name in names[1:]:
        _, found = store.read_group(name)
        read += sum(array.nbytes for array in found.values())
        counts = learner.merge(counts, found)
    return counts, read


def merge_counts(
    store: Store,
    params: Params,
    learner: str,
    fitted: Fitted | None,
    value: float | None,
    names: list[str],
    first: str = "",
) -> Record:
    """Task: merge the counts of all tasks, in the order of their rows, and store the model."""
    method = params.learner_as(CountsLearner, learner, value)
    _, sample = _sample(store, params, learner, fitted)
    counts, read = _merged(store, method, names)
    if first:
        counts = {**store.read_group(first)[1], **counts}
    model, summary = method.finish(counts, sample)
    output = f"{MODELS}/{learner}"
    return {
        "bytes_read": read,
        "content_hash": save_model(store, output, model),
        "bytes_written": model.nbytes,
        "outputs": [output],
        "learner": summary,
    }


def _sample(store: Store, params: Params, learner: str, fitted: Fitted | None) -> tuple[PreparedRows, Sample]:
    train = PreparedRows(store, "train")
    sample = train.sample(params.seed, None if fitted is None else fitted.offsets(store))
    if fitted is not None and params.of(learner).about.needs_tables:
        sample = replace(sample, tables=_tables(store, params, fitted, sample))
    return train, sample


def _tables(store: Store, params: Params, fitted: Fitted, sample: Sample) -> dict[str, np.ndarray]:
    """What the map knows of its cells, kept for further tasks: it may have to read points all over the store."""
    key = (str(store.path), fitted.content_hash, sample.seed)
    with _kept_tables.lock:  # threads that want the same tables make them once
        tables = _kept_tables.get(key)
        if tables is None:
            knows = capability(params.map_at(fitted.value), CellTables)
            assert knows is not None
            found = knows.cell_tables(fitted.load(store), sample)
            tables = {name: found[name] for name in params.map.description.tables}
            _kept_tables.put(key, tables)
    return tables
