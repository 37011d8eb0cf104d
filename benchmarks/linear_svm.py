"""Linear SVM on cells against scikit-learn's LinearSVC and LIBLINEAR on the one-hot rows, at the same suboptimality."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC

from benchmarks import environment, peers
from benchmarks.data import load
from benchmarks.harness import Case, Comparison, Disagreement, Options, Side
from ikmap.cells import Cells
from ikmap.learners.dual.linear_svm import SVMFit, SVMParams, fit_linear_svm
from ikmap.learners.rows import Block
from ikmap.partitioners import draw_subsamples, fit_partitions

TITLE = "Linear SVM on cells"
ABOUT = (
    "training on t = 100 cells a row: LinearSVC and liblinear on the same rows as CSR, each at the primal "
    "suboptimality that our run with --tol 1e-3 has"
)

T, PSI, TOL = 100, 256, 1e-3
#: For features 1/sqrt(t). The last two are C = 0.1 and 1 for features of 1, the third is C = 0.01 for them.
COSTS = (0.01, 0.1, 1.0, 10.0, 100.0)
SEARCH = 12.0
"""Seconds that finding a peer's tolerance may take."""
LIMIT = 10.0
"""Seconds after which a side is not repeated: there are many cases."""


def cases(options: Options) -> Iterator[Case]:
    for name in options.datasets or ("a9a", "covtype-93k"):
        for loss in ("squared_hinge", "hinge"):
            for C in COSTS[:3] if options.quick else COSTS:
                # The hardest, where a single run of a peer takes half a minute, once.
                if COSTS[-1] == C and (name, loss) != ("a9a", "squared_hinge"):
                    continue
                for threads in (1,) if COSTS[-1] == C else (1, 2):
                    text = f"{name}, {loss}, C = {C:g}, {threads} thread{'s' if threads > 1 else ''}"
                    yield Case(text, partial(equal_suboptimality, name, loss, C, threads, options))


@dataclass
class Problem:
    """One problem, and the best objective anybody has found for it."""

    cells: Cells
    y: np.ndarray
    loss: str
    C: float
    best: float = np.inf
    below: float = -np.inf

    def __post_init__(self) -> None:
        self.rows = sp.csr_matrix(self.cells.to_csr())  # liblinear knows no csr_array
        self.sign = np.where(self.y == 1, 1.0, -1.0)

    def primal(self, w: np.ndarray) -> float:
        """Objective of LIBLINEAR, in float64, the same for everybody's weights."""
        lack = np.maximum(0.0, 1.0 - self.sign * (self.rows @ w))
        return float(0.5 * w @ w + self.C * (lack.sum() if self.loss == "hinge" else lack @ lack))

    def suboptimality(self, w: np.ndarray) -> float:
        """(P(w) - P*) / P*, with the best known P*."""
        return (self.primal(w) - self.best) / self.best

    def solve(self, tol: float, threads: int = 1) -> SVMFit:
        params = SVMParams(loss=self.loss, C=self.C, tol=tol)  # type: ignore[arg-type]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return fit_linear_svm([Block(self.cells, self.y)], 2, params, n_threads=threads)

    def find_best(self) -> None:
        """Solve it far more tightly than anybody is asked to."""
        if self.best == np.inf:
            fit = self.solve(1e-6)
            self.best, self.below = self.primal(fit.coef[:, 0]), float(fit.dual[0])


@lru_cache(maxsize=1)
def mapped(name: str, options: Options, psi: int = PSI) -> tuple[Cells, np.ndarray]:
    """Cells of the training rows as the pipeline hands them to a learner, and two classes."""
    data = load(name, options)
    psi = min(psi, data.y.size // 4)
    model = fit_partitions(data.X, draw_subsamples(data.y.size, T, psi, 0), method="anne", seed=0)
    return model.cells(data.X, options.threads).packed(), data.two_classes


@lru_cache(maxsize=4)
def problem(name: str, loss: str, C: float, options: Options) -> Problem:
    return Problem(*mapped(name, options), loss, C)


def equal_suboptimality(name: str, loss: str, C: float, threads: int, options: Options) -> Comparison:
    task = problem(name, loss, C, options)
    state: dict[str, float] = {}

    def calibrate_ours() -> str:
        task.find_best()
        fit = task.solve(TOL, threads)
        state["wanted"] = task.suboptimality(fit.coef[:, 0])
        return (
            f"(P - P*)/P* {state['wanted']:.2g} (certified gap {fit.gap[0]:.2g}, {fit.n_iter[0]} sweeps; P* within "
            f"{(task.best - task.below) / task.best:.1g})"
        )

    def side(label: str, solve: Callable[[float], np.ndarray], **targets: Any) -> Side:
        """A peer, run at the largest eps with which it gets as close to the optimum as we do."""
        eps = [0.1]

        def calibrate() -> str | None:
            found = find_eps(lambda e: task.suboptimality(solve(e)), state["wanted"], SEARCH)
            if found is None:
                return None
            eps[0] = found[0]
            return f"{label}: (P - P*)/P* {found[1]:.2g} at eps {found[0]:.2g}"

        size = task.rows.data.nbytes + task.rows.indices.nbytes + task.rows.indptr.nbytes
        warm = lambda: solve(10.0)  # noqa: E731
        return Side(label, lambda: solve(eps[0]), calibrate=calibrate, warm=warm, input_bytes=size, **targets)

    sides = []
    multicore, official = peers.find_liblinear("liblinear-multicore"), peers.find_liblinear("liblinear-official")
    number = 3 if loss == "hinge" else 1
    if threads == 1:
        sides.append(side("LinearSVC, dual", partial(sklearn, task, True), target=4.0, memory_target=5.0))
        if loss == "squared_hinge":
            sides.append(side("LinearSVC, primal", partial(sklearn, task, False), target=4.0, memory_target=5.0))
        label = f"liblinear-official -s {number}"
        sides.append(
            Side.absent(label, "liblinear-official", target=4.0, memory_target=5.0)
            if official is None
            else side(label, partial(liblinear, official, task, f"-s {number}"), target=4.0, memory_target=5.0)
        )
    else:
        alone = Side("ours, 1 thread", lambda: task.solve(TOL).coef[:, 0], target=1.0)
        sides.append(alone)
        for s in (number, 2) if loss == "squared_hinge" else (number,):
            label = f"liblinear-multicore -m 2 -s {s}"
            sides.append(
                Side.absent(label, "liblinear-multicore", target=4.0)
                if multicore is None
                else side(label, partial(liblinear, multicore, task, f"-s {s} -m 2"), target=4.0)
            )

    def check(results: dict[str, Any]) -> str:
        fit = results["ours"]
        if not np.isclose(task.primal(fit.coef[:, 0]), fit.primal[0], rtol=1e-9):
            raise Disagreement(f"our primal value is {fit.primal[0]}, the weights have {task.primal(fit.coef[:, 0])}")
        for who, result in results.items():
            w = fit.coef[:, 0] if who == "ours" else result
            # Peers that draw other random numbers in each run come out a little different each time.
            if task.suboptimality(w) > max(2 * state["wanted"], TOL):
                raise Disagreement(f"{who}: suboptimality {task.suboptimality(w):.2g}, wanted {state['wanted']:.2g}")
        return ""

    ours = Side(
        "ours",
        lambda: task.solve(TOL, threads),
        calibrate=calibrate_ours,
        input_bytes=task.cells.codes.nbytes,
    )

    def bound(seconds: float) -> str:
        fit = task.solve(TOL, threads)
        entries = float(fit.n_iter[0]) * task.cells.codes.size
        return (
            f"{fit.n_iter[0]} sweeps of at most {task.cells.codes.size / 1e6:.3g} M cells: "
            f"{seconds / entries * 1e9:.2g} ns a cell or more; a gather from weights of this size takes "
            f"{1e9 / environment.gather_rate(task.cells.n_columns):.2g} ns"
        )

    return Comparison(ours, sides, check, memory=threads == 1 and COSTS[1] == C, bound=bound, limit=LIMIT)


def sklearn(task: Problem, dual: bool, eps: float) -> np.ndarray:
    """LinearSVC without intercept (cells have a constant in their span)."""
    model = LinearSVC(
        loss=task.loss, C=task.C, tol=eps, dual=dual, fit_intercept=False, max_iter=100_000, random_state=0
    )
    weights: np.ndarray = model.fit(task.rows, task.y).coef_[0]
    return weights


def liblinear(module: Any, task: Problem, options: str, eps: float) -> np.ndarray:
    """``train`` of the Python interface, with the conversion of the rows that every call of it makes."""
    model = module.train(task.sign, task.rows, f"{options} -c {task.C} -e {eps} -q")
    w = np.ctypeslib.as_array(model.w, (model.nr_feature,)).copy()
    return w if model.get_labels()[0] == 1 else -w


def find_eps(reached: Callable[[float], float], wanted: float, seconds: float) -> tuple[float, float] | None:
    """Largest eps, up to a factor of 1.2, at which `reached(eps) <= wanted`; None when not found in so many seconds."""
    begin = time.perf_counter()
    wanted = max(wanted, 1e-7)
    high, low, at = 10.0, None, np.inf
    while low is None or high / low > 1.2:
        eps = high / 10 if low is None else float(np.sqrt(high * low))
        if low is None and (eps < 1e-9 or time.perf_counter() - begin > seconds):
            return None
        if low is not None and time.perf_counter() - begin > seconds:
            break
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            value = reached(eps)
        if value <= wanted:
            low, at = eps, value
        else:
            high = eps
    return low, at
