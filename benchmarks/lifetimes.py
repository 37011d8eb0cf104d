"""What sweeps choose: beside fresh fits at the chosen value, and beside other learners for regression."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
from sklearn.metrics import r2_score
from sklearn.preprocessing import MinMaxScaler

from benchmarks.data import load, read_labels_and_rows
from benchmarks.harness import Case, Options, Row
from benchmarks.regression import run_pipeline
from ikmap.kernels import LaplacianKernel
from ikmap.learners.dual.linear_svm import fit_linear_svm
from ikmap.learners.dual.svm_params import SVMParams
from ikmap.learners.ridge.kernel_ridge import fit_kernel_ridge
from ikmap.learners.rows import Block
from ikmap.maps.fourier import FourierMap
from ikmap.methods import Map, Sample, Training, at_value, configured, search_of
from ikmap.methods.lifetime import typical_distance
from ikmap.methods.linear_on_cells import LinearSVM, LogisticRegression
from ikmap.methods.values import sweepable
from ikmap.tasks import CLASSIFICATION

TITLE = "Lifetimes found by sweeps"
ABOUT = (
    "1. Accuracy in per cent on rows held out (5,000, learned from 20,000; 100 trees, C = 8): a sweep by gradient "
    "descent at the lifetime that it chooses, or the depth, less that of an SVM or logistic regression fitted anew "
    "there, by dual coordinate descent to a certified gap. 2. R2 on a fifth of the rows, columns raw or in [0, 1]: a "
    "run with `--partitioner mondrian --lifetime auto --learner ridge --C auto --t 350`, all its stages; ours over "
    "theirs, and seconds with the search of each: ridge on iForest cells (`--psi auto`, as many trees), LightGBM "
    "with its defaults, ridge on 700 Fourier features of the Laplace kernel, and exact kernel ridge regression with "
    "it; these two choose lifetime and ridge constant on 4,000 rows"
)
TREES, FIT, HELD_OUT, C = 100, 20_000, 5_000, 8.0
SWEEPING: dict[str, LinearSVM | LogisticRegression] = {
    "hinge": LinearSVM(loss="hinge", C=C),
    "squared_hinge": LinearSVM(loss="squared_hinge", C=C),
    "logistic": LogisticRegression(C=C),
}
"""Learners that follow splits, by their loss."""
HALF_A_POINT = -0.5
REGRESSION = {"cpu_act": ("none",), "california": ("none", "minmax")}
REGRESSION_TREES, FREQUENCIES, SEARCH_ROWS = 350, 350, 4_000
WIDTHS, CONSTANTS = tuple(2.0**k for k in range(-6, 5)), (1e-4, 1e-3, 1e-2, 1e-1)
type Predict = Callable[[np.ndarray], np.ndarray]


def cases(options: Options) -> Iterator[Case]:
    yield Case("a fresh fit", rows=partial(beside_fresh_fits, options))
    for name in options.datasets or tuple(REGRESSION):
        for scale in REGRESSION.get(name, ("none",)):
            yield Case(f"{name}, {'raw' if scale == 'none' else scale}", rows=partial(regression, name, scale, options))


def beside_fresh_fits(options: Options) -> list[Row]:
    """A row for each loss: the sweep's accuracy at what it chooses, and that of a fit from nothing."""
    data = load("covtype-93k", options)
    X, y = data.dense, data.two_classes
    drawn = np.random.default_rng(0).permutation(len(y))
    fit, held = (500, 200) if options.quick else (FIT, HELD_OUT)
    inside, outside = X[drawn[:fit]], X[drawn[fit : fit + held]]
    targets, truth = y[drawn[:fit]], y[drawn[fit : fit + held]]
    task = CLASSIFICATION.of([0, 1])
    rows = []
    for name, more in (("mondrian", {}), ("iforest", {"psi": 64 if options.quick else 4096, "max_depth": "auto"})):
        one, searched = configured(name, {"t": TREES, **more})
        assert isinstance(one, Map)
        sample = Sample(fit, X.shape[1], None, inside.__getitem__, 0)
        search, splitting = search_of(one, searched, fit, sample), sweepable(one, searched)
        assert search is not None
        assert splitting is not None
        limit = search.values[-1]
        assert not isinstance(limit, tuple)
        for loss, learner in SWEEPING.items():
            began = time.perf_counter()
            start, splits = splitting.events(limit, sample, [inside, outside], options.threads)
            training = Training(Block(start[0], targets), task.codec.classes, 0, task=task)
            curve = list(learner.sweep(training, Block(start[1], truth), splits))
            ours = time.perf_counter() - began
            best = max(curve, key=lambda point: point.total)
            began = time.perf_counter()
            fitted = at_value(one, searched, best.value).fit(sample, options.threads)
            cells, new = fitted.cells(inside).packed(), fitted.cells(outside)
            svm = fit_linear_svm([Block(cells, targets)], 2, SVMParams(loss=loss, C=C, fit_intercept=True))  # type: ignore[arg-type]
            theirs = time.perf_counter() - began
            columns = new.columns()
            decision = np.where(columns >= 0, svm.coef[columns, 0], 0.0).sum(axis=1) / TREES**0.5 + svm.intercept[0]
            fresh = 100 * float(((decision >= 0) == truth).mean())
            swept = 100 * best.total / held
            row = Row(f"{name}, {loss}", "one fresh fit", [ours], [theirs], swept - fresh, HALF_A_POINT)
            row.notes = [f"{swept:.2f} against {fresh:.2f} at {best.value:.4g}, one of {len(curve)} values"]
            rows.append(row)
    return rows


def regression(name: str, scale: str, options: Options) -> list[Row]:
    """A row for each other learner."""
    trees = 20 if options.quick else REGRESSION_TREES
    began = time.perf_counter()
    run = run_pipeline(name, options, partitioner="mondrian", learners=("ridge",), scale=scale, t=trees, C="auto")
    ours, about = time.perf_counter() - began, run["learners"]["ridge"]
    began = time.perf_counter()
    forest = run_pipeline(name, options, partitioner="iforest", learners=("ridge",), scale=scale, t=trees, C="auto")
    seconds = time.perf_counter() - began
    note = f"R2 {about['r2']:.4f}, RMSE {about['rmse']:.4g}; lifetime {about['value']:.3g}, C {0.5 / about['alpha']:g}"
    rows = [_row(name, scale, "ridge on iForest cells", ours, seconds, about["r2"], forest["learners"]["ridge"]["r2"])]
    X, y, train = read_labels_and_rows(name, options)
    if scale == "minmax":
        X = MinMaxScaler(clip=True).fit(X[train]).transform(X)
    for peer, fit in (("LightGBM", _lightgbm), ("Fourier features", _fourier), ("exact Laplace ridge", _exact)):
        began = time.perf_counter()
        try:
            predict = fit(X[train], y[train])
        except ImportError:
            rows.append(Row(f"{name}, {scale}", peer, [ours], notes=["lightgbm is not installed"]))
            continue
        score = r2_score(y[~train], predict(X[~train]))
        rows.append(_row(name, scale, peer, ours, time.perf_counter() - began, about["r2"], score))
    for row in rows:
        row.notes.insert(0, note)
    return rows


def _row(name: str, scale: str, peer: str, ours: float, theirs: float, r2: float, their_r2: float) -> Row:
    shown = f"{name}, {'raw' if scale == 'none' else scale}"
    return Row(shown, peer, [ours], [theirs], r2 / their_r2, notes=[f"theirs {their_r2:.4f}"])


def _lightgbm(X: np.ndarray, y: np.ndarray) -> Predict:
    from lightgbm import LGBMRegressor

    model = LGBMRegressor(random_state=0, verbose=-1).fit(X, y)
    return lambda new: np.asarray(model.predict(new))


def _exact(X: np.ndarray, y: np.ndarray) -> Predict:
    def fit(rows: np.ndarray, targets: np.ndarray, lifetime: float, constant: float) -> Predict:
        return fit_kernel_ridge(rows, targets, LaplacianKernel(lifetime), constant).predict

    return _searched(X, y, fit)


def _fourier(X: np.ndarray, y: np.ndarray) -> Predict:
    def fit(rows: np.ndarray, targets: np.ndarray, lifetime: float, constant: float) -> Predict:
        features = FourierMap.laplacian(FREQUENCIES, rows.shape[1], lifetime, 0)
        Z = features.transform(rows)
        A = Z.T @ Z + constant * np.eye(Z.shape[1])
        weights = np.linalg.solve(A, Z.T @ targets)
        return lambda new: np.asarray(features.transform(new) @ weights)

    return _searched(X, y, fit)


def _searched(X: np.ndarray, y: np.ndarray, fit: Callable[..., Predict]) -> Predict:
    """The fit to all rows with the lifetime and the ridge constant that are best on some rows held out."""
    unit = 1 / typical_distance(Sample(len(X), X.shape[1], None, X.__getitem__, 0))
    drawn = np.random.default_rng(0).permutation(len(X))[:SEARCH_ROWS]
    inside, outside = drawn[len(drawn) // 5 :], drawn[: len(drawn) // 5]

    def error(lifetime: float, constant: float) -> float:
        shift = y[inside].mean()
        predict = fit(X[inside], y[inside] - shift, lifetime, constant)
        return float(((predict(X[outside]) + shift - y[outside]) ** 2).mean())

    tried: Sequence[tuple[float, float]] = [(width * unit, constant) for width in WIDTHS for constant in CONSTANTS]
    shift = float(y.mean())
    predict = fit(X, y - shift, *min(tried, key=lambda pair: error(*pair)))
    return lambda new: predict(new) + shift
