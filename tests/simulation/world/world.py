"""A job and all that surrounds it, in one thread, from one seed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

from simulation.settings import Settings, draw_settings
from simulation.world import breakages
from simulation.world.agenda import Agenda, Inbox
from simulation.world.coordinators import Coordinators
from simulation.world.invariants import Invariants, demand
from simulation.world.managers import SimManager
from simulation.world.network import describe
from simulation.world.odds import Odds, draw_odds
from simulation.world.plans import hex_of, random_plan
from simulation.world.provider import SimProvider
from simulation.world.restart_witness import RestartWitness
from simulation.world.tasks import NEVER, DataPlane, Fate, SimTask

from flinkbuf.runtime.graph.job_plan import JobPlan
from flinkbuf.runtime.manager.task_executor import TaskExecutorConfig
from flinkbuf.runtime.master.job_master import JobMaster
from flinkbuf.runtime.protocol.control_link import CODEC
from flinkbuf.runtime.protocol.deployment import AttemptId, TaskDeploymentDescriptor
from flinkbuf.runtime.protocol.failure import Failure
from flinkbuf.runtime.protocol.messages import DeployTasks
from flinkbuf.runtime.protocol.time_passed import TimePassed
from flinkbuf.runtime.scheduler import master_actions as ma
from flinkbuf.runtime.scheduler.execution_state import ExecutionState
from flinkbuf.runtime.scheduler.slots import slot_count
from flinkbuf.streaming.task.task_state import TaskState

START_MS = 1_000_000
LAST_OF_STORY = 60
ENCODED_RUNS = 7  # of so many, one has its messages encoded
STEP_LIMIT = 60_000


class World:
    """Everything of one run.

    Parameters
    ----------
    seed : int
        All is drawn from it.
    keeps_story : bool
        Keep every line of the story, not only the last.
    plan, settings, odds : optional
        Instead of what the seed would draw.
    rng, agenda : optional
        Of a run with several job masters.
    name : str
        In front of the names of its processes.
    """

    takes_checkpoints = False

    def __init__(
        self,
        seed: int,
        *,
        keeps_story: bool = False,
        plan: JobPlan | None = None,
        settings: Settings | None = None,
        odds: Odds | None = None,
        rng: Random | None = None,
        agenda: Agenda | None = None,
        name: str = "",
    ) -> None:
        self.seed = seed
        self.name = name
        self.rng = rng or Random(seed)
        self.agenda = agenda or Agenda(START_MS)
        self.never_ms = 1 << 60
        self.story: deque[tuple[int, tuple[Any, ...]]] = deque(maxlen=None if keeps_story else LAST_OF_STORY)
        self.plan = plan or random_plan(self.rng)
        self.settings = settings or draw_settings(self.rng, slot_count(self.plan))
        self.config = self.settings.master
        self.odds = odds or draw_odds(self.rng, START_MS, self.settings.cancellation_timeout_ms > 0)
        self.session_id = hex_of(self.rng, 128)
        self.failures: list[Failure] = []  # that really happened
        self.provider_is_closed = False
        self.end: ma.EndJob | None = None
        self.coordinators = self._make_coordinators()
        self.data = self._make_data()
        self.provider = SimProvider(self, self.settings.slots_each)
        self.restart = RestartWitness(self.settings.restart.create(Random(seed)))
        self.master = self._make_master()
        self.invariants = self._make_invariants()
        self.inbox = Inbox(self.agenda, self._handle)
        self._wake_ms: int | None = None
        self._perform: dict[type, Callable[[Any], None]] = {
            ma.StartManagers: lambda action: self.provider.start(action.run, action.indexes),
            ma.SendTo: self._send,
            ma.StopManager: lambda action: self.provider.stop(action.manager_id, action.reason),
            ma.ResetSources: self.coordinators.reset,
            ma.TellCoordinator: self.coordinators.tell,
            ma.SubtaskGone: self.coordinators.gone,
            ma.StatusChanged: lambda action: None,
            ma.EndJob: self._end,
        }
        self._begin()

    # ---- what it is made of

    def _make_coordinators(self) -> Any:
        return Coordinators(self)

    def _make_data(self) -> Any:
        return DataPlane(self)

    def _make_master(self) -> JobMaster:
        return JobMaster(
            self.plan,
            self.config,
            session_id=self.session_id,
            restart_strategy=self.restart,
        )

    def _make_invariants(self) -> Invariants:
        return Invariants(self)

    def make_task(self, manager: SimManager, descriptor: TaskDeploymentDescriptor) -> SimTask:
        """The thread of an attempt."""
        return SimTask(manager, descriptor, self.fate(manager))

    def _begin(self) -> None:
        if any(vertex.is_in_program for vertex in self.plan.vertices):
            self.provider.start_program()
        self.tell(ma.StartJob())
        for time_ms, kind in self.odds.faults:
            self.agenda.at(time_ms, breakages.cause, self, kind)
        if self.odds.cancel_ms is not None:
            self.agenda.at(self.odds.cancel_ms, self.tell, ma.CancelJob())
            if self.odds.cancels_again:
                self.agenda.at(self.odds.cancel_ms + 700, self.tell, ma.CancelJob())

    # ---- what all draw from

    @property
    def now_ms(self) -> int:
        """Virtual time."""
        return self.agenda.now_ms

    @property
    def is_healed(self) -> bool:
        """Whether nothing new goes wrong."""
        return self.agenda.now_ms >= self.odds.heal_ms

    def between(self, span_ms: tuple[int, int]) -> int:
        """Some time of a span, its ends included."""
        low, high = span_ms
        return self.rng.randint(low, high)

    def happened(self, failure: Failure) -> Failure:
        """A failure that there really was."""
        self.failures.append(failure)
        return failure

    def failure(self, text: str) -> Failure:
        """Of a user's function."""
        can_restart = self.rng.random() > 0.03
        text = f"{text} ({len(self.failures)})"
        return self.happened(Failure("builtins.ValueError", text, "Traceback ...", can_restart=can_restart))

    def echo(self, text: str) -> Failure:
        """Of a task whose neighbour has gone."""
        failure = Failure("flinkbuf.errors.RemoteTransportError", f"{text} ({len(self.failures)})", is_echo=True)
        return self.happened(failure)

    def fate(self, manager: SimManager) -> Fate:
        """How a task will go."""
        rng, odds = self.rng, self.odds
        delays_ms = (self.between(odds.setup_ms), self.between(odds.setup_ms), self.between(odds.setup_ms))
        work_ms, exit_ms = self.between(odds.work_ms), self.between((0, 30))
        report_ms = self.between(odds.report_ms)
        if self.is_healed:
            return Fate(delays_ms, work_ms, None, 0, exit_ms, report_ms)
        fails = rng.random() < odds.task_fails
        phases = (TaskState.DEPLOYING, TaskState.INITIALIZING, TaskState.RUNNING, TaskState.RUNNING)
        lasts = rng.random() < odds.task_lasts
        interrupts = rng.randint(1, 3) if rng.random() < odds.task_is_lazy else 0
        if rng.random() < odds.task_is_deaf and not manager.is_program:
            interrupts = NEVER
        work_ms, fails_in = None if lasts else work_ms, rng.choice(phases) if fails else None
        return Fate(delays_ms, work_ms, fails_in, interrupts, exit_ms, report_ms)

    def is_wanted(self, attempt: AttemptId) -> bool:
        """Whether the job master wants it to run."""
        execution = self.master.graph.execution_of(attempt)
        return execution is not None and execution.state.is_deployed and execution.state is not ExecutionState.CANCELING

    def executor_config(self, is_program: bool) -> TaskExecutorConfig:
        """Settings of a task manager."""
        return TaskExecutorConfig(
            cancellation_interval_ms=self.settings.cancellation_interval_ms,
            cancellation_timeout_ms=self.settings.cancellation_timeout_ms,
            report_interval_ms=self.settings.report_interval_ms,
            registration_timeout_ms=self.settings.registration_timeout_ms,
            can_kill_process=not is_program,
        )

    # ---- the driver's shell

    def tell(self, stimulus: object) -> None:
        """Into the job's inbox; from anywhere."""
        self.inbox.put(stimulus)

    def manager_said(self, manager_id: str, message: object) -> None:
        """A message has arrived."""
        self.tell(ma.ManagerSaid(manager_id, message))

    def manager_lost(self, manager_id: str, reason: str) -> None:
        """A connection or a process has ended; now and then it is told twice."""
        self.tell(ma.ManagerLost(manager_id, reason))

    def _handle(self, stimulus: object) -> None:
        self.invariants.before(stimulus)
        actions = self.master.handle(stimulus, self.now_ms)
        self.note("job", stimulus, actions)
        self.invariants.after(stimulus, actions)
        for action in self.claimed(actions):
            if not self.goes_on():
                return
            self._perform[type(action)](action)
        self._plan_wake()

    def claimed(self, actions: list[Any]) -> list[Any]:
        """What may be done of it."""
        return actions

    def goes_on(self) -> bool:
        """Whether the driver is there to do the next thing."""
        return True

    def _plan_wake(self) -> None:
        deadline_ms = self.master.next_deadline_ms
        if deadline_ms is not None and (self._wake_ms is None or deadline_ms < self._wake_ms):
            self._wake_ms = max(deadline_ms, self.now_ms)
            self.agenda.at(self._wake_ms, self._wake, self._wake_ms)

    def _wake(self, planned_ms: int) -> None:
        if planned_ms != self._wake_ms:
            return
        self._wake_ms = None
        deadline_ms = self.master.next_deadline_ms
        if deadline_ms is not None and deadline_ms <= self.now_ms:
            self.inbox.put_last(TimePassed())
        else:
            self._plan_wake()

    def carried(self, message: object) -> object:
        """What arrives of a message: in one of seven runs it goes through the codec, as it does between processes."""
        return CODEC.decode(CODEC.encode(message)) if self.seed % ENCODED_RUNS == 0 else message

    def send_to(self, manager_id: str, message: object) -> None:
        """Over the manager's connection, if there is one."""
        manager = self.provider.managers.get(manager_id)
        if manager is not None:
            manager.connection.send_down(message)

    def _send(self, action: ma.SendTo) -> None:
        if isinstance(action.message, DeployTasks):
            for task in action.message.tasks:
                self.coordinators.deployed(task.attempt, action.manager_id)
        self.send_to(action.manager_id, action.message)

    def _end(self, action: ma.EndJob) -> None:
        """As ManagerProvider.close: whoever is still there is ended."""
        self.end = action
        self.provider_is_closed = True
        for manager in self.provider.living():
            self.provider.stop(manager.id, "the job has ended")
        program = self.provider.managers.get("program")
        if program is not None:
            program.connection.close("the job has ended")

    def manager_handled(self, manager: SimManager, message: object, actions: list[Any]) -> None:
        """Whatever a manager's decider was told and answered."""
        self.note("at", manager.id, message, actions)
        self.invariants.manager_handled(manager, message, actions)

    # ---- the run

    def step(self) -> bool:
        """Do the earliest thing that is due; False: nothing is."""
        demand(self.agenda.step_count <= STEP_LIMIT, f"no end after {STEP_LIMIT} steps")
        return self.agenda.step()

    def run(self) -> World:
        """All of it: trouble, healing, the job's end, and until nothing moves any more."""
        latest_ms = self.odds.heal_ms + self.settings.patience_ms
        while self.end is None and self.step():
            if self.now_ms > latest_ms:
                self.invariants.nothing_ends()
        while self.step():
            pass
        self.invariants.at_the_end()
        return self

    # ---- the story

    def note(self, *line: Any) -> None:
        """A line of the story; written out only if somebody reads it."""
        self.story.append((self.agenda.now_ms, line))

    def lines(self) -> Iterable[str]:
        """The story as text."""
        for time_ms, line in self.story:
            yield f"{time_ms - START_MS:>8} {' '.join(map(_text, line))}"


def _text(part: Any) -> str:
    if isinstance(part, list):
        return "-> " + ("; ".join(map(_text, part)) or "nothing")
    return describe(part) if hasattr(part, "__dataclass_fields__") else str(part)
