"""Check what methods of other packages give, at each use. For our own methods the tests do that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import numpy as np

from ikmap.arrays import Floats
from ikmap.cells import Cells
from ikmap.learners.rows import n_rows as count_rows
from ikmap.methods.composed import names_of
from ikmap.methods.registry import PACKAGES
from ikmap.partitioners import Partitions
from ikmap.rows import Rows
from pipeline.errors import InputError


class Decides(Protocol):
    """A model, or the state of a learner that learns row by row."""

    def decision_function(self, rows: Rows | Cells) -> Floats:
        """Return the decisions, shape (n, K)."""


def check_cells(codes: np.ndarray, offsets: np.ndarray, package: str) -> None:
    """Refuse cells that do not exist, or are not whole numbers.

    Raises
    ------
    InputError
        Naming the package, the partitioning and the cell.
    """
    widths = np.diff(offsets)
    if codes.ndim != 2 or codes.shape[1] != widths.size or not np.issubdtype(codes.dtype, np.integer):
        kind = f"{codes.dtype} of shape {codes.shape}"
        expected = f"whole numbers of shape (rows, {widths.size})"
    else:
        outside = (codes < -1) | (codes >= widths)
        if not outside.any():
            return
        row, i = np.argwhere(outside)[0]
        kind, expected = f"cell {codes[row, i]} in partitioning {i}", f"-1, for no cell, to {widths[i] - 1}"
    raise InputError(
        f"package {package}: its map gives {kind}, expected {expected}; pip install --upgrade {package}, or give "
        "another --partitioner"
    )


def checked(model: Partitions, codes: np.ndarray) -> np.ndarray:
    """Return the cells of a model; they are checked if the model comes from another package."""
    ends = np.cumsum([0, *(partitions.n_partitions for partitions in model.single)])
    for partitions, start, stop in zip(model.single, ends[:-1], ends[1:], strict=True):
        package = type(partitions).__module__.partition(".")[0]
        if package != "ikmap":
            check_cells(codes[:, start:stop], partitions.offsets, package)
    return codes


def checked_growth(model: Partitions, before: np.ndarray) -> None:
    """Refuse a map that has lost cells as it was extended.

    Raises
    ------
    InputError
        Naming the package and the partitioning.
    """
    package = " or ".join(dict.fromkeys(type(partitions).__module__.partition(".")[0] for partitions in model.single))
    widths, widths_now = np.diff(before), np.diff(model.offsets)
    if widths.shape == widths_now.shape and not (widths_now < widths).any():
        return
    change = f"{widths_now.size} partitionings after {widths.size}"
    if widths.shape == widths_now.shape:
        i = int(np.argmax(widths_now < widths))
        change = f"{widths_now[i]} cells in partitioning {i} after {widths[i]}"
    raise InputError(
        f"package {package}: its map has {change}, expected no fewer as it grows; pip install --upgrade {package}, or "
        "give another --partitioner"
    )


def checked_path[V](path: Iterable[tuple[V, Sequence[Cells]]], name: str) -> Iterator[tuple[V, Sequence[Cells]]]:
    """Yield the cells of a map's path; they are checked if the map comes from another package."""
    packages = " or ".join(PACKAGES[part] for part in names_of(name) if part in PACKAGES)
    for value, sides in path:
        for cells in sides if packages else ():
            check_cells(cells.codes, cells.offsets, packages)
        yield value, sides


def checked_decisions(model: Decides, rows: Rows | Cells, learner: str, outputs: int) -> Floats:
    """Return the decisions of a model, checked where its learner comes from another package.

    Parameters
    ----------
    outputs : int
        Columns of decisions in the task.

    Raises
    ------
    InputError
        The model cannot decide, or its decisions have another shape; the message names the package.
    """
    package = PACKAGES.get(learner)
    if package is None:
        return model.decision_function(rows)
    try:
        decisions = np.asarray(model.decision_function(rows))
    except MemoryError:
        raise
    except Exception as error:  # whatever a stranger's model does wrong
        found = f"fails on rows: {type(error).__name__}: {error}"
    else:
        expected = (count_rows(rows), outputs)
        if decisions.shape == expected:
            return decisions
        found = f"gives decisions of shape {decisions.shape}, expected {expected}"
    raise InputError(
        f"package {package}: the model of its learner {learner!r} {found}; pip install --upgrade {package}, or give "
        "another --learner"
    )
