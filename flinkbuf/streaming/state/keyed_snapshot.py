"""The keyed state of an operator on its way into bytes. Flink: HeapSnapshotStrategy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from flinkbuf._core.state.keyed_state import KeyedState
from flinkbuf._core.state.state_codec import GroupWriter, TableEncoder
from flinkbuf._core.state.state_table import FrozenTable
from flinkbuf._core.value.type_codec import TypeCodec
from flinkbuf.checkpoints.handles import KeyedStateHandle
from flinkbuf.checkpoints.state_file import KEYED, Region, SectionWriter, SnapshotOutput
from flinkbuf.checkpoints.state_index import StateMeta, keyed_head
from flinkbuf.streaming.state.key_groups import KeyGroups
from flinkbuf.streaming.state.snapshot import KeyedSnapshot, SnapshotTarget, StoredState

if TYPE_CHECKING:
    from flinkbuf.streaming.state.snapshot import StateBytes

# Bytes that are held before they are written, however large the state is. More would not stay in the processor's cache
# on their way from the values into the file, which halves the speed.
BUFFER_SIZE = 1 << 21


@dataclass(frozen=True)
class StateSections:
    """Takes the sections of one state."""

    writer: SectionWriter
    state: int  # its place in the head of the region

    def put(self, key_group: int, data: StateBytes) -> None:
        """Write one section."""
        self.writer.put(self.state, key_group, data)

    def put_pieces(self, key_group: int, pieces: Sequence[bytes | memoryview]) -> None:
        """Write one section, whose bytes nobody changes."""
        self.writer.put_pieces(self.state, key_group, pieces)

    def put_buffers(self, buffers: GroupWriter) -> None:
        """Write a section of each key group that has bytes, and empty the buffers."""
        self.writer.put_groups(self.state, *buffers.gather())
        buffers.clear()


class StatePart(Protocol):
    """One state, or the timers of one service and domain, at the moment of the snapshot."""

    @property
    def meta(self) -> StateMeta:
        """Return the description of the state in the snapshot."""
        ...

    def write(self, writer: StateSections, buffers: GroupWriter, key_groups: KeyGroups) -> None:
        """Write the whole state; `buffers` are empty before and afterwards."""
        ...

    def release(self) -> None:
        """Release the part: no writer needs it any more."""
        ...


@dataclass(frozen=True)
class FrozenState:
    """One state with all its values."""

    meta: StateMeta
    state: KeyedState
    codec: TypeCodec | None
    table: FrozenTable
    expire_at: int | None  # values that have expired by then are left out; None: none are

    def write(self, writer: StateSections, buffers: GroupWriter, key_groups: KeyGroups) -> None:
        """Write all entries."""
        encoder = TableEncoder(self.table, self.state, self.codec, self.meta.has_ttl, self.expire_at)
        while not encoder.write(buffers, BUFFER_SIZE):
            writer.put_buffers(buffers)
        writer.put_buffers(buffers)

    def release(self) -> None:
        """Let the operator write into the table again."""
        self.table.release()


@dataclass(frozen=True)
class FrozenTimers:
    """The timers of one service and one domain, as (time, token, namespace)."""

    meta: StateMeta
    timers: Iterable[object]

    def write(self, writer: StateSections, buffers: GroupWriter, key_groups: KeyGroups) -> None:
        """Write all timers."""
        timers = iter(self.timers)
        while not buffers.put_timers(timers, BUFFER_SIZE):
            writer.put_buffers(buffers)
        writer.put_buffers(buffers)

    def release(self) -> None:
        """Do nothing: the timers are a copy, which holds up no writer."""


@dataclass(frozen=True)
class UnreadState:
    """A state of an earlier snapshot that no function has asked for since: it goes on from snapshot to snapshot."""

    meta: StateMeta
    sources: Sequence[StoredState]

    def write(self, writer: StateSections, buffers: GroupWriter, key_groups: KeyGroups) -> None:
        """Write the state's bytes, and keep them: the snapshot they come from may be deleted after this one."""
        for source in self.sources:
            for key_group, data in source.keep(key_groups):
                writer.put(key_group, data)

    def release(self) -> None:
        """Do nothing: the state is read only."""


class LiveKeyedSnapshot:
    """References to all keyed state, in the form that every backend reads once they are written."""

    def __init__(self, key_groups: KeyGroups, parts: Sequence[StatePart]) -> None:
        self._key_groups = key_groups
        self._parts = tuple(parts)
        self._readable: KeyedSnapshot | None = None

    def write(self, target: SnapshotTarget) -> Callable[[], KeyedStateHandle]:
        """Write all parts, state after state; `release` is still to be called."""
        groups = self._key_groups
        writer = SectionWriter(target.output, KEYED, target.is_compressed)
        write_parts(writer, self._parts, groups, target.is_cancelled)
        metas = tuple(part.meta for part in self._parts)
        place = writer.finish(
            keyed_head(groups.max_parallelism, groups.first, groups.last, repr(groups.key_type), metas)
        )
        return lambda: KeyedStateHandle(groups.first, groups.last, groups.max_parallelism, target.output.handle(*place))

    def readable(self) -> KeyedSnapshot:
        """Return the snapshot in the form that a backend restores; written once, and released."""
        if self._readable is None:
            output = SnapshotOutput(None, 0)
            state = self.write(SnapshotTarget(output))
            output.finish()
            self._readable = KeyedSnapshot(Region(state().handle, None, KEYED))
            self.release()
        return self._readable

    def release(self) -> None:
        """Release all parts: no writer needs them any more; from any thread."""
        for part in self._parts:
            part.release()


def write_parts(
    writer: SectionWriter, parts: Sequence[StatePart], key_groups: KeyGroups, is_cancelled: Callable[[], bool]
) -> None:
    """Write sections of all parts; the index of a part is its state."""
    buffers = GroupWriter(key_groups.grouper(), key_groups.key_codec, is_cancelled)
    for index, part in enumerate(parts):
        part.write(StateSections(writer, index), buffers, key_groups)
