"""Check the cells that maps of other packages give, at each use. For our own maps the tests do that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from ikmap.cells import Cells
from ikmap.methods.composed import names_of
from ikmap.methods.registry import PACKAGES
from ikmap.partitioners import Partitions
from pipeline.errors import InputError


def check_cells(codes: np.ndarray, offsets: np.ndarray, package: str) -> None:
    """Refuse cells that are not there, or are not whole numbers.

    Raises
    ------
    InputError
        Naming the package, the partitioning and the cell.
    """
    widths = np.diff(offsets)
    if codes.ndim != 2 or codes.shape[1] != widths.size or not np.issubdtype(codes.dtype, np.integer):
        found = f"{codes.dtype} of shape {codes.shape}"
        expected = f"whole numbers of shape (rows, {widths.size})"
    else:
        outside = (codes < -1) | (codes >= widths)
        if not outside.any():
            return
        row, i = np.argwhere(outside)[0]
        found, expected = f"cell {codes[row, i]} in partitioning {i}", f"-1, for no cell, to {widths[i] - 1}"
    raise InputError(
        f"package {package}: its map gives {found}, expected {expected}; pip install --upgrade {package}, or give "
        "another --partitioner"
    )


def checked(model: Partitions, codes: np.ndarray) -> np.ndarray:
    """The cells that a model gives, checked where it comes from another package."""
    ends = np.cumsum([0, *(one.n_partitions for one in model.single)])
    for one, start, stop in zip(model.single, ends[:-1], ends[1:], strict=True):
        package = type(one).__module__.partition(".")[0]
        if package != "ikmap":
            check_cells(codes[:, start:stop], one.offsets, package)
    return codes


def checked_growth(model: Partitions, before: np.ndarray) -> None:
    """Refuse a map that has lost cells as it was extended.

    Raises
    ------
    InputError
        Naming the package and the partitioning.
    """
    package = " or ".join(dict.fromkeys(type(one).__module__.partition(".")[0] for one in model.single))
    widths, now = np.diff(before), np.diff(model.offsets)
    if widths.shape == now.shape and not (now < widths).any():
        return
    found = f"{now.size} partitionings after {widths.size}"
    if widths.shape == now.shape:
        i = int(np.argmax(now < widths))
        found = f"{now[i]} cells in partitioning {i} after {widths[i]}"
    raise InputError(
        f"package {package}: its map has {found}, expected no fewer as it grows; pip install --upgrade {package}, or "
        "give another --partitioner"
    )


def checked_path(path: Iterable[tuple[float, Sequence[Cells]]], name: str) -> Iterator[tuple[float, Sequence[Cells]]]:
    """The cells that a map's path gives, checked where it comes from another package."""
    packages = " or ".join(PACKAGES[part] for part in names_of(name) if part in PACKAGES)
    for value, sides in path:
        for cells in sides if packages else ():
            check_cells(cells.codes, cells.offsets, packages)
        yield value, sides
