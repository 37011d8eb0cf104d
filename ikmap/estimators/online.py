"""Online learners with the interface of scikit-learn, on cells, one-hot CSR, dense and CSR rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

import numpy as np
import scipy.sparse as sp
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import (
    check_is_fitted,
)

from ikmap.cells import Cells
from ikmap.estimators.base import CellClassifier, ClassWeight
from ikmap.estimators.parameters import check_whole_number
from ikmap.learners.online.ogd import OGDState, ogd_divisor
from ikmap.learners.rows import Rows
from ikmap.seeds import generator


class CellOGDClassifier(CellClassifier):
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
        if not isinstance(self.class_weight, str | Mapping):
            raise ValueError(f"class_weight must be a dict, 'balanced' or None, got {self.class_weight!r}")
        weight = self.class_weight if isinstance(self.class_weight, str) else dict(self.class_weight)
        by_class = compute_class_weight(weight, classes=self.classes_, y=y, sample_weight=sample_weight)
        by_row = by_class[self._encode(y)]
        return by_row if sample_weight is None else by_row * sample_weight

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Start afresh and learn from the rows in order, ``n_epochs`` times."""
        ogd_divisor(np.empty((0, 0)), self.scale)
        check_whole_number("n_epochs", self.n_epochs)
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
        return self._public(self.state_.decision_function(self._state_rows(self._rows(X, reset=False))))

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
