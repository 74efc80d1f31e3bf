"""Metrics that a user's function registers: PyFlink's classes over `flinkbuf.metrics`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flinkbuf import metrics


class FunctionCounter:
    """A number that goes up and down. PyFlink's ``Counter``."""

    def __init__(self, counter: metrics.Counter) -> None:
        self._counter = counter

    def inc(self, n: int = 1) -> None:
        """Count `n` more."""
        self._counter.increment(n)

    def dec(self, n: int = 1) -> None:
        """Count `n` less."""
        self._counter.decrement(n)

    def get_count(self) -> int:
        """Return how many there are."""
        return self._counter.value


DISTRIBUTION_SIZE = 1_000  # values: they are sorted at each look, every second


class FunctionMeter:
    """How often something happens. PyFlink's ``Meter``."""

    def __init__(self, meter: metrics.Meter) -> None:
        self._meter = meter

    def mark_event(self, value: int = 1) -> None:
        """Note that it happened `value` times."""
        self._meter.mark(value)

    def get_count(self) -> int:
        """Return how often it happened."""
        return self._meter.count


class FunctionDistribution:
    """How values are distributed. PyFlink's ``Distribution``."""

    def __init__(self, histogram: metrics.Histogram) -> None:
        self._histogram = histogram

    def update(self, value: float) -> None:
        """Add a value."""
        self._histogram.update(value)


class FunctionMetricGroup:
    """Where a function registers metrics; a name that is taken gives the metric there is. PyFlink's ``MetricGroup``.

    Examples
    --------
    >>> group = FunctionMetricGroup(metrics.MetricGroup())
    >>> group.counter("seen").inc(3)
    >>> group.add_group("kind", "late").counter("seen").inc()
    >>> dict(group.group.sample())
    {'seen': 3, 'kind.late.seen': 1}
    """

    def __init__(self, group: metrics.MetricGroup) -> None:
        self.group = group
        self._known: dict[str, object] = {}

    def add_group(self, name: str, extra: str | None = None) -> FunctionMetricGroup:
        """Return the group `name` in this one; with both, the group whose metrics are labelled ``{name: extra}``."""
        inner = self._once(name, FunctionMetricGroup, lambda: FunctionMetricGroup(self.group.group(name)))
        if extra is None:
            return inner
        return inner._once(
            extra, FunctionMetricGroup, lambda: FunctionMetricGroup(self.group.key_value_group(name, extra))
        )

    def counter(self, name: str) -> FunctionCounter:
        """Return a counter."""
        return self._once(name, FunctionCounter, lambda: FunctionCounter(self.group.register(name, metrics.Counter())))

    def gauge(self, name: str, obj: Callable[[], object]) -> None:
        """Register `obj`, which is called at each look."""
        if not callable(obj):
            raise TypeError(f"the gauge {name!r} takes a callable without arguments, got {obj!r}")
        self._once(name, metrics.Gauge, lambda: self.group.register(name, metrics.Gauge(obj)))

    def meter(self, name: str, time_span_in_seconds: int = 60) -> FunctionMeter:
        """Return a meter over the last seconds."""
        return self._once(
            name,
            FunctionMeter,
            lambda: FunctionMeter(self.group.register(name, metrics.Meter(span_s=time_span_in_seconds))),
        )

    def distribution(self, name: str) -> FunctionDistribution:
        """Return a distribution of its last 1,000 values."""
        return self._once(
            name,
            FunctionDistribution,
            lambda: FunctionDistribution(self.group.register(name, metrics.Histogram(DISTRIBUTION_SIZE))),
        )

    def _once(self, name: str, kind: type, make: Callable[[], object]) -> Any:
        metric = self._known.get(name)
        if metric is None:
            metric = self._known[name] = make()
        if not isinstance(metric, kind):
            raise ValueError(f"there is a metric {name!r} already, of another kind")
        return metric
