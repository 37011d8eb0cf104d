"""Ridge regression with the interface of scikit-learn, on cells, one-hot CSR, dense and CSR rows."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import _check_sample_weight, _check_y, check_is_fitted

from ikmap._threads import usable_cores
from ikmap.cells import Cells
from ikmap.estimators.base import CellEstimator
from ikmap.learners.ridge.conjugate_gradients import ConjugateGradients, Problem
from ikmap.learners.ridge.ridge import RidgeFit, fit_ridge, warn_unless_solved
from ikmap.learners.ridge.sums import matrix_sums
from ikmap.learners.rows import Block, n_rows


class CellRidge(RegressorMixin, CellEstimator):
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

    def _value_of(self, cells: Cells) -> float:
        return float(1.0 / np.sqrt(cells.n_partitions)) if self.normalize else 1.0

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the weights.

        Parameters
        ----------
        X : Cells, dense array or sparse matrix, n rows
        y : array-like, shape (n,)
        sample_weight : array-like, shape (n,), optional
            Weights >= 0.

        Raises
        ------
        ValueError
            A parameter is out of range, or rows, targets or weights are not valid.
        """
        for name in ("alpha", "tol"):
            if not 0 < getattr(self, name) < np.inf:
                raise ValueError(f"{name} must be a positive number, got {getattr(self, name)!r}")
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        rows: Any = self._rows(X, reset=True)
        y = _check_y(y, y_numeric=True, estimator=self).astype(np.float64)
        n = n_rows(rows)
        check_consistent_length(np.empty(n), y)
        if sample_weight is not None:
            sample_weight = _check_sample_weight(
                sample_weight, np.empty((n, 1)), dtype=np.float64, ensure_non_negative=True
            )
        problem = Problem(float(self.alpha), self.tol, self.cell_value_, self.fit_intercept, self.max_iter)
        if isinstance(rows, Cells):
            n_threads = usable_cores() if self.n_jobs is None or self.n_jobs < 0 else self.n_jobs
            fit = fit_ridge([Block(rows, y, sample_weight)], problem, n_threads)
        else:
            state = ConjugateGradients(problem, np.zeros(rows.shape[1]))
            while (order := state.order) is not None:
                state.absorb(matrix_sums(order, rows, y, sample_weight))
            if not state.converged:
                warn_unless_solved(state)
            fit = RidgeFit.of(state)
        self.model_ = fit.model(1.0 / self.cell_value_, {"alpha": float(self.alpha)})
        self.coef_, self.intercept_ = fit.coef, fit.intercept
        self.dual_gap_, self.n_iter_ = float(fit.certificate()["duality_gap"]), fit.n_iter
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Predictions, shape (n,), of Cells, a dense array or a sparse matrix of n rows."""
        check_is_fitted(self)
        found: np.ndarray = self.model_.decision_function(self._rows(X, reset=False))[:, 0]
        return found
