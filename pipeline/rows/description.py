"""The description of the rows of a run, as the store keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

from pipeline.record_types import SideRecord
from pipeline.rows.preparation import Preparation
from pipeline.rows.prepared import DATA
from pipeline.storage.store import Store


@dataclass(frozen=True)
class RowsDescription:
    """Description of the rows in a store, for :class:`~pipeline.rows.prepared.PreparedRows`: which, and how prepared.

    Attributes
    ----------
    preparation : Preparation
    sides : mapping of str to SideRecord
        Training rows ("train"), and test rows ("test") where there are some.
    groups : tuple of str
        Groups of the store that keep the description.
    """

    preparation: Preparation
    sides: Mapping[str, SideRecord]
    groups: tuple[str, ...] = (DATA,)

    def count(self, side: str) -> int:
        """Return the number of rows of a side."""
        return sum(self.sides[side]["counts"])

    def write(self, store: Store) -> Self:
        """Write the description to the store; return it."""
        for group in self.groups:
            store.set_attributes(group, {"preparation": self.preparation.as_json(), "sides": dict(self.sides)})
        return self

    def with_preparation(self, preparation: Preparation) -> Self:
        """Return the description with another preparation."""
        return replace(self, preparation=preparation)
