"""What it costs that every run is flushed and checked: the pipeline in turn with all of it, and with none."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.harness import ROOT, Case, Disagreement, Options, Row

TITLE = "Whole or redone"
ABOUT = (
    "`python -m flows.batch` from the moment its workers are up to the last stage, with what records promise flushed "
    "and checksums over all that is stored, against the same where nothing is flushed and no checksum is made, in turns"
)
SIZES = {"digits": 64, "a9a": 256, "covtype-93k": 256}

#: Read by every Python process of the side without, as it starts.
WITHOUT = """
import os, google_crc32c, pipeline.storage.durable as durable
os.fsync = lambda handle: None
google_crc32c.value = lambda data: 0
durable.flush = lambda paths: None
durable.digest_of = lambda value: ""
durable._sum = lambda file, size: bytes(32)
"""


def cases(options: Options) -> Iterator[Case]:
    for name in options.datasets or (("digits",) if options.quick else tuple(SIZES)):
        text = f"{name}, psi {SIZES.get(name, 256)}"
        yield Case(text, rows=partial(with_against_without, text, name, options))


def with_against_without(case: str, name: str, options: Options) -> list[Row]:
    """Each once beforehand, so that nothing is compiled; then in turns."""
    checked: list[float] = []
    unchecked: list[float] = []
    with tempfile.TemporaryDirectory(prefix="ikmap-benchmarks-") as folder:
        start = Path(folder) / "start"
        start.mkdir()
        (start / "sitecustomize.py").write_text(WITHOUT)
        for k in range(options.repeats + 1):
            found: list[dict[str, float]] = []
            for seconds, path in ((checked, ROOT), (unchecked, f"{start}{os.pathsep}{ROOT}")):
                spent, accuracy = run_pipeline(name, Path(folder) / f"{k}-{len(found)}", str(path), options)
                found.append(accuracy)
                if k:
                    seconds.append(spent)
            if found[0] != found[1]:
                raise Disagreement(f"accuracies are {found[0]} with checks, {found[1]} without")
    row = Row(case, "without flushing and checksums", checked, unchecked, target=1.05, relation="<=")
    row.value = statistics.median(checked) / statistics.median(unchecked)
    row.notes = ["each side once beforehand; accuracies of both sides are equal"]
    return [row]


def run_pipeline(name: str, folder: Path, path: str, options: Options) -> tuple[float, dict[str, float]]:
    """Seconds of the stages together, and accuracy by learner, as `metrics.json` says."""
    command = [
        sys.executable, "-m", "flows.batch", "--dataset", name, "--data-dir", str(options.data_dir),
        "--partitioner", "anne", "--learner", "svm,ogd",
        "--psi", str(SIZES.get(name, 256)), "--workers", str(options.threads), "--run-dir", str(folder), "--quiet",
    ]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": path}
    subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT, env=environment)
    metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    return metrics["run"]["seconds"], {key: value["accuracy"] for key, value in metrics["learners"].items()}
