"""Cells of rows on a device, in blocks of as many rows as fit into its memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import cast

import numpy as np
import scipy.sparse as sp

from ikmap.arrays import Array
from ikmap.cells import Cells
from ikmap.device import Device, DeviceArray
from ikmap.rows import Rows, as_rows

MEMORY_SHARE = 0.5
"""Share of the free memory for one block; the rest is for libraries, and for other programs."""
LEAST_BUDGET = 64 << 20
"""Bytes that a block of rows is given even if the device seems full: what a pool holds unused is not always told."""
MOST_BUDGET = 1 << 33
"""Bytes beyond which blocks are not faster: no array of theirs gets 2^31 entries, which libraries may not count."""
MOST_ROWS = 1 << 16
"""Rows of a block, at most: more are no faster."""


@dataclass(frozen=True, eq=False)
class Place:
    """The device of a set of partitionings, and the memory that it can use there.

    Parameters
    ----------
    device : Device
    offsets : ndarray of int64, shape (t + 1,)
        Offsets of the partitionings.
    n_features : int
    budget : int, optional
        Bytes of device memory that a block of rows may take, at most 8 GiB; default: half of what is free. Cells are
        the same for any.
    """

    device: Device
    offsets: np.ndarray
    n_features: int
    budget: int | None = None


class Mapper(ABC):
    """Partitionings on a device, ready to map rows.

    Parameters
    ----------
    place : Place

    Attributes
    ----------
    why : str
        Description of the method, for people.
    held_bytes : int
        Memory the partitionings take on the device, about.
    row_bytes : int
        Memory a row of a block takes, about.
    """

    why: str
    held_bytes: int
    row_bytes: int

    def __init__(self, place: Place) -> None:
        self.device, self.offsets, self.n_features = place.device, place.offsets, place.n_features
        self._budget = place.budget

    @property
    def budget(self) -> int:
        """Number of bytes that a block of rows can take now."""
        if self._budget is not None:
            return min(self._budget, MOST_BUDGET)
        return int(np.clip(MEMORY_SHARE * self.device.free_bytes(), LEAST_BUDGET, MOST_BUDGET))

    def rows_at_once(self) -> int:
        """Return the number of rows of a block."""
        return int(np.clip(self.budget // self.row_bytes, 1, MOST_ROWS))

    def cells(self, X: Rows | DeviceArray) -> Cells:
        """Map points to cells.

        Parameters
        ----------
        X : float64 array, shape (n, d)
            An ndarray or a csr_array, or an array that lies on the device.

        Returns
        -------
        Cells
            Cells equal to those of ``cells`` of the partitionings.

        Raises
        ------
        MemoryError
            If the device has no room for a single row.
        """
        n = X.shape[0]
        if X.shape[1] != self.n_features:
            raise ValueError(f"X has {X.shape[1]} columns, the model was fitted on {self.n_features}")
        codes = np.empty((n, self.offsets.size - 1), dtype=np.int32)
        here = isinstance(X, np.ndarray) or sp.issparse(X)
        start, most = 0, min(self.rows_at_once(), max(n, 1))
        while start < n:
            stop = min(start + most, n)
            rows = as_rows(X[start:stop]) if here else self._float64(cast(DeviceArray, X)[start:stop, :])
            try:
                # What overflows is told from the results; NumPy would warn.
                with np.errstate(all="ignore"):
                    self.device.get_into(self.block(rows), codes[start:stop])
            except MemoryError:  # others take memory, too: estimates cannot be safe
                if most == 1:
                    raise
                most = max(1, most // 2)
                continue
            start = stop
        return Cells(codes, self.offsets)

    def _float64(self, rows: DeviceArray) -> DeviceArray:
        return self.device.xp.astype(rows, self.device.xp.float64, copy=False)

    @abstractmethod
    def block(self, rows: Rows | DeviceArray) -> DeviceArray | Array:
        """Return the codes of some rows, int32 on the device, shape (n, t)."""

    def explain(self) -> str:
        """Return a line on the method and its memory."""
        rows = self.rows_at_once()
        return (
            f"{self.why}; partitionings {self.held_bytes / 1e6:,.0f} MB, "
            f"{rows:,} rows at a time in {rows * self.row_bytes / 1e6:,.0f} MB"
        )
