"""SVM and logistic regression with the interface of scikit-learn, on cells, one-hot CSR, dense and CSR rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

import numpy as np
from scipy.special import expit
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import (
    check_is_fitted,
)

from ikmap.cells import Cells
from ikmap.estimators.base import CellClassifier, ClassWeight
from ikmap.learners.dual.linear_svm import SVMParams, fit_linear_svm, svm_model
from ikmap.learners.rows import Block


class _DualClassifier(CellClassifier):
    """Classifiers solved by dual coordinate descent."""

    loss: Any
    C: float
    tol: float
    max_iter: int
    class_weight: ClassWeight
    fit_intercept: bool | Literal["auto"]
    normalize: bool
    random_state: Any
    n_jobs: int | None

    def _value_of(self, cells: Cells) -> float:
        return float(1.0 / np.sqrt(cells.n_partitions)) if self.normalize else 1.0

    def _fit(self, X: Any, y: Any, sample_weight: Any, loss: Any) -> Self:
        rows, y, sample_weight = self._rows_and_targets(X, y, sample_weight, reset=True)
        self._set_classes(y)
        weight: Any = self.class_weight
        if isinstance(weight, Mapping):
            weight = dict(enumerate(compute_class_weight(dict(weight), classes=self.classes_, y=y).tolist()))
        params = SVMParams(
            loss=loss,
            C=self.C,
            class_weight=weight,
            normalize=self.normalize,
            tol=self.tol,
            max_iter=self.max_iter,
            fit_intercept=not isinstance(rows, Cells) if self.fit_intercept == "auto" else self.fit_intercept,
            seed=self._seed(self.random_state),
        )
        block = Block(rows, self._encode(y), sample_weight)
        n_threads = None if self.n_jobs is None or self.n_jobs < 0 else self.n_jobs
        fit = fit_linear_svm([block], self.classes_.size, params, cell_value=self.cell_value_, n_threads=n_threads)
        self.model_ = svm_model(fit, self.classes_.tolist(), params, divisor=1.0 / self.cell_value_)
        self.coef_, self.intercept_ = fit.coef.T, fit.intercept
        self.dual_gap_, self.n_iter_ = fit.gap, int(fit.n_iter.max())
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Decision values.

        Parameters
        ----------
        X : Cells, dense array or sparse matrix, n rows

        Returns
        -------
        ndarray of float64, shape (n,) for two classes, else (n, n_classes)
        """
        check_is_fitted(self)
        return self._public(self.model_.decision_function(self._rows(X, reset=False)))


class CellSVC(_DualClassifier):
    """Linear support vector classifier, one against the rest, solved to a certified duality gap.

    Takes :class:`~ikmap.cells.Cells`, one-hot CSR (as the maps' ``transform`` gives; worked on as integers,
    with the same result as on the CSR as given), and any other dense or CSR rows.

    Parameters
    ----------
    loss : {"squared_hinge", "hinge"}, default="squared_hinge"
    C : float, default=1.0
        Weight of the losses, > 0.
    tol : float, default=1e-3
        Wanted relative duality gap.
    max_iter : int, default=1000
        Largest number of sweeps over the rows.
    class_weight : dict, "balanced" or None, default=None
        A row keeps its class's weight in all one-vs-rest problems.
    fit_intercept : bool or "auto", default="auto"
        Append a constant feature 1, regularised. "auto": for general dense and CSR rows only; cells and
        one-hot rows have a constant in their span already.
    normalize : bool, default=True
        For ``Cells`` only: features 1/sqrt(t) instead of 1.
    random_state : int, RandomState or None, default=0
        Order in which rows are visited.
    n_jobs : int or None, default=None
        Threads that solve one-vs-rest problems side by side; None or negative: all cores. No matter of the result.

    Attributes
    ----------
    classes_ : ndarray of labels
    coef_ : ndarray of float64, shape (P, n_columns); P = 1 for two classes, else their number
    intercept_ : ndarray of float64, shape (P,)
    dual_gap_ : ndarray of float64, shape (P,)
        Relative duality gap reached.
    n_iter_ : int
        Sweeps made for the slowest problem.
    model_ : LinearModel
    n_features_in_ : int

    Warns
    -----
    ConvergenceWarning
        If the gap was not reached.
    """

    def __init__(
        self,
        *,
        loss: Literal["squared_hinge", "hinge"] = "squared_hinge",
        C: float = 1.0,
        tol: float = 1e-3,
        max_iter: int = 1000,
        class_weight: ClassWeight = None,
        fit_intercept: bool | Literal["auto"] = "auto",
        normalize: bool = True,
        random_state: Any = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.loss = loss
        self.C = C
        self.tol = tol
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.fit_intercept = fit_intercept
        self.normalize = normalize
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to labels y, shape (n,), with optional weights >= 0 of the rows."""
        if self.loss not in ("squared_hinge", "hinge"):
            raise ValueError(f"loss must be 'squared_hinge' or 'hinge', got {self.loss!r}")
        return self._fit(X, y, sample_weight, self.loss)


class CellLogisticRegression(_DualClassifier):
    """L2-regularised logistic regression, one against the rest, by dual coordinate descent.

    Input, parameters and attributes are those of :class:`CellSVC`; the loss is ``log(1 + exp(-margin))``.
    """

    def __init__(
        self,
        *,
        C: float = 1.0,
        tol: float = 1e-3,
        max_iter: int = 1000,
        class_weight: ClassWeight = None,
        fit_intercept: bool | Literal["auto"] = "auto",
        normalize: bool = True,
        random_state: Any = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.C = C
        self.tol = tol
        self.max_iter = max_iter
        self.class_weight = class_weight
        self.fit_intercept = fit_intercept
        self.normalize = normalize
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to labels y, shape (n,), with optional weights >= 0 of the rows."""
        return self._fit(X, y, sample_weight, "logistic")

    def predict_proba(self, X: Any) -> np.ndarray:
        """Class probabilities, shape (n, n_classes); from three on, each class's own, scaled to sum 1.

        They are right as far as C is: choose it by ``GridSearchCV(..., scoring="neg_log_loss")``. With `class_weight`
        they are those of classes that are as frequent as it says.
        """
        decision = self.decision_function(X)
        if decision.ndim == 1:
            return np.column_stack([expit(-decision), expit(decision)])
        # The log of each probability minus the largest one: rows far from every class still sum to 1.
        logs = -np.logaddexp(0.0, -decision)
        p = np.exp(logs - logs.max(axis=1, keepdims=True))
        return p / p.sum(axis=1, keepdims=True)

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithm of :meth:`predict_proba`."""
        return np.log(self.predict_proba(X))
