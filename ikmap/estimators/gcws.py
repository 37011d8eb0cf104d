"""A scikit-learn transformer to weighted minwise hashes."""

from __future__ import annotations

import warnings
from typing import Literal

import numpy as np

from ikmap.arrays import Floats, Int64s
from ikmap.estimators.base import RandomState, Table
from ikmap.estimators.cell_map import CellMap
from ikmap.estimators.parameters import checked
from ikmap.kernels.isolation import isolation_kernel
from ikmap.methods import Sample
from ikmap.methods.gcws import GCWS
from ikmap.methods.kinds import Integer
from ikmap.rows import Rows

BLOCK_PAIRS = 1 << 24
"""Pairs of rows whose matches are counted at once."""


class GCWSMap(CellMap):
    """Feature map whose inner products are about the generalized min-max kernel, by weighted minwise hashing.

    The kernel of u and v is (sum_i min(u_i, v_i)^p / sum_i max(u_i, v_i)^p)^gamma, where negative values are
    coordinates of their own, with their absolute values.

    Parameters
    ----------
    n_estimators : int, default=100
        Number t of hashes. Inner products vary around the kernel with a standard error of sqrt(K (1 - K) / t).
    p : float, default=0.25
        Exponent of the values, above 0 and at most 1e6; 1 is the kernel without one.
    b : int, default=8
        Bits of a code, 1 to 16: 2^b columns for each hash. Different rows match by chance in 1 of 2^b.
    code : {"full", "0-bit"}, default="full"
        "0-bit" keeps only which column wins a hash: rows match more often than the kernel says.
    gamma : int, default=1
        Exponent of the kernel: so many hashes make one code.
    normalize : bool, default=True
        Entries of the transformed rows are 1/sqrt(t), so that inner products are kernel values; else 1.
    n_jobs : int or None, default=None
        Number of threads; None or a negative number means all usable cores.
    random_state : int, RandomState or None, default=None
        Seed. Results do not depend on the number of threads or on how rows are grouped in calls.

    Attributes
    ----------
    partitions_ : GCWSPartitions
    cells_ : Cells
        Of the rows of :meth:`fit`, packed: what :meth:`kneighbors` looks in.
    n_features_in_ : int

    Notes
    -----
    A row of zeros has no cell, so its kernel value is 0 with every row, itself included; a warning says how many.
    Source: Li, Tunable GMM kernels, sections 4 and 5; algorithms.md, 10.3 and 10.4.

    Examples
    --------
    >>> import numpy as np
    >>> from ikmap import GCWSMap
    >>> X = np.array([[1.0, 2.0], [1.0, 1.0], [-3.0, 0.0]])
    >>> hashed = GCWSMap(n_estimators=2000, p=1.0, random_state=0).fit(X)
    >>> K = hashed.kernel(X)
    >>> bool(abs(K[0, 1] - 2 / 3) < 0.05)
    True
    >>> hashed.kneighbors(X[:1], 2)[1].tolist()
    [[0, 1]]
    """

    methods = (GCWS,)

    def __init__(
        self,
        n_estimators: int = 100,
        p: float = 0.25,
        b: int = 8,
        *,
        code: Literal["full", "0-bit"] = "full",
        gamma: int = 1,
        normalize: bool = True,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.p = p
        self.b = b
        self.code = code
        self.gamma = gamma
        self.normalize = normalize
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _fit(self, rows: Rows) -> None:
        n, d = rows.shape
        hashes = self._method(GCWS)
        self.partitions_ = hashes.fit(Sample(n, d, None, rows.__getitem__, self._draw_seed()))
        cells = self.partitions_.cells(rows, self._n_threads)
        if empty := int(np.count_nonzero(cells.codes[:, 0] < 0)):
            warnings.warn(f"{empty} of {len(cells)} rows are all zeros: they have no cells", stacklevel=3)
        self.cells_ = cells.packed()

    def kneighbors(self, X: Table, n_neighbors: int = 5) -> tuple[Floats, Int64s]:
        """Find the rows of :meth:`fit` with the most matching codes.

        Parameters
        ----------
        X : array-like or sparse matrix, shape (n, d)
        n_neighbors : int, default=5

        Returns
        -------
        similarities : float64 ndarray, shape (n, n_neighbors)
            Share of the codes that match, descending.
        indices : int64 ndarray, shape (n, n_neighbors)
            Numbers of those rows; of equals the lower ones first.

        Raises
        ------
        ValueError
            If there are fewer rows than neighbours.
        """
        cells = self._map(X)
        checked("n_neighbors", n_neighbors, Integer(1, len(self.cells_)))
        similar, indices = np.empty((len(cells), n_neighbors)), np.empty((len(cells), n_neighbors), dtype=np.int64)
        at_once = max(1, BLOCK_PAIRS // len(self.cells_))
        for start in range(0, len(cells), at_once):
            rows = slice(start, start + at_once)
            K = isolation_kernel(cells[rows], self.cells_, self._n_threads)
            order = np.argsort(-K, axis=1, kind="stable")[:, :n_neighbors]
            similar[rows], indices[rows] = np.take_along_axis(K, order, axis=1), order
        return similar, indices
