"""What holds of checkpoints after every step of every run, and at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from simulation.checkpoints.cuts import check_cut
from simulation.checkpoints.sim_files import METADATA
from simulation.flow.flow_records import Records
from simulation.world.invariants import STATUSES, Invariants, demand

from flinkbuf.checkpoints.handles import CheckpointMetadata, SubtaskState
from flinkbuf.checkpoints.options import CheckpointOptions, SnapshotKind
from flinkbuf.network.events import CheckpointBarrier
from flinkbuf.runtime.protocol import messages as ms
from flinkbuf.runtime.protocol.deployment import AttemptId, TaskDeploymentDescriptor
from flinkbuf.runtime.protocol.failure import Failure
from flinkbuf.runtime.protocol.job_status import JobStatus
from flinkbuf.runtime.scheduler import master_actions as ma
from flinkbuf.streaming.task.task_state import TaskState

if TYPE_CHECKING:
    from simulation.checkpoints.checkpoint_world import CheckpointWorld
    from simulation.flow.flow_state import Snapshot
    from simulation.flow.flow_task import FlowTask

Part = tuple[AttemptId, SubtaskState, "Snapshot"]
KEPT_AFTER = {  # ends of a job after which its checkpoints stay
    "NO_EXTERNALIZED_CHECKPOINTS": (JobStatus.SUSPENDED,),
    "DELETE_ON_CANCELLATION": (JobStatus.SUSPENDED, JobStatus.FAILED),
    "RETAIN_ON_CANCELLATION": (JobStatus.SUSPENDED, JobStatus.FAILED, JobStatus.CANCELED),
}


class CheckpointInvariants(Invariants):
    """The books of one job master's checkpoints."""

    world: CheckpointWorld

    def __init__(self, world: CheckpointWorld) -> None:
        super().__init__(world)
        initial = world.initial
        self.highest_id = 0 if initial is None else initial.metadata.checkpoint_id
        self.begun: dict[int, int] = {}  # when those that have not ended were begun
        self.options: dict[int, CheckpointOptions] = {}
        self.failed: set[int] = set()
        self.parts: dict[tuple[int, str, int], Part] = {}  # by checkpoint, vertex and subtask
        self.last: dict[tuple[str, int], Snapshot | None] = {}  # of tasks that have finished; None: as one of before
        self.stored: set[int] = set()
        self._storing: dict[int, tuple[CheckpointMetadata, CheckpointOptions]] = {}
        self._told: set[int] = set()  # checkpoints that tasks have heard of
        self.kept: list[
            tuple[CheckpointMetadata, str]
        ] = []  # complete, newest last; those of which none may be deleted
        self.asked: dict[int, SnapshotKind] = {}
        self.known: set[str] = set()  # files that the job master has heard of
        self.restored = 0  # attempts that began from a checkpoint after a failure
        self.stopped_with: tuple[str, SnapshotKind] | None = None
        self._withdrawn: set[int] = set()  # late; only their storage says what becomes of them
        self._completed_ms: int | None = None
        self._ended: set[int] = set()
        self._answered: set[int] = set()
        self._at_end = False  # a task has said that its data has ended: the last checkpoint waits for nothing
        if initial is not None:
            self.stored.add(initial.metadata.checkpoint_id)
            self.kept.append((initial.metadata, initial.location))
            if world.is_led:  # else its program was away for long, and somebody else goes on with the job
                self._promise(initial.metadata)
        self._checks |= {
            ma.SnapshotCoordinators: lambda action: self._begins(action.checkpoint_id),
            ma.NotifyCoordinators: lambda action: self._counts(action.checkpoint_id),
            ma.StoreCheckpoint: self._is_complete,
            ma.WithdrawCheckpoint: lambda action: self._withdrawn.add(action.checkpoint_id),
            ma.DiscardState: lambda action: None,
            ma.RequestAnswered: self._request_answered,
            ma.CheckpointEnded: self._checkpoint_ended,
        }

    @property
    def latest(self) -> CheckpointMetadata | None:
        """What tasks begin again from."""
        return self.kept[-1][0] if self.kept else None

    # ---- around each step of the job master

    def before(self, stimulus: object) -> None:
        """Note what came."""
        super().before(stimulus)
        message = getattr(stimulus, "message", None)
        if isinstance(stimulus, ma.TriggerSavepoint):
            self.asked[stimulus.request] = stimulus.kind
        elif isinstance(message, ms.EndOfDataReport):
            self._at_end = True
        elif isinstance(message, ms.CheckpointAcknowledgement) and message.session_id == self.world.session_id:
            if not self.world.master.is_over:
                self.known.update(each.path for each in message.state.handles() if each.path)
                self.known.update(each.handle.path for each in message.state.shared_files())
        elif isinstance(stimulus, ma.CheckpointStored) and stimulus.failure is None:
            self._stored(stimulus)

    def _stored(self, stimulus: ma.CheckpointStored) -> None:
        """It counts, unless it was given up before."""
        checkpoint_id = stimulus.checkpoint_id
        if checkpoint_id not in self.begun or self.world.master.is_over or self.status is JobStatus.SUSPENDED:
            return
        metadata, options = self._storing[checkpoint_id]
        kind = options.snapshot_kind
        if kind.is_savepoint:
            self.world.cluster.savepoints[options.location] = metadata
        if kind.is_synchronous:
            self.stopped_with = options.location, kind
        if not kind.is_savepoint:
            initial = self.world.initial
            if initial is not None and not initial.is_claimed and self.kept and self.kept[0][0] is initial.metadata:
                del self.kept[0]
            self.kept.append((metadata, options.location))
            self.kept.sort(key=lambda each: each[0].checkpoint_id)
            del self.kept[: -self.world.checkpointing.retained]
        self._completed_ms = self.world.now_ms

    def after(self, stimulus: object, actions: list[Any]) -> None:
        """Check what it wants done, and that nothing hangs."""
        super().after(stimulus, actions)
        if isinstance(stimulus, ma.CheckpointStored) and stimulus.failure is None:
            self._subsumes(stimulus.checkpoint_id, actions)
        if self.world.master.is_over or self.status is JobStatus.SUSPENDED:
            return
        timeout_ms = self.world.checkpointing.timeout_ms
        for checkpoint_id, begun_ms in self.begun.items():
            is_late = self.world.now_ms >= begun_ms + timeout_ms and checkpoint_id not in self._withdrawn
            demand(not is_late, "a checkpoint is under way for too long:", checkpoint_id, begun_ms)

    def _note_cause(self, stimulus: object) -> None:
        if not isinstance(stimulus, (ma.CheckpointStored, ma.CoordinatorsSnapshotted)):
            super()._note_cause(stimulus)

    def _subsumes(self, checkpoint_id: int, actions: list[Any]) -> None:
        """A user waits for a savepoint, whatever else is complete meanwhile."""
        for action in actions:
            if isinstance(action, ma.CheckpointEnded) and action.record.status == "FAILED":
                lost = action.record.checkpoint_id
                is_lost = self.is_savepoint(lost) and lost != checkpoint_id
                demand(not is_lost, "a savepoint is given up for another checkpoint:", lost, checkpoint_id)

    # ---- one checkpoint, from its beginning to its end

    def _begins(self, checkpoint_id: int) -> None:
        if checkpoint_id in self.begun:
            return
        demand(checkpoint_id > self.highest_id, "numbers of checkpoints do not grow:", checkpoint_id, self.highest_id)
        self.highest_id = checkpoint_id
        self.begun[checkpoint_id] = self.world.now_ms

    def _sent(self, action: ma.SendTo) -> None:
        super()._sent(action)
        message = action.message
        if isinstance(message, ms.TriggerCheckpoint):
            self._triggered(message)
        elif isinstance(message, ms.NotifyCheckpointComplete):
            self._counts(message.checkpoint_id)
        elif isinstance(message, ms.NotifyCheckpointAborted):
            demand(message.checkpoint_id not in self._told, "given up, though it counts:", message)
            demand(message.latest_completed_id in (0, *self.stored), "the last one that counts is none:", message)

    def _triggered(self, message: ms.TriggerCheckpoint) -> None:
        checkpoint_id, options = message.checkpoint_id, message.options
        self._begins(checkpoint_id)
        subtask = message.attempt.vertex_id, message.attempt.subtask_index
        demand(self.newest[subtask] == message.attempt.attempt_number, "an old attempt is triggered:", message)
        if checkpoint_id in self.options:
            return
        self.options[checkpoint_id] = options
        if not options.snapshot_kind.is_savepoint:
            self._check_crowd(checkpoint_id)

    def _check_crowd(self, checkpoint_id: int) -> None:
        config = self.world.checkpointing
        open_ones = [each for each in self.begun if each not in self.options or not self._kind(each).is_savepoint]
        demand(len(open_ones) <= config.concurrency, "too many checkpoints at a time:", open_ones)
        begun_ms, completed_ms = self.begun[checkpoint_id], self._completed_ms
        waits = any(not kind.is_savepoint and each not in self._answered for each, kind in self.asked.items())
        if completed_ms is not None and completed_ms <= begun_ms and not self._at_end and not waits:
            pause_ms = begun_ms - completed_ms
            demand(pause_ms >= config.min_pause_ms, "no pause after a checkpoint:", checkpoint_id, pause_ms)

    def _kind(self, checkpoint_id: int) -> SnapshotKind:
        return self.options[checkpoint_id].snapshot_kind

    def _counts(self, checkpoint_id: int) -> None:
        demand(checkpoint_id in self.stored, "tasks hear of a checkpoint that is not stored:", checkpoint_id)
        demand(checkpoint_id not in self.failed, "tasks hear of a checkpoint that was given up:", checkpoint_id)
        self._told.add(checkpoint_id)

    def _is_complete(self, action: ma.StoreCheckpoint) -> None:
        """Every part is there, from those who run now, and all parts belong together."""
        metadata, options = action.metadata, action.options
        checkpoint_id = metadata.checkpoint_id
        self._begins(checkpoint_id)
        self._storing[checkpoint_id] = metadata, options
        self.options.setdefault(checkpoint_id, options)
        parts: dict[tuple[int, int], Snapshot | None] = {}
        for index, (vertex, plan) in enumerate(zip(metadata.vertices, self.world.plan.vertices, strict=True)):
            demand(vertex.vertex_id == plan.id, "vertices out of order:", vertex.vertex_id)
            demand(len(vertex.subtasks) == plan.parallelism, "subtasks are missing:", plan.name, len(vertex.subtasks))
            for subtask, state in enumerate(vertex.subtasks):
                parts[index, subtask] = self._part(checkpoint_id, plan.id, subtask, state)
        check_cut(self.world, metadata, parts)

    def _part(self, checkpoint_id: int, vertex_id: str, subtask: int, state: SubtaskState | None) -> Snapshot | None:
        attempt = AttemptId(vertex_id, subtask, self.newest[vertex_id, subtask])
        part = self.parts.get((checkpoint_id, vertex_id, subtask))
        if part is not None and part[1] == state:
            demand(part[0] == attempt, "a checkpoint with a part of an older attempt:", checkpoint_id, part[0], attempt)
            return part[2]
        is_done = self.truth.get(attempt) is TaskState.FINISHED
        demand(is_done, "a checkpoint without the part of a task that runs:", checkpoint_id, attempt, state)
        demand(
            state is not None and state.is_finished, "a finished task's part does not say so:", checkpoint_id, attempt
        )
        return self.last.get((vertex_id, subtask))

    def _checkpoint_ended(self, action: ma.CheckpointEnded) -> None:
        record = action.record
        demand(record.checkpoint_id in self.begun, "a checkpoint ended that was not under way:", record)
        del self.begun[record.checkpoint_id]
        if record.status == "FAILED":
            demand(record.checkpoint_id not in self._told, "a checkpoint failed that counts:", record)
            self.failed.add(record.checkpoint_id)
        else:
            demand(record.checkpoint_id in self.stored, "a checkpoint counts that is not stored:", record)

    def _request_answered(self, action: ma.RequestAnswered) -> None:
        demand(action.request in self.asked, "an answer to nobody:", action)
        demand(action.request not in self._answered, "a second answer:", action)
        is_savepoint, is_there = self.asked[action.request].is_savepoint, action.failure is None
        demand(bool(action.checkpoint_id) == is_there, "neither a checkpoint nor a failure:", action)
        demand(bool(action.path) == is_there or not is_savepoint, "neither a savepoint nor a failure:", action)
        self._answered.add(action.request)
        if is_there and is_savepoint:
            demand(action.path in self.world.cluster.savepoints, "a savepoint that is not there:", action)
        elif is_there:
            demand(action.checkpoint_id in self.stored, "a checkpoint that is not stored:", action)

    # ---- what tasks and the shell do

    def part_written(self, task: FlowTask, checkpoint_id: int, state: SubtaskState, snapshot: Snapshot) -> None:
        """By the thread that writes state."""
        attempt = task.attempt
        self.parts[checkpoint_id, attempt.vertex_id, attempt.subtask_index] = attempt, state, snapshot

    def is_savepoint(self, checkpoint_id: int) -> bool:
        """Whether that is what tasks are asked for."""
        options = self.options.get(checkpoint_id)
        return options is not None and options.snapshot_kind.is_savepoint

    def is_stored(self, checkpoint_id: int) -> None:
        """It can be found again, and nobody has taken over: what it holds will be committed."""
        self.stored.add(checkpoint_id)
        self._promise(self._storing[checkpoint_id][0])

    def _promise(self, metadata: CheckpointMetadata) -> None:
        operators = (operator for subtask in metadata.subtasks() for operator in subtask.operators)
        for handle in (operator.operator for operator in operators if operator.operator is not None):
            states = self.world.storage.read(handle).get("transactions", ())
            self.world.ledger.promised.update(holder.handle for state in states for holder in state.pending)

    def commits(self, task: FlowTask, checkpoint_id: int, transaction: str) -> None:
        """A sink makes something readable."""
        is_failed = checkpoint_id in self.failed
        demand(checkpoint_id in self.stored and not is_failed, "a commit without a checkpoint:", task, checkpoint_id)

    def counted(self, task: FlowTask, records: Records, count: int) -> None:
        """A task counts records that it has read: they follow what it has counted."""
        demand(records.first <= count, "records are missing:", task, records, f"follow {count}")
        if self.world.checkpointing.is_exactly_once:
            demand(records.first == count, "records come twice:", task, records, f"follow {count}")

    def barrier_read(self, task: FlowTask, index: int, barrier: CheckpointBarrier) -> None:
        """A channel waits behind a barrier for the others' only: whatever becomes of that checkpoint frees it."""
        waits_for_none = task.inputs[index].is_blocked and task.checkpointed_inputs.handler._barrier is None
        demand(not waits_for_none or not task.is_working(), "a channel waits for no checkpoint:", task, index, barrier)

    def split_given(self, task: FlowTask, split: int) -> None:
        """A reader gets a split to read from its beginning."""
        demand(split not in task.memory.positions, "a split was given twice:", task, split)

    def event_delivered(self, task: FlowTask, payload: Any) -> None:
        """Checked by what comes of it."""

    def task_changed(self, task: FlowTask) -> None:
        """A thread is in another state."""
        super().task_changed(task)
        if task.state is TaskState.FINISHED:
            self.last[task.attempt.vertex_id, task.attempt.subtask_index] = task.final_snapshot()
            size = task.routes.split_size
            self.world.cluster.read_splits.update(s for s, at in task.memory.positions.items() if at == size)

    def needs(self, path: str) -> bool:
        """Whether the job may begin again from a checkpoint with this file."""
        return any(path in files_of(metadata, location) for metadata, location in self.kept)

    # ---- restarts

    def _deployed(self, manager_id: str, descriptor: TaskDeploymentDescriptor) -> None:
        super()._deployed(manager_id, descriptor)
        restore, latest = descriptor.restore, self.latest
        restored_id = None if restore is None else restore.checkpoint_id
        wanted_id = None if latest is None else latest.checkpoint_id
        self.restored += restore is not None and descriptor.attempt.attempt_number > 0
        demand(
            restored_id == wanted_id, "it begins from another checkpoint:", descriptor.attempt, restored_id, wanted_id
        )
        self._at_end = False

    def _sources_reset(self, action: ma.ResetSources) -> None:
        super()._sources_reset(action)
        latest = self.latest
        wanted_id = None if latest is None else latest.checkpoint_id
        demand(action.checkpoint_id == wanted_id, "sources go back to another checkpoint:", action, wanted_id)

    # ---- the job

    def _status_changed(self, action: ma.StatusChanged) -> None:
        if action.status is JobStatus.SUSPENDED:
            demand(self.world.has_lost_lease, "SUSPENDED, and nobody else leads the job")
            self.status = action.status
        else:
            demand(action.status in STATUSES.get(self.status, ()), "not allowed:", self.status, action)
            self.status = action.status

    def _job_ended(self, action: ma.EndJob) -> None:
        if action.status is not JobStatus.SUSPENDED:
            super()._job_ended(action)
            demand(not self.begun, "the job ended with checkpoints under way:", self.begun)
        demand(set(self.asked) == self._answered, "requests are not answered:", self.asked, self._answered)
        if action.status not in KEPT_AFTER[self.world.checkpointing.retention]:
            initial = self.world.initial
            self.kept = [
                each for each in self.kept if initial and not initial.is_claimed and each[0] is initial.metadata
            ]

    def _failed(self, failure: Failure | None) -> None:
        if failure is None or "the job was stopped with savepoint" not in failure.message:
            super()._failed(failure)

    def _look_for_orphans(self) -> None:
        if not self.world.has_crashed:
            super()._look_for_orphans()

    def at_the_end(self) -> None:
        """Nothing is left anywhere."""
        if self.world.has_crashed or self.world.has_lost_lease:
            for manager in self.world.provider.managers.values():
                demand(not manager.is_alive or manager.is_program, "a process is left:", manager)
        else:
            super().at_the_end()

    def look_for_litter(self, found: dict[str, CheckpointMetadata]) -> None:
        """What the job master has heard of, and nobody needs, is deleted."""
        if self.world.has_crashed or self.world.has_lost_lease or not self.world.has_noted_its_end:
            return
        used = set().union(*(files_of(metadata, location) for location, metadata in found.items()))
        excused = self._excused()
        used |= excused
        left = [path for path in self.known if path in self.world.storage.files and path not in used]
        demand(not left, "files are left that nobody needs:", left)
        wanted = set(self.world.cluster.savepoints)
        wanted.update(location for world in self.world.cluster.worlds for _, location in world.invariants.kept)
        gone = [each for each in self.world.cluster.worlds if each.has_crashed or each.has_lost_lease]
        wanted.update(path.rpartition("/")[0] for path in excused if path.endswith(METADATA))
        wanted.update(each.initial.location for each in gone if each.initial)  # they could not delete what they took
        mine = [each for each in found if self._is_mine(each) and each not in wanted]
        demand(not mine, "checkpoints are left that nobody needs:", mine)

    def _excused(self) -> set[str]:
        """What the disk has not deleted: for this job, or for a later one that has claimed its savepoint."""
        number = self.world.driver.job_number
        later = (each for each in self.world.cluster.worlds if each.driver.job_number > number)
        return self.world.excused.union(*(each.excused for each in later))

    def _is_mine(self, location: str) -> bool:
        return any(options.location == location for _, options in self._storing.values())


def files_of(metadata: CheckpointMetadata, location: str) -> set[str]:
    """All that it needs."""
    files = {location + METADATA} if location else set()
    for subtask in metadata.subtasks():
        files.update(each.path for each in subtask.handles() if each.path)
        files.update(each.handle.path for each in subtask.shared_files())
    return files
