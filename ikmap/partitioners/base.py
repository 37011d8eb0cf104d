"""What every fitted set of partitionings offers."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from ikmap.cells import Cells
from ikmap.device import Device
from ikmap.model import Model
from ikmap.partitioners.mapper import Mapper
from ikmap.rows import Rows


@dataclass(frozen=True, eq=False)
class Partitions(Model):
    """t partitionings of R^d into cells; maps a point to t integers."""

    @property
    @abstractmethod
    def n_partitions(self) -> int:
        """Number t of partitionings."""

    @property
    @abstractmethod
    def offsets(self) -> np.ndarray:
        """First feature column of each partitioning, and the number of all: int64, shape (t + 1,)."""

    def explain(self) -> list[str]:
        """Say how the cells will be found, where there is a choice, and the estimates behind it."""
        return []

    @abstractmethod
    def cells(self, X: Rows, n_threads: int | None = None) -> Cells:
        """Map points, a float64 ndarray or csr_array of shape (n, d), to cells."""

    @abstractmethod
    def mapper(self, device: Device, budget: int | None = None) -> Mapper:
        """Bring the partitionings to a device, which gives the same cells as :meth:`cells`.

        Parameters
        ----------
        budget : int, optional
            Bytes of its memory that a block of rows may take; default: half of what is free.
        """
