"""Hashing instead of kernels: linear SVMs on codes of GCWS, for every exponent, number of codes and of their bits."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from ikmap.cells import Cells
from ikmap.learners.dual.linear_svm import SVMParams, svm_model
from ikmap.learners.dual.linear_svm_path import fit_linear_svm_path
from ikmap.learners.rows import Block
from ikmap.partitioners.gcws import GCWSPartitions
from ikmap.rows import Rows
from ikmap.seeds import generator
from ikmap_papers.gmm.best_on_test import halves
from pipeline.record_types import Record, RecordView

CS = tuple(2.0**m for m in range(-8, 9, 2))
"""C of the linear SVMs on features 1/sqrt(k), ascending."""
HASHES = 103
"""Stream of random numbers: the seed of the hashes."""
PARAMS = SVMParams(tol=1e-2, max_iter=200, fit_intercept=True)
"""Accuracy changes no more where these are stricter. Rows of zeros have no code, so there is an intercept."""


def hashed_on_test(
    rows: Rows, target: np.ndarray, columns: Sequence[str] | None, options: RecordView, seed: int, repeat: int
) -> Record:
    """Accuracies, in per cent, of linear SVMs on hashed rows, on one shuffle of the rows into two halves.

    Fewer codes are the first of more, and fewer bits the upper ones: each p is hashed once.

    Parameters
    ----------
    rows, target, columns, seed, repeat
        As of :func:`~ikmap_papers.gmm.best_on_test.best_on_test`, whose halves they are.
    options : mapping
        ``hashes``, with ``p``, ``k`` and ``b``, lists of what is tried; and what
        :func:`~ikmap_papers.gmm.best_on_test.halves` heeds.

    Returns
    -------
    dict
        ``accuracy`` (the best); ``grid``, a list of (p, k, b, accuracies by C).
    """
    X, y, half = halves(rows, target, columns, options, seed, repeat)
    asked = options["hashes"]
    ks, bits = sorted(asked["k"]), sorted(asked["b"])
    n_classes = int(target.max()) + 1
    random = int(generator(seed, HASHES, repeat).integers(2**31))
    grid = []
    for p in asked["p"]:
        hashes = GCWSPartitions(
            seed=random, t=ks[-1], p=float(p), b=bits[-1], gamma=1, full=True, n_features=X.shape[1]
        )
        codes = hashes.cells(X, 1).codes
        for k, b in product(ks, bits):
            # Of -1, every bit is set: it stays what it is.
            few = np.ascontiguousarray(codes[:, :k] >> np.int32(bits[-1] - b))
            cells = Cells(few, np.arange(k + 1, dtype=np.int64) << b).packed()
            grid.append([p, k, b, _by_C(cells[:half], y[:half], cells[half:], y[half:], n_classes)])
    return {"accuracy": max(max(accuracies) for *_, accuracies in grid), "grid": grid}


def _by_C(fit: Cells, y: np.ndarray, tested: Cells, truth: np.ndarray, n_classes: int) -> list[float]:
    accuracies = []
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="duality gap")  # after so many sweeps accuracy changes no more
        for C, solved in zip(CS, fit_linear_svm_path([Block(fit, y)], n_classes, PARAMS, CS), strict=True):
            params = replace(PARAMS, C=C)
            model = svm_model(solved, list(range(n_classes)), params, divisor=math.sqrt(fit.n_partitions))
            accuracies.append(round(100.0 * float((model.predict_index(tested) == truth).mean()), 4))
    return accuracies
