"""Rounds that workers make among themselves, past the scheduler: each has the state, and all exchange their shares.

A learner whose rounds are short would wait longer for tasks to be handed out than it works. So one task for each worker
makes many rounds. Every worker goes by the same state: it sends its share of a round to all others, directly from
worker to worker, absorbs the shares of all, and so knows the next order without having to wait for it. Such a leg ends
after some seconds, where the state can be written without loss. It is given up, with nothing lost but its work, if a
worker is gone, busy, cannot be reached, or has come to another order than the others: rounds are then made by tasks.

The workers of a leg find each other by messages of Dask; then they have connections of their own
(:mod:`pipeline.training.peer_messages`).
"""

from __future__ import annotations

import asyncio
import io
import pickle
import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Lock
from typing import TYPE_CHECKING, Self

from distributed import get_worker
from distributed.utils import sync

from pipeline.record_types import TaskRecord
from pipeline.running.dispatch import Task, run_ready
from pipeline.training.peer_messages import Address, Connections
from pipeline.training.rounds import Arrays

if TYPE_CHECKING:
    from distributed import Client, Worker

LEG_SECONDS = 5.0
"""Seconds after which a leg ends as soon as the state can be written without loss."""
JOIN_SECONDS = 10.0
"""Seconds in which the workers of a leg have to begin, or it is given up: they may be busy with other tasks."""
OPERATION = "ikmap-peer"
"""Name of the message in Dask's protocol between workers."""
MOST_LEGS = 8
"""Number of legs whose messages a process keeps: those of older ones came too late."""


class PeerLost(Exception):
    """An error for a worker of a leg that is gone, busy, has failed, or has come to another order."""


class LegRecord(TaskRecord):
    """The record of a task of a leg; never written to disk.

    Attributes
    ----------
    lost : bool
        True if the leg was given up.
    state : mapping of str to ndarray
        State after the leg, of the first worker.
    rounds_made : int
        Number of rounds, of the first worker.
    bytes_sent : int
        Bytes of the messages that the worker has sent.
    """

    lost: bool
    state: Arrays
    rounds_made: int
    bytes_sent: int


type LegTask = Callable[..., LegRecord]


# Messages between workers


type _Message = tuple[int, Address | None]
"""Number of a worker, and its address; None if it has failed, or cannot be reached."""

_boxes: dict[tuple[str, int], SimpleQueue[_Message]] = {}
"""Messages that have arrived in this process by way of Dask, by leg and number of the worker."""
_lock = Lock()


def _box(leg: str, rank: int) -> SimpleQueue[_Message]:
    with _lock:
        legs = list(dict.fromkeys(own_leg for own_leg, _ in _boxes if own_leg != leg))
        for old in [key for key in _boxes if key[0] in legs[: max(0, len(legs) - MOST_LEGS)]]:
            del _boxes[old]
        return _boxes.setdefault((leg, rank), SimpleQueue())


def _receive(leg: str, rank: int, message: bytes) -> str:
    """Take in a message from another worker, or one with nothing in it, which asks whether this worker is there."""
    if message:
        _box(leg, rank).put(pickle.loads(message))
    return "OK"


def listen(dask_worker: Worker) -> None:
    """Let a worker receive messages."""
    dask_worker.handlers[OPERATION] = _receive


def digest(content: object) -> int:
    """Return a number of 32 bits that depends on the values of an object that can be pickled, but not on identities."""
    written = io.BytesIO()
    pickler = pickle.Pickler(written, protocol=5)
    pickler.fast = True  # equal objects are written as such, whether or not they are the same object
    pickler.dump(content)
    return zlib.crc32(written.getbuffer())


@dataclass
class Peers:
    """The workers of a leg, as one of them sees it; a context manager that tells the others if it fails.

    Attributes
    ----------
    leg : str
        Name of the leg, unique among all.
    workers : sequence of str
        Addresses of the workers.
    rank : int
        Number of this worker.
    bytes_sent : int
        Bytes of the messages that this worker has sent.
    """

    leg: str
    workers: Sequence[str]
    rank: int
    bytes_sent: int = 0

    def __post_init__(self) -> None:
        self._others = [rank for rank in range(len(self.workers)) if rank != self.rank]
        self._connections: Connections | None = None
        self._box = _box(self.leg, self.rank)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._tell(None)
        if self._connections is not None:
            self._connections.close()
        with _lock:
            _boxes.pop((self.leg, self.rank), None)

    def join(self, seconds: float) -> None:
        """Find the other workers, and connect to each of them.

        Raises
        ------
        PeerLost
            A worker did not begin within so many seconds, or cannot be reached.
        """
        if not self._others:
            return
        try:
            self._connections = Connections(get_worker(), self.rank, len(self._others))
            self._tell(self._connections.address)
            self._connections.open(self._addresses(seconds))
        except OSError as error:
            raise PeerLost from error

    def exchange(self, content: object) -> list[object]:
        """Send something to all others, wait for what each of them sends, and return the contents of all by number.

        Workers are waited for as long as they are there.

        Raises
        ------
        PeerLost
            A worker is gone, or has ended the leg.
        """
        if self._connections is None:
            return [content]
        try:
            contents, n_bytes = self._connections.exchange(content, self._look)
        except (OSError, EOFError) as error:
            raise PeerLost from error
        self.bytes_sent += n_bytes
        return [content if rank == self.rank else contents[rank] for rank in range(len(self.workers))]

    def _addresses(self, seconds: float) -> dict[int, Address]:
        """Wait for the addresses of all others, for so many seconds."""
        addresses, ends = dict[int, Address](), time.monotonic() + seconds
        while len(addresses) < len(self._others):
            try:
                rank, address = self._box.get(timeout=max(0.0, ends - time.monotonic()))
            except Empty:
                raise PeerLost from None
            if address is None:
                raise PeerLost
            addresses[rank] = address
        return addresses

    def _tell(self, address: Address | None) -> None:
        """Tell the others the address of this worker, or that it has failed, without waiting until they know."""
        message = pickle.dumps((self.rank, address), protocol=5)
        worker = get_worker()

        async def send(rank: int) -> None:
            try:
                await self._call(worker, rank, message)
            except OSError:
                self._box.put((rank, None))

        async def send_all() -> None:
            await asyncio.gather(*map(send, self._others))

        if self._others:
            worker.loop.add_callback(send_all)

    def _look(self, ranks: Iterable[int]) -> None:
        """Look whether some workers are there.

        Raises
        ------
        PeerLost
        """
        worker = get_worker()

        async def answers() -> list[object]:
            return await asyncio.gather(*(self._call(worker, rank, b"") for rank in ranks))

        try:
            replies = sync(worker.loop, answers, callback_timeout=JOIN_SECONDS)
        except (OSError, TimeoutError) as error:
            raise PeerLost from error
        if any(reply != "OK" for reply in replies):
            raise PeerLost

    async def _call(self, worker: Worker, rank: int, message: bytes) -> object:
        """Send a message, or one with nothing in it, whose reply is returned."""
        operation = getattr(worker.rpc(self.workers[rank]), OPERATION)
        return await operation(leg=self.leg, rank=rank, message=message, reply=not message)


# The client's side


@dataclass
class _Leg:
    """The tasks of a leg, none of which another worker can do."""

    tasks: list[tuple[LegTask, Task]]

    def more(self) -> bool:
        return False

    def ready(self) -> Iterable[tuple[LegTask, Task]]:
        tasks, self.tasks = self.tasks, []
        return tasks

    def lost(self, task: Task) -> None:
        raise PeerLost(task.name)


def run_leg(
    client: Client, key: str, function: LegTask, args: Mapping[str, tuple[object, ...]]
) -> list[LegRecord] | None:
    """Run a leg by tasks on workers that :func:`listen`; return their records, or None if it was given up.

    Parameters
    ----------
    function : callable
        Task of a worker: takes the leg's name, the addresses of all workers, its number, and the arguments.
    args : mapping of str to tuple
        Arguments by address of the worker.
    """
    workers, leg = list(args), f"{key}-{time.time_ns()}"
    tasks = [
        (function, Task(f"leg-{rank:03d}", (leg, workers, rank, *args[worker]), worker))
        for rank, worker in enumerate(workers)
    ]
    records: list[LegRecord] = []
    try:
        records += [record for _, record in run_ready(client, key, _Leg(tasks))]
    except PeerLost:
        return None
    return None if any(record["lost"] for record in records) else records
