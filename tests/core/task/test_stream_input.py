"""The loop that feeds a chain from a gate. Flink: StreamTaskNetworkInputTest."""

import time

import pytest
from support.worlds.stream_tasks import ListSink

import flinkbuf as fb
from flinkbuf._core.ground.wakeup import TaskBell
from flinkbuf._core.operators.stream_operator import NO_TIMESTAMP, StreamOperator
from flinkbuf._core.task.operator_chain import ChainingOutput, OperatorCounters
from flinkbuf._core.task.record_writer_output import TaskOutputs
from flinkbuf._core.task.stream_input import NetworkInput, TaskSourceOutput, TaskTurn
from flinkbuf._core.task.task_mailbox import Mail, TaskMailbox
from flinkbuf.network.events import AlignmentType, CheckpointBarrier, EndOfData, StopMode
from flinkbuf.streaming.sources.input_status import InputStatus
from flinkbuf.streaming.task.input_processor import NetworkInputEvents
from flinkbuf.streaming.time.valve import StatusWatermarkValve

TYPE = fb.Types.STREAM_ELEMENT(fb.Types.LONG())


class RecordingBarriers:
    """Takes no checkpoints: lets records behind a barrier come at once."""

    def __init__(self):
        self.calls = []

    def process_barrier(self, barrier, gate, channel):
        self.calls.append((barrier.checkpoint_id, channel))
        if barrier.alignment is AlignmentType.ALIGNED:  # the others block nothing
            gate.resume_consumption(channel)

    def process_end_of_partition(self, gate, channel):
        self.calls.append(("end", channel))


class Bench:
    """An input over `channel_count` partitions, a writer for each, and a sink behind it."""

    def __init__(self, channel_count=1, target=None, turn_ns=60 * 10**9):
        pool = fb.NetworkBufferPool(64, segment_size=4096)
        self.partitions = [fb.ResultPartition(pool, 1) for _ in range(channel_count)]
        self.writers = [fb.RecordWriter(partition, TYPE, "forward", -1) for partition in self.partitions]
        self.gate = fb.InputGate([(partition, 0) for partition in self.partitions])
        self.taken = []
        self.mailbox = TaskMailbox(TaskBell())
        self.counters, self.task_counters = OperatorCounters(), OperatorCounters()
        self.barriers = RecordingBarriers()
        self.input = NetworkInput(
            fb.RecordReader(self.gate, TYPE, events=True),
            target or ListSink(self.taken),
            TaskTurn(self.mailbox, TaskOutputs([]), turn_ns),
            self.counters,
            self.task_counters,
            StatusWatermarkValve,
            NetworkInputEvents(self.gate, self.barriers),
        )

    def flush(self):
        for writer in self.writers:
            writer.flush()

    def drain(self):
        """Statuses of all turns until nothing is there or the input has ended."""
        self.flush()
        statuses = [InputStatus(self.input.emit_next())]
        while statuses[-1] not in (InputStatus.NOTHING_AVAILABLE, InputStatus.END_OF_INPUT):
            statuses.append(InputStatus(self.input.emit_next()))
        return statuses


def test_records_come_with_their_timestamps_and_are_counted():
    bench = Bench()
    bench.writers[0].emit(1)
    bench.writers[0].emit(2, 7)
    assert bench.drain() == [InputStatus.NOTHING_AVAILABLE]
    assert bench.taken == [1, fb.types.StreamRecord(2, 7)]
    assert (bench.counters.records_in, bench.task_counters.records_in) == (2, 2)


def test_watermarks_and_statuses_go_through_the_valve():
    bench = Bench(2)
    bench.writers[0].emit(fb.types.Watermark(5))
    assert bench.drain() == [InputStatus.NOTHING_AVAILABLE]
    assert bench.taken == []
    bench.writers[1].emit(fb.types.Watermark(3))
    bench.drain()
    bench.writers[1].emit(fb.types.WatermarkStatus.IDLE)
    bench.drain()
    assert bench.taken == [fb.types.Watermark(3), fb.types.Watermark(5)]
    assert bench.counters.input_watermark == 5
    bench.writers[0].emit(fb.types.WatermarkStatus.IDLE)
    bench.drain()
    assert bench.taken[2:] == ["idle"]


def test_a_latency_marker_comes_past_the_valve():
    bench, marker = Bench(), fb.types.LatencyMarker(5, bytes(16), 1)
    bench.writers[0].emit(marker)
    bench.drain()
    assert bench.taken == [marker]


def test_attributes_of_records_are_passed_over():
    bench = Bench()
    bench.writers[0].emit(fb.types.RecordAttributes(True))
    bench.writers[0].emit(1)
    bench.drain()
    assert bench.taken == [1]


def test_a_turn_ends_after_the_record_during_which_mail_came():
    class Mailing(StreamOperator):
        def process_element(self, value, timestamp):
            bench.taken.append(value)
            if value == 3:
                bench.mailbox.put(Mail(lambda: None))

    bench = Bench(target=Mailing())
    bench.writers[0].emit_all(range(10))
    bench.flush()
    assert bench.input.emit_next() == InputStatus.MORE_AVAILABLE
    assert bench.taken == [0, 1, 2, 3]
    assert bench.input.emit_next() == InputStatus.MORE_AVAILABLE
    assert bench.taken == [0, 1, 2, 3, 4]
    bench.mailbox.drain()
    assert bench.input.emit_next() == InputStatus.NOTHING_AVAILABLE
    assert bench.taken == list(range(10))


def test_a_turn_ends_when_its_time_is_over():
    class Slow(StreamOperator):
        def process_element(self, value, timestamp):
            bench.taken.append(value)
            for _ in range(20_000):
                pass

    bench = Bench(target=Slow(), turn_ns=1_000_000)
    bench.writers[0].emit_all(range(100))
    bench.flush()
    assert bench.input.emit_next() == InputStatus.MORE_AVAILABLE
    assert 1 <= len(bench.taken) < 100


def test_a_turn_is_a_millisecond_unless_it_is_told_otherwise():
    assert TaskTurn(TaskMailbox(TaskBell()), TaskOutputs([])).length_ns == 1_000_000


def test_a_turn_ends_when_an_output_is_full():
    pool = fb.NetworkBufferPool(8, segment_size=4096)
    end = fb.RecordWriter(fb.ResultPartition(pool, 1), TYPE, "forward", -1)

    class Forward(StreamOperator):
        def process_element(self, value, timestamp):
            end.emit(value)
            bench.taken.append(value)

    bench = Bench(target=Forward())
    bench.input = NetworkInput(
        fb.RecordReader(bench.gate, TYPE, events=True), Forward(), TaskTurn(bench.mailbox, TaskOutputs([end])),
        bench.counters, bench.task_counters, StatusWatermarkValve, NetworkInputEvents(bench.gate, bench.barriers),
    )  # fmt: skip
    while end.is_available:
        end.emit(0)
    bench.writers[0].emit_all(range(3))
    bench.flush()
    assert bench.input.emit_next() == InputStatus.MORE_AVAILABLE
    assert bench.taken == [0]


def test_data_ends_with_that_of_the_last_channel_and_the_input_with_its_partition():
    bench = Bench(2)
    bench.writers[0].emit(1)
    bench.writers[0].close()
    assert bench.drain() == [InputStatus.MORE_AVAILABLE, InputStatus.MORE_AVAILABLE, InputStatus.NOTHING_AVAILABLE]
    assert bench.partitions[0].is_all_data_processed
    bench.writers[1].close()
    statuses = bench.drain()
    assert statuses[0] == InputStatus.END_OF_DATA and statuses[-1] == InputStatus.END_OF_INPUT
    assert InputStatus(bench.input.emit_next()) == InputStatus.END_OF_INPUT
    assert bench.barriers.calls == [("end", 0), ("end", 1)]


@pytest.mark.parametrize(
    ("modes", "status"),
    [
        ([StopMode.DRAIN, StopMode.DRAIN], InputStatus.END_OF_DATA),
        ([StopMode.NO_DRAIN, StopMode.DRAIN], InputStatus.STOPPED),
        ([StopMode.DRAIN, StopMode.NO_DRAIN], InputStatus.STOPPED),
    ],
)
def test_an_input_is_stopped_if_any_channel_ended_without_a_drain(modes, status):
    bench = Bench(2)
    for writer, mode in zip(bench.writers, modes, strict=True):
        writer.write_event(EndOfData(mode))
    assert status in bench.drain()


def test_a_barrier_goes_to_the_handler_and_ends_the_turn():
    bench = Bench()
    bench.writers[0].emit(1)
    bench.writers[0].write_event(CheckpointBarrier(7, 0))
    bench.writers[0].emit(2)
    bench.flush()
    assert bench.input.emit_next() == InputStatus.MORE_AVAILABLE
    assert (bench.taken, bench.barriers.calls) == ([1], [(7, 0)])
    bench.drain()
    assert bench.taken == [1, 2]


def test_an_error_of_the_operator_comes_through():
    class Failing(StreamOperator):
        def process_element(self, value, timestamp):
            raise LookupError(value)

    bench = Bench(target=Failing())
    bench.writers[0].emit(1)
    bench.flush()
    with pytest.raises(LookupError):
        bench.input.emit_next()


def test_a_source_that_waits_for_its_records_comes_back_after_each():
    chained = ChainingOutput(OperatorCounters(), ListSink([]), OperatorCounters())
    output = TaskSourceOutput(chained, TaskTurn(TaskMailbox(TaskBell()), TaskOutputs([])))
    time.sleep(0.05)
    assert output.must_yield()
    assert not output.must_yield()  # timers were looked at


def test_a_source_is_told_when_to_return():
    mailbox, taken = TaskMailbox(TaskBell()), []
    chained = ChainingOutput(OperatorCounters(), ListSink(taken), OperatorCounters())
    output = TaskSourceOutput(chained, TaskTurn(mailbox, TaskOutputs([])))
    assert not output.must_yield()
    output.collect(1, NO_TIMESTAMP)
    output.emit_watermark(5)
    output.emit_watermark_status(True)
    mailbox.put(Mail(lambda: None))
    assert output.must_yield()
    assert taken == [1, fb.types.Watermark(5), "idle"]


def test_a_barrier_that_overtakes_is_heard_without_reading_a_record():
    bench = Bench()
    bench.gate.request_partitions()
    bench.writers[0].emit(1)
    bench.writers[0].write_event(CheckpointBarrier(7, 0, alignment=AlignmentType.UNALIGNED), is_priority=True)
    bench.flush()
    assert bench.input.process_priority()
    assert (bench.taken, bench.barriers.calls) == ([], [(7, 0)])
    assert not bench.input.process_priority()
    bench.drain()
    assert bench.taken == [1]
