"""A job that takes checkpoints, under one job master; several of them may live in one run, one after the other or not.

What the driver's shell does with storage, leases and coordinators is done here as jobs/checkpoint_io.py does it.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

from flinkbuf.checkpoints.handles import StateHandle
from flinkbuf.checkpoints.options import SnapshotKind
from flinkbuf.jobs.deployment import AttemptId, TaskDeploymentDescriptor
from flinkbuf.jobs.failure import Failure
from flinkbuf.jobs.graphs.job_plan import JobPlan
from flinkbuf.jobs.job_status import JobStatus
from flinkbuf.jobs.master import master_actions as ma
from flinkbuf.jobs.master.checkpoint_config import RestoredCheckpoint
from flinkbuf.jobs.master.job_master import JobMaster
from flinkbuf.streaming.operator_config import ExecutionSettings
from simulation import breakages
from simulation.checkpoint_invariants import CheckpointInvariants
from simulation.flow_records import FlowChannel
from simulation.flow_sources import FlowCoordinators
from simulation.flow_task import FlowTask
from simulation.managers import SimManager
from simulation.sim_storage import LeaseLost
from simulation.tasks import DataPlane, SimTask
from simulation.world import World

if TYPE_CHECKING:
    from simulation.checkpoint_run import CheckpointRun


class FlowDataPlane(DataPlane):
    """Channels with records in them."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._channels: dict[tuple[str, int], FlowChannel] = {}

    def channel(self, partition_id: str, subpartition: int) -> FlowChannel:
        """From one subpartition to its reader, whoever of them comes first."""
        return self._channels.setdefault((partition_id, subpartition), FlowChannel())

    def read_to_the_end(self, task: FlowTask, index: int) -> None:
        """What becomes of the partition is nothing to this reader any more."""
        partition_id = task.partition_of(index)
        task.unread.discard(partition_id)
        readers = self._readers.get(partition_id, [])
        if task in readers:
            readers.remove(task)

    def _look_for_inputs(self, task: SimTask) -> None:
        if not task.is_gone and any(map(self._is_missing, task.unread)):
            task.fail(self.world.echo(f"{task.attempt} finds no partition"))


class CheckpointWorld(World):
    """One job master, its task managers and their tasks.

    Parameters
    ----------
    run : CheckpointRun
        What all job masters of a run share.
    epoch : int
        Of its lease.
    plan : JobPlan
    initial : RestoredCheckpoint or None
        What the job begins with.
    """

    takes_checkpoints = True

    def __init__(self, run: CheckpointRun, epoch: int, plan: JobPlan, initial: RestoredCheckpoint | None) -> None:
        self.cluster = run
        self.epoch = epoch
        self.initial = initial
        self.storage, self.ledger, self.flow, self.lease = run.storage, run.ledger, run.flow, run.lease
        self.routes = run.routes_of(plan)
        self.checkpointing = config = replace(run.checkpointing, epoch=epoch)
        self.job_name = f"job{run.job_number}"
        self.task_settings = ExecutionSettings(
            checkpointing_enabled=True,
            checkpoints_after_tasks_finish=config.after_tasks_finish,
            is_exactly_once=config.is_exactly_once,
            unaligned_checkpoints_enabled=config.is_unaligned,
        )
        self.has_crashed = False
        self.has_lost_lease = False
        self._dies_after: int | None = None
        self._storing: set[int] = set()
        self._withdrawn: set[int] = set()
        self._unwanted: dict[int, ma.DiscardState] = {}
        now_ms = run.agenda.now_ms
        odds = replace(run.odds, faults=tuple(each for each in run.odds.faults if each[0] >= now_ms), cancel_ms=None)
        super().__init__(
            run.seed, plan=plan, settings=run.settings, odds=odds, rng=run.rng, agenda=run.agenda, name=f"e{epoch}-"
        )
        self.story = run.story

    # ---- what it is made of

    def _make_coordinators(self) -> FlowCoordinators:
        return FlowCoordinators(self)

    def _make_data(self) -> FlowDataPlane:
        return FlowDataPlane(self)

    def _make_invariants(self) -> CheckpointInvariants:
        return CheckpointInvariants(self)

    def _make_master(self) -> JobMaster:
        return JobMaster(
            self.plan,
            self.config,
            session_id=self.session_id,
            restart_strategy=self.restart,
            now_ms=self.agenda.now_ms,
            checkpointing=self.checkpointing,
            initial=self.initial,
            chance=Random(self.seed),
        )

    def make_task(self, manager: SimManager, descriptor: TaskDeploymentDescriptor) -> FlowTask:
        """The thread of an attempt."""
        return FlowTask(manager, descriptor, self.fate(manager))

    def _begin(self) -> None:
        self._perform |= {
            ma.SnapshotCoordinators: lambda action: self.coordinators.snapshot(action.checkpoint_id),
            ma.NotifyCoordinators: lambda action: self.coordinators.complete(action.checkpoint_id),
            ma.StoreCheckpoint: self._store,
            ma.WithdrawCheckpoint: self._withdraw,
            ma.DiscardState: self._discard,
            ma.RequestAnswered: lambda action: self.cluster.answered(self, action),
            ma.CheckpointEnded: self._checkpoint_ended,
            ma.StatusChanged: self._status_changed,
        }
        super()._begin()

    # ---- what tasks and coordinators ask

    @property
    def waits_for_final_checkpoint(self) -> bool:
        """Whether a task whose data has ended waits until all of it is committed."""
        return self.checkpointing.after_tasks_finish and self.checkpointing.interval_ms > 0

    def has_job_for(self, attempt: AttemptId) -> bool:
        """Whether anybody waits for an attempt; one whose process was out of reach for long may be needless."""
        is_led = not self.has_crashed and not self.has_lost_lease and self.epoch == self.lease.epoch
        return is_led and self.end is None and self.is_wanted(attempt)

    def owns(self, checkpoint_id: int) -> bool:
        """Whether later checkpoints may refer to the files of this one."""
        is_initial = self.initial is not None and self.initial.metadata.checkpoint_id == checkpoint_id
        return not is_initial or self.initial.is_claimed

    def read_inline(self, handle: StateHandle) -> bytes:
        """State that the job master keeps itself."""
        return handle.data

    # ---- what breaks at a moment that matters

    def _moment(self, when: str) -> None:
        for moment in self.flow.moments if not self.is_healed else ():
            if moment.when == when and self.rng.random() < moment.share:
                self.agenda.after(self.between(moment.delay_ms), self._break, moment.fault)

    def _break(self, fault: str) -> None:
        if self.has_crashed or self.end is not None:
            return
        if fault != "kill the driver":
            breakages.cause(self, fault)
        elif self.flow.crash_ms is not None:
            self.crash_soon()

    def _status_changed(self, action: ma.StatusChanged) -> None:
        if action.status is JobStatus.RESTARTING:
            self._moment("the job begins again")

    def _checkpoint_ended(self, action: ma.CheckpointEnded) -> None:
        if action.record.status == "COMPLETED" and SnapshotKind(action.record.kind).is_synchronous:
            self._moment("the job is stopped with a savepoint")

    # ---- the driver

    def tell(self, stimulus: object) -> None:
        """Into the job's inbox; from anywhere."""
        if not self.has_crashed:
            super().tell(stimulus)

    def _handle(self, stimulus: object) -> None:
        if self.has_crashed:
            return
        super()._handle(stimulus)
        if isinstance(stimulus, ma.CoordinatorsSnapshotted):
            self.coordinators.let_go(stimulus.checkpoint_id)

    def goes_on(self) -> bool:
        """Whether the driver is there to do the next thing: it may be killed between any two."""
        if self._dies_after is not None and not self.has_crashed:
            self._dies_after -= 1
            if self._dies_after < 0:
                self.crash()
        return not self.has_crashed

    def claimed(self, actions: list[Any]) -> list[Any]:
        """A job is over once that is noted, before anything is deleted or answered (jobs/running_job.py)."""
        end = next((each for each in actions if isinstance(each, ma.EndJob)), None)
        if end is None or end.status is JobStatus.SUSPENDED:
            return actions
        try:
            self.lease.finish(self.epoch)
        except LeaseLost:
            self._lose_lease()
            kept = [each for each in actions if not isinstance(each, (ma.DiscardState, ma.RequestAnswered, ma.EndJob))]
            return [*kept, ma.EndJob(JobStatus.SUSPENDED, None)]
        return actions

    def crash_soon(self) -> None:
        """In the middle of something."""
        self._dies_after = self.rng.randint(0, 30)
        self.agenda.after(2_000, self._crash_at_last)

    def _crash_at_last(self) -> None:
        if not self.has_crashed and self.end is None:
            self.crash()

    def crash(self) -> None:
        """The driver's process is gone, and with it all connections, coordinators and what it was writing."""
        self.note("crash of the driver", self.name)
        self.has_crashed = self.provider_is_closed = True
        self.inbox.is_closed = True
        for manager in list(self.provider.managers.values()):
            if manager.is_program and manager.is_alive:
                manager.kill("the driver is gone")
            manager.connection.break_off("the driver is gone")
        self.cluster.crashed(self)

    def look_at_lease(self) -> None:
        """As the thread does that renews it."""
        if not self.has_crashed and self.end is None and self.epoch < self.lease.epoch:
            self._lose_lease()

    def _lose_lease(self) -> None:
        if not self.has_lost_lease:
            self.has_lost_lease = True
            self.note("lost its lease:", self.name)
            self.tell(ma.SuspendJob())

    def _end(self, action: ma.EndJob) -> None:
        super()._end(action)
        self.cluster.ended(self, action)

    # ---- storage

    @property
    def excused(self) -> set[str]:
        """Files that nobody deletes while a storage that hangs may still write what belongs to them."""
        return {path for action in self._unwanted.values() for path in self._paths(action)}

    def _paths(self, action: ma.DiscardState) -> list[str]:
        paths = self.storage.below(action.location) if action.location else []
        return paths + [handle.path for handle in action.handles if handle.path]

    def _store(self, action: ma.StoreCheckpoint) -> None:
        checkpoint_id, flow = action.metadata.checkpoint_id, self.flow
        self._moment("a checkpoint is stored")
        if not action.options.location:
            self._stored(action)
            return
        self._storing.add(checkpoint_id)
        delay_ms = self.between((0, 5) if self.is_healed else flow.store_ms)
        if not self.is_healed:
            if self.rng.random() < flow.store_hangs:
                return
            if self.rng.random() < flow.store_is_late:
                delay_ms += self.checkpointing.timeout_ms
        self.agenda.after(delay_ms, self._write, action)

    def _write(self, action: ma.StoreCheckpoint) -> None:
        if self.has_crashed:
            return
        fails, fails_late = (self.rng.random() < each for each in (self.flow.store_fails, self.flow.store_fails_late))
        checkpoint_id, location = action.metadata.checkpoint_id, action.options.location
        self._storing.discard(checkpoint_id)
        failure = None
        if not self.is_healed and fails:
            failure = self.happened(Failure("builtins.OSError", f"the storage failed ({len(self.failures)})"))
        else:
            self.storage.write_metadata(location, action.metadata)
            if not self.is_healed and fails_late:
                failure = self.happened(Failure("builtins.OSError", f"the storage was cut off ({len(self.failures)})"))
        unwanted = self._unwanted.pop(checkpoint_id, None)
        if unwanted is not None:
            self._delete(unwanted)
        elif checkpoint_id in self._withdrawn:
            return
        elif failure is not None:
            self.tell(ma.CheckpointStored(checkpoint_id, failure=failure))
        else:
            self._stored(action)

    def _stored(self, action: ma.StoreCheckpoint) -> None:
        """The pointer first, then the look whether it still counts; only then anybody hears of it."""
        metadata, options = action.metadata, action.options
        kind = options.snapshot_kind
        if options.location and (kind.is_synchronous or not kind.is_savepoint):
            try:
                self.lease.add(self.epoch, metadata.checkpoint_id, options.location)
            except LeaseLost:
                self._lose_lease()
                return
        self.invariants.is_stored(metadata, options)
        self.tell(ma.CheckpointStored(metadata.checkpoint_id, options.location, 100))

    def _withdraw(self, action: ma.WithdrawCheckpoint) -> None:
        """What is still being written comes to nothing; what is noted was told, or will be."""
        checkpoint_id = action.checkpoint_id
        if checkpoint_id in self._storing - self._withdrawn:
            self._withdrawn.add(checkpoint_id)
            failure = Failure("builtins.TimeoutError", "its storage did not answer")
            self.tell(ma.CheckpointStored(checkpoint_id, failure=failure))

    def _discard(self, action: ma.DiscardState) -> None:
        if action.checkpoint_id in self._storing:
            self._unwanted[action.checkpoint_id] = action
        else:
            self.agenda.after(self.between(self.flow.discard_ms), self._delete, action)

    def _delete(self, action: ma.DiscardState) -> None:
        if self.has_crashed or self.has_lost_lease:
            return
        try:
            if action.checkpoint_id is not None:
                self.lease.remove(self.epoch, action.checkpoint_id)
            self.lease.check(self.epoch)
        except LeaseLost:
            self._lose_lease()
            return
        paths = self._paths(action)
        self.invariants.deletes(action, paths)
        self.storage.delete(paths)
