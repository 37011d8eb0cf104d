"""The plan of one column of a table: its kind, and how it is encoded."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from ikmap.tables.raw import CATEGORY, NUMBER, TIME
from ikmap.tables.words import CATEGORIES, NUMBERS, TIMES

DROP = "drop"
BY_KIND = {NUMBER: NUMBERS, CATEGORY: CATEGORIES, TIME: TIMES}


@dataclass(frozen=True)
class ColumnPlan:
    """The encoding of one column.

    Attributes
    ----------
    name : str
    kind : {"number", "category", "time"}
    encoding : str
        One of the words of its kind, or "drop"; "auto": it is chosen when the training rows have been counted.
    why : str
        Why it is of that kind, and why it is encoded so.
    """

    name: str
    kind: str
    encoding: str = "auto"
    why: str = ""

    def __post_init__(self) -> None:
        if self.kind not in BY_KIND:
            raise ValueError(f"column {self.name!r}: kind = {self.kind!r}, expected one of {', '.join(BY_KIND)}")
        known = ("auto", *BY_KIND[self.kind], DROP)
        if self.encoding not in known:
            raise ValueError(
                f"column {self.name!r}: encoding = {self.encoding!r}, expected for a {self.kind} one of "
                f"{', '.join(known)}"
            )

    def as_json(self) -> dict[str, str]:
        return asdict(self)
