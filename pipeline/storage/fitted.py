"""Fitted partitionings of a run: their names, and where they and their cells are stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from ikmap.json_values import JsonObject
from ikmap.methods.values import Value, named
from ikmap.partitioners import Partitions
from pipeline.errors import Damaged
from pipeline.record_types import Record
from pipeline.storage.models import load_model
from pipeline.storage.store import Store


@dataclass(frozen=True)
class Fitted:
    """A reference to stored partitionings, small enough to travel with every task.

    Attributes
    ----------
    map : str
        Name in :data:`ikmap.methods.MAPS`, or several names with commas between.
    parameter : str
        Name of the number that was chosen or given for it, such as psi.
    value : int or float, or tuple of them
    most_cells : int
        Most cells of a partitioning.
    content_hash : str
        Content hash of the stored model; tasks refuse any other model.
    t : int
        Number of partitionings, and of integers of a row.
    grown : bool
        Whether it is the map at the end of a stream, with which it grew.
    learner : str
        If not empty, the learner whose own map it is at the end of a stream, after some of it was drawn anew.
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
    def of(cls, fields: Record, t: int) -> Self:
        """Return the reference with the given fields of a manifest, to which earlier versions did not write t."""
        return cls(**{"t": t, **fields})

    @property
    def label(self) -> str:
        """Part of the names of its outputs, such as "anne-psi-256"."""
        return label_of(self.map, self.parameter, self.value)

    @property
    def name(self) -> str:
        """Name of the model in the store."""
        if self.learner:
            return f"redrawn/{self.learner}"
        return f"{'grown' if self.grown else 'partitions'}/{self.label}"

    def as_result(self) -> JsonObject:
        """Return the entries of a learner's result that name its cells."""
        value: JsonObject = (
            {"psi": self.value} if self.parameter == "psi" else {"parameter": self.parameter, "value": self.value}
        )
        return {"cells": self.label, **value}

    def cells_name(self, side: str) -> str:
        """Return the name in the store of the cells of training or test rows."""
        return f"cells/{self.label}/{side}"

    def load(self, store: Store) -> Partitions:
        """Return the model, from this process's cache or the store."""
        return load_model(store, self.name, Partitions, self.content_hash)

    def offsets(self, store: Store) -> np.ndarray:
        """Return the offsets of the cells, int64 (t + 1,): a learner needs no more of the model, which may be large.

        Raises
        ------
        Damaged
            Also if the stored model has another content hash.
        """
        attributes = store.need(self.name)
        if attributes.get("content_hash") != self.content_hash:
            raise Damaged(f"{store.path}/{self.name}", f"it is not the model {self.content_hash}")
        return np.array(attributes["offsets"], dtype=np.int64)


def label_of(name: str, parameter: str, value: Value) -> str:
    """Return the name of partitionings of a map in the store."""
    return f"{name}-{named(parameter, value)}"
