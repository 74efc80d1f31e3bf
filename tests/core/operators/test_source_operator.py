"""Sources that are iterators, and the loops that bring records out of them."""

import pytest
from support.worlds.surroundings import Elements, Surroundings

from flinkbuf._core.operators.source_operator import (
    IteratorSourceOperator,
    ReaderOutput,
    ReaderSourceOperator,
    WatermarkingOutput,
)
from flinkbuf._core.operators.stream_operator import NO_TIMESTAMP
from flinkbuf._core.operators.watermark_generator import WatermarkGenerator, WatermarksWithIdleness
from flinkbuf.streaming.sources.input_status import InputStatus
from flinkbuf.testing import ManualClock
from flinkbuf.types.values import StreamRecord, Watermark, WatermarkStatus


def opened(elements, *classes):
    return Surroundings().open(IteratorSourceOperator(lambda context: elements, *classes))


@pytest.mark.parametrize(
    "elements", [[1, 2, 3], (1, 2, 3), range(1, 4), {1: 0, 2: 0, 3: 0}], ids=lambda e: type(e).__name__
)
def test_all_elements_come_in_order_and_then_the_end(elements):
    output, source = Elements(), opened(elements)
    assert source.emit_next(output, 100) == InputStatus.END_OF_INPUT
    assert output.elements == [StreamRecord(1), StreamRecord(2), StreamRecord(3)]
    assert source.emit_next(output, 100) == InputStatus.END_OF_INPUT


def test_a_turn_ends_after_so_many_records():
    output, source = Elements(), opened(range(5))
    assert source.emit_next(output, 2) == InputStatus.MORE_AVAILABLE
    assert (output.values, source.position) == ([0, 1], 2)
    assert source.emit_next(output, 4) == InputStatus.END_OF_INPUT
    assert output.values == [0, 1, 2, 3, 4]


def test_a_turn_ends_when_the_task_has_something_else_to_do():
    output, source = Elements(), opened(range(5))
    output.yields_after = 3
    assert source.emit_next(output, 100) == InputStatus.MORE_AVAILABLE
    assert output.values == [0, 1, 2]


def test_records_with_timestamps_and_watermarks_are_known_only_where_asked_for():
    elements = [StreamRecord("a", 5), Watermark(4), StreamRecord("b"), "c"]
    plain, known = Elements(), Elements()
    opened(elements).emit_next(plain, 10)
    assert plain.elements == [StreamRecord(element) for element in elements]
    opened(elements, StreamRecord, Watermark).emit_next(known, 10)
    assert known.elements == [StreamRecord("a", 5), Watermark(4), StreamRecord("b"), StreamRecord("c")]


@pytest.mark.parametrize(("is_drain", "status"), [(True, InputStatus.END_OF_INPUT), (False, InputStatus.STOPPED)])
def test_a_stopped_source_emits_nothing_more(is_drain, status):
    output, source = Elements(), opened(range(5))
    source.emit_next(output, 1)
    source.stop(is_drain)
    assert source.emit_next(output, 100) == status
    assert output.values == [0]


def test_elements_emitted_before_a_restore_are_skipped():
    output, source = Elements(), opened(iter("abc"))
    source.skip(2)
    source.emit_next(output, 10)
    assert output.values == ["c"]
    source.skip(7)
    assert source.position == 3


def test_an_error_of_the_iterator_comes_out_as_it_is():
    def numbers():
        yield 1
        raise OSError("the disk is gone")

    output, source = Elements(), opened(numbers())
    with pytest.raises(OSError, match="the disk is gone"):
        source.emit_next(output, 10)
    assert output.values == [1]


def test_closing_runs_the_finally_of_a_generator_that_is_not_used_up():
    ended = []

    def numbers():
        try:
            yield from range(100)
        finally:
            ended.append(True)

    source = opened(numbers())
    source.emit_next(Elements(), 3)
    source.close()
    source.close()
    assert ended == [True]


def test_a_file_of_the_program_is_not_closed(tmp_path):
    (tmp_path / "a").write_text("1\n2\n")
    with open(tmp_path / "a") as file:
        source = opened(file)
        source.emit_next(Elements(), 1)
        source.close()
        assert not file.closed


class Generator(WatermarkGenerator):
    """Emits a watermark one behind each timestamp."""

    def on_event(self, value, timestamp, output):
        output.emit_watermark(timestamp - 1)


class Watermarks:
    def __init__(self, output):
        self.output = output

    def emit_watermark(self, timestamp):
        self.output.emit_watermark(timestamp)

    def mark_idle(self):
        self.output.emit_watermark_status(True)

    def mark_active(self):
        self.output.emit_watermark_status(False)


def test_a_reader_s_records_are_timestamped_before_its_generator_sees_them():
    output = Elements()
    reader_output = ReaderOutput(output)
    split = WatermarkingOutput(
        output, reader_output.turn, lambda value, old: value * 10, Generator(), Watermarks(output)
    )
    split.collect(1)
    split.collect(2, 7)
    split.mark_idle()
    assert output.elements == [
        StreamRecord(1, 10),
        Watermark(9),
        StreamRecord(2, 20),
        Watermark(19),
        WatermarkStatus.IDLE,
    ]


class LastField(WatermarkGenerator):
    """Emits a watermark that each record names."""

    def on_event(self, value, timestamp, output):
        output.emit_watermark(value["last"])


class Emptying(Elements):
    """Changes each record, as the functions behind may."""

    def collect(self, value, timestamp):
        value.clear()


@pytest.mark.parametrize("idle_ms", [None, 10])
def test_a_generator_sees_a_record_as_it_was_before_it_went_on(idle_ms):
    output, generator = Emptying(), LastField()
    if idle_ms is not None:
        generator = WatermarksWithIdleness(generator, idle_ms, ManualClock())
    split = WatermarkingOutput(output, ReaderOutput(output).turn, None, generator, Watermarks(output))
    split.collect({"last": 4})
    assert output.elements == [Watermark(4)]


def test_the_assigner_is_given_the_reader_s_timestamp():
    seen = []

    def assign(value, timestamp):
        seen.append(timestamp)
        return 0

    output = Elements()
    split = WatermarkingOutput(output, ReaderOutput(output).turn, assign, Generator(), Watermarks(output))
    split.collect("a", 7)
    split.collect("b")
    assert seen == [7, NO_TIMESTAMP]


class Numbers(ReaderSourceOperator):
    """Emits from two splits in turn, one number a poll."""

    def setup(self, context, output):
        super().setup(context, output)
        self.reader_output = ReaderOutput(output)
        self.left = iter(range(7))
        self.poll_next = self.poll_one

    def poll_one(self, reader_output):
        for number in self.left:
            reader_output.collect(number)
            return InputStatus.MORE_AVAILABLE
        return InputStatus.NOTHING_AVAILABLE

    def emit_next(self, output, max_records):
        return self.poll_reader(self.reader_output, output, max_records)


def test_a_reader_is_polled_until_the_turn_is_over_or_it_has_nothing():
    around = Surroundings()
    source = around.open(Numbers())
    assert source.emit_next(around.output, 3) == InputStatus.MORE_AVAILABLE
    assert around.output.values == [0, 1, 2]
    around.output.yields_after = 4
    assert source.emit_next(around.output, 100) == InputStatus.MORE_AVAILABLE
    assert around.output.values == [0, 1, 2, 3]
    around.output.yields_after = None
    assert source.emit_next(around.output, 100) == InputStatus.NOTHING_AVAILABLE
    assert around.output.values == [0, 1, 2, 3, 4, 5, 6]


def test_a_reader_emits_from_an_iterator_in_batches():
    output = Elements()
    reader_output = ReaderOutput(output)
    numbers = iter(range(3))
    assert reader_output.collect_from(numbers)  # no turn has begun: one record, at least
    assert output.values == [0] and reader_output.is_turn_over
    assert reader_output.collect_from(numbers) and reader_output.collect_from(numbers)
    assert not reader_output.collect_from(numbers)
    assert output.values == [0, 1, 2]
