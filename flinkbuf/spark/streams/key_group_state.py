"""The state of all keys of one key group, as it lives in a worker of Spark, and what of it is written for a batch.

A group's state is a log of segments. A visit of the group, in a batch that brings rows for it or in which a timer
fires, appends one segment with what it changed. When the log has grown to twice what it began with, the whole state is
written in its place. Who has read the log up to some segment reads the later ones alone: see `Head`.
"""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterator
from heapq import heapify, heappop, heappush
from itertools import count, islice
from typing import Any, NamedTuple

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


class FlatTable:
    """One value for each key.

    Attributes
    ----------
    what : str
        What it holds, which a program that reads it must say as well.
    """

    def __init__(self, what: str) -> None:
        self.what = what
        self.rows: dict[Key, Any] = {}
        self._changed: set[Key] = set()

    def get(self, key: Key) -> Any:
        """Return the value of a key, or None."""
        return self.rows.get(key)

    def put(self, key: Key, value: Any) -> None:
        """Set the value of a key."""
        self.rows[key] = value
        self._changed.add(key)

    def remove(self, key: Key) -> None:
        """Forget the value of a key, if there is one."""
        if self.rows.pop(key, None) is not None:
            self._changed.add(key)

    def clear_all(self) -> None:
        """Forget the values of all keys."""
        self._changed.update(self.rows)
        self.rows.clear()

    def take_changes(self) -> Changes | None:
        """Return what has changed since the last call, None if nothing has."""
        rows, changed = self.rows, self._changed
        if not changed:
            return None
        self._changed = set()
        now = {key: rows[key] for key in changed if key in rows}
        return self.what, now, [key for key in changed if key not in rows] if len(now) < len(changed) else []

    def apply(self, now: dict[Key, Any], gone: list[Key]) -> None:
        """Take over what another worker has changed."""
        for key in gone:
            self.rows.pop(key, None)
        self.rows.update(now)

    def pieces(self) -> Iterator[Changes]:
        """Yield all that there is, in pieces of bounded size."""
        entries = iter(self.rows.items())
        while piece := dict(islice(entries, _PIECE)):
            yield self.what, piece, []


class NestedTable:
    """Values by a second key below each key: the entries of a map, the elements of a list by their numbers.

    What is below a key keeps its order, also in a worker that has read it from the log.
    """

    def __init__(self, what: str) -> None:
        self.what = what
        self.rows: dict[Key, dict[Any, Any]] = {}
        self._changed: dict[Key, dict[Any, bool]] = {}  # in order; True what was removed, though it may be back

    def get(self, key: Key, below: Any) -> Any:
        """Return a value, or None."""
        entries = self.rows.get(key)
        return None if entries is None else entries.get(below)

    def entries(self, key: Key) -> dict[Any, Any]:
        """Return what is below a key, in order; the caller does not change it."""
        return self.rows.get(key, {})

    def put(self, key: Key, below: Any, value: Any) -> None:
        """Set a value; a new one is the last in order."""
        entries = self.rows.get(key)
        if entries is None:
            entries = self.rows[key] = {}
        marks = self._marks(key)
        if below not in entries:
            marks[below] = marks.pop(below, False)
        elif below not in marks:
            marks[below] = False
        entries[below] = value

    def remove(self, key: Key, below: Any) -> None:
        """Forget a value, if there is one."""
        entries = self.rows.get(key)
        if entries is None or below not in entries:
            return
        del entries[below]
        if not entries:
            del self.rows[key]
        self._marks(key)[below] = True

    def clear(self, key: Key) -> None:
        """Forget all that is below a key."""
        entries = self.rows.pop(key, None)
        if entries:
            self._marks(key).update(dict.fromkeys(entries, True))

    def clear_all(self) -> None:
        """Forget what is below all keys."""
        for key in list(self.rows):
            self.clear(key)

    def take_changes(self) -> Changes | None:
        """Return what has changed since the last call, None if nothing has."""
        if not self._changed:
            return None
        now: dict[Key, dict[Any, Any]] = {}
        gone: list[tuple[Key, list[Any]]] = []
        for key, marks in self._changed.items():
            entries = self.rows.get(key, {})
            if here := {below: entries[below] for below in marks if below in entries}:
                now[key] = here
            if removed := [below for below, was_removed in marks.items() if was_removed]:
                gone.append((key, removed))
        self._changed = {}
        return self.what, now, gone

    def apply(self, now: dict[Key, dict[Any, Any]], gone: list[tuple[Key, list[Any]]]) -> None:
        """Take over what another worker has changed."""
        for key, removed in gone:
            entries = self.rows.get(key, {})
            for below in removed:
                entries.pop(below, None)
            if not entries:
                self.rows.pop(key, None)
        for key, changed in now.items():
            self.rows.setdefault(key, {}).update(changed)

    def pieces(self) -> Iterator[Changes]:
        """Yield all that there is, in pieces of bounded size."""
        piece: dict[Key, dict[Any, Any]] = {}
        size = 0
        for key, entries in self.rows.items():
            rest = iter(entries.items())
            while part := dict(islice(rest, _PIECE - size)):
                piece[key] = part
                size += len(part)
                if size >= _PIECE:
                    yield self.what, piece, []
                    piece, size = {}, 0
        if piece:
            yield self.what, piece, []

    def _marks(self, key: Key) -> dict[Any, bool]:
        try:
            return self._changed[key]
        except KeyError:
            marks = self._changed[key] = {}
            return marks


class Expiry:
    """When entries of a table with a time to live are over, the oldest first: each has as long as the others."""

    def __init__(self) -> None:
        self._ends: dict[Any, int] = {}

    def write(self, place: Any, end_ms: int) -> None:
        """Note when what was written just now is over."""
        self._ends.pop(place, None)
        self._ends[place] = end_ms

    def forget(self, place: Any) -> None:
        """Note that an entry is gone."""
        self._ends.pop(place, None)

    def settle(self) -> None:
        """Bring what was read in any order into the order of its ends."""
        self._ends = dict(sorted(self._ends.items(), key=lambda item: item[1]))

    @property
    def first_ms(self) -> int | None:
        """When the first entry is over, if there is one."""
        return next(iter(self._ends.values()), None)

    def over(self, now_ms: int) -> list[Any]:
        """Return the entries that are over."""
        places = []
        for place, end_ms in self._ends.items():
            if end_ms > now_ms:
                break
            places.append(place)
        return places


class ExpiringFlatTable(FlatTable):
    """One value for each key, until its time to live is over: a row is (end in milliseconds, value)."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.expiry = Expiry()
        self.now_ms = 0
        self.ttl_ms = 0

    def get(self, key: Key) -> Any:
        row = self.rows.get(key)
        return None if row is None or row[0] <= self.now_ms else row[1]

    def put(self, key: Key, value: Any) -> None:
        end_ms = self.now_ms + self.ttl_ms
        super().put(key, (end_ms, value))
        self.expiry.write(key, end_ms)

    def remove(self, key: Key) -> None:
        super().remove(key)
        self.expiry.forget(key)

    def clear_all(self) -> None:
        super().clear_all()
        self.expiry = Expiry()

    def apply(self, now: dict[Key, Any], gone: list[Key]) -> None:
        super().apply(now, gone)
        for key in gone:
            self.expiry.forget(key)
        for key, row in now.items():
            self.expiry.write(key, row[0])

    def sweep(self) -> None:
        """Forget what is over."""
        for key in self.expiry.over(self.now_ms):
            self.remove(key)


class ExpiringNestedTable(NestedTable):
    """Values by a second key, each until its time to live is over: a row is (end in milliseconds, value)."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.expiry = Expiry()
        self.now_ms = 0
        self.ttl_ms = 0

    def get(self, key: Key, below: Any) -> Any:
        row = super().get(key, below)
        return None if row is None or row[0] <= self.now_ms else row[1]

    def entries(self, key: Key) -> dict[Any, Any]:
        rows = self.rows.get(key, {})
        return {below: value for below, (end_ms, value) in rows.items() if end_ms > self.now_ms}

    def put(self, key: Key, below: Any, value: Any) -> None:
        end_ms = self.now_ms + self.ttl_ms
        super().put(key, below, (end_ms, value))
        self.expiry.write((key, below), end_ms)

    def remove(self, key: Key, below: Any) -> None:
        super().remove(key, below)
        self.expiry.forget((key, below))

    def clear(self, key: Key) -> None:
        for below in self.rows.get(key, ()):
            self.expiry.forget((key, below))
        super().clear(key)

    def apply(self, now: dict[Key, dict[Any, Any]], gone: list[tuple[Key, list[Any]]]) -> None:
        super().apply(now, gone)
        for key, removed in gone:
            for below in removed:
                self.expiry.forget((key, below))
        for key, changed in now.items():
            for below, row in changed.items():
                self.expiry.write((key, below), row[0])

    def sweep(self) -> None:
        """Forget what is over."""
        for key, below in self.expiry.over(self.now_ms):
            self.remove(key, below)


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


class KeyTimers:
    """The timers of all keys, by time."""

    def __init__(self, table: NestedTable) -> None:
        self.table = table
        self._rows = table.rows
        self._numbers = count()  # keys of one time need not be comparable
        self._heap = [(at_ms, next(self._numbers), key) for key, times in table.rows.items() for at_ms in times]
        heapify(self._heap)

    def of(self, key: Key) -> list[int]:
        """Return the times of a key, in order."""
        return sorted(self.table.entries(key))

    def register(self, key: Key, at_ms: int) -> None:
        """Set a timer; the same twice is one."""
        times = self._rows.get(key)
        if times is None or at_ms not in times:
            self.table.put(key, at_ms, True)
            heappush(self._heap, (at_ms, next(self._numbers), key))

    def delete(self, key: Key, at_ms: int) -> None:
        """Remove a timer, if there is one."""
        self.table.remove(key, at_ms)

    def take_due(self, now_ms: int) -> list[tuple[int, Key]]:
        """Return the timers up to a time, in order. They stay registered until they are deleted."""
        due: list[tuple[int, Key]] = []
        while self._heap and self._heap[0][0] <= now_ms:
            at_ms, _, key = heappop(self._heap)
            if self.is_registered(key, at_ms) and (not due or (at_ms, key) != due[-1]):
                due.append((at_ms, key))
        return due

    def is_registered(self, key: Key, at_ms: int) -> bool:
        """Whether a timer is there."""
        times = self._rows.get(key)
        return times is not None and at_ms in times

    def first_ms(self) -> int | None:
        """Return the earliest time, if there is a timer."""
        while self._heap:
            at_ms, _, key = self._heap[0]
            if self.is_registered(key, at_ms):
                return at_ms
            heappop(self._heap)
        return None


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
        self.tables: dict[str, Table] = {TIMERS: make_table("timers")}
        self.timers: KeyTimers
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
            for piece in table.pieces():
                yield {name: piece}

    def apply(self, changes: dict[str, Changes]) -> None:
        """Take over the changes of a segment."""
        for name, (what, now, gone) in changes.items():
            table = self.tables.get(name)
            if table is None:
                table = self.tables[name] = make_table(what)
            table.apply(now, gone)

    def settle(self) -> None:
        """Order what is read in the order of time, after the last segment was applied."""
        self.timers = KeyTimers(self.tables[TIMERS])  # type: ignore[arg-type]
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
