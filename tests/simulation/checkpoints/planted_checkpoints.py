"""Bugs that somebody might make with checkpoints, one function each: the simulation has to find all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from flinkbuf.checkpoints import ha_protocol
from flinkbuf.runtime.checkpoint.checkpoint_coordinator import CheckpointCoordinator
from flinkbuf.runtime.checkpoint.checkpoint_requests import CheckpointRequests
from flinkbuf.runtime.checkpoint.completed_checkpoints import CompletedCheckpoints
from flinkbuf.runtime.checkpoint.pending_checkpoint import PendingCheckpoint
from flinkbuf.runtime.checkpoint.shared_files import SharedFiles
from flinkbuf.runtime.checkpoint.state_assignment import StateAssignment, _Deal
from flinkbuf.runtime.driver.coordinators import CoordinatorHost, _AttemptGateway
from flinkbuf.runtime.driver.lease_term import LeaseTerm
from flinkbuf.runtime.manager.coordinator_proxy import CoordinatorProxy
from flinkbuf.runtime.protocol.operator_events import decode_event
from flinkbuf.runtime.scheduler.master_actions import ResetSources
from flinkbuf.streaming.checkpoint.barrier_actions import ResumeChannels
from flinkbuf.streaming.checkpoint.barrier_handler import SingleCheckpointBarrierHandler
from flinkbuf.streaming.checkpoint.barrier_tracker import CheckpointBarrierTracker
from flinkbuf.streaming.sinks.postgres_sink import TransactionNames
from flinkbuf.streaming.sinks.two_phase_commit import (
    TransactionsState,
    TwoPhaseCommitSinkFunction,
    TwoPhaseCommitSinkOperator,
)
from flinkbuf.streaming.sources.source_coordinator import SplitAssignmentTracker
from flinkbuf.streaming.task.subtask_checkpoints import SubtaskCheckpoints

BUGS: dict[str, Callable[[Any], None]] = {}  # each is given pytest's monkeypatch


def bug(plant: Callable[[Any], None]) -> Callable[[Any], None]:
    """Under the function's name."""
    BUGS[plant.__name__] = plant
    return plant


# ---- tasks


@bug
def the_barrier_follows_the_snapshot_some_time(patch):
    send = SubtaskCheckpoints._send

    def send_later(self, barrier):
        self._timers.register_timer(self._timers.now_ms(), lambda timestamp_ms: send(self, barrier))

    patch.setattr(SubtaskCheckpoints, "_send", send_later)


@bug
def channels_go_on_before_the_snapshot(patch):
    proceed = SingleCheckpointBarrierHandler._proceed

    def resume_first(self, barrier, channel, now_ms):
        actions = proceed(self, barrier, channel, now_ms)
        return sorted(actions, key=lambda action: not isinstance(action, ResumeChannels))

    patch.setattr(SingleCheckpointBarrierHandler, "_proceed", resume_first)


@bug
def the_first_barrier_is_enough(patch):
    arrive = SingleCheckpointBarrierHandler._arrive

    def arrive_all(self, channel, now_ms):
        self._arrived |= self._open
        return arrive(self, channel, now_ms)

    patch.setattr(SingleCheckpointBarrierHandler, "_arrive", arrive_all)


@bug
def the_first_barrier_is_enough_at_least_once(patch):
    count_in = CheckpointBarrierTracker._count_in

    def count_all(self, barrier, channel, now_ms):
        opened, self._open = self._open, {channel}
        try:
            return count_in(self, barrier, channel, now_ms)
        finally:
            self._open = opened

    patch.setattr(CheckpointBarrierTracker, "_count_in", count_all)


@bug
def channels_behind_an_old_barrier_stay_blocked(patch):
    on_barrier = SingleCheckpointBarrierHandler.on_barrier

    def on_new_barrier(self, barrier, channel, now_ms, is_triggered=False):
        if self._is_over(barrier.checkpoint_id):
            return []
        return on_barrier(self, barrier, channel, now_ms, is_triggered)

    patch.setattr(SingleCheckpointBarrierHandler, "on_barrier", on_new_barrier)


@bug
def what_is_written_is_committed_at_once(patch):
    snapshot_state = TwoPhaseCommitSinkOperator.snapshot_state

    def snapshot_and_commit(self, checkpoint_id):
        snapshot = snapshot_state(self, checkpoint_id)
        self.notify_checkpoint_complete(checkpoint_id)
        return snapshot

    patch.setattr(TwoPhaseCommitSinkOperator, "snapshot_state", snapshot_and_commit)


@bug
def what_is_to_be_committed_is_not_in_the_state(patch):
    snapshot_state = TwoPhaseCommitSinkOperator.snapshot_state

    def forget_pending(self, checkpoint_id):
        snapshot = snapshot_state(self, checkpoint_id)
        self._state.update([TransactionsState((), self._current)])
        return snapshot

    patch.setattr(TwoPhaseCommitSinkOperator, "snapshot_state", forget_pending)


@bug
def only_the_last_transaction_is_in_the_state(patch):
    snapshot_state = TwoPhaseCommitSinkOperator.snapshot_state

    def keep_one(self, checkpoint_id):
        snapshot = snapshot_state(self, checkpoint_id)
        self._state.update([TransactionsState(tuple(each for _, each in self._pending)[-1:], self._current)])
        return snapshot

    patch.setattr(TwoPhaseCommitSinkOperator, "snapshot_state", keep_one)


@bug
def what_a_restored_checkpoint_does_not_hold_is_left(patch):
    patch.setattr(TransactionNames, "left_behind", lambda self, name: False)
    patch.setattr(TwoPhaseCommitSinkFunction, "recover_and_abort", lambda self, transaction: self.commit(transaction))


@bug
def a_task_does_not_wait_for_its_last_checkpoint(patch):
    patch.setattr(SubtaskCheckpoints, "may_end", lambda self, settings, is_all_read: True)


@bug
def any_checkpoint_is_taken_for_the_last_one(patch):
    last = property(lambda self: self.completed_id > 0)
    patch.setattr(SubtaskCheckpoints, "is_last_one_complete", last)


@bug
def records_that_a_barrier_overtakes_at_the_input_are_forgotten(patch):
    patch.setattr(SubtaskCheckpoints, "begin_input", lambda self, checkpoint_id: True)


@bug
def records_that_a_barrier_overtakes_are_forgotten(patch):
    write = SubtaskCheckpoints._write
    patch.setattr(
        SubtaskCheckpoints,
        "_write",
        lambda self, snapshot, *rest: write(self, replace(snapshot, input_channels=(), output_channels=()), *rest),
    )


@bug
def the_input_that_is_under_way_is_not_waited_for(patch):
    keep = SubtaskCheckpoints._keep

    def keep_at_once(self, taken):
        taken.waits_for_input = False
        keep(self, taken)

    patch.setattr(SubtaskCheckpoints, "_keep", keep_at_once)


# ---- coordinators of sources


@bug
def splits_are_sent_while_a_checkpoint_begins(patch):
    patch.setattr(_AttemptGateway, "hold", lambda self, checkpoint_id: None)


@bug
def what_was_held_back_is_sent_with_the_next_checkpoint(patch):
    patch.setattr(CoordinatorHost, "let_go", lambda self, checkpoint_id: None)


@bug
def an_event_comes_to_its_reader_in_two_mails(patch):
    def deliver(self, payload):
        handle = lambda: self._operator.handle_event(decode_event(payload))  # noqa: E731
        self._mailbox.submit(lambda: self._mailbox.submit(handle))

    patch.setattr(CoordinatorProxy, "deliver", deliver)


@bug
def splits_of_a_reader_that_begins_again_are_not_taken_back(patch):
    patch.setattr(SplitAssignmentTracker, "take_back", lambda self, subtask_index, checkpoint_id: [])


@bug
def sources_begin_at_their_beginning(patch):
    restore = CheckpointCoordinator.restore

    def restore_tasks_only(self, *arguments):
        restore(self, *arguments)
        for index, action in enumerate(self._outbox._actions):
            if isinstance(action, ResetSources):
                self._outbox._actions[index] = replace(action, checkpoint_id=None, states={})

    patch.setattr(CheckpointCoordinator, "restore", restore_tasks_only)


# ---- the life of a checkpoint


@bug
def one_part_more_or_less(patch):
    patch.setattr(PendingCheckpoint, "is_complete", property(lambda self: len(self.missing) <= 1))


@bug
def parts_of_old_attempts_count(patch):
    acknowledged = CheckpointCoordinator.acknowledged

    def by_subtask(self, message, now_ms):
        pending = self.pending.get(message.checkpoint_id)
        for attempt in () if pending is None else list(pending.missing):
            if (attempt.vertex_id, attempt.subtask_index) == (message.attempt.vertex_id, message.attempt.subtask_index):
                message = replace(message, attempt=attempt)
        acknowledged(self, message, now_ms)

    patch.setattr(CheckpointCoordinator, "acknowledged", by_subtask)
    patch.setattr(CheckpointCoordinator, "suspend", lambda self, reason, now_ms: None)


@bug
def tasks_are_told_before_it_is_stored(patch):
    store_if_complete = CheckpointCoordinator._store_if_complete

    def tell_first(self, pending, now_ms):
        if pending.is_complete:
            self._notices.complete(pending)
        store_if_complete(self, pending, now_ms)

    patch.setattr(CheckpointCoordinator, "_store_if_complete", tell_first)


@bug
def it_counts_though_it_could_not_be_stored(patch):
    stored = CheckpointCoordinator.stored

    def stored_anyway(self, stimulus, now_ms):
        stored(self, replace(stimulus, failure=None), now_ms)

    patch.setattr(CheckpointCoordinator, "stored", stored_anyway)


@bug
def a_restart_ignores_what_is_being_stored(patch):
    patch.setattr(CheckpointCoordinator, "is_storing", property(lambda self: False))


@bug
def a_restart_drops_what_is_being_stored(patch):
    suspend = CheckpointCoordinator.suspend

    def drop_all(self, reason, now_ms):
        suspend(self, reason, now_ms)
        for pending in list(self.pending.values()):
            self._abort(pending, reason, now_ms)

    patch.setattr(CheckpointCoordinator, "suspend", drop_all)


@bug
def a_savepoint_is_subsumed(patch):
    patch.setattr(PendingCheckpoint, "can_be_subsumed", property(lambda self: True))


@bug
def a_job_begins_again_behind_the_savepoint_that_it_stops_with(patch):
    patch.setattr(CheckpointCoordinator, "final_failure", lambda self, failure: failure)


@bug
def nobody_gives_one_up(patch):
    make = PendingCheckpoint.__init__

    def make_patient(self, id, request, options, plan, now_ms, due_ms):
        make(self, id, request, options, plan, now_ms, due_ms + 10_000_000)

    patch.setattr(PendingCheckpoint, "__init__", make_patient)


@bug
def there_is_no_pause(patch):
    make = CheckpointRequests.__init__
    patch.setattr(CheckpointRequests, "__init__", lambda self, most, min_pause_ms: make(self, most, 0))


@bug
def any_number_is_under_way(patch):
    make = CheckpointRequests.__init__
    patch.setattr(CheckpointRequests, "__init__", lambda self, most, min_pause_ms: make(self, 100, min_pause_ms))


@bug
def numbers_are_used_again_after_a_restart(patch):
    restore = CheckpointCoordinator.restore

    def restore_number(self, *arguments):
        restore(self, *arguments)
        self._next_id = 1 if self.latest is None else self.latest.id + 1

    patch.setattr(CheckpointCoordinator, "restore", restore_number)


@bug
def a_user_who_waits_for_a_savepoint_is_forgotten(patch):
    patch.setattr(CheckpointCoordinator, "_answer_failed", lambda self, request, text: None)


# ---- what is kept


@bug
def files_that_others_use_are_deleted(patch):
    def release_all(self, checkpoint_id):
        return tuple(self._used.pop(checkpoint_id, {}).values())

    patch.setattr(SharedFiles, "release", release_all)


@bug
def what_comes_late_stays_for_ever(patch):
    acknowledged = CheckpointCoordinator.acknowledged

    def in_time(self, message, now_ms):
        if message.checkpoint_id in self.pending:
            acknowledged(self, message, now_ms)

    patch.setattr(CheckpointCoordinator, "acknowledged", in_time)


@bug
def the_newest_is_deleted_for_the_oldest(patch):
    add = CompletedCheckpoints.add

    def add_and_drop(self, completed):
        known = list(self._kept)
        discards = add(self, completed)
        return [self._discard(completed)] if discards and known else discards

    patch.setattr(CompletedCheckpoints, "add", add_and_drop)


@bug
def a_savepoint_belongs_to_whoever_begins_from_it(patch):
    begin_with = CompletedCheckpoints.begin_with
    patch.setattr(
        CompletedCheckpoints,
        "begin_with",
        lambda self, restored: begin_with(self, replace(restored, claim_mode="CLAIM")),
    )


# ---- who begins with what


@bug
def tasks_begin_again_with_nothing(patch):
    patch.setattr(StateAssignment, "restore_of", lambda self, vertex_index, subtask: None)


@bug
def lists_are_not_dealt_out_anew(patch):
    operator_of = _Deal._operator_of

    def own(self, subtask):
        handles = operator_of(self, subtask)
        return handles[subtask : subtask + 1] if len(handles) > 1 else handles

    patch.setattr(_Deal, "_operator_of", own)


@bug
def key_groups_stay_with_their_subtask(patch):
    def own(self, subtask):
        old = self._old.subtasks[subtask] if subtask < len(self._old.subtasks) else None
        return () if old is None else old.keyed

    patch.setattr(_Deal, "_keyed_of", own)


# ---- programs that take a job over, and what they leave for each other


@bug
def what_a_newer_program_has_prepared_is_rolled_back(patch):
    left_behind = TransactionNames.left_behind
    patch.setattr(TransactionNames, "left_behind", lambda self, name: left_behind(replace(self, epoch=1 << 30), name))


@bug
def what_perhaps_counts_is_given_up_when_the_disk_fails(patch):
    def add_checkpoint(epoch, state, pointer):
        after = state.with_checkpoint(pointer)
        yield from ha_protocol.write_state(epoch, after)
        return after

    patch.setattr(ha_protocol, "add_checkpoint", add_checkpoint)


@bug
def a_program_that_cannot_renew_its_lease_goes_on(patch):
    patch.setattr(LeaseTerm, "is_over", lambda self, renewed_ms, now_ms: False)
