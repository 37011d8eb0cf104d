"""Models in the store, of which every process keeps the latest."""

from __future__ import annotations

from typing import Any

from ikmap.methods import import_models
from ikmap.model import Model, from_parts
from pipeline.errors import Damaged
from pipeline.storage.kept import PROCESS, Kept
from pipeline.storage.store import Store
from pipeline.watching.figures import MODELS_READ

MODELS = "models"
"""Where the learners' models stand in the store."""

CACHED_MODELS = 4

_kept: Kept[str, Model] = PROCESS.keeps(CACHED_MODELS)
"""Models by content hash."""


def save_model(store: Store, name: str, model: Model, **about: Any) -> str:
    """Write a model and return its content hash, which is kept with it, as is what else is to be known of it (JSON)."""
    attributes = {"model": model.metadata(), "content_hash": model.content_hash, **about}
    store.write_group(name, model.arrays(), attributes)
    _kept.put(model.content_hash, model)  # whoever made it is likely to need it next
    return model.content_hash


def load_model[M: Model](store: Store, name: str, kind: type[M], content_hash: str | None = None) -> M:
    """Read a model, unless this process has kept it.

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
    with _kept.lock:  # threads that want the same model read it once
        model = _kept.get(content_hash) if content_hash else None
        if model is None:
            attributes, arrays = store.read_group(name)
            import_models()
            model = from_parts(attributes["model"], arrays)
            if attributes["content_hash"] != model.content_hash:
                raise Damaged(f"{store.path}/{name}", "its content hash is wrong")
            if content_hash not in (None, model.content_hash):
                raise ValueError(f"{store.path}/{name}: content hash {model.content_hash}, not {content_hash}")
            MODELS_READ.add(name, read=1, read_bytes=model.nbytes)
        _kept.put(model.content_hash, model)
    if not isinstance(model, kind):
        raise TypeError(f"{store.path}/{name}: found a {model.kind} model, expected {kind.__name__}")
    return model
