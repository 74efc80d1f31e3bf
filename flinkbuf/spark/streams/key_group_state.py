"""The state of all keys of one key group, as it lives in a worker of Spark, and what of it is written for a batch.

A group's state is a log of segments. A visit of the group, in a batch that brings rows for it or in which a timer
fires, appends one segment with what it changed. When the log has grown to twice what it began with, the whole state is
written in its place. Who has read the log up to some segment reads the later ones alone: see `Head`.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterator
from itertools import islice
from typing import Any, NamedTuple

from flinkbuf._core.state.object_tables import (
    ExpiringFlatTable,
    ExpiringNestedTable,
    FlatTable,
    KeyTimers,
    NestedTable,
)
from flinkbuf.errors import CorruptDataError
from flinkbuf.spark.streams.values import decode, encode

Key = tuple[Any, ...]
Changes = tuple[str, dict[Any, Any], list[Any]]  # what a table is, what is in it now, what is gone from it

TIMERS = "timers"  # the table of timers; those of states are named after them, with a prefix
_MAGIC = b"fbks\x01"
_PIECE = 50_000  # entries of a segment, where the whole state is written
_LEAST_LOG = 1 << 16  # bytes; so much may be appended before the whole state is written


class Head(NamedTuple):
    """Where the log of a group begins and ends.

    Attributes
    ----------
    groups : int
        How many key groups there are.
    lineage : int
        A random number that the group has from its beginning.
    first, last : int
        Segments are numbered; these are in the log.
    token : int
        A random number of the visit that wrote the last segment. A batch that Spark repeats has another one, so a
        state in a worker's memory that has seen an attempt that did not count is never taken for one that has not.
    whole_bytes, later_bytes : int
        The size of the segments that were written as the whole state, and of those after them.
    watermark : int
        The watermark that the group was last visited with, in milliseconds.
    timer : int
        The one timer of the group that Spark knows, in milliseconds; -1 if there is none.
    """

    groups: int
    lineage: int
    first: int
    last: int
    token: int
    whole_bytes: int
    later_bytes: int
    watermark: int
    timer: int


# ---- tables


Table = FlatTable | NestedTable
_TABLES: dict[str, type[FlatTable] | type[NestedTable]] = {
    "value": FlatTable,
    "list": NestedTable,
    "map": NestedTable,
    "timers": NestedTable,
    "expiring value": ExpiringFlatTable,
    "expiring list": ExpiringNestedTable,
    "expiring map": ExpiringNestedTable,
}


def make_table(what: str) -> Table:
    """Make an empty table for what a description says, such as ``value: bigint``."""
    return _TABLES[what.partition(":")[0]](what)


# ---- a group


class KeyGroupState:
    """All tables of a key group, as of one segment of its log.

    Attributes
    ----------
    last, token : int
        The segment, and who wrote it; a token of -1 belongs to no segment: what is here has been changed and not yet
        been written.
    """

    def __init__(self) -> None:
        timers = NestedTable("timers")
        self.tables: dict[str, Table] = {TIMERS: timers}
        self.timers = KeyTimers(timers)
        self.last = -1
        self.token = -1
        self.used_at = 0.0

    def table(self, name: str, what: str) -> Table:
        """Return the table of a state, a new one if there is none.

        Raises
        ------
        TypeError
            If what is kept under this name is something else.
        """
        found = self.tables.get(name)
        if found is None:
            found = self.tables[name] = make_table(what)
        elif found.what != what:
            raise TypeError(
                f"the checkpoint has the state {name.partition('.')[2]!r} as {found.what}, and the program asks for "
                f"{what}: give a state of another type another name"
            )
        return found

    def take_changes(self) -> dict[str, Changes]:
        """Return what has changed since the last call, by table."""
        changes = {name: table.take_changes() for name, table in self.tables.items()}
        return {name: each for name, each in changes.items() if each is not None}

    def pieces(self) -> Iterator[dict[str, Changes]]:
        """Yield all that there is, as changes of an empty state."""
        for name, table in self.tables.items():
            for piece in table.pieces(_PIECE):
                yield {name: piece}

    def apply(self, changes: dict[str, Changes]) -> None:
        """Take over the changes of a segment."""
        for name, (what, now, gone) in changes.items():
            table = self.tables.get(name)
            if table is None:
                table = self.tables[name] = make_table(what)
            table.apply(now, gone)
            if name == TIMERS:
                self.timers.note(now)

    def settle(self) -> None:
        """Order what is read in the order of time, after the last segment was applied."""
        for table in self.tables.values():
            if isinstance(table, (ExpiringFlatTable, ExpiringNestedTable)):
                table.expiry.settle()


# ---- segments


def write_segment(parent: int, token: int, changes: dict[str, Changes]) -> bytes:
    """Return the bytes of a segment that comes after the one of `parent`."""
    data = encode([parent, token, [[name, *_as_columns(*each)] for name, each in changes.items()]])
    return _MAGIC + zlib.crc32(data).to_bytes(4, "big") + data


def read_segment(data: bytes, which: str) -> tuple[int, int, dict[str, Changes]]:
    """Return (parent, token, changes).

    Raises
    ------
    CorruptDataError
        If these are other bytes than `write_segment` made.
    """
    begin = len(_MAGIC) + 4
    if data[: len(_MAGIC)] != _MAGIC:
        raise CorruptDataError(f"{which} is no segment of flinkbuf's state, or one of a later version")
    if zlib.crc32(data[begin:]) != int.from_bytes(data[len(_MAGIC) : begin], "big"):
        raise CorruptDataError(f"{which} has another checksum than it was written with")
    parent, token, tables = decode(data[begin:])
    return parent, token, {name: _from_columns(*columns) for name, *columns in tables}


def log_is_long(head: Head, added: int) -> bool:
    """Whether the whole state is to be written in place of the log."""
    return head.later_bytes + added > max(head.whole_bytes, _LEAST_LOG)


def _as_columns(what: str, now: dict[Any, Any], gone: list[Any]) -> list[Any]:
    """Return the changes of a table as columns of scalars: fields of keys, of what is below them, and of values.

    The columns of one field are lists of their own, so that no tuple is written twice.
    """
    kind = what.partition(":")[0]
    if kind.endswith("value"):
        return [what, _columns(now), *_value_columns(kind, list(now.values())), _columns(gone)]
    below = [each for entries in now.values() for each in entries]
    values = [each for entries in now.values() for each in entries.values()]
    gone_below = [each for _, removed in gone for each in removed]
    return [
        what,
        _columns(now),
        [len(entries) for entries in now.values()],
        _columns(below) if kind.endswith("map") else below,
        *_value_columns(kind, values),
        _columns([key for key, _ in gone]),
        [len(removed) for _, removed in gone],
        _columns(gone_below) if kind.endswith("map") else gone_below,
    ]


def _from_columns(what: str, *columns: Any) -> Changes:
    """Return the changes that became such columns."""
    kind = what.partition(":")[0]
    if kind.endswith("value"):
        keys, ends, values, gone = columns
        return what, dict(zip(_tuples(keys), _values(kind, ends, values), strict=True)), _tuples(gone)
    keys, counts, below, ends, values, gone, gone_counts, gone_below = columns
    if kind.endswith("map"):
        below, gone_below = _tuples(below), _tuples(gone_below)
    entries = zip(below, [True] * len(below) if kind == "timers" else _values(kind, ends, values), strict=True)
    now = {key: dict(islice(entries, size)) for key, size in zip(_tuples(keys), counts, strict=True)}
    rest = iter(gone_below)
    return what, now, [(key, list(islice(rest, size))) for key, size in zip(_tuples(gone), gone_counts, strict=True)]


def _value_columns(kind: str, values: list[Any]) -> tuple[list[Any], list[Any]]:
    """Return (the ends of the times to live, the columns of the values)."""
    if kind == "timers":
        return [], []
    if kind.startswith("expiring"):
        return [end_ms for end_ms, _ in values], _columns([value for _, value in values])
    return [], _columns(values)


def _values(kind: str, ends: list[Any], columns: list[Any]) -> list[Any]:
    values = _tuples(columns)
    return list(zip(ends, values, strict=True)) if kind.startswith("expiring") else values


def _columns(tuples: Collection[Any]) -> list[list[Any]]:
    """Return tuples of one length, field by field."""
    return [list(column) for column in zip(*tuples, strict=True)]


def _tuples(columns: list[list[Any]]) -> list[Any]:
    return list(zip(*columns, strict=True))
