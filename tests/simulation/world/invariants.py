"""What holds after every step of every run, and at its end.

Whoever checks keeps books of its own: what the job master said and was told, and what really happened at the managers.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from flinkbuf.runtime.protocol import messages as ms
from flinkbuf.runtime.protocol.deployment import AttemptId, ChannelDescriptor, TaskDeploymentDescriptor
from flinkbuf.runtime.protocol.failure import Failure
from flinkbuf.runtime.protocol.job_status import JobStatus
from flinkbuf.runtime.protocol.messages import NO_SESSION
from flinkbuf.runtime.protocol.time_passed import TimePassed
from flinkbuf.runtime.scheduler import master_actions as ma
from flinkbuf.runtime.scheduler.execution_state import ExecutionState
from flinkbuf.runtime.scheduler.slots import slot_count, slot_of
from flinkbuf.streaming.task.task_state import TaskState

if TYPE_CHECKING:
    from simulation.world.managers import SimManager
    from simulation.world.tasks import SimTask
    from simulation.world.world import World

Subtask = tuple[str, int]
FINAL = ("FINISHED", "CANCELED", "FAILED")
_S = ExecutionState
ALLOWED = {  # Flink's table; RUNNING and FINISHED may overtake what comes before them
    _S.CREATED: {_S.SCHEDULED, _S.CANCELED, _S.FAILED},
    _S.SCHEDULED: {_S.DEPLOYING, _S.CANCELED, _S.FAILED},
    _S.DEPLOYING: {_S.INITIALIZING, _S.RUNNING, _S.FINISHED, _S.CANCELING, _S.CANCELED, _S.FAILED},
    _S.INITIALIZING: {_S.RUNNING, _S.FINISHED, _S.CANCELING, _S.CANCELED, _S.FAILED},
    _S.RUNNING: {_S.FINISHED, _S.CANCELING, _S.CANCELED, _S.FAILED},
    _S.CANCELING: {_S.CANCELED},
    _S.FINISHED: set(),
    _S.CANCELED: set(),
    _S.FAILED: set(),
}
_J = JobStatus
STATUSES = {
    _J.CREATED: {_J.RUNNING, _J.CANCELED, _J.CANCELLING, _J.FAILED, _J.FAILING, _J.RESTARTING},
    _J.RUNNING: {_J.RESTARTING, _J.FAILING, _J.CANCELLING, _J.FINISHED, _J.FAILED, _J.CANCELED},
    _J.RESTARTING: {_J.RUNNING, _J.FAILING, _J.CANCELLING, _J.FAILED, _J.CANCELED},
    _J.FAILING: {_J.FAILED, _J.CANCELLING},
    _J.CANCELLING: {_J.CANCELED},
}


class Violation(AssertionError):
    """Something that must always hold did not."""


def demand(holds: bool, text: str, *details: Any) -> None:
    """Raise unless it holds."""
    if not holds:
        raise Violation(" ".join([text, *map(str, details)]))


class Invariants:
    """The books of one run."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.graph = world.master.graph
        self.vertex_index = {vertex.id: index for index, vertex in enumerate(world.plan.vertices)}
        # as the job master says
        self.accepted: dict[str, ms.RegisterManager] = {}  # managers that it counts on
        self.registrations: dict[str, ms.RegisterManager] = {}
        self._new: list[TaskDeploymentDescriptor] = []  # deployed by the last call
        self.deployed: dict[AttemptId, str] = {}
        self.partitions: dict[str, tuple[AttemptId, int]] = {}
        self.newest: dict[Subtask, int] = {}
        self.states: dict[AttemptId, ExecutionState] = {}
        self.gone: set[AttemptId] = set()
        self.reset: set[Subtask] = set()
        self.run = 0  # that was asked for last
        self.status = JobStatus.CREATED
        self.is_cancelled = False
        self.is_doomed = False  # a failure that forbids a restart was heard
        self.causes: list[Failure] = []  # that were heard since the last deployment
        self._is_narrow = self.graph.subtask_count <= 100
        self._late_wakes = 0
        self._outage_count = 0  # before what the job master hears just now
        self._is_heartbeat = False  # what the job master hears just now
        self._before: dict[AttemptId, ExecutionState] | None = None  # when what follows must change nothing
        # as it really is
        self.truth: dict[AttemptId, TaskState] = {}
        self.reached: set[tuple[AttemptId, TaskState]] = set()
        self.finals: dict[tuple[str, AttemptId], str] = {}  # reported and not acknowledged, by manager
        self.orphans: dict[AttemptId, int] = {}  # since when
        self._checks = {
            ma.StartManagers: self._managers_wanted,
            ma.SendTo: self._sent,
            ma.StopManager: self._manager_stopped,
            ma.ResetSources: self._sources_reset,
            ma.TellCoordinator: self._coordinator_told,
            ma.SubtaskGone: self._subtask_gone,
            ma.StatusChanged: self._status_changed,
            ma.EndJob: self._job_ended,
        }
        world.agenda.after(5_000, self._look_for_orphans)

    def number_of(self, vertex_id: str, subtask: int) -> int:
        """The newest attempt that was deployed; -1: none."""
        return self.newest.get((vertex_id, subtask), -1)

    # ---- around each step of the job master

    def before(self, stimulus: object) -> None:
        """Note what must not change if nobody may be heard."""
        deadline_ms = self.world.master.next_deadline_ms
        is_quiet = deadline_ms is None or deadline_ms > self.world.now_ms
        may_change = not (is_quiet and self._is_void(stimulus))
        self._before = None if may_change else {each.attempt: each.state for each in self.graph.executions()}
        if isinstance(stimulus, ma.CancelJob):
            self.is_cancelled = self.is_cancelled or not self.world.master.is_over
        elif isinstance(stimulus, ma.ManagerLost):
            self._note_loss(stimulus)
            self.accepted.pop(stimulus.manager_id, None)
        elif isinstance(stimulus, ma.ManagerSaid) and isinstance(stimulus.message, ms.RegisterManager):
            self.registrations[stimulus.manager_id] = stimulus.message
        self._outage_count = self.world.restart.new_count
        self._note_cause(stimulus)

    def _is_void(self, stimulus: object) -> bool:
        """Whether it comes from somebody, or is about something, that does not count any more."""
        if not isinstance(stimulus, ma.ManagerSaid) or isinstance(
            stimulus.message, (ms.RegisterManager, ms.ManagerLeaving)
        ):
            return False
        message = stimulus.message
        if stimulus.manager_id not in self.accepted or message.session_id != self.world.session_id:
            return True
        if isinstance(message, ms.TaskStateReport):
            execution = self.graph.execution_of(message.attempt)
            return execution is None or self.deployed.get(message.attempt) != stimulus.manager_id
        return False

    def _note_loss(self, stimulus: ma.ManagerLost) -> None:
        """A process that ends with its tasks says more than those who have lost what they read from them."""
        if stimulus.manager_id in self.accepted and self.graph.open_on(stimulus.manager_id):
            self.causes.append(Failure("builtins.ConnectionError", stimulus.reason))

    def _note_cause(self, stimulus: object) -> None:
        failure = getattr(stimulus, "failure", None)
        if isinstance(stimulus, ma.ManagerSaid):
            message = stimulus.message
            if not isinstance(message, ms.TaskStateReport) or message.state != "FAILED" or self._is_void(stimulus):
                return
            state = self.graph.execution_of(message.attempt).state
            if state.is_terminal:
                return
            failure = message.failure
            self.is_doomed |= not failure.can_restart and state is not ExecutionState.CANCELING
        if isinstance(stimulus, ma.RunFailed):
            managers = (self.accepted[each] for each in self.accepted if each != "program")
            if stimulus.run != self.run and all(each.run != stimulus.run for each in managers):
                return  # of processes that have been replaced
        if failure is not None and not failure.is_echo:
            self.causes.append(failure)

    def after(self, stimulus: object, actions: list[Any]) -> None:
        """Check what it wants done, and how its graph stands."""
        for action in actions:
            self._checks[type(action)](action)
        self._check_deployed_together()
        ends = [index for index, action in enumerate(actions) if isinstance(action, ma.EndJob)]
        demand(ends in ([], [len(actions) - 1]), "EndJob is not the last action:", actions)
        if self.world.restart.new_count > self._outage_count and _is_echo(stimulus):
            self.causes.clear()  # it begins an outage of its own; what is the cause has still to come
        self._is_heartbeat = isinstance(getattr(stimulus, "message", None), ms.HeartbeatReport)
        # In a wide graph now and then, and at the end: every state is kept with its time.
        if self._is_narrow or self.world.agenda.step_count % 100 == 0 or ends:
            self._states_changed()
        if self._before is not None:
            now = {each.attempt: each.state for each in self.graph.executions()}
            demand(now == self._before, "somebody who is not to be heard changed something:", stimulus)
        self._acknowledged(stimulus, actions)
        self._deadline(stimulus)

    def _states_changed(self) -> None:
        states = self.states
        for vertex in self.graph.vertices:
            for subtask in vertex.subtasks:
                current = subtask.current
                if states.get(current.attempt) is not current.state:
                    self._check_execution(subtask, current)

    def _check_execution(self, subtask: Any, current: Any) -> None:
        attempt = current.attempt
        if attempt not in self.states:
            demand(attempt.attempt_number == len_of(subtask), "attempt numbers do not rise one by one:", current)
            for old in subtask.history:
                demand(old.state.is_terminal, "a new attempt beside one that has not ended:", old, current)
                demand(_is_path(list(old.timestamps)), "a path that is not allowed:", old, old.timestamps)
                self.states[old.attempt] = old.state
        else:
            demand(not self.states[attempt].is_terminal, "an attempt ended twice:", current, self.states[attempt])
        demand(_is_path(list(current.timestamps)), "a path that is not allowed:", current, current.timestamps)
        demand(list(current.timestamps)[-1] is current.state, "a state without its time:", current)
        self.states[attempt] = current.state
        if current.state is ExecutionState.FINISHED:
            demand(self.truth.get(attempt) is TaskState.FINISHED, "FINISHED, though the task is not:", current)
        elif current.state is ExecutionState.FAILED and self._is_heartbeat:
            manager = self.world.provider.managers[self.deployed[attempt]]
            is_ill = manager.was_ill or manager.connection.was_ill
            demand(is_ill, "a task is missed that nobody has lost:", current)
        elif current.state is ExecutionState.RUNNING:
            demand((attempt, TaskState.RUNNING) in self.reached, "RUNNING, though the task never was:", current)

    def _acknowledged(self, stimulus: object, actions: list[Any]) -> None:
        """Every final report is answered, whoever sent it."""
        message = getattr(stimulus, "message", None)
        if not isinstance(message, ms.TaskStateReport) or message.state not in FINAL or self.world.master.is_over:
            return
        if message.session_id == self.world.session_id and stimulus.manager_id in self.accepted:
            answers = [each.message for each in actions if isinstance(each, ma.SendTo)]
            wanted = ms.AcknowledgeReport(self.world.session_id, message.attempt)
            demand(wanted in answers, "a final report was not acknowledged:", message)

    def _deadline(self, stimulus: object) -> None:
        deadline_ms = self.world.master.next_deadline_ms
        is_late = deadline_ms is not None and deadline_ms <= self.world.now_ms
        self._late_wakes = self._late_wakes + 1 if is_late and isinstance(stimulus, TimePassed) else 0
        demand(self._late_wakes < 3, "the deadline stays in the past:", deadline_ms, self.world.now_ms)

    # ---- what it wants

    def _managers_wanted(self, action: ma.StartManagers) -> None:
        self.run = action.run
        demand(not self.is_cancelled or not self.world.master.is_over, "managers for a job that is over")
        together = self.world.config.managers_come_together
        demand(not together or len(action.indexes) == slot_count(self.world.plan), "a part of a run:", action)
        held = {slot for registration in self.accepted.values() for slot in _slots(registration)}
        demand(not held & set(action.indexes), "slots were asked for that are held:", action, held)

    def _sent(self, action: ma.SendTo) -> None:
        message = action.message
        session_id = getattr(message, "session_id", self.world.session_id)
        demand(session_id == self.world.session_id, "a message of another session:", message)
        if isinstance(message, ms.RegistrationAccepted):
            self._manager_accepted(action.manager_id)
        elif isinstance(message, ms.DeployTasks):
            for descriptor in message.descriptors:
                self._deployed(action.manager_id, descriptor)

    def _manager_accepted(self, manager_id: str) -> None:
        registration = self.registrations[manager_id]
        for other_id, other in self.accepted.items():
            if other_id != manager_id:
                both = set(_slots(registration)) & set(_slots(other))
                demand(not both, "one slot at two managers:", manager_id, other_id, both)
        self.accepted[manager_id] = registration

    def _manager_stopped(self, action: ma.StopManager) -> None:
        self.accepted.pop(action.manager_id, None)

    def _deployed(self, manager_id: str, descriptor: TaskDeploymentDescriptor) -> None:
        attempt = descriptor.attempt
        subtask = (attempt.vertex_id, attempt.subtask_index)
        demand(attempt not in self.deployed, "deployed twice:", attempt)
        demand(attempt.attempt_number > self.newest.get(subtask, -1), "an old attempt was deployed:", attempt)
        demand(manager_id in self.accepted, "deployed at a manager that does not count:", attempt, manager_id)
        demand(self.status in (_J.RUNNING, _J.RESTARTING), "deployed while the job is", self.status, attempt)
        demand(not self.world.restart.is_refused, "deployed though the restart strategy said no:", attempt)
        demand(not self.is_doomed, "deployed after a failure that forbids it:", attempt)
        self._check_new_run(subtask, manager_id)
        if attempt.attempt_number > 0:
            count = self.world.restart.new_count
            demand(count > 0, "a restart without a failure:", attempt)
            demand(count <= self.world.settings.restart_limit, "one restart too many:", attempt, count)
            since_ms = self._since_ms(attempt)
            demand(self.world.restart.allows(since_ms, self.world.now_ms), "restarted before its time:", attempt)
            self.causes.clear()
            if self.world.coordinators.operator_of(attempt.vertex_id):
                demand(subtask in self.reset, "its coordinator was not told of a new attempt:", attempt)
                self.reset.discard(subtask)
        self._check_slot(manager_id, descriptor)
        self._check_outputs(descriptor)
        self._new.append(descriptor)
        self.deployed[attempt] = manager_id
        self.newest[subtask] = attempt.attempt_number

    def _check_deployed_together(self) -> None:
        """Whoever reads of another one knows it; on one task manager the other one comes first."""
        places = {descriptor.attempt: place for place, descriptor in enumerate(self._new)}
        for place, descriptor in enumerate(self._new):
            for writer in self._check_inputs(descriptor):
                is_near = self.deployed[writer] == self.deployed[descriptor.attempt]
                is_before = places.get(writer, -1) < place
                demand(is_before or not is_near, "its producer was not deployed before:", descriptor.attempt, writer)
        self._new.clear()

    def _check_new_run(self, subtask: Subtask, manager_id: str) -> None:
        """Where processes cannot run an attempt after the other, it is in another process."""
        before = self.deployed.get(AttemptId(*subtask, self.newest.get(subtask, -1)))
        if before is not None and not self.world.config.can_restart_in_place and manager_id != "program":
            runs = self.registrations[before].run, self.registrations[manager_id].run
            demand(runs[0] < runs[1], "it begins again in the same process:", subtask, before, manager_id)

    def _since_ms(self, attempt: AttemptId) -> int:
        """Since when a failure is one of the attempt before; of any, where processes begin again together."""
        vertices = [self.graph.execution_of(attempt).vertex]
        if self.world.config.managers_come_together:
            vertices = list(self.graph.subtasks())
        return min(vertex.history[-1].timestamps[_S.CREATED] for vertex in vertices if vertex.history)

    def _check_slot(self, manager_id: str, descriptor: TaskDeploymentDescriptor) -> None:
        attempt = descriptor.attempt
        slot = slot_of(self.world.plan, self.vertex_index[attempt.vertex_id], attempt.subtask_index)
        if slot is None:
            demand(manager_id == "program", "a task of the program elsewhere:", attempt, manager_id)
        else:
            place = self.accepted[manager_id].index + descriptor.slot_index
            demand(place == slot, "not its slot:", attempt, place, slot)
            demand(place in _slots(self.accepted[manager_id]), "a slot that its manager has not:", attempt, place)

    def _check_outputs(self, descriptor: TaskDeploymentDescriptor) -> None:
        plan, attempt = self.world.plan, descriptor.attempt
        outputs = [edge for edge in plan.edges if edge.source == self.vertex_index[attempt.vertex_id]]
        demand(len(outputs) == len(descriptor.partitions), "partitions are missing:", attempt)
        for edge in outputs:
            partition = descriptor.partitions[edge.partition_index]
            wanted = plan.subpartition_count(edge, attempt.subtask_index)
            demand(partition.subpartition_count == wanted, "a partition of another size:", partition, wanted)
            demand(partition.partition_id not in self.partitions, "a partition of an older attempt:", partition)
            self.partitions[partition.partition_id] = (attempt, edge.partition_index)

    def _check_inputs(self, descriptor: TaskDeploymentDescriptor) -> list[AttemptId]:
        """Check what a task reads; return whose partitions these are."""
        writers = []
        plan, attempt = self.world.plan, descriptor.attempt
        inputs = [edge for edge in plan.edges if edge.target == self.vertex_index[attempt.vertex_id]]
        demand(len(inputs) == len(descriptor.gates), "gates are missing:", attempt)
        for edge in inputs:
            channels = descriptor.gates[edge.gate_index].channels
            wanted = plan.channels_of(edge, attempt.subtask_index)
            demand(len(channels) == len(wanted), "channels are missing:", attempt, edge)
            for channel, (producer, subpartition) in zip(channels, wanted, strict=True):
                demand(channel.partition_id in self.partitions, "its producer was not deployed:", attempt)
                writer, partition_index = self.partitions[channel.partition_id]
                demand(
                    (self.vertex_index[writer.vertex_id], writer.subtask_index) == (edge.source, producer)
                    and (partition_index, channel.subpartition_index) == (edge.partition_index, subpartition),
                    "a channel of something else:",
                    channel,
                    writer,
                )
                self._check_producer(attempt, writer, channel)
                writers.append(writer)
        return writers

    def _check_producer(self, attempt: AttemptId, writer: AttemptId, channel: ChannelDescriptor) -> None:
        """It is of the same restart, and where the consumer looks for it."""
        newest = self.newest[writer.vertex_id, writer.subtask_index]
        demand(writer.attempt_number == newest, "a producer of an older restart:", attempt, writer)
        state = self.graph.execution_of(writer).state
        demand(state not in (_S.CANCELING, _S.CANCELED, _S.FAILED), "its producer has gone:", attempt, writer, state)
        manager_id = self.deployed[writer]
        registration = self.accepted.get(manager_id)
        demand(registration is not None, "a producer at a manager that has gone:", attempt, manager_id)
        demand((channel.host, channel.port) == (registration.host, registration.data_port), "not its address:", channel)

    def _sources_reset(self, action: ma.ResetSources) -> None:
        self.reset.update(action.subtasks)
        for subtask in action.subtasks:
            attempt = AttemptId(*subtask, self.newest.get(subtask, -1))
            demand(attempt not in self.deployed or attempt in self.gone, "reset beside a live attempt:", attempt)

    def _coordinator_told(self, action: ma.TellCoordinator) -> None:
        demand(action.attempt not in self.gone, "a coordinator hears of an attempt that has gone:", action)
        newest = self.number_of(action.attempt.vertex_id, action.attempt.subtask_index)
        demand(action.attempt.attempt_number == newest, "a coordinator hears an old attempt:", action, newest)
        demand(action.operator_id == self.world.coordinators.operator_of(action.attempt.vertex_id), "whose?", action)

    def _subtask_gone(self, action: ma.SubtaskGone) -> None:
        demand(action.attempt in self.deployed, "gone, but it never was there:", action)
        demand(action.attempt not in self.gone, "gone twice:", action)
        self.gone.add(action.attempt)

    def _status_changed(self, action: ma.StatusChanged) -> None:
        demand(action.status in STATUSES.get(self.status, ()), "a change that is not allowed:", self.status, action)
        self.status = action.status

    # ---- the end of the job

    def _job_ended(self, action: ma.EndJob) -> None:
        demand(self.world.end is None, "it ended twice")
        demand(action.status is self.status and self.status.is_globally_terminal_state(), "another status:", action)
        demand(not self.accepted or set(self.accepted) == {"program"}, "managers are still held:", list(self.accepted))
        for execution in self.graph.executions():
            demand(execution.state.is_terminal, "an attempt that has not ended:", execution)
        demand(self.gone == set(self.deployed), "coordinators wait for:", set(self.deployed) - self.gone)
        if action.status is JobStatus.FINISHED:
            self._finished()
        elif action.status is JobStatus.CANCELED:
            demand(self.is_cancelled, "CANCELED, and nobody wanted it")
        else:
            self._failed(action.failure)

    def _finished(self) -> None:
        for execution in self.graph.executions():
            demand(execution.state is ExecutionState.FINISHED, "the job FINISHED without:", execution)
        demand(not self.is_doomed, "FINISHED after a failure that forbids a restart")

    def _failed(self, failure: Failure | None) -> None:
        demand(failure is not None, "FAILED for no reason")
        master = self.world.master
        is_known = any(failure == each for each in self.world.failures) or not failure.traceback
        demand(is_known, "a failure that nobody had:", failure)
        demand(not (failure.is_echo and self.causes), "an echo for the cause:", failure, self.causes)
        demand(master.failure == failure, "another failure than the one it shows:", failure)
        is_final = self.is_doomed or self.world.restart.is_refused or not failure.can_restart
        demand(is_final, "FAILED though it could restart:", failure)

    # ---- at the managers

    def manager_handled(self, manager: SimManager, message: Any, actions: list[Any]) -> None:
        """What a task manager answered to a message."""
        session_id = getattr(message, "session_id", None)
        if session_id not in (None, NO_SESSION, self.world.session_id):
            demand(not actions, "somebody of another session was heard:", message, actions)
        if isinstance(message, ms.AcknowledgeReport):
            self.finals.pop((manager.id, message.attempt), None)
        for action in actions:
            report = getattr(action, "message", None)
            if isinstance(report, ms.TaskStateReport) and report.state in FINAL:
                self._final_report(manager, report)
        deadline_ms = manager.executor.next_deadline_ms
        if isinstance(message, TimePassed):
            demand(deadline_ms is None or deadline_ms > self.world.now_ms, "a deadline in the past:", manager)

    def _final_report(self, manager: SimManager, report: ms.TaskStateReport) -> None:
        key = (manager.id, report.attempt)
        demand(self.finals.setdefault(key, report.state) == report.state, "two ends of one attempt:", report)
        task = manager.tasks.get(report.attempt)
        if task is not None:
            demand(task.is_gone, "an end is reported of a task that runs:", report)
            if report.state == "FINISHED":
                demand(self.truth[report.attempt] is TaskState.FINISHED, "FINISHED is not true:", report)

    def task_started(self, manager: SimManager, descriptor: TaskDeploymentDescriptor) -> None:
        """A thread begins."""
        attempt = descriptor.attempt
        demand(attempt not in self.truth, "started twice:", attempt)
        demand(self.deployed.get(attempt) == manager.id, "nobody deployed it here:", attempt, manager)
        self.truth[attempt] = TaskState.CREATED

    def task_changed(self, task: SimTask) -> None:
        """A thread is in another state."""
        self.truth[task.attempt] = task.state
        self.reached.add((task.attempt, task.state))

    def task_forgotten(self, task: SimTask) -> None:
        """What it wrote is freed."""
        demand(task.is_gone, "a task was forgotten that runs:", task)
        execution = self.graph.execution_of(task.attempt)
        is_over = self.world.end is not None or task.manager.id not in self.accepted
        has_readers = execution is not None and execution.state is ExecutionState.FINISHED
        demand(is_over or not has_readers or self.status is not JobStatus.RUNNING, "what others read is freed:", task)

    def event_delivered(self, task: SimTask, payload: bytes) -> None:
        """Of its coordinator: all in order."""
        demand(payload == b"split %d" % task.splits, "an event out of order:", task, payload)

    def manager_leaves(self, manager: SimManager, left_behind: tuple[AttemptId, ...]) -> None:
        """Its process ends by itself; threads of the program that do not end are left behind."""
        demand(manager.is_program or not left_behind, "only the program leaves tasks behind:", manager, left_behind)
        running = [each for each in manager.tasks.values() if not each.is_gone and each.attempt not in left_behind]
        demand(not running, "it leaves while these run:", manager, running)

    def _look_for_orphans(self) -> None:
        """A task that runs, but not for the job master, ends soon; and the other way round."""
        if self.world.end is not None:
            return
        settings = self.world.settings
        bound_ms = 3 * (settings.master.heartbeat_interval_ms + settings.cancellation_interval_ms) + 60_000
        for manager in self.world.provider.managers.values():
            if manager.is_alive and not manager.connection.was_ill and not manager.was_ill:
                for task in manager.tasks.values():
                    self._look_at(task, bound_ms)
        self.world.agenda.after(5_000, self._look_for_orphans)

    def _look_at(self, task: SimTask, bound_ms: int) -> None:
        execution = self.graph.execution_of(task.attempt)
        is_wanted = execution is not None and not execution.state.is_terminal
        if is_wanted != task.is_gone or task.fate.interrupts:
            self.orphans.pop(task.attempt, None)
        else:
            since_ms = max(self.orphans.setdefault(task.attempt, self.world.now_ms), self.world.odds.heal_ms)
            demand(self.world.now_ms - since_ms < bound_ms, "task and job master do not agree:", task, execution)

    # ---- the end of the run

    def nothing_ends(self) -> None:
        """It takes longer than it may."""
        open_ones = [repr(each) for each in self.graph.executions() if not each.state.is_terminal]
        demand(False, f"the job is {self.status.name} and does not end; open:", open_ones, self.world.provider.living())

    def at_the_end(self) -> None:
        """Nothing is left anywhere."""
        demand(self.world.end is not None, "nothing moves any more, and the job is", self.status)
        for manager in self.world.provider.managers.values():
            demand(not manager.is_alive or manager.is_program, "a process is left:", manager)
            running = [task for task in manager.tasks.values() if not task.is_gone]
            demand(not running, "tasks are left:", running)


def len_of(subtask: Any) -> int:
    """How many attempts a subtask had before its current one."""
    return subtask.history[-1].attempt.attempt_number + 1 if subtask.history else 0


def _is_echo(stimulus: Any) -> bool:
    failure = getattr(getattr(stimulus, "message", stimulus), "failure", None)
    return failure is not None and failure.is_echo


def _is_path(states: list[ExecutionState]) -> bool:
    return states[0] is _S.CREATED and all(b in ALLOWED[a] for a, b in itertools.pairwise(states))


def _slots(registration: ms.RegisterManager) -> range:
    return range(registration.index, registration.index + registration.slot_count)
