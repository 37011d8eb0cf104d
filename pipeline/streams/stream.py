"""Tasks of a stream: map a chunk to cells, and let a learner predict each block of it and then learn from it."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ikmap.methods import Redrawable, StreamLearner, capability
from ikmap.rows import nbytes_of
from ikmap.tasks import Task as LearningTask
from ikmap.tasks import criterion_of
from ikmap.tasks.capabilities import learned_rows
from ikmap.tasks.scoring import accumulate, state_from
from pipeline.errors import Damaged
from pipeline.params import Params
from pipeline.record_types import Record
from pipeline.rows.prepared import PreparedRows
from pipeline.rows.stream_data import Stream
from pipeline.rows.values import refusing_steps
from pipeline.running.device import DeviceMap, record_of
from pipeline.running.foreign import checked_decisions
from pipeline.running.working_clock import working_clock
from pipeline.storage.durable import read_arrays, reading, write_arrays
from pipeline.storage.fitted import Fitted
from pipeline.storage.lru_cache import PROCESS, LRUCache
from pipeline.storage.models import MODELS, save_model
from pipeline.streams.alerts import Alert, alerts_in
from pipeline.streams.chunk import chunk_of, grow
from pipeline.streams.grow import cells_of_chunk
from pipeline.streams.late_rows import Answers, LateRows, Predicted
from pipeline.streams.participant import Participant
from pipeline.streams.redraw import Redraw, Redrawing
from pipeline.streams.watched import Watched, alarms_of
from pipeline.training.traces import traces_of

CHECKPOINT_SHARE = 0.05
"""Share of its time that a learner may spend on checkpoints."""


def map_chunk(stream: Stream, fitted: list[Fitted], k: int, device: str = "auto") -> Record:
    """Task: the cells of chunk k in all models."""
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


def learn_initial(stream: Stream, params: Params, participant: Participant, n_threads: int = 1) -> Record:
    """Task: one pass over the initial rows; what has been learned is kept in the checkpoint."""
    with refusing_steps(participant.learner):
        state, seconds = _after_initial(stream, params, participant, n_threads)
    _save(participant, 0, state, {})
    _keep(participant, 0, state)
    return {"rows": state.n_seen, "train_seconds": round(seconds, 6), "n_support": int(state.n_support)}


def learn_chunk(stream: Stream, params: Params, participant: Participant, k: int, n_threads: int = 1) -> Record:
    """Task: predict and then learn from every block of chunk k; see :func:`_learn_chunk`."""
    with refusing_steps(participant.learner):
        return _learn_chunk(stream, params, participant, k, n_threads)


def _learn_chunk(stream: Stream, params: Params, participant: Participant, k: int, n_threads: int = 1) -> Record:
    """Predict and then learn from every block of chunk k.

    The state is that of this process, if it did the chunk before; else it is made from the checkpoint, by learning anew
    from the chunks since then, whose predictions are on disk. A checkpoint from after this chunk, of an attempt whose
    record got lost, has the record too.
    """
    state, saved, done = _state_before(stream, params, participant, k, n_threads)
    if done is not None:
        _keep(participant, k + 1, state)
        return _record(stream, participant, k, done)
    traced = params.learner_as(StreamLearner, participant.learner).traced
    rows, labels = chunk_of(stream, participant, k), stream.labels(k, participant.predictions)
    n, task = stream.rows_of(k), params.decision_task(participant.learner, stream.task())
    criterion, late = criterion_of(task), _late_rows(stream, participant, task, k) if stream.late else None
    numbers, first = stream.numbers(k), stream.first_of(k)
    blocks, labelled = [], []
    answered: list[Answers] = []
    alerts: list[Alert] = []
    drifts: list[int] = []
    redraws: list[int] = []
    mapping: list[float] = []
    for number, start in enumerate(range(0, n, stream.block_rows)):
        stop = min(start + stream.block_rows, n)
        waiting = working_clock()
        answers: list[Answers] = []
        if late is not None and number == 0:
            answers = late.learn(state, task, 0, rows.known(0, stream, participant))
        learned = working_clock() - waiting
        asked = working_clock()
        block = rows.block(state, start, stop)
        began = working_clock()
        mapping.append(round(began - asked, 6))
        decision = checked_decisions(state, block, participant.learner, task.decisions.outputs)
        predicted = task.decisions.predict(decision)
        between = working_clock()
        if participant.alerts:
            place = first + start
            known, block_number = getattr(state, "threshold", None), place // stream.block_rows
            alerts += alerts_in(task, decision, place, numbers[start:stop], known, block_number)
        if late is None:
            y = labels.reveal(start, stop, predicted)
            shown = working_clock()
            _learn(state, task, block, y)
            answers = [Answers(y, predicted, decision, numbers[start:stop])]
        else:
            Predicted(participant.predictions, task).keep(first + start, predicted, decision)
            shown = working_clock()
            answers += late.learn(state, task, number + 1, rows.known(number + 1, stream, participant))
        end = working_clock()
        answered += answers
        alarms = [at for one in answers for at in alarms_of(state, task, one.targets, one.predicted)]
        # Of a label that came late, the rows that had been predicted by then.
        drifts += [first + (start + 1 + int(at) if late is None else stop) for at in alarms]
        if participant.redraw_rows is not None:
            asked = working_clock()
            redraws += [first + stop] if state.end_block(rows.rows[start:stop], alarmed=bool(alarms)) else []
            mapping[-1] = round(mapping[-1] + working_clock() - asked, 6)
        labelled.append(sum(one.targets.size for one in answers))
        scored = sum(criterion.row_scores(one.targets, one.predicted).sum().item() for one in answers)
        seconds = (round(between - began, 6), round(learned + end - shown, 6))
        blocks.append([stop - start, scored, *seconds, int(state.n_support), *traces_of(traced, state)])
    spent = sum(block[2] + block[3] for block in blocks)
    if participant.redraw_rows is not None:
        spent += sum(mapping)
    told: Record = {"blocks": blocks, **({"alerts": alerts} if participant.alerts else {})}
    told |= {"labelled": labelled} if stream.late else {}
    told |= {"drifts": drifts} if participant.drift else {}
    told |= {"redraws": redraws, "map_seconds_of_blocks": mapping} if participant.redraw_rows is not None else {}
    told |= _tally(task, answered)
    saved = _checkpoint_if_due(participant, k + 1, state, told, spent, saved)
    _keep(participant, k + 1, state, saved)
    return _record(stream, participant, k, told)


def save_state(
    stream: Stream,
    params: Params,
    participant: Participant,
    k: int,
    n_threads: int = 1,
    grown: Fitted | None = None,
    ended: bool = True,
) -> Record:
    """Task: save what a learner is after k chunks, as a model to score with; on cells of a map that has grown.

    Where the stream has `ended` there, it learns first from the labels that came after the last chunk.
    """
    state, _, _ = _state_before(stream, params, participant, k, n_threads)
    at_end: Record = {}
    if stream.late and ended and k:
        task = params.decision_task(participant.learner, stream.task())
        late = _late_rows(stream, participant, task, None, k - 1)
        answers = late.learn(state, task, 0, chunk_of(stream, participant, k - 1).known(-1, stream, participant))
        criterion = criterion_of(task)
        scored = sum(criterion.row_scores(one.targets, one.predicted).sum().item() for one in answers)
        labelled = sum(one.targets.size for one in answers)
        at_end = {"at_end": {"labelled": labelled, "scored": scored, **_tally(task, answers)}}
    redrawn = _save_own_map(stream, participant, state)
    if grown is not None:
        assert participant.fitted is not None
        known = chunk_of(stream, participant, k - 1).offsets[-1] if k else participant.fitted.offsets(stream.store)
        grow(state, known, grown.offsets(stream.store))
    asked = {**params.methods[participant.learner], "order": params.order, "seed": params.seed}
    model = state.model(stream.task().codec.classes, asked)
    output = f"{MODELS}/{participant.learner}"
    content_hash = save_model(stream.store, output, model)
    outputs, written = [output], model.nbytes
    if redrawn is not None:
        at_end["redrawn"], outputs = asdict(redrawn), [*outputs, redrawn.name]
        written += state.partitions.nbytes
    return {"bytes_written": written, "outputs": outputs, "content_hash": content_hash, **at_end}


def _save_own_map(stream: Stream, participant: Participant, state: Any) -> Fitted | None:
    """Store the partitionings that are a learner's own; None where it has those that were fitted first."""
    if participant.redraw_rows is None or not state.number:
        return None
    assert participant.fitted is not None
    partitions = state.partitions
    most, content_hash = int(np.diff(partitions.offsets).max()), partitions.content_hash
    own = replace(participant.fitted, learner=participant.learner, most_cells=most, content_hash=content_hash)
    save_model(stream.store, own.name, partitions, offsets=partitions.offsets.tolist())
    return own


def _late_rows(
    stream: Stream, participant: Participant, task: LearningTask, k: int | None, last: int | None = None
) -> LateRows:
    """Rows whose labels came with chunk k; None: after chunk `last`, which is the last."""
    cells = None if participant.shared is None else partial(cells_of_chunk, participant.shared)
    chunk = last if k is None else k
    assert chunk is not None
    return LateRows(stream, stream.labels_with(k), cells, Predicted(participant.predictions, task), chunk)


def _tally(task: LearningTask, answered: list[Answers]) -> dict[str, Any]:
    """What a record says of rows whose labels were shown."""
    if not answered:
        return {"tally": state_from(task, None).as_json()}
    targets, decisions, numbers = (
        np.concatenate([getattr(one, name) for one in answered]) for name in ("targets", "decisions", "numbers")
    )
    return {"tally": accumulate(task, targets, decisions, numbers).as_json()}


def _learn(state: Any, task: LearningTask, rows: Any, y: np.ndarray) -> None:
    """Learn from those rows that the task learns from."""
    mask = learned_rows(task, y)
    if mask is not None and not mask.all():
        wanted = np.flatnonzero(mask)
        rows, y = rows[wanted], y[wanted]
    state.partial_fit(rows, y)


def _record(stream: Stream, participant: Participant, k: int, told: Record) -> Record:
    n = sum(block[0] for block in told["blocks"])
    predicted = stream.promise(k, participant.predictions)
    written = n * np.dtype(predicted["dtype"]).itemsize
    if stream.late:
        told = {**told, "decided": Predicted(participant.predictions, stream.task()).promise(predicted["first"], n)}
    return {"rows": n, "bytes_read": 0, "bytes_written": written, "predicted": predicted, **told}


def _after_initial(stream: Stream, params: Params, participant: Participant, n_threads: int) -> tuple[Any, float]:
    """State after the initial rows, and the seconds of mapping them and learning from them."""
    train = PreparedRows(stream.store, "train")
    model = None if participant.fitted is None else participant.fitted.load(stream.store)
    offsets = None if model is None else model.offsets
    began = working_clock()
    state = _begin(params, participant, train, offsets, n_threads)
    seconds = working_clock() - began
    for _, block in train.blocks(0, train.n_rows):
        began = working_clock()
        rows = block.rows
        state.partial_fit(rows if model is None else model.cells(rows, n_threads).packed(), block.y)
        seconds += working_clock() - began
    return state, seconds


def _begin(
    params: Params, participant: Participant, train: PreparedRows, offsets: np.ndarray | None, n_threads: int
) -> Any:
    """State before the first row."""
    reaches_all = participant.fitted is None or params.map.description.reaches_all
    learner, sample = participant.learner, train.sample(params.seed, offsets, reaches_all=reaches_all)
    state: Any = params.learner_as(StreamLearner, learner, participant.value).start(sample, n_threads)
    if participant.redraw_rows is not None:
        assert participant.fitted is not None
        of_map = capability(params.map_at(participant.fitted.value), Redrawable)
        assert of_map is not None
        how = Redraw(of_map, params.seed, participant.redraw_rows, train.preparation.n_columns, n_threads)
        state = Redrawing(state, participant.fitted.load(train.store), how)
    return state if participant.drift is None else Watched(state, *participant.drift)


def _save(participant: Participant, next_chunk: int, state: Any, told: Record) -> None:
    """Keep the state after some chunks, and what the record of the last one says."""
    more = {"next_chunk": np.array(next_chunk), "told": np.frombuffer(json.dumps(told).encode(), dtype=np.uint8)}
    write_arrays(participant.checkpoint, {**state.checkpoint(), **more})


# --- states that stay in this process between the tasks of a learner


@dataclass
class _Saved:
    """How long a learner has learned since its state was last saved, and how long saving took."""

    since: float = 0.0
    cost: float = 0.0


MOST_KEPT = 16
_kept: LRUCache[tuple[str, str], tuple[int, Any, _Saved]] = PROCESS.keeps(MOST_KEPT)
"""By run and checkpoint: states, and the chunk that comes next."""


def _keep(participant: Participant, next_chunk: int, state: Any, saved: _Saved | None = None) -> None:
    _kept.put((participant.run, participant.checkpoint), (next_chunk, state, saved or _Saved()))


def _state_before(
    stream: Stream, params: Params, participant: Participant, k: int, n_threads: int
) -> tuple[Any, _Saved, Record | None]:
    """State before chunk k; or after it, with what the chunk's record says of it."""
    # Taken out, not copied: a task that fails half-way must not leave a state that has learned too much.
    next_chunk, state, saved = _kept.take((participant.run, participant.checkpoint)) or (-1, None, _Saved())
    if next_chunk == k:
        return state, saved, None
    offsets = None if participant.fitted is None else participant.fitted.offsets(stream.store)
    state = _begin(params, participant, PreparedRows(stream.store, "train"), offsets, n_threads)
    kept = read_arrays(participant.checkpoint)
    with reading(participant.checkpoint):
        first, told = int(kept.pop("next_chunk")), json.loads(kept.pop("told").tobytes())
        state = state.restore(kept)
    if first > k + 1:
        raise Damaged(participant.checkpoint, "it is ahead of the records of the run")
    if first == k + 1:
        return state, _Saved(), dict(told)
    task = stream.task()
    judged = params.decision_task(participant.learner, task)
    for done in range(first, k):
        rows, labels = chunk_of(stream, participant, done), stream.labels(done, participant.predictions)
        n, predicted = stream.rows_of(done), stream.predicted(done, participant.predictions)
        if predicted.size != n:
            both = participant.predictions, participant.checkpoint
            raise Damaged(participant.predictions, "some of it is missing", *both)
        late = _late_rows(stream, participant, judged, done) if stream.late else None
        for number, start in enumerate(range(0, n, stream.block_rows)):
            stop = min(start + stream.block_rows, n)
            answers: list[Answers] = []
            if late is not None and number == 0:
                answers = late.learn(state, judged, 0, rows.known(0, stream, participant))
            block = rows.block(state, start, stop)
            if late is None:
                y, numbers = labels.reveal(start, stop, predicted[start:stop]), np.zeros(0, dtype=np.int64)
                _learn(state, task, block, y)
                answers = [Answers(y, predicted[start:stop], None, numbers)]
            else:
                answers += late.learn(state, judged, number + 1, rows.known(number + 1, stream, participant))
            alarms = [at for one in answers for at in alarms_of(state, judged, one.targets, one.predicted)]
            if participant.redraw_rows is not None:
                state.end_block(rows.rows[start:stop], alarmed=bool(alarms))
    return state, _Saved(), None


def _checkpoint_if_due(
    participant: Participant, next_chunk: int, state: Any, told: Record, spent: float, saved: _Saved
) -> _Saved:
    """Save the state if that takes little time compared with learning again what came since the last one."""
    since = saved.since + spent
    if saved.cost > CHECKPOINT_SHARE * since:
        return _Saved(since, saved.cost)
    began = time.perf_counter()
    _save(participant, next_chunk, state, told)
    return _Saved(0.0, time.perf_counter() - began)
