"""A scikit-learn detector of rows that are unlike those it was fitted on."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, OutlierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ikmap.estimators.parameters import check_whole_number, subsample_size
from ikmap.learners.novelty.cell_scores import CellMasses
from ikmap.learners.novelty.masses import add_rows
from ikmap.partitioners import draw_subsamples, fit_iforest, fit_spheres, fit_voronoi
from ikmap.rows import Rows, as_rows

METHODS = ("inne", "anne", "iforest")
MOST_CELLS, ROWS_PER_CELL = 32, 4


def usual_psi(n_rows: int) -> int:
    """Cells of a partitioning that serve detection: 32, and no more than a quarter of the rows."""
    return max(1, min(MOST_CELLS, n_rows // ROWS_PER_CELL))


class IDKDetector(OutlierMixin, BaseEstimator):
    """Isolation distributional kernel: a row is an outlier if few of the rows fitted on share its cells.

    Parameters
    ----------
    method : {"inne", "anne", "iforest"}, default="inne"
        Cells: spheres around the points of a subsample, Voronoi cells around them, or leaves of a random tree.
    n_estimators : int, default=100
        Number t of partitionings.
    max_samples : int or "auto", default="auto"
        Size psi of each subsample; "auto" takes 32, but no more than a quarter of the rows.
    contamination : float, default=0.05
        Share of the rows fitted on that :meth:`predict` calls outliers, in (0, 0.5].
    n_jobs : int or None, default=None
        Number of threads; None or a negative number means all usable cores.
    random_state : int, RandomState or None, default=None
        Seed. Results do not depend on the number of threads or on how rows are grouped in calls.

    Attributes
    ----------
    partitions_ : SpherePartitions, VoronoiPartitions or IForestPartitions
    masses_ : ndarray of shape (t psi,)
        Rows fitted on in each cell.
    offset_ : float
        A row with a lower score is an outlier.
    max_samples_ : int
    n_features_in_ : int

    Notes
    -----
    Source: Ting, Xu, Washio and Zhou, Isolation Distributional Kernel, KDD 2020, sections 3 and 5.

    Examples
    --------
    >>> import numpy as np
    >>> from ikmap import IDKDetector
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> detector = IDKDetector(random_state=0).fit(X)
    >>> detector.predict([[0.1, 0.2], [6.0, 6.0]]).tolist()
    [1, -1]
    """

    def __init__(
        self,
        method: str = "inne",
        n_estimators: int = 100,
        max_samples: int | str = "auto",
        *,
        contamination: float = 0.05,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.method = method
        self.n_estimators = n_estimators
        self.max_samples = max_samples
        self.contamination = contamination
        self.n_jobs = n_jobs
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Draw the partitionings and count the rows in each cell.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (n, d)
        y : ignored

        Raises
        ------
        ValueError
            A parameter is out of range, or X is no finite matrix.
        """
        if self.method not in METHODS:
            raise ValueError(f"method must be one of {', '.join(METHODS)}, got {self.method!r}")
        if not 0 < self.contamination <= 0.5:
            raise ValueError(f"contamination must be in (0, 0.5], got {self.contamination!r}")
        X = as_rows(validate_data(self, X, accept_sparse="csr", dtype=np.float64))
        n = X.shape[0]
        n_estimators = check_whole_number("n_estimators", self.n_estimators)
        self.max_samples_ = subsample_size(self.max_samples, n, usual_psi(n))
        seed = self.random_state
        if not isinstance(seed, (int, np.integer)):
            seed = check_random_state(seed).randint(2**31 - 1)
        draws = draw_subsamples(n, n_estimators, self.max_samples_, int(seed))
        if self.method == "iforest":
            self.partitions_: Any = fit_iforest(X, draws, int(seed), n_threads=self._threads)
        else:
            self.partitions_ = (fit_spheres if self.method == "inne" else fit_voronoi)(X, draws)
        cells = self.partitions_.cells(X, self._threads).packed()
        self.masses_ = np.zeros(cells.n_columns)
        add_rows(cells, self.masses_)
        self._divisor = float(cells.n_partitions * n)
        self.offset_ = float(np.percentile(1.0 - self._model.score(cells), 100.0 * self.contamination))
        return self

    def score_samples(self, X: Any) -> np.ndarray:
        """How similar each row is to those fitted on, in [0, 1], shape (n,): smaller is more novel."""
        check_is_fitted(self)
        rows: Rows = as_rows(validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False))
        similar: np.ndarray = 1.0 - self._model.score(self.partitions_.cells(rows, self._threads).packed())
        return similar

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores less :attr:`offset_`: below 0 for outliers."""
        found: np.ndarray = self.score_samples(X) - self.offset_
        return found

    def predict(self, X: Any) -> np.ndarray:
        """-1 for outliers, 1 for others, shape (n,)."""
        return np.where(self.decision_function(X) < 0, -1, 1)

    @property
    def _model(self) -> CellMasses:
        return CellMasses(self.masses_, self._divisor, 1.0, "idk")

    @property
    def _threads(self) -> int | None:
        return self.n_jobs if self.n_jobs is not None and self.n_jobs > 0 else None
