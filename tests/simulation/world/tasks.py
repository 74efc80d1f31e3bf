"""What stands for a task's thread: it takes its time, ends in some way, and comes out of a cancel when it likes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flinkbuf.runtime.protocol.deployment import TaskDeploymentDescriptor
from flinkbuf.runtime.protocol.failure import Failure
from flinkbuf.streaming.task.task_state import TaskState, TaskStep, next_state

if TYPE_CHECKING:
    from simulation.world.managers import SimManager

PATIENCE_MS = 10_000  # how long a task looks for what it is to read
KEEPALIVE_MS = 40_000  # until a task notes that what it reads has gone and said nothing
SPLITS = 2  # that a source with a coordinator waits for
NEVER = 1_000_000  # more interrupts than anybody sends


@dataclass(frozen=True)
class Fate:
    """How it will go."""

    delays_ms: tuple[int, int, int]  # to DEPLOYING, INITIALIZING, RUNNING
    work_ms: int | None  # None: until the world is healed
    fails_in: TaskState | None
    interrupts: int  # until it comes out of a cancel
    exit_ms: int  # from then
    report_ms: int  # until its error is heard by the control thread; its neighbours see it before


class SimTask:
    """One attempt at a manager."""

    def __init__(self, manager: SimManager, descriptor: TaskDeploymentDescriptor, fate: Fate) -> None:
        self.manager = manager
        self.world = manager.world
        self.descriptor = descriptor
        self.attempt = descriptor.attempt
        self.fate = fate
        self.state = TaskState.CREATED
        self.is_gone = False  # its thread has come out, or its process has ended
        self.is_ready = False  # its own work is done
        self.splits = 0
        self.unread: set[str] = set()  # partitions whose end it has not read
        self._interrupts = 0
        self._is_leaving = False
        self.coordinated = self.world.coordinators.operator_of(self.attempt.vertex_id)
        self._later(fate.delays_ms[0], self._begin)

    def __repr__(self) -> str:
        return f"<SimTask {self.attempt} {self.state.value}>"

    # ---- its thread

    def _later(self, delay_ms: int, call, *arguments) -> None:
        self.world.agenda.after(delay_ms, self._if_here, call, *arguments)

    def _if_here(self, call, *arguments) -> None:
        if not self.is_gone:
            call(*arguments)

    def _begin(self) -> None:
        if self._reach(TaskStep.DEPLOY):
            self._later(self.fate.delays_ms[1], self._initialize)

    def _initialize(self) -> None:
        if self._reach(TaskStep.INITIALIZE):
            self._later(self.fate.delays_ms[2], self._run)

    def _run(self) -> None:
        if self._reach(TaskStep.RUN):
            if self.coordinated is not None:
                self.manager.task_said(self.attempt, self.coordinated, b"hello")
            self.world.data.connect(self)
            if self.fate.work_ms is not None:
                self._later(self.fate.work_ms, self._be_ready)
            self.world.agenda.at(self.world.odds.heal_ms, self._if_here, self._be_ready)

    def _reach(self, step: TaskStep) -> bool:
        """Whether it goes on from there."""
        if self.state is TaskState.CANCELING:
            return False  # on its way out
        self._change(step)
        if self.fate.fails_in is self.state and self.state is not TaskState.RUNNING:
            self.fail(self.world.failure(f"{self.attempt} in {self.state.value}"))
        return not self.is_gone

    def _be_ready(self) -> None:
        if self.world.odds.input_is_endless and not self.world.is_wanted(self.attempt):
            return  # nothing but a cancel ends it
        if self.fate.fails_in is TaskState.RUNNING:
            self.fail(self.world.failure(f"{self.attempt} in RUNNING"))
        else:
            self.is_ready = True
            self.look()

    def look(self) -> None:
        """End, if all is done: its own work, what it waits for from its coordinator, and what it reads."""
        if self.state is TaskState.RUNNING and self.is_ready and not self.is_gone:
            has_splits = self.coordinated is None or self.splits >= SPLITS
            if has_splits and not self.unread:
                self._come_out(TaskStep.FINISH)

    # ---- what others do to it

    def stop(self) -> None:
        """Task.cancel()."""
        if self.is_gone or self.state is TaskState.CANCELING:
            return
        if self.state is TaskState.CREATED:
            self._come_out(TaskStep.CANCEL)
        else:
            self._change(TaskStep.CANCEL)
            self._obey()

    def interrupt(self) -> None:
        """Task.interrupt()."""
        self._interrupts += 1
        self._obey()

    def _obey(self) -> None:
        if self._interrupts >= self.fate.interrupts and not self._is_leaving and not self.is_gone:
            self._is_leaving = True
            self._later(self.fate.exit_ms, self._come_out, TaskStep.CONFIRM_CANCEL)

    def deliver(self, payload: bytes) -> None:
        """An event of its coordinator."""
        self.splits += 1
        self.look()

    def fail(self, failure: Failure) -> None:
        """Its function raises, unless it is somewhere where it notices nothing."""
        is_deaf = self.state is TaskState.CANCELING and self.fate.interrupts
        if not self.is_gone and self.state is not TaskState.CREATED and not is_deaf:
            self._come_out(TaskStep.FAIL, failure)

    def _come_out(self, step: TaskStep, failure: Failure | None = None) -> None:
        self.is_gone = True
        self._change(step, failure if self.state is not TaskState.CANCELING else None)
        self.world.data.ended(self, self.state is TaskState.FINISHED)

    def vanish(self) -> None:
        """Its process has ended."""
        self.is_gone = True
        self.world.data.ended(self, False)

    def _change(self, step: TaskStep, failure: Failure | None = None) -> None:
        before, self.state = self.state, next_state(self.state, step)
        if self.state is not before:
            self.world.invariants.task_changed(self)
            delay_ms = 0 if failure is None else self.fate.report_ms
            self.world.agenda.after(delay_ms, self.manager.task_changed, self.attempt, self.state, failure)


class DataPlane:
    """Who reads from whom, and who is there."""

    def __init__(self, world) -> None:
        self.world = world
        self._written: dict[str, SimTask] = {}  # by partition id
        self._finished: set[str] = set()
        self._lost: set[str] = set()
        self._readers: dict[str, list[SimTask]] = {}

    def connect(self, task: SimTask) -> None:
        """It writes its partitions from now on, and asks for what it reads."""
        for partition in task.descriptor.partitions:
            self._written[partition.partition_id] = task
        inputs = _inputs(task)
        task.unread = {partition_id for partition_id in inputs if partition_id not in self._finished}
        for partition_id in inputs:
            self._readers.setdefault(partition_id, []).append(task)
        if inputs:
            task.world.agenda.after(PATIENCE_MS, self._look_for_inputs, task)

    def _look_for_inputs(self, task: SimTask) -> None:
        if not task.is_gone and any(map(self._is_missing, _inputs(task))):
            task.fail(self.world.echo(f"{task.attempt} finds no partition"))

    def _is_missing(self, partition_id: str) -> bool:
        return partition_id not in self._written or partition_id in self._lost

    def ended(self, task: SimTask, is_finished: bool) -> None:
        """What it wrote is complete, or gone."""
        for partition in task.descriptor.partitions:
            partition_id = partition.partition_id
            self._written[partition_id] = task
            if is_finished:
                self._finished.add(partition_id)
                for reader in self._readers.get(partition_id, ()):
                    reader.unread.discard(partition_id)
                    if not reader.unread:
                        self.world.agenda.after(self.world.between(self.world.odds.setup_ms), reader.look)
            else:
                self.lose(partition_id)

    def lose(self, partition_id: str) -> None:
        """Nobody can read it any more; who does fails at once, or after long."""
        self._finished.discard(partition_id)
        self._lost.add(partition_id)
        for reader in self._readers.pop(partition_id, ()):
            if not reader.is_gone:
                quick = self.world.rng.random() < self.world.odds.echo
                delay_ms = self.world.between((0, 100)) if quick else KEEPALIVE_MS
                self.world.agenda.after(delay_ms, self._echo, reader)

    def drop(self, manager: SimManager, partition_ids: tuple[str, ...]) -> None:
        """The job master says that nobody needs them; only blocking ones are ever dropped so."""
        raise AssertionError(f"{manager} was told to drop partitions of a streaming job: {partition_ids}")

    def _echo(self, reader: SimTask) -> None:
        if not reader.is_gone:
            reader.fail(self.world.echo(f"{reader.attempt} lost what it reads"))


def _inputs(task: SimTask) -> list[str]:
    return [where.partition_id for gate in task.descriptor.gates for where in gate.locations]
