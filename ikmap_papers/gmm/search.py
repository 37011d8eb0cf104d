"""Searches over C and the parameters of a kernel, which try more values of C while the best is at an end of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ikmap.arrays import Floats
from ikmap.learners.kernel.kernel_svm_path import SVMPath, fit_kernel_svm_path

type Values = tuple[float, ...]
type Fold = tuple[np.ndarray, np.ndarray]
"""Numbers of the rows that are learned from, and of those that are predicted."""

MORE = 3
"""Number of values of C that are added at an end at a time."""


@dataclass(frozen=True)
class Score:
    """The results of SVMs with one kernel, for each C.

    Attributes
    ----------
    right : ndarray of int64
        Rows that are predicted rightly.
    converged, moved : ndarray of int64
        Folds whose SVM has reached its tolerance, and those whose coefficients are others than with the C before.
    """

    right: np.ndarray
    converged: np.ndarray
    moved: np.ndarray


class GridSearch:
    """Rows that SVMs predict rightly, by kernel and C.

    Parameters
    ----------
    y : ndarray of int
        Classes of all rows.
    n_classes : int
    folds : sequence of Fold
        What SVMs learn from is among the first rows, which the matrices of :meth:`add` have as their rows.
    Cs : sequence of float
        What is tried first, ascending, each the same factor times the one before.
    kernels : callable, optional
        Whether a kernel is among those to be tried. Default: all are.

    Attributes
    ----------
    Cs : tuple of float
        Values of C tried so far, ascending.
    scores : dict
        Score by the parameters of the kernel.
    tried_now : tuple of float
        Values of C to try next; empty when the search is over.
    """

    def __init__(
        self,
        y: np.ndarray,
        n_classes: int,
        folds: Sequence[Fold],
        Cs: Sequence[float],
        kernels: Callable[[Values], bool] = lambda _: True,
    ) -> None:
        self._y, self._n_classes, self._folds, self.tries = y, n_classes, folds, kernels
        self.Cs: tuple[float, ...] = ()
        self.scores: dict[Values, Score] = {}
        self.tried_now = tuple(Cs)
        self._factor = Cs[1] / Cs[0]
        self._ends: dict[Values, list[SVMPath]] = {}

    def add(self, chosen: Values, K: Floats) -> None:
        """Try the values of C that are asked for on a kernel, given its matrix of the first rows with all rows."""
        above = bool(self.Cs) and self.tried_now[0] > self.Cs[-1]
        starts: Sequence[SVMPath | None] = self._ends[chosen] if above else [None] * len(self._folds)
        new = np.zeros((3, len(self.tried_now)), dtype=np.int64)
        ends = []
        for (fit, tested), start in zip(self._folds, starts, strict=True):
            path = fit_kernel_svm_path(K[np.ix_(fit, fit)], self._y[fit], self._n_classes, self.tried_now, start=start)
            first = np.zeros_like(path.coef[:, :1]) if start is None else start.coef
            new += [
                (path.predict(K[np.ix_(fit, tested)].T) == self._y[tested]).sum(axis=1),
                path.converged,
                np.diff(np.hstack([first, path.coef]), axis=1).any(axis=(0, 2)),
            ]
            ends.append(path.end())
        if above or chosen not in self._ends:
            self._ends[chosen] = ends
        if chosen in self.scores:
            old = self.scores[chosen]
            known = np.array([old.right, old.converged, old.moved])
            new = np.hstack([known, new] if above else [new, known])
        self.scores[chosen] = Score(*new)

    def widen(self, least: float, most: float) -> None:
        """Ask for larger or smaller C, from `least` to `most`, if the best is at that end; else for none.

        At the lower end, where SVMs become constant, the best has to be better than all others. At the upper end it may
        be as good, unless all rows are predicted rightly or SVMs do not change with C any more.
        """
        self.Cs = tuple(sorted((*self.Cs, *self.tried_now)))
        by_C = self.table().max(axis=0)
        best = np.flatnonzero(by_C == by_C.max())
        n_rows = sum(tested.size for _, tested in self._folds)
        steps = range(1, MORE + 1)
        wanted: list[float] = []
        if best[-1] == 0:
            wanted = [self.Cs[0] / self._factor**k for k in reversed(steps)]
        elif best[-1] == len(self.Cs) - 1 and by_C[-1] < n_rows and self._moves():
            wanted = [self.Cs[-1] * self._factor**k for k in steps]
        self.tried_now = tuple(C for C in wanted if least <= C <= most)

    def _moves(self) -> bool:
        """Return whether one of the best SVMs with the largest C is another than with the C before."""
        best = max(score.right[-1] for score in self.scores.values())
        return any(score.moved[-1] > 0 for score in self.scores.values() if score.right[-1] == best)

    def table(self) -> np.ndarray:
        """Rows predicted rightly: shape (kernels, C)."""
        return np.array([score.right for score in self.scores.values()])

    def best(self) -> tuple[Values, float]:
        """Return the kernel and C, the first of equally good ones, that predict most rows rightly."""
        table = self.table()
        at, C = np.unravel_index(int(table.argmax()), table.shape)
        return list(self.scores)[at], self.Cs[C]


def run(
    searches: Sequence[GridSearch],
    limits: Callable[[GridSearch], tuple[float, float]],
    kernels: Callable[[Callable[[Values], bool]], Iterable[tuple[Values, np.ndarray]]],
) -> None:
    """Let searches that share kernels come to their ends.

    Parameters
    ----------
    searches : sequence of GridSearch
    limits : callable
        The least and the largest C of a search.
    kernels : callable
        Yields the parameters and the matrix of all kernels for which a function is true.
    """
    while asking := [search for search in searches if search.tried_now]:
        for chosen, K in kernels(_any_of(asking)):
            for search in asking:
                if search.tries(chosen):
                    search.add(chosen, K)
        for search in searches:
            search.widen(*limits(search))


def _any_of(searches: Sequence[GridSearch]) -> Callable[[Values], bool]:
    return lambda chosen: any(search.tries(chosen) for search in searches)


def in_folds(folds: np.ndarray) -> Iterator[Fold]:
    """Yield what is learned from and what is held out for each number of a fold."""
    for fold in range(int(folds.max()) + 1):
        yield np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
