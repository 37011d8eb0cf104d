"""scikit-learn transformers over the partitioners."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from ikmap.estimators.cell_map import CellMap
from ikmap.estimators.parameters import check_whole_number, subsample_size
from ikmap.methods.composed import shares
from ikmap.partitioners import METHODS, Partitions, SideBySide, draw_subsamples, fit_partitions
from ikmap.partitioners.side_by_side import seed_of_part
from ikmap.rows import Rows


class IsolationKernelMap(CellMap):
    """Exact feature map of the Isolation Kernel.

    The defaults are those of the paper that introduced ``anne``. For tables, whose columns have different units, we
    recommend ``method="iforest"`` with ``n_estimators=300``, which is what commands take: a tree asks only in which
    order the values of a column are, while ``anne`` compares rows by distance, so bring columns to one scale before it.

    Parameters
    ----------
    method : {"anne", "iforest"} or both with a comma between, default="anne"
        How a partitioning is drawn: Voronoi cells around the points of a subsample, or the leaves of a
        random tree that isolates them. "iforest,anne" has the cells of both side by side, each with half of the
        partitionings: the kernel is the mean of both.
    n_estimators : int, default=100
        Number t of partitionings, in all.
    max_samples : int, "auto", or a sequence of one for each method, default="auto"
        Size psi of each subsample, the number of cells. Larger means a sharper kernel; "auto" takes
        min(256, number of rows).
    max_depth : None, "log2" or int, default=None
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
    partitions_ : VoronoiPartitions, IForestPartitions or SideBySide
    max_samples_ : int, or tuple of int of two methods
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
        max_samples: Any = "auto",
        *,
        max_depth: str | int | None = None,
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
        names = str(self.method).split(",")
        if not set(names) <= set(METHODS) or len(set(names)) < len(names):
            several = ", none twice" if len(names) > 1 else ""
            raise ValueError(f"method must be one of {', '.join(METHODS)}{several}, got {self.method!r}")
        check_whole_number("n_estimators", self.n_estimators)
        if 1 < len(names) > self.n_estimators:
            raise ValueError(f"n_estimators must be at least {len(names)}, got {self.n_estimators!r}")
        psis = self._psis(len(names), rows.shape[0])
        self.max_samples_ = psis[0] if len(names) == 1 else tuple(psis)
        seed = self._seed
        if len(names) == 1:
            self.partitions_ = self._fit_one(rows, names[0], int(self.n_estimators), psis[0], seed)
            return self
        parts = zip(names, shares(int(self.n_estimators), len(names)), psis, strict=True)
        self.partitions_ = SideBySide(
            tuple(self._fit_one(rows, name, t, psi, seed_of_part(seed, i)) for i, (name, t, psi) in enumerate(parts))
        )
        return self

    def _psis(self, n_methods: int, n: int) -> list[int]:
        """Cells of a partitioning of each method."""
        several = isinstance(self.max_samples, list | tuple | np.ndarray)
        given = list(self.max_samples) if several else [self.max_samples] * n_methods
        if len(given) != n_methods:
            raise ValueError(f"max_samples must have a number for each method, got {self.max_samples!r}")
        return [subsample_size(psi, n, min(256, n)) for psi in given]

    def _fit_one(self, rows: Rows, method: str, t: int, psi: int, seed: int) -> Partitions:
        draws = draw_subsamples(rows.shape[0], t, psi, seed, disjoint=self.disjoint)
        depth = None if method == "anne" and self.method != "anne" else self.max_depth
        return fit_partitions(rows, draws, method=method, seed=seed, max_depth=depth, n_threads=self._n_threads)
