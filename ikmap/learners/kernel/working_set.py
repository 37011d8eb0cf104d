"""The exact kernel SVM of two classes with a matrix of relevant rows only, by Vapnik's chunking.

LIBSVM solves the problem of a working set W of rows. All other rows have alpha = 0, which is optimal where
y f(x) >= 1. Those that violate this join W, others may leave it, and so on until none violates it by more than the
tolerance: then the solution is one of the whole problem, and W has little more than its support vectors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ikmap._threads import for_each_block
from ikmap.arrays import Bools, Floats
from ikmap.kernels.base import TILE, AnyKernel
from ikmap.learners._scores_loops import decisions
from ikmap.learners.kernel.support_set import SupportSet
from ikmap.learners.rows import Rows, n_rows

FIRST_ROWS = 4000
"""Rows of the first working set; a problem that has no more is solved at once."""
SURE = 1.1
"""Rows of the working set with alpha = 0 and a margin above this one leave it."""
CACHE_MB = 200
"""Memory in which LIBSVM keeps kernel values times signs, in float32."""


@dataclass(frozen=True)
class KernelSVMParams:
    """Parameters of the problem and of its solution.

    Parameters
    ----------
    C : float
        Weight of the hinge losses, > 0.
    tol : float
        Largest violation of the optimality conditions that is left.
    class_weight : "balanced" or None
    max_iter : int
        LIBSVM's steps at most, for each time that it is called; -1: no limit.
    """

    C: float = 1.0
    tol: float = 1e-3
    class_weight: Literal["balanced"] | None = None
    max_iter: int = -1

    def __post_init__(self) -> None:
        if not 0 < self.C < np.inf or not self.tol > 0:
            raise ValueError(f"C and tol must be positive numbers, got {self.C!r} and {self.tol!r}")


class WorkingSetTooLarge(MemoryError):
    """An error for a working set that needs more rows than it may have.

    Attributes
    ----------
    needed, n : int
        Rows that would be in the working set, of how many.
    """

    def __init__(self, needed: int, n: int) -> None:
        super().__init__(needed, n)
        self.needed, self.n = needed, n

    def __str__(self) -> str:
        return f"the working set would need about {self.needed} of {self.n} rows"


@dataclass(frozen=True)
class TwoClassSolution:
    """The solution, with decisions ``sum_i coef_i K(x_i, x) + intercept`` > 0 for the second class.

    Attributes
    ----------
    coef : ndarray of float64, shape (n,)
        y_i alpha_i: 0 for all but support vectors.
    intercept : float
    working_set : int
        Most rows that were in it at a time.
    rounds, steps : int
        Times that LIBSVM was called; its steps in all.
    """

    coef: Floats
    intercept: float
    working_set: int
    rounds: int
    steps: int


def solve_two_classes(
    rows: Rows,
    second: Bools,
    kernel: AnyKernel,
    params: KernelSVMParams,
    weights: tuple[float, float] = (1.0, 1.0),
    max_working_set: int | None = None,
    n_threads: int | None = None,
) -> TwoClassSolution:
    """Solve the problem of two classes.

    Parameters
    ----------
    rows : n rows, as the kernel has checked them
    second : ndarray of bool, shape (n,)
        Which are of the second class; both classes must be there.
    weights : (float, float)
        Factors of C for the two classes; the class weight of `params` is not looked at.
    max_working_set : int, optional
        Most rows that may be in the working set.

    Raises
    ------
    WorkingSetTooLarge
        Raised as soon as it can be foreseen: after the first :data:`FIRST_ROWS` rows, as a rule.
    """
    n = n_rows(rows)
    y = np.where(second, 1.0, -1.0)
    coef, sums = np.zeros(n), np.zeros(n)  # sums: up to date outside of the working set
    rounds = steps = largest = 0
    may_leave = np.ones(n, dtype=bool)
    working = _Working(rows, kernel, n_threads)
    level = levels(second)
    at = int(level.max())
    leaving, joining = np.empty(0, dtype=np.int64), np.flatnonzero(level == at)
    needed = joining.size
    while True:
        if max_working_set is not None and needed > max_working_set:
            raise WorkingSetTooLarge(needed, n)
        working.change(leaving, joining)
        W = working.numbers
        before = coef[W]
        coef[W], intercept, count = _libsvm(working.matrix, second[W], params, weights)
        rounds, steps, largest = rounds + 1, steps + count, max(largest, W.size)
        if W.size == n:
            break
        outside = np.ones(n, dtype=bool)
        outside[W] = False
        others, changed = np.flatnonzero(outside), W[coef[W] != before]
        if changed.size:
            support = SupportSet(kernel, 1, whole=False)
            support.append(rows[changed], (coef[W] - before)[coef[W] != before][:, None])
            sums[others] += support.sums(rows[others], n_threads)[:, 0]
        margin = y[others] * (sums[others] + intercept)
        violating = margin < 1 - params.tol
        if not violating.any():
            break
        sums[W] = working.sums(coef[W])
        # No row leaves twice, or rows might come and go for ever.
        leaving = np.flatnonzero((coef[W] == 0) & (y[W] * (sums[W] + intercept) > SURE) & may_leave[W])
        may_leave[W[leaving]] = False
        needed = W.size - leaving.size + int(np.count_nonzero(violating))
        violators = others[violating]
        at = min(max(0, at - 1), int(level[violators].max()))
        joining = violators[level[violators] >= at]
    return TwoClassSolution(coef, intercept, largest, rounds, steps)


def levels(second: Bools) -> np.ndarray:
    """Return the levels at which rows can join: first those of the highest level, then lower ones, down to 0.

    Rows of at least a level are evenly spaced in each class, every 2^level-th, and at most :data:`FIRST_ROWS` of the
    highest. What violates the solution of a sample is a fair sample of what violates that of twice as many: solutions
    change little from level to level. With all violators at once, or the worst of them first, the working set would
    consist of exceptions, and its solution make violators of rows that are none.
    """
    n = second.size
    by_class = np.argsort(second, kind="stable")
    level = np.zeros(n, dtype=np.int64)
    top, stride = 0, 1
    while n > FIRST_ROWS * stride:
        top, stride = top + 1, 2 * stride
        level[by_class[::stride]] = top
    level[by_class[[0, -1]]] = top  # Of both classes there is one in the first sample.
    return level


def _libsvm(
    K: Floats, second: Bools, params: KernelSVMParams, weights: tuple[float, float]
) -> tuple[np.ndarray, float, int]:
    """Return coefficients, offset and number of steps of the solution for a matrix of kernel values."""
    from sklearn.svm import SVC  # takes a second to import

    svc = SVC(C=params.C, kernel="precomputed", tol=params.tol, class_weight=dict(enumerate(weights)),
              max_iter=params.max_iter, cache_size=CACHE_MB).fit(K, second.astype(np.int64))  # fmt: skip
    coef = np.zeros(second.size)
    coef[svc.support_] = svc.dual_coef_[0]
    return coef, float(svc.intercept_[0]), int(svc.n_iter_[0])


class _Working:
    """The working set in the order of joining, and the matrix of its kernel values."""

    def __init__(self, rows: Rows, kernel: AnyKernel, n_threads: int | None) -> None:
        self.numbers = np.empty(0, dtype=np.int64)
        self._rows, self._kernel, self._n_threads = rows, kernel, n_threads
        self._values = np.empty(0)

    @property
    def matrix(self) -> Floats:
        """Kernel values, float64 of shape (|W|, |W|) in C order, valid until the next change."""
        return self._values.reshape(self.numbers.size, self.numbers.size)

    def sums(self, coef: np.ndarray) -> np.ndarray:
        """Sum of coefficient times kernel value, for each row of W; the same whatever the threads."""
        K, out, none = self.matrix, np.empty((coef.size, 1)), np.zeros(1)

        def some(start: int, stop: int) -> None:
            decisions((K[start:stop],), coef[:, None], 1.0, none, out[start:stop])

        for_each_block(some, coef.size, TILE, self._n_threads)
        return out[:, 0]

    def change(self, leaving: np.ndarray, joining: np.ndarray) -> None:
        """Remove rows by place and add others by number; the remaining values are moved within their memory."""
        old, stay = self.numbers.size, np.delete(np.arange(self.numbers.size), leaving)
        kept, size = stay.size, stay.size + joining.size
        values = self._values
        if kept < old:
            for row, place in enumerate(stay):
                values[row * kept : (row + 1) * kept] = values[place * old : (place + 1) * old][stay]
        del values
        self._values.resize(size * size, refcheck=False)  # Nobody else has a view of it by now.
        for row in reversed(range(1, kept)):
            self._values[row * size : row * size + kept] = self._values[row * kept : (row + 1) * kept]
        self.numbers = np.concatenate([self.numbers[stay], joining])
        self._fill(kept)

    def _fill(self, kept: int) -> None:
        """Compute the values of rows that joined: those from place `kept` on."""
        K, kernel = self.matrix, self._kernel
        rows, size = self._rows[self.numbers], self.numbers.size
        parts = [
            slice(i, min(i + TILE, end)) for start, end in ((0, kept), (kept, size)) for i in range(start, end, TILE)
        ]
        tiles = [kernel.points(rows[part]) for part in parts]
        new = [place for place, part in enumerate(parts) if part.start >= kept]

        def row_of_tiles(number: int, _: int) -> None:
            place = new[len(new) - 1 - number]  # The longest first.
            for other in range(place + 1):
                tile = np.empty((len(tiles[place]), len(tiles[other])))
                kernel.values(tiles[place], tiles[other], tile)
                K[parts[place], parts[other]] = tile
                K[parts[other], parts[place]] = tile.T

        for_each_block(row_of_tiles, len(new), 1, self._n_threads)
