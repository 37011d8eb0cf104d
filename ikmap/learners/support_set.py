"""Points with coefficients, and sums of kernel values over them: what every learner in the dual predicts with."""

from __future__ import annotations

from threading import Lock
from typing import Any

import numpy as np
import scipy.sparse as sp

from ikmap._threads import for_each_block
from ikmap.cells import Cells
from ikmap.kernels.base import TILE, Kernel
from ikmap.learners.rows import Rows, n_rows

TASKS = 8
"""Few rows are compared with many points in so many tasks."""


class SupportSet:
    """Support points in the order of their arrival, with a coefficient for each output.

    They are kept in tiles that are prepared for a kernel once; the last one may have room left.

    Parameters
    ----------
    kernel : Kernel
    n_outputs : int
        Number K of coefficients of a point.
    whole : bool
        Whether all coefficients are whole numbers. Sums of kernel steps are then exact (:meth:`Kernel.steps`).
    n_threads : int, optional
        No matter of the result.
    """

    def __init__(self, kernel: Kernel, n_outputs: int, whole: bool = True, n_threads: int | None = None) -> None:
        self.kernel = kernel
        self.n_outputs = n_outputs
        self.whole = whole
        self.n_threads = n_threads
        self._full: list[tuple[Rows, Any, np.ndarray]] = []
        self._open: list[tuple[Rows, np.ndarray]] = []

    def __len__(self) -> int:
        return sum(part[-1].shape[0] for part in (*self._full, *self._open))

    @property
    def nbytes(self) -> int:
        """Bytes of the points and coefficients, without what is prepared of them."""
        return sum(row_bytes(part[0]) + part[-1].nbytes for part in (*self._full, *self._open))

    def append(self, rows: Rows, coefficients: np.ndarray) -> None:
        """Add points; coefficients: shape (n, K)."""
        self._open.append((rows, coefficients))
        waiting = sum(part.shape[0] for _, part in self._open)
        if waiting >= TILE:
            rows, coefficients = self._opened()
            whole = waiting - waiting % TILE
            for i in range(0, whole, TILE):
                tile = rows[i : i + TILE]
                self._full.append((tile, self.kernel.points(tile), coefficients[i : i + TILE]))
            self._open = [(rows[whole:], coefficients[whole:])] if whole < waiting else []

    def _opened(self) -> tuple[Rows, np.ndarray]:
        return stack([rows for rows, _ in self._open]), np.concatenate([part for _, part in self._open])

    def arrays(self) -> tuple[Rows, np.ndarray] | None:
        """All points and their coefficients, shape (s, K); None while there are none."""
        parts = (*self._full, *self._open)
        if not parts:
            return None
        return stack([part[0] for part in parts]), np.concatenate([part[-1] for part in parts])

    def sums(self, rows: Rows) -> np.ndarray:
        """Sum of coefficient times kernel value, in the kernel's steps, for each row and output: float64, (n, K)."""
        n = n_rows(rows)
        tiles = [(points, coefficients) for _, points, coefficients in self._full]
        if self._open:
            last, coefficients = self._opened()
            tiles.append((self.kernel.points(last), coefficients))
        out = np.zeros((n, self.n_outputs))
        left = [self.kernel.points(rows[i : i + TILE]) for i in range(0, n, TILE)]
        lock = Lock()
        # Sums of whole numbers may be added in any order: with few rows, threads share the support points.
        shared = self.whole and len(left) < TASKS
        per_task = max(1, -(-len(tiles) // TASKS)) if shared else max(1, len(tiles))

        def add(task: int, _: int) -> None:
            part, block = divmod(task, len(left))
            total = np.zeros((len(left[block]), self.n_outputs))
            for points, coefficients in tiles[part * per_task : (part + 1) * per_task]:
                tile = np.empty((len(left[block]), len(points)))
                self.kernel.steps(left[block], points, tile)
                total += tile @ coefficients
            with lock:
                out[block * TILE : block * TILE + total.shape[0]] += total

        for_each_block(add, len(left) * -(-len(tiles) // per_task), 1, self.n_threads)
        return out


def stack(parts: list[Rows]) -> Rows:
    """Rows of one kind, one below the other."""
    if len(parts) == 1:
        return parts[0]
    some: list[Any] = parts
    if isinstance(some[0], Cells):
        return Cells(np.concatenate([part.codes for part in some]), some[0].offsets)
    if isinstance(some[0], np.ndarray):
        return np.concatenate(some)
    return sp.csr_array(sp.vstack(some, format="csr"))


def row_bytes(rows: Rows) -> int:
    """Bytes of the arrays of some rows."""
    if isinstance(rows, Cells):
        return int(rows.codes.nbytes)
    matrix: Any = rows
    return int(matrix.nbytes if isinstance(matrix, np.ndarray) else matrix.data.nbytes + matrix.indices.nbytes)
