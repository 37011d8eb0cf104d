"""Support vector regression on cells against LIBLINEAR's, through LinearSVR on the one-hot rows, equally suboptimal."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import minmax_scale
from sklearn.svm import LinearSVR

from benchmarks.data import read_labels_and_rows
from benchmarks.harness import Case, Comparison, Disagreement, Options, Side
from benchmarks.linear_svm import find_eps
from ikmap.cells import Cells
from ikmap.learners.dual.linear_svm import SVMFit, SVMParams, fit_linear_svm
from ikmap.learners.rows import Block
from ikmap.partitioners import draw_subsamples, fit_partitions

TITLE = "Support vector regression on cells"
ABOUT = (
    "training on t = 100 cells a row, epsilon 0.1, standardised targets, one thread; LinearSVR on the same rows as CSR "
    "at the primal suboptimality that our run with --tol 1e-3 has"
)

T, PSI, TOL, EPSILON = 100, 256, 1e-3, 0.1
LOSSES = ("squared_epsilon_insensitive", "epsilon_insensitive")
COSTS = (0.1, 1.0, 10.0)
SEARCH, LIMIT = 30.0, 10.0
"""Seconds that finding the peer's tolerance may take; seconds after which a side is not repeated."""


def cases(options: Options) -> Iterator[Case]:
    for name in options.datasets or ("cpu_act", "california"):
        for loss in LOSSES:
            for C in COSTS[:1] if options.quick else COSTS:
                yield Case(f"{name}, {loss}, C = {C:g}", partial(equal_suboptimality, name, loss, C, options))


@dataclass
class Problem:
    """One problem, on standardised targets, and the best objective found for it."""

    cells: Cells
    z: np.ndarray
    loss: str
    C: float

    def __post_init__(self) -> None:
        self.rows = sp.csr_matrix(self.cells.to_csr())  # liblinear knows no csr_array
        fit = self.solve(1e-6)
        self.best, self.below = self.primal(fit.coef[:, 0]), float(fit.dual[0])

    def primal(self, w: np.ndarray) -> float:
        """Objective of LIBLINEAR, in float64, the same for everybody's weights."""
        over = np.maximum(0.0, np.abs(self.z - self.rows @ w) - EPSILON)
        return float(0.5 * w @ w + self.C * (over.sum() if self.loss == "epsilon_insensitive" else over @ over))

    def suboptimality(self, w: np.ndarray) -> float:
        """(P(w) - P*) / P*, with the best known P*."""
        return (self.primal(w) - self.best) / self.best

    def solve(self, tol: float) -> SVMFit:
        params = SVMParams(loss=self.loss, C=self.C, tol=tol, epsilon=EPSILON, max_iter=20_000)  # type: ignore[arg-type]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return fit_linear_svm([Block(self.cells, self.z)], 0, params)

    def solve_theirs(self, eps: float) -> np.ndarray:
        """LinearSVR without intercept (cells have a constant in their span)."""
        model = LinearSVR(
            loss=self.loss, C=self.C, epsilon=EPSILON, tol=eps, fit_intercept=False, max_iter=100_000, random_state=0
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            found: np.ndarray = model.fit(self.rows, self.z).coef_
        return found


@lru_cache(maxsize=1)
def mapped(name: str, options: Options) -> tuple[Cells, np.ndarray]:
    """Cells of the training rows, of features in [0, 1], and standardised targets."""
    X, y, train = read_labels_and_rows(name, options)
    X, y = minmax_scale(X[train]), y[train]
    model = fit_partitions(X, draw_subsamples(y.size, T, min(PSI, y.size // 4), 0), method="anne", seed=0)
    return model.cells(X, options.threads).packed(), (y - y.mean()) / y.std()


def equal_suboptimality(name: str, loss: str, C: float, options: Options) -> Comparison:
    task = Problem(*mapped(name, options), loss, C)
    wanted, eps = [0.0], [0.1]

    def calibrate_ours() -> str:
        fit = task.solve(TOL)
        wanted[0] = task.suboptimality(fit.coef[:, 0])
        return (
            f"(P - P*)/P* {wanted[0]:.2g} (certified gap {fit.gap[0]:.2g}, {fit.n_iter[0]} sweeps; P* within "
            f"{(task.best - task.below) / task.best:.1g})"
        )

    def calibrate_theirs() -> str | None:
        found = find_eps(lambda e: task.suboptimality(task.solve_theirs(e)), wanted[0], SEARCH)
        if found is None:
            return None
        eps[0] = found[0]
        return f"LinearSVR: (P - P*)/P* {found[1]:.2g} at eps {found[0]:.2g}"

    def check(results: dict[str, Any]) -> str:
        fit = results["ours"]
        if not np.isclose(task.primal(fit.coef[:, 0]), fit.primal[0], rtol=1e-9):
            raise Disagreement(f"our primal value is {fit.primal[0]}, the weights have {task.primal(fit.coef[:, 0])}")
        for who, result in results.items():
            w = fit.coef[:, 0] if who == "ours" else result
            if task.suboptimality(w) > max(2 * wanted[0], TOL):
                raise Disagreement(f"{who}: suboptimality {task.suboptimality(w):.2g}, wanted {wanted[0]:.2g}")
        return ""

    size = task.rows.data.nbytes + task.rows.indices.nbytes + task.rows.indptr.nbytes
    theirs = Side(
        "LinearSVR",
        lambda: task.solve_theirs(eps[0]),
        calibrate=calibrate_theirs,
        warm=lambda: task.solve_theirs(10.0),
        input_bytes=size,
        target=4.0,
    )
    ours = Side("ours", lambda: task.solve(TOL), calibrate=calibrate_ours, input_bytes=task.cells.codes.nbytes)
    return Comparison(ours, [theirs], check, limit=LIMIT)
