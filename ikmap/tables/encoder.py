"""The encoder of a table, from rows to features."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self, TypedDict

import numpy as np
import scipy.sparse as sp

from ikmap.arrays import Array, Floats
from ikmap.json_values import Json
from ikmap.tables.column_plan import ColumnPlan
from ikmap.tables.encoders import ENCODINGS, Encoding
from ikmap.tables.raw import RawTable, recoded

EncodingRecord = TypedDict("EncodingRecord", {"is": str, "values": Mapping[str, Json], "arrays": list[str]})
"""The stored form of one column's encoding."""


class EncoderRecord(TypedDict):
    """The stored form of an encoder, as JSON values."""

    columns: list[dict[str, str]]
    encodings: list[EncodingRecord | None]


@dataclass(frozen=True, eq=False)
class Encoder:
    """A fitted encoder of a table, made of plain numbers and words.

    Attributes
    ----------
    columns : tuple of ColumnPlan
        In the order of the columns that :meth:`encode` takes.
    encodings : tuple of (Encoding or None)
        None: the column is left out.
    """

    columns: tuple[ColumnPlan, ...]
    encodings: tuple[Encoding | None, ...]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the features."""
        return tuple(
            f"{column.name}{name}"
            for column, encoding in zip(self.columns, self.encodings, strict=True)
            for name in (encoding.names if encoding else ())
        )

    @cached_property
    def origins(self) -> tuple[int, ...]:
        """Position of the column of each feature."""
        return tuple(j for j, encoding in enumerate(self.encodings) for _ in (encoding.names if encoding else ()))

    @property
    def entries(self) -> int:
        """Largest number of features of a row that are not 0."""
        return sum(encoding.entries for encoding in self.encodings if encoding)

    def encode(self, table: RawTable, folds: np.ndarray | None = None) -> Floats:
        """Return the features of rows, float64 of shape (n, features) in C order.

        Parameters
        ----------
        folds : int64 array (n,), optional
            Folds of training rows (:func:`~ikmap.tables.statistics.fold_of`), or None for other rows.
        """
        X = np.empty((table.rows, len(self.names)))
        for at, encoding, values in self._columns(table):
            X[:, at : at + len(encoding.names)] = encoding.encode(values, folds)
        return X

    def encode_sparse(self, table: RawTable, folds: np.ndarray | None = None) -> sp.csr_array:
        """Return the features of rows as canonical CSR, without zeros."""
        found, numbers = np.empty((table.rows, self.entries)), np.empty((table.rows, self.entries), dtype=np.int32)
        entry = 0
        for at, encoding, values in self._columns(table):
            here = slice(entry, entry + encoding.entries)
            chosen = encoding.chosen(values)
            if chosen is None:
                found[:, here] = encoding.encode(values, folds)
                numbers[:, here] = np.arange(at, at + encoding.entries)
            else:
                found[:, entry] = chosen >= 0
                numbers[:, entry] = at + chosen
            entry += encoding.entries
        there = found != 0
        begins = np.r_[0, np.cumsum(np.count_nonzero(there, axis=1))]
        return sp.csr_array((found[there], numbers[there], begins), shape=(table.rows, len(self.names)))

    def _columns(self, table: RawTable) -> Iterator[tuple[int, Encoding, np.ndarray]]:
        """Yield the first feature of each column that has some, its encoding, and its cells: words as positions."""
        at = 0
        for j, encoding in enumerate(self.encodings):
            if encoding is None:
                continue
            values = table.values[:, j]
            if encoding.words is not None:
                values = recoded(values, table.levels[j] or (), encoding.numbered)
            yield at, encoding, values
            at += len(encoding.names)

    def parts(self) -> tuple[EncoderRecord, dict[str, Array]]:
        """Return the encoder as JSON values and arrays, for :meth:`from_parts`."""
        arrays: dict[str, np.ndarray] = {}
        listed: list[EncodingRecord | None] = []
        for j, encoding in enumerate(self.encodings):
            if encoding is None:
                listed.append(None)
                continue
            values, own = encoding.parts()
            listed.append({"is": encoding.how, "values": values, "arrays": sorted(own)})
            arrays |= {f"{key}_{j}": array for key, array in own.items()}
        return {"columns": [column.as_json() for column in self.columns], "encodings": listed}, arrays

    @classmethod
    def from_parts(cls, values: EncoderRecord, arrays: Mapping[str, np.ndarray]) -> Self:
        """Return the object from which :meth:`parts` made values and arrays."""
        encodings: list[Encoding | None] = []
        for j, one in enumerate(values["encodings"]):
            if one is None:
                encodings.append(None)
                continue
            own = {key: arrays[f"{key}_{j}"] for key in one["arrays"]}
            encodings.append(ENCODINGS[one["is"]].from_parts(one["values"], own))
        return cls(tuple(ColumnPlan(**column) for column in values["columns"]), tuple(encodings))

    def lines(self, limit: int = 60) -> list[str]:
        """Return the column plan for people, a line for each column."""
        shown = [
            f"column {column.name}: {column.kind}, {column.encoding}"
            + (f" ({column.why})" if column.why else "")
            + ("" if encoding is None or len(encoding.names) == 1 else f", {len(encoding.names)} features")
            for column, encoding in list(zip(self.columns, self.encodings, strict=True))[:limit]
        ]
        rest = len(self.columns) - limit
        return shown if rest <= 0 else [*shown, f"and {rest} more columns"]


def names_of(columns: Sequence[ColumnPlan]) -> list[str]:
    """Return the names of the features of columns, in order."""
    return [column.name for column in columns]
