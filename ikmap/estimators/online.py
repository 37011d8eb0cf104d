"""Bases of estimators that learn row after row."""

from __future__ import annotations

from typing import Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from ikmap import seed_paths
from ikmap.arrays import Array, Floats
from ikmap.cells import Cells
from ikmap.estimators.base import CellEstimator, Classifier, Regressor, Supervised, Table
from ikmap.estimators.parameters import COUNT, checked
from ikmap.learners.rows import Rows, n_rows
from ikmap.seeds import generator


class OnlineEstimator(CellEstimator, Supervised):
    """Base of estimators whose state learns from one row after the other.

    Attributes
    ----------
    state_ : object
    n_iter_ : int
        Passes that ``fit`` made.
    """

    n_epochs: int
    shuffle: bool
    n_iter_: int

    @property
    def _is_new(self) -> bool:
        return not hasattr(self, "state_")

    def _state_rows(self, rows: Rows) -> Rows:
        """Return the rows in the units of the state, in which cells count 1; dense rows must be of the first kind."""
        if isinstance(rows, Cells) or not self.on_cells_ or not sp.issparse(rows):
            return self._same_kind(rows)
        return rows / self.cell_value_

    def _learn(self, rows: Rows, *targets: Array | None, epochs: int = 1, shuffle: bool = False) -> None:
        """Learn from the rows with their targets and weights, so many times."""
        rows, seed = self._state_rows(rows), self._draw_seed() if shuffle else 0
        for epoch in range(epochs):
            if shuffle:
                order = generator(seed, seed_paths.EPOCHS, epoch).permutation(n_rows(rows))
                self.state_.partial_fit(rows[order], *(None if part is None else part[order] for part in targets))
            else:
                self.state_.partial_fit(rows, *targets)
        self.n_iter_ = epochs

    def _learn_all(self, rows: Rows, *targets: Array | None) -> None:
        """Learn from the rows as ``fit`` does."""
        self._learn(rows, *targets, epochs=checked("n_epochs", self.n_epochs, COUNT), shuffle=self.shuffle)

    def _decisions(self, rows: Rows) -> Floats:
        decisions: Floats = self.state_.decision_function(self._state_rows(rows))
        return decisions


class OnlineClassifier(Classifier, OnlineEstimator):
    """Base of online classifiers, one against the rest."""

    def _start(self, rows: Rows) -> None:
        """Make the state before the first row."""
        raise NotImplementedError

    def _weights(self, labels: Array, sample_weight: Floats | None) -> tuple[Floats | None, ...]:  # noqa: ARG002
        """Return what the state takes beside rows and class numbers."""
        return ()

    def _fit(self, X: Table, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        rows, labels, weight = self._training(X, y, sample_weight)
        self._set_classes(labels)
        self._start(rows)
        self._learn_all(rows, self._encode(labels), *self._weights(labels, weight))
        return self

    def _fit_more(
        self, X: Table, y: ArrayLike, classes: ArrayLike | None, sample_weight: ArrayLike | None = None
    ) -> Self:
        first = self._is_new
        if first and classes is None:
            raise ValueError("classes must be passed in the first call to partial_fit")
        rows, labels, weight = self._training(X, y, sample_weight, reset=first)
        if first and classes is not None:
            self._set_classes(classes)
            self._start(rows)
        elif classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(f"classes {np.unique(classes)} are not those of the first call, {self.classes_}")
        self._learn(rows, self._encode(labels), *self._weights(labels, weight))
        return self


class OnlineRegressor(Regressor, OnlineEstimator):
    """Base of online regressors."""

    def _start(self, rows: Rows, y: Floats) -> None:
        """Make the state before the first row; `y` are the targets of the first call."""
        raise NotImplementedError

    def fit(self, X: Table, y: ArrayLike) -> Self:
        """Start afresh and learn from the rows in order, ``n_epochs`` times.

        Parameters
        ----------
        X : array-like, sparse matrix, DataFrame or Cells, n rows
        y : array-like of finite numbers, shape (n,)

        Raises
        ------
        ValueError
            A parameter is out of range, or rows or targets are not valid.
        """
        rows, targets, _ = self._training(X, y)
        self._start(rows, targets)
        self._learn_all(rows, targets)
        return self

    def partial_fit(self, X: Table, y: ArrayLike) -> Self:
        """Learn from more rows, in order; the first call starts.

        Raises
        ------
        ValueError
            Rows or targets are not valid, or rows of another kind than before; nothing has been learned then.
        """
        first = self._is_new
        rows, targets, _ = self._training(X, y, reset=first)
        if first:
            self._start(rows, targets)
        self._learn(rows, targets)
        return self
