"""Train learners by counts: workers count blocks of the rows, side by side; one task merges the counts into a model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ikmap._threads import ahead
from ikmap.methods import CellTables, CountsLearner, Sample, capability
from pipeline.params import Params
from pipeline.record_types import TaskRecord, TrainedRecord, TrainResult
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
"""Bytes of rows that are counted at once; a task holds these, the next ones, and two counts."""
TASKS = 64
"""Most tasks: each leaves its counts in the store until they are merged."""

_kept_tables: LRUCache[tuple[str, str, int], dict[str, np.ndarray]] = PROCESS.keeps(1)
"""Tables of a map by the store, the map's content hash and the seed of its draws."""


class CountsRunner(Runner[CountsLearner]):
    """The runner of each :class:`~ikmap.methods.CountsLearner`; tasks depend on the rows, never on the workers."""

    def train(self, job: TrainingJob) -> TrainResult:
        store, params, learner, rows = job.context.store, job.context.params, job.learner, job.rows
        common = (store, params, learner, job.fitted, job.value)
        row_bytes = rows.row_bytes if job.fitted is None else packed_row_bytes(job.fitted.offsets(store))
        blocks = learning_blocks(rows.n_rows, row_bytes, params.seed, shuffled=False, block_bytes=COUNT_BYTES)
        groups = np.array_split(np.arange(len(blocks)), min(len(blocks), TASKS))
        names = [f"{MODELS}/{learner}-counts/{k:03d}" for k in range(len(groups))]
        twice = params.learner_as(CountsLearner, learner).twice
        stage = job.stage((len(groups) + 1) * (2 if twice else 1))
        ranges = [[blocks[b] for b in group] for group in groups]
        stage.run(count_blocks, [Task(f"count-{k:03d}", (*common, ranges[k], name)) for k, name in enumerate(names)])
        first = ""
        if twice:
            first, again = f"{MODELS}/{learner}-counts/all", [f"{name}-again" for name in names]
            stage.run(merge_first, [Task("merge-first", (*common, names, first))])
            stage.run(
                count_blocks,
                [Task(f"again-{k:03d}", (*common, ranges[k], name, first)) for k, name in enumerate(again)],
            )
            names = again
        (record,) = stage.run(merge_counts, [Task("merge", (*common, names, first))])
        result = stage.finish(job.result(record["content_hash"], record["learner"]))
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
) -> TaskRecord:
    """Task: count some blocks, one after the other, and store their counts together.

    In a second pass over the blocks, `first` names the counts of all rows in the first pass.
    """
    method = params.learner_as(CountsLearner, learner, value)
    train, sample = _sample(store, params, learner, fitted)
    before = store.read_group(first)[1] if first else None
    weight_of = weight_rule(train.preparation.task)
    if sample.offsets is None:
        blocks: CellBlocks | RowBlocks = RowBlocks(store, ranges, weigh=weight_of)
    else:
        assert fitted is not None
        blocks = CellBlocks(store, fitted.cells_name("train"), sample.offsets, ranges, weight_of)
    counts: dict[str, np.ndarray] | None = None
    rows = 0
    for block, block_ranges in zip(ahead(blocks.__getitem__, range(len(blocks))), ranges, strict=True):
        check_values(learner, block.rows, train.where, train.preparation.column_names, block_ranges[0][0])
        block_counts = method.count(block, sample) if before is None else method.count_again(block, sample, before)
        counts = block_counts if counts is None else method.merge(counts, block_counts)
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
) -> TaskRecord:
    """Task: merge the counts of the first pass over the rows, for the second."""
    counts, read = _merged(store, params.learner_as(CountsLearner, learner), names)
    written = store.write_group(first, counts, {})
    return {"bytes_read": read, "bytes_written": written, "outputs": [first], "temporary": True}


def _merged(store: Store, learner: CountsLearner, names: list[str]) -> tuple[dict[str, np.ndarray], int]:
    """Return the counts of all tasks, merged in the order of their rows, and the bytes read."""
    _, counts = store.read_group(names[0])
    read = sum(array.nbytes for array in counts.values())
    for name in names[1:]:
        _, task_counts = store.read_group(name)
        read += sum(array.nbytes for array in task_counts.values())
        counts = learner.merge(counts, task_counts)
    return counts, read


def merge_counts(
    store: Store,
    params: Params,
    learner: str,
    fitted: Fitted | None,
    value: float | None,
    names: list[str],
    first: str = "",
) -> TrainedRecord:
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
    """Return the map's tables of its cells, kept for further tasks: the map may have to read points of all rows."""
    key = (str(store.path), fitted.content_hash, sample.seed)
    with _kept_tables.lock:  # threads that want the same tables make them once
        tables = _kept_tables.get(key)
        if tables is None:
            with_tables = capability(params.map_at(fitted.value), CellTables)
            assert with_tables is not None
            tables_by_name = with_tables.cell_tables(fitted.load(store), sample)
            tables = {name: tables_by_name[name] for name in params.map.description.tables}
            _kept_tables.put(key, tables)
    return tables
