"""Figures 6, 8, 9 and 10 of the Mondrian paper: studies on the rows of a data set for regression."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from scipy.linalg import solve
from scipy.stats import kurtosis

from ikmap.arrays import Floats
from ikmap.cells import Cells
from ikmap.learners.sweeps.forest import forest_weights
from ikmap.learners.sweeps.gradient import GradientSweep
from ikmap.learners.sweeps.ridge import RidgeSweep, shared_rows
from ikmap.maps.fourier import FourierMap
from ikmap.methods.lifetime import typical_distance
from ikmap.methods.sample import Sample
from ikmap.partitioners.base import Partitions
from ikmap.partitioners.binning import fit_binning
from ikmap.partitioners.mondrian import fit_mondrian, mondrian_splits
from ikmap.rows import Rows
from ikmap_papers.mondrian.generated import seed_of
from ikmap_papers.mondrian.splits import (
    DELTA_SQUARED,
    SGD,
    Splits,
    descent,
    exact_laplace,
    ridge_on_cells,
    ridge_on_features,
    swept,
)
from pipeline.record_types import Record, RecordView

LEAST = np.sqrt(0.5)
"""Searches for a width end where two lifetimes are this near."""
OPEN = 1.02
"""An end of a search with an error of so many times the least may lead to a better one."""


def against_M(rows: Rows, target: np.ndarray, options: RecordView, seed: int, part: int) -> Record:
    """Figure 6: test error against the number of non-zero features, beside exact kernel ridge regression.

    Parameters
    ----------
    options : mapping
        ``M``, ``lifetime``, and ``exact``: the lifetimes among which that of kernel ridge regression is validated;
        ``beyond``: larger M, for the Mondrian kernel of the first repetition alone, solved exactly; ``solver``: see
        :func:`~ikmap_papers.mondrian.splits.swept`.

    Returns
    -------
    dict
        ``error``: that of the exact kernel at the given lifetime; ``curves``: test error of each system by M;
        ``validated``: lifetime and test error of the exact kernel that is best on validation rows; ``beyond``.
    """
    splits = Splits.of(rows, target, seed, part)
    exact = {lifetime: exact_laplace(splits, lifetime) for lifetime in (options["lifetime"], *options["exact"])}
    best = min(exact, key=lambda lifetime: exact[lifetime][0])
    sides = [splits.train[0], splits.test[0]]
    random, most = seed_of(seed, part), max(options["M"])
    curves: dict[str, list[float]] = {"mondrian": [], "binning": [], "fourier": []}
    fitted: dict[str, Partitions] = {
        "mondrian": fit_mondrian(sides[0], most, options["lifetime"], random),
        "binning": fit_binning(sides[0], most, options["lifetime"], random),
    }
    for name, model in fitted.items():
        cells = [model.cells(side) for side in sides]
        for M in options["M"]:
            few = [Cells(np.ascontiguousarray(each.codes[:, :M]), each.offsets[: M + 1]) for each in cells]
            curves[name].append(splits.error(ridge_on_cells(options, few, splits.train[1])[0], splits.test))
    for M in options["M"]:
        features = FourierMap.laplacian(max(1, M // 2), sides[0].shape[1], options["lifetime"], random + M)
        predicted = ridge_on_features(options, [features.transform(side) for side in sides], splits.train[1])[0]
        curves["fourier"].append(splits.error(predicted, splits.test))
    beyond = options["beyond"] if part == 0 and options.get("solver") != SGD else ()
    return {
        "error": exact[options["lifetime"]][1],
        "curves": curves,
        "validated": [best, exact[best][1]],
        "beyond": list(_many_trees(splits, options["lifetime"], beyond, random)),
    }


TREES_AT_ONCE = 1000


def _many_trees(splits: Splits, lifetime: float, numbers: Sequence[int], seed: int) -> Iterator[float]:
    """Test errors for more trees than have room: what rows share is added up over some trees at a time."""
    X, y = splits.train
    inner, outer = np.zeros((len(X), len(X))), np.zeros((len(splits.test[0]), len(X)))
    done = 0
    for M in numbers:
        while done < M:
            trees = min(TREES_AT_ONCE, M - done)
            model = fit_mondrian(X, trees, lifetime, seed_of(seed, done))
            columns, new = (model.cells(side).columns() for side in (X, splits.test[0]))
            inner += shared_rows(columns, columns)
            outer += shared_rows(new, columns)
            done += trees
        A = inner / M
        A[np.diag_indices(len(A))] += DELTA_SQUARED
        weights = solve(A, y, assume_a="pos", overwrite_a=True)
        yield splits.error(outer @ weights / M, splits.test)


def against_time(rows: Rows, target: np.ndarray, options: RecordView, seed: int, part: int) -> Record:
    """Figure 8: validation error against seconds, of the sweep and of searches that fit anew at every width.

    Parameters
    ----------
    options : mapping
        ``M``, ``terminal``, ``epochs`` of gradient descent for each width of random binning, ``evaluations``: most
        widths of a search.

    Returns
    -------
    dict
        ``error``: least validation error of the sweep; ``curves``: by system, seconds and validation error after each
        width; ``unit``: one over the typical distance, at which the second searches start.
    """
    splits = Splits.of(rows, target, seed, part)
    sides, y, M = [splits.train[0], splits.validation[0]], splits.train[1], int(options["M"])
    random = seed_of(seed, part)
    X = splits.train[0]
    unit = 1 / typical_distance(Sample(len(X), X.shape[1], None, X.__getitem__, random))
    curves: dict[str, list[tuple[float, float, float]]] = {}

    settings = descent({"eta": options["eta"]}, len(y))
    began = time.perf_counter()
    start, events = mondrian_splits(fit_mondrian(X, M, options["terminal"], random, n_threads=1), sides, 1)
    swept = GradientSweep(start, y[:, None], settings)
    curves["mondrian, gradient"] = [
        (time.perf_counter() - began, splits.error(swept.decisions()[:, 0], splits.validation), value)
        for value in swept.follow(events)
    ]
    began = time.perf_counter()
    start, events = mondrian_splits(fit_mondrian(X, M, options["terminal"], random, n_threads=1), sides, 1)
    exact = RidgeSweep(start, y, DELTA_SQUARED, growth=0.125)
    curves["mondrian, exact"] = [
        (time.perf_counter() - began, splits.error(exact.decisions(point), splits.validation), point.value)
        for point in exact.follow(events)
    ]

    def binning(lifetime: float) -> float:
        model = fit_binning(X, M, lifetime, random, n_threads=1)
        fit = GradientSweep([model.cells(side, 1) for side in sides], y[:, None], settings)
        fit.learn(options["epochs"])
        return splits.error(fit.decisions()[:, 0], splits.validation)

    def fourier(lifetime: float) -> float:
        features = FourierMap.laplacian(M // 2, X.shape[1], lifetime, random)
        return splits.error(
            ridge_on_features({}, [features.transform(side, 1) for side in sides], y)[0], splits.validation
        )

    for name, evaluate in (("binning", binning), ("fourier", fourier)):
        for way, first in (("from 1", 1.0), ("from the typical distance", unit)):
            began, tried = time.perf_counter(), dict[float, float]()
            points: list[tuple[float, float, float]] = []
            for lifetime in widths(first, tried, options["evaluations"]):
                tried[lifetime] = evaluate(lifetime)
                points.append((time.perf_counter() - began, tried[lifetime], lifetime))
            curves[f"{name}, {way}"] = points
    return {
        "error": min(error for _, error, _ in curves["mondrian, gradient"]),
        "unit": unit,
        "curves": {name: [list(map(float, point)) for point in curve] for name, curve in curves.items()},
    }


def widths(first: float, tried: Mapping[float, float], most: int) -> Iterator[float]:
    """Lifetimes in the order of a search (section 12.7).

    As long as the largest of those tried, or the smallest, is about as good as the best, it is doubled, or halved; both
    in turn where both are. Then the wider of the two gaps beside the best is halved, in logarithms.

    Parameters
    ----------
    first : float
    tried : mapping of float to float
        Errors by lifetime, which the caller adds to.
    most : int
        Lifetimes, at most.
    """
    yield first
    while len(tried) < most:
        known = sorted(tried)
        best = min(known, key=lambda lifetime: tried[lifetime])
        open_below, open_above = (tried[known[end]] < OPEN * tried[best] for end in (0, -1))
        if open_below or open_above:
            down = open_below and not (open_above and len(known) % 2)
            yield known[0] / 2 if down else 2 * known[-1]
            continue
        at = known.index(best)
        below, above = known[at - 1], known[at + 1]
        wider = (below, best) if best / below >= above / best else (best, above)
        if wider[0] / wider[1] > LEAST:
            return
        yield float(np.sqrt(wider[0] * wider[1]))


def beside_forest(rows: Rows, target: np.ndarray, options: RecordView, seed: int, part: int) -> Record:
    """Figures 9 and 10: errors of ridge regression and of the forest on the same trees, and their weights.

    Weights of the forest, whose cells are independent of each other, are always the exact ones.

    Parameters
    ----------
    options : mapping
        ``M``, ``terminal``, ``lifetime``: where weights are looked at, and ``solver`` of the kernel; see
        :func:`~ikmap_papers.mondrian.splits.swept`.

    Returns
    -------
    dict
        ``error``: least test error of the kernel; ``lifetime``, and by ``kernel`` and ``forest`` the ``train``,
        ``validation`` and ``test`` errors there; ``weights``: of each, the least and the largest, the heights of a
        histogram, and the excess kurtosis.
    """
    splits = Splits.of(rows, target, seed, part)
    sides = [splits.train[0], splits.validation[0], splits.test[0]]
    whole = [splits.training_error_side, splits.validation, splits.test]
    model = fit_mondrian(splits.train[0], options["M"], options["terminal"], seed_of(seed, part))
    start, events = mondrian_splits(model, sides)
    y = splits.train[1]
    curves: Record = {"lifetime": [], **{name: {k: [] for k in SIDES} for name in ("kernel", "forest")}}
    weights: Record = {}
    for fitted in swept(options, start, y, events, options["growth"]):
        curves["lifetime"].append(fitted.value)
        forest = forest_weights(fitted.columns.of[0], y, DELTA_SQUARED, fitted.columns.n)
        of = {"kernel": fitted.weights, "forest": forest}
        for name, w in of.items():
            for which, side in enumerate(SIDES):
                curves[name][side].append(splits.error(fitted.decisions(which, w), whole[which]))
        if fitted.value >= options["lifetime"] and not weights:
            weights = {name: described(w) for name, w in of.items()}
    return {"error": min(curves["kernel"]["test"]), **curves, "weights": weights}


SIDES = ("train", "validation", "test")
BINS = 60


def described(weights: Floats) -> Record:
    """A histogram, and the excess kurtosis."""
    heights, edges = np.histogram(weights, BINS)
    return {
        "least": float(edges[0]),
        "largest": float(edges[-1]),
        "heights": heights.tolist(),
        "kurtosis": float(kurtosis(weights)),
    }
