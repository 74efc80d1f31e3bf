"""Streams cut into windows. Flink: WindowedStream, AllWindowedStream."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, overload

from flinkbuf.datastream.arguments import declared, said
from flinkbuf.datastream.program.operator_factories import MadeBy
from flinkbuf.streaming.chain.aggregations import COMBINED_KEY
from flinkbuf.streaming.chain.functions import (
    AggregateFunction,
    Function,
    NullByteKeySelector,
    ReduceFunction,
    as_selector,
)
from flinkbuf.streaming.chain.output_tag import OutputTag
from flinkbuf.streaming.windows.assigner import MergingWindowAssigner, WindowAssigner
from flinkbuf.streaming.windows.evictors import Evictor
from flinkbuf.streaming.windows.trigger import Trigger
from flinkbuf.streaming.windows.window_functions import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from flinkbuf.streaming.windows.window_operation import WindowOperatorFactory
from flinkbuf.types.type_information import TypeInformation

if TYPE_CHECKING:
    from flinkbuf.datastream.data_stream import DataStream, KeyedStream
    from flinkbuf.datastream.stream_execution_environment import StreamExecutionEnvironment

S = TypeVar("S", bound="_Windows[object]")
T = TypeVar("T")  # of the records
K = TypeVar("K")  # of their keys
R = TypeVar("R")  # of what a function makes of a window
W = TypeVar("W")  # of the windows themselves


class _Windows(Generic[T]):
    """What windows of keys and windows of all records have in common."""

    _kinds: ClassVar[tuple[type[Function], type[Function]]]  # of the functions that are given a window's contents
    _word: ClassVar[str]  # how the plan begins

    def __init__(self, keyed_stream: KeyedStream[object, T], window_assigner: WindowAssigner[T, W]) -> None:
        if not isinstance(window_assigner, WindowAssigner):
            raise TypeError(
                f"a WindowAssigner is needed, such as TumblingEventTimeWindows.of(...), got {window_assigner!r}"
            )
        self._keyed_stream = keyed_stream
        self._window_assigner = window_assigner
        self._window_trigger: Trigger | None = None
        self._evictor: Evictor | None = None
        self._allowed_lateness_ms = 0
        self._late_data_output_tag: OutputTag | None = None

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """Return the environment that it belongs to.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> windows = env.from_collection([3, 1, 2]).key_by(lambda n: n % 2).count_window(2)
        >>> windows.get_execution_environment() is env
        True
        """
        return self._keyed_stream.get_execution_environment()

    def get_input_type(self) -> TypeInformation:
        """Return the type of the records; PICKLED_BYTE_ARRAY if nobody declared one.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> env.from_collection([3, 1, 2], "int").key_by(lambda n: n % 2).count_window(2).get_input_type()
        Types.INT()
        """
        return said(self._keyed_stream._value_type)

    def trigger(self: S, trigger: Trigger) -> S:
        """Say when a window gives results; by default the assigner says it.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> from flinkbuf.datastream.window import CountTrigger, GlobalWindows, PurgingTrigger
        >>> windows = env.from_collection([1, 2, 3, 4]).key_by(lambda n: 0).window(GlobalWindows.create())
        >>> every_second = CountTrigger.of(2)
        >>> windows.trigger(every_second).reduce(lambda a, b: a + b).execute_and_collect(limit=2)
        [3, 10]
        >>> windows.trigger(PurgingTrigger.of(every_second)).reduce(lambda a, b: a + b).execute_and_collect(limit=2)
        [3, 7]
        """
        if not isinstance(trigger, Trigger):
            raise TypeError(f"a Trigger is needed, got {type(trigger).__name__} {trigger!r}")
        if isinstance(self._window_assigner, MergingWindowAssigner) and not trigger.can_merge():
            raise TypeError(
                "A merging window assigner cannot be used with a trigger that does not support merging: "
                f"{type(trigger).__name__}"
            )
        self._window_trigger = trigger
        return self

    def evictor(self: S, evictor: Evictor) -> S:
        """Let something choose among a window's records when it gives results; PyFlink has no such method.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> from flinkbuf.datastream.window import CountEvictor
        >>> numbers = env.from_collection([1, 2, 3, 4]).key_by(lambda n: 0)
        >>> last_two = numbers.count_window(4).evictor(CountEvictor.of(2))
        >>> last_two.reduce(lambda a, b: a + b).execute_and_collect(limit=1)
        [7]
        """
        self._evictor = evictor
        return self

    def allowed_lateness(self: S, time_ms: int) -> S:
        """Keep windows of event time so many milliseconds after their end, and give results again for late records.

        Examples
        --------
        >>> from flinkbuf.common import Time
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> from flinkbuf.datastream.window import TumblingEventTimeWindows
        >>> from flinkbuf.testing import OperatorHarness
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> seconds = env.from_collection([]).key_by(lambda n: 0).window(TumblingEventTimeWindows.of(Time.seconds(1)))
        >>> with OperatorHarness.of(seconds.allowed_lateness(500).reduce(lambda a, b: a + b)) as harness:
        ...     harness.process_element(1, timestamp=100)
        ...     harness.process_watermark(1_400)
        ...     harness.process_element(2, timestamp=200)  # late: once more, with it
        ...     harness.process_watermark(1_500)
        ...     harness.process_element(4, timestamp=300)  # too late
        ...     harness.output_values
        [1, 3]
        """
        if isinstance(time_ms, bool) or not isinstance(time_ms, int):
            raise TypeError(f"the allowed lateness is an int of milliseconds, got {type(time_ms).__name__} {time_ms!r}")
        if time_ms < 0:
            raise ValueError(f"The allowed lateness cannot be negative, got {time_ms}")
        self._allowed_lateness_ms = time_ms
        return self

    def side_output_late_data(self: S, output_tag: OutputTag) -> S:
        """Send records that come too late for all their windows to a side output; by default they are dropped.

        Examples
        --------
        >>> from flinkbuf.common import Time
        >>> from flinkbuf.datastream import OutputTag, StreamExecutionEnvironment
        >>> from flinkbuf.datastream.window import TumblingEventTimeWindows
        >>> from flinkbuf.testing import OperatorHarness
        >>> env, late = StreamExecutionEnvironment.get_execution_environment(), OutputTag("late")
        >>> seconds = env.from_collection([]).key_by(lambda n: 0).window(TumblingEventTimeWindows.of(Time.seconds(1)))
        >>> sums = seconds.side_output_late_data(late).reduce(lambda a, b: a + b)  # sums.get_side_output(late) has them
        >>> with OperatorHarness.of(sums) as harness:
        ...     harness.process_watermark(2_000)
        ...     harness.process_element(4, timestamp=300)
        ...     harness.output_values, [record.value for record in harness.side_output(late)]
        ([], [4])
        """
        if not isinstance(output_tag, OutputTag):
            raise TypeError(f"an OutputTag is needed, got {type(output_tag).__name__} {output_tag!r}")
        self._late_data_output_tag = output_tag
        return self

    def _reduce(
        self, reduce_function: object, window_function: object, output_type: object, two_phase: bool = False
    ) -> DataStream[R]:
        if not isinstance(reduce_function, ReduceFunction) and not callable(reduce_function):
            raise TypeError("The input must be a ReduceFunction or a callable function!")
        self._check_window_function(window_function)
        type_info = declared(output_type)
        if window_function is None and output_type is None:
            type_info = self._keyed_stream._value_type
        return self._result(
            type_info,
            [reduce_function, window_function],
            two_phase,
            reduce_function=reduce_function,
            window_function=window_function,
            contents_type=self._keyed_stream._value_type,
        )

    def _aggregate(
        self,
        aggregate_function: object,
        window_function: object,
        accumulator_type: object,
        output_type: object,
        two_phase: bool = False,
    ) -> DataStream[R]:
        if not isinstance(aggregate_function, AggregateFunction):
            raise TypeError(
                "The input must be a flinkbuf.datastream.functions.AggregateFunction!, got "
                f"{type(aggregate_function).__name__} {aggregate_function!r}"
            )
        self._check_window_function(window_function)
        return self._result(
            declared(output_type),
            [aggregate_function, window_function],
            two_phase,
            aggregate_function=aggregate_function,
            window_function=window_function,
            contents_type=declared(accumulator_type),
        )

    def _all_records(self, function: object, kind: type[Function], output_type: object) -> DataStream[R]:
        self._check_kind(function, kind)
        return self._result(
            declared(output_type),
            [function],
            window_function=function,
            contents_type=self._keyed_stream._value_type,
        )

    def _check_kind(self, function: object, *kinds: type[Function]) -> None:
        if not isinstance(function, kinds):
            wanted = " or ".join(kind.__name__ for kind in kinds)
            raise TypeError(f"window_function should be a {wanted}, got {type(function).__name__} {function!r}")

    def _check_window_function(self, function: object) -> None:
        if function is not None:
            self._check_kind(function, *self._kinds)

    def _selector(self) -> Callable[[T], object] | None:
        """What the operator tells keys apart by; None: it sees one window for all."""
        return as_selector(self._keyed_stream._key_selector)

    def _result(
        self, type_info: TypeInformation | None, functions: list[object], two_phase: bool = False, **options: Any
    ) -> DataStream[R]:
        assigner, tag = self._window_assigner, self._late_data_output_tag
        keyed: KeyedStream[Any, Any] = self._keyed_stream
        factory = WindowOperatorFactory(
            assigner,
            key_selector=COMBINED_KEY if two_phase else self._selector(),
            trigger=self._window_trigger,
            evictor=self._evictor,
            allowed_lateness_ms=self._allowed_lateness_ms,
            late_tag_id=None if tag is None else tag.tag_id,
            two_phase=two_phase,
            **options,
        )
        if two_phase:
            selector, delay_ms = as_selector(keyed._key_selector), self.get_execution_environment().get_buffer_timeout()
            keyed = keyed._combined(factory.combining(selector, keyed._key_type, delay_ms), factory.contents_type)
        result: DataStream[R] = keyed._keyed(type(assigner).__name__, type_info, MadeBy(type_info, factory))
        names = ", ".join(type(function).__name__ for function in functions if function is not None)
        return result.set_description(f"{self._word}({assigner!r}, {type(factory.trigger).__name__}, {names})")


class WindowedStream(_Windows[T], Generic[K, T]):
    """The records of each key in windows; made by ``window`` and ``count_window``. Flink's ``WindowedStream``.

    Examples
    --------
    >>> from flinkbuf.common import Time, WatermarkStrategy
    >>> from flinkbuf.datastream import StreamExecutionEnvironment
    >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    >>> from flinkbuf.datastream.window import TumblingEventTimeWindows
    >>> times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value[1])
    >>> flights = env.from_collection([("UA", 100, 7), ("AA", 200, 2), ("UA", 900, 5), ("UA", 1100, 1)])
    >>> by_carrier = flights.assign_timestamps_and_watermarks(times).key_by(lambda flight: flight[0])
    >>> seconds = by_carrier.window(TumblingEventTimeWindows.of(Time.seconds(1)))
    >>> worst = seconds.reduce(lambda a, b: max(a, b, key=lambda flight: flight[2]))
    >>> sorted(worst.execute_and_collect())
    [('AA', 200, 2), ('UA', 100, 7), ('UA', 1100, 1)]
    """

    _kinds = (WindowFunction, ProcessWindowFunction)
    _word = "Window"

    @overload
    def reduce(
        self, reduce_function: Callable[[T, T], object] | ReduceFunction, *, two_phase: bool = False
    ) -> DataStream[T]: ...

    @overload
    def reduce(
        self,
        reduce_function: Callable[[T, T], object] | ReduceFunction,
        window_function: WindowFunction[T, R, K, W] | ProcessWindowFunction[T, R, K, W],
        *,
        two_phase: bool = False,
    ) -> DataStream[R]: ...

    @overload
    def reduce(
        self,
        reduce_function: Callable[[T, T], object] | ReduceFunction,
        window_function: WindowFunction[T, R, K, W] | ProcessWindowFunction[T, R, K, W] | None = None,
        output_type: object = None,
        *,
        two_phase: bool = False,
    ) -> DataStream[Any]: ...

    def reduce(
        self,
        reduce_function: Callable[[T, T], object] | ReduceFunction,
        window_function: WindowFunction[T, R, K, W] | ProcessWindowFunction[T, R, K, W] | None = None,
        output_type: object = None,
        *,
        two_phase: bool = False,
    ) -> DataStream[Any]:
        """Reduce each window's records as they come. Flink's ``WindowedStream.reduce``.

        Parameters
        ----------
        reduce_function : callable or ReduceFunction
            Makes one record of two.
        window_function : WindowFunction or ProcessWindowFunction, optional
            Is given the one record that is left, when the window fires.
        output_type : TypeInformation, optional
            Of the results; by default that of the records where there is no window function.
        two_phase : bool, default False
            Reduce the records of a key and window where they are, too, before they are sent. See `aggregate`.

        Returns
        -------
        DataStream
            One record a window each time it fires, or what the window function gives.

        Raises
        ------
        TypeError
            If a function is of another kind.
        ValueError
            If `two_phase` does not go with these windows.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> numbers = env.from_collection([3, 1, 2])
        >>> numbers.key_by(lambda n: 0).count_window(3).reduce(max).execute_and_collect(limit=1)
        [3]
        """
        return self._reduce(reduce_function, window_function, output_type, two_phase)

    def aggregate(
        self,
        aggregate_function: AggregateFunction,
        window_function: WindowFunction[T, R, K, W] | ProcessWindowFunction[T, R, K, W] | None = None,
        accumulator_type: object = None,
        output_type: object = None,
        *,
        two_phase: bool = False,
    ) -> DataStream[Any]:
        """Aggregate each window's records as they come. Flink's ``WindowedStream.aggregate``.

        Parameters
        ----------
        aggregate_function : AggregateFunction
            Gathers the records in an accumulator, of which it makes the result.
        window_function : WindowFunction or ProcessWindowFunction, optional
            Is given the result, when the window fires.
        accumulator_type, output_type : TypeInformation, optional
            Of accumulators, which are state, and of the results.
        two_phase : bool, default False
            Aggregate the records of a key where they are, too, before they are sent to the subtask that has the key,
            which merges accumulators: of windows of event time one for each key and pane (as long as the step of
            sliding windows, if it divides their length), of windows of processing time one for what comes within the
            buffer timeout. For tumbling and sliding windows with their own trigger, without an evictor, lateness and a
            side output of late records. ``merge`` of the function has to be right: sums of floats may differ in their
            last digits. In Flink's SQL this is TWO_PHASE, in Spark what ``aggregateByKey`` does.

        Returns
        -------
        DataStream
            One result a window each time it fires, or what the window function gives.

        Raises
        ------
        TypeError
            If a function is of another kind.
        ValueError
            If `two_phase` does not go with these windows.

        Examples
        --------
        >>> from flinkbuf.datastream import AggregateFunction, StreamExecutionEnvironment
        >>> class Count(AggregateFunction):
        ...     def create_accumulator(self): return 0
        ...     def add(self, value, accumulator): return accumulator + 1
        ...     def get_result(self, accumulator): return accumulator
        ...     def merge(self, acc_a, acc_b): return acc_a + acc_b
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> numbers = env.from_collection([3, 1, 2])
        >>> numbers.key_by(lambda n: 0).count_window(3).aggregate(Count()).execute_and_collect(limit=1)
        [3]
        """
        return self._aggregate(aggregate_function, window_function, accumulator_type, output_type, two_phase)

    @overload
    def apply(self, window_function: WindowFunction[T, R, K, W]) -> DataStream[R]: ...

    @overload
    def apply(self, window_function: WindowFunction[T, R, K, W], output_type: object) -> DataStream[Any]: ...

    def apply(self, window_function: WindowFunction[T, R, K, W], output_type: object = None) -> DataStream[R]:
        """Give all records of a window to a function when it fires. Flink's ``WindowedStream.apply``.

        Parameters
        ----------
        window_function : WindowFunction
        output_type : TypeInformation, optional
            Of the results.

        Returns
        -------
        DataStream
            What the function gives.

        Raises
        ------
        TypeError
            If the function is of another kind.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> from flinkbuf.datastream.functions import WindowFunction
        >>> class Listed(WindowFunction):
        ...     def apply(self, key, window, inputs): yield sorted(inputs)
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> numbers = env.from_collection([3, 1, 2])
        >>> numbers.key_by(lambda n: 0).count_window(3).apply(Listed()).execute_and_collect(limit=1)
        [[1, 2, 3]]
        """
        return self._all_records(window_function, self._kinds[0], output_type)

    @overload
    def process(self, process_window_function: ProcessWindowFunction[T, R, K, W]) -> DataStream[R]: ...

    @overload
    def process(
        self, process_window_function: ProcessWindowFunction[T, R, K, W], output_type: object
    ) -> DataStream[Any]: ...

    def process(
        self, process_window_function: ProcessWindowFunction[T, R, K, W], output_type: object = None
    ) -> DataStream[R]:
        """Give all records of a window, and what there is to know of it, to a function when it fires.

        Flink's ``WindowedStream.process``.

        Parameters
        ----------
        process_window_function : ProcessWindowFunction
        output_type : TypeInformation, optional
            Of the results.

        Returns
        -------
        DataStream
            What the function gives.

        Raises
        ------
        TypeError
            If the function is of another kind.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> from flinkbuf.datastream.functions import ProcessWindowFunction
        >>> class Counted(ProcessWindowFunction):
        ...     def process(self, key, context, elements): yield len(list(elements))
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> numbers = env.from_collection([3, 1, 2])
        >>> numbers.key_by(lambda n: 0).count_window(3).process(Counted()).execute_and_collect(limit=1)
        [3]
        """
        return self._all_records(process_window_function, self._kinds[1], output_type)


class AllWindowedStream(_Windows[T]):
    """All records in windows, in one subtask; made by ``window_all``. Flink's ``AllWindowedStream``.

    Examples
    --------
    >>> from flinkbuf.common import Time, WatermarkStrategy
    >>> from flinkbuf.datastream import StreamExecutionEnvironment
    >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    >>> from flinkbuf.datastream.window import TumblingEventTimeWindows
    >>> times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value[1])
    >>> flights = env.from_collection([("UA", 100, 7), ("AA", 200, 2), ("UA", 1100, 1)])
    >>> all_flights = flights.assign_timestamps_and_watermarks(times)
    >>> seconds = all_flights.window_all(TumblingEventTimeWindows.of(Time.seconds(1)))
    >>> worst = seconds.reduce(lambda a, b: max(a, b, key=lambda flight: flight[2]))
    >>> list(worst.execute_and_collect())
    [('UA', 100, 7), ('UA', 1100, 1)]
    """

    _kinds = (AllWindowFunction, ProcessAllWindowFunction)
    _word = "AllWindow"

    def __init__(self, data_stream: DataStream[T], window_assigner: WindowAssigner[T, W]) -> None:
        super().__init__(data_stream.key_by(NullByteKeySelector()), window_assigner)

    def _selector(self) -> Callable[[T], object] | None:
        return None

    @overload
    def reduce(self, reduce_function: Callable[[T, T], object] | ReduceFunction) -> DataStream[T]: ...

    @overload
    def reduce(
        self,
        reduce_function: Callable[[T, T], object] | ReduceFunction,
        window_function: AllWindowFunction[T, R, W] | ProcessAllWindowFunction[T, R, W],
    ) -> DataStream[R]: ...

    @overload
    def reduce(
        self,
        reduce_function: Callable[[T, T], object] | ReduceFunction,
        window_function: AllWindowFunction[T, R, W] | ProcessAllWindowFunction[T, R, W] | None = None,
        output_type: object = None,
    ) -> DataStream[Any]: ...

    def reduce(
        self,
        reduce_function: Callable[[T, T], object] | ReduceFunction,
        window_function: AllWindowFunction[T, R, W] | ProcessAllWindowFunction[T, R, W] | None = None,
        output_type: object = None,
    ) -> DataStream[Any]:
        """Reduce each window's records as they come. Flink's ``AllWindowedStream.reduce``.

        Parameters
        ----------
        reduce_function : callable or ReduceFunction
            Makes one record of two.
        window_function : AllWindowFunction or ProcessAllWindowFunction, optional
            Is given the one record that is left, when the window fires.
        output_type : TypeInformation, optional
            Of the results; by default that of the records where there is no window function.

        Returns
        -------
        DataStream
            One record a window each time it fires, or what the window function gives.

        Raises
        ------
        TypeError
            If a function is of another kind.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> from flinkbuf.datastream.window import CountTumblingWindowAssigner
        >>> numbers = env.from_collection([3, 1, 2])
        >>> numbers.window_all(CountTumblingWindowAssigner(3)).reduce(max).execute_and_collect(limit=1)
        [3]
        """
        return self._reduce(reduce_function, window_function, output_type)

    def aggregate(
        self,
        aggregate_function: AggregateFunction,
        window_function: AllWindowFunction[T, R, W] | ProcessAllWindowFunction[T, R, W] | None = None,
        accumulator_type: object = None,
        output_type: object = None,
    ) -> DataStream[Any]:
        """Aggregate each window's records as they come. Flink's ``AllWindowedStream.aggregate``.

        Parameters
        ----------
        aggregate_function : AggregateFunction
            Gathers the records in an accumulator, of which it makes the result.
        window_function : AllWindowFunction or ProcessAllWindowFunction, optional
            Is given the result, when the window fires.
        accumulator_type, output_type : TypeInformation, optional
            Of accumulators, which are state, and of the results.

        Returns
        -------
        DataStream
            One result a window each time it fires, or what the window function gives.

        Raises
        ------
        TypeError
            If a function is of another kind.

        Examples
        --------
        >>> from flinkbuf.datastream import AggregateFunction, StreamExecutionEnvironment
        >>> class Count(AggregateFunction):
        ...     def create_accumulator(self): return 0
        ...     def add(self, value, accumulator): return accumulator + 1
        ...     def get_result(self, accumulator): return accumulator
        ...     def merge(self, acc_a, acc_b): return acc_a + acc_b
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> from flinkbuf.datastream.window import CountTumblingWindowAssigner
        >>> numbers = env.from_collection([3, 1, 2])
        >>> numbers.window_all(CountTumblingWindowAssigner(3)).aggregate(Count()).execute_and_collect(limit=1)
        [3]
        """
        return self._aggregate(aggregate_function, window_function, accumulator_type, output_type)

    @overload
    def apply(self, window_function: AllWindowFunction[T, R, W]) -> DataStream[R]: ...

    @overload
    def apply(self, window_function: AllWindowFunction[T, R, W], output_type: object) -> DataStream[Any]: ...

    def apply(self, window_function: AllWindowFunction[T, R, W], output_type: object = None) -> DataStream[R]:
        """Give all records of a window to a function when it fires. Flink's ``AllWindowedStream.apply``.

        Parameters
        ----------
        window_function : AllWindowFunction
        output_type : TypeInformation, optional
            Of the results.

        Returns
        -------
        DataStream
            What the function gives.

        Raises
        ------
        TypeError
            If the function is of another kind.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> from flinkbuf.datastream.functions import AllWindowFunction
        >>> class Listed(AllWindowFunction):
        ...     def apply(self, window, inputs): yield sorted(inputs)
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> from flinkbuf.datastream.window import CountTumblingWindowAssigner
        >>> numbers = env.from_collection([3, 1, 2])
        >>> numbers.window_all(CountTumblingWindowAssigner(3)).apply(Listed()).execute_and_collect(limit=1)
        [[1, 2, 3]]
        """
        return self._all_records(window_function, self._kinds[0], output_type)

    @overload
    def process(self, process_window_function: ProcessAllWindowFunction[T, R, W]) -> DataStream[R]: ...

    @overload
    def process(
        self, process_window_function: ProcessAllWindowFunction[T, R, W], output_type: object
    ) -> DataStream[Any]: ...

    def process(
        self, process_window_function: ProcessAllWindowFunction[T, R, W], output_type: object = None
    ) -> DataStream[R]:
        """Give all records of a window, and what there is to know of it, to a function when it fires.

        Flink's ``AllWindowedStream.process``.

        Parameters
        ----------
        process_window_function : ProcessAllWindowFunction
        output_type : TypeInformation, optional
            Of the results.

        Returns
        -------
        DataStream
            What the function gives.

        Raises
        ------
        TypeError
            If the function is of another kind.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> from flinkbuf.datastream.functions import ProcessAllWindowFunction
        >>> class Counted(ProcessAllWindowFunction):
        ...     def process(self, context, elements): yield len(list(elements))
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> from flinkbuf.datastream.window import CountTumblingWindowAssigner
        >>> numbers = env.from_collection([3, 1, 2])
        >>> numbers.window_all(CountTumblingWindowAssigner(3)).process(Counted()).execute_and_collect(limit=1)
        [3]
        """
        return self._all_records(process_window_function, self._kinds[1], output_type)
