"""The engine of rounds: it solves a problem of :mod:`pipeline.training.rounds` by an executor.

An executor does the work of a round on all pieces. Wherever it does so, and whatever it holds in memory, the result has
the same bits; a run that was killed goes on with the last state that was written.

- :class:`InThreads`: in this process, by threads that share the pieces, which own no arrays; the state is written every
  few seconds.
- :class:`OnWorkers`: a task for each piece and round, always by the worker that holds the piece if it is there; the
  state and what belongs to the pieces are written in every round, and tasks read them there. Orders that are small are
  sent with the tasks, and the state is then written every few seconds; workers make many such rounds among themselves
  (:mod:`pipeline.training.peers`).
- :func:`solve_durably`: a task for each piece and round that stores its share, and a task that absorbs all shares.
"""

from __future__ import annotations

import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Self, cast

from distributed import Client, get_worker

from pipeline.errors import Damaged
from pipeline.record_types import TaskRecord
from pipeline.running import stage as running
from pipeline.running.attempt import Attempt, with_spent, without_spent
from pipeline.running.dispatch import Task, worker_addresses
from pipeline.running.stage import Stage
from pipeline.storage.durable import read_arrays, write_arrays
from pipeline.storage.lru_cache import PROCESS, LRUCache
from pipeline.training.peers import (
    JOIN_SECONDS,
    LEG_SECONDS,
    LegRecord,
    PeerLost,
    Peers,
    digest,
    listen,
    run_leg,
)
from pipeline.training.rounds import AnyRounds, Arrays, Generations, Held, RowsKey, rounds_group

CHECKPOINT_SECONDS = 5.0
"""Seconds between checkpoints of a problem whose tasks do not read them."""

MOST_LEGS_LOST = 3
"""Number of legs that may be given up before all further rounds are made by tasks."""
ROUNDS_BETWEEN_LEGS = 20
"""Number of rounds that are made by tasks after a leg has been given up."""

STATE = "state"
"""Name of the arrays of the state."""


class ShareRecord(TaskRecord):
    """The record of a task that has worked on a piece; never written to disk."""

    share: object


@dataclass(frozen=True)
class Folder:
    """Files from which rounds go on: the state, and the arrays that belong to pieces, after some number of rounds.

    Files of the last two numbers of rounds are kept: work may need the arrays of both, and the next round may be half
    done.

    Attributes
    ----------
    run : str
        Id of the run; files of another one are refused as damaged.
    """

    path: Path
    run: str = ""

    def begin(self) -> int:
        """Return the number of rounds that are done, and remove files that are worth nothing without a state."""
        done = max((_done(path) for path in self.path.glob(f"{STATE}-*.npz")), default=0)
        if not done:
            shutil.rmtree(self.path, ignore_errors=True)
        self.path.mkdir(parents=True, exist_ok=True)
        return done

    def read(self, name: str, done: int) -> Arrays:
        """Return the arrays of a name after so many rounds, none before the first; if damaged, so is the folder."""
        path = self._file(name, done)
        try:
            return read_arrays(path, self.run) if done > 0 else {}
        except FileNotFoundError:
            raise Damaged(str(path), "it is missing", str(self.path)) from None
        except Damaged as damaged:
            raise Damaged(damaged.path, damaged.why, str(self.path)) from None

    def write(self, name: str, done: int, arrays: Arrays) -> None:
        """Write the arrays of a name after so many rounds. The state is last: then files that are too old go."""
        write_arrays(self._file(name, done), arrays, self.run)
        if name == STATE:
            for path in self.path.glob("*-*.npz"):
                if _done(path) < done - 1:
                    path.unlink(missing_ok=True)

    def _file(self, name: str, done: int) -> Path:
        return self.path / f"{name}-{done:05d}.npz"


def _done(path: Path) -> int:
    """Return the number of rounds after which a file was written."""
    return int(path.stem.rpartition("-")[2])


def own(piece: int) -> str:
    """Return the name of the arrays that belong to a piece."""
    return f"own-{piece:03d}"


class Executor(ABC):
    """Does the work of a round on all pieces; a context manager that lets go of them in the end."""

    def __enter__(self) -> Self:
        return self

    @abstractmethod
    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None: ...

    @property
    @abstractmethod
    def spent(self) -> TaskRecord:
        """Seconds, bytes and memory that the problem has taken so far, also by executors before this one."""

    @abstractmethod
    def begin(self, rounds: AnyRounds, folder: Folder, done: int, spent: TaskRecord) -> None:
        """Take up a problem of which so many rounds are done, on which so much was spent."""

    @abstractmethod
    def write(self, done: int, state: object) -> None:
        """Write the state after so many rounds, if it is time to."""

    @abstractmethod
    def shares(self, done: int, order: object) -> Iterator[object]:
        """Do the work of the next round, whose order the state after `done` rounds gives; yield the shares in order."""

    def leg(self, done: int, state: object) -> tuple[object, int] | None:  # noqa: ARG002
        """Make rounds from the state after `done` rounds on; return a later state and the rounds then done.

        None: the next round is to be made by itself.
        """
        return None


def solve(rounds: AnyRounds, executor: Executor, folder: Folder) -> object:
    """Return the state in which a problem is solved, from where an interrupted run stopped."""
    done = folder.begin()
    arrays, spent = without_spent(folder.read(STATE, done))
    state = rounds.restore(arrays) if done else rounds.begin()
    del arrays  # which may be large
    executor.begin(rounds, folder, done, spent)
    while (order := rounds.order(state)) is not None:
        executor.write(done, state)
        if (later := executor.leg(done, state)) is not None:
            state, done = later
            continue
        state = rounds.absorb(state, order, executor.shares(done, order))
        done += 1
    return state


# -------------------------------------------------------------------------------------------------- in this process


class InThreads(Executor):
    """Does the work in this process, which holds all pieces, by some threads. The pieces own no arrays.

    Parameters
    ----------
    in_memory : bool
        Whether the pieces are held in memory, or in a file.
    """

    def __init__(self, in_memory: bool, n_threads: int = 1) -> None:
        self._in_memory, self._pool, self._attempt = in_memory, ThreadPoolExecutor(n_threads), Attempt()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._pool.shutdown()

    @property
    def rows(self) -> int:
        """Number of rows of all pieces."""
        return sum(held.rows for held in self._held)

    @property
    def spent(self) -> TaskRecord:
        return self._attempt.spent(sum(held.bytes_read for held in self._held))

    def begin(self, rounds: AnyRounds, folder: Folder, done: int, spent: TaskRecord) -> None:  # noqa: ARG002
        assert not rounds.owns  # there are no arrays to read
        self._rounds, self._folder, self._attempt.before = rounds, folder, spent
        self._held: list[Held[object]] = [rounds.open(k, self._in_memory) for k in range(rounds.n_pieces)]
        self._written = time.monotonic()

    def write(self, done: int, state: object) -> None:
        if not done or time.monotonic() - self._written < CHECKPOINT_SECONDS or not self._rounds.rests(state):
            return
        self._folder.write(STATE, done, with_spent(self._rounds.checkpoint(state), self.spent))
        self._written = time.monotonic()

    def shares(self, done: int, order: object) -> Iterator[object]:  # noqa: ARG002
        def work(k: int) -> object:
            share, _ = self._rounds.work(order, k, self._held[k], ({}, {}))
            if not self._in_memory:
                self._held[k].rest()
            return share

        yield from self._pool.map(work, range(len(self._held)))


def solve_in_one(rounds: AnyRounds, folder: Folder, in_memory: bool, n_threads: int) -> TaskRecord:
    """Task: solve a problem and store the solution, going on from the checkpoint of an interrupted attempt."""
    with InThreads(in_memory, n_threads) as executor:
        state = solve(rounds, executor, folder)
        return {**rounds.finish(state), "rows": executor.rows, **executor.spent}


# -------------------------------------------------------------------------------------- a task for each piece and round


class OnWorkers(Executor):
    """Has workers do the work, a task for each piece and round; leaving it lets the workers forget the pieces."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.homes: dict[int, str] = {}

    def __enter__(self) -> Self:
        # Workers may outlive a client that was stopped, and hold pieces of rows that are other rows now.
        self._let_go()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:  # else perhaps there are no workers to call
            self._let_go()

    def _let_go(self) -> None:
        self._stage.context.client.run(let_go, on_error="ignore")
        let_go()

    def solve(self, rounds: AnyRounds, folder: Folder) -> TaskRecord:
        """Solve a problem, store the solution, and return its record with the measures of all tasks."""
        return {**rounds.finish(solve(rounds, self, folder)), **self.spent}

    @property
    def spent(self) -> TaskRecord:
        return {"bytes_read": self._bytes_read, "peak_rss_bytes": self._peak_rss_bytes, "busy": self._busy}

    def begin(self, rounds: AnyRounds, folder: Folder, done: int, spent: TaskRecord) -> None:
        self._rounds, self._folder, self._n_pieces = rounds, folder, rounds.n_pieces
        self._written = time.monotonic()
        self._next_leg, self._legs_lost, self._listening = done, 0, set[str]()
        self._bytes_read, self._peak_rss_bytes = spent.get("bytes_read", 0), spent.get("peak_rss_bytes", 0)
        self._busy = spent.get("busy", {})

    def write(self, done: int, state: object) -> None:
        if not done:
            return
        waits = time.monotonic() - self._written < CHECKPOINT_SECONDS or not self._rounds.rests(state)
        if self._rounds.sends_orders and waits:
            return
        self._folder.write(STATE, done, with_spent(self._rounds.checkpoint(state), self.spent))
        self._written = time.monotonic()

    def shares(self, done: int, order: object) -> Iterator[object]:
        self._assign()
        sent = (order,) if self._rounds.sends_orders else ()
        tasks = [
            Task(
                f"{self._rounds.name}-{done:05d}-{k:03d}",
                (self._rounds, k, self._folder, done, *sent),
                self.homes.get(k),
                large=bool(sent),  # one for a worker that is new has all that came before
            )
            for k in range(self._n_pieces)
        ]
        early: dict[str, object] = {}
        following = iter(tasks)
        expected = next(following, None)
        for task, record in running.run_tasks(self._stage.context.client, self._stage.key, work_on_piece, tasks):
            self._measure(record)
            early[task.name] = record["share"]
            while expected is not None and expected.name in early:
                yield early.pop(expected.name)
                expected = next(following, None)
        self._stage.say({})

    def leg(self, done: int, state: object) -> tuple[object, int] | None:
        client = self._stage.context.client
        if not (self._rounds.sends_orders and isinstance(client, Client)):
            return None
        if done < self._next_leg or self._legs_lost > MOST_LEGS_LOST or (done and not self._rounds.rests(state)):
            return None
        self._assign()
        pieces: dict[str, list[int]] = {}
        for k in range(self._n_pieces):
            if k in self.homes:
                pieces.setdefault(self.homes[k], []).append(k)
        if sum(map(len, pieces.values())) < self._n_pieces:
            return None
        if new := [worker for worker in pieces if worker not in self._listening]:
            client.run(listen, workers=new, on_error="ignore")
            self._listening.update(new)
        arrays = self._rounds.checkpoint(state)
        args = {worker: (self._rounds, own_pieces, arrays, LEG_SECONDS) for worker, own_pieces in pieces.items()}
        records = run_leg(client, self._stage.key, make_rounds, args)
        if records is None:
            self._legs_lost += 1
            self._listening.clear()  # a worker may have begun anew with the same address
            self._next_leg = done + ROUNDS_BETWEEN_LEGS
            return None
        for record in records:
            self._measure(record)
        self._stage.say({})
        (first,) = (record for record in records if record["rounds_made"])
        return self._rounds.restore(first["state"]), done + first["rounds_made"]

    def _measure(self, record: TaskRecord) -> None:
        """Add the measures of a task to those of the problem."""
        self._stage.note_compiling(record)
        self._bytes_read += record["bytes_read"]
        self._peak_rss_bytes = max(self._peak_rss_bytes, record["peak_rss_bytes"])
        self._busy[record["worker"]] = self._busy.get(record["worker"], 0.0) + record["seconds"]

    def _assign(self) -> None:
        """Leave each piece with the worker that has it; share out the pieces of workers that are gone."""
        workers = worker_addresses(self._stage.context.client)
        self.homes = {k: worker for k, worker in self.homes.items() if worker in workers}
        count = {worker: sum(home == worker for home in self.homes.values()) for worker in workers}
        for k in range(self._n_pieces):
            if k not in self.homes and count:
                least = min(count, key=lambda worker: (count[worker], worker))
                self.homes[k] = least
                count[least] += 1


@dataclass
class _HeldPiece:
    """A piece as a process keeps it from round to round, with the arrays that belong to it by number of rounds."""

    held: Held[object]
    bytes_in_memory: int
    own: LRUCache[tuple[Folder, int], Arrays] = field(default_factory=lambda: LRUCache(2))

    def own_after(self, folder: Folder, piece: int, done: int) -> Arrays:
        """Return the arrays that belong to the piece after so many rounds, from memory or their file."""
        arrays = self.own.get((folder, done))
        if arrays is None:
            arrays = folder.read(own(piece), done)
            self.own.put((folder, done), arrays)
        return arrays


_pieces: LRUCache[tuple[RowsKey, int], _HeldPiece] = PROCESS.keeps(None)
_claims: LRUCache[tuple[RowsKey, int], int] = PROCESS.keeps(None)
"""Bytes of the pieces that threads are reading into memory now, which other threads leave to them."""
_orders: LRUCache[tuple[object, int], object] = PROCESS.keeps(1)
"""The order of a round, which has arrays as large as the weights, by the place of the state and the rounds done."""


def let_go() -> None:
    """Let go of all pieces: the learner is done."""
    _pieces.forget()
    _orders.forget()


def work_on_piece(rounds: AnyRounds, piece: int, folder: Folder, done: int, order: object = None) -> ShareRecord:
    """Task: do the work of one round on a piece. Without the order, it is made of the state."""
    if order is None:
        order = _order(rounds, folder, done)
    kept, read_before = _hold(rounds, piece)
    generations: Generations = ({}, {})
    if rounds.owns:
        generations = kept.own_after(folder, piece, done), kept.own_after(folder, piece, done - 1)
    share, arrays = rounds.work(order, piece, kept.held, generations)
    if rounds.owns:
        folder.write(own(piece), done + 1, arrays)
        kept.own.put((folder, done + 1), arrays)
    if not kept.bytes_in_memory:
        kept.held.rest()
        kept.own.forget()
    return {"share": share, "rows": kept.held.rows, "bytes_read": kept.held.bytes_read - read_before}


def make_rounds(
    leg: str,
    workers: Sequence[str],
    rank: int,
    rounds: AnyRounds,
    pieces: Sequence[int],
    arrays: Arrays,
    seconds: float,
) -> LegRecord:
    """Task: make rounds with other workers, from a state, until it can be written after so many seconds.

    Parameters
    ----------
    leg, workers, rank
        As in :class:`~pipeline.training.peers.Peers`.
    pieces : sequence of int
        Pieces that this worker works on.
    arrays : mapping of str to ndarray
        The state.
    """
    record: LegRecord = {"lost": True, "state": {}, "rounds_made": 0, "bytes_read": 0, "bytes_sent": 0}

    def worked(order: object) -> dict[int, object]:
        contexts = [copy_context() for _ in pieces]  # from which a piece learns the limit of the worker's memory
        work = partial(work_on_piece, rounds, folder=Folder(Path()), done=0, order=order)
        each_piece = map if n_threads == 1 else pool.map
        done = list(each_piece(lambda context, k: context.run(work, piece=k), contexts, pieces))
        record["bytes_read"] += sum(each["bytes_read"] for each in done)
        return {k: each["share"] for k, each in zip(pieces, done, strict=True)}

    peers = Peers(leg, workers, rank)
    n_threads = min(len(pieces), get_worker().state.nthreads)
    with suppress(PeerLost), ThreadPoolExecutor(n_threads) as pool, peers:
        peers.join(JOIN_SECONDS)
        state, began = rounds.restore(arrays) if arrays else rounds.begin(), time.monotonic()
        rounds_made, ends = 0, False
        while (order := rounds.order(state)) is not None and not (ends and rounds.rests(state)):
            own_turn = _Turn(digest(order), time.monotonic() - began >= seconds, worked(order))
            turns = cast("list[_Turn]", peers.exchange(own_turn))
            if any(turn.order != own_turn.order for turn in turns):
                raise PeerLost  # their processors may round in other ways, by which the state may differ
            shares = {k: share for turn in turns for k, share in turn.shares.items()}
            state = rounds.absorb(state, order, (shares.pop(k) for k in sorted(shares)))
            rounds_made, ends = rounds_made + 1, turns[0].ends
        if rank == 0:
            record["state"], record["rounds_made"] = rounds.checkpoint(state), rounds_made
        record["lost"] = False
    record["bytes_sent"] = peers.bytes_sent
    return record


@dataclass(frozen=True)
class _Turn:
    """A worker's part of a round of a leg.

    Attributes
    ----------
    order : int
        Digest of the order, which all workers have to have in common.
    ends : bool
        True if the leg has taken its time. That of the first worker counts.
    shares : dict
        Shares by number of the piece.
    """

    order: int
    ends: bool
    shares: dict[int, object]


def _order(rounds: AnyRounds, folder: Folder, done: int) -> object:
    """Return the order of the round after `done` rounds."""
    with _orders.lock:  # threads that want the same order make it once
        order = _orders.get((folder, done))
        if order is None:
            _orders.make_room()
            arrays, _ = without_spent(folder.read(STATE, done))
            order = rounds.order(rounds.restore(arrays) if done else rounds.begin())
            _orders.put((folder, done), order)
    return order


def _hold(rounds: AnyRounds, piece: int) -> tuple[_HeldPiece, int]:
    """Return a piece, and the bytes that had been read for it before this task."""
    key = rounds.rows_key, piece
    with _pieces.lock:
        for other in _pieces:
            if other[0] != rounds.rows_key:
                _pieces.take(other)  # of a learner that is done
        if (kept := _pieces.get(key)) is not None:
            return kept, kept.held.bytes_read
        used = sum(other_piece.bytes_in_memory for other_piece in _pieces.values()) + sum(_claims.values())
        size = rounds.size(piece)
        in_memory = used + size <= rounds.room()
        if in_memory:
            _claims.put(key, size)
    try:
        kept = _HeldPiece(rounds.open(piece, in_memory), size if in_memory else 0)
        _pieces.put(key, kept)
    finally:
        _claims.take(key)
    return kept, 0


# --------------------------------------------------------------------------------------------- shares that are stored


def solve_durably(rounds: AnyRounds, stage: Stage) -> TaskRecord:
    """Solve a problem whose shares and states are stored, by tasks that are recorded; return the record of the last."""
    done = 0
    while True:
        tasks = [Task(f"round-{done}-{k:03d}", (rounds, k, done)) for k in range(rounds.n_pieces)]
        stage.run(store_share, tasks)
        (record,) = stage.run(absorb_shares, [Task(f"round-{done}", (rounds, done))])
        if not record.get("temporary"):
            return record
        done += 1


def store_share(rounds: AnyRounds, piece: int, done: int) -> TaskRecord:
    """Task: do the work of a round on a piece, and store its share."""
    held = rounds.open(piece, in_memory=False)
    share, _ = rounds.work(rounds.order(_stored_state(rounds, done)), piece, held, ({}, {}))
    stored = _stored(rounds, f"share-{done}-{piece:03d}", share)
    return {**stored, "rows": held.rows, "bytes_read": held.bytes_read}


def absorb_shares(rounds: AnyRounds, done: int) -> TaskRecord:
    """Task: absorb the shares of all pieces in their order; store the state, or the solution after the last round."""
    state, read = _stored_state(rounds, done), 0

    def shares() -> Iterator[Arrays]:
        nonlocal read
        for k in range(rounds.n_pieces):
            share = _read(rounds, f"share-{done}-{k:03d}")
            read += sum(array.nbytes for array in share.values())
            yield share

    state = rounds.absorb(state, rounds.order(state), shares())
    if rounds.order(state) is None:
        return {**rounds.finish(state), "bytes_read": read}
    return {**_stored(rounds, f"{STATE}-{done + 1}", rounds.checkpoint(state)), "bytes_read": read}


def _stored_state(rounds: AnyRounds, done: int) -> object:
    """Return the state after so many rounds whose shares are stored."""
    return rounds.restore(_read(rounds, f"{STATE}-{done}")) if done else rounds.begin()


def _stored(rounds: AnyRounds, name: str, arrays: Arrays) -> TaskRecord:
    """Store arrays until the learner is trained; return a record."""
    output = f"{rounds_group(rounds.learner)}/{name}"
    return {"bytes_written": rounds.store.write_group(output, dict(arrays), {}), "outputs": [output], "temporary": True}


def _read(rounds: AnyRounds, name: str) -> Arrays:
    """Return arrays that are stored until the learner is trained."""
    return rounds.store.read_group(f"{rounds_group(rounds.learner)}/{name}")[1]
