"""How records of Spark's partitions get to the subtasks that read them, through the one stage in which a job runs.

Stage partition i is slot i of the job. Where a job has one input that is as wide as the job, the stage reads it as it
is, record by record. Otherwise Spark's shuffle brings each partition of each input, whole and in order, to the slot of
the subtask that reads it; where one slot reads several inputs, what comes too early for its reader is kept aside.
"""

from __future__ import annotations

import os
import pickle
import tempfile
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from flinkbuf.spark.workers import shipped

if TYPE_CHECKING:
    from pyspark import RDD, SparkContext

BATCH_SIZE = 500  # records that go through the shuffle as one object
BATCH_BYTES = 1 << 20  # of objects that are bytes, and hold many records each
ASIDE_IN_MEMORY = 4 * 1024**2  # bytes of a source's batches that wait in memory; more of them wait in a file


@dataclass(frozen=True)
class StageInput:
    """One source of a job that reads an RDD.

    Attributes
    ----------
    number : int
        Of the source, as its operator asks for it.
    data : RDD
    first_slot, parallelism : int
        Its subtask i is in slot ``first_slot + i``.
    """

    number: int
    data: RDD[object]
    first_slot: int
    parallelism: int

    def is_stage(self, slot_count: int) -> bool:
        """Whether its partitions are those of the stage."""
        return self.first_slot == 0 and self.data.getNumPartitions() == self.parallelism == slot_count


def stage_data(context: SparkContext, inputs: list[StageInput], slot_count: int) -> RDD[object]:
    """Return what the stage of a job reads; `SlotInput` takes its partitions apart."""
    if not inputs:
        return context.parallelize(range(slot_count), slot_count)
    if is_direct(inputs, slot_count):
        return inputs[0].data
    handed_over: list[RDD[tuple[int, tuple[int, bytes]]]] = []
    for each in inputs:
        task = HandOver(each.number, each.first_slot, each.parallelism, each.data.getNumPartitions())
        handed_over.append(each.data.mapPartitionsWithIndex(shipped(task)))
    together = handed_over[0] if len(handed_over) == 1 else context.union(handed_over)
    return together.partitionBy(slot_count, int)  # the key is the slot itself


def is_direct(inputs: list[StageInput], slot_count: int) -> bool:
    """Whether the stage reads its only input as it is."""
    return len(inputs) == 1 and inputs[0].is_stage(slot_count)


@dataclass(frozen=True)
class HandOver:
    """Sends a partition to the slot of the subtask that takes care of it; neighbours go together."""

    number: int
    first_slot: int
    parallelism: int
    partition_count: int

    def __call__(self, index: int, records: Iterable[object]) -> Iterator[tuple[int, tuple[int, bytes]]]:
        """Return pairs of the slot, and of the source's number and some records with their partition."""
        slot = self.first_slot + index * self.parallelism // self.partition_count
        records = iter(records)
        while batch := list(islice(_near(records), BATCH_SIZE)):
            yield slot, (self.number, pickle.dumps((index, batch), pickle.HIGHEST_PROTOCOL))


def _near(records: Iterator[object]) -> Iterator[object]:
    """Records up to one that brings so many bytes."""
    size = 0
    for record in records:
        yield record
        size += len(record) if type(record) is bytes else 0
        if size >= BATCH_BYTES:
            return


class SlotInput:
    """What Spark gives the task of one slot.

    Parameters
    ----------
    records : iterable
        The stage's partition.
    is_direct : bool
        It is the only source's own; else pairs that `HandOver` made.
    """

    def __init__(self, records: Iterable[Any], is_direct: bool) -> None:
        self._records = iter(records)
        self._is_direct = is_direct
        self._lock = threading.Lock()  # each source has a thread of its own
        self._readers: set[int] = set()
        self._aside: dict[int, Backlog] = {}

    def batches_of(self, number: int) -> Iterator[tuple[int | None, Iterable[object]]]:
        """Return the records for one source, once: some at a time, with the partition of its RDD that they are of.

        The partition is None where it is the stage's own. Batches of one partition come in their order; those of
        several come as the network brings them, another time in another order.

        Raises
        ------
        RuntimeError
            They were asked for before: Spark gives them once.
        """
        with self._lock:
            if number in self._readers:
                raise RuntimeError("what Spark gives a task can be read once: the job has to begin in a new stage")
            self._readers.add(number)
        return iter([(None, self._records)]) if self._is_direct else self._sorted_out(number)

    def close(self) -> None:
        """Drop what nobody took."""
        with self._lock:
            for backlog in self._aside.values():
                backlog.close()
            self._aside = {}

    def _sorted_out(self, number: int) -> Iterator[tuple[int | None, Iterable[object]]]:
        while (batch := self._next_batch(number)) is not None:
            yield pickle.loads(batch)

    def _next_batch(self, number: int) -> bytes | None:
        with self._lock:
            aside = self._aside.get(number)
            if aside:
                return aside.take()
            for _, (owner, batch) in self._records:
                if owner == number:
                    return bytes(batch)
                if owner not in self._aside:
                    self._aside[owner] = Backlog()
                self._aside[owner].put(batch)
        return None


class Backlog:
    """Batches in their order; more than some megabytes of them lie in a file that has no name.

    Examples
    --------
    >>> backlog = Backlog()
    >>> backlog.put(b"one"); backlog.put(b"two")
    >>> backlog.take(), len(backlog)
    (b'one', 1)
    >>> backlog.close()
    """

    def __init__(self) -> None:
        folder = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0]
        place = folder if os.path.isdir(folder) else None
        self._file = tempfile.SpooledTemporaryFile(ASIDE_IN_MEMORY, dir=place)  # noqa: SIM115 - close() is ours
        self._lengths: deque[int] = deque()
        self._read_to = self._written_to = 0

    def __len__(self) -> int:
        return len(self._lengths)

    def put(self, batch: bytes) -> None:
        """Add one behind the others."""
        self._file.seek(self._written_to)
        self._file.write(batch)
        self._written_to += len(batch)
        self._lengths.append(len(batch))

    def take(self) -> bytes:
        """Remove the first."""
        length = self._lengths.popleft()
        self._file.seek(self._read_to)
        batch = self._file.read(length)
        self._read_to += length
        if not self._lengths:
            self._read_to = self._written_to = 0  # the same bytes again
        return batch

    def close(self) -> None:
        """Free memory and file."""
        self._file.close()
        self._lengths.clear()
