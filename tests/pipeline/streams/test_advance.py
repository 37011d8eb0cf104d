"""The loop of a stream: who is told of a block and when, and that going over a stream again learns the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ikmap.tasks import CLASSIFICATION
from pipeline.rows.stream_data import Stream
from pipeline.running.stage import Context
from pipeline.stages.shuffle import shuffle
from pipeline.streams.advance import Live, Replay, Witness, advance, go_through
from pipeline.streams.labels import ShownLabels
from pipeline.streams.learn_chunks import learn_chunk, learn_initial, save_state, standing_before
from pipeline.streams.participant import Participant, Standing, StreamBlock
from pipeline.streams.predictions import Predictions
from pipeline.streams.streamed_learner import StreamedLearner
from tests.support.calls import counted
from tests.support.params_for import params_for
from tests.support.runs import context, points, store_rows
from tests.support.sizes import SmallSizes

N, INITIAL, BLOCK = 330, 100, 30
HOOKS = ("rows_come", "rows_predicted", "rows_learned")


def told(name: str, calls: list[str], kind: type[Participant] = Participant) -> Any:
    """A participant, or a witness, that notes what it is told of."""
    hooks = {hook: lambda *_, hook=hook: calls.append(f"{name} {hook}") for hook in (*HOOKS, "predict")}
    return type("Told", (kind,), hooks)()


def test_participants_are_told_of_a_block_in_their_order_and_the_witness_last() -> None:
    calls: list[str] = []
    witness = told("witness", calls, Witness)
    witness.beside = [told("alerts", calls)]
    nothing: Any = object()
    predictions = Predictions("x", "int32", 1, late=False, checkpoint="")
    standing = Standing(
        nothing, nothing, CLASSIFICATION.of([0, 1]), predictions, [told("labels", calls), told("rows", calls)]
    )
    block = StreamBlock(0, slice(0, 2), 0, np.arange(2), None)
    assert advance(standing, block, witness) is standing
    everyone = ("alerts", "labels", "rows", "witness")
    expected = [[f"{name} {hook}" for name in everyone] for hook in HOOKS]
    assert calls == [*expected[0], "witness predict", *expected[1], *expected[2]]


def taken_in(folder: Path) -> tuple[Context, Stream, range]:
    """A run up to its shuffled stream, and the numbers of its chunks."""
    ctx = context(folder, params_for(t=10, psi=8))
    store_rows(ctx.store, *points(N, seed=3), rule="first", n_train=INITIAL, part_rows=90)
    chunks = shuffle(ctx, INITIAL, BLOCK, ctx.params.order)["chunks"]
    return ctx, Stream(ctx.store, BLOCK, INITIAL), range(chunks)


@pytest.mark.slow
@pytest.mark.parametrize("always", [True, False], ids=["checkpoints", "none"])
def test_stopped_at_any_block_it_goes_on_with_the_same_bits(
    always: bool, tmp_path: Path, small_sizes: SmallSizes
) -> None:
    """The block is predicted, and learned from in part, when the task fails; then the task is done again."""
    small_sizes.stream_chunks(3)
    small_sizes.checkpoints(always=always)
    ctx, stream, chunks = taken_in(tmp_path)
    learned, blocks = set(), -(-(N - INITIAL) // BLOCK)
    for at in (-1, *range(blocks)):
        file = tmp_path / str(at) / "x.int32"
        streamed = StreamedLearner("kernel-ogd", None, 8, str(file), str(tmp_path / f"{at}.npz"), drift=("adwin", 0.5))

        def stop(block: int, at: int = at) -> None:
            if block == at + 1:
                raise KeyboardInterrupt

        learn_initial(stream, ctx.params, streamed)
        stops = 0
        with counted(ShownLabels.rows_predicted, stop, end=True):
            for k in chunks:
                try:
                    record = learn_chunk(stream, ctx.params, streamed, k)
                except KeyboardInterrupt:
                    stops += 1
                    record = learn_chunk(stream, ctx.params, streamed, k)
        assert stops == (at >= 0)
        saved = save_state(stream, ctx.params, streamed, len(chunks))["content_hash"]
        learned.add((file.read_bytes(), saved, tuple(record["drifts"]), record["blocks"][-1][4]))
    assert len(learned) == 1


@pytest.mark.slow
@pytest.mark.parametrize("drift", [None, ("adwin", 0.5)])
def test_a_replay_writes_nothing_and_learns_what_was_learned(
    drift: tuple[str, float | None] | None, tmp_path: Path, small_sizes: SmallSizes
) -> None:
    small_sizes.stream_chunks(3)
    ctx, stream, chunks = taken_in(tmp_path)
    file = tmp_path / "predictions" / "x.int32"
    streamed = StreamedLearner("kernel-ogd", None, 8, str(file), str(tmp_path / "x.npz"), drift=drift)
    learned = []
    for again in (False, True):
        standing = standing_before(stream, ctx.params, streamed, 1)
        written = file.stat().st_mtime_ns if again else 0
        for k in chunks:
            witness = Replay() if again else Live("kernel-ogd", [], [])
            standing, fields = go_through(standing, k, witness)
            assert ("blocks" in fields) is not again
            assert ("drifts" in fields) is (drift is not None)
        learned.append(standing.checkpoint())
        assert not again or file.stat().st_mtime_ns == written
    assert len(chunks) > 1
    assert learned[0].keys() == learned[1].keys()
    assert any(name.startswith("drift.") for name in learned[0]) is (drift is not None)
    for name, array in learned[0].items():
        np.testing.assert_array_equal(array, learned[1][name])


def test_predictions_that_are_missing_are_damage(tmp_path: Path) -> None:
    from pipeline.errors import Damaged

    predictions = Predictions(str(tmp_path / "x.int32"), "int32", 2, late=True, checkpoint="x.npz")
    predictions.write(0, 3, np.arange(3), np.arange(6.0).reshape(3, 2))
    assert predictions.decisions(1, 2).tolist() == [[2, 3], [4, 5]]
    for read in (predictions.read, predictions.decisions):
        with pytest.raises(Damaged, match="some of it is missing") as caught:
            read(2, 2)
        assert "x.npz" in caught.value.withdrawn
    promises = predictions.promises(1, 2)
    assert (promises["predicted"]["rows"], promises["decided"]["rows"]) == (2, 4)
