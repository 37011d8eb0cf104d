"""The base of exact kernels: the matrix of their values, and tiles of it that add up exactly."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence, Sized
from typing import Any, ClassVar, cast

import numpy as np

from ikmap._threads import for_each_block
from ikmap.arrays import Floats, Matrix
from ikmap.cells import Cells
from ikmap.rows import Rows

TILE = 256
"""Points of a tile's side; what a tile holds stays in the second level cache."""
QUANTUM = 2.0**32
"""Kernel values that are to be summed up are rounded to a multiple of 1/QUANTUM: see :meth:`Kernel.steps`."""


KINDS: dict[str, type[AnyKernel]] = {}
"""Every kernel by its name, once its module is imported."""


class Kernel[R: Cells | Rows, P: Sized](ABC):
    """A symmetric function of two rows.

    Subclasses are frozen dataclasses of JSON values, whose ``name`` stands for them in a store.

    Attributes
    ----------
    name : str
    normalized : bool
        True if values are at most 1 and near 1 for rows that are alike; False if they are as small or as large as the
        numbers in the columns make them.
    """

    name: ClassVar[str]
    normalized: ClassVar[bool] = True

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "name" in vars(cls):
            KINDS[cls.name] = cls

    @abstractmethod
    def checked(self, rows: Matrix | Cells) -> R:
        """Return the rows in the form that :meth:`points` takes.

        Raises
        ------
        ValueError
            If the kernel is not defined for them; row and column are named, counted from 0.
        """

    @abstractmethod
    def points(self, rows: R) -> P:
        """Return checked rows, prepared for :meth:`values`; their number is len(...)."""

    @abstractmethod
    def values(self, left: P, right: P, out: Floats) -> None:
        """Write the kernel values of all pairs of two sets of prepared rows to `out`, float64 of shape (n, m).

        Bit for bit the same for a pair whatever else is in the sets, and for (x, y) and (y, x).
        """

    @property
    def unit(self) -> float:
        """Number of steps that make a value of 1 (:meth:`steps`)."""
        return QUANTUM if self.normalized else 1.0

    def steps(self, left: P, right: P, out: Floats) -> None:
        """Write the kernel values of all pairs to `out`, in steps of ``1 / unit``: whole ones if it is normalized.

        Sums of whole numbers are exact in float64, up to 2^53: they do not depend on the order of their terms, and
        so neither on blocks nor on threads. The rounding, of at most 2^-33, is the price. Values of other kernels may
        all be smaller than that, or too large: they stay as they are, and their sums depend on the order.
        """
        self.values(left, right, out)
        if self.normalized:
            out *= QUANTUM
            np.rint(out, out=out)

    def matrix(self, X: Matrix | Cells, Y: Matrix | Cells | None = None, n_threads: int | None = None) -> Floats:
        """Return the kernel matrix between the rows of X and of Y (default: X), float64 of shape (n, m).

        Tiles are computed on up to `n_threads` threads; of the matrix of X with itself, one half.

        Raises
        ------
        ValueError
            If the kernel is not defined for these rows; row and column are named, counted from 0.
        """
        left = self._tiles(X)
        right = left if Y is None else self._tiles(Y)
        out = np.empty((sum(map(len, left)), sum(map(len, right))))

        def row_of_tiles(i: int, _: int) -> None:
            rows = slice(i * TILE, i * TILE + len(left[i]))
            memory = np.empty(len(left[i]) * TILE)  # new memory for each tile takes longer than a tile
            for j in range(i if Y is None else 0, len(right)):
                tile = memory[: len(left[i]) * len(right[j])].reshape(len(left[i]), len(right[j]))
                self.values(left[i], right[j], tile)
                columns = slice(j * TILE, j * TILE + len(right[j]))
                out[rows, columns] = tile
                if Y is None and j > i:
                    out[columns, rows] = tile.T

        for_each_block(row_of_tiles, len(left), 1, n_threads)
        return out

    def side_by_side(self, left: P, tiles: Sequence[P], n_threads: int | None = None) -> Floats:
        """Return the kernel values of prepared rows with those of several tiles, float64 of shape (n, all of m).

        Tiles are computed on up to `n_threads` threads.
        """
        ends = np.cumsum([0, *map(len, tiles)])
        out = np.empty((len(left), int(ends[-1])))

        def fill(k: int, _: int) -> None:
            tile = np.empty((len(left), len(tiles[k])))
            self.values(left, tiles[k], tile)
            out[:, ends[k] : ends[k + 1]] = tile

        for_each_block(fill, len(tiles), 1, n_threads)
        return out

    def _tiles(self, unchecked: Matrix | Cells) -> list[P]:
        rows = self.checked(unchecked)
        n = len(rows) if isinstance(rows, Cells) else rows.shape[0]
        return [self.points(cast("R", rows[i : i + TILE])) for i in range(0, n, TILE)]


type AnyKernel = Kernel[Any, Any]
"""A kernel of whatever rows, prepared as it wants them."""
