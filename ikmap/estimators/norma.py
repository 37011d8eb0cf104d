"""scikit-learn estimators of NORMA: classes, numbers and what is usual, on cells and one-hot CSR, row after row."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from ikmap.arrays import Floats
from ikmap.cells import Cells
from ikmap.estimators.base import Detector, RandomState, Table
from ikmap.estimators.online import OnlineClassifier, OnlineEstimator, OnlineRegressor
from ikmap.estimators.parameters import POSITIVE, checked, plain
from ikmap.learners.online.norma import NormaState
from ikmap.learners.online.norma_rule import OF_CLASSES, OF_NUMBERS, NormaRule
from ikmap.learners.rows import Rows, n_columns
from ikmap.methods.kinds import Choice
from ikmap.methods.norma import Norma
from ikmap.methods.norma_options import RuleError

ROUNDING = 1e-14
"""Share of the centre of targets up to which their spread is nothing but rounding."""
WORDS: dict[str, dict[object, str]] = {
    "schedule": {True: "root", False: "constant"},
    "offset": {True: "yes", False: "no"},
    "iterate": {True: "mean", False: "last", "late": "late"},
}
"""Words of fields for values of parameters; of any field, None stands for the word auto."""


class NormaEstimator(OnlineEstimator):
    """Base of estimators of NORMA."""

    methods = (Norma,)
    losses: ClassVar[tuple[str, ...]]

    loss: str
    state_: NormaState

    def _value_of(self, cells: Cells) -> float:
        return float(1.0 / np.sqrt(cells.n_partitions))

    def _rule(self) -> NormaRule:
        """Return loss and steps."""
        parameters = self.get_params(deep=False)
        loss = checked("loss", self.loss, Choice(self.losses))
        values = {
            name: "auto" if parameters.get(name) is None else parameters[name]
            for name in ("nu", "eta", "regularization", "threshold")
        }
        for field, name in {"schedule": "decreasing", "offset": "offset", "iterate": "average"}.items():
            value = plain(parameters.get(name))
            if value is not None and (not isinstance(value, bool | str) or value not in WORDS[field]):
                raise ValueError(f"{name}: found {value!r}, expected one of {', '.join(map(repr, WORDS[field]))}")
            values[field] = "auto" if value is None else WORDS[field][value]
        try:
            return self._method(Norma, loss="auto", **values).rule(loss, n_rows=1)
        except RuleError as error:
            raise ValueError(error.expected) from None

    def _state(self, rows: Rows, n_classes: int = 2, center: float = 0.0, unit: float = 1.0) -> NormaState:
        """Return the state before the first row."""
        rule = self._rule()
        if isinstance(rows, Cells):
            rule.check_norm(rows.n_partitions / self._divisor)
        return NormaState.start(rule, n_columns(rows), self._divisor, n_classes, center=center, unit=unit)

    def _decisions(self, rows: Rows) -> Floats:
        if self.on_cells_ and not isinstance(rows, Cells):
            rows = rows / self._divisor  # a model divides nothing where rows bring their values
        return super()._decisions(rows)


class CellNormaClassifier(OnlineClassifier, NormaEstimator):
    """Regularised online learning of classes (NORMA), one against the rest.

    Takes :class:`~ikmap.cells.Cells` and one-hot CSR, as the maps' ``transform`` gives, at O(t) a row however many rows
    came before; other dense or CSR rows are learned from with the linear kernel, and should have norms of about 1.
    One-hot and other CSR rows may follow each other. None stands for what serves the loss.

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
        average: bool | Literal["late"] | None = None,
        n_epochs: int = 1,
        shuffle: bool = False,
        random_state: RandomState = 0,
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

    def _start(self, rows: Rows) -> None:
        self.state_ = self._state(rows, n_classes=self.classes_.size)

    def fit(self, X: Table, y: ArrayLike) -> Self:
        """Start afresh and learn from the rows in order, ``n_epochs`` times.

        Raises
        ------
        ValueError
            A parameter is out of range, or rows or labels are not valid.
        """
        return self._fit(X, y)

    def partial_fit(self, X: Table, y: ArrayLike, classes: ArrayLike | None = None) -> Self:
        """Learn from more rows, in order; the first call needs all classes there will be.

        Raises
        ------
        ValueError
            Classes are missing in the first call or change, or rows or labels are not valid.
        """
        return self._fit_more(X, y, classes)


class CellNormaRegressor(OnlineRegressor, NormaEstimator):
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
        As of :class:`CellNormaClassifier`. With squared errors eta times k(x, x) + lambda has to stay below 2; k(x, x)
        is 1 for cells, and t for rows of t ones.
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
        average: bool | Literal["late"] | None = None,
        center: float | None = None,
        unit: float | None = None,
        n_epochs: int = 1,
        shuffle: bool = False,
        random_state: RandomState = 0,
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
        self.center = center
        self.unit = unit

    def _start(self, rows: Rows, y: Floats) -> None:
        self.center_ = float(np.median(y)) if self.center is None else float(self.center)
        second, eighth = np.quantile(y, [0.2, 0.8])
        spread = float(eighth - second) / 1.683 or float(y.std())
        if spread <= ROUNDING * abs(self.center_):  # all are alike
            spread = 1.0
        self.unit_ = spread if self.unit is None else float(checked("unit", self.unit, POSITIVE))
        self.state_ = self._state(rows, center=self.center_, unit=self.unit_)


class CellNormaDetector(Detector, NormaEstimator):
    """Online novelty detection (NORMA): about a share nu of the rows that come is novel.

    For rows see :class:`CellNormaClassifier`. Rows are ranked by the mean of all functions so far, each of which rests
    on few rows only; with it, what is novel goes by a level that follows the share nu of the rows as they come.

    Parameters
    ----------
    nu : float, default=0.1
        In (0, 1].
    eta, decreasing, regularization, clip_rho, n_epochs, shuffle, random_state
        As of :class:`CellNormaClassifier`.
    average : bool, default=True
        False: the last function and its threshold rho decide. Between rows that are learned from, hardly any row is
        below that.

    Attributes
    ----------
    offset_ : float
        Rows with a lower score are novel.
    state_ : NormaState
    n_iter_ : int
    n_features_in_ : int

    Notes
    -----
    Source: Kivinen, Smola and Williamson, Online Learning with Kernels, NIPS 2001, section 3.

    Examples
    --------
    >>> import numpy as np
    >>> from ikmap import CellNormaDetector, IsolationKernelMap
    >>> X = np.random.default_rng(0).normal(size=(2000, 2))
    >>> cells = IsolationKernelMap("iforest", max_samples=32, random_state=0).fit(X)
    >>> detector = CellNormaDetector(nu=0.05).fit(cells.transform(X))
    >>> detector.predict(cells.transform([[0.1, 0.2], [6.0, 6.0]])).tolist()
    [1, -1]
    """

    losses = ("novelty",)
    loss = "novelty"

    def __init__(
        self,
        nu: float = 0.1,
        *,
        eta: float | None = None,
        decreasing: bool | None = None,
        regularization: float | None = None,
        clip_rho: bool = False,
        average: bool = True,
        n_epochs: int = 1,
        shuffle: bool = False,
        random_state: RandomState = 0,
    ) -> None:
        self.nu = nu
        self.eta = eta
        self.decreasing = decreasing
        self.regularization = regularization
        self.clip_rho = clip_rho
        self.average = average
        self.n_epochs = n_epochs
        self.shuffle = shuffle
        self.random_state = random_state

    def fit(self, X: Table, y: ArrayLike | None = None) -> Self:  # noqa: ARG002
        """Start afresh and learn from the rows in order, ``n_epochs`` times; `y` is ignored.

        Raises
        ------
        ValueError
            A parameter is out of range, or rows are not valid.
        """
        rows = self._rows(X, reset=True)
        self.state_ = self._state(rows)
        self._learn_all(rows)
        return self

    def partial_fit(self, X: Table, y: ArrayLike | None = None) -> Self:  # noqa: ARG002
        """Learn from more rows, in order; the first call starts, and `y` is ignored.

        Raises
        ------
        ValueError
            Rows are not valid, or of another kind than before; nothing has been learned then.
        """
        first = self._is_new
        rows = self._rows(X, reset=first)
        if first:
            self.state_ = self._state(rows)
        self._learn(rows)
        return self

    def score_samples(self, X: Table) -> Floats:
        """Return how usual each row is, shape (n,): with `average` in [0, 1] on cells; smaller is more novel."""
        return self.decision_function(X) + self.offset_

    def decision_function(self, X: Table) -> Floats:
        """Return the scores less :attr:`offset_`: below 0 for novel rows."""
        check_is_fitted(self)
        return -self._decisions(self._rows(X, reset=False))[:, 0]

    @property
    def offset_(self) -> float:
        """The level, or rho, as it is now."""
        check_is_fitted(self)
        return float(self.state_.model([]).intercept[0])
