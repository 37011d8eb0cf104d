"""Online regression with the interface of scikit-learn, on cells, one-hot CSR, dense and CSR rows."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import _check_y, check_is_fitted

from ikmap.cells import Cells
from ikmap.estimators.base import CellEstimator
from ikmap.estimators.parameters import check_whole_number
from ikmap.learners.online.ogd import ogd_divisor
from ikmap.learners.online.squared_ogd import SquaredOGDState
from ikmap.learners.rows import Rows, n_rows
from ikmap.seeds import generator


class CellOGDRegressor(RegressorMixin, CellEstimator):
    """Online gradient descent on squared errors, as ``--learner ogd --task regression``.

    The intercept is the mean of the targets seen so far. Each row then moves the weights by ``eta`` times what is left
    of its error. Takes :class:`~ikmap.cells.Cells` and one-hot CSR (as the maps' ``transform`` gives), which are worked
    on as integers, and other dense or CSR rows, which should be scaled to norms of about 1.

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
        random_state: Any = 0,
    ) -> None:
        self.eta = eta
        self.scale = scale
        self.n_epochs = n_epochs
        self.shuffle = shuffle
        self.random_state = random_state

    def _value_of(self, cells: Cells) -> float:
        return float(1.0 / np.sqrt(ogd_divisor(cells, self.scale)))

    def _rows_and_targets(self, X: Any, y: Any, reset: bool) -> tuple[Rows, np.ndarray]:
        ogd_divisor(np.empty((0, 0)), self.scale)
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        rows = self._rows(X, reset)
        y = _check_y(y, y_numeric=True, estimator=self).astype(np.float64)
        check_consistent_length(np.empty(n_rows(rows)), y)
        return rows, y

    def _start(self, rows: Rows) -> None:
        if isinstance(rows, Cells):
            divisor = 1.0 / self.cell_value_**2
            if abs(divisor - round(divisor)) <= 1e-12 * divisor:
                divisor = float(round(divisor))  # t itself, where the value is 1/sqrt(t)
            self.state_ = SquaredOGDState.start(rows.offsets, self.eta, divisor)
        else:
            self.state_ = SquaredOGDState.start_on_rows(self.n_features_in_, self.eta)

    def _learn(self, rows: Rows, y: np.ndarray) -> None:
        # One-hot rows become cells again if they have the entries of the first; those that do not, after cells, cannot.
        if isinstance(rows, Cells) != self.on_cells_:
            raise ValueError("rows that are not one-hot cannot follow one-hot rows: give the kind of the first call")
        self.state_.partial_fit(rows, y)

    def fit(self, X: Any, y: Any) -> Self:
        """Start afresh and learn from the rows in order, ``n_epochs`` times.

        Raises
        ------
        ValueError
            A parameter is out of range, or rows or targets are not valid.
        """
        check_whole_number("n_epochs", self.n_epochs)
        rows, y = self._rows_and_targets(X, y, reset=True)
        self._start(rows)
        seed = self._seed(self.random_state)
        for epoch in range(self.n_epochs):
            if self.shuffle:
                order = generator(seed, epoch).permutation(y.size)
                self._learn(rows[order], y[order])
            else:
                self._learn(rows, y)
        self.n_iter_ = self.n_epochs
        return self

    def partial_fit(self, X: Any, y: Any) -> Self:
        """Learn from more rows, in order; the first call starts.

        Parameters
        ----------
        X : Cells, dense array or sparse matrix, n rows
        y : array-like of finite numbers, shape (n,)

        Raises
        ------
        ValueError
            Rows or targets are not valid, or rows of another kind than before; nothing has been learned then.
        """
        first = not hasattr(self, "state_")
        rows, y = self._rows_and_targets(X, y, reset=first)
        if first:
            self._start(rows)
        self._learn(rows, y)
        self.n_iter_ = 1
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Predictions, shape (n,), of Cells, a dense array or a sparse matrix of n rows."""
        check_is_fitted(self)
        rows = self._rows(X, reset=False)
        if isinstance(rows, Cells) == self.on_cells_:
            found: np.ndarray = self.state_.decision_function(rows)[:, 0]
            return found
        return np.asarray(rows @ self.coef_).ravel() + self.intercept_

    @property
    def coef_(self) -> np.ndarray:
        """Weights on the features as given."""
        check_is_fitted(self)
        return self.state_.weights * self.cell_value_

    @property
    def intercept_(self) -> float:
        """The mean of the targets seen."""
        check_is_fitted(self)
        return self.state_.intercept
