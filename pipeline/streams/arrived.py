"""Put rows that have arrived together, and refuse those that do not suit the initial rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import numpy as np
import scipy.sparse as sp

from ikmap.arrays import Floats
from ikmap.rows import Rows
from ikmap.tasks import BadLabel, plain_label
from pipeline.errors import InputError
from pipeline.rows.prepared import Preparation
from pipeline.sources.feeds.feed import Arrival


def place(arrivals: Sequence[Arrival], row: int) -> str:
    """Return the source of a row, and its number there."""
    for arrival in arrivals:
        if row < arrival.rows:
            break
        row -= arrival.rows
    return f"{arrival.url}: row {arrival.first_row + row}"


def joined(arrivals: Sequence[Arrival]) -> tuple[Rows, np.ndarray | None]:
    """Return the rows and labels of all arrivals together; sparse rows are as wide as their largest index.

    Raises
    ------
    InputError
        Labels are numbers in some rows and text in others.
    """
    for arrival in arrivals[1:]:
        if arrival.y is None or arrivals[0].y is None:
            continue
        if arrival.y.dtype != arrivals[0].y.dtype:
            kind, expected_kind = ("text", "numbers") if arrival.y.dtype == object else ("numbers", "text")
            raise InputError(
                f"{arrival.url}: row {arrival.first_row}: found {kind} as labels, expected {expected_kind} as in the "
                "rows before"
            )
    labels = [arrival.y for arrival in arrivals if arrival.y is not None]
    # The columns of all rows are the same: either all have a label or none has.
    y = np.concatenate(labels) if labels else None
    parts: list[Rows] = [arrival.X for arrival in arrivals]
    if isinstance(parts[0], np.ndarray):
        return (parts[0] if len(parts) == 1 else np.concatenate(cast("list[Floats]", parts))), y
    n_columns = max(_width(X) for X in parts)
    csr = [cast("sp.csr_array", X) for X in parts]
    parts = [sp.csr_array((X.data, X.indices, X.indptr), shape=(X.shape[0], n_columns)) for X in csr]
    return (parts[0] if len(parts) == 1 else sp.csr_array(sp.vstack(parts, format="csr"))), y


def _width(X: Rows) -> int:
    return int(cast("sp.csr_array", X).indices.max(initial=-1)) + 1


def check(arrival: Arrival, preparation: Preparation) -> None:
    """Refuse rows that do not suit the initial rows.

    Raises
    ------
    InputError
        Naming the first row with an unknown label, or an index that is too large.
    """
    X = arrival.X
    if not isinstance(X, np.ndarray) and _width(X) > preparation.n_columns:
        at = int(np.flatnonzero(X.indices >= preparation.n_columns)[0])
        row = int(np.searchsorted(X.indptr, at, side="right")) - 1
        raise InputError(
            f"{arrival.url}: row {arrival.first_row + row}: found index {X.indices[at] + 1}, expected at most "
            f"{preparation.n_columns}, the largest of the initial rows; give --columns"
        )
    task = preparation.task
    if not task.kind.labels.needed or arrival.y is None:
        return
    try:
        unknown = task.codec.unknown(task.codec.encode(arrival.y, arrival.rows))
    except BadLabel as error:
        raise InputError(f"{place([arrival], error.row)}: {error}") from None
    if unknown.any():
        row = int(np.argmax(unknown))
        raise InputError(
            f"{arrival.url}: row {arrival.first_row + row}: found label {plain_label(arrival.y[row])!r}, expected one "
            f"of the initial rows: {task.codec.summary.expected}"
        )
