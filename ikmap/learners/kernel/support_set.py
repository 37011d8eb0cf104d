"""Support points with coefficients, and sums of kernel values over them, for all learners in the dual."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from functools import partial
from threading import Lock
from typing import cast

import numpy as np
import scipy.sparse as sp

from ikmap._threads import for_each_block
from ikmap.arrays import Floats
from ikmap.cells import Cells
from ikmap.kernels.base import TILE, AnyKernel
from ikmap.learners._scores_loops import add_products, decisions
from ikmap.learners.rows import Rows, n_rows
from ikmap.rows import as_csr

TASKS = 8
"""Few rows are compared with many points in so many tasks."""


class SupportSet:
    """Support points in order of arrival, with a coefficient for each output.

    They are kept in tiles that are prepared for a kernel once; the last one may have room left.

    Parameters
    ----------
    kernel : Kernel
    n_outputs : int
        Number K of coefficients of a point.
    whole : bool
        True if all coefficients are whole numbers. Sums are then made of kernel steps (:meth:`Kernel.steps`): exact
        ones if the kernel is normalized, and else by adding one point after the other. If they are not whole, sums
        are made of kernel values, tile after tile.
    """

    def __init__(self, kernel: AnyKernel, n_outputs: int, whole: bool = True) -> None:
        self.kernel = kernel
        self.n_outputs = n_outputs
        self.whole = whole
        self._full: list[tuple[Rows, Sized, Floats]] = []
        self._open: list[tuple[Rows, Floats]] = []

    def __len__(self) -> int:
        n_rows: int = sum(coef.shape[0] for _, _, coef in self._full) + sum(coef.shape[0] for _, coef in self._open)
        return n_rows

    def append(self, rows: Rows, coefficients: Floats) -> None:
        """Add points, checked by the kernel; coefficients: float64, shape (n, K)."""
        self._open.append((rows, coefficients))
        waiting = sum(part.shape[0] for _, part in self._open)
        if waiting >= TILE:
            rows, coefficients = self._opened()
            whole = waiting - waiting % TILE
            for i in range(0, whole, TILE):
                tile = rows[i : i + TILE]
                self._full.append((tile, self.kernel.points(tile), coefficients[i : i + TILE]))
            self._open = [(rows[whole:], coefficients[whole:])] if whole < waiting else []

    def _opened(self) -> tuple[Rows, Floats]:
        return stack([rows for rows, _ in self._open]), np.concatenate([part for _, part in self._open])

    def arrays(self) -> tuple[Rows, Floats] | None:
        """Return all points and their coefficients, shape (s, K), or None if there are none."""
        parts = (*self._full, *self._open)
        if not parts:
            return None
        return stack([part[0] for part in parts]), np.concatenate([part[-1] for part in parts])

    def sums(self, rows: Rows, n_threads: int | None = None) -> Floats:
        """Sum of coefficient times kernel value, for each row and output: float64, shape (n, K).

        If all coefficients are whole, in the kernel's steps: see :attr:`unit`. The sums depend neither on the blocks
        in which points were appended nor on threads.
        """
        n, rows = n_rows(rows), self.kernel.checked(rows)
        tiles = [(points, coefficients) for _, points, coefficients in self._full]
        if self._open:
            last, coefficients = self._opened()
            tiles.append((self.kernel.points(last), coefficients))
        out = np.zeros((n, self.n_outputs))
        in_order = self.whole and not self.kernel.normalized
        left = [self.kernel.points(rows[i : i + TILE]) for i in range(0, n, TILE)]
        lock = Lock()
        few = len(left) < TASKS
        if in_order and few:
            for block, points in enumerate(left):
                self._add_in_order(points, tiles, out[block * TILE : (block + 1) * TILE], n_threads)
            return out
        # Sums of whole numbers may be added in any order: with few rows, threads share the support points.
        shared = self.whole and not in_order and few
        per_task = max(1, -(-len(tiles) // TASKS) if shared else len(tiles))

        def add(task: int, _: int) -> None:
            part, block = divmod(task, len(left))
            total = np.zeros((len(left[block]), self.n_outputs))
            for points, coefficients in tiles[part * per_task : (part + 1) * per_task]:
                self._add_products(left[block], points, coefficients, total)
            with lock:
                out[block * TILE : block * TILE + total.shape[0]] += total

        for_each_block(add, len(left) * -(-len(tiles) // per_task), 1, n_threads)
        return out

    @property
    def unit(self) -> float:
        """Inverse of the unit of :meth:`sums`."""
        return self.kernel.unit if self.whole else 1.0

    def _add_in_order(
        self, left: Sized, tiles: Sequence[tuple[Sized, Floats]], total: Floats, n_threads: int | None
    ) -> None:
        """Add the kernel of few rows with all tiles of points, times their coefficients, tile after tile, to `total`.

        Only the values of some tiles are computed side by side.
        """
        for start in range(0, len(tiles), TASKS):
            some = tiles[start : start + TASKS]
            values = [np.empty((len(left), len(points))) for points, _ in some]
            steps = partial(self._steps, left, some, values)
            for_each_block(steps, len(some), 1, n_threads)
            for (_, coefficients), tile in zip(some, values, strict=True):
                add_products(tile, np.ascontiguousarray(coefficients), total)

    def _steps(
        self, left: Sized, tiles: Sequence[tuple[Sized, Floats]], values: Sequence[Floats], start: int, stop: int
    ) -> None:
        for k in range(start, stop):
            self.kernel.steps(left, tiles[k][0], values[k])

    def _add_products(self, left: Sized, points: Sized, coefficients: Floats, total: Floats) -> None:
        """Add the kernel of some rows with a tile of points, times their coefficients, to `total`."""
        tile = np.empty((len(left), len(points)))
        if self.whole:
            self.kernel.steps(left, points, tile)
            if self.kernel.normalized:
                total += tile @ coefficients
            else:
                add_products(tile, np.ascontiguousarray(coefficients), total)
            return
        # A library's product may add up in another order where a block of rows ends: not here.
        self.kernel.values(left, points, tile)
        out = np.empty((len(left), self.n_outputs))
        decisions((tile,), np.ascontiguousarray(coefficients), 1.0, np.zeros(self.n_outputs), out)
        total += out


def stack(parts: list[Rows]) -> Rows:
    """Join rows of one kind; dense rows beside CSR become CSR."""
    if isinstance(parts[0], Cells):
        # Packed as their own cells need it, whatever stood beside them.
        cells = parts[0] if len(parts) == 1 else Cells.concatenated(cast("list[Cells]", parts))
        return cells.packed() if cells.codes.dtype.kind == "u" else cells
    if len(parts) == 1:
        return parts[0]
    if all(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate(cast("list[Floats]", parts))
    return sp.csr_array(sp.vstack([as_csr(part) for part in parts], format="csr"))


def support_set_bytes(n: int, d: int, nnz: int | None = None, n_classes: int = 2) -> int:
    """Return the largest number of bytes of support points beside the rows, if all n rows become one.

    Parameters
    ----------
    n, d : int
        Numbers of rows and columns. Of cells: t columns.
    nnz : int, optional
        Entries of CSR rows; None: the rows are dense, or cells.
    n_classes : int
    """
    # Rows are kept as they came and laid out for the loop over pairs; then coefficients, and blocks under way.
    row = 2 * (8 * n * d if nnz is None else 20 * nnz + 24 * n)
    return row + 8 * n * (1 if n_classes == 2 else n_classes) + (4 << 20)
