"""How far a sweep goes that has so much memory."""

from __future__ import annotations

import io
import os
import tracemalloc

import numpy as np
import pytest

from ikmap.learners.sweeps import memory
from ikmap.learners.sweeps.gradient import GradientSettings, GradientSweep
from ikmap.learners.sweeps.memory import followed_bytes, free_memory, longest_sweep, sweep_bytes
from ikmap.partitioners.mondrian import fit_mondrian, mondrian_splits


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


def test_where_free_memory_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """What Linux says is available; else all of the memory; unknown on a system that tells neither."""
    monkeypatch.setattr(os, "sysconf", {"SC_PHYS_PAGES": 1000, "SC_PAGE_SIZE": 4096}.__getitem__, raising=False)
    for text, expected in (("MemFree: 9 kB\nMemAvailable:  2048 kB\n", 2 << 20), ("MemFree: 9 kB\n", 4_096_000)):
        monkeypatch.setattr(memory, "open", lambda *_, text=text, **__: io.StringIO(text), raising=False)
        assert free_memory() == expected
    monkeypatch.delattr(os, "sysconf")
    assert free_memory() is None


@pytest.mark.slow
@pytest.mark.parametrize("outputs", [1, 40])
def test_a_sweep_takes_no_more_for_each_column_than_is_said(outputs: int) -> None:
    """Of which the trees have many more than there are rows, so that these hardly count."""
    rng = np.random.default_rng(0)
    X = rng.random((60, 2))
    model = fit_mondrian(X, 200, 1e6, 3)
    n = int(model.offsets[-1])
    targets = rng.normal(size=(60, outputs))
    tracemalloc.start()
    try:
        start, splits = mondrian_splits(model, [X, X[:1]])
        sweep = GradientSweep(start, targets, GradientSettings("squared", 1e-3, epochs=0))
        for _ in sweep.follow(splits):
            pass
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    of_rows = 3 * 8 * X.shape[0] * 200
    assert 0.4 * n * followed_bytes(outputs) < peak - of_rows < n * followed_bytes(outputs)
