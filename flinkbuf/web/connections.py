"""Who is connected: so many at a time, and none for longer than something comes or goes.

aiohttp answers whoever asks, but a client that does not read what it has asked for would keep its answer in memory, and
its connection, for as long as it likes. Flink: the idle timeouts of RestServerEndpoint's Netty pipeline.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast


class Connections:
    """Those of one server. Called without arguments it is what `loop.create_server` wants.

    Parameters
    ----------
    make : callable
        Makes the protocol that answers one connection.
    most : int
        Whoever comes while so many are there is hung up on.
    silence_s : float
        Without a byte in either direction: that is the end of a connection, within twice this time.

    Notes
    -----
    Threads: that of the event loop.
    """

    def __init__(self, make: Callable[[], asyncio.Protocol], most: int, silence_s: float) -> None:
        self._make = make
        self._most = most
        self.silence_s = silence_s
        self.open: set[_Connection] = set()

    def __call__(self) -> asyncio.Protocol:
        """Return the protocol of one that comes."""
        return _Connection(self)

    def answering(self, connection: _Connection) -> asyncio.Protocol | None:
        """Return what answers one that is there now; None: it is one too many."""
        if len(self.open) >= self._most:
            return None
        made = self._make()
        self.open.add(connection)
        return made

    @property
    def unsent_bytes(self) -> int:
        """What waits for clients to read it."""
        return sum(each.unsent_bytes for each in self.open)

    def abort(self) -> None:
        """Hang up on all, whatever they have not read yet."""
        for each in list(self.open):
            each.abort()


class _Connection(asyncio.Protocol):
    """Hands everything on to the protocol that answers, and looks now and then whether anything moves."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._received = 0

    @property
    def unsent_bytes(self) -> int:
        return self._transport.get_write_buffer_size()

    def abort(self) -> None:
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        answering = self._connections.answering(self)
        if answering is None:
            self._answering: asyncio.Protocol = asyncio.Protocol()  # which ignores all
            self._transport.abort()
            return
        self._answering = answering
        self._look_later((-1, 0))
        answering.connection_made(transport)

    def connection_lost(self, error: Exception | None) -> None:
        if self in self._connections.open:
            self._connections.open.remove(self)
            self._timer.cancel()
        self._answering.connection_lost(error)

    def data_received(self, data: bytes) -> None:
        self._received += len(data)
        self._answering.data_received(data)

    def eof_received(self) -> bool | None:
        return self._answering.eof_received()

    def pause_writing(self) -> None:
        self._answering.pause_writing()

    def resume_writing(self) -> None:
        self._answering.resume_writing()

    def _look_later(self, seen: tuple[int, int]) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._connections.silence_s, self._look, seen)

    def _look(self, before: tuple[int, int]) -> None:
        now = (self._received, self.unsent_bytes)
        if now == before:
            self.abort()
        else:
            self._look_later(now)
