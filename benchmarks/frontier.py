"""Test accuracy against seconds of mapping, training and predicting: us, and what a user could pick instead.

Every point is measured in a forked process of its own, on the cores of ``--threads``, after the compiled loops were
called once: seconds of compilation, of reading the file and of starting Python do not count.
"""

from __future__ import annotations

import json
import multiprocessing
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler
from sklearn.svm import LinearSVC

from benchmarks import environment
from benchmarks.data import Data, load
from benchmarks.frontier_picture import Point, draw, points_of
from benchmarks.harness import Options, as_json
from ikmap.learners.dual.linear_svm import SVMParams, fit_linear_svm, svm_model
from ikmap.learners.online.ogd import OGDState
from ikmap.learners.rows import Block
from ikmap.partitioners import GCWSPartitions, Partitions, draw_subsamples, fit_partitions
from ikmap.rows import as_dense, take_rows

TITLE = "The frontier"
ABOUT = (
    "test accuracy against seconds of map + train + predict, one process: boosting, forests, Nystroem, random features"
)

FEW = 700
"""Rows on which ours runs once before it is measured."""

type Groups = Iterator[tuple[str, Callable[[Data], list[Point]]]]


@dataclass(frozen=True)
class Frontier:
    """What is measured: names of data sets, groups of points, the seconds after which a group is given up.

    Of more training rows than ``most_rows``, so many are drawn.
    """

    name: str
    title: str
    about: str
    datasets: tuple[str, ...]
    ours: Callable[[Options], Groups]
    peers: Callable[[Options], Groups]
    seconds: float
    most_rows: int | None = None


def ours(options: Options) -> Groups:
    """Name of a group, and what measures its points: the cells of a map serve every learner, and each pays for them."""
    for method in ("anne", "iforest"):
        for t in (10, 20) if options.quick else (25, 50, 100, 200, 400):
            for psi in (16,) if options.quick else (8, 64, 512, 4096):
                yield f"{method}, t = {t}, psi = {psi}", partial(our_points, method, t, psi, options.threads)
    for p in (0.25, 1.0):
        for t in (10,) if options.quick else (64, 256, 1024):
            yield f"gcws, p = {p:g}, t = {t}", partial(gcws_points, p, t, options.threads)


def peers(options: Options) -> Groups:
    """What scikit-learn offers, on all cores in use."""
    jobs = options.threads
    boosting = HistGradientBoostingClassifier
    rounds = (5,) if options.quick else (500, 2000)
    trees, parts = (5, (20,)) if options.quick else (300, (100, 500, 2000))
    models = {
        "HistGradientBoosting": partial(boosting, random_state=0, **({"max_iter": 5} if options.quick else {})),
        **{
            f"HistGradientBoosting, {k} rounds": partial(boosting, max_iter=k, early_stopping=False, random_state=0)
            for k in rounds
        },
        f"RandomForest, {trees}": partial(RandomForestClassifier, trees, n_jobs=jobs, random_state=0),
        f"ExtraTrees, {trees}": partial(ExtraTreesClassifier, trees, n_jobs=jobs, random_state=0),
    }
    for name, make in models.items():
        yield name, partial(scikit_points, name, make, True)
    for k in parts:
        for sampler in (Nystroem, RBFSampler):
            name = f"{sampler.__name__} + LinearSVC, {k}"
            yield name, partial(scikit_points, name, partial(approximate_kernel, sampler, k), False)


def our_points(method: str, t: int, psi: int, threads: int, data: Data) -> list[Point]:
    """One map, and every learner on its cells."""
    if psi > data.y.size:
        return []
    begin = time.perf_counter()
    model = fit_partitions(data.X, draw_subsamples(data.y.size, t, psi, 0), method=method, seed=0, n_threads=threads)
    return learned(f"{method}, t = {t}, psi = {psi}", model, begin, threads, data)


def gcws_points(p: float, t: int, threads: int, data: Data) -> list[Point]:
    """Weighted minwise hashes, whose rows of zeros have no cell: so there is an intercept."""
    begin = time.perf_counter()
    model = GCWSPartitions(seed=0, t=t, p=p, b=8, gamma=1, full=True, n_features=data.X.shape[1])
    return learned(f"gcws, p = {p:g}, t = {t}", model, begin, threads, data, intercept=True)


def learned(
    title: str, model: Partitions, begin: float, threads: int, data: Data, *, intercept: bool = False
) -> list[Point]:
    """Every learner on the cells of a map; `begin` is when the map began to be made."""
    train, test = model.cells(data.X, threads).packed(), model.cells(data.X_test, threads)
    mapping = time.perf_counter() - begin
    points = []

    def learn(name: str, fit: Callable[[], Callable[[Any], np.ndarray]]) -> None:
        begin = time.perf_counter()
        predicted = fit()(test)
        seconds = mapping + time.perf_counter() - begin
        accuracy = float(np.mean(predicted == data.y_test))
        points.append({"name": f"{title}, {name}", "seconds": seconds, "accuracy": accuracy})

    for C in (1.0, 5.0):
        learn(f"svm, C = {C:g}", partial(_svm, train, data, SVMParams(C=C, fit_intercept=intercept)))
    learn("ogd", partial(_ogd, train, data, intercept))
    return points


def _svm(train: Any, data: Data, params: SVMParams) -> Callable[[Any], np.ndarray]:
    fit = fit_linear_svm([Block(train, data.y)], data.n_classes, params)
    return svm_model(fit, list(range(data.n_classes)), params, divisor=sqrt(train.n_partitions)).predict_index


def _ogd(train: Any, data: Data, intercept: bool) -> Callable[[Any], np.ndarray]:
    state = OGDState.start(train.n_columns, data.n_classes, 0.5, float(train.n_partitions), constant=intercept)
    order = np.random.default_rng(0).permutation(data.y.size)
    state.partial_fit(train[order], data.y[order])
    return state.model(list(range(data.n_classes))).predict_index


def approximate_kernel(sampler: Any, k: int) -> Any:
    """Gaussian kernel with gamma = 1 / (columns x variance), as "scale" means in scikit-learn, on scaled columns."""

    class Model:
        def fit(self, X: Any, y: np.ndarray) -> Any:
            self.scale = MaxAbsScaler().fit(X)
            Z = self.scale.transform(X)
            gamma = 1.0 / (Z.shape[1] * float(_variance(Z)))
            of_size = {"n_components": min(k, y.size)}
            self.rest = make_pipeline(sampler(gamma=gamma, random_state=0, **of_size), LinearSVC(random_state=0)).fit(
                Z, y
            )
            return self

        def predict(self, X: Any) -> np.ndarray:
            labels: np.ndarray = self.rest.predict(self.scale.transform(X))
            return labels

    return Model()


def _variance(Z: Any) -> float:
    return Z.var() if isinstance(Z, np.ndarray) else Z.multiply(Z).mean() - Z.mean() ** 2


def scikit_points(name: str, make: Callable[[], Any], dense: bool, data: Data) -> list[Point]:
    """Fit and predict; trees get dense rows, made beforehand."""
    X, X_test = (as_dense(rows) if dense else rows for rows in (data.X, data.X_test))
    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        predicted = make().fit(X, data.y).predict(X_test)
    seconds = time.perf_counter() - begin
    return [{"name": name, "seconds": seconds, "accuracy": float(np.mean(predicted == data.y_test))}]


def in_own_process(measure: Callable[[Data], list[Point]], data: Data, limit: float) -> list[Point] | str:
    """Points, or why there are none."""
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(duplex=False)

    def child() -> None:
        try:
            send.send(measure(data))
        except Exception as error:
            send.send(f"{type(error).__name__}: {error}")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads of BLAS, which has a handler for forks
        process = context.Process(target=child)
        process.start()
    send.close()
    try:
        return receive.recv() if receive.poll(limit) else f"given up after {limit:g} s"
    except EOFError:
        return "its process ended without a result"
    finally:
        process.kill()
        process.join()


FRONTIER = Frontier("frontier", TITLE, ABOUT, ("a9a", "covtype-93k", "usps"), ours, peers, 100.0)


def run(options: Options, folder: Path, *, unset: list[str], fresh: bool = False) -> int:
    """Measure what the folder does not hold yet, then draw."""
    return measure(FRONTIER, options, folder, unset=unset, fresh=fresh)


def measure(frontier: Frontier, options: Options, folder: Path, *, unset: list[str], fresh: bool = False) -> int:
    """Measure what the folder does not hold yet of a frontier, then draw."""
    path = folder / f"{frontier.name}.json"
    settings = {key: value for key, value in as_json(options).items() if key in ("quick", "threads")}
    report: dict[str, Any] = {"benchmark": frontier.name, "options": settings, "datasets": {}}
    if path.exists() and not fresh:
        kept = json.loads(path.read_text(encoding="utf-8"))
        report = kept if kept["options"] == settings else report
    report["machine"] = environment.machine(options.threads, unset)
    for name in options.datasets or frontier.datasets:
        measured = report["datasets"].setdefault(name, {})
        groups = [
            (side, key, work)
            for side, all_of in (("ours", frontier.ours), ("peers", frontier.peers))
            for key, work in all_of(options)
        ]
        missing = [group for group in groups if group[1] not in measured]
        if not missing:
            continue
        data = load(name, options)
        if frontier.most_rows and data.y.size > frontier.most_rows:
            data = of_rows(data, frontier.most_rows)
        few = of_rows(data, FEW)
        for side, key, work in missing:
            if side == "ours":
                work(few)  # everything that will run is compiled now
            found = in_own_process(work, data, frontier.seconds)
            measured[key] = {"side": side, **({"failed": found} if isinstance(found, str) else {"points": found})}
            best = max((point["accuracy"] for point in measured[key].get("points", [])), default=0.0)
            last = max((point["seconds"] for point in measured[key].get("points", [])), default=0.0)
            print(f"{name}: {key}: {found if isinstance(found, str) else f'{best:.4f} in {last:.2f} s'}", flush=True)
            path.with_suffix(".partial").write_text(json.dumps(report, indent=1), encoding="utf-8")
            path.with_suffix(".partial").replace(path)
    path.with_suffix(".md").write_text(table(report, frontier), encoding="utf-8")
    draw(report, folder, frontier.name)
    return 0


def of_rows(data: Data, n: int) -> Data:
    """The data with n training rows at most, drawn at random, in their order."""
    rows = np.sort(np.random.default_rng(0).permutation(data.y.size)[:n])
    return replace(data, X=take_rows(data.X, rows), y=data.y[rows])


def table(report: dict[str, Any], frontier: Frontier = FRONTIER) -> str:
    """The frontier of every data set, then every peer, as Markdown."""
    about = f"{frontier.about[0].upper()}{frontier.about[1:]}"
    lines = [
        f"### {frontier.title}",
        "",
        f"{about}. Seconds of compilation and of reading the file do not count.",
        "",
    ]
    lines += [f"![Test accuracy against seconds, a panel for each data set]({frontier.name}.svg)", ""]
    lines += ["| data | point | seconds | test accuracy | on the frontier |", "|---|---|---|---|---|"]
    for name, measured in report["datasets"].items():
        points = points_of(measured)
        shown = [point for point in points if point["frontier"] or point["side"] == "peers"]
        for point in sorted(shown, key=lambda point: point["seconds"]):
            who = f"**{point['name']}**" if point["side"] == "ours" else point["name"]
            mark = "yes" if point["frontier"] else "-"
            lines.append(f"| {name} | {who} | {point['seconds']:.3g} | {point['accuracy']:.4f} | {mark} |")
        for key, group in measured.items():
            if "failed" in group:
                lines.append(f"| {name} | {key} | - | - | {group['failed']} |")
    return "\n".join([*lines, "", f"Measured on: {environment.describe(report['machine'])}", ""])
