"""Kernel SVMs for growing C on one matrix of kernel values, each started from the previous solution.

What takes long is the matrix; whoever tries many C, or has one matrix for training and test rows of many trials, hands
it over here. :mod:`ikmap.learners.kernel.kernel_svm` is for one C and rows whose matrix would not fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from ikmap._threads import single_threaded_blas
from ikmap.arrays import Bools, Floats
from ikmap.learners.kernel._smo_loops import optimize
from ikmap.learners.kernel.kernel_model import votes

MAX_STEPS = 100
"""Times the number of rows: steps that are made at most for one C."""
SMALL = 1000
"""Steps that are made with all rows in any case."""
NEAR = 0.5
"""Rows that far from the margin are left out first: those with y f(x) above 1.5, and bounded ones below 0.5."""


@dataclass(frozen=True)
class SVMPath:
    """Solutions for each C, for two classes or for every pair of more classes.

    Attributes
    ----------
    coef : ndarray of float64, shape (n, C, pairs)
        Coefficients y_i alpha_i; of three classes or more a decision > 0 is a vote for the first of a pair.
    intercept : ndarray of float64, shape (C, pairs)
    steps : ndarray of int64, shape (C,)
        Steps of the optimisation, of all pairs.
    converged : ndarray of bool, shape (C,)
        True if the tolerance was reached for all pairs.
    n_classes : int
    """

    coef: Floats
    intercept: Floats
    steps: np.ndarray
    converged: Bools
    n_classes: int

    def end(self) -> SVMPath:
        """Return the path of the largest C alone, from which a longer path can start."""
        coef, intercept = self.coef[:, -1:].copy(), self.intercept[-1:].copy()
        return SVMPath(coef, intercept, self.steps[-1:], self.converged[-1:], self.n_classes)

    def predict(self, K: Floats) -> np.ndarray:
        """Return class numbers, int64 of shape (C, m), from kernel values of m rows with the n training rows."""
        n, n_C, pairs = self.coef.shape
        with single_threaded_blas:
            decisions = (K @ self.coef.reshape(n, n_C * pairs)).reshape(-1, n_C, pairs) + self.intercept
        if self.n_classes == 2:
            return np.ascontiguousarray((decisions[:, :, 0] >= 0).T.astype(np.int64))
        return np.stack([votes(decisions[:, c], self.n_classes).argmax(axis=1) for c in range(n_C)])


def fit_kernel_svm_path(
    K: Floats,
    y: np.ndarray,
    n_classes: int,
    Cs: Sequence[float],
    tol: float = 1e-3,
    start: SVMPath | None = None,
) -> SVMPath:
    """Train on kernel values, for each C.

    Parameters
    ----------
    K : ndarray of float64, shape (n, n)
        Kernel values of the rows among themselves. They need not be positive semidefinite.
    y : ndarray of int, shape (n,)
        Class numbers. Pairs of classes of which one has no row are left out: nobody votes for it.
    n_classes : int
    Cs : sequence of float
        Ascending.
    tol : float
        Largest violation of the optimality conditions that is left.
    start : SVMPath, optional
        Path of the same rows for smaller C, from the end of which to go on.
    """
    pairs = [(0, 1)] if n_classes == 2 else list(combinations(range(n_classes), 2))
    coef = np.zeros((y.size, len(Cs), len(pairs)))
    intercept = np.zeros((len(Cs), len(pairs)))
    steps, converged = np.zeros(len(Cs), dtype=np.int64), np.ones(len(Cs), dtype=bool)
    for column, (a, b) in enumerate(pairs):
        those = np.flatnonzero((y == a) | (y == b))
        first = y[those] == (b if n_classes == 2 else a)
        if first.all() or not first.any():
            there = a if (y[those] == a).any() else b
            intercept[:, column] = 1.0 if (there == b if n_classes == 2 else there == a) else -1.0
            continue
        of_pair = np.ascontiguousarray(K if those.size == y.size else K[np.ix_(those, those)])
        begun = None if start is None else start.coef[those, -1, column]
        for at, found in enumerate(_two_classes(of_pair, np.where(first, 1.0, -1.0), Cs, tol, begun)):
            coef[those, at, column], intercept[at, column] = found[0], found[1]
            steps[at] += found[2]
            converged[at] &= found[3]
    return SVMPath(coef, intercept, steps, converged, n_classes)


def _two_classes(
    K: Floats, sign: Floats, Cs: Sequence[float], tol: float, begun: Floats | None
) -> list[tuple[np.ndarray, float, int, bool]]:
    """Return coefficients, offset, number of steps and whether they were enough, for each C.

    `begun` has coefficients for a smaller C, to begin with.
    """
    coef, left = np.zeros(sign.size), sign.copy()
    if begun is not None:
        coef = begun.copy()
        with single_threaded_blas:
            left -= K @ coef
    found: list[tuple[np.ndarray, float, int, bool]] = []
    before = 0.0
    for C in Cs:
        # Where no coefficient is at its bound, a larger one changes nothing.
        if found and found[-1][3] and np.abs(coef).max() < 0.999 * before:
            found.append((*found[-1][:2], 0, True))
            continue
        before = C
        _stretch(coef, left, sign, C)
        low, high = np.where(sign > 0, 0.0, -C), np.where(sign > 0, C, 0.0)
        steps, violation = _optimized(K, low, high, coef, left, tol)
        free = (coef > low) & (coef < high)
        middle = (left[coef < high].max() + left[coef > low].min()) / 2
        offset = float(left[free].mean() if free.any() else middle)
        found.append((coef.copy(), offset, int(steps), bool(violation <= tol)))
    return found


def _optimized(K: Floats, low: Floats, high: Floats, coef: Floats, left: Floats, tol: float) -> tuple[int, float]:
    """Optimise coefficients in place; return the number of steps and the violation that is left.

    Steps cost as much as there are rows. So what is not done after as many steps as rows goes on with those that are
    near the margin; the others, once they are looked at again, join where they violate.
    """
    n, at_most = coef.size, MAX_STEPS * max(1000, coef.size)
    steps, violation = optimize(K, low, high, coef, left, tol, min(at_most, max(n, SMALL)))
    active = np.zeros(n, dtype=bool)
    while violation > tol and steps < at_most:
        up, down = coef < high, coef > low
        middle = (left[up].max() + left[down].min()) / 2
        # Rows at a bound that would have to move past the middle before they could leave it.
        active |= (up & (left > middle - NEAR)) | (down & (left < middle + NEAR))
        some = np.flatnonzero(active)
        part, of_part = np.ascontiguousarray(K[np.ix_(some, some)]), coef[some]
        rest = left[some]
        more, _ = optimize(part, low[some], high[some], of_part, rest, tol / 2, at_most - steps)
        changed = np.flatnonzero(of_part != coef[some])
        with single_threaded_blas:
            left -= (of_part - coef[some])[changed] @ K[some[changed]]
        coef[some] = of_part
        steps += more
        violation = float(left[coef < high].max() - left[coef > low].min())
        if more == 0:
            more, violation = optimize(K, low, high, coef, left, tol, at_most - steps)
            steps += more
    return steps, violation


def _stretch(coef: Floats, left: Floats, sign: Floats, C: float) -> None:
    """Multiply the coefficients by what is best on that line, within the new bounds."""
    largest = np.abs(coef).max()
    if largest == 0.0:
        return
    size = coef @ sign
    curvature = coef @ (sign - left)
    factor = min(C / largest, size / curvature if curvature > 0 else np.inf)
    if factor <= 1.0:
        return
    coef *= factor
    np.clip(coef, -C, C, out=coef)
    left -= sign
    left *= factor
    left += sign
