"""Deciding for 10,000 subtasks on 5,000 task managers: deployed, kept alive, checkpointed, drawn and ended.

What one of them costs must not grow with their number.
"""

import gc
import time
from random import Random

from flinkbuf.checkpoints.handles import OperatorSubtaskState, StateHandle, SubtaskState
from flinkbuf.runtime.checkpoint.checkpoint_config import CheckpointCoordinatorConfig
from flinkbuf.runtime.graph.job_plan import EdgePlan, JobPlan, OperatorPlan, VertexPlan
from flinkbuf.runtime.master.job_master import JobMaster
from flinkbuf.runtime.master.restart_strategy import NoRestart
from flinkbuf.runtime.picture.job_picture import PictureMaker
from flinkbuf.runtime.picture.page_picture import page_picture
from flinkbuf.runtime.protocol.messages import (
    CheckpointAcknowledgement,
    DeployTasks,
    HeartbeatReport,
    HeartbeatRequest,
    RegisterManager,
    TaskStateReport,
)
from flinkbuf.runtime.protocol.time_passed import TimePassed
from flinkbuf.runtime.scheduler.job_master_config import JobMasterConfig
from flinkbuf.runtime.scheduler.master_actions import (
    CheckpointStored,
    ManagerSaid,
    SendTo,
    StartJob,
    StoreCheckpoint,
)

SESSION = "5e" * 16
INTERVAL_MS = 10_000  # of heartbeats, and of checkpoints
CONSTANT_S = 0.3  # of a step, that depends on nothing


class LargeJob:
    """Two tasks that all read from each other, on as many task managers; and the seconds of what was done."""

    def __init__(self, parallelism):
        vertices = tuple(
            VertexPlan(name * 32, name, parallelism, 1 << 14, operators=(OperatorPlan(name, name),)) for name in "ab"
        )
        plan = JobPlan("0b" * 16, "large", vertices, (EdgePlan(0, 1, 0, 0, False),))
        self.job = JobMaster(
            plan,
            JobMasterConfig(heartbeat_interval_ms=INTERVAL_MS, heartbeat_timeout_ms=5 * INTERVAL_MS),
            session_id=SESSION,
            restart_strategy=NoRestart().create(Random(1)),
            checkpointing=CheckpointCoordinatorConfig(interval_ms=INTERVAL_MS, directory="/checkpoints"),
        )
        self.parallelism, self.now_ms, self.number = parallelism, 0, 0
        self.seconds = {}
        gc.collect()
        for step in (self.deploy, self.run, self.heartbeats, self.checkpoint, self.checkpoint, self.picture, self.end):
            began = time.process_time()
            step()
            took = time.process_time() - began
            self.seconds[step.__name__] = min(took, self.seconds.get(step.__name__, took))

    def deploy(self):
        self.tasks = []
        self.job.handle(StartJob(), 0)
        for index in range(self.parallelism):
            register = RegisterManager(f"m{index}", 1, index, f"10.0.{index % 160}.1", 32_768 + index, 1, index)
            for each in self.job.handle(ManagerSaid(f"m{index}", register), 0):
                if isinstance(each, SendTo) and isinstance(each.message, DeployTasks):
                    self.tasks += [(each.manager_id, task.attempt) for task in each.message.tasks]
        assert len(self.tasks) == 2 * self.parallelism

    def run(self):
        for state in ("INITIALIZING", "RUNNING"):
            self.report(state)

    def report(self, state):
        for manager_id, attempt in self.tasks:
            self.job.handle(ManagerSaid(manager_id, TaskStateReport(SESSION, attempt, state)), self.now_ms)

    def pass_time(self):
        self.now_ms += INTERVAL_MS
        return self.job.handle(TimePassed(), self.now_ms)

    def heartbeats(self):
        """One round: all are asked, and each says how it goes."""
        by_manager = {}
        for manager_id, attempt in self.tasks:
            by_manager.setdefault(manager_id, []).append(attempt)
        asked = [each for each in self.pass_time() if isinstance(each.message, HeartbeatRequest)]
        assert len(asked) == self.parallelism
        for each in asked:
            attempts = tuple(by_manager[each.manager_id])
            metrics = {str(attempt): {"records_in": 7, "records_out": 9, "busy_ms": 3} for attempt in attempts}
            report = HeartbeatReport(SESSION, each.message.sequence, attempts, metrics)
            self.job.handle(ManagerSaid(each.manager_id, report), self.now_ms)

    def checkpoint(self):
        self.pass_time()
        self.number += 1
        for manager_id, attempt in self.tasks:
            handle = StateHandle(100, 1, f"/checkpoints/job/chk-{self.number}/{attempt}", 0)
            state = SubtaskState((OperatorSubtaskState(attempt.vertex_id[0], handle, True, False, ()),))
            message = CheckpointAcknowledgement(SESSION, attempt, self.number, state)
            actions = self.job.handle(ManagerSaid(manager_id, message), self.now_ms)
        assert any(isinstance(each, StoreCheckpoint) for each in actions)
        told = self.job.handle(CheckpointStored(self.number, "/checkpoints/job/chk", 9), self.now_ms)
        assert sum(isinstance(each, SendTo) for each in told) >= 2 * self.parallelism

    def picture(self):
        maker = PictureMaker(self.job)
        picture = maker.make(self.now_ms)
        assert page_picture(picture)

    def end(self):
        self.report("FINISHED")
        assert self.job.is_over


def test_what_ten_thousand_subtasks_cost_is_four_times_what_a_quarter_of_them_costs(record_property):
    quarter, whole = LargeJob(1_250), LargeJob(5_000)
    print()
    for step, seconds in whole.seconds.items():
        print(f"10,000 subtasks: {step} {seconds:.2f} s; 2,500: {quarter.seconds[step]:.2f} s")
        record_property(step, seconds)
    assert max(whole.seconds.values()) < 20
    for step, seconds in whole.seconds.items():
        assert seconds < 8 * quarter.seconds[step] + CONSTANT_S, step
