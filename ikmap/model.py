"""Fitted models: frozen dataclasses of plain arrays with versioned metadata and a content hash; no pickles."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

MODELS: dict[str, type[Model]] = {}
_CSR_PARTS = ("data", "indices", "indptr")
_WITHIN = ":"


@dataclass(frozen=True, eq=False)
class Model:
    """Base of every fitted model.

    A subclass is a frozen dataclass whose fields are arrays or JSON values, with ``kind`` (its name in a store)
    and ``version`` (raised when the meaning of a field changes). Whoever stores models needs only
    :meth:`arrays`, :meth:`metadata` and :func:`from_parts`.
    """

    kind: ClassVar[str]
    version: ClassVar[int] = 1

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "kind" in cls.__dict__:
            MODELS[cls.kind] = cls

    def arrays(self) -> dict[str, np.ndarray]:
        """The array fields, by name; a CSR field gives three, ``field.data`` and so on, a model's are ``field:name``."""
        arrays: dict[str, np.ndarray] = {}
        for name, value in self._values().items():
            if isinstance(value, np.ndarray):
                arrays[name] = value
            elif isinstance(value, sp.csr_array):
                arrays |= {f"{name}.{part}": getattr(value, part) for part in _CSR_PARTS}
            elif isinstance(value, Model):
                arrays |= {f"{name}{_WITHIN}{inner}": array for inner, array in value.arrays().items()}
        return arrays

    def metadata(self) -> dict[str, Any]:
        """Kind, version and every field that is not an array: JSON values only."""
        plain: dict[str, Any] = {"kind": self.kind, "version": self.version}
        for name, value in self._values().items():
            if isinstance(value, sp.csr_array):
                plain[name] = {"csr_shape": list(value.shape)}
            elif isinstance(value, Model):
                plain[name] = {"model": value.metadata()}
            elif not isinstance(value, np.ndarray):
                plain[name] = value
        return plain

    def _values(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def __getstate__(self) -> dict[str, Any]:
        """Fields only: what was derived from them and cached is cheap to derive again, and large."""
        return self._values()

    @cached_property
    def content_hash(self) -> str:
        """SHA-256 over metadata and arrays: equal exactly when two models are equal bit for bit."""
        digest = hashlib.sha256(json.dumps(self.metadata(), sort_keys=True).encode())
        for name, array in sorted(self.arrays().items()):
            digest.update(f"{name}{array.dtype.str}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).view(np.uint8).data if array.size else b"")
        return digest.hexdigest()

    @property
    def nbytes(self) -> int:
        """Bytes in all arrays together."""
        return sum(array.nbytes for array in self.arrays().values())


def from_parts(metadata: dict[str, Any], arrays: dict[str, np.ndarray]) -> Model:
    """Rebuild a model from what :meth:`Model.metadata` and :meth:`Model.arrays` gave.

    Raises
    ------
    ValueError
        If the kind is unknown or was written by another version.
    """
    values = dict(metadata)
    kind, version = values.pop("kind", None), values.pop("version", None)
    if kind not in MODELS:
        raise ValueError(f"unknown kind of model {kind!r}; known are {', '.join(sorted(MODELS))}")
    if version != MODELS[kind].version:
        raise ValueError(f"model {kind!r} has version {version}, this software reads {MODELS[kind].version}")
    for name, value in values.items():
        if isinstance(value, dict) and "csr_shape" in value:
            parts = tuple(arrays[f"{name}.{part}"] for part in _CSR_PARTS)
            values[name] = sp.csr_array(parts, shape=tuple(value["csr_shape"]))
        elif isinstance(value, dict) and "model" in value:
            begin = name + _WITHIN
            inner = {key.removeprefix(begin): array for key, array in arrays.items() if key.startswith(begin)}
            values[name] = from_parts(value["model"], inner)
    dense = {name: array for name, array in arrays.items() if "." not in name and _WITHIN not in name}
    return MODELS[kind](**values, **dense)
