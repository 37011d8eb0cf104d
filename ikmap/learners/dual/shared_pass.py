"""Sweeps over cells by two threads together."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import DTypeLike

from ikmap.arrays import Array, Floats, Int32s, Int64s
from ikmap.learners.dual import _shared_pass_loops as loops
from ikmap.learners.dual._linear_svm_loops import Begun, Objective, one_pass
from ikmap.learners.dual._linear_svr_loops import Targets
from ikmap.learners.dual.whole_numbers import CountedArrays

FEWEST_ROWS = 4096
"""Fewer are swept by one thread before the other has begun."""
FEWEST_PARTITIONS = 32
"""Least number of partitionings; with fewer, the threads would do little but meet."""
FIRST_TRIED = 5
"""Sweeps that one thread makes before two are tried: a fit that needs no more is not worth waking another core for."""
TRIED_AGAIN = 16
"""One in so many sweeps is made in the way that was slower."""
PATIENCE, REGAINED = 3.0, 0.25
"""Sweeps that may be broken off because a thread was not let run, before all are left to one; what one adds that was
not."""


type Swept = tuple[int, float, float, float, float, float]
"""Rows kept, and sums over a sweep: losses, gap, the largest step, the root mean square of steps, and growth."""


class Pace:
    """Chooses between equal sweeps by one thread and by two, by their times.

    How long it takes two cores to meet is a matter of the machine, and of who else is on it. So one thread begins; in a
    fit that goes on for long two are tried, and most sweeps are then made by whichever was faster when last tried.
    """

    def __init__(self) -> None:
        self.sweeps = 0
        self.seconds = {False: np.inf, True: np.inf}

    def shares(self) -> bool:
        """Return whether the next sweep is for two threads."""
        if self.sweeps <= FIRST_TRIED:
            return self.sweeps == FIRST_TRIED
        best = self.seconds[True] < self.seconds[False]
        return not best if self.sweeps % TRIED_AGAIN == 0 else best

    def took(self, shared: bool, seconds: float, rows: int) -> None:
        """Note a sweep."""
        self.sweeps += 1
        self.seconds[shared] = seconds / max(1, rows)


class SharedPass:
    """A replacement of :func:`_linear_svm_loops.one_pass` with the same bits.

    Parameters
    ----------
    most_rows, t : int
        Rows of a sweep, at most, and partitionings: of cells that :meth:`suits`.
    """

    def __init__(self, most_rows: int, t: int) -> None:
        self.exchange = loops.Exchange(
            flags=_lines(3 * loops.LINE, np.uint64),
            sums=_lines(loops.SUMS, np.int64),
            counts=_lines(loops.COUNTS, np.min_scalar_type((t + 1) // 2)),
            kept=np.empty(most_rows, np.int32),
            told=_lines(2 * loops.LINE, np.float64).reshape(2, loops.LINE),
        )
        self.patience = PATIENCE
        self.pace = Pace()
        self.pool = ThreadPoolExecutor(1)

    @staticmethod
    def suits(base: np.ndarray, n_columns: int) -> bool:
        """Return whether the cells can be shared out: no two partitionings may have a weight in common."""
        apart = bool((base[1:] > base[:-1]).all()) and base[-1] < n_columns
        return apart and base.size >= FEWEST_PARTITIONS

    def pays(self, size: int) -> bool:
        """Return whether two threads are worthwhile for a number of rows."""
        return self.patience > 0 and size >= FEWEST_ROWS and self.pace.shares()

    def __call__(
        self,
        rows: CountedArrays,
        norms: Floats,
        objective: Objective | Targets,
        w: Int64s,
        alpha: Floats,
        order: Int32s,
        size: int,
        threshold: float,
    ) -> Swept:
        """Make a sweep like :func:`_linear_svm_loops.one_pass`, from its first visit on."""
        flags, _, _, stay, told = self.exchange
        flags[:] = 0
        flags[loops.STOP] = loops.NEVER
        arrays = (rows, norms, objective, w, alpha, order, size, threshold)
        helper = self.pool.submit(loops.shared_pass, 1, self.exchange, *arrays)
        try:
            loops.shared_pass(0, self.exchange, *arrays)
        except BaseException:
            flags[loops.STOP] = 0  # Nobody else tells the helper not to wait.
            raise
        finally:
            helper.result()
        most, squares, growth, moves, kept, visited = told[0, :6].tolist()
        losses, gap = told[1, 6:8].tolist()
        order[: int(kept)] = stay[: int(kept)]
        first = min(int(visited), size)
        self.patience = self.patience - 1.0 if first < size else min(PATIENCE, self.patience + REGAINED)
        begun = Begun(first, int(kept), int(moves), losses, gap, most, squares, growth)
        swept: Swept = one_pass(*arrays, begun)
        return swept


def _lines(size: int, dtype: DTypeLike) -> Array:
    """Return zeros that begin at a pair of cache lines."""
    width, line = np.dtype(dtype).itemsize, 8 * loops.LINE
    buffer = np.zeros(size * width + line, np.uint8)
    start = -buffer.ctypes.data % line
    return buffer[start : start + size * width].view(dtype)
