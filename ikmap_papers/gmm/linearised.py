"""Features instead of kernels, beyond hashing: eGMM by two stages of random features, GMM and eGMM by Nystroem."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from ikmap.arrays import Floats
from ikmap.kernels import AnyKernel, MinMaxKernel
from ikmap.learners.dual.linear_svm import SVMParams, svm_model
from ikmap.learners.dual.linear_svm_path import fit_linear_svm_path
from ikmap.learners.rows import Block
from ikmap.maps.fourier import FourierMap
from ikmap.maps.nystroem import NystroemMap, draw_points
from ikmap.partitioners.gcws import GCWSPartitions
from ikmap.rows import Rows
from ikmap.seeds import generator
from ikmap_papers.gmm.best_on_test import halves
from pipeline.record_types import Record, RecordView

CS = tuple(2.0**m for m in range(-6, 13, 3))
"""C of the linear SVMs, ascending."""
FEATURES = 104
"""Stream of random numbers: the seed of the features."""
CODES, BITS = 256, 8
"""Number of hashes of the first stage, and bits of each."""
WAYS = ("two-stage eGMM", "Nystroem eGMM", "Nystroem GMM")


def linearised_on_test(
    rows: Rows, target: np.ndarray, columns: Sequence[str] | None, options: RecordView, seed: int, repeat: int
) -> Record:
    """Return the error of features as an estimate of their kernel, and the accuracy of linear SVMs on them.

    Two stages (the paper names them and calls them impractical): codes of GCWS as rows z of length 1, whose squared
    distances are ``2 (1 - GMM)`` in expectation, and of these random Fourier features of ``exp(-(le / 2) |z - z'|^2)``.

    Parameters
    ----------
    rows, target, columns, seed, repeat
        As of :func:`~ikmap_papers.gmm.best_on_test.best_on_test`, whose halves they are.
    options : mapping
        ``features``, numbers of features to try; ``le``, the parameter of eGMM; and what
        :func:`~ikmap_papers.gmm.best_on_test.halves` heeds.

    Returns
    -------
    dict
        ``accuracy`` (the best); ``grid``, a list of (number of features, way, error of the Gram matrix of the rows to
        learn from relative to it, in the Frobenius norm, accuracy in per cent at the best C).
    """
    X, y, half = halves(rows, target, columns, options, seed, repeat)
    n_classes, le = int(target.max()) + 1, float(options["le"])
    random = int(generator(seed, FEATURES, repeat).integers(2**31))
    plain, exponential = MinMaxKernel(), MinMaxKernel(le=le)
    exact = {kernel: kernel.matrix(X[:half]) for kernel in (plain, exponential)}
    hashes = GCWSPartitions(seed=random, t=CODES, p=1.0, b=BITS, gamma=1, full=True, n_features=X.shape[1])
    codes = hashes.cells(X, 1).to_csr()

    def nystroem(kernel: AnyKernel, count: int) -> Floats:
        points = X[:half][draw_points(half, min(count, half), random)]
        return NystroemMap.fit(points, kernel, len(points)).transform(X)

    grid: list[tuple[int, str, float, float]] = []
    for count in options["features"]:
        second = FourierMap.gaussian(count // 2, codes.shape[1], le / 2, random)
        for way, kernel, features in (
            (WAYS[0], exponential, second.transform(codes)),
            (WAYS[1], exponential, nystroem(exponential, count)),
            (WAYS[2], plain, nystroem(plain, count)),
        ):
            near = features[:half] @ features[:half].T
            error = float(np.linalg.norm(near - exact[kernel]) / np.linalg.norm(exact[kernel]))
            grid.append((count, way, round(error, 5), _accuracy(features, y, half, n_classes)))
    return {"accuracy": max(accuracy for *_, accuracy in grid), "grid": [list(point) for point in grid]}


def _accuracy(features: Floats, y: np.ndarray, half: int, n_classes: int) -> float:
    """Return the accuracy of a linear SVM at the best C, in per cent."""
    params = SVMParams(tol=1e-2, max_iter=200)
    best = 0.0
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="duality gap")  # after so many sweeps accuracy changes no more
        for solved in fit_linear_svm_path([Block(features[:half], y[:half])], n_classes, params, CS):
            model = svm_model(solved, list(range(n_classes)), params, divisor=1.0)
            best = max(best, 100.0 * float((model.predict_index(features[half:]) == y[half:]).mean()))
    return round(best, 4)
