"""Tasks between real gates and partitions. Flink: StreamTaskTest, StreamTaskFinalCheckpointsTest."""

import threading

import pytest
from support.worlds.stream_tasks import (
    END,
    SETTINGS,
    InputConfig,
    KeptSnapshots,
    ListSink,
    ListSource,
    MapOperator,
    chain_of,
    edge,
    info,
    make_task,
    operator,
    plain_context,
    run_all,
    source,
)

import flinkbuf as fb
from flinkbuf._core.operators.source_operator import SourceOperatorBase
from flinkbuf._core.operators.stream_operator import NO_TIMESTAMP, MultipleInputOperator, StreamOperator
from flinkbuf.checkpoints.options import CheckpointOptions
from flinkbuf.network.events import CheckpointBarrier, EndOfData, StopMode
from flinkbuf.streaming.chain.operator_config import ChainConfig, ChainedEdge, ExecutionSettings, OperatorConfig
from flinkbuf.streaming.checkpoint.task_snapshot import TaskStateSnapshot
from flinkbuf.streaming.sources.input_status import InputStatus
from flinkbuf.streaming.task.input_selection import InputSelection
from flinkbuf.streaming.task.stream_task import StreamTask
from flinkbuf.streaming.task.task_events import CheckpointAcknowledged, CheckpointDeclined, EndOfDataReached
from flinkbuf.streaming.task.task_state import TaskState
from flinkbuf.streaming.time.combined_watermark import CombinedWatermark
from flinkbuf.testing import ManualClock

LONG = fb.Types.LONG()
INPUT = (InputConfig(LONG, (0,)),)
OPTIONS = CheckpointOptions()


@pytest.fixture
def pool():
    return fb.NetworkBufferPool(128, segment_size=4096)


def connect(pool, producer_count=1, consumer_count=1):
    """Partitions of producers and gates of consumers, all to all."""
    partitions = [fb.ResultPartition(pool, consumer_count) for _ in range(producer_count)]
    gates = [fb.InputGate([(partition, index) for partition in partitions]) for index in range(consumer_count)]
    return partitions, gates


def sink_task(gate, taken, *before, **options):
    operators = (*before, operator("sink", lambda: ListSink(taken)))
    return make_task(chain_of(*operators, inputs=INPUT), [gate], [], name="sink", **options)


def source_task(items, partition, name="source", partitioner="rebalance", end=InputStatus.END_OF_DATA, **options):
    config = operator(
        name, lambda: ListSource(items, end), is_source=True, network_edges=(edge(0, partitioner=partitioner),)
    )
    return make_task(chain_of(config, partition_count=1), [], [partition], name=name, **options)


def stream_task(config, gates=(), partitions=(), clock=None, settings=SETTINGS, **options):
    options = {"make_context": plain_context, "write_snapshot": KeptSnapshots().write, **options}
    return StreamTask(info(), config, gates, partitions, settings, clock or ManualClock(), **options)


# ---- chains between gates and partitions -------------------------------------------------------------------


def test_a_chain_runs_from_its_source_to_its_sink():
    taken = []
    task = make_task(
        chain_of(
            source([1, fb.types.StreamRecord(2, 5), fb.types.Watermark(5)]),
            operator("double", lambda: MapOperator(lambda value: value * 2)),
            operator("sink", lambda: ListSink(taken)),
        )
    )
    task.run()
    assert (task.state, task.error) == (TaskState.FINISHED, None)
    assert taken == [2, fb.types.StreamRecord(4, 5), fb.types.Watermark(5), END]


def test_records_go_through_partitions_and_gates(pool):
    partitions, gates = connect(pool, 2, 2)
    taken = [[], []]
    sources = [source_task(range(start, 5000, 2), partition) for start, partition in enumerate(partitions)]
    sinks = [sink_task(gate, values) for gate, values in zip(gates, taken, strict=True)]
    run_all(*sinks, *sources)
    assert {task.state for task in (*sources, *sinks)} == {TaskState.FINISHED}
    assert sorted(value for values in taken for value in values if value is not END and value != END) == list(
        range(5000)
    )
    assert [values[-1] for values in taken] == [END, END]
    assert [task.metrics.records_out for task in sources] == [2500, 2500]
    assert sum(task.metrics.records_in for task in sinks) == 5000


def test_a_partition_stays_readable_after_its_task_has_ended(pool):
    (partition,), (gate,) = connect(pool)
    taken = []
    first = source_task([1, 2], partition)
    first.run()
    assert first.state is TaskState.FINISHED and not partition.is_released
    second = sink_task(gate, taken)
    second.run()
    assert (second.state, taken) == (TaskState.FINISHED, [1, 2, END])
    assert partition.is_released


def test_side_outputs_go_to_their_own_partition(pool):
    class Splitting(StreamOperator):
        def process_element(self, value, timestamp):
            if value % 2:
                self.output.collect_side("odd", value, timestamp)
            else:
                self.output.collect(value, timestamp)

    main, side = fb.ResultPartition(pool, 1), fb.ResultPartition(pool, 1)
    config = chain_of(
        source(range(6)),
        operator("split", Splitting, network_edges=(edge(0), edge(1, output_tag="odd"))),
        partition_count=2,
    )
    task, evens, odds = make_task(config, [], [main, side]), [], []
    sinks = [sink_task(fb.InputGate([(end, 0)]), taken) for end, taken in ((main, evens), (side, odds))]
    run_all(task, *sinks)
    assert (evens, odds) == ([0, 2, 4, END], [1, 3, 5, END])
    assert task.metrics.records_out == 6


def test_a_union_of_gates_is_one_input(pool):
    partitions = [fb.ResultPartition(pool, 1) for _ in range(2)]
    gates = [fb.InputGate([(partition, 0)]) for partition in partitions]
    taken = []
    config = chain_of(operator("sink", lambda: ListSink(taken)), inputs=(InputConfig(LONG, (0, 1)),))
    sink = make_task(config, gates)
    run_all(
        sink,
        source_task([1, fb.types.Watermark(3)], partitions[0]),
        source_task([2, fb.types.Watermark(5)], partitions[1]),
    )
    assert sink.state is TaskState.FINISHED, sink.error
    assert {1, 2} <= {value for value in taken if isinstance(value, int)}
    assert taken[-1] == END and taken.count(END) == 1


def test_the_end_of_data_is_not_a_drain_if_a_source_was_stopped(pool):
    (partition,), (gate,) = connect(pool)
    calls = []

    class Ending(ListSink):
        def end_input(self, number):
            calls.append("end_input")

        def finish(self):
            calls.append("finish")

    first = source_task([1], partition, end=InputStatus.STOPPED)
    taken = []
    second = make_task(chain_of(operator("sink", lambda: Ending(taken)), inputs=INPUT), [gate])
    run_all(first, second)
    assert {first.state, second.state} == {TaskState.FINISHED}
    assert taken == [1]  # no end of event time
    assert calls == ["finish"]


def test_an_idle_source_still_ends_event_time():
    class Idle(ListSource):
        def emit_next(self, output, max_records):
            output.emit_watermark_status(True)
            return super().emit_next(output, max_records)

    taken = []
    make_task(
        chain_of(
            operator("source", lambda: Idle([]), is_source=True),
            operator("sink", lambda: ListSink(taken)),
        )
    ).run()
    assert taken == ["idle", "active", END]


# ---- several inputs ----------------------------------------------------------------------------------------


class Joining(MultipleInputOperator):
    """Writes down what comes to which input."""

    def __init__(self, calls, input_count=2):
        super().__init__(input_count, CombinedWatermark(input_count))
        self.calls = calls

    def process_input_element(self, index, value, timestamp):
        self.calls.append((index, value))

    def end_input(self, number):
        self.calls.append(("end", number))

    def finish(self):
        self.calls.append("finish")

    def emit_watermark(self, timestamp):
        self.calls.append(fb.types.Watermark(timestamp))


class Inputs:
    """A stream task with writers to each of its inputs; a test drives it by steps."""

    def __init__(self, pool, make_operator, input_count=2):
        self.calls = []
        self.writers, gates = [], []
        for _ in range(input_count):
            partition = fb.ResultPartition(pool, 1)
            self.writers.append(fb.RecordWriter(partition, fb.Types.STREAM_ELEMENT(LONG), "forward", -1))
            gates.append(fb.InputGate([(partition, 0)]))
        config = chain_of(
            operator("join", lambda: make_operator(self.calls)),
            inputs=tuple(InputConfig(LONG, (index,)) for index in range(input_count)),
        )
        self.task = stream_task(config, gates)
        self.task.restore()

    def write(self, index, *elements):
        for element in elements:
            self.writers[index].emit(element)
        self.writers[index].flush()

    def end_data(self, index, mode=StopMode.DRAIN):
        self.writers[index].write_event(EndOfData(mode))

    def end(self, index):
        self.writers[index].close()

    def steps(self, limit=1000):
        """Run until nothing can be done; returns whether the input has ended."""
        processor = self.task.mailbox_processor
        for _ in range(limit):
            if not processor.run_mailbox_step():
                return
        raise AssertionError("it spins")

    def finish(self):
        for index in range(len(self.writers)):
            if not self.writers[index].is_closed:
                self.end(index)
        self.task.invoke()
        assert self.task.clean_up(None) is None


def test_inputs_are_read_in_turn_a_batch_at_a_time(pool):
    inputs = Inputs(pool, lambda calls: Joining(calls, 3), 3)
    for index in range(3):
        inputs.write(index, 1, 2)
    inputs.steps()
    assert inputs.calls == [(index, value) for index in range(3) for value in (1, 2)]
    inputs.write(0, 3)
    inputs.write(2, 3)
    inputs.steps()
    assert sorted(inputs.calls[6:]) == [(0, 3), (2, 3)]
    inputs.finish()


def test_each_input_ends_with_its_data_and_the_operator_with_the_last(pool):
    inputs = Inputs(pool, Joining)
    inputs.end_data(1)
    inputs.steps()
    assert inputs.calls == [("end", 2)]
    inputs.write(0, 7)
    inputs.steps()
    inputs.end_data(0)
    inputs.steps()
    assert inputs.calls == [("end", 2), (0, 7), ("end", 1), "finish"]
    inputs.finish()
    assert inputs.calls[4:] == []


def test_event_time_is_that_of_the_slowest_input_that_is_not_idle(pool):
    inputs = Inputs(pool, Joining)
    inputs.write(0, fb.types.Watermark(10))
    inputs.steps()
    assert inputs.calls == []
    inputs.write(1, fb.types.Watermark(5))
    inputs.steps()
    inputs.write(1, fb.types.WatermarkStatus.IDLE)
    inputs.steps()
    assert inputs.calls == [fb.types.Watermark(5), fb.types.Watermark(10)]
    inputs.finish()


class Selecting(Joining):
    """Reads input 2 until it has given a 0, then both."""

    selection = InputSelection.SECOND

    def next_selection(self):
        return self.selection

    def process_input_element(self, index, value, timestamp):
        super().process_input_element(index, value, timestamp)
        if index == 1 and value == 0:
            self.selection = InputSelection.ALL


def test_only_the_input_that_the_operator_selects_is_read(pool):
    inputs = Inputs(pool, Selecting)
    inputs.write(0, 1, 2)
    inputs.steps()
    assert inputs.calls == []
    inputs.write(1, 5)
    inputs.steps()
    assert inputs.calls == [(1, 5)]
    inputs.write(1, 0)
    inputs.steps()
    assert inputs.calls == [(1, 5), (1, 0), (0, 1), (0, 2)]
    inputs.finish()


def test_selecting_only_what_has_ended_fails_the_task(pool):
    class Stuck(Joining):
        def next_selection(self):
            return InputSelection.FIRST

    inputs = Inputs(pool, Stuck)
    inputs.end(0)
    with pytest.raises(RuntimeError, match="no progress"):
        inputs.steps()
    inputs.task.clean_up(None)


def test_inputs_that_the_operator_does_not_have_are_refused(pool):
    _, (gate,) = connect(pool)
    config = chain_of(operator("join", lambda: Joining([])), inputs=INPUT)
    task = make_task(config, [gate])
    task.run()
    assert task.state is TaskState.FAILED and "has 2 inputs, its task is to read 1" in str(task.error)
    assert gate.is_closed


def test_edges_and_partitions_have_to_match(pool):
    task = make_task(chain_of(source([1])), [], [fb.ResultPartition(pool, 1)])
    task.run()
    assert task.state is TaskState.FAILED and "write to partitions [], the task has 1" in str(task.error)


# ---- time --------------------------------------------------------------------------------------------------


class Waiting(SourceOperatorBase):
    """A source that has nothing until it is told; `calls` counts how often it was asked."""

    def __init__(self):
        self.calls, self.is_over, self.is_open = 0, False, threading.Event()

    def open(self):
        self.is_open.set()

    def emit_next(self, output, max_records):
        self.calls += 1
        return InputStatus.END_OF_DATA if self.is_over else InputStatus.NOTHING_AVAILABLE


def test_a_timer_fires_when_the_clock_is_moved_and_wakes_the_source():
    fired = []

    class Timed(Waiting):
        def open(self):
            super().open()
            self.context.processing_time.register_timer(100, self.on_time)

        def on_time(self, timestamp):
            fired.append((timestamp, threading.get_ident()))
            self.is_over = True

    clock, timed = ManualClock(), Timed()
    task = make_task(chain_of(operator("source", lambda: timed, is_source=True)), clock=clock)
    thread = threading.Thread(target=task.run)
    thread.start()
    assert timed.is_open.wait(10)
    clock.advance_to(100)
    clock.advance_to(101)
    thread.join(10)
    assert task.state is TaskState.FINISHED
    assert fired == [(100, thread.ident)]
    assert clock._subscribers == []  # it does not listen any more


def test_timers_that_wait_do_not_fire_at_the_end():
    fired = []

    class Timed(StreamOperator):
        def open(self):
            self.context.processing_time.register_timer(10, fired.append)

        def process_element(self, value, timestamp):
            pass

        def finish(self):
            clock.advance_to(100)

        def close(self):
            self.context.processing_time.register_timer(10, fired.append)

    clock = ManualClock()
    task = make_task(chain_of(source([1]), operator("timed", Timed)), clock=clock)
    task.run()
    assert (task.state, fired) == (TaskState.FINISHED, [])


def test_a_source_is_woken_from_any_thread():
    waiting = Waiting()
    task = make_task(chain_of(operator("source", lambda: waiting, is_source=True)))
    thread = threading.Thread(target=task.run)
    thread.start()
    assert waiting.is_open.wait(10)
    waiting.is_over = True
    waiting.context.wake()
    thread.join(10)
    assert task.state is TaskState.FINISHED


def test_a_timer_fires_while_an_operator_yields():
    class Yielding(StreamOperator):
        def process_element(self, value, timestamp):
            self.context.processing_time.register_timer(self.context.processing_time.now_ms() - 1, order.append)
            self.context.mailbox.yield_()
            order.append("yielded")

    order = []
    task = make_task(chain_of(source([1]), operator("yielding", Yielding)), clock=ManualClock(50))
    task.run()
    assert task.error is None and order == [49, "yielded"]


# ---- checkpoints -------------------------------------------------------------------------------------------


class Counting(StreamOperator):
    """Its state is what it has counted."""

    def __init__(self, taken):
        self.count, self.taken = 0, taken

    def initialize_state(self, snapshot):
        self.count = snapshot or 0

    def snapshot_state(self, checkpoint_id):
        return self.count

    def process_element(self, value, timestamp):
        self.count += 1
        self.taken.append((value, self.count))


def counting_chain(taken):
    return chain_of(source(range(20)), operator("count", lambda: Counting(taken)))


@pytest.mark.parametrize("cut", range(8))
def test_a_task_goes_on_exactly_where_a_snapshot_was_taken(cut):
    straight, first, second = [], [], []
    make_task(counting_chain(straight)).run()
    task = stream_task(counting_chain(first))
    task.restore()
    while len(first) < cut:  # one record a turn: mail waits
        task.mailbox_processor.steer(lambda: None, "end the turn")
        task._process_input(task.mailbox_processor)
    snapshot = task.perform_checkpoint(CheckpointBarrier(1, 0))
    task.clean_up(None)
    make_task(counting_chain(second), restore=snapshot).run()
    assert len(first) == cut and first + second == straight


def names_of_all(reader, gate):
    """What a partition has, by class; a barrier is passed over."""
    names = []
    for element in reader:
        names.append(type(element).__name__)
        if isinstance(element, CheckpointBarrier):
            gate.resume_consumption(0)
    return names


def test_a_checkpoint_is_triggered_from_another_thread_and_its_barrier_comes_in_order(pool):
    (partition,), (gate,) = connect(pool)
    events, waiting = [], Waiting()
    config = chain_of(operator("source", lambda: waiting, is_source=True, network_edges=(edge(),)), partition_count=1)
    task = make_task(config, [], [partition], report=events.append)
    thread = threading.Thread(target=task.run)
    thread.start()
    assert waiting.is_open.wait(10)
    while not task.trigger_checkpoint(3, 0, OPTIONS):
        pass
    waiting.is_over = True
    waiting.context.wake()
    thread.join(10)
    reader = fb.RecordReader(gate, fb.Types.STREAM_ELEMENT(LONG), events=True)
    assert names_of_all(reader, gate) == ["CheckpointBarrier", "Watermark", "EndOfData", "EndOfPartition"]
    acknowledged = [event for event in events if isinstance(event, CheckpointAcknowledged)]
    assert [event.checkpoint_id for event in acknowledged] == [3]
    assert not task.trigger_checkpoint(4, 0, OPTIONS)


def running_task(pool, events):
    partition = fb.ResultPartition(pool, 1)
    config = chain_of(source(range(5), network_edges=(edge(),)), partition_count=1)
    task = stream_task(config, [], [partition], report=events.append)
    return task, fb.RecordReader(fb.InputGate([(partition, 0)]), fb.Types.STREAM_ELEMENT(LONG), events=True)


def test_a_checkpoint_does_not_come_between_the_results_of_a_record():
    """An operator that waits in the middle of a record serves its own mails, not a checkpoint of all operators."""
    taken, kept = [], KeptSnapshots()

    class Twice(StreamOperator):
        def process_element(self, value, timestamp):
            self.context.saved = "half"
            self.output.collect(value, timestamp)
            self.output.collect(value, timestamp)
            self.context.saved = "done"

    class Waiting(ListSink):
        def process_element(self, value, timestamp):
            mailbox = self.context.mailbox
            if not self.items:
                task.trigger_checkpoint(1, 0, OPTIONS)
                mailbox.submit(lambda: None, "what it waits for")
                mailbox.yield_()
            super().process_element(value, timestamp)

        def snapshot_state(self, checkpoint_id):
            return len(taken)

    twice, wait = operator("twice", Twice), operator("wait", lambda: Waiting(taken))
    task = stream_task(chain_of(source([1, 2, 3]), twice, wait), write_snapshot=kept.write)
    task.invoke()
    task.clean_up(None)
    states = kept.snapshots[1].operators
    assert (states[twice.operator_id], states[wait.operator_id]) == ("done", 2)


def test_checkpoints_out_of_order_are_passed_over(pool):
    events = []
    task, _ = running_task(pool, events)
    task.restore()
    assert task.perform_checkpoint(CheckpointBarrier(5, 0)) is not None
    assert task.perform_checkpoint(CheckpointBarrier(5, 0)) is None
    assert task.perform_checkpoint(CheckpointBarrier(4, 0)) is None
    task.checkpoints.runner.wait_until_idle()
    assert [event.checkpoint_id for event in events] == [5]
    task.clean_up(None)


@pytest.mark.parametrize("is_aborted", [True, False])
def test_who_takes_no_part_tells_those_behind_and_the_coordinator(pool, is_aborted):
    events = []
    task, reader = running_task(pool, events)
    if is_aborted:
        task.restore()
        task.notify_checkpoint_aborted(5)
        task.mailbox_processor.run_mailbox_step()
    assert task.perform_checkpoint(CheckpointBarrier(5, 0)) is None
    # Who has aborted it need not be told.
    reasons = [event.reason for event in events if isinstance(event, CheckpointDeclined)]
    assert reasons == ([] if is_aborted else ["CHECKPOINT_DECLINED_TASK_NOT_READY"])
    kinds = [reader.poll() for _ in range(10)]
    assert "CancelCheckpointMarker" in [type(value).__name__ for _, value, *_ in kinds]
    task.clean_up(None)


def test_operators_are_notified_in_order_and_a_missed_completion_comes_first():
    calls = []

    class Notified(ListSource):
        def notify_checkpoint_complete(self, checkpoint_id):
            calls.append(("complete", checkpoint_id))

        def notify_checkpoint_aborted(self, checkpoint_id):
            calls.append(("aborted", checkpoint_id))

    task = stream_task(chain_of(operator("source", lambda: Notified(range(5)), is_source=True)))
    task.restore()
    task.notify_checkpoint_complete(3)
    task.notify_checkpoint_complete(2)
    task.notify_checkpoint_aborted(5, latest_completed_id=4)
    task.mailbox_processor.run_mailbox_step()
    assert calls == [("complete", 3), ("complete", 4), ("aborted", 5)]
    task.clean_up(None)


CHECKPOINTING = ExecutionSettings(checkpointing_enabled=True)


def test_with_checkpoints_a_task_waits_for_its_consumers_and_for_a_last_checkpoint(pool):
    (partition,), (gate,) = connect(pool)
    events, has_ended_data = [], threading.Event()

    def report(event):
        events.append(event)
        if isinstance(event, EndOfDataReached):
            has_ended_data.set()

    task = source_task([1], partition, settings=CHECKPOINTING, report=report)
    thread = threading.Thread(target=task.run)
    thread.start()
    assert has_ended_data.wait(10)
    assert task.trigger_checkpoint(7, 0, OPTIONS)
    assert task.notify_checkpoint_complete(6)
    taken = []
    sink = sink_task(gate, taken)
    sink_thread = threading.Thread(target=sink.run)
    sink_thread.start()
    thread.join(0.1)
    assert thread.is_alive() and taken == [1, END]  # its partition has not ended
    assert task.notify_checkpoint_complete(7)
    thread.join(10)
    sink_thread.join(10)
    assert (task.state, sink.state) == (TaskState.FINISHED, TaskState.FINISHED)
    assert next(event.state for event in events if isinstance(event, CheckpointAcknowledged)).is_finished


def test_a_task_that_was_finished_says_so_again(pool):
    (partition,), (gate,) = connect(pool)
    made = []
    config = chain_of(
        operator("source", lambda: made.append(1), is_source=True, network_edges=(edge(),)), partition_count=1
    )
    task = make_task(config, [], [partition], restore=TaskStateSnapshot(3, is_finished=True))
    taken = []
    run_all(task, sink_task(gate, taken))
    assert (task.state, made, taken) == (TaskState.FINISHED, [], [END])


# ---- numbers -----------------------------------------------------------------------------------------------


def test_time_without_input_is_idle_and_time_without_room_is_back_pressure(pool):
    ticks = [0]
    (partition,), (gate,) = connect(pool)
    out = fb.ResultPartition(pool, 1)
    config = chain_of(
        operator("map", lambda: MapOperator(lambda value: value), network_edges=(edge(buffer_timeout_ms=-1),)),
        inputs=INPUT,
        partition_count=1,
    )
    task = stream_task(config, [gate], [out], ticks=lambda: ticks[0])
    task.restore()
    writer = fb.RecordWriter(partition, fb.Types.STREAM_ELEMENT(LONG), "forward", -1)

    def step_for(milliseconds):
        while task.mailbox_processor.run_mailbox_step():
            pass
        ticks[0] += milliseconds * 1_000_000

    step_for(10)  # nothing to read
    for _ in range(3):
        while writer.is_available:
            writer.emit(1)
        writer.flush()
        step_for(0)
    assert not task._outputs.is_available
    step_for(20)
    metrics = task.metrics
    assert (metrics.idle_ms, metrics.back_pressured_ms) == (10, 20)
    task.clean_up(None)


def test_a_task_counts_its_mails():
    task = stream_task(chain_of(source([])))
    task.restore()
    for _ in range(3):
        task._submit(lambda: None, "mail")
    assert task.metrics.mailbox_queue_size == 3
    task.mailbox_processor.run_mailbox_step()
    assert (task.metrics.mailbox_queue_size, task.metrics.mails_processed) == (0, 3)
    assert task.metrics.mailbox_latency_ms >= 0
    task.clean_up(None)


def test_a_diamond_in_a_chain_counts_a_record_once(pool):
    (partition,), (gate,) = connect(pool)
    taken = []
    config = ChainConfig(
        (
            OperatorConfig(
                "a" * 32, "source", lambda: ListSource([1, 2]), is_source=True, network_edges=(edge(),),
                chained_edges=(ChainedEdge(1), ChainedEdge(2)),
            ),
            OperatorConfig("b" * 32, "b", lambda: ListSink(taken)),
            OperatorConfig("c" * 32, "c", lambda: ListSink(taken)),
        ),
        partition_count=1,
    )  # fmt: skip
    task = make_task(config, [], [partition])
    run_all(task, sink_task(gate, []))
    assert taken == [1, 1, 2, 2, END, END]
    assert task.metrics.records_out == 2


def test_no_timestamp_is_kept_from_a_record_to_the_next(pool):
    (partition,), (gate,) = connect(pool)
    taken = []
    items = [fb.types.StreamRecord(1, 5), 2, fb.types.StreamRecord(3, 0)]
    run_all(source_task(items, partition), sink_task(gate, taken))
    assert taken == [*items, END]
    assert NO_TIMESTAMP == -(2**63)
