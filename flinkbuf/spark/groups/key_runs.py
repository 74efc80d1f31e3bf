"""Arrow batches in which rows of equal keys stand one after the other, cut where the key changes.

A group is what lies between two changes, in as many batches as Spark has put its rows. It is an iterator over slices,
which share the memory of the batch: nobody holds more of a group than the batch that is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flinkbuf.streaming.chain.error_location import bounded_repr


class KeyRun(NamedTuple):
    """Rows of a batch that have one key, all that stand together there."""

    is_new: bool  # else the batch before ended with rows of the same key
    batch: pa.RecordBatch
    start: int
    end: int

    def rows(self) -> pa.RecordBatch:
        """Return them."""
        if self.end - self.start == self.batch.num_rows:
            return self.batch
        return self.batch.slice(self.start, self.end - self.start)


class GroupBatches(Iterator[pa.RecordBatch]):
    """The batches of one group; they can be read once, while its turn lasts.

    Attributes
    ----------
    key : tuple of pyarrow.Scalar
        Its values in the columns of the key.
    """

    def __init__(self, runs: KeyRuns, first: KeyRun) -> None:
        self.key: tuple[pa.Scalar, ...] = tuple(first.batch.column(place)[first.start] for place in runs.places)
        self._runs = runs
        self._first: KeyRun | None = first
        self._is_read = self._is_left = False

    def __next__(self) -> pa.RecordBatch:
        if self._is_read:
            raise StopIteration
        if self._is_left:
            raise RuntimeError(
                f"the batches of the group {self} can be read while its turn lasts, which is until the function's "
                "results for it have come to their end: read all that is needed of a group before that"
            )
        run, self._first = self._first or self._runs.advance(), None
        if run is None:
            self._is_read = True
            raise StopIteration
        return run.rows()

    def __str__(self) -> str:
        pairs = zip(self._runs.names, self.key, strict=True)
        return ", ".join(f"{name}={bounded_repr(value.as_py())}" for name, value in pairs)

    def leave(self) -> None:
        """End its turn."""
        self._is_left, self._first = True, None


class KeyRuns:
    """The groups in batches.

    Parameters
    ----------
    batches : iterable of pyarrow.RecordBatch
        Rows of equal keys stand one after the other in them.
    places : sequence of int
        The columns of the key.
    names : sequence of str
        What these are called.
    """

    def __init__(self, batches: Iterable[pa.RecordBatch], places: Sequence[int], names: Sequence[str]) -> None:
        self.places, self.names = places, names
        self.batch_count = 0  # that have been read
        self._runs = self._cut(batches)
        self._waiting: KeyRun | None = None  # the first one of the next group

    def groups(self) -> Iterator[GroupBatches]:
        """Yield each group; what of its batches has not been read is skipped when the next one is asked for."""
        self._waiting = next(self._runs, None)
        while self._waiting is not None:
            first, self._waiting = self._waiting, None
            group = GroupBatches(self, first)
            del first  # a group's first batch need not stay until its last one
            yield group
            group.leave()
            while self.advance() is not None:
                pass

    def advance(self) -> KeyRun | None:
        """Return the next run of the group whose turn it is; None at its end."""
        if self._waiting is not None:
            return None
        run = next(self._runs, None)
        if run is None or not run.is_new:
            return run
        self._waiting = run
        return None

    def _cut(self, batches: Iterable[pa.RecordBatch]) -> Iterator[KeyRun]:
        last: list[pa.Array] | None = None  # the key of the row before
        for batch in batches:
            self.batch_count += 1
            count = batch.num_rows
            if not count:
                continue
            keys = [batch.column(place) for place in self.places]
            is_new = last is None or _differ(last, [column.slice(0, 1) for column in keys])[0]
            differ = _differ([column.slice(0, count - 1) for column in keys], [column.slice(1) for column in keys])
            starts = [0, *(np.flatnonzero(differ) + 1).tolist()]
            for start, end in zip(starts, [*starts[1:], count], strict=True):
                yield KeyRun(is_new, batch, start, end)
                is_new = True
            # A row of its own: a slice would keep the whole batch.
            last = [column.take(pa.array([count - 1])) for column in keys]
            del batch, keys


def _differ(left: list[pa.Array], right: list[pa.Array]) -> np.ndarray:
    """Return for each row of two lists of columns whether the keys in it differ."""
    return np.logical_or.reduce([unequal(*pair) for pair in zip(left, right, strict=True)])


def unequal(left: pa.Array, right: pa.Array) -> np.ndarray:
    """Return for each place of two arrays of one type whether it has different keys, as Spark's ``groupBy`` sees it.

    A null is equal to a null, NaN to NaN, and 0.0 to -0.0; also inside of structs and arrays.

    Examples
    --------
    >>> unequal(pa.array([1.5, -0.0, None, float("nan")]), pa.array([1.0, 0.0, None, float("nan")])).tolist()
    [True, False, False, False]
    """
    kind = left.type
    if pa.types.is_null(kind):
        return np.zeros(len(left), bool)
    if pa.types.is_struct(kind):
        parts = [unequal(*pair) for pair in zip(left.flatten(), right.flatten(), strict=True)]
        found = np.logical_or.reduce(parts) if parts else np.zeros(len(left), bool)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        found = _unequal_lists(left, right)
    else:
        differ = pc.not_equal(left, right)
        if pa.types.is_floating(kind):
            differ = pc.and_not(differ, pc.and_(pc.is_nan(left), pc.is_nan(right)))
        found = _flags(pc.fill_null(differ, False))
    if not (left.null_count or right.null_count):
        return found
    nulls, other_nulls = _flags(left.is_null()), _flags(right.is_null())
    return np.where(nulls | other_nulls, nulls != other_nulls, found)


def _unequal_lists(left: pa.Array, right: pa.Array) -> np.ndarray:
    starts, other_starts = left.offsets.to_numpy(), right.offsets.to_numpy()
    sizes = np.diff(starts)
    found = sizes != np.diff(other_starts)
    is_looked_into = ~found & (sizes > 0)
    sizes = sizes[is_looked_into]
    if sizes.size:
        begins = np.cumsum(sizes) - sizes  # of each list among the items that are compared
        within = np.arange(sizes.sum()) - np.repeat(begins, sizes)
        items = [
            array.values.take(pa.array(np.repeat(each[:-1][is_looked_into], sizes) + within))
            for array, each in ((left, starts), (right, other_starts))
        ]
        found[is_looked_into] = np.logical_or.reduceat(unequal(*items), begins)
    return found


def _flags(array: pa.Array) -> np.ndarray:
    return array.to_numpy(zero_copy_only=False)
