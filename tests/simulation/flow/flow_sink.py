"""The sink of a made-up task: the real two-phase commit operator, which writes into the ledger.

What an attempt has prepared behind the checkpoint that the job begins again from is rolled back, by the names of
transactions as the PostgreSQL sink gives them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from simulation.flow.flow_records import Records

from flinkbuf._core.operators.stream_operator import Output
from flinkbuf.streaming.chain.operator_config import ExecutionSettings
from flinkbuf.streaming.sinks.postgres_sink import TransactionNames
from flinkbuf.streaming.sinks.two_phase_commit import (
    TRANSACTIONS_STATE,
    TransactionsState,
    TwoPhaseCommitSinkFunction,
    TwoPhaseCommitSinkOperator,
)
from flinkbuf.streaming.state.operator_state import OperatorStateBackend
from flinkbuf.streaming.state.snapshot import OperatorSnapshot
from flinkbuf.streaming.state.state import ListStateDescriptor

if TYPE_CHECKING:
    from simulation.flow.flow_task import FlowTask

_TRANSACTIONS = ListStateDescriptor(TRANSACTIONS_STATE, None)


class LedgerSink(TwoPhaseCommitSinkFunction):
    """Transactions are names; what they hold is in the ledger."""

    def __init__(self, task: FlowTask) -> None:
        super().__init__()
        self._task = task
        self._ledger = task.world.ledger
        self._names = self._names_at(0)
        self._count = 0

    def _names_at(self, checkpoint_id: int) -> TransactionNames:
        task = self._task
        prefix = f"{task.world.job_name}-{task.writer.tail[:8]}"
        descriptor = task.descriptor
        return TransactionNames(
            prefix, task.attempt.subtask_index, descriptor.parallelism, checkpoint_id, epoch=descriptor.epoch
        )

    def begin_behind(self, checkpoint_id: int) -> None:
        """What is begun from now on is behind this checkpoint."""
        self._names = self._names_at(checkpoint_id)

    def roll_back_leftovers(self) -> None:
        """What attempts before this one have prepared, and the checkpoint does not hold, is undone."""
        for name in self._ledger.prepared_names():
            if self._names.left_behind(name):
                self._ledger.roll_back(name)

    def begin_transaction(self) -> str:
        """Give it a name that no other has."""
        self._count += 1
        return self._names.name(f"{self._task.world.name}{self._task.attempt}-{self._count}")

    def invoke(self, transaction: str, value: Records, context: Any) -> None:
        """Write into it."""
        self._ledger.write(transaction, value)

    def pre_commit(self, transaction: str) -> None:
        """It outlives the process from now on."""
        self._ledger.prepare(transaction)

    def commit(self, transaction: str) -> None:
        """Make it readable."""
        self._task.world.invariants.commits(self._task, self._task.committing_id, transaction)
        self._ledger.commit(transaction, self._task)

    def recover_and_commit(self, transaction: str) -> None:
        """The same, in the name of an earlier attempt."""
        self._task.world.invariants.commits(self._task, self._task.committing_id, transaction)
        self._ledger.commit(transaction, self._task, is_restored=True)

    def abort(self, transaction: str) -> None:
        """Forget it."""
        self._ledger.roll_back(transaction)


class SinkSurroundings:
    """The `OperatorContext` of a sink, as far as it asks."""

    key_context = timers = runtime_context = None

    def __init__(self, task: FlowTask) -> None:
        self.clock = self.processing_time = task.timers
        self.operator_state = OperatorStateBackend()
        self.settings: ExecutionSettings = task.settings

    def initialize_state(self, snapshot: Any) -> None:
        """Give it its part of the checkpoint."""
        if snapshot is not None:
            self.operator_state.restore(snapshot)

    def snapshot_state(self, checkpoint_id: int) -> None:
        """The operator's list is read when all have given their state."""


class FlowSink:
    """The real operator, in its surroundings."""

    def __init__(self, task: FlowTask) -> None:
        self._function = LedgerSink(task)
        self._surroundings = SinkSurroundings(task)
        self.operator = TwoPhaseCommitSinkOperator(self._function)
        self.operator.setup(self._surroundings, Output())

    def open(self, restored: list[TransactionsState], checkpoint_id: int) -> None:
        """Commit what the checkpoint holds, undo the rest, and begin."""
        self._function.begin_behind(checkpoint_id)
        self._function.roll_back_leftovers()
        self.operator.initialize_state(OperatorSnapshot(lists={TRANSACTIONS_STATE: restored}))
        self.operator.open()

    def write(self, records: Records) -> None:
        """Into the transaction that is open."""
        self.operator.process_element(records, 0)

    def finish(self) -> None:
        """Its data has ended."""
        self.operator.end_input(1)
        self.operator.finish()

    def snapshot(self, checkpoint_id: int) -> tuple[TransactionsState, ...]:
        """Prepare, and return what the checkpoint is to hold."""
        self._function.begin_behind(checkpoint_id)
        self.operator.snapshot_state(checkpoint_id)
        return tuple(self._surroundings.operator_state.get_list_state(_TRANSACTIONS).get())
