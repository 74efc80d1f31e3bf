"""The rows that a reader has received from tasks of Spark, and which of them an epoch consists of."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Final

from flinkbuf.errors import CorruptDataError
from flinkbuf.spark.streams.epochs import Part

MEMORY_LIMIT: Final = 64 * 1024**2  # bytes of one reader; what comes beyond goes to temporary files

PartKey = tuple[int, int, int]  # run, partition, attempt


class MemoryBudget:
    """How many bytes the parts of one reader hold in memory; from any thread.

    Examples
    --------
    >>> budget = MemoryBudget(10)
    >>> budget.take(6), budget.take(6), budget.give_back(6), budget.take(6)
    (True, False, None, True)
    """

    def __init__(self, limit: int = MEMORY_LIMIT) -> None:
        self._limit = limit
        self._used = 0
        self._lock = threading.Lock()

    def take(self, size: int) -> bool:
        """Take so many bytes, if there are as many left."""
        with self._lock:
            if self._used + size > self._limit:
                return False
            self._used += size
            return True

    def give_back(self, size: int) -> None:
        """Give back what was taken."""
        with self._lock:
            self._used -= size


@dataclass(frozen=True)
class StoredBatch:
    """A batch of rows as it came.

    Attributes
    ----------
    row_count : int
    message : bytes
        Of Arrow's IPC format, without a schema.
    """

    row_count: int
    message: bytes


class PartRows:
    """The rows of one part: in memory as far as there is room, then in a temporary file.

    Parameters
    ----------
    budget : MemoryBudget
    batches : sequence of StoredBatch, optional
        Rows that it begins with: those of a checkpoint, which are in memory already.
    """

    def __init__(self, budget: MemoryBudget, batches: Sequence[StoredBatch] = ()) -> None:
        self._budget = budget
        self._held: list[StoredBatch] = list(batches)
        self._taken = 0  # of the budget
        self._file: IO[bytes] | None = None
        self._filed: list[tuple[int, int]] = []  # rows and bytes of each batch in the file
        self.row_count = sum(batch.row_count for batch in batches)

    def append(self, batch: StoredBatch) -> None:
        """Add rows behind those that are there."""
        self.row_count += batch.row_count
        size = len(batch.message)
        if self._file is None and self._budget.take(size):
            self._taken += size
            self._held.append(batch)
            return
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="flinkbuf-epoch-")  # noqa: SIM115 - `close` closes it
        self._file.write(batch.message)
        self._filed.append((batch.row_count, size))

    def batches(self, skipped: int = 0) -> Iterator[StoredBatch]:
        """Yield the batches, but for those whose rows are all among the first `skipped`."""
        place = 0
        for batch in self._held:
            if skipped < batch.row_count:
                yield batch
            skipped = max(0, skipped - batch.row_count)
        for row_count, size in self._filed:
            if skipped < row_count:
                assert self._file is not None
                self._file.seek(place)
                yield StoredBatch(row_count, self._file.read(size))
            place += size
            skipped = max(0, skipped - row_count)

    def skipped_of_first(self, skipped: int) -> int:
        """Return how many of the first `skipped` rows are in the first batch that `batches` yields; none is read."""
        for row_count in (*(batch.row_count for batch in self._held), *(row_count for row_count, _ in self._filed)):
            if skipped < row_count:
                break
            skipped -= row_count
        return skipped

    def close(self) -> None:
        """Free it; closing again does nothing."""
        self._budget.give_back(self._taken)
        self._taken, self._held, self._filed = 0, [], []
        if self._file is not None:
            self._file.close()
            self._file = None


class ReceivedParts:
    """All parts that one reader has, until it is said which of them count.

    Parameters
    ----------
    budget : MemoryBudget
    """

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget
        self._sealed_run = 0
        self._open: dict[PartKey, PartRows] = {}
        self._whole: dict[PartKey, PartRows] = {}

    def begin(self, key: PartKey) -> None:
        """Begin a part; what there was under the same key is dropped."""
        self.drop(key)
        self._open[key] = PartRows(self._budget)

    def add(self, key: PartKey, batch: StoredBatch) -> None:
        """Add rows to a part that was begun."""
        rows = self._open.get(key)
        if rows is not None and key[0] > self._sealed_run:
            rows.append(batch)

    def end(self, key: PartKey, row_count: int) -> None:
        """Note that a part is whole.

        Raises
        ------
        CorruptDataError
            It has not as many rows as its sender says.
        """
        rows = self._open.pop(key, None)
        if rows is None or key[0] <= self._sealed_run:
            if rows is not None:
                rows.close()
            return
        if rows.row_count != row_count:
            rows.close()
            raise CorruptDataError(
                f"partition {key[1]} of a micro-batch has {rows.row_count} rows, where its sender says {row_count}"
            )
        self._whole[key] = rows

    def drop(self, key: PartKey) -> None:
        """Forget a part that was not whole: its sender is gone."""
        rows = self._open.pop(key, None)
        if rows is not None:
            rows.close()

    def seal(self, run: int, parts: Sequence[Part]) -> list[tuple[Part, PartRows]]:
        """Return the rows of the parts that count, by partition; what else there is of this run, and older, is dropped.

        Raises
        ------
        CorruptDataError
            A part is not there.
        """
        sealed = []
        for part in sorted(parts, key=lambda part: part.partition):
            rows = self._whole.pop((part.run, part.partition, part.attempt), None)
            if rows is None:
                raise CorruptDataError(
                    f"partition {part.partition} of a micro-batch is to be read, and this reader does not have it"
                )
            sealed.append((part, rows))
        self._sealed_run = max(self._sealed_run, run)
        for kept in (self._open, self._whole):
            for key in [key for key in kept if key[0] <= self._sealed_run]:
                kept.pop(key).close()
        return sealed

    def close(self) -> None:
        """Free all that was not sealed."""
        for kept in (self._open, self._whole):
            for rows in kept.values():
                rows.close()
            kept.clear()
