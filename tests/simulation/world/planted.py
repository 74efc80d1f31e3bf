"""Bugs that somebody might make, one function each: the simulation has to find all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from flinkbuf.runtime.manager import task_executor
from flinkbuf.runtime.manager.task_executor import TaskExecutor
from flinkbuf.runtime.master import failure_history, job_master
from flinkbuf.runtime.master.failover import Failover
from flinkbuf.runtime.master.failure_history import FailureHistory
from flinkbuf.runtime.master.job_master import JobMaster
from flinkbuf.runtime.protocol.messages import AcknowledgeReport, ReleaseManager
from flinkbuf.runtime.protocol.time_passed import TimePassed
from flinkbuf.runtime.scheduler import execution_state, scheduler
from flinkbuf.runtime.scheduler.cancellations import Cancellations
from flinkbuf.runtime.scheduler.deployment_builder import DeploymentBuilder
from flinkbuf.runtime.scheduler.execution_graph import ExecutionGraph
from flinkbuf.runtime.scheduler.execution_state import ExecutionState, ExecutionStep
from flinkbuf.runtime.scheduler.heartbeat import HeartbeatMonitor
from flinkbuf.runtime.scheduler.manager_table import ManagerTable
from flinkbuf.runtime.scheduler.master_actions import ManagerSaid, ResetSources, StopManager, SubtaskGone
from flinkbuf.runtime.scheduler.regions import PipelinedRegions
from flinkbuf.runtime.scheduler.restarts import Restarts
from flinkbuf.runtime.scheduler.slots import SlotPool

BUGS: dict[str, Callable[[Any], None]] = {}  # each is given pytest's monkeypatch


def bug(plant: Callable[[Any], None]) -> Callable[[Any], None]:
    """Under the function's name."""
    BUGS[plant.__name__] = plant
    return plant


def _without(patch: Any, *kinds: type) -> None:
    """The job master never wants these done, or sent."""
    handle = JobMaster.handle

    def handle_less(self, stimulus, now_ms):
        actions = handle(self, stimulus, now_ms)
        return [each for each in actions if not isinstance(getattr(each, "message", each), kinds)]

    patch.setattr(JobMaster, "handle", handle_less)


# ---- who is heard


@bug
def the_executor_hears_every_session(patch):
    heard = TaskExecutor._is_heard

    def is_heard(self, message, now_ms):
        if self.session_id is not None and hasattr(message, "session_id"):
            message = replace(message, session_id=self.session_id)
        return heard(self, message, now_ms)

    patch.setattr(TaskExecutor, "_is_heard", is_heard)


@bug
def the_job_master_hears_every_session(patch):
    said = JobMaster._manager_said

    def any_session(self, stimulus, now_ms):
        if hasattr(stimulus.message, "session_id"):
            stimulus = ManagerSaid(stimulus.manager_id, replace(stimulus.message, session_id=self.session_id))
        said(self, stimulus, now_ms)

    patch.setitem(JobMaster._ANSWERS, ManagerSaid, any_session)


@bug
def the_job_master_hears_anybody_about_an_attempt(patch):
    reported = JobMaster._reported

    def of_its_manager(self, manager_id, report, now_ms):
        execution = self.graph.execution_of(report.attempt)
        if execution is not None and execution.manager is not None:
            manager_id = execution.manager.id
        reported(self, manager_id, report, now_ms)

    patch.setattr(JobMaster, "_reported", of_its_manager)


@bug
def numbers_of_attempts_are_ignored(patch):
    reported = JobMaster._reported

    def of_the_newest(self, manager_id, report, now_ms):
        for attempt in self.graph.open_on(manager_id):
            if (attempt.vertex_id, attempt.subtask_index) == (report.attempt.vertex_id, report.attempt.subtask_index):
                report = replace(report, attempt=attempt)
                break
        reported(self, manager_id, report, now_ms)

    patch.setattr(JobMaster, "_reported", of_the_newest)


@bug
def a_second_deployment_of_an_attempt_starts_it_again(patch):
    deploy = TaskExecutor._deploy

    def deploy_always(self, descriptor, now_ms):
        self._tasks.pop(descriptor.attempt, None)
        self._newest.clear()
        deploy(self, descriptor, now_ms)

    patch.setattr(TaskExecutor, "_deploy", deploy_always)


# ---- reports


@bug
def final_reports_are_said_once(patch):
    patch.setattr(TaskExecutor, "_send_final", lambda self, attempt, report, now_ms: self._send(report))


@bug
def nobody_acknowledges(patch):
    _without(patch, AcknowledgeReport)


@bug
def a_report_that_was_on_its_way_ends_a_cancel(patch):
    table = dict(execution_state.NEXT[ExecutionState.CANCELING])
    table[ExecutionStep.RUN] = ExecutionState.RUNNING
    patch.setitem(execution_state.NEXT, ExecutionState.CANCELING, table)


@bug
def a_cancelled_task_that_finishes_counts_as_finished(patch):
    table = dict(execution_state.NEXT[ExecutionState.CANCELING])
    table[ExecutionStep.FINISH] = ExecutionState.FINISHED
    patch.setitem(execution_state.NEXT, ExecutionState.CANCELING, table)


# ---- cancelling


@bug
def a_cancel_is_sent_once(patch):
    patch.setattr(Cancellations, "sent", lambda self, execution, now_ms, tries=1: None)
    patch.setattr(job_master, "is_unheard", lambda execution: False)


@bug
def a_lazy_task_is_interrupted_once(patch):
    def passed(self, message, now_ms):
        due = self._interrupts.take_due(now_ms)
        time_passed(self, message, now_ms)
        for attempt in due:
            self._do(task_executor.InterruptTask(attempt))

    time_passed = TaskExecutor._time_passed
    patch.setitem(task_executor._HANDLERS, TimePassed, passed)


@bug
def nobody_ends_a_process_whose_task_is_deaf(patch):
    patch.setattr(TaskExecutor, "_give_up", lambda self, attempt: False)


@bug
def a_manager_leaves_while_tasks_run(patch):
    def leave(self):
        self._running_count = 0
        if_empty(self)

    if_empty = TaskExecutor._leave_if_empty
    patch.setattr(TaskExecutor, "_leave_if_empty", leave)


# ---- heartbeats


@bug
def silent_managers_are_not_found(patch):
    patch.setattr(HeartbeatMonitor, "silent", lambda self, now_ms: [])
    patch.setattr(HeartbeatMonitor, "next_deadline_ms", property(lambda self: self._next_ask_ms))


@bug
def nobody_is_asked_for_a_heartbeat(patch):
    ask = HeartbeatMonitor.ask

    def ask_nobody(self, now_ms):
        ask(self, now_ms)
        return []

    patch.setattr(HeartbeatMonitor, "ask", ask_nobody)


@bug
def a_manager_waits_for_ever_for_its_job_master(patch):
    patch.setattr(TaskExecutor, "_heard", lambda self, now_ms: None)


@bug
def heartbeats_are_not_laid_beside_the_graph(patch):
    patch.setattr(JobMaster, "_heartbeat", lambda self, manager, report, now_ms: None)


@bug
def a_heartbeat_older_than_the_deployment_counts(patch):
    heartbeat = JobMaster._heartbeat
    patch.setattr(
        JobMaster,
        "_heartbeat",
        lambda self, manager, report, now_ms: heartbeat(self, manager, replace(report, sequence=1 << 40), now_ms),
    )


# ---- failures and restarts


@bug
def the_first_failure_stays_the_cause(patch):
    patch.setattr(FailureHistory, "add", lambda self, entry: None)


@bug
def an_echo_weighs_as_much_as_a_cause(patch):
    patch.setattr(failure_history, "weighed", lambda entry: entry)


@bug
def the_restart_strategy_is_not_asked(patch):
    delay = FailureHistory.restart_delay_ms
    patch.setattr(FailureHistory, "restart_delay_ms", lambda self, entry: delay(self, entry) or 0)


@bug
def nobody_waits_before_a_restart(patch):
    delay = FailureHistory.restart_delay_ms
    patch.setattr(
        FailureHistory,
        "restart_delay_ms",
        lambda self, entry: None if delay(self, entry) is None else 0,
    )


@bug
def a_failure_that_forbids_restarts_is_restarted(patch):
    delay = FailureHistory.restart_delay_ms

    def restart_anyway(self, entry):
        return delay(self, replace(entry, failure=replace(entry.failure, can_restart=True)))

    patch.setattr(FailureHistory, "restart_delay_ms", restart_anyway)


@bug
def only_the_failed_subtask_begins_again(patch):
    patch.setattr(PipelinedRegions, "to_restart", lambda self, failed, *_: list(failed))


@bug
def a_restart_does_not_wait_for_the_last_attempts(patch):
    begin = Restarts.begin

    def begin_at_once(self, subtasks, due_ms, is_open, **options):
        return begin(self, subtasks, due_ms, lambda key: False, **options)

    patch.setattr(Restarts, "begin", begin_at_once)


@bug
def a_second_failure_takes_the_place_of_the_first(patch):
    begin = Restarts.begin

    def begin_alone(self, *arguments, **options):
        self.waiting = []
        return begin(self, *arguments, **options)

    patch.setattr(Restarts, "begin", begin_alone)


@bug
def processes_that_come_together_are_replaced_one_by_one(patch):
    answer = Failover._answer

    def in_place(self, entry, victims, now_ms, *, needs_new_run):
        answer(self, entry, victims, now_ms, needs_new_run=False)

    patch.setattr(Failover, "_answer", in_place)


@bug
def coordinators_are_not_told_of_new_attempts(patch):
    _without(patch, ResetSources)


@bug
def coordinators_are_not_told_of_ended_attempts(patch):
    _without(patch, SubtaskGone)


# ---- slots and deployment


@bug
def slots_of_a_lost_manager_are_not_free(patch):
    patch.setattr(SlotPool, "free", lambda self, manager_id: [])


@bug
def lost_slots_are_not_asked_for(patch):
    ask = ManagerTable.ask
    patch.setattr(ManagerTable, "ask", lambda self, slots: ask(self, slots) if self.run == 0 else ())


@bug
def whoever_registers_is_taken(patch):
    fill_asked = SlotPool.fill

    def fill(self, manager_id, slots):
        for slot in slots:
            self.asked.setdefault(slot, 0)
        fill_asked(self, manager_id, slots)

    patch.setattr(SlotPool, "expects", lambda self, slots, run: True)
    patch.setattr(SlotPool, "fill", fill)


@bug
def nobody_gives_up_waiting_for_slots(patch):
    patch.setattr(scheduler.Scheduler, "overdue", lambda self, now_ms: [])
    patch.setattr(scheduler.Scheduler, "next_deadline_ms", property(lambda self: None))


@bug
def partitions_of_all_attempts_have_one_name(patch):
    partition_id = DeploymentBuilder.partition_id

    def same(self, execution, partition_index):
        return partition_id(self, execution, partition_index)[:-8] + "0" * 8

    patch.setattr(DeploymentBuilder, "partition_id", same)


@bug
def consumers_are_deployed_before_producers(patch):
    build = DeploymentBuilder.build
    patch.setattr(DeploymentBuilder, "build", lambda self, executions: build(self, executions[::-1]))


@bug
def all_subtasks_share_the_first_slot_of_their_manager(patch):
    descriptor = DeploymentBuilder._descriptor

    def first(self, *given):
        return replace(descriptor(self, *given), slot_index=0)

    patch.setattr(DeploymentBuilder, "_descriptor", first)


# ---- the end


@bug
def managers_are_not_released_at_the_end(patch):
    _without(patch, ReleaseManager, StopManager)


@bug
def finished_attempts_count_twice(patch):
    step = ExecutionGraph.step

    def count_twice(self, execution, happens, now_ms):
        after = step(self, execution, happens, now_ms)
        self.finished_count += after is ExecutionState.FINISHED and happens is ExecutionStep.FINISH
        return after

    patch.setattr(ExecutionGraph, "step", count_twice)


@bug
def a_cancel_of_the_job_is_taken_for_its_end(patch):
    def cancel(self, stimulus, now_ms):
        _cancel_job(self, stimulus, now_ms)
        self._end(now_ms)

    _cancel_job = JobMaster._cancel_job
    patch.setitem(JobMaster._ANSWERS, job_master.CancelJob, cancel)


@bug
def a_task_that_gave_up_by_itself_counts_as_cancelled(patch):
    def ended(self, execution, step, failure, now_ms):
        if step is ExecutionStep.FAIL and failure is not None and failure.is_echo:
            self._tasks.end(execution, ExecutionStep.CONFIRM_CANCEL, now_ms)
        else:
            _ended(self, execution, step, failure, now_ms)

    _ended = JobMaster._ended
    patch.setattr(JobMaster, "_ended", ended)
