"""One worker's connection as the control server has it, from the first byte to the last."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import ssl
from collections import deque
from collections.abc import Callable
from typing import Protocol

from flinkbuf.control import tcp_health
from flinkbuf.control.secure_link import MESSAGE_LIMIT, NONCE_SIZE, MessageTooLargeError, ServerLink
from flinkbuf.control.tls_layer import TlsLayer
from flinkbuf.errors import RemoteTransportError
from flinkbuf.log import logger


class ControlHandler(Protocol):
    """What a group does about its connections; called on the server's thread, where nothing may wait."""

    def connected(self, connection: Connection) -> None:
        """A member of the group has come and proved itself."""

    def received(self, connection: Connection, payload: bytes) -> None:
        """It says something."""

    def disconnected(self, connection: Connection, reason: str) -> None:
        """It is gone; told once for each that was connected, unless the group was closed."""


class Group:
    """The connections whose messages one handler is given, while the group is open."""

    def __init__(self, group_id: str, handler: ControlHandler) -> None:
        self.id = group_id
        self.handler = handler
        self.connections: set[Connection] = set()
        self.is_closed = False


class ConnectionHost(Protocol):
    """The server, as its connections see it."""

    tls_context: ssl.SSLContext | None

    @property
    def refused(self) -> Callable[..., object]:
        """Return what says that a connection is refused, unless it was just said of another one."""

    def secret_of(self, group_id: str) -> bytes:
        """Return what only the members of a group know."""

    def group_of(self, group_id: str) -> Group | None:
        """Return the group of a client that has proved itself; None if nobody waits for it."""

    def greeted(self, connection: Connection) -> None:
        """It has proved itself."""

    def forget(self, connection: Connection) -> None:
        """It is gone."""

    def call_soon(self, callback: Callable[..., object], *arguments: object) -> None:
        """Call on the server's thread."""


class Connection(asyncio.Protocol):
    """One worker's connection. `send` and `close` may be called by any thread.

    Attributes
    ----------
    number : int
        No other connection of the server has it.
    group_id : str
    peer_host : str
        The address it comes from.
    """

    def __init__(self, host: ConnectionHost, number: int) -> None:
        self.number = number
        self.group_id = ""
        self.peer_host = "?"
        self._host = host
        self._link = ServerLink(secrets.token_bytes(NONCE_SIZE), host.secret_of, self._admit)
        self._tls = TlsLayer(host.tls_context, is_server=True) if host.tls_context else None
        self._transport: asyncio.Transport | None = None
        self._group: Group | None = None
        self._reason = ""  # why it ends; while that is empty it does not
        self._outbox: deque[bytes] = deque()
        self._will_flush = False  # the thread has been asked to send what is in the outbox

    def __repr__(self) -> str:
        return f"<control connection {self.number} of {self.group_id or 'nobody yet'} from {self.peer_host}>"

    @property
    def is_over(self) -> bool:
        """Whether nothing is sent or heard any more."""
        return bool(self._reason)

    def send(self, payload: bytes) -> None:
        """Send a payload behind those that were sent before; dropped if the connection has ended.

        Raises
        ------
        MessageTooLargeError
            If it is longer than a message may be.
        """
        if len(payload) > MESSAGE_LIMIT:
            raise MessageTooLargeError(len(payload))
        self._outbox.append(payload)
        if not self._will_flush:
            self._will_flush = True
            self._host.call_soon(self._flush)

    def close(self) -> None:
        """End the connection once everything has left that was sent before."""
        self._host.call_soon(self.end, "the driver closed it")

    # ---- on the server's thread: what asyncio says

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if self._reason:  # it was one too many already when asyncio made it
            transport.abort()
            return
        self.peer_host = (transport.get_extra_info("peername") or ("?",))[0]
        with contextlib.suppress(OSError):  # it is gone already
            tcp_health.prepare(transport.get_extra_info("socket"))
        self._write(self._link.take_output())

    def data_received(self, data: bytes) -> None:
        if self._reason:
            return
        try:
            if self._tls is not None:
                data = self._tls.receive(data)
            payloads = self._link.receive(data)
        except RemoteTransportError as error:
            self._host.refused("a control connection from %s is refused: %s", self.peer_host, error)
            self._write(self._link.take_output())  # an answer that says so
            self.end(str(error))
            return
        self._write(self._link.take_output())
        if self._group is not None and not self.group_id:
            self._join(self._group)
        for payload in payloads:
            self._tell(payload)

    def eof_received(self) -> None:
        self._reason = self._reason or "it went away without a word"

    def connection_lost(self, error: Exception | None) -> None:
        self._reason = self._reason or f"it was lost: {error or 'closed'}"
        self._host.forget(self)
        group = self._group
        if group is not None:
            group.connections.discard(self)
            if self.group_id and not group.is_closed:
                self._call(group.handler.disconnected, self._reason)
        self._group = None
        self._outbox.clear()

    # ---- on the server's thread: what the server says

    def end(self, reason: str) -> None:
        """Say no more, hear no more, and end once everything has left that was sent before."""
        self._flush()
        self._reason = self._reason or reason
        if self._transport is not None and not self._transport.is_closing():
            with contextlib.suppress(OSError, RuntimeError):
                self._transport.write_eof()  # a child that was forked meanwhile holds the descriptor, too
            self._transport.close()

    def abort(self, reason: str) -> None:
        """End the connection now."""
        self._reason = self._reason or reason
        if self._transport is not None:
            self._transport.abort()

    def feel_pulse(self) -> None:
        """End the connection if the other machine does not answer any more."""
        if self._transport is not None and tcp_health.is_silent(self._transport.get_extra_info("socket")):
            self.abort("its machine does not answer any more")

    # ---- inside

    def _admit(self, group_id: str) -> bool:
        self._group = self._host.group_of(group_id)
        return self._group is not None

    def _join(self, group: Group) -> None:
        self.group_id = group.id
        self._host.greeted(self)
        group.connections.add(self)
        self._call(group.handler.connected)
        self._flush()  # what was sent before the thread came here

    def _tell(self, payload: bytes) -> None:
        group = self._group
        if group is not None and not group.is_closed and not self._reason:
            self._call(group.handler.received, payload)

    def _call(self, told: Callable[..., None], *arguments: object) -> None:
        """Tell the handler; if that fails, this connection ends and no other does."""
        try:
            told(self, *arguments)
        except Exception:
            logger.exception("%r ends: what it said could not be handled", self)
            self.end("the driver failed to handle what it said")

    def _flush(self) -> None:
        self._will_flush = False  # before the look at the outbox: who appends from now on asks again
        while self._outbox:
            payload = self._outbox.popleft()
            if not self._reason and self._link.is_open:
                self._write(self._link.frame(payload))

    def _write(self, data: bytes) -> None:
        if self._tls is not None:
            self._tls.send(data)
            data = self._tls.take_output()
        if data and self._transport is not None:
            self._transport.write(data)
