"""What a processor of a user is given in place of Spark's handle: the same methods, over tables in its own process."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from pyspark.sql.types import StructType

from flinkbuf._core.state.object_tables import (
    CurrentKey,
    ExpiringFlatTable,
    ExpiringNestedTable,
    KeyTimers,
    ObjectListState,
    ObjectMapState,
    ObjectValueState,
)
from flinkbuf.spark.streams.key_group_state import Key, KeyGroupState
from flinkbuf.spark.streams.values import StateKeys, StateValues

T = TypeVar("T", bound=StateValues)


class Handle:
    """Spark's ``StatefulProcessorHandle``, over the state of the key group that is visited.

    Parameters
    ----------
    has_timers : bool
        Whether the query has a time mode.
    has_ttl : bool
        Whether states may have a time to live: where the mode is that of processing time, as in Spark.
    parse : callable
        What makes a ``StructType`` of a DDL string.

    Attributes
    ----------
    current : CurrentKey
        The key that a method of the user is called for.
    """

    def __init__(self, has_timers: bool, has_ttl: bool, parse: Callable[[str], StructType]) -> None:
        self._has_timers = has_timers
        self._has_ttl = has_ttl
        self._parse = parse
        self._states: dict[str, SparkValueState | SparkListState | SparkMapState] = {}
        self._deleted: set[str] = set()
        self._timers: KeyTimers | None = None
        self._is_open = True
        self.current = CurrentKey()

    # ---- Spark's methods

    def getValueState(
        self,
        stateName: str,
        schema: StructType | str,
        ttlDurationMs: int | None = None,
    ) -> SparkValueState:
        """Return the state of one value for each key."""
        fields = self._fields(StateValues, stateName, schema)
        return self._add(SparkValueState(self.current, stateName, fields, self._ttl(stateName, ttlDurationMs)))

    def getListState(
        self,
        stateName: str,
        schema: StructType | str,
        ttlDurationMs: int | None = None,
    ) -> SparkListState:
        """Return the state of a list for each key."""
        fields = self._fields(StateValues, stateName, schema)
        return self._add(SparkListState(self.current, stateName, fields, self._ttl(stateName, ttlDurationMs)))

    def getMapState(
        self,
        stateName: str,
        userKeySchema: StructType | str,
        valueSchema: StructType | str,
        ttlDurationMs: int | None = None,
    ) -> SparkMapState:
        """Return the state of a map for each key."""
        keys = self._fields(StateKeys, stateName, userKeySchema)
        values = self._fields(StateValues, stateName, valueSchema)
        return self._add(SparkMapState(self.current, stateName, keys, values, self._ttl(stateName, ttlDurationMs)))

    def registerTimer(self, expiryTimestampMs: int) -> None:
        """Set a timer of the key."""
        at_ms = expiryTimestampMs if type(expiryTimestampMs) is int else _as_milliseconds(expiryTimestampMs)
        if self._timers is None or self.current.key is None or not self._has_timers:
            self._timers_of_mode().register(self._the_key(), at_ms)  # which says what is wrong
        else:
            self._timers.register(self.current.key, at_ms)

    def deleteTimer(self, expiryTimestampMs: int) -> None:
        """Remove a timer of the key, if there is one."""
        self._timers_of_mode().delete(self._the_key(), _as_milliseconds(expiryTimestampMs))

    def listTimers(self) -> Iterator[int]:
        """Give the times of the key's timers, in order."""
        return iter(self._timers_of_mode().of(self._the_key()))

    def deleteIfExists(self, stateName: str) -> None:
        """Forget a state, for all keys."""
        self._check_open(f"deleteIfExists({stateName!r})")
        self._states.pop(stateName, None)
        self._deleted.add(stateName)

    # ---- what calls the user's methods

    def close_init(self) -> None:
        """From here on, no state is added."""
        self._is_open = False

    def visit(self, group: KeyGroupState, now_ms: int) -> None:
        """Let states and timers be those of a group."""
        for name in self._deleted:
            if (gone := group.tables.get(f"state.{name}")) is not None:
                gone.clear_all()
        for state in self._states.values():
            state.visit(group, now_ms)
        self._timers = group.timers

    def leave(self) -> None:
        """Let no key be set."""
        self.current.key = None

    # ---- parts

    def _fields(self, kind: type[T], name: str, schema: StructType | str) -> T:
        self._check_open(f"the state {name!r}")
        parsed = self._parse(schema) if isinstance(schema, str) else schema
        if not isinstance(parsed, StructType):
            raise TypeError(
                f"the schema of the state {name!r} is a StructType or DDL, such as 'n bigint'; got {schema!r}"
            )
        if not parsed.fields:
            raise ValueError(f"the schema of the state {name!r} has no field")
        return kind(parsed, f"the state {name!r}")

    def _check_open(self, what: str) -> None:
        if not self._is_open:
            raise RuntimeError(f"{what} is asked for after init(): ask for all states there")

    def _ttl(self, name: str, ttl_ms: int | None) -> int | None:
        if ttl_ms is None:
            return None
        if not self._has_ttl:
            raise ValueError(
                f"the state {name!r} has a time to live, which is counted in processing time: "
                'that needs time_mode="processingTime"'
            )
        if ttl_ms <= 0:
            raise ValueError(f"the time to live of the state {name!r} must be at least 1 ms, got {ttl_ms}")
        return int(ttl_ms)

    def _add(self, state: Any) -> Any:
        if state.name in self._states:
            raise ValueError(f"the state {state.name!r} is asked for twice: each has a name of its own")
        self._states[state.name] = state
        return state

    def _the_key(self) -> Key:
        if self.current.key is None:
            raise RuntimeError(
                "timers belong to a key, which only handleInputRows(), handleExpiredTimer() and "
                "handleInitialState() have"
            )
        return self.current.key

    def _timers_of_mode(self) -> KeyTimers:
        if not self._has_timers:
            raise ValueError('timers need time_mode="processingTime" or time_mode="eventTime"')
        if self._timers is None:
            raise RuntimeError("init() has no key that a timer could belong to: set it in handleInputRows()")
        return self._timers


class _Bound:
    """What the three kinds have in common: the table that belongs to them in the group at hand."""

    kind = ""
    name: str
    table: Any

    def describe(self, ttl_ms: int | None, what: str) -> None:
        """Note how long values live, and what is in the table."""
        self._ttl_ms = ttl_ms
        self._what = f"{'' if ttl_ms is None else 'expiring '}{self.kind}: {what}"

    def visit(self, group: KeyGroupState, now_ms: int) -> None:
        """Let the state be that of a group."""
        self.table = table = group.table(f"state.{self.name}", self._what)
        if isinstance(table, (ExpiringFlatTable, ExpiringNestedTable)) and self._ttl_ms is not None:
            table.ttl_ms, table.now_ms = self._ttl_ms, now_ms


class SparkValueState(_Bound, ObjectValueState):
    """Spark's ``ValueState``: one tuple."""

    kind = "value"

    def __init__(self, current: CurrentKey, name: str, fields: StateValues, ttl_ms: int | None) -> None:
        ObjectValueState.__init__(self, name, current, fields)
        self.describe(ttl_ms, fields.description)


class SparkListState(_Bound, ObjectListState):
    """Spark's ``ListState``: tuples in their order."""

    kind = "list"

    def __init__(self, current: CurrentKey, name: str, fields: StateValues, ttl_ms: int | None) -> None:
        ObjectListState.__init__(self, name, current, fields)
        self.describe(ttl_ms, fields.description)


class SparkMapState(_Bound, ObjectMapState):
    """Spark's ``MapState``: tuples by tuples."""

    kind = "map"

    def __init__(
        self,
        current: CurrentKey,
        name: str,
        keys: StateKeys,
        fields: StateValues,
        ttl_ms: int | None,
    ) -> None:
        ObjectMapState.__init__(self, name, current, keys, fields)
        self.describe(ttl_ms, f"{keys.description} to {fields.description}")


def _as_milliseconds(at: int) -> int:
    """Take any kind of int, numpy's too."""
    try:
        return operator.index(at)
    except TypeError:
        raise TypeError(f"a timer is set to milliseconds since 1970, as an int; got {at!r}") from None
