"""The end of a stream, and the results of a job as an iterator. Flink: DataStreamSink, CloseableIterator."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Generic, TypeVar

from flinkbuf.datastream.arguments import checked_uid_hash, group_name, set_parallelism
from flinkbuf.datastream.slot_sharing_group import SlotSharingGroup
from flinkbuf.jobs.graphs.transformation import ChainingStrategy, OperatorTransformation

T = TypeVar("T")  # of the records


class DataStreamSink:
    """Where a stream ends; made by ``print``, ``add_sink`` and ``sink_to``. Flink's ``DataStreamSink``.

    Examples
    --------
    >>> from flinkbuf.datastream import StreamExecutionEnvironment
    >>> env = StreamExecutionEnvironment.get_execution_environment()
    >>> env.from_collection([1, 2]).add_sink(print).name("shown").uid("shown-1").set_parallelism(1)
    <DataStreamSink 'shown'>
    """

    def __init__(self, transformation: OperatorTransformation) -> None:
        self._transformation = transformation

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._transformation.name!r}>"

    def name(self, name: str) -> DataStreamSink:
        """Say what it is called in plans, metrics and errors."""
        self._transformation.name = name
        return self

    def uid(self, uid: str) -> DataStreamSink:
        """Give it an id by which its state is found again after the program was changed."""
        self._transformation.uid = uid or None
        return self

    def set_uid_hash(self, uid_hash: str) -> DataStreamSink:
        """Give it an operator id, 32 hex digits, as it stood in the log of an older version of the program."""
        self._transformation.uid_hash = checked_uid_hash(uid_hash)
        return self

    def set_parallelism(self, parallelism: int) -> DataStreamSink:
        """Set how many subtasks it has; -1: the environment's default."""
        set_parallelism(self._transformation, parallelism)
        return self

    def set_description(self, description: str) -> DataStreamSink:
        """Say more about it in the plan."""
        self._transformation.description = description
        return self

    def disable_chaining(self) -> DataStreamSink:
        """Give it a task of its own."""
        self._transformation.chaining_strategy = ChainingStrategy.NEVER
        return self

    def slot_sharing_group(self, slot_sharing_group: str | SlotSharingGroup) -> DataStreamSink:
        """Let it share slots with the operators of this group only."""
        self._transformation.slot_sharing_group = group_name(slot_sharing_group)
        return self


class CloseableIterator(Generic[T]):
    """The records of a running job, one by one; closing it ends the job.

    Examples
    --------
    >>> with CloseableIterator(iter([1, 2])) as records:
    ...     records.next(), list(records)
    (1, [2])
    """

    def __init__(self, records: Iterator[T]) -> None:
        self._records = records

    def __iter__(self) -> CloseableIterator[T]:
        return self

    def __next__(self) -> T:
        return self.next()

    def __enter__(self) -> CloseableIterator[T]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def next(self) -> T:
        """Return the next record, waiting for it; raises what the job failed with."""
        return next(self._records)

    def close(self) -> None:
        """Read no more, and cancel the job if it still runs."""
        close = getattr(self._records, "close", None)
        if close is not None:
            close()
