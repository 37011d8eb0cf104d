"""Train learners that take one row after the other: one pass over cells or rows in one task, with checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import numpy as np

from ikmap import seed_paths
from ikmap._threads import ahead
from ikmap.json_values import JsonObject
from ikmap.methods import StreamLearner
from ikmap.seeds import generator
from ikmap.tasks import Task as LearningTask
from ikmap.tasks import criterion_of
from pipeline.params import Params
from pipeline.record_types import TrainedRecord, TrainResult
from pipeline.rows.block_sizes import learning_blocks, packed_row_bytes
from pipeline.rows.cell_blocks import CellBlocks
from pipeline.rows.prepared import PreparedRows
from pipeline.rows.row_blocks import RowBlocks
from pipeline.rows.row_weights import weight_given, weights_of
from pipeline.rows.values import refusing_steps
from pipeline.running.attempt import Attempt, with_spent, without_spent
from pipeline.running.dispatch import Task
from pipeline.storage.durable import read_arrays, write_arrays
from pipeline.storage.fitted import Fitted
from pipeline.storage.models import MODELS, save_model
from pipeline.storage.store import Store
from pipeline.training.runner import Runner, TrainingJob
from pipeline.training.traces import as_result, traces_of

CURVE_POINTS = 200
AT_ONCE = 1 << 16
"""Number of rows that are put in order at once."""


class StreamRunner(Runner):
    """The runner of each :class:`~ikmap.methods.StreamLearner`."""

    metrics_schema: ClassVar[Mapping[str, JsonObject]] = {
        "n_support": {"description": "Rows that the model keeps.", "type": "integer", "minimum": 0},
        "curve": {"$ref": "#/$defs/curve"},
        "traces": {
            "description": "What the learner told of itself as it learned, by name: a number at each point of the "
            "curve; null where it is not finite.",
            "type": "object",
            "additionalProperties": {"type": "array", "items": {"type": ["number", "null"]}},
        },
    }

    def train(self, job: TrainingJob) -> TrainResult:
        context, stage = job.context, job.stage(1)
        checkpoint = context.run.task_record(stage.name, "checkpoint").with_suffix(".npz")
        task_args = (job.learner, job.fitted, job.value, job.rows.preparation.task, str(checkpoint), job.n_threads)
        run = context.run.manifest["id"]
        (record,) = stage.run(train_online, [Task("pass", (context.store, context.params, *task_args, run))])
        checkpoint.unlink(missing_ok=True)
        return stage.finish(job.result(record["content_hash"], record["learner"]))


def train_online(
    store: Store,
    params: Params,
    learner: str,
    fitted: Fitted | None,
    value: float | None,
    task: LearningTask,
    checkpoint: str,
    n_threads: int = 1,
    run: str = "",
) -> TrainedRecord:
    """Task: train an online learner in one pass, going on from the checkpoint of an interrupted attempt.

    Blocks are visited in a fixed order and rows within a block in a seeded shuffle of their own, so the pass is the
    same wherever and however often it was interrupted.

    Parameters
    ----------
    checkpoint : str
        Path of the checkpoint.
    run : str
        Id of the run; a checkpoint of another one is refused as damaged.
    """
    attempt, train = Attempt(), PreparedRows(store, "train")
    n_rows, shuffled = train.n_rows, params.order == "shuffled"
    offsets: np.ndarray | None = None
    if fitted is not None:
        offsets = fitted.offsets(store)
        ranges = learning_blocks(n_rows, packed_row_bytes(offsets), params.seed, shuffled=shuffled)
        blocks: CellBlocks | RowBlocks = CellBlocks(store, fitted.cells_name("train"), offsets, ranges)
    else:
        ranges = learning_blocks(n_rows, train.row_bytes, params.seed, shuffled=shuffled)
        blocks = RowBlocks(store, ranges)
    online, criterion = params.learner_as(StreamLearner, learner, value), criterion_of(task)
    sample = train.sample(params.seed, offsets, reaches_all=fitted is None or params.map.description.reaches_all)
    state = online.start(sample, n_threads)
    first, scores, traces = 0, np.zeros(0), np.zeros((0, len(online.traced)))
    per_point = max(1, -(-n_rows // CURVE_POINTS))
    if Path(checkpoint).exists():
        arrays, attempt.before = without_spent(read_arrays(checkpoint, run))
        first, scores = int(arrays.pop("next_block")), arrays.pop("scores")
        traces = arrays.pop("traces", traces)
        state = state.restore(arrays)
    todo = range(first, len(blocks))
    for k, block in zip(todo, ahead(blocks.__getitem__, todo), strict=True):
        rows, y, weight = block.rows, block.y, block.sample_weight
        order = np.arange(y.size, dtype=np.int32)
        if params.order == "shuffled":
            order = generator(params.seed, seed_paths.PASSES, k).permutation(order)
        start = 0
        while start < y.size:
            seen = state.n_seen
            # Traces are recorded at the points of the curve.
            at_most = min(AT_ONCE, per_point - seen % per_point) if online.traced else AT_ONCE
            inside = order[start : start + at_most]
            start += inside.size
            with refusing_steps(learner):
                progress = state.partial_fit(rows[inside], y[inside], *weight_given(weights_of(weight, inside)))
            row_scores = criterion.row_scores(y[inside], progress.predicted)
            points = (seen + np.arange(inside.size)) // per_point
            scores = np.concatenate([scores, np.zeros(points[-1] + 1 - scores.size)])
            scores += np.bincount(points, weights=row_scores, minlength=scores.size)
            if online.traced and (state.n_seen % per_point == 0 or state.n_seen == n_rows):
                point_traces = np.array([traces_of(online.traced, state)], dtype=np.float64)
                traces = np.concatenate([traces, point_traces])
        if k + 1 < len(blocks):
            recorded = {"traces": traces} if online.traced else {}
            passed = {"next_block": np.array(k + 1), "scores": scores, **recorded}
            spent = attempt.spent(blocks.bytes_read)
            write_arrays(checkpoint, with_spent({**state.checkpoint(), **passed}, spent), run)
    options = {**params.methods[learner], "order": params.order, "seed": params.seed}
    model = state.model(task.codec.classes, options)
    output = f"{MODELS}/{learner}"
    content_hash = save_model(store, output, model)
    ends = np.minimum(np.arange(1, scores.size + 1) * per_point, n_rows)
    so_far = criterion.score(np.cumsum(scores), ends)
    return {
        **attempt.spent(blocks.bytes_read),
        "rows": n_rows,
        "bytes_written": model.nbytes,
        "outputs": [output],
        "content_hash": content_hash,
        "learner": {
            **online.summary(state),
            "n_support": int(state.n_support),
            "curve": {"rows": ends.tolist(), criterion.metric.key: so_far.round(6).tolist()},
            **as_result(online.traced, traces),
        },
    }
