"""The timers of one operator, under their names; and what a user's function sees of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from flinkbuf._core.operators.process_operator import UserTimers
from flinkbuf._core.state.key_context import KeyContext
from flinkbuf._core.state.timer_service import InternalTimerService, timers_in
from flinkbuf.streaming.time.processing_time import ProcessingTimeService


class TimerService(ABC):
    """The time, and timers for the current key. PyFlink's ``TimerService``.

    Examples
    --------
    >>> from flinkbuf.datastream import KeyedProcessFunction, StreamExecutionEnvironment
    >>> from flinkbuf.testing import OperatorHarness
    >>> class Silence(KeyedProcessFunction):
    ...     def process_element(self, value, ctx):
    ...         timers = ctx.timer_service()
    ...         timers.delete_event_time_timer(value[1] + 60_000)  # of the call before
    ...         timers.register_event_time_timer(ctx.timestamp() + 60_000)
    ...     def on_timer(self, timestamp, ctx):
    ...         yield f"{ctx.get_current_key()}: silent for a minute at {timestamp}"
    >>> env = StreamExecutionEnvironment.get_execution_environment()
    >>> calls = env.from_collection([]).key_by(lambda call: call[0]).process(Silence())
    >>> with OperatorHarness.of(calls) as harness:  # which says what time it is
    ...     harness.process_element(("ann", 0), timestamp=1_000)
    ...     harness.process_element(("ann", 1_000), timestamp=30_000)
    ...     harness.process_watermark(100_000)
    ...     harness.output_values
    ['ann: silent for a minute at 90000']
    """

    @abstractmethod
    def current_processing_time(self) -> int:
        """Return the task's clock in milliseconds since 1970.

        Examples
        --------
        >>> from flinkbuf.datastream import KeyedProcessFunction, StreamExecutionEnvironment
        >>> from flinkbuf.testing import OperatorHarness
        >>> class Clocks(KeyedProcessFunction):
        ...     def process_element(self, value, ctx):
        ...         timers = ctx.timer_service()
        ...         yield timers.current_processing_time(), timers.current_watermark()
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> with OperatorHarness.of(env.from_collection([]).key_by(len).process(Clocks())) as harness:
        ...     harness.set_processing_time(5_000)
        ...     harness.process_watermark(300)
        ...     harness.process_element("to", timestamp=400)
        ...     harness.output_values
        [(5000, 300)]
        """

    @abstractmethod
    def current_watermark(self) -> int:
        """Return how far event time has come, in milliseconds; the smallest 64-bit number before the first.

        Examples
        --------
        >>> from flinkbuf.datastream import KeyedProcessFunction, StreamExecutionEnvironment
        >>> from flinkbuf.testing import OperatorHarness
        >>> class InTime(KeyedProcessFunction):
        ...     def process_element(self, value, ctx):
        ...         if ctx.timestamp() > ctx.timer_service().current_watermark():
        ...             yield value
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> with OperatorHarness.of(env.from_collection([]).key_by(len).process(InTime())) as harness:
        ...     harness.process_watermark(1_000)
        ...     harness.process_element("late", timestamp=900)
        ...     harness.process_element("in time", timestamp=1_100)
        ...     harness.output_values
        ['in time']
        """

    @abstractmethod
    def register_processing_time_timer(self, timestamp: int) -> None:
        """Have ``on_timer`` called for the current key once the clock has passed `timestamp`.

        Examples
        --------
        >>> from flinkbuf.datastream import KeyedProcessFunction, StreamExecutionEnvironment
        >>> from flinkbuf.testing import OperatorHarness
        >>> class Reminder(KeyedProcessFunction):
        ...     def process_element(self, value, ctx):
        ...         timers = ctx.timer_service()
        ...         timers.register_processing_time_timer(timers.current_processing_time() + 60_000)
        ...     def on_timer(self, timestamp, ctx):
        ...         yield f"{ctx.get_current_key()}: a minute has passed"
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> with OperatorHarness.of(env.from_collection([]).key_by(lambda name: name).process(Reminder())) as harness:
        ...     harness.process_element("ann")
        ...     harness.set_processing_time(60_001)
        ...     harness.output_values
        ['ann: a minute has passed']
        """

    @abstractmethod
    def register_event_time_timer(self, timestamp: int) -> None:
        """Have ``on_timer`` called for the current key once the watermark has come to `timestamp`.

        Examples
        --------
        >>> from flinkbuf.common import WatermarkStrategy
        >>> from flinkbuf.datastream import KeyedProcessFunction, StreamExecutionEnvironment
        >>> class Seconds(KeyedProcessFunction):
        ...     def process_element(self, value, ctx):
        ...         next_second = (ctx.timestamp() // 1000 + 1) * 1000
        ...         ctx.timer_service().register_event_time_timer(next_second)
        ...     def on_timer(self, timestamp, ctx):
        ...         yield ctx.get_current_key(), timestamp
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value[1])
        >>> calls = env.from_collection([("ann", 100), ("ann", 200), ("ann", 1100)])
        >>> calls = calls.assign_timestamps_and_watermarks(times)
        >>> list(calls.key_by(lambda call: call[0]).process(Seconds()).execute_and_collect())  # one timer a second
        [('ann', 1000), ('ann', 2000)]
        """

    @abstractmethod
    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Take back a timer of the current key, if there is one.

        Examples
        --------
        >>> from flinkbuf.datastream import KeyedProcessFunction, StreamExecutionEnvironment
        >>> from flinkbuf.testing import OperatorHarness
        >>> class Unanswered(KeyedProcessFunction):
        ...     def process_element(self, value, ctx):
        ...         name, kind, asked = value
        ...         if kind == "ask": ctx.timer_service().register_processing_time_timer(asked + 5_000)
        ...         else: ctx.timer_service().delete_processing_time_timer(asked + 5_000)
        ...     def on_timer(self, timestamp, ctx):
        ...         yield ctx.get_current_key()
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> unanswered = env.from_collection([]).key_by(lambda value: value[0]).process(Unanswered())
        >>> with OperatorHarness.of(unanswered) as harness:
        ...     harness.process_elements([("ann", "ask", 0), ("bob", "ask", 0), ("ann", "answer", 0)])
        ...     harness.set_processing_time(6_000)
        ...     harness.output_values
        ['bob']
        """

    @abstractmethod
    def delete_event_time_timer(self, timestamp: int) -> None:
        """Take back a timer of the current key, if there is one.

        Examples
        --------
        >>> from flinkbuf.datastream import KeyedProcessFunction, StreamExecutionEnvironment
        >>> from flinkbuf.testing import OperatorHarness
        >>> class Unpaid(KeyedProcessFunction):
        ...     def process_element(self, value, ctx):
        ...         order, kind = value
        ...         if kind == "order": ctx.timer_service().register_event_time_timer(60_000)
        ...         else: ctx.timer_service().delete_event_time_timer(60_000)
        ...     def on_timer(self, timestamp, ctx):
        ...         yield f"order {ctx.get_current_key()} is not paid"
        >>> env = StreamExecutionEnvironment.get_execution_environment()
        >>> unpaid = env.from_collection([]).key_by(lambda value: value[0]).process(Unpaid())
        >>> with OperatorHarness.of(unpaid) as harness:
        ...     harness.process_elements([(1, "order"), (2, "order"), (1, "payment")])
        ...     harness.process_watermark(60_000)
        ...     harness.output_values
        ['order 2 is not paid']
        """


TimerService.register(UserTimers)  # which comes from below and knows nothing of this class


class TimerServices:
    """All timer services of one operator. Flink: InternalTimeServiceManager.

    Parameters
    ----------
    keys : KeyContext
        Of the operator.
    clock : ProcessingTimeService
        Of the task.
    """

    def __init__(self, keys: KeyContext, clock: ProcessingTimeService) -> None:
        self._keys = keys
        self._clock = clock
        self._services: dict[str, InternalTimerService] = {}
        self._restored: dict[str, tuple[list[object], list[object]]] = {}

    def service(self, name: str, target: object) -> InternalTimerService:
        """Return the service `name`, made if there is none; its timers call methods of `target`.

        Parameters
        ----------
        target : object
            With ``on_event_time(timestamp, key, namespace)`` and ``on_processing_time`` likewise, which are called
            with the key set.
        """
        service = self._services.get(name)
        if service is None:
            service = self._services[name] = self._make_service(name, target)
            service.restore(*self._restored.pop(name, ((), ())))
        return service

    def _make_service(self, name: str, target: object) -> InternalTimerService:
        return InternalTimerService(name, self._keys, target, self._clock)

    def advance_watermark(self, timestamp: int) -> None:
        """Event time has come to `timestamp`: fire what is due in each service."""
        for service in self._services.values():
            service.advance_watermark(timestamp)

    def quiesce(self) -> None:
        """Fire nothing more in processing time."""
        for service in self._services.values():
            service.quiesce()

    def freeze(self) -> dict[str, tuple[Iterable[Any], Iterable[Any]]]:
        """Return the timers of event time and of processing time, by service, for a snapshot."""
        live = {name: tuple(map(timers_in, service.freeze())) for name, service in self._services.items()}
        return {**self._restored, **live}  # type: ignore[dict-item]

    def restore(self, name: str, domain: int, timers: list[Any]) -> None:
        """Add timers out of a snapshot, of event time (domain 0) or processing time (1); the service will get them."""
        self._restored.setdefault(name, ([], []))[domain].extend(timers)
