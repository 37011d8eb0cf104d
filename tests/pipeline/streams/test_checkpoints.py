"""Checkpoints of a stream: in this process, on disk, and written only where that is thrifty."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pipeline.storage.lru_cache import PROCESS
from pipeline.streams.checkpoints import SHARE, Checkpoints, Kept, Place, read_checkpoint


def test_a_checkpoint_is_written_when_going_over_chunks_again_would_take_longer(tmp_path: Path) -> None:
    checkpoints, place = Checkpoints[str](2), Place("run", str(tmp_path / "x.npz"))
    written = []

    def pass_on(kept: Kept[str], seconds: float) -> None:
        def arrays() -> dict[str, np.ndarray]:
            written.append(kept.chunks)
            return {"a": np.arange(kept.chunks)}

        checkpoints.pass_on(place, kept, seconds, arrays)

    kept = Kept("state", 0)
    pass_on(kept, 0.0)
    assert (written, kept.since) == ([1], 0.0)
    assert kept.cost > 0
    kept.cost = 1.0
    pass_on(kept, 0.6 / SHARE)
    assert (written, kept.chunks, kept.since) == ([1], 2, 0.6 / SHARE)
    pass_on(kept, 0.6 / SHARE)
    assert written == [1, 3]
    chunks, arrays = read_checkpoint(place)
    assert (chunks, arrays["a"].tolist()) == (3, [0, 1, 2])


def test_a_state_is_given_out_once_and_where_it_is(tmp_path: Path) -> None:
    checkpoints, place = Checkpoints[str](1), Place("run", str(tmp_path / "x.npz"))
    checkpoints.keep(place, Kept("state", 4))
    taken = checkpoints.take(place, 4)
    assert taken is not None
    assert taken.state == "state"
    assert checkpoints.take(place, 4) is None, "a task that fails must not leave a state that has learned too much"
    checkpoints.keep(place, taken)
    assert checkpoints.take(place, 3) is None
    checkpoints.keep(place, taken)
    checkpoints.keep(Place("another run", place.file), taken)
    assert checkpoints.take(place, 4) is None, "it keeps one state"
    PROCESS.forget()
    assert checkpoints.take(Place("another run", place.file), 4) is None
