"""Progress: the arithmetic of a stage, and what each way of showing it prints."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest

from pipeline.monitoring.events import QuietProgress, StageState, format_rate, format_seconds
from pipeline.monitoring.progress import TerminalProgress, choose_progress
from pipeline.monitoring.progress_log import LogProgress
from pipeline.report.result_tables import print_result


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def plain(text: str) -> list[str]:
    return [re.sub(r"^\d\d:\d\d:\d\d ", "", line) for line in text.splitlines()]


def fake_run(events: LogProgress | TerminalProgress | QuietProgress, clock: Clock) -> None:
    """One stage with all totals, partly done before; one with none; one nobody announced."""
    with events:
        events.message("dashboard [http://x] ready")
        events.stage_started("cells", total_tasks=4, total_rows=4000)
        for task in range(4):
            clock.now += 2
            events.task_done("cells", {"rows": 1000, "skipped": task == 0})
        events.stage_finished("cells", {"seconds": 8.0, "rows": 4000, "rows_per_second": 500.0})
        events.stage_started("train:svm")
        clock.now += 1
        events.task_done("train:svm", {})
        events.stage_finished("train:svm", {})
        events.task_done("late", {"rows": 5})
        events.stage_finished("later", {})


def test_stage_arithmetic() -> None:
    stage = StageState("cells", total_tasks=4, total_rows=4000, started=0.0)
    assert (stage.fraction, stage.rate(1.0), stage.seconds_left(1.0)) == (0.0, None, None)
    stage.add({"rows": 1000, "skipped": True})
    assert (stage.fraction, stage.rate(1.0), stage.seconds_left(1.0)) == (0.25, None, None)
    stage.add({"rows": 1000})
    assert (stage.fraction, stage.rate(2.0), stage.seconds_left(2.0)) == (0.5, 500.0, 4.0)
    assert stage.counts() == "2/4 tasks (1 done before), 2,000/4,000 rows"
    assert stage.counts(short=True) == "2/4 tasks"
    stage.finish({}, now=5.0)
    assert (stage.fraction, stage.rate(99.0), stage.elapsed(99.0)) == (1.0, 200.0, 5.0)
    assert stage.seconds_left(99.0) is None


def test_stage_with_tasks_only_and_with_no_totals() -> None:
    stage = StageState("a", total_tasks=4, total_rows=None, started=0.0)
    stage.add({})
    assert (stage.fraction, stage.seconds_left(2.0), stage.rate(2.0)) == (0.25, 6.0, None)
    stage = StageState("a", total_tasks=None, total_rows=None, started=0.0)
    stage.add({"rows": 7})
    assert (stage.fraction, stage.seconds_left(2.0), stage.rate(2.0)) == (None, None, 3.5)
    assert stage.counts() == "1 task, 7 rows"


def test_log_lines() -> None:
    stream, clock = io.StringIO(), Clock()
    fake_run(LogProgress(stream, every=5.0, clock=clock), clock)
    assert plain(stream.getvalue()) == [
        "dashboard [http://x] ready",
        "cells: started, 4 tasks, 4,000 rows",
        "cells: 3/4 tasks (1 done before), 3,000/4,000 rows, 333 rows/s, 3.00 s left",
        "cells: done, 4/4 tasks (1 done before), 4,000 rows, 500 rows/s, 8.00 s",
        "train:svm: started",
        "train:svm: done, 1 task, 1.00 s",
        "late: started",
        "later: started",
        "later: done, 0.00 s",
    ]


def test_log_outlives_its_reader() -> None:
    class Closed(io.StringIO):
        def write(self, text: str) -> int:  # noqa: ARG002
            raise BrokenPipeError

    clock = Clock()
    fake_run(LogProgress(Closed(), clock=clock), clock)


@pytest.mark.parametrize("columns", ["80", "120"])
def test_terminal_shows_every_stage_within_the_width(monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setenv("TERM", "xterm")
    stream, clock = Terminal(), Clock()
    fake_run(TerminalProgress(stream, clock), clock)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue())
    assert "dashboard [http://x] ready" in text
    last = re.split(r"[\r\n]+", text)
    cells = [line for line in last if line.startswith("cells")][-1]
    assert "500 rows/s" in cells
    assert "8.00 s" in cells
    assert "4/4 tasks" in cells
    assert "…" not in text
    assert max(map(len, last)) <= int(columns)
    assert any(line.startswith("later") for line in last)


def test_terminal_time_left_while_running(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    stream, clock = Terminal(), Clock()
    with TerminalProgress(stream, clock) as events:
        events.stage_started("cells", 4, 4000)
        clock.now += 2
        events.task_done("cells", {"rows": 1000})
        shown = [list(column.cells) for column in events.render().columns]
    assert [str(column[0]) for column in (shown[0], *shown[2:])] == [
        "cells",
        "1/4 tasks, 1,000/4,000 rows",
        "500 rows/s",
        "6 s left",
    ]


def test_how_a_stage_stands_is_shown_while_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    stream, clock = io.StringIO(), Clock()
    with LogProgress(stream, every=5.0, clock=clock) as log, TerminalProgress(Terminal(), clock) as events:
        for shown in (log, events):
            shown.stage_started("stream")
        clock.now += 6
        for shown in (log, events):
            shown.task_done("stream", {"rows": 1200, "note": "ogd 0.9000"})
        assert [str(line) for line in events.screen().renderables[1:]] == ["ogd 0.9000"]
        events.stage_finished("stream", {})
        assert len(events.screen().renderables) == 1
    assert plain(stream.getvalue())[-1] == "stream: 1 task, 1,200 rows, 200 rows/s, ogd 0.9000"


def test_terminal_is_given_back_when_the_run_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    with pytest.raises(ValueError, match="stop"), TerminalProgress(stream) as events:  # noqa: PT012
        events.stage_started("cells")
        raise ValueError("stop")
    assert stream.getvalue().rstrip().endswith("\x1b[?25h")


def test_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    assert isinstance(choose_progress(quiet=True, stream=Terminal()), QuietProgress)
    assert isinstance(choose_progress(stream=Terminal()), TerminalProgress)
    assert isinstance(choose_progress(stream=io.StringIO()), LogProgress)
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(choose_progress(stream=Terminal()), LogProgress)


def test_quiet_says_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    fake_run(QuietProgress(), Clock())
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "0.00 s"), (9.994, "9.99 s"), (9.996, "10.0 s"), (59.94, "59.9 s"),
     (59.96, "1:00"), (3725, "1:02:05")],
)  # fmt: skip
def test_format_seconds(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


def test_format_rate() -> None:
    assert [format_rate(r) for r in (None, 0.25, 12345.6)] == ["", "0.25 rows/s", "12,346 rows/s"]


def test_result_tables() -> None:
    stream = io.StringIO()
    print_result(
        {
            "stages": [
                {"name": "cells", "seconds": 1.5, "rows": 120000, "rows_per_second": 8e4, "tasks": 12,
                 "tasks_skipped": 5},
                {"name": "train:svm", "seconds": 2},
            ],
            "learners": {"svm": {"accuracy": 0.84125, "train_seconds": 2, "predict_seconds": 0.1}, "ogd": {}},
        },
        stream,
    )  # fmt: skip
    rows = [line.split() for line in stream.getvalue().splitlines()]
    assert ["cells", "1.50", "120,000", "80,000", "12", "5"] in rows
    assert ["train:svm", "2.00"] in rows
    assert ["svm", "0.8413", "2.00", "0.10"] in rows or ["svm", "0.8412", "2.00", "0.10"] in rows
    assert ["ogd"] in rows
    assert "\x1b" not in stream.getvalue()


def test_result_tables_show_what_the_task_says_beside_its_figure() -> None:
    found = {"idk": {"alert_rate": 0.05, "roc_auc": 0.93751, "average_precision": None}, "iforest-score": {}}
    stream = io.StringIO()
    print_result({"data": {"task": "novelty"}, "learners": found}, stream)
    lines = [line.rstrip() for line in stream.getvalue().splitlines() if line.strip()]
    assert lines[0].split() == ["learner", "alert", "rate", "ROC", "AUC", "train", "s", "predict", "s"]
    assert lines[2].split() == ["idk", "0.0500", "0.9375"]


def test_result_tables_too_wide_have_a_line_for_each_figure() -> None:
    figures = ("balanced_accuracy", "f1", "roc_auc", "average_precision", "log_loss", "brier", "calibration_error")
    known = {"accuracy": 0.8125, **dict.fromkeys(figures, 0.25), "train_seconds": 2.0, "predict_seconds": 0.5}
    stream = io.StringIO()
    print_result({"learners": {"svm": known, "logistic": {**known, "accuracy": 0.75}}}, stream)
    lines = [line.split() for line in stream.getvalue().splitlines()]
    assert ["learner", "svm", "logistic"] in lines
    assert ["accuracy", "0.8125", "0.7500"] in lines
    assert ["calibration", "error", "0.25", "0.25"] in lines
    assert ["train", "s", "2.00", "2.00"] in lines
    assert "…" not in stream.getvalue()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            {"data": {"test": "official", "rows_test": 1234}},
            "share of 1,234 test rows (the data set's own test set) that is predicted right",
        ),
        (
            {"data": {"test": "file", "rows_test": 5, "sources": [{"url": "a"}, {"url": "dir/[b]new.csv"}]}},
            "share of 5 test rows (your test file [b]new.csv) that is predicted right",
        ),
        (
            {"data": {"test": "split", "rows_test": 20, "rows_train": 80}},
            "share of 20 test rows (a random fifth of the rows) that is predicted right",
        ),
        (
            {"data": {"rows_test": 5}, "online": {"rows_initial": 5}},
            "share of the rows of the stream that was predicted right before it was learned from",
        ),
    ],
)  # fmt: skip
def test_result_says_of_which_rows_accuracy_is(more: dict[str, Any], said: str) -> None:
    stream = io.StringIO()
    print_result({"learners": {"svm": {"accuracy": 0.5}}, **more}, stream)
    assert stream.getvalue().splitlines()[-1] == f"accuracy: {said}"


def test_result_says_where_the_time_went() -> None:
    stream = io.StringIO()
    run = {"start_seconds": 2.5, "seconds": 40.0, "compile_seconds": 30.0, "stop_seconds": 1.25, "wall_seconds": 43.75}
    print_result({"learners": {"svm": {"accuracy": 0.5}}, "run": run}, stream)
    assert stream.getvalue().splitlines()[-1] == (
        "time: 43.8 s: starting 2.50 s, compiling, once per installation 30.0 s, work 10.0 s, stopping 1.25 s"
    )


def test_result_of_an_unfinished_run_prints_nothing() -> None:
    stream = io.StringIO()
    print_result({}, stream)
    assert stream.getvalue() == ""
