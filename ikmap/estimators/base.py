"""What classifiers and regressors share: every kind of input becomes rows that learners take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_consistent_length
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    _check_y,
    check_random_state,
    validate_data,
)

from ikmap.cells import Cells
from ikmap.learners.linear_model import decision_to_index
from ikmap.learners.rows import Rows, check_rows, n_rows

type ClassWeight = Mapping[Any, float] | Literal["balanced"] | None


class CellEstimator(BaseEstimator):
    """Input handling: everything becomes rows that learners take."""

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
            return X.packed()
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

    def _seed(self, random_state: Any) -> int:
        if isinstance(random_state, (int, np.integer)):
            return int(random_state)
        return int(check_random_state(random_state).randint(2**31 - 1))


class CellClassifier(ClassifierMixin, CellEstimator):
    """Labels and decisions, shared by the classifiers."""

    classes_: np.ndarray

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

    def decision_function(self, X: Any) -> np.ndarray:
        """Decision values: shape (n,) for two classes, else (n, n_classes)."""
        raise NotImplementedError

    def _public(self, decision: np.ndarray) -> np.ndarray:
        """Decisions, shape (n, K), in the shape that scikit-learn has for two classes."""
        return decision[:, 0] if decision.shape[1] == 1 else decision

    def predict(self, X: Any) -> np.ndarray:
        """Class label of every row; 0 counts as positive, ties go to the first class."""
        decision = self.decision_function(X)
        return self.classes_[decision_to_index(decision)]
