"""Which records of a window are dropped before or after its function. Flink: CountEvictor, TimeEvictor, DeltaEvictor.

An extension: PyFlink has none. A window with an evictor keeps all its records, whatever is made of them.
"""

from __future__ import annotations

import datetime
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, NamedTuple

from flinkbuf._core.operators.stream_operator import NO_TIMESTAMP
from flinkbuf.types.duration import Duration, Time, milliseconds_of
from flinkbuf.types.type_parameters import WINDOW, T

__all__ = ["CountEvictor", "DeltaEvictor", "Evictor", "TimeEvictor", "TimestampedValue"]


class TimestampedValue(NamedTuple):
    """A record of a window with its timestamp; −2⁶³ if it has none. Flink: TimestampedValue."""

    value: Any
    timestamp: int


class Evictor(ABC, Generic[WINDOW]):
    """Drops records of a window each time it fires; to derive from."""

    class EvictorContext(ABC):
        """What an evictor may ask. Implemented by the window operator."""

        @abstractmethod
        def get_current_processing_time(self) -> int:
            """Return the time of the task's clock."""

        @abstractmethod
        def get_current_watermark(self) -> int:
            """Return the operator's watermark."""

        @abstractmethod
        def get_metric_group(self) -> object:
            """Return the metrics of the operator."""

    @abstractmethod
    def evict_before(self, elements: list[TimestampedValue], size: int, window: WINDOW, ctx: EvictorContext) -> None:
        """Take records out of the list before the function sees them.

        Parameters
        ----------
        elements : list of TimestampedValue
            The window's records in the order in which they came; change it in place.
        size : int
            How many there are.
        window : Window
            The window.
        ctx : Evictor.EvictorContext
            Has the times and the metrics.
        """

    @abstractmethod
    def evict_after(self, elements: list[TimestampedValue], size: int, window: WINDOW, ctx: EvictorContext) -> None:
        """Take records out of the list after the function saw them, as `evict_before`."""


class _OnceEvictor(Evictor[object]):
    """Does its work either before or after the function."""

    def __init__(self, do_evict_after: bool):
        self.do_evict_after = do_evict_after

    def evict_before(self, elements: list[TimestampedValue], size: int, window: object, ctx: object) -> None:
        if not self.do_evict_after:
            self._evict(elements)

    def evict_after(self, elements: list[TimestampedValue], size: int, window: object, ctx: object) -> None:
        if self.do_evict_after:
            self._evict(elements)

    @abstractmethod
    def _evict(self, elements: list[TimestampedValue]) -> None:
        """Take records out of the list."""


class CountEvictor(_OnceEvictor):
    """Keeps the last `max_count` records.

    Examples
    --------
    >>> elements = [TimestampedValue(value, 0) for value in "abc"]
    >>> CountEvictor.of(2).evict_before(elements, 3, None, None)
    >>> [element.value for element in elements]
    ['b', 'c']
    """

    def __init__(self, max_count: int, do_evict_after: bool = False):
        super().__init__(do_evict_after)
        self.max_count = max_count

    @staticmethod
    def of(max_count: int, do_evict_after: bool = False) -> CountEvictor:
        """Return one that keeps so many."""
        return CountEvictor(max_count, do_evict_after)

    def _evict(self, elements: list[TimestampedValue]) -> None:
        del elements[: max(0, len(elements) - self.max_count)]


class TimeEvictor(_OnceEvictor):
    """Keeps the records that are less than a length of time older than the newest; all, if they have no timestamps."""

    def __init__(self, window_size_ms: int, do_evict_after: bool = False):
        super().__init__(do_evict_after)
        self.window_size_ms = window_size_ms

    @staticmethod
    def of(window_size: Time | Duration | datetime.timedelta, do_evict_after: bool = False) -> TimeEvictor:
        """Return one that keeps so long."""
        return TimeEvictor(milliseconds_of("window_size", window_size), do_evict_after)

    def _evict(self, elements: list[TimestampedValue]) -> None:
        if elements and elements[0].timestamp != NO_TIMESTAMP:
            newest = max(element.timestamp for element in elements)
            elements[:] = [element for element in elements if element.timestamp > newest - self.window_size_ms]


class DeltaEvictor(_OnceEvictor, Generic[T]):
    """Keeps the records that are nearer to the last one than a threshold."""

    def __init__(self, threshold: float, delta_function: Callable[[T, T], float], do_evict_after: bool = False):
        super().__init__(do_evict_after)
        self.threshold = threshold
        self.delta_function = delta_function

    @staticmethod
    def of(threshold: float, delta_function: Callable[[T, T], float], do_evict_after: bool = False) -> DeltaEvictor[T]:
        """Return one that drops where ``delta_function(record, last)`` is at least `threshold`."""
        return DeltaEvictor(threshold, delta_function, do_evict_after)

    def _evict(self, elements: list[TimestampedValue]) -> None:
        if elements:
            last = elements[-1].value
            elements[:] = [element for element in elements if self.delta_function(element.value, last) < self.threshold]
