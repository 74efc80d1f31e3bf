"""The end of a chain: a result partition. Flink: RecordWriterOutputTest."""

import random

import numpy as np
import pyarrow as pa
import pytest

import flinkbuf as fb
from flinkbuf._core.operators.stream_operator import NO_TIMESTAMP
from flinkbuf._core.task.operator_chain import BroadcastingOutput, OperatorCounters
from flinkbuf._core.task.record_writer_output import PageOutput, RecordWriterOutput, TaskOutputs
from flinkbuf.records.column_batch import COLUMNS, ColumnBatch, PageReader, PageWriter
from flinkbuf.records.column_exchange import ColumnKeyPartitioner, pages_for
from flinkbuf.records.small_elements import small_elements_for

TYPE = fb.Types.STREAM_ELEMENT(fb.Types.LONG())


@pytest.fixture
def pool():
    return fb.NetworkBufferPool(32, segment_size=4096)


class End:
    def __init__(self, pool, channel_count=1, tag=None, partitioner="rebalance"):
        self.partition = fb.ResultPartition(pool, channel_count)
        self.writer = fb.RecordWriter(self.partition, TYPE, partitioner, -1, seed=1)
        self.counters, self.task_counters = OperatorCounters(), OperatorCounters()
        self.output = RecordWriterOutput(self.counters, self.task_counters, self.writer, random.Random(1), tag)

    def written(self, channel=0):
        self.writer.flush()
        gate = fb.InputGate([(self.partition, channel)])
        reader, elements = fb.RecordReader(gate, TYPE), []
        while (element := reader.poll())[0] not in ("NOTHING", "FINISHED"):
            elements.append(element[:3])
        return elements


def test_records_and_watermarks_come_in_order(pool):
    end = End(pool)
    end.output.collect(1, NO_TIMESTAMP)
    end.output.collect(2, 7)
    end.output.emit_watermark(9)
    end.output.emit_watermark_status(True)
    kinds = [(kind, value, timestamp) for kind, value, timestamp in end.written()]
    assert [kind for kind, _, _ in kinds] == ["RECORD", "RECORD", "WATERMARK", "STATUS"]
    assert [value for _, value, _ in kinds[:2]] == [1, 2]
    assert [timestamp for _, _, timestamp in kinds[1:3]] == [7, 9]
    assert (end.counters.records_out, end.task_counters.records_out) == (2, 2)


def test_status_is_told_once_and_watermarks_are_dropped_while_idle(pool):
    end = End(pool)
    for is_idle in (False, True, True):
        end.output.emit_watermark_status(is_idle)
    end.output.emit_watermark(5)
    end.output.emit_watermark_status(False)
    end.output.emit_watermark(6)
    assert [kind for kind, _, _ in end.written()] == ["STATUS", "STATUS", "WATERMARK"]


def test_side_records_go_only_to_the_edge_with_their_tag(pool):
    main, side = End(pool), End(pool, tag="late")
    output = BroadcastingOutput(main.counters, main.task_counters, [main.output, side.output])
    output.collect(1, NO_TIMESTAMP)
    output.collect_side("late", 2, NO_TIMESTAMP)
    output.collect_side("other", 3, NO_TIMESTAMP)
    assert [value for _, value, _ in main.written()] == [1]
    assert [value for _, value, _ in side.written()] == [2]
    assert (main.counters.records_out, main.task_counters.records_out) == (2, 2)


def test_a_direct_output_takes_only_what_is_for_it(pool):
    main, side = End(pool), End(pool, tag="late")
    main.output.collect_side("late", 1, NO_TIMESTAMP)
    side.output.collect(2, NO_TIMESTAMP)
    side.output.collect_side("late", 3, NO_TIMESTAMP)
    assert main.written() == []
    assert [value for _, value, _ in side.written()] == [3]


def test_a_record_for_several_partitions_counts_once(pool):
    first, second = End(pool), End(pool)
    output = BroadcastingOutput(first.counters, first.task_counters, [first.output, second.output])
    output.collect(1, NO_TIMESTAMP)
    assert (first.counters.records_out, first.task_counters.records_out) == (1, 1)
    assert len(first.written()) == len(second.written()) == 1


def test_a_latency_marker_goes_to_one_channel(pool):
    end = End(pool, channel_count=4)
    for _ in range(8):
        end.output.emit_latency_marker(fb.types.LatencyMarker(1, bytes(16), 0))
    counts = [len(end.written(channel)) for channel in range(4)]
    assert sum(counts) == 8 and max(counts) < 8


def test_a_watermark_goes_to_all_channels(pool):
    end = End(pool, channel_count=3)
    end.output.emit_watermark(5)
    assert [end.written(channel)[0][2] for channel in range(3)] == [5, 5, 5]


def test_a_refused_value_is_in_hand(pool):
    end = End(pool)
    with pytest.raises(TypeError):
        end.output.collect("no number", NO_TIMESTAMP)
    assert end.output.is_writing and end.output.value_in_hand == "no number"


def test_outputs_are_available_while_all_of_them_are(pool):
    assert TaskOutputs([]).is_available
    first, second = End(pool), End(pool)
    outputs = TaskOutputs([first.writer, second.writer])
    assert outputs.is_available and TaskOutputs([first.writer]).is_available
    while first.writer.is_available:
        first.output.collect(1, NO_TIMESTAMP)
    assert not outputs.is_available and not TaskOutputs([first.writer]).is_available
    assert TaskOutputs([second.writer]).is_available


# ---- pages


class Clock:
    """Processing time as a test says it is."""

    def __init__(self):
        self.now, self.timers = 0, []

    def now_ms(self):
        return self.now

    def register_timer(self, timestamp_ms, callback):
        self.timers.append((timestamp_ms, callback))
        return self

    def advance(self, now):
        self.now = now
        due = [each for each in self.timers if each[0] < now]
        self.timers = [each for each in self.timers if each[0] >= now]
        for timestamp_ms, callback in due:
            callback(timestamp_ms)


class PageEnd:
    """The edge of an operator to one task, where small elements wait for each other for 100 ms."""

    def __init__(self, pool, delay_ms=100, tag=None):
        type_ = fb.Types.STREAM_ELEMENT(COLUMNS)
        self.partition = fb.ResultPartition(pool, 1)
        self.writer = fb.RecordWriter(self.partition, type_, "global", -1)
        self.reader = fb.RecordReader(fb.InputGate([(self.partition, 0)]), type_)
        self.clock = Clock()
        counters, by_key = (OperatorCounters(), OperatorCounters()), ColumnKeyPartitioner(("n",), 128, gathers=True)
        small = small_elements_for(by_key, 1, delay_ms)
        pages = pages_for(by_key, 1), tag, small, self.clock, delay_ms
        self.output = PageOutput(*counters, self.writer, random.Random(1), *pages)

    def give(self, *numbers):
        rows = ColumnBatch(pa.record_batch({"n": pa.array(numbers, pa.int64())}), np.array(numbers) * 10)
        self.output.collect(rows, rows.latest)

    def written(self):
        self.writer.flush()
        found = []
        while (element := self.reader.poll())[0] not in ("NOTHING", "FINISHED"):
            kind, value, timestamp = element[:3]
            if kind == "RECORD":
                page = PageReader().read(value)
                assert timestamp == (None if page.timestamps is None else page.latest)
                found.append(page.batch["n"].to_pylist())
            else:
                found.append(kind)
        return found


def test_small_elements_go_as_one_when_they_have_waited(pool):
    end = PageEnd(pool)
    end.give(1)
    assert end.written() == [[1]]  # nothing came before
    end.clock.advance(20)
    end.give(2)
    end.clock.advance(60)
    end.give(3, 4)
    end.clock.advance(119)
    assert end.written() == []
    end.clock.advance(120)
    assert end.written() == [[2, 3, 4]]
    assert end.output.row_count == 4 and not end.output.is_writing


def test_a_timer_of_what_is_gone_serves_what_waits_then(pool):
    end = PageEnd(pool)
    end.give(1)
    end.give(2)
    end.output.emit_watermark(20)
    end.clock.advance(40)
    end.give(3)
    assert len(end.clock.timers) == 1
    end.clock.advance(100)
    assert end.written() == [[1], [2], "WATERMARK"]
    end.clock.advance(140)
    assert end.written() == [[3]]
    end.clock.advance(1000)
    assert end.clock.timers == [] and end.written() == []


def test_nothing_overtakes_what_waits(pool):
    end = PageEnd(pool, delay_ms=-1)
    marker = fb.types.LatencyMarker(1, bytes(16), 0)
    ways = (
        lambda: end.output.emit_watermark(5),
        lambda: end.output.emit_watermark_status(True),
        lambda: end.output.emit_latency_marker(marker),
        end.output.send_waiting,
    )
    for number, send in enumerate(ways):
        end.give(number)
        end.give(number, 7)
        assert end.written() == []
        send()
        assert end.written()[0] == [number, number, 7]
    end.output.send_waiting()
    assert end.written() == [] and end.clock.timers == []


def test_what_waits_does_not_hold_up_a_task_that_waits_for_room(pool):
    end = PageEnd(pool)
    end.give(1)
    end.give(2)
    count = 1
    while end.writer.is_available:
        end.writer.write_element(PageWriter().write(ColumnBatch(pa.record_batch({"n": np.arange(300)}))), NO_TIMESTAMP)
        count += 1
    end.clock.advance(100)
    assert len(end.clock.timers) == 1 and end.output.small.count == 1
    assert len(end.written()) == count
    end.clock.advance(200)
    assert end.written() == [[2]]
