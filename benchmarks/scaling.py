"""The whole pipeline on generated rows: eight times as many should take eight times as long, in the same memory."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import ROOT, Case, Options, Row

TITLE = "Scaling"
ABOUT = (
    "`python -m flows.batch` on generated rows (.npy, 20 columns, t = 50, psi = 16, two workers of 1 GB): n rows "
    "against 8 n"
)

COLUMNS, T, PSI = 20, 50, 16
BLOCK = 100_000


def cases(options: Options) -> Iterator[Case]:
    small = 5_000 if options.quick else 1_000_000
    text = f"{small:,} against {8 * small:,} rows"
    yield Case(text, rows=partial(small_against_large, text, small, options))


def small_against_large(case: str, small: int, options: Options) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="ikmap-benchmarks-") as folder:
        runs = []
        for n in (small, 8 * small):
            path = Path(folder) / f"{n}.npy"
            generate(path, n)
            runs.append(run_batch(path, Path(folder) / f"run-{n}", options))
            path.unlink()
    first, second = runs
    seconds = [metrics["run"]["seconds"] for metrics in runs]
    row = Row(case, "exponent of time", [seconds[1]], [seconds[0]], target=1.05, relation="<=")
    row.value = exponent(*seconds)
    names = [stage["name"] for stage in second["stages"]]
    taken = [{stage["name"]: stage["seconds"] for stage in metrics["stages"]} for metrics in runs]
    row.notes = [
        "stages, s: " + ", ".join(f"{name} {taken[0][name]:.3g} -> {taken[1][name]:.3g}" for name in names),
        "exponents: "
        + ", ".join(
            f"{name} {math.log(taken[1][name] / max(taken[0][name], 1e-3)) / math.log(8):.2f}" for name in names
        ),
        *(
            f"accuracy of {name} {first['learners'][name]['accuracy']:.4f} -> {result['accuracy']:.4f}"
            for name, result in second["learners"].items()
        ),
    ]
    peaks = [max(stage["peak_rss_bytes"] for stage in metrics["stages"]) for metrics in runs]
    memory = Row(case, "peak memory of a worker", target=1.1, relation="<=", value=peaks[1] / peaks[0])
    clients = [metrics["run"]["client_peak_rss_bytes"] for metrics in runs]
    memory.ours_bytes, memory.theirs_bytes = peaks[1], peaks[0]
    memory.notes = [
        "ours: 8 n rows, theirs: n rows",
        f"the client: {clients[0] / 2**20:.0f} -> {clients[1] / 2**20:.0f} MiB",
    ]
    return [row, memory]


def exponent(small: float, large: float) -> float:
    """By which power of the rows the seconds grew, when there are eight times as many."""
    return math.log(large / max(small, 1e-3)) / math.log(8)


def generate(path: Path, n: int) -> None:
    """Write n rows of 20 uniform numbers and a class, block by block: the classes are the sides of a curved border."""
    array = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(n, COLUMNS + 1))
    for number, start in enumerate(range(0, n, BLOCK)):
        rng = np.random.default_rng([0, number])
        X = rng.random((min(BLOCK, n - start), COLUMNS), dtype=np.float32)
        array[start : start + BLOCK, :-1] = X
        array[start : start + BLOCK, -1] = X[:, 0] + X[:, 1] ** 2 + 0.1 * rng.random(X.shape[0]) > 0.9
    array.flush()


def run_batch(path: Path, folder: Path, options: Options) -> dict[str, Any]:
    """`metrics.json` of one run."""
    command = [
        sys.executable, "-m", "flows.batch", "--input", str(path), "--partitioner", "anne", "--learner", "svm,ogd",
        "--t", str(T), "--psi", str(PSI),
        "--workers", str(options.threads), "--memory-limit", "1GB",
        "--run-dir", str(folder), "--quiet",
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    return dict(json.loads((folder / "metrics.json").read_text(encoding="utf-8")))
