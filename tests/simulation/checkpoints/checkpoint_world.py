"""A job that takes checkpoints, under one job master; several of them may live in one run, one after the other or not.

The driver's steps, its checkpoint storage and its lease are the real ones, over a disk that fails.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from simulation.checkpoints.checkpoint_invariants import CheckpointInvariants
from simulation.checkpoints.checkpoint_odds import A_TASK_IS_DEPLOYED, NAPS_MS, SLEEP
from simulation.flow.flow_records import FlowChannel
from simulation.flow.flow_sources import FlowCoordinators
from simulation.flow.flow_task import FlowTask
from simulation.world import breakages
from simulation.world.managers import SimManager
from simulation.world.tasks import DataPlane, SimTask
from simulation.world.world import World

from flinkbuf.checkpoints.handles import StateHandle
from flinkbuf.checkpoints.options import SnapshotKind
from flinkbuf.runtime.checkpoint.checkpoint_config import RestoredCheckpoint
from flinkbuf.runtime.driver.checkpoint_io import CheckpointIo
from flinkbuf.runtime.driver.job_result import JobResult
from flinkbuf.runtime.driver.job_steps import JobSteps
from flinkbuf.runtime.master.job_master import JobMaster
from flinkbuf.runtime.protocol.deployment import AttemptId, TaskDeploymentDescriptor
from flinkbuf.runtime.protocol.job_status import JobStatus
from flinkbuf.runtime.protocol.messages import DeployTasks
from flinkbuf.runtime.scheduler import master_actions as ma
from flinkbuf.streaming.chain.operator_config import ExecutionSettings

if TYPE_CHECKING:
    from simulation.checkpoints.drivers import Driver


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
    driver : Driver
        The program that it runs in.
    initial : RestoredCheckpoint or None
        What the job begins with.
    """

    takes_checkpoints = True

    def __init__(self, driver: Driver, initial: RestoredCheckpoint | None) -> None:
        self.cluster = run = driver.run
        self.driver = driver
        self.initial = initial
        self.storage, self.ledger, self.flow = run.disk, run.ledger, run.flow
        self.routes = run.routes_of(driver.plan)
        self.job_name = self.job_id = f"job{driver.job_number}"
        directory = run.checkpointing.directory and f"{run.checkpointing.directory}/{self.job_name}"
        self.checkpointing = config = replace(run.checkpointing, epoch=driver.epoch, directory=directory)
        self.task_settings = ExecutionSettings(
            checkpointing_enabled=True,
            checkpoints_after_tasks_finish=config.after_tasks_finish,
            is_exactly_once=config.is_exactly_once,
            unaligned_checkpoints_enabled=config.is_unaligned,
        )
        self.has_crashed = False
        self.has_lost_lease = False
        self.has_finished = False  # its end is told
        self.busy_since_ms: int | None = None  # the job's thread waits for the disk
        self._dies_after: int | None = None
        self.leadership = driver.leadership
        self.io = WatchedIo(self, directory)
        self.steps = JobSteps(self, driver.leadership)
        now_ms = run.agenda.now_ms
        odds = replace(run.odds, faults=tuple(each for each in run.odds.faults if each[0] >= now_ms), cancel_ms=None)
        super().__init__(
            run.seed,
            plan=driver.plan,
            settings=run.settings,
            odds=odds,
            rng=run.rng,
            agenda=run.agenda,
            name=f"j{driver.job_number}e{driver.epoch}-",
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
            ma.WithdrawCheckpoint: lambda action: self.io.withdraw(action),
            ma.DiscardState: lambda action: self.io.discard(action),
        }
        super()._begin()

    # ---- what tasks and coordinators ask

    @property
    def waits_for_final_checkpoint(self) -> bool:
        """Whether a task whose data has ended waits until all of it is committed."""
        return self.checkpointing.after_tasks_finish and self.checkpointing.interval_ms > 0

    @property
    def is_led(self) -> bool:
        """Whether its program still holds the job."""
        return not self.has_crashed and not self.has_lost_lease and self.driver.is_led

    def has_job_for(self, attempt: AttemptId) -> bool:
        """Whether anybody waits for an attempt; one whose process was out of reach for long may be needless."""
        return self.is_led and self.end is None and self.is_wanted(attempt)

    def owns(self, checkpoint_id: int) -> bool:
        """Whether later checkpoints may refer to the files of this one."""
        is_initial = self.initial is not None and self.initial.metadata.checkpoint_id == checkpoint_id
        return not is_initial or self.initial.is_claimed

    def read_inline(self, handle: StateHandle) -> bytes:
        """State that the job master keeps itself."""
        return self.io.read(handle)

    # ---- what breaks at a moment that matters

    def moment(self, when: str) -> None:
        """Something that matters happens: what is to break then does."""
        for moment in self.flow.moments if not self.is_healed else ():
            if moment.when == when and self.rng.random() < moment.share:
                delay_ms = self.between(moment.delay_ms)
                if delay_ms:
                    self.agenda.after(delay_ms, self._break, moment.fault)
                else:
                    self._break(moment.fault)

    def _break(self, fault: str) -> None:
        if self.has_crashed or self.end is not None:
            return
        if fault == "kill the driver":
            if self.flow.is_ha:
                self.crash_soon()
        elif fault == "cut the driver off":
            self.driver.cut_off(self.rng.choice((500, 2_000, 8_000)), is_behind=self.rng.random() < 0.3)
            if self.flow.is_ha and self.rng.random() < 0.5:
                self.cluster.launch_again(self.rng.randint(0, 2_000))
        elif fault == SLEEP:
            self.driver.sleep(self.rng.choice(NAPS_MS))
            self.cluster.launch_again(self.rng.randint(0, 2_000))
        else:
            breakages.cause(self, fault)

    # ---- one step after the other (JobShell)

    def tell(self, stimulus: object) -> None:
        """Into the job's inbox; from anywhere."""
        if self.has_crashed:
            return
        if isinstance(stimulus, ma.CheckpointStored) and stimulus.failure is None:
            self.storage.judge(self.invariants.is_stored, stimulus.checkpoint_id)
        super().tell(stimulus)

    def _handle(self, stimulus: object) -> None:
        """On the job's thread, which may have to wait for the disk."""
        if self.has_crashed:
            return
        self.waits_for_disk()
        thread = self.driver.threads.begin(lambda: self._turn(stimulus), "job")
        if thread.is_alive():
            thread.when_ended = self.is_free
        else:
            self.is_free()

    def waits_for_disk(self) -> None:
        """The job's thread takes nothing of its inbox."""
        self.inbox.begin()
        self.busy_since_ms = self.now_ms

    def is_free(self) -> None:
        """It does again."""
        self.busy_since_ms = None
        self.inbox.end()

    def _turn(self, stimulus: object) -> None:
        end = self.steps.step(stimulus)
        if end is not None and not self.has_crashed:
            self._finish(end)
        elif not self.has_crashed:
            self._plan_wake()

    def decide(self, stimulus: Any) -> list[Any]:
        """Have the job master decide, and look at what comes out."""
        self.invariants.before(stimulus)
        actions = self.master.handle(stimulus, self.now_ms)
        self.note("job", stimulus, actions)
        self.invariants.after(stimulus, actions)
        return actions

    def perform(self, action: Any) -> None:
        """Do it, if the driver is there to do it: it may be killed between any two."""
        if self.goes_on():
            self._perform[type(action)](action)
            if isinstance(action, ma.SendTo) and isinstance(action.message, DeployTasks):
                self.moment(A_TASK_IS_DEPLOYED)

    def manager_gone(self, manager_id: str) -> None:
        """Its connection knows."""

    def coordinators_were_heard(self, checkpoint_id: int) -> None:
        """What they said meanwhile goes to their readers."""
        if not self.has_crashed:
            self.coordinators.let_go(checkpoint_id)

    def checkpoint_ended(self, record: ma.CheckpointRecord) -> None:
        """What breaks at such a moment does."""
        if record.status == "FAILED":
            self.moment("a checkpoint is given up")
        elif SnapshotKind(record.kind).is_synchronous:
            self.moment("the job is stopped with a savepoint")

    def status_changed(self, status: JobStatus) -> None:
        """What breaks at such a moment does."""
        if status is JobStatus.RESTARTING:
            self.moment("the job begins again")

    def answer(self, answers: Iterable[ma.RequestAnswered]) -> None:
        """Users hear of their savepoints."""
        for answer in answers if not self.has_crashed else ():
            self.cluster.answered(self, answer)

    def result(self, end: ma.EndJob) -> str:
        """What is noted of it."""
        return JobResult(self.job_id, end.status.name).to_text()

    def _finish(self, end: ma.EndJob) -> None:
        """As `RunningJob` does: free everything, then tell those who wait."""
        self._end(end)
        is_over = end.status is not JobStatus.SUSPENDED
        remove = partial(self.io.storage.remove_job_directory, self.plan.job_id)
        removes = is_over and self.steps.is_end_noted and self.checkpointing.directory
        self.io.close(remove if removes else None)
        if self.leadership is not None:
            self.leadership.close(is_over_for_good=is_over)
        if not self.has_crashed:
            self.has_finished = True
            self.answer(self.steps.last_answers)
            self.cluster.ended(self, end)

    # ---- the driver

    def goes_on(self) -> bool:
        """Whether the driver is there to do the next thing: it may be killed between any two."""
        if self._dies_after is not None and not self.has_crashed:
            self._dies_after -= 1
            if self._dies_after < 0:
                self.crash()
        return not self.has_crashed

    def crash_soon(self) -> None:
        """In the middle of something."""
        self._dies_after = self.rng.randint(0, 30)
        self.agenda.after(2_000, self._crash_at_last)

    def _crash_at_last(self) -> None:
        if not self.has_crashed and not self.has_finished:
            self.crash()

    def crash(self) -> None:
        """The driver's process is gone, and with it all connections, coordinators and what it was writing."""
        self.note("crash of the driver", self.name)
        self.has_crashed = self.provider_is_closed = True
        self.inbox.is_closed = True
        self.driver.threads.end()
        for manager in list(self.provider.managers.values()):
            if manager.is_program and manager.is_alive:
                manager.kill("the driver is gone")
            manager.connection.break_off("the driver is gone")
        self.cluster.crashed(self.driver)

    def lease_lost(self, reason: str) -> None:
        """Another program holds the job: this one stops, and deletes nothing."""
        if not self.has_crashed:
            self.has_lost_lease = True
            self.note("lost its lease:", self.name)
            self.tell(ma.SuspendJob())

    @property
    def has_noted_its_end(self) -> bool:
        """Whether other programs know of it; else its checkpoints are kept."""
        return self.driver.leadership is None or self.driver.leadership.is_noted

    # ---- storage

    @property
    def excused(self) -> set[str]:
        """Files that nobody deletes: a disk that hangs may still write what belongs to them, or did not delete them."""
        unwanted = {path for action in self.io._unwanted.values() for path in self.paths_of(action)}
        return unwanted | self.io.excused

    def paths_of(self, action: ma.DiscardState) -> list[str]:
        """What is to be deleted, as it lies there now."""
        paths = self.storage.below(action.location) if action.location else []
        return paths + [handle.path for handle in action.handles if handle.path]

    def _store(self, action: ma.StoreCheckpoint) -> None:
        self.moment("a checkpoint is stored")
        self.io.store(action)


class WatchedIo(CheckpointIo):
    """The real one; notes which files may be left because the disk failed."""

    def __init__(self, world: CheckpointWorld, directory: str) -> None:
        self.world = world
        self.excused: set[str] = set()
        super().__init__("job", directory, world.tell, world.leadership, world.driver.threads)  # type: ignore[arg-type]

    def discard(self, action: ma.DiscardState) -> None:
        """What it waits for may hang, and so may its own deletion."""
        self.excused.update(self.world.paths_of(action))
        super().discard(action)

    def _discard(self, action: ma.DiscardState) -> None:
        operations, paths = self.world.driver.operations, self.world.paths_of(action)
        self.excused.update(paths)
        count = operations.fault_count
        super()._discard(action)
        if operations.fault_count == count and not self.world.has_lost_lease:
            self.excused.difference_update(paths)
