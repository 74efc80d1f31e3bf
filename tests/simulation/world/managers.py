"""Processes of task managers: the real TaskExecutor, made-up threads of tasks, and their starts and ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulation.world.agenda import Inbox
from simulation.world.network import Connection
from simulation.world.tasks import SimTask

from flinkbuf.runtime.manager import task_actions as tm
from flinkbuf.runtime.manager.task_executor import TaskExecutor
from flinkbuf.runtime.protocol.deployment import AttemptId
from flinkbuf.runtime.protocol.failure import Failure
from flinkbuf.runtime.protocol.messages import (
    NO_SESSION,
    CheckpointRefusal,
    OperatorEventReport,
    RegisterManager,
    TaskStateReport,
)
from flinkbuf.runtime.protocol.time_passed import TimePassed
from flinkbuf.streaming.task.task_state import TaskState

if TYPE_CHECKING:
    from simulation.world.world import World

PROGRAM = "program"


class SimManager:
    """One process (or the manager in the program), from its start to its end."""

    def __init__(self, world: World, manager_id: str, run: int, index: int, slot_count: int) -> None:
        self.world = world
        self.id = manager_id
        self.run = run
        self.index = index
        self.slot_count = slot_count
        self.is_program = manager_id == PROGRAM
        self.is_alive = True
        self.was_ill = False
        self.dies_after: int | None = None  # steps; None: nobody kills it
        self.tasks: dict[AttemptId, SimTask] = {}
        self.connection = Connection(world, self)
        self.inbox = Inbox(world.agenda, self.handle)
        self.executor = TaskExecutor(world.executor_config(self.is_program))
        self._wake_ms: int | None = None
        self._perform = {
            tm.SendMessage: lambda action: self.connection.send_up(action.message),
            tm.AskMetrics: lambda action: self.connection.send_up(action.report),
            tm.StartTask: self._start_task,
            tm.StopTask: lambda action: self.tasks[action.attempt].stop(),
            tm.InterruptTask: lambda action: self.tasks[action.attempt].interrupt(),
            tm.ForgetTask: self._forget_task,
            tm.DropPartitions: lambda action: self.world.data.drop(self, action.partition_ids),
            tm.DeliverOperatorEvent: self._deliver,
            tm.TriggerTask: self._trigger,
            tm.NotifyTask: self._notify,
            tm.KillProcess: lambda action: self.die(action.reason),
            tm.LeaveProcess: self.leave,
            tm.Warn: lambda action: None,
        }

    def __repr__(self) -> str:
        return f"<SimManager {self.id} of run {self.run} at {self.index}, {'up' if self.is_alive else 'down'}>"

    def start(self) -> None:
        """It comes up and says so."""
        self.executor.start(self.world.now_ms)
        self.register()
        self._plan_wake()

    def register(self) -> None:
        """Its first message, which may come twice."""
        host = "program" if self.is_program else f"host-{self.id}"
        self.connection.send_up(
            RegisterManager(self.id, self.run, self.index, host, 1, self.slot_count, process_id=self.run * 1000)
        )

    # ---- its control thread

    def handle(self, message: object) -> None:
        """Have it decided what follows, and do it."""
        actions = self.executor.handle(message, self.world.now_ms)
        self.world.manager_handled(self, message, actions)
        for action in actions:
            if not self.goes_on():
                return
            self._perform[type(action)](action)
        if self.is_alive:
            self._plan_wake()

    def goes_on(self) -> bool:
        """Whether the process is there to do the next thing: it may be killed between any two."""
        if self.dies_after is not None:
            self.dies_after -= 1
            if self.dies_after < 0:
                self.kill("kill -9 between two steps")
        return self.is_alive

    def _plan_wake(self) -> None:
        deadline_ms = self.executor.next_deadline_ms
        if deadline_ms is not None and (self._wake_ms is None or deadline_ms < self._wake_ms):
            self._wake_ms = max(deadline_ms, self.world.now_ms)
            self.world.agenda.at(self._wake_ms, self._wake, self._wake_ms)

    def _wake(self, planned_ms: int) -> None:
        if not self.is_alive or planned_ms != self._wake_ms:
            return
        self._wake_ms = None
        deadline_ms = self.executor.next_deadline_ms
        if deadline_ms is not None and deadline_ms <= self.world.now_ms:
            self.inbox.put_last(TimePassed())
        else:
            self._plan_wake()

    def _start_task(self, action: tm.StartTask) -> None:
        descriptor = action.descriptor
        self.world.invariants.task_started(self, descriptor)
        self.tasks[descriptor.attempt] = self.world.make_task(self, descriptor)

    def _forget_task(self, action: tm.ForgetTask) -> None:
        task = self.tasks.pop(action.attempt, None)
        if task is not None:
            self.world.invariants.task_forgotten(task)
            for partition in task.descriptor.partitions:
                self.world.data.lose(partition.partition_id)

    def _deliver(self, action: tm.DeliverOperatorEvent) -> None:
        self.world.invariants.event_delivered(self.tasks[action.attempt], action.payload)
        self.tasks[action.attempt].deliver(action.payload)

    def _trigger(self, action: tm.TriggerTask) -> None:
        if not self.tasks[action.attempt].trigger(action):
            reason = "CHECKPOINT_DECLINED_TASK_NOT_READY"
            self.inbox.put(CheckpointRefusal(NO_SESSION, action.attempt, action.checkpoint_id, reason))

    def _notify(self, action: tm.NotifyTask) -> None:
        self.tasks[action.attempt].notify(action)

    # ---- what its tasks and its connection say

    def task_changed(self, attempt: AttemptId, state: TaskState, failure: Failure | None) -> None:
        """From the task's thread."""
        if self.is_alive:
            self.inbox.put(TaskStateReport(NO_SESSION, attempt, state.value, failure))

    def task_said(self, attempt: AttemptId, operator_id: str, payload: bytes) -> None:
        """From the task's thread, for its coordinator."""
        self.inbox.put(OperatorEventReport(NO_SESSION, attempt, operator_id, payload))

    def checkpoint_said(self, message: object) -> None:
        """From the task's thread, or from the one that writes its state."""
        if self.is_alive:
            self.inbox.put(message)

    def link_lost(self, reason: str) -> None:
        """The connection has ended."""
        if self.is_alive:
            self.inbox.put(tm.LinkLost(reason))

    # ---- its end

    def leave(self, action: tm.LeaveProcess) -> None:
        """The process ends on its own; nothing may run in it any more but what the program's own leaves behind."""
        self.world.invariants.manager_leaves(self, action.left_behind)
        self._end(action.reason, is_clean=not action.left_behind)

    def die(self, reason: str) -> None:
        """The process ends at once."""
        self._end(reason, is_clean=False)

    def kill(self, reason: str) -> None:
        """From outside."""
        if self.is_alive:
            self.was_ill = True
            self._end(reason, is_clean=False)

    def _end(self, reason: str, is_clean: bool) -> None:
        self.is_alive = False
        self.inbox.is_closed = True
        self.world.note("end of", self.id, reason)
        for task in self.tasks.values():
            if not task.is_gone:
                task.vanish()
            else:
                for partition in task.descriptor.partitions:
                    self.world.data.lose(partition.partition_id)
        self.connection.end_by_manager(reason)
        self.world.provider.ended(self, is_clean, reason)
