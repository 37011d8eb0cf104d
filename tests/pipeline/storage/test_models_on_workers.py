"""A large model reaches all workers without passing through the client, once each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from benchmarks.models import everywhere, held_hash, large_model, socket_bytes, to_all_from_store
from cluster import ClusterHandle, connect
from ikmap.partitioners import Partitions
from pipeline.monitoring.process_metrics import MODELS_READ
from pipeline.storage.models import CACHED_MODELS, load_model, save_model
from pipeline.storage.store import Store

pytestmark = pytest.mark.system

WORKERS, MODEL_BYTES = 4, 64 << 20


@pytest.fixture(scope="module")
def workers() -> Iterator[ClusterHandle]:
    with connect("local", workers=WORKERS, memory_limit="1GB") as cluster:
        yield cluster


def reads() -> float:
    """On a worker: how often it has read the model from the store."""
    return MODELS_READ.of("read").get("partitions/large", 0)


def test_a_large_model_does_not_pass_through_the_client(workers: ClusterHandle, tmp_path: Path) -> None:
    store, model = Store(tmp_path / "store.zarr"), large_model(MODEL_BYTES)
    store.create()
    content_hash = save_model(store, "partitions/large", model)
    assert model.nbytes >= MODEL_BYTES
    _, through, _ = to_all_from_store(workers.client, store, content_hash)
    # What remains is Dask's own talk with four workers and a client, for as long as it takes.
    assert through < model.nbytes / 8
    counted = workers.client.run(reads)
    assert list(counted.values()) == [1] * WORKERS
    # A worker that is started anew reads it again: nobody has to send it.
    died = sorted(counted)[0]
    workers.client.restart_workers([died])
    everywhere(workers.client, held_hash, store, "partitions/large", content_hash)
    assert sorted(workers.client.run(reads).values()) == [1] * WORKERS


def test_what_passes_through_sockets_is_seen(workers: ClusterHandle) -> None:
    """The measure of the test above: as much as is sent, from here to the scheduler and on to a worker."""
    before = socket_bytes()
    future = workers.client.scatter(np.random.default_rng(0).random(1 << 19))
    assert workers.client.submit(len, future).result() == 1 << 19
    assert socket_bytes() - before >= 4 << 20


def test_models_make_room_for_others_and_come_back(tmp_path: Path) -> None:
    store = Store(tmp_path / "store.zarr")
    store.create()
    models = [large_model(1 << (16 + k)) for k in range(CACHED_MODELS + 1)]
    hashes = [save_model(store, f"partitions/room-{k}", model) for k, model in enumerate(models)]
    assert load_model(store, "partitions/room-1", Partitions, hashes[1]) is models[1]
    first = load_model(store, "partitions/room-0", Partitions, hashes[0])
    assert first is not models[0]
    assert first.content_hash == hashes[0]
    assert load_model(store, "partitions/room-0", Partitions, hashes[0]) is first
    assert MODELS_READ.of("read")["partitions/room-0"] == 1
