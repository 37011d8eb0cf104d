"""A request for a table, and what its columns turn out to be. Plain data, part of what a run is."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Self

from ikmap.json_values import JsonObject
from ikmap.methods.kinds import Names
from ikmap.tables import ColumnPlan, EncodingRequest
from pipeline.errors import InputError
from pipeline.record_types import Record, RecordView
from pipeline.sources.columns.missing import MISSING_WORDS, numbers_of

SPLIT_KEY = "kept"
"""Name of `split_column` in records, also in those of older runs."""


def as_typed(flag: str, *names: str) -> str:
    """Return an option that takes a list of names as it is typed in a shell, such as ``--drop 'unit price,b'``."""
    return shlex.join(Names().written(flag, names))


@dataclass(frozen=True)
class TableRequest:
    """A request of the user for a table.

    Attributes
    ----------
    drop : tuple of str
        Columns that are no features.
    id : str or None
        The column that tells rows apart: no feature, and written beside the predictions.
    weight : str or None
        The column that says how much each row counts: no feature.
    missing : tuple of str
        Cells of text that are missing.
    missing_as_numbers : bool
        Whether numbers among them are missing in columns of numbers too, whatever the format; not so in the records of
        runs of earlier versions.
    categories : tuple of str
        Columns whose values are words, even if they look like numbers.
    above : float or None
        Labels are numbers, and the classes are 1 above this one and 0 up to it.
    unlabelled : bool
        Rows may lack their label: they are scored.
    split_column : str or None
        The column by whose values rows are divided: no feature if it is dropped.
    encode : EncodingRequest
    plan : mapping of str to ColumnPlan
        Columns that the plan's file names, with its kinds and encodings.
    """

    drop: tuple[str, ...] = ()
    id: str | None = None
    weight: str | None = None
    missing: tuple[str, ...] = MISSING_WORDS
    missing_as_numbers: bool = False
    categories: tuple[str, ...] = ()
    above: float | None = None
    unlabelled: bool = False
    split_column: str | None = None
    encode: EncodingRequest = field(default_factory=EncodingRequest)
    plan: Mapping[str, ColumnPlan] = field(default_factory=dict)

    @property
    def encodes(self) -> bool:
        """True if an encoding is asked for, whatever the columns are like."""
        return self.encode != EncodingRequest() or any(column.encoding != "auto" for column in self.plan.values())

    @property
    def missing_cells(self) -> frozenset[str]:
        """Cells of text that are missing, the empty one among them."""
        return frozenset(self.missing) | {""}

    @property
    def missing_numbers(self) -> tuple[float, ...]:
        """Numbers that are missing in columns of numbers."""
        return numbers_of(self.missing) if self.missing_as_numbers else ()

    @property
    def named(self) -> dict[str, tuple[str, ...]]:
        """Names of columns, by the option that names them."""
        return {
            "drop": self.drop,
            "category": self.categories,
            "id": () if self.id is None else (self.id,),
            "weight": () if self.weight is None else (self.weight,),
            "split-by": () if self.split_column is None else (self.split_column,),
            "columns-plan": tuple(self.plan),
        }

    def as_json(self) -> JsonObject:
        """Return what differs from the default."""
        changed = {
            SPLIT_KEY if key == "split_column" else key: value
            for key, value in asdict(self).items()
            if value != getattr(DEFAULT, key, None)
        }
        for key in ("drop", "missing", "categories"):
            if key in changed:
                changed[key] = list(changed[key])
        if self.encode == EncodingRequest():
            changed.pop("encode", None)
        if not self.plan:
            changed.pop("plan", None)
        return changed

    @classmethod
    def from_json(cls, values: RecordView) -> Self:
        """Return the request that gave a record with :meth:`as_json`."""
        record: Record = dict(values)
        if SPLIT_KEY in record:
            record["split_column"] = record.pop(SPLIT_KEY)
        for key in ("drop", "missing", "categories"):
            if key in record:
                record[key] = tuple(record[key])
        if "encode" in record:
            record["encode"] = EncodingRequest(**record["encode"])
        record["plan"] = {name: ColumnPlan(**column) for name, column in record.get("plan", {}).items()}
        return cls(**record)

    def refuse_unknown(self, url: str, names: tuple[str, ...]) -> None:
        """Refuse a column that the table does not have.

        Raises
        ------
        InputError
            A column that an option names is not among those of the table.
        """
        for option, columns in self.named.items():
            why = ", which is to be dropped" if option == "drop" else f" (--{option})"
            for name in columns:
                if name not in names:
                    raise InputError(f"{url}: found no column {name!r}{why}, expected one of {', '.join(names[:50])}")


DEFAULT = TableRequest()
