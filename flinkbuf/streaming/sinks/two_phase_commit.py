"""Sinks that write into transactions of an outside system and commit them when a checkpoint counts.

Flink: TwoPhaseCommitSinkFunction.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic

from flinkbuf._core.operators.sink_operator import SinkFunctionOperator
from flinkbuf.log import logger
from flinkbuf.streaming.chain.error_location import keep_as_context
from flinkbuf.streaming.chain.functions import SinkFunction
from flinkbuf.streaming.state.state import ListStateDescriptor
from flinkbuf.streaming.time.clock import Clock
from flinkbuf.types.type_parameters import IN, TXN

if TYPE_CHECKING:
    from flinkbuf.streaming.chain.runtime_context import RuntimeContext
    from flinkbuf.streaming.state.snapshot import OperatorSnapshot

TRANSACTIONS_STATE = "state"  # its name in Flink, too


class TwoPhaseCommitSinkFunction(SinkFunction[IN], Generic[IN, TXN]):
    """Writes the records between two checkpoints into one transaction, so that each counts exactly once.

    A transaction is prepared (`pre_commit`) when a checkpoint is taken, and committed when the checkpoint is complete
    everywhere; a job that fails in between commits it when it begins again from that checkpoint. So a transaction must
    outlive the process that prepared it. Without checkpoints it is committed at the end of a bounded job.

    What stands for a transaction is any object that can be pickled, such as its name; what it holds open (a connection,
    a file) is kept beside it, in the function. A transaction that was committed before may be committed again.

    References
    ----------
    Flink ``TwoPhaseCommitSinkFunction``.

    Examples
    --------
    >>> class Ledger(TwoPhaseCommitSinkFunction):
    ...     books, pages = [], {}
    ...     def begin_transaction(self):
    ...         self.pages[number := len(self.pages)] = []
    ...         return number
    ...     def invoke(self, transaction, value, context):
    ...         self.pages[transaction].append(value)
    ...     def pre_commit(self, transaction):
    ...         pass
    ...     def commit(self, transaction):
    ...         self.books += self.pages[transaction]
    ...     def abort(self, transaction):
    ...         self.pages[transaction].clear()
    >>> from flinkbuf.datastream import StreamExecutionEnvironment
    >>> env = StreamExecutionEnvironment.get_execution_environment()
    >>> sink = env.from_collection([1, 2]).add_sink(Ledger())
    """

    def __init__(self) -> None:
        super().__init__()

    _timeout_ms: int | None = None
    _warning_ratio: float | None = None
    _ignores_failures_after_timeout = False

    def open(self, runtime_context: RuntimeContext) -> None:
        """Get ready, before the first call of any other method."""

    @abstractmethod
    def begin_transaction(self) -> TXN:
        """Begin a transaction and return what stands for it."""

    @abstractmethod
    def invoke(self, transaction: TXN, value: IN, context: Any) -> None:  # type: ignore[override]
        """Write one record into the transaction."""

    @abstractmethod
    def pre_commit(self, transaction: TXN) -> None:
        """Write everything, so that only the commit is left: that must not fail for lack of anything."""

    @abstractmethod
    def commit(self, transaction: TXN) -> None:
        """Make a transaction visible. Called again, perhaps, for one that was committed."""

    @abstractmethod
    def abort(self, transaction: TXN) -> None:
        """Abort a transaction, which may not exist any more."""

    def recover_and_commit(self, transaction: TXN) -> None:
        """Commit a transaction that an earlier attempt has prepared; an error ends the job unless it was too old."""
        self.commit(transaction)

    def recover_and_abort(self, transaction: TXN) -> None:
        """Abort a transaction that an earlier attempt has begun."""
        self.abort(transaction)

    def finish_processing(self, transaction: TXN) -> None:
        """Write all records held back: no record comes any more."""

    def set_transaction_timeout(self, transaction_timeout_ms: int) -> TwoPhaseCommitSinkFunction[IN, TXN]:
        """Say after how many milliseconds the outside system gives a transaction up by itself."""
        if transaction_timeout_ms < 0:
            raise ValueError(f"transaction_timeout_ms must not be negative, got {transaction_timeout_ms}")
        self._timeout_ms = transaction_timeout_ms
        return self

    def enable_transaction_timeout_warnings(self, warning_ratio: float) -> TwoPhaseCommitSinkFunction[IN, TXN]:
        """Have a transaction logged that is older than this part of the timeout when it is committed."""
        if not 0 <= warning_ratio <= 1:
            raise ValueError(f"warning_ratio must be between 0 and 1, got {warning_ratio}")
        self._warning_ratio = warning_ratio
        return self

    def ignore_failures_after_transaction_timeout(self) -> TwoPhaseCommitSinkFunction[IN, TXN]:
        """Let the job go on, with an error in the log, if a recovered transaction is too old to be committed."""
        self._ignores_failures_after_timeout = True
        return self


@dataclass(frozen=True)
class TransactionHolder:
    """A transaction, and when it was begun."""

    handle: object
    started_ms: int


@dataclass(frozen=True)
class TransactionsState:
    """What a checkpoint keeps of one subtask: prepared transactions, oldest first, and the one that was begun then."""

    pending: tuple[TransactionHolder, ...]
    current: TransactionHolder | None


class TransactionAge:
    """Decides by the age of a transaction."""

    def __init__(self, function: TwoPhaseCommitSinkFunction) -> None:
        self._timeout_ms = function._timeout_ms
        self._ratio = function._warning_ratio
        self._ignores_failures = function._ignores_failures_after_timeout

    def is_worth_a_warning(self, age_ms: int) -> bool:
        """Return whether the transaction came near its timeout."""
        return self._timeout_ms is not None and self._ratio is not None and age_ms > self._ratio * self._timeout_ms

    def excuses_failure(self, age_ms: int) -> bool:
        """Return whether the job may go on without the transaction."""
        return self._ignores_failures and self._timeout_ms is not None and age_ms > self._timeout_ms


class TwoPhaseCommitSinkOperator(SinkFunctionOperator):
    """Begins, prepares, commits and aborts the transactions of one subtask.

    Parameters
    ----------
    function : TwoPhaseCommitSinkFunction
        The subtask's own copy.
    takes_context : bool
        Whether its invoke has a third parameter.
    """

    def __init__(self, function: TwoPhaseCommitSinkFunction, takes_context: bool = True) -> None:
        super().__init__(self._write if takes_context else self._write_alone, function, takes_context)
        self._sink = function
        self._invoke = function.invoke
        self._age = TransactionAge(function)
        self._current: TransactionHolder | None = None
        self._pending: deque[tuple[int, TransactionHolder]] = deque()  # by checkpoint, oldest first
        self._has_finished = False

    def initialize_state(self, snapshot: OperatorSnapshot | None) -> None:
        """Get the transactions of those subtasks whose part this is."""
        super().initialize_state(snapshot)
        self._state = self.context.operator_state.get_list_state(ListStateDescriptor(TRANSACTIONS_STATE, None))

    def open(self) -> None:
        """Commit what the checkpoint had prepared, abort what was begun after it, and begin."""
        super().open()
        restored: list[TransactionsState] = self._state.get()
        for state in restored:
            for holder in state.pending:
                self._recover_and_commit(holder)
        for state in restored:
            if state.current is not None:
                logger.info("aborting transaction %r, begun after the checkpoint", state.current.handle)
                self._sink.recover_and_abort(state.current.handle)
        self._current = self._begin()

    def _write(self, value: object, context: object) -> None:
        self._invoke(self._current.handle, value, context)  # type: ignore[union-attr]

    def _write_alone(self, value: object) -> None:
        self._invoke(self._current.handle, value)  # type: ignore[union-attr,call-arg]

    def end_input(self, input_number: int) -> None:
        """Write the records held back."""
        self._has_finished = True
        if self._current is not None:
            self._sink.finish_processing(self._current.handle)

    def finish(self) -> None:
        """Commit at the end of a bounded job that no checkpoint follows."""
        settings = self.context.settings
        if settings.checkpointing_enabled and settings.checkpoints_after_tasks_finish:
            return
        current, self._current = self._current, None
        if current is not None:
            self._sink.pre_commit(current.handle)
            self._pending.append((0, current))
        self._commit_until(None)

    def snapshot_state(self, checkpoint_id: int) -> OperatorSnapshot:
        """Prepare the current transaction, and begin the next."""
        if self._current is not None:
            self._sink.pre_commit(self._current.handle)
            self._pending.append((checkpoint_id, self._current))
            self._current = None if self._has_finished else self._begin()
        self._state.update([TransactionsState(tuple(holder for _, holder in self._pending), self._current)])
        return super().snapshot_state(checkpoint_id)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Commit what was prepared for this checkpoint, and for earlier ones that failed or were not heard of."""
        self._commit_until(checkpoint_id)

    def _commit_until(self, checkpoint_id: int | None) -> None:
        """Try each transaction, oldest first, and raise the first error then."""
        first: BaseException | None = None
        while self._pending and (checkpoint_id is None or self._pending[0][0] <= checkpoint_id):
            _, holder = self._pending.popleft()
            self._warn_if_old(holder)
            try:
                self._sink.commit(holder.handle)
            except Exception as error:
                if first is None:
                    first = error
                else:
                    keep_as_context(first, error)
        if first is not None:
            raise first

    def _recover_and_commit(self, holder: TransactionHolder) -> None:
        self._warn_if_old(holder)
        try:
            self._sink.recover_and_commit(holder.handle)
        except Exception as error:
            age_ms = _age_ms(holder, self.context.clock)
            if not self._age.excuses_failure(age_ms):
                raise
            logger.error(
                "transaction %r is %d ms old, more than its timeout, and cannot be committed; its records are lost: %s",
                holder.handle,
                age_ms,
                error,
            )

    def _warn_if_old(self, holder: TransactionHolder) -> None:
        age_ms = _age_ms(holder, self.context.clock)
        if self._age.is_worth_a_warning(age_ms):
            logger.warning(
                "transaction %r is %d ms old: take checkpoints more often, or give transactions a longer timeout",
                holder.handle,
                age_ms,
            )

    def _begin(self) -> TransactionHolder:
        return TransactionHolder(self._sink.begin_transaction(), self.context.clock.now_ms())

    def close(self) -> None:
        """Abort the current transaction; those that are prepared may count yet."""
        current, self._current = self._current, None
        try:
            if current is not None:
                self._sink.abort(current.handle)
        finally:
            super().close()


def _age_ms(holder: TransactionHolder, clock: Clock) -> int:
    return clock.now_ms() - holder.started_ms
