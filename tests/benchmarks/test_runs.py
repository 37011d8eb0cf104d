"""The commands that pages quote: they can be parsed, and their figures stand in the table."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import runs
from benchmarks.harness import Options
from flows.options.batch import BatchOptions
from flows.options.online import OnlineOptions


@pytest.mark.parametrize("command", runs.COMMANDS)
def test_commands_could_be_typed(command: str) -> None:
    module, *words = shlex.split(command)
    {"flows.batch": BatchOptions, "flows.online": OnlineOptions}[module].parse(words)


def test_figures_and_failures_stand_in_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, actual = [], subprocess.run
    intervals = [{"nominal": 0.9, "coverage": 0.913}]
    metrics = {"run": {"seconds": 12.345}, "learners": {"svm": {"accuracy": 0.84544, "intervals": intervals}}}

    def run(command: list[str], **given: Any) -> Any:
        if "--run-dir" not in command:
            return actual(command, **given)
        asked.append(command)
        if "usps" in " ".join(command):
            return SimpleNamespace(returncode=1, stderr="no usps\n")
        folder = Path(command[command.index("--run-dir") + 1])
        folder.mkdir()
        (folder / "metrics.json").write_text(json.dumps(metrics), encoding="utf-8")
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(runs, "COMMANDS", runs.COMMANDS[:7])
    assert runs.run(Options(), tmp_path, unset=[]) == 1
    assert runs.run(Options(), tmp_path, unset=[]) == 1
    assert len(asked) == 8, "what failed is tried again"
    text = (tmp_path / "runs.md").read_text(encoding="utf-8")
    cells = next(line.split(" | ") for line in text.splitlines() if "a9a --partitioner anne" in line)
    assert (cells[1], cells[2], cells[-2:]) == ("`svm`", "0.8454", ["91.3 % of 90 %", "12.3 |"])
    assert "no usps" in text
    assert list(json.loads((tmp_path / "runs.json").read_text())["measured"]) == list(runs.COMMANDS)


@pytest.mark.slow
def test_a_command_is_run(tmp_path: Path) -> None:
    found = runs.figures_of(runs.COMMANDS[0], Options(quick=True, data_dir=tmp_path, threads=1))
    assert found["learners"]
    assert all(about["accuracy"] > 0.5 for about in found["learners"].values())
    assert "failed" in runs.figures_of("flows.batch --dataset none", Options(data_dir=tmp_path, threads=1))
