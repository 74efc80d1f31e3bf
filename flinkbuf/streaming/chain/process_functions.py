"""Functions that see more than the record: its time, timers, state, side outputs, a second stream.

``process_element`` and its kin return an iterable of results or None, or are generators; ``yield tag, value`` goes to
the side output of an `OutputTag`. The classes of contexts say what the operators give; no class derives from them.
Flink: org.apache.flink.streaming.api.functions; PyFlink: datastream/functions.py.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Generic

from flinkbuf._core.operators import broadcast_operator, interval_join_operator, process_operator
from flinkbuf.streaming.chain.functions import Function
from flinkbuf.streaming.chain.output_tag import OutputTag
from flinkbuf.streaming.state.state import BroadcastState, MapStateDescriptor, ReadOnlyBroadcastState
from flinkbuf.streaming.state.timers import TimerService
from flinkbuf.streaming.time.time_domain import TimeDomain
from flinkbuf.types.type_parameters import IN, IN1, IN2, KEY, OUT, K, V

Results = Iterable[OUT | tuple[OutputTag, object]]  # those for the stream itself, and for side outputs


class _Context(ABC):
    """What goes with a record; good for one call."""

    @abstractmethod
    def timer_service(self) -> TimerService:
        """Return what tells the time, and on keyed streams sets timers."""

    @abstractmethod
    def timestamp(self) -> int:
        """Return the record's event time in milliseconds since 1970; −2⁶³ if it has none."""


class _KeyedContext(_Context):
    """What goes with a record of a keyed stream."""

    @abstractmethod
    def get_current_key(self) -> Any:
        """Return the record's key, or the timer's."""


class _OnTimerContext(_KeyedContext):
    """What goes with a timer."""

    @abstractmethod
    def time_domain(self) -> TimeDomain:
        """Return whether the timer is one of event time or of processing time."""


class ProcessFunction(Function, Generic[IN, OUT]):
    """Any number of results for each record, with its time and side outputs. Flink's ``ProcessFunction``.

    Examples
    --------
    >>> from flinkbuf.streaming.chain.output_tag import OutputTag
    >>> odd = OutputTag("odd")
    >>> class Split(ProcessFunction):
    ...     def process_element(self, value, ctx):
    ...         yield (odd, value) if value % 2 else value
    >>> list(Split().process_element(4, None))
    [4]
    """

    class Context(_Context):
        """What goes with a record."""

    @abstractmethod
    def process_element(self, value: IN, ctx: ProcessFunction.Context) -> Results[OUT] | None:
        """Yield or return the results for a record."""


class KeyedProcessFunction(Function, Generic[IN, OUT]):
    """Any number of results for each record of a keyed stream, with state and timers.

    Flink: ``KeyedProcessFunction``.

    Examples
    --------
    >>> from flinkbuf.datastream import StreamExecutionEnvironment
    >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    >>> class Silence(KeyedProcessFunction):
    ...     def process_element(self, value, ctx):
    ...         ctx.timer_service().register_event_time_timer(1000)
    ...     def on_timer(self, timestamp, ctx):
    ...         yield ctx.get_current_key(), timestamp
    >>> calls = env.from_collection(["a", "a"]).key_by(lambda caller: caller)
    >>> calls.process(Silence()).execute_and_collect(limit=1)
    [('a', 1000)]
    """

    class Context(_KeyedContext):
        """What goes with a record."""

    class OnTimerContext(_OnTimerContext):
        """What goes with a timer."""

    @abstractmethod
    def process_element(self, value: IN, ctx: KeyedProcessFunction.Context) -> Results[OUT] | None:
        """Yield or return the results for a record."""

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Results[OUT] | None:
        """Yield or return the results for a timer of the current key."""


class CoProcessFunction(Function, Generic[IN1, IN2, OUT]):
    """Any number of results for each record of two streams. Flink's ``CoProcessFunction``.

    Examples
    --------
    >>> class Tagged(CoProcessFunction):
    ...     def process_element1(self, value, ctx):
    ...         yield "order", value
    ...     def process_element2(self, value, ctx):
    ...         yield "payment", value
    >>> list(Tagged().process_element2(7, None))
    [('payment', 7)]
    """

    class Context(_Context):
        """What goes with a record."""

    @abstractmethod
    def process_element1(self, value: IN1, ctx: CoProcessFunction.Context) -> Results[OUT] | None:
        """Yield or return the results for a record of the first stream."""

    @abstractmethod
    def process_element2(self, value: IN2, ctx: CoProcessFunction.Context) -> Results[OUT] | None:
        """Yield or return the results for a record of the second stream."""


class KeyedCoProcessFunction(Function, Generic[IN1, IN2, OUT]):
    """As `CoProcessFunction` on two streams of the same keys, with state and timers.

    Flink: ``KeyedCoProcessFunction``.

    Examples
    --------
    >>> from flinkbuf.common import Types
    >>> from flinkbuf.datastream import StreamExecutionEnvironment
    >>> from flinkbuf.datastream.state import ValueStateDescriptor
    >>> from flinkbuf.testing import OperatorHarness
    >>> class Unpaid(KeyedCoProcessFunction):
    ...     def open(self, runtime_context):
    ...         self.paid = runtime_context.get_state(ValueStateDescriptor("paid", Types.BOOLEAN()))
    ...     def process_element1(self, order, ctx):
    ...         ctx.timer_service().register_event_time_timer(ctx.timestamp() + 60_000)
    ...     def process_element2(self, payment, ctx):
    ...         self.paid.update(True)
    ...     def on_timer(self, timestamp, ctx):
    ...         if not self.paid.value():
    ...             yield f"{ctx.get_current_key()} has not paid within a minute"
    >>> env = StreamExecutionEnvironment.get_execution_environment()
    >>> both = env.from_collection([]).connect(env.from_collection([]))
    >>> unpaid = both.key_by(lambda order: order, lambda payment: payment).process(Unpaid())
    >>> with OperatorHarness.of(unpaid) as harness:
    ...     harness.process_element("ann", timestamp=1_000, input=1)
    ...     harness.process_element("bob", timestamp=2_000, input=1)
    ...     harness.process_element("ann", timestamp=3_000, input=2)
    ...     harness.process_watermark(100_000, input=1)
    ...     harness.process_watermark(100_000, input=2)
    ...     harness.output_values
    ['bob has not paid within a minute']
    """

    class Context(_KeyedContext):
        """What goes with a record."""

    class OnTimerContext(_OnTimerContext):
        """What goes with a timer."""

    @abstractmethod
    def process_element1(self, value: IN1, ctx: KeyedCoProcessFunction.Context) -> Results[OUT] | None:
        """Yield or return the results for a record of the first stream."""

    @abstractmethod
    def process_element2(self, value: IN2, ctx: KeyedCoProcessFunction.Context) -> Results[OUT] | None:
        """Yield or return the results for a record of the second stream."""

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Results[OUT] | None:
        """Yield or return the results for a timer of the current key."""


class ProcessJoinFunction(Function, Generic[IN1, IN2, OUT]):
    """Any number of results for each pair of records that an interval join puts together.

    Flink: ``ProcessJoinFunction``.

    Examples
    --------
    >>> class Delay(ProcessJoinFunction):
    ...     def process_element(self, left, right, ctx):
    ...         yield left, ctx.get_right_timestamp() - ctx.get_left_timestamp()
    """

    class Context(ABC):
        """What goes with a pair of records; good for one call."""

        @abstractmethod
        def get_left_timestamp(self) -> int:
            """Return the left record's event time in milliseconds since 1970."""

        @abstractmethod
        def get_right_timestamp(self) -> int:
            """Return the right record's event time in milliseconds since 1970."""

        @abstractmethod
        def get_timestamp(self) -> int:
            """Return the event time of the results: that of the later of the two records."""

    @abstractmethod
    def process_element(self, left: IN1, right: IN2, ctx: ProcessJoinFunction.Context) -> Results[OUT] | None:
        """Yield or return the results for a pair; ``yield tag, value`` goes to a side output."""


class BaseBroadcastProcessFunction(Function):
    """What functions on a stream and a broadcast one have in common."""

    class BaseContext(ABC):
        """What goes with a record of either stream."""

        @abstractmethod
        def timestamp(self) -> int:
            """Return the record's event time in milliseconds since 1970; −2⁶³ if it has none."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """Return the task's clock in milliseconds since 1970."""

        @abstractmethod
        def current_watermark(self) -> int:
            """Return how far event time has come in milliseconds since 1970."""

    class Context(BaseContext):
        """What goes with a broadcast record."""

        @abstractmethod
        def get_broadcast_state(self, state_descriptor: MapStateDescriptor[K, V]) -> BroadcastState[K, V]:
            """Return the broadcast state; every subtask has to change it alike."""

    class ReadOnlyContext(BaseContext):
        """What goes with a record of the other stream."""

        @abstractmethod
        def get_broadcast_state(self, state_descriptor: MapStateDescriptor[K, V]) -> ReadOnlyBroadcastState[K, V]:
            """Return the broadcast state, to be read."""


class BroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[IN1, IN2, OUT]):
    """On a stream without keys and a broadcast one. Flink's ``BroadcastProcessFunction``.

    Examples
    --------
    >>> from flinkbuf.common import Types
    >>> limits = MapStateDescriptor("limits", Types.STRING(), Types.INT())
    >>> class Above(BroadcastProcessFunction):
    ...     def process_element(self, value, ctx):
    ...         least = ctx.get_broadcast_state(limits).get("least")
    ...         if least is None or value >= least:
    ...             yield value
    ...     def process_broadcast_element(self, value, ctx):
    ...         ctx.get_broadcast_state(limits).put("least", value)
    """

    class Context(BaseBroadcastProcessFunction.Context, ABC):
        """What goes with a broadcast record."""

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext, ABC):
        """What goes with a record of the other stream."""

    @abstractmethod
    def process_element(self, value: IN1, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Results[OUT] | None:
        """Yield or return the results for a record of the stream that is not broadcast."""

    @abstractmethod
    def process_broadcast_element(self, value: IN2, ctx: BroadcastProcessFunction.Context) -> Results[OUT] | None:
        """Yield or return the results for a broadcast record."""


class KeyedBroadcastProcessFunction(BaseBroadcastProcessFunction, Generic[KEY, IN1, IN2, OUT]):
    """On a keyed stream and a broadcast one. Flink's ``KeyedBroadcastProcessFunction``.

    Examples
    --------
    >>> from flinkbuf.common import Types
    >>> from flinkbuf.datastream import StreamExecutionEnvironment
    >>> from flinkbuf.testing import OperatorHarness
    >>> names = MapStateDescriptor("names", Types.STRING(), Types.STRING())
    >>> class Silent(KeyedBroadcastProcessFunction):
    ...     def process_element(self, value, ctx):
    ...         ctx.timer_service().register_event_time_timer(60_000)
    ...     def process_broadcast_element(self, value, ctx):
    ...         carrier, name = value
    ...         ctx.get_broadcast_state(names).put(carrier, name)
    ...     def on_timer(self, timestamp, ctx):
    ...         yield ctx.get_broadcast_state(names).get(ctx.get_current_key()), timestamp
    >>> env = StreamExecutionEnvironment.get_execution_environment()
    >>> calls = env.from_collection([]).key_by(lambda carrier: carrier)
    >>> silent = calls.connect(env.from_collection([]).broadcast(names)).process(Silent())
    >>> with OperatorHarness.of(silent) as harness:
    ...     harness.process_element(("UA", "United"), input=2)
    ...     harness.process_element("UA", input=1)
    ...     harness.process_watermark(60_000, input=1)
    ...     harness.process_watermark(60_000, input=2)
    ...     harness.output_values
    [('United', 60000)]
    """

    class Context(BaseBroadcastProcessFunction.Context, ABC):
        """What goes with a broadcast record."""

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext, ABC):
        """What goes with a record of the keyed stream."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Return what tells the time and sets timers."""

        @abstractmethod
        def get_current_key(self) -> KEY:  # type: ignore[type-var]
            """Return the record's key."""

    class OnTimerContext(ReadOnlyContext, ABC):
        """What goes with a timer."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """Return whether the timer is one of event time or of processing time."""

        @abstractmethod
        def get_current_key(self) -> KEY:  # type: ignore[type-var]
            """Return the timer's key."""

    @abstractmethod
    def process_element(self, value: IN1, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> Results[OUT] | None:
        """Yield or return the results for a record of the keyed stream."""

    @abstractmethod
    def process_broadcast_element(self, value: IN2, ctx: KeyedBroadcastProcessFunction.Context) -> Results[OUT] | None:
        """Yield or return the results for a broadcast record."""

    def on_timer(self, timestamp: int, ctx: KeyedBroadcastProcessFunction.OnTimerContext) -> Results[OUT] | None:
        """Yield or return the results for a timer of the current key."""


# The objects that operators give come from below and know nothing of these classes.
ProcessFunction.Context.register(process_operator.ProcessContext)
CoProcessFunction.Context.register(process_operator.ProcessContext)
KeyedProcessFunction.Context.register(process_operator.KeyedProcessContext)
KeyedProcessFunction.OnTimerContext.register(process_operator.OnTimerContext)
KeyedCoProcessFunction.Context.register(process_operator.KeyedProcessContext)
KeyedCoProcessFunction.OnTimerContext.register(process_operator.OnTimerContext)
ProcessJoinFunction.Context.register(interval_join_operator.ProcessJoinContext)
BroadcastProcessFunction.Context.register(broadcast_operator.BroadcastContext)
BroadcastProcessFunction.ReadOnlyContext.register(broadcast_operator.ReadOnlyContext)
KeyedBroadcastProcessFunction.Context.register(broadcast_operator.KeyedBroadcastContext)
KeyedBroadcastProcessFunction.ReadOnlyContext.register(broadcast_operator.KeyedReadOnlyContext)
KeyedBroadcastProcessFunction.OnTimerContext.register(broadcast_operator.BroadcastOnTimerContext)
