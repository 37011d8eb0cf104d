"""Partitionings of several maps with their cells side by side, which give the sum of their kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from ikmap import seed_paths
from ikmap.cells import Cells
from ikmap.device import Device, DeviceArray
from ikmap.partitioners.base import Partitions
from ikmap.partitioners.mapper import Mapper, Place
from ikmap.rows import Rows
from ikmap.seeds import generator


def seed_of_part(seed: int, i: int) -> int:
    """Return the seed of the i-th of several maps, so that their draws differ."""
    return int(generator(seed, seed_paths.SIDE_BY_SIDE, i).integers(2**63))


def side_by_side(parts: Sequence[Cells]) -> Cells:
    """Join the cells of the same rows in several maps, one map after the other.

    Returns
    -------
    Cells
        Codes are int32, shape (n, sum of t); -1 where a row has no cell.
    """
    starts = np.cumsum([0, *(part.n_partitions for part in parts)])
    codes = np.empty((parts[0].n_rows, int(starts[-1])), dtype=np.int32)
    for part, start, stop in zip(parts, starts[:-1], starts[1:], strict=True):
        codes[:, start:stop] = part.codes
    return Cells(codes, joined_offsets([part.offsets for part in parts]))


def joined_offsets(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Return the offsets of several maps, one map after the other, int64 of shape (sum of t + 1,)."""
    widths = np.concatenate([np.diff(offsets) for offsets in parts])
    return np.concatenate([[0], np.cumsum(widths)]).astype(np.int64)


@dataclass(frozen=True, eq=False)
class SideBySide(Partitions):
    """The partitionings of several maps as those of one map.

    Parameters
    ----------
    parts : tuple of Partitions
        Partitionings of each map, fitted on the same columns.
    """

    kind: ClassVar[str] = "side-by-side"

    parts: tuple[Partitions, ...]

    @property
    def n_partitions(self) -> int:
        return sum(part.n_partitions for part in self.parts)

    @cached_property
    def offsets(self) -> np.ndarray:
        return joined_offsets([part.offsets for part in self.parts])

    @property
    def single(self) -> tuple[Partitions, ...]:
        return tuple(single for part in self.parts for single in part.single)

    def part(self, start: int, stop: int) -> Partitions:
        """Return the partitionings ``start .. stop - 1``, of any number of maps."""
        parts: list[Partitions] = []
        first = 0
        for part in self.parts:
            last = first + part.n_partitions
            if start < last and first < stop:
                parts.append(part.part(max(start, first) - first, min(stop, last) - first))
            first = last
        return parts[0] if len(parts) == 1 else SideBySide(tuple(parts))

    def explain(self) -> list[str]:
        return [line for part in self.parts for line in part.explain()]

    def cells(self, X: Rows, n_threads: int | None = None) -> Cells:
        return side_by_side([part.cells(X, n_threads) for part in self.parts])

    def mapper(self, device: Device, budget: int | None = None) -> Mapper:
        return _Mappers(self, [part.mapper(device, budget) for part in self.parts], device)


class _Mappers(Mapper):
    """Mappers of several maps, each on the device or by the processor."""

    def __init__(self, partitions: SideBySide, parts: Sequence[Mapper], device: Device) -> None:
        n_features = max(part.n_features for part in parts)
        super().__init__(Place(device, partitions.offsets, n_features))
        self._parts = parts
        self.why = "; ".join(part.why for part in parts)
        self.held_bytes = sum(part.held_bytes for part in parts)
        self.row_bytes = max(part.row_bytes for part in parts)

    def cells(self, X: Rows | DeviceArray) -> Cells:
        return side_by_side([part.cells(X) for part in self._parts])

    def block(self, rows: Rows) -> np.ndarray:
        return self.cells(rows).codes
