"""The timers of one operator, under their names; and what a user's function sees of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from flinkbuf._core.key_context import KeyContext
from flinkbuf._core.process_operator import UserTimers
from flinkbuf._core.timer_service import InternalTimerService, timers_in
from flinkbuf.streaming.operator_context import ProcessingTimeService


class TimerService(ABC):
    """The time, and timers for the current key. PyFlink's ``TimerService``.

    Examples
    --------
    >>> from flinkbuf.streaming.process_functions import KeyedProcessFunction
    >>> class Reminder(KeyedProcessFunction):
    ...     def process_element(self, value, ctx):
    ...         ctx.timer_service().register_event_time_timer(ctx.timestamp() + 60_000)
    ...     def on_timer(self, timestamp, ctx):
    ...         yield f"{ctx.get_current_key()}: a minute has passed"
    """

    @abstractmethod
    def current_processing_time(self) -> int:
        """Return the task's clock in milliseconds since 1970."""

    @abstractmethod
    def current_watermark(self) -> int:
        """Return how far event time has come, in milliseconds; the smallest 64-bit number before the first."""

    @abstractmethod
    def register_processing_time_timer(self, timestamp: int) -> None:
        """Have ``on_timer`` called for the current key once the clock has passed `timestamp`."""

    @abstractmethod
    def register_event_time_timer(self, timestamp: int) -> None:
        """Have ``on_timer`` called for the current key once the watermark has come to `timestamp`."""

    @abstractmethod
    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Take back a timer of the current key, if there is one."""

    @abstractmethod
    def delete_event_time_timer(self, timestamp: int) -> None:
        """Take back a timer of the current key, if there is one."""


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
        self._restored: dict[str, tuple[list[Any], list[Any]]] = {}

    def service(self, name: str, target: Any) -> InternalTimerService:
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

    def _make_service(self, name: str, target: Any) -> InternalTimerService:
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
