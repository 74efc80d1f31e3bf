"""Records on their way from the tasks of a running job to the program that reads them.

Flink: CollectSinkFunction, CollectResultIterator, CheckpointedCollectResultBuffer.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from flinkbuf.errors import CancelTaskError
from flinkbuf.streaming.chain.by_reference import CannotBeginAgainError

if TYPE_CHECKING:
    from typing import Any

DEFAULT_CAPACITY = 1_000  # records between tasks and program; a task waits when there are so many
BATCHES_CAPACITY = 16  # the same where they are batches of columns, each of thousands of rows
_SLICE_S = 0.1  # a waiting thread looks so often whether it was cancelled, or interrupted from the keyboard
_END = object()


class CollectedPart:
    """Records of one attempt of one subtask that wait for the checkpoint that they belong to."""

    def __init__(self) -> None:
        self.records: list[object] = []  # since the last checkpoint was taken
        self.sealed: deque[tuple[int, list[object]]] = deque()  # by checkpoint, oldest first

    def seal(self, checkpoint_id: int) -> None:
        """Assign the records before this to this checkpoint; on the task's thread."""
        self.sealed.append((checkpoint_id, self.records))
        self.records = []

    def take(self, checkpoint_id: int) -> list[object]:
        """Take out all records that the checkpoint, or an earlier one, holds."""
        taken: list[object] = []
        while self.sealed and self.sealed[0][0] <= checkpoint_id:
            taken += self.sealed.popleft()[1]
        return taken

    def take_all(self) -> list[object]:
        """Take out every record."""
        taken = [record for _, records in self.sealed for record in records] + self.records
        self.sealed.clear()
        self.records = []
        return taken


class Collector:
    """A bounded queue: tasks put records in on their threads, the program takes them out on its own.

    With checkpoints a task keeps its records in a `CollectedPart` until the program can be given them for good; these
    are not counted, so the interval of checkpoints decides how many there may be.

    Parameters
    ----------
    capacity : int, default 1000
        Records that wait at most, or a few more with several tasks; a task that has another one waits for the program.
    on_close : callable, optional
        Called once when the program stops reading before the end, such as to cancel the job.

    Examples
    --------
    >>> collector = Collector()
    >>> collector.put(1); collector.put(2); collector.finish()
    >>> list(collector)
    [1, 2]
    """

    def __init__(self, capacity: int = DEFAULT_CAPACITY, on_close: Callable[[], None] | None = None) -> None:
        if capacity < 1:
            raise ValueError(f"capacity must be at least 1 record, got {capacity}")
        self.on_close = on_close
        self._capacity = capacity
        self._queue: SimpleQueue[object] = SimpleQueue()
        self._has_room = threading.Condition()
        self._is_awaited = False  # a task waits for room, and was not yet told that there is some
        self._has_records = False  # or had
        self._is_finished = False
        self._is_closed = False
        self._error: BaseException | None = None
        self.may_repeat = False  # checkpoints are to be at least once: no record waits for one
        self._parts: dict[int, CollectedPart] = {}  # by subtask
        self._parts_lock = threading.Lock()
        self._counts_since = 0  # the last checkpoint whose records the program was given

    def put(self, record: object, give_way: Callable[[], object] = bool) -> None:
        """Hand one record to the program, waiting while the queue is full; on a task's thread.

        Parameters
        ----------
        record : object
        give_way : callable
            Called again and again while it waits; what it raises, such as that the task was cancelled, ends the wait.

        Raises
        ------
        CancelTaskError
            If the program does not read any more.
        """
        self.wait(give_way)
        self._has_records = True
        self._queue.put(record)

    def wait(self, give_way: Callable[[], object] = bool) -> None:
        """Wait while the queue is full, as `put` does."""
        if self._queue.qsize() >= self._capacity:
            self._wait_for_room(give_way)
        if self._is_closed:
            raise CancelTaskError("the program reads no more records of this stream")

    def begin_part(self, subtask_index: int, restored_checkpoint_id: int | None) -> CollectedPart:
        """An attempt of a subtask begins, from a checkpoint or from nothing; it takes the place of the one before.

        What the checkpoint holds of that one is given to the program now, if it was not: the news may have been lost.
        """
        restored = restored_checkpoint_id or 0
        with self._parts_lock:
            if restored < self._counts_since:
                raise CannotBeginAgainError(
                    f"the job was restarted from {f'checkpoint {restored}' if restored else 'its beginning'}, but the "
                    f"program has been given the records of execute_and_collect up to checkpoint {self._counts_since}, "
                    "and would get some of them a second time"
                )
            before = self._parts.get(subtask_index)
            part = self._parts[subtask_index] = CollectedPart()
            if before is not None:
                self._give(before.take(restored))
        return part

    def complete_part(self, subtask_index: int, part: CollectedPart, checkpoint_id: int) -> None:
        """Give the program the records of a complete checkpoint, unless a later attempt has begun."""
        with self._parts_lock:
            if self._parts.get(subtask_index) is part:
                self._counts_since = max(self._counts_since, checkpoint_id)
                self._give(part.take(checkpoint_id))

    def _give(self, records: Iterable[object]) -> None:
        if not self._is_closed:
            for record in records:
                self._queue.put(record)

    def why_not_again(self) -> str | None:
        """Return why a job whose records it takes cannot begin anew; None: it can."""
        if not self._has_records or self.may_repeat:
            return None
        return (
            "the program has been given records of execute_and_collect, and would get them a second time; without "
            "checkpoints only a job that writes into a sink can be restarted"
        )

    def _wait_for_room(self, give_way: Callable[[], object]) -> None:
        while self._queue.qsize() >= self._capacity and not self._is_closed:
            give_way()
            with self._has_room:
                if self._queue.qsize() >= self._capacity and not self._is_closed:
                    self._is_awaited = True
                    self._has_room.wait(_SLICE_S)

    def finish(self, error: BaseException | None = None) -> None:
        """The job has ended, with the exception of its failure or None: nothing comes after what is in the queue.

        The first call counts. A failure that the program has not come to yet would be lost in a later one, and what is
        there of the records would look like all of them. Of a job that has not failed all records count, those after
        its last checkpoint, too.
        """
        if self._is_finished:
            return
        with self._parts_lock:
            parts, self._parts = self._parts, {}
            if error is None:
                for subtask_index in sorted(parts):
                    self._give(parts[subtask_index].take_all())
        self._error = error
        self._is_finished = True
        self._queue.put(_END)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        try:
            record = self._queue.get_nowait()
        except Empty:
            record = self._wait_for_record()
        if self._is_awaited and self._queue.qsize() <= self._capacity // 2:
            with self._has_room:
                self._is_awaited = False
                self._has_room.notify_all()
        if record is not _END:
            return record
        self._queue.put(_END)  # for a reader that asks again
        error, self._error = self._error, None
        if isinstance(error, StopIteration):  # as it is, it would look like the end of the records
            failure = RuntimeError("a function of the job raised StopIteration")
            failure.__dict__.update(error.__dict__)  # where it was
            raise failure from error
        if error is not None:
            raise error
        raise StopIteration

    def _wait_for_record(self) -> object:
        while True:  # in slices, so that Ctrl-C is seen; closing puts the end in
            try:
                return self._queue.get(timeout=_SLICE_S)
            except Empty:
                continue
            except KeyboardInterrupt:  # the program does not read on: the job ends, too
                self.close()
                raise

    def take(self, limit: int) -> list[Any]:
        """Return at most `limit` records, then close."""
        try:
            return list(itertools.islice(self, limit))
        finally:
            self.close()

    def close(self) -> None:
        """Stop reading; a job that still runs is cancelled. Closing again does nothing."""
        with self._has_room:
            if self._is_closed:
                return
            self._is_closed = True
            self._error = None
            self._has_room.notify_all()
        self._drop_records()
        if not self._is_finished and self.on_close is not None:
            self.on_close()

    def _drop_records(self) -> None:
        try:
            while True:
                self._queue.get_nowait()
        except Empty:
            self._queue.put(_END)
