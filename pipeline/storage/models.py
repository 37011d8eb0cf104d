"""Models in the store, and the per-process cache through which every task gets one."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Any

from ikmap.methods import import_models
from ikmap.model import Model, from_parts
from pipeline.errors import Damaged
from pipeline.storage.store import Store
from pipeline.watching.figures import MODELS_READ

MODELS = "models"
"""Where the learners' models stand in the store."""

CACHED_MODELS = 4

_cache: OrderedDict[str, Model] = OrderedDict()
_lock = Lock()


def save_model(store: Store, name: str, model: Model, **about: Any) -> str:
    """Write a model and return its content hash, which is kept with it, as is what else is to be known of it (JSON)."""
    attributes = {"model": model.metadata(), "content_hash": model.content_hash, **about}
    store.write_group(name, model.arrays(), attributes)
    with _lock:
        _keep(model)  # whoever made it is likely to need it next
    return model.content_hash


def _keep(model: Model) -> None:
    """Put a model into the cache, or to the front of it."""
    _cache[model.content_hash] = model
    _cache.move_to_end(model.content_hash)
    if len(_cache) > CACHED_MODELS:
        _cache.popitem(last=False)


def load_model[M: Model](store: Store, name: str, kind: type[M], content_hash: str | None = None) -> M:
    """Read a model, through this process's cache.

    A worker that joins late or was restarted reads the store, so nothing has to be sent to it again.

    Raises
    ------
    Damaged
        If there is none of that name, or what was read does not have the hash stored with it.
    ValueError
        If the model is not the one with that hash.
    TypeError
        If it is a model of another kind.
    """
    with _lock:
        model = _cache.get(content_hash) if content_hash else None
        if model is None:
            attributes, arrays = store.read_group(name)
            import_models()
            model = from_parts(attributes["model"], arrays)
            if attributes["content_hash"] != model.content_hash:
                raise Damaged(f"{store.path}/{name}", "its content hash is wrong")
            if content_hash not in (None, model.content_hash):
                raise ValueError(f"{store.path}/{name}: content hash {model.content_hash}, not {content_hash}")
            MODELS_READ.add(name, read=1, read_bytes=model.nbytes)
        _keep(model)
    if not isinstance(model, kind):
        raise TypeError(f"{store.path}/{name}: found a {model.kind} model, expected {kind.__name__}")
    return model
