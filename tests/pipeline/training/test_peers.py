"""Rounds that workers make among themselves: few tasks, the same bits, and no harm where a worker dies or is busy."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import signal
import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from threading import Timer
from typing import Any

import numpy as np
import pytest
from distributed import Client, LocalCluster, Worker, WorkerPlugin, get_worker

from cluster import certificates, connect
from pipeline.params import Params
from pipeline.storage.lru_cache import PROCESS
from pipeline.training import engine, peer_messages, peers
from pipeline.training.peer_messages import SECRET_BYTES, Connections, packed
from pipeline.training.peers import PeerLost, Peers, digest, run_leg
from pipeline.training.train import train
from tests.pipeline.training.test_engine import Settled, problem_in
from tests.support.calls import Calls, counted
from tests.support.params_for import params_for
from tests.support.runs import context, points, store_rows

pytestmark = pytest.mark.system
SETTINGS: dict[str, Any] = {"shrinkage": 0.1, "max_leaves": 6, "min_leaf": 4, "solver": "distributed"}

type Here = Callable[[Params], Any]


@pytest.fixture(autouse=True)
def _forgetful() -> None:
    PROCESS.forget()


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """Three workers in this process, so that what a test changes here is changed there."""
    with (
        LocalCluster(n_workers=3, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with its rows, of which every run here is a copy."""
    path = tmp_path_factory.mktemp("rows") / "run"
    X, y = points(20_000, classes=3)
    store_rows(context(path).store, X, y, rule="first", n_train=19_000, part_rows=4000)
    return path


def of_boosting(**options: Any) -> Params:
    return params_for(learners=("boosting",), **{**SETTINGS, **options})


@pytest.fixture(scope="module")
def here(rows: Path, tmp_path_factory: pytest.TempPathFactory) -> Here:
    """Results of training in this process, each of which is computed once."""
    found: dict[str, Any] = {}

    def of(params: Params) -> Any:
        key = json.dumps(params.as_json(), sort_keys=True)
        if key not in found:
            PROCESS.forget()
            found[key] = trained(rows, tmp_path_factory.mktemp("here") / "run", params)
            PROCESS.forget()
        return found[key]

    return of


def trained(rows: Path, path: Path, params: Params, client: Any = None) -> Any:
    shutil.copytree(rows, path)
    return train(context(path, params, **({} if client is None else {"client": client})), "boosting", None)


def noted_legs(at: Callable[[int], None] = lambda _: None) -> AbstractContextManager[Calls]:
    """Count the legs as they end, and note the records of each, which are too few if it was given up."""

    def records(leg: Mapping[str, Any]) -> Any:
        return leg["records"] if len(leg["records"]) == len(leg["workers"]) else []

    return counted(run_leg, at, records, end=True)


def given_up(legs: Calls) -> list[bool]:
    """Return whether each leg was given up."""
    return [not records or any(record["lost"] for record in records) for records in legs.notes]


@pytest.mark.parametrize("seconds", [0.0, 100.0])
def test_workers_make_rounds_among_themselves(
    client: Client, rows: Path, here: Here, tmp_path: Path, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A leg ends where no tree is half grown, and the state goes on from there."""
    params = of_boosting(rounds=5)
    expected = here(params)
    monkeypatch.setattr(engine, "LEG_SECONDS", seconds)
    with noted_legs() as legs:
        assert trained(rows, tmp_path / "there", params, client) == expected
    made = [record["rounds_made"] for records in legs.notes for record in records if record["rounds_made"]]
    assert sum(made) > 15 * 3
    assert len(made) == legs.number == (1 if seconds else 1 + 15 + 1)  # edges, trees, and the last losses
    assert all(record["bytes_sent"] > 0 for records in legs.notes for record in records)


def test_a_stop_by_held_out_rows_ends_the_legs(client: Client, rows: Path, here: Here, tmp_path: Path) -> None:
    params = of_boosting(rounds=60, patience=2, shrinkage=1.0, held_out=0.2)
    expected = here(params)
    assert expected["rounds_made"] < 60
    assert trained(rows, tmp_path / "there", params, client) == expected


def test_a_worker_that_is_busy_is_not_waited_for(
    client: Client, rows: Path, here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its tasks are done in their turn: here once the other work ends."""
    params = of_boosting(rounds=3)
    expected = here(params)
    monkeypatch.setattr(peers, "JOIN_SECONDS", 0.5)
    monkeypatch.setattr(engine, "JOIN_SECONDS", 0.5)
    busy = client.submit(time.sleep, 3.0, workers=[sorted(client.scheduler_info()["workers"])[1]], pure=False)
    with noted_legs() as legs:
        assert trained(rows, tmp_path / "there", params, client) == expected
    assert busy.status == "finished"
    assert given_up(legs)[0]


class OfItsWorker(Settled):
    """A problem whose orders differ from worker to worker, as where processors round otherwise."""

    def begin(self) -> np.ndarray:
        return np.array([hash(get_worker().address) % 1000 / 7, 0.0])


@pytest.mark.parametrize("kind", [Settled, OfItsWorker])
def test_workers_with_different_orders_give_up_the_leg(kind: type[Settled], client: Client, tmp_path: Path) -> None:
    rounds, workers = problem_in(kind, tmp_path), sorted(client.scheduler_info()["workers"])
    args: dict[str, tuple[Any, ...]] = {worker: (rounds, [k], {}, 100.0) for k, worker in enumerate(workers)}
    client.run(peers.listen)
    with noted_legs() as legs:
        records = run_leg(client, "toy", engine.make_rounds, args)
    assert given_up(legs) == [kind is OfItsWorker]
    assert (records is None) == (kind is OfItsWorker)


def test_equal_orders_have_the_same_digest() -> None:
    values = np.arange(5.0)
    copied = pickle.loads(pickle.dumps([values, values]))
    assert digest([values, values]) == digest(copied) == digest([values, values.copy()])
    assert digest([values, values]) != digest([values, values + 1e-15])


def exchange_often(leg: str, workers: list[str], rank: int) -> Any:
    with Peers(leg, workers, rank) as own:
        own.join(20)
        return {"lost": False, "contents": [own.exchange((rank, k)) for k in range(60)]}


def test_what_comes_early_is_kept_for_its_exchange(client: Client) -> None:
    workers = sorted(client.scheduler_info()["workers"])
    client.run(peers.listen)
    records: Any = run_leg(client, "exchange-00000000", exchange_often, dict.fromkeys(workers, ()))
    for record in records:
        assert record["contents"] == [[(rank, k) for rank in range(3)] for k in range(60)]


def fail(leg: str, workers: list[str], rank: int) -> Any:
    try:
        with Peers(leg, workers, rank) as own:
            if rank == 1:
                raise OSError("the disk is full")
            own.join(20)
    except PeerLost:
        return {"lost": True}
    return {"lost": False}


def test_an_error_of_a_worker_is_raised_and_ends_the_others(client: Client) -> None:
    began = time.monotonic()
    workers = sorted(client.scheduler_info()["workers"])
    client.run(peers.listen)
    with pytest.raises(OSError, match="the disk is full"):
        run_leg(client, "fail-00000000", fail, dict.fromkeys(workers, ()))
    assert time.monotonic() - began < 15


def test_connections_are_encrypted_where_those_of_dask_are(rows: Path, here: Here, tmp_path: Path) -> None:
    params = of_boosting(rounds=3)
    expected = here(params)
    certificates.write(tmp_path / "tls", certificates.temporary())
    options = [f"tls={tmp_path / 'tls'}"]
    with connect("local", workers=2, memory_limit="1GB", options=options) as cluster, noted_legs() as legs:
        assert trained(rows, tmp_path / "there", params, cluster.client) == expected
        assert cluster.client.submit(heard_from, None, pure=False).result() == []  # as it does not encrypt
    assert given_up(legs) == [False]


def heard_from(secret: bytes | None) -> list[object]:
    """Return what a worker hears from one who knows a secret, or, for None, its own; and that this one is gone then."""
    own = Connections(get_worker(), 0, 1)
    with socket.create_connection((own.address.host, own.address.port)) as speaker:
        known = own.address.secret if secret is None else secret
        speaker.sendall(known + struct.pack("!I", 7) + b"".join(packed(b"hello")))
        with suppress(OSError):
            speaker.shutdown(socket.SHUT_WR)
        heard: list[object] = []
        with suppress(OSError):
            own.open({})
            heard.append(own.exchange(None, print)[0])
            with suppress(EOFError):
                heard.append(own.exchange(None, print))
        own.close()
    return heard


def test_who_does_not_know_the_secret_is_not_heard(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    assert client.submit(heard_from, None, pure=False).result() == [{7: b"hello"}]
    monkeypatch.setattr(peer_messages, "OPEN_SECONDS", 1.0)
    assert client.submit(heard_from, bytes(SECRET_BYTES), pure=False).result() == []


def test_messages_of_several_legs_are_kept_and_those_of_many_are_not() -> None:
    legs = [f"leg of a test {k}" for k in range(3 * peers.MOST_LEGS)]
    few = [(leg, rank) for leg in legs[: peers.MOST_LEGS] for rank in range(2)]
    boxes = [peers._box(*own) for own in few]
    assert boxes == [peers._box(*own) for own in few]
    for leg in legs:
        peers._box(leg, 0)
    assert len({leg for leg, _ in peers._boxes}) <= peers.MOST_LEGS + 1
    assert peers._box(legs[0], 0) is not boxes[0]


def test_the_same_bits_when_workers_die_between_legs_and_within(
    rows: Path, here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    params = of_boosting(rounds=120)
    expected = here(params)
    monkeypatch.setattr(engine, "LEG_SECONDS", 0.2)
    monkeypatch.setattr(engine, "ROUNDS_BETWEEN_LEGS", 3)
    monkeypatch.setattr(engine, "MOST_LEGS_LOST", 100)

    def kill() -> None:
        pids = cluster.client.run(os.getpid, on_error="ignore")
        os.kill(pids[min(pids)], signal.SIGKILL)

    def ended(number: int) -> None:
        if number == 2:
            kill()
        if number == 4:
            within.start()

    within = Timer(0.1, kill)

    class Hurried(WorkerPlugin):
        """Have this process, and each worker that begins anew, wait for a shorter time for workers that are gone."""

        def setup(self, worker: Worker) -> None:  # noqa: ARG002
            for module in (engine, peers):
                vars(module)["JOIN_SECONDS"] = 1.5

    with connect("local", workers=2, memory_limit="1GB") as cluster, noted_legs(ended) as legs:
        cluster.client.register_plugin(Hurried())
        assert trained(rows, tmp_path / "there", params, cluster.client) == expected
        within.join()
    lost = given_up(legs)
    assert 1 <= sum(lost) < len(lost) / 2
    assert not all(lost[-2:])
