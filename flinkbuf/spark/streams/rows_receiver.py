"""Where a reader takes the rows that tasks of Spark send it."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Sequence

from flinkbuf.config import TlsConfig
from flinkbuf.control.connection import Connection
from flinkbuf.control.control_server import ControlServer
from flinkbuf.errors import CorruptDataError
from flinkbuf.spark.streams.epochs import Part
from flinkbuf.spark.streams.received_parts import MemoryBudget, PartKey, PartRows, ReceivedParts, StoredBatch
from flinkbuf.spark.streams.rows_protocol import group_of, read_message, taken_of


class RowsReceiver:
    """Listens for the tasks that send rows to one reader, and keeps what they send. It is a server's handler.

    Parameters
    ----------
    bind_host, advertised_host : str
        The address that it listens at, and the one that others are told.
    key : bytes
        What the senders' secrets are derived from.
    budget : MemoryBudget
    tls : TlsConfig, optional

    Attributes
    ----------
    token : str
        Drawn for it; its senders belong to the group of it.
    address : tuple of (str, int)

    Raises
    ------
    OSError
        If it cannot listen there.
    """

    def __init__(
        self, bind_host: str, advertised_host: str, key: bytes, budget: MemoryBudget, tls: TlsConfig | None = None
    ) -> None:
        self.token = secrets.token_hex(8)
        self._lock = threading.Lock()  # of the parts: the server's thread fills them, the task's takes them
        self._parts = ReceivedParts(budget)
        self._keys: dict[int, PartKey] = {}  # by the number of the connection that brings it
        self._server = ControlServer(bind_host, advertised_host, tls=tls, key=key)
        self._server.open(group_of(self.token), self)

    @property
    def address(self) -> tuple[str, int]:
        return self._server.address

    def seal(self, run: int, parts: Sequence[Part]) -> list[tuple[Part, PartRows]]:
        """Return the rows of the parts that count; what else there is of this run is dropped."""
        with self._lock:
            return self._parts.seal(run, parts)

    def close(self) -> None:
        """Listen no more, and drop what was not sealed."""
        self._server.close()
        with self._lock:
            self._parts.close()

    # ---- on the server's thread

    def connected(self, connection: Connection) -> None:
        """Wait for what the sender says."""

    def received(self, connection: Connection, payload: bytes) -> None:
        """Take what a sender says."""
        said = read_message(payload)
        key = self._keys.get(connection.number)
        if isinstance(said, tuple):
            if key is not None:
                raise CorruptDataError("a sender of rows begins twice")
            self._keys[connection.number] = said
            with self._lock:
                self._parts.begin(said)
            return
        if key is None:
            raise CorruptDataError("a sender of rows does not say which they are")
        with self._lock:
            if isinstance(said, StoredBatch):
                self._parts.add(key, said)
            else:
                self._parts.end(key, said)
        if isinstance(said, int):
            connection.send(taken_of(said))

    def disconnected(self, connection: Connection, reason: str) -> None:
        """Drop what was not whole."""
        key = self._keys.pop(connection.number, None)
        if key is not None:
            with self._lock:
                self._parts.drop(key)
