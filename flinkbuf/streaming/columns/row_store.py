"""Rows that are kept as they came, as columns, under numbers that rise; whoever lets them go says their numbers.

They lie in chunks. Small ones are put together as they come, so that each row is copied a few times and not once a
batch. One of which all is gone is dropped, which is how most of them end, as rows go in the order in which they came
more or less; only where half of all that there is has gone are those copied of which half is gone. A number stays what
it is while others go: a chunk with gaps knows the numbers of its rows. Owned by the operator, used by the task's
thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

CHUNK_ROWS: Final = 1 << 16
CHUNK_BYTES: Final = 64 << 20


@dataclass
class _Chunk:
    """Rows of numbers that rise: `start` and those that follow it, or as `numbers` has them."""

    batch: pa.RecordBatch
    start: int
    live: int
    numbers: np.ndarray | None = None  # None: without gaps
    dead: np.ndarray | None = None  # of each row, whether it is gone; None: no row is

    def places_of(self, numbers: np.ndarray) -> np.ndarray:
        """Return which rows have these numbers."""
        import numpy as np

        found: np.ndarray = numbers - self.start if self.numbers is None else np.searchsorted(self.numbers, numbers)
        return found

    def all_numbers(self) -> np.ndarray:
        """Return the numbers of the rows."""
        import numpy as np

        return np.arange(self.start, self.start + self.batch.num_rows) if self.numbers is None else self.numbers

    def live_rows(self) -> np.ndarray:
        """Return which rows are not gone."""
        import numpy as np

        return np.arange(self.batch.num_rows) if self.dead is None else np.flatnonzero(~self.dead)

    def shrink(self) -> None:
        """Let go of rows that are gone: all, or those in front and behind if hardly any lie between the others."""
        import numpy as np

        rows = self.live_rows()
        first, end = int(rows[0]), int(rows[-1]) + 1
        if self.numbers is None and end - first <= len(rows) + len(rows) // 4:
            self.batch = self.batch.take(np.arange(first, end))
            self.dead = None if self.dead is None else self.dead[first:end]
            self.start += first
        else:
            self.numbers = self.all_numbers()[rows]
            self.batch, self.dead = self.batch.take(rows), None
            self.start = int(self.numbers[0])

    def take_in(self, other: _Chunk) -> None:
        """Take the rows of the chunk behind this one."""
        import numpy as np

        count = self.batch.num_rows
        if self.numbers is not None or other.numbers is not None or self.start + count != other.start:
            self.numbers = np.concatenate([self.all_numbers(), other.all_numbers()])
        if self.dead is not None or other.dead is not None:
            dead = np.zeros(count + other.batch.num_rows, np.bool_)
            for start, each in ((0, self), (count, other)):
                if each.dead is not None:
                    dead[start : start + len(each.dead)] = each.dead
            self.dead = dead
        self.batch = one_batch([self.batch, other.batch])
        self.live += other.live


class RowStore:
    """Rows of one schema.

    Parameters
    ----------
    schema : pyarrow.Schema

    Attributes
    ----------
    next_number : int
        Of the row that comes next; the first has 0.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> rows = RowStore(pa.schema([("a", pa.int64())]))
    >>> rows.append(pa.record_batch({"a": [5, 6, 7]})), rows.append(pa.record_batch({"a": [8]}))
    (0, 3)
    >>> rows.release(np.array([1]))
    >>> rows.take(np.array([3, 0]))["a"].to_pylist()
    [8, 5]
    """

    def __init__(self, schema: pa.Schema) -> None:
        import numpy as np

        self.next_number = 0
        self._schema = schema
        self._chunks: list[_Chunk] = []
        self._starts = np.empty(0, np.int64)  # of the chunks
        self._live = 0
        self._stored = 0  # rows that are there, and those that are gone and lie there still

    def __len__(self) -> int:
        return self._live

    @property
    def nbytes(self) -> int:
        """Return the bytes of memory that the columns have."""
        return sum(chunk.batch.nbytes for chunk in self._chunks)

    def append(self, batch: pa.RecordBatch) -> int:
        """Keep rows of the schema; return the number of the first, behind which the others have theirs."""
        first = self.next_number
        if batch.num_rows:
            self._chunks.append(_Chunk(batch, first, batch.num_rows))
            self.next_number += batch.num_rows
            self._live += batch.num_rows
            while len(self._chunks) > 1 and self._go_together(len(self._chunks) - 2):
                self._chunks[-2].take_in(self._chunks.pop())
            self._note_chunks()
        return first

    def take(self, numbers: np.ndarray) -> pa.RecordBatch:
        """Return rows in the order of these numbers."""
        import numpy as np

        if not len(numbers):
            return self._empty()
        order, parts = self._by_chunk(numbers)
        batch = one_batch([chunk.batch.take(chunk.places_of(part)) for chunk, part in parts])
        if order is not None:
            place = np.empty(len(order), np.int64)
            place[order] = np.arange(len(order))
            batch = batch.take(place)
        return batch

    def release(self, numbers: np.ndarray) -> None:
        """Let rows go; each is named once, and is asked for no more."""
        import numpy as np

        if not len(numbers):
            return
        _, parts = self._by_chunk(numbers)
        self._live -= len(numbers)
        has_empty = False
        for chunk, part in parts:
            chunk.live -= len(part)
            if chunk.live:
                if chunk.dead is None:
                    chunk.dead = np.zeros(chunk.batch.num_rows, np.bool_)
                chunk.dead[chunk.places_of(part)] = True
            has_empty |= chunk.live == 0
        if has_empty:
            self._chunks = [chunk for chunk in self._chunks if chunk.live]
            self._note_chunks()
        if self._stored > 2 * self._live:
            self._shrink()

    def keep(self, numbers: np.ndarray) -> None:
        """Let all rows go but these."""
        import numpy as np

        there = [chunk.all_numbers()[chunk.live_rows()] for chunk in self._chunks]
        self.release(np.setdiff1d(np.concatenate([np.empty(0, np.int64), *there]), numbers, assume_unique=True))

    def live(self) -> Iterator[tuple[np.ndarray, pa.RecordBatch]]:
        """Yield all rows, in the order of their numbers: these, and the columns."""
        for chunk in self._chunks:
            numbers, batch = chunk.all_numbers(), chunk.batch
            if chunk.dead is not None:
                rows = chunk.live_rows()
                numbers, batch = numbers[rows], batch.take(rows)
            yield numbers, batch

    def all(self) -> pa.RecordBatch:
        """Return all rows as one batch, in the order of their numbers; they lie in one chunk then."""
        import numpy as np

        if not self._live:
            return self._empty()
        if len(self._chunks) > 1 or self._chunks[0].dead is not None:
            parts = list(self.live())
            numbers = np.concatenate([numbers for numbers, _ in parts])
            first, has_gaps = int(numbers[0]), int(numbers[-1]) - int(numbers[0]) >= len(numbers)
            whole = one_batch([batch for _, batch in parts])
            self._chunks = [_Chunk(whole, first, self._live, numbers if has_gaps else None)]
            self._note_chunks()
        return self._chunks[0].batch

    def _empty(self) -> pa.RecordBatch:
        import pyarrow as pa

        return pa.RecordBatch.from_pylist([], self._schema)

    def _by_chunk(self, numbers: np.ndarray) -> tuple[np.ndarray | None, list[tuple[_Chunk, np.ndarray]]]:
        """Return the chunks that have these numbers, each with its own, and the order in which they stand there."""
        import numpy as np

        if len(self._chunks) == 1:
            return None, [(self._chunks[0], numbers)]
        which = np.searchsorted(self._starts, numbers, side="right") - 1
        order = None
        if (which[1:] < which[:-1]).any():
            order = np.argsort(which.astype(np.uint16) if len(self._chunks) < 1 << 16 else which, kind="stable")
            which, numbers = which[order], numbers[order]
        begins = [0, *(np.flatnonzero(which[1:] != which[:-1]) + 1).tolist(), len(which)]
        return order, [(self._chunks[which[start]], numbers[start:end]) for start, end in pairwise(begins)]

    def _note_chunks(self) -> None:
        """Look up where the chunks begin, and how many rows lie there."""
        import numpy as np

        self._starts = np.array([chunk.start for chunk in self._chunks], np.int64)
        self._stored = sum(chunk.batch.num_rows for chunk in self._chunks)

    def _shrink(self) -> None:
        """Copy the chunks of which half is gone, and put together what has become small."""
        chunks = self._chunks
        for chunk in chunks:
            if chunk.batch.num_rows >= 2 * chunk.live:
                chunk.shrink()
        place = len(chunks) - 2
        while place >= 0:
            one, other = chunks[place], chunks[place + 1]
            if 2 * min(one.live, other.live) >= max(one.live, other.live) and self._go_together(place):
                one.take_in(chunks.pop(place + 1))
                place = min(place + 1, len(chunks) - 1)
            place -= 1
        self._note_chunks()

    def _go_together(self, place: int) -> bool:
        """Return whether a chunk and the next one are better one."""
        one, other = self._chunks[place], self._chunks[place + 1]
        if 2 * other.live < one.live or one.live + other.live > CHUNK_ROWS:
            return False
        return one.batch.nbytes + other.batch.nbytes <= CHUNK_BYTES


def one_batch(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return the rows of one batch or more as one."""
    import pyarrow as pa

    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
