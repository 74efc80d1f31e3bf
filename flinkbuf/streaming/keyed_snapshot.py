"""The keyed state of an operator on its way into bytes. Flink: HeapSnapshotStrategy."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from flinkbuf._core.key_context import key_of
from flinkbuf._core.keyed_state import KeyedState
from flinkbuf._core.state_codec import StateWriter, split_table, split_timers, write_entries, write_timers
from flinkbuf._core.state_table import FrozenTable
from flinkbuf._core.type_codec import TypeCodec
from flinkbuf.streaming.key_groups import KeyGroups
from flinkbuf.streaming.snapshot import KeyedSnapshot, StateMeta, make_section


@dataclass(frozen=True)
class FrozenState:
    """One state with all its values at the moment of the snapshot."""

    meta: StateMeta
    state: KeyedState
    codec: TypeCodec | None
    table: FrozenTable
    expire_at: int | None  # values that have expired by then are left out; None: none are

    def groups(self, key_groups: KeyGroups) -> list[Any]:
        """Return the entries of each key group, still as objects."""
        return split_table(self.table.spaces, key_groups.grouper(), self.state, self.expire_at)

    def write(self, writer: StateWriter, entries: Any, key_groups: KeyGroups) -> bytes:
        """Return the bytes of one group."""
        return write_entries(writer, self.state, entries, key_groups.key_codec, self.codec)

    def release(self) -> None:
        """The operator may write into the table again."""
        self.table.release()


@dataclass(frozen=True)
class FrozenTimers:
    """The timers of one service and one domain, as (time, token, namespace)."""

    meta: StateMeta
    timers: Iterable[Any]

    def groups(self, key_groups: KeyGroups) -> list[Any]:
        """Return the timers of each key group."""
        return split_timers([(time, key_of(token), ns) for time, token, ns in self.timers], key_groups.grouper())

    def write(self, writer: StateWriter, entries: Any, key_groups: KeyGroups) -> bytes:
        """Return the bytes of one group."""
        return write_timers(writer, entries, key_groups.key_codec)

    def release(self) -> None:
        """Nobody waits for it."""


@dataclass(frozen=True)
class UnreadState:
    """A state of an earlier snapshot that nobody has asked for since: it goes on from snapshot to snapshot."""

    meta: StateMeta
    sources: Sequence[KeyedSnapshot]

    def groups(self, key_groups: KeyGroups) -> list[Any]:
        """Return the bytes of each key group."""
        return [self._find(key_group) for key_group in range(key_groups.first, key_groups.last + 1)]

    def _find(self, key_group: int) -> Any:
        for source in self.sources:
            index = source.find(self.meta.key)
            if index is not None and key_group in source.key_groups():
                return source.entries(index, key_group)
        return None

    def write(self, writer: StateWriter, entries: Any, key_groups: KeyGroups) -> Any:
        """Return the bytes of one group."""
        return entries

    def release(self) -> None:
        """Nobody waits for it."""


class LiveKeyedSnapshot:
    """References to all keyed state; `encoded` makes bytes of them, once, on any thread."""

    def __init__(self, key_groups: KeyGroups, parts: Sequence[Any]) -> None:
        self._key_groups = key_groups
        self._parts = tuple(parts)
        self._encoded: KeyedSnapshot | None = None

    def encoded(self) -> KeyedSnapshot:
        """Return it as bytes."""
        if self._encoded is None:
            groups = [part.groups(self._key_groups) for part in self._parts]
            writer = StateWriter()
            sections = []
            for index in range(self._key_groups.last - self._key_groups.first + 1):
                written = []
                for part, group in zip(self._parts, groups, strict=True):
                    # Taken out, so that millions of references go a group at a time, not all at once.
                    entries, group[index] = group[index], None
                    written.append(part.write(writer, entries, self._key_groups) if entries else None)
                sections.append(make_section(written))
            self._encoded = KeyedSnapshot(
                self._key_groups.max_parallelism,
                self._key_groups.first,
                repr(self._key_groups.key_type),
                tuple(part.meta for part in self._parts),
                tuple(sections),
            )
            self.release()
        return self._encoded

    def release(self) -> None:
        """Say that nobody needs it any more."""
        for part in self._parts:
            part.release()
