"""Weighted hashes (GCWS) on tables beside boosted trees and the Isolation Kernel maps: a frontier of fewer points.

Points are measured and drawn as those of :mod:`benchmarks.frontier`.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

from benchmarks import peers
from benchmarks.data import Data
from benchmarks.frontier import Frontier, Groups, gcws_points, measure, our_points, scikit_points
from benchmarks.frontier_picture import Point
from benchmarks.harness import Options

TITLE = "Tables"
ABOUT = (
    "test accuracy against seconds of map + train + predict, one process: weighted hashes of the min-max kernel "
    "(gcws) and the Isolation Kernel maps beside LightGBM and scikit-learn's boosting, on tables as they are, with "
    "at most 100,000 training rows"
)


def ours(options: Options) -> Groups:
    """Maps with 100 partitionings, and hashes; only Voronoi cells need columns of one scale."""
    for method in ("anne", "iforest"):
        for psi in (16,) if options.quick else (64, 512, 4096):
            t = 10 if options.quick else 100
            work = partial(our_points, method, t, psi, options.threads)
            yield f"{method}, t = {t}, psi = {psi}", partial(scaled, work) if method == "anne" else work
    for p in (0.25, 1.0):
        for t in (10,) if options.quick else (64, 256, 1024):
            yield f"gcws, p = {p:g}, t = {t}", partial(gcws_points, p, t, options.threads)


def boosting(options: Options) -> Groups:
    """LightGBM with its defaults and with more rounds, and scikit-learn's with its defaults."""
    for rounds in (5,) if options.quick else (100, 500):
        name = f"LightGBM, {rounds} rounds"
        yield name, partial(lightgbm_points, name, rounds, options.threads)
    few: dict[str, Any] = {"max_iter": 5} if options.quick else {}
    name = "HistGradientBoosting"
    yield name, partial(scikit_points, name, partial(HistGradientBoostingClassifier, random_state=0, **few), True)


def scaled(work: Callable[[Data], list[Point]], data: Data) -> list[Point]:
    """What work measures, on dense columns that are brought to [0, 1] first, as ``--scale minmax`` does."""
    if not isinstance(data.X, np.ndarray):
        return work(data)
    begin = time.perf_counter()
    low, width = data.X.min(axis=0), np.ptp(data.X, axis=0)
    width[width == 0] = 1.0
    rows = replace(data, X=(data.X - low) / width, X_test=(data.X_test - low) / width)
    seconds = time.perf_counter() - begin
    return [{**point, "seconds": point["seconds"] + seconds} for point in work(rows)]


def lightgbm_points(name: str, rounds: int, threads: int, data: Data) -> list[Point]:
    """Fit and predict, on rows as they are stored."""
    lightgbm = peers.find("lightgbm")
    if lightgbm is None:
        raise ImportError("lightgbm is not installed (make bench)")
    model = lightgbm.LGBMClassifier(n_estimators=rounds, n_jobs=threads, random_state=0, verbose=-1)
    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        predicted = model.fit(data.X, data.y).predict(data.X_test)
    seconds = time.perf_counter() - begin
    return [{"name": name, "seconds": seconds, "accuracy": float(np.mean(predicted == data.y_test))}]


SECONDS = 40.0
MOST_ROWS = 100_000
"""Of kddcup99: boosting of 23 classes takes minutes on all of its rows."""
DATASETS = ("spambase", "ctg", "a9a", "kddcup99", "w8a", "sector")
TABULAR = Frontier("tabular", TITLE, ABOUT, DATASETS, ours, boosting, SECONDS, MOST_ROWS)


def run(options: Options, folder: Path, *, unset: list[str], fresh: bool = False) -> int:
    """Measure what the folder does not hold yet, then draw."""
    return measure(TABULAR, options, folder, unset=unset, fresh=fresh)
