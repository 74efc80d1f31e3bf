"""All subtasks of a source and its coordinator, without a job around them: they begin, are snapshotted and end."""

import pickle
import random

import cloudpickle
from support.worlds.surroundings import ManualTime, Surroundings

from flinkbuf.streaming.sources.input_status import InputStatus
from flinkbuf.streaming.sources.source_coordinator import CoordinatorStore
from flinkbuf.streaming.sources.source_factories import SourceOperatorFactory
from flinkbuf.streaming.state.snapshot import OperatorSnapshot, redistribute


class SourceAttempt:
    """From the beginning, or from what `checkpoint` returned; a test says in `emit` how its subtasks are called."""

    def __init__(self, source, parallelism, checkpoint=None, strategy=None):
        self.time = ManualTime()
        self.failures = []
        factory = pickle.loads(cloudpickle.dumps(SourceOperatorFactory(source, strategy)))
        state, states = (None, None) if checkpoint is None else checkpoint
        self.coordinator = factory.create_coordinator(parallelism, self.time, CoordinatorStore(), self.failures.append)
        self.coordinator.start(None if state is None else pickle.loads(state))
        self.subtasks = []
        for index in range(parallelism):
            around = Surroundings(
                subtask_index=index, parallelism=parallelism, time=self.time, coordinator=self.coordinator
            )
            snapshot = None
            if states is not None:
                snapshot = redistribute(map(OperatorSnapshot.decode, states), parallelism, index)
            around.operator = around.open(factory(), snapshot)
            around.has_ended = False
            self.subtasks.append(around)

    def checkpoint(self, checkpoint_id=1):
        """The enumerator first; what it has sent before comes to the readers before their barrier."""
        state = cloudpickle.dumps(self.coordinator.snapshot(checkpoint_id))
        states = []
        for around in self.subtasks:
            around.mailbox.run()
            around.operator.prepare_snapshot_pre_barrier(checkpoint_id)
            states.append(around.operator.snapshot_state(checkpoint_id).encode())
        return state, states

    @property
    def values(self):
        return [value for around in self.subtasks for value in around.output.values]

    def close(self):
        for around in self.subtasks:
            around.operator.close()
        self.coordinator.close()


class BatchAttempt(SourceAttempt):
    """Emits batches, a turn each, from subtasks drawn by chance."""

    def emit(self, turns, chance):
        while turns and not all(around.has_ended for around in self.subtasks):
            around = chance.choice(self.subtasks)
            around.mailbox.run()
            around.has_ended = around.operator.emit_next(around.output, 1) == InputStatus.END_OF_INPUT
            turns -= 1

    def rows(self):
        """The numbers `n` of the rows of batches and of records."""
        import pyarrow as pa

        found = [value.to_pylist() if isinstance(value, pa.RecordBatch) else [value.as_dict()] for value in self.values]
        return [row["n"] for batch in found for row in batch]


def numbers_with_a_cut(first_source, then_source, parallelism, turns):
    """The numbers of an attempt of so many turns, and of one at another parallelism that goes on behind it."""
    chance = random.Random(turns)
    first = BatchAttempt(first_source, parallelism)
    first.emit(turns, chance)
    second = BatchAttempt(then_source, 3 - parallelism, first.checkpoint())
    second.emit(10_000, chance)
    first.close(), second.close()
    return sorted(first.rows() + second.rows())
