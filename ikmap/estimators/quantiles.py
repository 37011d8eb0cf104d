"""A scikit-learn estimator of online quantile regression: quantiles and prediction intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from ikmap.arrays import Floats
from ikmap.estimators.base import RandomState, Regressor, Table
from ikmap.estimators.cell_map import Partitioned
from ikmap.estimators.parameters import subsample_size
from ikmap.learners.online.quantile_ogd import QuantileOGDState
from ikmap.methods.anne import Anne
from ikmap.methods.iforest import IForest
from ikmap.methods.quantile import Quantile
from ikmap.quantiles import middle_of

MOST_CELLS, ROWS_PER_CELL = 128, 4


class IsolationQuantileRegressor(Regressor, Partitioned):
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

    methods = (IForest, Anne, Quantile)

    def __init__(
        self,
        quantiles: Sequence[float] = (0.05, 0.5, 0.95),
        *,
        eta: float = 0.5,
        method: str = "iforest",
        n_estimators: int = 100,
        max_samples: int | str = "auto",
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.quantiles = quantiles
        self.eta = eta
        self.method = method
        self.n_estimators = n_estimators
        self.max_samples = max_samples
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Table, y: ArrayLike) -> Self:
        """Draw the partitionings and learn from the rows, in order.

        Parameters
        ----------
        X : array-like, sparse matrix or DataFrame, shape (n, d)
        y : array-like of finite numbers, shape (n,)

        Raises
        ------
        ValueError
            A parameter is out of range, or rows or targets are not valid.
        """
        return self._learn(X, y, first=True)

    def partial_fit(self, X: Table, y: ArrayLike) -> Self:
        """Learn from more rows, in order; the first call draws the partitionings from its rows.

        Raises
        ------
        ValueError
            As :meth:`fit`; nothing has been learned then.
        """
        return self._learn(X, y, first=not hasattr(self, "state_"))

    def _learn(self, X: Table, y: ArrayLike, first: bool) -> Self:
        kind = self._check_method(self.method)
        quantile = self._method(Quantile, quantiles=list(self.quantiles))
        rows, targets, _ = self._training(X, y, reset=first)
        if first:
            n = targets.size
            psi = subsample_size(self.max_samples, n, max(1, min(MOST_CELLS, n // ROWS_PER_CELL)))
            self.partitions_ = self._draw(kind, rows, psi, self._draw_seed())
            self.state_ = QuantileOGDState.start(self.partitions_.offsets, quantile.levels, quantile.eta)
        self.state_.partial_fit(self.partitions_.cells(rows, self._n_threads).packed(), targets)
        return self

    def predict_quantiles(self, X: Table) -> Floats:
        """Return all quantiles of each row, in order, shape (n, len(quantiles)): any that cross are sorted."""
        cells = self._map(X).packed()
        return np.sort(self.state_.decision_function(cells), axis=1)

    def predict(self, X: Table) -> Floats:
        """Return the quantile next to a half of each row, shape (n,)."""
        return np.ascontiguousarray(self.predict_quantiles(X)[:, middle_of(self.state_.levels)])
