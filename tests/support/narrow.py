"""Values whose types a test knows better than the code that hands them out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import scipy.sparse as sp

from cluster.handle import ClusterHandle
from ikmap.model import Model, from_parts


def present[T](value: T | None) -> T:
    """Something that is there."""
    assert value is not None
    return value


def number(value: object) -> float:
    """A number of a record."""
    assert isinstance(value, int | float)
    return value


def items(value: object) -> Sequence[Any]:
    """A list of a record."""
    assert isinstance(value, Sequence)
    return value


def entries(value: object) -> Mapping[str, Any]:
    """A record within a record."""
    assert isinstance(value, Mapping)
    return value


def read_back[M: Model](model: M) -> M:
    """The model that is made of another one's parts, after they were JSON and arrays."""
    again = from_parts(json.loads(json.dumps(model.metadata())), model.arrays())
    assert isinstance(again, type(model))
    return again


def csr(rows: object) -> sp.csr_array:
    """Rows that are sparse."""
    assert isinstance(rows, sp.csr_array)
    return rows


def address_of(handle: ClusterHandle) -> str:
    """Where the scheduler of a cluster listens."""
    scheduler: Any = handle.client.scheduler
    return str(scheduler.address)
