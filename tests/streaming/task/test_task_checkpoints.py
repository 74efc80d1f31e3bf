"""Checkpoints of real tasks between real gates. Flink: StreamTaskTest, SubtaskCheckpointCoordinatorTest,
StreamTaskFinalCheckpointsTest, CheckpointedInputGateTest."""

import random
import threading
import time
from dataclasses import replace

import pytest
from support.worlds.checkpointed_tasks import (
    CHECKPOINTING,
    OPTIONS,
    CheckpointDeclined,
    CountingSink,
    EndlessSource,
    EndOfDataReached,
    Group,
)
from support.worlds.stream_tasks import END, InputConfig, ListSink, chain_of, edge, operator

import flinkbuf as fb
from flinkbuf._core.operators.stream_operator import StreamOperator
from flinkbuf.checkpoints.handles import SubtaskState
from flinkbuf.checkpoints.options import CheckpointOptions
from flinkbuf.streaming.chain.operator_config import ExecutionSettings
from flinkbuf.streaming.checkpoint import snapshot_runner
from flinkbuf.streaming.checkpoint.task_snapshot import TaskStateSnapshot
from flinkbuf.streaming.task.task_events import CheckpointAcknowledged
from flinkbuf.streaming.task.task_state import TaskState

LONG = fb.Types.LONG()
INPUT = (InputConfig(LONG, (0,)),)
SUSPEND = CheckpointOptions("SAVEPOINT_SUSPEND")
TERMINATE = CheckpointOptions("SAVEPOINT_TERMINATE")


@pytest.fixture
def pool():
    return fb.NetworkBufferPool(256, segment_size=512)


class Passing(StreamOperator):
    """Passes records on and counts them."""

    def __init__(self):
        self.count = 0

    def initialize_state(self, snapshot):
        self.count = snapshot or 0

    def snapshot_state(self, checkpoint_id):
        return self.count

    def process_element(self, value, timestamp):
        self.count += 1
        self.output.collect(value, timestamp)


def pipeline(pool, taken, *sources, settings=CHECKPOINTING, pause_s=0.0, restore=None):
    """Sources, a middle task and a sink, one behind the other."""
    group, restore = Group(), restore or {}
    first = [fb.ResultPartition(pool, 1) for _ in sources]
    second = fb.ResultPartition(pool, 1)
    for index, (make, partition) in enumerate(zip(sources, first, strict=True)):
        name = f"source {index}"
        group.add_source(partition, make, name, settings=settings, restore=restore.get(name))
    middle = chain_of(operator("middle", Passing, network_edges=(edge(),)), inputs=INPUT, partition_count=1)
    gate = fb.InputGate([(partition, 0) for partition in first])
    group.add(middle, [gate], [second], "middle", settings, restore=restore.get("middle"))
    sink = chain_of(operator("sink", lambda: CountingSink(taken, pause_s)), inputs=INPUT)
    group.add(sink, [fb.InputGate([(second, 0)])], [], "sink", settings, restore=restore.get("sink"))
    return group


# ---- a checkpoint is a cut ----------------------------------------------------------------------------------


@pytest.mark.parametrize("is_exactly_once", [True, False])
def test_each_checkpoint_cuts_all_tasks_between_the_same_records(pool, is_exactly_once):
    settings = replace(CHECKPOINTING, is_exactly_once=is_exactly_once)
    options = CheckpointOptions(is_exactly_once=is_exactly_once)
    group = pipeline(pool, [], EndlessSource, EndlessSource, EndlessSource, settings=settings)
    with group:
        for number in range(1, 31):
            group.trigger(number, options)
            group.wait_for_all(number)
            group.complete(number)
        for number in range(1, 31):
            emitted = sum(group.state_of(f"source {index}", number) for index in range(3))
            counted = {group.state_of(name, number) for name in ("middle", "sink")}
            if is_exactly_once:
                assert counted == {emitted}
            else:
                assert min(counted) >= emitted  # some of the next ones count as well
    assert not group.told(CheckpointDeclined)


def test_checkpoints_that_follow_each_other_at_once_are_each_a_cut_or_given_up(pool):
    group = pipeline(pool, [], EndlessSource, EndlessSource)
    with group:
        for number in range(1, 61):
            group.trigger(number)
        group.wait_for_all(60)
    taken = sorted(group.snapshots["sink"].snapshots)
    assert taken[-1] == 60 and taken == sorted(set(taken))
    for number in taken:
        if number in group.snapshots["source 0"].snapshots and number in group.snapshots["source 1"].snapshots:
            emitted = sum(group.state_of(f"source {index}", number) for index in range(2))
            assert group.state_of("sink", number) == emitted


def test_a_job_goes_on_from_a_checkpoint_exactly_where_it_was(pool):
    first, second = [], []
    group = pipeline(pool, first, lambda: EndlessSource(400), lambda: EndlessSource(300))
    with group:
        group.trigger(1)
        group.wait_for_all(1)
    restore = {name: kept.snapshots[1] for name, kept in group.snapshots.items()}
    counted = restore["sink"].operators[operator("sink", None).operator_id]
    again = pipeline(
        pool,
        second,
        lambda: EndlessSource(400),
        lambda: EndlessSource(300),
        settings=ExecutionSettings(),
        restore=restore,
    )
    again.start()
    again.join()
    before = [item.value for item in first if isinstance(item, fb.types.StreamRecord)][:counted]
    after = [item.value for item in second if isinstance(item, fb.types.StreamRecord)]
    assert sorted(before + after) == sorted([*range(1, 401), *range(1, 301)])


def test_what_a_task_says_of_its_part(pool):
    group = pipeline(pool, [], EndlessSource, EndlessSource)
    with group:
        group.trigger(1, tasks=group.sources[:1])
        group.wait_for_all(1, 1)
        time.sleep(0.05)
        group.trigger(1, tasks=group.sources[1:])
        group.wait_for_all(1)
    by_name = {event.info.task_name: event.metrics for event in group.told(CheckpointAcknowledged, 1)}
    # The clock stands still in these tests, so only bytes tell that the middle one waited.
    assert by_name["middle"].bytes_processed_during_alignment > 0
    assert by_name["sink"].bytes_processed_during_alignment == 0
    assert all(metrics.sync_ms >= 0 and metrics.async_ms >= 0 for metrics in by_name.values())
    assert not any(metrics.is_unaligned for metrics in by_name.values())


# ---- the asynchronous part ----------------------------------------------------------------------------------


class HeldWriter:
    """Writes when a test lets it, and then what the test says."""

    def __init__(self):
        self.begun, self.go, self.error, self.cancelled = threading.Event(), threading.Event(), None, False

    def write(self, snapshot, *, storage, options, settings, is_cancelled):
        self.begun.set()
        assert self.go.wait(20)
        self.cancelled = is_cancelled()
        if self.error is not None:
            raise self.error
        return SubtaskState(is_finished=snapshot.is_finished)


def lone_source(group, held, make=EndlessSource, **options):
    config = chain_of(operator("source", make, is_source=True), operator("sink", lambda: ListSink([])))
    return group.add(config, write_snapshot=held.write, **options)


def test_a_task_acknowledges_when_its_state_is_written_and_goes_on_meanwhile():
    group, held = Group(), HeldWriter()
    task = lone_source(group, held)
    with group:
        group.trigger(1)
        assert held.begun.wait(10)
        before = task.metrics.operators
        deadline = time.monotonic() + 10
        while task.metrics.operators == before:
            assert time.monotonic() < deadline, "the task has stopped"
        assert not group.told(CheckpointAcknowledged)
        held.go.set()
        group.wait_for_all(1)


def test_a_failing_asynchronous_part_is_declined_and_the_task_goes_on():
    group, held = Group(), HeldWriter()
    task = lone_source(group, held)
    held.error = OSError(28, "No space left on device")
    held.go.set()
    with group:
        group.trigger(1)
        group.wait_until(lambda: group.told(CheckpointDeclined))
        (declined,) = group.told(CheckpointDeclined)
        assert (declined.checkpoint_id, declined.reason) == (1, "CHECKPOINT_ASYNC_EXCEPTION")
        assert declined.error is held.error
        held.error = None
        group.trigger(2)
        group.wait_for_all(2)
        assert task.state is TaskState.RUNNING


def test_a_failing_synchronous_part_fails_the_task():
    class Failing(ListSink):
        def snapshot_state(self, checkpoint_id):
            raise LookupError("no state")

    group = Group()
    failing = operator("failing", lambda: Failing([]))
    task = group.add(chain_of(operator("source", EndlessSource, is_source=True), operator("pass", Passing), failing))
    group.start()
    group.trigger(1)
    group.join()
    assert task.state is TaskState.FAILED and isinstance(task.error, LookupError)
    assert task.error.operator_name == "failing"
    assert not group.told(CheckpointAcknowledged)


def test_state_that_was_taken_before_another_operator_failed_is_let_go():
    released = []

    class Kept(ListSink):
        def snapshot_state(self, checkpoint_id):
            return type("Taken", (), {"release": lambda self: released.append(1)})()

    class Failing(EndlessSource):
        def snapshot_state(self, checkpoint_id):
            raise LookupError("no state")

    group = Group()
    task = group.add(chain_of(operator("source", Failing, is_source=True), operator("kept", lambda: Kept([]))))
    group.start()
    group.trigger(1)
    group.join()
    assert task.state is TaskState.FAILED and released == [1]


def test_what_is_aborted_while_it_is_written_is_not_acknowledged():
    group, held = Group(), HeldWriter()
    lone_source(group, held)
    with group:
        group.trigger(1)
        assert held.begun.wait(10)
        group.abort(1)
        held.begun.clear()
        group.trigger(2)
        assert held.begun.wait(10), "another thread writes the next one while the first hangs"
        held.go.set()
        group.wait_for_all(2)
    assert not group.told(CheckpointAcknowledged, 1) and not group.told(CheckpointDeclined)


def test_a_cancelled_task_does_not_wait_for_a_storage_that_hangs(monkeypatch, caplog):
    monkeypatch.setattr(snapshot_runner, "CLOSE_TIMEOUT_S", 0.05)
    group, held = Group(), HeldWriter()
    task = lone_source(group, held)
    group.start()
    group.trigger(1)
    assert held.begun.wait(10)
    task.cancel()
    group.join()
    assert task.state is TaskState.CANCELED and "hang in the storage" in caplog.text
    held.go.set()
    assert not group.told(CheckpointAcknowledged)


def test_a_task_ends_only_when_its_state_is_written():
    group, held, ready = Group(), HeldWriter(), threading.Event()

    class Slow(EndlessSource):
        def emit_next(self, output, max_records):
            assert ready.wait(10)
            return super().emit_next(output, max_records)

    task = lone_source(group, held, lambda: Slow(5), settings=ExecutionSettings())
    group.start()
    group.trigger(1)
    ready.set()
    assert held.begun.wait(10)
    time.sleep(0.05)
    assert not task.is_over
    held.go.set()
    group.join()
    assert task.state is TaskState.FINISHED and group.told(CheckpointAcknowledged, 1)


# ---- giving up ----------------------------------------------------------------------------------------------


def test_an_aborted_checkpoint_does_not_hold_channels_back(pool):
    taken = []
    group = pipeline(pool, taken, EndlessSource, lambda: EndlessSource(pause_s=0.001))
    with group:
        group.trigger(1, tasks=group.sources[:1])
        group.wait_for_all(1, 1)
        group.abort(1)
        group.trigger(2)
        group.wait_for_all(2)
        group.trigger(1, tasks=group.sources[1:])  # too late: it is not even sent
        group.trigger(3)
        group.wait_for_all(3)
    assert [event.checkpoint_id for event in group.told(CheckpointDeclined)] == []
    assert set(group.snapshots["sink"].snapshots) == {2, 3}


def test_who_sees_a_newer_barrier_gives_the_older_one_up_with_all_behind(pool):
    group = pipeline(pool, [], EndlessSource, EndlessSource)
    with group:
        for older in range(1, 40, 2):  # again where the newer barrier was first on its way
            group.trigger(older, tasks=group.sources[:1])
            group.wait_for_all(older, 1)
            group.trigger(older + 1, tasks=group.sources[1:])
            group.trigger(older + 1, tasks=group.sources[:1])
            group.wait_for_all(older + 1)
            if len(group.told(CheckpointDeclined, older)) == 2:
                break
    reasons = {event.info.task_name: event.reason for event in group.told(CheckpointDeclined)}
    assert reasons == {
        "middle": "CHECKPOINT_DECLINED_SUBSUMED",
        "sink": "CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER",
    }


@pytest.mark.parametrize("seed", range(8))
def test_random_triggers_aborts_and_completions_leave_a_job_that_takes_checkpoints(pool, seed):
    chance = random.Random(seed)
    group = pipeline(pool, [], EndlessSource, EndlessSource)
    with group:
        for number in range(1, 40):
            chosen = [task for task in group.sources if chance.random() < 0.8]
            group.trigger(number, tasks=chosen)
            if chance.random() < 0.5:
                group.abort(chance.randint(max(number - 2, 1), number))
            if chance.random() < 0.3:
                time.sleep(0.002)
        group.trigger(100)
        group.wait_for_all(100)
        assert group.state_of("sink", 100) == sum(group.state_of(f"source {index}", 100) for index in range(2))
        assert all(task.state is TaskState.RUNNING for task in group.tasks)


# ---- the end ------------------------------------------------------------------------------------------------


def test_all_tasks_of_a_bounded_job_wait_for_a_checkpoint_after_their_end(pool):
    taken = []
    group = pipeline(pool, taken, lambda: EndlessSource(20), lambda: EndlessSource(30)).start()
    group.wait_until(lambda: len(group.told(EndOfDataReached)) == 4)
    assert taken[-1] == END
    group.trigger(1)
    group.wait_for_all(1)
    assert all(event.state.is_finished for event in group.told(CheckpointAcknowledged, 1))
    assert not any(task.is_over for task in group.tasks)
    group.complete(1)
    group.join()
    assert {task.state for task in group.tasks} == {TaskState.FINISHED}


def test_a_checkpoint_before_the_end_is_not_the_last_one(pool):
    group = Group()
    ready = threading.Event()

    class Waiting(EndlessSource):
        def emit_next(self, output, max_records):
            if not ready.is_set():
                time.sleep(0.001)
                return 0
            return super().emit_next(output, max_records)

    task = lone_source(group, held := HeldWriter(), lambda: Waiting(5))
    held.go.set()
    group.start()
    group.trigger(1)
    group.wait_for_all(1)
    ready.set()
    group.wait_until(lambda: group.told(EndOfDataReached))
    group.complete(1)
    time.sleep(0.05)
    assert not task.is_over
    group.trigger(2)
    group.wait_for_all(2)
    group.abort(2)
    group.trigger(3)
    group.wait_for_all(3)
    group.complete(3)
    group.join()
    assert task.state is TaskState.FINISHED
    assert [event.state.is_finished for event in group.told(CheckpointAcknowledged)] == [False, True, True]


def test_a_task_whose_sources_have_finished_takes_a_checkpoint_when_it_is_triggered(pool):
    """Its channels are open, but no barrier will come: nobody before it runs."""
    group = Group()
    first, second = fb.ResultPartition(pool, 1), fb.ResultPartition(pool, 1)
    gate = fb.InputGate([(first, 0), (second, 0)])
    sink = group.add(chain_of(operator("sink", lambda: CountingSink([])), inputs=INPUT), [gate], name="sink")
    with group:
        group.trigger(1, tasks=[sink])
        group.wait_for_all(1)
        assert group.state_of("sink", 1) == 0
        for partition in (first, second):  # they end while it waits for nothing
            with fb.RecordWriter(partition, fb.Types.STREAM_ELEMENT(LONG), "forward") as writer:
                writer.emit(1)
        group.wait_until(lambda: group.told(EndOfDataReached))
        group.trigger(2, tasks=[sink])
        group.wait_for_all(2)
        group.complete(2)
        group.join()
    assert sink.state is TaskState.FINISHED and group.state_of("sink", 2) == 2


# ---- stopping with a savepoint ------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [SUSPEND, TERMINATE], ids=["suspend", "terminate"])
@pytest.mark.parametrize("settings", [CHECKPOINTING, ExecutionSettings()], ids=["checkpoints", "none"])
def test_a_job_ends_with_the_savepoint_it_was_stopped_with(pool, options, settings):
    taken = []
    group = pipeline(pool, taken, EndlessSource, EndlessSource, settings=settings).start()
    group.trigger(1, options)
    group.wait_for_all(1)
    time.sleep(0.02)
    assert not any(task.is_over for task in group.tasks)
    group.complete(1)
    group.join()
    assert {task.state for task in group.tasks} == {TaskState.FINISHED}
    is_drain = options is TERMINATE
    records = [item for item in taken if isinstance(item, fb.types.StreamRecord)]
    assert (END in taken) == is_drain
    emitted = sum(group.state_of(f"source {index}", 1) for index in range(2))
    assert len(records) == emitted == group.state_of("sink", 1), "all of it is in the savepoint, and nothing else"
    assert {event.state.is_finished for event in group.told(CheckpointAcknowledged, 1)} == {is_drain}
    assert {kept.options[1].kind for kept in group.snapshots.values()} == {options.kind}


def test_a_job_that_was_stopped_goes_on_from_its_savepoint(pool):
    first, second = [], []
    group = pipeline(pool, first, lambda: EndlessSource(5000), lambda: EndlessSource(3000)).start()
    group.trigger(1, SUSPEND)
    group.wait_for_all(1)
    group.complete(1)
    group.join()
    restore = {name: kept.snapshots[1] for name, kept in group.snapshots.items()}
    again = pipeline(
        pool,
        second,
        lambda: EndlessSource(5000),
        lambda: EndlessSource(3000),
        settings=ExecutionSettings(),
        restore=restore,
    ).start()
    again.join()
    values = [item.value for item in first + second if isinstance(item, fb.types.StreamRecord)]
    assert sorted(values) == sorted([*range(1, 5001), *range(1, 3001)])


def test_a_stop_that_fails_fails_the_tasks(pool):
    group = pipeline(pool, [], EndlessSource, EndlessSource).start()
    group.trigger(1, SUSPEND)
    group.wait_for_all(1)
    group.abort(1)
    group.join()
    failed = [task for task in group.tasks if task.state is TaskState.FAILED]
    assert failed and all("savepoint 1" in str(task.error) for task in failed)
    assert {task.state for task in group.tasks} <= {TaskState.FAILED, TaskState.CANCELED}


def test_a_source_at_its_end_takes_the_stopping_savepoint_at_once(pool):
    group = pipeline(pool, [], lambda: EndlessSource(10), EndlessSource).start()
    group.wait_until(lambda: len(group.told(EndOfDataReached)) == 1)
    group.trigger(1, SUSPEND)
    group.wait_for_all(1)
    group.complete(1)
    group.join()
    assert {task.state for task in group.tasks} == {TaskState.FINISHED}
    finished = {event.info.task_name: event.state.is_finished for event in group.told(CheckpointAcknowledged, 1)}
    assert finished == {"source 0": True, "source 1": False, "middle": False, "sink": False}


# ---- restored when all was finished -------------------------------------------------------------------------


def test_a_finished_part_of_a_job_says_its_end_again_and_takes_part_in_checkpoints(pool):
    """The source and the middle had finished, the sink has not."""
    made, taken = [], []
    group = Group()
    first, second = fb.ResultPartition(pool, 1), fb.ResultPartition(pool, 1)
    finished = TaskStateSnapshot(3, is_finished=True)
    group.add_source(first, lambda: made.append(1), restore=finished)
    middle = chain_of(
        operator("middle", lambda: made.append(2), network_edges=(edge(),)), inputs=INPUT, partition_count=1
    )
    group.add(middle, [fb.InputGate([(first, 0)])], [second], "middle", restore=finished)
    sink = chain_of(operator("sink", lambda: CountingSink(taken)), inputs=INPUT)
    group.add(sink, [fb.InputGate([(second, 0)])], [], "sink")
    group.start()
    group.wait_until(lambda: len(group.told(EndOfDataReached)) == 3)
    group.trigger(4)
    group.wait_for_all(4)
    states = {event.info.task_name: event.state for event in group.told(CheckpointAcknowledged, 4)}
    assert all(state.is_finished for state in states.values())
    assert dict(group.snapshots["middle"].snapshots[4].operators) == {}
    group.complete(4)
    group.join()
    assert {task.state for task in group.tasks} == {TaskState.FINISHED}
    assert (made, taken) == ([], [END])


def test_a_record_for_a_finished_task_is_an_error(pool):
    partition = fb.ResultPartition(pool, 1)
    group = Group()
    sink = chain_of(operator("sink", lambda: CountingSink([])), inputs=INPUT)
    task = group.add(sink, [fb.InputGate([(partition, 0)])], restore=TaskStateSnapshot(3, is_finished=True))
    group.add_source(partition, lambda: EndlessSource(3))
    with group:
        group.threads[0].join(10)
    assert task.state is TaskState.FAILED and "finished before the checkpoint" in str(task.error)


# ---- warnings -----------------------------------------------------------------------------------------------


def test_a_slow_synchronous_part_is_told_with_its_operator(caplog):
    class Slow(ListSink):
        def snapshot_state(self, checkpoint_id):
            ticks[0] += 900_000_000

    ticks, group = [0], Group()
    chain = chain_of(operator("source", EndlessSource, is_source=True), operator("slow one", lambda: Slow([])))
    group.add(chain, ticks=lambda: ticks[0])
    with group:
        group.trigger(1)
        group.wait_for_all(1)
    assert "the state of slow one took 900 ms" in caplog.text
    (event,) = group.told(CheckpointAcknowledged)
    assert event.metrics.sync_ms == 900


def test_options_are_those_of_the_trigger(pool):
    group = pipeline(pool, [], EndlessSource)
    options = CheckpointOptions("FULL_CHECKPOINT", "/somewhere/chk-1")
    with group:
        group.trigger(1, options)
        group.wait_for_all(1)
    assert {kept.options[1] for kept in group.snapshots.values()} == {options}
    assert options != OPTIONS
