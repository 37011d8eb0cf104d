"""``python -m tests.soaks.kill_rounds --kills 5``: kill runs that train in rounds, and compare what they come to.

Each run is a batch run of its own process and two workers, all of which are killed (SIGKILL) some time after the stage
that trains has begun. The same command is then given again, and killed again, until it has been killed ``--kills``
times; then it is left to finish. Its model must have the content hash of a run that nobody killed. The runs are trained
by every executor: in one task with the rows in memory or in a file, in a task for each piece and round, by workers
among themselves (boosting, distributed), and with stored shares.

``--input FILE`` trains boosting on a table of one's own instead, by two workers among themselves; ``--words`` are
further words of its command, such as ``--words="--label delay --above 15 --rounds 120 --memory-limit 2GB"``.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import psutil

from pipeline.storage.durable import read_json

PATIENCE = 600.0
"""Seconds in which a run has to finish."""

RUNS = {
    "ridge, memory": ("numbers", "ridge", "--tol 1e-13 --C 1000 --solver memory"),
    "ridge, block": ("numbers", "ridge", "--tol 1e-13 --C 1000 --solver block"),
    "ridge, distributed": ("numbers", "ridge", "--tol 1e-6 --C 100 --solver distributed"),
    "svm, distributed": ("classes", "svm", "--tol 1e-6 --C 1 --solver distributed --parts 4"),
    "svr, distributed": ("numbers", "svr", "--tol 1e-5 --C 1 --solver distributed --parts 4"),
    "counts": ("points", "idk", ""),  # which counts twice
    "boosting, memory": ("numbers", "boosting", "--rounds 150 --solver memory"),
    "boosting, block": ("numbers", "boosting", "--rounds 100 --solver block"),
    "boosting, distributed": ("classes", "boosting", "--rounds 30 --row-share 0.8 --solver distributed"),
}
"""Runs by name: the file that they read, the learner, and the other words of the command line."""
OWN_TABLE = {"boosting, own table": ("own", "boosting", "--solver distributed")}
"""The run on a table of one's own."""
ON_ROWS = ("boosting",)
"""Learners that have no map."""


def write_files(folder: Path, n: int) -> dict[str, Path]:
    """Write tables with numbers, with classes, and without any as labels."""
    rng = np.random.default_rng(0)
    X = rng.random((n, 6)).round(5)
    y = np.sin(6 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.2 * rng.normal(size=n)
    files = {}
    labels = {"numbers": y.round(5), "classes": np.digitize(y, [-0.3, 0.2, 0.8])}
    for name in ("points", *labels):
        files[name] = folder / f"{name}.csv"
        rows, header = (np.column_stack([X, labels[name]]), "a,b,c,d,e,f,y") if name in labels else (X, "a,b,c,d,e,f")
        np.savetxt(files[name], rows, delimiter=",", header=header, comments="", fmt="%g")
    return files


def kill(session: int) -> None:
    """Kill all processes of a session."""
    for process in psutil.process_iter(["pid"]):
        with suppress(ProcessLookupError, PermissionError):
            if os.getsid(process.pid) == session:
                os.kill(process.pid, signal.SIGKILL)


def run(words: list[str], directory: Path, delay: float | None) -> bool:
    """Give a command; kill it after some seconds of training, or None: never. Return whether it finished."""
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, start_new_session=True)
    until, begun = time.monotonic() + PATIENCE, None
    while process.poll() is None:
        now = time.monotonic()
        if begun is None and any(directory.glob("records/train-*")):
            begun = now
        if (delay is not None and begun is not None and now - begun >= delay) or now > until:
            kill(process.pid)
            process.wait()
            if now > until:
                raise TimeoutError(" ".join(words))
            return False
        time.sleep(0.01)
    if process.returncode:
        raise RuntimeError(f"{' '.join(words)}: status {process.returncode}")
    return True


def seconds_of_training(directory: Path) -> float:
    """Return the seconds of the stage that trained."""
    stages = read_json(directory / "metrics.json")["stages"]
    return float(sum(stage["seconds"] for stage in stages if stage["name"].startswith("train:")))


def model_of(directory: Path, learner: str) -> str:
    """Return the content hash of the model that a run has trained."""
    stage = read_json(directory / "manifest.json")["stages"][f"train:{learner}"]
    return str(stage["result"]["content_hash"])


def main() -> int:
    """Print for each run how often it was killed and what it came to; the status is 1 if a model differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=5, help="of each run (default 5)")
    parser.add_argument("--rows", type=int, default=150_000, help="of each file (default 150000)")
    parser.add_argument("--only", default="", help="runs whose name begins with this")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--within", type=float, help="seconds in which it is killed (default: those of a whole run)")
    parser.add_argument("--input", type=Path, help="a table of one's own, on which boosting is trained instead")
    parser.add_argument("--words", default="", help="further words of the command for it")
    options = parser.parse_args()
    rng, bad = np.random.default_rng(options.seed), 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        files = {"own": options.input} if options.input else write_files(folder, options.rows)
        for name, (file, learner, more) in (OWN_TABLE if options.input else RUNS).items():
            if not name.startswith(options.only):
                continue
            task = {
                "classes": "--label y",
                "numbers": "--label y --task regression",
                "points": "--task novelty",
                "own": options.words,
            }[file]
            words = [sys.executable, "-m", "flows.batch", "--input", str(files[file]), "--quiet", "--learner", learner,
                     "--workers", "2", "--no-dask-report", *task.split(), *more.split()]  # fmt: skip
            if learner not in ON_ROWS:
                words += ["--partitioner", "iforest", "--psi", "64", "--t", "100"]
            whole, killed = folder / f"{name}-whole", folder / f"{name}-killed"
            run([*words, "--run-dir", str(whole)], whole, None)
            seconds, kills, states = seconds_of_training(whole), 0, 0
            for _ in range(options.kills):
                delay = float(rng.random() * (options.within or seconds))
                if run([*words, "--run-dir", str(killed)], killed, delay):
                    break
                kills += 1
                states += any(killed.glob("records/train-*/**/state-*.npz"))
            run([*words, "--run-dir", str(killed)], killed, None)
            same = model_of(whole, learner) == model_of(killed, learner)
            bad += not same
            outcome = "the same model" if same else "ANOTHER MODEL"
            times = f"{kills} times, {states} of them with a written state to go on from"
            print(f"{name}: {seconds:.1f} s of training, killed {times}: {outcome}", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
