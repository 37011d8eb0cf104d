"""Each preset as a run on a small table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from flows.options.batch import BatchOptions
from flows.options.presets import PRESETS
from tests.support.one_process import Command, one_process
from tests.support.papers import with_papers


@with_papers
@pytest.mark.slow
@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_runs(preset: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.random((160, 2)).round(3)
    size = X.sum(axis=1)
    y = size.round(3) if preset == "mondrian" else np.where(size > 1, "yes", "no")
    lines = [f"{a},{b},{label}" for (a, b), label in zip(X, y, strict=True)]
    (tmp_path / "rows.csv").write_text("\n".join(["a,b,y", *lines]) + "\n")
    options = BatchOptions.parse(["--preset", preset, "--input", str(tmp_path / "rows.csv"), "--label", "y"])
    with one_process():
        metrics = Command(options).run(tmp_path / "run")
    assert list(metrics["learners"]) == list(PRESETS[preset]["learner"])
    assert metrics["verdicts"][0]["kind"] == "quality"
