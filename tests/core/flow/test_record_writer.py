"""From records to a result partition."""

import os
import threading
import time
from itertools import chain

import numpy as np
import pytest

import flinkbuf as fb
from flinkbuf._core.partition.output_flusher import flushed_partition_count


def read_all(partition, type, channels=None):
    channels = range(partition.subpartition_count) if channels is None else channels
    with fb.InputGate([(partition, c) for c in channels]) as gate, fb.RecordReader(gate, type) as reader:
        return list(reader)


def test_records_come_back_as_they_were_written(pool):
    records = [(i, f"name-{i}", i / 8) for i in range(1000)]
    type = fb.Types.TUPLE([fb.Types.LONG(), fb.Types.STRING(), fb.Types.DOUBLE()])
    with fb.ResultPartition(pool, 1, type="PIPELINED") as partition:
        with fb.RecordWriter(partition, type) as writer:
            assert writer.emit_all(records) == 1000
            assert writer.record_count == 1000
        assert read_all(partition, type) == records


@pytest.mark.parametrize("segment_size", [16, 17, 64])
def test_records_are_cut_over_small_segments(segment_size):
    records = ["", "a", "b" * 9, "c" * 200, "d" * 1000, "e"]
    with fb.NetworkBufferPool(256, segment_size=segment_size) as pool:
        with fb.ResultPartition(pool, 1, type="PIPELINED") as partition:
            with fb.RecordWriter(partition, fb.Types.STRING()) as writer:
                for record in records:
                    writer.emit(record)
            assert read_all(partition, fb.Types.STRING()) == records
        assert pool.available_segment_count == 256


def test_emit_to_and_broadcast_keep_the_order_within_each_channel(pool):
    with fb.ResultPartition(pool, 3) as partition:
        with fb.RecordWriter(partition, fb.Types.INT(), "global") as writer:
            writer.emit(1)
            writer.broadcast(2)
            writer.emit_to(3, 2)
            writer.broadcast(4)
            writer.emit(5)
        assert read_all(partition, fb.Types.INT(), [0]) == [1, 2, 4, 5]
        assert read_all(partition, fb.Types.INT(), [1]) == [2, 4]
        assert read_all(partition, fb.Types.INT(), [2]) == [2, 3, 4]


def test_the_broadcast_partitioner_reaches_all_channels(pool):
    with fb.ResultPartition(pool, 4) as partition:
        with fb.RecordWriter(partition, fb.Types.INT(), "broadcast") as writer:
            writer.emit_all(range(50))
        for channel in range(4):
            assert read_all(partition, fb.Types.INT(), [channel]) == list(range(50))


def test_a_record_that_cannot_be_encoded_leaves_no_trace_and_the_writer_goes_on(pool):
    with fb.ResultPartition(pool, 1) as partition:
        with fb.RecordWriter(partition, "a int, b string") as writer:
            writer.emit((1, "x"))
            cases = [((1, 2), TypeError), ((2**40, "y"), OverflowError), ((1,), ValueError)]
            for number, (bad, error) in enumerate(cases, start=1):
                with pytest.raises(error, match=f"record {number}"):
                    writer.emit(bad)
            writer.emit((2, "z"))
            assert writer.record_count == 2
        assert read_all(partition, "a int, b string") == [(1, "x"), (2, "z")]


def test_emit_all_stops_at_a_bad_record_and_keeps_what_came_before(pool):
    with fb.ResultPartition(pool, 1) as partition:
        with fb.RecordWriter(partition, fb.Types.INT()) as writer:
            with pytest.raises(TypeError, match="record 2"):
                writer.emit_all([1, 2, "three", 4])
            assert writer.record_count == 2
        assert read_all(partition, fb.Types.INT()) == [1, 2]


def test_an_error_of_the_iterable_comes_through_unchanged(pool):
    def source():
        yield 1
        raise KeyError("mine")

    with fb.ResultPartition(pool, 1) as partition, pytest.raises(KeyError, match="mine"):
        with fb.RecordWriter(partition, fb.Types.INT()) as writer:
            writer.emit_all(source())


def test_a_block_that_raises_fails_the_partition_and_the_reader_is_told(pool):
    with fb.ResultPartition(pool, 1) as partition:
        with fb.InputGate([(partition, 0)]) as gate:
            with pytest.raises(ZeroDivisionError):
                with fb.RecordWriter(partition, fb.Types.INT()) as writer:
                    writer.emit(1)
                    raise ZeroDivisionError("by hand")
            with pytest.raises(fb.errors.CancelTaskError, match="channel 0.*ZeroDivisionError: by hand"):
                list(fb.RecordReader(gate, fb.Types.INT()))


def test_nothing_can_be_written_after_close(pool):
    with fb.ResultPartition(pool, 1) as partition:
        writer = fb.RecordWriter(partition, fb.Types.INT())
        writer.close()
        writer.close()
        with pytest.raises(RuntimeError, match="closed"):
            writer.emit(1)
        assert read_all(partition, fb.Types.INT()) == []


def test_emit_waits_for_the_reader_without_the_gil():
    """A pool of two segments and a stream of many: the writer blocks, and only this other thread can free it."""
    with fb.NetworkBufferPool(2, segment_size=64) as pool:
        with fb.ResultPartition(pool, 1, type="PIPELINED") as partition:
            received = []

            def consume():
                with fb.InputGate([(partition, 0)]) as gate:
                    received.extend(fb.RecordReader(gate, fb.Types.LONG()))

            thread = threading.Thread(target=consume)
            with fb.RecordWriter(partition, fb.Types.LONG()) as writer:
                writer.emit(0)
                thread.start()
                writer.emit_all(range(1, 5000))
            thread.join(30)
            assert received == list(range(5000))


def test_other_threads_run_while_a_writer_waits_for_a_buffer():
    with fb.NetworkBufferPool(2, segment_size=32) as pool:
        with fb.ResultPartition(pool, 1, type="PIPELINED", max_overdraft=0) as partition:
            writer = fb.RecordWriter(partition, fb.Types.LONG(), buffer_timeout_ms=-1)
            failure = []

            def produce():
                try:
                    writer.emit_all(range(1000))
                except fb.errors.CancelTaskError as error:
                    failure.append(error)

            thread = threading.Thread(target=produce)
            thread.start()
            time.sleep(0.1)
            assert thread.is_alive()  # blocked for good: nobody reads
            ticks = sum(1 for _ in range(100_000))
            assert ticks == 100_000
            pool.destroy_all_buffer_pools()
            thread.join(10)
            assert not thread.is_alive()
            assert len(failure) == 1


def test_a_value_can_not_use_the_writer_that_encodes_it(pool):
    with fb.ResultPartition(pool, 1) as partition:
        writer = fb.RecordWriter(partition, fb.Types.INT())

        class Sneaky:
            def __index__(self):
                writer.emit(1)
                return 1

        with pytest.raises(RuntimeError, match="being written to"):
            writer.emit(Sneaky())
        writer.emit(7)
        writer.close()
        assert read_all(partition, fb.Types.INT()) == [7]


@pytest.mark.parametrize("timeout_ms", [0, 20])
def test_a_written_record_becomes_readable_without_a_flush(pool, timeout_ms):
    with fb.ResultPartition(pool, 2) as partition:
        writer = fb.RecordWriter(partition, fb.Types.INT(), "global", buffer_timeout_ms=timeout_ms)
        with fb.InputGate([(partition, 0), (partition, 1)]) as gate:
            reader = iter(fb.RecordReader(gate, fb.Types.INT()))
            for i in range(5):
                writer.emit(i)
                assert next(reader) == i
            writer.broadcast(9)
            assert [next(reader), next(reader)] == [9, 9]
            writer.close()
            assert list(reader) == []


def test_without_a_timeout_a_record_waits_for_flush(pool):
    with fb.ResultPartition(pool, 1) as partition:
        writer = fb.RecordWriter(partition, fb.Types.INT(), buffer_timeout_ms=-1)
        with fb.InputGate([(partition, 0)]) as gate:
            assert gate.poll() is None
            writer.emit(1)
            assert gate.poll(150) is None
            writer.flush()
            channel, buffer = gate.poll(10_000)
            assert (channel, bytes(buffer)) == (0, b"\0\0\0\4\0\0\0\1")
            buffer.release()
            writer.close()


@pytest.mark.parametrize("timeout_ms", [-2, -100])
def test_a_timeout_below_minus_one_is_refused(pool, timeout_ms):
    with fb.ResultPartition(pool, 1) as partition:
        with pytest.raises(ValueError, match="buffer_timeout_ms"):
            fb.RecordWriter(partition, fb.Types.INT(), buffer_timeout_ms=timeout_ms)


@pytest.mark.parametrize(
    "type, dtype",
    [
        (fb.Types.LONG(), "i8"),
        (fb.Types.INT(), "i4"),
        (fb.Types.SHORT(), "i2"),
        (fb.Types.BYTE(), "i1"),
        (fb.Types.DOUBLE(), "f8"),
        (fb.Types.FLOAT(), "f4"),
    ],
    ids=repr,
)
def test_a_column_is_the_same_bytes_as_its_values_one_by_one(pool, type, dtype):
    column = np.arange(-600, 600).astype(dtype)
    written = []
    for emit in (lambda w: w.emit_batch(column), lambda w: w.emit_all(column.tolist())):
        with fb.ResultPartition(pool, 1) as partition:
            with fb.RecordWriter(partition, type) as writer:
                assert emit(writer) == 1200
            with fb.InputGate([(partition, 0)]) as gate:
                data = b""
                while (item := gate.poll(None)) is not None:
                    with item[1] as buffer:
                        data += bytes(buffer) if buffer.data_type == fb.network.DataType.DATA_BUFFER else b""
            written.append(data)
    assert written[0] == written[1]


def test_a_column_comes_back_as_a_column(pool):
    column = np.arange(20_000, dtype=np.int64) * -3
    with fb.ResultPartition(pool, 1, type="PIPELINED") as partition:
        with fb.RecordWriter(partition, fb.Types.LONG()) as writer:
            writer.emit_batch(column)
        with fb.InputGate([(partition, 0)]) as gate, fb.RecordReader(gate, fb.Types.LONG()) as reader:
            assert np.array_equal(reader.read_batch(7), column[:7])
            assert next(reader) == column[7]
            assert np.array_equal(reader.read_batch(30_000), column[8:])
            assert len(reader.read_batch(1)) == 0


def test_a_column_goes_where_its_values_would_go_one_by_one(pool):
    column = np.arange(-500, 500, dtype=np.int64)
    routed = []
    for batch in (True, False):
        with fb.ResultPartition(pool, 3) as partition:
            with fb.RecordWriter(
                partition, fb.Types.LONG(), fb.by_key(lambda v: v, key_type=fb.Types.LONG())
            ) as writer:
                writer.emit_batch(column) if batch else writer.emit_all(column.tolist())
            routed.append([read_all(partition, fb.Types.LONG(), [c]) for c in range(3)])
    assert routed[0] == routed[1]
    assert sorted(chain.from_iterable(routed[0])) == column.tolist()


def test_a_column_to_stated_channels(pool):
    with fb.ResultPartition(pool, 3) as partition:
        with fb.RecordWriter(partition, fb.Types.INT()) as writer:
            writer.emit_batch(np.arange(6, dtype=np.int32), channels=[0, 1, 2, 2, 1, 0])
            with pytest.raises(IndexError, match="channel 3 of 3"):
                writer.emit_batch(np.arange(1, dtype=np.int32), channels=[3])
        assert [read_all(partition, fb.Types.INT(), [c]) for c in range(3)] == [[0, 5], [1, 4], [2, 3]]


def test_a_column_that_waits_for_a_buffer_keeps_nothing_from_other_channels():
    """Its first value is in channel 1; for the rest there are buffers only when somebody reads channel 0."""
    with fb.NetworkBufferPool(3, segment_size=64) as pool:
        with fb.ResultPartition(pool, 2, type="PIPELINED", max_overdraft=0) as partition:
            channels = np.zeros(1000, dtype=np.uint32)
            channels[0] = 1

            def produce():
                with fb.RecordWriter(partition, fb.Types.LONG(), buffer_timeout_ms=1) as writer:
                    writer.emit_batch(np.arange(1000), channels=channels)

            thread = threading.Thread(target=produce)
            thread.start()
            with fb.InputGate([(partition, 1)]) as gate, fb.RecordReader(gate, fb.Types.LONG()) as reader:
                item = gate.poll(10_000)
                assert item is not None, "the value came with the end of the column, or not at all"
                item[1].release()
                assert thread.is_alive()  # it waits until channel 0 is read
                assert read_all(partition, fb.Types.LONG(), [0]) == list(range(1, 1000))
                assert list(reader) == []
            thread.join(10)


@pytest.mark.parametrize("values", [np.array([0.5]), np.array(["a"]), np.array([2**63], dtype=np.uint64)])
def test_a_column_that_does_not_fit_the_type_is_refused(pool, values):
    with fb.ResultPartition(pool, 1) as partition:
        with fb.RecordWriter(partition, fb.Types.LONG()) as writer:
            with pytest.raises(TypeError):
                writer.emit_batch(values)
        assert read_all(partition, fb.Types.LONG()) == []


@pytest.mark.parametrize(
    "values, message",
    [
        (np.ma.array([1, 2, 3], mask=[False, True, False]), "masked values: .*no null"),
        (5, "one-dimensional array, got 0 dimensions"),
        (np.zeros((2, 2), np.int64), "one-dimensional array, got 2 dimensions"),
        ([True, False], "values of bool do not all fit"),
    ],
    ids=["masked", "scalar", "matrix", "bools"],
)
def test_a_column_that_is_none_is_refused(pool, values, message):
    with fb.ResultPartition(pool, 1) as partition:
        with fb.RecordWriter(partition, fb.Types.LONG()) as writer:
            with pytest.raises(TypeError, match=message):
                writer.emit_batch(values)
        assert read_all(partition, fb.Types.LONG()) == []


@pytest.mark.parametrize("channels", [None, []])
def test_a_column_of_nothing_writes_nothing(pool, channels):
    with fb.ResultPartition(pool, 2) as partition:
        with fb.RecordWriter(partition, fb.Types.LONG()) as writer:
            assert writer.emit_batch([], channels) == 0
            assert writer.emit_batch(np.ma.array([1, 2], mask=False), [0, 0]) == 2
        assert read_all(partition, fb.Types.LONG(), [0]) == [1, 2]


def test_a_huge_record_does_not_keep_its_scratch(pool):
    with fb.NetworkBufferPool(600, segment_size=32768) as large:
        with fb.ResultPartition(large, 1, type="PIPELINED") as partition:
            with fb.RecordWriter(partition, fb.Types.STRING()) as writer:
                writer.emit("x" * (8 << 20))
                writer.emit("small")
            first, second = read_all(partition, fb.Types.STRING())
            assert len(first) == 8 << 20 and second == "small"


def test_conversion_code_cannot_close_or_write_to_the_partition_under_the_writer(pool):
    with fb.ResultPartition(pool, 1) as partition:
        writer = fb.RecordWriter(partition, fb.Types.INT())
        for act in (partition.close, partition.finish, lambda: partition.emit(b"\0\0\0\0", 0), writer.close):

            class Sneaky:
                def __index__(self, act=act):
                    act()
                    return 1

            with pytest.raises(RuntimeError, match="being written to"):
                writer.emit(Sneaky())
        writer.emit(7)
        writer.close()
        assert read_all(partition, fb.Types.INT()) == [7]


def test_a_second_thread_is_refused_while_one_writes():
    """The first waits for a buffer, with the partition claimed."""
    with fb.NetworkBufferPool(2, segment_size=32) as pool:
        with fb.ResultPartition(pool, 1, type="PIPELINED", max_overdraft=0) as partition:
            writer, other = (fb.RecordWriter(partition, fb.Types.LONG(), buffer_timeout_ms=-1) for _ in range(2))

            def produce():
                with pytest.raises(fb.errors.CancelTaskError):
                    writer.emit_all(range(1000))

            thread = threading.Thread(target=produce)
            thread.start()
            while partition.is_available:
                time.sleep(0.001)
            for write in (lambda: other.emit(1), lambda: writer.emit(1), partition.close):
                with pytest.raises(RuntimeError, match="being written to"):
                    write()
            pool.destroy_all_buffer_pools()
            thread.join(10)
            assert not thread.is_alive()


def test_record_numbers_count_what_was_given_whoever_refuses_it(pool):
    with fb.ResultPartition(pool, 2) as partition:
        with fb.RecordWriter(partition, "a int, s string", fb.by_key("a")) as writer:
            writer.emit((1, "x"))
            for number, bad in enumerate([(2**40, "x"), ("q", "x"), {"a": 5}, (4, 5), (None, "x")], start=1):
                with pytest.raises((TypeError, OverflowError, ValueError), match=f"record {number}"):
                    writer.emit(bad)
            with pytest.raises(TypeError, match="record 8"):
                writer.emit_all([(1, "x"), (2, "y"), (3, 3)])


def test_a_partition_closed_before_its_end_tells_its_readers(pool):
    with fb.ResultPartition(pool, 1) as partition:
        fb.RecordWriter(partition, fb.Types.INT()).emit(1)
    with fb.InputGate([(partition, 0)]) as gate:
        with pytest.raises(fb.errors.CancelTaskError, match="before its end"):
            list(fb.RecordReader(gate, fb.Types.INT()))


def test_an_exception_without_a_text_still_fails_the_partition(pool):
    class Mute(Exception):
        def __str__(self):
            raise RuntimeError("no text")

    for block in ("writer", "partition"):
        with fb.InputGate([(partition := fb.ResultPartition(pool, 1), 0)]) as gate:
            gate.request_partitions()
            with pytest.raises(Mute):
                with fb.RecordWriter(partition, fb.Types.INT()) if block == "writer" else partition:
                    raise Mute
            for _ in range(2):  # told as often as asked
                with pytest.raises(fb.errors.CancelTaskError, match="Mute"):
                    gate.poll(None)
        partition.close()


def test_the_end_of_one_writer_leaves_the_flushing_of_another_alone(pool):
    with fb.ResultPartition(pool, 1) as partition, fb.InputGate([(partition, 0)]) as gate:
        partition.start_flushing(10)
        fb.RecordWriter(partition, fb.Types.INT(), buffer_timeout_ms=-1).stop()
        gate.request_partitions()
        gate.poll()
        partition.emit(b"\0\0\0\4\0\0\0\5", 0)
        assert bytes(gate.poll(10_000)[1])[-1] == 5
        partition.finish()


def test_a_forgotten_partition_is_not_kept_by_the_flusher(pool):
    partition = fb.ResultPartition(pool, 1)
    partition.start_flushing(1000)
    del partition
    assert flushed_partition_count() == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork")
def test_a_writer_of_the_parent_process_is_refused_in_a_forked_child(pool):
    with fb.ResultPartition(pool, 1) as partition:
        writer = fb.RecordWriter(partition, fb.Types.INT())
        if (child := os.fork()) == 0:
            code = 1
            try:
                writer.emit(1)
            except RuntimeError as error:
                code = 0 if "forked" in str(error) else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        writer.close()


@pytest.mark.parametrize(
    "channels, error",
    [
        ([0.7, 1.0], TypeError),
        ([0, 2**32], IndexError),
        ([0, -1], IndexError),
        ([0], ValueError),
        ([[0, 1]], ValueError),
    ],
    ids=repr,
)
def test_channels_that_are_none_are_refused(pool, channels, error):
    with fb.ResultPartition(pool, 2) as partition:
        with fb.RecordWriter(partition, fb.Types.INT()) as writer:
            with pytest.raises(error):
                writer.emit_batch(np.arange(2, dtype=np.int32), channels=channels)
        assert read_all(partition, fb.Types.INT()) == []


@pytest.mark.parametrize("type, dtype", [(fb.Types.DOUBLE(), "u8"), (fb.Types.FLOAT(), "u4")], ids=repr)
def test_a_column_writes_every_nan_as_java_does(pool, type, dtype):
    width = np.dtype(dtype).itemsize
    odd = np.array([0xFFF8000000000123 if width == 8 else 0xFFC00123], dtype).view(f"f{width}")
    with fb.ResultPartition(pool, 1) as partition, fb.InputGate([(partition, 0)]) as gate:
        with fb.RecordWriter(partition, type) as writer:
            writer.emit_batch(odd)
        _, buffer = gate.poll(None)
        assert bytes(buffer)[4:] == type.serialize(float("nan"))
        buffer.release()


def test_a_partitioner_that_changes_the_records_cannot_overrun_the_channels():
    records = [1, 2, 3]

    def choose(record, num_channels):
        records.append(record)
        return 0

    from flinkbuf.records.partitioner import as_partitioner

    assert as_partitioner(choose).selector(fb.Types.INT(), 2).channels_of(records).tolist() == [0, 0, 0]
