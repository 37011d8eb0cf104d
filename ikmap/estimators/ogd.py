"""scikit-learn estimators of online gradient descent, on cells, one-hot CSR, dense and CSR rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from ikmap.arrays import Array, Floats
from ikmap.cells import Cells
from ikmap.estimators.base import ClassWeight, RandomState, Table, numbered_class_weight
from ikmap.estimators.online import OnlineClassifier, OnlineEstimator, OnlineRegressor
from ikmap.learners.online.ogd import OGDState, ogd_divisor
from ikmap.learners.online.squared_ogd import SquaredOGDState
from ikmap.learners.rows import Rows, balanced_weights, n_columns
from ikmap.methods.ogd import OGD


class GradientDescent(OnlineEstimator):
    """Base of estimators of online gradient descent."""

    methods = (OGD,)
    renamed: ClassVar[Mapping[str, str]] = {"feature_scale": "scale"}

    scale: Literal["kernel", "raw"]

    def _value_of(self, cells: Cells) -> float:
        return float(1.0 / np.sqrt(ogd_divisor(cells, self._method(OGD).feature_scale)))


class CellOGDClassifier(OnlineClassifier, GradientDescent):
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
        random_state: RandomState = 0,
        fit_intercept: bool = True,
    ) -> None:
        self.eta = eta
        self.scale = scale
        self.n_epochs = n_epochs
        self.shuffle = shuffle
        self.class_weight = class_weight
        self.random_state = random_state
        self.fit_intercept = fit_intercept

    def _state_rows(self, rows: Rows) -> Rows:
        """Return the rows in the units of ``state_``: cells count 1, so general rows are divided by the value."""
        if isinstance(rows, Cells):
            return rows
        matrix = rows if self.cell_value_ == 1.0 else rows / self.cell_value_
        if not self.has_intercept_:
            return matrix
        ones = np.ones((matrix.shape[0], 1))
        return sp.hstack([matrix, ones], format="csr") if sp.issparse(matrix) else np.hstack([matrix, ones])

    def _start(self, rows: Rows) -> None:
        self.has_intercept_ = bool(self.fit_intercept) and not isinstance(rows, Cells)
        columns = n_columns(rows) + self.has_intercept_
        self.state_ = OGDState.start(columns, self.classes_.size, self._method(OGD).eta, self._divisor)

    def _weights(self, labels: Array, sample_weight: Floats | None) -> tuple[Floats | None, ...]:
        given = numbered_class_weight(self.class_weight, self.classes_)
        if given is None:
            return (sample_weight,)
        numbers = self._encode(labels)
        if isinstance(given, str):
            by_class = balanced_weights(np.bincount(numbers, sample_weight, self.classes_.size))
        else:
            by_class = np.array(list(given.values()))
        by_row: Floats = by_class[numbers]
        return (by_row if sample_weight is None else by_row * sample_weight,)

    def fit(self, X: Table, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Start afresh and learn from the rows in order, ``n_epochs`` times.

        Raises
        ------
        ValueError
            A parameter is out of range, or rows, labels or weights are not valid.
        """
        return self._fit(X, y, sample_weight)

    def partial_fit(
        self, X: Table, y: ArrayLike, classes: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Learn from more rows, in order.

        Parameters
        ----------
        X : array-like, sparse matrix, DataFrame or Cells, n rows
        y : array-like of labels, shape (n,)
        classes : array-like of labels
            All classes there will be; needed in the first call only.
        sample_weight : array-like, shape (n,), optional

        Raises
        ------
        ValueError
            If classes are missing in the first call or change, or rows are not valid.
        """
        if isinstance(self.class_weight, str):
            raise ValueError("class_weight='balanced' needs all labels at once: use fit, or give a dict")
        return self._fit_more(X, y, classes, sample_weight)

    @property
    def coef_(self) -> Floats:
        """Weights on the features as given."""
        check_is_fitted(self)
        weights = self.state_.weights
        return weights[: len(weights) - self.has_intercept_].T * self.cell_value_

    @property
    def intercept_(self) -> Floats:
        """Weight of the constant feature; 0 without one."""
        check_is_fitted(self)
        weights = self.state_.weights
        return weights[-1].copy() if self.has_intercept_ else np.zeros(weights.shape[1])


class CellOGDRegressor(OnlineRegressor, GradientDescent):
    """Online gradient descent on squared errors, as ``--learner ogd --task regression``.

    The intercept is the mean of the targets seen so far. Each row then moves the weights by ``eta`` times what is left
    of its error. Takes :class:`~ikmap.cells.Cells` and one-hot CSR (as the maps' ``transform`` gives), which are worked
    on as integers, and other dense or CSR rows, which should be scaled to norms of about 1. One-hot and other CSR
    rows may follow each other.

    Parameters
    ----------
    eta : float, default=0.5
        Step size, > 0, for K(x, x) = 1; from 2 on errors would grow without bound. On dense and CSR rows that are not
        one-hot a step is divided by the squared norm of its row where that is above 1.
    scale : {"kernel", "raw"}, default="kernel"
        For ``Cells`` only: a row has the features 1/sqrt(t) ("kernel") or 1 ("raw").
    n_epochs : int, default=1
        Passes of ``fit`` over the rows.
    shuffle : bool, default=False
        Whether ``fit`` takes the rows of each pass in random order.
    random_state : int, RandomState or None, default=0

    Attributes
    ----------
    coef_ : ndarray of float64, shape (n_columns,)
        Weights on the features as given (for ``Cells`` at the kernel scale: on features 1/sqrt(t)).
    intercept_ : float
    state_ : SquaredOGDState
    n_iter_ : int
        Passes made by ``fit``.
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from ikmap import CellOGDRegressor, IsolationKernelMap
    >>> X = np.random.default_rng(0).random((300, 2))
    >>> y = np.sin(6 * X[:, 0]) + X[:, 1]
    >>> learner = CellOGDRegressor(n_epochs=20)
    >>> model = make_pipeline(IsolationKernelMap(max_samples=32, random_state=0), learner).fit(X, y)
    >>> round(model.score(X, y), 1)
    1.0
    """

    def __init__(
        self,
        *,
        eta: float = 0.5,
        scale: Literal["kernel", "raw"] = "kernel",
        n_epochs: int = 1,
        shuffle: bool = False,
        random_state: RandomState = 0,
    ) -> None:
        self.eta = eta
        self.scale = scale
        self.n_epochs = n_epochs
        self.shuffle = shuffle
        self.random_state = random_state

    def _start(self, rows: Rows, y: Floats) -> None:  # noqa: ARG002
        eta = self._method(OGD).eta
        if isinstance(rows, Cells):
            self.state_ = SquaredOGDState.start(rows.offsets, eta, self._divisor)
        else:
            self.state_ = SquaredOGDState.start_on_rows(n_columns(rows), eta)

    def _decisions(self, rows: Rows) -> Floats:
        if isinstance(rows, Cells) or not self.on_cells_:
            return self.state_.decision_function(rows)
        return np.asarray(rows @ self.coef_).reshape(-1, 1) + self.intercept_

    @property
    def coef_(self) -> Floats:
        """Weights on the features as given."""
        check_is_fitted(self)
        return self.state_.weights * self.cell_value_

    @property
    def intercept_(self) -> float:
        """Mean of the targets seen."""
        check_is_fitted(self)
        return self.state_.intercept
