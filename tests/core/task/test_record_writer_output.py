"""The end of a chain: a result partition. Flink: RecordWriterOutputTest."""

import random

import pytest

import flinkbuf as fb
from flinkbuf._core.operators.stream_operator import NO_TIMESTAMP
from flinkbuf._core.task.operator_chain import BroadcastingOutput, OperatorCounters
from flinkbuf._core.task.record_writer_output import RecordWriterOutput, TaskOutputs

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
