"""A connection over which a PostgreSQL server sends what its replication slot has, and what is asked of it before.

psycopg speaks no replication by itself. It has libpq's functions, though, and they carry the few messages of the
protocol: what a slot has (``w``), how far the server is (``k``), and how far the client is (``r``). PostgreSQL:
"Streaming Replication Protocol".
"""

from __future__ import annotations

import re
import select
import struct
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from flinkbuf.errors import CorruptDataError, FlinkbufError
from flinkbuf.streaming.postgres.pgoutput import PROTOCOL_VERSION, Column, Relation
from flinkbuf.streaming.postgres.postgres_client import PostgresSetupError, psycopg_module

if TYPE_CHECKING:
    from psycopg.pq.abc import PGconn, PGresult

USER = "PostgresChangeSource"
_DATA = struct.Struct("!cQQq")  # before a message of the plugin: its place in the log, how far the server is, its time
_KEEPALIVE = struct.Struct("!cQqB")  # how far the server is, its time, whether it asks for an answer
_STATUS = struct.Struct("!cQQQqB")  # how much was received, is safe, is applied; the client's time; asks for an answer
_AT_ONCE = 500  # messages that are given on together, fewer if they are large
_BYTES_AT_ONCE = 1 << 20
_LSN = re.compile(r"([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})", re.ASCII)
_OBJECT_IN_USE = "55006"
_LOST_MS = (
    60_000  # a host that takes nothing for so long is lost; without it the kernel goes on for a quarter of an hour
)
# Texts of values do not depend on how server, database, user or environment are set.
_SETTINGS = (
    "SET client_encoding = 'UTF8'; SET datestyle = 'ISO'; SET intervalstyle = 'postgres'; SET timezone = 'UTC'; "
    "SET extra_float_digits = 3; SET bytea_output = 'hex'; SET standard_conforming_strings = on"
)


def parse_lsn(text: str) -> int:
    """Return the place in a server's log that PostgreSQL writes so.

    Examples
    --------
    >>> parse_lsn("16/B374D848") == 0x16B374D848, lsn_text(0x16B374D848)
    (True, '16/B374D848')
    """
    found = _LSN.fullmatch(text)
    if found is None:
        raise ValueError(f"a place in PostgreSQL's log is written as '16/B374D848', got {text!r}")
    return int(found[1], 16) << 32 | int(found[2], 16)


def lsn_text(lsn: int) -> str:
    """Return a place in a server's log as PostgreSQL writes it."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


class ReplicationError(FlinkbufError):
    """The server refused something; `sqlstate` is PostgreSQL's code for it."""

    def __init__(self, message: str, sqlstate: str | None = None) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate

    @property
    def is_in_use(self) -> bool:
        """Return whether somebody else reads the slot."""
        return self.sqlstate == _OBJECT_IN_USE


@dataclass(frozen=True)
class Slot:
    """What a server says of a replication slot."""

    confirmed_lsn: int
    active_pid: int | None


@dataclass(frozen=True)
class ServerLog:
    """What a server says of its log.

    Attributes
    ----------
    system_id : str
        The number that each server has been given, and its copies with it.
    timeline : int or None
        Which of the ways that the log has gone, of which each copy that takes over begins one; None: the server is a
        copy now, and follows another one.
    end_lsn : int
        Where the log ends that is safe on the server's disk.
    """

    system_id: str
    timeline: int | None
    end_lsn: int


@dataclass
class Received:
    """What has come from the server since."""

    messages: list[bytes | int] = field(default_factory=list)  # a number: the server has sent all before this place
    last_lsn: int = 0
    asks_for_answer: bool = False


class ReplicationConnection:
    """A connection for replication; at any time one thread uses it."""

    def __init__(self, connection: str) -> None:
        psycopg = psycopg_module(USER)
        self._pq = psycopg.pq
        given = psycopg.conninfo.conninfo_to_dict(connection)
        options = {"application_name": "flinkbuf", "tcp_user_timeout": _LOST_MS, **given, "replication": "database"}
        conninfo = psycopg.conninfo.make_conninfo("", **options)
        self._link: PGconn = self._pq.PGconn.connect(conninfo.encode())
        if self._link.status != self._pq.ConnStatus.OK:
            reason = self._link.error_message.decode(errors="replace").strip()
            self.close()
            raise ReplicationError(f"{USER} cannot connect to PostgreSQL for replication: {reason}")
        self.query(_SETTINGS)

    @property
    def place(self) -> str:
        """Return where the database is, for messages."""
        parts = (self._link.host, self._link.port, self._link.db)
        host, port, database = (part.decode(errors="replace") for part in parts)
        return f"PostgreSQL at {host}:{port}, database {database!r},"

    def query(self, statement: str) -> list[list[str | None]]:
        """Return the rows of a statement; connections for replication take no parameters."""
        result = self._link.exec_(statement.encode())
        self._check(result)
        texts = [[result.get_value(row, column) for column in range(result.nfields)] for row in range(result.ntuples)]
        return [[None if value is None else value.decode() for value in row] for row in texts]

    def _check(self, result: PGresult) -> None:
        status = self._pq.ExecStatus
        if result.status in (status.COMMAND_OK, status.TUPLES_OK, status.COPY_BOTH, status.EMPTY_QUERY):
            return
        code = result.error_field(self._pq.DiagnosticField.SQLSTATE)
        reason = result.error_message.decode(errors="replace").strip()
        raise ReplicationError(f"{self.place} refused: {reason}", None if code is None else code.decode())

    def log(self) -> ServerLog:
        """Return which log the server has, and how far."""
        system_id, timeline, end, *_ = self.query("IDENTIFY_SYSTEM")[0]
        is_copy = self.query("SELECT pg_is_in_recovery()") == [["t"]]
        return ServerLog(str(system_id), None if is_copy else int(timeline or 0), parse_lsn(str(end)))

    def end_of_timeline(self, earlier: int, current: int) -> int:
        """Return where the server's log has left an earlier timeline; 0: it was never on it."""
        history = self.query(f"TIMELINE_HISTORY {current}")[0][1] if current > 1 else None
        for line in (history or "").splitlines():
            words = line.split()
            if words[:1] == [str(earlier)]:
                return parse_lsn(words[1])
        return 0

    def slot(self, name: str) -> Slot:
        """Return how a replication slot is.

        Raises
        ------
        PostgresSetupError
            There is none, or it is none that a source can read.
        """
        rows = self.query(
            "SELECT plugin, database = current_database(), wal_status, confirmed_flush_lsn, active_pid, two_phase "
            f"FROM pg_replication_slots WHERE slot_name = {_quoted(name)}"
        )
        what = f"the replication slot {name!r}"
        if not rows:
            raise PostgresSetupError(
                f"{self.place} has no replication slot {name!r}. If it was there before, changes since are lost to "
                "the job: load the tables again and begin the job anew. A new one, behind the publication, is made by "
                f"SELECT pg_create_logical_replication_slot({_quoted(name)}, 'pgoutput')"
            )
        plugin, is_here, wal_status, confirmed, active_pid, is_two_phase = rows[0]
        if plugin != "pgoutput" or is_here != "t" or is_two_phase != "f":
            raise PostgresSetupError(
                f"{self.place} has {what} for plugin {plugin}, which a {USER} cannot read: it needs one of this "
                "database with the plugin pgoutput, and without two-phase commit"
            )
        if wal_status == "lost" or confirmed is None:
            raise PostgresSetupError(
                f"{self.place} has given {what} up (wal_status = {wal_status}): the log of changes that were not read "
                "is gone, as max_slot_wal_keep_size says. They are lost to the job: drop the slot, make it anew, load "
                "the tables again and begin the job anew"
            )
        return Slot(parse_lsn(confirmed), None if active_pid is None else int(active_pid))

    def published_tables(self, publications: Sequence[str]) -> tuple[list[Relation], dict[int, str]]:
        """Return the tables of publications as they are now, and how the types of their columns are called.

        Raises
        ------
        PostgresSetupError
            A publication is missing, or has no table.
        """
        names = ", ".join(map(_quoted, publications))
        found = {row[0] for row in self.query(f"SELECT pubname FROM pg_publication WHERE pubname IN ({names})")}
        for name in publications:
            if name not in found:
                raise PostgresSetupError(
                    f"{self.place} has no publication {name!r}; before the slot, make one by "
                    f"CREATE PUBLICATION {_identifier(name)} FOR TABLE ..."
                )
        version = self._link.server_version
        rows = self.query(
            "SELECT DISTINCT c.oid, p.schemaname, p.tablename, a.attnum, a.attname, a.atttypid, "
            "format_type(a.atttypid, NULL) FROM pg_publication_tables p "
            "JOIN pg_namespace n ON n.nspname = p.schemaname "
            "JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = p.tablename JOIN pg_attribute a "
            f"ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped WHERE p.pubname IN ({names}) "
            + ("AND a.attname = ANY (p.attnames) " if version >= 150_000 else "")
            + ("AND a.attgenerated = '' " if version < 180_000 else "")
            + "ORDER BY 1, 4"
        )
        if not rows:
            raise PostgresSetupError(f"{self.place} has no table in the publications {', '.join(publications)}")
        columns: dict[tuple[int, str, str], list[Column]] = {}
        type_names: dict[int, str] = {}
        for oid, schema, table, _, column, type_oid, type_name in rows:
            type_names[int(type_oid or 0)] = str(type_name)
            key = int(oid or 0), str(schema), str(table)
            columns.setdefault(key, []).append(Column(str(column), int(type_oid or 0)))
        return [Relation(*key, tuple(each)) for key, each in columns.items()], type_names

    def start(self, slot: str, lsn: int, publications: Iterable[str]) -> None:
        """Have the server send the transactions whose commits are at or behind a place in its log."""
        names = ",".join(map(_identifier, publications))
        options = f"proto_version '{PROTOCOL_VERSION}', publication_names {_quoted(names)}"
        command = f"START_REPLICATION SLOT {_identifier(slot)} LOGICAL {lsn_text(lsn)} ({options})"
        self._check(self._link.exec_(command.encode()))
        self._poll = select.poll()
        self._poll.register(self._link.socket, select.POLLIN)

    def receive(self, timeout_s: float) -> Received:
        """Return what has come, or what comes within a time."""
        received = Received()
        self._take(received)
        if not received.messages:
            self._poll.poll(timeout_s * 1_000)
            self._link.consume_input()  # also after the time: what TLS has decrypted is not seen by poll
            self._take(received)
        return received

    def _take(self, received: Received) -> None:
        byte_count = 0
        while len(received.messages) < _AT_ONCE and byte_count < _BYTES_AT_ONCE:
            count, view = self._link.get_copy_data(1)
            if count == 0:
                return
            if count < 0:
                self._check(self._link.get_result())  # type: ignore[arg-type]
                raise ReplicationError(f"{self.place} has ended the replication")
            byte_count += count
            read_message(bytes(view), received)

    def send_status(self, received_lsn: int, safe_lsn: int, asks_for_answer: bool) -> None:
        """Tell the server how far the client is: it may forget what is before `safe_lsn`."""
        self._link.put_copy_data(_STATUS.pack(b"r", received_lsn, safe_lsn, safe_lsn, 0, asks_for_answer))
        self._link.flush()

    def end(self, timeout_s: float) -> None:
        """End the replication and wait for the server's answer: it has read then what it was told."""
        deadline_s = time.monotonic() + timeout_s
        self._link.put_copy_end()
        self._link.flush()
        while (count := self._link.get_copy_data(1)[0]) >= 0:
            if count:
                continue  # what was on its way
            left_s = deadline_s - time.monotonic()
            if left_s <= 0 or not self._poll.poll(left_s * 1_000):
                raise ReplicationError(f"{self.place} has not answered within {timeout_s:g} s")
            self._link.consume_input()

    def close(self) -> None:
        """Close the connection; closing again does nothing."""
        self._link.finish()


def read_message(data: bytes, received: Received) -> None:
    """Add a message of the replication protocol to what was received.

    Raises
    ------
    CorruptDataError
        It is none.
    """
    kind = data[:1]
    if kind == b"w" and len(data) > _DATA.size:
        received.last_lsn = max(received.last_lsn, _DATA.unpack_from(data)[1])
        received.messages.append(data[_DATA.size :])
    elif kind == b"k" and len(data) == _KEEPALIVE.size:
        _, lsn, _, asks = _KEEPALIVE.unpack(data)
        received.last_lsn = max(received.last_lsn, lsn)
        received.messages.append(lsn)
        received.asks_for_answer |= bool(asks)
    else:
        raise CorruptDataError(f"{len(data)} bytes that begin with {kind!r} are no message of PostgreSQL's replication")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
