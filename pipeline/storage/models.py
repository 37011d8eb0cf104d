"""Models in the store, of which every process keeps the latest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, cast

from ikmap.arrays import Array
from ikmap.json_values import Json
from ikmap.methods import import_models
from ikmap.model import Model, UnknownModel, from_parts
from pipeline.errors import Damaged, InputError
from pipeline.monitoring.process_metrics import MODELS_READ
from pipeline.storage.durable import reading
from pipeline.storage.lru_cache import PROCESS, LRUCache
from pipeline.storage.store import Store

if TYPE_CHECKING:
    import numpy as np

MODELS = "models"
"""Group of the store with the models of the learners."""
OUT_OF_FOLD = "out-of-fold"
"""Group of the store with the decisions on training rows of models that have not learned from them, by learner."""

CACHED_MODELS = 4

_kept: LRUCache[str, Model] = PROCESS.keeps(CACHED_MODELS)
"""Models by content hash."""


class Decider(Protocol):
    """A learner's model: what all of them have in common."""

    def decision_function(self, rows: object) -> np.ndarray:
        """Return the decisions on cells or rows: float64, shape (n, K)."""


def save_model(store: Store, name: str, model: Model, **attributes: Json) -> str:
    """Write a model and return its content hash, which is kept with it, as are further attributes (JSON values)."""
    document = {"model": model.metadata(), "content_hash": model.content_hash, **attributes}
    store.write_group(name, model.arrays(), document)
    _kept.put(model.content_hash, model)  # the process that made it is likely to need it next
    return model.content_hash


def model_of(place: str, metadata: Mapping[str, Json], arrays: Mapping[str, Array]) -> Model:
    """Return the model that was taken apart into metadata and arrays.

    Parameters
    ----------
    place : str
        Where they are stored, for error messages.

    Raises
    ------
    Damaged
        The metadata and arrays are not those of a model.
    InputError
        No package that is installed has models of its kind.
    """
    import_models()
    with reading(place):
        try:
            return from_parts(metadata, arrays)
        except UnknownModel as error:
            raise InputError(f"{place}: {error}") from None


def load_model[M: Model](store: Store, name: str, kind: type[M], content_hash: str | None = None) -> M:
    """Read a model, unless this process has kept it.

    A worker that joins late or was restarted reads the store, so nothing has to be sent to it again.

    Raises
    ------
    Damaged
        If there is no model of that name, or the one that was read does not have the hash stored with it, or not
        `content_hash`.
    InputError
        If no package that is installed has models of its kind.
    TypeError
        If it is a model of another kind.
    """
    place = f"{store.path}/{name}"
    with _kept.lock:  # threads that want the same model read it once
        model = _kept.get(content_hash) if content_hash else None
        if model is None:
            attributes, arrays = store.read_group(name)
            model = model_of(place, attributes["model"], arrays)
            if attributes["content_hash"] != model.content_hash:
                raise Damaged(place, "its content hash is wrong")
            if content_hash not in (None, model.content_hash):
                raise Damaged(place, f"its content hash is {model.content_hash}, not {content_hash}")
            MODELS_READ.add(name, read=1, read_bytes=model.nbytes)
        _kept.put(model.content_hash, model)
    if not isinstance(model, kind):
        raise TypeError(f"{place}: found a {model.kind} model, expected {kind.__name__}")
    return model


def load_decider(store: Store, name: str, content_hash: str | None = None) -> Decider:
    """Read the model of a learner, as :func:`load_model` does."""
    return cast("Decider", load_model(store, name, Model, content_hash))
