"""Messages between the workers of a leg, on connections of their own.

Dask's own messages take more than a millisecond from worker to worker, as they go through two event loops; a round of
boosting works for as long. Here the thread that works writes to a socket, and a thread that waits for the other end
hands over what has come. Each connection is used in one direction, encrypted where Dask's are, and accepted only from
those who know the secret of the leg that the worker has told through Dask.
"""

from __future__ import annotations

import hmac
import secrets
import socket
import ssl
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from threading import Thread
from typing import TYPE_CHECKING

from distributed.comm.addressing import get_address_host

if TYPE_CHECKING:
    from distributed import Worker

SECRET_BYTES = 32
LOOPBACK = "127.0.0.1"
OPEN_SECONDS = 10.0
"""Seconds in which a connection has to be opened, by either side."""
SEND_SECONDS = 60.0
"""Seconds in which a message has to be written: the other end reads at any time, also while it works."""
LOOK_SECONDS = 0.5
"""Seconds between looks at whether connections are still waited for."""
_RANK, _SIZE = struct.Struct("!I"), struct.Struct("!Q")


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
    received : callable
        Called with each message, by a thread for each worker that speaks.
    gone : callable
        Called with the number of a worker that will send nothing more.

    Raises
    ------
    OSError
        No connection can be listened for.
    """

    def __init__(
        self, worker: Worker, rank: int, n_others: int, received: Callable[[bytes], None], gone: Callable[[int], None]
    ) -> None:
        self._rank, self._n_others, self._received, self._gone = rank, n_others, received, gone
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
        self._incoming: list[socket.socket] = []
        self._outgoing: dict[int, socket.socket] = {}
        self._closed = False
        Thread(target=self._accept, name="ikmap-peers", daemon=True).start()

    def open(self, addresses: dict[int, Address]) -> None:
        """Connect to all other workers.

        Parameters
        ----------
        addresses : dict
            Addresses by number of the worker.

        Raises
        ------
        OSError
            A worker cannot be reached.
        """
        for rank, address in addresses.items():
            connection = socket.create_connection((address.host, address.port), timeout=OPEN_SECONDS)
            self._outgoing[rank] = connection
            if self._connects is not None:
                connection = self._connects.wrap_socket(connection, server_hostname=address.host)
                self._outgoing[rank] = connection
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.sendall(address.secret + _RANK.pack(self._rank))
            connection.settimeout(SEND_SECONDS)

    def send(self, message: bytes) -> None:
        """Send a message to all others.

        Raises
        ------
        OSError
            A worker is gone, or does not read.
        """
        for connection in self._outgoing.values():
            connection.sendall(_SIZE.pack(len(message)) + message)

    def close(self) -> None:
        """Close all connections: what was sent still arrives."""
        self._closed = True
        for connection in self._outgoing.values():
            connection.close()
        for connection in self._incoming:
            # This wakes the thread that waits for more, which closes the connection. (`SSLSocket.shutdown` would have
            # it go on without decrypting.)
            with suppress(OSError):
                socket.socket.shutdown(connection, socket.SHUT_RD)

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
                Thread(target=self._hear, args=(connection,), name=f"ikmap-peer-{n_accepted}", daemon=True).start()

    def _hear(self, connection: socket.socket) -> None:
        """Thread: take in what a worker sends, once it has shown that it is one."""
        rank = None
        with suppress(OSError, EOFError):
            connection.settimeout(OPEN_SECONDS)
            # Closed at once, so that one who still sends is told, and does not wait for this end to read.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            if self._listens is not None:
                connection = self._listens.wrap_socket(connection, server_side=True)
            with connection:
                if not hmac.compare_digest(_read(connection, SECRET_BYTES), self.address.secret):
                    return
                (rank,) = _RANK.unpack(_read(connection, _RANK.size))
                self._incoming.append(connection)
                connection.settimeout(None)
                while not self._closed:
                    (size,) = _SIZE.unpack(_read(connection, _SIZE.size))
                    self._received(_read(connection, size))
        if rank is not None:
            self._gone(rank)


def _family(interface: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in interface else socket.AF_INET


def _read(connection: socket.socket, size: int) -> bytes:
    """Read so many bytes.

    Raises
    ------
    EOFError
        The other end has been closed.
    """
    content = bytearray(size)
    rest = memoryview(content)
    while rest:
        n_read = connection.recv_into(rest)
        if not n_read:
            raise EOFError
        rest = rest[n_read:]
    return bytes(content)
