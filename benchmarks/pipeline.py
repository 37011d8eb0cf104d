"""The whole pipeline against the sum of its bare kernels, called one after the other in one process."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from math import sqrt
from pathlib import Path

import numpy as np

from benchmarks.data import find, load
from benchmarks.harness import ROOT, Case, Disagreement, Options, Row
from ikmap.learners.dual.linear_svm import SVMParams, fit_linear_svm, svm_model
from ikmap.learners.online.ogd import OGDState
from ikmap.learners.rows import Block
from ikmap.partitioners import draw_subsamples, fit_partitions
from pipeline.sources import Fragment, RawRows, ReadRequest, Source, open_source

TITLE = "The whole pipeline"
ABOUT = (
    "`python -m flows.batch` from the moment its workers are up to the last stage (reading, partitioning, mapping, "
    "svm, ogd, evaluation, every result stored), against the bare kernels on the same files: parse the fragments of "
    "both files side by side, fit, map, train, predict"
)
SIZES = {100: ("anne", "iforest"), 400: ("anne",)}
"""Partitionings: the usual number, and four times the work beside the same waiting."""


def cases(options: Options) -> Iterator[Case]:
    for name in options.datasets or ("covtype-93k",):
        psi = 16 if options.quick else 4096
        for t, methods in SIZES.items():
            for method in methods:
                text = f"{name}, {method}, psi {psi}" + (f", t {t}" if t != min(SIZES) else "")
                yield Case(text, rows=partial(whole_against_kernels, text, name, method, psi, t, options))


def whole_against_kernels(case: str, name: str, method: str, psi: int, t: int, options: Options) -> list[Row]:
    """Both in turn, each once beforehand so that nothing is compiled; then the stages beside their kernels."""
    repeats = min(options.repeats, 2)
    whole, bare = [], []
    stages: dict[str, float] = {}
    kernels: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="ikmap-benchmarks-") as folder:
        for k in range(repeats + 1):
            seconds, stages, accuracy = run_pipeline(name, method, psi, t, Path(folder) / str(k), options)
            kernels, found = run_kernels(name, method, psi, t, options)
            if k:
                whole.append(seconds)
                bare.append(sum(kernels.values()))
    if abs(accuracy["svm"] - found) > 0.01:
        raise Disagreement(f"accuracy of the svm is {accuracy['svm']:.4f} in the pipeline, {found:.4f} of the kernels")
    row = Row(case, "sum of the bare kernels", whole, bare, target=1.2, relation="<=")
    row.value = statistics.median(whole) / statistics.median(bare)
    row.notes = [
        f"accuracy {accuracy['svm']:.4f} and {found:.4f}",
        "stages: " + ", ".join(f"{key} {value:.2f} s" for key, value in stages.items()),
        "kernels: " + ", ".join(f"{key} {value:.2f} s" for key, value in kernels.items()),
    ]
    return [row]


def run_pipeline(
    name: str, method: str, psi: int, t: int, folder: Path, options: Options
) -> tuple[float, dict[str, float], dict[str, float]]:
    """Seconds in all, seconds by stage, accuracy by learner: as its `metrics.json` says."""
    command = [
        sys.executable, "-m", "flows.batch", "--dataset", name, "--data-dir", str(options.data_dir),
        "--partitioner", method, "--learner", "svm,ogd",
        "--psi", str(psi), "--t", str(t), "--workers", str(options.threads),
        "--run-dir", str(folder),
        "--quiet",
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    stages = {stage["name"]: stage["seconds"] for stage in metrics["stages"]}
    return metrics["run"]["seconds"], stages, {key: value["accuracy"] for key, value in metrics["learners"].items()}


def run_kernels(name: str, method: str, psi: int, t: int, options: Options) -> tuple[dict[str, float], float]:
    """Seconds of each kernel, and the accuracy of the svm."""
    found, data = find(name, options), load(name, _whole(options))
    urls = [url for url in (found.train_url, found.test_url) if url is not None]
    seconds: dict[str, float] = {}
    clock = _Clock(seconds)

    def read(source: Source, fragment: Fragment) -> list[RawRows]:
        return list(source.read(fragment))

    sources = [open_source(url, found.format, ReadRequest(label=found.label, count=found.n_columns)) for url in urls]
    fragments = [(source, fragment) for source in sources for fragment in source.fragments()]
    with ThreadPoolExecutor(options.threads) as pool:
        list(pool.map(read, *zip(*fragments, strict=True)))
    clock("read")
    # What is read is used as `data` holds it: dense or sparse as the pipeline decides, class numbers for labels.
    model = fit_partitions(
        data.X, draw_subsamples(data.y.size, t, psi, 0), method=method, seed=0, n_threads=options.threads
    )
    clock("partition")
    train, test = model.cells(data.X, options.threads).packed(), model.cells(data.X_test, options.threads)
    clock("cells")
    params = SVMParams(C=5.0)
    svm = svm_model(
        fit_linear_svm([Block(train, data.y)], data.n_classes, params),
        list(range(data.n_classes)),
        params,
        divisor=sqrt(t),
    )
    clock("svm")
    state = OGDState.start(train.n_columns, data.n_classes, 0.5, float(t))
    state.partial_fit(train, data.y)
    clock("ogd")
    predicted = svm.predict_index(test)
    state.decision_function(test)
    clock("predict")
    return seconds, float(np.mean(predicted == data.y_test))


class _Clock:
    """Notes under a name the seconds since it was made or last asked."""

    def __init__(self, seconds: dict[str, float]) -> None:
        self.seconds, self.last = seconds, time.perf_counter()

    def __call__(self, name: str) -> None:
        now = time.perf_counter()
        self.seconds[name], self.last = now - self.last, now


def _whole(options: Options) -> Options:
    """The same options, but for all rows: the pipeline takes no part of a data set."""
    return Options(**{**vars(options), "quick": False})
