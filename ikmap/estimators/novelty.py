"""A scikit-learn detector of rows that are unlike those it was fitted on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from ikmap.arrays import Floats
from ikmap.estimators.base import Detector, RandomState, Table
from ikmap.estimators.cell_map import PARAMETER_OF_FIELD, Partitioned
from ikmap.estimators.parameters import subsample_size
from ikmap.learners.novelty.cell_scores import CellMasses
from ikmap.learners.novelty.masses import add_rows
from ikmap.methods.anne import Anne
from ikmap.methods.idk import IDK
from ikmap.methods.iforest import IForest
from ikmap.methods.inne import INNE


class IDKDetector(Detector, Partitioned):
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

    methods = (INNE, Anne, IForest, IDK)
    renamed: ClassVar[Mapping[str, str]] = {**PARAMETER_OF_FIELD, "alert_rate": "contamination"}

    def __init__(
        self,
        method: str = "inne",
        n_estimators: int = 100,
        max_samples: int | str = "auto",
        *,
        contamination: float = 0.05,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.method = method
        self.n_estimators = n_estimators
        self.max_samples = max_samples
        self.contamination = contamination
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Table, y: ArrayLike | None = None) -> Self:  # noqa: ARG002
        """Draw the partitionings and count the rows in each cell.

        Parameters
        ----------
        X : array-like, sparse matrix or DataFrame, shape (n, d)
        y : ignored

        Raises
        ------
        ValueError
            A parameter is out of range, or an entry is not finite.
        """
        kind, share = self._check_method(self.method), self._method(IDK).alert_rate
        if share > 0.5:
            raise ValueError(f"contamination: found {share:g}, expected at most 0.5")
        rows = self._rows(X, reset=True)
        n = rows.shape[0]
        self.max_samples_ = subsample_size(self.max_samples, n, max(1, min(IDK.psi, n // IDK.rows_per_cell)))
        self.partitions_ = self._draw(kind, rows, self.max_samples_, self._draw_seed())
        cells = self.partitions_.cells(rows, self._n_threads).packed()
        self.masses_ = np.zeros(cells.n_columns)
        add_rows(cells, self.masses_)
        self._masses = CellMasses(self.masses_, float(cells.n_partitions * n), 1.0, IDK.about.name)
        self.offset_ = float(np.percentile(1.0 - self._masses.score(cells), 100.0 * share))
        return self

    def score_samples(self, X: Table) -> Floats:
        """Return how similar each row is to those fitted on, in [0, 1], shape (n,): smaller is more novel."""
        cells = self._map(X).packed()
        return 1.0 - self._masses.score(cells)
