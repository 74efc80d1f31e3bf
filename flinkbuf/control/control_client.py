"""A worker's end of the control plane: one connection to the driver, for one thread that waits and others that send."""

from __future__ import annotations

import contextlib
import secrets
import select
import socket
import ssl
import threading
import time
from collections import deque

from flinkbuf.config import TlsConfig
from flinkbuf.control import tcp_health
from flinkbuf.control.secure_link import NONCE_SIZE, ClientLink
from flinkbuf.control.tls_layer import TlsLayer
from flinkbuf.errors import RemoteTransportError
from flinkbuf.network.tls_context import make_context

CONNECT_TIMEOUT_S = 5.0  # then the driver counts as out of reach
RETRY_PAUSE_S = 0.05  # after a connection that was reset before anything was proved
_CHUNK = 256 * 1024  # bytes of one read
_NOT_PROVED = "it was closed before both ends had proved themselves: the driver has another secret, or is another one"


def _address_text(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class ControlClient:
    """A connection to the driver that has proved itself; `ControlClient.connect` makes one.

    One thread calls `receive`; all else may be called by any.

    Attributes
    ----------
    peer : tuple of (str, int)
        The driver's address, as it was given.
    local_host : str
        The address of this host as the driver sees it: where to listen for others.
    """

    def __init__(self, connection: socket.socket, link: ClientLink, tls: TlsLayer | None, peer: tuple[str, int]):
        connection.setblocking(False)
        self.peer = peer
        self.local_host: str = connection.getsockname()[0]
        self._socket = connection
        self._link = link
        self._tls = tls
        self._lock = threading.Lock()  # of what is sent, and of `_tls`
        self._unsent = bytearray()
        self._inbox: deque[bytes] = deque()
        self._failure: str | None = None
        self._is_closed = False
        self._is_reset = False
        self._is_woken = False
        self._pulse_s = 0.0  # when the driver's pulse was felt last
        self._bell, self._ringer = socket.socketpair()
        self._bell.setblocking(False)
        self._ringer.setblocking(False)
        self._poll = select.poll()
        self._poll.register(self._bell, select.POLLIN)
        self._poll.register(self._socket, select.POLLIN)

    @classmethod
    def connect(
        cls,
        address: tuple[str, int],
        group_id: str,
        secret: bytes,
        *,
        tls: TlsConfig | None = None,
        timeout_s: float = CONNECT_TIMEOUT_S,
        hint: str = "",
    ) -> ControlClient:
        """Connect to the driver and prove to each other that both know the secret of this group.

        Parameters
        ----------
        address : tuple of (str, int)
            Of the driver's `ControlServer`.
        group_id : str
        secret : bytes
            What the server's `secret_of` gave.
        tls : TlsConfig, optional
            Where the driver has one.
        timeout_s : float
            For all of it.
        hint : str, optional
            A sentence on what to set if the driver is out of reach.

        Raises
        ------
        RemoteTransportError
            If the driver cannot be reached: the message says which host and port have to be open. Or if what is
            reached is not the driver of this group.
        OSError, ValueError
            If a file of `tls` cannot be read, or does not hold what it should.
        """
        deadline = time.monotonic() + timeout_s
        context = make_context(tls, is_server=False) if tls is not None else None
        where = _address_text(*address)
        while True:
            link = ClientLink(group_id, secret, secrets.token_bytes(NONCE_SIZE))
            client = cls._reach(address, link, context, deadline, hint)
            try:
                client._greet(deadline, timeout_s)
                return client
            except BaseException as error:
                client.close(0)
                if not isinstance(error, RemoteTransportError):
                    raise
                # So a driver does away with the oldest of too many strangers, which may have been this one.
                if not client._is_reset or time.monotonic() + RETRY_PAUSE_S >= deadline:
                    raise RemoteTransportError(f"the connection to the driver at {where}: {error}") from None
            time.sleep(RETRY_PAUSE_S)

    @classmethod
    def _reach(
        cls, address: tuple[str, int], link: ClientLink, context: ssl.SSLContext | None, deadline: float, hint: str
    ) -> ControlClient:
        """Return a connection that has proved nothing yet."""
        connection: socket.socket | None = None
        while connection is None:
            try:
                connection = socket.create_connection(address, max(0.001, deadline - time.monotonic()))
            except OSError as error:
                if not isinstance(error, ConnectionResetError) or time.monotonic() + RETRY_PAUSE_S >= deadline:
                    raise RemoteTransportError(_out_of_reach(address, error, hint)) from None
                time.sleep(RETRY_PAUSE_S)
        try:
            tcp_health.prepare(connection)
            return cls(connection, link, TlsLayer(context, is_server=False) if context else None, address)
        except BaseException:
            connection.close()
            raise

    def send(self, payload: bytes) -> None:
        """Send a payload behind those that were sent before. Does not wait: what finds no room now goes out while
        `receive` or `flush` waits.

        Raises
        ------
        RemoteTransportError
            If the connection has ended.
        MessageTooLargeError
            If it is longer than a message may be.
        """
        with self._lock:
            self._check()
            self._put(self._link.frame(payload))
            has_room = self._push()
        if not has_room:
            self._ring()  # for `receive` to look for room, too

    def receive(self, timeout_s: float | None = None) -> bytes | None:
        """Wait for a payload; None if the time is over, or somebody has called `wake`.

        Raises
        ------
        RemoteTransportError
            If the connection has ended, after everything was returned that had come before.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        is_over = False
        while True:
            if self._inbox:
                return self._inbox.popleft()
            if self._is_woken:
                self._is_woken = False
                return None
            with self._lock:
                self._check()
            if is_over:
                return None
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            is_over = left == 0
            self._wait(left)

    def wake(self) -> None:
        """Have the `receive` that waits now, or the next one, return None."""
        self._is_woken = True
        self._ring()

    def flush(self, timeout_s: float) -> bool:
        """Wait until the kernel has taken everything that was sent; False if it has not by then."""
        deadline = time.monotonic() + timeout_s
        poll = select.poll()
        with self._lock:
            if self._is_closed:
                return not self._unsent
            poll.register(self._socket, select.POLLOUT)
        while True:
            with self._lock:
                if self._failure is not None or self._is_closed or self._push():
                    return not self._unsent
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            poll.poll(min(left, 0.1) * 1000)

    def fileno(self) -> int:
        """The socket, for who waits for several things: readable when `receive` may have something."""
        return self._socket.fileno()

    def close(self, timeout_s: float = 1.0) -> None:
        """End the connection, once everything has left or the time is over. Idempotent."""
        self.flush(timeout_s)
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)  # a child that was forked meanwhile holds the descriptor, too
            self._socket.close()
            self._ringer.close()
            self._bell.close()

    # ---- inside; all but `_greet` and `_wait` with the lock

    def _greet(self, deadline: float, timeout_s: float) -> None:
        with self._lock:
            self._put(self._link.take_output())
            self._push()
        while not self._link.is_open:
            left = deadline - time.monotonic()
            if left <= 0:
                raise RemoteTransportError(
                    f"it was accepted, but nothing came within {timeout_s:g} s that proves it to be the driver: "
                    "either the driver is too busy, or something else listens there"
                )
            self._wait(left)
            with self._lock:
                self._check()

    def _wait(self, timeout_s: float | None) -> None:
        """Wait until something can be read, or sent if something waits for that; do it."""
        events = select.POLLIN | (select.POLLOUT if self._unsent else 0)
        if tcp_health.has_unanswered(self._socket):
            timeout_s = tcp_health.PULSE_S if timeout_s is None else min(timeout_s, tcp_health.PULSE_S)
            self._feel_pulse()
        try:
            self._poll.modify(self._socket, events)
            ready = dict(self._poll.poll(None if timeout_s is None else timeout_s * 1000))
        except (OSError, ValueError):  # closed by another thread
            return
        with self._lock:
            if self._is_closed:
                return
            if self._bell.fileno() in ready:
                with contextlib.suppress(BlockingIOError):
                    self._bell.recv(4096)
            happened = ready.get(self._socket.fileno(), 0)
            if happened & select.POLLOUT:
                self._push()
            if happened & ~select.POLLOUT:
                self._read()

    def _read(self) -> None:
        try:
            data = self._socket.recv(_CHUNK)
            if not data:
                raise RemoteTransportError("the driver closed the connection" if self._link.is_open else _NOT_PROVED)
            if self._tls is not None:
                data = self._tls.receive(data)
            self._inbox.extend(self._link.receive(data))
            self._put(self._link.take_output())
            self._push()
        except BlockingIOError:
            return
        except OSError as error:
            self._fail(error)
            if self._tls is not None:
                self._put(b"")  # the other end is told what was wrong
                self._push()

    def _put(self, data: bytes) -> None:
        if self._tls is not None:
            self._tls.send(data)
            data = self._tls.take_output()
        self._unsent += data

    def _push(self) -> bool:
        """Give the kernel what it takes now; whether that is all."""
        try:
            while self._unsent:
                with memoryview(self._unsent) as view:
                    sent = self._socket.send(view)
                del self._unsent[:sent]
        except BlockingIOError:
            return False
        except OSError as error:
            is_reset = isinstance(error, (BrokenPipeError, ConnectionResetError))
            self._is_reset |= is_reset
            if self._failure is None and not is_reset:
                self._fail(error)
            self._unsent.clear()  # what the driver has said before it went is still to be read
        return True

    def _fail(self, error: OSError) -> None:
        if self._failure is None:
            is_ours = isinstance(error, RemoteTransportError)
            self._is_reset |= isinstance(error, ConnectionResetError)
            self._failure = str(error) if is_ours else f"the connection to the driver broke: {error.strerror or error}"

    def _check(self) -> None:
        if self._is_closed:
            raise RemoteTransportError("the connection to the driver is closed")
        if self._failure is not None:
            raise RemoteTransportError(self._failure)

    def _feel_pulse(self) -> None:
        now_s = time.monotonic()
        if now_s - self._pulse_s < tcp_health.PULSE_S:
            return
        self._pulse_s = now_s
        if tcp_health.is_silent(self._socket):
            with self._lock:
                self._fail(RemoteTransportError("the driver's machine does not answer any more"))

    def _ring(self) -> None:
        with contextlib.suppress(OSError):  # it rings already, or is closed
            self._ringer.send(b"!")


def _out_of_reach(address: tuple[str, int], error: OSError, hint: str) -> str:
    host, port = address
    what = "no answer" if isinstance(error, TimeoutError) else error.strerror or str(error)
    text = (
        f"{socket.gethostname()} cannot reach the driver at {_address_text(host, port)}: {what}. Workers connect to "
        f"the driver: open TCP port {port} of {host} for them, or have the driver tell them an address they can reach"
    )
    return f"{text}. {hint}" if hint else text
