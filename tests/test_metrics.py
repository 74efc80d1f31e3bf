"""Metrics: they count right, also from several threads, and read what others count."""

import doctest
import math
import statistics
import sys
import threading

import pytest
from support.faults.collector import collector_runs

import flinkbuf.metrics
from flinkbuf.metrics import Counter, Gauge, Histogram, HistogramStatistics, Meter, MetricGroup


class Clock:
    """Seconds that pass when told to."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def eager_switching():
    """Threads take turns so often that an update without a lock would be lost."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def run_in_threads(function, thread_count=4):
    threads = [threading.Thread(target=function) for _ in range(thread_count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_counter_counts_up_and_down():
    counter = Counter()
    counter.increment(5)
    counter.decrement()
    counter.decrement(7)
    assert counter.value == -3


@pytest.mark.parametrize("make", [Counter, Meter, Histogram])
def test_no_update_is_lost_between_threads(make, eager_switching):
    metric = make()
    update = {
        Counter: lambda: metric.increment(),
        Meter: lambda: metric.mark(),
        Histogram: lambda: metric.update(1),
    }[make]
    run_in_threads(lambda: [update() for _ in range(5_000)])
    assert (metric.value if make is Counter else metric.count) == 20_000


def test_gauge_asks_at_every_read():
    values = iter([1, 2])
    gauge = Gauge(lambda: next(values))
    assert (gauge.value, gauge.value) == (1, 2)


def test_gauge_lets_the_error_of_its_source_through():
    with pytest.raises(ZeroDivisionError):
        Gauge(lambda: 1 // 0).value


def test_meter_gives_events_per_second_since_its_start():
    clock = Clock()
    meter = Meter(clock=clock)
    assert meter.rate == 0.0
    meter.mark(30)
    clock.now += 10
    assert meter.rate == 3.0


def test_meter_forgets_what_is_older_than_its_span():
    clock = Clock()
    meter = Meter(span_s=10, clock=clock)
    meter.mark(1_000_000)
    for _ in range(30):
        clock.now += 1
        meter.mark(2)
    assert meter.rate == 2.0
    assert meter.count == 1_000_060


def test_meter_keeps_few_samples_however_often_it_is_marked():
    clock = Clock()
    meter = Meter(span_s=10, clock=clock)
    for _ in range(10_000):
        clock.now += 0.01
        meter.mark()
    assert len(meter._samples) <= 13
    assert meter.rate == pytest.approx(100, rel=0.02)


def test_meter_samples_a_count_that_is_kept_elsewhere():
    clock, sent = Clock(), [1000]
    meter = Meter(lambda: sent[0], clock=clock)
    clock.now += 5
    sent[0] += 50
    assert (meter.rate, meter.count) == (10.0, 1050)
    with pytest.raises(TypeError, match="kept elsewhere"):
        meter.mark()


@pytest.mark.parametrize("span_s", [0, -1, math.nan])
def test_meter_refuses_a_span_that_is_no_time(span_s):
    with pytest.raises(ValueError, match="span_s"):
        Meter(span_s=span_s)


def test_histogram_agrees_with_the_statistics_module():
    histogram = Histogram()
    values = [(index * 7919) % 1009 / 8 for index in range(500)]
    for value in values:
        histogram.update(value)
    seen = histogram.statistics()
    assert (len(seen), seen.min, seen.max) == (500, min(values), max(values))
    assert seen.mean == pytest.approx(statistics.fmean(values))
    assert seen.standard_deviation == pytest.approx(statistics.pstdev(values))
    percentiles = statistics.quantiles(values, n=100, method="inclusive")
    assert [seen.quantile(percent / 100) for percent in range(1, 100)] == pytest.approx(percentiles)


def test_histogram_keeps_the_last_values_of_its_window():
    histogram = Histogram(window_size=3)
    for value in range(8):
        histogram.update(value)
    assert (list(histogram.statistics().values), histogram.count) == ([5, 6, 7], 8)


def test_statistics_do_not_change_when_the_histogram_goes_on():
    histogram = Histogram()
    histogram.update(1)
    before = histogram.statistics()
    histogram.update(100)
    assert (before.max, len(before)) == (1, 1)


def test_statistics_of_nothing_are_nan_and_of_one_value_are_it():
    nothing, one = HistogramStatistics([]), HistogramStatistics([7])
    for figure in (nothing.min, nothing.max, nothing.mean, nothing.standard_deviation, nothing.quantile(0.5)):
        assert math.isnan(figure)
    assert (one.quantile(0), one.quantile(0.5), one.quantile(1), one.standard_deviation) == (7, 7, 7, 0)


@pytest.mark.parametrize("fraction", [-0.1, 1.1, math.nan])
def test_quantile_refuses_what_is_no_fraction(fraction):
    with pytest.raises(ValueError, match="from 0 to 1"):
        HistogramStatistics([1]).quantile(fraction)


def test_histogram_refuses_an_empty_window():
    with pytest.raises(ValueError, match="window_size"):
        Histogram(0)


def test_group_samples_every_kind_of_metric_by_its_dotted_name():
    group, clock = MetricGroup(), Clock()
    group.register("records", Counter()).increment(3)
    buffers = group.group("Shuffle").group("buffers")
    buffers.register("usage", Gauge(lambda: 0.25))
    meter = buffers.register("rate", Meter(clock=clock))
    sizes = group.register("sizes", Histogram())
    meter.mark(8)
    clock.now += 2
    sizes.update(9)
    assert group.sample() == {
        "records": 3,
        "Shuffle.buffers.usage": 0.25,
        "Shuffle.buffers.rate": 4.0,
        "sizes": HistogramStatistics([9]),
    }
    assert group.group("Shuffle").group("buffers") is buffers


def test_group_refuses_a_name_that_is_taken():
    group = MetricGroup()
    group.register("a", Counter())
    group.group("b")
    for name in "ab":
        with pytest.raises(ValueError, match="already"):
            group.register(name, Counter())
    with pytest.raises(ValueError, match="not a group"):
        group.group("a")


def test_examples_in_the_docstrings_hold():
    assert doctest.testmod(flinkbuf.metrics).failed == 0


def test_metrics_come_while_the_others_are_read():
    names = iter(map(str, range(1000)))
    group = MetricGroup()

    def register():
        group.register(next(names), Counter())

    for _ in range(10):
        register()
    with collector_runs(register):
        assert set(group.sample().values()) == {0}
