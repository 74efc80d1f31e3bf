"""Sources of splits: the coordinator, the operator around a reader, event time by split, alignment."""

import threading
import time
from itertools import chain, pairwise

import pytest
from support.worlds.surroundings import ManualTime, Surroundings

from flinkbuf.datastream import StreamExecutionEnvironment
from flinkbuf.datastream.connectors.data_gen import DataGeneratorSource, RateLimit
from flinkbuf.datastream.connectors.number_seq import NumberSequenceSource, split_sequence
from flinkbuf.streaming.chain.operator_config import ExecutionSettings
from flinkbuf.streaming.sources import source_coordinator
from flinkbuf.streaming.sources.input_status import InputStatus
from flinkbuf.streaming.sources.source import Boundedness, Source, SourceReader, SplitEnumerator
from flinkbuf.streaming.sources.source_coordinator import CoordinatorStore, SplitAssignmentTracker
from flinkbuf.streaming.sources.source_factories import SourceOperatorFactory
from flinkbuf.streaming.sources.source_operator import SourceState
from flinkbuf.streaming.time.clock import SystemClock
from flinkbuf.streaming.time.watermark_alignment import AlignmentGroup, ReaderAlignment
from flinkbuf.streaming.time.watermark_multiplexer import SourceWatermarks, WatermarkMultiplexer
from flinkbuf.streaming.time.watermark_strategy import WatermarkAlignment, WatermarkStrategy
from flinkbuf.types.duration import Duration
from flinkbuf.types.values import LatencyMarker, StreamRecord, Watermark, WatermarkStatus

MIN, MAX = -(2**63), 2**63 - 1


class Job:
    """The subtasks of one source, without a task around them."""

    def __init__(self, source, strategy=None, *, parallelism=1, store=None, time=None, settings=None):
        self.time = ManualTime() if time is None else time
        factory = SourceOperatorFactory(source, strategy)
        self.failures = []
        self.coordinator = factory.create_coordinator(
            parallelism, self.time, store or CoordinatorStore(), self.failures.append
        )
        self.coordinator.start()
        self.subtasks = []
        for index in range(parallelism):
            around = Surroundings(
                subtask_index=index,
                parallelism=parallelism,
                time=self.time,
                settings=settings,
                coordinator=self.coordinator,
            )
            around.operator = around.open(factory())
            self.subtasks.append(around)

    def turn(self, index=0, max_records=100):
        around = self.subtasks[index]
        around.mailbox.run()
        return around.operator.emit_next(around.output, max_records)

    def run(self, max_records=100):
        """Turns of all subtasks until all have ended."""
        for _ in range(1_000):
            statuses = [self.turn(index, max_records) for index in range(len(self.subtasks))]
            if all(status == InputStatus.END_OF_INPUT for status in statuses):
                self.close()
                return [around.output.values for around in self.subtasks]
        raise AssertionError("the source did not come to an end")

    def close(self):
        for around in self.subtasks:
            around.operator.close()
        self.coordinator.close()


# Number sequence and data generator


@pytest.mark.parametrize("parallelism", [1, 2, 3])
@pytest.mark.parametrize("max_records", [1, 7, 100])
def test_a_sequence_comes_once_over_all_subtasks(parallelism, max_records):
    values = Job(NumberSequenceSource(1, 50), parallelism=parallelism).run(max_records)
    assert sorted(chain.from_iterable(values)) == list(range(1, 51))
    assert all(part == sorted(part) for part in values)


def test_a_sequence_of_one_subtask_is_in_order():
    assert Job(NumberSequenceSource(-2, 2)).run() == [[-2, -1, 0, 1, 2]]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 10, 100])
def test_parts_of_a_sequence_are_even_and_without_gaps(count):
    parts = split_sequence(5, 14, count)
    lengths = [part.end - part.start + 1 for part in parts]
    assert parts[0].start == 5 and parts[-1].end == 14 and len(parts) == min(count, 10)
    assert max(lengths) - min(lengths) <= 1
    assert all(one.end + 1 == other.start for one, other in pairwise(parts))


def test_a_sequence_that_goes_down_is_refused():
    with pytest.raises(ValueError, match="got 5 to 4"):
        NumberSequenceSource(5, 4)


def test_a_generator_s_records_are_its_function_s_results():
    values = Job(DataGeneratorSource(str, 10), parallelism=2).run()
    assert sorted(chain.from_iterable(values)) == sorted(map(str, range(10)))
    assert Job(DataGeneratorSource(str, 0), parallelism=2).run() == [[], []]


def test_a_rate_is_kept():
    job = Job(DataGeneratorSource(int, 5, records_per_second=10))
    times = []
    for now_ms in range(0, 1_000, 10):
        job.time.advance_to(now_ms)
        before = len(job.subtasks[0].output.values)
        status = job.turn()
        times += [now_ms] * (len(job.subtasks[0].output.values) - before)
    assert times == [0, 100, 200, 300, 400]  # asked for before, or the first turn would have emitted it
    assert status == InputStatus.END_OF_INPUT
    job.close()


def test_who_was_late_does_not_catch_up_for_ever():
    rate = RateLimit(per_second=100, now_ms=0)
    assert rate.due(now_ms=10_000) == 101


# Reader, enumerator, coordinator


class Manual(Source):
    """Hands its parts out to the test."""

    def __init__(self):
        self.reader_class = ManualReader

    def create_enumerator(self, context):
        self.enumerator = ManualEnumerator(context)
        return self.enumerator

    def create_reader(self, context):
        self.reader = self.reader_class(context)
        return self.reader


class ManualEnumerator(SplitEnumerator):
    def __init__(self, context):
        self.context, self.calls = context, []

    def start(self):
        self.calls.append("start")

    def add_reader(self, subtask_index):
        self.calls.append(("add_reader", subtask_index))

    def handle_split_request(self, subtask_index, host):
        self.calls.append(("request", subtask_index, host))

    def handle_source_event(self, subtask_index, event):
        self.calls.append(("event", subtask_index, event))

    def add_splits_back(self, splits, subtask_index):
        self.calls.append(("back", list(splits), subtask_index))

    def close(self):
        self.calls.append("close")


class ManualReader(SourceReader):
    """Emits what the test puts into `elements`: values, or (split, value, timestamp)."""

    def __init__(self, context):
        self.context, self.calls, self.elements, self.is_at_end = context, [], [], False
        self.paused = set()

    def start(self):
        self.calls.append("start")

    def add_splits(self, splits):
        self.calls.append(("splits", list(splits)))

    def notify_no_more_splits(self):
        self.calls.append("no more")

    def handle_source_event(self, event):
        self.calls.append(("event", event))

    def poll_next(self, output):
        if not self.elements:
            return InputStatus.END_OF_INPUT if self.is_at_end else InputStatus.NOTHING_AVAILABLE
        element = self.elements.pop(0)
        if isinstance(element, tuple):
            split, value, timestamp = element
            target = output.create_output_for_split(split) if split else output
            if value == "release":
                output.release_output_for_split(split)
            elif value == "idle":
                target.mark_idle()
            else:
                target.collect(value, timestamp)
        else:
            output.collect(element)
        return InputStatus.MORE_AVAILABLE

    def pause_or_resume_splits(self, to_pause, to_resume):
        self.paused |= set(to_pause)
        self.paused -= set(to_resume)

    def close(self):
        self.calls.append("close")


def test_events_go_both_ways_in_order_and_on_the_task_s_thread():
    source = Manual()
    job = Job(source)
    enumerator, reader, around = source.enumerator, source.reader, job.subtasks[0]
    assert enumerator.calls == ["start", ("add_reader", 0)]
    reader.context.send_split_request()
    reader.context.send_source_event("hello")
    assert enumerator.calls[2:] == [("request", 0, None), ("event", 0, "hello")]
    enumerator.context.assign_splits({0: ["s", "t"]})
    enumerator.context.send_event_to_source_reader(0, "welcome")
    enumerator.context.signal_no_more_splits(0)
    assert reader.calls == ["start"]  # mails have not run
    around.mailbox.run()
    assert reader.calls == ["start", ("splits", ["s", "t"]), ("event", "welcome"), "no more"]
    assert enumerator.context.registered_readers == frozenset({0})
    job.close()
    job.coordinator.close()
    assert reader.calls[-1] == "close" and enumerator.calls[-1] == "close" and enumerator.calls.count("close") == 1


@pytest.mark.parametrize("say", ["splits", "event", "no more"])
def test_whatever_the_coordinator_says_has_the_reader_polled_again(say):
    """Its mail may run after the reader was found to have nothing, with no ring of the bell behind that."""
    source = Manual()
    job = Job(source)
    around, context = job.subtasks[0], source.enumerator.context
    if say == "splits":
        context.assign_splits({0: ["s"]})
    elif say == "event":
        context.send_event_to_source_reader(0, "welcome")
    else:
        context.signal_no_more_splits(0)
    before = around.mailbox.wakes
    around.mailbox.run()
    assert around.mailbox.wakes == before + 1
    job.close()
    job.coordinator.close()


def test_a_reader_that_does_not_run_cannot_be_told_anything():
    source = Manual()
    job = Job(source)
    with pytest.raises(ValueError, match="subtask 7 has no reader registered that could be assigned splits"):
        source.enumerator.context.assign_split("s", 7)
    job.close()


def test_status_is_that_of_the_reader_and_the_end_is_for_ever():
    source = Manual()
    job = Job(source)
    assert job.turn() == InputStatus.NOTHING_AVAILABLE
    source.reader.elements += [1, 2, 3]
    assert job.turn(max_records=2) == InputStatus.MORE_AVAILABLE
    assert job.subtasks[0].output.values == [1, 2]
    assert job.turn() == InputStatus.NOTHING_AVAILABLE
    source.reader.is_at_end = True
    assert job.turn() == InputStatus.END_OF_INPUT
    source.reader.elements.append(4)
    assert job.turn() == InputStatus.END_OF_INPUT
    assert job.subtasks[0].output.values == [1, 2, 3]
    assert job.subtasks[0].operator.state is SourceState.DATA_FINISHED
    job.close()


@pytest.mark.parametrize(("is_drain", "status"), [(True, InputStatus.END_OF_INPUT), (False, InputStatus.STOPPED)])
def test_a_stopped_source_polls_no_more(is_drain, status):
    source = Manual()
    job = Job(source)
    source.reader.elements.append(1)
    job.subtasks[0].operator.stop(is_drain)
    assert job.turn() == status
    assert job.subtasks[0].output.values == []
    job.close()


@pytest.mark.parametrize("is_drain", [True, False])
def test_what_is_assigned_to_a_stopped_source_stays_with_the_coordinator(is_drain):
    """Its state was taken for the savepoint before, and has the split: in both it would come twice."""
    source = Manual()
    job = Job(source)
    source.enumerator.context.assign_splits({0: ["before"]})
    job.turn()
    job.subtasks[0].operator.stop(is_drain)
    source.enumerator.context.assign_splits({0: ["late"]})
    job.turn()
    assert [call for call in source.reader.calls if call[0] == "splits"] == [("splits", ["before"])]
    job.close()


@pytest.mark.parametrize("cut", [1, 3, 8, 20])
def test_a_restored_job_emits_what_was_not_emitted(cut):
    """Readers from their snapshots, the enumerator from its own."""
    source = NumberSequenceSource(1, 20)
    factory, first = SourceOperatorFactory(source), Job(source, parallelism=2)
    for _ in range(2):
        first.turn(0, cut)
    state, states = first.coordinator.snapshot(1), []
    for around in first.subtasks:  # as with a checkpoint, the coordinator's events come before its barrier
        around.mailbox.run()
        states.append(around.operator.snapshot_state(1))
    emitted = [value for around in first.subtasks for value in around.output.values]
    first.close()
    coordinator = factory.create_coordinator(2, ManualTime(), CoordinatorStore(), print)
    coordinator.start(state)
    for index in range(2):
        around = Surroundings(subtask_index=index, parallelism=2, coordinator=coordinator)
        operator = around.open(factory(), states[index])
        while operator.emit_next(around.output, 100) != InputStatus.END_OF_INPUT:
            around.mailbox.run()
        emitted += around.output.values
    assert sorted(emitted) == list(range(1, 21))


def test_an_error_of_the_enumerator_comes_out_where_it_was_asked():
    source = Manual()
    job = Job(source)
    source.enumerator.handle_split_request = lambda *request: 1 / 0
    with pytest.raises(ZeroDivisionError):
        source.reader.context.send_split_request()
    job.close()


def test_periodic_work_runs_on_a_thread_that_ends():
    source = Manual()
    job = Job(source)
    done, threads = threading.Event(), []

    def work():
        threads.append(threading.current_thread())
        return len(threads)

    def handle(result, error):
        if result == 3:
            done.set()

    source.enumerator.context.call_async(work, handle, period_ms=1)
    for now_ms in range(1, 2_000):
        job.time.now = now_ms
        if done.wait(0.01):
            break
    assert done.is_set() and threads[0] is not threading.current_thread()
    job.close()
    assert not threads[0].is_alive()


def test_an_error_on_the_thread_of_periodic_work_is_reported():
    source = Manual()
    job = Job(source)

    def handle(result, error):
        raise error

    source.enumerator.context.call_async(lambda: 1 / 0, handle)
    for _ in range(500):
        if job.failures:
            break
        time.sleep(0.01)
    assert isinstance(job.failures[0], ZeroDivisionError)
    job.close()


def test_splits_of_a_failed_reader_come_back_unless_a_checkpoint_holds_them():
    source = Manual()
    job = Job(source, parallelism=2)
    context = source.enumerator.context
    context.assign_splits({0: ["a"], 1: ["x"]})
    job.coordinator.snapshot(1)
    context.assign_split("b", 0)
    job.coordinator.snapshot(2)
    context.assign_split("c", 0)
    job.coordinator.notify_checkpoint_complete(1)
    job.coordinator.reset_reader(0, checkpoint_id=1)
    assert source.enumerator.calls[-1] == ("back", ["b", "c"], 0)
    assert context.registered_readers == frozenset({1})
    job.coordinator.reset_reader(1, checkpoint_id=1)
    assert source.enumerator.calls[-1] == ("back", ["b", "c"], 0)  # x is in the checkpoint
    job.close()


def test_the_tracker_gives_back_everything_without_a_checkpoint():
    tracker = SplitAssignmentTracker()
    tracker.assign(0, ["a"])
    tracker.snapshot(1)
    tracker.assign(0, ["b"])
    assert tracker.take_back(0, None) == ["a", "b"]
    assert tracker.take_back(0, None) == []


def test_what_is_no_source_is_refused():
    with pytest.raises(TypeError, match="from_source takes a .*Source, got list"):
        SourceOperatorFactory([1])


# Event time


def by_timestamp(bound_ms=0):
    return WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(bound_ms))


def test_watermarks_come_at_the_interval_for_all_splits_together():
    source = Manual()
    job = Job(source, by_timestamp(), settings=ExecutionSettings(auto_watermark_interval_ms=200))
    source.reader.elements += [("s", "a", 10), ("t", "b", 20), ("s", "c", 30)]
    job.turn()
    output = job.subtasks[0].output
    assert output.elements == [StreamRecord("a", 10), StreamRecord("b", 20), StreamRecord("c", 30)]
    job.time.advance_to(201)
    assert output.elements[3:] == [Watermark(19)]
    source.reader.elements += [("t", "release", None)]
    job.turn()
    assert output.elements[4:] == [Watermark(29)]
    job.close()


def test_an_idle_split_holds_nobody_back_and_all_idle_make_the_source_idle():
    source = Manual()
    strategy = by_timestamp().with_idleness(Duration.of_millis(1_000))
    job = Job(source, strategy, settings=ExecutionSettings(auto_watermark_interval_ms=100))
    output = job.subtasks[0].output

    def step(*elements, to_ms):
        before = len(output.elements)
        source.reader.elements += elements
        job.turn()
        job.time.advance_to(to_ms)
        return [each for each in output.elements[before:] if not isinstance(each, StreamRecord)]

    assert step(("s", "a", 10), ("t", "b", 20), to_ms=500) == [Watermark(9)]
    assert step(("t", "c", 30), to_ms=1_490) == [Watermark(29)]  # without s
    assert step(to_ms=3_000) == [WatermarkStatus.IDLE]
    assert step(("s", "d", 40), to_ms=3_200) == [WatermarkStatus.ACTIVE, Watermark(39)]
    job.close()


class Split:
    """A split of which the reader is told, and then the test."""

    def __init__(self, split_id):
        self.split_id = split_id


class SplitwiseReader(ManualReader):
    has_split_outputs = True


@pytest.mark.parametrize("is_restored", [False, True])
def test_a_split_that_was_not_begun_holds_event_time_back(is_restored):
    source = Manual()
    source.reader_class = SplitwiseReader
    job = Job(source, by_timestamp(), settings=ExecutionSettings(auto_watermark_interval_ms=200))
    around, splits = job.subtasks[0], (Split("s"), Split("t"))
    if is_restored:
        source.enumerator.context.assign_splits({0: splits})
        around.mailbox.run()
        source.reader.snapshot_state = lambda checkpoint_id: splits
        snapshot = around.operator.snapshot_state(1)
        around = job.subtasks[0] = Surroundings(
            time=job.time, settings=job.subtasks[0].context.settings, coordinator=job.coordinator
        )
        around.context.operator_state.restore(snapshot)
        around.operator = around.open(SourceOperatorFactory(source, by_timestamp())())
    else:
        source.enumerator.context.assign_splits({0: splits})
        around.mailbox.run()
    source.reader.elements += [("s", "a", 100)]
    job.turn()
    job.time.advance_to(job.time.now_ms() + 201)
    assert around.output.elements == [StreamRecord("a", 100)], "t may have earlier ones"
    source.reader.elements += [("t", "b", 50)]
    job.turn()
    job.time.advance_to(job.time.now_ms() + 201)
    assert around.output.elements[1:] == [StreamRecord("b", 50), Watermark(49)]
    job.close()


def test_a_reader_without_splits_is_idle_after_the_same_time_as_a_split():
    source = Manual()
    strategy = by_timestamp().with_idleness(Duration.of_millis(1_000))
    job = Job(source, strategy, settings=ExecutionSettings(auto_watermark_interval_ms=100))
    output = job.subtasks[0].output
    job.time.advance_to(1_000)
    assert output.elements == []
    job.time.advance_to(1_200)
    assert output.elements == [WatermarkStatus.IDLE]
    source.reader.elements += [("s", "a", 10)]
    job.turn()
    job.time.advance_to(1_400)
    assert output.elements[1:] == [StreamRecord("a", 10), WatermarkStatus.ACTIVE, Watermark(9)]
    source.reader.elements += [("s", "release", None)]
    job.turn()
    before = len(output.elements)
    job.time.advance_to(5_000)
    assert output.elements[before:] == [WatermarkStatus.IDLE], "once"
    job.close()


def test_without_idleness_a_reader_without_splits_says_nothing():
    job = Job(Manual(), by_timestamp(), settings=ExecutionSettings(auto_watermark_interval_ms=100))
    job.time.advance_to(100_000)
    assert job.subtasks[0].output.elements == []
    job.close()


def test_the_last_watermarks_are_emitted_at_the_end():
    source = Manual()
    job = Job(source, by_timestamp())
    source.reader.elements += [("s", "a", 10)]
    source.reader.is_at_end = True
    assert job.turn() == InputStatus.END_OF_INPUT
    assert job.subtasks[0].output.elements == [StreamRecord("a", 10), Watermark(9)]
    job.close()


def test_without_a_strategy_the_reader_s_own_timestamps_and_watermarks_go_on():
    source = Manual()
    job = Job(source, WatermarkStrategy.no_watermarks())
    source.reader.elements += [("s", "a", 10), "b"]
    job.turn()
    assert job.subtasks[0].output.elements == [StreamRecord("a", 10), StreamRecord("b")]
    job.time.advance_to(1_000)
    assert len(job.subtasks[0].output.elements) == 2
    job.close()


def test_sources_emit_latency_markers():
    job = Job(Manual(), settings=ExecutionSettings(latency_tracking_interval_ms=100))
    job.time.advance_to(250)
    assert [type(each) for each in job.subtasks[0].output.elements] == [LatencyMarker] * 3
    job.close()


def multiplexer():
    around = Surroundings()
    return WatermarkMultiplexer(SourceWatermarks(around.output)), around.output


def test_a_new_split_never_turns_event_time_back():
    splits, output = multiplexer()
    splits.register("s").emit_watermark(50)
    late = splits.register("t")
    late.emit_watermark(10)
    late.emit_watermark(60)
    assert output.elements == [Watermark(50)]
    splits.unregister("s")
    assert output.elements == [Watermark(50), Watermark(60)]
    with pytest.raises(ValueError, match="split 't' has an output already"):
        splits.register("t")


# Alignment


def test_the_slowest_member_decides_how_far_all_may_go():
    group = AlignmentGroup(max_drift_ms=100)
    assert group.report("a", 1_000) == 1_100
    assert group.report("b", 500) == 600
    assert group.report("a", 1_200) is None
    assert group.report("b", 700) == 800
    assert group.leave("b") == 1_300
    assert group.leave("a") == MAX
    assert group.leave("a") is None


def test_an_idle_member_holds_nobody_back():
    group = AlignmentGroup(max_drift_ms=100)
    group.report("a", 1_000)
    group.report("b", 0)
    assert group.report("b", MAX) == 1_100


def test_the_only_split_is_never_paused_for_itself():
    alignment = ReaderAlignment()
    alignment.limit = 10
    assert alignment.changes({"s": 100}) == ([], [])
    assert alignment.changes({"s": 100, "t": 5}) == (["s"], [])
    assert alignment.changes({"s": 100, "t": 5}) == ([], [])
    assert alignment.changes({"t": 5}) == ([], [])


def test_a_source_that_is_ahead_waits_for_another_of_its_group():
    time, store = ManualTime(), CoordinatorStore()
    strategy = by_timestamp().with_watermark_alignment("g", Duration.of_millis(100), Duration.of_millis(50))
    settings = ExecutionSettings(auto_watermark_interval_ms=10)
    fast_source, slow_source = Manual(), Manual()
    fast = Job(fast_source, strategy, store=store, time=time, settings=settings)
    slow = Job(slow_source, strategy, store=store, time=time, settings=settings)
    fast_source.reader.elements += [("s", 1, 1_001)]
    slow_source.reader.elements += [("s", 1, 101)]
    fast.turn(), slow.turn()
    time.advance_to(60)
    fast_source.reader.elements += [("s", 2, 1_002), ("s", 3, 1_003)]
    assert fast.turn() == InputStatus.NOTHING_AVAILABLE
    operator = fast.subtasks[0].operator
    assert operator.state is SourceState.WAITING_FOR_ALIGNMENT and operator.is_waiting
    assert fast.subtasks[0].output.values == [1]
    assert slow.turn() == InputStatus.NOTHING_AVAILABLE and not slow.subtasks[0].operator.is_waiting
    slow_source.reader.elements += [("s", 2, 951)]
    slow.turn()
    fast.subtasks[0].mailbox.woken.clear()
    time.advance_to(200)
    fast.turn()
    assert fast.subtasks[0].mailbox.woken.is_set()
    assert fast.subtasks[0].output.values == [1, 2, 3]
    slow_source.reader.is_at_end = True  # whoever has ended holds nobody back
    slow.turn()
    fast_source.reader.elements += [("s", 4, 99_999)]
    time.advance_to(300)
    fast.turn()
    assert fast.subtasks[0].output.values == [1, 2, 3, 4]
    fast.close(), slow.close()


def test_a_split_that_is_ahead_is_paused_and_resumed():
    time, store = ManualTime(), CoordinatorStore()
    strategy = by_timestamp().with_watermark_alignment("g", Duration.of_millis(100), Duration.of_millis(50))
    source = Manual()
    job = Job(source, strategy, store=store, time=time, settings=ExecutionSettings(auto_watermark_interval_ms=10))
    source.reader.elements += [("s", 1, 1_001), ("t", 1, 101)]
    job.turn()
    time.advance_to(60)
    job.turn()
    assert source.reader.paused == {"s"} and not job.subtasks[0].operator.is_waiting
    source.reader.elements += [("t", 2, 951)]
    job.turn()
    time.advance_to(200)
    job.turn()
    assert source.reader.paused == set()
    job.close()


class CannotPause(ManualReader):
    pause_or_resume_splits = SourceReader.pause_or_resume_splits


@pytest.mark.parametrize("is_allowed", [False, True])
def test_a_reader_that_cannot_pause_a_split_says_what_to_set(is_allowed):
    parameters = {"pipeline.watermark-alignment.allow-unaligned-source-splits": "true"} if is_allowed else {}
    settings = ExecutionSettings(auto_watermark_interval_ms=10, job_parameters=parameters)
    strategy = by_timestamp().with_watermark_alignment("g", Duration.of_millis(100), Duration.of_millis(50))
    source = Manual()
    source.reader_class = CannotPause
    job = Job(source, strategy, settings=settings)
    source.reader.elements += [("s", 1, 1_001), ("t", 1, 101)]
    job.turn()
    job.time.advance_to(60)
    if is_allowed:
        job.turn()
    else:
        with pytest.raises(NotImplementedError, match="allow-unaligned-source-splits"):
            job.turn()
    job.close()


class SlowToAnnounce:
    """A coordinator whose thread is held up on its way to the readers."""

    def __init__(self):
        self.limits, self.begun, self.go_on = [], threading.Event(), threading.Event()

    def announce(self, limit):
        if limit != MAX:
            self.begun.set()
            self.go_on.wait(0.2)
        self.limits.append(limit)


def test_an_older_limit_never_comes_after_a_newer_one():
    store, slow = CoordinatorStore(), SlowToAnnounce()
    store.join(slow, WatermarkAlignment("group", 100, 1_000))
    first = threading.Thread(target=store.report, args=("group", "a", 5))
    first.start()
    assert slow.begun.wait(10)
    store.report("group", "a", None)  # it has ended: all may go as far as they like
    slow.go_on.set()
    first.join(10)
    assert slow.limits == [105, MAX]


def test_a_look_for_splits_that_hangs_keeps_the_end_waiting_only_so_long(monkeypatch, caplog):
    monkeypatch.setattr(source_coordinator, "CLOSE_WAIT_S", 0.01)
    begun, may_answer = threading.Event(), threading.Event()

    class Looks(ManualEnumerator):
        def start(self):
            self.context.call_async(self.look, lambda result, error: None)

        def look(self):
            begun.set()
            may_answer.wait(30)

    class LooksAround(Manual):
        def create_enumerator(self, context):
            return Looks(context)

    coordinator = SourceOperatorFactory(LooksAround(), None).create_coordinator(
        1, SystemClock(), source_coordinator.CoordinatorStore(), lambda error: None
    )
    coordinator.start()
    assert begun.wait(30)
    coordinator.close()
    assert "LooksAround has not come back in 0.01 s" in caplog.text
    may_answer.set()
    for thread in threading.enumerate():
        if thread.name == "flinkbuf source coordinator":
            thread.join(10)


# Checkpoints that an enumerator asks for


class ReaderUntilTold(SourceReader):
    """Ends when it is told that no more splits follow."""

    def __init__(self):
        self.status = InputStatus.NOTHING_AVAILABLE

    def poll_next(self, output):
        return self.status

    def notify_no_more_splits(self):
        self.status = InputStatus.END_OF_INPUT


class EndsAfterACheckpoint(SplitEnumerator):
    """Asks for a checkpoint when its reader comes, and ends the source when one is complete."""

    def __init__(self, context):
        self.context = context

    def add_reader(self, subtask_index):
        self.context.request_checkpoint()

    def notify_checkpoint_complete(self, checkpoint_id):
        self.context.call(lambda: self.context.signal_no_more_splits(0))


class SourceUntilCheckpoint(Source):
    boundedness = Boundedness.CONTINUOUS_UNBOUNDED

    def create_enumerator(self, context):
        return EndsAfterACheckpoint(context)

    def create_reader(self, context):
        return ReaderUntilTold()


def test_an_enumerator_gets_the_checkpoint_that_it_asks_for():
    env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    env.enable_checkpointing(3_600_000)
    stream = env.from_source(SourceUntilCheckpoint(), WatermarkStrategy.no_watermarks(), "until a checkpoint", "int")
    assert list(stream.execute_and_collect()) == []


def test_a_coordinator_that_is_closed_calls_nothing_more():
    coordinator = Job(SourceUntilCheckpoint()).coordinator
    called = []
    coordinator.call(lambda: called.append("open"))
    coordinator.close()
    coordinator.call(lambda: called.append("closed"))
    assert called == ["open"]
