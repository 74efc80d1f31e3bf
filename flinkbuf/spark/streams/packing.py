"""Rows on their way to key groups and back: many rows of Spark in one, as the bytes of an Arrow stream.

Spark's operator brings each row to Python by itself, which costs more than most functions do. So the rows of a task are
put together by key group before the shuffle, and what comes out of the operator is taken apart after it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql.types import Row

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

KEY_GROUPS = 128  # never changed: a checkpoint has its keys in so many groups
KEY_GROUP, TIME, ROWS = "key_group", "time", "rows"  # the columns in between
_MOST_ROWS = 1 << 17  # rows that wait for others of their groups
_MOST_BYTES = 64 << 20
_OUT_ROWS = 10_000  # rows of an Arrow batch given back; spark.sql.execution.arrow.maxRecordsPerBatch


@dataclass(frozen=True)
class Pack:
    """The body of a Spark task: batches with a first column of key groups become rows of one group each.

    Parameters
    ----------
    reaches_all : bool
        Whether each group gets a row, though it be empty: in event time each has to know each watermark.
    """

    reaches_all: bool

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield (key_group, rows), and an empty column of times between them if each group is reached."""
        waiting: list[pa.RecordBatch] = []
        reached: set[int] = set()
        rows = size = 0
        for batch in batches:
            if not batch.num_rows:
                continue
            waiting.append(batch)
            rows += batch.num_rows
            size += batch.nbytes
            if rows >= _MOST_ROWS or size >= _MOST_BYTES:
                yield self._packed(waiting, reached)
                waiting, rows, size = [], 0, 0
        if waiting:
            yield self._packed(waiting, reached)
        if self.reaches_all and len(reached) < KEY_GROUPS:
            missed = [group for group in range(KEY_GROUPS) if group not in reached]
            yield self._batch(missed, [None] * len(missed))

    def _packed(self, batches: list[pa.RecordBatch], reached: set[int]) -> pa.RecordBatch:
        table = pa.Table.from_batches(batches).combine_chunks()
        of_row = table.column(0).to_numpy()
        order = np.argsort(of_row, kind="stable")
        in_order = of_row[order]
        begins = np.flatnonzero(np.diff(in_order, prepend=-1))
        groups = in_order[begins].tolist()
        reached.update(groups)
        (batch,) = table.remove_column(0).take(order).combine_chunks().to_batches()
        ends = [*begins[1:].tolist(), len(order)]
        return self._batch(
            groups,
            [write_batch(batch.slice(begin, end - begin)) for begin, end in zip(begins.tolist(), ends, strict=True)],
        )

    def _batch(self, groups: list[int], rows: list[bytes | None]) -> pa.RecordBatch:
        columns = {KEY_GROUP: pa.array(groups, pa.int32())}
        if self.reaches_all:
            columns[TIME] = pa.nulls(len(groups), pa.timestamp("us", "UTC"))
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
        self._arrow = arrow_schema
        self._is_flat = not any(pa.types.is_nested(field.type) for field in arrow_schema)
        self._rows: list[Row] = []

    def add(self, rows: object, method: str) -> None:
        """Take what a method of the user gave."""
        if rows is None:
            return
        before = len(self._rows)
        try:
            self._rows.extend(rows)  # type: ignore[arg-type]
        except TypeError:
            if hasattr(rows, "__iter__"):
                raise  # from within
            raise TypeError(f"{method}() must give an iterator of rows, got {rows!r}") from None
        for place in range(before, len(self._rows)):
            if not isinstance(self._rows[place], Row):
                row = self._rows[place]
                raise TypeError(f"{method}() must give rows, such as Row({self._names[0]}=…), got {row!r}")

    @property
    def is_full(self) -> bool:
        """Whether there are enough rows for a batch."""
        return len(self._rows) >= _OUT_ROWS

    def take(self) -> Iterator[bytes]:
        """Yield what there is, in batches of bounded size."""
        rows, self._rows = self._rows, []
        for begin in range(0, len(rows), _OUT_ROWS):
            yield self._written(rows[begin : begin + _OUT_ROWS])

    def _written(self, rows: list[Row]) -> bytes:
        names = self._names
        if self._is_flat and all(getattr(row, "__fields__", None) == names for row in rows):
            columns = zip(*rows, strict=True)
            arrays = [pa.array(column, field.type) for column, field in zip(columns, self._arrow, strict=True)]
            return write_batch(pa.RecordBatch.from_arrays(arrays, schema=self._arrow))
        return write_batch(pa.RecordBatch.from_pylist([row.asDict(True) for row in rows], schema=self._arrow))
