"""Lengths of time: Java's Duration, PyFlink's Time, and what may stand for them."""

import datetime
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkbuf.types.duration import Duration, Time, milliseconds_of


@pytest.mark.parametrize(
    ("duration", "nanos"),
    [
        (Duration.of_days(2), 172_800_000_000_000),
        (Duration.of_hours(1), 3_600_000_000_000),
        (Duration.of_minutes(-1), -60_000_000_000),
        (Duration.of_seconds(1), 1_000_000_000),
        (Duration.of_millis(1), 1_000_000),
        (Duration.of_nanos(1), 1),
    ],
)
def test_duration_counts_nanoseconds(duration, nanos):
    assert duration.to_nanos() == nanos
    assert duration.to_millis() == nanos // 1_000_000
    assert pickle.loads(pickle.dumps(duration)) == duration


# What java.time.Duration.toString gives.
@pytest.mark.parametrize(
    ("nanos", "text"),
    [
        (0, "PT0S"),
        (90_000_000_000, "PT1M30S"),
        (86_400_000_000_000, "PT24H"),
        (1_500_000_000, "PT1.5S"),
        (3_600_000_000_001, "PT1H0.000000001S"),
        (-1_000_000_000, "PT-1S"),
        (-5_400_000_000_000, "PT-1H-30M"),
        (20, "PT0.00000002S"),
    ],
)
def test_duration_prints_as_in_java(nanos, text):
    assert str(Duration.of_nanos(nanos)) == text


def test_durations_have_an_order_and_a_hash():
    assert Duration.of_seconds(1) < Duration.of_minutes(1)
    assert len({Duration.of_seconds(60), Duration.of_minutes(1)}) == 1


@pytest.mark.parametrize("count", ["5", 1.5, None, True])
def test_a_duration_of_something_else_than_a_whole_number_is_refused(count):
    with pytest.raises(TypeError, match="seconds must be an int"):
        Duration.of_seconds(count)


def test_time_is_milliseconds_as_in_pyflink():
    assert [Time.days(1), Time.hours(24)] == [Time.milliseconds(86_400_000)] * 2
    assert Time.minutes(2).to_milliseconds() == 120_000
    assert Time.seconds(0.5).to_milliseconds() == 500.0
    assert str(Time.seconds(1)) == "1000 ms"
    assert Time.seconds(1) != 1000
    assert pickle.loads(pickle.dumps(Time.days(1))) == Time.days(1)


@given(st.integers(-(10**15), 10**15))
def test_all_lengths_of_time_mean_the_same_milliseconds(milliseconds):
    lengths = [
        Time.milliseconds(milliseconds),
        Duration.of_millis(milliseconds),
        datetime.timedelta(milliseconds=milliseconds) if abs(milliseconds) < 8 * 10**13 else Time(milliseconds),
    ]
    assert {milliseconds_of("size", length) for length in lengths} == {milliseconds}


@pytest.mark.parametrize("length", [5, 2.5, "5 s", None])
def test_a_length_without_a_unit_is_refused(length):
    with pytest.raises(TypeError, match=r"size must be a Time, a Duration or a timedelta, such as Time.seconds\(5\)"):
        milliseconds_of("size", length)


@pytest.mark.parametrize(
    "length", [Time.milliseconds(0.5), Duration.of_nanos(1), datetime.timedelta(microseconds=1001)]
)
def test_parts_of_a_millisecond_are_refused(length):
    with pytest.raises(ValueError, match="size must be a whole number of milliseconds"):
        milliseconds_of("size", length)
