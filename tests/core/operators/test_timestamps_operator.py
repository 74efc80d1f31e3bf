"""Timestamps and watermarks put on a stream. Flink: TimestampsAndWatermarksOperatorTest."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkbuf._core.operators.timestamps_operator import TimestampsAndWatermarksOperator
from flinkbuf.streaming.chain.operator_config import ExecutionSettings
from flinkbuf.streaming.time.watermark_strategy import TimestampAssigner, WatermarkStrategy
from flinkbuf.testing import OperatorHarness
from flinkbuf.types.duration import Duration
from flinkbuf.types.values import StreamRecord, Watermark, WatermarkStatus

MIN, MAX = -(2**63), 2**63 - 1


class OwnValue(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value


def bounded(milliseconds=0):
    return WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(milliseconds))


def harness(strategy, interval_ms=10):
    settings = ExecutionSettings(auto_watermark_interval_ms=interval_ms)
    return OperatorHarness(TimestampsAndWatermarksOperator(strategy), is_keyed=False, settings=settings)


def watermarks(output):
    return [element.timestamp for element in output if isinstance(element, Watermark)]


def test_records_get_timestamps_and_the_stream_a_watermark_each_interval():
    with harness(bounded(5).with_timestamp_assigner(OwnValue())) as operator:
        operator.process_element(100)
        operator.process_element(90)
        operator.set_processing_time(10)
        assert operator.output == [StreamRecord(100, 100), StreamRecord(90, 90)]
        operator.set_processing_time(11)
        assert operator.output[2:] == [Watermark(94)]
        operator.set_processing_time(50)  # nothing higher: no watermark
        operator.process_element(120)
        operator.set_processing_time(100)
        assert operator.output[3:] == [StreamRecord(120, 120), Watermark(114)]


def test_an_assigner_is_given_the_timestamp_so_far():
    seen = []

    def assigner(value, record_timestamp):
        seen.append(record_timestamp)
        return 1

    with harness(bounded().with_timestamp_assigner(assigner)) as operator:
        operator.process_element("a")
        operator.process_element("b", 77)
    assert seen == [MIN, 77]


def test_without_an_assigner_records_keep_their_timestamps():
    with harness(bounded()) as operator:
        operator.process_element("a", 5)
        operator.process_element("b")
        operator.set_processing_time(11)
        assert operator.output == [StreamRecord("a", 5), StreamRecord("b", None), Watermark(4)]


def test_watermarks_of_the_input_end_here_but_the_last():
    with harness(bounded()) as operator:
        operator.process_watermark(50)
        operator.process_watermark_status(True)
        operator.process_watermark_status(False)
        assert operator.output == []
        operator.process_watermark(MAX)
        operator.process_watermark(MAX)
        assert operator.output == [Watermark(MAX)]


def test_without_an_interval_the_only_watermark_comes_at_the_end():
    with harness(bounded(), interval_ms=0) as operator:
        operator.process_element("a", 5)
        operator.set_processing_time(10_000)
        assert watermarks(operator.output) == []
        operator.finish()
        assert watermarks(operator.output) == [4]


def test_a_stream_that_falls_silent_is_idle_until_the_next_record():
    strategy = bounded().with_timestamp_assigner(OwnValue()).with_idleness(Duration.of_millis(15))
    with harness(strategy) as operator:
        operator.process_element(5)
        for now in range(11, 100, 11):
            operator.set_processing_time(now)
        assert operator.output[1:] == [Watermark(4), WatermarkStatus.IDLE]
        operator.process_element(5)
        assert operator.output[3:] == [StreamRecord(5, 5), WatermarkStatus.ACTIVE]


def test_a_watermark_ends_idleness():
    strategy = bounded().with_idleness(Duration.of_millis(5))
    with harness(strategy) as operator:
        for now in range(11, 50, 11):
            operator.set_processing_time(now)
        operator.process_watermark(MAX)
        assert operator.output == [WatermarkStatus.IDLE, WatermarkStatus.ACTIVE, Watermark(MAX)]


def test_a_generator_of_ones_own_may_emit_at_each_record():
    class AtMarks:
        def on_event(self, event, event_timestamp, output):
            if event == "mark":
                output.emit_watermark(event_timestamp)

        def on_periodic_emit(self, output):
            pass

    with harness(WatermarkStrategy.for_generator(AtMarks)) as operator:
        operator.process_element("a", 1)
        operator.process_element("mark", 2)
        operator.process_element("mark", 1)
        assert operator.output == [
            StreamRecord("a", 1),
            StreamRecord("mark", 2),
            Watermark(2),
            StreamRecord("mark", 1),
        ]


class Fixed(TimestampAssigner):
    def __init__(self, timestamp):
        self.timestamp = timestamp

    def extract_timestamp(self, value, record_timestamp):
        return self.timestamp


@pytest.mark.parametrize("timestamp", [None, 1.5, "5", [5]])
def test_a_timestamp_that_is_no_int_is_refused(timestamp):
    with harness(bounded().with_timestamp_assigner(Fixed(timestamp))) as operator:
        with pytest.raises(TypeError, match="a timestamp is an int, milliseconds since 1970.*Fixed.extract_timestamp"):
            operator.process_element("a")
        assert operator.operator.is_in_function and operator.operator.value_in_hand == "a"


@pytest.mark.parametrize("timestamp", [2**63, -(2**63) - 1])
def test_a_timestamp_beyond_64_bits_is_refused(timestamp):
    with (
        harness(bounded().with_timestamp_assigner(Fixed(timestamp))) as operator,
        pytest.raises(OverflowError, match="in 64 bits; Fixed.extract_timestamp gave int"),
    ):
        operator.process_element("a")


def test_what_counts_as_an_int_is_a_timestamp():
    class Index:
        def __index__(self):
            return 7

    with harness(bounded().with_timestamp_assigner(Fixed(Index()))) as operator:
        operator.process_element("a")
        assert operator.output == [StreamRecord("a", 7)]


def test_an_error_of_the_assigner_leaves_its_record_in_hand():
    def broken(value, record_timestamp):
        raise KeyError("departed")

    with harness(bounded().with_timestamp_assigner(broken)) as operator:
        with pytest.raises(KeyError, match="departed"):
            operator.process_element({"origin": "JFK"})
        assert operator.operator.is_in_function
        assert operator.operator.value_in_hand == {"origin": "JFK"}


class Broken:
    def on_event(self, event, event_timestamp, output):
        if event == "bad":
            raise RuntimeError("in on_event")

    def on_periodic_emit(self, output):
        raise RuntimeError("in on_periodic_emit")


def test_an_error_of_the_generator_is_one_of_the_users_function():
    with harness(WatermarkStrategy.for_generator(Broken)) as operator:
        operator.process_element("good", 1)
        assert not operator.operator.is_in_function
        with pytest.raises(RuntimeError, match="in on_periodic_emit"):
            operator.set_processing_time(11)
        assert operator.operator.is_in_function
        with pytest.raises(RuntimeError, match="in on_event"):
            operator.process_element("bad", 1)
        assert operator.operator.value_in_hand == "bad"


def test_a_generator_without_its_methods_is_refused_when_the_task_starts():
    class NoMethods:
        def on_event(self, event, event_timestamp, output):
            pass

    operator = harness(WatermarkStrategy.for_generator(NoMethods))
    with pytest.raises(TypeError, match="a watermark generator has the methods.*has no on_periodic_emit"):
        operator.open()


def test_no_timer_is_left_when_it_is_closed():
    operator = harness(bounded())
    operator.open()
    assert operator.clock.timer_count == 1
    operator.close()
    assert operator.clock.timer_count == 0


@given(
    bound=st.integers(0, 20),
    steps=st.lists(st.one_of(st.none(), st.integers(-100, 100))),
)
def test_watermarks_rise_and_are_late_for_nobody_within_the_bound(bound, steps):
    """An int is a record with that timestamp, None the end of an interval."""
    with harness(bounded(bound).with_timestamp_assigner(OwnValue())) as operator:
        now, expected, highest = 0, [], None
        for step in steps:
            if step is None:
                now += 11
                operator.set_processing_time(now)
                if highest is not None and (not expected or highest - bound - 1 > expected[-1]):
                    expected.append(highest - bound - 1)
            else:
                operator.process_element(step)
                highest = step if highest is None else max(highest, step)
        assert watermarks(operator.output) == expected


class LastField:
    """Emits a watermark that each record names."""

    def on_event(self, event, event_timestamp, output):
        output.emit_watermark(event["last"])

    def on_periodic_emit(self, output):
        pass


@pytest.mark.parametrize("has_idleness", [False, True])
def test_a_generator_sees_a_record_as_it_was_before_it_went_on(has_idleness):
    def emptied(value, timestamp):
        value.clear()

    strategy = WatermarkStrategy.for_generator(LastField)
    if has_idleness:
        strategy = strategy.with_idleness(Duration.of_millis(10))
    made = harness(strategy)
    made._output.collect = emptied  # as the functions behind may
    with made as operator:
        operator.process_element({"last": 4})
        assert watermarks(operator.output) == [4]
