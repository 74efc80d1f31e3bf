"""A job master that takes checkpoints, with tasks, coordinators and a storage that a test plays."""

from dataclasses import replace

from support.worlds.master_world import SESSION, MasterWorld, pipeline

from flinkbuf.checkpoints.handles import (
    KeyedStateHandle,
    OperatorSubtaskState,
    SharedFile,
    StateHandle,
    SubtaskState,
)
from flinkbuf.checkpoints.options import CheckpointMetrics, SnapshotKind
from flinkbuf.runtime.checkpoint.checkpoint_config import CheckpointCoordinatorConfig
from flinkbuf.runtime.master.restart_strategy import FixedDelayRestart
from flinkbuf.runtime.protocol.messages import (
    CheckpointAcknowledgement,
    CheckpointRefusal,
    EndOfDataReport,
    NotifyCheckpointAborted,
    NotifyCheckpointComplete,
    TriggerCheckpoint,
)
from flinkbuf.runtime.scheduler.master_actions import (
    CheckpointEnded,
    CheckpointStored,
    CoordinatorsSnapshotted,
    DiscardState,
    NotifyCoordinators,
    RequestAnswered,
    ResetSources,
    SnapshotCoordinators,
    StoreCheckpoint,
    TriggerSavepoint,
)

DIRECTORY = "/checkpoints"
EVERY_SECOND = CheckpointCoordinatorConfig(interval_ms=1_000, directory=DIRECTORY)


class CheckpointWorld(MasterWorld):
    """A job whose tasks all run; its first checkpoint may begin at once, since nobody draws when."""

    def __init__(self, plan=None, *, restart=None, initial=None, master=None, **checkpointing):
        config = replace(EVERY_SECOND, **checkpointing)
        restart = restart or FixedDelayRestart(100, 1_000)
        super().__init__(plan or pipeline(), restart, checkpointing=config, initial=initial, **(master or {}))
        self.requests = 0

    def begin(self):
        """Bring all tasks to RUNNING."""
        self.start().register_all()
        return self.all_report("INITIALIZING", "RUNNING").wait(0)

    # ---- what is played

    def coordinators(self, checkpoint_id, failure=None, **states):
        """The coordinators of sources give their state."""
        return self.tell(CoordinatorsSnapshotted(checkpoint_id, states, failure))

    def trigger(self, span_ms=0):
        """Wait for the next checkpoint to begin, and let coordinators answer; return its number."""
        self.wait(span_ms)
        asked = self.of(SnapshotCoordinators, all_time=True)
        if asked:
            self.coordinators(asked[-1].checkpoint_id, source=b"enumerator")
        return max(each.checkpoint_id for each in self.of(TriggerCheckpoint, all_time=True))

    def acknowledge(self, checkpoint_id, attempt, state=None, *, metrics=None, session_id=SESSION):
        """A task has given its part."""
        state = SubtaskState() if state is None else state
        message = CheckpointAcknowledgement(session_id, attempt, checkpoint_id, state, metrics or CheckpointMetrics())
        return self.say(self.place[attempt], message)

    def acknowledge_all(self, checkpoint_id, states=None):
        """All tasks have, each with its state by attempt."""
        for attempt in list(self.tasks):
            self.acknowledge(checkpoint_id, attempt, (states or {}).get(attempt))
        return self

    def decline(self, checkpoint_id, attempt, reason="CHECKPOINT_DECLINED", failure=None):
        """A task cannot."""
        return self.say(self.place[attempt], CheckpointRefusal(SESSION, attempt, checkpoint_id, reason, failure))

    def stored(self, checkpoint_id, failure=None):
        """The metadata is written, or not."""
        path = (
            ""
            if failure
            else next(
                each.options.location
                for each in self.of(StoreCheckpoint, all_time=True)
                if each.metadata.checkpoint_id == checkpoint_id
            )
        )
        return self.tell(CheckpointStored(checkpoint_id, path, 0 if failure else 99, failure))

    def complete(self, states=None, span_ms=0):
        """One checkpoint from its beginning to its end; return its number."""
        checkpoint_id = self.trigger(span_ms)
        self.acknowledge_all(checkpoint_id, states).stored(checkpoint_id)
        return checkpoint_id

    def savepoint(self, kind=SnapshotKind.SAVEPOINT, directory="/savepoints"):
        """A user asks for one; return the number of the request."""
        self.requests += 1
        self.tell(TriggerSavepoint(self.requests, kind, directory))
        return self.requests

    def end_of_data(self, *attempts):
        """All operators of these tasks have finished."""
        for attempt in attempts:
            self.say(self.place[attempt], EndOfDataReport(SESSION, attempt))
        return self

    def begin_again(self):
        """A task fails, and all begin again and run."""
        self.report(next(iter(self.tasks)), "FAILED", error_of("boom"))
        self.confirm_cancels().wait(1_000)
        return self.all_report("INITIALIZING", "RUNNING").wait(0)

    # ---- what was seen

    @property
    def checkpoints(self):
        return self.job.checkpoints

    @property
    def answers(self):
        """Of all savepoints: by request, the path or what it failed with."""
        answers = self.of(RequestAnswered, all_time=True)
        assert len({each.request for each in answers}) == len(answers), "answered twice"
        return {each.request: each.failure.message if each.failure else each.path for each in answers}

    @property
    def records(self):
        """(number, how it ended, why) of all checkpoints that ended."""
        ended = [each.record for each in self.of(CheckpointEnded, all_time=True)]
        return [(each.checkpoint_id, each.status, each.reason) for each in ended]

    def triggered(self):
        return [each.attempt for each in self.of(TriggerCheckpoint)]

    def notified(self):
        """(attempt, number) of those who were told of success in the last call."""
        return [(each.attempt, each.checkpoint_id) for each in self.of(NotifyCheckpointComplete)]

    def aborted(self):
        return [(each.attempt, each.checkpoint_id) for each in self.of(NotifyCheckpointAborted)]

    def discarded(self, *, all_time=False):
        """(number, directory) of what was to be deleted."""
        return [(each.checkpoint_id, each.location) for each in self.of(DiscardState, all_time=all_time)]

    def files_discarded(self):
        """Paths of single files, of all time."""
        return sorted(handle.path for each in self.of(DiscardState, all_time=True) for handle in each.handles)


def error_of(text):
    from support.worlds.master_world import error

    return error(text)


# ---- state


def file(name, size=10):
    """Bytes in a file."""
    return StateHandle(size, path=f"{DIRECTORY}/{name}")


def shared(*names):
    """Files that several checkpoints may use."""
    return tuple(SharedFile(name, file(f"shared/{name}")) for name in names)


def keyed(first, last, *, files=(), max_parallelism=128, name="keyed"):
    return KeyedStateHandle(first, last, max_parallelism, file(f"{name}-{first}"), shared_files=shared(*files))


def state(operator_id="sink", *, operator=None, keyed=(), is_finished=False, **fields):
    """The state of a subtask with one operator."""
    return SubtaskState(
        (OperatorSubtaskState(operator_id, operator, keyed=tuple(keyed), **fields),), is_finished=is_finished
    )


__all__ = [
    "DIRECTORY",
    "CheckpointWorld",
    "NotifyCoordinators",
    "ResetSources",
    "error_of",
    "file",
    "keyed",
    "shared",
    "state",
]
