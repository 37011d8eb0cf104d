"""scikit-learn transformers over the partitioners."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ikmap.cells import Cells
from ikmap.kernels.isolation import isolation_kernel
from ikmap.partitioners import METHODS, draw_subsamples, fit_partitions
from ikmap.rows import Rows, as_rows, check_finite


class IsolationKernelMap(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Exact feature map of the Isolation Kernel.

    Parameters
    ----------
    method : {"anne", "iforest"}, default="anne"
        How a partitioning is drawn: Voronoi cells around the points of a subsample, or the leaves of a
        random tree that isolates them.
    n_estimators : int, default=100
        Number t of partitionings.
    max_samples : int or "auto", default="auto"
        Size psi of each subsample, the number of cells. Larger means a sharper kernel; "auto" takes
        min(256, number of rows).
    max_depth : {None, "log2"}, default=None
        Depth limit of the trees, for "iforest" only.
    disjoint : bool, default=False
        Draw subsamples that do not overlap while t * psi is at most the number of rows.
    normalize : bool, default=True
        Entries of the transformed rows are 1/sqrt(t), so that inner products are kernel values; else 1.
    n_jobs : int or None, default=None
        Number of threads; None or a negative number means all usable cores.
    random_state : int, RandomState or None, default=None
        Seed. Results do not depend on the number of threads or on how rows are grouped in calls.

    Attributes
    ----------
    partitions_ : VoronoiPartitions or IForestPartitions
    max_samples_ : int
    n_features_in_ : int

    Notes
    -----
    Source: Ting, Wells, Washio, "Isolation Kernel: The X Factor in Efficient and Effective Large Scale Online
    Kernel Learning", sections 3 and 5.

    Examples
    --------
    >>> import numpy as np
    >>> from ikmap import IsolationKernelMap
    >>> X = np.array([[0.0], [0.1], [1.0], [1.1]])
    >>> isolation = IsolationKernelMap(n_estimators=200, max_samples=2, random_state=0).fit(X)
    >>> isolation.cells(X).shape
    (4, 200)
    >>> K = isolation.kernel(X)
    >>> bool(K[0, 1] > K[0, 2])
    True
    """

    def __init__(
        self,
        method: str = "anne",
        n_estimators: int = 100,
        max_samples: int | str = "auto",
        *,
        max_depth: str | None = None,
        disjoint: bool = False,
        normalize: bool = True,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.method = method
        self.n_estimators = n_estimators
        self.max_samples = max_samples
        self.max_depth = max_depth
        self.disjoint = disjoint
        self.normalize = normalize
        self.n_jobs = n_jobs
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Draw the subsamples and build the partitionings.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (n, d)
        y : ignored

        Raises
        ------
        ValueError
            If a parameter is out of range, max_samples exceeds the number of rows, or an entry is not finite.
        """
        rows = self._rows(X, reset=True)
        if self.method not in METHODS:
            raise ValueError(f"method must be one of {', '.join(METHODS)}, got {self.method!r}")
        if not isinstance(self.n_estimators, (int, np.integer)):
            raise ValueError(f"n_estimators must be a whole number, got {self.n_estimators!r}")
        if self.max_samples != "auto" and not isinstance(self.max_samples, (int, np.integer)):
            raise ValueError(f'max_samples must be a whole number or "auto", got {self.max_samples!r}')
        self.max_samples_ = min(256, rows.shape[0]) if self.max_samples == "auto" else int(self.max_samples)
        seed = self.random_state
        if not isinstance(seed, (int, np.integer)):
            seed = check_random_state(seed).randint(2**31 - 1)
        draws = draw_subsamples(
            rows.shape[0], int(self.n_estimators), self.max_samples_, int(seed), disjoint=self.disjoint
        )
        self.partitions_ = fit_partitions(
            rows, draws, method=self.method, seed=int(seed), max_depth=self.max_depth, n_threads=self._n_threads
        )
        return self

    def cells(self, X: Any) -> np.ndarray:
        """Cell of each row in each partitioning: int32 array of shape (n, t)."""
        return self._map(X).codes

    def transform(self, X: Any) -> sp.csr_array:
        """One-hot form of the cells: CSR of shape (n, t * psi) with t entries in each row."""
        return self._map(X).to_csr(normalize=self.normalize)

    def kernel(self, X: Any, Y: Any = None) -> np.ndarray:
        """Kernel matrix: for each pair the share of partitionings in which both fall in one cell, shape (n, m)."""
        return isolation_kernel(self._map(X), None if Y is None else self._map(Y), self._n_threads)

    @property
    def _n_features_out(self) -> int:
        return int(self.partitions_.offsets[-1])

    @property
    def _n_threads(self) -> int | None:
        return None if self.n_jobs is None or self.n_jobs < 0 else self.n_jobs

    def _map(self, X: Any) -> Cells:
        check_is_fitted(self)
        return self.partitions_.cells(self._rows(X, reset=False), self._n_threads)

    def _rows(self, X: Any, reset: bool) -> Rows:
        rows = as_rows(
            validate_data(self, X, accept_sparse="csr", dtype=np.float64, ensure_all_finite=False, reset=reset)
        )
        check_finite(rows)
        return rows

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
