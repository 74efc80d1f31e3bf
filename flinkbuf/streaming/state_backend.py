"""Keeps the keyed state of one operator and gives its functions access to it.

Flink: KeyedStateBackend, HeapKeyedStateBackend.
"""

from __future__ import annotations

from typing import Any

from flinkbuf._core import keyed_state
from flinkbuf._core.key_context import KeyContext, key_of
from flinkbuf.streaming.clock import Clock
from flinkbuf.streaming.key_groups import KeyGroups
from flinkbuf.streaming.snapshot import KeyedSnapshot, OperatorSnapshot, StateMeta
from flinkbuf.streaming.state import StateDescriptor
from flinkbuf.streaming.timers import TimerServices


class KeyedStateBackend:
    """The keyed states of one operator, by name; and what a snapshot holds of them and of its timers.

    Parameters
    ----------
    key_context : KeyContext
        Says whose state is meant.
    key_groups : KeyGroups
        Of the subtask.
    clock : Clock
        Time that values live by.
    timers : TimerServices
        Of the operator; they belong to keys, so they go into the same snapshots.
    """

    def __init__(self, key_context: KeyContext, key_groups: KeyGroups, clock: Clock, timers: TimerServices) -> None:
        self.key_context = key_context
        self.key_groups = key_groups
        self._clock = clock
        self._timers = timers
        self._states: dict[tuple[str, bool], tuple[StateMeta, Any]] = {}
        self._restored: tuple[KeyedSnapshot, ...] = ()

    def get_state(self, descriptor: StateDescriptor) -> Any:
        """Return the state of a user's function; the same object for the same name.

        Raises
        ------
        TypeError
            If a state of that name is of another kind or type.
        """
        return self._state(descriptor, False)

    def get_internal_state(self, descriptor: StateDescriptor) -> Any:
        """Return a state of the operator itself, with ``set_namespace`` and ``merge_namespaces``.

        Its name is its own: a user's state may have the same.
        """
        return self._state(descriptor, True)

    def _state(self, descriptor: StateDescriptor, is_internal: bool) -> Any:
        meta = StateMeta(
            descriptor.name, descriptor.kind, is_internal, descriptor.ttl_config is not None, descriptor.type_info
        )
        known = self._states.get((meta.name, is_internal))
        if known is None:
            state = _make(descriptor, self.key_context)
            self._fill(meta, state)
            self._states[meta.name, is_internal] = meta, state
            return state
        _check_same(known[0], meta)
        return known[1]

    def _fill(self, meta: StateMeta, state: Any) -> None:
        """Put what a snapshot has under this name into a new state."""
        for snapshot in self._restored:
            if (meta.name, meta.is_internal) not in snapshot.tables:
                continue
            _check_same(snapshot.tables[meta.name, meta.is_internal][0], meta)
            for namespace, key, value in snapshot.entries((meta.name, meta.is_internal), self.key_groups, key_of):
                state.restore(namespace, self.key_context.token_of(key), value)

    def snapshot(self) -> KeyedSnapshot:
        """Take references to all there is; the operator may go on at once."""
        return KeyedSnapshot(
            self.key_groups,
            {name: (meta, state.freeze()) for name, (meta, state) in self._states.items()},
            {name: (_with_keys(event), _with_keys(wall)) for name, (event, wall) in self._timers.timers().items()},
        )

    def restore(self, snapshot: OperatorSnapshot) -> None:
        """Begin with what snapshots hold of this subtask's key groups; a state is read when it is asked for."""
        for keyed in snapshot.keyed:
            if keyed.key_groups.max_parallelism != self.key_groups.max_parallelism:
                raise ValueError(
                    f"the snapshot was taken with a max parallelism of {keyed.key_groups.max_parallelism}, but the "
                    f"operator has {self.key_groups.max_parallelism}: set the first with set_max_parallelism()"
                )
        self._restored = snapshot.keyed
        group_of = self.key_groups.grouper()
        for keyed in snapshot.keyed:
            for name, both in keyed.timers.items():
                mine = [
                    [
                        (time, self.key_context.token_of(key), ns)
                        for time, key, ns in timers
                        if group_of(key) in self.key_groups
                    ]
                    for timers in both
                ]
                self._timers.restore(name, *mine)


def _with_keys(timers: list[Any]) -> list[Any]:
    return [(time, key_of(token), namespace) for time, token, namespace in timers]


def _make(descriptor: Any, key_context: KeyContext) -> Any:
    if descriptor.kind == "value":
        return keyed_state.KeyedValueState(descriptor.name, key_context)
    if descriptor.kind == "list":
        return keyed_state.KeyedListState(descriptor.name, key_context)
    if descriptor.kind == "map":
        return keyed_state.KeyedMapState(descriptor.name, key_context)
    if descriptor.kind == "reducing":
        function = descriptor.get_reduce_function()
        return keyed_state.KeyedReducingState(descriptor.name, key_context, getattr(function, "reduce", function))
    if descriptor.kind == "aggregating":
        return keyed_state.KeyedAggregatingState(descriptor.name, key_context, descriptor.get_agg_function())
    raise TypeError(f"expected a descriptor of one of the five kinds of keyed state, got {descriptor!r}")


def _check_same(known: StateMeta, meta: StateMeta) -> None:
    for what in ("kind", "type", "has_ttl"):
        one, other = getattr(known, what), getattr(meta, what)
        if one != other:
            raise TypeError(
                f"there is a state {meta.name!r} already whose {what} is {one}, not {other}: give one of them another "
                f"name"
            )
