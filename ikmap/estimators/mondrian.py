"""scikit-learn estimators on Mondrian trees: the map to cells, ridge regression, online ridge regression, a forest."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal, Self, overload

import numpy as np
from numpy.typing import ArrayLike

from ikmap import seed_paths
from ikmap.arrays import Floats
from ikmap.cells import Cells
from ikmap.estimators.base import RandomState, Regressor, Table
from ikmap.estimators.cell_map import CellMap, Partitioned
from ikmap.estimators.parameters import POSITIVE, checked
from ikmap.learners.linear_model import LinearModel
from ikmap.learners.ridge.conjugate_gradients import Problem
from ikmap.learners.ridge.online_ridge import OnlineRidge
from ikmap.learners.ridge.ridge import fit_ridge
from ikmap.learners.rows import Block
from ikmap.learners.sweeps.gradient import GradientSettings, GradientSweep
from ikmap.learners.sweeps.memory import free_memory, longest_sweep, sweep_bytes
from ikmap.learners.sweeps.posterior import posterior
from ikmap.learners.sweeps.ridge import RidgeSweep
from ikmap.methods import Sample, Training
from ikmap.methods.kinds import Choice
from ikmap.methods.lifetime import MULTIPLES, typical_distance
from ikmap.methods.mondrian import Mondrian
from ikmap.methods.mondrian_forest import MondrianForest
from ikmap.methods.online_ridge import OnlineRidgeRegression
from ikmap.methods.ridge import Ridge
from ikmap.methods.sweeping import EXACT_ROWS
from ikmap.partitioners import MondrianPartitions
from ikmap.partitioners.mondrian import mondrian_splits
from ikmap.rows import Rows, as_dense
from ikmap.seeds import generator
from ikmap.splits import CellSplit


class OnTrees(Partitioned):
    """Base of estimators on Mondrian trees.

    Attributes
    ----------
    partitions_ : MondrianPartitions
    """

    partitions_: MondrianPartitions

    def _grow(self, rows: Rows, lifetime: object, seed: int, trees: str = "lifetime") -> MondrianPartitions:
        """Return trees of that lifetime on the rows; `trees` is the parameter that gives it, for messages."""
        checked(trees, lifetime, POSITIVE)
        grown = self._method(Mondrian, lifetime=lifetime)
        partitions = grown.fit(Sample(rows.shape[0], rows.shape[1], None, rows.__getitem__, seed), self._n_threads)
        assert isinstance(partitions, MondrianPartitions)
        return partitions


class MondrianMap(CellMap, OnTrees):
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

    methods = (Mondrian,)

    def __init__(
        self,
        n_estimators: int = 50,
        lifetime: float = 1.0,
        *,
        normalize: bool = True,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.lifetime = lifetime
        self.normalize = normalize
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _fit(self, rows: Rows) -> None:
        self.partitions_ = self._grow(rows, self.lifetime, self._draw_seed())

    def partial_fit(self, X: Table, y: ArrayLike | None = None) -> Self:
        """Let the trees grow by more rows, one after the other; what was known keeps its cells.

        Columns of the transformed rows move, as cells come to be in every tree. The result depends on the seed and on
        the order of the rows, not on how they are cut into calls after the first, which is :meth:`fit`.
        """
        if not hasattr(self, "partitions_"):
            return self.fit(X, y)
        self.partitions_, _ = self.partitions_.extended(self._rows(X, reset=False), self._n_threads)
        return self


class MondrianRegressor(Regressor, OnTrees):
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
    sweep_by : {"exact", "sgd", "auto"}, default="exact"
        How the sweep and the fit solve ridge regression: "exact" takes memory for the square of the number of rows, or
        of cells, whichever is less; "sgd" follows the sweep by stochastic gradient descent and fits by conjugate
        gradients, for any number of rows; "auto" is "exact" for up to 3000 rows.
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
        The mean of the targets; with "sgd", the intercept that was fitted.
    alpha_ : float
    lifetimes_, validation_errors_, log_likelihoods_, posterior_ : ndarrays
        The curve of the sweep: at each checkpoint the mean squared error on rows that were left out ("validation"
        only), the log marginal likelihood, and the posterior probability under a uniform prior. Of a sweep only.
    n_features_in_ : int

    Notes
    -----
    With "sgd" there is no likelihood and no standard deviation of predictions. Source: The Mondrian Kernel, sections 3
    and 4 and supplement B; algorithms.md, section 12.4.

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

    methods = (Mondrian, Ridge)

    def __init__(
        self,
        n_estimators: int = 50,
        lifetime: float | Literal["auto"] = "auto",
        alpha: float = 1e-2,
        *,
        select: Literal["validation", "likelihood"] = "validation",
        sweep_by: Literal["exact", "sgd", "auto"] = "exact",
        terminal: float | Literal["auto"] = "auto",
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.lifetime = lifetime
        self.alpha = alpha
        self.select = select
        self.sweep_by = sweep_by
        self.terminal = terminal
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Table, y: ArrayLike) -> Self:
        """Find the lifetime, and fit at it on all rows.

        Parameters
        ----------
        X : array-like, sparse matrix or DataFrame, shape (n, d)
        y : array-like, shape (n,)

        Raises
        ------
        ValueError
            If a parameter is out of range, or an entry is not finite; or if memory does not suffice: the message says
            for which lifetime it would.
        """
        alpha = checked("alpha", self.alpha, POSITIVE)
        for name in ("lifetimes_", "validation_errors_", "log_likelihoods_", "posterior_"):
            self.__dict__.pop(name, None)  # of an earlier fit, which swept
        checked("select", self.select, Choice(("validation", "likelihood")))
        by = self._method(Ridge).sweep_by
        rows, targets, _ = self._training(X, y)
        self._exact = by == "exact" or (by == "auto" and len(targets) <= EXACT_ROWS)
        if self.select == "likelihood" and not self._exact:
            raise ValueError("select: found 'likelihood' with sweep_by sgd, expected validation, or sweep_by exact")
        seed = self._draw_seed()
        self.alpha_, self.intercept_ = float(alpha), float(targets.mean())
        self.lifetime_ = self.lifetime if self.lifetime != "auto" else self._swept(rows, targets, alpha, seed)
        self.partitions_ = self._grow(rows, self.lifetime_, seed)
        if self._exact:
            _refuse_too_large(self.partitions_, len(targets), "lifetime")
        self._cells = self.partitions_.cells(rows, self._n_threads)
        if self._exact:
            self.coef_ = RidgeSweep([self._cells], targets - self.intercept_, alpha).solved().weights
        else:
            problem = Problem(float(alpha), value=1.0 / np.sqrt(self._cells.n_partitions))
            fit = fit_ridge([Block(self._cells, targets)], problem, self._n_threads)
            self.coef_, self.intercept_ = fit.coef, fit.intercept
        return self

    @overload
    def predict(self, X: Table, return_std: Literal[False] = False) -> Floats: ...

    @overload
    def predict(self, X: Table, return_std: Literal[True]) -> tuple[Floats, Floats]: ...

    def predict(self, X: Table, return_std: bool = False) -> Floats | tuple[Floats, Floats]:
        """Return predictions of rows, shape (n,); with `return_std` also their standard deviation, noise included.

        That is of the posterior of the Gaussian process whose kernel the trees approximate.
        """
        if return_std and not getattr(self, "_exact", True):
            raise ValueError("return_std: found True with sweep_by sgd, expected sweep_by exact, which has a posterior")
        cells = self._map(X)
        columns = cells.columns()
        sums = np.where(columns >= 0, self.coef_[columns], 0.0).sum(axis=1) / np.sqrt(cells.n_partitions)
        mean: Floats = sums + self.intercept_
        if not return_std:
            return mean
        sweep = RidgeSweep([self._cells, cells], np.zeros(len(self._cells)), self.alpha_)
        return mean, np.sqrt(np.maximum(sweep.variances(), 0.0) + self.alpha_)

    def _swept(self, rows: Rows, y: Floats, alpha: float, seed: int) -> float:
        """Return the best lifetime of a sweep."""
        n, d = rows.shape
        limit = self.terminal
        if limit == "auto":
            limit = MULTIPLES[-1] / typical_distance(Sample(n, d, None, rows.__getitem__, seed))
        left_out = np.zeros(n, dtype=bool)
        if self.select == "validation":
            if n < 2:
                raise ValueError(f"found n_samples={n}, expected at least 2 rows to compare lifetimes on")
            left_out[generator(seed, seed_paths.VALIDATION).permutation(n)[: max(1, n // 10)]] = True
        inside = rows[~left_out]
        model = self._grow(inside, limit, seed, "terminal")
        if self._exact:
            _refuse_too_large(model, inside.shape[0], "terminal")
        start, splits = mondrian_splits(model, [inside, rows[left_out]], self._n_threads)
        shift = float(y[~left_out].mean())
        lifetimes, errors, likelihoods = [], [], []
        for lifetime, predicted, likelihood in self._curve(start, splits, y[~left_out] - shift, alpha, seed):
            lifetimes.append(lifetime)
            likelihoods.append(likelihood)
            if left_out.any():
                errors.append(float(np.mean((predicted() + shift - y[left_out]) ** 2)))
        if not lifetimes:  # nothing to cut, or it comes too late
            same = not np.ptp(as_dense(rows), axis=0).any()
            warnings.warn(
                "all columns are constant: every prediction is the mean of the targets; give columns that differ"
                if same
                else f"no cell splits up to the lifetime {limit:g}: give a larger terminal",
                stacklevel=3,
            )
            return limit
        self.lifetimes_, self.validation_errors_ = np.array(lifetimes), np.array(errors)
        if self._exact:
            self.log_likelihoods_ = np.array(likelihoods)
            self.posterior_ = posterior(lifetimes, likelihoods, limit)
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

    def _curve(
        self, start: list[Cells], splits: Iterator[CellSplit], y: Floats, alpha: float, seed: int
    ) -> Iterator[tuple[float, Callable[[], Floats], float]]:
        """Yield at each checkpoint of the sweep lifetime, what predicts the rows left out, and log likelihood."""
        if self._exact:
            exact = RidgeSweep(start, y, alpha)
            for point in exact.follow(splits):
                yield point.value, partial(exact.decisions, point), point.log_likelihood
            return
        descent = GradientSweep(start, y[:, None], GradientSettings("squared", 2 * alpha / len(y), seed=seed), None)
        for lifetime in descent.follow(splits):
            yield lifetime, lambda: descent.decisions()[:, 0], np.nan


class OnlineMondrianRegressor(Regressor, OnTrees):
    """Ridge regression on the cells of Mondrian trees that grow with the rows, exact after each row.

    Whatever the order in which rows come, the weights are those that ridge regression on all rows so far has on the
    trees as they are now.

    Parameters
    ----------
    n_estimators : int, default=10
        Number M of trees.
    lifetime : float, default=1.0
        Inverse width of the Laplace kernel that the trees approximate, > 0, in one over the unit of the columns.
    alpha : float, default=1e-2
        Weight of the squared norm of the weights, > 0.
    n_jobs : int or None, default=None
        Number of threads; None or a negative number means all usable cores.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    partitions_ : MondrianPartitions
    state_ : OnlineRidge
    n_features_in_ : int

    Notes
    -----
    Memory, and the time of each row, grow with the square of the number of cells of all trees. Source: The Mondrian
    Kernel, section 4; algorithms.md, sections 12.3 and 12.5.

    Examples
    --------
    >>> import numpy as np
    >>> from ikmap import OnlineMondrianRegressor
    >>> X = np.random.default_rng(0).random((300, 2))
    >>> y = np.sin(6 * X[:, 0]) + X[:, 1]
    >>> model = OnlineMondrianRegressor(lifetime=5.0, random_state=0).partial_fit(X[:100], y[:100])
    >>> bool(model.partial_fit(X[100:], y[100:]).score(X, y) > 0.9)
    True
    """

    methods = (Mondrian, OnlineRidgeRegression)

    def __init__(
        self,
        n_estimators: int = 10,
        lifetime: float = 1.0,
        alpha: float = 1e-2,
        *,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.lifetime = lifetime
        self.alpha = alpha
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Table, y: ArrayLike) -> Self:
        """Grow the trees on the rows, and learn from them in order.

        Parameters
        ----------
        X : array-like, sparse matrix or DataFrame, shape (n, d)
        y : array-like of finite numbers, shape (n,)

        Raises
        ------
        ValueError
            A parameter is out of range, or rows or targets are not valid.
        """
        alpha = checked("alpha", self.alpha, POSITIVE)
        rows, targets, _ = self._training(X, y)
        self.partitions_ = self._grow(rows, self.lifetime, self._draw_seed())
        self.state_ = OnlineRidge.start(self.partitions_.offsets, float(alpha))
        self.state_.partial_fit(self.partitions_.cells(rows, self._n_threads), targets)
        return self

    def partial_fit(self, X: Table, y: ArrayLike) -> Self:
        """Let the trees grow by more rows, and learn from them, in order; the first call is :meth:`fit`.

        Raises
        ------
        ValueError
            Rows or targets are not valid; nothing has been learned then.
        """
        if not hasattr(self, "state_"):
            return self.fit(X, y)
        rows, targets, _ = self._training(X, y, reset=False)
        before = self.partitions_.offsets
        self.partitions_, cells = self.partitions_.extended(rows, self._n_threads)
        if not np.array_equal(before, self.partitions_.offsets):
            self.state_.grow(before, self.partitions_.offsets)
        self.state_.partial_fit(cells, targets)
        return self

    def predict(self, X: Table) -> Floats:
        """Return the predictions, shape (n,)."""
        cells = self._map(X)
        return self.state_.decision_function(cells)[:, 0]


class MondrianForestRegressor(Regressor, OnTrees):
    """A Mondrian forest: each tree predicts the mean of the rows in a cell, and the forest the mean of the trees.

    Parameters
    ----------
    n_estimators : int, default=50
        Number of trees.
    lifetime : float, default=1.0
        Time at which the trees stop to grow, > 0, in one over the unit of the columns.
    alpha : float, default=1.0
        Means are shrunk to the mean of all targets as if so many more rows had that one, > 0.
    n_jobs : int or None, default=None
        Number of threads; None or a negative number means all usable cores.
    random_state : int, RandomState or None, default=None

    Attributes
    ----------
    partitions_ : MondrianPartitions
    model_ : LinearModel
    n_features_in_ : int

    Notes
    -----
    Source: The Mondrian Kernel, section 5; algorithms.md, section 12.6.

    Examples
    --------
    >>> import numpy as np
    >>> from ikmap import MondrianForestRegressor
    >>> X = np.random.default_rng(0).random((300, 2))
    >>> y = np.sin(6 * X[:, 0]) + X[:, 1]
    >>> model = MondrianForestRegressor(lifetime=10.0, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.8)
    True
    """

    methods = (Mondrian, MondrianForest)

    def __init__(
        self,
        n_estimators: int = 50,
        lifetime: float = 1.0,
        alpha: float = 1.0,
        *,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.lifetime = lifetime
        self.alpha = alpha
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Table, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Grow the trees, and find the mean of each cell.

        Parameters
        ----------
        X : array-like, sparse matrix or DataFrame, shape (n, d)
        y : array-like of finite numbers, shape (n,)
        sample_weight : array-like, shape (n,), optional
            Weights >= 0. The trees grow on all rows, whatever they weigh.

        Raises
        ------
        ValueError
            A parameter is out of range, or rows, targets or weights are not valid.
        """
        forest = self._method(MondrianForest, C=1 / (2 * checked("alpha", self.alpha, POSITIVE)))
        rows, targets, weight = self._training(X, y, sample_weight)
        seed = self._draw_seed()
        self.partitions_ = self._grow(rows, self.lifetime, seed)
        cells = self.partitions_.cells(rows, self._n_threads)
        model, _ = forest.fit(Training(Block(cells, targets, weight), [], seed, self._n_threads))
        assert isinstance(model, LinearModel)
        self.model_ = model
        return self

    def predict(self, X: Table) -> Floats:
        """Return the predictions, shape (n,)."""
        cells = self._map(X)
        return self.model_.decision_function(cells)[:, 0]


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
