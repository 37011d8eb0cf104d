"""Tasks of a stream in which a learner learns: from the initial rows, then chunk by chunk, until it is saved."""

from __future__ import annotations

import json
from typing import cast

import numpy as np

from ikmap.json_values import JsonObject
from ikmap.methods import Growable, Redrawable, StreamLearner, capability
from pipeline.errors import Damaged
from pipeline.params import Params
from pipeline.record_types import EndRecord, LearnRecord, SavedRecord
from pipeline.rows.prepared import PreparedRows
from pipeline.rows.row_weights import weight_given
from pipeline.rows.stream_data import Stream, chunk_name
from pipeline.rows.values import refusing_steps
from pipeline.running.working_clock import working_clock
from pipeline.storage.durable import reading
from pipeline.storage.fitted import Fitted
from pipeline.storage.models import MODELS, save_model
from pipeline.streams.advance import Live, Replay, go_through
from pipeline.streams.alerts import AlertedRows
from pipeline.streams.checkpoints import Checkpoints, Kept, read_checkpoint, write_checkpoint
from pipeline.streams.drift import DriftWatch
from pipeline.streams.labels import LateLabels, ShownLabels
from pipeline.streams.participant import Standing
from pipeline.streams.predictions import Predictions
from pipeline.streams.redraw import RedrawnCells
from pipeline.streams.rows import GrowingCells, StreamCells, StreamRows
from pipeline.streams.streamed_learner import StreamedLearner

_LEARNERS: Checkpoints[Standing] = Checkpoints(16)


def learn_initial(stream: Stream, params: Params, streamed: StreamedLearner, n_threads: int = 1) -> LearnRecord:
    """Task: learn in one pass over the initial rows; the state is kept in the checkpoint."""
    model = None if streamed.fitted is None else streamed.fitted.load(stream.store)
    train = PreparedRows(stream.store, "train")
    with refusing_steps(streamed.learner):
        began = working_clock()
        standing = standing_before(stream, params, streamed, n_threads)
        seconds, state = working_clock() - began, standing.learner
        for _, block in train.blocks(0, train.n_rows):
            began = working_clock()
            rows = block.rows if model is None else model.cells(block.rows, n_threads).packed()
            state.partial_fit(rows, block.y, *weight_given(block.sample_weight))
            seconds += working_clock() - began
    write_checkpoint(streamed.place, 0, _arrays(standing, {}))
    _LEARNERS.keep(streamed.place, Kept(standing, 0))
    return {"rows": state.n_seen, "train_seconds": round(seconds, 6), "n_support": int(state.n_support)}


def learn_chunk(stream: Stream, params: Params, streamed: StreamedLearner, k: int, n_threads: int = 1) -> LearnRecord:
    """Task: predict and then learn from every block of chunk k.

    The state is that of this process, if it did the chunk before; else it is made from the checkpoint, by learning
    again from the chunks since then, whose predictions are on disk. A checkpoint from after this chunk, of an attempt
    whose record got lost, has the record too.
    """
    with refusing_steps(streamed.learner):
        kept, record = _before(stream, params, streamed, k, n_threads)
        if record is not None:
            fields = record
            _LEARNERS.keep(streamed.place, kept)
        else:
            traced = list(params.learner_as(StreamLearner, streamed.learner).traced)
            live = Live(streamed.learner, traced, [AlertedRows()] if streamed.alerts else [])
            kept.state, fields = go_through(kept.state, k, live)
            _LEARNERS.pass_on(streamed.place, kept, live.seconds, lambda: _arrays(kept.state, fields))
    n = stream.rows_of(k)
    promises = kept.state.predictions.promises(stream.first_of(k), n)
    written = n * np.dtype(promises["predicted"]["dtype"]).itemsize
    return {"rows": n, "bytes_read": 0, "bytes_written": written, **promises, **fields}


def save_state(
    stream: Stream,
    params: Params,
    streamed: StreamedLearner,
    k: int,
    n_threads: int = 1,
    grown: Fitted | None = None,
    ended: bool = True,
) -> SavedRecord:
    """Task: save a learner as it is after k chunks, as a model to score with; on cells of `grown`, if the map grows.

    If the stream has `ended` there, the learner first learns from the labels that came after the last chunk.
    """
    standing = _before(stream, params, streamed, k, n_threads)[0].state
    offsets = None if grown is None else grown.offsets(stream.store)
    fields = EndRecord()
    for participant in standing.participants:
        fields |= participant.at_end(standing, k, ended, offsets)
    options = {**params.methods[streamed.learner], "order": params.order, "seed": params.seed}
    model = standing.learner.model(stream.task().codec.classes, options)
    output = f"{MODELS}/{streamed.learner}"
    content_hash = save_model(stream.store, output, model)
    outputs = [output, *fields.pop("outputs", [])]
    written = model.nbytes + fields.pop("bytes_written", 0)
    return {"bytes_written": written, "outputs": outputs, "content_hash": content_hash, **fields}


def standing_before(stream: Stream, params: Params, streamed: StreamedLearner, n_threads: int) -> Standing:
    """Return a learner before the first row, with all that takes part in its stream."""
    train, fitted = PreparedRows(stream.store, "train"), streamed.fitted
    offsets = None if fitted is None else fitted.offsets(stream.store)
    reaches_all = fitted is None or params.map.description.reaches_all
    sample = train.sample(params.seed, offsets, reaches_all=reaches_all)
    learner = params.learner_as(StreamLearner, streamed.learner, streamed.value).start(sample, n_threads)
    task = params.decision_task(streamed.learner, stream.task())
    dtype, outputs = stream.task().decisions.dtype, task.decisions.outputs
    predictions = Predictions(streamed.predictions, dtype, outputs, stream.late, streamed.checkpoint)
    rows = _rows(stream, params, streamed, n_threads)
    drift = [] if streamed.drift is None else [DriftWatch(*streamed.drift)]
    labels = LateLabels(rows) if stream.late else ShownLabels()
    # Labels that were there before rows come before these rows; alarms come before partitionings are redrawn.
    return Standing(stream, learner, task, predictions, [*drift, labels, rows])


def _rows(stream: Stream, params: Params, streamed: StreamedLearner, n_threads: int) -> StreamRows:
    """Return the participant that turns rows into what the learner takes."""
    fitted = streamed.fitted
    if fitted is None:
        return StreamRows()
    if streamed.redraw_rows is not None:
        redrawable = capability(params.map_at(fitted.value), Redrawable)
        assert redrawable is not None
        n_columns = PreparedRows(stream.store, "train").preparation.n_columns
        partitions = fitted.load(stream.store)
        return RedrawnCells(streamed, partitions, redrawable, params.seed, n_columns, n_threads)
    cells = GrowingCells if capability(params.map, Growable) else StreamCells
    return cells(fitted, fitted.offsets(stream.store))


def _before(
    stream: Stream, params: Params, streamed: StreamedLearner, k: int, n_threads: int
) -> tuple[Kept[Standing], LearnRecord | None]:
    """Return a learner before chunk k; or after it, with the fields of the chunk's record."""
    if (kept := _LEARNERS.take(streamed.place, k)) is not None:
        return kept, None
    standing = standing_before(stream, params, streamed, n_threads)
    first, arrays = read_checkpoint(streamed.place)
    with reading(streamed.checkpoint):
        fields: LearnRecord = json.loads(bytes(arrays.pop("told")))
        standing.restore(arrays)
    if first > k + 1 or (first == k + 1 and not _is_of_chunk(stream, k, fields)):
        raise Damaged(streamed.checkpoint, "it is ahead of the records of the run")
    if first == k + 1:
        return Kept(standing, first), fields
    for done in range(first, k):
        standing, _ = go_through(standing, done, Replay())
    return Kept(standing, k), None


def _is_of_chunk(stream: Stream, k: int, fields: LearnRecord) -> bool:
    """Return whether a record is of chunk k as it is now: a short last chunk is cut anew if more rows come."""
    attributes = stream.store.attributes(chunk_name(k))
    return attributes is not None and attributes["rows"] == sum(block[0] for block in fields["blocks"])


def _arrays(standing: Standing, fields: LearnRecord) -> dict[str, np.ndarray]:
    """Return the arrays of a checkpoint: those of the standing, and the fields of the record of the last chunk."""
    told = np.frombuffer(json.dumps(cast("JsonObject", fields)).encode(), dtype=np.uint8)
    return {**standing.checkpoint(), "told": told}
