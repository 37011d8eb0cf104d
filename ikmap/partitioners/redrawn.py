"""Partitionings redrawn from recent rows, and the transfer of learned values to their cells.

Half of the partitionings stay as they are: those drawn last. What a learner knows of the others is carried over: what
it keeps of a cell of a new partitioning is the mean, over the recent rows in that cell, of what it kept of the cells
that they had before. So a sum over the cells of a row, such as a decision, keeps its mean over the recent rows.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ikmap import seed_paths
from ikmap.arrays import Bools
from ikmap.cells import Cells
from ikmap.partitioners.base import Partitions
from ikmap.partitioners.side_by_side import SideBySide
from ikmap.seeds import generator


def seed_of_redraw(seed: int, number: int) -> int:
    """Return the seed of the `number`-th redraw, from 1."""
    return int(generator(seed, seed_paths.REDRAWN, number).integers(2**63))


def drawn_longest_ago(t: int, number: int) -> tuple[int, int]:
    """Return start and stop of the partitionings of the `number`-th redraw, from 1: either half of t in turns."""
    half = (t + 1) // 2
    return (0, half) if number % 2 or half == t else (half, t)


def replaced(model: Partitions, start: int, new: Partitions) -> Partitions:
    """Return the partitionings of a model with those from number `start` on replaced."""
    stop, t = start + new.n_partitions, model.n_partitions
    before, after = (model.part(*ends) if ends[0] < ends[1] else None for ends in ((0, start), (stop, t)))
    parts = tuple(single for part in (before, new, after) if part is not None for single in part.single)
    return parts[0] if len(parts) == 1 else SideBySide(parts)


def carry_matrix(before: Cells, after: Cells, drawn: Bools) -> sp.csr_array:
    """Return the matrix that carries values by feature column over to partly redrawn partitionings.

    Parameters
    ----------
    before, after : Cells
        Cells of the same rows.
    drawn : ndarray of bool, shape (t,)
        Partitionings that were drawn anew; the others have the same cells.

    Returns
    -------
    csr_array of float64, shape (after.n_columns, before.n_columns)
        A row for each cell there is from now on. Of a cell that was there before: 1 at that cell. Of a new one: the
        shares of the rows in it by their cells before; nothing, if there are none.
    """
    wide, places = np.diff(after.offsets), np.repeat(np.arange(drawn.size), np.diff(after.offsets))
    kept = np.flatnonzero(~drawn[places])
    within = kept - after.offsets[places[kept]]
    rows, columns, values = [kept], [before.offsets[places[kept]] + within], [np.ones(kept.size)]
    was, now, lost = before.codes.astype(np.int64), after.codes.astype(np.int64), before.missing
    for i in np.flatnonzero(drawn):
        here = ~after.missing[:, i]
        n = np.bincount(now[here, i], minlength=wide[i])
        both = here & ~lost[:, i]
        rows.append(after.offsets[i] + now[both, i])
        columns.append(before.offsets[i] + was[both, i])
        values.append(1.0 / n[now[both, i]])
    shape = (after.n_columns, before.n_columns)
    entries = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
    matrix = sp.csr_array(entries, shape=shape)  # entries of the same place are added up
    matrix.sum_duplicates()
    return matrix
