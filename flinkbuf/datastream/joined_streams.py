"""Two streams whose records are put together: in windows, or by how far their times are apart; also of columns.

PyFlink has none of this. Flink: JoinedStreams, CoGroupedStreams, KeyedStream.IntervalJoin, KeyedStream.IntervalJoined;
joins of columns are in its Table API.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, TypeVar

from flinkbuf.datastream.arguments import check_function, declared, with_names
from flinkbuf.datastream.program.column_join_factories import (
    ColumnIntervalJoinFactory,
    ColumnTimeToLiveJoinFactory,
    ColumnWindowJoinFactory,
)
from flinkbuf.datastream.program.operator_factories import IntervalJoinFactory
from flinkbuf.streaming.chain.functions import CoGroupFunction, FlatJoinFunction, JoinFunction, KeySelector
from flinkbuf.streaming.chain.output_tag import OutputTag
from flinkbuf.streaming.chain.process_functions import ProcessJoinFunction
from flinkbuf.streaming.columns.sliced_windows import CumulatingWindows, SlicedWindows
from flinkbuf.streaming.windows.assigner import WindowAssigner
from flinkbuf.streaming.windows.co_group import (
    CoGroupWindowFunction,
    JoinCoGroupFunction,
    tag_first,
    tag_second,
    tagged_key_selector,
)
from flinkbuf.streaming.windows.evictors import Evictor
from flinkbuf.streaming.windows.time_windows import (
    CumulatingEventTimeWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from flinkbuf.streaming.windows.trigger import Trigger
from flinkbuf.types.duration import Duration, Time, milliseconds_of
from flinkbuf.types.type_information import TypeInformation

T1 = TypeVar("T1")  # of the records of the first stream
T2 = TypeVar("T2")  # of the second
R = TypeVar("R")  # of what a function makes of both

if TYPE_CHECKING:
    import pyarrow

    from flinkbuf.datastream.columns import ColumnStream, KeyedColumnStream
    from flinkbuf.datastream.data_stream import DataStream, KeyedStream
    from flinkbuf.datastream.program.operator_factories import OperatorFactory
    from flinkbuf.datastream.windowed_stream import WindowedStream
    from flinkbuf.streaming.columns.column_joins import JoinPlan

    KeySelectors = tuple[Callable[[T1], object] | KeySelector, Callable[[T2], object] | KeySelector]

S = TypeVar("S", bound="_WithWindow")
W = TypeVar("W", bound="_WithWindow")

SELECTOR_NEEDED = "Parameter key_selector should be type of KeySelector or a callable function."


class _WithWindow(Generic[T1, T2]):
    """Two streams with the keys of both and the windows; each method gives a new one."""

    def __init__(
        self,
        streams: tuple[DataStream[T1], DataStream[T2]],
        key_selectors: KeySelectors[T1, T2],
        key_type: TypeInformation | None,
        assigner: WindowAssigner[Any, Any],
    ) -> None:
        self._streams = streams
        self._key_selectors = key_selectors
        self._key_type = key_type
        self._window_assigner = assigner
        self._settings: dict[str, object] = {}  # of the windowed stream: method and argument

    def _with(self: S, method: str, argument: object) -> S:
        changed = copy.copy(self)
        changed._settings = {**self._settings, method: argument}
        changed._windowed()  # refuses what cannot be
        return changed

    def trigger(self: S, trigger: Trigger) -> S:
        """Say when a window gives results; by default the assigner says it."""
        return self._with("trigger", trigger)

    def evictor(self: S, evictor: Evictor) -> S:
        """Let something choose among a window's records, those of both streams, when it gives results."""
        return self._with("evictor", evictor)

    def allowed_lateness(self: S, time_ms: int) -> S:
        """Keep windows of event time so many milliseconds after their end, and give results again for late records."""
        return self._with("allowed_lateness", time_ms)

    def _windowed(self, stream: DataStream[object] | None = None) -> WindowedStream[object, object]:
        """Return the windowed stream of the tagged records of both, or of any stream, to try the settings on."""
        stream = self._streams[0] if stream is None else stream
        keyed = stream.key_by(tagged_key_selector(*self._key_selectors), self._key_type)
        windowed = keyed.window(self._window_assigner)
        for method, argument in self._settings.items():
            windowed = getattr(windowed, method)(argument)
        return windowed

    def _apply(self, function: object, output_type: object) -> DataStream[R]:
        first, second = self._streams
        tagged = first._tagged(tag_first).union(second._tagged(tag_second))
        return self._windowed(tagged).apply(CoGroupWindowFunction(function), output_type)


class _CoGroupedWithWindow(_WithWindow[T1, T2]):
    """Two streams with the keys of both and the windows. Flink: ``CoGroupedStreams.WithWindow``."""

    def apply(
        self,
        function: Callable[[list[T1], list[T2]], Iterable[R] | None] | CoGroupFunction[T1, T2, R],
        output_type: object = None,
    ) -> DataStream[R]:
        """Call the function for each key and window; what it yields or returns are the results."""
        check_function(function, CoGroupFunction, "The input must be a CoGroupFunction or a callable function")
        return self._apply(function, output_type)


class _JoinedWithWindow(_WithWindow[T1, T2]):
    """Two streams with the keys of both and the windows. Flink: ``JoinedStreams.WithWindow``."""

    def apply(
        self,
        function: Callable[[T1, T2], R] | JoinFunction[T1, T2, R] | FlatJoinFunction[T1, T2, R],
        output_type: object = None,
    ) -> DataStream[R]:
        """Call the function with each pair; a callable gives one result, as a `JoinFunction` does."""
        if not isinstance(function, (JoinFunction, FlatJoinFunction)) and not callable(function):
            raise TypeError(
                "The input must be a JoinFunction, a FlatJoinFunction or a callable function, got "
                f"{type(function).__name__} {function!r}"
            )
        return self._apply(JoinCoGroupFunction(function), output_type)


class _TwoStreams(Generic[T1, T2, W]):
    """What joins and co-groups have in common."""

    WithWindow: ClassVar[Any]

    def __init__(self, stream1: DataStream[T1], stream2: DataStream[T2]) -> None:
        self._streams = (stream1, stream2)

    def where(self, key_selector: Callable[[T1], object] | KeySelector, key_type: object = None) -> Where[T1, T2, W]:
        """Say what the key of a record of the first stream is.

        Parameters
        ----------
        key_selector : callable or KeySelector
            Gives the key: always the same for the same record, in every process.
        key_type : TypeInformation, optional
            What the key is.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> from flinkbuf.datastream.window import CountTrigger, GlobalWindows
        >>> names, flights = env.from_collection([("UA", "United")]), env.from_collection(["UA 1545"])
        >>> by_carrier = names.join(flights).where(lambda name: name[0]).equal_to(lambda flight: flight[:2])
        >>> named = by_carrier.window(GlobalWindows.create()).trigger(CountTrigger.of(2))
        >>> named.apply(lambda name, flight: (name[1], flight)).execute_and_collect(limit=1)
        [('United', 'UA 1545')]
        """
        check_function(key_selector, KeySelector, SELECTOR_NEEDED)
        return Where(self, key_selector, with_names(declared(key_type)))

    def window(self, window_assigner: object) -> NoReturn:
        """Raise: the keys come first."""
        raise TypeError(
            "say first which records belong together: .where(key_of_first).equal_to(key_of_second).window(…)"
        )


class Where(Generic[T1, T2, W]):
    """Two streams with the key of the first; made by ``where``. Flink: ``JoinedStreams.Where``."""

    def __init__(
        self,
        streams: _TwoStreams[T1, T2, W],
        key_selector: Callable[[T1], object] | KeySelector,
        key_type: TypeInformation | None,
    ) -> None:
        self._two_streams = streams
        self._key_selector = key_selector
        self._key_type = key_type

    def equal_to(
        self, key_selector: Callable[[T2], object] | KeySelector, key_type: object = None
    ) -> EqualTo[T1, T2, W]:
        """Say what the key of a record of the second stream is: records of equal keys belong together."""
        check_function(key_selector, KeySelector, SELECTOR_NEEDED)
        second = with_names(declared(key_type))
        if None not in (self._key_type, second) and self._key_type != second:
            raise ValueError(
                f"The keys for the two inputs are not equal: first key = {self._key_type}, second key = {second}"
            )
        return EqualTo(self._two_streams, (self._key_selector, key_selector), self._key_type or second)


class EqualTo(Generic[T1, T2, W]):
    """Two streams with the keys of both; made by ``equal_to``. Flink: ``JoinedStreams.Where.EqualTo``."""

    def __init__(
        self,
        streams: _TwoStreams[T1, T2, W],
        key_selectors: KeySelectors[T1, T2],
        key_type: TypeInformation | None,
    ) -> None:
        self._two_streams = streams
        self._key_selectors = key_selectors
        self._key_type = key_type

    def window(self, window_assigner: WindowAssigner[Any, Any]) -> W:
        """Put the records of both streams into windows.

        An assigner, trigger or evictor that looks at a record sees the pair ``(1, record)`` for one of the first
        stream, ``(2, record)`` for one of the second.
        """
        two = self._two_streams
        made: W = two.WithWindow(two._streams, self._key_selectors, self._key_type, window_assigner)
        made._windowed()  # refuses what is no assigner
        return made


class CoGroupedStreams(_TwoStreams[T1, T2, "_CoGroupedWithWindow[T1, T2]"]):
    """Two streams whose records are looked at together, by key and window; made by ``co_group``.

    The function is called once for each key and window in which there is a record of either stream, with all of the
    first stream's and all of the second's. Flink's ``CoGroupedStreams``.

    Examples
    --------
    >>> from flinkbuf.common import Time
    >>> from flinkbuf.datastream import StreamExecutionEnvironment
    >>> from flinkbuf.datastream.window import GlobalWindows, CountTrigger, PurgingTrigger
    >>> env = StreamExecutionEnvironment.get_execution_environment()
    >>> orders, payments = env.from_collection([("a", 1), ("b", 2)]), env.from_collection([("a", 1)])
    >>> def open_sums(orders, payments):
    ...     yield sum(order[1] for order in orders) - sum(payment[1] for payment in payments)
    >>> by_name = orders.co_group(payments).where(lambda order: order[0]).equal_to(lambda payment: payment[0])
    >>> by_name.window(GlobalWindows.create()).trigger(PurgingTrigger.of(CountTrigger.of(2))).apply(
    ...     open_sums
    ... ).execute_and_collect(limit=5)
    [0]
    """

    WithWindow = _CoGroupedWithWindow


class JoinedStreams(_TwoStreams[T1, T2, "_JoinedWithWindow[T1, T2]"]):
    """Two streams of whose records each pair of one key and one window is put together; made by ``join``.

    An inner join: what has no match in its window gives nothing. All records of a window are kept until it fires.
    Results have the last millisecond of the window as their time. Flink's ``JoinedStreams``.

    Examples
    --------
    >>> from flinkbuf.common import Time, WatermarkStrategy
    >>> from flinkbuf.common.watermark_strategy import TimestampAssigner
    >>> from flinkbuf.datastream import StreamExecutionEnvironment
    >>> from flinkbuf.datastream.window import TumblingEventTimeWindows
    >>> class SecondField(TimestampAssigner):
    ...     def extract_timestamp(self, value, record_timestamp):
    ...         return value[1]
    >>> env = StreamExecutionEnvironment.get_execution_environment()
    >>> times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
    >>> clicks = env.from_collection([("ann", 100), ("bob", 200)]).assign_timestamps_and_watermarks(times)
    >>> views = env.from_collection([("ann", 700), ("bob", 5200)]).assign_timestamps_and_watermarks(times)
    >>> same_second = clicks.join(views).where(lambda click: click[0]).equal_to(lambda view: view[0])
    >>> pairs = same_second.window(TumblingEventTimeWindows.of(Time.seconds(1))).apply(
    ...     lambda click, view: (click[0], view[1] - click[1])
    ... )
    >>> list(pairs.execute_and_collect())
    [('ann', 600)]
    """

    WithWindow = _JoinedWithWindow


class IntervalJoin(Generic[T1, T2]):
    """Two keyed streams that are joined by their times; made by ``interval_join``. Flink's ``IntervalJoin``."""

    def __init__(self, left: KeyedStream[object, T1], right: KeyedStream[object, T2]) -> None:
        self._left = left
        self._right = right
        self._is_event_time = True

    def in_event_time(self) -> IntervalJoin[T1, T2]:
        """Go by event time, which is all that there is."""
        self._is_event_time = True
        return self

    def in_processing_time(self) -> IntervalJoin[T1, T2]:
        """Go by processing time, which ``between`` refuses, as in Flink."""
        self._is_event_time = False
        return self

    def between(
        self, lower_bound: Duration | Time | timedelta, upper_bound: Duration | Time | timedelta
    ) -> IntervalJoined[T1, T2]:
        """Say how much later than a left record a right one may be: at least and at most, both included.

        Parameters
        ----------
        lower_bound, upper_bound : Duration, Time or datetime.timedelta
            Negative: the right one is earlier.
        """
        if not self._is_event_time:
            raise ValueError("Time-bounded stream joins are only supported in event time")
        lower, upper = milliseconds_of("lower_bound", lower_bound), milliseconds_of("upper_bound", upper_bound)
        if lower > upper:
            raise ValueError(f"lower_bound <= upper_bound must be fulfilled, got {lower} ms and {upper} ms")
        return IntervalJoined(self._left, self._right, lower, upper)


class IntervalJoined(Generic[T1, T2]):
    """Two keyed streams and how far the times of their records may be apart; made by ``between``.

    A pair is joined as soon as both are there, and its results have the time of the later one. A record is kept until
    event time has passed the last that could match it. One that comes behind the watermark is late: it is joined with
    nothing. Flink's ``IntervalJoined``.

    Examples
    --------
    >>> from flinkbuf.common import Duration, WatermarkStrategy
    >>> from flinkbuf.common.watermark_strategy import TimestampAssigner
    >>> from flinkbuf.datastream import ProcessJoinFunction, StreamExecutionEnvironment
    >>> class SecondField(TimestampAssigner):
    ...     def extract_timestamp(self, value, record_timestamp):
    ...         return value[1]
    >>> class Delay(ProcessJoinFunction):
    ...     def process_element(self, left, right, ctx):
    ...         yield left[0], ctx.get_right_timestamp() - ctx.get_left_timestamp()
    >>> env = StreamExecutionEnvironment.get_execution_environment()
    >>> times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(SecondField())
    >>> orders = env.from_collection([("tea", 0), ("rum", 1000)]).assign_timestamps_and_watermarks(times)
    >>> parcels = env.from_collection([("tea", 400), ("rum", 9000)]).assign_timestamps_and_watermarks(times)
    >>> soon = orders.key_by(lambda order: order[0]).interval_join(parcels.key_by(lambda parcel: parcel[0]))
    >>> list(soon.between(Duration.of_millis(0), Duration.of_seconds(5)).process(Delay()).execute_and_collect())
    [('tea', 400)]
    """

    def __init__(
        self,
        left: KeyedStream[object, T1],
        right: KeyedStream[object, T2],
        lower_bound_ms: int,
        upper_bound_ms: int,
    ) -> None:
        self._left = left
        self._right = right
        self._bounds_ms = (lower_bound_ms, upper_bound_ms)
        self._are_inclusive = [True, True]
        self._late_tags: list[str | None] = [None, None]

    def lower_bound_exclusive(self) -> IntervalJoined[T1, T2]:
        """Let a right record that is later by exactly the lower bound have no match."""
        self._are_inclusive[0] = False
        return self

    def upper_bound_exclusive(self) -> IntervalJoined[T1, T2]:
        """Let a right record that is later by exactly the upper bound have no match."""
        self._are_inclusive[1] = False
        return self

    def side_output_left_late_data(self, output_tag: OutputTag) -> IntervalJoined[T1, T2]:
        """Send left records that come behind the watermark to a side output; by default they are dropped."""
        return self._late_data(0, output_tag)

    def side_output_right_late_data(self, output_tag: OutputTag) -> IntervalJoined[T1, T2]:
        """Send right records that come behind the watermark to a side output; by default they are dropped."""
        return self._late_data(1, output_tag)

    def _late_data(self, side: int, output_tag: OutputTag) -> IntervalJoined[T1, T2]:
        if not isinstance(output_tag, OutputTag):
            raise TypeError(f"an OutputTag is needed, got {type(output_tag).__name__} {output_tag!r}")
        self._late_tags[side] = output_tag.tag_id
        return self

    def process(
        self, process_join_function: ProcessJoinFunction[T1, T2, R], output_type: object = None
    ) -> DataStream[R]:
        """Call the function with each pair; what it yields or returns are the results."""
        if not isinstance(process_join_function, ProcessJoinFunction):
            raise TypeError(
                "The input must be a ProcessJoinFunction, got "
                f"{type(process_join_function).__name__} {process_join_function!r}"
            )
        (lower, upper), (has_lower, has_upper) = self._bounds_ms, self._are_inclusive
        left, right = self._left, self._right
        type_info = declared(output_type)
        factory = IntervalJoinFactory(
            type_info,
            process_join_function,
            (left._key_selector, right._key_selector),
            (lower if has_lower else lower + 1, upper if has_upper else upper - 1),
            (self._late_tags[0], self._late_tags[1]),
            (left._value_type, right._value_type),
        )
        return left._meet(right, "Interval Join", type_info, factory)


class JoinedColumnStreams:
    """Two keyed column streams, and how their rows are given; made by ``KeyedColumnStream.join``.

    Say which rows with equal keys are partners: those of one `window`, those with times `between` bounds, or all that
    come within a `time_to_live`.

    Examples
    --------
    >>> from flinkbuf.datastream import StreamExecutionEnvironment
    >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    >>> auctions = env.from_collection([(1, "lamp")]).as_columns("id int, item string")
    >>> bids = env.from_collection([(1, 20)]).as_columns("auction int, price int")
    >>> bids.key_by("auction").join(auctions.key_by("id"))
    <JoinedColumnStreams: inner join by auction = id>
    """

    def __init__(self, left: KeyedColumnStream, right: KeyedColumnStream, kind: str) -> None:
        self._left = left
        self._right = right
        self._plan = _plan_of(left, right, kind)

    def __repr__(self) -> str:
        by = " and ".join(f"{one} = {other}" for one, other in zip(*self._plan.keys, strict=True))
        return f"<JoinedColumnStreams: {self._plan.kind} join by {by}>"

    def window(self, window_assigner: WindowAssigner[Any, Any]) -> ColumnStream:
        """Join rows that are in one window of event time, when it ends: tumbling, sliding or cumulating ones.

        Results have the last millisecond of the window as their timestamp. Rows that come behind all their windows are
        dropped and counted.

        Examples
        --------
        >>> from flinkbuf.common import Time
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> from flinkbuf.datastream.window import TumblingEventTimeWindows
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> clicks = env.from_collection([("ann", 100), ("bob", 200)]).as_columns("who string, at bigint")
        >>> views = env.from_collection([("ann", 700), ("bob", 5200)]).as_columns("viewer string, seen bigint")
        >>> clicks = clicks.assign_timestamps_and_watermarks("at").key_by("who")
        >>> views = views.assign_timestamps_and_watermarks("seen").key_by("viewer")
        >>> same_second = clicks.join(views).window(TumblingEventTimeWindows.of(Time.seconds(1)))
        >>> same_second.execute_and_collect(limit=2)
        [Row(who='ann', at=100, viewer='ann', seen=700)]
        """
        windows = sliced_windows_of(window_assigner)
        if windows is None:
            raise TypeError(
                "joins of column streams take TumblingEventTimeWindows, SlidingEventTimeWindows or "
                f"CumulatingEventTimeWindows, got {window_assigner!r:.80}; others are to be had record by record: "
                "as_records().join(...)"
            )
        return self._stream("Window Join", ColumnWindowJoinFactory(None, self._plan, windows))

    def between(
        self, lower_bound: Duration | Time | timedelta, upper_bound: Duration | Time | timedelta
    ) -> ColumnStream:
        """Join rows by their event times: a right one is at least and at most so much later than a left one.

        A pair has the later timestamp of the two. A row without a partner is given when the watermark says that none
        can come any more, and has the timestamp until which one could have come. An inner join drops and counts rows
        that come behind the watermark; in the others they meet the rows that are still there.

        Parameters
        ----------
        lower_bound, upper_bound : Duration, Time or datetime.timedelta
            Both included. Negative: the right row is earlier.

        Examples
        --------
        >>> from flinkbuf.common import Time
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> orders = env.from_collection([("tea", 0), ("rum", 1000)]).as_columns("what string, at bigint")
        >>> parcels = env.from_collection([("tea", 400), ("rum", 9000)]).as_columns("sent string, day bigint")
        >>> orders = orders.assign_timestamps_and_watermarks("at").key_by("what")
        >>> parcels = parcels.assign_timestamps_and_watermarks("day").key_by("sent")
        >>> sent = orders.join(parcels, how="left").between(Time.seconds(0), Time.seconds(5))
        >>> sorted(sent.execute_and_collect(limit=2))
        [Row(what='rum', at=1000, sent=None, day=None), Row(what='tea', at=0, sent='tea', day=400)]
        """
        lower, upper = milliseconds_of("lower_bound", lower_bound), milliseconds_of("upper_bound", upper_bound)
        if lower > upper:
            raise ValueError(f"lower_bound <= upper_bound must be fulfilled, got {lower} ms and {upper} ms")
        return self._stream("Interval Join", ColumnIntervalJoinFactory(None, self._plan, (lower, upper)))

    def time_to_live(self, time: Duration | Time | timedelta) -> ColumnStream:
        """Join all rows of a key, each of which is kept so long after it came.

        Time is the clock of the task here, not event time, as for Flink's state with a time to live. A pair has the
        later timestamp of the two, or that of the one that has any. A row without a partner is given, with its own
        timestamp, once it is kept no longer, or at the end of both streams. So no result is ever taken back; Flink SQL
        gives such a row at once, and withdraws it when a partner comes. In batch execution rows are kept to the end,
        whatever time is said.

        Parameters
        ----------
        time : Duration, Time or datetime.timedelta

        Examples
        --------
        >>> from flinkbuf.common import Time
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> auctions = env.from_collection([(1, "lamp"), (2, "desk")]).as_columns("id int, item string")
        >>> bids = env.from_collection([(1, 20)]).as_columns("auction int, price int")
        >>> no_bids = auctions.key_by("id").join(bids.key_by("auction"), how="anti").time_to_live(Time.hours(1))
        >>> no_bids.execute_and_collect(limit=1)
        [Row(id=2, item='desk')]
        """
        time_ms = milliseconds_of("the time to live", time)
        if time_ms <= 0:
            raise ValueError(f"the time to live must be longer than 0, got {time_ms} ms")
        return self._stream("Join", ColumnTimeToLiveJoinFactory(None, self._plan, time_ms))

    def _stream(self, name: str, factory: OperatorFactory) -> ColumnStream:
        left, right, plan = self._left._exchanged(gathers=True), self._right._exchanged(gathers=True), self._plan
        stream = left._join([left, right], name, left._value_type, factory, is_keyed=True)
        return type(self._left._origin)(stream, None, lambda: plan.schema)


def sliced_windows_of(assigner: Any) -> SlicedWindows | None:
    """Return what operators of columns are told of an assigner; None: it is another, or one that a user has derived."""
    if type(assigner) in (TumblingEventTimeWindows, SlidingEventTimeWindows):
        return SlicedWindows(assigner.size_ms, assigner.slide_ms, assigner.offset_ms)
    if type(assigner) is CumulatingEventTimeWindows:
        return CumulatingWindows(assigner.size_ms, assigner.step_ms, assigner.offset_ms)
    return None


def _plan_of(left: KeyedColumnStream, right: KeyedColumnStream, kind: str) -> JoinPlan:
    """Return what is joined, after a look at the names and types of both sides."""
    from flinkbuf.records.column_exchange import go_alike  # not before somebody has columns
    from flinkbuf.streaming.columns.column_joins import KINDS, JoinPlan

    if kind not in KINDS:
        raise ValueError(f"how= of join() is one of {', '.join(map(repr, KINDS))}, got {kind!r:.80}")
    keys = left._names, right._names
    if len(keys[0]) != len(keys[1]):
        raise ValueError(
            f"join() needs keys of as many columns: the left one has {', '.join(keys[0])}, and the right one "
            f"{', '.join(keys[1])}"
        )
    schemas = tuple(_schema_of(keyed, side) for keyed, side in ((left, "left"), (right, "right")))
    for one, other in zip(*keys, strict=True):
        types = schemas[0].field(one).type, schemas[1].field(other).type
        if not go_alike(*types):
            raise TypeError(
                f"column {one!r} of the left key is {types[0]}, and {other!r} of the right one is {types[1]}: rows "
                "with equal values of the two types go to different subtasks; cast one of them before key_by(), with "
                "with_columns()"
            )
    plan = JoinPlan(kind, keys, (schemas[0], schemas[1]))
    twice = [] if plan.is_left_only else [name for name in schemas[0].names if name in schemas[1].names]
    if twice:
        names = ", ".join(f"{name}=..." for name in twice)
        raise ValueError(
            f"both sides of join() have the column{'s' if len(twice) > 1 else ''} {', '.join(map(repr, twice))}, which "
            f"would be in the result twice: give them other names on one side before key_by(), with rename({names}), "
            "or leave them out with drop()"
        )
    return plan


def _schema_of(keyed: KeyedColumnStream, side: str) -> pyarrow.Schema:
    """Return the schema of a side's rows, without dictionaries."""
    import pyarrow as pa

    from flinkbuf.records.column_batch import without_dictionaries

    try:
        found = keyed._origin.schema()
    except Exception as error:
        error.add_note(
            f"join() needs to know which columns its {side} side has; where schema() cannot say it, "
            "as_records(type).as_columns(type) does"
        )
        raise
    schema = without_dictionaries(pa.RecordBatch.from_pylist([], found)).schema.remove_metadata()
    for name in keyed._names:
        if name not in schema.names:
            raise KeyError(f"the {side} side of join() has no column {name!r} to be its key; there are {schema.names}")
    for field in schema:
        if schema.names.count(field.name) > 1:
            raise ValueError(f"the {side} side of join() has the column {field.name!r} twice; rename() one")
        if pa.types.is_null(field.type):
            raise TypeError(
                f"column {field.name!r} of the {side} side of join() has no type where there are no rows: have the "
                "function that makes it say one, as pa.array(values, type) does"
            )
    return schema
