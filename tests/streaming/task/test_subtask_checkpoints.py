"""A task's part of checkpoints, without a task. Flink: SubtaskCheckpointCoordinatorTest."""

import pytest

from flinkbuf._core.ground.wakeup import TaskBell
from flinkbuf._core.task.task_mailbox import TaskMailbox
from flinkbuf.checkpoints.handles import SubtaskState
from flinkbuf.errors import state_refused
from flinkbuf.network.events import AlignmentType, CancelCheckpointMarker, CheckpointBarrier, SnapshotType
from flinkbuf.streaming.chain.operator_config import ExecutionSettings, OperatorConfig, TaskInfo
from flinkbuf.streaming.checkpoint.barrier_actions import TakeCheckpoint
from flinkbuf.streaming.task.subtask_checkpoints import MAX_ABORTED, SubtaskCheckpoints, TaskProgress
from flinkbuf.streaming.task.task_events import CheckpointAcknowledged, CheckpointDeclined
from flinkbuf.streaming.time.processing_time import TaskTimerService
from flinkbuf.testing import ManualClock


class Bench:
    """A chain, a storage and channels that write down what is done to them, in one story."""

    def __init__(self, in_flight=None):
        self.story, self.events, self.errors, self.clock = [], [], [], ManualClock()
        self.mailbox = TaskMailbox(TaskBell())
        self.timers = TaskTimerService(self.clock, self.mailbox)
        self.progress = TaskProgress(is_running=True)
        self.failure = None  # of its storage
        info = TaskInfo("job", "a job", "vertex", "task")
        self.checkpoints = SubtaskCheckpoints(
            info,
            self,
            self.broadcast,
            self.progress,
            self,
            self.events.append,
            self.timers,
            lambda: 0,
            self.errors.append,
        )
        self.checkpoints.in_flight = in_flight

    # the chain
    def prepare_snapshot_pre_barrier(self, checkpoint_id):
        self.story.append(("prepare", checkpoint_id))

    def snapshot_state(self, checkpoint_id):
        self.story.append(("state", checkpoint_id))
        yield OperatorConfig("0" * 32, "operator", object), "its state"

    def notify(self, method, checkpoint_id):
        self.story.append((method.rpartition("_")[2], checkpoint_id))

    # its outputs
    def broadcast(self, event):
        kind = "cancel" if isinstance(event, CancelCheckpointMarker) else "barrier"
        self.story.append((kind, event.checkpoint_id))

    # its storage
    def write(self, snapshot, options, is_cancelled):
        if self.failure is not None:
            raise self.failure
        self.written = snapshot
        return SubtaskState(is_finished=snapshot.is_finished)

    def discard(self, state):
        self.story.append(("discard",))

    def take(self, checkpoint_id, alignment_ms=0, **options):
        barrier = CheckpointBarrier(checkpoint_id, 0, **options)
        snapshot = self.checkpoints.take(TakeCheckpoint(barrier, alignment_ms=alignment_ms))
        self.checkpoints.runner.wait_until_idle()
        return snapshot

    def told(self, kind):
        return [event.checkpoint_id for event in self.events if isinstance(event, kind)]

    def advance(self, now_ms):
        self.clock.advance_to(now_ms)
        self.timers.post_due()
        while (mail := self.mailbox.try_take(0)) is not None:
            mail.action()
        self.checkpoints.runner.wait_until_idle()


@pytest.fixture
def bench():
    bench = Bench()
    yield bench
    bench.checkpoints.close()


def test_the_barrier_goes_out_before_the_state_is_taken(bench):
    assert bench.take(1).operators == {"0" * 32: "its state"}
    assert bench.story == [("prepare", 1), ("barrier", 1), ("state", 1)]
    assert bench.told(CheckpointAcknowledged) == [1]


def test_an_id_that_is_not_above_the_last_one_is_dropped(bench):
    bench.take(5)
    assert bench.take(5) is None and bench.take(3) is None
    assert bench.told(CheckpointAcknowledged) == [5] and not bench.told(CheckpointDeclined)


def test_a_state_that_cannot_be_written_fails_the_task_and_another_error_the_checkpoint_only(bench):
    errors = [state_refused(TypeError("a text"), "the state 'v' of the key 1"), TypeError("too much"), OSError("full")]
    for checkpoint_id, error in enumerate(errors, 1):
        bench.failure = error
        bench.take(checkpoint_id)
    assert bench.errors == errors[:1] and str(errors[0]) == "the state 'v' of the key 1 cannot be saved: a text"
    assert bench.told(CheckpointDeclined) == [2, 3]


def test_what_was_aborted_before_it_came_is_cancelled_for_those_behind(bench):
    bench.checkpoints.abort(2, 0)
    bench.checkpoints.abort(2, 0)
    assert bench.take(2) is None
    assert bench.story == [("aborted", 2), ("aborted", 2), ("cancel", 2)]
    assert bench.take(3) is not None and not bench.told(CheckpointDeclined)


def test_only_so_many_aborted_ones_are_remembered(bench):
    for checkpoint_id in range(1, MAX_ABORTED + 2):
        bench.checkpoints.abort(checkpoint_id, 0)
    assert bench.take(1) is not None, "the oldest is forgotten"
    assert bench.take(2) is None


def test_who_does_not_run_declines(bench):
    bench.progress.is_running = False
    assert bench.take(1) is None
    assert bench.events[0].reason == "CHECKPOINT_DECLINED_TASK_NOT_READY" and bench.story == [("cancel", 1)]


def test_one_that_is_given_up_is_declined_once_and_never_taken_later(bench):
    bench.checkpoints.give_up(4, "CHECKPOINT_DECLINED_SUBSUMED")
    assert bench.take(4) is None
    assert bench.told(CheckpointDeclined) == [4] and bench.story == [("cancel", 4)]
    bench.checkpoints.abort(6, 0)
    bench.checkpoints.give_up(6, "CHECKPOINT_SUBSUMED")
    assert bench.told(CheckpointDeclined) == [4], "who aborts it need not be told"


def test_completions_are_told_once_and_a_missed_one_comes_before_an_abort(bench):
    bench.checkpoints.complete(3)
    bench.checkpoints.complete(2)
    bench.checkpoints.abort(5, latest_completed_id=4)
    assert bench.story == [("complete", 3), ("complete", 4), ("aborted", 5)]
    assert bench.checkpoints.completed_id == 4


def test_the_last_checkpoint_is_the_first_one_after_the_end(bench):
    bench.take(1)
    bench.checkpoints.complete(1)
    assert not bench.checkpoints.is_last_one_complete
    bench.progress.has_ended_data = bench.progress.is_drained = True
    assert bench.take(2).is_finished
    bench.take(3)
    bench.checkpoints.complete(3)
    assert bench.checkpoints.is_last_one_complete and bench.checkpoints.final_id == 2


def test_a_stopping_savepoint_is_the_last_one_and_its_failure_the_tasks(bench):
    bench.take(1, snapshot_type=SnapshotType.SAVEPOINT_SUSPEND_CANONICAL)
    assert not bench.checkpoints.is_last_one_complete
    with pytest.raises(RuntimeError, match="savepoint 1.*has failed"):
        bench.checkpoints.abort(1, 0)
    bench.checkpoints.complete(1)
    assert bench.checkpoints.is_last_one_complete


# ---- with data under way ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "after_end, has_ended, synchronous, completed, is_read, may_end",
    [
        (False, True, None, 0, False, True),  # no checkpoint follows
        (True, False, None, 0, False, True),  # it was stopped before its data ended
        (True, True, None, 0, True, False),
        (True, True, None, 3, True, True),
        (True, True, None, 3, False, False),  # its consumers have not processed all of it
        (True, True, 3, 2, True, False),
        (False, False, 3, 2, False, False),
        (False, False, 3, 3, False, True),
    ],
)
def test_a_task_ends_when_the_checkpoint_counts_that_it_waits_for(
    bench, after_end, has_ended, synchronous, completed, is_read, may_end
):
    settings = ExecutionSettings(checkpointing_enabled=True, checkpoints_after_tasks_finish=after_end)
    bench.progress.has_ended_data = has_ended
    bench.checkpoints.synchronous_id = synchronous
    bench.take(3)
    bench.checkpoints.complete(completed)
    assert bench.checkpoints.may_end(settings, lambda: is_read) is may_end


class FakeInFlight:
    """Channels with a barrier that leaves when a test says so."""

    def __init__(self):
        self.story, self.is_settled, self.failure = [], False, None

    def broadcast(self, barrier):
        self.story.append((barrier.alignment.name, barrier.checkpoint_id))

    def convert_output(self, checkpoint_id):
        self.story.append(("convert", checkpoint_id))
        return True

    def is_output_settled(self, checkpoint_id):
        return self.is_settled

    def start_input(self, checkpoint_id):
        return True

    def stop_input(self, checkpoint_id):
        if self.failure is not None:
            raise self.failure

    def take(self, checkpoint_id):
        return ((0, 1, b"in"),), ((0, 0, b"out"),)

    def size(self, checkpoint_id):
        return 5

    def abort(self, checkpoint_id):
        self.story.append(("abort", checkpoint_id))


@pytest.fixture
def overtaking():
    bench = Bench(FakeInFlight())
    yield bench
    bench.checkpoints.close()


def test_state_is_written_when_the_last_barrier_has_come(overtaking):
    overtaking.take(1, alignment_ms=None, alignment=AlignmentType.UNALIGNED)
    assert not overtaking.events and overtaking.checkpoints.has_unsettled
    overtaking.checkpoints.end_input(1, 40, 7)
    overtaking.checkpoints.runner.wait_until_idle()
    (event,) = overtaking.events
    metrics = event.metrics
    assert (metrics.alignment_ms, metrics.bytes_processed_during_alignment) == (40, 7)
    assert (metrics.bytes_persisted_during_alignment, metrics.is_unaligned) == (5, True)
    assert (overtaking.written.input_channels, overtaking.written.output_channels) == (
        ((0, 1, b"in"),),
        ((0, 0, b"out"),),
    )


def test_more_under_way_than_is_kept_is_declined(overtaking):
    overtaking.checkpoints.in_flight.failure = MemoryError("too much")
    overtaking.take(1, alignment_ms=None, alignment=AlignmentType.UNALIGNED)
    overtaking.checkpoints.end_input(1, 0, 0)
    assert (overtaking.events[0].reason, str(overtaking.events[0].error)) == ("CHECKPOINT_DECLINED", "too much")
    assert not overtaking.checkpoints.has_unsettled


def test_a_barrier_that_is_stuck_behind_the_task_overtakes_at_its_timeout(overtaking):
    overtaking.take(1, aligned_timeout_ms=100)
    overtaking.advance(99)
    assert not overtaking.events
    overtaking.advance(100)
    assert overtaking.checkpoints.in_flight.story == [("ALIGNED", 1), ("convert", 1)]
    assert overtaking.told(CheckpointAcknowledged) == [1] and overtaking.events[0].metrics.is_unaligned


def test_a_barrier_that_has_left_in_time_overtakes_nothing(overtaking):
    overtaking.take(1, aligned_timeout_ms=1000)
    overtaking.advance(20)
    overtaking.checkpoints.in_flight.is_settled = True
    overtaking.advance(80)
    assert overtaking.told(CheckpointAcknowledged) == [1] and not overtaking.events[0].metrics.is_unaligned
    overtaking.advance(5000)
    assert overtaking.checkpoints.in_flight.story == [("ALIGNED", 1)]


def test_one_that_had_to_wait_on_its_edge_overtakes_again_behind_the_task(overtaking):
    overtaking.take(1, alignment=AlignmentType.FORCED_ALIGNED)
    assert overtaking.checkpoints.in_flight.story == [("UNALIGNED", 1)]


def test_an_abort_forgets_what_was_under_way(overtaking):
    overtaking.take(1, alignment_ms=None, alignment=AlignmentType.UNALIGNED)
    overtaking.checkpoints.abort(1, 0)
    overtaking.checkpoints.end_input(1, 0, 0)
    assert not overtaking.events and not overtaking.checkpoints.has_unsettled
    assert ("abort", 1) in overtaking.checkpoints.in_flight.story
