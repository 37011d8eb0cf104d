"""Fitted partitionings of a run: what they are called, and where they and their cells are stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from ikmap.json_values import JsonObject, MutableJsonObject
from ikmap.methods.search import Value, named
from ikmap.partitioners import Partitions
from pipeline.errors import Damaged
from pipeline.record_types import RecordView
from pipeline.storage.models import load_model
from pipeline.storage.store import Store


@dataclass(frozen=True)
class Fitted:
    """A reference to stored partitionings, small enough to travel with every task.

    Attributes
    ----------
    map : str
        Of :data:`ikmap.methods.MAPS`, or several of them with commas between.
    parameter : str
        Name of the number that was chosen or given for it, such as psi.
    value : int or float, or tuple of them
    most_cells : int
        Of all partitionings, the most that one has.
    content_hash : str
        Of the stored model; tasks refuse any other.
    t : int
        Partitionings, which is how many integers a row has.
    grown : bool
        It is the map at the end of a stream, with which it grew.
    learner : str
        If not empty: it is the map of this learner at the end of a stream, along which some of it was drawn anew.
    """

    map: str
    parameter: str
    value: Value
    most_cells: int
    content_hash: str
    t: int
    grown: bool = False
    learner: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.value, list):  # as JSON has it
            object.__setattr__(self, "value", tuple(self.value))

    @classmethod
    def of(cls, fields: RecordView, t: int) -> Self:
        """From its fields in a manifest; those of earlier versions do not have t."""
        return cls(**{"t": t, **fields})

    @property
    def label(self) -> str:
        """Such as "anne-psi-256": its outputs have this in their names."""
        return label_of(self.map, self.parameter, self.value)

    @property
    def name(self) -> str:
        """Where it is stored."""
        if self.learner:
            return f"redrawn/{self.learner}"
        return f"{'grown' if self.grown else 'partitions'}/{self.label}"

    def as_result(self) -> MutableJsonObject:
        """The entries of a learner's result that say on which cells it works."""
        value: JsonObject = (
            {"psi": self.value} if self.parameter == "psi" else {"parameter": self.parameter, "value": self.value}
        )
        return {"cells": self.label, **value}

    def cells_name(self, side: str) -> str:
        """Where the cells of training or test rows are stored."""
        return f"cells/{self.label}/{side}"

    def load(self, store: Store) -> Partitions:
        """The model, from this process's cache or the store."""
        return load_model(store, self.name, Partitions, self.content_hash)

    def offsets(self, store: Store) -> np.ndarray:
        """Offsets of the cells, int64 (t + 1,): all that a learner needs of the model, which may be large.

        Raises
        ------
        Damaged
            Also if the stored model is another one.
        """
        attributes = store.need(self.name)
        if attributes.get("content_hash") != self.content_hash:
            raise Damaged(f"{store.path}/{self.name}", f"it is not the model {self.content_hash}")
        return np.array(attributes["offsets"], dtype=np.int64)


def label_of(name: str, parameter: str, value: Value) -> str:
    """What partitionings of a map are called in the store."""
    return f"{name}-{named(parameter, value)}"
