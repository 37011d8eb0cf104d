"""How a command ends: its exit status, and what it says."""

from __future__ import annotations

import ast
import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from flows.cli import run_command
from flows.interrupts import LINE
from flows.options.batch import BatchOptions
from pipeline.errors import InputError
from tests import ROOT
from tests.soaks.interrupts import interrupted


def outcome(error: BaseException | None, *argv: str) -> int:
    def main(words: Sequence[str]) -> None:
        assert words == list(argv)
        if error is not None:
            raise error

    return run_command(main, list(argv))


def test_an_older_python_is_refused_in_one_line() -> None:
    ast.parse((ROOT / "flows" / "__init__.py").read_text(encoding="utf-8"), feature_version=(3, 7))
    older = "import sys; sys.version_info = (3, 11, 9, 'final', 0); import flows"
    command = subprocess.run([sys.executable, "-c", older], cwd=ROOT, capture_output=True, text=True, check=False)
    assert command.returncode == 2
    assert command.stderr == "ikmap needs Python 3.12 or newer, found 3.11\n"


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (None, 0, None),
        (InputError("a.csv: line 3:\nfound x"), 2, "error: a.csv: line 3:\\nfound x"),
        (KeyboardInterrupt(), 130, "interrupted; run the same command again to resume"),
        (KeyboardInterrupt("run this"), 130, "interrupted; run this to resume"),
        (MemoryError(), 2, "error: out of memory; give fewer --workers; flows.batch and flows.online also take a "),
        (OSError(errno.ENOSPC, "No space left on device", "x"), 2, "error: x: No space left on device"),
        (PermissionError(errno.EACCES, "Permission denied", "x"), 2, "error: x: Permission denied"),
        (FileNotFoundError(errno.ENOENT, "No such file", "x"), 1, "internal error: FileNotFoundError"),
        (ModuleNotFoundError("No module", name="zarr.core"), 2, "error: package zarr.core is missing"),
        (ModuleNotFoundError("No module", name="ikmap.x"), 1, "internal error: ModuleNotFoundError"),
        (ValueError("shapes"), 1, "internal error: ValueError: shapes; rerun with --debug for the traceback"),
        (AssertionError(), 1, "internal error: AssertionError; rerun"),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), 1, "internal error: BrokenPipeError"),
        (SystemExit(0), 0, None),
        (SystemExit(5), 5, None),
        (SystemExit("no"), 1, "no"),
    ],
)
def test_exit_status_and_line(
    capsys: pytest.CaptureFixture[str], error: BaseException | None, status: int, line: str | None
) -> None:
    assert outcome(error) == status
    shown = capsys.readouterr().err
    assert shown.count("\n") == (line is not None)
    assert shown.startswith(line or "")

    if line is not None and not isinstance(error, SystemExit):
        assert outcome(error, "--debug") == status
        shown = capsys.readouterr().err
        assert shown.startswith("Traceback")
        assert line in shown.splitlines()[-1]


def test_returned_status_is_passed_on() -> None:
    assert run_command(lambda _: 2, []) == 2


def test_bad_option_through_run_command(capsys: pytest.CaptureFixture[str]) -> None:
    def parse(words: Sequence[str]) -> None:
        BatchOptions.parse(words)

    assert run_command(parse, ["--t", "0"]) == 2
    assert capsys.readouterr().err == "error: --t: found 0, expected an integer >= 1\n"


def test_sigterm_counts_as_interrupted(capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGTERM)
    assert run_command(lambda _: signal.raise_signal(signal.SIGTERM), []) == 130
    assert signal.getsignal(signal.SIGTERM) is before
    assert capsys.readouterr().err.startswith("interrupted")


def wait_for(seconds: float = 5.0) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(0.01)
    raise AssertionError("nothing has interrupted this")


def test_a_signal_during_an_import_waits_for_its_end(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "imports_slowly.py").write_text("import signal\nsignal.raise_signal(signal.SIGTERM)\nwhole = True\n")

    def main(_: Sequence[str]) -> None:
        import imports_slowly  # type: ignore[import-not-found]  # made by this test

        assert imports_slowly.whole
        wait_for()

    assert run_command(main, []) == 130
    assert capsys.readouterr().err == "interrupted; run the same command again to resume\n"
    assert sys.modules.pop("imports_slowly").whole


def test_what_an_interrupted_command_raises_is_no_defect(capsys: pytest.CaptureFixture[str]) -> None:
    def main(_: Sequence[str]) -> None:
        try:
            signal.raise_signal(signal.SIGTERM)
        except KeyboardInterrupt:
            raise ImportError("initialization failed") from None

    assert run_command(main, []) == 130
    assert capsys.readouterr().err == "interrupted; run the same command again to resume\n"


def test_an_interrupt_that_python_ignores_comes_again(capsys: pytest.CaptureFixture[str]) -> None:
    class Ended:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGTERM)

    def main(_: Sequence[str]) -> None:
        Ended()
        wait_for()

    assert run_command(main, []) == 130
    assert capsys.readouterr().err.startswith("interrupted")


def test_an_ignored_signal_remains_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert run_command(lambda _: signal.raise_signal(signal.SIGINT), []) == 0
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the system does not tell which signals are handled")
@pytest.mark.skipif("COVERAGE_PROCESS_CONFIG" in os.environ, reason="coverage starts before the command's first line")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("name", ["batch", "online", "score", "reproduce"])
def test_a_command_ends_with_130_from_its_first_line_on(name: str, number: signal.Signals) -> None:
    words = [sys.executable, "-m", f"flows.{name}", "--table", "5"]
    assert interrupted(words, 0.0, number, from_start=False) == (130, LINE, [])


@pytest.mark.slow
@pytest.mark.parametrize("shown", ["print('x' * 100_000)", "print_result({'stages': [{'name': 'cells'}]})"])
def test_reader_that_closes_stdout_is_no_failure(shown: str) -> None:
    code = (
        "import sys, os; from flows.cli import run_command; from pipeline.report.result_tables import print_result\n"
        "sys.stdin.read()\n"
        f"sys.exit(run_command(lambda words: {shown}, []))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    with process:
        assert process.stdout is not None
        process.stdout.close()
        process.stdout = None
        _, errors = process.communicate(b"")
    assert (process.returncode, errors) == (0, b"")


@pytest.mark.slow
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_command_that_was_started_with_closed_streams(closed: str, tmp_path: Path) -> None:
    """What it says then goes nowhere: not into the next file that it opens."""
    code = (
        "import sys; from flows.cli import run_command; from pipeline.monitoring.progress import choose_progress\n"
        "from pipeline.report.result_tables import print_result\n"
        "def main(words):\n"
        "    with open('data', 'w') as file:\n"
        "        choose_progress().message('hello')\n"
        "        print_result({'stages': [{'name': 'cells'}]})\n"
        "        for stream in (sys.stdout, sys.stderr):\n"
        "            stream.flush()\n"
        "        file.write(f'{min(3, file.fileno())}')\n"
        "sys.exit(run_command(main, []))"
    )
    status = subprocess.run(
        ["sh", "-c", f'exec "$0" "$@" {closed}', sys.executable, "-c", code],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False,
    ).returncode  # fmt: skip
    assert status == 0
    assert (tmp_path / "data").read_text() == "3"
