"""Tag and timestamp of a stream element beside the value: what the writer writes, and where it goes."""

import struct
import threading
from collections import Counter

import pytest
from support.data.golden_types import element_of, load, parse

import flinkbuf as fb
from flinkbuf.network.events import CheckpointBarrier

ELEMENTS = load("stream_elements")["cases"]
NAME = fb.Types.STRING()
MARKERS = [
    fb.types.Watermark(7),
    fb.types.WatermarkStatus.IDLE,
    fb.types.RecordAttributes(True),
    fb.types.InternalWatermark(5, 1),
]
MARKERS.append(fb.types.LatencyMarker(9, bytes(range(16)), 3))


def bytes_of(partition, channel):
    """The stream of a channel, events left out, without a reader."""
    data = b""
    with fb.InputGate([(partition, channel)]) as gate:
        while (item := gate.poll()) is not None:
            if item[1].is_buffer:
                data += bytes(item[1])
            item[1].release()
    return data


def records_of(data):
    while data:
        (size,) = struct.unpack_from(">i", data)
        yield data[4 : 4 + size]
        data = data[4 + size :]


def written(pool, write, channels=1, type=NAME, partitioner="global", **options):
    """The records of each channel after `write(writer)`."""
    with fb.ResultPartition(pool, channels, type="PIPELINED") as partition:
        with fb.RecordWriter(partition, fb.Types.STREAM_ELEMENT(type), partitioner, **options) as writer:
            write(writer)
        return [list(records_of(bytes_of(partition, channel))) for channel in range(channels)]


@pytest.mark.parametrize("case", ELEMENTS, ids=[f"{i}-{case['element']}" for i, case in enumerate(ELEMENTS)])
def test_elements_have_the_bytes_that_flink_writes(pool, case):
    element = element_of(case)

    def write(writer):
        writer.emit(element)
        writer.emit_all([element])
        if isinstance(element, fb.types.StreamRecord):
            writer.emit(element.value, element.timestamp)
            writer.broadcast(element.value, element.timestamp)
            if element.timestamp != -(2**63):
                writer.write_element(element.value, -(2**63) if element.timestamp is None else element.timestamp)
        else:
            writer.write_marker(element)
            if isinstance(element, fb.types.Watermark):
                writer.write_watermark(element.timestamp)
            if isinstance(element, fb.types.WatermarkStatus):
                writer.write_status(element.is_idle)

    [records] = written(pool, write, type=parse(case.get("type", "int")))
    assert set(records) == {bytes.fromhex(case["hex"])} and len(records) >= 3


@pytest.mark.parametrize("segment_size", [16, 17, 33, 64])
def test_elements_are_cut_over_small_segments(segment_size):
    values = ["", "a", "b" * 9, "c" * 200]
    elements = [
        e for i, v in enumerate(values) for e in (fb.types.StreamRecord(v, i), fb.types.StreamRecord(v), *MARKERS)
    ]
    type = fb.Types.STREAM_ELEMENT(NAME)
    with fb.NetworkBufferPool(512, segment_size=segment_size) as pool:
        [records] = written(pool, lambda writer: [writer.emit(element) for element in elements])
        assert pool.available_segment_count == 512
    assert [type.deserialize(record) for record in records] == elements


def test_the_partitioner_sees_the_value(pool):
    seen = []

    def choose(record, channel_count):
        seen.append(record)
        return len(record) % channel_count

    def write(writer):
        writer.emit("a", 1)
        writer.emit(fb.types.StreamRecord("bb", 2))
        writer.emit_all(["ccc", fb.types.StreamRecord("dddd"), fb.types.Watermark(4)])
        writer.write_element("e", 3)

    channels = written(pool, write, 2, partitioner=choose)
    assert seen == ["a", "bb", "ccc", "dddd", "e"]
    assert [len(records) for records in channels] == [3, 4], "the watermark, too"
    by_key = written(
        pool, lambda w: [w.emit((n, n), n) for n in range(100)], 4, fb.Types.TUPLE(["int", "int"]), fb.by_key(1)
    )
    plain = fb.by_key(1).selector(fb.Types.TUPLE([fb.Types.INT(), fb.Types.INT()]), 4)
    assert [len(records) for records in by_key] == [
        Counter(plain.select_channel((n, n)) for n in range(100))[channel] for channel in range(4)
    ]


@pytest.mark.parametrize("marker", MARKERS, ids=repr)
@pytest.mark.parametrize("partitioner", ["rebalance", "broadcast", "global"])
def test_what_is_no_record_goes_to_every_channel_behind_its_records(pool, marker, partitioner):
    def write(writer):
        for turn in range(6):
            writer.emit(str(turn), turn)
            writer.emit(marker)
        assert writer.record_count == 6

    type = fb.Types.STREAM_ELEMENT(NAME)
    channels = written(pool, write, 3, partitioner=partitioner, seed=1)
    for records in channels:
        elements = [type.deserialize(record) for record in records]
        assert elements.count(marker) == 6
        for place, element in enumerate(elements):
            if isinstance(element, fb.types.StreamRecord):
                assert elements[:place].count(marker) == element.timestamp, "as many as were written before it"


def test_a_marker_for_every_channel_does_not_end_their_buffers(pool):
    """As in Flink: only a broadcast builder would, and each watermark would cost a buffer a channel."""
    with fb.ResultPartition(pool, 4) as partition:
        with fb.RecordWriter(partition, fb.Types.STREAM_ELEMENT(NAME), buffer_timeout_ms=-1) as writer:
            for turn in range(40):
                writer.emit("x", turn)
                writer.write_watermark(turn)
            assert partition.buffer_pool_usage()["requested"] <= 5 and partition.total_buffer_count == 0
        for channel in range(4):
            bytes_of(partition, channel)


def test_a_marker_for_one_channel_goes_there_alone(pool):
    marker = MARKERS[-1]

    def write(writer):
        writer.write_marker(marker, 1)
        writer.emit_to(marker, 2)
        for channel in (-1, 3):
            with pytest.raises(IndexError, match=f"channel {channel} of"):
                writer.write_marker(marker, channel)
        with pytest.raises(IndexError, match="channel 3 of"):
            writer.write_element("x", 1, 3)

    assert [len(records) for records in written(pool, write, 3, partitioner="broadcast")] == [0, 1, 1]


def test_a_value_that_is_refused_leaves_no_trace(pool):
    def write(writer):
        writer.emit("a", 1)
        for item, timestamp, error, text in [
            (5, 2, TypeError, "record 1: value.value: expected STRING|record 1: .*expected STRING, got 5"),
            ("b", 2**63, OverflowError, "."),
            ("b", "noon", TypeError, "."),
            ("b", 1.5, TypeError, "."),
            (fb.types.Watermark(3), 4, TypeError, "Watermark.*4 cannot be given beside it"),
            (fb.types.StreamRecord("b", 3), 4, TypeError, "4 cannot be given beside it"),
        ]:
            with pytest.raises(error, match=text):
                writer.emit(item, timestamp)
        writer.emit("b", 2)

    [records] = written(pool, write)
    assert len(records) == 2


def test_records_of_a_plain_type_take_no_timestamp(pool):
    with fb.ResultPartition(pool, 1) as partition, fb.RecordWriter(partition, NAME) as writer:
        for write in (
            lambda: writer.emit("a", 1),
            lambda: writer.emit_to("a", 0, 1),
            lambda: writer.broadcast("a", 1),
            lambda: writer.write_element("a", 1),
            lambda: writer.write_watermark(1),
            lambda: writer.write_status(True),
            lambda: writer.write_marker(fb.types.Watermark(1)),
        ):
            with pytest.raises(TypeError, match=r"no timestamp|Types\.STREAM_ELEMENT|STREAM_ELEMENT"):
                write()
        writer.write_element("a", -(2**63))
        assert writer.record_count == 1
        partition.release()


def test_a_writer_with_room_does_not_wait_and_says_when_it_has_none(pool):
    with fb.ResultPartition(pool, 1, floating_buffers=0, max_overdraft=0) as partition:
        writer = fb.RecordWriter(partition, fb.Types.STREAM_ELEMENT(NAME), buffer_timeout_ms=-1)
        while writer.is_available:
            writer.write_element("x" * 1000, 1)
        assert writer.record_count >= 4
        partition.release()
        assert writer.is_available, "who writes for nobody need not wait"
        writer.write_element("x", 1)


def test_markers_are_gone_on_with_when_a_reader_has_made_room(pool):
    """No room for a watermark in the third of four channels: the others get it once, all the same."""
    type = fb.Types.STREAM_ELEMENT(NAME)
    with fb.ResultPartition(pool, 4, buffers_per_channel=1, floating_buffers=0, max_overdraft=0) as partition:
        writer = fb.RecordWriter(partition, type, "rebalance", seed=0)
        got = [[] for _ in range(4)]

        def read(channel):
            with fb.InputGate([(partition, channel)]) as gate, fb.RecordReader(gate, type) as reader:
                got[channel] += [element for element in reader if isinstance(element, fb.types.Watermark)]

        readers = [threading.Thread(target=read, args=(channel,)) for channel in range(4)]
        for reader in readers:
            reader.start()
        for turn in range(300):
            writer.emit("x" * 700, turn)
            writer.write_watermark(turn)
            writer.emit(fb.types.Watermark(turn))
        writer.close()
        for reader in readers:
            reader.join()
    assert got == [[fb.types.Watermark(turn) for turn in range(300) for _ in range(2)]] * 4


def test_events_stand_between_elements(pool):
    type = fb.Types.STREAM_ELEMENT(NAME)
    with fb.ResultPartition(pool, 1) as partition:
        with fb.RecordWriter(partition, type) as writer:
            writer.emit("a", 1)
            writer.write_event(CheckpointBarrier(1, 2))
            writer.emit("b")
        with fb.InputGate([(partition, 0)]) as gate:
            reader = fb.RecordReader(gate, type, events=True)
            assert (next(reader), reader.timestamp) == ("a", 1)
            assert (next(reader).checkpoint_id, reader.timestamp) == (1, None)
            gate.resume_consumption(0)
            assert (next(reader), reader.timestamp) == ("b", None)
