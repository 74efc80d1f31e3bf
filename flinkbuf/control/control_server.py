"""The driver's end of the control plane: one socket and one thread, to which the workers of all jobs connect.

A connection belongs to a group: the task managers of one job, the tasks of one exchange. It counts for nothing until
it has proved that it knows the group's secret, and there is a limit to the time and the bytes it has for that. What
the groups say to each other is not known here: they are given bytes, on the server's thread.

The server remembers nothing of a group but while it is open: the secret of each is derived from its id and a key that
the server draws when it is made.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import itertools
import os
import resource
import secrets
import socket
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from flinkbuf.config import TlsConfig
from flinkbuf.control import tcp_health
from flinkbuf.control.connection import Connection, ControlHandler, Group
from flinkbuf.log import RepeatedMessage, logger
from flinkbuf.network.ports import listen, open_first_free
from flinkbuf.network.tls_context import make_context

PORT_OPTION: Final = "spark.flinkbuf.driver.port"
GREETING_TIMEOUT_S = 10.0  # a connection that has not proved anything by then is closed
STRANGERS_MAX = 1024  # connections at once that have not proved anything; the one that has waited longest goes
STRANGERS_SHARE = 4  # they take no more than one in so many of the files that this process may open
ACCEPTED_AT_ONCE = 16  # so few that who has just come can prove itself before as many others come as may wait
LAST_WORDS_S = 1.0  # for what was sent last to leave when the server closes

MakeHandler = Callable[[str], "ControlHandler | None"]


class DelayedCall:
    """A call that was asked for later."""

    def __init__(self) -> None:
        self.is_canceled = False

    def cancel(self) -> None:
        """Do without it; any thread. On the server's thread it is sure not to come afterwards."""
        self.is_canceled = True


class ControlServer:
    """The driver's end of the connections of all workers. All methods may be called by any thread.

    Parameters
    ----------
    bind_host : str
        The address to listen at.
    advertised_host : str, optional
        The address that workers are told; `bind_host` if left out.
    ports : iterable of int, default (0,)
        The first one that is free is taken; 0 is any.
    tls : TlsConfig, optional
        Both ends encrypt, and show certificates of the same authority.
    option : str
        Where `ports` were set, for the message when none is free.
    key : bytes, optional
        What the secrets of its groups are derived from, by `group_secret`; drawn if left out.

    Attributes
    ----------
    address : tuple of (str, int)
        Where workers connect to.

    Raises
    ------
    OSError
        If it cannot listen, or a file of `tls` cannot be read.
    ValueError
        If `ports` are none, or a file of `tls` does not hold what it should.
    """

    def __init__(
        self,
        bind_host: str,
        advertised_host: str | None = None,
        ports: Iterable[int] = (0,),
        *,
        tls: TlsConfig | None = None,
        option: str = PORT_OPTION,
        key: bytes | None = None,
    ) -> None:
        self.tls_context = make_context(tls, is_server=True) if tls is not None else None
        self._key = secrets.token_bytes(32) if key is None else key
        self._lock = threading.Lock()  # of the two dicts
        self._groups: dict[str, Group] = {}
        self._makers: dict[str, MakeHandler] = {}
        self._numbers = itertools.count(1)
        self._connections: set[Connection] = set()
        self._strangers: dict[Connection, asyncio.TimerHandle] = {}  # in the order of coming
        self.refused = RepeatedMessage(logger.warning)
        self._socket = open_first_free(ports, lambda port: listen(bind_host, port, STRANGERS_MAX), option)
        self.address: tuple[str, int] = (advertised_host or bind_host, self._socket.getsockname()[1])
        self._loop = asyncio.SelectorEventLoop()
        self._closing = asyncio.Event()
        self._all_gone = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="flinkbuf-control", daemon=True)
        self._thread.start()

    @property
    def is_closed(self) -> bool:
        """Whether it listens no more."""
        return not self._thread.is_alive()

    def secret_of(self, group_id: str) -> bytes:
        """Return what only the members of a group and this server know: who proves to know it may speak to it."""
        return group_secret(self._key, group_id)

    def open(self, group_id: str, handler: ControlHandler) -> None:
        """Let the members of a group come in from now on.

        Raises
        ------
        ValueError
            If the group is open already.
        """
        with self._lock:
            if group_id in self._groups:
                raise ValueError(f"the group {group_id!r} is open already")
            self._groups[group_id] = Group(group_id, handler)

    def close_group(self, group_id: str) -> None:
        """End a group's connections once everything has left that was sent to them. Its handler hears nothing more."""
        with self._lock:
            group = self._groups.pop(group_id, None)
        if group is not None:
            group.is_closed = True
            self.call_soon(self._end_group, group)

    def on_unknown(self, prefix: str, make_handler: MakeHandler) -> None:
        """Open groups whose id begins with `prefix` when their first member comes.

        `make_handler` is called with the id on the server's thread; None refuses. Such a group has to be closed with
        `close_group` like any other.
        """
        with self._lock:
            self._makers[prefix] = make_handler

    def off_unknown(self, prefix: str) -> None:
        """Open no more such groups."""
        with self._lock:
            self._makers.pop(prefix, None)

    def call_soon(self, callback: Callable[..., object], *arguments: object) -> None:
        """Call on the server's thread, after what was asked for before; not at all if the server is closed."""
        with contextlib.suppress(RuntimeError):  # the loop is closed already
            self._loop.call_soon_threadsafe(callback, *arguments)

    def call_later(self, delay_s: float, callback: Callable[..., object], *arguments: object) -> DelayedCall:
        """Call on the server's thread after so many seconds; not at all if it is canceled or the server closed."""
        delayed = DelayedCall()

        def call() -> None:
            if not delayed.is_canceled:
                callback(*arguments)

        self.call_soon(self._loop.call_later, delay_s, call)
        return delayed

    def close(self) -> None:
        """End all connections, once everything has left or a second is over, and the thread. Idempotent."""
        self.call_soon(self._closing.set)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    # ---- for the connections, on the server's thread

    def group_of(self, group_id: str) -> Group | None:
        """Return the group of a client that has proved itself; None if nobody waits for it."""
        with self._lock:
            group = self._groups.get(group_id)
            makers = [make for prefix, make in self._makers.items() if group_id.startswith(prefix)]
        if group is None and makers:
            handler = makers[0](group_id)
            if handler is not None:
                with self._lock:  # somebody may have opened it meanwhile
                    group = self._groups.setdefault(group_id, Group(group_id, handler))
        return group

    def greeted(self, connection: Connection) -> None:
        """It has proved itself."""
        self._strangers.pop(connection).cancel()

    def forget(self, connection: Connection) -> None:
        """It is gone."""
        self._connections.discard(connection)
        waiting = self._strangers.pop(connection, None)
        if waiting is not None:
            waiting.cancel()
        if not self._connections:
            self._all_gone.set()

    # ---- on the server's thread

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.set_exception_handler(self._log)
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            asyncio.set_event_loop(None)
            self._socket.close()
            self._loop.close()

    async def _serve(self) -> None:
        server = await self._loop.create_server(self._meet, sock=self._socket, backlog=ACCEPTED_AT_ONCE)
        self._socket.listen(STRANGERS_MAX)  # asyncio took its backlog for the kernel's, too
        try:
            while not self._closing.is_set():
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._closing.wait(), tcp_health.PULSE_S)
                for connection in list(self._connections):
                    connection.feel_pulse()
        finally:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)  # a child that was forked meanwhile holds the descriptor, too
            server.close()
            await self._end_all()
            self.refused.close()

    async def _end_all(self) -> None:
        for connection in list(self._connections):
            connection.end("the driver has stopped")
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._gone(), LAST_WORDS_S)
        for connection in list(self._connections):
            connection.abort("the driver has stopped")
        await self._gone()

    async def _gone(self) -> None:
        while self._connections:
            self._all_gone.clear()
            await self._all_gone.wait()

    def _meet(self) -> Connection:
        """Make a connection for a peer that has connected, and give it a while to prove who it is."""
        connection = Connection(self, next(self._numbers))
        self._connections.add(connection)
        late = f"nothing was proved within {GREETING_TIMEOUT_S:g} s"
        self._strangers[connection] = self._loop.call_later(GREETING_TIMEOUT_S, connection.abort, late)
        if len(self._strangers) > strangers_max():
            oldest = next(iter(self._strangers))
            self._strangers.pop(oldest).cancel()
            oldest.abort("too many connections that had proved nothing")
        return connection

    def _end_group(self, group: Group) -> None:
        for connection in list(group.connections):
            connection.end("the driver closed it")

    def _log(self, loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        error = context.get("exception")
        logger.error(
            "the control server: %s",
            context.get("message"),
            exc_info=error if isinstance(error, BaseException) else None,
        )


def group_secret(key: bytes, group_id: str) -> bytes:
    """Return what the members of a group know, at a server with this key."""
    return hmac.digest(key, group_id.encode("utf-8", "surrogatepass"), "sha256")


def strangers_max() -> int:
    """Return how many connections at once may have proved nothing."""
    files_max = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    unlimited = files_max == resource.RLIM_INFINITY
    return STRANGERS_MAX if unlimited else min(STRANGERS_MAX, files_max // STRANGERS_SHARE)


# ---- one for all who ask for the same


class ServerLease:
    """A share in a control server; the server ends with its last lease. A context manager that gives the server.

    Attributes
    ----------
    server : ControlServer
    """

    def __init__(self, key: object, server: ControlServer) -> None:
        self.server = server
        self._key = key
        self._is_closed = False

    def close(self) -> None:
        """Give it back; the last one waits until the server has ended. Idempotent."""
        with _lock:
            if self._is_closed:
                return
            self._is_closed = True
            shared = _shared[self._key]
            shared.leases -= 1
            is_last = shared.leases == 0
            if is_last:
                del _shared[self._key]
        if is_last:
            self.server.close()

    def __enter__(self) -> ControlServer:
        return self.server

    def __exit__(self, *exception: object) -> None:
        self.close()


_lock = threading.Lock()


@dataclass
class _Shared:
    server: ControlServer
    leases: int = 0


_shared: dict[object, _Shared] = {}


def control_server_of(
    bind_host: str = "127.0.0.1",
    advertised_host: str | None = None,
    ports: Iterable[int] = (0,),
    *,
    tls: TlsConfig | None = None,
    option: str = PORT_OPTION,
) -> ServerLease:
    """Return a share in this process's control server for these arguments, which are those of `ControlServer`.

    It is made when the first one asks for it.

    Raises
    ------
    OSError
        If it cannot listen, or a file of `tls` cannot be read.
    ValueError
        If `ports` are none, or a file of `tls` does not hold what it should.
    """
    ports = tuple(ports)
    key = (os.getpid(), bind_host, advertised_host, ports, tls)  # a forked child has no thread that serves
    with _lock:
        shared = _shared.get(key)
        if shared is None:
            shared = _shared[key] = _Shared(ControlServer(bind_host, advertised_host, ports, tls=tls, option=option))
        shared.leases += 1
        return ServerLease(key, shared.server)
