"""From an input gate back to records."""

import struct
import threading
import time

import pytest

import flinkbuf as fb
from flinkbuf.events import CancelCheckpointMarker, CheckpointBarrier, EndOfData, EndOfPartition


@pytest.fixture
def pool():
    with fb.NetworkBufferPool(64, segment_size=4096) as pool:
        yield pool
        assert pool.available_segment_count == 64, "a segment did not come home"


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


def test_an_aligned_barrier_blocks_its_channel_until_it_is_resumed(pool):
    with fb.ResultPartition(pool, 1) as partition:
        with fb.RecordWriter(partition, fb.Types.INT()) as writer:
            writer.emit(1)
            writer.write_event(CheckpointBarrier(3, 4))
            writer.emit(2)
        with fb.InputGate([(partition, 0)]) as gate:
            reader = fb.RecordReader(gate, fb.Types.INT(), events=True)
            assert next(reader) == 1
            assert next(reader).checkpoint_id == 3
            assert gate.poll(50) is None
            gate.resume_consumption(0)
            assert next(reader) == 2


def test_a_reader_that_wants_no_events_is_not_stopped_by_a_barrier(pool):
    with fb.ResultPartition(pool, 1) as partition:
        with fb.RecordWriter(partition, fb.Types.INT()) as writer:
            writer.emit(1)
            writer.write_event(CheckpointBarrier(3, 4))
            writer.emit(2)
        with fb.InputGate([(partition, 0)]) as gate:
            assert list(fb.RecordReader(gate, fb.Types.INT())) == [1, 2]


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
            with pytest.raises(fb.CorruptDataError, match="record 1 at byte 6 of channel 1: the stream ends inside it"):
                next(reader)


def test_a_corrupt_length_is_an_error_that_names_channel_record_and_offset(pool):
    with fb.ResultPartition(pool, 1) as partition:
        partition.emit(struct.pack(">ih", 2, 5) + struct.pack(">i", -5), 0)
        partition.finish()
        with fb.InputGate([(partition, 0)]) as gate, fb.RecordReader(gate, fb.Types.SHORT()) as reader:
            assert next(reader) == 5
            with pytest.raises(fb.CorruptDataError, match="record 1 at byte 6 of channel 0"):
                next(reader)


def test_a_record_of_another_type_is_an_error_that_names_channel_and_record(pool):
    with fb.ResultPartition(pool, 1) as partition:
        with fb.RecordWriter(partition, fb.Types.LONG()) as writer:
            writer.emit(5)
        with fb.InputGate([(partition, 0)]) as gate, fb.RecordReader(gate, fb.Types.SHORT()) as reader:
            with pytest.raises(fb.CorruptDataError, match="channel 0, record 0: 8 bytes long.*used only 2"):
                next(reader)


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
