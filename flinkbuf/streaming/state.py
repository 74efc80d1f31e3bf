"""State as a user's function sees it: what its kinds can do, and the descriptors that name and type them.

Names and parameters are PyFlink's (pyflink.datastream.state).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

from flinkbuf._core import keyed_state
from flinkbuf.streaming.state_ttl import StateTtlConfig
from flinkbuf.types.type_information import TypeInformation
from flinkbuf.types.types import Types, object_type

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
IN = TypeVar("IN")
OUT = TypeVar("OUT")


class State(ABC):
    """What all kinds have in common. PyFlink's ``State``."""

    @abstractmethod
    def clear(self) -> None:
        """Remove what there is for the current key."""


class ValueState(State, Generic[T]):
    """One value a key. PyFlink's ``ValueState``."""

    @abstractmethod
    def value(self) -> T:
        """Return the value; None if there is none."""

    @abstractmethod
    def update(self, value: T) -> None:
        """Set the value; None removes it."""


class AppendingState(State, Generic[IN, OUT]):
    """Something to which values are added. PyFlink's ``AppendingState``."""

    @abstractmethod
    def get(self) -> OUT:
        """Return what was made of the values."""

    @abstractmethod
    def add(self, value: IN) -> None:
        """Add a value."""


class MergingState(AppendingState[IN, OUT]):
    """Likewise, where two can be made one, as windows are. PyFlink's ``MergingState``."""


class ReducingState(MergingState[T, T]):
    """The reduction of all values a key. PyFlink's ``ReducingState``."""


class AggregatingState(MergingState[IN, OUT]):
    """The aggregate of all values a key. PyFlink's ``AggregatingState``."""


class ListState(MergingState[T, Iterable[T]]):
    """A list a key. PyFlink's ``ListState``."""

    @abstractmethod
    def update(self, values: list[T]) -> None:
        """Replace all elements; none: the state is empty."""

    @abstractmethod
    def add_all(self, values: list[T]) -> None:
        """Add elements at the end."""

    def __iter__(self) -> Iterator[T]:
        return iter(self.get())


class MapReading(State, Generic[K, V]):
    """What all states that are maps give."""

    @abstractmethod
    def get(self, key: K) -> V:
        """Return the value of `key`; None if there is none."""

    @abstractmethod
    def contains(self, key: K) -> bool:
        """Whether `key` has a value."""

    @abstractmethod
    def items(self) -> Iterable[tuple[K, V]]:
        """Go over the pairs of key and value."""

    @abstractmethod
    def keys(self) -> Iterable[K]:
        """Go over the keys."""

    @abstractmethod
    def values(self) -> Iterable[V]:
        """Go over the values."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Whether there is no entry."""

    def __getitem__(self, key: K) -> V:
        return self.get(key)

    def __contains__(self, key: K) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[K]:
        return iter(self.keys())


class MapWriting(State, Generic[K, V]):
    """What states that are maps take."""

    @abstractmethod
    def put(self, key: K, value: V) -> None:
        """Set the value of `key`."""

    @abstractmethod
    def put_all(self, dict_value: dict[K, V]) -> None:
        """Set the values of several keys."""

    @abstractmethod
    def remove(self, key: K) -> None:
        """Remove the entry of `key`, if there is one."""

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        self.remove(key)


class ReadOnlyBroadcastState(MapReading[K, V]):
    """A map that a broadcast stream fills, to be read. PyFlink's ``ReadOnlyBroadcastState``."""


class BroadcastState(ReadOnlyBroadcastState[K, V], MapWriting[K, V]):
    """Likewise, to be written too. PyFlink's ``BroadcastState``."""


class MapState(MapReading[K, V], MapWriting[K, V]):
    """A map for each key. PyFlink's ``MapState``."""


class OperatorStateStore(ABC):
    """Gives states that belong to a subtask, not to a key. PyFlink's ``OperatorStateStore``."""

    @abstractmethod
    def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState:
        """Return the broadcast state of that name, the same object each time."""


class KeyedStateStore(ABC):
    """Gives states that each key has of its own. PyFlink's ``KeyedStateStore``."""

    @abstractmethod
    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState:
        """Return the value state of that name, the same object each time."""

    @abstractmethod
    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState:
        """Return the list state of that name, the same object each time."""

    @abstractmethod
    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState:
        """Return the map state of that name, the same object each time."""

    @abstractmethod
    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState:
        """Return the reducing state of that name, the same object each time."""

    @abstractmethod
    def get_aggregating_state(self, state_descriptor: AggregatingStateDescriptor) -> AggregatingState:
        """Return the aggregating state of that name, the same object each time."""


class StateDescriptor:
    """Names and types a state. PyFlink's ``StateDescriptor``.

    Parameters
    ----------
    name : str
        Unique among the states of an operator.
    type_info : TypeInformation or None
        Of what is kept, for snapshots; None: any object.
    """

    kind = ""  # as snapshots and errors name it

    def __init__(self, name: str, type_info: TypeInformation | None) -> None:
        if not isinstance(name, str) or not name:
            raise TypeError(f"the name of a state is a string that is not empty, got {name!r}")
        if type_info is not None and not isinstance(type_info, TypeInformation):
            raise TypeError(
                f"the type of the state {name!r} must be a TypeInformation, such as Types.LONG(), got {type_info!r}"
            )
        self.name = name
        self.type_info = type_info
        self._ttl_config: StateTtlConfig | None = None

    def get_name(self) -> str:
        """Return the name."""
        return self.name

    def enable_time_to_live(self, ttl_config: StateTtlConfig) -> None:
        """Let values expire."""
        if not isinstance(ttl_config, StateTtlConfig):
            raise TypeError(f"expected a StateTtlConfig, got {ttl_config!r}")
        self._ttl_config = ttl_config

    @property
    def ttl_config(self) -> StateTtlConfig | None:
        """How values expire; None: they do not."""
        return self._ttl_config if self._ttl_config is not None and self._ttl_config.is_enabled() else None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.type_info!r})"


class ValueStateDescriptor(StateDescriptor):
    """Of a `ValueState`. PyFlink's ``ValueStateDescriptor``.

    Examples
    --------
    >>> ValueStateDescriptor("count", Types.LONG()).get_name()
    'count'
    """

    kind = "value"

    def __init__(self, name: str, value_type_info: TypeInformation | None) -> None:
        super().__init__(name, value_type_info)


class ListStateDescriptor(StateDescriptor):
    """Of a `ListState`. PyFlink's ``ListStateDescriptor``."""

    kind = "list"

    def __init__(self, name: str, elem_type_info: TypeInformation | None) -> None:
        super().__init__(name, None if elem_type_info is None else Types.LIST(elem_type_info))


class MapStateDescriptor(StateDescriptor):
    """Of a `MapState` or a `BroadcastState`. PyFlink's ``MapStateDescriptor``."""

    kind = "map"

    def __init__(
        self, name: str, key_type_info: TypeInformation | None, value_type_info: TypeInformation | None
    ) -> None:
        types = [object_type() if each is None else each for each in (key_type_info, value_type_info)]
        super().__init__(name, Types.MAP(*types))


class ReducingStateDescriptor(StateDescriptor):
    """Of a `ReducingState`. PyFlink's ``ReducingStateDescriptor``.

    Parameters
    ----------
    reduce_function : ReduceFunction or callable
        Makes one value of two.
    """

    kind = "reducing"

    def __init__(self, name: str, reduce_function: Any, type_info: TypeInformation | None) -> None:
        super().__init__(name, type_info)
        if not hasattr(reduce_function, "reduce") and not callable(reduce_function):
            raise TypeError("The input must be a ReduceFunction or a callable function!")
        self._reduce_function = reduce_function

    def get_reduce_function(self) -> Any:
        """Return the function."""
        return self._reduce_function


class AggregatingStateDescriptor(StateDescriptor):
    """Of an `AggregatingState`; the type is that of the accumulator. PyFlink's ``AggregatingStateDescriptor``."""

    kind = "aggregating"

    def __init__(self, name: str, agg_function: Any, state_type_info: TypeInformation | None) -> None:
        super().__init__(name, state_type_info)
        methods = ("create_accumulator", "add", "get_result", "merge")
        if not all(hasattr(agg_function, method) for method in methods):
            raise TypeError(f"The input must be an AggregateFunction with {', '.join(methods)}; got {agg_function!r}")
        self._agg_function = agg_function

    def get_agg_function(self) -> Any:
        """Return the function."""
        return self._agg_function


# The objects that functions are given come from below and know nothing of these classes.
ValueState.register(keyed_state.KeyedValueState)
ListState.register(keyed_state.KeyedListState)
MapState.register(keyed_state.KeyedMapState)
ReducingState.register(keyed_state.KeyedReducingState)
AggregatingState.register(keyed_state.KeyedAggregatingState)
