"""Control characters of names, labels and answers are shown, and obeyed by no terminal and no page."""

from __future__ import annotations

import io
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flows.batch
import flows.score
from flows.cli import run_command
from pipeline.errors import InputError
from pipeline.monitoring.plain_text import printable
from pipeline.monitoring.progress import TerminalProgress
from pipeline.monitoring.progress_log import LogProgress
from pipeline.report.page import render_report
from pipeline.report.result_tables import print_result
from tests.support.one_process import commands_in_this_process
from tests.system.test_batch import command, environment

pytestmark = pytest.mark.system

UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
HOSTILE = "a\x1b[31mb\x07c\x9bd\u202ee\u2066f\x7fg\u2028h\rmn"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text, \u00e9\u4e2d\U0001f600 \\x1b", "plain text, \u00e9\u4e2d\U0001f600 \\x1b"),
        ("\x1b[2J", "\\x1b[2J"),
        ("a\nb\tc\r", "a\\nb\\tc\\r"),
        ("\x9b1m\x7f\x00", "\\x9b1m\\x7f\\x00"),
        ("\u202e\u2066\u200f\u061c", "\\u202e\\u2066\\u200f\\u061c"),
        ("\u2028\x85", "\\u2028\\x85"),
        ("\udcff", "\\udcff"),
    ],
)
def test_what_would_be_obeyed_is_written_out(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert printable(shown) == shown
    assert str(InputError(text)) == shown


def test_some_may_stay() -> None:
    assert printable("a\nb\x1b\n", keep="\n") == "a\nb\\x1b\n"


def test_every_character_that_is_no_text_is_written_out() -> None:
    found = printable("".join(map(chr, range(0x3000))) + "\ud800\udfff")
    assert UNSAFE.findall(found) == []
    assert "\n" not in found
    assert "\t" not in found


def test_the_line_of_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    def fail(error: BaseException, *words: str) -> str:
        def main(argv: object) -> int:  # noqa: ARG001
            raise error

        run_command(main, words)
        return capsys.readouterr().err

    assert fail(InputError(f"{HOSTILE}\n: no such file")) == f"error: {printable(HOSTILE)}\\n: no such file\n"
    assert fail(RuntimeError(f"{HOSTILE}\nmore")).count("\n") == 1
    for error in (OSError(28, HOSTILE, HOSTILE), RuntimeError(HOSTILE), KeyboardInterrupt(HOSTILE)):
        for words in ((), ("--debug",)):
            assert UNSAFE.findall(fail(error, *words)) == []


def test_progress_and_results() -> None:
    log, screen, out = io.StringIO(), io.StringIO(), io.StringIO()
    LogProgress(log).message(HOSTILE)
    with TerminalProgress(screen) as progress:
        progress.message(HOSTILE)
    print_result({"stages": [{"name": HOSTILE}], "learners": {HOSTILE: {"accuracy": 0.5}}}, out)
    for stream in (log, screen, out):
        assert printable(HOSTILE)[:20] in stream.getvalue()
        assert UNSAFE.findall(stream.getvalue()) == []


def test_the_report() -> None:
    classes = [HOSTILE, HOSTILE + "2"]
    metrics: dict[str, Any] = {
        "run": {"command": HOSTILE, "config_toml": HOSTILE, "versions": {HOSTILE: HOSTILE}},
        "data": {"name": HOSTILE, "classes": classes, "sources": [{"url": HOSTILE, "sha256": HOSTILE}]},
        "params": {HOSTILE: HOSTILE},
        "learners": {HOSTILE: {"accuracy": 0.5, "confusion": [[1, 1], [1, 1]]}},
        "stages": [{"name": HOSTILE, "seconds": 1.0}],
    }  # fmt: skip
    page = render_report(metrics)
    assert printable(HOSTILE)[:10] in page
    assert UNSAFE.findall(page) == []


def test_a_run_on_hostile_names_and_labels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """From the command line to the report; predictions are data, and hold the labels as they are."""
    rng = np.random.default_rng(0)
    labels = "yes\x1b[31m\u202e", "no\x07\x9b\nnext line"
    rows = [f'{a:.4f},{b:.4f},"{labels[int(a + b > 1)]}"' for a, b in rng.random((150, 2))]
    file = tmp_path / "na\x1b[2Jme\n.csv"
    file.write_text("\n".join(["x\x1b]0;title\x07,y\u2066,class", *rows]) + "\n")
    run = tmp_path / "r\x1b[1mun"
    words = ["--input", str(file), "--t", "10", "--psi", "4", "--workers", "1", "--explain", "--run-dir", str(run)]
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "no-prefect"))
    with commands_in_this_process():
        assert run_command(flows.batch.main, ["--no-dask-report", *words]) == 0
    output = tmp_path / "out.parquet"
    scored = ["--model", str(run), "--input", str(file), "--output", str(output), "--workers", "1"]
    with commands_in_this_process():
        assert run_command(flows.score.main, scored) == 0
    shown = "".join(capfd.readouterr())
    assert "ingest" in shown
    assert UNSAFE.findall(shown) == []
    refused = [
        subprocess.run(command("--input", name, "--label", "q\x1b"), env=environment(), capture_output=True, text=True)
        for name in (str(file), f"{file}\x1b[0m")
    ]
    assert [result.returncode for result in refused] == [2, 2]
    for result in refused:
        assert UNSAFE.findall(result.stdout + result.stderr) == []
    for result in refused:
        assert result.stderr.splitlines()[-1].startswith("error: ")
    for page in run.glob("*.html"):
        assert UNSAFE.findall(page.read_text()) == []
    assert "\\x1b[31m" in (run / "report.html").read_text()
    assert sorted(json.loads((run / "metrics.json").read_text())["data"]["classes"]) == sorted(labels)
