"""Maps side by side: the sum of two kernels beside each of them alone, with as many partitionings in all."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from distributed import Client

from benchmarks.data import find
from benchmarks.harness import Case, Options, Row
from ikmap.methods.values import numbers_of
from pipeline.monitoring.events import QuietProgress
from pipeline.params import Params
from pipeline.running.stage import Context
from pipeline.runs.batch import run_batch
from pipeline.runs.metrics import Invocation
from pipeline.storage.rundir import RunDirectory

TITLE = "Maps side by side"
ABOUT = (
    "seconds and test accuracy of `--partitioner iforest,anne` against each of the two alone, all with --t 100 and the "
    "linear SVM, C by cross-validation on 5,000 training rows: with the same psi for every map, and with psi of each "
    "map by that cross-validation, too; with --t 50 each map alone has what it has in the sum. The ratio is the mean "
    "accuracy over seeds by that of the other; beside it, the mean difference with its standard error"
)
SETS = ("a9a", "covtype-93k", "spambase", "electricity")
UNSCALED = ("spambase", "electricity")
"""Sets whose columns are brought to [0, 1] first."""
T = 100
TOGETHER = ("iforest,anne", T)
SINGLE = (("iforest", T), ("anne", T), ("iforest", T // 2), ("anne", T // 2))
"""Maps, and how many partitionings they have."""
PSIS = (64, 512, "auto")
SEEDS = 3
CV_ROWS = 5000


def cases(options: Options) -> Iterator[Case]:
    for name in options.datasets or SETS:
        for psi in PSIS:
            yield Case(f"{name}, psi {psi}", rows=partial(compared, name, psi, options))


def compared(name: str, psi: int | str, options: Options) -> list[Row]:
    """A row for each of the single maps."""
    seeds = range(1 if options.quick else SEEDS)
    found = {side: [_run(name, *side, psi, seed, options) for seed in seeds] for side in (*SINGLE, TOGETHER)}
    accuracy = {side: np.array([_accuracy(run) for run in runs]) for side, runs in found.items()}
    seconds = {side: [_seconds(run) for run in runs] for side, runs in found.items()}
    rows = []
    for side in SINGLE:
        method, t = side
        apart = accuracy[TOGETHER] - accuracy[side]
        row = Row(f"{name}, psi {psi}", f"{method}, t {t}", seconds[TOGETHER], seconds[side])
        row.value = float(accuracy[TOGETHER].mean() / accuracy[side].mean())
        error = f" +- {apart.std(ddof=1) / np.sqrt(apart.size):.4f}" if apart.size > 1 else ""
        row.notes = [
            f"accuracy {accuracy[TOGETHER].mean():.4f} and {accuracy[side].mean():.4f}, {apart.mean():+.4f}{error}",
            f"seed 0: {_chosen(found[TOGETHER][0])} and {_chosen(found[side][0])}",
        ]
        rows.append(row)
    return rows


def _run(name: str, method: str, t: int, psi: int | str, seed: int, options: Options) -> dict[str, Any]:
    """What ``metrics.json`` says of a run from the file to the test rows."""
    rows = 1000 if options.quick else CV_ROWS
    params = Params.given(
        partitioner=method,
        learners=["svm"],
        seed=seed,
        t=t // 5 if options.quick else t,
        psi=psi,
        C="auto",
        select_by="accuracy",
        cv_rows=rows,
        scale="minmax" if name in UNSCALED else "none",
    )
    alone = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0", "set_as_default": False}
    with tempfile.TemporaryDirectory(prefix="ikmap-benchmarks-") as folder, Client(processes=False, **alone) as client:
        run = RunDirectory(Path(folder), {})
        invocation = Invocation("none", "", {"kind": "local", "workers": 1, "threads": 1}, dask_report=False)
        try:
            return run_batch(Context(client, run, params, QuietProgress()), find(name, options), invocation)
        finally:
            run.close()


def _accuracy(run: dict[str, Any]) -> float:
    return float(run["learners"]["svm"]["accuracy"])


def _seconds(run: dict[str, Any]) -> float:
    """From the file to the test rows, with the search."""
    return float(sum(stage["seconds"] for stage in run["stages"]))


def _chosen(run: dict[str, Any]) -> str:
    selection = run["selection"]
    psi = numbers_of(selection["parameter"], selection["chosen"]["svm"])
    return f"psi {' and '.join(map(str, psi.values()))}, C {selection['chosen_C']['svm']:g}"
