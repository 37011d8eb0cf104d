"""Online quantile regression with the interface of scikit-learn: quantiles and prediction intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ikmap.estimators.parameters import check_whole_number, subsample_size
from ikmap.learners.online.quantile_ogd import QuantileOGDState, middle_of
from ikmap.partitioners import draw_subsamples, fit_iforest, fit_voronoi
from ikmap.rows import as_rows

METHODS = ("iforest", "anne")
MOST_CELLS, ROWS_PER_CELL = 128, 4


class IsolationQuantileRegressor(RegressorMixin, BaseEstimator):
    """Several quantiles of a target, learned row after row on the cells of random partitionings.

    As ``--learner quantile``: steps on the pinball loss of each quantile (:mod:`ikmap.learners.online.quantile_ogd`).

    Parameters
    ----------
    quantiles : sequence of float, default=(0.05, 0.5, 0.95)
        Ascending, in (0, 1). The one next to a half, of two the lower one, is what :meth:`predict` returns.
    eta : float, default=0.5
        Step size, > 0, whatever the scale of the target.
    method : {"iforest", "anne"}, default="iforest"
        Cells: leaves of random trees, or Voronoi cells around the points of a subsample.
    n_estimators : int, default=100
        Number t of partitionings.
    max_samples : int or "auto", default="auto"
        Size psi of each subsample; "auto" takes 128, but no more than a quarter of the rows of the first call.
    n_jobs : int or None, default=None
        Number of threads; None or a negative number means all usable cores.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    partitions_ : IForestPartitions or VoronoiPartitions
        Of the rows of ``fit``, or of the first ``partial_fit``.
    state_ : QuantileOGDState
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from ikmap import IsolationQuantileRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((4000, 1))
    >>> y = X[:, 0] * rng.random(4000)
    >>> model = IsolationQuantileRegressor(random_state=0).fit(X, y)
    >>> low, middle, high = model.predict_quantiles([[0.8]])[0]
    >>> bool(0.0 < low < 0.2 < middle < 0.6 < high < 0.9)
    True
    """

    def __init__(
        self,
        quantiles: Sequence[float] = (0.05, 0.5, 0.95),
        *,
        eta: float = 0.5,
        method: str = "iforest",
        n_estimators: int = 100,
        max_samples: int | str = "auto",
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.quantiles = quantiles
        self.eta = eta
        self.method = method
        self.n_estimators = n_estimators
        self.max_samples = max_samples
        self.n_jobs = n_jobs
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def fit(self, X: Any, y: Any) -> Self:
        """Draw the partitionings and learn from the rows, in order.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (n, d)
        y : array-like of finite numbers, shape (n,)

        Raises
        ------
        ValueError
            A parameter is out of range, or rows or targets are not valid.
        """
        return self._learn(X, y, first=True)

    def partial_fit(self, X: Any, y: Any) -> Self:
        """Learn from more rows, in order; the first call draws the partitionings from its rows.

        Raises
        ------
        ValueError
            As :meth:`fit`; nothing has been learned then.
        """
        return self._learn(X, y, first=not hasattr(self, "state_"))

    def _learn(self, X: Any, y: Any, first: bool) -> Self:
        if self.method not in METHODS:
            raise ValueError(f"method must be one of {', '.join(METHODS)}, got {self.method!r}")
        given: Any = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, reset=first, y_numeric=True)
        rows, targets = as_rows(given[0]), np.asarray(given[1], dtype=np.float64)
        if first:
            n, seed = rows.shape[0], self.random_state
            t = check_whole_number("n_estimators", self.n_estimators)
            psi = subsample_size(self.max_samples, n, max(1, min(MOST_CELLS, n // ROWS_PER_CELL)))
            if not isinstance(seed, (int, np.integer)):
                seed = check_random_state(seed).randint(2**31 - 1)
            draws = draw_subsamples(n, t, psi, int(seed))
            if self.method == "iforest":
                partitions: Any = fit_iforest(rows, draws, int(seed), n_threads=self._threads)
            else:
                partitions = fit_voronoi(rows, draws)
            self.state_ = QuantileOGDState.start(partitions.offsets, list(self.quantiles), self.eta)
            self.partitions_ = partitions
        self.state_.partial_fit(self.partitions_.cells(rows, self._threads).packed(), targets)
        return self

    def predict_quantiles(self, X: Any) -> np.ndarray:
        """All quantiles of each row, in order, shape (n, len(quantiles)): any that cross are sorted."""
        check_is_fitted(self)
        rows = as_rows(validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False))
        found: np.ndarray = np.sort(
            self.state_.decision_function(self.partitions_.cells(rows, self._threads).packed()), axis=1
        )
        return found

    def predict(self, X: Any) -> np.ndarray:
        """The quantile next to a half of each row, shape (n,)."""
        found: np.ndarray = np.ascontiguousarray(self.predict_quantiles(X)[:, middle_of(self.state_.levels)])
        return found

    @property
    def _threads(self) -> int | None:
        return self.n_jobs if self.n_jobs is not None and self.n_jobs > 0 else None
