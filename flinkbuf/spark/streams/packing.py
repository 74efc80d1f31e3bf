"""Rows on their way to key groups and back: many rows of Spark in one, as the bytes of an Arrow stream.

Spark's operator brings each row to Python by itself, which costs more than most functions do. So the rows of a task are
put together by key group before the shuffle, and what comes out of the operator is taken apart after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql.types import Row

from flinkbuf.spark.async_map.arrow_values import null_part

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

KEY_GROUP, TIME, ROWS = "key_group", "time", "rows"  # the columns in between
# How many partitions the state of a query has, as Spark's checkpoint says, which goes before the session's setting.
_PARTITIONS = ("spark.sql.streaming.internal.stateStore.partitions", "spark.sql.shuffle.partitions")
_SPARKS_PARTITIONS = 200  # where neither is set
_MOST_ROWS = 1 << 17  # rows that wait for others of their groups
_MOST_BYTES = 64 << 20
_OUT_ROWS = 10_000  # rows of an Arrow batch given back; spark.sql.execution.arrow.maxRecordsPerBatch


def group_count(given: int | None) -> int:
    """Return how many key groups the query has whose task runs here: so many as are given, or as it has partitions."""
    if given is not None:
        return given
    from pyspark import TaskContext

    task = TaskContext.get()
    found = (task.getLocalProperty(name) for name in _PARTITIONS) if task is not None else ()
    return int(next(filter(None, found), _SPARKS_PARTITIONS))


@cache
def group_numbers(count: int) -> np.ndarray:
    """Return what stands for each key group: the least number that Spark sends to the partition of that place.

    Spark partitions by the hash of a group's number, and so each of as many partitions has a group.

    Examples
    --------
    >>> group_numbers(3).tolist()
    [0, 1, 11]
    """
    numbers = np.full(count, -1, np.int32)
    begin, size = 0, 64 + 16 * count
    while (missing := numbers < 0).any():
        tried = np.arange(begin, begin + size, dtype=np.int32)
        places, firsts = np.unique(_hash_of_spark(tried).astype(np.int64) % count, return_index=True)
        is_new = missing[places]
        numbers[places[is_new]] = tried[firsts[is_new]]
        begin += size
    numbers.flags.writeable = False
    return numbers


def _hash_of_spark(numbers: np.ndarray) -> np.ndarray:
    """Return Spark's ``hash`` of ints, by which it partitions: MurmurHash3 with its seed."""

    def rotated(bits: np.ndarray, by: int) -> np.ndarray:
        return bits << np.uint32(by) | bits >> np.uint32(32 - by)

    mixed = rotated(numbers.astype(np.uint32) * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    bits = rotated(mixed ^ np.uint32(42), 13) * np.uint32(5) + np.uint32(0xE6546B64)
    bits ^= np.uint32(4)  # bytes of an int
    bits = (bits ^ bits >> np.uint32(16)) * np.uint32(0x85EBCA6B)
    bits = (bits ^ bits >> np.uint32(13)) * np.uint32(0xC2B2AE35)
    return (bits ^ bits >> np.uint32(16)).view(np.int32)


@dataclass(frozen=True)
class Pack:
    """The body of a Spark task: batches with a first column of keys' hashes become rows of one key group each.

    Parameters
    ----------
    key_groups : int or None
        How many there are; None for as many as the query has partitions.
    reaches_all : bool
        Whether each group gets a row, though it be empty: in event time each has to know each watermark. The group of
        the number 0 always does, since it tells a checkpoint that has its keys in another number of groups.
    """

    key_groups: int | None
    reaches_all: bool

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield (key_group, rows), and an empty column of times between them if each group is reached."""
        numbers = group_numbers(group_count(self.key_groups))
        waiting: list[pa.RecordBatch] = []
        missed = set(range(len(numbers)) if self.reaches_all else np.flatnonzero(numbers == 0).tolist())
        rows = size = 0
        for batch in batches:
            if not batch.num_rows:
                continue
            waiting.append(batch)
            rows += batch.num_rows
            size += batch.nbytes
            if rows >= _MOST_ROWS or size >= _MOST_BYTES:
                yield self._packed(waiting, numbers, missed)
                waiting, rows, size = [], 0, 0
        if waiting:
            yield self._packed(waiting, numbers, missed)
        if missed:
            yield self._batch(numbers[sorted(missed)], [None] * len(missed))

    def _packed(self, batches: list[pa.RecordBatch], numbers: np.ndarray, missed: set[int]) -> pa.RecordBatch:
        table = pa.Table.from_batches(batches).combine_chunks()
        of_row = table.column(0).to_numpy() % len(numbers)
        if len(numbers) <= 1 << 16:
            of_row = of_row.astype(np.uint16)  # which numpy sorts in linear time
        order = np.argsort(of_row, kind="stable")
        counts = np.bincount(of_row, minlength=len(numbers))
        groups = np.flatnonzero(counts)
        missed.difference_update(groups.tolist())
        ends = np.cumsum(counts)[groups].tolist()
        (batch,) = table.remove_column(0).take(order).combine_chunks().to_batches()
        return self._batch(
            numbers[groups],
            [write_batch(batch.slice(begin, end - begin)) for begin, end in zip([0, *ends], ends, strict=False)],
        )

    def _batch(self, numbers: np.ndarray, rows: list[bytes | None]) -> pa.RecordBatch:
        columns = {KEY_GROUP: pa.array(numbers, pa.int32())}
        if self.reaches_all:
            columns[TIME] = pa.nulls(len(numbers), pa.timestamp("us", "UTC"))
        columns[ROWS] = pa.array(rows, pa.binary())
        return pa.RecordBatch.from_pydict(columns)


def unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the batches that the operator gave: the body of a Spark task."""
    for batch in batches:
        for rows in batch.column(0):
            yield from read_batches(rows.as_buffer())


def write_batch(batch: pa.RecordBatch) -> bytes:
    """Return the bytes of an Arrow stream with one batch."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def read_batches(data: pa.Buffer | bytes) -> list[pa.RecordBatch]:
    """Return the batches of an Arrow stream."""
    with pa.ipc.open_stream(data) as reader:
        return list(reader)


class RowsOut:
    """Rows that a processor gave, until they are a batch.

    Parameters
    ----------
    schema : StructType
        The columns of the output.
    arrow_schema : pyarrow.Schema
        The same, as Spark takes it.
    """

    def __init__(self, schema: StructType, arrow_schema: pa.Schema) -> None:
        self._names = schema.names
        self._fields = schema.fields
        self._arrow = arrow_schema
        self._is_flat = not any(pa.types.is_nested(field.type) for field in arrow_schema)
        self._rows: list[Row] = []

    def add(self, rows: object, method: str) -> None:
        """Take what a method of the user gave."""
        if rows is None:
            return
        try:
            self._rows.extend(rows)  # type: ignore[arg-type]
        except TypeError:
            if hasattr(rows, "__iter__"):
                raise  # from within
            raise TypeError(f"{method}() must give an iterator of rows, got {rows!r}") from None

    @property
    def is_full(self) -> bool:
        """Whether there are enough rows for a batch."""
        return len(self._rows) >= _OUT_ROWS

    def take(self) -> Iterator[bytes]:
        """Yield what there is, in batches of bounded size."""
        rows, self._rows = self._rows, []
        for kind in set(map(type, rows)):
            if not issubclass(kind, Row):
                row = next(each for each in rows if type(each) is kind)
                raise TypeError(f"a processor must give rows, such as Row({self._names[0]}=…), got {row!r}")
        for begin in range(0, len(rows), _OUT_ROWS):
            batch = self._batch(rows[begin : begin + _OUT_ROWS])
            self._check_nulls(batch)
            yield write_batch(batch)

    def _batch(self, rows: list[Row]) -> pa.RecordBatch:
        if self._is_flat and self._have_its_names(rows):
            columns = zip(*rows, strict=True)
            arrays = [pa.array(column, field.type) for column, field in zip(columns, self._arrow, strict=True)]
            return pa.RecordBatch.from_arrays(arrays, schema=self._arrow)
        return pa.RecordBatch.from_pylist([row.asDict(True) for row in rows], schema=self._arrow)

    def _check_nulls(self, batch: pa.RecordBatch) -> None:
        """Refuse a null where none may be, since Spark would read whatever lies there."""
        for column, field in zip(batch.columns, self._fields, strict=True):
            missing = null_part(column, field)
            if missing is not None:
                raise ValueError(
                    f"the processor gave a null in {missing}, which is declared NOT NULL in the schema of the output: "
                    "declare it without NOT NULL, or give a value"
                )

    def _have_its_names(self, rows: list[Row]) -> bool:
        """Whether each row has the output's fields in their order."""
        try:
            names = list(map(attrgetter("__fields__"), rows))
        except AttributeError:  # Row("a") has no names
            return False
        return names.count(self._names) + names.count(tuple(self._names)) == len(rows)
