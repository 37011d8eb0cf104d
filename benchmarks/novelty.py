"""Novelty: the isolation distributional kernel beside IsolationForest and LocalOutlierFactor, by their defaults."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import LocalOutlierFactor

from benchmarks.data import load
from benchmarks.harness import Case, Options, Row
from ikmap import IDKDetector
from ikmap.rows import as_dense

TITLE = "Novelty"
ABOUT = (
    "seconds of fitting and of scoring the test rows, and area under the ROC curve (AUC), the mean over seeds: "
    "`IDKDetector` against scikit-learn's IsolationForest and LocalOutlierFactor(novelty=True), all with their "
    "defaults, on columns as they are. The ratio is our AUC by theirs. No learner sees a label. usps, digits: one "
    "class is normal and learned from, each in turn; kddcup99: class 11 is; else the smallest class are the anomalies, "
    "and all rows are learned from. ctg is without the columns V26 to V35, which are the class"
)
SETS = ("kddcup99", "usps", "ctg", "spambase", "covtype-93k", "w8a", "digits")
ONE_CLASS = ("usps", "digits")
ASKED = ("kddcup99", "usps", "ctg", "spambase", "covtype-93k", "w8a")
"""Sets that the mean is of."""
NORMAL_OF_KDDCUP99 = 11
SEEDS = 3
FOREST = "IsolationForest"
LOF_ROWS = 10_000
"""LocalOutlierFactor takes minutes for more: it learns from so many of the rows, and scores so many."""


def cases(options: Options) -> Iterator[Case]:
    yield Case("novelty", rows=partial(every, options))


def every(options: Options) -> list[Row]:
    """A row for each data set and peer, and the means."""
    rows, found = [], {}
    for name in options.datasets or SETS:
        for peer, (ours, theirs, areas, notes) in measured(name, options).items():
            found[name, peer] = areas
            rows.append(_row(name, peer, ours, theirs, areas, notes))
    names = [name for name in ASKED if any(key[0] == name for key in found)]
    for peer in dict.fromkeys(peer for _, peer in found):
        if len(names) > 1:
            means = np.mean([found[name, peer] for name in names], axis=0)
            notes = [f"of {', '.join(names)}"]
            rows.append(
                _row("mean", peer, [], [], (float(means[0]), float(means[1])), notes, 1.0 if peer == FOREST else None)
            )
    return rows


def _row(
    name: str,
    peer: str,
    ours: list[float],
    theirs: list[float],
    areas: tuple[float, float],
    notes: list[str],
    target: float | None = None,
) -> Row:
    row = Row(name, peer, ours, theirs, value=areas[0] / areas[1], target=target)
    row.notes = [f"AUC {areas[0]:.4f} against {areas[1]:.4f}", *notes]
    return row


type Found = tuple[list[float], list[float], tuple[float, float], list[str]]
"""Seconds of ours and of theirs, both areas, notes."""


def measured(name: str, options: Options) -> dict[str, Found]:
    """What the detectors reach on a data set, and the seconds of each seed: all its problems together."""
    seeds = 1 if options.quick else SEEDS
    ours, forest, lof = _Side(), _Side(), _Side()
    notes: list[str] = []
    for X, test, novel in problems(name, options):
        if novel.min() == novel.max():
            continue
        for seed in range(seeds):
            ours.run(IDKDetector(random_state=seed, n_jobs=options.threads), X, test, novel, seed)
            forest.run(IsolationForest(random_state=seed), X, test, novel, seed)
        few, some = _some(X.shape[0]), _some(test.shape[0])
        if few.size < X.shape[0]:
            notes = [f"learned from {few.size:,} of {X.shape[0]:,} rows, scored {some.size:,} of {test.shape[0]:,}"]
        lof.run(LocalOutlierFactor(novelty=True), X[few], test[some], novel[some], 0)
    return {
        FOREST: (ours.seconds, forest.seconds, (ours.area, forest.area), []),
        "LocalOutlierFactor": (ours.seconds, lof.seconds, (ours.area, lof.area), notes),
    }


def _some(n: int) -> np.ndarray:
    """Numbers of at most :data:`LOF_ROWS` rows."""
    return np.sort(np.random.default_rng(0).permutation(n)[:LOF_ROWS])


class _Side:
    """What a detector reaches on the problems of a data set."""

    def __init__(self) -> None:
        self.areas: list[float] = []
        self.by_seed: dict[int, float] = {}

    def run(self, detector: Any, X: Any, test: Any, novel: np.ndarray, seed: int) -> None:
        """Fit it and score the test rows."""
        began = time.perf_counter()
        scores = detector.fit(X).score_samples(test)
        self.by_seed[seed] = self.by_seed.get(seed, 0.0) + time.perf_counter() - began
        self.areas.append(float(roc_auc_score(novel, -scores)))

    @property
    def area(self) -> float:
        return float(np.mean(self.areas))

    @property
    def seconds(self) -> list[float]:
        return list(self.by_seed.values())


def problems(name: str, options: Options) -> Iterator[tuple[Any, Any, np.ndarray]]:
    """Rows to learn from, test rows, and which of these are novel."""
    data = load(name, options)
    X, test = (np.ascontiguousarray(as_dense(rows)) for rows in (data.X, data.X_test))
    if name in ONE_CLASS:
        for k in range(data.n_classes):
            yield X[data.y == k], test, (data.y_test != k).astype(int)
    elif name == "kddcup99":
        normal = NORMAL_OF_KDDCUP99
        yield X[data.y == normal], test, (data.y_test != normal).astype(int)
    else:
        fewest = int(np.argmin(np.bincount(data.y, minlength=data.n_classes)))
        yield X, test, (data.y_test == fewest).astype(int)
