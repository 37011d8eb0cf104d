"""Put rows that have arrived together, and refuse those that do not suit the initial rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import numpy as np
import scipy.sparse as sp

from ikmap.arrays import Floats
from ikmap.rows import Rows
from ikmap.tables import RawTable
from ikmap.tables.raw import Levels, positions_of
from ikmap.tasks import BadLabel, plain_label
from pipeline.errors import InputError
from pipeline.rows.preparation import Preparation
from pipeline.sources.columns.raw_rows import RawRows
from pipeline.sources.feeds.feed import Arrival
from pipeline.stages.named_rows import plain_id

if TYPE_CHECKING:
    import pyarrow as pa


def place(arrivals: Sequence[Arrival], row: int) -> str:
    """Return the source of a row, and its line or its number there."""
    for arrival in arrivals:
        if row < arrival.rows:
            break
        row -= arrival.rows
    return arrival.place(row)


def joined(arrivals: Sequence[Arrival]) -> RawRows:
    """Return all arrivals as one: the same rows are the same arrays, however they have arrived.

    Sparse rows are as wide as their largest index. The words of a column are those that stand in one of its cells.

    Raises
    ------
    InputError
        Labels are numbers in some rows and text in others.
    """
    first = arrivals[0]
    for arrival in arrivals[1:]:
        if arrival.y is None or first.y is None:
            continue
        if arrival.y.dtype != first.y.dtype:
            kind, expected_kind = ("text", "numbers") if arrival.y.dtype == object else ("numbers", "text")
            raise InputError(
                f"{arrival.place(0)}: found {kind} as labels, expected {expected_kind} as in the rows before"
            )
    labels = [arrival.y for arrival in arrivals if arrival.y is not None]
    # The columns of all rows are the same: either all have a label or none has.
    y = np.concatenate(labels) if labels else None
    weights = [arrival.weights for arrival in arrivals if arrival.weights is not None]
    X, levels = _cells(arrivals)
    return RawRows(
        X,
        y,
        first.first_row,
        0,
        levels,
        first.url,
        weights=np.concatenate(weights) if weights else None,
    )


def _cells(arrivals: Sequence[Arrival]) -> tuple[Rows, Levels | None]:
    """Return the cells of all arrivals, and the words of each column."""
    parts: list[Rows] = [arrival.X for arrival in arrivals]
    if any(arrival.levels is not None for arrival in arrivals):
        return _cells_of_tables([table_of(arrival) for arrival in arrivals])
    if isinstance(parts[0], np.ndarray):
        return (parts[0] if len(parts) == 1 else np.concatenate(cast("list[Floats]", parts))), None
    n_columns = max(_width(X) for X in parts)
    csr = [cast("sp.csr_array", X) for X in parts]
    parts = [sp.csr_array((X.data, X.indices, X.indptr), shape=(X.shape[0], n_columns)) for X in csr]
    return (parts[0] if len(parts) == 1 else sp.csr_array(sp.vstack(parts, format="csr"))), None


def table_of(arrival: Arrival) -> RawTable:
    """Return the cells of an arrival from a table."""
    X = np.asarray(arrival.X)
    return RawTable(X, arrival.levels or (None,) * X.shape[1])


def _cells_of_tables(tables: Sequence[RawTable]) -> tuple[Floats, Levels | None]:
    """Return the cells of some tables, without the words that are in none of them."""
    n_columns = tables[0].values.shape[1]
    X = np.empty((n_columns, sum(table.rows for table in tables))).T  # column by column
    levels: list[tuple[str, ...] | None] = []
    for j in range(n_columns):
        columns = [(table.values[:, j], table.levels[j]) for table in tables]
        if all(words is None for _, words in columns):
            X[:, j] = np.concatenate([values for values, _ in columns])
            levels.append(None)
            continue
        present = {words[k] for values, words in columns if words
                   for k in np.unique(values[~np.isnan(values)]).astype(np.int64).tolist()}  # fmt: skip
        together = tuple(sorted(present))
        place = {word: float(k) for k, word in enumerate(together)}
        codes = []
        for values, words in columns:
            known = words or ()
            table = np.array([*(place.get(word, np.nan) for word in known), np.nan])
            codes.append(table[positions_of(values, len(known))])
        X[:, j] = np.concatenate(codes)
        levels.append(together)
    if all(words is None for words in levels) and not np.isnan(X).any():
        return np.ascontiguousarray(X), None
    return X, tuple(levels)


def ids_of(arrivals: Sequence[Arrival]) -> list[float | str | None] | None:
    """Return the ids of all rows as JSON values, or None where rows have none."""
    if arrivals[0].ids is None:
        return None
    return [plain_id(value) for arrival in arrivals for value in cast("pa.Array", arrival.ids).to_pylist()]


def _width(X: Rows) -> int:
    return int(cast("sp.csr_array", X).indices.max(initial=-1)) + 1


def check(arrival: Arrival, preparation: Preparation) -> None:
    """Refuse rows that do not suit the initial rows.

    Raises
    ------
    InputError
        Naming the first row with an unknown label, an index that is too large, or a missing cell where the initial rows
        had none.
    """
    X = arrival.X
    missing = () if preparation.encoded or arrival.levels is None else np.argwhere(np.isnan(np.asarray(X))).tolist()
    if missing:
        row, column = missing[0]
        name = repr(preparation.column_names[column]) if preparation.column_names else str(column + 1)
        raise InputError(
            f"{arrival.place(row)}, column {name}: found a missing value, of which the initial rows had none"
        )
    if not isinstance(X, np.ndarray) and _width(X) > preparation.n_columns:
        at = int(np.flatnonzero(X.indices >= preparation.n_columns)[0])
        row = int(np.searchsorted(X.indptr, at, side="right")) - 1
        raise InputError(
            f"{arrival.place(row)}: found index {X.indices[at] + 1}, expected at most "
            f"{preparation.n_columns}, the largest of the initial rows; give --columns"
        )
    task = preparation.task
    if not task.kind.labels.needed or arrival.y is None:
        return
    try:
        unknown = task.codec.unknown(task.codec.encode(arrival.y, arrival.rows))
    except BadLabel as error:
        raise InputError(f"{arrival.place(error.row)}: {error}") from None
    if unknown.any():
        row = int(np.argmax(unknown))
        raise InputError(
            f"{arrival.place(row)}: found label {plain_label(arrival.y[row])!r}, expected one "
            f"of the initial rows: {task.codec.summary.expected}"
        )
