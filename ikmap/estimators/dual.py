"""scikit-learn estimators of linear problems that are solved in the dual: SVM, logistic regression and SVR."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike

from ikmap.arrays import Array, Floats
from ikmap.cells import Cells
from ikmap.estimators.base import (
    CellEstimator,
    Classifier,
    ClassWeight,
    NumberedClassWeight,
    RandomState,
    Regressor,
    Supervised,
    Table,
    numbered_class_weight,
)
from ikmap.estimators.parameters import COUNT, checked
from ikmap.estimators.probabilities import probabilities
from ikmap.learners.dual.linear_svm import SVMFit, SVMParams, fit_linear_svm, svm_model
from ikmap.learners.rows import Block, Rows
from ikmap.methods.learner import DualLearner
from ikmap.methods.linear_on_cells import LinearSVM, LogisticRegression
from ikmap.methods.svr import LinearSVR


class DualEstimator(CellEstimator, Supervised):
    """Base of linear estimators that dual coordinate descent solves to a certified duality gap."""

    methods: ClassVar[tuple[type[DualLearner], ...]]

    max_iter: int
    fit_intercept: bool | Literal["auto"]

    def _solve(
        self, rows: Rows, y: Array, sample_weight: Floats | None, labels: Array, class_weight: NumberedClassWeight
    ) -> SVMFit:
        """Solve the problem for rows and targets that have been checked; `labels` are of classes, else empty."""
        # A class weight of the method knows no single classes.
        values = {"class_weight": "none"} if labels.size else {}
        problem = asdict(self._method(self.methods[0], **values).problem) | {"class_weight": class_weight}
        params = SVMParams(
            **{name: value for name, value in problem.items() if value is not None},
            normalize=self.normalize,
            max_iter=checked("max_iter", self.max_iter, COUNT),
            fit_intercept=not isinstance(rows, Cells) if self.fit_intercept == "auto" else self.fit_intercept,
            seed=self._draw_seed(),
        )
        fit = fit_linear_svm(
            [Block(rows, y, sample_weight)], labels.size, params, cell_value=self.cell_value_, n_threads=self._n_threads
        )
        self.model_ = svm_model(fit, labels.tolist(), params, divisor=1.0 / self.cell_value_)
        return fit


class DualClassifier(Classifier, DualEstimator):
    """Base of linear classifiers, one against the rest."""

    class_weight: ClassWeight

    def fit(self, X: Table, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the weights.

        Parameters
        ----------
        X : array-like, sparse matrix, DataFrame or Cells, n rows
        y : array-like of labels, shape (n,)
        sample_weight : array-like, shape (n,), optional
            Weights >= 0.

        Raises
        ------
        ValueError
            A parameter is out of range, or rows, labels or weights are not valid.
        """
        rows, labels, weight = self._training(X, y, sample_weight)
        self._set_classes(labels)
        by_class = numbered_class_weight(self.class_weight, self.classes_)
        fit = self._solve(rows, self._encode(labels), weight, self.classes_, by_class)
        self.coef_, self.intercept_ = fit.coef.T, fit.intercept
        self.dual_gap_, self.n_iter_ = fit.gap, int(fit.n_iter.max())
        return self


class CellSVC(DualClassifier):
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

    methods = (LinearSVM,)

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
        random_state: RandomState = 0,
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


class CellLogisticRegression(DualClassifier):
    """L2-regularised logistic regression, one against the rest, by dual coordinate descent.

    Input, parameters and attributes are those of :class:`CellSVC`; the loss is ``log(1 + exp(-margin))``.
    """

    methods = (LogisticRegression,)

    def __init__(
        self,
        *,
        C: float = 1.0,
        tol: float = 1e-3,
        max_iter: int = 1000,
        class_weight: ClassWeight = None,
        fit_intercept: bool | Literal["auto"] = "auto",
        normalize: bool = True,
        random_state: RandomState = 0,
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

    def predict_proba(self, X: Table) -> Floats:
        """Return class probabilities, shape (n, n_classes); from three on, each class's own, scaled to sum 1.

        They are right as far as C is: choose it by ``GridSearchCV(..., scoring="neg_log_loss")``. With `class_weight`
        they are those of classes that are as frequent as it says.
        """
        return probabilities(self.decision_function(X))

    def predict_log_proba(self, X: Table) -> Floats:
        """Return the logarithm of :meth:`predict_proba`."""
        return np.log(self.predict_proba(X))


class CellSVR(Regressor, DualEstimator):
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

    methods = (LinearSVR,)
    renamed: ClassVar[Mapping[str, str]] = {"svr_loss": "loss"}

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
        random_state: RandomState = 0,
    ) -> None:
        self.loss = loss
        self.C = C
        self.epsilon = epsilon
        self.tol = tol
        self.max_iter = max_iter
        self.fit_intercept = fit_intercept
        self.normalize = normalize
        self.random_state = random_state

    def fit(self, X: Table, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit to targets y, shape (n,), with optional weights >= 0 of the rows.

        Raises
        ------
        ValueError
            A parameter is out of range, or rows, targets or weights are not valid.
        """
        fit = self._solve(*self._training(X, y, sample_weight), np.empty(0), None)
        self.coef_, self.intercept_ = self.model_.coef[:, 0], float(self.model_.intercept[0])
        self.dual_gap_, self.n_iter_ = float(fit.gap[0]), int(fit.n_iter[0])
        return self
