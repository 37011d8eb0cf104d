"""Rounds that workers make among themselves: one leads, and the others send it their shares, past the scheduler.

A learner whose rounds are short would wait longer for tasks to be handed out than it works. So one task for each worker
makes many rounds: that of the first one leads, with the state. It sends each order to the others, and they send their
shares back, directly from worker to worker. Such a leg ends after some seconds, where the state can be written without
loss. It is given up, with nothing lost but its work, if a worker is gone or busy: rounds are then made by tasks.
"""

from __future__ import annotations

import asyncio
import pickle
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Lock
from typing import TYPE_CHECKING, Self

from distributed import get_worker
from distributed.utils import sync

from pipeline.record_types import TaskRecord
from pipeline.running.dispatch import Task, run_ready
from pipeline.training.rounds import Arrays

if TYPE_CHECKING:
    from distributed import Client, Worker

LEG_SECONDS = 2.0
"""Seconds after which a leg ends as soon as the state can be written without loss."""
JOIN_SECONDS = 10.0
"""Seconds in which the workers of a leg have to begin, or it is given up: they may be busy with other tasks."""
LOOK_SECONDS = 0.5
"""Seconds between looks, while nothing arrives, at whether the others are there."""
OPERATION = "ikmap-peer"
"""Name of the message in Dask's protocol between workers."""
MOST_LEGS = 8
"""Number of legs whose messages a process keeps: those of older ones came too late."""

HERE, ORDER, SHARE, END = "here", "order", "share", "end"
"""Kinds of messages."""


class PeerLost(Exception):
    """An error for a worker of a leg that is gone, busy or has failed."""


class LegRecord(TaskRecord):
    """The record of a task of a leg; never written to disk.

    Attributes
    ----------
    lost : bool
        True if the leg was given up.
    state : mapping of str to ndarray
        State after the leg, of the leader.
    rounds_made : int
    bytes_sent : int
        Bytes of the messages that the worker has sent.
    """

    lost: bool
    state: Arrays
    rounds_made: int
    bytes_sent: int


type LegTask = Callable[..., LegRecord]


# Messages between workers


_boxes: dict[tuple[str, int], SimpleQueue[bytes]] = {}
"""Messages that have arrived in this process, by leg and number of the worker."""
_lock = Lock()


def _box(leg: str, rank: int) -> SimpleQueue[bytes]:
    with _lock:
        while (leg, rank) not in _boxes and len(_boxes) >= MOST_LEGS:
            del _boxes[next(iter(_boxes))]
        return _boxes.setdefault((leg, rank), SimpleQueue())


def _receive(leg: str, rank: int, message: bytes) -> str:
    """Take in a message from another worker, or one with nothing in it, which asks whether this worker is there."""
    if message:
        _box(leg, rank).put(message)
    return "OK"


def listen(dask_worker: Worker) -> None:
    """Let a worker receive messages."""
    dask_worker.handlers[OPERATION] = _receive


@dataclass
class Peers:
    """The workers of a leg, as one of them sees it; a context manager that tells the others if it fails.

    Attributes
    ----------
    leg : str
        Name of the leg, unique among all.
    workers : sequence of str
        Addresses of the workers, the first of which leads.
    rank : int
        Number of this worker.
    """

    leg: str
    workers: Sequence[str]
    rank: int
    bytes_sent: int = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            for other in self.others:
                with suppress(PeerLost):
                    self.send([other], END)
        with _lock:
            _boxes.pop((self.leg, self.rank), None)

    @property
    def others(self) -> list[int]:
        """Numbers of the workers that this one has to do with: of the leader all others, of these the leader."""
        return [0] if self.rank else list(range(1, len(self.workers)))

    def send(self, to: Sequence[int], kind: str, content: object = None) -> None:
        """Send a message to some workers.

        Raises
        ------
        PeerLost
        """
        message = pickle.dumps((kind, self.rank, content), protocol=5)
        self._call(to, message)
        self.bytes_sent += len(message) * len(to)

    def receive(self, kind: str, froms: Iterable[int], seconds: float | None = None) -> dict[int, object]:
        """Wait for a message of that kind from each of some workers, as long as they are there; return the contents.

        Raises
        ------
        PeerLost
            A worker is gone or has ended the leg, or no message has come for so many seconds.
        """
        missing, contents = set(froms), dict[int, object]()
        began = looked = time.monotonic()
        while missing:
            try:
                sent_kind, sender, content = pickle.loads(_box(self.leg, self.rank).get(timeout=LOOK_SECONDS))
            except Empty:
                if seconds is not None and time.monotonic() - began > seconds:
                    raise PeerLost from None
                if time.monotonic() - looked > LOOK_SECONDS:
                    self._call(list(missing), b"")
                    looked = time.monotonic()
                continue
            if sent_kind == END:
                raise PeerLost
            if sent_kind == kind and sender in missing:
                missing.remove(sender)
                contents[sender] = content
        return contents

    def _call(self, to: Sequence[int], message: bytes) -> None:
        if not to:
            return
        worker = get_worker()

        async def call(rank: int) -> object:
            # A message is not waited for until it is answered; only looks are.
            peer, reply = worker.rpc(self.workers[rank]), not message
            return await getattr(peer, OPERATION)(leg=self.leg, rank=rank, message=message, reply=reply)

        async def calls() -> list[object]:
            return await asyncio.gather(*map(call, to))

        try:
            answers = sync(worker.loop, calls, callback_timeout=JOIN_SECONDS)
        except (OSError, TimeoutError) as error:
            raise PeerLost from error
        if not message and any(answer != "OK" for answer in answers):
            raise PeerLost


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
        Arguments by address of the worker; the first one leads.
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
