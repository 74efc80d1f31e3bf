"""The content of regions of state: names, types and sizes, no values. For code that writes, reads and shows them."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass

from flinkbuf.checkpoints.handles import KeyedStateHandle, StateHandle
from flinkbuf.checkpoints.state_file import KEYED, OPERATOR, ROCKSDB, OpenInput, Region, Section
from flinkbuf.control.message_codec import Json
from flinkbuf.errors import CorruptDataError


@dataclass(frozen=True)
class StateMeta:
    """The description of a keyed state, or of a service of timers, in a snapshot."""

    name: str
    kind: str  # StateDescriptor.kind, or "timers"
    is_internal: bool = False  # made by an operator, with namespaces, not by a user's function
    has_ttl: bool = False
    type: str = ""  # of its values, as code that makes it

    @property
    def key(self) -> tuple[str, str]:
        """Return the unique key: users' states, an operator's own and timers have names of their own each."""
        return ("timers" if self.kind == "timers" else "internal" if self.is_internal else "user"), self.name


@dataclass(frozen=True)
class KeyedIndex:
    """The content of keyed state.

    Attributes
    ----------
    sections : tuple of Section
        Of the region itself. Where a backend keeps its own files (`files`, by name), most state is in those.
    """

    max_parallelism: int
    first_key_group: int
    last_key_group: int
    key_type: str
    metas: tuple[StateMeta, ...]
    sections: tuple[Section, ...]
    files: tuple[str, ...] = ()

    def sizes_by_key_group(self) -> dict[int, int]:
        """Return bytes of each key group that has any."""
        sizes: Counter[int] = Counter()
        for section in self.sections:
            sizes[section.key_group] += section.size
        return dict(sizes)

    def sizes_by_state(self) -> dict[StateMeta, int]:
        """Return bytes of each state."""
        sizes = dict.fromkeys(self.metas, 0)
        for section in self.sections:
            if section.state < len(self.metas):
                sizes[self.metas[section.state]] += section.size
        return sizes


def keyed_head(
    max_parallelism: int, first_key_group: int, last_key_group: int, key_type: str, metas: tuple[StateMeta, ...]
) -> Json:
    """Return the head of a region of keyed state."""
    return {
        "max_parallelism": max_parallelism,
        "first_key_group": first_key_group,
        "last_key_group": last_key_group,
        "key_type": key_type,
        "metas": [asdict(meta) for meta in metas],
    }


def index_of(region: Region) -> KeyedIndex:
    """Return the content of a region of keyed state."""
    head = region.head
    try:
        return KeyedIndex(
            int(head["max_parallelism"]),
            int(head["first_key_group"]),
            int(head["last_key_group"]),
            str(head["key_type"]),
            tuple(StateMeta(**meta) for meta in head["metas"]),
            region.sections,
            tuple(str(name) for name in head.get("files", ())),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptDataError(f"the head of keyed state has not the form it should have: {error!r}") from error


def keyed_index(handle: KeyedStateHandle, open_input: OpenInput | None) -> KeyedIndex:
    """Return the content of keyed state, reading its index only."""
    region = Region(handle.handle, open_input, KEYED + ROCKSDB)
    try:
        return index_of(region)
    finally:
        region.close()


@dataclass(frozen=True)
class OperatorStateInfo:
    """One list or broadcast state of an operator."""

    name: str
    mode: str  # "list", "union list" or "broadcast"
    count: int  # of elements or entries
    size: int  # bytes


def operator_states(region: Region) -> tuple[OperatorStateInfo, ...]:
    """Return the states in a region of operator state."""
    try:
        infos = tuple((str(each["name"]), str(each["mode"]), int(each["count"])) for each in region.head["states"])
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptDataError(f"the head of operator state has not the form it should have: {error!r}") from error
    if [section.state for section in region.sections] != list(range(len(infos))):
        raise CorruptDataError("operator state has not one section for each state")
    return tuple(OperatorStateInfo(*info, section.size) for info, section in zip(infos, region.sections, strict=True))


def operator_index(handle: StateHandle, open_input: OpenInput | None) -> tuple[OperatorStateInfo, ...]:
    """Return the states in operator state, reading its index only."""
    region = Region(handle, open_input, OPERATOR)
    try:
        return operator_states(region)
    finally:
        region.close()


def verify_state(handle: StateHandle, open_input: OpenInput | None) -> None:
    """Read operator or keyed state to its end; CorruptDataError if a byte is not as it was written."""
    region = Region(handle, open_input, KEYED + OPERATOR + ROCKSDB)
    try:
        region.verify()
    finally:
        region.close()
