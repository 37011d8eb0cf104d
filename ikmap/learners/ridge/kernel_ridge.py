"""Exact kernel ridge regression, which random features of the same kernel approximate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg as sl

from ikmap._threads import single_threaded_blas
from ikmap.arrays import Floats
from ikmap.kernels.base import AnyKernel
from ikmap.learners.rows import Rows


@dataclass(frozen=True, eq=False)
class KernelRidge:
    """The solution, with predictions ``sum_i dual_i K(x, x_i)``.

    Attributes
    ----------
    kernel : Kernel
    points : float64 ndarray or csr_array, shape (n, d)
    dual : ndarray of float64, shape (n,)
    """

    kernel: AnyKernel
    points: Rows
    dual: Floats

    def predict(self, rows: Rows, n_threads: int | None = None) -> Floats:
        """Return predictions, shape (m,)."""
        predictions: np.ndarray = self.kernel.matrix(rows, self.points, n_threads) @ self.dual
        return predictions


def fit_kernel_ridge(
    rows: Rows, y: np.ndarray, kernel: AnyKernel, alpha: float | np.ndarray, n_threads: int | None = None
) -> KernelRidge:
    """Solve ``(K + alpha 1) dual = y`` by Cholesky's factor, in place: memory for n^2 numbers, time for n^3.

    Parameters
    ----------
    rows : float64 ndarray or csr_array, shape (n, d)
    y : ndarray of float64, shape (n,)
        Targets; a mean that is to be left out is subtracted by the caller.
    kernel : Kernel
    alpha : float, or ndarray of shape (n,)
        > 0. Of rows with a weight, a number for each row, divided by its weight.

    Returns
    -------
    KernelRidge

    Notes
    -----
    Source: algorithms.md, section 13.3.
    """
    K = kernel.matrix(rows, None, n_threads)
    largest = float(K.diagonal().max(initial=0.0))
    K[np.diag_indices(len(y))] += alpha
    with single_threaded_blas:
        # K is symmetric. Transposed, it has the order of LAPACK, which then needs no copy.
        try:
            factor = sl.cho_factor(K.T, lower=False, overwrite_a=True, check_finite=False)
        except sl.LinAlgError:
            raise ValueError(
                f"alpha {np.max(alpha):g} is lost in the rounding of kernel values up to {largest:.3g}: bring the "
                "columns to one range (--scale minmax, or MinMaxScaler in Python), or give a smaller --C (in Python a "
                "larger alpha)"
            ) from None
        return KernelRidge(kernel, rows, sl.cho_solve(factor, y, check_finite=False))
