"""A scikit-learn transformer to the cells of the Isolation Kernel."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ikmap.estimators.base import RandomState
from ikmap.estimators.cell_map import CellMap
from ikmap.estimators.parameters import COUNT, checked, subsample_size
from ikmap.methods.anne import Anne
from ikmap.methods.composed import shares
from ikmap.methods.iforest import IForest
from ikmap.partitioners import Partitions, SideBySide
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
        Draw subsamples of one method that do not overlap while its t * psi is at most the number of rows.
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

    methods = (Anne, IForest)
    _fitted_names: list[str]

    def __init__(
        self,
        method: str = "anne",
        n_estimators: int = 100,
        max_samples: int | str | Sequence[int | str] = "auto",
        *,
        max_depth: str | int | None = None,
        disjoint: bool = False,
        normalize: bool = True,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.method = method
        self.n_estimators = n_estimators
        self.max_samples = max_samples
        self.max_depth = max_depth
        self.disjoint = disjoint
        self.normalize = normalize
        self.n_jobs = n_jobs
        self.random_state = random_state

    @property
    def _map_names(self) -> list[str]:
        return self._fitted_names

    def _fit(self, rows: Rows) -> None:
        names, t = str(self.method).split(","), checked("n_estimators", self.n_estimators, COUNT)
        for name in names:
            self._check_method(name)
        if len(set(names)) < len(names):
            raise ValueError(f"method: found {self.method!r}, expected different names")
        if t < len(names):
            raise ValueError(f"n_estimators: found {t}, expected at least {len(names)}, one for each method")
        psis = self._psis(len(names), rows.shape[0])
        self.max_samples_ = psis[0] if len(names) == 1 else tuple(psis)
        seed, self._fitted_names = self._draw_seed(), names
        if len(names) == 1:
            self.partitions_ = self._part(rows, names[0], t, psis[0], seed)
            return
        parts = zip(names, shares(t, len(names)), psis, strict=True)
        self.partitions_ = SideBySide(
            tuple(self._part(rows, name, t, psi, seed_of_part(seed, i)) for i, (name, t, psi) in enumerate(parts))
        )

    def _psis(self, n_methods: int, n: int) -> list[int]:
        """Return the number of cells of a partitioning of each method."""
        given: list[object] = [self.max_samples] * n_methods
        if isinstance(self.max_samples, list | tuple | np.ndarray):
            given = list(self.max_samples)
        if len(given) != n_methods:
            raise ValueError(f"max_samples: found {self.max_samples!r}, expected a number for each method")
        return [subsample_size(psi, n, min(256, n)) for psi in given]

    def _part(self, rows: Rows, name: str, t: int, psi: int, seed: int) -> Partitions:
        kind = self._check_method(name)
        if kind is IForest:
            return self._draw(
                kind, rows, psi, seed, t=t, max_depth="none" if self.max_depth is None else self.max_depth
            )
        if self.max_depth is not None and self.method == name:
            raise ValueError(f"max_depth: found {self.max_depth!r} with method {name}, whose cells have no depth")
        return self._draw(kind, rows, psi, seed, t=t)
