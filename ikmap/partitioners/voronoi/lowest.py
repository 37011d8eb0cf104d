"""Cells of Voronoi partitions from products of rows and centres, by the kernels of ``lowest.cu``."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ikmap.device import Device, DeviceArray
from ikmap.partitioners.voronoi.array_choice import Budget
from ikmap.partitioners.voronoi.device_rows import DenseRows, DeviceBlock, EitherRows
from ikmap.partitioners.voronoi.kernels import source

NAME, SETTLING_NAME = "lowest_scores", "settle_close"
THREADS = 512
"""Threads of a block that scores rows."""
BLOCKS = 2
"""Blocks that share the memory of a multiprocessor: one loads scores while the other compares."""
RESERVED = 1024
"""Bytes of shared memory that each block takes for itself."""
SETTLING_THREADS = 128
"""Threads of a block that settles a pair of row and partitioning."""
SETTLING_BLOCKS = 2048
"""Blocks that settle pairs one after the other: as many as a large GPU runs at once."""
ROWS = 4
"""Rows whose scores a block holds in its shared memory; they share what is read about members."""
LOAD_COST = 4.0
"""To load a score costs as much as so many comparisons, as measured on an H200."""
MOST_GROUPS = 8
"""So many numbers of groups are tried."""
MOST_NUMBERS = 1 << 16
"""Numbers of members, and places of centres in a part, that half a word can hold."""
NONE = MOST_NUMBERS - 1
"""Number of no member, beside the place after the last centre of a part."""


@dataclass(frozen=True, eq=False)
class Layout:
    """The members of all partitionings in the order in which threads read them.

    Parameters
    ----------
    group : int
        Number of partitionings whose members a block has.
    slices : int
        Number of threads that share the members of a partitioning.
    part : int
        Number of centres whose scores a block holds at a time.
    begins : ndarray of int32
        First line of each group and part; at the end, the number of lines.
    words : ndarray of uint32, shape (lines, group * slices)
        Place of a centre in its part, times 65,536, plus the number of the member; see ``lowest.cu``.
    """

    group: int
    slices: int
    part: int
    begins: np.ndarray
    words: np.ndarray


def layout(members: np.ndarray, n_centers: int, part: int) -> Layout:
    """Return the layout of members.

    Parameters
    ----------
    members : ndarray of int32, shape (t, psi)
    n_centers : int
    part : int
        Number of centres of a part.
    """
    t, psi = members.shape
    groups, parts = _groups(t, psi, n_centers), -(-n_centers // part)
    group = -(-t // groups)
    slices = THREADS // group
    width = group * slices
    partitioning = np.repeat(np.arange(t), psi)
    center = members.ravel().astype(np.int64)
    line = partitioning // group * parts + center // part
    # The members of a partitioning in a part go to its threads in turn.
    run = partitioning * parts + center // part
    by_run = np.argsort(run, kind="stable")
    rank = np.empty(run.size, dtype=np.int64)
    rank[by_run] = _ranks(run[by_run])
    thread = rank % slices * group + partitioning % group
    # Neighbouring threads begin with different banks of the shared memory and go around, so that they seldom meet.
    banks = 32 // ROWS
    order = np.argsort((line * width + thread) * banks + (center - thread) % banks, kind="stable")
    step = np.empty(run.size, dtype=np.int64)
    step[order] = _ranks((line * width + thread)[order])
    lengths = np.zeros(groups * parts, dtype=np.int64)
    np.maximum.at(lengths, line, step + 1)
    begins = np.concatenate([[0], np.cumsum(lengths)])
    words = np.full((begins[-1], width), part << 16 | NONE, dtype=np.uint32)
    words[begins[line] + step, thread] = center % part << 16 | np.tile(np.arange(psi), t)
    return Layout(group, slices, part, begins.astype(np.int32), words)


def _groups(t: int, psi: int, n_centers: int) -> int:
    """Return the number of groups of partitionings: each loads all scores, and few may leave many threads idle."""

    def cost(groups: int) -> float:
        group = -(-t // groups)
        return LOAD_COST * groups * n_centers + t * psi * THREADS / (THREADS // group * group)

    least = -(-t // THREADS)
    return min(range(least, least + MOST_GROUPS), key=cost)


def defines(sparse: bool) -> dict[str, int]:
    """Return the definitions with which both kernels are compiled."""
    return {"ROWS": ROWS, "SPARSE": int(sparse)}


def _ranks(ascending: np.ndarray) -> np.ndarray:
    """Return the place of each number among those equal to it."""
    first = np.flatnonzero(np.concatenate([[True], ascending[1:] != ascending[:-1]]))
    return np.arange(ascending.size) - np.repeat(first, np.diff(np.append(first, ascending.size)))


class KernelChoice:
    """A choice of the nearest members by kernels.

    Parameters
    ----------
    rows : DenseRows or SparseRows
    members : ndarray of int32, shape (t, psi)
        With psi at most ``MOST_NUMBERS``.
    reach : float
        Length of the longest centre.
    device : Device
        One that runs kernels.
    """

    def __init__(self, rows: EitherRows, members: np.ndarray, reach: float, device: Device) -> None:
        n_centers = rows.norms.shape[1]
        self._rows, self._reach, self._xp = rows, reach, device.xp
        self._t, self._psi = members.shape
        room = device.shared_bytes // BLOCKS - RESERVED
        part = min(n_centers, room // (4 * ROWS) - 1, MOST_NUMBERS - 1)
        self._layout = layout(members, n_centers, part)
        shared = 4 * ROWS * max(part + 1, 3 * THREADS)
        text, own = source("lowest.cu"), defines(not isinstance(rows, DenseRows))
        self._lowest = device.compile(text, NAME, {"THREADS": THREADS, **own}, shared)
        self._settle = device.compile(text, SETTLING_NAME, {"THREADS": SETTLING_THREADS, **own})
        self._words, self._begins = device.put(self._layout.words), device.put(self._layout.begins)
        self._members = device.put(np.ascontiguousarray(members, dtype=np.int32))
        self.held_bytes = self._layout.words.nbytes + 4 * members.size
        self.row_bytes = 20 * self._t

    def codes[Left, Held](
        self,
        block: DeviceBlock[Left, Held],
        products: DeviceArray,
        budget: Budget,  # noqa: ARG002 - exact work takes none
    ) -> DeviceArray:
        """Return the number of the nearest member in each partitioning, int32 of shape (n, t)."""
        xp, own, t = self._xp, self._layout, self._t
        n, n_centers = products.shape
        codes = xp.empty((n, t), dtype=xp.int32)
        n_close = xp.zeros((1,), dtype=xp.int64)
        close, limits = xp.empty((n * t,), dtype=xp.int64), xp.empty((n * t,), dtype=xp.float64)
        sizes = (n, t, own.group, own.slices, n_centers, own.part)
        noted = (n_close, close, limits)
        norms = self._rows.norms
        self._lowest(
            (-(-n // ROWS) * -(-t // own.group), 1),
            (THREADS,),
            (
                *(*map(np.int32, sizes), np.float64(self._reach), self._begins, self._words),
                *(products, norms, block.lengths, block.units, *noted, codes),
            ),
        )
        self._settle(
            (min(n * t, SETTLING_BLOCKS), 1),
            (SETTLING_THREADS,),
            (
                *(*map(np.int32, (t, self._psi, n_centers)), *noted, products, norms, self._members),
                *(*self._rows.operands(block), codes),
            ),
        )
        return codes
