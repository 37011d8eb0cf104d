"""The base of fitted partitionings."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import cast

import numpy as np
import scipy.sparse as sp

from ikmap.cells import Cells
from ikmap.device import Device, DeviceArray
from ikmap.model import Model
from ikmap.partitioners.mapper import Mapper, Place
from ikmap.rows import Rows, as_rows


@dataclass(frozen=True, eq=False)
class Partitions(Model):
    """t partitionings of R^d into cells, which map a point to t integers."""

    @property
    @abstractmethod
    def n_partitions(self) -> int:
        """Number t of partitionings."""

    @property
    @abstractmethod
    def offsets(self) -> np.ndarray:
        """First feature column of each partitioning, then the number of all columns, int64 of shape (t + 1,)."""

    @property
    def single(self) -> tuple[Partitions, ...]:
        """Parts of composed partitionings in their order, or the partitionings themselves."""
        return (self,)

    def part(self, start: int, stop: int) -> Partitions:
        """Return the partitionings ``start .. stop - 1``, with the same cells. Some kinds raise NotImplementedError."""
        raise NotImplementedError(f"{type(self).__name__} cannot be cut into parts, {start} to {stop}")

    def explain(self) -> list[str]:
        """Say how the cells will be found, where there is a choice, and the estimates behind it."""
        return []

    @abstractmethod
    def cells(self, X: Rows, n_threads: int | None = None) -> Cells:
        """Map points, a float64 ndarray or csr_array of shape (n, d), to cells."""

    def mapper(self, device: Device, budget: int | None = None) -> Mapper:  # noqa: ARG002
        """Return a mapper on a device, which gives the same cells as :meth:`cells`.

        Parameters
        ----------
        budget : int, optional
            Bytes of its memory that a block of rows may take; default: half of what is free.

        Returns
        -------
        Mapper
            For maps without one for devices, a mapper that calls :meth:`cells`, on the processor.
        """
        return OnProcessor(self, device)


class OnProcessor(Mapper):
    """Partitionings whose rows are mapped by the processor, whatever the device."""

    why = "mapped by the processor, as this map has no code for devices"
    held_bytes = 0
    row_bytes = 1

    def __init__(self, partitions: Partitions, device: Device) -> None:
        super().__init__(Place(device, partitions.offsets, 0))
        self._partitions = partitions

    def cells(self, X: Rows | DeviceArray) -> Cells:
        here = isinstance(X, np.ndarray) or sp.issparse(X)
        return self._partitions.cells(cast(Rows, X) if here else as_rows(self.device.get(cast(DeviceArray, X))))

    def block(self, rows: Rows) -> np.ndarray:
        return self.cells(rows).codes
