"""Models of the trials of a race, kept in the store until the model of all rows is made."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ikmap.learners.rows import Block
from ikmap.methods import Training
from ikmap.methods.base_models import BoostingPart
from ikmap.methods.boosting import Boosting
from pipeline.storage.models import TRIED, save_model, tried_models
from pipeline.storage.store import Store


def test_models_of_trials_are_found_in_the_store_unless_they_are_damaged(tmp_path: Path) -> None:
    store = Store(tmp_path / "store.zarr")
    store.create()
    find = tried_models(store)
    assert find("a") is None
    X = np.random.default_rng(0).normal(size=(90, 2))
    model = BoostingPart(Training(Block(X, X[:, 0]), [], 0), Boosting(rounds=3)).fit(np.arange(90))
    save_model(store, f"{TRIED}/a", model)
    found = find("a")
    assert found is not None
    assert found.content_hash == model.content_hash
    for file in (tmp_path / "store.zarr" / TRIED / "a").rglob("c/*"):
        if file.is_file():
            file.write_bytes(file.read_bytes()[:-1])
    assert find("a") is None
