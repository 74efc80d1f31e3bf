"""Two streams in one operator, and streams that every subtask sees. Flink: ConnectedStreams, BroadcastStream."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, overload

from flinkbuf.datastream.arguments import declared
from flinkbuf.datastream.program.operator_factories import (
    BroadcastProcessFactory,
    CoFunctionFactory,
    CoProcessFactory,
    KeyedBroadcastProcessFactory,
    KeyedCoProcessFactory,
)
from flinkbuf.streaming.chain.functions import CoFlatMapFunction, CoMapFunction, KeySelector
from flinkbuf.streaming.chain.process_functions import (
    BaseBroadcastProcessFunction,
    BroadcastProcessFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
)
from flinkbuf.streaming.state.state import MapStateDescriptor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from flinkbuf.datastream.data_stream import DataStream
    from flinkbuf.datastream.program.operator_factories import OperatorFactory
    from flinkbuf.types.type_information import TypeInformation

T1 = TypeVar("T1")  # of the first stream's records, or of those that are not broadcast
T2 = TypeVar("T2")  # of the second's
K = TypeVar("K")  # of the keys
R = TypeVar("R")  # of what a function makes of them
In1 = TypeVar("In1", contravariant=True)
In2 = TypeVar("In2", contravariant=True)
Out1 = TypeVar("Out1", covariant=True)
Out2 = TypeVar("Out2", covariant=True)


class MapsBoth(Protocol[In1, In2, Out1, Out2]):
    """What type checkers see in a `CoMapFunction`: the types of its methods."""

    def map1(self, value: In1, /) -> Out1 | None:
        """See `CoMapFunction`."""

    def map2(self, value: In2, /) -> Out2 | None:
        """See `CoMapFunction`."""


class FlatMapsBoth(Protocol[In1, In2, Out1, Out2]):
    """What type checkers see in a `CoFlatMapFunction`: the types of its methods."""

    def flat_map1(self, value: In1, /) -> Iterable[Out1] | None:
        """See `CoFlatMapFunction`."""

    def flat_map2(self, value: In2, /) -> Iterable[Out2] | None:
        """See `CoFlatMapFunction`."""


class ConnectedStreams(Generic[T1, T2]):
    """Two streams, of any types, that one operator reads; made by ``connect``. Flink's ``ConnectedStreams``.

    Examples
    --------
    >>> from flinkbuf.datastream import StreamExecutionEnvironment
    >>> env = StreamExecutionEnvironment.get_execution_environment()
    >>> class Texts(CoMapFunction):
    ...     def map1(self, value): return f"number {value}"
    ...     def map2(self, value): return f"word {value}"
    >>> texts = env.from_collection([1]).connect(env.from_collection(["a"])).map(Texts())
    >>> sorted(texts.execute_and_collect())
    ['number 1', 'word a']
    """

    def __init__(self, stream1: DataStream[T1], stream2: DataStream[T2]) -> None:
        self.stream1 = stream1
        self.stream2 = stream2

    def key_by(
        self,
        key_selector1: Callable[[T1], object] | KeySelector,
        key_selector2: Callable[[T2], object] | KeySelector,
        key_type: object = None,
    ) -> ConnectedStreams[T1, T2]:
        """Bring records of the same key, from either stream, to the same subtask. Flink's ``ConnectedStreams.keyBy``.

        Parameters
        ----------
        key_selector1, key_selector2 : callable or KeySelector
            Give the key of a record of each stream.
        key_type : TypeInformation, optional
            What the keys are.

        Returns
        -------
        ConnectedStreams
            Both streams, keyed.

        Raises
        ------
        TypeError
            If a selector is neither.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> both = env.from_collection([1, 2]).connect(env.from_collection(["a", "bb"]))
        >>> both.key_by(lambda number: number, len).stream2
        <KeyedStream 'Partition' of Types.ROW_NAMED(['f0', 'f1'], [Types.PICKLED_BYTE_ARRAY(), \
Types.PICKLED_BYTE_ARRAY()])>
        """
        return ConnectedStreams(
            self.stream1.key_by(key_selector1, key_type), self.stream2.key_by(key_selector2, key_type)
        )

    @overload
    def map(self, func: MapsBoth[T1, T2, Out1, Out2]) -> DataStream[Out1 | Out2]: ...

    @overload
    def map(self, func: MapsBoth[T1, T2, object, object], output_type: object) -> DataStream[Any]: ...

    def map(self, func: MapsBoth[T1, T2, R, R], output_type: object = None) -> DataStream[R]:
        """Give ``map1``'s and ``map2``'s result for each record; None is none.

        Flink's ``ConnectedStreams.map``.

        Parameters
        ----------
        func : CoMapFunction
        output_type : TypeInformation, optional
            Of the results.

        Returns
        -------
        DataStream
            The results of both streams, in any order.

        Raises
        ------
        TypeError
            If the function is no CoMapFunction.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> class Numbers(CoMapFunction):
        ...     def map1(self, value): return value if value > 1 else None
        ...     def map2(self, value): return len(value)
        >>> both = env.from_collection([1, 2]).connect(env.from_collection(["abc"]))
        >>> sorted(both.map(Numbers()).execute_and_collect())
        [2, 3]
        """
        if not isinstance(func, CoMapFunction):
            raise TypeError(f"The input function must be a CoMapFunction!, got {type(func).__name__} {func!r}")
        return self._call("Co-Map", "map", func, declared(output_type))

    @overload
    def flat_map(self, func: FlatMapsBoth[T1, T2, Out1, Out2]) -> DataStream[Out1 | Out2]: ...

    @overload
    def flat_map(self, func: FlatMapsBoth[T1, T2, object, object], output_type: object) -> DataStream[Any]: ...

    def flat_map(self, func: FlatMapsBoth[T1, T2, R, R], output_type: object = None) -> DataStream[R]:
        """Give all that ``flat_map1`` and ``flat_map2`` yield for each record.

        Flink's ``ConnectedStreams.flatMap``.

        Parameters
        ----------
        func : CoFlatMapFunction
        output_type : TypeInformation, optional
            Of the results.

        Returns
        -------
        DataStream
            The results of both streams, in any order.

        Raises
        ------
        TypeError
            If the function is no CoFlatMapFunction.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> class Numbers(CoFlatMapFunction):
        ...     def flat_map1(self, value): return [value] if value > 1 else None
        ...     def flat_map2(self, value): yield len(value)
        >>> both = env.from_collection([1, 2]).connect(env.from_collection(["abc"]))
        >>> sorted(both.flat_map(Numbers()).execute_and_collect())
        [2, 3]
        """
        if not isinstance(func, CoFlatMapFunction):
            raise TypeError(f"The input must be a CoFlatMapFunction!, got {type(func).__name__} {func!r}")
        return self._call("Co-Flat Map", "flat_map", func, declared(output_type))

    def process(
        self, func: CoProcessFunction[T1, T2, R] | KeyedCoProcessFunction[T1, T2, R], output_type: object = None
    ) -> DataStream[R]:
        """Give all that the function yields; on keyed streams it has state and timers for each key.

        Flink's ``ConnectedStreams.process``. What the records are is open: some may go to side outputs.

        Parameters
        ----------
        func : CoProcessFunction or KeyedCoProcessFunction
            The second where both streams are keyed.
        output_type : TypeInformation, optional
            Of the results.

        Returns
        -------
        DataStream
            The results of both streams, in any order.

        Raises
        ------
        TypeError
            If the function is of another kind, or needs keys that there are not.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> class Both(CoProcessFunction):
        ...     def process_element1(self, value, ctx): yield value
        ...     def process_element2(self, value, ctx): yield len(value)
        >>> both = env.from_collection([1]).connect(env.from_collection(["abc"]))
        >>> sorted(both.process(Both()).execute_and_collect())
        [1, 3]
        """
        if isinstance(func, BaseBroadcastProcessFunction):
            raise TypeError(
                f"a {type(func).__mro__[1].__name__} needs a stream that is broadcast with its state: "
                "stream.connect(other.broadcast(MapStateDescriptor(...)))"
            )
        if not isinstance(func, (CoProcessFunction, KeyedCoProcessFunction)):
            raise TypeError(
                f"The input must be a CoProcessFunction or KeyedCoProcessFunction!, got {type(func).__name__} {func!r}"
            )
        type_info = declared(output_type)
        selectors = self._key_selectors
        if selectors is not None:
            return self._join("Keyed Co-Process", type_info, KeyedCoProcessFactory(type_info, func, selectors))
        if isinstance(func, KeyedCoProcessFunction):
            raise TypeError("a KeyedCoProcessFunction needs both streams keyed: call key_by on the connected streams")
        return self._join("Co-Process", type_info, CoProcessFactory(type_info, func))

    @property
    def _key_selectors(self) -> tuple[object, object] | None:
        """Of both streams; None unless both are keyed."""
        selectors = (self.stream1._key_selector, self.stream2._key_selector)
        return None if None in selectors else selectors

    def _call(
        self, name: str, kind: str, function: CoMapFunction | CoFlatMapFunction, type_info: TypeInformation | None
    ) -> DataStream[Any]:
        return self._join(name, type_info, CoFunctionFactory(type_info, kind, function, self._key_selectors))

    def _join(self, name: str, type_info: TypeInformation | None, factory: OperatorFactory) -> DataStream[R]:
        return self.stream1._meet(self.stream2, name, type_info, factory)


class BroadcastStream(Generic[T2]):
    """A stream of which every subtask sees every record; made by ``broadcast`` with descriptors of state.

    Examples
    --------
    >>> from flinkbuf.common import Types
    >>> from flinkbuf.datastream import StreamExecutionEnvironment
    >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    >>> from flinkbuf.datastream.state import MapStateDescriptor
    >>> limits = MapStateDescriptor("limits", Types.STRING(), Types.INT())
    >>> everywhere = env.from_collection([("UA", 15)]).broadcast(limits)
    >>> delays = env.from_collection([("UA", 20)]).connect(everywhere)  # to be processed with them
    >>> [descriptor.get_name() for descriptor in delays.broadcast_state_descriptors]
    ['limits']
    """

    def __init__(self, input_stream: DataStream[T2], broadcast_state_descriptors: Sequence[MapStateDescriptor]) -> None:
        self.input_stream = input_stream
        self.broadcast_state_descriptors = list(broadcast_state_descriptors)


class BroadcastConnectedStream(Generic[T1, T2]):
    """A stream and what is broadcast to it. Flink's ``BroadcastConnectedStream``.

    Examples
    --------
    >>> from flinkbuf.common import Types
    >>> from flinkbuf.datastream import BroadcastProcessFunction, StreamExecutionEnvironment
    >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    >>> from flinkbuf.datastream.state import MapStateDescriptor
    >>> from flinkbuf.testing import OperatorHarness
    >>> limits = MapStateDescriptor("limits", Types.STRING(), Types.INT())
    >>> class Late(BroadcastProcessFunction):
    ...     def process_element(self, value, ctx):
    ...         limit = ctx.get_broadcast_state(limits).get(value[0])
    ...         if limit is not None and value[1] > limit: yield value
    ...     def process_broadcast_element(self, value, ctx):
    ...         ctx.get_broadcast_state(limits).put(*value)
    >>> late = env.from_collection([]).connect(env.from_collection([]).broadcast(limits)).process(Late())
    >>> with OperatorHarness.of(late) as harness:  # which says what comes first
    ...     harness.process_element(("UA", 15), input=2)
    ...     harness.process_elements([("UA", 20), ("UA", 10), ("AA", 33)], input=1)
    ...     harness.output_values
    [('UA', 20)]
    """

    def __init__(
        self,
        non_broadcast_stream: DataStream[T1],
        broadcast_stream: BroadcastStream[T2],
        broadcast_state_descriptors: Sequence[MapStateDescriptor],
    ) -> None:
        self.non_broadcast_stream = non_broadcast_stream
        self.broadcast_stream = broadcast_stream
        self.broadcast_state_descriptors = list(broadcast_state_descriptors)

    @overload
    def process(self, func: BroadcastProcessFunction[T1, T2, R]) -> DataStream[R]: ...

    @overload
    def process(self, func: KeyedBroadcastProcessFunction[K, T1, T2, R]) -> DataStream[R]: ...

    @overload
    def process(self, func: BroadcastProcessFunction[T1, T2, R], output_type: object) -> DataStream[Any]: ...

    @overload
    def process(self, func: KeyedBroadcastProcessFunction[K, T1, T2, R], output_type: object) -> DataStream[Any]: ...

    def process(
        self,
        func: BroadcastProcessFunction[T1, T2, R] | KeyedBroadcastProcessFunction[K, T1, T2, R],
        output_type: object = None,
    ) -> DataStream[Any]:
        """Give all that the function yields for records of either stream; only the broadcast one changes its state.

        Flink's ``BroadcastConnectedStream.process``.

        Parameters
        ----------
        func : BroadcastProcessFunction or KeyedBroadcastProcessFunction
            The second where the stream that is not broadcast is keyed.
        output_type : TypeInformation, optional
            Of the results.

        Returns
        -------
        DataStream
            The results.

        Raises
        ------
        TypeError
            If the function is of another kind than the stream.

        Examples
        --------
        >>> from flinkbuf.common import Types
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> class Both(BroadcastProcessFunction):
        ...     def process_element(self, value, ctx): yield value
        ...     def process_broadcast_element(self, value, ctx): yield len(value)
        >>> rules = env.from_collection(["abc"]).broadcast(MapStateDescriptor("rules", Types.STRING(), Types.INT()))
        >>> sorted(env.from_collection([1]).connect(rules).process(Both()).execute_and_collect())
        [1, 3]
        """
        stream = self.non_broadcast_stream
        is_keyed = stream._key_selector is not None
        if isinstance(func, BroadcastProcessFunction) and is_keyed:
            raise TypeError("BroadcastProcessFunction should be applied to non-keyed DataStream")
        if isinstance(func, KeyedBroadcastProcessFunction) and not is_keyed:
            raise TypeError("KeyedBroadcastProcessFunction should be applied to keyed DataStream")
        if not isinstance(func, (BroadcastProcessFunction, KeyedBroadcastProcessFunction)):
            raise TypeError(
                "The input must be a BroadcastProcessFunction or KeyedBroadcastProcessFunction, got "
                f"{type(func).__name__} {func!r}"
            )
        type_info = declared(output_type)
        descriptors = tuple(self.broadcast_state_descriptors)
        streams: list[DataStream[object]] = [stream, self.broadcast_stream.input_stream]
        if not is_keyed:
            factory: OperatorFactory = BroadcastProcessFactory(type_info, func, descriptors)
            return stream._join(streams, "Co-Process-Broadcast", type_info, factory)
        factory = KeyedBroadcastProcessFactory(type_info, func, descriptors, stream._key_selector)
        key = {"is_keyed": True, "key_type": stream._key_type}
        return stream._join(streams, "Keyed-Co-Process-Broadcast", type_info, factory, **key)
