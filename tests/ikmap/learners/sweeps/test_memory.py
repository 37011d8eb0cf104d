"""How far a sweep goes that has so much memory."""

from __future__ import annotations

import numpy as np

from ikmap.learners.sweeps import memory
from ikmap.learners.sweeps.memory import free_memory, longest_sweep, sweep_bytes


def test_the_longest_sweep_takes_no_more_than_there_is() -> None:
    values = np.arange(1.0, 51.0)
    for columns in (10, 11, 37, 59, 60, 70):
        room = sweep_bytes(10**6, columns)
        longest = longest_sweep(10, values, room)
        then = 10 + int((values <= longest).sum())
        assert then == min(columns, 60)
    assert longest_sweep(10, values, sweep_bytes(10**6, 9)) == 0.0
    assert sweep_bytes(5, 100) == sweep_bytes(100, 5) == 8 * memory.HELD * 25


def test_free_memory_is_some() -> None:
    free = free_memory()
    assert free is None or free > 1 << 20
