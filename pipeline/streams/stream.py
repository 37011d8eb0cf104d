"""Tasks of a stream: map a chunk to cells, and let a learner predict each block of it and then learn from it."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import cast

import numpy as np

from ikmap.arrays import Floats
from ikmap.json_values import Json
from ikmap.learners.rows import Rows as LearnerRows
from ikmap.methods import Redrawable, StreamLearner, capability
from ikmap.methods.learner import State
from ikmap.rows import Rows, nbytes_of
from ikmap.tasks import Task as LearningTask
from ikmap.tasks import criterion_of
from ikmap.tasks.capabilities import learned_rows
from ikmap.tasks.scoring import accumulate, state_from
from pipeline.errors import Damaged
from pipeline.params import Params
from pipeline.record_types import Alert, LabelledRecord, LearnRecord, MapRecord, SavedRecord
from pipeline.rows.prepared import PreparedRows
from pipeline.rows.row_weights import weight_given, weights_of
from pipeline.rows.stream_data import Stream
from pipeline.rows.values import refusing_steps
from pipeline.running.device import DeviceMap, record_of
from pipeline.running.foreign import checked_decisions
from pipeline.running.working_clock import working_clock
from pipeline.storage.durable import read_arrays, reading, write_arrays
from pipeline.storage.fitted import Fitted
from pipeline.storage.lru_cache import PROCESS, LRUCache
from pipeline.storage.models import MODELS, save_model
from pipeline.streams.alerts import alerts_in
from pipeline.streams.chunk import chunk_of, grow
from pipeline.streams.grow import cells_of_chunk
from pipeline.streams.late_rows import Answers, LateRows, Predicted
from pipeline.streams.participant import Participant
from pipeline.streams.redraw import Redraw, Redrawing
from pipeline.streams.watched import Watched, alarms_of
from pipeline.training.traces import traces_of

CHECKPOINT_SHARE = 0.05
"""Share of its time that a learner may spend on checkpoints."""


def map_chunk(stream: Stream, fitted: list[Fitted], k: int, device: str = "auto") -> MapRecord:
    """Task: map chunk k with all models."""
    X = stream.features(k)
    written, outputs, seconds, maps = 0, [], {}, []
    for model in fitted:
        maps.append(DeviceMap(model.load(stream.store), device))
        began = working_clock()
        codes = maps[-1].codes(X)
        seconds[model.label] = round(working_clock() - began, 6)
        name = cells_of_chunk(model, k)
        written += stream.store.write_group(name, {"codes": codes.astype(np.int32, copy=False)}, {})
        outputs.append(name)
    read = nbytes_of(X)
    return {
        **record_of(maps),
        "rows": int(X.shape[0]),
        "bytes_read": int(read),
        "bytes_written": written,
        "outputs": outputs,
        "map_seconds": seconds,
    }


def learn_initial(stream: Stream, params: Params, participant: Participant, n_threads: int = 1) -> LearnRecord:
    """Task: learn in one pass over the initial rows; the state is kept in the checkpoint."""
    with refusing_steps(participant.learner):
        state, seconds = _after_initial(stream, params, participant, n_threads)
    _save(participant, 0, state, {})
    _keep(participant, 0, state)
    return {"rows": state.n_seen, "train_seconds": round(seconds, 6), "n_support": int(state.n_support)}


def learn_chunk(stream: Stream, params: Params, participant: Participant, k: int, n_threads: int = 1) -> LearnRecord:
    """Task: predict and then learn from every block of chunk k; see :func:`_learn_chunk`."""
    with refusing_steps(participant.learner):
        return _learn_chunk(stream, params, participant, k, n_threads)


def _learn_chunk(stream: Stream, params: Params, participant: Participant, k: int, n_threads: int = 1) -> LearnRecord:
    """Predict and then learn from every block of chunk k.

    The state is that of this process, if it did the chunk before; else it is made from the checkpoint, by learning
    again from the chunks since then, whose predictions are on disk. A checkpoint from after this chunk, of an attempt
    whose record got lost, has the record too.
    """
    state, saved, kept_record = _state_before(stream, params, participant, k, n_threads)
    if kept_record is not None:
        _keep(participant, k + 1, state)
        return _record(stream, participant, k, kept_record)
    traced = params.learner_as(StreamLearner, participant.learner).traced
    rows, labels = chunk_of(stream, participant, k), stream.labels(k, participant.predictions)
    n, task = stream.rows_of(k), params.decision_task(participant.learner, stream.task())
    criterion, late = criterion_of(task), _late_rows(stream, participant, task, k) if stream.late else None
    ids = stream.ids(k) if participant.alerts else None
    numbers, first, weights = stream.numbers(k), stream.first_of(k), stream.weights(k)
    blocks: list[list[float | None]] = []
    spent = 0.0
    labelled: list[int] = []
    all_answers: list[Answers] = []
    alerts: list[Alert] = []
    drifts: list[int] = []
    redraws: list[int] = []
    map_seconds: list[float] = []
    for number, start in enumerate(range(0, n, stream.block_rows)):
        stop = min(start + stream.block_rows, n)
        waiting = working_clock()
        answers: list[Answers] = []
        if late is not None and number == 0:
            answers = late.learn(state, task, 0, rows.known(0, stream, participant))
        late_seconds = working_clock() - waiting
        started = working_clock()
        block = rows.block(state, start, stop)
        began = working_clock()
        map_seconds.append(round(began - started, 6))
        decision = checked_decisions(state, block, participant.learner, task.decisions.outputs)
        predicted = task.decisions.predict(decision)
        between = working_clock()
        if participant.alerts:
            block_first = first + start
            threshold, block_number = getattr(state, "threshold", None), block_first // stream.block_rows
            of_block = None if ids is None else ids[start:stop]
            alerts += alerts_in(task, decision, block_first, numbers[start:stop], threshold, block_number, of_block)
        if late is None:
            y = labels.reveal(start, stop, predicted)
            shown = working_clock()
            _learn(state, task, block, y, weights_of(weights, slice(start, stop)))
            answers = [Answers(y, predicted, decision, numbers[start:stop])]
        else:
            Predicted(participant.predictions, task).keep(first + start, predicted, decision)
            shown = working_clock()
            answers += late.learn(state, task, number + 1, rows.known(number + 1, stream, participant))
        end = working_clock()
        all_answers += answers
        alarms = [at for answer in answers for at in alarms_of(state, task, answer.targets, answer.predicted)]
        # Where labels came late, drift is dated to the rows that had been predicted by then.
        drifts += [first + (start + 1 + int(at) if late is None else stop) for at in alarms]
        if participant.redraw_rows is not None:
            started = working_clock()
            if _redrawing(state).end_block(cast("Rows", rows.rows)[start:stop], alarmed=bool(alarms)):
                redraws.append(first + stop)
            map_seconds[-1] = round(map_seconds[-1] + working_clock() - started, 6)
        labelled.append(sum(answer.targets.size for answer in answers))
        scored = sum(criterion.row_scores(answer.targets, answer.predicted).sum().item() for answer in answers)
        seconds = (round(between - began, 6), round(late_seconds + end - shown, 6))
        spent += seconds[0] + seconds[1]
        blocks.append([stop - start, scored, *seconds, int(state.n_support), *traces_of(traced, state)])
    fields: LearnRecord = {"blocks": blocks}
    if participant.alerts:
        fields["alerts"] = alerts
    if stream.late:
        fields["labelled"] = labelled
    if participant.drift:
        fields["drifts"] = drifts
    if participant.redraw_rows is not None:
        fields["redraws"], fields["map_seconds_of_blocks"] = redraws, map_seconds
        spent += sum(map_seconds)
    fields["tally"] = _tally(task, all_answers)
    saved = _checkpoint_if_due(participant, k + 1, state, fields, spent, saved)
    _keep(participant, k + 1, state, saved)
    return _record(stream, participant, k, fields)


def save_state(
    stream: Stream,
    params: Params,
    participant: Participant,
    k: int,
    n_threads: int = 1,
    grown: Fitted | None = None,
    ended: bool = True,
) -> SavedRecord:
    """Task: save a learner as it is after k chunks, as a model to score with; on cells of `grown`, if the map grows.

    If the stream has `ended` there, the learner first learns from the labels that came after the last chunk.
    """
    state, _, _ = _state_before(stream, params, participant, k, n_threads)
    at_end: LabelledRecord | None = None
    if stream.late and ended and k:
        task = params.decision_task(participant.learner, stream.task())
        late = _late_rows(stream, participant, task, None, k - 1)
        answers = late.learn(state, task, 0, chunk_of(stream, participant, k - 1).known(-1, stream, participant))
        criterion = criterion_of(task)
        scored = sum(criterion.row_scores(answer.targets, answer.predicted).sum().item() for answer in answers)
        labelled = sum(answer.targets.size for answer in answers)
        at_end = {"labelled": labelled, "scored": scored, "tally": _tally(task, answers)}
    redrawn = _save_own_map(stream, participant, state)
    if grown is not None:
        assert participant.fitted is not None
        first_offsets = participant.fitted.offsets(stream.store)
        known_offsets = chunk_of(stream, participant, k - 1).offsets[-1] if k else first_offsets
        grow(state, known_offsets, grown.offsets(stream.store))
    options = {**params.methods[participant.learner], "order": params.order, "seed": params.seed}
    model = state.model(stream.task().codec.classes, options)
    output = f"{MODELS}/{participant.learner}"
    content_hash = save_model(stream.store, output, model)
    record: SavedRecord = {"bytes_written": model.nbytes, "outputs": [output], "content_hash": content_hash}
    if at_end is not None:
        record["at_end"] = at_end
    if redrawn is not None:
        record["redrawn"] = asdict(redrawn)
        record["outputs"].append(redrawn.name)
        record["bytes_written"] += _redrawing(state).partitions.nbytes
    return record


def _redrawing(state: State) -> Redrawing:
    """Return the state of a learner whose partitionings are redrawn as such, also if its losses are watched."""
    return cast("Redrawing", state)


def _save_own_map(stream: Stream, participant: Participant, state: State) -> Fitted | None:
    """Store the partitionings that are a learner's own; return None if it has those that were fitted first."""
    if participant.redraw_rows is None or not _redrawing(state).number:
        return None
    assert participant.fitted is not None
    partitions = _redrawing(state).partitions
    most_cells, content_hash = int(np.diff(partitions.offsets).max()), partitions.content_hash
    own_map = replace(participant.fitted, learner=participant.learner, most_cells=most_cells, content_hash=content_hash)
    save_model(stream.store, own_map.name, partitions, offsets=partitions.offsets.tolist())
    return own_map


def _late_rows(
    stream: Stream, participant: Participant, task: LearningTask, k: int | None, last: int | None = None
) -> LateRows:
    """Return the rows whose labels came with chunk k; None: after chunk `last`, which is the last."""
    cells = None if participant.shared is None else partial(cells_of_chunk, participant.shared)
    chunk = last if k is None else k
    assert chunk is not None
    return LateRows(stream, stream.labels_with(k), cells, Predicted(participant.predictions, task), chunk)


def _tally(task: LearningTask, answers: list[Answers]) -> Json:
    """Return the accumulated metrics of rows whose labels were shown, for a record."""
    if not answers:
        return state_from(task, None).as_json()
    targets, decisions, numbers = (
        np.concatenate([getattr(answer, name) for answer in answers]) for name in ("targets", "decisions", "numbers")
    )
    return accumulate(task, targets, decisions, numbers).as_json()


def _learn(state: State, task: LearningTask, rows: LearnerRows, y: np.ndarray, weight: Floats | None) -> None:
    """Learn from the rows that the task learns from."""
    mask = learned_rows(task, y)
    if mask is not None and not mask.all():
        wanted = np.flatnonzero(mask)
        rows, y, weight = rows[wanted], y[wanted], weights_of(weight, wanted)
    state.partial_fit(rows, y, *weight_given(weight))


def _record(stream: Stream, participant: Participant, k: int, fields: LearnRecord) -> LearnRecord:
    """Complete the record of chunk k: its rows and bytes, and promises of its predictions."""
    n = sum(block[0] for block in fields["blocks"])
    predicted = stream.promise(k, participant.predictions)
    written = n * np.dtype(predicted["dtype"]).itemsize
    record: LearnRecord = {"rows": n, "bytes_read": 0, "bytes_written": written, "predicted": predicted, **fields}
    if stream.late:
        record["decided"] = Predicted(participant.predictions, stream.task()).promise(predicted["first"], n)
    return record


def _after_initial(stream: Stream, params: Params, participant: Participant, n_threads: int) -> tuple[State, float]:
    """Return the state after the initial rows, and the seconds of mapping them and learning from them."""
    train = PreparedRows(stream.store, "train")
    model = None if participant.fitted is None else participant.fitted.load(stream.store)
    offsets = None if model is None else model.offsets
    began = working_clock()
    state = _begin(params, participant, train, offsets, n_threads)
    seconds = working_clock() - began
    for _, block in train.blocks(0, train.n_rows):
        began = working_clock()
        rows = block.rows
        learned = rows if model is None else model.cells(rows, n_threads).packed()
        state.partial_fit(learned, block.y, *weight_given(block.sample_weight))
        seconds += working_clock() - began
    return state, seconds


def _begin(
    params: Params, participant: Participant, train: PreparedRows, offsets: np.ndarray | None, n_threads: int
) -> State:
    """Return the state before the first row."""
    reaches_all = participant.fitted is None or params.map.description.reaches_all
    learner, sample = participant.learner, train.sample(params.seed, offsets, reaches_all=reaches_all)
    state = params.learner_as(StreamLearner, learner, participant.value).start(sample, n_threads)
    if participant.redraw_rows is not None:
        assert participant.fitted is not None
        redrawable = capability(params.map_at(participant.fitted.value), Redrawable)
        assert redrawable is not None
        redraw = Redraw(redrawable, params.seed, participant.redraw_rows, train.preparation.n_columns, n_threads)
        # Both wrappers have the attributes of the state that they do not define themselves.
        state = cast("State", Redrawing(state, participant.fitted.load(train.store), redraw))
    return state if participant.drift is None else cast("State", Watched(state, *participant.drift))


def _save(participant: Participant, next_chunk: int, state: State, fields: LearnRecord) -> None:
    """Save the state after some chunks, and the fields of the record of the last one."""
    position = {"next_chunk": np.array(next_chunk), "told": np.frombuffer(json.dumps(fields).encode(), dtype=np.uint8)}
    write_arrays(participant.checkpoint, {**state.checkpoint(), **position})


# --- states that stay in this process between the tasks of a learner


@dataclass
class _Saved:
    """Seconds that a learner has learned since its state was last saved, and seconds that saving took."""

    since: float = 0.0
    cost: float = 0.0


MOST_KEPT = 16
_kept: LRUCache[tuple[str, str], tuple[int, State, _Saved]] = PROCESS.keeps(MOST_KEPT)
"""The chunk that comes next and the state, by run and checkpoint."""


def _keep(participant: Participant, next_chunk: int, state: State, saved: _Saved | None = None) -> None:
    """Keep a state in this process."""
    _kept.put((participant.run, participant.checkpoint), (next_chunk, state, saved or _Saved()))


def _state_before(
    stream: Stream, params: Params, participant: Participant, k: int, n_threads: int
) -> tuple[State, _Saved, LearnRecord | None]:
    """Return the state before chunk k; or the state after it, with the fields of the chunk's record."""
    # Taken out, not copied: a task that fails half-way must not leave a state that has learned too much.
    kept = _kept.take((participant.run, participant.checkpoint))
    if kept is not None and kept[0] == k:
        return kept[1], kept[2], None
    offsets = None if participant.fitted is None else participant.fitted.offsets(stream.store)
    state = _begin(params, participant, PreparedRows(stream.store, "train"), offsets, n_threads)
    arrays = read_arrays(participant.checkpoint)
    with reading(participant.checkpoint):
        first, fields = int(arrays.pop("next_chunk")), json.loads(arrays.pop("told").tobytes())
        state = state.restore(arrays)
    if first > k + 1:
        raise Damaged(participant.checkpoint, "it is ahead of the records of the run")
    if first == k + 1:
        return state, _Saved(), cast("LearnRecord", fields)
    decided = params.decision_task(participant.learner, stream.task())
    for k_done in range(first, k):
        rows, labels = chunk_of(stream, participant, k_done), stream.labels(k_done, participant.predictions)
        n, predicted = stream.rows_of(k_done), stream.predicted(k_done, participant.predictions)
        weights = stream.weights(k_done)
        if predicted.size != n:
            files = participant.predictions, participant.checkpoint
            raise Damaged(participant.predictions, "some of it is missing", *files)
        late = _late_rows(stream, participant, decided, k_done) if stream.late else None
        for number, start in enumerate(range(0, n, stream.block_rows)):
            stop = min(start + stream.block_rows, n)
            answers: list[Answers] = []
            if late is not None and number == 0:
                answers = late.learn(state, decided, 0, rows.known(0, stream, participant))
            block = rows.block(state, start, stop)
            if late is None:
                y, numbers = labels.reveal(start, stop, predicted[start:stop]), np.zeros(0, dtype=np.int64)
                _learn(state, decided, block, y, weights_of(weights, slice(start, stop)))
                answers = [Answers(y, predicted[start:stop], None, numbers)]
            else:
                answers += late.learn(state, decided, number + 1, rows.known(number + 1, stream, participant))
            alarms = [at for answer in answers for at in alarms_of(state, decided, answer.targets, answer.predicted)]
            if participant.redraw_rows is not None:
                _redrawing(state).end_block(cast("Rows", rows.rows)[start:stop], alarmed=bool(alarms))
    return state, _Saved(), None


def _checkpoint_if_due(
    participant: Participant, next_chunk: int, state: State, fields: LearnRecord, spent: float, saved: _Saved
) -> _Saved:
    """Save the state if saving takes little time compared with learning again from the chunks since the last save."""
    since = saved.since + spent
    if saved.cost > CHECKPOINT_SHARE * since:
        return _Saved(since, saved.cost)
    began = time.perf_counter()
    _save(participant, next_chunk, state, fields)
    return _Saved(0.0, time.perf_counter() - began)
