"""The state of one operator of one subtask at one moment.

Taken in two parts: the first, on the task's thread, takes references; the second makes bytes and may run on any thread
later. Keyed state and timers lie by key group, so that a subtask of another parallelism reads its own groups only.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from flinkbuf._core.value.type_codec import TypeCodec
from flinkbuf.checkpoints.files import StateOutput
from flinkbuf.checkpoints.handles import KeyedStateHandle, StateHandle
from flinkbuf.checkpoints.options import SnapshotKind
from flinkbuf.checkpoints.state_file import (
    KEYED,
    OPERATOR,
    SNAPSHOT,
    OpenInput,
    Region,
    SectionWriter,
    SnapshotOutput,
)
from flinkbuf.checkpoints.state_index import index_of, operator_states
from flinkbuf.errors import CorruptDataError, state_refused

if TYPE_CHECKING:
    from flinkbuf.streaming.state.key_groups import KeyGroups

_OBJECTS = TypeCodec("OBJECT")
_MODES = {"list": "lists", "union list": "union_lists", "broadcast": "broadcasts"}


def never() -> bool:
    """Return False: the snapshot is never cancelled."""
    return False


StateBytes = bytes | memoryview


@contextmanager
def saving(what: str, name: str) -> Iterator[None]:
    """Name the state in an error that says its values cannot be written."""
    try:
        yield
    except (TypeError, ValueError, OverflowError) as error:
        raise state_refused(error, f"the {what} {name!r}") from error


@dataclass(frozen=True)
class SnapshotTarget:
    """The files and options that a snapshot is written with."""

    output: SnapshotOutput
    is_compressed: bool = False
    kind: SnapshotKind = SnapshotKind.SAVEPOINT
    checkpoint_id: int = 0
    open_shared: Callable[[], StateOutput] | None = None  # a new file that further checkpoints may use; None: no such
    is_cancelled: Callable[[], bool] = never
    shared: list[StateOutput] = field(default_factory=list)  # those that were made: deleted if the snapshot fails


class KeyedPart(Protocol):
    """Keyed state of one operator, still to be written or out of a snapshot."""

    def write(self, target: SnapshotTarget) -> Callable[[], KeyedStateHandle]:
        """Write the state; the returned function gives its handle, once the output is finished."""
        ...

    def readable(self) -> KeyedSnapshot:
        """Return the state in the form that a backend restores."""
        ...

    def release(self) -> None:
        """Release the state: no writer needs it any more."""
        ...


class StoredState:
    """One state out of a snapshot: bytes by key group, read from its file, or kept.

    Used by the task's thread, and by that which writes snapshots: a state not asked for goes into those.
    """

    def __init__(self, snapshot: KeyedSnapshot, index: int) -> None:
        self._snapshot, self._index = snapshot, index
        self._kept: list[tuple[int, bytes]] | None = None

    def sections(self, key_groups: KeyGroups) -> Iterator[tuple[int, StateBytes]]:
        """Yield the bytes of the state in those of `key_groups`, as (key group, bytes)."""
        if self._kept is not None:
            return iter(self._kept)
        return self._snapshot.read(self._index, key_groups)

    def keep(self, key_groups: KeyGroups) -> list[tuple[int, bytes]]:
        """Return the sections, and keep them from now on: the file may be deleted later."""
        if self._kept is None:
            self._kept = [(group, bytes(data)) for group, data in self.sections(key_groups)]
        return self._kept


class KeyedSnapshot:
    """Keyed state and timers out of a snapshot, read when they are asked for. Flink: KeyGroupsStateHandle."""

    def __init__(self, region: Region) -> None:
        self._region = region
        self.index = index_of(region)
        region.close()
        self.metas = self.index.metas
        self._stored: dict[int, StoredState] = {}
        self._lock = threading.Lock()

    def key_groups(self) -> range:
        """Return the key groups of the snapshot."""
        return range(self.index.first_key_group, self.index.last_key_group + 1)

    def find(self, key: tuple[str, str]) -> int | None:
        """Return the place of a state among `metas`."""
        return next((index for index, meta in enumerate(self.metas) if meta.key == key), None)

    def stored(self, index: int) -> StoredState:
        """Return the bytes of a state; the same object until it is forgotten."""
        return self._stored.setdefault(index, StoredState(self, index))

    def forget(self, index: int) -> None:
        """Drop a state; code that has it already may go on with it."""
        self._stored.pop(index, None)

    def read(self, index: int, key_groups: KeyGroups) -> Iterator[tuple[int, StateBytes]]:
        """Yield the bytes of one state in some key groups."""
        found = [each for each in self._region.sections if each.state == index and each.key_group in key_groups]
        with self._lock:
            try:
                for section, data in self._region.read(found):
                    yield section.key_group, data
            finally:
                self._region.close()

    def write(self, target: SnapshotTarget) -> Callable[[], KeyedStateHandle]:
        """Write the snapshot as it is."""
        writer = SectionWriter(target.output, KEYED, target.is_compressed)
        for section, data in self._region.read(self._region.sections):
            writer.put(section.state, section.key_group, data)
        place, index = writer.finish(self._region.head), self.index
        return lambda: KeyedStateHandle(
            index.first_key_group, index.last_key_group, index.max_parallelism, target.output.handle(*place)
        )

    def readable(self) -> KeyedSnapshot:
        """Return this snapshot."""
        return self

    def release(self) -> None:
        """Do nothing: no operator waits for stored state."""


@dataclass(frozen=True)
class OperatorSnapshot:
    """All state of one operator. Flink: OperatorSnapshotFutures, OperatorSubtaskState.

    After a rescale a subtask is given several keyed parts, and takes its key groups out of each.

    Examples
    --------
    >>> snapshot = OperatorSnapshot(lists={"offsets": [3, 5]})
    >>> OperatorSnapshot.decode(snapshot.encode()).lists
    {'offsets': [3, 5]}
    """

    keyed: tuple[KeyedPart, ...] = ()
    lists: Mapping[str, list[object]] = field(default_factory=dict)  # each subtask has some of the elements
    union_lists: Mapping[str, list[object]] = field(default_factory=dict)  # each gets all elements of all
    broadcasts: Mapping[str, dict[object, object]] = field(default_factory=dict)  # all have the same
    alike: frozenset[str] = frozenset()  # union lists of which each part says all; known while the operator runs

    @property
    def has_alike_unions(self) -> bool:
        """Return whether no subtask's part of a union list is missed if it is not there."""
        return bool(self.union_lists) and self.alike.issuperset(self.union_lists)

    def write_operator(self, target: SnapshotTarget) -> tuple[int, int] | None:
        """Write what belongs to the subtask, not to keys; return offset and size, or None if there is nothing."""
        writer = SectionWriter(target.output, OPERATOR, target.is_compressed)
        states: list[dict[str, object]] = []
        for mode, attribute in _MODES.items():
            for name, values in getattr(self, attribute).items():
                with saving(f"{mode} state", name):
                    data = _OBJECTS.serialize(values)
                writer.put(len(states), 0, data)
                states.append({"name": name, "mode": mode, "count": len(values)})
        return writer.finish({"states": states}) if states else None

    @staticmethod
    def read_operator(handle: StateHandle, open_input: OpenInput | None) -> OperatorSnapshot:
        """Return what `write_operator` was called on, without keyed state."""
        found: dict[str, dict[str, Any]] = {"list": {}, "union list": {}, "broadcast": {}}
        region = Region(handle, open_input, OPERATOR)
        try:
            infos = operator_states(region)
            for section, data in region.read(region.sections):
                info = infos[section.state]
                values = _OBJECTS.deserialize(data)
                if info.mode not in found or type(values) is not (dict if info.mode == "broadcast" else list):
                    raise CorruptDataError(f"the operator state {info.name!r} is no {info.mode}: {type(values)}")
                found[info.mode][info.name] = values
        finally:
            region.close()
        return OperatorSnapshot((), found["list"], found["union list"], found["broadcast"])

    def encode(self) -> bytes:
        """Return the snapshot as bytes, and release its parts; from any thread."""
        try:
            parts = SnapshotOutput(None, 0)
            target = SnapshotTarget(parts)
            operator = self.write_operator(target)
            keyed = [part.write(target) for part in self.keyed]
            parts.finish()
        finally:
            self.release()
        regions = [each().handle.data for each in keyed]
        if operator is not None:
            regions.insert(0, parts.handle(*operator).data)
        output = SnapshotOutput(None, 0)
        writer = SectionWriter(output, SNAPSHOT)
        for index, region in enumerate(regions):
            writer.put(index, 0, region)
        place = writer.finish({"has_operator": operator is not None})
        output.finish()
        return output.handle(*place).data

    @staticmethod
    def decode(data: StateBytes) -> OperatorSnapshot:
        """Return what `encode` was called on, keyed parts still as bytes. CorruptDataError if they are not its."""
        whole = Region(StateHandle(len(data), data=bytes(data)), None, SNAPSHOT)
        handles = [StateHandle(len(part), data=bytes(part)) for _, part in whole.read(whole.sections)]
        snapshot = OperatorSnapshot.read_operator(handles.pop(0), None) if whole.head["has_operator"] else None
        keyed = tuple(KeyedSnapshot(Region(handle, None, KEYED)) for handle in handles)
        if snapshot is None:
            return OperatorSnapshot(keyed)
        return OperatorSnapshot(keyed, snapshot.lists, snapshot.union_lists, snapshot.broadcasts)

    def release(self) -> None:
        """Release all parts when they have been written, or never will be; from any thread."""
        for part in self.keyed:
            part.release()


def redistribute(snapshots: Iterable[OperatorSnapshot], parallelism: int, subtask_index: int) -> OperatorSnapshot:
    """Return what a subtask restores when `snapshots`, one an old subtask in order, are spread over `parallelism`.

    Lists are dealt out, but left as they are where the parallelism is; union lists go to all; broadcast states are
    those of old subtasks in turn. Flink: StateAssignmentOperation, RoundRobinOperatorStateRepartitioner.

    Examples
    --------
    >>> old = [OperatorSnapshot(lists={"offsets": [1, 2, 3]}), OperatorSnapshot(lists={"offsets": [4, 5]})]
    >>> [redistribute(old, 3, subtask).lists for subtask in range(3)]
    [{'offsets': [1, 2]}, {'offsets': [3, 4]}, {'offsets': [5]}]
    """
    old = list(snapshots)
    union: dict[str, list[object]] = {}
    for snapshot in old:
        for name, elements in snapshot.union_lists.items():
            union.setdefault(name, []).extend(elements)
    return OperatorSnapshot(
        keyed=tuple(part for snapshot in old for part in snapshot.keyed),
        lists=_deal(old, parallelism, subtask_index) if len(old) != parallelism else old[subtask_index].lists,
        union_lists=union,
        broadcasts=old[subtask_index % len(old)].broadcasts if old else {},
    )


def _deal(old: list[OperatorSnapshot], parallelism: int, subtask_index: int) -> dict[str, list[object]]:
    """Deal the elements of each list out in order, to each subtask as many as to any other or one more.

    The subtask that gets one more changes from list to list.
    """
    names = dict.fromkeys(name for snapshot in old for name in snapshot.lists)
    dealt: dict[str, list[object]] = {}
    start = 0
    for name in names:
        elements = [element for snapshot in old for element in snapshot.lists.get(name, ())]
        base, extra = divmod(len(elements), parallelism)
        position = 0
        for step in range(parallelism):
            count = base + (step < extra)
            if (start + step) % parallelism == subtask_index:
                dealt[name] = elements[position : position + count]
            position += count
        start = (start + extra) % parallelism
    return dealt
