"""The end of a stream, and the results of a job as an iterator. Flink: DataStreamSink, CloseableIterator."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Generic, TypeVar

from flinkbuf.datastream.arguments import checked_uid_hash, group_name, set_parallelism
from flinkbuf.datastream.slot_sharing_group import SlotSharingGroup
from flinkbuf.runtime.graph.transformation import ChainingStrategy, OperatorTransformation

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
        """Say what it is called in plans, metrics and errors.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> env.from_collection([1, 2]).print().name("shown")
        <DataStreamSink 'shown'>
        >>> env.explain()
        Flink Streaming Job: 1 task, 1 subtask, 1 slot
        <BLANKLINE>
        [1] Source: Collection Source -> Sink: shown  x 1
        """
        self._transformation.name = name
        return self

    def uid(self, uid: str) -> DataStreamSink:
        """Give it an id by which its state is found again after the program was changed.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> _ = env.get_config().disable_auto_generated_uids()  # so that none can be forgotten
        >>> sink = env.from_collection([1, 2]).uid("numbers").print()
        >>> env.get_execution_plan()
        Traceback (most recent call last):
            ...
        ValueError: operator 'Sink: Print to Std. Out' has no uid, and generated ones are disabled: call uid(...) on it
        >>> sink.uid("shown")
        <DataStreamSink 'Print to Std. Out'>
        """
        self._transformation.uid = uid or None
        return self

    def set_uid_hash(self, uid_hash: str) -> DataStreamSink:
        """Give it an operator id, 32 hex digits, as it stood in the log of an older version of the program.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> sink = env.from_collection([1, 2]).print()
        >>> sink.set_uid_hash("cbc357ccb763df2852fee8c4fc7d55f2").name("shown")
        <DataStreamSink 'shown'>
        >>> sink.set_uid_hash("shown")
        Traceback (most recent call last):
            ...
        ValueError: Node hash must be a 32 character String that describes a hex code. Found: shown
        """
        self._transformation.uid_hash = checked_uid_hash(uid_hash)
        return self

    def set_parallelism(self, parallelism: int) -> DataStreamSink:
        """Set how many subtasks it has; -1: the environment's default.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> _ = env.from_collection([1, 2]).print().set_parallelism(2)
        >>> env.explain()
        Flink Streaming Job: 2 tasks, 3 subtasks, 2 slots
        <BLANKLINE>
        [1] Source: Collection Source  x 1
        <BLANKLINE>
        [2] Sink: Print to Std. Out  x 2
            from [1] by REBALANCE
        """
        set_parallelism(self._transformation, parallelism)
        return self

    def set_description(self, description: str) -> DataStreamSink:
        """Say more about it in the plan.

        Examples
        --------
        >>> import json
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> _ = env.from_collection([1, 2]).print().set_description("to see them")
        >>> [node["contents"] for node in json.loads(env.get_execution_plan())["nodes"]]
        ['Source: Collection Source', 'to see them']
        """
        self._transformation.description = description
        return self

    def disable_chaining(self) -> DataStreamSink:
        """Give it a task of its own.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> _ = env.from_collection([1, 2]).print().disable_chaining()
        >>> env.explain()
        Flink Streaming Job: 2 tasks, 2 subtasks, 1 slot
        <BLANKLINE>
        [1] Source: Collection Source  x 1
        <BLANKLINE>
        [2] Sink: Print to Std. Out  x 1
            from [1] by FORWARD
        """
        self._transformation.chaining_strategy = ChainingStrategy.NEVER
        return self

    def slot_sharing_group(self, slot_sharing_group: str | SlotSharingGroup) -> DataStreamSink:
        """Let it share slots with the operators of this group only.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> _ = env.from_collection([1, 2]).print().slot_sharing_group("writers")
        >>> env.explain()
        Flink Streaming Job: 2 tasks, 2 subtasks, 2 slots
        <BLANKLINE>
        [1] Source: Collection Source  x 1
        <BLANKLINE>
        [2] Sink: Print to Std. Out  x 1
            from [1] by FORWARD
        """
        self._transformation.slot_sharing_group = group_name(slot_sharing_group)
        return self


class GloballyCommittedSink(DataStreamSink):
    """The end of a stream in two operators: writers, and the one that commits for all of them.

    What is said of the sink is said of both, but for the parallelism, which is that of the writers.
    """

    def __init__(self, writers: OperatorTransformation, committer: OperatorTransformation) -> None:
        super().__init__(writers)
        self._committer = committer

    def name(self, name: str) -> DataStreamSink:
        """Say what both are called, each with what it is."""
        self._committer.name = f"{name}: Committer"
        return super().name(f"{name}: Writer")

    def uid(self, uid: str) -> DataStreamSink:
        """Give both an id."""
        self._committer.uid = f"Sink Committer: {uid}" if uid else None
        return super().uid(uid)

    def set_uid_hash(self, uid_hash: str) -> DataStreamSink:
        """Give the writers an operator id, and the committer one that follows from it."""
        super().set_uid_hash(uid_hash)
        self._committer.uid = f"Sink Committer: {self._transformation.uid_hash}"
        return self

    def slot_sharing_group(self, slot_sharing_group: str | SlotSharingGroup) -> DataStreamSink:
        """Let both share slots with the operators of this group only."""
        self._committer.slot_sharing_group = group_name(slot_sharing_group)
        return super().slot_sharing_group(slot_sharing_group)


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
        """Return the next record, waiting for it; raises what the job failed with.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> with env.from_collection([1, 2]).map(str).execute_and_collect() as records:
        ...     records.next(), records.next()
        ('1', '2')
        """
        return next(self._records)

    def close(self) -> None:
        """Read no more, and cancel the job if it still runs.

        Examples
        --------
        >>> import itertools
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> records = env.add_source(lambda: itertools.count()).execute_and_collect()  # a job without end
        >>> next(records)
        0
        >>> records.close()
        """
        close = getattr(self._records, "close", None)
        if close is not None:
            close()
