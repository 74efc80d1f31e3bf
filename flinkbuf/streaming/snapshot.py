"""The state of one operator of one subtask at one moment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from flinkbuf._core.state_table import FrozenTable
from flinkbuf.streaming.key_groups import KeyGroups


@dataclass(frozen=True)
class StateMeta:
    """What a snapshot says of a state beside its values."""

    name: str
    kind: str  # StateDescriptor.kind
    is_internal: bool  # made by an operator, with namespaces, not by a user's function
    has_ttl: bool
    type: Any  # TypeInformation, or None


@dataclass(frozen=True)
class KeyedSnapshot:
    """Keyed state and timers. Flink: KeyedStateHandle."""

    key_groups: KeyGroups
    tables: Mapping[tuple[str, bool], tuple[StateMeta, FrozenTable]]
    timers: Mapping[str, tuple[list[Any], list[Any]]]  # by service: event time, processing time; (time, key, namespace)

    def entries(self, meta_key: tuple[str, bool], key_groups: KeyGroups, key_of: Any) -> Iterator[tuple[Any, Any, Any]]:
        """Go over (namespace, key, value) of one state in the groups that are given."""
        group_of = key_groups.grouper()
        for namespace, space in self.tables[meta_key][1].spaces.items():
            for token, value in space.items():
                key = key_of(token)
                if group_of(key) in key_groups:
                    yield namespace, key, value


@dataclass(frozen=True)
class OperatorSnapshot:
    """All state of one operator. Flink: OperatorSnapshotFutures, OperatorSubtaskState.

    After a rescale a subtask is given several keyed parts, and takes its key groups out of each.
    """

    keyed: tuple[KeyedSnapshot, ...] = ()
    lists: Mapping[str, list[Any]] = field(default_factory=dict)  # each subtask has some of the elements
    union_lists: Mapping[str, list[Any]] = field(default_factory=dict)  # each gets all elements of all
    broadcasts: Mapping[str, dict[Any, Any]] = field(default_factory=dict)  # all have the same

    def release(self) -> None:
        """Say that it has been written, or never will be; from any thread."""
        for keyed in self.keyed:
            for _, table in keyed.tables.values():
                table.release()


def redistribute(snapshots: Iterable[OperatorSnapshot], parallelism: int, subtask_index: int) -> OperatorSnapshot:
    """Return what a subtask restores when `snapshots`, one an old subtask in order, are spread over `parallelism`."""
    old = list(snapshots)
    union: dict[str, list[Any]] = {}
    for snapshot in old:
        for name, elements in snapshot.union_lists.items():
            union.setdefault(name, []).extend(elements)
    lists = _split(old, parallelism, subtask_index) if len(old) != parallelism else old[subtask_index].lists
    return OperatorSnapshot(
        keyed=tuple(keyed for snapshot in old for keyed in snapshot.keyed),
        lists=lists,
        union_lists=union,
        broadcasts=old[subtask_index % len(old)].broadcasts if old else {},
    )


def _split(old: list[OperatorSnapshot], parallelism: int, subtask_index: int) -> dict[str, list[Any]]:
    """Deal the elements of each list out in order, each subtask as many as any other or one more.

    Who gets one more moves on from list to list, so that no subtask gets it each time.
    """
    names = dict.fromkeys(name for snapshot in old for name in snapshot.lists)
    dealt: dict[str, list[Any]] = {}
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
