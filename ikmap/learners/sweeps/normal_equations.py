"""The normal equations of ridge regression on columns that split, solved at every checkpoint.

``A w = b`` with A the matrix of shared rows over t plus alpha on its diagonal. Shared rows are counted, so A itself is
exact however many cells have split.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp

from ikmap.learners.sweeps._counts_loops import add_counts
from ikmap.learners.sweeps.columns import Columns, ColumnSplit

RESIDUAL = 1e-8
"""An inverse that was updated is computed anew where the residual of the weights is larger than this share of b."""
REBUILD = 200
"""It is computed anew after so many splits in any case."""
WORTH = 30
"""Updates of the inverse take 10 C^2 operations a split, a Cholesky factor C^3 / 3: fewer splits than C / 30 are
better put into the inverse that there is."""


def factor_of(matrix: np.ndarray, alpha: float) -> np.ndarray:
    """Cholesky's factor of a matrix with alpha on its diagonal, which is overwritten.

    Raises
    ------
    ValueError
        Rounding leaves nothing of alpha.
    """
    try:
        found: np.ndarray = sl.cholesky(matrix, lower=True, overwrite_a=True, check_finite=False)
    except sl.LinAlgError:
        raise ValueError(f"alpha {alpha:g} is lost in the rounding of so many rows: expected a larger one") from None
    return found


def as_features(columns: np.ndarray, n_columns: int) -> sp.csr_array:
    """Rows with a 1 for each of their columns."""
    inside = columns >= 0
    starts = np.concatenate([[0], np.cumsum(inside.sum(axis=1))])
    return sp.csr_array((np.ones(int(starts[-1])), columns[inside], starts), shape=(len(columns), n_columns))


class NormalEquations:
    """Weights by column, and the log determinant of A.

    Attributes
    ----------
    updates, factors : int
        How often the inverse was updated, and how often A was factored.
    """

    def __init__(self, columns: Columns, y: np.ndarray, alpha: float) -> None:
        self._columns, self._y, self._alpha = columns, y, alpha
        self._inverse, self._n_inverse, self._since = np.zeros((0, 0)), 0, 0
        self._log_determinant = 0.0
        self.updates = self.factors = 0
        features = as_features(columns.of[0], columns.n)
        self._shared: np.ndarray = (features.T @ features).toarray()
        self._b: np.ndarray = features.T @ y
        self._changed = set(range(columns.n))

    def split(self, done: Sequence[ColumnSplit]) -> None:
        """Take in splits, which have been applied to the columns of the rows."""
        members: dict[int, np.ndarray] = {}
        for split in done:
            members[split.left], members[split.right] = split.rows[0]
        self._since += len(done)
        n = self._columns.n
        if n > len(self._b):
            more = 2 * n - len(self._b)
            self._shared, self._b = np.pad(self._shared, (0, more)), np.pad(self._b, (0, more))
        for c, rows in members.items():
            counts = np.zeros(len(self._b))
            add_counts(self._columns.of[0], rows, counts)
            self._shared[c], self._shared[:, c] = counts, counts
            self._b[c] = self._y[rows].sum()
        self._changed.update(members)

    @property
    def matrix(self) -> np.ndarray:
        """A, shape (C, C)."""
        n = self._columns.n
        found: np.ndarray = self._shared[:n, :n] / self._columns.n_partitions
        found[np.diag_indices(n)] += self._alpha
        return found

    def solve(self) -> tuple[np.ndarray, float]:
        """Weights of the columns, and the log determinant of A."""
        n = self._columns.n
        b = self._b[:n] / math.sqrt(self._columns.n_partitions)
        updated = self._from_inverse(b)
        return self._factor(b) if updated is None else (updated, self._log_determinant)

    def _from_inverse(self, b: np.ndarray) -> np.ndarray | None:
        """By updating the inverse that there is; None where that is too old, too little of it is left, or it is off."""
        n = self._columns.n
        if self._n_inverse == 0 or self._since > REBUILD or len(self._changed) * WORTH > n:
            return None
        try:
            self._update()
        except sl.LinAlgError:
            return None
        inverse = self._inverse[:n, :n]
        w: np.ndarray = inverse @ b
        residual = b - self._times(w)
        if not np.linalg.norm(residual) <= RESIDUAL * np.linalg.norm(b):
            return None
        self.updates += 1
        w += inverse @ residual
        return w

    def _times(self, w: np.ndarray) -> np.ndarray:
        """A w, from the counts."""
        n = len(w)
        found: np.ndarray = (self._shared[:n, :n] @ w) / self._columns.n_partitions + self._alpha * w
        return found

    def _factor(self, b: np.ndarray) -> tuple[np.ndarray, float]:
        """Anew, by Cholesky; the inverse only where it will be updated."""
        n = self._columns.n
        factor = factor_of(self.matrix, self._alpha)
        self.factors += 1
        w = sl.cho_solve((factor, True), b, check_finite=False)
        self._log_determinant = 2.0 * float(np.log(np.diag(factor)).sum())
        self._n_inverse = 0
        if len(self._changed) * WORTH <= n:  # as many may have changed at the next checkpoint
            lower, _ = sl.lapack.dpotri(factor, lower=1, overwrite_c=1)
            self._inverse = np.zeros_like(self._shared)
            self._inverse[:n, :n] = np.tril(lower) + np.tril(lower, -1).T
            self._n_inverse = n
        self._changed.clear()
        self._since = 0
        return w, self._log_determinant

    def _update(self) -> None:
        """Take out of the inverse the columns that have changed, and put them in again as they are now.

        With P the inverse, R what is taken out and N what is put in: P loses ``P_R P_RR^-1 P_R'``; of what is left,
        ``T = P A_N`` and ``S = A_NN - A_N' T`` are those of the block inverse.
        """
        n, before = self._columns.n, self._n_inverse
        if len(self._inverse) < n:
            self._inverse = np.pad(self._inverse, (0, len(self._b) - len(self._inverse)))
        P = self._inverse[:n, :n]
        new = np.array(sorted(self._changed))
        old = new[new < before]
        if old.size:
            factor = sl.cholesky(P[np.ix_(old, old)], lower=True)
            half = sl.solve_triangular(factor, P[old], lower=True)
            P -= half.T @ half
            P[old], P[:, old] = 0.0, 0.0
            self._log_determinant += 2.0 * float(np.log(np.diag(factor)).sum())
        t = self._columns.n_partitions
        A_N = self._shared[:n, new] / t
        T = P @ A_N
        S = A_N[new] + self._alpha * np.eye(new.size) - A_N.T @ T
        factor = sl.cholesky((S + S.T) / 2, lower=True)
        self._log_determinant += 2.0 * float(np.log(np.diag(factor)).sum())
        half = sl.solve_triangular(factor, T.T, lower=True)
        P += half.T @ half
        middle = sl.cho_solve((factor, True), np.eye(new.size))
        P[new] = -middle @ T.T
        P[:, new] = P[new].T
        P[np.ix_(new, new)] = middle
        self._n_inverse = n
        self._changed.clear()
