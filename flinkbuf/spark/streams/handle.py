"""What a processor of a user is given in place of Spark's handle: the same methods, over tables in its own process."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pyspark.sql.types import StructType

from flinkbuf.spark.streams.key_group_state import (
    ExpiringFlatTable,
    ExpiringNestedTable,
    FlatTable,
    Key,
    KeyGroupState,
    KeyTimers,
    NestedTable,
)
from flinkbuf.spark.streams.values import StateValues, as_lookup, from_lookup, has_floats

_NO_KEY: Any = object()  # no key is set outside the methods that are given one


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
    """

    def __init__(self, has_timers: bool, has_ttl: bool, parse: Callable[[str], StructType]) -> None:
        self._has_timers = has_timers
        self._has_ttl = has_ttl
        self._parse = parse
        self._states: dict[str, SparkValueState | SparkListState | SparkMapState] = {}
        self._deleted: set[str] = set()
        self._timers: KeyTimers | None = None
        self._is_open = True
        self.key: Key = _NO_KEY

    # ---- Spark's methods

    def getValueState(
        self,
        stateName: str,
        schema: StructType | str,
        ttlDurationMs: int | None = None,
    ) -> SparkValueState:
        """Return the state of one value for each key."""
        return self._add(
            SparkValueState(self, stateName, self._values(stateName, schema), self._ttl(stateName, ttlDurationMs))
        )

    def getListState(
        self,
        stateName: str,
        schema: StructType | str,
        ttlDurationMs: int | None = None,
    ) -> SparkListState:
        """Return the state of a list for each key."""
        return self._add(
            SparkListState(self, stateName, self._values(stateName, schema), self._ttl(stateName, ttlDurationMs))
        )

    def getMapState(
        self,
        stateName: str,
        userKeySchema: StructType | str,
        valueSchema: StructType | str,
        ttlDurationMs: int | None = None,
    ) -> SparkMapState:
        """Return the state of a map for each key."""
        keys = self._values(stateName, userKeySchema)
        values = self._values(stateName, valueSchema)
        return self._add(SparkMapState(self, stateName, keys, values, self._ttl(stateName, ttlDurationMs)))

    def registerTimer(self, expiryTimestampMs: int) -> None:
        """Set a timer of the key."""
        at_ms = expiryTimestampMs if type(expiryTimestampMs) is int else _as_milliseconds(expiryTimestampMs)
        self._timers_of_mode().register(self._the_key(), at_ms)

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
        self.key = _NO_KEY

    # ---- parts

    def _values(self, name: str, schema: StructType | str) -> StateValues:
        self._check_open(f"the state {name!r}")
        parsed = self._parse(schema) if isinstance(schema, str) else schema
        if not isinstance(parsed, StructType):
            raise TypeError(
                f"the schema of the state {name!r} is a StructType or DDL, such as 'n bigint'; got {schema!r}"
            )
        if not parsed.fields:
            raise ValueError(f"the schema of the state {name!r} has no field")
        return StateValues(parsed, f"the state {name!r}")

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
        if self.key is _NO_KEY:
            raise RuntimeError(
                "timers belong to a key, which only handleInputRows(), handleExpiredTimer() and "
                "handleInitialState() have"
            )
        return self.key

    def _timers_of_mode(self) -> KeyTimers:
        if not self._has_timers:
            raise ValueError('timers need time_mode="processingTime" or time_mode="eventTime"')
        if self._timers is None:
            raise RuntimeError("init() has no key that a timer could belong to: set it in handleInputRows()")
        return self._timers


class _State:
    """What the three kinds have in common."""

    kind = ""

    def __init__(self, handle: Handle, name: str, values: StateValues, ttl_ms: int | None, what: str) -> None:
        self.name = name
        self._handle = handle
        self._values = values
        self._ttl_ms = ttl_ms
        self._what = f"{'' if ttl_ms is None else 'expiring '}{self.kind}: {what}"
        self._table: Any = None

    def visit(self, group: KeyGroupState, now_ms: int) -> None:
        """Let the state be that of a group."""
        self._table = table = group.table(f"state.{self.name}", self._what)
        if isinstance(table, (ExpiringFlatTable, ExpiringNestedTable)) and self._ttl_ms is not None:
            table.ttl_ms, table.now_ms = self._ttl_ms, now_ms

    def _key(self) -> Key:
        key = self._handle.key
        if key is _NO_KEY:
            raise RuntimeError(
                f"the state {self.name!r} belongs to a key, which only handleInputRows(), handleExpiredTimer() and "
                "handleInitialState() have"
            )
        return key


class SparkValueState(_State):
    """Spark's ``ValueState``: one tuple."""

    kind = "value"
    _table: FlatTable

    def __init__(self, handle: Handle, name: str, values: StateValues, ttl_ms: int | None) -> None:
        super().__init__(handle, name, values, ttl_ms, values.description)

    def exists(self) -> bool:
        """Whether the key has a value."""
        return self._table.get(self._key()) is not None

    def get(self) -> tuple[Any, ...] | None:
        """Return the value, or None."""
        stored = self._table.get(self._key())
        return None if stored is None else self._values.given(stored)

    def update(self, newValue: tuple[Any, ...]) -> None:
        """Set the value."""
        self._table.put(self._key(), self._values.stored(newValue))

    def clear(self) -> None:
        """Forget the value."""
        self._table.remove(self._key())


class SparkListState(_State):
    """Spark's ``ListState``: tuples in their order."""

    kind = "list"
    _table: NestedTable

    def __init__(self, handle: Handle, name: str, values: StateValues, ttl_ms: int | None) -> None:
        super().__init__(handle, name, values, ttl_ms, values.description)

    def exists(self) -> bool:
        """Whether the key has an element."""
        return bool(self._table.entries(self._key()))

    def get(self) -> Iterator[tuple[Any, ...]]:
        """Give the elements, as they are now."""
        given = self._values.given
        return iter([given(stored) for stored in self._table.entries(self._key()).values()])

    def put(self, newState: Iterable[tuple[Any, ...]]) -> None:
        """Set the list."""
        stored = [self._values.stored(each) for each in newState]
        self._table.clear(self._key())
        self._append(stored)

    def appendValue(self, newState: tuple[Any, ...]) -> None:
        """Append an element."""
        self._append([self._values.stored(newState)])

    def appendList(self, newState: Iterable[tuple[Any, ...]]) -> None:
        """Append elements."""
        self._append([self._values.stored(each) for each in newState])

    def clear(self) -> None:
        """Forget the list."""
        self._table.clear(self._key())

    def _append(self, stored: list[tuple[Any, ...]]) -> None:
        key = self._key()
        last = next(reversed(self._table.rows.get(key, {})), -1)
        for number, each in enumerate(stored, last + 1):
            self._table.put(key, number, each)


class SparkMapState(_State):
    """Spark's ``MapState``: tuples by tuples."""

    kind = "map"
    _table: NestedTable

    def __init__(self, handle: Handle, name: str, keys: StateValues, values: StateValues, ttl_ms: int | None) -> None:
        super().__init__(handle, name, values, ttl_ms, f"{keys.description} to {values.description}")
        self._keys = keys
        self._has_floats = has_floats(keys.schema)

    def exists(self) -> bool:
        """Whether the map has an entry."""
        return bool(self._table.entries(self._key()))

    def getValue(self, key: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """Return the value of an entry, or None."""
        stored = self._table.get(self._key(), self._stored_key(key))
        return None if stored is None else self._values.given(stored)

    def containsKey(self, key: tuple[Any, ...]) -> bool:
        """Whether there is such an entry."""
        return self._table.get(self._key(), self._stored_key(key)) is not None

    def updateValue(self, key: tuple[Any, ...], value: tuple[Any, ...]) -> None:
        """Set the value of an entry."""
        self._table.put(self._key(), self._stored_key(key), self._values.stored(value))

    def iterator(self) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
        """Give the entries, as they are now."""
        entries = self._table.entries(self._key())
        return iter([(self._given_key(key), self._values.given(stored)) for key, stored in entries.items()])

    def keys(self) -> Iterator[tuple[Any, ...]]:
        """Give the keys of the entries, as they are now."""
        return iter([self._given_key(key) for key in self._table.entries(self._key())])

    def values(self) -> Iterator[tuple[Any, ...]]:
        """Give the values of the entries, as they are now."""
        return iter([self._values.given(stored) for stored in self._table.entries(self._key()).values()])

    def removeKey(self, key: tuple[Any, ...]) -> None:
        """Forget an entry, if there is one."""
        self._table.remove(self._key(), self._stored_key(key))

    def clear(self) -> None:
        """Forget the map."""
        self._table.clear(self._key())

    def _stored_key(self, key: tuple[Any, ...]) -> tuple[Any, ...]:
        return as_lookup(self._keys.stored(key)) if self._has_floats else self._keys.stored(key)

    def _given_key(self, stored: tuple[Any, ...]) -> tuple[Any, ...]:
        return self._keys.given(from_lookup(stored, self._keys.schema) if self._has_floats else stored)


def _as_milliseconds(at: int) -> int:
    """Take any kind of int, numpy's too."""
    try:
        return operator.index(at)
    except TypeError:
        raise TypeError(f"a timer is set to milliseconds since 1970, as an int; got {at!r}") from None
