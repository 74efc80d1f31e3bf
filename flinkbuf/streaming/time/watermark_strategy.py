"""How a stream comes to event time: which timestamp a record has, and how far behind the highest the watermark is.

PyFlink: pyflink.common.watermark_strategy. A strategy is given to ``assign_timestamps_and_watermarks`` or to a source,
is pickled, and makes an assigner and a generator in each subtask.
"""

from __future__ import annotations

import abc
import copy
import datetime
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flinkbuf._core.operators.watermark_generator import (
    BoundedOutOfOrdernessWatermarks,
    NoWatermarksGenerator,
    WatermarkGenerator,
    WatermarkOutput,
    WatermarksWithIdleness,
)
from flinkbuf.streaming.time.clock import Clock
from flinkbuf.types.duration import Duration, Time, milliseconds_of, positive_milliseconds_of

__all__ = ["TimestampAssigner", "WatermarkAlignment", "WatermarkStrategy"]

DEFAULT_ALIGNMENT_INTERVAL_MS = 1000


class TimestampAssigner(abc.ABC):
    """Says at which time the event happened that a record tells of. Flink: TimestampAssigner."""

    @abc.abstractmethod
    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        """Return the record's timestamp in milliseconds since 1970.

        Parameters
        ----------
        value : object
            The record.
        record_timestamp : int
            The timestamp it has so far; −2⁶³ if it has none.
        """


@dataclass(frozen=True)
class WatermarkAlignment:
    """A source waits when it is ahead of the slowest of its group. Flink: WatermarkAlignmentParams."""

    group: str
    max_drift_ms: int
    update_interval_ms: int


class WatermarkStrategy:
    """Which timestamps records get, and which watermarks follow from them.

    Made by one of the static methods; the others return it with something added.

    References
    ----------
    PyFlink ``WatermarkStrategy``. There `with_idleness` and `with_watermark_alignment` forget the assigner that was
    given before; here they keep it.

    Examples
    --------
    >>> class Departure(TimestampAssigner):
    ...     def extract_timestamp(self, value, record_timestamp):
    ...         return value["departed"]
    >>> strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(20))
    >>> strategy = strategy.with_timestamp_assigner(Departure()).with_idleness(Duration.of_minutes(1))
    >>> strategy.create_timestamp_assigner().extract_timestamp({"departed": 7}, -1), strategy.idle_timeout_ms
    (7, 60000)
    """

    def __init__(self, create_generator: Callable[[], Any]):
        self._create_generator = create_generator
        self._timestamp_assigner: TimestampAssigner | _CallableAssigner | None = None
        self.idle_timeout_ms: int | None = None
        self.alignment: WatermarkAlignment | None = None

    @staticmethod
    def for_monotonous_timestamps() -> WatermarkStrategy:
        """For records in the order of their timestamps: the watermark is just below the last one."""
        return WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(0))

    @staticmethod
    def for_bounded_out_of_orderness(
        max_out_of_orderness: Duration | Time | datetime.timedelta,
    ) -> WatermarkStrategy:
        """For records that come at most so long after one with a higher timestamp."""
        bound_ms = milliseconds_of("max_out_of_orderness", max_out_of_orderness)
        BoundedOutOfOrdernessWatermarks(bound_ms)  # raises now, and not in a task, if it is no bound
        return WatermarkStrategy(_Bounded(bound_ms))

    @staticmethod
    def no_watermarks() -> WatermarkStrategy:
        """For programs that use processing time only."""
        return WatermarkStrategy(NoWatermarksGenerator)

    @staticmethod
    def for_generator(create_generator: Callable[[], Any]) -> WatermarkStrategy:
        """With watermarks of one's own making. Flink: WatermarkStrategy.forGenerator; PyFlink has no such method.

        Parameters
        ----------
        create_generator : callable
            Called without arguments once in each subtask; returns an object with ``on_event(event, event_timestamp,
            output)`` and ``on_periodic_emit(output)``. Both may call ``output.emit_watermark(timestamp)``,
            ``output.mark_idle()`` and ``output.mark_active()``.
        """
        if not callable(create_generator):
            raise TypeError(f"for_generator takes a callable that makes a generator, got {create_generator!r}")
        return WatermarkStrategy(create_generator)

    def with_timestamp_assigner(
        self, timestamp_assigner: TimestampAssigner | Callable[[Any, int], int]
    ) -> WatermarkStrategy:
        """Take timestamps from records by `timestamp_assigner`; as in PyFlink this strategy itself is changed.

        A callable of a record and its former timestamp will do as well.
        """
        extract = getattr(timestamp_assigner, "extract_timestamp", timestamp_assigner)
        if not callable(extract):
            raise TypeError(
                f"a timestamp assigner has a method extract_timestamp(value, record_timestamp), "
                f"got {type(timestamp_assigner).__name__} {timestamp_assigner!r}"
            )
        if isinstance(timestamp_assigner, TimestampAssigner):
            self._timestamp_assigner = timestamp_assigner
        else:
            self._timestamp_assigner = _CallableAssigner(extract)
        return self

    def with_idleness(self, idle_timeout: Duration | Time | datetime.timedelta) -> WatermarkStrategy:
        """Let others not wait for this stream when it brings no record for so long."""
        strategy = copy.copy(self)
        strategy.idle_timeout_ms = positive_milliseconds_of("idle_timeout", idle_timeout)
        return strategy

    def with_watermark_alignment(
        self,
        watermark_group: str,
        max_allowed_watermark_drift: Duration | Time | datetime.timedelta,
        update_interval: Duration | Time | datetime.timedelta | None = None,
    ) -> WatermarkStrategy:
        """Let sources of one group wait for each other when their watermarks drift apart.

        Parameters
        ----------
        watermark_group : str
            Sources that name the same group wait for each other.
        max_allowed_watermark_drift : Duration
            How far a source may be ahead of the slowest one.
        update_interval : Duration, default 1 s
            How often the sources tell each other how far they are.
        """
        strategy = copy.copy(self)
        strategy.alignment = WatermarkAlignment(
            watermark_group,
            milliseconds_of("max_allowed_watermark_drift", max_allowed_watermark_drift),
            DEFAULT_ALIGNMENT_INTERVAL_MS
            if update_interval is None
            else milliseconds_of("update_interval", update_interval),
        )
        return strategy

    def create_timestamp_assigner(self) -> TimestampAssigner | _CallableAssigner | None:
        """Return an object with ``extract_timestamp``; None: records keep the timestamps they have."""
        return self._timestamp_assigner

    @property
    def looks_at_records(self) -> bool:
        """Return whether it wants to see each record, and not its timestamp alone."""
        if self._timestamp_assigner is not None:
            return True
        return type(self._create_generator()) not in (NoWatermarksGenerator, BoundedOutOfOrdernessWatermarks)

    def create_watermark_generator(self, clock: Clock) -> WatermarkGenerator:
        """Return a fresh generator; `clock` tells it how long no record came."""
        generator = self._create_generator()
        if not isinstance(generator, WatermarkGenerator):
            generator = _UsersGenerator(generator)
        if self.idle_timeout_ms is None:
            return generator
        return WatermarksWithIdleness(generator, self.idle_timeout_ms, clock)


@dataclass(frozen=True)
class _Bounded:
    """Makes generators; picklable, as a strategy must be."""

    max_out_of_orderness_ms: int

    def __call__(self) -> WatermarkGenerator:
        return BoundedOutOfOrdernessWatermarks(self.max_out_of_orderness_ms)


class _CallableAssigner:
    """A callable as an assigner; called without a frame of ours in between."""

    def __init__(self, extract: Callable[[object, int], int]):
        self.extract_timestamp = extract


class _UsersGenerator(WatermarkGenerator):
    """A generator that only looks like one."""

    def __init__(self, generator: Any):
        missing = [name for name in ("on_event", "on_periodic_emit") if not hasattr(generator, name)]
        if missing:
            raise TypeError(
                f"a watermark generator has the methods on_event(event, event_timestamp, output) and "
                f"on_periodic_emit(output); {type(generator).__name__} {generator!r} has no {' and no '.join(missing)}"
            )
        self._generator = generator

    def on_event(self, event: Any, event_timestamp: int, output: WatermarkOutput) -> None:
        self._generator.on_event(event, event_timestamp, output)

    def on_periodic_emit(self, output: WatermarkOutput) -> None:
        self._generator.on_periodic_emit(output)
