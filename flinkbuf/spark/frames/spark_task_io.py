"""What the Spark task of a slot gives the job's operators: records to read, and a queue for those that Spark takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from queue import Empty
from typing import Any, Protocol

from flinkbuf.streaming.sinks.collect import Collector


class TaskInput(Protocol):
    """The records that Spark gives the sources of one slot."""

    def batches_of(self, number: int) -> Iterator[tuple[int | None, Iterable[Any]]]:
        """Yield what is for a source: the partition, None for the subtask's own, and some of its records."""
        ...


class OutputQueue(Collector):
    """Records between the task that makes them and Spark, which asks for one after the other.

    A task waits while Spark is behind. Where Spark wants no more of them, the job goes on without it.

    Examples
    --------
    >>> output = OutputQueue()
    >>> output.put(1); output.discard(); output.put(2); output.finish()
    >>> list(output)
    []
    """

    _is_discarding = False

    def put(self, record: object, give_way: Callable[[], object] = bool) -> None:
        """Hand one record to Spark, waiting while it is behind; on a task's thread."""
        if not self._is_discarding:
            super().put(record, give_way)

    def limit(self, count: int) -> None:
        """Let so many wait at most; for records that are large."""
        self._capacity = count

    def close(self) -> None:
        """Do as `discard` does: a generator that is closed closes what it yields from, and its task must not fail."""
        self.discard()

    def discard(self) -> None:
        """Drop the records that are here, and those that come: the reader is gone."""
        self._is_discarding = True
        try:
            while True:  # who waits for room looks again
                self._queue.get_nowait()
        except Empty:
            with self._has_room:
                self._has_room.notify_all()


@dataclass(frozen=True)
class SparkTaskIo:
    """The ``target_io`` of operators in a Spark task; it takes no records where the job has a sink of its own."""

    input: TaskInput
    output: OutputQueue | None
