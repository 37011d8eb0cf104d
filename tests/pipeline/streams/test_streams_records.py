"""Records and checkpoints of a stream: what of them is kept in memory, and which rows they are of."""

from __future__ import annotations

from pathlib import Path

import pytest

from ikmap.json_values import list_of, whole_numbers
from ikmap.tasks import CLASSIFICATION
from pipeline.errors import Damaged
from pipeline.record_types import TaskRecord
from pipeline.rows.parts import write_part
from pipeline.rows.stream_data import Stream, StreamSupply, chunk_name
from pipeline.running.stage import Context
from pipeline.stages.shuffle import shuffle
from pipeline.storage.lru_cache import PROCESS
from pipeline.storage.predictions import PredictionFile
from pipeline.storage.records import Records
from pipeline.streams.learn_chunks import learn_chunk, learn_initial, save_state
from pipeline.streams.schedule import Schedule
from pipeline.streams.streamed_learner import StreamedLearner
from tests.support.params_for import params_for
from tests.support.runs import context, points, store_rows
from tests.support.sizes import SmallSizes

N, INITIAL, BLOCK = 150, 60, 15
X, Y = points(N, seed=3)


def streamed(path: Path) -> tuple[Context, Stream, StreamedLearner]:
    """A stream from files, in chunks of two blocks, and a learner on its rows."""
    ctx = context(path, params_for(learners=("kernel-ogd",), gamma=1.0, order="file"))
    store_rows(ctx.store, X, Y, rule="first", n_train=100)
    shuffle(ctx, INITIAL, BLOCK, "file")
    files = str(path / "predictions" / "kernel-ogd.int32"), str(path / "kernel-ogd.npz")
    return ctx, Stream(ctx.store, BLOCK, INITIAL), StreamedLearner("kernel-ogd", None, 1.0, *files)


@pytest.fixture(autouse=True)
def _small(small_sizes: SmallSizes) -> None:
    small_sizes.stream_chunks(2)
    small_sizes.checkpoints(always=True)


@pytest.mark.parametrize("rows", [BLOCK, 2 * BLOCK, 0])
def test_a_checkpoint_after_rows_that_are_no_longer_a_chunk_is_refused(rows: int, tmp_path: Path) -> None:
    """A run is killed before the record of the last, short chunk is there, which the next run cuts anew or drops."""
    ctx, stream, learner = streamed(tmp_path)
    learn_initial(stream, ctx.params, learner)
    write_part(ctx.store, chunk_name(0), X[:4], *CLASSIFICATION.read(Y[:4], 4), {"rows": 4, "first": 0})
    record = learn_chunk(stream, ctx.params, learner, 0)
    PROCESS.forget()
    assert learn_chunk(stream, ctx.params, learner, 0)["blocks"] == record["blocks"]
    PROCESS.forget()
    ctx.store.delete(chunk_name(0))
    if rows:
        about = {"rows": rows, "first": 0}
        write_part(ctx.store, chunk_name(0), X[:rows], *CLASSIFICATION.read(Y[:rows], rows), about)
        with pytest.raises(Damaged, match="it is ahead of the records of the run"):
            learn_chunk(stream, ctx.params, learner, 0)
    with pytest.raises(Damaged, match="it is ahead of the records of the run") as damaged:
        save_state(stream, ctx.params, learner, 0)
    assert damaged.value.withdrawn == (learner.checkpoint,)


def test_metrics_of_chunks_wait_for_the_end_on_the_disk(tmp_path: Path) -> None:
    ctx, stream, learner = streamed(tmp_path)
    chunks = -(-(N - INITIAL) // (2 * BLOCK))
    schedule = Schedule(ctx, stream, StreamSupply(chunks, N - INITIAL), [learner], None, 1)
    on_disk, kept = Records(ctx.run, "stream", print), list[TaskRecord]()
    for _ in range(-1, chunks):
        ((function, task),) = schedule.ready()
        record = function(*task.args)
        on_disk.keep(task.name, record)
        schedule.finished(task.name, record)
        kept.append(record)
    assert ["blocks" in record for record in kept] == [False, *[True] * chunks]
    assert not any("tally" in record for record in kept)
    ((function, task),) = schedule.ready()
    schedule.finished(task.name, function(*task.args))
    found = schedule.result(learner)
    right = PredictionFile(learner.predictions, "int32").read() == Y[INITIAL:]
    confusion = [whole_numbers(row) for row in list_of(found["confusion"])]
    assert sum(map(sum, confusion)) == N - INITIAL
    assert confusion[0][0] + confusion[1][1] == right.sum()
