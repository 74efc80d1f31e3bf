"""A job master that is told anything in any order, lies and things of old included: what holds all the same.

After each step the invariants are looked at; in the end everybody behaves, and the job has to end.
"""

from collections import Counter
from itertools import pairwise

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from support.worlds.master_world import JOB, SESSION, MasterWorld, echo, edge, error, vertex

from flinkbuf.runtime.graph.job_plan import JobPlan
from flinkbuf.runtime.master.restart_strategy import (
    ExponentialDelayRestart,
    FailureRateRestart,
    FixedDelayRestart,
    NoRestart,
)
from flinkbuf.runtime.protocol.job_status import JobStatus
from flinkbuf.runtime.protocol.messages import (
    AcknowledgeReport,
    DeployTasks,
    HeartbeatReport,
    ManagerLeaving,
    RegistrationAccepted,
    RegistrationRefused,
    TaskStateReport,
)
from flinkbuf.runtime.protocol.time_passed import TimePassed
from flinkbuf.runtime.scheduler.execution_state import ExecutionState
from flinkbuf.runtime.scheduler.manager import PROGRAM_MANAGER
from flinkbuf.runtime.scheduler.master_actions import (
    CancelJob,
    CoordinatorFailed,
    EndJob,
    ManagerLost,
    RunFailed,
    SendTo,
    StartManagers,
    StatusChanged,
    StopManager,
    SubtaskGone,
)

PLANS = [
    JobPlan(JOB, "one", (vertex("a", 2, is_source=True),)),
    JobPlan(JOB, "pairs", (vertex("a", 3, is_source=True), vertex("b", 3)), (edge(0, 1, is_pointwise=True),)),
    JobPlan(JOB, "shuffle", (vertex("a", 2, is_source=True), vertex("b", 3)), (edge(0, 1),)),
    JobPlan(
        JOB,
        "program",
        (vertex("a", 2, is_source=True), vertex("b", 1, slot_sharing_group="x"), vertex("c", 1, is_in_program=True)),
        (edge(0, 1), edge(1, 2)),
    ),
]
STRATEGIES = [
    NoRestart(),
    FixedDelayRestart(2, 0),
    FixedDelayRestart(3, 2_000),
    FailureRateRestart(2, 20_000, 500),
    ExponentialDelayRestart(500, 4_000, 2.0, 60_000, 0.1, attempts_before_reset=4),
]
STATES = ["DEPLOYING", "INITIALIZING", "RUNNING", "FINISHED", "CANCELING", "CANCELED", "FAILED", "NONSENSE"]
# What may follow what, as a user sees it.
FOLLOWS = {
    "CREATED": {"RUNNING", "CANCELED", "FAILED"},
    "RUNNING": {"RESTARTING", "FAILING", "CANCELLING", "FINISHED"},
    "RESTARTING": {"RUNNING", "FAILING", "CANCELLING"},
    "FAILING": {"FAILED", "CANCELLING"},
    "CANCELLING": {"CANCELED"},
    "FINISHED": set(),
    "FAILED": set(),
    "CANCELED": set(),
}
failures = st.sampled_from([error(), error("for good", can_restart=False), echo(), None])
subtasks = st.tuples(st.integers(0, 2), st.integers(0, 2))


class JobMasterInAnyOrder(RuleBasedStateMachine):
    """Everything that can be said to a job master."""

    @initialize(
        plan=st.sampled_from(PLANS), strategy=st.sampled_from(STRATEGIES), together=st.booleans(), again=st.booleans()
    )
    def make(self, plan, strategy, together, again):
        self.world = MasterWorld(
            plan,
            strategy,
            managers_come_together=together,
            can_restart_in_place=again or not together,
            slot_request_timeout_ms=20_000,
            heartbeat_interval_ms=2_000,
            heartbeat_timeout_ms=9_000,
            cancel_retry_ms=1_500,
            release_timeout_ms=3_000,
        )
        self.job = self.world.job
        self.accepted = set()
        self.seen = 0
        if any(each.is_in_program for each in plan.vertices):
            self.world.register(-1, run=0, manager_id=PROGRAM_MANAGER, slot_count=0)
        self.world.start()

    # ---- what can happen

    @rule(back=st.integers(0, 1), index=st.integers(0, 3), slot_count=st.integers(0, 2))
    def register(self, back, index, slot_count):
        run, is_wanted = max(0, self.job.managers.run - back), self.job.status.name in ("RUNNING", "RESTARTING")
        is_known = f"m{run}-{index}" in self.job.managers.registered
        self.world.register(index, run=run, manager_id=f"m{run}-{index}", slot_count=slot_count)
        assert bool(self.world.of(RegistrationAccepted)) != bool(self.world.of(RegistrationRefused))
        assert is_wanted or is_known or self.world.of(RegistrationRefused)

    @rule()
    def register_who_is_waited_for(self):
        for slot, run in sorted(self.job.managers.slots.asked.items()):
            is_wanted = self.job.status.name in ("RUNNING", "RESTARTING")
            self.world.register(slot, run=run, manager_id=f"m{run}-{slot}")
            assert is_wanted or self.world.of(RegistrationRefused)

    @rule(state=st.sampled_from(STATES), where=subtasks, age=st.integers(-1, 1), failure=failures, lies=st.booleans())
    def report(self, state, where, age, failure, lies):
        execution = self.some(where)
        attempt = self.world.attempt(*execution.vertex.key, max(0, execution.attempt.attempt_number - age))
        manager_id = "stranger" if lies else self.world.place.get(attempt, "stranger")
        before = self.world.states()
        self.world.say(manager_id, TaskStateReport(SESSION, attempt, state, failure))
        if manager_id == "stranger" or attempt != execution.attempt:
            assert self.world.states() == before, "a liar, or somebody of old, was heard"
        if state in ("FINISHED", "CANCELED", "FAILED") and not self.was_over:
            assert SendTo(manager_id, AcknowledgeReport(SESSION, attempt)) in self.world.last

    @rule(state=st.sampled_from(["INITIALIZING", "RUNNING", "FINISHED"]))
    def all_report(self, state):
        for execution in list(self.job.graph.executions()):
            if execution.state.is_deployed:
                self.world.say(execution.manager.id, TaskStateReport(SESSION, execution.attempt, state))

    @rule(where=subtasks, reason=st.sampled_from(["killed", "left"]), release=st.booleans())
    def lose(self, where, reason, release):
        manager = self.some(where).manager
        manager_id = "nobody" if manager is None else manager.id
        if reason == "left" and manager_id != PROGRAM_MANAGER:
            self.world.say(manager_id, ManagerLeaving(reason))
        if release or reason == "killed":
            self.world.tell(ManagerLost(manager_id, reason))

    @rule()
    def all_that_were_told_to_end_do(self):
        for manager_id in list(self.job.managers.leaving):
            self.world.tell(ManagerLost(manager_id, "told to"))

    @rule(back=st.integers(0, 1), failure=failures.filter(bool))
    def run_failed(self, back, failure):
        self.world.tell(RunFailed(self.job.managers.run - back, failure))

    @rule(failure=failures.filter(bool))
    def coordinator_failed(self, failure):
        self.world.tell(CoordinatorFailed(failure))

    @rule(where=subtasks, back=st.integers(0, 2), data=st.data())
    def heartbeat(self, where, back, data):
        manager = self.some(where).manager
        if manager is not None:
            known = sorted(attempt for attempt, place in self.world.place.items() if place == manager.id)
            attempts = data.draw(st.lists(st.sampled_from(known), unique=True)) if known else []
            sequence = self.job.managers.heartbeats.sequence - back
            self.world.say(manager.id, HeartbeatReport(SESSION, sequence, tuple(attempts)))

    @rule(span_ms=st.integers(0, 4_000))
    def wait(self, span_ms):
        self.world.wait(span_ms)

    @rule(span_ms=st.integers(5_000, 60_000))
    def stand_still(self, span_ms):
        """The driver itself does nothing for a while, as when a function holds the interpreter's lock."""
        self.world.now_ms += span_ms
        self.world.tell(TimePassed())

    @precondition(lambda self: self.world.now_ms > 4_000)
    @rule()
    def cancel(self):
        self.world.tell(CancelJob())

    def some(self, where):
        vertices = self.job.graph.vertices
        subtasks = vertices[where[0] % len(vertices)].subtasks
        return subtasks[where[1] % len(subtasks)].current

    @property
    def was_over(self):
        """Whether it was over before the last call."""
        return self.job.is_over and not self.world.of(EndJob)

    # ---- what holds

    @invariant()
    def every_action_makes_sense(self):
        """In the order in which they came: who is deployed, is deployed at somebody who was accepted, and once."""
        for action in self.world.actions[self.seen :]:
            if isinstance(action, SendTo) and isinstance(action.message, RegistrationAccepted):
                self.accepted.add(action.manager_id)
            elif isinstance(action, SendTo) and isinstance(action.message, DeployTasks):
                assert action.manager_id in self.accepted
            elif isinstance(action, StopManager):
                self.accepted.discard(action.manager_id)
        self.seen = len(self.world.actions)

    @invariant()
    def every_attempt_is_gone_once_and_only_after_its_end(self):
        gone = Counter(each.attempt for each in self.world.of(SubtaskGone, all_time=True))
        assert not gone or max(gone.values()) == 1
        for subtask in self.job.graph.subtasks():
            for execution in (*subtask.history, subtask.current):
                was_deployed = execution.manager is not None
                assert (execution.attempt in gone) == (was_deployed and execution.state.is_terminal)
            assert all(former.state.is_terminal for former in subtask.history)

    @invariant()
    def what_is_deployed_is_where_somebody_is(self):
        for execution in self.job.graph.executions():
            if execution.state.is_deployed:
                assert self.job.managers.registered.get(execution.manager.id) is execution.manager
                assert execution.attempt in self.job.graph.open_on(execution.manager.id)
                if execution.vertex.slot is not None:
                    assert execution.vertex.slot in execution.manager.slots

    @invariant()
    def counts_are_right(self):
        states = Counter(execution.state for execution in self.job.graph.executions())
        assert self.job.graph.open_count == sum(count for state, count in states.items() if not state.is_terminal)
        assert self.job.graph.finished_count == states[ExecutionState.FINISHED]

    @invariant()
    def no_slot_leaks(self):
        slots, registered = self.job.managers.slots, self.job.managers.registered
        held = {slot: each.id for each in registered.values() for slot in each.slots}
        assert held == slots.holder
        assert not slots.asked.keys() & slots.holder.keys()
        runs = {each.registration.run for each in registered.values() if not each.is_program}
        assert len(runs) <= 1 or not self.job.config.managers_come_together, "those of the old run and of the new one"
        assert all(0 <= slot < slots.count for slot in {*slots.asked, *slots.holder})

    @invariant()
    def status_says_what_goes_on(self):
        statuses = ["CREATED", *(each.status.name for each in self.world.of(StatusChanged, all_time=True))]
        for before, after in pairwise(statuses):
            assert after in FOLLOWS[before]
        assert statuses[-1] == self.job.status.name
        assert (self.job.status is JobStatus.RESTARTING) == bool(self.job._tasks.restarts.waiting)
        assert self.job.is_over == self.job.status.is_terminal_state() == (self.world.end is not None)

    @invariant()
    def a_job_ends_as_its_story_says(self):
        if self.job.is_over:
            assert self.job.graph.open_count == 0
            assert not self.job.managers.registered
            states = {execution.state for execution in self.job.graph.executions()}
            assert (self.job.status is JobStatus.FINISHED) <= (states == {ExecutionState.FINISHED})
            assert (self.job.failure is not None) == (self.job.status is JobStatus.FAILED)

    @invariant()
    def it_waits_for_something(self):
        if not self.job.is_over:
            due_ms = self.job.next_deadline_ms
            assert due_ms is not None, "whatever is silent from now on, it must wake up"
            assert due_ms > self.world.now_ms, "a deadline that is over would make it run hot"

    def teardown(self):
        """From now on all do what they should: it ends, and soon."""
        if not hasattr(self, "job"):
            return
        for _ in range(60):
            if self.job.is_over:
                break
            self.all_that_were_told_to_end_do()
            self.register_who_is_waited_for()
            for execution in list(self.job.graph.executions()):
                if execution.state.is_deployed:
                    state = "CANCELED" if execution.state is ExecutionState.CANCELING else "FINISHED"
                    self.world.say(execution.manager.id, TaskStateReport(SESSION, execution.attempt, state))
            self.world.wait(1_000)
        assert self.job.is_over, (self.job.status, self.world.states(), self.job.managers.slots.asked)
        for check in (self.every_attempt_is_gone_once_and_only_after_its_end, self.a_job_ends_as_its_story_says):
            check()
        self.world.register(0, run=1, manager_id="late")
        assert self.world.of(RegistrationRefused)
        assert self.world.of(StartManagers) == []


TestJobMasterInAnyOrder = JobMasterInAnyOrder.TestCase
TestJobMasterInAnyOrder.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)
