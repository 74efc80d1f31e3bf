"""The state of one operator of one subtask at one moment.

Taken in two parts: the first, on the task's thread, takes references; the second, `encode`, makes bytes and may run on
any thread later. Keyed state and timers lie by key group, each group one section, so that a subtask of another
parallelism reads the sections of its own groups only.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from flinkbuf._core.type_codec import TypeCodec
from flinkbuf.errors import CorruptDataError

_MAGIC = b"fbst"
_VERSION = 1
_OBJECTS = TypeCodec("OBJECT")


@dataclass(frozen=True)
class StateMeta:
    """What a snapshot says of a keyed state, or of a service of timers, beside its entries."""

    name: str
    kind: str  # StateDescriptor.kind, or "timers"
    is_internal: bool = False  # made by an operator, with namespaces, not by a user's function
    has_ttl: bool = False
    type: str = ""  # of its values, as code that makes it

    @property
    def key(self) -> tuple[str, str]:
        """What no other has: users' states, an operator's own and timers have names of their own each."""
        return ("timers" if self.kind == "timers" else "internal" if self.is_internal else "user"), self.name


class KeyedPart(Protocol):
    """Keyed state, encoded or still to be."""

    def encoded(self) -> KeyedSnapshot:
        """Return it as bytes."""
        ...

    def release(self) -> None:
        """Say that nobody needs it any more."""
        ...


@dataclass(frozen=True)
class KeyedSnapshot:
    """Keyed state and timers as bytes. Flink: KeyGroupsStateHandle."""

    max_parallelism: int
    first_key_group: int
    key_type: str
    metas: tuple[StateMeta, ...]
    sections: tuple[Any, ...]  # bytes of each key group, from the first on

    def encoded(self) -> KeyedSnapshot:
        """Return itself."""
        return self

    def release(self) -> None:
        """Nobody waits for it."""

    def key_groups(self) -> range:
        """Return the groups that there are sections of."""
        return range(self.first_key_group, self.first_key_group + len(self.sections))

    def find(self, key: tuple[str, str]) -> int | None:
        """Return the place of a state among `metas`."""
        return next((index for index, meta in enumerate(self.metas) if meta.key == key), None)

    def entries(self, index: int, key_group: int) -> Any:
        """Return the bytes of one state in one key group; None if it has nothing there."""
        section, position = memoryview(self.sections[key_group - self.first_key_group]), 0
        while position < len(section):
            found, size = struct.unpack_from(">IQ", section, position)
            position += 12
            if found == index:
                return section[position : position + size]
            position += size
        return None


def make_section(entries: Sequence[bytes | memoryview | None]) -> bytes:
    """Return the section of a key group, made of the bytes of each state in the order of the metas."""
    parts: list[Any] = []
    for index, data in enumerate(entries):
        if data:
            parts += (struct.pack(">IQ", index, len(data)), data)
    return b"".join(parts)


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
    lists: Mapping[str, list[Any]] = field(default_factory=dict)  # each subtask has some of the elements
    union_lists: Mapping[str, list[Any]] = field(default_factory=dict)  # each gets all elements of all
    broadcasts: Mapping[str, dict[Any, Any]] = field(default_factory=dict)  # all have the same

    def encode(self) -> bytes:
        """Return all of it as bytes, and release what they were made of; from any thread."""
        try:
            parts: list[bytes] = [_block(_OBJECTS.serialize((self.lists, self.union_lists, self.broadcasts)))]
            for part in self.keyed:
                keyed = part.encoded()
                head = {**asdict(keyed), "metas": [asdict(meta) for meta in keyed.metas]}
                head["sections"] = [len(section) for section in keyed.sections]
                parts += (_block(json.dumps(head).encode()), *keyed.sections)
        finally:
            self.release()
        body = b"".join((_MAGIC, struct.pack(">H", _VERSION), *parts))
        return body + struct.pack(">I", zlib.crc32(body))

    @staticmethod
    def decode(data: bytes) -> OperatorSnapshot:
        """Return what `encode` was called on, keyed parts still as bytes. CorruptDataError if they are not its."""
        view = memoryview(data)
        if len(view) < 10 or bytes(view[:4]) != _MAGIC:
            raise CorruptDataError("these bytes are not the snapshot of an operator")
        (version,) = struct.unpack_from(">H", view, 4)
        if version != _VERSION:
            raise CorruptDataError(f"the snapshot has version {version}, and this flinkbuf reads version {_VERSION}")
        if zlib.crc32(view[:-4]) != struct.unpack_from(">I", view, len(view) - 4)[0]:
            raise CorruptDataError("the snapshot is damaged: its checksum does not match")
        head, position = _read_block(view, 6)
        lists, union_lists, broadcasts = _OBJECTS.deserialize(head)
        keyed: list[KeyedPart] = []
        while position < len(view) - 4:
            head, position = _read_block(view, position)
            fields = json.loads(bytes(head))
            sections = []
            for size in fields.pop("sections"):
                sections.append(view[position : position + size])
                position += size
            metas = tuple(StateMeta(**meta) for meta in fields.pop("metas"))
            keyed.append(KeyedSnapshot(**fields, metas=metas, sections=tuple(sections)))
        return OperatorSnapshot(tuple(keyed), lists, union_lists, broadcasts)

    def release(self) -> None:
        """Say that it has been written, or never will be; from any thread."""
        for part in self.keyed:
            part.release()


def _block(data: bytes) -> bytes:
    return struct.pack(">Q", len(data)) + data


def _read_block(view: memoryview, position: int) -> tuple[memoryview, int]:
    (size,) = struct.unpack_from(">Q", view, position)
    return view[position + 8 : position + 8 + size], position + 8 + size


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
    union: dict[str, list[Any]] = {}
    for snapshot in old:
        for name, elements in snapshot.union_lists.items():
            union.setdefault(name, []).extend(elements)
    return OperatorSnapshot(
        keyed=tuple(part for snapshot in old for part in snapshot.keyed),
        lists=_deal(old, parallelism, subtask_index) if len(old) != parallelism else old[subtask_index].lists,
        union_lists=union,
        broadcasts=old[subtask_index % len(old)].broadcasts if old else {},
    )


def _deal(old: list[OperatorSnapshot], parallelism: int, subtask_index: int) -> dict[str, list[Any]]:
    """Deal the elements of each list out in order, to each subtask as many as to any other or one more.

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
