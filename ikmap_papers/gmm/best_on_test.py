"""The paper's protocol: an SVM for each kernel of a grid and each C, and of all of them the best on the test rows.

That is a choice made on test rows, which is what the paper reports. Beside it stands an honest one: what
cross-validation on the training rows chooses, of some of the grid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product

import numpy as np

from ikmap.arrays import Floats
from ikmap.kernels import SharedKernel
from ikmap.kernels.tabled import KernelTable
from ikmap.methods import KERNELS
from ikmap.rows import Rows, take_rows
from ikmap.seeds import generator
from ikmap_papers.gmm.noise import noisy
from ikmap_papers.gmm.search import Fold, GridSearch, Values, in_folds, run
from pipeline.record_types import Record, RecordView

CS = tuple(2.0**m for m in range(-10, 16))
"""C of the grid, ascending; the paper has a "wide range" and does not say which."""
CV_CS = CS[:21:2]
"""C among which cross-validation chooses."""
LEAST, MOST = 2.0**-25, 2.0**24
"""Ends of C to which both grids are widened as long as the best is at an end of them."""
CV_EACH = 4
"""Cross-validation looks at every so manieth value of a parameter."""
FOLDS = 3
SPLIT, CV = 101, 102
"""Streams of random numbers: which rows are test rows, and which fold a row is in."""


def best_on_test(
    rows: Rows, target: np.ndarray, columns: Sequence[str] | None, options: RecordView, seed: int, repeat: int
) -> Record:
    """Accuracies, in per cent, of every kernel and C on one shuffle of the rows into two halves.

    Parameters
    ----------
    rows : ndarray or csr_array, shape (n, d)
    target : ndarray of int, shape (n,)
    columns : sequence of str or None
    options : mapping
        ``kernel``, a name of :data:`ikmap.methods.KERNELS`; ``grid``, a mapping of its parameters to their values;
        ``first``, the kernel and grid of another kernel, with what cross-validation chooses of which ``grid`` is
        enlarged; ``most_C``, the largest C (default: `MOST`); ``cv_each``, at every so manieth value of a parameter
        cross-validation looks; ``drop``, names of columns to leave out; ``noise``, a level of
        :mod:`~ikmap_papers.gmm.noise`; ``rows``, how many rows are in each half.
    seed, repeat : int
        Which shuffle; all kernels have the same.

    Returns
    -------
    dict
        ``accuracy`` (the best), ``chosen`` and ``C`` with which; ``Cs``, all that were tried; ``grid``, names, values
        and the accuracy of each with each C; ``cv``, what cross-validation has chosen, and its accuracy on the test
        rows; ``converged``, the share of SVMs that reached their tolerance, by C; ``least_eigenvalue`` of the kernel of
        the training rows, of the first shuffle, relative to the largest.
    """
    X, y, half = halves(rows, target, columns, options, seed, repeat)
    n_classes, most = int(target.max()) + 1, float(options.get("most_C", MOST))
    folds = list(in_folds(generator(seed, CV, repeat).permutation(half) % FOLDS))
    grid_values = dict(options["grid"])
    if "first" in options:
        for name, value in _chosen_first(options["first"], X[:half], y[:half], n_classes, folds).items():
            grid_values[name] = sorted({*grid_values[name], value})
    names = tuple(grid_values)
    thin = {name: list(values)[:: options.get("cv_each", CV_EACH)] for name, values in grid_values.items()}

    def smaller(Cs: Sequence[float]) -> list[float]:
        return [C for C in Cs if most >= C]

    test = GridSearch(y, n_classes, [(np.arange(half), np.arange(half, y.size))], smaller(CS))
    crossed = GridSearch(
        y, n_classes, folds, smaller(CV_CS),
        lambda chosen: all(value in thin[name] for name, value in zip(names, chosen, strict=True)),
    )  # fmt: skip
    run(
        (test, crossed),
        lambda search: (LEAST, most) if search is test else (test.Cs[0], test.Cs[-1]),
        lambda wanted: kernels_of(options["kernel"], names, grid_values, X[:half], X[half:], wanted),
    )
    table = (100.0 * test.table() / (y.size - half)).round(4)
    tried = list(test.scores)
    chosen, C = test.best()
    cv_chosen, cv_C = crossed.best()
    converged = np.mean([score.converged for score in test.scores.values()], axis=0)
    return {
        "accuracy": float(table.max()),
        "chosen": dict(zip(names, chosen, strict=True)),
        "C": C,
        "Cs": list(test.Cs),
        "grid": {"parameters": list(names), "values": [list(values) for values in tried], "accuracy": table.tolist()},
        "cv": {
            "accuracy": float(table[tried.index(cv_chosen), test.Cs.index(cv_C)]),
            "chosen": dict(zip(names, cv_chosen, strict=True)),
            "C": cv_C,
        },
        "converged": converged.round(4).tolist(),
        "least_eigenvalue": dict(_least_eigenvalues(options, names, grid_values, X[:half]) if repeat == 0 else ()),
    }


def _least_eigenvalues(
    options: RecordView, names: Sequence[str], grid: Mapping[str, Sequence[float]], learned: Floats
) -> Iterator[tuple[str, float]]:
    """Yield the smallest eigenvalue, relative to the largest, of the kernels with those gamma that the options name."""
    gammas = [gamma for gamma in options.get("eigenvalues", ()) if gamma in grid["gamma"]]
    if not gammas:
        return
    for (gamma,), K in kernels_of(options["kernel"], names, {"gamma": gammas}, learned, learned[:1]):
        values = np.linalg.eigvalsh(K[:, : len(learned)])
        yield f"{gamma:g}", float(values[0] / values[-1])


def halves(
    rows: Rows, target: np.ndarray, columns: Sequence[str] | None, options: RecordView, seed: int, repeat: int
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
    name: str,
    names: Sequence[str],
    grid: Mapping[str, Sequence[float]],
    learned: Rows,
    tested: Rows,
    wanted: Callable[[Values], bool] = lambda _: True,
) -> Iterator[tuple[Values, np.ndarray]]:
    """Yield each kernel of a grid that is wanted: its numbers, and its values of the first rows with all rows.

    What takes long is computed once for all kernels that share it.
    """
    kind = KERNELS[name]
    sharing = [one for one in names if one in (kind.shares or names)]
    rest = [one for one in names if one not in sharing]
    if kind.shares is not None:
        sharing, rest = [n for n in names if n in kind.shares], [n for n in names if n not in kind.shares]
    for first in product(*(grid[one] for one in sharing)):
        shared: np.ndarray | None = None
        for others in product(*(grid[one] for one in rest)):
            numbers = {**dict(zip(sharing, first, strict=True)), **dict(zip(rest, others, strict=True))}
            chosen = tuple(numbers[one] for one in names)
            if not wanted(chosen):
                continue
            kernel = kind.of_record(numbers)[0].kernel(learned.shape[1])
            if isinstance(kernel, SharedKernel):
                if shared is None:
                    shared = KernelTable.of(kernel, learned, tested).values
                values = shared.copy()
                kernel.finish(values)
            else:
                values = np.hstack([kernel.matrix(learned), kernel.matrix(learned, tested)])
            yield chosen, values


def _chosen_first(
    first: RecordView, learned: np.ndarray, y: np.ndarray, n_classes: int, folds: Sequence[Fold]
) -> dict[str, float]:
    """Parameters of a kernel that cross-validation on the training rows chooses, of its whole grid."""
    names = tuple(first["grid"])
    search = GridSearch(y, n_classes, folds, CV_CS)
    run(
        (search,),
        lambda _: (LEAST, MOST),
        lambda wanted: kernels_of(first["kernel"], names, first["grid"], learned, learned[:1], wanted),
    )
    return dict(zip(names, search.best()[0], strict=True))


def _dense(rows: Rows) -> Floats:
    return rows if isinstance(rows, np.ndarray) else rows.toarray()
