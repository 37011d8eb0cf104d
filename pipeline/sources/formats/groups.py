"""Rows in groups - row groups of Parquet, record batches of Arrow - as fragments of whole groups and as even blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from pipeline.errors import InputError
from pipeline.sources.formats.base import Fragment

CELL_BYTES = 8
LONG_BYTES = 4 * CELL_BYTES
"""Bytes of a cell of text above which it no longer counts as a number does."""


def long_texts(sizes: Iterable[tuple[str, int]], rows: int) -> tuple[tuple[str, int], ...]:
    """Return the columns of long cells and the mean bytes of these, by the bytes of columns of text in some rows."""
    means = ((name, n_bytes // max(1, rows)) for name, n_bytes in sizes)
    return tuple((name, mean) for name, mean in means if mean > LONG_BYTES)


def fragments_of(group_rows: Sequence[int], limit: int) -> list[Fragment]:
    """Runs of whole groups, of at least `limit` rows each but for the last."""
    fragments: list[Fragment] = []
    start = rows = 0
    for group, n_rows in enumerate(group_rows, start=1):
        rows += n_rows
        if rows >= limit or group == len(group_rows):
            fragments.append(Fragment(len(fragments), start, group))
            start, rows = group, 0
    return fragments


def even_block(rows: int, usual: int) -> int:
    """Return the number of rows of each block of a fragment, at most a quarter above the usual one.

    Blocks of a fragment are about as large as each other: a small one at its end would cost as much as a large one.
    """
    n_blocks = max(1, -(-4 * rows // (5 * usual)))
    return max(1, -(-rows // n_blocks))


def from_row(group_rows: Sequence[int], fragment: Fragment, row: int) -> tuple[range, int]:
    """The groups of a fragment that hold its rows `row`, ..., and how many rows to leave out of the first."""
    assert fragment.stop is not None
    start = fragment.start
    while start < fragment.stop and row >= group_rows[start]:
        row -= group_rows[start]
        start += 1
    return range(start, fragment.stop), row


def in_blocks(batches: Iterator[pa.RecordBatch | pa.Table], rows: int, drop: int) -> Iterator[pa.Table]:
    """Cut batches anew, `rows` each, so that blocks depend on the file alone; the first `drop` rows are left out."""
    waiting: list[pa.RecordBatch | pa.Table] = []
    n_waiting = 0
    for batch in batches:
        if drop:  # to slice thousands of columns takes a while
            gone = min(drop, batch.num_rows)
            drop -= gone
            batch = batch.slice(gone)
        while n_waiting + batch.num_rows > rows:
            rest = rows - n_waiting
            yield _together([*waiting, batch.slice(0, rest)])
            waiting, n_waiting, batch = [], 0, batch.slice(rest)
        if n_waiting + batch.num_rows == rows:
            yield _together([*waiting, batch])
            waiting, n_waiting = [], 0
        elif batch.num_rows:
            waiting.append(batch)
            n_waiting += batch.num_rows
    if waiting:
        yield _together(waiting)


def _together(pieces: list[pa.RecordBatch | pa.Table]) -> pa.Table:
    """Return the rows of some pieces; with thousands of columns, a table that is whole is better left as it is."""
    if len(pieces) == 1 and isinstance(pieces[0], pa.Table):
        return pieces[0]
    return pa.concat_tables([one if isinstance(one, pa.Table) else pa.Table.from_batches([one]) for one in pieces])


def refuse_fewer(url: str, found: int, group_rows: Sequence[int], fragment: Fragment) -> None:
    """Refuse a file that has given fewer rows up to the end of a fragment than it says.

    Raises
    ------
    InputError
    """
    expected = sum(group_rows[: fragment.stop])
    if found < expected:
        raise InputError(
            f"{url}: damaged: found {found} rows, expected {expected} as in its footer; copy or download it again"
        )
