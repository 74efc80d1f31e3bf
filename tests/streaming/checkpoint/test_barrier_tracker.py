"""Checkpoints where nothing waits. Flink: CheckpointBarrierTrackerTest."""

from hypothesis import given, settings
from hypothesis import strategies as st

from flinkbuf.network.events import AlignmentType, CheckpointBarrier
from flinkbuf.streaming.checkpoint.barrier_actions import AbortCheckpoint, ResumeChannels, TakeCheckpoint
from flinkbuf.streaming.checkpoint.barrier_tracker import MAX_TRACKED, CheckpointBarrierTracker

SUBSUMED = "CHECKPOINT_DECLINED_SUBSUMED"
CANCELLED = "CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER"


def barrier(checkpoint_id, timestamp=0, alignment=AlignmentType.AT_LEAST_ONCE):
    return CheckpointBarrier(checkpoint_id, timestamp, alignment=alignment)


class Channels:
    def __init__(self, count, **options):
        self.tracker, self.story = CheckpointBarrierTracker(count, **options), []

    def barrier(self, checkpoint_id, *channels, now_ms=0):
        for channel in channels:
            self.note(self.tracker.on_barrier(barrier(checkpoint_id), channel, now_ms))
        return self

    def cancel(self, checkpoint_id, *channels):
        for channel in channels:
            self.note(self.tracker.on_cancellation(checkpoint_id, channel, 0))
        return self

    def end(self, *channels):
        for channel in channels:
            self.note(self.tracker.on_end_of_partition(channel, 0))
        return self

    def note(self, actions):
        for action in actions:
            assert not isinstance(action, ResumeChannels), "nothing was blocked"
            if isinstance(action, TakeCheckpoint):
                self.story.append(action.barrier.checkpoint_id)
                self.last = action
            elif isinstance(action, AbortCheckpoint):
                self.story.append((action.checkpoint_id, action.reason))


def test_with_one_channel_each_barrier_takes_a_checkpoint():
    assert Channels(1).barrier(1, 0).barrier(2, 0).barrier(4, 0).story == [1, 2, 4]


def test_a_checkpoint_is_taken_with_the_last_of_its_barriers():
    channels = Channels(3).barrier(1, 0, 2, now_ms=10)
    assert channels.story == [] and tuple(channels.tracker._tracked) == (1,)
    channels.barrier(1, 1, now_ms=25)
    assert channels.story == [1]
    assert (channels.last.start_delay_ms, channels.last.alignment_ms, channels.last.last_channel) == (10, 15, 1)


def test_checkpoints_may_overlap():
    channels = Channels(3).barrier(1, 0).barrier(2, 0).barrier(1, 1).barrier(2, 1).barrier(3, 0).barrier(1, 2)
    assert channels.story == [1]
    channels.barrier(2, 2).barrier(3, 1, 2)
    assert channels.story == [1, 2, 3]


def test_older_ones_are_given_up_when_a_newer_one_is_complete():
    channels = Channels(2).barrier(1, 0).barrier(2, 0).barrier(3, 0, 1)
    assert channels.story == [(1, SUBSUMED), (2, SUBSUMED), 3]
    assert channels.barrier(1, 1).barrier(2, 1).story[3:] == [], "late barriers are passed over"


def test_only_so_many_are_tracked():
    channels = Channels(2)
    for number in range(1, MAX_TRACKED + 3):
        channels.barrier(number, 0)
    assert len(channels.tracker._tracked) == MAX_TRACKED and min(channels.tracker._tracked) == 3
    assert channels.barrier(1, 1).barrier(2, 1).barrier(3, 1).story == [3]


def test_a_cancellation_is_told_once_and_ends_older_ones():
    channels = Channels(3).barrier(1, 0).barrier(2, 0).cancel(2, 1).cancel(2, 2)
    assert channels.story == [(1, CANCELLED), (2, CANCELLED)]
    assert tuple(channels.tracker._tracked) == ()
    assert channels.barrier(3, 0, 1, 2).story[-1] == 3


def test_a_cancellation_before_all_barriers():
    channels = Channels(2).cancel(5, 0)
    assert channels.story == [(5, CANCELLED)] and channels.barrier(5, 1).story == [(5, CANCELLED)]
    assert channels.cancel(4, 0).barrier(4, 0, 1).story == [(5, CANCELLED)]


def test_a_cancellation_with_one_channel():
    assert Channels(1).cancel(1, 0).barrier(2, 0).story == [(1, CANCELLED), 2]


def test_the_end_of_a_channel_stands_for_its_barriers():
    channels = Channels(3).barrier(1, 0, 1).barrier(2, 0, 1).end(2)
    assert channels.story == [(1, SUBSUMED), 2], "the newest first"
    assert channels.barrier(3, 0, 1).story[-1] == 3


def test_a_barrier_and_the_end_of_its_channel_count_once():
    channels = Channels(3).barrier(1, 0).end(0)
    assert channels.story == []
    assert channels.barrier(1, 1, 2).story == [1]


def test_the_end_of_a_channel_gives_all_up_where_tasks_may_not_finish_before():
    channels = Channels(3, takes_after_end=False).barrier(1, 0).barrier(2, 0).end(2)
    ended = "CHECKPOINT_DECLINED_INPUT_END_OF_STREAM"
    assert channels.story == [(1, ended), (2, ended)]
    assert channels.barrier(3, 0, 1).story[-1] == 3


def test_one_that_the_job_master_gives_up_is_counted_and_not_taken():
    channels = Channels(2).barrier(1, 0)
    channels.note(channels.tracker.on_abort(1))
    assert channels.barrier(1, 1).story == [(1, "CHECKPOINT_SUBSUMED")]
    assert tuple(channels.tracker._tracked) == () and channels.tracker.on_abort(7) == []


def test_an_aligned_barrier_does_not_block_for_longer_than_it_is_looked_at():
    """From a savepoint of a job that changed its guarantee, say."""
    tracker = CheckpointBarrierTracker(2)
    aligned = barrier(1, alignment=AlignmentType.ALIGNED)
    assert tracker.on_barrier(aligned, 0, 0)[-1] == ResumeChannels((0,))
    taken, resumed = tracker.on_barrier(aligned, 1, 0)
    assert isinstance(taken, TakeCheckpoint) and resumed == ResumeChannels((1,))


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["barrier", "barrier", "cancel", "end"]), st.integers(1, 6), st.integers(0, 2)),
        max_size=60,
    )
)
def test_whatever_comes_each_is_over_at_most_once(steps):
    channels, ended = Channels(3), set()
    for kind, checkpoint_id, channel in steps:
        if channel in ended:
            continue
        if kind == "barrier":
            channels.barrier(checkpoint_id, channel)
        elif kind == "cancel":
            channels.cancel(checkpoint_id, channel)
        else:
            channels.end(channel)
            ended.add(channel)
    ids = [step if isinstance(step, int) else step[0] for step in channels.story]
    assert len(ids) == len(set(ids))
    taken = [step for step in channels.story if isinstance(step, int)]
    assert taken == sorted(taken)
    assert len(channels.tracker._tracked) <= MAX_TRACKED
    if channels.tracker.open_channels:
        assert channels.barrier(99, *channels.tracker.open_channels).story[-1] == 99
