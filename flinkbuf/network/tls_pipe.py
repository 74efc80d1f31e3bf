"""One connection over TLS: the peer's socket, the I/O thread's end of a local pair, and what is on its way between."""

from __future__ import annotations

import errno
import os
import selectors
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

from flinkbuf._core.io.dialer import Carrier
from flinkbuf._core.io.reactor import Reactor
from flinkbuf._core.wire.partition_server import PartitionServer
from flinkbuf.network.tls_context import NOT_TLS, reason_of

CHUNK = 256 * 1024  # bytes of one read
LINGER_S = 5.0  # for a peer to end its side after ours ended, or to read why it was refused
_LEAVING_BYTES = 64 * 1024  # of a peer that was refused, dropped while it reads why
_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
_ALERT = b"\x15\x03\x03\x00\x02\x02\x46"  # fatal: protocol version


class HasFileno(Protocol):
    """What a selector can wait for."""

    def fileno(self) -> int: ...


class PipeHost(Protocol):
    """Who runs the pipes, on one thread."""

    reactor: Reactor
    server: PartitionServer
    server_context: ssl.SSLContext
    client_context: ssl.SSLContext
    handshake_timeout_ms: int
    buffer: memoryview  # CHUNK bytes, for whoever has its turn

    def watch(self, source: HasFileno | None, events: int, callback: Callable[[int], None]) -> None:
        """Call back when one of `events` is possible, until told otherwise; 0: not any more."""

    def expire_in(self, pipe: TlsPipe | None, seconds: float) -> None:
        """Call ``pipe.expire()`` then, in place of what was set before."""

    def end_waiting(self, pipe: TlsPipe) -> None:
        """Its handshake is done."""

    def move_to_leaving(self, pipe: TlsPipe) -> None:
        """It was refused."""

    def forget(self, pipe: TlsPipe) -> None:
        """It is closed."""


def address_text(address: tuple[Any, ...]) -> str:
    host, port = address[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def end_socket(ended: socket.socket) -> None:
    """Close it for whoever is on the other side, too: a child that was forked meanwhile has the descriptor as well."""
    with suppress(OSError):  # it was not connected, or is no more
        ended.shutdown(socket.SHUT_RDWR)
    ended.close()


class TlsPipe:
    """One connection: the peer's socket, the I/O thread's, and what is on its way between them.

    Its life: it connects (a client's), shakes hands, carries, and ends when both directions have ended; or it fails,
    and leaves when the peer has read why.
    """

    def __init__(self, host: PipeHost, outer: socket.socket, address: tuple[Any, ...], carrier: Carrier) -> None:
        self.host, self.outer, self.carrier = host, outer, carrier
        self.address, self.peer = address, address_text(address)
        self.inner: socket.socket | None = None
        self.is_server = False
        self.is_connecting = False
        self.is_open = False  # the handshake is done
        self.is_leaving = False
        self.is_closed = False
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls: ssl.SSLObject | None = None
        self.to_outer = memoryview(b"")
        self.to_inner = memoryview(b"")
        self.inner_has_ended = False  # what the I/O thread had to say is said
        self.outer_has_ended = False
        self.has_said_bye = False  # close_notify
        self.outer_is_shut = self.inner_is_shut = False
        self.inner_is_gone = False  # the I/O thread does not listen any more
        self.dropped = 0

    # ---- the handshake -----------------------------------------------------------------------------------------------

    def accept(self) -> None:
        self.is_server = True
        self.host.reactor.set_tcp_patience(self.outer.fileno())
        self.tls = self.host.server_context.wrap_bio(self.incoming, self.outgoing, server_side=True)
        self.watch()

    def connect(self, inner: socket.socket) -> None:
        self.inner = inner
        self.is_connecting = True
        error = self.outer.connect_ex(self.address)
        if error not in (0, errno.EINPROGRESS):
            self.fail(f"connecting failed: {os.strerror(error)}", is_refusal=False)
        else:
            self.watch()

    def finish_connecting(self) -> None:
        error = self.outer.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            self.fail(f"connecting failed: {os.strerror(error)}", is_refusal=False)
            return
        self.is_connecting = False
        self.host.reactor.set_tcp_patience(self.outer.fileno())
        self.tls = self.host.client_context.wrap_bio(self.incoming, self.outgoing)
        self.host.expire_in(self, self.host.handshake_timeout_ms / 1000)
        self.pump()

    def shake_hands(self) -> None:
        assert self.tls is not None
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            return
        self.is_open = True
        self.host.end_waiting(self)
        if not self.is_server:
            assert self.inner is not None
            self.inner.send(b"\0")  # it stands
            return
        self.inner, other = socket.socketpair()
        self.inner.setblocking(False)
        other.setblocking(False)
        self.host.server.adopt(other.detach(), self.address[0], self.address[1], self.carrier)

    # ---- bytes -------------------------------------------------------------------------------------------------------

    def on_outer(self, events: int) -> None:
        if self.is_connecting:
            self.finish_connecting()
            return
        if events & _READ:
            self.read_outer()
        if self.is_leaving:
            self.leave()
        elif not self.is_closed:
            self.pump()

    def on_inner(self, events: int) -> None:
        if self.is_connecting or not self.is_open:
            # Nothing is said before the connection stands: this is its end.
            self.fail("the connection was closed on this side", is_refusal=False)
        else:
            self.pump(reads_inner=bool(events & _READ))

    def read_outer(self) -> None:
        buffer = self.host.buffer
        try:
            size = self.outer.recv_into(buffer)
        except BlockingIOError:
            return
        except OSError as error:
            self.fail(f"reading failed: {error.strerror}", is_refusal=False)
            return
        if self.is_leaving:
            self.dropped += size
            self.outer_has_ended = size == 0
        elif size == 0:
            self.incoming.write_eof()
        else:
            self.incoming.write(buffer[:size])

    def pump(self, reads_inner: bool = False) -> None:
        """Move what can be moved, and end what has ended."""
        try:
            if not self.is_open:
                self.shake_hands()
            if self.is_open:
                self.decrypt()
                if reads_inner:
                    self.encrypt()
                self.say_bye()
        except ssl.SSLError as error:
            is_cut = isinstance(error, ssl.SSLEOFError) and self.is_open  # a peer that died: no refusal
            self.fail("the peer closed it" if is_cut else reason_of(error), is_refusal=not is_cut)
            return
        if not self.flush_outer():
            return
        if self.inner_has_ended and self.outer_has_ended and not self.to_inner and not self.to_outer:
            self.close()
        else:
            self.watch()

    def encrypt(self) -> None:
        """Take what the I/O thread says, once what it said before has left."""
        assert self.inner is not None and self.tls is not None
        buffer = self.host.buffer
        if self.to_outer or self.inner_has_ended:
            return
        try:
            size = self.inner.recv_into(buffer)
        except BlockingIOError:
            return
        except OSError:
            size = 0
        if size == 0:
            self.inner_has_ended = True
            return
        done = 0
        while done < size:
            done += self.tls.write(buffer[done:size])

    def decrypt(self) -> None:
        """Give the I/O thread what has arrived, once it has taken what arrived before."""
        assert self.tls is not None
        buffer = self.host.buffer
        while self.flush_inner() and not self.outer_has_ended:
            size = 0
            try:
                while size < CHUNK:
                    got: Any = self.tls.read(CHUNK - size, buffer[size:])  # a record at a time
                    if got == 0:
                        self.outer_has_ended = True
                        break
                    size += got
            except ssl.SSLWantReadError:
                if size == 0:
                    return
            except ssl.SSLZeroReturnError:
                self.outer_has_ended = True
            if size:
                self.put_inner(buffer[:size])

    def put_inner(self, data: memoryview) -> None:
        assert self.inner is not None
        try:
            sent = self.inner.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            self.inner_is_gone = True
            return
        if sent < len(data):
            self.to_inner = memoryview(bytes(data[sent:]))

    def flush_inner(self) -> bool:
        """Whether nothing waits for the I/O thread."""
        assert self.inner is not None
        if self.to_inner and not self.inner_is_gone:
            data, self.to_inner = self.to_inner, memoryview(b"")
            self.put_inner(data)
        if self.inner_is_gone:
            self.to_inner = memoryview(b"")
        if self.to_inner:
            return False
        if self.outer_has_ended and not self.inner_is_shut:
            self.inner_is_shut = True
            try:
                self.inner.shutdown(socket.SHUT_WR)
            except OSError:
                self.inner_is_gone = True
        return True

    def say_bye(self) -> None:
        """End our direction after its last byte. Nothing that has arrived may lie undecrypted then: OpenSSL takes data
        after its own goodbye for an offence while it looks for the peer's."""
        assert self.tls is not None
        if not self.inner_has_ended or self.has_said_bye or self.to_inner:
            return
        self.has_said_bye = True
        self.host.expire_in(self, LINGER_S)
        with suppress(ssl.SSLError):  # it has been said; the peer's own comes when it comes
            self.tls.unwrap()

    def flush_outer(self) -> bool:
        """Send what is encrypted, as far as the socket takes it. False: that failed."""
        while True:
            if not self.to_outer:
                self.to_outer = memoryview(self.outgoing.read())
            if not self.to_outer:
                break
            try:
                sent = self.outer.send(self.to_outer)
            except BlockingIOError:
                return True
            except OSError as error:
                self.fail(f"writing failed: {error.strerror}", is_refusal=False)
                return False
            self.to_outer = self.to_outer[sent:]
        if self.has_said_bye and not self.outer_is_shut:
            self.outer_is_shut = True
            with suppress(OSError):
                self.outer.shutdown(socket.SHUT_WR)
        return True

    def watch(self) -> None:
        """Wait for what can be done next: no more is read than the other side takes."""
        if self.is_connecting:
            self.host.watch(self.outer, _WRITE, self.on_outer)
            self.host.watch(self.inner, _READ, self.on_inner)
            return
        outer = 0 if self.outer_has_ended or self.to_inner else _READ
        self.host.watch(self.outer, outer | (_WRITE if self.to_outer else 0), self.on_outer)
        if self.inner is not None:
            inner = 0 if self.inner_has_ended or self.to_outer else _READ
            self.host.watch(self.inner, inner | (_WRITE if self.to_inner else 0), self.on_inner)

    # ---- ends --------------------------------------------------------------------------------------------------------

    def expire(self) -> None:
        if self.is_leaving or self.has_said_bye:
            self.close()
        elif self.is_connecting:
            self.fail("connecting took too long", is_refusal=False)
        else:
            limit = self.host.handshake_timeout_ms
            self.fail(f"TLS: the peer did not finish the handshake within {limit} ms", is_refusal=True)

    def fail(self, reason: str, is_refusal: bool) -> None:
        """Tell the I/O thread why, and the peer what TLS says of it."""
        self.carrier.fail(reason, is_refusal)
        if self.is_server and not self.is_open:
            self.host.server.note_refusal(f"connection with {self.peer}: {reason}")
        self.close_inner()
        if not is_refusal:
            self.close()
            return
        try:
            last_words = b"".join([self.to_outer, self.outgoing.read()])
            if not last_words and NOT_TLS in reason:
                last_words = _ALERT  # OpenSSL says nothing to strangers; flinkbuf knows an alert when it sees one
            self.outer.send(last_words)
            self.outer.shutdown(socket.SHUT_WR)
        except OSError:
            self.close()
            return
        # A socket that is closed over unread bytes takes back what it said last.
        self.is_leaving = True
        self.host.move_to_leaving(self)
        self.host.watch(self.outer, _READ, self.on_outer)

    def leave(self) -> None:
        if self.outer_has_ended or self.dropped > _LEAVING_BYTES:
            self.close()

    def close_inner(self) -> None:
        if self.inner is not None:
            self.host.watch(self.inner, 0, self.on_inner)
            self.inner.close()

    def close(self) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        self.close_inner()
        self.host.watch(self.outer, 0, self.on_outer)
        end_socket(self.outer)
        self.host.forget(self)
