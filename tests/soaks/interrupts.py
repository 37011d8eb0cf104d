"""``python -m tests.soaks.interrupts --runs 25``: end each command by SIGTERM at some moment of its first seconds.

The four commands are started in turn. As soon as the first line of ours has run (from then on the process handles the
signal, as the system knows), a time between 0 and ``--seconds`` passes, then comes SIGTERM, or another signal
(``--signal``). The process must end with status 130, print one line and leave no process behind. With ``--from-start``
the time is counted from the start of the process: before our first line nobody can do anything.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
import psutil

from tests.support.one_process import write_rows

PATIENCE = 60.0
"""Seconds in which a process that was told to stop, and its children, must be gone."""


def commands(folder: Path) -> dict[str, list[str]]:
    """The words of each command, which all go on for longer than they are let."""
    rows = write_rows(folder, 4000)
    learn = ["--input", str(rows), "--partitioner", "iforest", "--t", "100", "--workers", "2"]
    (folder / "clouds.csv").write_text("\n".join(f"{i % 7},{i % 11},{i % 2}" for i in range(400)) + "\n")
    (folder / "sets.toml").write_text(
        '[dataset.clouds]\ntitle = "Clouds"\ntask = "binary"\nformat = "csv"\ntrain = "clouds.csv"\nlabel = -1\n'
        'header = false\nsplit = { rule = "shuffle", fraction = 0.75 }\n'
    )
    model, quick = folder / "model", ["--psi", "8", "--C", "1", "--t", "5", "--learner", "svm", "--no-dask-report"]
    words = [sys.executable, "-m", "flows.batch", "--input", str(rows), *quick, "--run-dir", str(model), "--quiet"]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    scored = ["--model", str(model), "--input", str(rows), "--output", str(folder / "scores.parquet")]
    return {
        "batch": learn,
        "online": [*learn, "--initial", "2000", "--block-rows", "1", "--learner", "ogd"],
        "score": scored,
        "reproduce": ["--table", "5,6,7", "--datasets", "clouds", "--dataset-file", str(folder / "sets.toml"),
                      "--data-dir", str(folder)],
    }  # fmt: skip


def handles(process: subprocess.Popen[bytes], number: int) -> bool:
    """Whether a process has a handler of its own for a signal, or is gone."""
    try:
        status = Path(f"/proc/{process.pid}/status").read_text()
    except FileNotFoundError:
        return True
    caught = next((line for line in status.splitlines() if line.startswith("SigCgt")), "SigCgt: 0")
    return bool(int(caught.split()[1], 16) >> (number - 1) & 1) or process.poll() is not None


def left_behind(session: int) -> list[str]:
    """Processes of a session that has ended, once they had time to go."""
    until = time.monotonic() + PATIENCE
    while True:
        found = []
        for process in psutil.process_iter(["pid", "cmdline", "status"]):
            try:
                if os.getsid(process.pid) == session and process.info["status"] != psutil.STATUS_ZOMBIE:
                    found.append(" ".join(process.info["cmdline"] or []))
            except (ProcessLookupError, psutil.Error):
                continue
        if not found or time.monotonic() > until:
            return found
        time.sleep(0.1)


def interrupted(words: list[str], delay: float, number: int, *, from_start: bool) -> tuple[int, str, list[str]]:
    """Start a command, send it a signal, and return its status, what it said last, and the processes that it left."""
    with tempfile.TemporaryFile() as said:
        # A process that a shell has started in the background ignores Ctrl-C; its children would too.
        ours = signal.signal(signal.SIGINT, signal.default_int_handler)
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=said, start_new_session=True)
        signal.signal(signal.SIGINT, ours)
        while not from_start and not handles(process, signal.SIGTERM):
            time.sleep(0.002)
        time.sleep(delay)
        process.send_signal(number)
        try:
            status = process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            status = process.wait()
        left = left_behind(process.pid)
        said.seek(0)
        lines = said.read().decode(errors="replace").strip().splitlines()
        return status, lines[-1] if lines else "", left


def main() -> int:
    """Print how the processes of each command have ended; the status is 1 if any did not end as it must."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=25, help="of each command (default 25)")
    parser.add_argument("--seconds", type=float, default=5.0, help="of which some pass before the signal (default 5)")
    parser.add_argument("--signal", default="SIGTERM", choices=("SIGTERM", "SIGINT"))
    parser.add_argument("--from-start", action="store_true", help="count the time from the start of the process")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    rng, bad, number = np.random.default_rng(asked.seed), 0, signal.Signals[asked.signal]
    with tempfile.TemporaryDirectory() as folder:
        of = commands(Path(folder))
        counts: dict[str, Counter[int]] = {name: Counter() for name in of}
        for k in range(asked.runs):
            # Evenly over time, and as often in the first fifth of a second alone.
            delay = float(rng.random() * (0.2 if k % 4 == 3 else asked.seconds))
            for name, given in of.items():
                run_dir = [] if name == "score" else ["--run-dir", f"{folder}/{name}-{k}"]
                words = [sys.executable, "-m", f"flows.{name}", *given, *run_dir]
                status, line, left = interrupted(words, delay, number, from_start=asked.from_start)
                counts[name][status] += 1
                if status != 130 or left or not line.startswith("interrupted; "):
                    bad += 1
                    print(f"{name} after {delay:.3f} s: {status}, {line[:200]!r}, left {left}", flush=True)
    for name, found in counts.items():
        print(f"{name:10}", ", ".join(f"{n} ended with {status}" for status, n in sorted(found.items())))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
