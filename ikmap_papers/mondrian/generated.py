"""Figures 5 and 7 of the Mondrian paper: studies on points that are generated."""

from __future__ import annotations

from typing import Any

import numpy as np

from ikmap.kernels import LaplacianKernel
from ikmap.learners.sweeps.posterior import posterior
from ikmap.maps.fourier import FourierMap
from ikmap.partitioners.binning import fit_binning
from ikmap.partitioners.mondrian import fit_mondrian, mondrian_splits
from ikmap.seeds import generator
from ikmap_papers.mondrian.splits import SGD, swept
from pipeline.record_types import Record, RecordView

POINTS = 201
"""Stream of random numbers: points, and values of a process at them."""
MAPS = 202
"""Stream of random numbers: seeds of maps."""


def seed_of(seed: int, *path: int) -> int:
    """Seed of a map of one part of a study."""
    return int(generator(seed, MAPS, *path).integers(2**31))


def kernel_error(options: RecordView, seed: int, part: int) -> Record:
    """Largest error over all pairs of points in the unit cube, against the number of non-zero features.

    Parameters
    ----------
    options : mapping
        ``points``, ``lifetime``, ``M`` and ``D``: numbers of features, and dimensions, to try.

    Returns
    -------
    dict
        ``error``: that of the Mondrian kernel with the most features, in the first number of dimensions; ``curves``: by
        number of dimensions and system, the largest error for each M.
    """
    curves: dict[str, dict[str, list[float]]] = {}
    for d in options["D"]:
        X = generator(seed, POINTS, part, d).random((options["points"], d))
        exact = LaplacianKernel(options["lifetime"]).matrix(X)
        errors: dict[str, list[float]] = {"mondrian": [], "binning": [], "fourier": []}
        most, random = max(options["M"]), seed_of(seed, part, d)
        cells = {
            "mondrian": fit_mondrian(X, most, options["lifetime"], random).cells(X).codes,
            "binning": fit_binning(X, most, options["lifetime"], random).cells(X).codes,
        }
        for M in options["M"]:
            for name, codes in cells.items():
                near = (codes[:, None, :M] == codes[None, :, :M]).mean(axis=2)
                errors[name].append(float(np.abs(near - exact).max()))
            Z = FourierMap.laplacian(max(1, M // 2), d, options["lifetime"], random + M).transform(X)
            errors["fourier"].append(float(np.abs(Z @ Z.T - exact).max()))
        curves[str(d)] = errors
    first = curves[str(options["D"][0])]
    return {"error": first["mondrian"][-1], "curves": curves}


def known_lifetime(options: RecordView, seed: int, part: int) -> Record:
    """A sweep over data of a Gaussian process whose kernel is the Laplace kernel, with a lifetime that is known.

    Parameters
    ----------
    options : mapping
        ``points`` for each of training, validation and test; ``d``, ``lifetime``, ``noise``, ``terminal``, ``M``,
        ``solver``; see :func:`~ikmap_papers.mondrian.splits.swept`.

    Returns
    -------
    dict
        ``error``: relative test error at the chosen lifetime; ``lifetime``, ``validation``, ``test``,
        ``log_likelihood``: the curve; ``chosen``, ``most_likely``: lifetimes; ``posterior``: test error of the
        prediction that is averaged over lifetimes by their likelihood; ``best``: the least test error on the curve.
        What takes the likelihood is there only with the exact solution.
    """
    n, rng = int(options["points"]), generator(seed, POINTS, part)
    X = rng.random((3 * n, options["d"]))
    K = LaplacianKernel(options["lifetime"]).matrix(X)
    factor = np.linalg.cholesky(K + 1e-10 * np.eye(3 * n))
    y = factor @ rng.standard_normal(3 * n) + options["noise"] * rng.standard_normal(3 * n)
    train, validation, test = (slice(k * n, (k + 1) * n) for k in range(3))
    shift = y[train].mean()
    model = fit_mondrian(X[train], options["M"], options["terminal"], seed_of(seed, part))
    start, splits = mondrian_splits(model, [X[train], X[validation], X[test]])
    curve: dict[str, list[Any]] = {"lifetime": [], "validation": [], "test": [], "log_likelihood": []}
    predicted: list[np.ndarray] = []
    for fitted in swept(options, start, y[train] - shift, splits):
        curve["lifetime"].append(fitted.value)
        curve["log_likelihood"].append(fitted.log_likelihood)
        for which, (name, side) in enumerate((("validation", validation), ("test", test)), start=1):
            off = fitted.decisions(which) + shift - y[side]
            curve[name].append(float(100 * np.linalg.norm(off) / np.linalg.norm(y[side])))
        predicted.append(fitted.decisions(2))
    chosen = int(np.argmin(curve["validation"]))
    errors = {
        "error": curve["test"][chosen],
        "chosen": curve["lifetime"][chosen],
        "best": min(curve["test"]),
        **curve,
    }
    if options.get("solver") == SGD:
        return {**errors, "log_likelihood": None}
    weights = posterior(curve["lifetime"], curve["log_likelihood"], options["terminal"])
    averaged = np.average(predicted, axis=0, weights=weights) + shift
    return {
        **errors,
        "most_likely": curve["lifetime"][int(np.argmax(curve["log_likelihood"]))],
        "posterior": float(100 * np.linalg.norm(averaged - y[test]) / np.linalg.norm(y[test])),
    }
