"""A scikit-learn estimator of ridge regression on cells, one-hot CSR, dense and CSR rows."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from ikmap.cells import Cells
from ikmap.estimators.base import CellEstimator, Regressor, Table
from ikmap.estimators.parameters import COUNT, POSITIVE, checked
from ikmap.learners.ridge.conjugate_gradients import ConjugateGradients, Problem
from ikmap.learners.ridge.ridge import RidgeFit, fit_ridge, warn_unless_solved
from ikmap.learners.ridge.sums import matrix_sums
from ikmap.learners.rows import Block
from ikmap.methods.ridge import Ridge


class CellRidge(Regressor, CellEstimator):
    """Ridge regression, solved to a certified duality gap by conjugate gradients.

    Minimises ``1/2 sum_i s_i (y_i - w . x_i - b)^2 + alpha / 2 |w|^2``, as scikit-learn's ``Ridge`` does on the same
    features. Takes :class:`~ikmap.cells.Cells`, one-hot CSR (as the maps' ``transform`` gives; worked on as integers),
    and any other dense or CSR rows.

    Parameters
    ----------
    alpha : float, default=1.0
        Weight of the squared norm of the weights, > 0.
    tol : float, default=1e-3
        Wanted relative duality gap.
    max_iter : int, default=1000
        Largest number of steps.
    fit_intercept : bool, default=True
        The intercept is not penalised.
    normalize : bool, default=True
        For ``Cells`` only: features 1/sqrt(t) instead of 1.
    n_jobs : int or None, default=None
        Threads; None or negative: all cores. No matter of the result.

    Attributes
    ----------
    coef_ : ndarray of float64, shape (n_columns,)
    intercept_ : float
    dual_gap_ : float
        Relative duality gap reached.
    n_iter_ : int
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from ikmap import CellRidge, IsolationKernelMap
    >>> X = np.random.default_rng(0).random((300, 2))
    >>> y = np.sin(6 * X[:, 0]) + X[:, 1]
    >>> model = make_pipeline(IsolationKernelMap(max_samples=32, random_state=0), CellRidge(alpha=0.1)).fit(X, y)
    >>> round(model.score(X, y), 1)
    1.0
    """

    methods = (Ridge,)

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        tol: float = 1e-3,
        max_iter: int = 1000,
        fit_intercept: bool = True,
        normalize: bool = True,
        n_jobs: int | None = None,
    ) -> None:
        self.alpha = alpha
        self.tol = tol
        self.max_iter = max_iter
        self.fit_intercept = fit_intercept
        self.normalize = normalize
        self.n_jobs = n_jobs

    def fit(self, X: Table, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the weights.

        Parameters
        ----------
        X : array-like, sparse matrix, DataFrame or Cells, n rows
        y : array-like, shape (n,)
        sample_weight : array-like, shape (n,), optional
            Weights >= 0.

        Raises
        ------
        ValueError
            A parameter is out of range, or rows, targets or weights are not valid.
        """
        alpha, tol = checked("alpha", self.alpha, POSITIVE), self._method(Ridge).tol
        rows, targets, weight = self._training(X, y, sample_weight)
        max_iter = checked("max_iter", self.max_iter, COUNT)
        problem = Problem(float(alpha), tol, self.cell_value_, self.fit_intercept, max_iter)
        if isinstance(rows, Cells):
            fit = fit_ridge([Block(rows, targets, weight)], problem, self._n_threads)
        else:
            state = ConjugateGradients(problem, np.zeros(rows.shape[1]))
            while (order := state.order) is not None:
                state.absorb(matrix_sums(order, rows, targets, weight))
            if not state.converged:
                warn_unless_solved(state)
            fit = RidgeFit.of(state)
        self.model_ = fit.model(1.0 / self.cell_value_, {"alpha": float(alpha)})
        self.coef_, self.intercept_ = fit.coef, fit.intercept
        self.dual_gap_, self.n_iter_ = float(fit.certificate()["duality_gap"]), fit.n_iter
        return self
