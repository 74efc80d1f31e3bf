"""From an input gate back to records."""

import gc
import struct
import threading
import time

import pytest

import flinkbuf as fb
from flinkbuf.network.events import CancelCheckpointMarker, CheckpointBarrier, EndOfData, EndOfPartition


def test_events_are_given_in_their_place_when_asked_for(pool):
    with fb.ResultPartition(pool, 1) as partition:
        with fb.RecordWriter(partition, fb.Types.INT()) as writer:
            writer.emit(1)
            writer.write_event(CancelCheckpointMarker(7))
            writer.emit(2)
        with fb.InputGate([(partition, 0)]) as gate:
            items = list(fb.RecordReader(gate, fb.Types.INT(), events=True))
        assert items == [1, CancelCheckpointMarker(7), 2, EndOfData(), EndOfPartition()]


def test_events_are_passed_over_otherwise(pool):
    with fb.ResultPartition(pool, 1) as partition:
        with fb.RecordWriter(partition, fb.Types.INT()) as writer:
            writer.emit(1)
            writer.write_event(CancelCheckpointMarker(7))
            writer.emit(2)
        with fb.InputGate([(partition, 0)]) as gate:
            assert list(fb.RecordReader(gate, fb.Types.INT())) == [1, 2]


def test_a_reader_that_wants_no_events_is_not_stopped_by_a_barrier(pool):
    with fb.ResultPartition(pool, 1) as partition:
        with fb.RecordWriter(partition, fb.Types.INT()) as writer:
            writer.emit(1)
            writer.write_event(CheckpointBarrier(3, 4))
            writer.emit(2)
        with fb.InputGate([(partition, 0)]) as gate:
            assert list(fb.RecordReader(gate, fb.Types.INT())) == [1, 2]


class Hello(fb.events.UserEvent):
    class_name = "org.example.Hello"

    def __init__(self, text):
        self.text = text

    def payload(self):
        return self.text.encode()

    @classmethod
    def from_payload(cls, data):
        return cls(data.decode())


def test_events_of_the_users_classes_need_a_registry_that_names_them(pool):
    def written():
        with fb.ResultPartition(pool, 1) as partition:
            with fb.RecordWriter(partition, fb.Types.INT()) as writer:
                writer.write_event(Hello("world"))
        return fb.InputGate([(partition, 0)])

    with written() as gate:
        hello, *ends = fb.RecordReader(gate, fb.Types.INT(), events=fb.events.EventRegistry(Hello))
        assert hello.text == "world" and ends == [fb.events.EndOfData(), fb.events.EndOfPartition()]
    with written() as gate, pytest.raises(fb.errors.CorruptDataError, match="give an EventRegistry"):
        list(fb.RecordReader(gate, fb.Types.INT(), events=True))
    with written() as gate:
        assert list(fb.RecordReader(gate, fb.Types.INT())) == []
    with pytest.raises(TypeError, match="events must be True, False or an EventRegistry"):
        fb.RecordReader(gate, fb.Types.INT(), events=Hello)


def test_records_of_many_channels_are_joined_each_on_its_own(pool):
    """Every record spans buffers, and the channels' buffers alternate."""
    with fb.NetworkBufferPool(300, segment_size=32) as small:
        with fb.ResultPartition(small, 3, type="PIPELINED") as partition:
            with fb.RecordWriter(partition, fb.Types.STRING()) as writer:
                for i in range(30):
                    writer.emit_to(chr(97 + i % 3) * (20 + i), i % 3)
            with fb.InputGate([(partition, c) for c in range(3)]) as gate:
                records = list(fb.RecordReader(gate, fb.Types.STRING()))
        for c in range(3):
            mine = [r for r in records if r[0] == chr(97 + c)]
            assert mine == [chr(97 + c) * (20 + i) for i in range(c, 30, 3)]
        assert len(records) == 30


def test_a_channel_that_ends_inside_a_record_is_an_error_that_names_it(pool):
    with fb.ResultPartition(pool, 2) as partition:
        partition.emit(struct.pack(">ih", 2, 5), 1)
        partition.emit(struct.pack(">ib", 2, 5), 1)  # one byte short
        partition.finish()
        with fb.InputGate([(partition, 0), (partition, 1)]) as gate, fb.RecordReader(gate, fb.Types.SHORT()) as reader:
            assert next(reader) == 5
            with pytest.raises(
                fb.errors.CorruptDataError, match="record 1 at byte 6 of channel 1: the stream ends inside it"
            ) as failure:
                next(reader)
            assert failure.value.channel_index == 1


def test_a_corrupt_length_is_an_error_that_names_channel_record_and_offset(pool):
    with fb.ResultPartition(pool, 1) as partition:
        partition.emit(struct.pack(">ih", 2, 5) + struct.pack(">i", -5), 0)
        partition.finish()
        with fb.InputGate([(partition, 0)]) as gate, fb.RecordReader(gate, fb.Types.SHORT()) as reader:
            assert next(reader) == 5
            with pytest.raises(fb.errors.CorruptDataError, match="record 1 at byte 6 of channel 0"):
                next(reader)


def test_a_record_of_another_type_is_an_error_that_names_channel_and_record(pool):
    with fb.ResultPartition(pool, 1) as partition:
        with fb.RecordWriter(partition, fb.Types.LONG()) as writer:
            writer.emit(5)
        with fb.InputGate([(partition, 0)]) as gate, fb.RecordReader(gate, fb.Types.SHORT()) as reader:
            with pytest.raises(
                fb.errors.CorruptDataError, match="channel 0, record 0: 8 bytes long.*used only 2"
            ) as failure:
                next(reader)
            assert failure.value.channel_index == 0


def test_other_threads_run_while_a_reader_waits(pool):
    with fb.ResultPartition(pool, 1) as partition:
        with fb.InputGate([(partition, 0)]) as gate:
            received = []
            thread = threading.Thread(target=lambda: received.extend(fb.RecordReader(gate, fb.Types.INT())))
            thread.start()
            time.sleep(0.05)
            ticks = sum(1 for _ in range(100_000))  # would never be reached if the reader held the GIL
            with fb.RecordWriter(partition, fb.Types.INT()) as writer:
                writer.emit(ticks)
            thread.join(30)
            assert received == [100_000]


def test_an_abandoned_reader_gives_its_segments_back(pool):
    with fb.ResultPartition(pool, 1) as partition:
        with fb.RecordWriter(partition, fb.Types.INT()) as writer:
            writer.emit_all(range(3000))
        gate = fb.InputGate([(partition, 0)])
        reader = fb.RecordReader(gate, fb.Types.INT())
        assert next(reader) == 0
        del reader
        gate.close()
        with pytest.raises(RuntimeError, match="closed"):
            gate.poll()


class Closer:
    """Unpickling it acts on what reads it."""

    act = None

    def __reduce__(self):
        return (_act, ())


def _act():
    Closer.act()
    return "unpickled"


PICKLED = fb.Types.PICKLED_BYTE_ARRAY()


def test_unpickled_code_cannot_use_the_reader_that_reads_it(pool):
    type = fb.Types.TUPLE([PICKLED, fb.Types.STRING()])
    with fb.ResultPartition(pool, 1) as partition:
        with fb.RecordWriter(partition, type) as writer:
            writer.emit_all([(Closer(), "after"), (1, "next")])
        gate = fb.InputGate([(partition, 0)])
        reader = fb.RecordReader(gate, type)
        for act in (reader.close, lambda: next(reader)):
            refused = []

            def try_it(act=act, refused=refused):
                try:
                    act()
                except RuntimeError as error:
                    refused.append(str(error))
                gate.close()  # what the reader has in hand stays readable

            Closer.act = staticmethod(try_it)
            assert next(iter(reader)) == ("unpickled", "after") if not gate.is_closed else True
            if refused:
                assert "reading" in refused[0]
        reader.close()


def test_unpickled_code_cannot_read_on_in_the_buffers_it_comes_from():
    buffers = [b for _, b in fb.write_buffers([Closer(), 5], PICKLED, 1)]
    reader = fb.read_buffers(buffers, PICKLED)
    Closer.act = staticmethod(lambda: next(reader))
    with pytest.raises((RuntimeError, fb.errors.CorruptDataError), match="conversion"):
        next(reader)
    assert next(reader) == 5


def test_a_column_that_an_error_interrupts_is_not_lost(pool):
    with fb.ResultPartition(pool, 1) as partition:
        with fb.RecordWriter(partition, fb.Types.INT()) as writer:
            writer.emit_all(range(100))
            writer.write_event(CancelCheckpointMarker(7))
            writer.emit_all(range(100, 200))
        with fb.InputGate([(partition, 0)]) as gate:
            reader = fb.RecordReader(gate, fb.Types.INT(), events=True)
            with pytest.raises(TypeError, match="event"):
                reader.read_batch(150)
            assert next(reader) == 0
            assert reader.read_batch(49).tolist() == list(range(1, 50))
            assert reader.read_batch(50).tolist() == list(range(50, 100))
            assert next(reader) == CancelCheckpointMarker(7)
            assert reader.read_batch(100).tolist() == list(range(100, 200))


def test_the_reader_says_which_channel_a_barrier_came_from(pool):
    with fb.ResultPartition(pool, 2) as partition:
        with fb.RecordWriter(partition, fb.Types.INT()) as writer:
            writer.write_event(CheckpointBarrier(3, 4))
            writer.broadcast(2)
        with fb.InputGate([(partition, 0), (partition, 1)]) as gate:
            reader = fb.RecordReader(gate, fb.Types.INT(), events=True)
            seen = set()
            for item in reader:
                if isinstance(item, CheckpointBarrier):
                    seen.add(reader.channel_index)
                    gate.resume_consumption(reader.channel_index)
            assert seen == {0, 1}


def test_a_view_in_a_garbage_cycle_with_its_partition_is_let_go(pool):
    partition = fb.ResultPartition(pool, 1)
    partition.emit(b"\0\0\0\0", 0)
    partition.view = partition.create_view(0)
    view = partition.view  # it keeps the partition, which keeps it
    del partition
    gc.collect(0)
    del view
    gc.collect()


def test_a_gate_reads_partitions_only():
    for wrong in (None, "partition", object()):
        with pytest.raises(TypeError, match="channel 0 needs a ResultPartition"):
            fb.InputGate([(wrong, 0)])
