"""The race of --psi auto against the full search: what is chosen, and the seconds of processors that it takes."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from distributed import Client

from benchmarks.data import find
from benchmarks.harness import Case, Options, Row
from pipeline.monitoring.events import QuietProgress
from pipeline.params import Params
from pipeline.running.stage import Context
from pipeline.runs.batch import run_batch
from pipeline.runs.metrics import Invocation
from pipeline.storage.rundir import RunDirectory

TITLE = "The search for psi and C"
ABOUT = (
    "the race, which leaves out after some folds what will not be chosen any more, against the full search: "
    "seconds of processors that both take, what both choose for svm and ogd, cross-validated and test accuracy of it"
)

SETS = ("digits", "spambase", "usps", "a9a", "covtype-93k", "electricity", "sector", "kddcup99")
CHEAP, SEEDS = ("digits", "spambase"), 3
UNSCALED = ("spambase", "electricity", "kddcup99")
"""Sets whose columns are brought to [0, 1] first."""


def cases(options: Options) -> Iterator[Case]:
    for name in options.datasets or SETS:
        for method in ("anne", "iforest"):
            for seed in range(SEEDS if name in CHEAP and not options.quick else 1):
                yield Case(f"{name}, {method}, seed {seed}", rows=partial(race, name, method, seed, options))


def race(name: str, method: str, seed: int, options: Options) -> list[Row]:
    """Both searches, each in a run of its own from the file to the test rows: one row."""
    ours, full = (_run(name, method, seed, search, options) for search in ("race", "full"))
    row = Row(f"{name}, {method}, seed {seed}", "full search", [_seconds(ours)], [_seconds(full)])
    row.value = row.theirs[0] / row.ours[0]
    for learner in full["learners"]:
        (mine, test), (theirs, test_full) = ((_chosen(of, learner), _test(of, learner)) for of in (ours, full))
        if mine == theirs:
            row.notes.append(f"{learner}: both {_shown(mine)}, test {test:.4f}")
            continue
        # Both by the full search, which has scored them on the same folds.
        lost = _accuracy(full, learner, theirs) - _accuracy(full, learner, mine)
        row.notes.append(
            f"{learner}: {_shown(mine)} in place of {_shown(theirs)}, cross-validated {-lost:+.4f}, "
            f"test {test:.4f} in place of {test_full:.4f}"
        )
    return [row]


def _run(name: str, method: str, seed: int, search: str, options: Options) -> dict[str, Any]:
    """What ``metrics.json`` says, and the records of the search."""
    scale = "minmax" if name in UNSCALED else "none"
    rows = 1500 if options.quick else Params.cv_rows
    of: dict[str, Any] = {
        "partitioner": method,
        "learners": ("svm", "ogd"),
        "t": 100,
        "C": "auto",
        "select_by": "accuracy",
    }
    params = Params.given(seed=seed, search=search, cv_rows=rows, scale=scale, **of)
    alone = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0", "set_as_default": False}
    with tempfile.TemporaryDirectory(prefix="ikmap-benchmarks-") as folder, Client(processes=False, **alone) as client:
        run = RunDirectory(Path(folder), {})
        invocation = Invocation("none", "", {"kind": "local", "workers": 1, "threads": 1}, dask_report=False)
        try:
            metrics = run_batch(Context(client, run, params, QuietProgress()), find(name, options), invocation)
            paths = run.task_record("select", "any").parent.glob("*.json")
            return {**metrics, "records": [json.loads(path.read_text()) for path in paths]}
        finally:
            run.close()


def _seconds(run: dict[str, Any]) -> float:
    return float(sum(record["cpu_seconds"] for record in run["records"]))


def _chosen(run: dict[str, Any], learner: str) -> tuple[int, float | None]:
    selection = run["selection"]
    return selection["chosen"][learner], selection["chosen_C"].get(learner)


def _test(run: dict[str, Any], learner: str) -> float:
    return float(run["learners"][learner]["accuracy"])


def _accuracy(run: dict[str, Any], learner: str, chosen: tuple[int, float | None]) -> float:
    """Cross-validated accuracy of a choice; of a C that not every fold has tried, the worst at its psi."""
    selection, (psi, C) = run["selection"], chosen
    place = selection["psi"].index(psi)
    if C is None:
        return float(selection["accuracy"][learner][place])
    by_C = selection["accuracy_by_C"][learner][place]
    tried = selection["C"].index(C)
    return float(by_C[tried] if tried < len(by_C) else min(by_C))


def _shown(chosen: tuple[int, float | None]) -> str:
    psi, C = chosen
    return f"psi {psi}" + ("" if C is None else f", C {C:g}")
