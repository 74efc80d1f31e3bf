"""What a barrier handler wants, done to gates and tasks. Flink: CheckpointedInputGateTest, InputProcessorUtilTest."""

import pytest

from flinkbuf._core.ground.wakeup import TaskBell
from flinkbuf._core.task.task_mailbox import TaskMailbox
from flinkbuf.network.events import (
    AlignmentType,
    CancelCheckpointMarker,
    CheckpointBarrier,
    EndOfData,
    EventAnnouncement,
)
from flinkbuf.streaming.chain.operator_config import ExecutionSettings
from flinkbuf.streaming.checkpoint import checkpointed_inputs
from flinkbuf.streaming.checkpoint.checkpointed_inputs import CheckpointedInputs
from flinkbuf.streaming.time.processing_time import TaskTimerService
from flinkbuf.testing import ManualClock

UNALIGNED = ExecutionSettings(unaligned_checkpoints_enabled=True)


class FakeGate:
    """A gate of `count` channels; `bytes` have been read from each."""

    def __init__(self, name, count, story):
        self.name, self.channel_count, self.story = name, count, story
        self.bytes = 0

    def resume_consumption(self, channel):
        self.story.append(("resume", self.name, channel))

    def convert_to_priority(self, channel, sequence_number):
        self.story.append(("convert", self.name, channel, sequence_number))

    def figures(self):
        return {
            "channels": [{"bytes": self.bytes, "source": f"{self.name}{index}"} for index in range(self.channel_count)]
        }


class Bench:
    """Two gates, of two channels and of one, and a task that writes down what it is to do."""

    def __init__(self, settings=None):
        self.story, self.clock, self.may_begin_input = [], ManualClock(), True
        self.mailbox = TaskMailbox(TaskBell())
        self.timers = TaskTimerService(self.clock, self.mailbox)
        self.inputs = CheckpointedInputs(settings or ExecutionSettings(), self.timers, self, "the task")
        self.left, self.right = FakeGate("left", 2, self.story), FakeGate("right", 1, self.story)
        self.inputs.add_gate(self.left)
        self.inputs.add_gate(self.right)

    def take(self, action, bytes_processed):
        self.story.append(("take", action.barrier.checkpoint_id, bytes_processed))

    def give_up(self, checkpoint_id, reason):
        self.story.append(("give up", checkpoint_id, reason))

    def begin_input(self, checkpoint_id):
        self.story.append(("begin", checkpoint_id))
        return self.may_begin_input

    def end_input(self, checkpoint_id, alignment_ms, bytes_processed):
        self.story.append(("end", checkpoint_id, alignment_ms, bytes_processed))

    def barrier(self, gate, channel, checkpoint_id=1, **options):
        self.inputs.process_barrier(CheckpointBarrier(checkpoint_id, 0, **options), gate, channel)

    def advance(self, now_ms):
        self.clock.advance_to(now_ms)
        self.timers.post_due()
        while (mail := self.mailbox.try_take(0)) is not None:
            mail.action()


def test_channels_of_all_gates_wait_for_each_other():
    bench = Bench()
    bench.barrier(bench.left, 1)
    bench.left.bytes = 10
    bench.barrier(bench.right, 0)
    bench.right.bytes = 5
    assert bench.story == []
    bench.barrier(bench.left, 0)
    assert bench.story == [
        ("take", 1, 25),
        ("resume", "left", 1),
        ("resume", "right", 0),
        ("resume", "left", 0),
    ]


def test_the_end_of_a_channel_a_cancellation_and_an_abort_reach_the_handler():
    bench = Bench()
    bench.barrier(bench.left, 0)
    bench.inputs.process_end_of_partition(bench.left, 1)
    bench.inputs.process_cancellation(CancelCheckpointMarker(1), bench.right, 0)
    bench.barrier(bench.left, 0, 2)
    bench.inputs.abort(2)
    assert bench.story == [
        ("give up", 1, "CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER"),
        ("resume", "left", 0),
        ("give up", 2, "CHECKPOINT_SUBSUMED"),
        ("resume", "left", 0),
    ]


def test_a_trigger_counts_for_the_channels_that_are_open():
    bench = Bench()
    bench.inputs.process_end_of_partition(bench.left, 1)
    assert bench.inputs.has_open_channels
    bench.inputs.trigger(CheckpointBarrier(3, 0))
    assert bench.story == [("take", 3, 0)]
    bench.inputs.process_end_of_partition(bench.left, 0)
    bench.inputs.process_end_of_partition(bench.right, 0)
    assert not bench.inputs.has_open_channels


def test_a_task_without_gates_has_no_open_channels():
    bench = Bench()
    source = CheckpointedInputs(ExecutionSettings(), bench.timers, bench, "a source")
    source.abort(1)
    assert not source.has_open_channels and bench.story == []


def test_time_makes_announced_barriers_overtake():
    bench = Bench(UNALIGNED)
    bench.barrier(bench.left, 0, aligned_timeout_ms=100)
    announced = CheckpointBarrier(1, 0, aligned_timeout_ms=100)
    bench.inputs.process_announcement(EventAnnouncement(announced, 7), bench.right, 0)
    bench.inputs.process_announcement(EventAnnouncement(EndOfData(), 8), bench.left, 1)
    bench.advance(99)
    assert bench.story == []
    bench.advance(100)
    assert bench.story == [("convert", "right", 0, 7), ("begin", 1), ("take", 1, 0)]
    bench.left.bytes = 4
    bench.barrier(bench.right, 0, alignment=AlignmentType.UNALIGNED)
    bench.barrier(bench.left, 1, alignment=AlignmentType.UNALIGNED)
    assert bench.story[3:] == [("end", 1, 100, 8), ("resume", "left", 0)]


def test_no_timer_stays_when_the_alignment_is_over():
    bench = Bench(UNALIGNED)
    for channel in (0, 1):
        bench.barrier(bench.left, channel, aligned_timeout_ms=100)
    bench.barrier(bench.right, 0, aligned_timeout_ms=100)
    before = list(bench.story)
    bench.advance(500)
    assert bench.story == before and before[0][0] == "take"


def test_where_a_newer_barrier_is_on_its_way_the_checkpoint_is_given_up():
    bench = Bench(UNALIGNED)
    bench.may_begin_input = False
    bench.barrier(bench.left, 0, alignment=AlignmentType.UNALIGNED)
    assert bench.story == [("begin", 1), ("give up", 1, "CHECKPOINT_SUBSUMED")]
    bench.may_begin_input = True
    bench.barrier(bench.left, 1, 2, alignment=AlignmentType.UNALIGNED)
    assert bench.story[2:] == [("begin", 2), ("take", 2, 0)]


@pytest.mark.parametrize("took_ms", [checkpointed_inputs.SLOW_ALIGNMENT_MS - 1, checkpointed_inputs.SLOW_ALIGNMENT_MS])
def test_a_slow_alignment_is_told_with_the_channel_that_was_last(took_ms, caplog):
    bench = Bench()
    bench.barrier(bench.left, 0)
    bench.barrier(bench.right, 0)
    bench.clock.advance_to(took_ms)
    bench.barrier(bench.left, 1)
    is_slow = took_ms == checkpointed_inputs.SLOW_ALIGNMENT_MS
    assert ("the last one by channel 1 (left1)" in caplog.text) == is_slow
