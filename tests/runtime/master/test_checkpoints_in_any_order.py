"""Checkpoints of a job to which anything happens in any order: what holds all the same.

A storage is played along: what is deleted is gone, and what a task begins with must be there. Sinks are, too: once one
was told that a checkpoint counts, its results are out, and the job may never go back behind it.
"""

from collections import Counter
from typing import ClassVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from support.worlds.checkpoint_world import CheckpointWorld
from support.worlds.master_world import error, pipeline

from flinkbuf.checkpoints.handles import (
    KeyedStateHandle,
    OperatorSubtaskState,
    SharedFile,
    StateHandle,
    SubtaskState,
)
from flinkbuf.checkpoints.options import SnapshotKind
from flinkbuf.runtime.checkpoint.checkpoint_config import RETENTIONS
from flinkbuf.runtime.master.restart_strategy import FixedDelayRestart
from flinkbuf.runtime.protocol.job_status import JobStatus
from flinkbuf.runtime.protocol.messages import DeployTasks, NotifyCheckpointComplete, TriggerCheckpoint
from flinkbuf.runtime.scheduler.master_actions import (
    CancelJob,
    CheckpointEnded,
    CheckpointStored,
    CoordinatorFailed,
    DiscardState,
    SnapshotCoordinators,
    StartManagers,
    StoreCheckpoint,
    SuspendJob,
)

KINDS = [SnapshotKind.SAVEPOINT, SnapshotKind.SAVEPOINT, SnapshotKind.SAVEPOINT_SUSPEND]
CONFIGS = [
    {"interval_ms": 1_000},
    {"interval_ms": 300, "max_concurrent": 3, "retained": 2, "tolerable_failures": 2},
    {"interval_ms": 500, "min_pause_ms": 400, "tolerable_failures": -1},
    {"interval_ms": 400, "is_unaligned": True, "timeout_ms": 3_000},
]


class Played(CheckpointWorld):
    """Looks at each action, and keeps the storage."""

    def __init__(self, *arguments, **fields):
        self.files = set()  # paths
        self.directories = set()  # of checkpoints that are written, or begun
        self.written = {}  # metadata by number
        self.to_store = {}  # by number
        self.committed = 0  # the newest that a task was told of
        self.begun = 0
        self.behind = 0  # what began before the job last began again
        self.confirmed = {}  # shared files that a subtask may refer to, by (vertex id, subtask)
        super().__init__(*arguments, **fields)

    def tell(self, stimulus):
        super().tell(stimulus)
        for action in self.last:
            message = getattr(action, "message", action)
            look = self.LOOKS.get(type(message))
            if look is not None:
                look(self, message)
        return self.last

    def _stores(self, action):
        self.to_store[action.metadata.checkpoint_id] = action

    def _discards(self, action):
        assert action.checkpoint_id not in self.job.checkpoints.store.ids, "it is kept"
        # What is being written is not there yet when it is given up, and gone when it is.
        self.to_store.pop(action.checkpoint_id, None)
        if action.location:
            self.written.pop(action.checkpoint_id, None)
            self.files = {each for each in self.files if not each.startswith(action.location + "/")}
        self.files -= {handle.path for handle in action.handles}

    def _deploys(self, message):
        for task in message.tasks:
            self._begins_from(task.attempt, task.restore)

    def _begins_from(self, attempt, restore):
        parts = [part for operator in (restore.operators if restore else ()) for part in operator.keyed]
        paths = [each.handle.path for part in parts for each in part.shared_files]
        self.confirmed[attempt.vertex_id, attempt.subtask_index] = paths
        if restore is None:
            assert not self.committed, "results are out that it knows nothing of"
            return
        assert restore.checkpoint_id >= self.committed
        needed = {handle.path for operator in restore.operators for handle in operator.operator}
        needed |= {part.handle.path for part in parts} | set(paths)
        assert needed <= self.files, "a file is gone that it begins with"
        self.behind = self.begun

    def _completes(self, message):
        assert message.checkpoint_id > self.behind, "of attempts that are gone"
        assert message.checkpoint_id in self.written
        self.committed = max(self.committed, message.checkpoint_id)

    def _begins(self, message):
        self.begun = max(self.begun, message.checkpoint_id)

    LOOKS: ClassVar = {
        StoreCheckpoint: _stores,
        DiscardState: _discards,
        DeployTasks: _deploys,
        NotifyCheckpointComplete: _completes,
        TriggerCheckpoint: _begins,
    }

    def location_of(self, checkpoint_id):
        return next(
            each.options.location
            for each in self.of(TriggerCheckpoint, all_time=True)
            if each.checkpoint_id == checkpoint_id
        )


class AnyOrder(RuleBasedStateMachine):
    @initialize(
        config=st.sampled_from(CONFIGS),
        retention=st.sampled_from(RETENTIONS),
        is_pointwise=st.booleans(),
    )
    def start(self, config, retention, is_pointwise):
        self.world = Played(
            pipeline(is_pointwise=is_pointwise), restart=FixedDelayRestart(1_000, 50), retention=retention, **config
        )
        self.world.begin()
        self.file_count = 0
        self.running = lambda: [each for each, state in self.world.tasks.items() if state == "RUNNING"]

    # ---- what tasks do

    def state_of(self, checkpoint_id, attempt):
        """One file of its own, a new shared one, and a part of the shared ones that it may refer to."""
        world = self.world
        self.file_count += 1
        subtask = (attempt.vertex_id, attempt.subtask_index)
        own = f"{world.location_of(checkpoint_id)}/{self.file_count}"
        new = f"/shared/{self.file_count}"
        paths = [new, *self.world.confirmed[subtask][::2]]
        world.files |= {own, new}
        files = tuple(SharedFile(path, StateHandle(1, path=path)) for path in paths)
        keyed = KeyedStateHandle(0, 127, 128, StateHandle(1, path=own), shared_files=files)
        operator_id = bytes.fromhex(attempt.vertex_id).rstrip(b"\0").decode()
        return SubtaskState((OperatorSubtaskState(operator_id, keyed=(keyed,)),)), (subtask, paths)

    @precondition(lambda self: self.world.checkpoints.pending and self.running())
    @rule(data=st.data())
    def acknowledge(self, data):
        triggered = sorted({each.checkpoint_id for each in self.world.of(TriggerCheckpoint, all_time=True)})
        if not triggered:
            return
        checkpoint_id = data.draw(st.sampled_from(triggered[-3:]))
        if checkpoint_id in self.world.written:
            return  # all had given their state before
        attempt = data.draw(st.sampled_from(self.running()))
        pending = self.world.checkpoints.pending.get(checkpoint_id)
        if pending is not None and attempt not in pending.missing:
            return  # a task gives its state once
        state, used = self.state_of(checkpoint_id, attempt)
        self.world.acknowledge(checkpoint_id, attempt, state)
        if pending is not None:
            pending.used = {**getattr(pending, "used", {}), **dict([used])}

    @precondition(lambda self: self.world.checkpoints.pending and self.running())
    @rule()
    def acknowledge_all(self):
        for checkpoint_id, pending in list(self.world.checkpoints.pending.items()):
            for attempt in list(pending.missing):
                if (
                    checkpoint_id in self.world.checkpoints.pending
                    and attempt in self.world.tasks
                    and self.is_triggered(checkpoint_id)
                ):
                    state, used = self.state_of(checkpoint_id, attempt)
                    pending.used = {**getattr(pending, "used", {}), **dict([used])}
                    self.world.acknowledge(checkpoint_id, attempt, state)

    def is_triggered(self, checkpoint_id):
        return any(each.checkpoint_id == checkpoint_id for each in self.world.of(TriggerCheckpoint, all_time=True))

    @precondition(lambda self: self.world.checkpoints.pending and self.running())
    @rule(data=st.data(), reason=st.sampled_from(["CHECKPOINT_DECLINED", "CHECKPOINT_DECLINED_SUBSUMED"]))
    def decline(self, data, reason):
        checkpoint_id = data.draw(st.sampled_from(sorted(self.world.checkpoints.pending)))
        self.world.decline(checkpoint_id, data.draw(st.sampled_from(self.running())), reason)

    @precondition(lambda self: self.world.tasks)
    @rule(data=st.data())
    def a_task_fails(self, data):
        self.world.report(data.draw(st.sampled_from(list(self.world.tasks))), "FAILED", error())

    @precondition(lambda self: self.running())
    @rule(data=st.data())
    def end_of_data(self, data):
        self.world.end_of_data(data.draw(st.sampled_from(self.running())))

    @precondition(lambda self: self.running())
    @rule(data=st.data(), is_rare=st.integers(0, 3))
    def a_task_finishes(self, data, is_rare):
        if is_rare == 0:
            self.world.report(data.draw(st.sampled_from(self.running())), "FINISHED")

    @rule()
    def all_come_up(self):
        self.world.confirm_cancels().wait(60)
        self.world.all_report("INITIALIZING", "RUNNING").wait(0)

    @rule(stage=st.sampled_from(["triggered", "acknowledged", "stored", "stored"]))
    def a_checkpoint(self, stage):
        """One goes well, as far as that."""
        self.all_come_up()
        self.world.wait(self.world.checkpoints.config.period_ms)
        self.coordinators(fails=1, is_old=False)
        if stage != "triggered":
            self.acknowledge_all()
        if stage == "stored":
            for number in sorted(self.world.to_store):
                self.is_stored(number)

    # ---- what coordinators, the storage and users do

    @rule(fails=st.integers(0, 4), is_old=st.booleans())
    def coordinators(self, fails, is_old):
        asked = self.world.of(SnapshotCoordinators, all_time=True)
        if asked:
            number = asked[0 if is_old else -1].checkpoint_id
            self.world.coordinators(number, failure=error() if fails == 0 else None, source=b"x")

    @precondition(lambda self: self.world.to_store)
    @rule(data=st.data(), fails=st.integers(0, 4))
    def stored(self, data, fails):
        self.is_stored(data.draw(st.sampled_from(sorted(self.world.to_store))), fails == 0)

    def is_stored(self, number, fails=False):
        action = self.world.to_store.pop(number, None)
        if action is None:
            return  # given up meanwhile
        if fails:
            self.world.tell(CheckpointStored(number, failure=error("no space")))
            return
        self.world.written[number] = action.metadata
        pending = self.world.checkpoints.pending.get(number)
        self.world.tell(CheckpointStored(number, action.options.location, 9))
        if self.world.notified():
            self.world.confirmed |= getattr(pending, "used", {})

    @rule(span_ms=st.sampled_from([1, 100, 500, 2_000]))
    def wait(self, span_ms):
        self.world.wait(span_ms)

    @rule(kind=st.sampled_from(KINDS))
    def savepoint(self, kind):
        self.world.savepoint(kind)

    @rule(is_rare=st.integers(0, 3))
    def a_coordinator_fails(self, is_rare):
        if is_rare == 0:
            self.world.tell(CoordinatorFailed(error()))

    @precondition(lambda self: self.world.job.managers.registered)
    @rule(data=st.data())
    def a_manager_is_lost(self, data):
        managers = sorted(self.world.job.managers.registered)
        self.world.lose(data.draw(st.sampled_from(managers)))
        self.world.confirm_cancels().wait(60)
        for asked in self.world.of(StartManagers, all_time=True)[-2:]:
            for index in asked.indexes:
                self.world.register(index, run=asked.run)

    @rule(is_rare=st.integers(0, 19), stimulus=st.sampled_from([CancelJob(), SuspendJob()]))
    def the_end(self, is_rare, stimulus):
        if is_rare == 0:
            self.world.tell(stimulus)

    # ---- what holds

    @invariant()
    def at_most_as_many_as_allowed_and_each_ends_once(self):
        if not hasattr(self, "world"):
            return
        checkpoints = self.world.checkpoints
        own = [each for each in checkpoints.pending.values() if not each.kind.is_savepoint]
        assert len(own) <= checkpoints.config.concurrency
        ended = Counter(each.record.checkpoint_id for each in self.world.of(CheckpointEnded, all_time=True))
        assert max(ended.values(), default=1) == 1
        assert not set(ended) & set(checkpoints.pending)

    @invariant()
    def what_is_kept_is_there(self):
        if not hasattr(self, "world"):
            return
        for number in self.world.checkpoints.store.ids:
            needed = {each.path for subtask in self.world.written[number].subtasks() for each in subtask.handles()}
            for subtask in self.world.written[number].subtasks():
                needed |= {each.handle.path for each in subtask.shared_files()}
            assert needed <= self.world.files

    def teardown(self):
        if not hasattr(self, "world"):
            return
        world = self.world
        world.tell(CancelJob())
        world.confirm_cancels()
        assert world.end is not None
        assert len(world.answers) == world.requests, "whoever asked has an answer"
        assert not world.checkpoints.pending
        status = JobStatus[world.end[0]]
        kept = set(world.written) & set(world.checkpoints.store.ids)
        deleted = world.checkpoints.store.end(status)
        assert deleted == []
        saved = {number for number, metadata in world.written.items() if metadata.is_savepoint}
        left = set(world.written) - saved
        if status is JobStatus.FINISHED:
            assert left == kept == set(), "nothing is left of a job that has done its work"
        if status is not JobStatus.SUSPENDED:
            # Files of checkpoints that are left, and nothing else but what came too late for anybody to hear.
            needed = set()
            for metadata in world.written.values():
                for subtask in metadata.subtasks():
                    needed |= {each.path for each in subtask.handles()}
                    needed |= {each.handle.path for each in subtask.shared_files()}
            assert needed <= world.files
            assert world.files <= needed, "files that nobody needs"


TestAnyOrder = AnyOrder.TestCase
TestAnyOrder.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
