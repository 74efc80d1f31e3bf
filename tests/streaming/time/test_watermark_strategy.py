"""What programs say about event time. PyFlink: test_watermark_strategy.py."""

import datetime
import pickle

import pytest

from flinkbuf.streaming.time.watermark_strategy import TimestampAssigner, WatermarkAlignment, WatermarkStrategy
from flinkbuf.testing import ManualClock
from flinkbuf.types.duration import Duration, Time


class Departure(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value


def test_each_subtask_gets_a_generator_of_its_own():
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(2))
    one, other = (strategy.create_watermark_generator(ManualClock()) for _ in range(2))
    assert one is not other
    assert one.max_out_of_orderness_ms == 2000


@pytest.mark.parametrize("length", [Duration.of_seconds(2), Time.seconds(2), datetime.timedelta(seconds=2)])
def test_any_length_of_time_is_a_bound(length):
    generator = WatermarkStrategy.for_bounded_out_of_orderness(length).create_watermark_generator(ManualClock())
    assert generator.max_out_of_orderness_ms == 2000


def test_monotonous_timestamps_are_bounded_by_nothing():
    generator = WatermarkStrategy.for_monotonous_timestamps().create_watermark_generator(ManualClock())
    assert generator.max_out_of_orderness_ms == 0


def test_what_is_added_later_keeps_what_was_said_before():
    strategy = (
        WatermarkStrategy.for_monotonous_timestamps()
        .with_timestamp_assigner(Departure())
        .with_idleness(Duration.of_minutes(1))
        .with_watermark_alignment("sources", Duration.of_seconds(20), Duration.of_millis(500))
    )
    assert isinstance(strategy.create_timestamp_assigner(), Departure)
    assert strategy.idle_timeout_ms == 60_000
    assert strategy.alignment == WatermarkAlignment("sources", 20_000, 500)
    assert pickle.loads(pickle.dumps(strategy)).alignment == strategy.alignment


def test_alignment_is_told_once_a_second_by_default():
    strategy = WatermarkStrategy.no_watermarks().with_watermark_alignment("sources", Duration.of_seconds(20))
    assert strategy.alignment.update_interval_ms == 1000


def test_an_assigner_is_added_in_place_as_in_pyflink():
    strategy = WatermarkStrategy.no_watermarks()
    assert strategy.with_timestamp_assigner(Departure()) is strategy
    assert strategy.with_idleness(Duration.of_minutes(1)) is not strategy
    assert strategy.idle_timeout_ms is None


@pytest.mark.parametrize(
    ("say", "error", "sentence"),
    [
        (lambda s: s.with_timestamp_assigner(5), TypeError, "a timestamp assigner has a method extract_timestamp"),
        (lambda s: s.with_idleness(5), TypeError, "idle_timeout must be a Time, a Duration or a timedelta"),
        (lambda s: s.with_idleness(Duration.of_millis(0)), ValueError, "idle_timeout must be greater than zero"),
        (lambda s: s.for_bounded_out_of_orderness(5), TypeError, "max_out_of_orderness must be a Time"),
        (lambda s: s.for_bounded_out_of_orderness(Duration.of_millis(-1)), ValueError, "cannot be negative"),
        (lambda s: s.for_generator(5), TypeError, "for_generator takes a callable"),
    ],
)
def test_what_makes_no_sense_is_refused_where_it_is_said(say, error, sentence):
    with pytest.raises(error, match=sentence):
        say(WatermarkStrategy.for_monotonous_timestamps())
