"""Who is connected: so many at a time, so many of one peer, and none for longer than it asks and reads without delay.

aiohttp answers whoever asks, but waits for a request, and for an answer to be read, for as long as a client likes. Here
a request has to be whole within a time, nobody keeps others out by being many, and who does not move is hung up on. A
peer is a user of this machine, where the system says which one it is, else an address. Flink: the idle timeouts of
RestServerEndpoint's Netty pipeline.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from flinkbuf.web.peers import is_loopback, user_of


@dataclass(frozen=True)
class ConnectionLimits:
    """What connections may take.

    Attributes
    ----------
    most : int
        At a time. One more: the peer with the most of them loses the one that has been quiet for longest.
    most_of_peer : int
        Of one peer, likewise.
    silence_s : float
        Without a byte in either direction: that is the end of a connection, within twice this time.
    request_s : float
        From the beginning of a connection, or from the first byte of a request, to the end of its headers.
    unanswered_bytes : int
        That come while a request is being answered.
    """

    most: int
    most_of_peer: int
    silence_s: float
    request_s: float
    unanswered_bytes: int = 1 << 20


class Connections:
    """The connections of one server. Called without arguments it is what `loop.create_server` wants.

    Parameters
    ----------
    make : callable
        Makes the protocol that answers one connection.
    limits : ConnectionLimits

    Notes
    -----
    Threads: that of the event loop.
    """

    def __init__(self, make: Callable[[], asyncio.Protocol], limits: ConnectionLimits) -> None:
        self._make = make
        self.limits = limits
        self.open: dict[object, HttpConnection] = {}  # by transport

    def __call__(self) -> asyncio.Protocol:
        """Return the protocol of one that comes."""
        return HttpConnection(self)

    def of(self, transport: object) -> HttpConnection | None:
        """Return the one that has this transport; None: it is gone."""
        return self.open.get(transport)

    def enter(self, connection: HttpConnection) -> asyncio.Protocol:
        """Return what answers one that is there now; another one goes if there are too many."""
        peers = Counter(each.peer for each in self.open.values())
        if peers[connection.peer] >= self.limits.most_of_peer:
            self._end_quietest(connection.peer)
        elif len(self.open) >= self.limits.most:
            most = max(peers.values())
            self._end_quietest(*(peer for peer, count in peers.items() if count == most))
        self.open[connection.transport] = connection
        return self._make()

    def _end_quietest(self, *peers: object) -> None:
        """One that is being answered goes only if all are."""
        found = [each for each in self.open.values() if each.peer in peers]
        victim = min(found, key=lambda each: (each.is_answered_now, each.moved_at))
        del self.open[victim.transport]
        victim.abort()

    @property
    def unsent_bytes(self) -> int:
        """What waits for clients to read it."""
        return sum(each.unsent_bytes for each in self.open.values())

    def abort(self) -> None:
        """Hang up on all, whatever they have not read yet."""
        for each in list(self.open.values()):
            each.abort()


class HttpConnection(asyncio.Protocol):
    """Hands everything on to the protocol that answers, and looks now and then whether anything moves.

    Attributes
    ----------
    transport : asyncio.Transport
    user : int or None
        Whose socket of this machine is at the other end; None: it is not known.
    peer : object
        Who shares a limit with whom.
    moved_at : float
        When a byte came last, by the loop's clock.
    is_answered_now : bool
    """

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._loop = asyncio.get_running_loop()
        self._received = 0
        self._received_before = 0  # by the time at which the request that is being answered was whole
        self._deadline: asyncio.TimerHandle | None = None
        self.is_answered_now = False
        self.moved_at = self._loop.time()

    @property
    def unsent_bytes(self) -> int:
        return self.transport.get_write_buffer_size()

    def abort(self) -> None:
        self.transport.abort()

    # ---- what the server says

    def begin(self) -> None:
        """A request is there: headers are whole, and its answer is being made."""
        self._stop_deadline()
        self.is_answered_now = True
        self._received_before = self._received

    def end(self) -> None:
        """The answer is made; what came meanwhile is the beginning of another request."""
        self.is_answered_now = False
        if self._received > self._received_before:
            self._start_deadline()

    # ---- what asyncio says

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        client, server = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
        is_here = bool(client) and is_loopback(client[0])
        self.user = user_of(client, server) if is_here else None
        self.peer: object = ("user", self.user) if self.user is not None else client and client[0]
        self._answering = self._connections.enter(self)
        self._start_deadline()
        self._look_later((-1, 0))
        self._answering.connection_made(transport)

    def connection_lost(self, error: Exception | None) -> None:
        self._connections.open.pop(self.transport, None)
        self._timer.cancel()
        self._stop_deadline()
        self._answering.connection_lost(error)

    def data_received(self, data: bytes) -> None:
        self._received += len(data)
        self.moved_at = self._loop.time()
        if not self.is_answered_now:
            self._start_deadline()
        elif self._received - self._received_before > self._connections.limits.unanswered_bytes:
            self.abort()
            return
        self._answering.data_received(data)

    def eof_received(self) -> bool | None:
        return self._answering.eof_received()

    def pause_writing(self) -> None:
        self._answering.pause_writing()

    def resume_writing(self) -> None:
        self._answering.resume_writing()

    # ---- times

    def _start_deadline(self) -> None:
        """From the first byte on, not from the last."""
        if self._deadline is None:
            self._deadline = self._loop.call_later(self._connections.limits.request_s, self.abort)

    def _stop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _look_later(self, seen: tuple[int, int]) -> None:
        self._timer = self._loop.call_later(self._connections.limits.silence_s, self._look, seen)

    def _look(self, before: tuple[int, int]) -> None:
        now = (self._received, self.unsent_bytes)
        if now == before:
            self.abort()
        else:
            self._look_later(now)
