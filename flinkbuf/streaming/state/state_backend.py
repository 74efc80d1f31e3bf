"""Keeps the keyed state of one operator and gives its functions access to it.

Flink: KeyedStateBackend, HeapKeyedStateBackend.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flinkbuf._core.state import keyed_state, ttl_state
from flinkbuf._core.state.key_context import KeyContext, key_of
from flinkbuf._core.state.state_codec import read_entries, read_timers
from flinkbuf.checkpoints.state_index import KeyedIndex, StateMeta
from flinkbuf.streaming.state.column_state import ColumnState, FrozenColumns, meta_of, restore_columns
from flinkbuf.streaming.state.key_groups import KeyGroups, codec_of
from flinkbuf.streaming.state.keyed_snapshot import FrozenState, FrozenTimers, LiveKeyedSnapshot, UnreadState
from flinkbuf.streaming.state.snapshot import KeyedPart, KeyedSnapshot, OperatorSnapshot, StoredState
from flinkbuf.streaming.state.state import StateDescriptor
from flinkbuf.streaming.state.state_ttl import StateTtlConfig
from flinkbuf.streaming.state.timers import TimerServices
from flinkbuf.streaming.time.clock import Clock, SystemClock
from flinkbuf.types.duration import milliseconds_of

if TYPE_CHECKING:
    from flinkbuf._core.state.keyed_state import KeyedState
    from flinkbuf.streaming.state.keyed_snapshot import StatePart
    from flinkbuf.streaming.state.snapshot import StateBytes

_DOMAINS = ("event time", "processing time")


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
        self._states: dict[tuple[str, str], tuple[StateMeta, StateDescriptor, KeyedState]] = {}
        self._restored: tuple[KeyedSnapshot, ...] = ()
        self._columns: list[tuple[ColumnState, int]] = []

    def get_state(self, descriptor: StateDescriptor) -> Any:
        """Return the state of a user's function; the same object for the same name.

        Raises
        ------
        TypeError
            If a state of that name is of another kind or type.
        """
        return self._state(descriptor, False)

    def get_internal_state(self, descriptor: StateDescriptor) -> object:
        """Return a state of the operator itself, with ``set_namespace`` and ``merge_namespaces``.

        Its name is its own: a user's state may have the same.
        """
        return self._state(descriptor, True)

    def keep_columns(self, state: ColumnState, key_count: int) -> None:
        """Have snapshots hold the rows of a column operator, and give it those that they hold.

        Parameters
        ----------
        state : ColumnState
        key_count : int
            So many of the first columns are the key.
        """
        meta = meta_of(state)
        for snapshot in self._restored:
            index = snapshot.find(meta.key)
            if index is not None:
                check_same(snapshot.metas[index], meta, "the snapshot has a state {!r}")
                restore_columns(state, snapshot.stored(index).sections(self.key_groups))
                snapshot.forget(index)
        self._columns.append((state, key_count))

    def keys(self, state: KeyedState) -> list[object]:
        """Return the keys that have a value in a state, in its namespace."""
        return [key_of(token) for token in state.tokens()]

    def _state(self, descriptor: StateDescriptor, is_internal: bool) -> KeyedState:
        if not isinstance(descriptor, StateDescriptor):
            raise TypeError(f"expected a descriptor of a state, got {descriptor!r}")
        has_ttl = descriptor.ttl_config is not None
        meta = StateMeta(descriptor.name, descriptor.kind, is_internal, has_ttl, repr(descriptor.type_info))
        known = self._states.get(meta.key)
        if known is None:
            state = _make(descriptor, self.key_context, self._clock)
            state.declare(codec_of(descriptor.type_info))
            self._prepare(meta, descriptor, state)
            self._fill(meta, descriptor, state)
            self._states[meta.key] = meta, descriptor, state
            return state
        check_same(known[0], meta, "there is a state {!r} already")
        if known[0].has_ttl != meta.has_ttl:
            raise TypeError(f"there is a state {meta.name!r} already, with another time to live: give one another name")
        return known[2]

    def _fill(self, meta: StateMeta, descriptor: StateDescriptor, state: KeyedState) -> None:
        """Put what snapshots have under this name into a new state."""
        for snapshot in self._restored:
            index = snapshot.find(meta.key)
            if index is None:
                continue
            check_same(snapshot.metas[index], meta, "the snapshot has a state {!r}")
            had_ttl = snapshot.metas[index].has_ttl
            for key_group, data in snapshot.stored(index).sections(self.key_groups):
                self._read(meta, descriptor, state, key_group, data, had_ttl)
            snapshot.forget(index)

    def _prepare(self, meta: StateMeta, descriptor: StateDescriptor, state: KeyedState) -> None:
        """Say where a new state keeps its values."""

    def _read(
        self,
        meta: StateMeta,
        descriptor: StateDescriptor,
        state: KeyedState,
        key_group: int,
        data: StateBytes,
        had_ttl: bool,
    ) -> None:
        """Put the entries of one section into a state; what did not expire and does now is new."""
        codecs = self.key_groups.key_codec, codec_of(descriptor.type_info)
        read_entries(data, state, self.key_context, *codecs, had_ttl)

    def snapshot(self) -> KeyedPart:
        """Take references to all there is; the operator may go on at once."""
        now = self._clock.now_ms()
        parts: list[StatePart] = []
        for meta, descriptor, state in self._states.values():
            config = descriptor.ttl_config
            is_filtered = config is not None and config.get_cleanup_strategies().in_full_snapshot()
            codec = codec_of(descriptor.type_info)
            parts.append(FrozenState(meta, state, codec, state.freeze(), now if is_filtered else None))
        parts += [*self._frozen_timers(), *self._frozen_columns()]
        return LiveKeyedSnapshot(self.key_groups, [*parts, *self._unread({part.meta.key for part in parts})])

    def _frozen_timers(self) -> list[FrozenTimers]:
        return [
            FrozenTimers(StateMeta(f"{name}: {domain}", "timers"), timers)
            for name, both in self._timers.freeze().items()
            for domain, timers in zip(_DOMAINS, both, strict=True)
        ]

    def _frozen_columns(self) -> list[FrozenColumns]:
        return [FrozenColumns.of(state, key_count) for state, key_count in self._columns]

    def _unread(self, live: set[tuple[str, str]]) -> list[UnreadState]:
        """Return the states of earlier snapshots that are not among those in use."""
        found: dict[tuple[str, str], tuple[StateMeta, list[StoredState]]] = {}
        for snapshot in self._restored:
            for index, meta in enumerate(snapshot.metas):
                if meta.kind != "timers" and meta.key not in live:
                    found.setdefault(meta.key, (meta, []))[1].append(snapshot.stored(index))
        return [UnreadState(meta, sources) for meta, sources in found.values()]

    def restore(self, snapshot: OperatorSnapshot) -> None:
        """Begin with what snapshots hold of this subtask's key groups; a state is read when it is asked for."""
        self._restored = tuple(part.readable() for part in snapshot.keyed)
        for keyed in self._restored:
            self._check(keyed.index)
            for index, meta in enumerate(keyed.metas):
                if meta.kind == "timers":
                    self._restore_timers(keyed, index, meta)

    def _check(self, index: KeyedIndex) -> None:
        """Raise if a snapshot does not fit the operator."""
        if index.max_parallelism != self.key_groups.max_parallelism:
            raise ValueError(
                f"the snapshot was taken with a max parallelism of {index.max_parallelism}, but the operator has "
                f"{self.key_groups.max_parallelism}: set the first with set_max_parallelism()"
            )
        if index.key_type != repr(self.key_groups.key_type):
            raise TypeError(
                f"the snapshot has keys of type {index.key_type}, not {self.key_groups.key_type}: declare the same"
            )

    def _restore_timers(self, keyed: KeyedSnapshot, index: int, meta: StateMeta) -> None:
        name, _, domain = meta.name.rpartition(": ")
        for _, data in keyed.read(index, self.key_groups):
            timers = read_timers(data, self.key_context, self.key_groups.key_codec)
            self._timers.restore(name, _DOMAINS.index(domain), timers)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Note that a checkpoint is complete."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Note that a checkpoint was aborted."""

    def close(self) -> None:
        """Free the memory that states have outside of Python."""


def detached_state(descriptor: StateDescriptor, key_context: KeyContext) -> KeyedState:
    """Return a state that no backend knows: what it says of a value, such as what is kept of it, holds for others."""
    state = _make(descriptor, key_context, SystemClock())
    state.declare(codec_of(descriptor.type_info))
    return state


def _make(descriptor: Any, key_context: KeyContext, clock: Clock) -> KeyedState:
    functions: tuple[object, ...] = ()
    if descriptor.kind == "reducing":
        function = descriptor.get_reduce_function()
        functions = (getattr(function, "reduce", function),)
    elif descriptor.kind == "aggregating":
        functions = (descriptor.get_agg_function(),)
    name = descriptor.kind.capitalize() + "State"
    if descriptor.ttl_config is None:
        return getattr(keyed_state, f"Keyed{name}")(descriptor.name, key_context, *functions)
    life = _life(descriptor.ttl_config, clock)
    state = getattr(ttl_state, f"Ttl{name}")(descriptor.name, key_context, life, *functions)
    if life.cleans_with_every_record:
        key_context.listen(ttl_state.sweeper(state, life))
    return state


def _life(config: StateTtlConfig, clock: Clock) -> ttl_state.TimeToLive:
    cleanup = config.get_cleanup_strategies().get_incremental_cleanup_strategy()
    return ttl_state.TimeToLive(
        clock,
        milliseconds_of("ttl", config.get_ttl()),
        is_read_an_update=config.get_update_type() is StateTtlConfig.UpdateType.OnReadAndWrite,
        returns_expired=config.get_state_visibility() is StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp,
        cleanup_size=0 if cleanup is None else cleanup.get_cleanup_size(),
        cleans_with_every_record=cleanup is not None and cleanup.run_cleanup_for_every_record(),
    )


def check_same(known: StateMeta, meta: StateMeta, where: str) -> None:
    """Raise TypeError unless a state is what one of its name was declared as before; a time to live may come and go."""
    words = {"kind": "kind", "type": "type"}
    for what, word in words.items():
        one, other = getattr(known, what), getattr(meta, what)
        if one != other:
            raise TypeError(
                f"{where.format(meta.name)} whose {word} is {one}, not {other}: give one of them another name"
            )
