"""TLS below the wire: one Python thread that encrypts what the I/O thread says, and decrypts what it hears.

The I/O thread owns plain sockets only. With ``NetworkConfig(tls=...)`` each of its connections is one end of a local
pair of sockets; the tunnel has the other end and the connection to the peer, and carries the bytes between them with
the standard library's `ssl`. It listens where others dial, dials where the I/O thread asks for it, and is done with
a handshake on both sides, each of which shows a certificate, before a byte passes.

What it costs: encryption, a copy more into and out of the kernel on each side, and a Python thread that needs the
interpreter lock for a moment of every 16 KiB. Two processes on one machine of 2 cores (``bench/bench_tls_tunnel.py``):
buffers of 32 KiB travel at 0.47 GB/s instead of 2.7 (ssl's own sockets: 0.91), and a record that is flushed arrives
after 124 microseconds instead of 32. Beside tasks that spend 2 to 10 microseconds of Python on each record, which hold
the lock meanwhile, it cost 5 to 15 % of their time.
"""

from __future__ import annotations

import heapq
import itertools
import os
import selectors
import socket
import threading
import time
import weakref
from collections.abc import Callable

from flinkbuf._core.io.dialer import Carrier, Dialer
from flinkbuf._core.io.reactor import Reactor
from flinkbuf._core.wire.partition_server import PartitionServer
from flinkbuf.config import TlsConfig
from flinkbuf.network.tls_context import make_context
from flinkbuf.network.tls_pipe import CHUNK, LINGER_S, HasFileno, TlsPipe, end_socket

HANDSHAKE_TIMEOUT_MS = 10_000
MAX_UNPROVEN = 1024  # connections that were accepted and whose handshake is not done
_LAST_WORDS_S = 1.0  # for what was said last to leave when everything closes
_PAUSE_S = 0.1  # of accepting, when descriptors ran out
_READ = selectors.EVENT_READ


def _set_options(outer: socket.socket) -> None:
    outer.setblocking(False)
    outer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


class _Loop:
    """What the thread runs. It knows nothing of the `TlsTunnel`, which ends it when nobody holds that any more."""

    def __init__(
        self,
        tls: TlsConfig,
        reactor: Reactor,
        server: PartitionServer,
        dialer: Dialer,
        listener: socket.socket,
        handshake_timeout_ms: int,
        max_unproven: int,
    ) -> None:
        self.server_context, self.client_context = make_context(tls, True), make_context(tls, False)
        self.reactor, self.server, self.dialer, self.listener = reactor, server, dialer, listener
        self.handshake_timeout_ms, self.max_unproven = handshake_timeout_ms, max_unproven
        self.buffer = memoryview(bytearray(CHUNK))
        self.selector = selectors.DefaultSelector()
        self.bell, self.ringer = socket.socketpair()
        self.lock = threading.Lock()  # the ringer's, which other threads use
        self.process_id = os.getpid()
        self.pipes: set[TlsPipe] = set()
        self.waiting: dict[TlsPipe, None] = {}  # accepted, the handshake is not done; in the order of coming
        self.leaving: dict[TlsPipe, None] = {}  # refused, they read why
        # Of each the last one counts: older numbers, and those of pipes that are gone, name nobody.
        self.deadlines: list[tuple[float, int]] = []
        self.deadline_of: dict[TlsPipe | None, int] = {}
        self.named_by: dict[int, TlsPipe | None] = {}
        self.numbers = itertools.count()
        self.wants_silence = self.wants_end = False
        self.is_silent = threading.Event()  # nobody is accepted any more

    # ---- for the pipes -----------------------------------------------------------------------------------------------

    def watch(self, source: HasFileno | None, events: int, callback: Callable[[int], None]) -> None:
        if source is None or source.fileno() < 0:
            return
        known = self.selector.get_map().get(source.fileno())
        if known is None and events:
            self.selector.register(source, events, callback)
        elif known is not None and not events:
            self.selector.unregister(source)
        elif known is not None and known.events != events:
            self.selector.modify(source, events, callback)

    def expire_in(self, pipe: TlsPipe | None, seconds: float) -> None:
        self.named_by.pop(self.deadline_of.get(pipe, -1), None)
        number = next(self.numbers)
        self.deadline_of[pipe], self.named_by[number] = number, pipe
        heapq.heappush(self.deadlines, (time.monotonic() + seconds, number))

    def end_waiting(self, pipe: TlsPipe) -> None:
        self.named_by.pop(self.deadline_of.pop(pipe, -1), None)
        self.waiting.pop(pipe, None)

    def move_to_leaving(self, pipe: TlsPipe) -> None:
        self.waiting.pop(pipe, None)
        self.leaving[pipe] = None
        self.expire_in(pipe, LINGER_S)
        if len(self.leaving) > self.max_unproven:
            next(iter(self.leaving)).close()

    def forget(self, pipe: TlsPipe) -> None:
        self.end_waiting(pipe)
        self.leaving.pop(pipe, None)
        self.pipes.discard(pipe)

    # ---- what happens ------------------------------------------------------------------------------------------------

    def on_bell(self, events: int) -> None:
        self.bell.recv(4096)
        if self.wants_silence and not self.is_silent.is_set():
            self.watch(self.listener, 0, self.on_listener)
            end_socket(self.listener)
            self.is_silent.set()

    def on_listener(self, events: int) -> None:
        for _ in range(16):
            try:
                outer, address = self.listener.accept()
            except BlockingIOError:
                return
            except ConnectionError:
                continue
            except OSError:  # out of descriptors: it would stay ready and turn the thread in circles
                self.watch(self.listener, 0, self.on_listener)
                self.expire_in(None, _PAUSE_S)
                return
            _set_options(outer)
            pipe = TlsPipe(self, outer, address, Carrier())
            self.pipes.add(pipe)
            self.waiting[pipe] = None
            self.expire_in(pipe, self.handshake_timeout_ms / 1000)
            pipe.accept()
            if len(self.waiting) > self.max_unproven:
                oldest = next(iter(self.waiting))
                oldest.fail("TLS: too many handshakes at a time; this one had waited longest", is_refusal=True)

    def on_call(self, events: int) -> None:
        os.read(self.dialer.fileno(), 4096)
        while call := self.dialer.take():
            fd, host, port, timeout_ms, carrier = call
            inner = socket.socket(fileno=fd)
            try:
                family, *_, address = socket.getaddrinfo(host, port, flags=socket.AI_NUMERICHOST)[0]
                outer = socket.socket(family, socket.SOCK_STREAM)
            except OSError as error:
                carrier.fail(f"connecting failed: {error.strerror}", is_refusal=False)
                inner.close()
                continue
            _set_options(outer)
            pipe = TlsPipe(self, outer, address, carrier)
            self.pipes.add(pipe)
            self.expire_in(pipe, timeout_ms / 1000)
            pipe.connect(inner)

    def expire(self) -> None:
        now = time.monotonic()
        while self.deadlines and self.deadlines[0][0] <= now:
            _, number = heapq.heappop(self.deadlines)
            if number not in self.named_by:
                continue
            pipe = self.named_by.pop(number)
            del self.deadline_of[pipe]
            if pipe is not None:
                pipe.expire()
            elif not self.wants_silence:
                self.watch(self.listener, _READ, self.on_listener)

    def run(self) -> None:
        end = float("inf")
        try:
            self.watch(self.bell, _READ, self.on_bell)
            self.watch(self.listener, _READ, self.on_listener)
            self.watch(self.dialer, _READ, self.on_call)
            while not self.wants_end or (len(self.pipes) > len(self.leaving) and time.monotonic() < end):
                if self.wants_end and end == float("inf"):
                    end = time.monotonic() + _LAST_WORDS_S
                self.turn(end)
        finally:
            self.close()

    def turn(self, end: float) -> None:
        until = min(end, self.deadlines[0][0] if self.deadlines else end)
        for key, events in self.selector.select(None if until == float("inf") else max(0.0, until - time.monotonic())):
            callback = key.data
            try:
                callback(events)
            except Exception as error:  # one connection's trouble is not the others'
                pipe = getattr(callback, "__self__", None)
                if not isinstance(pipe, TlsPipe):
                    raise
                pipe.carrier.fail(f"{type(error).__name__}: {error}", is_refusal=False)
                pipe.close()
        self.expire()

    def close(self) -> None:
        end_socket(self.listener)
        self.is_silent.set()
        for pipe in list(self.pipes):
            pipe.carrier.fail("the network environment was closed", is_refusal=False)
            pipe.close()
        while call := self.dialer.take():
            call[-1].fail("the network environment was closed", is_refusal=False)
            os.close(call[0])
        self.selector.close()
        with self.lock:
            self.bell.close()
            self.ringer.close()

    # ---- other threads -----------------------------------------------------------------------------------------------

    def ring(self) -> None:
        with self.lock:
            if self.ringer.fileno() >= 0:  # else it has ended
                self.ringer.send(b"\0")

    def stop(self) -> None:
        if self.process_id == os.getpid():
            self.wants_silence = self.wants_end = True
            self.ring()


class TlsTunnel:
    """Listens, dials and carries bytes over TLS for one process.

    Parameters
    ----------
    tls : TlsConfig
    reactor : Reactor
        The I/O thread; its patience with peers that vanished is the tunnel's, too.
    server : PartitionServer
        Gets those who dial in, after the handshake. It listens nowhere itself.
    dialer : Dialer
        Where the process's client asks for connections.
    listener : socket.socket
        Where others dial in; the tunnel closes it.
    handshake_timeout_ms : int, default 10000
        How long a peer may take for its handshake.
    max_unproven : int, default 1024
        How many that dialed in may be at it; one more, and the one that has waited longest is refused.

    Raises
    ------
    OSError
        If a file cannot be read.
    ValueError
        If a file does not hold what it should.

    Notes
    -----
    One thread, from the start to `close`. A forked child must not use it.
    """

    def __init__(
        self,
        tls: TlsConfig,
        reactor: Reactor,
        server: PartitionServer,
        dialer: Dialer,
        listener: socket.socket,
        *,
        handshake_timeout_ms: int = HANDSHAKE_TIMEOUT_MS,
        max_unproven: int = MAX_UNPROVEN,
    ) -> None:
        try:
            listener.setblocking(False)
            self._loop = loop = _Loop(tls, reactor, server, dialer, listener, handshake_timeout_ms, max_unproven)
        except BaseException:
            listener.close()
            raise
        self.port: int = listener.getsockname()[1]
        # A daemon: an environment that nobody closed must not keep the process from ending.
        self._thread = threading.Thread(target=loop.run, name="flinkbuf-tls", daemon=True)
        self._thread.start()
        weakref.finalize(self, loop.stop)

    def stop_accepting(self) -> None:
        """Stop listening. When it returns, the server is given nobody any more who was not on the way before."""
        self._loop.wants_silence = True
        self._loop.ring()
        self._loop.is_silent.wait()

    def close(self) -> None:
        """Let what was said last leave, for a second at most, and end the thread and all connections. Idempotent."""
        self._loop.stop()
        self._thread.join()
