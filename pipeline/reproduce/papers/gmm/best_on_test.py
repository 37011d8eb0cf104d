"""The paper's protocol: an SVM for each kernel of a grid and each C, and of all of them the best on the test rows.

That is a choice made on test rows, which is what the paper reports. Beside it stands an honest one: what
cross-validation on the training rows chooses, of some of the grid.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from ikmap.kernels import Kernel, SharedKernel
from ikmap.kernels.tabled import KernelTable
from ikmap.learners.kernel.kernel_svm_path import fit_kernel_svm_path
from ikmap.methods import KERNELS
from ikmap.rows import take_rows
from ikmap.seeds import generator
from pipeline.reproduce.papers.gmm.noise import noisy

CS = tuple(2.0**m for m in range(-10, 16))
"""C of the grid, ascending; the paper has a "wide range" and does not say which."""
CV_CS = CS[:21:2]
"""C among which cross-validation chooses."""
CV_EACH = 4
"""Cross-validation looks at every so manieth value of a parameter."""
FOLDS = 3
SPLIT, CV = 101, 102
"""Streams of random numbers: which rows are test rows, and which fold a row is in."""

type Values = tuple[float, ...]


def best_on_test(
    rows: Any, target: np.ndarray, columns: Sequence[str] | None, options: Mapping[str, Any], seed: int, repeat: int
) -> dict[str, Any]:
    """Accuracies, in per cent, of every kernel and C on one shuffle of the rows into two halves.

    Parameters
    ----------
    rows : ndarray or csr_array, shape (n, d)
    target : ndarray of int, shape (n,)
    columns : sequence of str or None
    options : mapping
        ``kernel``, a name of :data:`ikmap.methods.KERNELS`; ``grid``, a mapping of its parameters to their values;
        ``first``, the kernel and grid of another kernel, with what cross-validation chooses of which ``grid`` is
        enlarged; ``cv_each``, at every so manieth value of a parameter cross-validation looks;
        ``drop``, names of columns to leave out; ``noise``, a level of :mod:`~pipeline.reproduce.papers.gmm.noise`;
        ``rows``, how many rows are in each half.
    seed, repeat : int
        Which shuffle; all kernels have the same.

    Returns
    -------
    dict
        ``accuracy`` (the best), ``chosen`` and ``C`` with which; ``grid``, names, values and the accuracy of each with
        each C; ``cv``, what cross-validation has chosen, and its accuracy on the test rows; ``converged``, the share of
        SVMs that reached their tolerance, by C; ``least_eigenvalue`` of the kernel of the training rows, of the best
        kernel and, relative to the largest.
    """
    X, y, half = halves(rows, target, columns, options, seed, repeat)
    n_classes = int(target.max()) + 1
    train, truth = y[:half], y[half:]
    folds = generator(seed, CV, repeat).permutation(half) % FOLDS
    asked = dict(options["grid"])
    if "first" in options:
        for name, value in _chosen_first(options["first"], X[:half], train, n_classes, folds).items():
            asked[name] = sorted({*asked[name], value})
    names = tuple(asked)
    tried: list[Values] = []
    accuracies: list[list[float]] = []
    crossed: dict[Values, np.ndarray] = {}
    converged = np.zeros(len(CS))
    least: dict[str, float] = {}
    best = -1.0
    thin = {name: list(values)[:: options.get("cv_each", CV_EACH)] for name, values in asked.items()}
    for chosen, K in kernels_of(options["kernel"], names, asked, X[:half], X[half:]):
        path = fit_kernel_svm_path(K[:, :half], train, n_classes, CS)
        right = 100.0 * (path.predict(K[:, half:].T) == truth).mean(axis=1)
        tried.append(chosen)
        accuracies.append([round(float(value), 4) for value in right])
        converged += path.converged
        if right.max() > best:
            best = float(right.max())
        if repeat == 0 and names == ("gamma",) and chosen[0] in options.get("eigenvalues", ()):
            values = np.linalg.eigvalsh(K[:, :half])
            least[f"{chosen[0]:g}"] = float(values[0] / values[-1])
        if all(value in thin[name] for name, value in zip(names, chosen, strict=True)):
            crossed[chosen] = _cross_validated(K[:, :half], train, n_classes, folds)
    table = np.array(accuracies)
    at, C = np.unravel_index(int(table.argmax()), table.shape)
    cv_chosen = max(crossed, key=lambda key: crossed[key].max())
    cv_C = CV_CS[int(crossed[cv_chosen].argmax())]
    return {
        "accuracy": float(table[at, C]),
        "chosen": dict(zip(names, tried[at], strict=True)),
        "C": CS[C],
        "grid": {"parameters": list(names), "values": [list(values) for values in tried], "accuracy": accuracies},
        "cv": {
            "accuracy": float(table[tried.index(cv_chosen), CS.index(cv_C)]),
            "chosen": dict(zip(names, cv_chosen, strict=True)),
            "C": cv_C,
        },
        "converged": [round(float(share), 4) for share in converged / len(tried)],
        "least_eigenvalue": least,
    }


def halves(
    rows: Any, target: np.ndarray, columns: Sequence[str] | None, options: Mapping[str, Any], seed: int, repeat: int
) -> tuple[np.ndarray, np.ndarray, int]:
    """Rows and targets of a shuffle, and how many of them, from the first on, are to be learned from.

    Of `options`, ``drop``, ``noise`` and ``rows`` are heeded; see :func:`best_on_test`.
    """
    X, y = np.asarray(_dense(rows)), np.asarray(target)
    if dropped := options.get("drop", ()):
        assert columns is not None
        X = np.delete(X, [list(columns).index(name) for name in dropped], axis=1)
    order = generator(seed, SPLIT, repeat).permutation(y.size)
    half = -(-y.size // 2)
    if "rows" in options:
        half = min(options["rows"], y.size // 2)
        order = order[: 2 * half]
    X, y = take_rows(X, order), y[order]
    if "noise" in options:
        X = noisy(X, options["noise"], seed)
    return X, y, half


def kernels_of(
    name: str, names: Sequence[str], grid: Mapping[str, Sequence[float]], learned: Any, tested: Any
) -> Iterator[tuple[Values, np.ndarray]]:
    """Yield each kernel of a grid: its numbers, and its values of the first rows among themselves and with the others.

    What takes long is computed once for all kernels that share it.
    """
    method = KERNELS[name]
    sharing = [one for one in names if one in (method.shares or names)]
    rest = [one for one in names if one not in sharing]
    if method.shares is not None:
        sharing, rest = [n for n in names if n in method.shares], [n for n in names if n not in method.shares]
    for first in product(*(grid[one] for one in sharing)):
        shared: np.ndarray | None = None
        for others in product(*(grid[one] for one in rest)):
            numbers = {**dict(zip(sharing, first, strict=True)), **dict(zip(rest, others, strict=True))}
            kernel: Kernel = method.kernel(method.Options(**numbers), numbers, learned.shape[1])
            if isinstance(kernel, SharedKernel):
                if shared is None:
                    shared = KernelTable.of(kernel, learned, tested).values
                values = shared.copy()
                kernel.finish(values)
            else:
                values = np.hstack([kernel.matrix(learned), kernel.matrix(learned, tested)])
            yield tuple(numbers[one] for one in names), values


def _chosen_first(
    first: Mapping[str, Any], learned: np.ndarray, y: np.ndarray, n_classes: int, folds: np.ndarray
) -> dict[str, float]:
    """Parameters of a kernel that cross-validation on the training rows chooses, of its whole grid."""
    names = tuple(first["grid"])
    best = -1.0
    found: Values = ()
    for chosen, K in kernels_of(first["kernel"], names, first["grid"], learned, learned[:1]):
        right = float(_cross_validated(K[:, : y.size], y, n_classes, folds).max())
        if right > best:
            best, found = right, chosen
    return dict(zip(names, found, strict=True))


def _cross_validated(K: np.ndarray, y: np.ndarray, n_classes: int, folds: np.ndarray) -> np.ndarray:
    """Rows that are predicted rightly when held out, for each C."""
    right = np.zeros(len(CV_CS))
    for fold in range(FOLDS):
        fit, held_out = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        path = fit_kernel_svm_path(K[np.ix_(fit, fit)], y[fit], n_classes, CV_CS)
        right += (path.predict(K[np.ix_(held_out, fit)]) == y[held_out]).sum(axis=1)
    return right


def _dense(rows: Any) -> Any:
    return rows if isinstance(rows, np.ndarray) else rows.toarray()
