"""scikit-learn interface of Mondrian trees: the map to cells, and ridge regression that finds the lifetime."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ikmap.estimators.cell_map import CellMap
from ikmap.estimators.parameters import check_whole_number
from ikmap.learners.sweeps.memory import free_memory, longest_sweep, sweep_bytes
from ikmap.learners.sweeps.posterior import posterior
from ikmap.learners.sweeps.ridge import RidgeSweep
from ikmap.methods.lifetime import MULTIPLES, typical_distance
from ikmap.methods.sample import Sample
from ikmap.partitioners.mondrian import MondrianPartitions, fit_mondrian
from ikmap.partitioners.mondrian_splits import mondrian_splits
from ikmap.seeds import generator

VALIDATION = 1_000_006
"""Seed path of the rows that lifetimes are compared on."""


class MondrianMap(CellMap):
    """Feature map whose inner products are about the Laplace kernel exp(-lifetime |x - y|_1), by Mondrian trees.

    Parameters
    ----------
    n_estimators : int, default=50
        Number M of trees.
    lifetime : float, default=1.0
        Inverse width of the kernel, > 0, in one over the unit of the columns: nothing is scaled.
    normalize : bool, default=True
        Entries of the transformed rows are 1/sqrt(M), so that inner products are kernel values; else 1.
    n_jobs : int or None, default=None
        Number of threads; None or a negative number means all usable cores.
    random_state : int, RandomState or None, default=None
        Seed. Results do not depend on the number of threads or on how rows are grouped in calls.

    Attributes
    ----------
    partitions_ : MondrianPartitions
    n_features_in_ : int

    Notes
    -----
    A new row has no cell in trees whose cells it would have been cut off from. Source: Balog, Lakshminarayanan,
    Ghahramani, Roy and Teh, The Mondrian Kernel; algorithms.md, section 12.

    Examples
    --------
    >>> import numpy as np
    >>> from ikmap import MondrianMap
    >>> X = np.array([[0.0, 0.0], [0.1, 0.2], [0.9, 0.5]])
    >>> mondrian = MondrianMap(n_estimators=2000, lifetime=2.0, random_state=0).fit(X[:2])
    >>> bool(abs(mondrian.kernel(X[:2])[0, 1] - np.exp(-0.6)) < 0.04)
    True
    >>> len(mondrian.partial_fit(X[2:]).cells(X))
    3
    """

    def __init__(
        self,
        n_estimators: int = 50,
        lifetime: float = 1.0,
        *,
        normalize: bool = True,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.lifetime = lifetime
        self.normalize = normalize
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Grow the trees.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (n, d)
        y : ignored

        Raises
        ------
        ValueError
            If a parameter is out of range, or an entry is not finite.
        """
        rows = self._rows(X, reset=True)
        trees, lifetime = check_whole_number("n_estimators", self.n_estimators), _positive("lifetime", self.lifetime)
        self.partitions_ = fit_mondrian(rows, trees, lifetime, self._seed, n_threads=self._n_threads)
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Let the trees grow by more rows, one after the other; what was known keeps its cells.

        Columns of the transformed rows move, as cells come to be in every tree. The result depends on the seed and on
        the order of the rows, not on how they are cut into calls after the first, which is :meth:`fit`.
        """
        if not hasattr(self, "partitions_"):
            return self.fit(X, y)
        assert isinstance(self.partitions_, MondrianPartitions)
        self.partitions_, _ = self.partitions_.extended(self._rows(X, reset=False), self._n_threads)
        return self


class MondrianRegressor(RegressorMixin, BaseEstimator):
    """Ridge regression on the cells of Mondrian trees, whose lifetime one sweep finds.

    Parameters
    ----------
    n_estimators : int, default=50
        Number M of trees.
    lifetime : float or "auto", default="auto"
        Inverse width of the Laplace kernel that the trees approximate, > 0, in one over the unit of the columns.
    alpha : float, default=1e-2
        Weight of the squared norm of the weights, > 0: the variance of the noise, where weights have variance 1.
    select : {"validation", "likelihood"}, default="validation"
        What "auto" goes by: the error on a tenth of the rows, or the marginal likelihood of all.
    terminal : float or "auto", default="auto"
        Lifetime up to which the sweep goes; "auto": eight over the typical distance of two rows.
    n_jobs : int or None, default=None
        Number of threads; None or a negative number means all usable cores.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    lifetime_ : float
    partitions_ : MondrianPartitions
    coef_ : ndarray of float64, shape (number of cells,)
    intercept_ : float
        The mean of the targets.
    lifetimes_, validation_errors_, log_likelihoods_, posterior_ : ndarrays
        The curve of the sweep: at each checkpoint the mean squared error on rows that were left out ("validation"
        only), the log marginal likelihood, and the posterior probability under a uniform prior. Of a sweep only.
    n_features_in_ : int

    Notes
    -----
    Memory for the square of the number of rows, or of cells, whichever is less. Source: The Mondrian Kernel, section 3
    and supplement B; algorithms.md, section 12.4.

    Examples
    --------
    >>> import numpy as np
    >>> from ikmap import MondrianRegressor
    >>> X = np.random.default_rng(0).random((300, 2))
    >>> y = np.sin(6 * X[:, 0]) + X[:, 1]
    >>> model = MondrianRegressor(random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    >>> mean, std = model.predict(X[:3], return_std=True)
    >>> bool((std > 0).all())
    True
    """

    def __init__(
        self,
        n_estimators: int = 50,
        lifetime: float | str = "auto",
        alpha: float = 1e-2,
        *,
        select: str = "validation",
        terminal: float | str = "auto",
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.lifetime = lifetime
        self.alpha = alpha
        self.select = select
        self.terminal = terminal
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Find the lifetime, and fit at it on all rows.

        Parameters
        ----------
        X : array-like, shape (n, d)
        y : array-like, shape (n,)

        Raises
        ------
        ValueError
            If a parameter is out of range, or an entry is not finite; or if memory does not suffice: the message says
            for which lifetime it would.
        """
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        y = np.asarray(y, dtype=np.float64)
        alpha, trees = _positive("alpha", self.alpha), check_whole_number("n_estimators", self.n_estimators)
        if self.select not in ("validation", "likelihood"):
            raise ValueError(f"select must be validation or likelihood, got {self.select!r}")
        seed = self.random_state
        self._seed = int(
            seed if isinstance(seed, (int, np.integer)) else check_random_state(seed).randint(2**31 - 1)
        )  # fmt: skip
        self.intercept_ = float(y.mean())
        if self.lifetime == "auto":
            self.lifetime_ = self._swept(X, y, alpha, trees)
        else:
            self.lifetime_ = _positive("lifetime", self.lifetime)
        self.partitions_ = fit_mondrian(X, trees, self.lifetime_, self._seed, n_threads=self._n_threads)
        _refuse_too_large(self.partitions_, len(X), "lifetime")
        self._cells = self.partitions_.cells(X, self._n_threads)
        sweep = RidgeSweep([self._cells], y - self.intercept_, alpha)
        self.coef_ = sweep.solved().weights
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predictions of rows, shape (n,); with `return_std` also their standard deviation, noise included.

        That is of the posterior of the Gaussian process whose kernel the trees approximate.
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        cells = self.partitions_.cells(X, self._n_threads)
        columns = cells.columns()
        found = np.where(columns >= 0, self.coef_[columns], 0.0).sum(axis=1) / np.sqrt(cells.n_partitions)
        mean = found + self.intercept_
        if not return_std:
            return mean
        sweep = RidgeSweep([self._cells, cells], np.zeros(len(self._cells)), float(self.alpha))
        return mean, np.sqrt(np.maximum(sweep.variances(), 0.0) + float(self.alpha))

    def _swept(self, X: np.ndarray, y: np.ndarray, alpha: float, trees: int) -> float:
        limit = self.terminal
        if limit == "auto":
            limit = MULTIPLES[-1] / typical_distance(Sample(len(X), X.shape[1], None, X.__getitem__, self._seed))
        limit = _positive("terminal", limit)
        left_out = np.zeros(len(X), dtype=bool)
        if self.select == "validation":
            if len(X) < 2:
                raise ValueError(f"found n_samples={len(X)}, expected at least 2 rows to compare lifetimes on")
            drawn = generator(self._seed, VALIDATION).permutation(len(X))[: max(1, len(X) // 10)]
            left_out[drawn] = True
        inside = X[~left_out]
        model = fit_mondrian(inside, trees, limit, self._seed, n_threads=self._n_threads)
        _refuse_too_large(model, len(inside), "terminal")
        start, splits = mondrian_splits(model, [inside, X[left_out]], self._n_threads)
        shift = float(y[~left_out].mean())
        sweep = RidgeSweep(start, y[~left_out] - shift, alpha)
        lifetimes, errors, likelihoods = [], [], []
        for point in sweep.follow(splits):
            lifetimes.append(point.value)
            likelihoods.append(point.log_likelihood)
            if left_out.any():
                errors.append(float(np.mean((sweep.decisions(point) + shift - y[left_out]) ** 2)))
        if not lifetimes:  # nothing to cut, or it comes too late
            same = not np.ptp(X, axis=0).any()
            warnings.warn(
                "all columns are constant: every prediction is the mean of the targets; give columns that differ"
                if same
                else f"no cell splits up to the lifetime {limit:g}: give a larger terminal",
                stacklevel=3,
            )
            return limit
        self.lifetimes_, self.log_likelihoods_ = np.array(lifetimes), np.array(likelihoods)
        self.posterior_ = posterior(lifetimes, likelihoods, limit)
        self.validation_errors_ = np.array(errors)
        at = int(np.argmin(errors) if errors else np.argmax(likelihoods))
        if at == len(lifetimes) - 1 and at > 0:
            warnings.warn(
                f"the best lifetime, {lifetimes[at]:g}, is the last of the sweep: give a larger terminal", stacklevel=3
            )
        elif at == 0 and len(lifetimes) > 1:
            warnings.warn(
                f"the best lifetime, {lifetimes[at]:g}, is the first of the sweep, where hardly any cell has split: "
                "the columns tell little of the targets, or give a larger n_estimators",
                stacklevel=3,
            )
        return lifetimes[at]

    @property
    def _n_threads(self) -> int | None:
        return None if self.n_jobs is None or self.n_jobs < 0 else self.n_jobs


def _refuse_too_large(model: MondrianPartitions, n_rows: int, option: str) -> None:
    """Refuse trees on whose cells ridge regression has no room, and say which ones would fit."""
    n_columns, free = int(model.offsets[-1]), free_memory()
    needed = sweep_bytes(n_rows, n_columns)
    if free is None or needed <= free:
        return
    longest = longest_sweep(model.n_partitions, np.sort(model.times[model.features >= 0]), free)
    less = f"{option}={longest:.6g}" if longest > 0.0 else "a smaller n_estimators"
    raise ValueError(
        f"{option} {model.lifetime:g}: {n_columns:,} cells and {n_rows:,} rows would need {needed / 1e9:.3g} GB for "
        f"exact ridge regression, found {free / 1e9:.3g} GB free; give {less}, or fewer rows"
    )


def _positive(name: str, value: Any) -> float:
    if isinstance(value, (bool, str)) or not 0.0 < float(value) < np.inf:
        raise ValueError(f"{name} must be a number above 0, got {value!r}")
    return float(value)
