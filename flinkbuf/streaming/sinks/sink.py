"""What a sink is made of: a writer in each subtask and, where results appear all at once, a committer.

Flink: FLIP-143 and FLIP-191, org.apache.flink.api.connector.sink2.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from flinkbuf._core.operators.sink_operator import SinkContext
from flinkbuf.streaming.chain.operator_config import TaskInfo
from flinkbuf.streaming.chain.operator_context import MailboxExecutor
from flinkbuf.streaming.time.processing_time import ProcessingTimeService
from flinkbuf.types.type_information import TypeInformation

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "CommitRequest",
    "CommitState",
    "Committer",
    "CommitterContext",
    "GlobalCommitter",
    "Sink",
    "SinkContext",
    "SinkWriter",
    "StreamTransformer",
    "SupportsPreprocessing",
    "WriterContext",
]


@dataclass(frozen=True)
class WriterContext:
    """What a writer is told when it is made. Flink: Sink.InitContext, WriterInitContext.

    Attributes
    ----------
    hand_over : callable, optional
        Takes something to commit before `SinkWriter.prepare_commit` is asked for it, so that the writer need not keep
        it: it goes to the committer, which is another operator. None: writer and committer are one. Flink has none.
        What it is given goes past `prepare_commit`: a writer that has another sink's writer in it, and a committer that
        takes not what that one prepares, makes it with a context of ``replace(context, hand_over=None)``.
    """

    task: TaskInfo
    processing_time: ProcessingTimeService
    mailbox: MailboxExecutor
    metrics: object = None
    restored_checkpoint_id: int | None = None  # None: the sink begins with nothing
    operator_id: str = ""  # 32 hex digits
    hand_over: Callable[[object], None] | None = None

    @property
    def subtask_index(self) -> int:
        """Return which of the subtasks the writer belongs to, from 0."""
        return self.task.subtask_index

    @property
    def parallelism(self) -> int:
        """Return how many subtasks the sink has."""
        return self.task.parallelism


@dataclass(frozen=True)
class CommitterContext:
    """What a global committer is told when it is made. Flink: CommitterInitContext."""

    task: TaskInfo
    metrics: object = None
    restored_checkpoint_id: int | None = None  # None: the sink begins with nothing
    operator_id: str = ""  # 32 hex digits
    checkpointing_enabled: bool = False


class SinkWriter:
    """Writes the records of one subtask; everything on the task's thread. Flink: SinkWriter."""

    def write(self, element: Any, context: SinkContext) -> None:
        """Take one record; it may be kept until flush."""
        raise NotImplementedError(f"{type(self).__name__}.write")

    def write_batch(self, batch: pa.RecordBatch, context: SinkContext) -> None:
        """Take the rows of a column stream, a ``pyarrow.RecordBatch``, where `Sink.of_columns` gives the sink.

        It does not change, so it may be kept until flush. ``context.timestamp()`` is the latest of its rows, whose own
        are ``context.timestamps``. Flink has no such method.
        """
        raise NotImplementedError(f"{type(self).__name__}.write_batch")

    def write_watermark(self, watermark: int) -> None:
        """Note that event time has come to `watermark`, in milliseconds since 1970."""

    def flush(self, end_of_input: bool) -> None:
        """Have everything written that write() took: before each checkpoint, and at the end."""
        raise NotImplementedError(f"{type(self).__name__}.flush")

    def prepare_commit(self) -> Sequence[object]:
        """Return what a committer is to make visible of all that was flushed; each call gives what is new."""
        return ()

    def snapshot_state(self, checkpoint_id: int) -> Sequence[object]:
        """Return the state from which another writer goes on."""
        return []

    def close(self) -> None:
        """Free what was opened; called once, also after a failure."""


class Committer:
    """Makes visible what writers prepared. Flink: Committer.

    Attributes
    ----------
    commits_one_by_one : bool
        In batch, where all writers have finished before, `commit` is called with each committable as it comes, rather
        than with all when the last one has come. So say it where they hold what is to be written, and all of them are
        too much for memory. Flink has none.
    """

    commits_one_by_one = False

    def commit(self, requests: Sequence[CommitRequest]) -> None:
        """Commit each request; committing the same twice must be harmless. An unmarked request is done."""
        raise NotImplementedError(f"{type(self).__name__}.commit")

    def close(self) -> None:
        """Free what was opened; called once."""


class GlobalCommitter(Committer):
    """Makes visible at once what all writers of a sink prepared; a job has one of it. Flink: GlobalCommitter."""

    def combine(self, committables: Sequence[Any], checkpoint_id: int) -> object:
        """Return the one thing to commit for a checkpoint, of what the writers prepared before it; never of nothing.

        It is kept in the checkpoint, so that `commit` can be called with it again after a failure.
        """
        raise NotImplementedError(f"{type(self).__name__}.combine")


class Sink:
    """Where records go: ``stream.sink_to(sink)``. It is pickled, and makes a writer in each subtask. Flink: Sink.

    Attributes
    ----------
    commits_globally : bool
        What the writers prepare goes to one operator of one subtask, whose `GlobalCommitter` commits all of a
        checkpoint at once; else each subtask commits its own with what `create_committer` gives.
    """

    commits_globally = False

    def create_writer(self, context: WriterContext) -> SinkWriter:
        """Make the writer of one subtask."""
        raise NotImplementedError(f"{type(self).__name__}.create_writer")

    def restore_writer(self, context: WriterContext, states: Sequence[Any]) -> SinkWriter:
        """Make a writer that goes on from what snapshots of writers hold."""
        return self.create_writer(context)

    def create_committer(self) -> Committer | None:
        """Make the committer of one subtask; None: what is flushed is done."""
        return None

    @property
    def has_committer(self) -> bool:
        """Return whether `create_committer` gives one: if the class has its own.

        In batch committers are an operator behind the writers, which Flink tells by the interface SupportsCommitter.
        """
        return type(self).create_committer is not Sink.create_committer

    def create_global_committer(self, context: CommitterContext) -> GlobalCommitter:
        """Make the only committer of the sink, where it `commits_globally`."""
        raise NotImplementedError(f"{type(self).__name__}.create_global_committer")

    def of_records(self, type_info: TypeInformation | None) -> Sink:
        """Return the sink of a stream's records, which have this declared type; None: not declared."""
        return self

    def of_columns(self, schema: pa.Schema | None = None) -> Sink | None:
        """Return the sink of a column stream, whose writers have `SinkWriter.write_batch`; None: they take records.

        Flink has no such method. By default the rows of column streams are made records.

        Parameters
        ----------
        schema : pyarrow.Schema, optional
            Of the batches; None: it is known when they come. Raise what is to be said to whoever calls ``sink_to`` if
            they cannot be written.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> from flinkbuf.datastream.connectors.base import Sink, SinkWriter
        >>> class Totals(Sink):
        ...     def of_columns(self, schema=None):
        ...         return self
        ...     def create_writer(self, context):
        ...         return TotalsWriter()
        >>> class TotalsWriter(SinkWriter):
        ...     def write_batch(self, batch, context):
        ...         print(batch.num_rows, "rows of", *batch.schema.names)
        ...     def flush(self, end_of_input):
        ...         pass
        >>> from flinkbuf.common import Configuration
        >>> embedded = Configuration().set_string("execution.target", "embedded")  # as threads of this process
        >>> env = StreamExecutionEnvironment.get_execution_environment(embedded).set_parallelism(1)
        >>> _ = env.from_collection(pa.table({"n": [1, 2, 3]})).as_columns().sink_to(Totals())
        >>> _ = env.execute()
        3 rows of n
        """
        return None


class StreamTransformer(ABC):
    """Something done to a stream before its sink. PyFlink: StreamTransformer."""

    @abstractmethod
    def apply(self, ds: Any) -> Any:
        """Return the stream that the sink gets."""


class SupportsPreprocessing(ABC):
    """A sink that wants something done to its stream first. PyFlink: SupportsPreprocessing."""

    @abstractmethod
    def get_transformer(self) -> StreamTransformer | None:
        """Return what is to be done, None: nothing."""


class CommitState(Enum):
    """What became of a commit request."""

    PENDING = "PENDING"
    COMMITTED = "COMMITTED"
    RETRY = "RETRY"
    FAILED = "FAILED"


class CommitRequest:
    """One thing to commit and what became of it. Flink: Committer.CommitRequest.

    Attributes
    ----------
    committable : object
        What the writer's prepare_commit gave.
    attempts : int
        Calls of commit() that it was given to before.
    is_restored : bool
        It comes out of a checkpoint: an earlier attempt of the job may have committed it.
    error : BaseException, optional
        Why it was not committed, if the committer says.
    """

    def __init__(self, committable: Any, is_restored: bool = False) -> None:
        self.committable = committable
        self.is_restored = is_restored
        self.attempts = 0
        self.state = CommitState.PENDING
        self.error: BaseException | None = None

    def retry_later(self) -> None:
        """Commit this request again later."""
        self.state = CommitState.RETRY

    def update_and_retry_later(self, committable: object) -> None:
        """Commit something else in its place later."""
        self.committable = committable
        self.state = CommitState.RETRY

    def signal_already_committed(self) -> None:
        """Note that the request was committed before, by an earlier attempt."""
        self.state = CommitState.COMMITTED

    def signal_failed_with_known_reason(self, error: BaseException) -> None:
        """Note that the request cannot be committed, but the job may go on."""
        self.state = CommitState.FAILED
        self.error = error

    def signal_failed_with_unknown_reason(self, error: BaseException) -> None:
        """Fail the job with `error`: the request cannot be committed."""
        raise error
