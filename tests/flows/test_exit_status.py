"""How a command ends: its exit status, and what it says."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys

import pytest

from flows.cli import run_command
from flows.options.batch import BatchOptions
from pipeline.errors import InputError
from tests import ROOT


def outcome(error: BaseException | None, *argv: str) -> int:
    def main(words):
        assert words == list(argv)
        if error is not None:
            raise error

    return run_command(main, list(argv))


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (None, 0, None),
        (InputError("a.csv: line 3:\nfound x"), 2, "error: a.csv: line 3:\\nfound x"),
        (KeyboardInterrupt(), 130, "interrupted; run the same command again to resume"),
        (KeyboardInterrupt("run this"), 130, "interrupted; run this to resume"),
        (MemoryError(), 2, "error: out of memory; give fewer --workers or a smaller --shard-rows"),
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
def test_exit_status_and_line(capsys, error, status, line):
    assert outcome(error) == status
    shown = capsys.readouterr().err
    assert shown.count("\n") == (line is not None)
    assert shown.startswith(line or "")

    if line is not None and not isinstance(error, SystemExit):
        assert outcome(error, "--debug") == status
        shown = capsys.readouterr().err
        assert shown.startswith("Traceback")
        assert line in shown.splitlines()[-1]


def test_returned_status_is_passed_on():
    assert run_command(lambda _: 2, []) == 2


def test_bad_option_through_run_command(capsys):
    assert run_command(lambda words: BatchOptions.parse(words) and None, ["--t", "0"]) == 2
    assert capsys.readouterr().err == "error: --t: found 0, expected an integer >= 1\n"


def test_sigterm_counts_as_interrupted(capsys):
    before = signal.getsignal(signal.SIGTERM)
    assert run_command(lambda _: signal.raise_signal(signal.SIGTERM), []) == 130
    assert signal.getsignal(signal.SIGTERM) is before
    assert capsys.readouterr().err.startswith("interrupted")


@pytest.mark.parametrize("shown", ["print('x' * 100_000)", "print_result({'stages': [{'name': 'cells'}]})"])
def test_reader_that_closes_stdout_is_no_failure(shown):
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
        _, shown = process.communicate(b"")
    assert (process.returncode, shown) == (0, b"")


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_a_command_that_was_started_with_closed_streams(closed, tmp_path):
    """What it says then goes nowhere: not into the next file that it opens."""
    code = (
        "import sys; from flows.cli import run_command; from pipeline.watching.progress import choose_progress\n"
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
