"""State as a user's function sees it: what its kinds can do, and the descriptors that name and type them.

Names and parameters are PyFlink's (pyflink.datastream.state).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, Generic

from flinkbuf._core.state import keyed_state
from flinkbuf.streaming.state.state_ttl import StateTtlConfig
from flinkbuf.types.type_information import TypeInformation
from flinkbuf.types.type_parameters import A, K, R, T, V
from flinkbuf.types.types import Types, object_type


class State(ABC):
    """What all kinds have in common. PyFlink's ``State``."""

    @abstractmethod
    def clear(self) -> None:
        """Remove what there is for the current key."""


class ValueState(State, Generic[T]):
    """One value a key. PyFlink's ``ValueState``.

    Examples
    --------
    >>> from flinkbuf.datastream import KeyedProcessFunction, StreamExecutionEnvironment
    >>> class Pairs(KeyedProcessFunction):
    ...     def open(self, runtime_context):
    ...         self.first = runtime_context.get_state(ValueStateDescriptor("first", Types.INT()))
    ...     def process_element(self, value, ctx):
    ...         first = self.first.value()
    ...         if first is None:
    ...             self.first.update(value)
    ...         else:
    ...             self.first.clear()
    ...             yield first, value
    >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    >>> numbers = env.from_collection([1, 2, 3, 4, 5]).key_by(lambda n: n % 2)
    >>> list(numbers.process(Pairs()).execute_and_collect())  # 5 waits for another odd number
    [(1, 3), (2, 4)]
    """

    @abstractmethod
    def value(self) -> T:
        """Return the value; None if there is none."""

    @abstractmethod
    def update(self, value: T) -> None:
        """Set the value; None removes it."""


class AppendingState(State, Generic[A, R]):
    """Something to which values are added. PyFlink's ``AppendingState``."""

    @abstractmethod
    def get(self) -> R:
        """Return what was made of the values."""

    @abstractmethod
    def add(self, value: A) -> None:
        """Add a value."""


class MergingState(AppendingState[A, R]):
    """Likewise, where two can be made one, as windows are. PyFlink's ``MergingState``."""


class ReducingState(MergingState[T, T]):
    """The reduction of all values a key. PyFlink's ``ReducingState``.

    Examples
    --------
    >>> from flinkbuf.datastream import KeyedProcessFunction, StreamExecutionEnvironment
    >>> class Totals(KeyedProcessFunction):
    ...     def open(self, runtime_context):
    ...         total = ReducingStateDescriptor("total", lambda a, b: a + b, Types.INT())
    ...         self.total = runtime_context.get_reducing_state(total)
    ...     def process_element(self, value, ctx):
    ...         self.total.add(value)
    ...         if self.total.get() >= 5:
    ...             yield self.total.get()
    ...             self.total.clear()
    >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    >>> list(env.from_collection([2, 3, 1, 9]).key_by(lambda n: "all").process(Totals()).execute_and_collect())
    [5, 10]
    """


class AggregatingState(MergingState[A, R]):
    """The aggregate of all values a key. PyFlink's ``AggregatingState``.

    Examples
    --------
    >>> from flinkbuf.datastream import AggregateFunction, KeyedProcessFunction, StreamExecutionEnvironment
    >>> class Distinct(AggregateFunction):
    ...     def create_accumulator(self): return set()
    ...     def add(self, value, accumulator): return accumulator | {value}
    ...     def get_result(self, accumulator): return len(accumulator)
    ...     def merge(self, acc_a, acc_b): return acc_a | acc_b
    >>> class Visitors(KeyedProcessFunction):
    ...     def open(self, runtime_context):
    ...         names = AggregatingStateDescriptor("names", Distinct(), None)
    ...         self.names = runtime_context.get_aggregating_state(names)
    ...     def process_element(self, value, ctx):
    ...         if value == "midnight":
    ...             yield self.names.get()
    ...             self.names.clear()
    ...         else:
    ...             self.names.add(value)
    >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    >>> visits = env.from_collection(["ann", "bob", "ann", "midnight", "ann", "midnight"]).key_by(lambda name: "all")
    >>> list(visits.process(Visitors()).execute_and_collect())
    [2, 1]
    """


class ListState(MergingState[T, Iterable[T]]):
    """A list a key. PyFlink's ``ListState``.

    Examples
    --------
    >>> from flinkbuf.datastream import KeyedProcessFunction, StreamExecutionEnvironment
    >>> class LastTwo(KeyedProcessFunction):
    ...     def open(self, runtime_context):
    ...         self.last = runtime_context.get_list_state(ListStateDescriptor("last", Types.INT()))
    ...     def process_element(self, value, ctx):
    ...         if value < 0:
    ...             self.last.clear()
    ...         self.last.add(value)  # or add_all([value, ...])
    ...         self.last.update(list(self.last.get())[-2:])
    ...         yield list(self.last)
    >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    >>> list(env.from_collection([1, 2, 3, -4]).key_by(lambda n: "all").process(LastTwo()).execute_and_collect())
    [[1], [1, 2], [2, 3], [-4]]
    """

    @abstractmethod
    def update(self, values: list[T]) -> None:
        """Replace all elements; none: the state is empty."""

    @abstractmethod
    def add_all(self, values: list[T]) -> None:
        """Add elements at the end.

        Examples
        --------
        >>> from flinkbuf.datastream import KeyedProcessFunction, StreamExecutionEnvironment
        >>> class AllWords(KeyedProcessFunction):
        ...     def open(self, runtime_context):
        ...         self.words = runtime_context.get_list_state(ListStateDescriptor("words", Types.STRING()))
        ...     def process_element(self, value, ctx):
        ...         self.words.add_all(value.split())
        ...         yield " ".join(self.words)
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> list(env.from_collection(["to be", "or not"]).key_by(lambda _: 0).process(AllWords()).execute_and_collect())
        ['to be', 'to be or not']
        """

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
    """A map that a broadcast stream fills, to be read. PyFlink's ``ReadOnlyBroadcastState``.

    Examples
    --------
    >>> from flinkbuf.datastream import BroadcastProcessFunction, StreamExecutionEnvironment
    >>> from flinkbuf.testing import OperatorHarness
    >>> limits = MapStateDescriptor("limits", Types.STRING(), Types.INT())
    >>> class Above(BroadcastProcessFunction):
    ...     def process_element(self, value, ctx):
    ...         state = ctx.get_broadcast_state(limits)  # read only: the other method changes it
    ...         if state.contains(value[0]) and value[1] > state.get(value[0]):
    ...             yield value, dict(state.items())
    ...     def process_broadcast_element(self, value, ctx):
    ...         ctx.get_broadcast_state(limits).put(*value)
    >>> env = StreamExecutionEnvironment.get_execution_environment()
    >>> above = env.from_collection([]).connect(env.from_collection([]).broadcast(limits)).process(Above())
    >>> with OperatorHarness.of(above) as harness:
    ...     harness.process_element(("UA", 15), input=2)
    ...     harness.process_elements([("UA", 20), ("AA", 20)], input=1)
    ...     harness.output_values
    [(('UA', 20), {'UA': 15})]
    """


class BroadcastState(ReadOnlyBroadcastState[K, V], MapWriting[K, V]):
    """Likewise, to be written too. PyFlink's ``BroadcastState``.

    Examples
    --------
    >>> from flinkbuf.datastream import BroadcastProcessFunction, StreamExecutionEnvironment
    >>> from flinkbuf.testing import OperatorHarness
    >>> blocked = MapStateDescriptor("blocked", Types.STRING(), Types.STRING())
    >>> class Unblocked(BroadcastProcessFunction):
    ...     def process_element(self, value, ctx):
    ...         if value not in ctx.get_broadcast_state(blocked):
    ...             yield value
    ...     def process_broadcast_element(self, value, ctx):
    ...         name, reason = value
    ...         if reason is None: ctx.get_broadcast_state(blocked).remove(name)
    ...         else: ctx.get_broadcast_state(blocked).put(name, reason)
    >>> env = StreamExecutionEnvironment.get_execution_environment()
    >>> names = env.from_collection([]).connect(env.from_collection([]).broadcast(blocked)).process(Unblocked())
    >>> with OperatorHarness.of(names) as harness:
    ...     harness.process_element(("ann", "spam"), input=2)
    ...     harness.process_elements(["ann", "bob"])
    ...     harness.process_element(("ann", None), input=2)
    ...     harness.process_elements(["ann"])
    ...     harness.output_values
    ['bob', 'ann']
    """


class MapState(MapReading[K, V], MapWriting[K, V]):
    """A map for each key. PyFlink's ``MapState``.

    Examples
    --------
    >>> from flinkbuf.datastream import KeyedProcessFunction, StreamExecutionEnvironment
    >>> class Cart(KeyedProcessFunction):
    ...     def open(self, runtime_context):
    ...         items = MapStateDescriptor("items", Types.STRING(), Types.INT())
    ...         self.items = runtime_context.get_map_state(items)
    ...     def process_element(self, value, ctx):
    ...         _, item, count = value
    ...         if item == "pay":
    ...             if not self.items.is_empty():
    ...                 yield ctx.get_current_key(), sorted(self.items.keys()), sum(self.items.values())
    ...             self.items.clear()
    ...         elif count == 0:
    ...             self.items.remove(item)  # or del self.items[item]
    ...         elif self.items.contains(item):  # or item in self.items
    ...             self.items.put(item, self.items.get(item) + count)  # or self.items[item] += count
    ...         else:
    ...             self.items.put_all({item: count})
    >>> clicks = [("ann", "tea", 2), ("ann", "rum", 1), ("ann", "tea", 1), ("ann", "rum", 0), ("ann", "pay", 0)]
    >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    >>> list(env.from_collection(clicks).key_by(lambda click: click[0]).process(Cart()).execute_and_collect())
    [('ann', ['tea'], 3)]
    """


class OperatorStateStore(ABC):
    """Gives states that belong to a subtask, not to a key. PyFlink's ``OperatorStateStore``.

    Examples
    --------
    >>> from flinkbuf.datastream import MapFunction, StreamExecutionEnvironment
    >>> class Named(MapFunction):
    ...     def open(self, runtime_context):
    ...         names = MapStateDescriptor("names", Types.STRING(), Types.STRING())
    ...         self.names = runtime_context.get_operator_state_store().get_broadcast_state(names)
    ...         self.names.put("UA", "United")
    ...     def map(self, value):
    ...         return self.names.get(value)
    >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    >>> env.from_collection(["UA", "AA"]).map(Named()).execute_and_collect(limit=2)
    ['United', None]
    """

    @abstractmethod
    def get_broadcast_state(self, state_descriptor: MapStateDescriptor[K, V]) -> BroadcastState[K, V]:
        """Return the broadcast state of that name, the same object each time."""


class KeyedStateStore(ABC):
    """Gives states that each key has of its own. PyFlink's ``KeyedStateStore``."""

    @abstractmethod
    def get_state(self, state_descriptor: ValueStateDescriptor[T]) -> ValueState[T]:
        """Return the value state of that name, the same object each time."""

    @abstractmethod
    def get_list_state(self, state_descriptor: ListStateDescriptor[T]) -> ListState[T]:
        """Return the list state of that name, the same object each time."""

    @abstractmethod
    def get_map_state(self, state_descriptor: MapStateDescriptor[K, V]) -> MapState[K, V]:
        """Return the map state of that name, the same object each time."""

    @abstractmethod
    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor[T]) -> ReducingState[T]:
        """Return the reducing state of that name, the same object each time."""

    @abstractmethod
    def get_aggregating_state(self, state_descriptor: AggregatingStateDescriptor[A, R]) -> AggregatingState[A, R]:
        """Return the aggregating state of that name, the same object each time."""


class StateDescriptor:
    """Names and types a state. PyFlink's ``StateDescriptor``.

    Parameters
    ----------
    name : str
        Unique among the states of an operator.
    type_info : TypeInformation or None
        Of what is kept, for snapshots; None: any object.

    Examples
    --------
    >>> counts = MapStateDescriptor("counts", Types.STRING(), Types.INT())
    >>> counts.get_name(), counts.ttl_config  # None: its values do not expire
    ('counts', None)
    >>> ValueStateDescriptor("", Types.INT())
    Traceback (most recent call last):
        ...
    TypeError: the name of a state is a string that is not empty, got ''
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
        """Let values expire.

        Examples
        --------
        >>> from flinkbuf.common import Time
        >>> from flinkbuf.datastream import KeyedProcessFunction, StreamExecutionEnvironment
        >>> from flinkbuf.testing import OperatorHarness
        >>> class Once(KeyedProcessFunction):
        ...     def open(self, runtime_context):
        ...         seen = ValueStateDescriptor("seen", Types.BOOLEAN())
        ...         seen.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(10)).build())
        ...         self.seen = runtime_context.get_state(seen)
        ...     def process_element(self, value, ctx):
        ...         if not self.seen.value():
        ...             self.seen.update(True)
        ...             yield value
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> with OperatorHarness.of(env.from_collection([]).key_by(lambda name: name).process(Once())) as harness:
        ...     harness.process_elements(["ann", "ann"])
        ...     harness.set_processing_time(10_000)
        ...     harness.process_elements(["ann"])
        ...     harness.output_values
        ['ann', 'ann']
        """
        if not isinstance(ttl_config, StateTtlConfig):
            raise TypeError(f"expected a StateTtlConfig, got {ttl_config!r}")
        self._ttl_config = ttl_config

    @property
    def ttl_config(self) -> StateTtlConfig | None:
        """How values expire; None: they do not."""
        return self._ttl_config if self._ttl_config is not None and self._ttl_config.is_enabled() else None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.type_info!r})"


class ValueStateDescriptor(StateDescriptor, Generic[T]):
    """Of a `ValueState`. PyFlink's ``ValueStateDescriptor``.

    Examples
    --------
    >>> ValueStateDescriptor("count", Types.LONG()).get_name()
    'count'
    """

    kind = "value"

    def __init__(self, name: str, value_type_info: TypeInformation | None) -> None:
        super().__init__(name, value_type_info)


class ListStateDescriptor(StateDescriptor, Generic[T]):
    """Of a `ListState`. PyFlink's ``ListStateDescriptor``.

    Examples
    --------
    >>> ListStateDescriptor("words", Types.STRING())
    ListStateDescriptor('words', Types.LIST(Types.STRING()))
    """

    kind = "list"

    def __init__(self, name: str, elem_type_info: TypeInformation | None) -> None:
        super().__init__(name, None if elem_type_info is None else Types.LIST(elem_type_info))


class MapStateDescriptor(StateDescriptor, Generic[K, V]):
    """Of a `MapState` or a `BroadcastState`. PyFlink's ``MapStateDescriptor``.

    Examples
    --------
    >>> MapStateDescriptor("counts", Types.STRING(), Types.INT())
    MapStateDescriptor('counts', Types.MAP(Types.STRING(), Types.INT()))
    """

    kind = "map"

    def __init__(
        self, name: str, key_type_info: TypeInformation | None, value_type_info: TypeInformation | None
    ) -> None:
        types = [object_type() if each is None else each for each in (key_type_info, value_type_info)]
        super().__init__(name, Types.MAP(*types))


class ReducingStateDescriptor(StateDescriptor, Generic[T]):
    """Of a `ReducingState`. PyFlink's ``ReducingStateDescriptor``.

    Parameters
    ----------
    reduce_function : ReduceFunction or callable
        Makes one value of two.

    Examples
    --------
    >>> longest = ReducingStateDescriptor("longest", max, Types.INT())
    >>> longest.get_reduce_function()(3, 7)
    7
    """

    kind = "reducing"

    def __init__(self, name: str, reduce_function: object, type_info: TypeInformation | None) -> None:
        super().__init__(name, type_info)
        if not hasattr(reduce_function, "reduce") and not callable(reduce_function):
            raise TypeError("The input must be a ReduceFunction or a callable function!")
        self._reduce_function = reduce_function

    def get_reduce_function(self) -> Any:
        """Return the function."""
        return self._reduce_function


class AggregatingStateDescriptor(StateDescriptor, Generic[A, R]):
    """Of an `AggregatingState`; the type is that of the accumulator. PyFlink's ``AggregatingStateDescriptor``.

    Examples
    --------
    >>> from flinkbuf.datastream import AggregateFunction
    >>> class Count(AggregateFunction):
    ...     def create_accumulator(self): return 0
    ...     def add(self, value, accumulator): return accumulator + 1
    ...     def get_result(self, accumulator): return accumulator
    ...     def merge(self, acc_a, acc_b): return acc_a + acc_b
    >>> count = AggregatingStateDescriptor("count", Count(), Types.LONG())
    >>> count.get_name(), count.get_agg_function().add("to", 4)
    ('count', 5)
    """

    kind = "aggregating"

    def __init__(self, name: str, agg_function: object, state_type_info: TypeInformation | None) -> None:
        super().__init__(name, state_type_info)
        methods = ("create_accumulator", "add", "get_result", "merge")
        if not all(hasattr(agg_function, method) for method in methods):
            raise TypeError(f"The input must be an AggregateFunction with {', '.join(methods)}; got {agg_function!r}")
        self._agg_function = agg_function

    def get_agg_function(self) -> object:
        """Return the function."""
        return self._agg_function


# The objects that functions are given come from below and know nothing of these classes.
ValueState.register(keyed_state.KeyedValueState)
ListState.register(keyed_state.KeyedListState)
MapState.register(keyed_state.KeyedMapState)
ReducingState.register(keyed_state.KeyedReducingState)
AggregatingState.register(keyed_state.KeyedAggregatingState)
