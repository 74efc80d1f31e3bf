"""Rows under rising numbers: what an operator keeps of batches, to give some of it back later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

_MOST_BYTES = 1 << 29  # of a batch that others are put to: offsets of texts have 31 bits
_MIN_LOST = 4096  # rows that nobody wants any more: fewer are not worth a copy of the others
_PUT_TOGETHER = 8  # batches of about the same size become one


class KeptRows:
    """Rows of one schema: the first has number 0, and each is behind those that came before it.

    They are in batches. Eight of about the same size are put together, so a row is copied once for each time that there
    are eight times as many, and not with each batch; and there are few batches. Where they are many bytes there are
    more batches, none of which grows.

    Attributes
    ----------
    lost : int
        How many rows nobody wants any more, as their owner counts.

    Examples
    --------
    >>> import numpy as np, pyarrow as pa
    >>> rows = KeptRows(pa.schema([("a", pa.int64())]))
    >>> rows.add(pa.record_batch({"a": [5, 6, 7]})), rows.add(pa.record_batch({"a": [8]}))
    (0, 3)
    >>> rows.take(np.array([3, 0]))["a"].to_pylist()
    [8, 5]
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._batches: list[pa.RecordBatch] = []
        self._count = 0
        self.lost = 0

    def __len__(self) -> int:
        return self._count

    @property
    def nbytes(self) -> int:
        """Return the bytes of memory that the rows have."""
        return sum(batch.nbytes for batch in self._batches)

    @property
    def is_mostly_lost(self) -> bool:
        """Return whether it is time for `keep`."""
        return self.lost > max(_MIN_LOST, self._count // 2)

    def add(self, rows: pa.RecordBatch) -> int:
        """Keep rows behind those that there are. Returns the number of the first."""
        first = self._count
        if rows.num_rows:
            self._count += rows.num_rows
            self._batches.append(rows)
            while _go_together(self._batches[-_PUT_TOGETHER:]):
                self._batches[-_PUT_TOGETHER:] = [_one_batch(self._batches[-_PUT_TOGETHER:])]
        return first

    def all(self) -> pa.RecordBatch:
        """Return all rows, in the order of their numbers."""
        if len(self._batches) != 1:
            self._batches = [_one_batch(self._batches) if self._batches else self._empty()]
        return self._batches[0]

    def take(self, numbers: np.ndarray) -> pa.RecordBatch:
        """Return the rows with these numbers, in their order."""
        import numpy as np

        if len(self._batches) == 1:
            return self._batches[0].take(numbers)
        if not len(numbers) or (numbers[1:] >= numbers[:-1]).all():
            return self._take_rising(numbers)
        order = np.argsort(numbers, kind="stable")
        places = np.empty_like(order)
        places[order] = np.arange(len(order))
        return self._take_rising(numbers[order]).take(places)

    def keep(self, numbers: np.ndarray) -> None:
        """Forget all rows but these, whose numbers rise; they are numbered anew, from 0 on."""
        import numpy as np

        parts = 1 + sum(each.nbytes for each in self._batches) // _MOST_BYTES
        kept = [self.take(each) for each in np.array_split(numbers, parts)]
        self._batches, self._count, self.lost = [], 0, 0
        for rows in kept:
            self.add(rows)

    def _take_rising(self, numbers: np.ndarray) -> pa.RecordBatch:
        import numpy as np

        found, start = [], 0
        ends = np.cumsum([batch.num_rows for batch in self._batches])
        cuts = np.searchsorted(numbers, ends).tolist()
        for batch, end, first, cut in zip(self._batches, ends.tolist(), [0, *cuts], cuts, strict=False):
            if first < cut:
                found.append(batch.take(numbers[first:cut] - start))
            start = end
        return _one_batch(found) if found else self._empty()

    def _empty(self) -> Any:
        import pyarrow as pa

        return pa.RecordBatch.from_pylist([], self._schema)


def _go_together(batches: list[pa.RecordBatch]) -> bool:
    """Return whether there are enough batches, the first of which is not much larger than the last."""
    if len(batches) < _PUT_TOGETHER or batches[0].num_rows >= _PUT_TOGETHER * batches[-1].num_rows:
        return False
    return sum(each.nbytes for each in batches) <= _MOST_BYTES


def _one_batch(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    import pyarrow as pa

    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
