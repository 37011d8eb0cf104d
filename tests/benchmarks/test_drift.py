"""The drift benchmark at a size that takes no time: sides, alarms, table and picture."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import drift, peers
from benchmarks.harness import Options
from tests.naive.drift import adwin


@pytest.mark.slow
def test_a_small_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drift, "CONCEPT_ROWS", 4000)
    options = Options(repeats=1, quick=True, datasets=("generated",), threads=1, limit=5.0)
    assert drift.run(options, tmp_path, unset=[]) == 0
    report = json.loads((tmp_path / "drift.json").read_text())
    about = report["streams"]["generated"]
    assert about["changes"] == [400, 800, 1200, 1600]
    ours = [name for name, _ in (*drift.ours(), *drift.of_trees())]
    assert [name for name in about["sides"] if not name.startswith("river ")] == ours
    assert all(0.5 < side["accuracy"] < 1 for side in about["sides"].values())
    assert about["adwin"]["same_as_river"] in ((None,) if peers.find("river") is None else (True,))
    assert "| generated | forgetting, lambda = 0.01 |" in (tmp_path / "drift.md").read_text()
    assert (tmp_path / "drift.svg").stat().st_size > 10_000


def test_forgetting_without_a_decay_is_ogd() -> None:
    """But for the offset, and for rows at the margin."""
    options = Options(repeats=1, quick=True, threads=1, limit=5.0)
    stream = drift.generated(options)
    cells = drift.cells_of(stream, 300)[:1500]
    y = stream.y[:1500]
    never, _ = drift.never_forgets(cells, y, 300)
    found, _ = drift.forgets(0.0)(cells, y, 300)
    assert (never == found).mean() > 0.95


def test_cuts_are_those_of_detectors_started_afresh() -> None:
    rng = np.random.default_rng(3)
    losses = np.concatenate([(rng.random(500) < share).astype(float) for share in (0.1, 0.6, 0.1)])
    cuts = drift.cuts_as_river(losses.tolist())
    assert adwin(losses[: cuts[0] + 1].tolist(), 0.002)[0] == [cuts[0]]
    assert 500 < cuts[0] < 600
    assert 1000 < cuts[-1] < 1100


def test_delays() -> None:
    assert drift.delays([15, 31, 60], [10, 20, 50]) == [5, 11, 10]
    assert drift.delays([5], [10]) == [None]
