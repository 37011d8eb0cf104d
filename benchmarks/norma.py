"""NORMA: rounds a second, and how good it is at novelty and at numbers, beside what others do online and in one go."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.ensemble import IsolationForest
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import Ridge, SGDClassifier, SGDOneClassSVM
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from benchmarks import environment, peers
from benchmarks.data import load, read_labels_and_rows
from benchmarks.harness import Case, Comparison, Disagreement, Options, Row, Side
from benchmarks.linear_svm import T, mapped
from ikmap.cells import Cells
from ikmap.kernels import GaussianKernel, IsolationKernel
from ikmap.kernels.base import TILE
from ikmap.learners.online.norma import NormaState
from ikmap.learners.online.norma_rule import usual_rule
from ikmap.partitioners import Partitions, draw_subsamples, fit_iforest, fit_voronoi
from ikmap.partitioners.side_by_side import SideBySide
from ikmap.rows import as_dense
from ikmap_papers.norma.norma_dual_state import NormaDualState

TITLE = "Online learning with kernels"
ABOUT = (
    "NORMA on cells, t = 100, one thread. Rounds: millions a second on cells drawn at random, psi = 256, where 95 % "
    "or 5 % of the rows add something. Beside SGDClassifier on the same rows as CSR (the same weights), river's "
    "learn_one on the same rows as dictionaries, and the dual form, whose prediction compares a row with 100,000 "
    "others by vector instructions. kddcup99: 70,000 normal rows without labels in one pass, columns in [0, 1], nu = "
    "0.1, the mean of all functions, 32 cells of `iforest`; area under the ROC curve on the other normal rows and all "
    "attacks, by seed, beside IsolationForest and SGDOneClassSVM on Nystroem features. Regression: RMSE of one pass "
    "with the squared loss beside ridge regression on the same cells, and with a tenth of the targets far off beside "
    "losses that mind less"
)
ROUNDS = {0.95: 5.0, 0.05: 12.0}
"""Millions of rounds a second that are asked for, by the share of rows that add something."""
PRICE = 3
"""Column of electricity that is to be predicted: nswprice."""
PSI, VECTORS = 256, 100_000
PASSES = 3
"""Over the training rows of a regression, beside one."""
SEEDS, NORMAL, LEARNED, DUAL_LEARNED, PSI_NOVELTY = 5, 11, 70_000, 20_000, 32


def cases(options: Options) -> Iterator[Case]:
    for share, target in ROUNDS.items():
        yield Case(f"rounds, {100 * share:.0f} % add", rows=partial(rounds, share, target, options))
    yield Case("a9a, one pass", partial(beside_sgd, options))
    yield Case("a9a, beside river", rows=partial(beside_river, options))
    yield Case(f"dual with {VECTORS:,} rows", rows=partial(beside_dual, options))
    yield Case("kddcup99", rows=partial(novelty, options))
    for name in ("cpu_act", "electricity"):
        yield Case(f"{name}, numbers", rows=partial(numbers, name, options))


def random_cells(n: int, psi: int = PSI) -> Cells:
    kind: type[np.unsignedinteger] = np.uint8 if psi <= 256 else np.uint16
    codes = np.random.default_rng(0).integers(psi, size=(n, T), dtype=kind)
    return Cells(codes, psi * np.arange(T + 1, dtype=np.int64)).packed()


def best_of(work: Callable[[], Any], options: Options) -> list[float]:
    """Seconds of each run, after one that is not counted."""
    work()
    found = []
    for _ in range(1 if options.quick else options.repeats):
        began = time.perf_counter()
        work()
        found.append(time.perf_counter() - began)
    return found


def rounds(share: float, target: float, options: Options) -> list[Row]:
    """The margin is learned so that this share of the rows is below it, and only these add something."""
    n = 20_000 if options.quick else 400_000
    cells, y = random_cells(n), np.random.default_rng(1).integers(2, size=n).astype(np.int32)
    rule = usual_rule("nu", nu=share, average=False)
    states = []

    def work() -> None:
        states.append(NormaState.start(rule, cells.n_columns, float(T)))
        states[-1].partial_fit(cells, y)

    seconds = best_of(work, options)
    gather = 1e9 / environment.gather_rate(cells.n_columns)
    row = Row(f"rounds, {100 * share:.0f} % add", "asked for", seconds, [], n / min(seconds) / 1e6, target, per_rows=n)
    row.notes = [
        f"{100 * states[-1].n_support / n:.1f} % of the rows added something; bound: a gather of {T} weights from this "
        f"table takes {gather * T / 1000:.3g} us, {1000 / (gather * T):.3g} M rounds/s without adding anything"
    ]
    return [row]


def beside_sgd(options: Options) -> Comparison:
    """The same rule: hinge, lambda, steps of one size, no offset."""
    cells, y = mapped("a9a", options, PSI)
    rows, eta, weight = cells.to_csr(), 0.37, 1e-4
    rule = usual_rule("hinge", eta=eta, regularization=weight, decreasing=False, offset=False)
    signs = np.array([0, 1])

    def ours() -> np.ndarray:
        state = NormaState.start(rule, cells.n_columns, float(T))
        state.partial_fit(cells, y)
        return state.weights[:, 0]

    def theirs() -> np.ndarray:
        model = SGDClassifier(
            loss="hinge", penalty="l2", alpha=weight, learning_rate="constant", eta0=eta, fit_intercept=False,
            shuffle=False,
        )  # fmt: skip
        found: np.ndarray = model.partial_fit(rows, y, signs).coef_[0]
        return found

    def check(results: dict[str, Any]) -> str:
        expected = results["SGDClassifier.partial_fit"] * np.sqrt(T)
        if not np.allclose(results["ours"], expected, rtol=0, atol=1e-9):
            raise Disagreement(f"weights differ by up to {np.abs(results['ours'] - expected).max():.3g}")
        return f"all {expected.size} weights equal up to rounding"

    sides = [Side("SGDClassifier.partial_fit", theirs, target=3.0, warm=theirs)]
    return Comparison(Side("ours", ours, warm=ours), sides, check, rows=y.size)


def beside_river(options: Options) -> list[Row]:
    """A row at a time, as dictionaries that are made beforehand."""
    river = peers.find("river.linear_model")
    if river is None:
        return [Row("a9a, beside river", "river", notes=["river is not installed"])]
    from river import optim

    cells, y = mapped("a9a", options, PSI)
    few = min(len(cells), 300 if options.quick else 3000)
    columns = cells[:few].columns()
    rows = [dict.fromkeys(row.tolist(), T**-0.5) for row in columns]

    def theirs() -> None:
        model = river.LogisticRegression(optim.SGD(0.5), loss=optim.losses.Hinge(), intercept_lr=0.0)
        for row, target in zip(rows, y[:few].tolist(), strict=True):
            model.predict_proba_one(row)
            model.learn_one(row, bool(target))

    def ours() -> None:
        NormaState.start(usual_rule("hinge"), cells.n_columns, float(T)).partial_fit(cells, y)

    mine, other = best_of(ours, options), best_of(theirs, replace(options, repeats=1))
    value = (min(other) / few) / (min(mine) / len(cells))
    row = Row("a9a, beside river", "river learn_one", mine, other, value, 100.0)
    row.notes = [
        f"seconds of {len(cells):,} rows against {few:,}; the ratio is of seconds a row, predicting both times"
    ]
    return [row]


def beside_dual(options: Options) -> list[Row]:
    """Seconds of a prediction in both forms, on the same cells."""
    s = 2000 if options.quick else VECTORS
    cells, kernel = random_cells(s), IsolationKernel(T)
    tiles = [kernel.points(cells[i : i + TILE]) for i in range(0, s, TILE)]
    alpha = np.random.default_rng(2).normal(size=s)
    few = kernel.points(cells[:TILE])

    def dual() -> np.ndarray:
        total = np.zeros(TILE)
        for k, points in enumerate(tiles):
            out = np.empty((TILE, len(points)))
            kernel.values(few, points, out)
            total += out @ alpha[k * TILE : k * TILE + len(points)]
        return total

    state = NormaState.start(usual_rule("novelty", average=False), cells.n_columns, float(T))
    mine, other = best_of(lambda: state.partial_fit(cells), options), best_of(dual, replace(options, repeats=2))
    row = Row("dual", f"kernel with {s:,} rows", mine, other, (min(other) / TILE) / (min(mine) / s), 5000.0)
    row.notes = [f"seconds of {s:,} rounds against those of {TILE} predictions; the ratio is of seconds a row"]
    return [row]


# --- how good it is


def novelty(options: Options) -> list[Row]:
    """A row for each peer, and one for distinct rows."""
    data = load("kddcup99", options)
    X = np.concatenate([as_dense(rows) for rows in (data.X, data.X_test)])
    kind = np.concatenate([data.y, data.y_test])  # its labels are the numbers from 0
    seeds = range(1 if options.quick else SEEDS)
    found: dict[str, list[dict[str, float]]] = {}
    for seed in seeds:
        for name, one in _of_seed(X, kind, seed, options).items():
            found.setdefault(name, []).append(one)
    rows = []
    ours = found["mean"]

    def told(name: str, key: str) -> str:
        return ", ".join(f"{one[key]:.4f}" for one in found[name])

    def average(name: str, key: str) -> float:
        return float(np.mean([one[key] for one in found[name]]))

    asked = {"IsolationForest": average("IsolationForest", "auc"), "SGDOneClassSVM on Nystroem": None}
    for peer, target in asked.items():
        row = Row("kddcup99", peer, [one["seconds"] for one in ours], [one["seconds"] for one in found[peer]])
        row.value, row.target = average("mean", "auc"), target
        row.notes = [f"AUC by seed {told('mean', 'auc')} against {told(peer, 'auc')}"]
        row.notes += [
            f"mean over attack classes {average('mean', 'by class'):.4f} against {average(peer, 'by class'):.4f}"
        ]
        row.notes += [f"distinct rows {average('mean', 'distinct'):.4f} against {average(peer, 'distinct'):.4f}"]
        rows.append(row)
    least = Row("kddcup99, worst seed", "asked for", value=min(one["auc"] for one in ours), target=0.95)
    least.notes = [
        *(
            f"{words}: {average(name, 'auc'):.4f} (worst {min(one['auc'] for one in found[name]):.4f}), by class "
            f"{average(name, 'by class'):.4f}, distinct rows {average(name, 'distinct'):.4f}"
            for name, words in (("anne", "cells of `anne`"), ("both", f"{T} partitionings of each, side by side"))
        ),
        f"the last function alone: {told('last', 'auc')}",
        f"alerts of held-out normal rows {told('mean', 'alerts')}",
    ]
    dual = Row(
        "kddcup99, dual", "asked for", [one["seconds"] for one in found["dual"]], [], average("dual", "auc"), 0.99
    )
    dual.notes = [
        f"Gaussian kernel, {DUAL_LEARNED:,} rows: {told('dual', 'auc')}; by class {average('dual', 'by class'):.4f}"
    ]
    return [*rows, least, dual]


def _of_seed(X: np.ndarray, kind: np.ndarray, seed: int, options: Options) -> dict[str, dict[str, float]]:
    rng = np.random.default_rng(seed)
    normal = rng.permutation(np.flatnonzero(kind == NORMAL))
    n = min(LEARNED, normal.size // 2)
    test = np.concatenate([normal[n:], np.flatnonzero(kind != NORMAL)])
    scale = MinMaxScaler(clip=True).fit(X[normal[:n]])
    A, B, of = scale.transform(X[normal[:n]]), scale.transform(X[test]), kind[test]
    novel = of != NORMAL
    _, first = np.unique(np.column_stack([B, of]), axis=0, return_index=True)

    def judged(score: np.ndarray, seconds: float, **more: float) -> dict[str, float]:
        usual = np.flatnonzero(~novel)
        areas = []
        for one in np.unique(of[novel]):
            at = np.concatenate([usual, np.flatnonzero(of == one)])
            areas.append(roc_auc_score(novel[at], score[at]))
        return {
            "auc": float(roc_auc_score(novel, score)), "by class": float(np.mean(areas)),
            "distinct": float(roc_auc_score(novel[first], score[first])), "seconds": seconds, **more,
        }  # fmt: skip

    def learned(fit: Callable[[], Partitions]) -> tuple[NormaState, Cells, np.ndarray, float]:
        began = time.perf_counter()
        model = fit()
        cells = model.cells(A, options.threads).packed()
        state = NormaState.start(usual_rule("novelty", nu=0.1), cells.n_columns, float(model.n_partitions))
        state.partial_fit(cells)
        others = model.cells(B, options.threads).packed()
        return state, others, state.decision_function(others)[:, 0], time.perf_counter() - began

    draws = draw_subsamples(n, T, PSI_NOVELTY, seed)
    trees, voronoi = partial(fit_iforest, A, draws, seed), partial(fit_voronoi, A, draws)
    _, _, by_voronoi, of_voronoi = learned(voronoi)
    _, _, by_both, of_both = learned(lambda: SideBySide((trees(), voronoi())))
    state, others, decided, seconds = learned(trees)
    last = replace(state, rule=replace(state.rule, average=False), table=np.ascontiguousarray(state.table[:, :1]))
    alerts = float((decided[~novel] > 0).mean())
    found = {
        "mean": judged(decided, seconds, alerts=alerts),
        "anne": judged(by_voronoi, of_voronoi),
        "both": judged(by_both, of_both),
        "last": judged(last.decision_function(others)[:, 0], seconds),
    }
    few = A[:DUAL_LEARNED]
    began = time.perf_counter()
    dual = NormaDualState(usual_rule("novelty", nu=0.1), GaussianKernel(8.0 / A.shape[1]), n_threads=options.threads)
    dual.partial_fit(few)
    scored = dual.decision_function(B)[:, 0]
    found["dual"] = judged(scored, time.perf_counter() - began)
    features = Nystroem(gamma=8.0 / A.shape[1], n_components=100, random_state=seed)
    for name, peer in (
        ("IsolationForest", IsolationForest(random_state=seed)),
        ("SGDOneClassSVM on Nystroem", make_pipeline(features, SGDOneClassSVM(nu=0.1, random_state=seed))),
    ):
        began = time.perf_counter()
        scored = -peer.fit(A).score_samples(B)
        found[name] = judged(scored, time.perf_counter() - began)
    return found


def numbers(name: str, options: Options) -> list[Row]:
    """Beside ridge regression on the same cells, and with outliers."""
    X, y, train = _table(name, options)
    scaled = MinMaxScaler(clip=True).fit(X[train]).transform(X)
    n = int(train.sum())
    psi = 16 if options.quick else PSI
    model = fit_iforest(scaled[train], draw_subsamples(n, T, psi, 0), 0)
    cells, others = (model.cells(scaled[side], options.threads).packed() for side in (train, ~train))
    order = np.random.default_rng(0).permutation(n) if name == "cpu_act" else np.arange(n)
    cells, target = cells[order], y[train][order]
    spoiled, rng = target.copy(), np.random.default_rng(1)
    bad = rng.random(n) < 0.1
    spoiled[bad] += rng.choice([-1.0, 1.0], bad.sum()) * rng.uniform(10, 50, bad.sum()) * target.std()

    def rmse(predicted: np.ndarray) -> float:
        return float(np.sqrt(np.mean((predicted - y[~train]) ** 2)))

    def error(loss: str, targets: np.ndarray, passes: int = 1, average: bool | str = False) -> float:
        second, middle, eighth = np.quantile(targets, [0.2, 0.5, 0.8])
        unit = float(eighth - second) / 1.683
        rule = usual_rule(loss, average=average)
        state = NormaState.start(rule, cells.n_columns, float(T), center=float(middle), unit=unit)
        for again in range(passes):
            at = np.random.default_rng(again).permutation(n) if again else np.arange(n)
            state.partial_fit(cells[at], targets[at])
        return rmse(state.decision_function(others)[:, 0])

    A, B = cells.to_csr(), others.to_csr()
    began = time.perf_counter()
    ridge = {alpha: rmse(Ridge(alpha, solver="sparse_cg").fit(A, target).predict(B)) for alpha in (0.01, 0.1, 1.0)}
    seconds = (time.perf_counter() - began) / len(ridge)
    mine = best_of(lambda: error("squared", target), replace(options, repeats=1))
    clean = Row(f"{name}, RMSE by that of ridge", "Ridge on the same cells", mine, [seconds])
    losses: Sequence[str] = ("squared", "huber", "trimmed", "epsilon")
    by_loss = {loss: error(loss, target) for loss in losses}
    late = error("squared", target, average="late")
    clean.value, clean.relation = by_loss["squared"] / min(ridge.values()), "<="
    clean.target = 1.1 if name == "cpu_act" else None
    clean.notes = [f"ridge {min(ridge.values()):.4g}; " + ", ".join(f"{k} {v:.4g}" for k, v in by_loss.items())]
    clean.notes += [f"squared with the mean of late functions {late:.4g}"]
    more = Row(f"{name}, the same of {PASSES} passes", "Ridge on the same cells")
    more.value, more.relation, more.target = error("squared", target, PASSES) / min(ridge.values()), "<=", clean.target
    by_loss = {loss: error(loss, spoiled) for loss in losses}
    worst = max(by_loss[loss] for loss in losses[1:])
    outliers = Row(
        f"{name}, a tenth far off", "squared loss", value=worst / by_loss["squared"], target=1.0, relation="<="
    )
    outliers.notes = [
        "the worst of the others by the squared loss, on clean rows; RMSE "
        + ", ".join(f"{k} {v:.4g}" for k, v in by_loss.items())
        + f"; squared with the mean of late functions {error('squared', spoiled, average='late'):.4g}"
    ]
    return [clean, more, outliers]


def _table(name: str, options: Options) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, targets, and which rows are learned from; of electricity the price is learned, the class is dropped."""
    if name != "electricity":
        return read_labels_and_rows(name, options)
    data = load(name, options)
    X = np.concatenate([as_dense(rows) for rows in (data.X, data.X_test)])
    return np.delete(X, PRICE, axis=1), X[:, PRICE].copy(), np.arange(len(X)) < data.y.size
