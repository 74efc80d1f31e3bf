"""Tag and timestamp of a stream element beside the value: what the reader gives, and when."""

import struct
import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.data.golden_types import element_of, load, parse, same

import flinkbuf as fb
from flinkbuf._core.ground.wakeup import TaskBell
from flinkbuf.network.events import CheckpointBarrier, EndOfData, EndOfPartition

ELEMENTS = load("stream_elements")["cases"]
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1
NAME = fb.Types.STRING()


def framed(*records):
    return b"".join(struct.pack(">i", len(record)) + record for record in records)


def write_raw(pool, *streams):
    """A partition of one subpartition for each stream of bytes."""
    partition = fb.ResultPartition(pool, len(streams), type="PIPELINED")
    for channel, stream in enumerate(streams):
        for record in stream:
            partition.emit(framed(record), channel)
    partition.finish()
    partition.close()
    return partition


def poll_all(reader):
    """What poll() gives, up to the end."""
    while (item := reader.poll())[0] != "FINISHED":
        yield item


def polled(element):
    """What poll() gives for an element, without the channel."""
    if isinstance(element, fb.types.StreamRecord):
        return "RECORD", element.value, element.timestamp
    if isinstance(element, fb.types.Watermark):
        return "WATERMARK", None, element.timestamp
    if isinstance(element, fb.types.WatermarkStatus):
        return "STATUS", None, element.status
    return "MARKER", element, None


@pytest.mark.parametrize("case", ELEMENTS, ids=[f"{i}-{case['element']}" for i, case in enumerate(ELEMENTS)])
def test_elements_that_flink_wrote_are_read(pool, case):
    element, type = element_of(case), fb.Types.STREAM_ELEMENT(parse(case.get("type", "int")))
    data = bytes.fromhex(case["hex"])
    partition = write_raw(pool, [data], [data])
    with fb.RecordReader(fb.InputGate([(partition, 0)]), type) as reader:
        [item] = [fb.types.StreamRecord(v, reader.timestamp) if polled(element)[0] == "RECORD" else v for v in reader]
        assert same(item, element)
        reader.gate.close()
    with fb.RecordReader(fb.InputGate([(partition, 1)]), type) as reader:
        [(kind, value, timestamp, channel)] = poll_all(reader)
        wanted = polled(element)
        assert (kind, timestamp, channel) == (wanted[0], wanted[2], 0) and same(value, wanted[1])
        reader.gate.close()


timestamps = st.none() | st.integers(LONG_MIN, LONG_MAX) | st.sampled_from([0, -1, LONG_MIN, LONG_MAX])
elements = st.one_of(
    st.builds(fb.types.StreamRecord, st.text(max_size=60), timestamps),
    st.builds(fb.types.Watermark, st.integers(LONG_MIN, LONG_MAX)),
    st.sampled_from([fb.types.WatermarkStatus.IDLE, fb.types.WatermarkStatus.ACTIVE, fb.types.RecordAttributes(False)]),
    st.builds(
        fb.types.LatencyMarker, st.integers(LONG_MIN, LONG_MAX), st.binary(min_size=16, max_size=16), st.integers(0, 9)
    ),
    st.builds(fb.types.InternalWatermark, st.integers(LONG_MIN, LONG_MAX), st.integers(0, 9)),
    st.builds(CheckpointBarrier, st.integers(1, 9), st.just(0)),
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(elements, max_size=40), st.integers(14, 90), st.data())
def test_any_mix_comes_back_wherever_it_is_cut(sent, segment_size, data):
    """Elements in their order, events in their place, over segments of any size, by turns of both ways to read."""
    type = fb.Types.STREAM_ELEMENT(NAME)
    got = []
    with fb.NetworkBufferPool(1200, segment_size=segment_size) as pool:
        with fb.ResultPartition(pool, 1, type="PIPELINED") as partition:
            with fb.RecordWriter(partition, type, buffer_timeout_ms=-1) as writer:
                for element in sent:
                    way = data.draw(st.integers(0, 2))
                    if isinstance(element, CheckpointBarrier):
                        writer.write_event(element)
                    elif way == 0:
                        writer.emit(element)
                    elif way == 1:
                        writer.emit_all([element])
                    elif isinstance(element, fb.types.StreamRecord):
                        writer.emit(element.value, element.timestamp)
                    elif isinstance(element, fb.types.Watermark):
                        writer.write_watermark(element.timestamp)
                    else:
                        writer.write_marker(element)
            with fb.InputGate([(partition, 0)]) as gate, fb.RecordReader(gate, type, events=True) as reader:
                while True:
                    if data.draw(st.booleans()):
                        kind, value, timestamp, _ = reader.poll()
                        if kind == "FINISHED":
                            break
                        if kind == "STATUS":
                            value = fb.types.WatermarkStatus(timestamp)
                        elif kind == "WATERMARK":
                            value = fb.types.Watermark(timestamp)
                        elif kind == "RECORD":
                            value = fb.types.StreamRecord(value, timestamp)
                    else:
                        value = next(reader, None)
                        if value is None:
                            break
                        if isinstance(value, str):
                            value = fb.types.StreamRecord(value, reader.timestamp)
                        else:
                            assert reader.timestamp is None
                    got.append(value)
                    if isinstance(value, CheckpointBarrier):
                        gate.resume_consumption(0)
        assert pool.available_segment_count == 1200
    assert got == [*sent, EndOfData(), EndOfPartition()]


def test_poll_never_waits_and_the_bell_says_when_to_ask_again(pool):
    type, bell = fb.Types.STREAM_ELEMENT(NAME), TaskBell()
    with fb.ResultPartition(pool, 2) as partition, fb.RecordWriter(partition, type, "rebalance", 0, seed=0) as writer:
        gate = fb.InputGate([(partition, 0), (partition, 1)])
        gate.share_bell(bell)
        reader = fb.RecordReader(gate, type)
        for turn in range(20):
            while (item := reader.poll())[0] != "NOTHING":
                pass
            assert item[1:3] == (None, None)
            seen = bell.seen()
            assert reader.poll()[0] == "NOTHING" and not bell.wait(seen, 0)
            writer.emit("a", turn)
            assert bell.wait(seen, 0)
            kind, value, timestamp, channel = reader.poll()
            assert (kind, value, timestamp) == ("RECORD", "a", turn) and channel in (0, 1)
        writer.close()
        assert [item[0] for item in poll_all(reader)] == []
        assert reader.poll()[0] == reader.poll()[0] == "FINISHED"
        gate.close()


def test_a_reader_of_a_plain_type_polls_too(pool):
    with fb.ResultPartition(pool, 1) as partition:
        with fb.RecordWriter(partition, "int") as writer:
            writer.emit_all([2, 0, 1])
        with fb.InputGate([(partition, 0)]) as gate, fb.RecordReader(gate, "int", events=True) as reader:
            items = list(poll_all(reader))
    assert items[:3] == [("RECORD", 2, None, 0), ("RECORD", 0, None, 0), ("RECORD", 1, None, 0)]
    assert [(kind, type(value)) for kind, value, _, _ in items[3:]] == [("EVENT", EndOfData), ("EVENT", EndOfPartition)]


def test_what_a_column_could_not_give_is_polled(pool):
    with fb.ResultPartition(pool, 1) as partition:
        with fb.RecordWriter(partition, "int") as writer:
            writer.emit_all([1, 2])
        with fb.InputGate([(partition, 0)]) as gate, fb.RecordReader(gate, "int", events=True) as reader:
            with pytest.raises(TypeError, match="event"):
                reader.read_batch(5)
            assert [item[:2] for item in poll_all(reader)][:2] == [("RECORD", 1), ("RECORD", 2)]


def test_a_priority_event_comes_before_the_rest_of_the_buffer_in_hand(pool):
    type = fb.Types.STREAM_ELEMENT(NAME)
    for read in (lambda reader: next(reader), lambda reader: reader.poll()[1]):
        with fb.ResultPartition(pool, 2) as partition:
            with fb.RecordWriter(partition, type, "rebalance", seed=0) as writer:
                writer.emit_all([str(n) for n in range(100)])
                writer.flush()
                gate = fb.InputGate([(partition, 0), (partition, 1)])
                reader = fb.RecordReader(gate, type, events=True)
                first = [read(reader) for _ in range(3)]
                channel = reader.channel_index
                writer.write_event(CheckpointBarrier(1, 2), is_priority=True)
                events = [read(reader), read(reader)]
                assert [event.checkpoint_id for event in events] == [1, 1]
                fourth = read(reader)
                assert reader.channel_index == channel, "the buffer in hand goes on"
                assert [int(fourth) - int(value) for value in first] == [6, 4, 2]
            rest = [item for item in reader if isinstance(item, str)]
            assert sorted(map(int, [*first, fourth, *rest])) == list(range(100))
            gate.close()


def test_a_priority_event_of_any_gate_of_a_union_overtakes(pool):
    type = fb.Types.STREAM_ELEMENT(NAME)
    partitions = [fb.ResultPartition(pool, 1) for _ in range(3)]
    writers = [fb.RecordWriter(partition, type) for partition in partitions]
    for number, writer in enumerate(writers):
        writer.emit_all([f"{number}{n}" for n in range(10)])
        writer.flush()
    with fb.network.UnionInputGate([fb.InputGate([(partition, 0)]) for partition in partitions]) as union:
        reader = fb.RecordReader(union, type, events=True)
        assert next(reader) == "00"
        for number in (2, 1, 0):
            writers[number].write_event(CheckpointBarrier(number, 5), is_priority=True)
            assert (next(reader).checkpoint_id, reader.channel_index) == (number, number)
        assert (next(reader), reader.channel_index) == ("01", 0)
        for writer in writers:
            writer.close()
        assert len([item for item in reader if isinstance(item, str)]) == 28
    for partition in partitions:
        partition.close()


def test_a_reader_without_events_is_not_held_up_by_priority_ones(pool):
    with fb.ResultPartition(pool, 1) as partition:
        with fb.RecordWriter(partition, "int") as writer:
            writer.emit_all(range(10))
            writer.flush()
            with fb.InputGate([(partition, 0)]) as gate:
                reader = fb.RecordReader(gate, "int")
                got = [next(reader)]
                writer.write_event(CheckpointBarrier(1, 2), is_priority=True)
                writer.emit_all(range(10, 20))
                writer.close()
                assert [*got, *reader] == list(range(20))


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "bytes end"),
        (b"\x07", "STREAM_ELEMENT"),
        (b"\x00\0\0\0", "bytes end|end inside"),
        (b"\x00" + bytes(8), "STRING expected at byte 9"),
        (b"\x01\x05ab", "STRING expected at byte 1"),
        (b"\x01\x02abc", "used only 3 of them"),
        (b"\x02" + bytes(9), "used only 9 of them"),
        (b"\x04\0\0\0\x05", "expected at byte 1"),
        (b"\x02\0", "end inside|bytes end"),
    ],
)
def test_bytes_that_are_no_element_are_refused_with_their_place(pool, data, text):
    type = fb.Types.STREAM_ELEMENT(NAME)
    good = type.serialize(fb.types.StreamRecord("x", 5))
    partition = write_raw(pool, [good, data], [good, data])
    for channel in range(2):
        with fb.InputGate([(partition, channel)]) as gate, fb.RecordReader(gate, type) as reader:
            assert (reader.poll()[1] if channel else next(reader)) == "x"
            with pytest.raises(fb.errors.CorruptDataError, match=text) as caught:
                reader.poll() if channel else next(reader)
            assert "record 1" in str(caught.value) and caught.value.channel_index == 0
            assert reader.timestamp is None or reader.timestamp in (0, 5)


def test_a_reader_at_work_refuses_to_poll_as_well(pool):
    type = fb.Types.STREAM_ELEMENT(fb.Types.PICKLED_BYTE_ARRAY())
    with fb.ResultPartition(pool, 1) as partition:
        with fb.RecordWriter(partition, type) as writer:
            writer.emit(Nosy(), 1)
        with fb.InputGate([(partition, 0)]) as gate, fb.RecordReader(gate, type) as reader:
            Nosy.reader = reader
            with pytest.raises(RuntimeError, match="already reading"):
                reader.poll()


class Nosy:
    """Its own conversion code reads from the reader that is reading it."""

    reader = None

    def __reduce__(self):
        return Nosy.poll, ()

    @staticmethod
    def poll():
        return Nosy.reader.poll()


def test_priority_events_reach_a_busy_reader_from_another_thread(pool):
    """The count of priority events is written by the producer's thread while the reader's looks at it."""
    type = fb.Types.STREAM_ELEMENT("int")
    with fb.ResultPartition(pool, 1) as partition:
        writer = fb.RecordWriter(partition, type)
        gate = fb.InputGate([(partition, 0)])
        got = []

        def read():
            with fb.RecordReader(gate, type, events=True) as reader:
                got.extend(reader)

        thread = threading.Thread(target=read)
        thread.start()
        for turn in range(1500):
            writer.emit_all(range(7 * turn, 7 * turn + 7))
            if turn % 3 == 0:
                writer.flush()  # so that the reader is sometimes on its way to the channel when the event comes
            writer.write_event(CheckpointBarrier(turn, 0), is_priority=True)
        writer.close()
        thread.join()
        gate.close()
    assert [item.checkpoint_id for item in got if isinstance(item, CheckpointBarrier)] == list(range(1500))
    assert [item for item in got if isinstance(item, int)] == list(range(7 * 1500))


def test_a_union_takes_what_a_task_says_to_its_channels(pool):
    """Numbered through: barriers block, resume, acknowledge and end by the channel that the element came from."""
    type = fb.Types.STREAM_ELEMENT(NAME)
    partitions = [fb.ResultPartition(pool, 2) for _ in range(2)]
    for number, partition in enumerate(partitions):
        with fb.RecordWriter(partition, type, lambda name, count: int(name[1])) as writer:
            for channel in range(2):
                writer.emit(f"{number}{channel}", number)
            writer.write_watermark(number)
            writer.write_event(CheckpointBarrier(1, 2))
            for channel in range(2):
                writer.emit(f"{number}{channel}")
    union = fb.network.UnionInputGate([fb.InputGate([(partition, c) for c in range(2)]) for partition in partitions])
    with union, fb.RecordReader(union, type, events=True) as reader:
        items = [[] for _ in range(4)]
        while (item := reader.poll())[0] not in ("NOTHING", "FINISHED"):
            items[item[3]].append(item)
        assert item[0] == "NOTHING", "each channel waits behind its barrier"
        for channel, got in enumerate(items):
            name = f"{channel // 2}{channel % 2}"
            assert [(kind, value, timestamp) for kind, value, timestamp, _ in got[:2]] == [
                ("RECORD", name, channel // 2),
                ("WATERMARK", None, channel // 2),
            ]
            assert got[2][:2] == ("EVENT", CheckpointBarrier(1, 2)) and len(got) == 3
        for channel in (3, 0, 2, 1):
            union.resume_consumption(channel)
            assert reader.poll() == ("RECORD", f"{channel // 2}{channel % 2}", None, channel)
            assert reader.poll() == ("EVENT", EndOfData(), None, channel)
            assert not partitions[channel // 2].is_answered
            union.acknowledge_all_records_processed(channel)
            assert reader.poll() == ("EVENT", EndOfPartition(), None, channel)
        assert reader.poll()[0] == "FINISHED"
        assert all(partition.is_all_data_processed for partition in partitions)
    for partition in partitions:
        partition.close()
