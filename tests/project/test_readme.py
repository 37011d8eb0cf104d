"""The examples of the README, run as they stand there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flows.options.batch import BatchOptions
from flows.runs.batch import run
from pipeline.monitoring.events import QuietProgress
from tests import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def test_there_are_three_examples() -> None:
    assert len(BLOCKS) == 3


@pytest.mark.slow
def test_a_finished_run_in_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command that the README names makes the run; psi is given here, so that it takes no minute."""
    monkeypatch.chdir(tmp_path)
    assert "`python -m flows.batch --run-dir runs/digits`" in README
    metrics = run(BatchOptions(run_dir="runs/digits", psi=64, workers=1), events=QuietProgress())
    assert metrics["data"]["test"] == "split"
    names: dict[str, object] = {}
    exec(BLOCKS[0], names)
    assert capsys.readouterr().out == "[0 1 2 3 4] [0 1 2 3 4 5 6 7 8 9] (5, 10)\n"
    model, X, y = (names[name] for name in ("model", "X", "y"))
    # Rows it was trained on are among them: what matters is that values were prepared as in the run.
    assert (model.predict(X) == y).mean() > 0.98  # type: ignore[attr-defined]


@pytest.mark.slow
def test_a_model_is_chosen_in_python(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    exec(BLOCKS[1], names)
    score, rest = capsys.readouterr().out.split(maxsplit=1)
    assert float(score) > 0.9
    first, second, *_ = names["model"].leaderboard_  # type: ignore[attr-defined]
    assert first["loss"] <= second["loss"]
    assert repr(first["name"]) in rest


def test_the_method_alone(capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {}
    exec(BLOCKS[2], names)
    assert float(capsys.readouterr().out) > 0.9
    cells = names["cells"]
    assert (str(cells.dtype), cells.shape) == ("int32", (1797, 300))  # type: ignore[attr-defined]
