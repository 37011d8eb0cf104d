"""Online novelty detection (NORMA) with the interface of scikit-learn."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import OutlierMixin
from sklearn.utils.validation import check_is_fitted

from ikmap.estimators.norma import CellNorma


class CellNormaDetector(OutlierMixin, CellNorma):
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
    >>> cells = IsolationKernelMap("inne", max_samples=32, random_state=0).fit(X)
    >>> detector = CellNormaDetector(nu=0.05).fit(cells.transform(X))
    >>> detector.predict(cells.transform([[0.1, 0.2], [6.0, 6.0]])).tolist()
    [1, -1]
    """

    losses = ("novelty",)
    loss = "novelty"
    offset = threshold = None

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
        random_state: Any = 0,
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

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Start afresh and learn from the rows in order, ``n_epochs`` times; `y` is not looked at.

        Raises
        ------
        ValueError
            A parameter is out of range, or rows are not valid.
        """
        rule, rows = self._rule(), self._rows(X, reset=True)
        self._start(rows, rule)
        self._passes(rows, None)
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Learn from more rows, in order; the first call starts, and `y` is not looked at.

        Raises
        ------
        ValueError
            Rows are not valid, or of another kind than before; nothing has been learned then.
        """
        rule, first = self._rule(), not hasattr(self, "state_")
        rows = self._rows(X, reset=first)
        if first:
            self._start(rows, rule)
        self.state_.partial_fit(self._same_kind(rows))
        self.n_iter_ = 1
        return self

    def score_samples(self, X: Any) -> np.ndarray:
        """How usual each row is, shape (n,): with `average` in [0, 1] on cells; smaller is more novel."""
        return self.decision_function(X) + self.offset_

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores less :attr:`offset_`: below 0 for novel rows."""
        found: np.ndarray = -self._decisions(X)[:, 0]
        return found

    def predict(self, X: Any) -> np.ndarray:
        """-1 for novel rows, 1 for others, shape (n,)."""
        return np.where(self.decision_function(X) < 0, -1, 1)

    @property
    def offset_(self) -> float:
        """The level, or rho, as it is now."""
        check_is_fitted(self)
        return float(-self.state_.model([]).threshold)
