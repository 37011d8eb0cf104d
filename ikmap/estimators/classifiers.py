"""scikit-learn classifiers on cells, one-hot CSR, dense and CSR rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

import numpy as np
import scipy.sparse as sp
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_consistent_length
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    _check_y,
    check_is_fitted,
    check_random_state,
    validate_data,
)

from ikmap.cells import Cells
from ikmap.learners.linear_model import decision_to_index
from ikmap.learners.linear_svm import SVMParams, fit_linear_svm, svm_model
from ikmap.learners.ogd import OGDState, ogd_divisor
from ikmap.learners.rows import Block, Rows, check_rows, n_rows
from ikmap.seeds import generator

type ClassWeight = Mapping[Any, float] | Literal["balanced"] | None


class _CellClassifier(ClassifierMixin, BaseEstimator):
    """Input handling shared by the classifiers: everything becomes rows that learners take."""

    classes_: np.ndarray
    n_features_in_: int
    cell_value_: float
    on_cells_: bool

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _value_of(self, cells: Cells) -> float:
        """Feature value that this estimator gives to the entries of ``Cells``."""
        raise NotImplementedError

    def _rows(self, X: Any, reset: bool) -> Rows:
        """Check X and bring it to rows; one-hot CSR becomes cells with entries ``cell_value_``.

        CSR whose entries differ from the ``cell_value_`` seen first stays CSR.
        """
        if isinstance(X, Cells):
            check_rows(X, None if reset else self.n_features_in_)
            value = self._value_of(X)
            if len(X) == 0:
                raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")
            if reset:
                self.n_features_in_, self.cell_value_, self.on_cells_ = X.n_columns, value, True
            elif not self.on_cells_ or value != self.cell_value_:
                raise ValueError("cells cannot follow rows of another kind: give the kind of the first call")
            return X.packed() if X.codes.size and X.codes.min() >= 0 else X
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=reset)
        found = None
        if sp.issparse(X):
            if not X.has_canonical_format:
                X = X.copy()
                X.sum_duplicates()
            found = Cells.from_csr(X) if X.shape[1] <= np.iinfo(np.int32).max else None
        if reset:
            self.cell_value_ = 1.0 if found is None else found[1]
            self.on_cells_ = found is not None
        return found[0].packed() if found and self.on_cells_ and found[1] == self.cell_value_ else X

    def _rows_and_targets(self, X: Any, y: Any, sample_weight: Any, reset: bool) -> tuple[Rows, Any, Any]:
        """Rows, checked labels and sample weights (None: all ones)."""
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        rows = self._rows(X, reset)
        y = _check_y(y, estimator=self)
        check_classification_targets(y)
        check_consistent_length(np.empty(n_rows(rows)), y)
        if sample_weight is not None:
            sample_weight = _check_sample_weight(
                sample_weight, np.empty((n_rows(rows), 1)), dtype=np.float64, ensure_non_negative=True
            )
        return rows, y, sample_weight

    def _encode(self, y: Any) -> np.ndarray:
        """Class number of every label; refuses labels that are not in ``classes_``."""
        index = np.minimum(np.searchsorted(self.classes_, y), self.classes_.size - 1)
        unknown = np.flatnonzero(self.classes_[index] != y)
        if unknown.size:
            raise ValueError(f"row {unknown[0]}: label {y[unknown[0]]} is not one of the classes")
        return index.astype(np.int32)

    def _set_classes(self, labels: Any) -> None:
        self.classes_ = np.unique(labels)
        if self.classes_.size < 2:
            raise ValueError(
                f"{type(self).__name__} needs rows of at least 2 classes; the data contains only one class: "
                f"{self.classes_[0]!r}"
            )

    def _seed(self, random_state: Any) -> int:
        if isinstance(random_state, (int, np.integer)):
            return int(random_state)
        return int(check_random_state(random_state).randint(2**31 - 1))

    def decision_function(self, X: Any) -> np.ndarray:
        """Decision values: shape (n,) for two classes, else (n, n_classes)."""
        raise NotImplementedError

    def predict(self, X: Any) -> np.ndarray:
        """Class label of every row; 0 counts as positive, ties go to the first class."""
        decision = self.decision_function(X)
        return self.classes_[decision_to_index(decision)]


class _DualClassifier(_CellClassifier):
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
        return self.model_.decision_function(self._rows(X, reset=False))


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
        """Class probabilities, shape (n, n_classes); from three on, each class's own, scaled to sum 1."""
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


class CellOGDClassifier(_CellClassifier):
    """Online gradient descent on the hinge loss (IK-OGD), one against the rest.

    On a margin below 1 a row is added to the weights, times ``eta``, without shrinkage. Takes
    ``Cells``, one-hot CSR (worked on as integers), dense and CSR rows; for all but ``Cells`` the predictor
    is x . w as given.

    Parameters
    ----------
    eta : float, default=0.5
        Step size, > 0, meant for K(x, x) = 1: other features should be scaled.
    scale : {"kernel", "raw"}, default="kernel"
        For ``Cells`` only: the sum of a row's t weights is divided by t ("kernel": equal to OGD with the
        Isolation Kernel) or by 1 ("raw": features 1). General dense and CSR rows: the divisor is 1.
    n_epochs : int, default=1
        Passes of ``fit`` over the rows.
    shuffle : bool, default=False
        Whether ``fit`` takes the rows of each pass in random order.
    class_weight : dict, "balanced" or None, default=None
        Factor of the step; "balanced" is for ``fit`` only.
    random_state : int, RandomState or None, default=0
    fit_intercept : bool, default=True
        For general dense and CSR rows only: append a constant feature 1. Cells and one-hot rows, which have a
        constant in their span, never get one.

    Attributes
    ----------
    classes_ : ndarray of labels
    coef_ : ndarray of float64, shape (K, n_columns); K = 1 for two classes, else their number
        Weights on the features as given (for ``Cells`` at the kernel scale: on features 1/sqrt(t)).
    intercept_ : ndarray of float64, shape (K,)
    state_ : OGDState
        Weights in index form, with counts of rows and updates.
    n_iter_ : int
        Passes made by ``fit``.
    n_features_in_ : int

    Notes
    -----
    A sample weight multiplies the step of its row. Unlike in a batch learner that is not the same as
    repeating the row, which takes several steps with a check of the margin before each.
    """

    def __init__(
        self,
        *,
        eta: float = 0.5,
        scale: Literal["kernel", "raw"] = "kernel",
        n_epochs: int = 1,
        shuffle: bool = False,
        class_weight: ClassWeight = None,
        random_state: Any = 0,
        fit_intercept: bool = True,
    ) -> None:
        self.eta = eta
        self.scale = scale
        self.n_epochs = n_epochs
        self.shuffle = shuffle
        self.class_weight = class_weight
        self.random_state = random_state
        self.fit_intercept = fit_intercept

    def _value_of(self, cells: Cells) -> float:
        return float(1.0 / np.sqrt(ogd_divisor(cells, self.scale)))

    def _state_rows(self, rows: Rows) -> Rows:
        """Rows in the units of ``state_``: cells count 1, so general rows are divided by the value."""
        if isinstance(rows, Cells):
            return rows
        matrix: Any = rows if self.cell_value_ == 1.0 else rows / self.cell_value_
        if not self.has_intercept_:
            return matrix
        ones = np.ones((matrix.shape[0], 1))
        return sp.hstack([matrix, ones], format="csr") if sp.issparse(matrix) else np.hstack([matrix, ones])

    def _start(self, rows: Rows) -> None:
        divisor = 1.0 / self.cell_value_**2
        if abs(divisor - round(divisor)) <= 1e-12 * divisor:
            divisor = float(round(divisor))  # t itself, where the value is 1/sqrt(t).
        self.has_intercept_ = bool(self.fit_intercept) and not isinstance(rows, Cells)
        columns = self.n_features_in_ + self.has_intercept_
        self.state_ = OGDState.start(columns, self.classes_.size, self.eta, divisor)

    def _weights(self, y: np.ndarray, sample_weight: Any) -> Any:
        """Sample weights times class weights."""
        if self.class_weight is None:
            return sample_weight
        weight = self.class_weight if isinstance(self.class_weight, str) else dict(self.class_weight)
        by_class = compute_class_weight(weight, classes=self.classes_, y=y, sample_weight=sample_weight)
        by_row = by_class[self._encode(y)]
        return by_row if sample_weight is None else by_row * sample_weight

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Start afresh and learn from the rows in order, ``n_epochs`` times."""
        ogd_divisor(np.empty((0, 0)), self.scale)
        if self.n_epochs < 1:
            raise ValueError(f"n_epochs must be at least 1, got {self.n_epochs!r}")
        rows, y, sample_weight = self._rows_and_targets(X, y, sample_weight, reset=True)
        self._set_classes(y)
        self._start(rows)
        index, weight = self._encode(y), self._weights(y, sample_weight)
        rows, seed = self._state_rows(rows), self._seed(self.random_state)
        for epoch in range(self.n_epochs):
            if self.shuffle:
                order = generator(seed, epoch).permutation(index.size)
                self.state_.partial_fit(rows[order], index[order], None if weight is None else weight[order])
            else:
                self.state_.partial_fit(rows, index, weight)
        self.n_iter_ = self.n_epochs
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from more rows, in order.

        Parameters
        ----------
        X : Cells, dense array or sparse matrix, n rows
        y : array of labels, shape (n,)
        classes : array of labels
            All classes there will be; needed in the first call only.
        sample_weight : array, shape (n,), optional

        Raises
        ------
        ValueError
            If classes are missing in the first call or change, or rows are not valid.
        """
        ogd_divisor(np.empty((0, 0)), self.scale)
        if isinstance(self.class_weight, str):
            raise ValueError("class_weight='balanced' needs all labels at once: use fit, or give a dict")
        first = not hasattr(self, "state_")
        if first and classes is None:
            raise ValueError("classes must be passed in the first call to partial_fit")
        rows, y, sample_weight = self._rows_and_targets(X, y, sample_weight, reset=first)
        if first:
            self._set_classes(classes)
            self._start(rows)
        elif classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(f"classes {np.unique(classes)} are not those of the first call, {self.classes_}")
        self.state_.partial_fit(self._state_rows(rows), self._encode(y), self._weights(y, sample_weight))
        self.n_iter_ = 1
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Decision values: shape (n,) for two classes, else (n, n_classes)."""
        check_is_fitted(self)
        return self.state_.decision_function(self._state_rows(self._rows(X, reset=False)))

    @property
    def coef_(self) -> np.ndarray:
        """Weights on the features as given."""
        check_is_fitted(self)
        return self.state_.weights[: self.n_features_in_].T * self.cell_value_

    @property
    def intercept_(self) -> np.ndarray:
        """Weight of the constant feature; 0 without one."""
        check_is_fitted(self)
        weights = self.state_.weights
        return weights[-1].copy() if self.has_intercept_ else np.zeros(weights.shape[1])
