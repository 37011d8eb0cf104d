"""Support vector regression with the interface of scikit-learn, on cells, one-hot CSR, dense and CSR rows."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import _check_sample_weight, _check_y, check_is_fitted

from ikmap.cells import Cells
from ikmap.estimators.base import CellEstimator
from ikmap.learners.dual.linear_svm import SVMParams, fit_linear_svm, svm_model
from ikmap.learners.rows import Block, n_rows

LOSSES = ("squared_epsilon_insensitive", "epsilon_insensitive")


class CellSVR(RegressorMixin, CellEstimator):
    """Linear support vector regression, solved to a certified duality gap by dual coordinate descent.

    With z the targets less their mean, over their standard deviation (both by weight), it minimises ``|w|^2 / 2 + C
    sum_i s_i loss(z_i - w . x_i)``. So C and epsilon suit targets of any scale: scikit-learn's ``LinearSVR``, which
    does not standardise, minimises the same on z.

    Takes :class:`~ikmap.cells.Cells`, one-hot CSR (as the maps' ``transform`` gives; worked on as integers), and any
    other dense or CSR rows.

    Parameters
    ----------
    loss : {"squared_epsilon_insensitive", "epsilon_insensitive"}, default="squared_epsilon_insensitive"
        ``max(0, |r| - epsilon)^2`` or ``max(0, |r| - epsilon)``.
    C : float, default=1.0
        Weight of the losses, > 0.
    epsilon : float, default=0.1
        Errors up to so many standard deviations of the target cost nothing; >= 0.
    tol : float, default=1e-3
        Wanted relative duality gap.
    max_iter : int, default=1000
        Largest number of sweeps over the rows.
    fit_intercept : bool or "auto", default="auto"
        Append a constant feature 1, regularised. "auto": for general dense and CSR rows only; cells and one-hot rows
        have a constant in their span already. The mean of the targets is added in any case.
    normalize : bool, default=True
        For ``Cells`` only: features 1/sqrt(t) instead of 1.
    random_state : int, RandomState or None, default=0
        Order in which rows are visited.

    Attributes
    ----------
    coef_ : ndarray of float64, shape (n_columns,)
    intercept_ : float
    dual_gap_ : float
        Relative duality gap reached.
    n_iter_ : int
        Sweeps made.
    model_ : LinearModel
    n_features_in_ : int

    Warns
    -----
    ConvergenceWarning
        If the gap was not reached.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from ikmap import CellSVR, IsolationKernelMap
    >>> X = np.random.default_rng(0).random((300, 2))
    >>> y = np.sin(6 * X[:, 0]) + X[:, 1]
    >>> model = make_pipeline(IsolationKernelMap(max_samples=32, random_state=0), CellSVR(C=10.0)).fit(X, y)
    >>> round(model.score(X, y), 1)
    1.0
    """

    def __init__(
        self,
        *,
        loss: Literal["squared_epsilon_insensitive", "epsilon_insensitive"] = "squared_epsilon_insensitive",
        C: float = 1.0,
        epsilon: float = 0.1,
        tol: float = 1e-3,
        max_iter: int = 1000,
        fit_intercept: bool | Literal["auto"] = "auto",
        normalize: bool = True,
        random_state: Any = 0,
    ) -> None:
        self.loss = loss
        self.C = C
        self.epsilon = epsilon
        self.tol = tol
        self.max_iter = max_iter
        self.fit_intercept = fit_intercept
        self.normalize = normalize
        self.random_state = random_state

    def _value_of(self, cells: Cells) -> float:
        return float(1.0 / np.sqrt(cells.n_partitions)) if self.normalize else 1.0

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to targets y, shape (n,), with optional weights >= 0 of the rows.

        Raises
        ------
        ValueError
            A parameter is out of range, or rows, targets or weights are not valid.
        """
        if self.loss not in LOSSES:
            raise ValueError(f"loss must be one of {', '.join(LOSSES)}, got {self.loss!r}")
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        rows = self._rows(X, reset=True)
        y = _check_y(y, y_numeric=True, estimator=self).astype(np.float64)
        n = n_rows(rows)
        check_consistent_length(np.empty(n), y)
        if sample_weight is not None:
            some = _check_sample_weight(sample_weight, np.empty((n, 1)), dtype=np.float64, ensure_non_negative=True)
            sample_weight = some
        params = SVMParams(
            loss=self.loss,
            C=self.C,
            epsilon=self.epsilon,
            normalize=self.normalize,
            tol=self.tol,
            max_iter=self.max_iter,
            fit_intercept=not isinstance(rows, Cells) if self.fit_intercept == "auto" else self.fit_intercept,
            seed=self._seed(self.random_state),
        )
        fit = fit_linear_svm([Block(rows, y, sample_weight)], 0, params, cell_value=self.cell_value_)
        self.model_ = svm_model(fit, [], params, divisor=1.0 / self.cell_value_)
        self.coef_, self.intercept_ = self.model_.coef[:, 0], float(self.model_.intercept[0])
        self.dual_gap_, self.n_iter_ = float(fit.gap[0]), int(fit.n_iter[0])
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Predictions, shape (n,), of Cells, a dense array or a sparse matrix of n rows."""
        check_is_fitted(self)
        found: np.ndarray = self.model_.decision_function(self._rows(X, reset=False))[:, 0]
        return found
