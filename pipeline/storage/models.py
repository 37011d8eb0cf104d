"""Models in the store, of which every process keeps the latest."""

from __future__ import annotations

from collections.abc import Mapping

from ikmap.arrays import Array
from ikmap.json_values import Json
from ikmap.methods import import_models
from ikmap.model import Model, UnknownModel, from_parts
from pipeline.errors import Damaged, InputError
from pipeline.monitoring.process_metrics import MODELS_READ
from pipeline.storage.durable import reading
from pipeline.storage.lru_cache import PROCESS, LRUCache
from pipeline.storage.store import Store

MODELS = "models"
"""Where the learners' models stand in the store."""

CACHED_MODELS = 4

_kept: LRUCache[str, Model] = PROCESS.keeps(CACHED_MODELS)
"""Models by content hash."""


def save_model(store: Store, name: str, model: Model, **about: Json) -> str:
    """Write a model and return its content hash, which is kept with it, as is what else is to be known of it (JSON)."""
    attributes = {"model": model.metadata(), "content_hash": model.content_hash, **about}
    store.write_group(name, model.arrays(), attributes)
    _kept.put(model.content_hash, model)  # whoever made it is likely to need it next
    return model.content_hash


def model_of(place: str, metadata: Mapping[str, Json], arrays: Mapping[str, Array]) -> Model:
    """Return the model that was taken apart into these values and arrays.

    Parameters
    ----------
    place : str
        Where they are stored, as the user is told.

    Raises
    ------
    Damaged
        They are not those of a model.
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
        If there is none of that name, or what was read does not have the hash stored with it, or is not the model with
        that hash.
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
