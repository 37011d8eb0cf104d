"""Parts of the rows as ingest stores them: they are read as a whole, and the process keeps the latest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from ikmap.arrays import Floats
from ikmap.rows import Rows
from ikmap.tables import RawTable
from ikmap.tables.raw import Levels
from ikmap.tasks.capabilities import learned_rows
from pipeline.record_types import Result
from pipeline.rows.encoding import LEVELS, levels_of
from pipeline.rows.fitted_split import KEPT
from pipeline.storage.arrays import ZarrArray, read
from pipeline.storage.lru_cache import PROCESS, LRUCache
from pipeline.storage.store import Store

if TYPE_CHECKING:
    from pipeline.rows.preparation import Preparation

WEIGHTS = "weights"
"""Array of a part, and of cells, with the weights of rows."""
LATE = "late_"
"""Prefix of the arrays of a chunk that have labels of earlier rows (:mod:`pipeline.streams.label_file`)."""
IDS = "ids"
"""Array of a chunk with the ids of its rows, as JSON."""
CELLS = "cells"
"""Array of a part of a table with words or missing cells: float64 (columns, rows), in place of values."""


def write_part(
    store: Store,
    name: str,
    X: Rows,
    labels: np.ndarray,
    part_labels: Result,
    attributes: Result,
    beside: Mapping[str, np.ndarray] | None = None,
) -> int:
    """Store rows as they were read, with the task's form of their labels; return the bytes written.

    `beside` has arrays to be stored with them: words of a table's columns (:data:`~pipeline.rows.encoding.LEVELS`),
    values that rows are split by (:data:`~pipeline.rows.fitted_split.KEPT`), weights (:data:`WEIGHTS`), and arrays
    whose names begin with :data:`LATE`.
    """
    about = {**attributes, "found": dict(part_labels), "columns": int(X.shape[1])}
    return store.write_group(name, arrays_of_part(X, labels, beside), about)


def arrays_of_part(
    X: Rows, labels: np.ndarray, beside: Mapping[str, np.ndarray] | None = None
) -> dict[str, np.ndarray]:
    """Return the arrays that :func:`write_part` stores."""
    arrays: dict[str, np.ndarray] = {**(beside or {}), "labels": labels}
    if LEVELS in arrays:  # column by column: read so, and much smaller where each is compressed by itself
        arrays[CELLS] = np.ascontiguousarray(X.T)
    elif isinstance(X, np.ndarray):
        arrays["values"] = X
    else:
        arrays |= {"values": X.data, "indices": X.indices, "indptr": X.indptr.astype(np.int64)}
    return arrays


def read_part(store: Store, name: str, start: int, stop: int, preparation: Preparation) -> tuple[Rows, np.ndarray]:
    """Read rows of a part: values as they were stored, which must not be written to, and targets."""
    attributes = store.need(name)
    arrays = _arrays_of_part(store, name)
    y = preparation.task.codec.targets(arrays["labels"][start:stop], attributes["found"])
    return _values(arrays, start, stop, preparation), y


def read_values(store: Store, name: str, preparation: Preparation) -> Rows:
    """Read all rows of a part, as they were stored, without their labels."""
    arrays = {key: read(array, slice(0, array.shape[0])) for key, array in store.open_arrays(name).items()
              if key not in ("labels", LEVELS, KEPT, WEIGHTS, IDS) and not key.startswith(LATE)}  # fmt: skip
    if CELLS in arrays:
        n = arrays[CELLS].shape[1]
    else:
        n = arrays["indptr"].size - 1 if "indptr" in arrays else arrays["values"].shape[0]
    return _values(arrays, 0, n, preparation)


def read_cells(store: Store, name: str, preparation: Preparation) -> RawTable:
    """Read all rows of a part of a table, not encoded, without their labels."""
    X = np.asarray(read_values(store, name, preparation))
    return RawTable(X, levels_of(read_column(store, name, LEVELS), X.shape[1]))


def _values(arrays: Mapping[str, np.ndarray], start: int, stop: int, preparation: Preparation) -> Rows:
    if CELLS in arrays:
        return arrays[CELLS][:, start:stop].T
    if "indptr" not in arrays:
        return arrays["values"][start:stop]
    indptr = arrays["indptr"][start : stop + 1]
    inside = slice(int(indptr[0]), int(indptr[-1]))
    parts = arrays["values"][inside], arrays["indices"][inside], indptr - indptr[0]
    return sp.csr_array(parts, shape=(stop - start, preparation.n_columns))


def read_weights(store: Store, name: str) -> Floats:
    """Return the weights of the rows of a part."""
    return _arrays_of_part(store, name)[WEIGHTS]


def read_column(store: Store, name: str, column: str) -> np.ndarray | None:
    """Return an array that stands beside the rows of a part, such as :data:`WEIGHTS`; None if it has none."""
    array = store.open_arrays(name).get(column)
    return None if array is None else read(array, slice(0, array.shape[0]))


def read_levels(store: Store, name: str, columns: int) -> Levels:
    """Return the words of each column of a part."""
    packed = _arrays_of_part(store, name).get(LEVELS)
    latest = _words.get("part")
    if latest is None or latest[0] is not packed:
        latest = packed, levels_of(packed, columns)
        _words.put("part", latest)
    return latest[1]


def read_targets(
    store: Store, name: str, preparation: Preparation, start: int = 0, stop: int | None = None
) -> np.ndarray:
    """Return the targets of rows of a part."""
    attributes = store.need(name)
    labels = store.open_arrays(name)["labels"]
    return preparation.task.codec.targets(read(labels, slice(start, stop or labels.shape[0])), attributes["found"])


def learned_of(store: Store, name: str, numbers: np.ndarray, preparation: Preparation) -> np.ndarray:
    """Return those of some rows of a part, by their numbers in it, that the task learns from."""
    mask = learned_rows(preparation.task, read_targets(store, name, preparation)[numbers])
    return numbers if mask is None else numbers[mask]


def _arrays_of_part(store: Store, name: str) -> dict[str, np.ndarray]:
    """Return the arrays of a part. The process keeps the latest, as neighbouring rows are likely to be read next."""
    stored = store.open_arrays(name)
    latest = _latest.get("part")  # another thread may replace it at any time
    # Arrays that are still open are those whose files are the same.
    if (
        latest is not None
        and latest[0].keys() == stored.keys()
        and all(latest[0][key] is stored[key] for key in stored)
    ):
        return latest[1]
    _latest.forget()  # before the next part is read: never two in memory
    arrays = {key: read(array, slice(0, array.shape[0])) for key, array in stored.items()}
    _latest.put("part", (stored, arrays))
    return arrays


_latest: LRUCache[str, tuple[dict[str, ZarrArray], dict[str, np.ndarray]]] = PROCESS.keeps(1)
"""The arrays of one part, as they are stored and as they were read."""

_words: LRUCache[str, tuple[np.ndarray | None, Levels]] = PROCESS.keeps(1)
"""The words of one part, as they are stored and as they were read."""
