"""Fitted models: frozen dataclasses of plain arrays with versioned metadata and a content hash; no pickles."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar, TypeGuard, cast

import numpy as np
import scipy.sparse as sp

from ikmap.arrays import Array
from ikmap.cells import Cells
from ikmap.json_values import Json, JsonObject, MutableJsonObject
from ikmap.rows import Rows


class UnknownModel(ValueError):
    """An error for a stored model of an unknown kind or of another version."""


KINDS: dict[str, type[Model]] = {}
_CSR_PARTS = ("data", "indices", "indptr")
_CELLS_PARTS = ("codes", "offsets")
_WITHIN = ":"


@dataclass(frozen=True, eq=False)
class Model:
    """Base of every fitted model.

    A subclass is a frozen dataclass whose fields are arrays, CSR matrices, cells, models, tuples of models or JSON
    values, with ``kind`` (its name in a store) and ``version`` (increased when the meaning of a field changes).
    Whoever stores models needs only :meth:`arrays`, :meth:`metadata` and :func:`from_parts`.
    """

    kind: ClassVar[str]
    version: ClassVar[int] = 1

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if "kind" in cls.__dict__:
            KINDS[cls.kind] = cls

    def arrays(self) -> dict[str, Array]:
        """Return the arrays of all fields: ``field``, or ``field.data`` ... of CSR and cells, ``field:...`` of a model.

        The models of a tuple have ``field:0:...``, ``field:1:...`` and so on.
        """
        arrays: dict[str, Array] = {}
        for name, value in self._values().items():
            if isinstance(value, Model):
                arrays |= _arrays_within(name, value)
            elif _are_models(value):
                for i, one in enumerate(value):
                    arrays |= _arrays_within(f"{name}{_WITHIN}{i}", one)
            else:
                arrays |= row_parts(name, value)
        return arrays

    def metadata(self) -> JsonObject:
        """Return the kind, the version and every field that is not an array, as JSON values."""
        plain: MutableJsonObject = {"kind": self.kind, "version": self.version}
        for name, value in self._values().items():
            if isinstance(value, sp.csr_array):
                plain[name] = {"csr_shape": list(value.shape)}
            elif isinstance(value, Cells):
                plain[name] = {"cells_shape": list(value.codes.shape)}
            elif isinstance(value, Model):
                plain[name] = {"model_within": value.metadata()}
            elif _are_models(value):
                plain[name] = {"models_within": [one.metadata() for one in value]}
            elif not isinstance(value, np.ndarray):
                plain[name] = cast("Json", value)
        return plain

    def _values(self) -> dict[str, object]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def __getstate__(self) -> dict[str, object]:
        """Return the fields only, since cached values are large and cheap to derive again."""
        return self._values()

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 over metadata and arrays, which is equal exactly if two models have the same bits."""
        digest = hashlib.sha256(json.dumps(self.metadata(), sort_keys=True).encode())
        for name, array in sorted(self.arrays().items()):
            digest.update(f"{name}{array.dtype.str}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).view(np.uint8).data if array.size else b"")
        return digest.hexdigest()

    @property
    def nbytes(self) -> int:
        """Number of bytes in all arrays."""
        return sum(array.nbytes for array in self.arrays().values())


def from_parts(metadata: Mapping[str, Json], arrays: Mapping[str, Array]) -> Model:
    """Rebuild a model from what :meth:`Model.metadata` and :meth:`Model.arrays` gave.

    Raises
    ------
    UnknownModel
        If the kind is unknown or was written by another version.
    """
    values: dict[str, Any] = dict(metadata)
    kind, version = values.pop("kind", None), values.pop("version", None)
    if kind not in KINDS:
        raise UnknownModel(f"unknown kind of model {kind!r}; known are {', '.join(sorted(KINDS))}")
    if version != KINDS[kind].version:
        raise UnknownModel(f"model {kind!r} has version {version}, this software reads {KINDS[kind].version}")
    for name, value in values.items():
        match value:
            case {"csr_shape": [_, columns]}:
                values[name] = rows_of_parts(name, arrays, columns)
            case {"cells_shape": _}:
                values[name] = rows_of_parts(name, arrays)
            case {"model_within": inside}:
                values[name] = _model_within(name, inside, arrays)
            case {"models_within": several}:
                values[name] = tuple(
                    _model_within(f"{name}{_WITHIN}{i}", inside, arrays) for i, inside in enumerate(several)
                )
    dense = {name: array for name, array in arrays.items() if "." not in name and _WITHIN not in name}
    return KINDS[kind](**values, **dense)


def _are_models(value: object) -> TypeGuard[tuple[Model, ...]]:
    return isinstance(value, tuple) and bool(value) and all(isinstance(one, Model) for one in value)


def _arrays_within(name: str, model: Model) -> dict[str, Array]:
    return {f"{name}{_WITHIN}{inner}": array for inner, array in model.arrays().items()}


def _model_within(name: str, metadata: Mapping[str, Json], arrays: Mapping[str, Array]) -> Model:
    begin = name + _WITHIN
    return from_parts(metadata, {key.removeprefix(begin): of for key, of in arrays.items() if key.startswith(begin)})


def row_parts(name: str, rows: object) -> dict[str, Array]:
    """Return the arrays of rows of any layout, named after a field, or nothing for other values."""
    if isinstance(rows, np.ndarray):
        return {name: rows}
    parts = {sp.csr_array: _CSR_PARTS, Cells: _CELLS_PARTS}.get(type(rows), ())
    return {f"{name}.{part}": getattr(rows, part) for part in parts}


def rows_of_parts(name: str, arrays: Mapping[str, Array], n_columns: int | None = None) -> Cells | Rows:
    """Return the rows of which :func:`row_parts` made these arrays; `n_columns` is for CSR."""
    if name in arrays:
        return arrays[name]
    if f"{name}.codes" in arrays:
        return Cells(*(arrays[f"{name}.{part}"] for part in _CELLS_PARTS))
    parts = tuple(arrays[f"{name}.{part}"] for part in _CSR_PARTS)
    return sp.csr_array(parts, shape=(parts[2].size - 1, n_columns))
