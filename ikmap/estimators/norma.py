"""NORMA with the interface of scikit-learn: classes and numbers, on cells and one-hot CSR, row after row."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import _check_y, check_is_fitted

from ikmap.cells import Cells
from ikmap.estimators.base import CellClassifier, CellEstimator
from ikmap.estimators.parameters import check_whole_number
from ikmap.learners.online.norma import NormaState
from ikmap.learners.online.norma_rule import OF_CLASSES, OF_NUMBERS, NormaRule, usual_rule
from ikmap.learners.rows import Rows, n_rows
from ikmap.seeds import generator


class CellNorma(CellEstimator):
    """What the three have in common: passes over rows, and the state."""

    losses: tuple[str, ...]
    loss: str
    n_epochs: int
    shuffle: bool
    random_state: Any
    state_: NormaState
    n_iter_: int

    def _value_of(self, cells: Cells) -> float:
        return float(1.0 / np.sqrt(cells.n_partitions))

    def _rule(self) -> NormaRule:
        if self.loss not in self.losses:
            raise ValueError(f"loss: found {self.loss!r}, expected one of {', '.join(self.losses)}")
        names = "nu", "eta", "decreasing", "regularization", "offset", "threshold", "clip_rho", "average"
        return usual_rule(self.loss, **{name: getattr(self, name) for name in names})

    def _start(self, rows: Rows, rule: NormaRule, **of: Any) -> None:
        if isinstance(rows, Cells):
            rule.check_norm(1.0)
        divisor = 1.0 / self.cell_value_**2
        if abs(divisor - round(divisor)) <= 1e-12 * divisor:
            divisor = float(round(divisor))  # t itself, where the value is 1/sqrt(t)
        self.state_ = NormaState.start(rule, self.n_features_in_, divisor, **of)

    def _same_kind(self, rows: Rows) -> Rows:
        # One-hot rows become cells again if they have the entries of the first; those that do not, after cells, cannot.
        if isinstance(rows, Cells) != self.on_cells_:
            raise ValueError("rows that are not one-hot cannot follow one-hot rows: give the kind of the first call")
        return rows

    def _passes(self, rows: Rows, y: np.ndarray | None) -> None:
        check_whole_number("n_epochs", self.n_epochs)
        seed: int = self._seed(self.random_state)
        for epoch in range(self.n_epochs):
            if self.shuffle:
                order = generator(seed, epoch).permutation(n_rows(rows))
                self.state_.partial_fit(rows[order], None if y is None else y[order])
            else:
                self.state_.partial_fit(rows, y)
        self.n_iter_ = self.n_epochs

    def _decisions(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return self.state_.decision_function(self._same_kind(self._rows(X, reset=False)))


class CellNormaOfTargets(CellNorma):
    """What those that learn from labels or numbers have in common: parameters, and learning."""

    def __init__(
        self,
        loss: str,
        *,
        nu: float | None = None,
        eta: float | None = None,
        decreasing: bool | None = None,
        regularization: float | None = None,
        offset: bool | None = None,
        threshold: float | None = None,
        clip_rho: bool = False,
        average: bool | str | None = None,
        n_epochs: int = 1,
        shuffle: bool = False,
        random_state: Any = 0,
    ) -> None:
        self.loss = loss
        self.nu = nu
        self.eta = eta
        self.decreasing = decreasing
        self.regularization = regularization
        self.offset = offset
        self.threshold = threshold
        self.clip_rho = clip_rho
        self.average = average
        self.n_epochs = n_epochs
        self.shuffle = shuffle
        self.random_state = random_state

    def _begin(self, X: Any, y: Any, *, first: bool, classes: Any = None) -> tuple[Rows, np.ndarray]:
        """Checked rows, and targets as the state takes them; at first also the state."""
        raise NotImplementedError

    def fit(self, X: Any, y: Any) -> Self:
        """Start afresh and learn from the rows in order, ``n_epochs`` times.

        Raises
        ------
        ValueError
            A parameter is out of range, or rows or targets are not valid.
        """
        rows, targets = self._begin(X, y, first=True)
        self._passes(rows, targets)
        return self

    def _learn(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Learn from more rows, in order; the first call starts."""
        rows, targets = self._begin(X, y, first=not hasattr(self, "state_"), classes=classes)
        self.state_.partial_fit(rows, targets)
        self.n_iter_ = 1
        return self


class CellNormaClassifier(CellClassifier, CellNormaOfTargets):
    """Regularised online learning of classes (NORMA), one against the rest.

    Takes :class:`~ikmap.cells.Cells` and one-hot CSR, as the maps' ``transform`` gives, at O(t) a row however many rows
    came before; other dense or CSR rows are learned from with the linear kernel, and should have norms of about 1.
    None stands for what serves the loss.

    Parameters
    ----------
    loss : {"hinge", "nu", "perceptron", "logistic"}, default="hinge"
        Soft margin; the same with a margin that is learned; kernel perceptron; logistic loss.
    nu : float or None, default=None
        Share of rows within the margin, in [0, 1], for the loss "nu"; None: 0.1.
    eta : float or None, default=None
        Step size, > 0.
    decreasing : bool or None, default=None
        Whether steps are divided by the square root of the row's number.
    regularization : float or None, default=None
        lambda >= 0: weights shrink by ``1 - eta lambda`` with each row.
    offset : bool or None, default=None
        Whether decisions have an offset; None: with every loss but "nu".
    threshold : float or None, default=None
        Margin of "hinge"; of "nu", what it is at first.
    clip_rho : bool, default=False
        A margin that is learned stays at 0 or above. The share of rows within it does not come near nu then.
    average : bool, "late" or None, default=None
        Whether the mean of all functions on the way decides, their mean in which late ones count more, or the last one.
    n_epochs : int, default=1
        Passes of ``fit`` over the rows.
    shuffle : bool, default=False
        Whether ``fit`` takes the rows of each pass in random order.
    random_state : int, RandomState or None, default=0

    Attributes
    ----------
    classes_ : ndarray of labels
    state_ : NormaState
    n_iter_ : int
    n_features_in_ : int

    Notes
    -----
    Source: Kivinen, Smola and Williamson, Online Learning with Kernels, NIPS 2001, sections 2 and 3.
    """

    losses = OF_CLASSES

    def __init__(
        self,
        loss: str = "hinge",
        *,
        nu: float | None = None,
        eta: float | None = None,
        decreasing: bool | None = None,
        regularization: float | None = None,
        offset: bool | None = None,
        threshold: float | None = None,
        clip_rho: bool = False,
        average: bool | str | None = None,
        n_epochs: int = 1,
        shuffle: bool = False,
        random_state: Any = 0,
    ) -> None:
        super().__init__(
            loss, nu=nu, eta=eta, decreasing=decreasing, regularization=regularization, offset=offset,
            threshold=threshold, clip_rho=clip_rho, average=average, n_epochs=n_epochs, shuffle=shuffle,
            random_state=random_state,
        )  # fmt: skip

    def _begin(self, X: Any, y: Any, *, first: bool, classes: Any = None) -> tuple[Rows, np.ndarray]:
        rule = self._rule()
        rows, y, _ = self._rows_and_targets(X, y, None, reset=first)
        if first:
            self._set_classes(y if classes is None else classes)
            self._start(rows, rule, n_classes=self.classes_.size)
        elif classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(f"classes {np.unique(classes)} are not those of the first call, {self.classes_}")
        return self._same_kind(rows), self._encode(y)

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Learn from more rows, in order; the first call needs all classes there will be.

        Raises
        ------
        ValueError
            Classes are missing in the first call or change, or rows or labels are not valid.
        """
        if classes is None and not hasattr(self, "state_"):
            raise ValueError("classes must be passed in the first call to partial_fit")
        return self._learn(X, y, classes)

    def decision_function(self, X: Any) -> np.ndarray:
        """Decision values: shape (n,) for two classes, else (n, n_classes)."""
        return self._public(self._decisions(X))


class CellNormaRegressor(RegressorMixin, CellNormaOfTargets):
    """Regularised online learning of numbers (NORMA): squared errors, or losses that outliers hurt less.

    For rows see :class:`CellNormaClassifier`. Steps are in units of the targets' spread: see `unit`.

    Parameters
    ----------
    loss : {"squared", "epsilon", "insensitive", "huber", "trimmed"}, default="squared"
        Squared errors; epsilon-insensitive, with the epsilon beyond which a share nu of the errors is; the same with a
        fixed epsilon; Huber's; Huber's with the sigma beyond which a share nu is, an adaptive trimmed mean.
    nu : float or None, default=None
        In [0, 1]; None: 0.5 for "epsilon", 0.2 for "trimmed".
    eta, decreasing, regularization, offset, average, n_epochs, shuffle, random_state
        As of :class:`CellNormaClassifier`. With squared errors eta times k(x, x) + lambda has to stay below 2.
    threshold : float or None, default=None
        epsilon of "insensitive" (None: 0.1), sigma of "huber"; what epsilon or sigma is at first, where it is learned.
        In units of `unit`.
    clip_rho : bool, default=False
        Changes nothing here.
    center, unit : float or None, default=None
        Targets are learned as ``(y - center) / unit``. None: the median of the targets of ``fit``, or of the first call
        of ``partial_fit``, and 0.594 of the distance between their second and eighth decile, which is the standard
        deviation of normal numbers and is not moved by outliers.

    Attributes
    ----------
    center_, unit_ : float
    state_ : NormaState
    n_iter_ : int
    n_features_in_ : int

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from ikmap import CellNormaRegressor, IsolationKernelMap
    >>> X = np.random.default_rng(0).random((300, 2))
    >>> y = np.sin(6 * X[:, 0]) + X[:, 1]
    >>> learner = CellNormaRegressor("huber", n_epochs=20)
    >>> model = make_pipeline(IsolationKernelMap(max_samples=32, random_state=0), learner).fit(X, y)
    >>> round(model.score(X, y), 1)
    1.0
    """

    losses = OF_NUMBERS

    def __init__(
        self,
        loss: str = "squared",
        *,
        nu: float | None = None,
        eta: float | None = None,
        decreasing: bool | None = None,
        regularization: float | None = None,
        offset: bool | None = None,
        threshold: float | None = None,
        clip_rho: bool = False,
        average: bool | str | None = None,
        center: float | None = None,
        unit: float | None = None,
        n_epochs: int = 1,
        shuffle: bool = False,
        random_state: Any = 0,
    ) -> None:
        super().__init__(
            loss, nu=nu, eta=eta, decreasing=decreasing, regularization=regularization, offset=offset,
            threshold=threshold, clip_rho=clip_rho, average=average, n_epochs=n_epochs, shuffle=shuffle,
            random_state=random_state,
        )  # fmt: skip
        self.center = center
        self.unit = unit

    def _begin(self, X: Any, y: Any, *, first: bool, classes: Any = None) -> tuple[Rows, np.ndarray]:  # noqa: ARG002
        rule = self._rule()
        if self.unit is not None and not 0 < self.unit < np.inf:
            raise ValueError(f"unit must be a positive number, got {self.unit!r}")
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        rows = self._rows(X, reset=first)
        y = _check_y(y, y_numeric=True, estimator=self).astype(np.float64)
        check_consistent_length(np.empty(n_rows(rows)), y)
        if first:
            self.center_ = float(np.median(y)) if self.center is None else float(self.center)
            second, eighth = np.quantile(y, [0.2, 0.8])
            spread = float(eighth - second) / 1.683 or float(y.std()) or 1.0
            self.unit_ = spread if self.unit is None else float(self.unit)
            self._start(rows, rule, center=self.center_, unit=self.unit_)
        return self._same_kind(rows), y

    def partial_fit(self, X: Any, y: Any) -> Self:
        """Learn from more rows, in order; the first call starts.

        Raises
        ------
        ValueError
            Rows or targets are not valid, or rows of another kind than before; nothing has been learned then.
        """
        return self._learn(X, y)

    def predict(self, X: Any) -> np.ndarray:
        """Predictions, shape (n,)."""
        found: np.ndarray = self._decisions(X)[:, 0]
        return found
