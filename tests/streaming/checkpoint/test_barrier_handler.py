"""When a task takes its part of a checkpoint, as a pure decision.

Flink: AlignedCheckpointsTest, AlternatingCheckpointsTest, UnalignedCheckpointsTest,
AlignedCheckpointsMassiveRandomTest.
"""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkbuf.network.events import AlignmentType, CheckpointBarrier, SnapshotType
from flinkbuf.streaming.checkpoint.barrier_actions import (
    AbortCheckpoint,
    BeginAlignment,
    BeginInputState,
    ConvertToPriority,
    EndInputState,
    ResumeChannels,
    TakeCheckpoint,
)
from flinkbuf.streaming.checkpoint.barrier_handler import SingleCheckpointBarrierHandler

ALIGNED, UNALIGNED = AlignmentType.ALIGNED, AlignmentType.UNALIGNED
SUBSUMED = "CHECKPOINT_DECLINED_SUBSUMED"
CANCELLED = "CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER"
ENDED = "CHECKPOINT_DECLINED_INPUT_END_OF_STREAM"


def barrier(checkpoint_id, timestamp=0, alignment=ALIGNED, **options):
    return CheckpointBarrier(checkpoint_id, timestamp, alignment=alignment, **options)


class Channels:
    """A handler, the channels that it holds back, and what it has decided, in short."""

    def __init__(self, count, now_ms=0, **options):
        self.handler = SingleCheckpointBarrierHandler(count, **options)
        self.blocked, self.story, self.now_ms = set(), [], now_ms

    def barrier(self, checkpoint_id, *channels, **options):
        for channel in channels:
            assert channel not in self.blocked, "nothing is read from a blocked channel"
            given = barrier(checkpoint_id, **options)
            if given.alignment is ALIGNED:
                self.blocked.add(channel)
            self.perform(self.handler.on_barrier(given, channel, self.now_ms))
        return self

    def trigger(self, checkpoint_id, *channels):
        for channel in channels:
            self.perform(self.handler.on_barrier(barrier(checkpoint_id), channel, self.now_ms, is_triggered=True))
        return self

    def announce(self, checkpoint_id, channel, sequence_number=5, timeout_ms=100):
        given = barrier(checkpoint_id, aligned_timeout_ms=timeout_ms)
        self.perform(self.handler.on_announcement(given, sequence_number, channel, self.now_ms))
        return self

    def cancel(self, checkpoint_id, channel):
        self.perform(self.handler.on_cancellation(checkpoint_id, channel, self.now_ms))
        return self

    def end(self, channel):
        self.blocked.discard(channel)
        self.perform(self.handler.on_end_of_partition(channel, self.now_ms))
        return self

    def pass_time(self, now_ms):
        self.now_ms = now_ms
        self.perform(self.handler.on_time(now_ms))
        return self

    def perform(self, actions):
        for action in actions:
            if isinstance(action, ResumeChannels):
                assert set(action.channels) <= self.blocked, "it is resumed only once"
                self.blocked -= set(action.channels)
            elif isinstance(action, TakeCheckpoint):
                how = "take" if action.barrier.alignment is ALIGNED else "overtake"
                self.story.append((how, action.barrier.checkpoint_id))
                self.last = action
            elif isinstance(action, AbortCheckpoint):
                self.story.append(("abort", action.checkpoint_id, action.reason))
            elif isinstance(action, ConvertToPriority):
                self.story.append(("convert", action.channel, action.sequence_number))
            elif isinstance(action, BeginInputState):
                self.story.append(("keep", action.channels))
            elif isinstance(action, EndInputState):
                self.story.append(("kept", action.checkpoint_id, action.alignment_ms))


# ---- aligned ------------------------------------------------------------------------------------------------


def missing_channels(handler):
    """Those that a checkpoint waits for; None: it waits for none."""
    return None if handler._barrier is None else handler._open - handler._arrived


def test_with_one_channel_each_barrier_takes_a_checkpoint_at_once():
    channels = Channels(1).barrier(1, 0).barrier(2, 0).barrier(5, 0)
    assert channels.story == [("take", 1), ("take", 2), ("take", 5)]
    assert not channels.blocked


def test_channels_wait_for_each_other_and_the_state_is_taken_before_any_goes_on():
    handler = SingleCheckpointBarrierHandler(3)
    assert handler.on_barrier(barrier(1), 0, 10) == [BeginAlignment(1)]
    assert missing_channels(handler) == {1, 2}
    assert handler.on_barrier(barrier(1), 2, 20) == []
    assert handler.on_barrier(barrier(1), 1, 25) == [TakeCheckpoint(barrier(1), 10, 15, 1), ResumeChannels((0, 2, 1))]
    assert missing_channels(handler) is None


def test_a_newer_barrier_gives_the_older_checkpoint_up():
    channels = Channels(3).barrier(1, 0, 1)
    assert channels.blocked == {0, 1}
    channels.barrier(2, 2)
    assert channels.story == [("abort", 1, SUBSUMED)] and channels.blocked == {2}
    channels.barrier(2, 0, 1)
    assert channels.story == [("abort", 1, SUBSUMED), ("take", 2)] and not channels.blocked


def test_late_barriers_of_a_checkpoint_that_was_given_up_do_not_block():
    channels = Channels(3).barrier(1, 0).barrier(3, 1)
    channels.barrier(1, 2).barrier(2, 2)
    assert channels.blocked == {1}
    channels.barrier(3, 0, 2)
    assert channels.story == [("abort", 1, SUBSUMED), ("take", 3)] and not channels.blocked


def test_ids_may_be_left_out():
    channels = Channels(2).barrier(2, 0, 1).barrier(7, 1, 0)
    assert channels.story == [("take", 2), ("take", 7)]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_cancellation_counts_once_wherever_it_comes(place):
    channels = Channels(3)
    for step in range(3):
        if step == place:
            channels.cancel(1, step).cancel(1, (step + 1) % 3)
        else:
            channels.barrier(1, step)
    assert channels.story == [("abort", 1, CANCELLED)] and not channels.blocked
    channels.barrier(2, 0, 1, 2)
    assert channels.story[-1] == ("take", 2)


def test_a_cancellation_after_the_checkpoint_was_taken_is_passed_over():
    channels = Channels(2).barrier(1, 0, 1).cancel(1, 0)
    assert channels.story == [("take", 1)]


def test_a_cancellation_of_a_newer_checkpoint_gives_the_pending_one_up_too():
    channels = Channels(2).barrier(1, 0).cancel(2, 1)
    assert channels.story == [("abort", 1, SUBSUMED), ("abort", 2, CANCELLED)] and not channels.blocked
    channels.barrier(1, 1).barrier(2, 0).barrier(3, 0, 1)
    assert channels.story[2:] == [("take", 3)] and not channels.blocked


def test_a_cancellation_of_an_older_checkpoint_says_nothing():
    channels = Channels(2).barrier(5, 0).cancel(4, 1).barrier(5, 1)
    assert channels.story == [("take", 5)]


def test_without_its_cancellation_the_next_barrier_recovers():
    channels = Channels(3).barrier(1, 0).cancel(2, 1).barrier(3, 0, 1, 2)
    assert channels.story == [("abort", 1, SUBSUMED), ("abort", 2, CANCELLED), ("take", 3)]
    assert not channels.blocked


def test_the_end_of_a_channel_stands_for_its_barrier():
    channels = Channels(3).barrier(1, 0, 1).end(2)
    assert channels.story == [("take", 1)] and not channels.blocked


def test_a_barrier_and_the_end_of_one_channel_count_once():
    channels = Channels(3).trigger(1, 0).end(0).barrier(1, 1)
    assert channels.story == []
    channels.barrier(1, 2)
    assert channels.story == [("take", 1)] and not channels.blocked


def test_the_end_of_a_channel_gives_up_the_checkpoint_where_tasks_may_not_finish_before():
    channels = Channels(3, takes_after_end=False).barrier(1, 0, 1).end(2)
    assert channels.story == [("abort", 1, ENDED)] and not channels.blocked
    channels.barrier(2, 0, 1)
    assert channels.story[-1] == ("take", 2)


def test_channels_that_have_ended_are_not_waited_for():
    channels = Channels(3).end(1).barrier(1, 0, 2)
    assert channels.story == [("take", 1)] and channels.handler.open_channels == (0, 2)


def test_who_is_triggered_takes_it_when_all_open_channels_are_counted_in():
    channels = Channels(3).end(1).trigger(4, *(0, 2))
    assert channels.story == [("take", 4)] and not channels.blocked


def test_a_checkpoint_that_the_job_master_gives_up_blocks_nobody():
    channels = Channels(2).barrier(1, 0)
    channels.perform(channels.handler.on_abort(1))
    assert not channels.blocked
    channels.barrier(1, 1)
    assert not channels.blocked and [step[0] for step in channels.story] == ["abort"]
    assert channels.handler.on_abort(1) == [] and channels.handler.on_abort(9) == []
    channels.barrier(2, 0, 1)
    assert channels.story[-1] == ("take", 2)


def test_how_late_and_how_long():
    channels = Channels(2, now_ms=130)
    channels.barrier(1, 0, timestamp=100)
    channels.now_ms = 170
    channels.barrier(1, 1, timestamp=100)
    assert (channels.last.start_delay_ms, channels.last.alignment_ms, channels.last.last_channel) == (30, 40, 1)
    channels.now_ms = 90  # clocks of two machines
    channels.barrier(2, 0, 1, timestamp=100)
    assert (channels.last.start_delay_ms, channels.last.alignment_ms) == (0, 0)


def test_a_barrier_that_overtakes_is_refused_where_none_may():
    channels = Channels(2).barrier(1, 0, alignment=UNALIGNED)
    assert channels.story == [("abort", 1, "CHECKPOINT_DECLINED")]


# ---- overtaking ---------------------------------------------------------------------------------------------


def alternating(count, **options):
    return Channels(count, can_overtake=True, **options)


def test_an_unaligned_barrier_takes_the_checkpoint_at_once_and_the_rest_is_kept():
    channels = alternating(3).barrier(1, 1, alignment=UNALIGNED)
    assert channels.story == [("keep", (0, 2)), ("overtake", 1)]
    assert channels.last.alignment_ms is None
    channels.now_ms = 40
    channels.barrier(1, 0, 2, alignment=UNALIGNED)
    assert channels.story[2:] == [("kept", 1, 40)] and not channels.blocked


def test_one_channel_alone_keeps_nothing():
    channels = alternating(1).barrier(1, 0, alignment=UNALIGNED)
    assert channels.story == [("keep", ()), ("overtake", 1), ("kept", 1, 0)]


def test_an_alignment_that_times_out_goes_on_with_barriers_that_overtake():
    channels = alternating(3).barrier(1, 0, aligned_timeout_ms=100)
    assert channels.handler.deadline_ms == 100
    channels.announce(1, 1, 7).pass_time(99)
    assert channels.story == [] and channels.blocked == {0}
    channels.pass_time(100)
    assert channels.story == [("convert", 1, 7), ("keep", (1, 2)), ("overtake", 1)]
    assert channels.handler.deadline_ms is None and channels.blocked == {0}
    channels.announce(1, 2, 9)  # later ones overtake at once
    assert channels.story[-1] == ("convert", 2, 9)
    channels.barrier(1, 1, 2, alignment=UNALIGNED)
    assert channels.story[-1] == ("kept", 1, 100)
    assert not channels.blocked


def test_a_timeout_before_the_first_barrier_waits_for_it():
    channels = alternating(2).announce(1, 0, 3).pass_time(150)
    assert channels.story == [("convert", 0, 3)]
    channels.barrier(1, 0, alignment=UNALIGNED)
    assert channels.story[1:] == [("keep", (1,)), ("overtake", 1)]


def test_a_first_barrier_that_comes_too_late_overtakes_at_once():
    channels = alternating(2, now_ms=150).barrier(1, 0, aligned_timeout_ms=100)
    assert channels.story == [("keep", (1,)), ("overtake", 1)] and channels.blocked == {0}
    channels.barrier(1, 1, aligned_timeout_ms=100)  # an aligned one among them blocks its channel until the end
    assert channels.story[-1] == ("kept", 1, 0) and not channels.blocked


def test_the_last_barrier_that_comes_too_late_is_still_aligned():
    channels = alternating(2).barrier(1, 0, aligned_timeout_ms=100)
    channels.now_ms = 150  # the timer has not been served yet
    channels.barrier(1, 1, aligned_timeout_ms=100)
    assert channels.story == [("take", 1)] and not channels.blocked


def test_an_upstream_task_that_has_timed_out_makes_this_one_overtake():
    channels = alternating(3).barrier(1, 0, aligned_timeout_ms=10_000).announce(1, 2, 4, 10_000)
    channels.barrier(1, 1, alignment=UNALIGNED)
    assert channels.story == [("convert", 2, 4), ("keep", (2,)), ("overtake", 1)]
    channels.barrier(1, 2, alignment=UNALIGNED)
    assert channels.story[-1][0] == "kept" and not channels.blocked


def test_after_one_that_timed_out_the_next_is_aligned_again():
    channels = alternating(2, now_ms=150).barrier(1, 0, 1, aligned_timeout_ms=100)
    channels.barrier(2, 0, timestamp=150, aligned_timeout_ms=100)
    assert channels.blocked == {0} and channels.handler.deadline_ms == 250
    channels.barrier(2, 1, timestamp=150, aligned_timeout_ms=100)
    assert channels.story[-1] == ("take", 2)


def test_the_end_of_the_last_channel_completes_what_was_kept():
    channels = alternating(3).barrier(1, 0, alignment=UNALIGNED).end(1).end(2)
    assert [step[0] for step in channels.story] == ["keep", "overtake", "kept"]


def test_an_announcement_of_a_newer_checkpoint_gives_the_older_one_up():
    channels = alternating(2).barrier(1, 0, aligned_timeout_ms=100).announce(2, 0, 5)
    assert channels.story == [("abort", 1, SUBSUMED)] and not channels.blocked
    assert channels.announce(1, 1, 6).story == [("abort", 1, SUBSUMED)]


def test_a_barrier_that_an_announcement_was_followed_by_needs_no_conversion():
    channels = alternating(3).announce(1, 0, 3).announce(1, 1, 4).barrier(1, 0, aligned_timeout_ms=100)
    channels.announce(1, 0, 3)
    channels.pass_time(100)
    assert channels.story == [("convert", 1, 4), ("keep", (1, 2)), ("overtake", 1)]


@pytest.mark.parametrize("when", ["before", "after"])
def test_what_was_kept_is_dropped_with_a_cancellation(when):
    channels = alternating(3)
    if when == "after":
        channels.barrier(1, 0, alignment=UNALIGNED)
    channels.cancel(1, 1)
    assert channels.story[-1] == ("abort", 1, CANCELLED)
    channels.barrier(1, 2, alignment=UNALIGNED)
    assert channels.story[-1][0] == "abort" and not channels.blocked
    channels.barrier(2, 0, 1, 2, alignment=UNALIGNED)
    assert [step[0] for step in channels.story[-3:]] == ["keep", "overtake", "kept"]


def test_checkpoints_and_savepoints_in_a_row_are_all_taken():
    channels = alternating(2)
    for number in range(1, 124):
        channels.now_ms = number * 1000
        if number % 3:
            channels.barrier(number, 0, 1, timestamp=channels.now_ms, aligned_timeout_ms=100)
        elif number % 2:
            channels.barrier(number, 0, 1, alignment=UNALIGNED)
        else:
            channels.barrier(number, 0, 1, snapshot_type=SnapshotType.SAVEPOINT_CANONICAL)
    taken = [step[1] for step in channels.story if step[0] in ("take", "overtake")]
    assert taken == list(range(1, 124)) and not channels.blocked


# ---- whatever comes -----------------------------------------------------------------------------------------


def play(seed, channel_count, can_overtake, takes_after_end):
    """Random barriers, cancellations and ends over many channels, as tasks before this one could send them."""
    chance = random.Random(seed)
    channels = Channels(channel_count, can_overtake=can_overtake, takes_after_end=takes_after_end)
    queues = [[] for _ in range(channel_count)]
    fates = {}
    for checkpoint_id in range(1, 30):
        fates[checkpoint_id] = chance.choice(["all", "all", "all", "some", "cancelled"])
        is_unaligned = can_overtake and chance.random() < 0.4
        for queue in queues:
            draw = chance.random()
            if fates[checkpoint_id] == "cancelled" and draw < 0.5:
                queue.append(("cancel", checkpoint_id))
            elif fates[checkpoint_id] != "some" or draw < 0.7:
                queue.append(("barrier", checkpoint_id, UNALIGNED if is_unaligned else ALIGNED))
            if chance.random() < 0.02:
                break
    for queue in queues:
        if chance.random() < 0.8:
            queue.append(("end",))
    steps = 0
    while any(queues):
        ready = [index for index, queue in enumerate(queues) if queue and index not in channels.blocked]
        if not ready:
            # All that could come is held back: only those that bring nothing more, and have not ended, may be missing.
            assert any(not queue for queue in queues), "the task waits for ever"
            missing = missing_channels(channels.handler)
            assert missing and all(not queues[index] for index in missing)
            return channels
        index = chance.choice(ready)
        kind, *rest = queues[index].pop(0)
        if kind == "barrier":
            channels.barrier(rest[0], index, alignment=rest[1], aligned_timeout_ms=chance.choice([5, 10**6]))
        elif kind == "cancel":
            channels.cancel(rest[0], index)
        else:
            channels.end(index)
        if chance.random() < 0.1:
            channels.pass_time(channels.now_ms + 3)
        steps += 1
    return channels


def check(story):
    """Each checkpoint is taken once, in order, and never after it was given up."""
    taken = [step[1] for step in story if step[0] in ("take", "overtake")]
    assert taken == sorted(set(taken))
    aborted = [step[1] for step in story if step[0] == "abort"]
    assert len(aborted) == len(set(aborted))
    over = set()
    for step in story:
        if step[0] in ("take", "overtake"):
            assert step[1] not in over
        if step[0] == "abort":
            over.add(step[1])


@pytest.mark.parametrize("channel_count", [1, 2, 7, 40])
@pytest.mark.parametrize("can_overtake", [False, True])
@pytest.mark.parametrize("takes_after_end", [True, False])
def test_whatever_comes_nobody_waits_for_ever(channel_count, can_overtake, takes_after_end):
    for seed in range(60):
        channels = play(seed, channel_count, can_overtake, takes_after_end)
        check(channels.story)
        if missing_channels(channels.handler) is None:
            assert not channels.blocked


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["barrier", "unaligned", "announce", "cancel", "end", "time", "abort", "trigger"]),
        st.integers(1, 4),
        st.integers(0, 2),
    ),
    max_size=60,
)


@settings(max_examples=400, deadline=None)
@given(STEPS)
def test_in_any_order_at_all_each_is_over_once_and_no_channel_stays_behind(steps):
    channels, ended = alternating(3), set()
    for kind, checkpoint_id, channel in steps:
        if kind == "time":
            channels.pass_time(channels.now_ms + checkpoint_id * 40)
        elif kind == "abort":
            channels.perform(channels.handler.on_abort(checkpoint_id))
        elif channel in ended or channel in channels.blocked:
            continue
        elif kind == "barrier":
            channels.barrier(checkpoint_id, channel, aligned_timeout_ms=100)
        elif kind == "unaligned":
            channels.barrier(checkpoint_id, channel, alignment=UNALIGNED)
        elif kind == "announce":
            channels.announce(checkpoint_id, channel)
        elif kind == "cancel":
            channels.cancel(checkpoint_id, channel)
        elif kind == "trigger":
            channels.trigger(checkpoint_id, channel)
        else:
            channels.end(channel)
            ended.add(channel)
        check(channels.story)
        if missing_channels(channels.handler) is None:
            assert not channels.blocked
    # Whatever has been: the next checkpoint is taken, if anybody is left to send a barrier.
    open_channels = channels.handler.open_channels
    waiting = [channel for channel in open_channels if channel in channels.blocked]
    channels.barrier(99, *[channel for channel in open_channels if channel not in waiting])
    channels.barrier(99, *waiting)
    assert not channels.blocked
    if open_channels:
        assert channels.story[-1] == ("take", 99)
