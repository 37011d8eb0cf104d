"""Messages between the workers of a leg, on connections of their own.

Dask's own messages take more than a millisecond from worker to worker, as they go through two event loops; a round of
boosting works for as long. Here the thread that works writes to a socket and reads from another, and arrays are sent
from where they are, and received where they stay. Each connection is used in one direction, encrypted where Dask's are,
and accepted only from those who know the secret of the leg that the worker has told through Dask.
"""

from __future__ import annotations

import hmac
import pickle
import secrets
import select
import socket
import ssl
import struct
import time
from collections.abc import Buffer, Callable, Collection, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING

import numpy as np
from distributed.comm.addressing import get_address_host

if TYPE_CHECKING:
    from distributed import Worker

SECRET_BYTES = 32
LOOPBACK = "127.0.0.1"
OPEN_SECONDS = 10.0
"""Seconds in which a connection has to be opened, by either side."""
LOOK_SECONDS = 0.5
"""Seconds between looks at whether connections are still waited for, and, while nothing arrives, at whether the other
workers are there."""
LARGE_BYTES = 4096
"""Bytes of an array from which on it is a part of its own in a message."""
_NUMBER, _SIZE = struct.Struct("!I"), struct.Struct("!Q")
GREETING_BYTES = SECRET_BYTES + _NUMBER.size
"""Bytes of the secret and of the number of a worker that connects."""

type _Steps[T] = Generator[int, None, T]
"""Generator that sends or receives as far as it can without waiting, then yields the event that it waits for."""


@dataclass(frozen=True)
class Address:
    """Address at which a worker of a leg listens, and the secret that those who speak to it have to know."""

    host: str
    port: int
    secret: bytes


class Connections:
    """The connections of a worker with the others of its leg.

    Parameters
    ----------
    worker : distributed.Worker
        The worker, whose interface and encryption are used.
    rank : int
        Number of this worker in the leg.
    n_others : int
        Number of other workers.

    Raises
    ------
    OSError
        No connection can be listened for.
    """

    def __init__(self, worker: Worker, rank: int, n_others: int) -> None:
        self._rank, self._n_others = rank, n_others
        self._listens: ssl.SSLContext | None = worker.security.get_listen_args("worker").get("ssl_context")
        if self._listens is not None:
            # Tickets to connect again would never be read: what was sent last is lost if a connection that has
            # something unread is closed.
            self._listens.num_tickets = 0
        self._connects: ssl.SSLContext | None = worker.connection_args.get("ssl_context")
        # Dask's listener for workers within one process has no interface.
        (interface, *_) = getattr(worker.listeners[0], "bound_address", (LOOPBACK,))
        self._server = socket.create_server((interface, 0), family=_family(interface))
        self._server.settimeout(LOOK_SECONDS)
        host = LOOPBACK if worker.address.startswith("inproc:") else get_address_host(worker.address)
        self.address = Address(host, self._server.getsockname()[1], secrets.token_bytes(SECRET_BYTES))
        self._known: SimpleQueue[tuple[int, socket.socket]] = SimpleQueue()
        self._incoming: dict[int, socket.socket] = {}
        self._outgoing: dict[int, socket.socket] = {}
        self._closed = False
        Thread(target=self._accept, name="ikmap-peers", daemon=True).start()

    def open(self, addresses: dict[int, Address]) -> None:
        """Connect to all other workers, and wait until they have connected to this one.

        Parameters
        ----------
        addresses : dict
            Addresses by number of the worker.

        Raises
        ------
        OSError
            A worker cannot be reached, or does not connect.
        """
        for rank, address in addresses.items():
            connection = socket.create_connection((address.host, address.port), timeout=OPEN_SECONDS)
            self._outgoing[rank] = connection
            if self._connects is not None:
                connection = self._connects.wrap_socket(connection, server_hostname=address.host)
                self._outgoing[rank] = connection
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.sendall(address.secret + _NUMBER.pack(self._rank))
            connection.setblocking(False)
        ends = time.monotonic() + OPEN_SECONDS
        while len(self._incoming) < self._n_others:
            try:
                rank, connection = self._known.get(timeout=max(0.0, ends - time.monotonic()))
            except Empty:
                raise TimeoutError from None
            self._incoming[rank] = connection

    def exchange(self, content: object, look: Callable[[Collection[int]], object]) -> tuple[dict[int, object], int]:
        """Send something that can be pickled to all others, and receive what each of them sends.

        Parameters
        ----------
        content : object
        look : callable
            Called with the numbers of the workers that are waited for, each time that nothing happens for
            :data:`LOOK_SECONDS`.

        Returns
        -------
        contents : dict
            What has been received, by number of the worker.
        n_bytes : int
            Number of bytes that were sent.

        Raises
        ------
        OSError, EOFError
            A worker is gone.
        """
        parts, contents = packed(content), dict[int, object]()
        n_bytes = sum(memoryview(part).nbytes for part in parts)
        going = [(rank, connection, _send(connection, parts)) for rank, connection in self._outgoing.items()]
        going += [(rank, connection, self._receive(rank, contents)) for rank, connection in self._incoming.items()]
        while going:
            waiting, events = [], select.poll()
            for rank, connection, steps in going:
                if (event := next(steps, None)) is not None:
                    events.register(connection, event)
                    waiting.append((rank, connection, steps))
            if waiting and not events.poll(1e3 * LOOK_SECONDS):
                look({rank for rank, _, _ in waiting})
            going = waiting
        return contents, n_bytes * len(self._outgoing)

    def close(self) -> None:
        """Close all connections: what was sent still arrives."""
        self._closed = True
        with suppress(Empty):
            while True:
                rank, connection = self._known.get_nowait()
                self._incoming[rank] = connection
        for connection in [*self._outgoing.values(), *self._incoming.values()]:
            connection.close()

    def _accept(self) -> None:
        """Thread: accept the connections of all others."""
        with self._server:
            n_accepted = 0
            while not self._closed and len(self._incoming) < self._n_others:
                try:
                    connection, _ = self._server.accept()
                except TimeoutError:
                    continue
                except OSError:
                    return
                n_accepted += 1
                Thread(target=self._greet, args=(connection,), name=f"ikmap-peer-{n_accepted}", daemon=True).start()

    def _greet(self, connection: socket.socket) -> None:
        """Thread: keep a connection if its other end knows the secret, and so is another worker; else close it."""
        with suppress(OSError):
            connection.settimeout(OPEN_SECONDS)
            # Closed at once, so that one who still sends is told, and does not wait for this end to read.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            if self._listens is not None:
                connection = self._listens.wrap_socket(connection, server_side=True)
            shown = b""
            while len(shown) < GREETING_BYTES and (read := connection.recv(GREETING_BYTES - len(shown))):
                shown += read
            is_whole, secret = len(shown) == GREETING_BYTES, shown[:SECRET_BYTES]
            if is_whole and hmac.compare_digest(secret, self.address.secret) and not self._closed:
                connection.setblocking(False)
                self._known.put((*_NUMBER.unpack(shown[SECRET_BYTES:]), connection))
                return
        connection.close()

    def _receive(self, rank: int, contents: dict[int, object]) -> _Steps[None]:
        """Receive the content of a message of a worker."""
        connection = self._incoming[rank]
        (n_parts,) = _NUMBER.unpack((yield from _read(connection, _NUMBER.size)))
        sizes = _SIZE.iter_unpack((yield from _read(connection, n_parts * _SIZE.size)))
        parts = []
        for (size,) in sizes:
            parts.append((yield from _read(connection, size)))
        contents[rank] = pickle.loads(parts[0], buffers=parts[1:])


def packed(content: object) -> list[Buffer]:
    """Return the parts in which a message is sent: after the first, arrays, which are not copied."""
    arrays: list[Buffer] = []

    def stays(buffer: pickle.PickleBuffer) -> bool:
        """Return whether an array is pickled with the rest; otherwise take it out."""
        raw = buffer.raw()
        if raw.nbytes >= LARGE_BYTES:
            arrays.append(raw)
        return raw.nbytes < LARGE_BYTES

    rest = pickle.dumps(content, protocol=5, buffer_callback=stays)
    sizes = [len(rest), *(memoryview(array).nbytes for array in arrays)]
    return [_NUMBER.pack(len(sizes)) + b"".join(map(_SIZE.pack, sizes)) + rest, *arrays]


def _send(connection: socket.socket, parts: Sequence[Buffer]) -> _Steps[None]:
    """Send the parts of a message."""
    for part in parts:
        rest = memoryview(part)
        while rest:
            try:
                rest = rest[connection.send(rest) :]
            except ssl.SSLWantReadError:
                yield select.POLLIN
            except (BlockingIOError, ssl.SSLWantWriteError):
                yield select.POLLOUT


def _read(connection: socket.socket, size: int) -> _Steps[memoryview]:
    """Read so many bytes.

    Raises
    ------
    EOFError
        The other end has been closed.
    """
    content = np.empty(size, dtype=np.uint8).data
    rest = content
    while rest:
        try:
            n_read = connection.recv_into(rest)
        except ssl.SSLWantWriteError:
            yield select.POLLOUT
            continue
        except (BlockingIOError, ssl.SSLWantReadError):
            yield select.POLLIN
            continue
        if not n_read:
            raise EOFError
        rest = rest[n_read:]
    return content


def _family(interface: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in interface else socket.AF_INET
