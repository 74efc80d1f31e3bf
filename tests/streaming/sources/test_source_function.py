"""Sources with run(context): their thread, its hand-over, the kinds of contexts."""

import pickle
import threading
import time

import cloudpickle
import pytest
from support.worlds.surroundings import Elements, ManualTime, Surroundings

from flinkbuf.errors import CancelTaskError
from flinkbuf.streaming.chain.checkpointed_function import CheckpointedFunction, CheckpointListener
from flinkbuf.streaming.chain.functions import SourceFunction
from flinkbuf.streaming.chain.operator_config import ExecutionSettings
from flinkbuf.streaming.sources.input_status import InputStatus
from flinkbuf.streaming.sources.source_context import (
    AutomaticWatermarkContext,
    ManualWatermarkContext,
    NonTimestampContext,
    TimeCharacteristic,
)
from flinkbuf.streaming.sources.source_factories import SourceFunctionFactory, source_factory_of
from flinkbuf.streaming.sources.source_function import SourceFunctionOperator
from flinkbuf.streaming.sources.source_handover import SourceContext, SourceHandover
from flinkbuf.streaming.state.state import ListStateDescriptor
from flinkbuf.types.values import LatencyMarker, StreamRecord, Watermark, WatermarkStatus

MAX = 2**63 - 1


class Numbers:
    def __init__(self, count):
        self.count = count

    def run(self, context):
        for number in range(self.count):
            context.collect(number)

    def cancel(self):
        pass


def threads():
    return [each for each in threading.enumerate() if each.name.endswith("source")]


@pytest.mark.parametrize("count", [0, 1, 5, 5_000])
@pytest.mark.parametrize("max_records", [1_000, 7])
def test_everything_comes_in_order_and_then_the_end(count, max_records):
    around = Surroundings()
    source = around.open(pickle.loads(cloudpickle.dumps(source_factory_of(Numbers(count))))())
    assert around.wait_for_end(source, max_records) == InputStatus.END_OF_INPUT
    source.close()
    assert around.output.values == list(range(count))
    assert threads() == []


class Everything:
    def __init__(self):
        self.calls = []

    def open(self, runtime_context):
        self.calls.append("open")

    def run(self, context):
        self.calls.append("run")
        context.collect("a")
        context.collect_with_timestamp("b", 5)
        context.emit_watermark(4)
        context.mark_as_temporarily_idle()
        context.collect("c")
        with context.get_checkpoint_lock():
            context.collect("d")

    def cancel(self):
        self.calls.append("cancel")

    def close(self):
        self.calls.append("close")


def test_event_time_is_what_the_source_says():
    around, function = Surroundings(), Everything()
    source = around.open(SourceFunctionOperator(function))
    around.wait_for_end(source)
    source.close()
    assert around.output.elements == [
        StreamRecord("a"),
        StreamRecord("b", 5),
        Watermark(4),
        WatermarkStatus.IDLE,
        WatermarkStatus.ACTIVE,
        StreamRecord("c"),
        StreamRecord("d"),
    ]
    assert function.calls == ["open", "run", "close"]


def test_an_error_of_run_comes_out_after_what_was_emitted():
    class Fails(Numbers):
        def run(self, context):
            super().run(context)
            raise OSError("the line is dead")

    around = Surroundings()
    source = around.open(SourceFunctionOperator(Fails(3)))
    with pytest.raises(OSError, match="the line is dead"):
        around.wait_for_end(source)
    assert around.output.values == [0, 1, 2]
    source.close()
    assert threads() == []


def test_an_error_that_comes_with_the_last_records_needs_nobody_to_wake_the_task():
    class Fails(Numbers):
        def run(self, context):
            super().run(context)
            raise OSError("the line is dead")

    around = Surroundings()
    source = around.open(SourceFunctionOperator(Fails(3)))
    source.emit_next(around.output, 1)
    source._thread.join(10)  # all is there, and the bell rings no more
    with pytest.raises(OSError, match="the line is dead"):
        while source.emit_next(around.output, 100) == InputStatus.MORE_AVAILABLE:
            pass
    assert around.output.values == [0, 1, 2]
    source.close()


def test_what_comes_while_a_rest_is_left_needs_nobody_to_wake_the_task():
    handed_over, may_end = threading.Event(), threading.Event()

    class Waits(Numbers):
        def run(self, context):
            super().run(context)
            handed_over.set()
            may_end.wait(10)

    around = Surroundings()
    source = around.open(SourceFunctionOperator(Waits(10)))
    source.emit_next(around.output, 1)
    assert handed_over.wait(10)
    while len(around.output.values) < 9:
        source.emit_next(around.output, 1)
    may_end.set()
    assert source._thread.join(10)  # the bell has rung for the end, and rings no more
    assert source.emit_next(around.output, 1) == InputStatus.MORE_AVAILABLE
    assert source.emit_next(around.output, 1) == InputStatus.END_OF_INPUT
    assert around.output.values == list(range(10))
    source.close()


class Endless:
    """Emits until it is told to stop, in one of several ways."""

    def __init__(self, ignores_cancel=False):
        self.is_running, self.ignores_cancel, self.canceled_count = True, ignores_cancel, 0

    def run(self, context):
        number = 0
        while self.is_running:
            context.collect(number)
            number += 1

    def cancel(self):
        self.canceled_count += 1
        self.is_running = self.ignores_cancel


@pytest.mark.parametrize("ignores_cancel", [False, True])
@pytest.mark.parametrize("cancels_first", [False, True])
def test_an_endless_source_ends_with_its_task(ignores_cancel, cancels_first):
    around, function = Surroundings(), Endless(ignores_cancel)
    source = around.open(SourceFunctionOperator(function))
    while len(around.output.values) < 2_000:
        source.emit_next(around.output, 100)
    if cancels_first:
        source.cancel()
    source.close()
    assert function.canceled_count == 1
    assert threads() == []
    assert around.output.values == list(range(len(around.output.values)))


def test_a_source_may_change_what_it_has_emitted():
    class Changes(Numbers):
        def run(self, context):
            row = []
            for number in range(3):
                row.append(number)
                context.collect(row)
                context.collect_with_timestamp(row, number)

    around = Surroundings()
    source = around.open(SourceFunctionOperator(Changes(0)))
    around.wait_for_end(source)
    source.close()
    assert around.output.values == [[0], [0], [0, 1], [0, 1], [0, 1, 2], [0, 1, 2]]


def test_a_source_that_was_never_run_is_not_cancelled():
    function = Everything()
    source = Surroundings().open(SourceFunctionOperator(function))
    source.cancel()
    source.close()
    assert function.calls == ["open", "close"]


def test_a_run_that_does_not_return_is_left_behind_and_told(monkeypatch, caplog):
    monkeypatch.setattr("flinkbuf.streaming.sources.source_function.PATIENCE_S", 0.02)
    release = threading.Event()

    class Stubborn:
        def run(self, context):
            release.wait(10)

    around = Surroundings()
    source = around.open(SourceFunctionOperator(Stubborn()))
    source.emit_next(around.output, 1)
    source.close()
    assert f"goes on after the end of its task, in run ({__file__}:" in caplog.text
    release.set()
    for thread in threads():
        thread.join(5)


def test_a_snapshot_has_emitted_before_all_that_the_source_has():
    around = Surroundings()
    source = around.open(SourceFunctionOperator(Numbers(500)))
    source.emit_next(around.output, 1)
    assert source._thread.join(10)
    source.prepare_snapshot_pre_barrier(1)
    assert around.output.values == list(range(500))
    assert around.run_source(source) == InputStatus.END_OF_INPUT
    source.close()


@pytest.mark.parametrize(("is_drain", "status"), [(True, InputStatus.END_OF_INPUT), (False, InputStatus.STOPPED)])
def test_a_stopped_source_ends_when_all_that_it_has_handed_over_is_emitted(is_drain, status):
    """What it counts as emitted is in its state: a savepoint after its end has both or neither."""
    around = Surroundings()
    source = around.open(SourceFunctionOperator(Endless()))
    source.emit_next(around.output, 1)
    source.stop(is_drain)
    while (last := source.emit_next(around.output, 100)) in (
        InputStatus.NOTHING_AVAILABLE,
        InputStatus.MORE_AVAILABLE,
    ):
        time.sleep(0.001)
    assert last == status
    before = len(around.output.elements)
    source.prepare_snapshot_pre_barrier(1)
    assert source.emit_next(around.output, 100) == status
    assert len(around.output.elements) == before
    source.close()


@pytest.mark.parametrize(("is_drain", "status"), [(True, InputStatus.END_OF_INPUT), (False, InputStatus.STOPPED)])
def test_a_source_that_is_stopped_before_it_began_does_not_begin(is_drain, status):
    around = Surroundings()
    source = around.open(SourceFunctionOperator(Endless()))
    source.stop(is_drain)
    assert source.emit_next(around.output, 100) == status
    assert not around.output.elements
    source.close()


def test_latency_markers_come_from_these_sources_too():
    around = Surroundings(settings=ExecutionSettings(latency_tracking_interval_ms=100))
    source = around.open(SourceFunctionOperator(Numbers(1)))
    around.time.advance_to(150)
    source.close()
    assert [type(each) for each in around.output.elements] == [LatencyMarker] * 2


# Hand-over


def test_a_source_waits_while_its_task_is_behind():
    handover = SourceHandover(bool, capacity=3)
    thread = threading.Thread(target=lambda: [handover.put(number) for number in range(10)], daemon=True)
    thread.start()
    taken = []
    while len(taken) < 10:
        elements, _ = handover.take()
        assert len(elements) <= 3
        taken += elements
        time.sleep(0.001)
    assert taken == list(range(10))
    thread.join(5)


def test_who_holds_the_lock_is_not_interrupted_by_a_full_hand_over():
    handover = SourceHandover(bool, capacity=2)
    with SourceContext(handover).get_checkpoint_lock():
        for number in range(5):
            handover.put(number)
    assert handover.take()[0] == [0, 1, 2, 3, 4]


def test_nothing_is_taken_while_the_source_holds_the_lock():
    handover, taken = SourceHandover(bool), []
    lock = SourceContext(handover).get_checkpoint_lock()
    with lock:
        with lock:
            handover.put(1)
            thread = threading.Thread(target=lambda: taken.append(handover.take()[0]))
            thread.start()
            time.sleep(0.02)
            assert taken == []
        handover.put(2)
    thread.join(5)
    assert taken == [[1, 2]]


def test_a_closed_hand_over_ends_the_source():
    handover = SourceHandover(bool, capacity=1)
    handover.put(1)
    errors = []

    def produce():
        try:
            handover.put(2)
        except CancelTaskError as error:
            errors.append(error)

    thread = threading.Thread(target=produce)
    thread.start()
    time.sleep(0.02)
    handover.close()
    thread.join(5)
    assert len(errors) == 1
    with pytest.raises(CancelTaskError), SourceContext(handover).get_checkpoint_lock():
        pass


# Contexts


def elements_of(context_of, work):
    output = Elements()
    work(context_of(output))
    return output.elements


def test_without_event_time_everything_of_it_is_dropped():
    def work(context):
        context.collect(1)
        context.collect_with_timestamp(2, 5)
        context.emit_watermark(7)
        context.mark_as_temporarily_idle()
        context.close()

    assert elements_of(NonTimestampContext, work) == [StreamRecord(1), StreamRecord(2)]


def test_with_event_time_idleness_ends_with_the_next_element_and_nothing_follows_the_end():
    def work(context):
        context.mark_as_temporarily_idle()
        context.mark_as_temporarily_idle()
        context.emit_watermark(3)
        context.mark_as_temporarily_idle()
        context.collect_with_timestamp(1, 4)
        context.emit_watermark(MAX)
        context.emit_watermark(MAX)
        context.close()

    assert elements_of(ManualWatermarkContext, work) == [
        WatermarkStatus.IDLE,
        WatermarkStatus.ACTIVE,
        Watermark(3),
        WatermarkStatus.IDLE,
        WatermarkStatus.ACTIVE,
        StreamRecord(1, 4),
        Watermark(MAX),
    ]


def test_with_ingestion_time_records_are_stamped_and_watermarks_follow_the_clock():
    time, output = ManualTime(1_000), Elements()
    context = AutomaticWatermarkContext(output, time, 100)
    context.collect_with_timestamp("a", 7)
    time.now = 1_050
    context.collect("b")
    time.advance_to(1_230)
    context.emit_watermark(5_000)  # not the source's to tell
    context.mark_as_temporarily_idle()
    time.advance_to(1_500)
    context.collect("c")
    context.emit_watermark(MAX)
    time.advance_to(9_000)
    assert output.elements == [
        StreamRecord("a", 1_000),
        Watermark(999),
        StreamRecord("b", 1_050),
        Watermark(1_099),
        Watermark(1_199),
        WatermarkStatus.IDLE,
        WatermarkStatus.ACTIVE,
        StreamRecord("c", 1_500),
        Watermark(1_499),
        Watermark(MAX),
    ]


def test_ingestion_time_needs_an_interval():
    with pytest.raises(ValueError, match="auto-watermark-interval of at least 1 ms, got 0"):
        AutomaticWatermarkContext(Elements(), ManualTime(), 0)


@pytest.mark.parametrize(
    ("characteristic", "record"),
    [
        (TimeCharacteristic.PROCESSING_TIME, StreamRecord("b")),
        (TimeCharacteristic.INGESTION_TIME, StreamRecord("b", 50)),
        (TimeCharacteristic.EVENT_TIME, StreamRecord("b", 5)),
    ],
)
def test_a_characteristic_decides_which_context_a_source_has(characteristic, record):
    around = Surroundings(time=ManualTime(50))
    source = around.open(SourceFunctionFactory(Everything(), characteristic)())
    around.wait_for_end(source)
    source.close()
    assert record in around.output.elements


class Resumable(SourceFunction, CheckpointedFunction, CheckpointListener):
    """Counts under its lock, and keeps what comes next as state."""

    def __init__(self, count):
        super().__init__()
        self.count = count
        self.heard = []

    def initialize_state(self, context):
        self.state = context.get_operator_state_store().get_list_state(ListStateDescriptor("next", None))
        self.next = sum(self.state.get())

    def run(self, ctx):
        while self.next < self.count:
            with ctx.get_checkpoint_lock():
                ctx.collect(("of", self.next))
                ctx.collect(("a pair", self.next))
                self.next += 1

    def snapshot_state(self, context):
        self.state.update([self.next])

    def notify_checkpoint_complete(self, checkpoint_id):
        self.heard.append(("complete", checkpoint_id))

    def notify_checkpoint_aborted(self, checkpoint_id):
        self.heard.append(("aborted", checkpoint_id))


@pytest.mark.parametrize("records_before", [0, 1, 2, 7, 100, 399])
def test_a_source_with_state_goes_on_where_the_checkpoint_was(records_before):
    expected = [(what, number) for number in range(200) for what in ("of", "a pair")]
    around = Surroundings()
    source = around.open(pickle.loads(cloudpickle.dumps(source_factory_of(Resumable(200))))())
    deadline = time.monotonic() + 10
    while len(around.output.values) < records_before:
        assert time.monotonic() < deadline
        source.emit_next(around.output, records_before - len(around.output.values))
    source.prepare_snapshot_pre_barrier(1)  # the thread runs on all the time
    before = list(around.output.values)
    snapshot = source.snapshot_state(1)
    source.notify_checkpoint_complete(1)
    source.notify_checkpoint_aborted(2)
    assert source._function.heard == [("complete", 1), ("aborted", 2)]
    source.close()
    around = Surroundings()
    source = around.open(pickle.loads(cloudpickle.dumps(source_factory_of(Resumable(200))))(), snapshot)
    around.wait_for_end(source)
    source.close()
    assert before + around.output.values == expected


@pytest.mark.parametrize("is_drain", [True, False])
def test_what_a_source_that_is_stopped_has_emitted_is_in_the_savepoint(is_drain):
    around = Surroundings()
    source = around.open(SourceFunctionOperator(Resumable(10**9)))
    while not around.output.values:
        source.emit_next(around.output, 1)
    source.stop(is_drain)
    source.prepare_snapshot_pre_barrier(1)
    snapshot = source.snapshot_state(1)
    assert 2 * snapshot.lists["next"][0] == len(around.output.values)
    source.close()
