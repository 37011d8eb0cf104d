"""A table without some of its columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ikmap.json_values import JsonObject
from pipeline.errors import InputError
from pipeline.sources.base import Fragment, RawRows, Source


@dataclass(frozen=True)
class Dropped(Source):
    """What another source holds, but for the columns that are not kept.

    Attributes
    ----------
    whole : Source
    kept : tuple of int
        Its feature columns that stay, ascending.
    """

    whole: Source
    kept: tuple[int, ...]

    @property
    def format(self) -> str:  # type: ignore[override]
        return self.whole.format

    @property
    def knows_rows(self) -> bool:  # type: ignore[override]
        return self.whole.knows_rows

    @property
    def unit(self) -> str:  # type: ignore[override]
        return self.whole.unit

    @property
    def sparse(self) -> bool:
        return self.whole.sparse

    def identity(self) -> JsonObject:
        return self.whole.identity()

    def least_rows(self) -> int:
        return self.whole.least_rows()

    def fragments(self) -> list[Fragment]:
        return self.whole.fragments()

    def read(self, fragment: Fragment, skip: int = 0) -> Iterator[RawRows]:
        kept = list(self.kept)
        for rows in self.whole.read(fragment, skip):
            yield replace(rows, X=np.ascontiguousarray(rows.X[:, kept]))


def without(source: Source, names: Sequence[str]) -> Source:
    """The source without the columns of these names.

    Raises
    ------
    InputError
        It has no column of such a name, or no others.
    """
    if not names:
        return source
    columns = source.column_names or ()
    for name in names:
        if name not in columns:
            known = f"one of {', '.join(columns)}" if columns else "a table whose columns have names"
            raise InputError(f"{source.url}: found no column {name!r}, which is to be dropped, expected {known}")
    kept = tuple(j for j, name in enumerate(columns) if name not in names)
    if not kept:
        raise InputError(f"{source.url}: found no feature column that is not dropped, expected at least one to stay")
    return Dropped(
        source.file,
        len(kept),
        tuple(columns[j] for j in kept),
        source.fragment_bytes,
        source.block_bytes,
        whole=source,
        kept=kept,
    )
