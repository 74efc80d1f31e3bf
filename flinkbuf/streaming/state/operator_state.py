"""State that belongs to a subtask, not to a key: lists that are dealt out or given to all, and maps all have alike.

Flink: DefaultOperatorStateBackend, PartitionableListState, HeapBroadcastState.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from flinkbuf._core.value.own_value import copied, is_fixed_value
from flinkbuf.streaming.state.snapshot import OperatorSnapshot, saving
from flinkbuf.streaming.state.state import (
    BroadcastState,
    ListState,
    ListStateDescriptor,
    MapStateDescriptor,
    OperatorStateStore,
    ReadOnlyBroadcastState,
    StateDescriptor,
)

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
S = TypeVar("S")


class OperatorListState(ListState[T]):
    """A list of one subtask. What can change is copied on its way in and out."""

    def __init__(self, name: str, elements: Iterable[T] = ()) -> None:
        self._name = name
        self._elements = list(elements)

    def get(self) -> list[T]:
        return [copied(element) for element in self._elements]

    def add(self, value: T) -> None:
        self.add_all([value])

    def add_all(self, values: Iterable[T]) -> None:
        with saving("list state", self._name):
            self._elements += [copied(value) for value in values]

    def update(self, values: Iterable[T]) -> None:
        with saving("list state", self._name):
            self._elements = [copied(value) for value in values]

    def clear(self) -> None:
        self._elements = []

    def frozen(self) -> list[T]:
        """Return the elements as they are now, for a snapshot; they are never changed in place."""
        return list(self._elements)


class HeapBroadcastState(BroadcastState[K, V]):
    """A map of one subtask. What can change is copied on its way in and out."""

    def __init__(self, name: str, entries: Mapping[K, V] | None = None) -> None:
        self.name = name
        self._entries: dict[K, V] = dict(entries or {})
        self._lent: dict[K, V] = {}  # what readers were given: copies, as long as the entries stay what they are

    def get(self, key: K) -> V:
        return copied(self._value(key))

    def contains(self, key: K) -> bool:
        return self._entries.get(key) is not None

    def items(self) -> Iterator[tuple[K, V]]:
        return ((key, copied(value)) for key, value in self._entries.items())

    def keys(self) -> Iterator[K]:
        return iter(self._entries.keys())

    def values(self) -> Iterator[V]:
        return (copied(value) for value in self._entries.values())

    def is_empty(self) -> bool:
        return not self._entries

    def put(self, key: K, value: V) -> None:
        self.put_all({key: value})

    def put_all(self, dict_value: dict[K, V]) -> None:
        with saving("broadcast state", self.name):
            new = {copied(key): copied(value) for key, value in dict(dict_value).items()}
        self._entries.update(new)
        for key in new:
            self._lent.pop(key, None)

    def remove(self, key: K) -> None:
        self._entries.pop(key, None)
        self._lent.pop(key, None)

    def clear(self) -> None:
        self._entries.clear()
        self._lent.clear()

    def frozen(self) -> dict[K, V]:
        """Return the entries as they are now, for a snapshot; their values are never changed in place."""
        return dict(self._entries)

    def _value(self, key: K) -> Any:  # None, where there is none: the API has no type for that
        return self._entries.get(key)

    def lend(self, key: K) -> V:
        """Return the value of `key` to a reader, who must not change it: the same copy until it is put anew."""
        value = self._value(key)
        if is_fixed_value(value):
            return value
        if key not in self._lent:
            self._lent[key] = copied(value)
        return self._lent[key]

    def lend_all(self) -> Iterator[tuple[K, V]]:
        """Go over keys and values as `lend` gives them."""
        return ((key, self.lend(key)) for key in self._entries)

    def read_only(self) -> ReadOnlyHeapBroadcastState[K, V]:
        """Return a view that refuses to be written."""
        return ReadOnlyHeapBroadcastState(self)


class ReadOnlyHeapBroadcastState(ReadOnlyBroadcastState[K, V]):
    """Shows a broadcast state to those who may not change it."""

    def __init__(self, state: HeapBroadcastState[K, V]) -> None:
        self._state = state

    def get(self, key: K) -> V:
        return self._state.lend(key)

    def contains(self, key: K) -> bool:
        return self._state.contains(key)

    def is_empty(self) -> bool:
        return self._state.is_empty()

    def items(self) -> Iterator[tuple[K, V]]:
        return self._state.lend_all()

    def keys(self) -> Iterator[K]:
        return self._state.keys()

    def values(self) -> Iterator[V]:
        return (value for _, value in self._state.lend_all())

    def clear(self) -> None:
        raise TypeError(self._refusal())

    def __getattr__(self, name: str) -> object:
        # As in PyFlink the methods that write are not there; the error says why.
        raise AttributeError(self._refusal() if name in ("put", "put_all", "remove") else name)

    def _refusal(self) -> str:
        return (
            f"the broadcast state {self._state.name!r} can only be read here: write it in process_broadcast_element(), "
            f"which every subtask calls with the same records"
        )


class OperatorStateBackend(OperatorStateStore):
    """The operator states of one subtask, by name."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, StateDescriptor, Any]] = {}
        self._alike: set[str] = set()
        self._restored = OperatorSnapshot()

    def get_list_state(self, state_descriptor: ListStateDescriptor) -> OperatorListState:
        """Return a list; at another parallelism all elements of all subtasks are dealt out anew."""
        return self._state(
            "list",
            state_descriptor,
            lambda: OperatorListState(state_descriptor.name, self._restored.lists.get(state_descriptor.name, ())),
        )

    def get_alike_list_state(self, state_descriptor: ListStateDescriptor) -> OperatorListState:
        """Return a union list of which every subtask keeps the same: a part that is missing changes nothing.

        Where a part of another union list is missing, since its subtask has come to its end, there is no checkpoint.
        """
        self._alike.add(state_descriptor.name)
        return self.get_union_list_state(state_descriptor)

    def get_union_list_state(self, state_descriptor: ListStateDescriptor) -> OperatorListState:
        """Return a list; after a restore each subtask has all elements of all subtasks."""
        return self._state(
            "union list",
            state_descriptor,
            lambda: OperatorListState(state_descriptor.name, self._restored.union_lists.get(state_descriptor.name, ())),
        )

    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> HeapBroadcastState:
        """Return a map of which each subtask has a copy."""
        name = state_descriptor.name
        return self._state(
            "broadcast", state_descriptor, lambda: HeapBroadcastState(name, self._restored.broadcasts.get(name))
        )

    def _state(self, mode: str, descriptor: StateDescriptor, make: Callable[[], S]) -> S:
        known = self._known.get(descriptor.name)
        if known is None:
            self._check_restored(mode, descriptor.name)
            known = self._known[descriptor.name] = mode, descriptor, make()
        if known[0] != mode or known[1].type_info != descriptor.type_info:
            raise TypeError(
                f"there is an operator state {descriptor.name!r} already, {known[0]} of {known[1].type_info!r}, not "
                f"{mode} of {descriptor.type_info!r}: give one of them another name"
            )
        return known[2]

    def _check_restored(self, mode: str, name: str) -> None:
        """Raise if the snapshot has a state of that name of another mode: its elements would not be found."""
        restored = self._restored
        had = {"list": restored.lists, "union list": restored.union_lists, "broadcast": restored.broadcasts}
        other = next((each for each, states in had.items() if each != mode and name in states), None)
        if other is not None:
            raise TypeError(
                f"the snapshot has an operator state {name!r} that is a {other}, not a {mode}: give one of them "
                "another name"
            )

    def restore(self, snapshot: OperatorSnapshot) -> None:
        """Begin with what a snapshot holds."""
        self._restored = snapshot

    def snapshot(self) -> dict[str, Any]:
        """Return what all states hold, as fields of an `OperatorSnapshot`; those not asked for stay as they were."""
        live: dict[str, dict[str, object]] = {"list": {}, "union list": {}, "broadcast": {}}
        for name, (mode, _, state) in self._known.items():
            live[mode][name] = state.frozen()
        return {
            "lists": {**self._restored.lists, **live["list"]},
            "union_lists": {**self._restored.union_lists, **live["union list"]},
            "broadcasts": {**self._restored.broadcasts, **live["broadcast"]},
            "alike": frozenset(self._alike),
        }
