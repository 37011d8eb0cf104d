"""Support vector machine with a kernel and an offset: LIBSVM's solver on kernel values of ours (algorithms.md 8.3)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

import numpy as np

from ikmap.kernels import kernel_as_dict
from ikmap.kernels.base import Kernel
from ikmap.learners.kernel_model import KernelModel
from ikmap.learners.kernel_ogd import kernel_ogd_bytes
from ikmap.learners.rows import Rows, check_classes, check_rows, n_rows

CACHE_MB = 200
"""Memory in which LIBSVM keeps kernel values times signs, in float32."""


@dataclass(frozen=True)
class KernelSVMParams:
    """What is asked for.

    Parameters
    ----------
    C : float
        Weight of the hinge losses, > 0.
    tol : float
        Largest violation of the optimality conditions that is left.
    class_weight : "balanced" or None
    max_iter : int
        Steps at most; -1: no limit.
    """

    C: float = 1.0
    tol: float = 1e-3
    class_weight: Literal["balanced"] | None = None
    max_iter: int = -1

    def __post_init__(self) -> None:
        if not 0 < self.C < np.inf or not self.tol > 0:
            raise ValueError(f"C and tol must be positive numbers, got {self.C!r} and {self.tol!r}")


def kernel_svm_bytes(n: int, d: int, nnz: int | None = None) -> int:
    """Memory that training on n rows takes, beside the rows: all kernel values, float64, and LIBSVM's cache.

    Parameters
    ----------
    n, d : int
        Numbers of rows and columns. Of cells: t columns.
    nnz : int, optional
        Entries of CSR rows; None: the rows are dense, or cells.
    """
    return 8 * n * n + kernel_ogd_bytes(n, d, nnz) + min(CACHE_MB << 20, 4 * n * n)


def fit_kernel_svm(
    rows: Rows,
    y: np.ndarray,
    n_classes: int,
    kernel: Kernel,
    params: KernelSVMParams,
    classes: list[Any] | None = None,
    n_threads: int | None = None,
) -> KernelModel:
    """Train on rows in memory.

    The matrix of all kernel values is computed on `n_threads` threads and handed to LIBSVM, which takes
    :func:`kernel_svm_bytes` of memory.

    Parameters
    ----------
    rows : dense array, CSR matrix, or Cells for the isolation kernel; n rows
    y : ndarray of int, shape (n,)
        Class numbers. From three classes on, every two of them have a problem of their own.
    kernel : Kernel
    params : KernelSVMParams
    classes : list, optional
        Class labels of the model; default: the numbers.

    Raises
    ------
    ValueError
        If rows or classes are not valid, or all rows are of one class.
    """
    from sklearn.svm import SVC  # takes a second to import

    check_rows(rows)
    y = np.asarray(y)
    check_classes(y, n_rows(rows), n_classes)
    found = np.unique(y)
    if found.size < n_classes:
        raise ValueError(f"rows of {n_classes} classes are needed, found {found.size}")
    rows = kernel.checked(rows)
    K = kernel.matrix(rows, n_threads=n_threads)
    svc = SVC(C=params.C, kernel="precomputed", tol=params.tol, class_weight=params.class_weight,
              max_iter=params.max_iter, cache_size=CACHE_MB, decision_function_shape="ovo").fit(K, y)  # fmt: skip
    del K
    binary = n_classes == 2
    return KernelModel(
        points=rows[svc.support_],
        coef=np.ascontiguousarray(svc.dual_coef_.T) if binary else _pairwise(svc, n_classes),
        intercept=np.array(svc.intercept_, dtype=np.float64),
        scale=1.0,
        kernel=kernel_as_dict(kernel),
        learner="kernel_svm",
        classes=list(range(n_classes)) if classes is None else classes,
        one_vs_one=not binary,
        params={"C": params.C, "tol": params.tol, "steps": int(np.sum(svc.n_iter_))},
    )


def _pairwise(svc: Any, n_classes: int) -> np.ndarray:
    """Coefficients of every pair of classes as columns: float64, shape (s, K (K - 1) / 2).

    LIBSVM keeps a support vector of class k in K - 1 rows: row j is for the pair with class j, or j + 1 from j = k on.
    """
    ends = np.cumsum(svc.n_support_)
    of = [slice(end - count, end) for end, count in zip(ends, svc.n_support_, strict=True)]
    coef = np.zeros((int(ends[-1]), n_classes * (n_classes - 1) // 2))
    for column, (a, b) in enumerate(combinations(range(n_classes), 2)):
        coef[of[a], column] = svc.dual_coef_[b - 1, of[a]]
        coef[of[b], column] = svc.dual_coef_[a, of[b]]
    return coef
