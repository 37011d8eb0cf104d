"""Regression: ridge on cells beside gradient boosting and ridge on columns, and its solver beside scikit-learn's."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from distributed import Client
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import Ridge
from sklearn.metrics import r2_score
from sklearn.preprocessing import MinMaxScaler

from benchmarks.data import find, read_labels_and_rows
from benchmarks.harness import Case, Comparison, Disagreement, Options, Row, Side
from ikmap.learners.ridge.conjugate_gradients import Problem
from ikmap.learners.ridge.ridge import RidgeFit, fit_ridge
from ikmap.learners.rows import Block
from ikmap.methods import Sample
from ikmap.methods.iforest import IForest
from pipeline.monitoring.events import QuietProgress
from pipeline.params import Params
from pipeline.running.stage import Context
from pipeline.runs.batch import run_batch
from pipeline.runs.metrics import Invocation
from pipeline.storage.rundir import RunDirectory

TITLE = "Regression"
ABOUT = (
    "R2 on a fifth of the rows, drawn by a seed: a run of the pipeline with `--learner ridge --partitioner iforest "
    "--psi auto --scale minmax`, psi and C by cross-validation, with all its stages, beside scikit-learn's "
    "HistGradientBoostingRegressor(max_iter=500) and Ridge() on the columns; the figure is our R2. Seconds of ridge "
    "on the same cells, one thread each: conjugate gradients on integers against scikit-learn's Ridge on the same "
    "cells as a CSR matrix, at the tolerance with which its objective is as close to the optimum as ours"
)
ASKED = {"cpu_act": 0.98, "california": 0.83}
T = 1000
"""Partitionings."""
CLOSE = 1e-3
"""Objectives are compared this close to the optimum, relative."""
TIMES = 4.0
TOLERANCES = tuple(10.0**-k for k in range(1, 9))


def cases(options: Options) -> Iterator[Case]:
    for name in options.datasets or tuple(ASKED):
        yield Case(name, rows=partial(accuracy, name, options))
    for name in options.datasets or tuple(ASKED):
        for alpha in (0.1, 1.0):
            yield Case(f"{name}, alpha = {alpha:g}", partial(solvers, name, alpha, options))


def accuracy(name: str, options: Options) -> list[Row]:
    """One row for each peer."""
    began = time.perf_counter()
    run = run_pipeline(
        name, options, partitioner="iforest", learners=("ridge",), scale="minmax", t=20 if options.quick else T
    )
    ours, about = time.perf_counter() - began, run["learners"]["ridge"]
    note = (
        f"R2 {about['r2']:.4f}, RMSE {about['rmse']:.4g}; t {T}, psi {about['psi']}, C {0.5 / about['alpha']:g}; "
        f"training alone {about['train_seconds']:.3g} s"
    )
    X, y, X_test, y_test = _split(name, options)
    rows = []
    for peer, model in (
        ("HistGradientBoosting", HistGradientBoostingRegressor(max_iter=500, random_state=0)),
        ("Ridge on the columns", Ridge()),
    ):
        began = time.perf_counter()
        found = r2_score(y_test, model.fit(X, y).predict(X_test))
        theirs = time.perf_counter() - began
        rows.append(
            Row(name, peer, [ours], [theirs], about["r2"], ASKED.get(name), notes=[note, f"theirs {found:.4f}"])
        )
    return rows


def run_pipeline(name: str, options: Options, **given: Any) -> dict[str, Any]:
    """What ``metrics.json`` says of a run for regression from the file to the test rows."""
    params = Params.given(task="regression", cv_rows=1500 if options.quick else Params.cv_rows, **given)
    alone = {"n_workers": options.threads, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    with (
        tempfile.TemporaryDirectory(prefix="ikmap-benchmarks-") as folder,
        Client(processes=False, set_as_default=False, **alone) as client,
    ):
        held = RunDirectory(Path(folder), {})
        cluster = {"kind": "local", "workers": options.threads, "threads": 1}
        try:
            return run_batch(
                Context(client, held, params, QuietProgress()),
                find(name, options),
                Invocation("none", "", cluster, dask_report=False),
            )
        finally:
            held.close()


def _split(name: str, options: Options) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rows and targets to learn from and to test on, as a run with its defaults divides them; columns in [0, 1]."""
    X, y, train = read_labels_and_rows(name, options)
    scaled = MinMaxScaler(clip=True).fit(X[train]).transform(X)
    return scaled[train], y[train], scaled[~train], y[~train]


def solvers(name: str, alpha: float, options: Options) -> Comparison:
    """Ridge on the same cells."""
    X, y, _, _ = _split(name, options)
    psi, t = (16, 20) if options.quick else (256, 100)
    cells = IForest(t=t, psi=psi).fit(Sample(X.shape[0], X.shape[1], None, X.__getitem__, 0)).cells(X)
    packed, matrix = cells.packed(), cells.to_csr()
    value = t**-0.5
    best = fit_ridge([Block(packed, y)], Problem(alpha, 1e-9, value)).objective

    def objective(weights: np.ndarray, intercept: float) -> float:
        off = y - matrix @ weights - intercept
        return float(0.5 * off @ off + alpha / 2 * weights @ weights)

    def excess(result: Any) -> float:
        weights = (result.coef if isinstance(result, RidgeFit) else result.coef_).ravel()
        intercept = result.intercept if isinstance(result, RidgeFit) else result.intercept_
        return objective(weights, intercept) / best - 1

    def work(tol: float) -> RidgeFit:
        return fit_ridge([Block(packed, y)], Problem(alpha, tol, value))

    def peer(solver: str) -> Side:
        chosen = [TOLERANCES[-1]]

        def fit(tol: float) -> Ridge:
            return Ridge(alpha=alpha, solver=solver, tol=tol).fit(matrix, y)

        def calibrate() -> str | None:
            for tol in TOLERANCES:
                if excess(fit(tol)) <= CLOSE:
                    chosen[0] = tol
                    return f"{solver} at tol={tol:g}"
            return None

        return Side(f'Ridge(solver="{solver}")', lambda: fit(chosen[0]), target=TIMES, calibrate=calibrate)

    ours = Side("ridge on cells", lambda: work(CLOSE))  # the certified gap is the tolerance

    def check(results: dict[str, Any]) -> str:
        found = {side: excess(result) for side, result in results.items()}
        if max(found.values()) > CLOSE * (1 + 1e-9):
            raise Disagreement(f"objectives above the optimum by {found}, expected at most {CLOSE:g}")
        fit = results[ours.name]
        return f"{fit.n_iter} steps, certified gap {fit.gap / fit.objective:.2g}; above the optimum by " + ", ".join(
            f"{share:.1g} ({side})" for side, share in found.items()
        )

    return Comparison(ours, [peer("sparse_cg"), peer("lsqr")], check)
