"""The support vector machine with a kernel and an offset, by the solver of LIBSVM (algorithms.md 8.3)."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from ikmap._threads import single_threaded_blas
from ikmap.json_values import Label
from ikmap.kernels import kernel_as_dict
from ikmap.kernels.base import AnyKernel
from ikmap.learners.kernel.kernel_model import KernelModel
from ikmap.learners.kernel.support_set import support_set_bytes
from ikmap.learners.kernel.working_set import (
    CACHE_MB,
    FIRST_ROWS,
    KernelSVMParams,
    WorkingSetTooLarge,
    solve_two_classes,
)
from ikmap.learners.rows import Rows, check_classes, check_rows, n_rows

__all__ = ["KernelSVMParams", "WorkingSetTooLarge", "fit_kernel_svm", "kernel_svm_bytes"]


def kernel_svm_bytes(n: int, d: int, nnz: int | None = None, working_set: int | None = None) -> int:
    """Return the bytes that training on n rows takes, beside the rows.

    These are the kernel values of a working set, float64, LIBSVM's cache, and rows laid out for the loop over pairs.

    Parameters
    ----------
    n, d : int
        Numbers of rows and columns. Of cells: t columns.
    nnz : int, optional
        Entries of CSR rows; None: the rows are dense, or cells.
    working_set : int, optional
        Rows of the working set, which are as many as there are support vectors and some more. None: the first ones,
        the least that is needed.
    """
    w = min(n, FIRST_ROWS if working_set is None else working_set)
    return 8 * w * w + min(CACHE_MB << 20, 4 * w * w) + 2 * support_set_bytes(n, d, nnz)


def fit_kernel_svm(
    rows: Rows,
    y: np.ndarray,
    n_classes: int,
    kernel: AnyKernel,
    params: KernelSVMParams,
    classes: list[Label] | None = None,
    n_threads: int | None = None,
    max_working_set: int | None = None,
) -> KernelModel:
    """Train on rows in memory.

    Kernel values of a working set are computed on `n_threads` threads and handed to LIBSVM; rows that violate its
    solution join, until none is left (:mod:`ikmap.learners.kernel.working_set`).

    Parameters
    ----------
    rows : dense array, CSR matrix, or Cells for the isolation kernel; n rows
    y : ndarray of int, shape (n,)
        Class numbers. From three classes on, every two of them have a problem of their own.
    kernel : Kernel
    params : KernelSVMParams
    classes : list, optional
        Class labels of the model; default: the numbers.
    max_working_set : int, optional
        Most rows whose kernel values may be held at a time. It changes no result.

    Raises
    ------
    ValueError
        If rows or classes are not valid, or all rows are of one class.
    WorkingSetTooLarge
        If more rows are needed.
    """
    check_rows(rows)
    y = np.asarray(y)
    check_classes(y, n_rows(rows), n_classes)
    counts = np.bincount(y, minlength=n_classes)
    if not counts.all():
        raise ValueError(f"rows of {n_classes} classes are needed, found {np.count_nonzero(counts)}")
    rows = kernel.checked(rows)
    weights = y.size / (n_classes * counts) if params.class_weight == "balanced" else np.ones(n_classes)
    binary = n_classes == 2
    pairs = list(combinations(range(n_classes), 2))
    coef, intercept = np.zeros((y.size, len(pairs))), np.zeros(len(pairs))
    # A decision > 0 is for the second of two classes, but a vote for the first of a pair.
    sign = 1.0 if binary else -1.0
    steps = largest = 0
    with single_threaded_blas:  # Once, for there may be thousands of pairs.
        for column, (a, b) in enumerate(pairs):
            those = np.flatnonzero((y == a) | (y == b))
            solution = solve_two_classes(
                rows if binary else rows[those], y[those] == b, kernel, params, (weights[a], weights[b]),
                max_working_set, n_threads,
            )  # fmt: skip
            coef[those, column], intercept[column] = sign * solution.coef, sign * solution.intercept
            steps, largest = steps + solution.steps, max(largest, solution.working_set)
    support = np.flatnonzero(coef.any(axis=1))
    support = support[np.argsort(y[support], kind="stable")]  # As LIBSVM has them: class after class.
    return KernelModel(
        points=rows[support],
        coef=np.ascontiguousarray(coef[support]),
        intercept=intercept,
        scale=1.0,
        kernel=kernel_as_dict(kernel),
        learner="kernel_svm",
        classes=list(range(n_classes)) if classes is None else classes,
        one_vs_one=not binary,
        params={"C": params.C, "tol": params.tol, "steps": steps, "working_set": largest},
    )
