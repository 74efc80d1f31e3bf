"""Counter, Gauge, Meter and Histogram in Flink's sense; gauges sample the counters that C structs keep.

Nothing here runs by itself: no thread, no registry that outlives its owner. A metric costs what updating it costs,
and everything else is computed when somebody reads it. The data plane counts in C and is read through gauges,
so it pays nothing for being watched.
"""

import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Counter:
    """A number of things, counted up and down.

    Threads: any; no update is lost.

    References
    ----------
    Flink ``Counter``.

    Examples
    --------
    >>> records = Counter()
    >>> records.increment(); records.increment(9); records.decrement()
    >>> records.value
    9
    """

    def __init__(self) -> None:
        self._value = 0
        self._lock = threading.Lock()

    def increment(self, amount: int = 1) -> None:
        """Count `amount` more."""
        # `+=` on an attribute is several bytecodes: without the lock two threads lose updates.
        with self._lock:
            self._value += amount

    def decrement(self, amount: int = 1) -> None:
        """Count `amount` less."""
        self.increment(-amount)

    @property
    def value(self) -> int:
        """How many there are now."""
        return self._value


class Gauge(Generic[T]):
    """A value that is asked for when somebody looks, such as a counter that a C struct keeps.

    Parameters
    ----------
    sample : callable
        Takes nothing and returns the value; called by whoever reads, on the reader's thread.

    References
    ----------
    Flink ``Gauge``.

    Examples
    --------
    >>> queue = [1, 2, 3]
    >>> Gauge(lambda: len(queue)).value
    3
    """

    def __init__(self, sample: Callable[[], T]) -> None:
        self._sample = sample

    @property
    def value(self) -> T:
        """The value now."""
        return self._sample()


class Meter:
    """How often something happens, per second, over a sliding span of time.

    The count comes either from `mark` or from elsewhere, through `count`: then the meter only looks at it. Flink
    updates its meters every 5 seconds from a thread; this one takes its samples when it is marked or read, at
    most one a second.

    Parameters
    ----------
    count : callable, optional
        Gives the number of events so far; for counters that grow by themselves, for example in C.
    span_s : float, default 60
        Seconds over which the rate is taken.
    clock : callable, default `time.monotonic`
        Gives seconds.

    Notes
    -----
    Threads: any; no update is lost.

    References
    ----------
    Flink ``Meter``, ``MeterView``.

    Examples
    --------
    >>> now = [0.0]
    >>> meter = Meter(clock=lambda: now[0])
    >>> meter.mark(100); now[0] = 10.0
    >>> meter.rate, meter.count
    (10.0, 100)
    """

    def __init__(
        self,
        count: Callable[[], int] | None = None,
        *,
        span_s: float = 60,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not span_s > 0:
            raise ValueError(f"span_s must be more than 0 seconds, got {span_s}")
        self._counter = Counter()
        self._count = count if count is not None else lambda: self._counter.value
        self._is_sampled = count is not None
        self._span_s = span_s
        self._clock = clock
        self._lock = threading.Lock()
        self._samples = [(clock(), self._count())]  # (seconds, events so far), oldest first

    def mark(self, events: int = 1) -> None:
        """Note that `events` happened. TypeError if the meter samples a count that is kept elsewhere."""
        if self._is_sampled:
            raise TypeError("this meter samples a count that is kept elsewhere; it cannot be marked")
        self._counter.increment(events)
        self._sample()

    @property
    def count(self) -> int:
        """Events so far."""
        return self._count()

    @property
    def rate(self) -> float:
        """Events per second over the last `span_s` seconds; 0.0 before any time has passed."""
        now, count, (then, before) = self._sample()
        return (count - before) / (now - then) if now > then else 0.0

    def _sample(self) -> tuple[float, int, tuple[float, int]]:
        """Note the count, at most once a second, and return now, the count, and where the span begins."""
        with self._lock:
            now, count = self._clock(), self._count()
            if now - self._samples[-1][0] >= min(1.0, self._span_s):
                self._samples.append((now, count))
            # The newest sample that is at least a span old is where the span begins; older ones are done.
            while len(self._samples) > 1 and now - self._samples[1][0] >= self._span_s:
                del self._samples[0]
            return now, count, self._samples[0]


@dataclass(frozen=True)
class HistogramStatistics:
    """What a histogram knew at one moment.

    References
    ----------
    Flink ``HistogramStatistics``.
    """

    values: Sequence[float]
    """The samples, in ascending order."""

    def __len__(self) -> int:
        return len(self.values)

    def quantile(self, fraction: float) -> float:
        """Return the value below which `fraction` (0 to 1) of the samples lie, interpolated; NaN without samples.

        Examples
        --------
        >>> HistogramStatistics([1, 2, 3, 4]).quantile(0.5)
        2.5
        """
        if not 0 <= fraction <= 1:
            raise ValueError(f"fraction must be from 0 to 1, got {fraction}")
        if not self.values:
            return math.nan
        position = fraction * (len(self.values) - 1)
        index = min(int(position), len(self.values) - 2) if len(self.values) > 1 else 0
        low, high = self.values[index], self.values[min(index + 1, len(self.values) - 1)]
        return low + (high - low) * (position - index)

    @property
    def min(self) -> float:
        return self.values[0] if self.values else math.nan

    @property
    def max(self) -> float:
        return self.values[-1] if self.values else math.nan

    @property
    def mean(self) -> float:
        return math.fsum(self.values) / len(self.values) if self.values else math.nan

    @property
    def standard_deviation(self) -> float:
        """Of the samples themselves, not an estimate for what they were drawn from."""
        if not self.values:
            return math.nan
        mean = self.mean
        return math.sqrt(math.fsum((value - mean) ** 2 for value in self.values) / len(self.values))


class Histogram:
    """The distribution of the last `window_size` values.

    Parameters
    ----------
    window_size : int, default 10000
        How many values are kept; the memory for them is taken as they come.

    Notes
    -----
    Threads: any; no update is lost.

    References
    ----------
    Flink ``Histogram``, ``DescriptiveStatisticsHistogram``.

    Examples
    --------
    >>> sizes = Histogram(window_size=3)
    >>> for size in (10, 20, 30, 40): sizes.update(size)
    >>> sizes.count, sizes.statistics().min, sizes.statistics().max
    (4, 20, 40)
    """

    def __init__(self, window_size: int = 10_000) -> None:
        if window_size < 1:
            raise ValueError(f"window_size must be at least 1 value, got {window_size}")
        self._window_size = window_size
        self._values: list[float] = []
        self._count = 0
        self._lock = threading.Lock()

    def update(self, value: float) -> None:
        """Add one value; the oldest makes room if the window is full."""
        with self._lock:
            if len(self._values) < self._window_size:
                self._values.append(value)
            else:
                self._values[self._count % self._window_size] = value
            self._count += 1

    @property
    def count(self) -> int:
        """How many values there were in all."""
        return self._count

    def statistics(self) -> HistogramStatistics:
        """Return what is known now; later updates do not change it."""
        with self._lock:
            values = self._values.copy()
        return HistogramStatistics(sorted(values))


Metric = Counter | Gauge[Any] | Meter | Histogram


class MetricGroup:
    """Metrics by name, in groups within groups, read all at once.

    Threads: register from one thread; read from any.

    References
    ----------
    Flink ``MetricGroup``.

    Examples
    --------
    >>> task = MetricGroup()
    >>> _ = task.register("numRecordsOut", Counter())
    >>> _ = task.group("buffers").register("outPoolUsage", Gauge(lambda: 0.5))
    >>> task.sample()
    {'numRecordsOut': 0, 'buffers.outPoolUsage': 0.5}
    """

    def __init__(self, variables: "Mapping[str, str] | None" = None) -> None:
        self._members: dict[str, Metric | MetricGroup] = {}
        self._variables = dict(variables or {})

    def register(self, name: str, metric: "MetricT") -> "MetricT":
        """Add `metric` as `name` and return it. ValueError if the name is taken."""
        if name in self._members:
            raise ValueError(f"there is a metric or group {name!r} already")
        self._members[name] = metric
        return metric

    def group(self, name: str) -> "MetricGroup":
        """Return the group `name` in this one, made if there is none. ValueError if a metric has that name."""
        return self._group(name, self._variables)

    def key_value_group(self, key: str, value: str) -> "MetricGroup":
        """Return the group `value` in the group `key`; what is below it has ``{key: value}`` as a variable.

        Whoever gathers metrics can then tell apart, or add up, those that differ in the value only.

        References
        ----------
        Flink ``MetricGroup.addGroup(key, value)``.
        """
        return self.group(key)._group(value, {**self._variables, key: value})

    def _group(self, name: str, variables: Mapping[str, str]) -> "MetricGroup":
        member = self._members.get(name)
        if member is None:
            member = self._members[name] = MetricGroup(variables)
        if not isinstance(member, MetricGroup):
            raise ValueError(f"{name!r} is a metric, not a group")
        return member

    def variables(self) -> Iterator[Mapping[str, str]]:
        """Yield of each metric, in the order of iteration, what its groups of a key and a value say."""
        for member in list(self._members.values()):
            if isinstance(member, MetricGroup):
                yield from member.variables()
            else:
                yield self._variables

    def __iter__(self) -> Iterator[tuple[str, Metric]]:
        """Yield each metric with its name, groups joined by dots, in the order of registration."""
        for name, member in self._members.copy().items():
            if isinstance(member, MetricGroup):
                yield from ((f"{name}.{inner}", metric) for inner, metric in member)
            else:
                yield name, member

    def sample(self) -> Mapping[str, Any]:
        """Return the value of each metric now: a number, a meter's rate, or a histogram's statistics."""
        return {name: read_metric(metric) for name, metric in self}


MetricT = TypeVar("MetricT", bound=Metric)


def read_metric(metric: Metric) -> Any:
    """Return a metric's value now: a number, a meter's rate, or a histogram's statistics."""
    if isinstance(metric, Meter):
        return metric.rate
    if isinstance(metric, Histogram):
        return metric.statistics()
    return metric.value
