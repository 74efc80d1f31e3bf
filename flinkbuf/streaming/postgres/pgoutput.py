"""Messages of PostgreSQL's plugin pgoutput, in version 1 of its protocol: what a committed transaction has changed.

They come over the network, and no length in them is believed: each is read within its message, or is an error.
PostgreSQL: "Logical Replication Message Formats".
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from flinkbuf.errors import CorruptDataError

PROTOCOL_VERSION = 1  # whole transactions in the order of their commits; servers since PostgreSQL 10 speak it

_EPOCH_US = 946_684_800_000_000  # microseconds from 1970 to 2000, where PostgreSQL's time begins
_INT16, _INT32, _INT64 = struct.Struct("!H"), struct.Struct("!I"), struct.Struct("!Q")
_TIME = struct.Struct("!q")


class Unchanged(Enum):
    """What stands for a large value that an update left as it was: the server does not send it again."""

    VALUE = "unchanged"


Values: TypeAlias = "tuple[bytes | Unchanged | None, ...]"  # of a row, by column, as text; None: null


@dataclass(frozen=True, slots=True)
class TransactionBegin:
    """A transaction begins. `commit_lsn` is where the log has its commit."""

    commit_lsn: int
    commit_us: int  # since 1970


@dataclass(frozen=True, slots=True)
class TransactionCommit:
    """The transaction has ended. `end_lsn` is behind its commit in the log."""

    commit_lsn: int
    end_lsn: int


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table that is published."""

    name: str
    type_oid: int


@dataclass(frozen=True, slots=True)
class Relation:
    """A table as it is from now on; it comes before the first change of the table, and when the table is another."""

    oid: int
    schema: str
    name: str
    columns: tuple[Column, ...]

    def __str__(self) -> str:
        return f"{self.schema}.{self.name}"


@dataclass(frozen=True, slots=True)
class TypeName:
    """How a type is called that does not come with PostgreSQL."""

    oid: int
    name: str


@dataclass(frozen=True, slots=True)
class Change:
    """A row was inserted (no `old`), updated, or deleted (no `new`).

    `old` has what the table's replica identity gives: all columns, or those of a key, the others null; an update has
    none if it changed no column of the key.
    """

    relation_oid: int
    is_update: bool
    old: Values | None
    new: Values | None
    is_old_whole: bool = False


@dataclass(frozen=True, slots=True)
class Truncate:
    """Tables were emptied."""

    relation_oids: tuple[int, ...]


Message: TypeAlias = "TransactionBegin | TransactionCommit | Relation | TypeName | Change | Truncate | None"


def decode(data: bytes) -> Message:
    """Return what a message says; None where it says nothing about rows.

    Raises
    ------
    CorruptDataError
        It is no message of this protocol.

    Examples
    --------
    >>> decode(b"I" + bytes.fromhex("00004001 4e 0002 74 00000002") + b"42" + b"n")
    Change(relation_oid=16385, is_update=False, old=None, new=(b'42', None), is_old_whole=False)
    """
    cursor = _Cursor(data)
    kind = cursor.take(1)
    read = _READERS.get(kind)
    if read is None:
        raise cursor.error(f"no message of version {PROTOCOL_VERSION} begins with {kind!r}")
    message = read(cursor)
    cursor.check_end()
    return message


class _Cursor:
    """A place in a message."""

    __slots__ = ("_data", "_place")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._place = 0

    def error(self, reason: str) -> CorruptDataError:
        head = self._data[:1]
        return CorruptDataError(
            f"message {head!r} of pgoutput, {len(self._data)} bytes, at byte {self._place}: {reason}"
        )

    def take(self, count: int) -> bytes:
        end = self._place + count
        if end > len(self._data):
            raise self.error(f"{count} bytes are to come, and {len(self._data) - self._place} are there")
        taken = self._data[self._place : end]
        self._place = end
        return taken

    def number(self, form: struct.Struct) -> int:
        return int(form.unpack(self.take(form.size))[0])

    def text(self) -> str:
        end = self._data.find(b"\0", self._place)
        if end < 0:
            raise self.error("a name has no end")
        name = self.take(end - self._place)
        self._place += 1
        try:
            return name.decode()
        except UnicodeDecodeError as error:
            raise self.error(f"the name {name!r} is not in UTF-8") from error

    def values(self) -> Values:
        return tuple([self._value() for _ in range(self.number(_INT16))])

    def _value(self) -> bytes | Unchanged | None:
        form = self.take(1)
        if form == b"t":
            return self.take(self.number(_INT32))
        if form == b"n":
            return None
        if form == b"u":
            return Unchanged.VALUE
        raise self.error(f"a value is of the form {form!r}, and 't', 'n' or 'u' is expected")

    def check_end(self) -> None:
        if self._place != len(self._data):
            raise self.error(f"{len(self._data) - self._place} bytes are left over")


def _begin(cursor: _Cursor) -> TransactionBegin:
    commit_lsn, time_us = cursor.number(_INT64), cursor.number(_TIME)
    cursor.take(4)  # the transaction's number
    return TransactionBegin(commit_lsn, time_us + _EPOCH_US)


def _commit(cursor: _Cursor) -> TransactionCommit:
    cursor.take(1)  # flags, of which there are none
    commit = TransactionCommit(cursor.number(_INT64), cursor.number(_INT64))
    cursor.take(8)  # the time, which the beginning has, too
    return commit


def _origin(cursor: _Cursor) -> None:
    cursor.take(8)
    cursor.text()


def _relation(cursor: _Cursor) -> Relation:
    oid, schema, name = cursor.number(_INT32), cursor.text(), cursor.text()
    cursor.take(1)  # the replica identity: each change says what it has of the old row
    columns = []
    for _ in range(cursor.number(_INT16)):
        cursor.take(1)  # whether it belongs to the key
        columns.append(Column(cursor.text(), cursor.number(_INT32)))
        cursor.take(4)  # the modifier of the type
    return Relation(oid, schema or "pg_catalog", name, tuple(columns))


def _type_name(cursor: _Cursor) -> TypeName:
    oid, schema, name = cursor.number(_INT32), cursor.text(), cursor.text()
    return TypeName(oid, f"{schema}.{name}" if schema else name)


def _insert(cursor: _Cursor) -> Change:
    oid = cursor.number(_INT32)
    return Change(oid, False, None, _new_values(cursor, cursor.take(1)))


def _update(cursor: _Cursor) -> Change:
    oid, form = cursor.number(_INT32), cursor.take(1)
    if form == b"N":
        return Change(oid, True, None, cursor.values())
    old = _old_values(cursor, form)
    return Change(oid, True, old, _new_values(cursor, cursor.take(1)), form == b"O")


def _delete(cursor: _Cursor) -> Change:
    oid, form = cursor.number(_INT32), cursor.take(1)
    return Change(oid, False, _old_values(cursor, form), None, form == b"O")


def _new_values(cursor: _Cursor, form: bytes) -> Values:
    if form != b"N":
        raise cursor.error(f"'N' and a row are expected, got {form!r}")
    return cursor.values()


def _old_values(cursor: _Cursor, form: bytes) -> Values:
    if form not in (b"K", b"O"):
        raise cursor.error(f"'K' or 'O' and a row are expected, got {form!r}")
    return cursor.values()


def _truncate(cursor: _Cursor) -> Truncate:
    count = cursor.number(_INT32)
    cursor.take(1)  # whether it went on to other tables, or set sequences back
    oids = cursor.take(4 * count)
    return Truncate(struct.unpack(f"!{count}I", oids))


_READERS: dict[bytes, Callable[[_Cursor], Message]] = {
    b"B": _begin,
    b"C": _commit,
    b"O": _origin,
    b"R": _relation,
    b"Y": _type_name,
    b"I": _insert,
    b"U": _update,
    b"D": _delete,
    b"T": _truncate,
}
