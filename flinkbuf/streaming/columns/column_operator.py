"""What the operators of column streams have in common; and the stateless ones.

An element comes by reference from the operator before it, or as a page from another task.
Flink: AbstractStreamOperator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from typing import TYPE_CHECKING

from flinkbuf._core.columns.arrow_column import ArrowBatch
from flinkbuf._core.flow.batch_records import RecordsToBatch
from flinkbuf._core.operators.batch_operator import AsColumnsOperator, AsRecordsOperator
from flinkbuf._core.operators.stream_operator import StreamOperator
from flinkbuf._core.operators.timestamps_operator import TimestampsAndWatermarksOperator
from flinkbuf._core.value.type_codec import TypeCodec
from flinkbuf.records.arrow_batches import arrow_batches, arrow_schema, batch_builder, record_type
from flinkbuf.records.column_batch import ColumnBatch, PageReader, without_dictionaries
from flinkbuf.streaming.chain.functions import Function, has_lifecycle
from flinkbuf.streaming.chain.map_batches import milliseconds_in, record_batches
from flinkbuf.streaming.columns.column_functions import column_as
from flinkbuf.streaming.time.watermark_strategy import TimestampAssigner, WatermarkStrategy
from flinkbuf.types.type_information import RowTypeInfo, TypeInformation

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa


class ColumnOperator(StreamOperator):
    """An operator whose records are batches of columns; a subclass has `process_batch`."""

    def __init__(self) -> None:
        self._pages = PageReader()

    @property
    def rows_in(self) -> int:
        """Return how many rows came; for any thread, as its records are batches."""
        return self._pages.row_count

    def process_element(self, value: ColumnBatch | bytes, timestamp: int) -> None:
        """Take an element, or the page of one."""
        self.process_batch(self._pages.element_of(value))

    def process_batch(self, element: ColumnBatch) -> None:
        """Take the rows of one element."""
        raise NotImplementedError(f"{type(self).__name__}.process_batch")

    def emit(self, element: ColumnBatch) -> None:
        """Give rows to what reads this operator; none are no element."""
        if len(element):
            self.output.collect(element, element.latest)


class ColumnFunctionOperator(ColumnOperator):
    """Gives the elements that a function makes of each one.

    Parameters
    ----------
    function : callable
        Takes a ColumnBatch; gives any number of them.
    lifecycle : object, optional
        With open(runtime_context) and close().
    """

    def __init__(self, function: Callable[[ColumnBatch], Iterable[ColumnBatch]], lifecycle: object = None) -> None:
        super().__init__()
        self._function = function
        self._lifecycle = lifecycle if isinstance(lifecycle, Function) and has_lifecycle(lifecycle) else None

    def open(self) -> None:
        """Open the user's function."""
        if self._lifecycle is not None:
            self._lifecycle.open(self.context.runtime_context)

    def close(self) -> None:
        """Close the user's function."""
        if self._lifecycle is not None:
            self._lifecycle.close()

    def process_batch(self, element: ColumnBatch) -> None:
        """Call the function; what it raises is said to be its own."""
        results = iter(self._function(element))
        while True:
            try:
                result = next(results, None)
            except Exception:
                self.note_failure(element.batch)
                raise
            if result is None:
                return
            self.emit(result)


def as_columns_operator(
    description: object, declared: TypeInformation | None, max_rows: int, max_bytes: int, max_delay_ms: int
) -> AsColumnsOperator:
    """Return the operator that makes column batches of records, or of records that are batches.

    Parameters
    ----------
    description : TypeInformation, DDL, pyspark StructType or pyarrow schema
        Of the rows of the batches.
    declared : TypeInformation, optional
        Of the records; if it has fields of all these names, they are found by them.
    max_rows, max_bytes, max_delay_ms
        As for `DataStream.map_batches`.
    """
    import pyarrow as pa

    schema = arrow_schema(description)
    is_part = False
    if isinstance(declared, RowTypeInfo) and _are_others_of(schema.names, declared.field_names):
        is_part = True
        codec = declared.codec
        builder = batch_builder(codec, declared, max_rows, max_bytes, schema.names)
    else:
        codec = record_type(description).codec
        builder = batch_builder(codec, description, max_rows, max_bytes)
    gathered = RecordsToBatch(codec, builder)
    batch_classes = (ColumnBatch, pa.RecordBatch, pa.Table)
    return AsColumnsOperator(_Elements(schema, is_part), batch_classes, gathered, max_delay_ms)


def _are_others_of(names: Sequence[str], fields: Sequence[str]) -> bool:
    """Return whether these are some of the fields, or all in another order."""
    return list(names) != list(fields) and set(names) <= set(fields)


class _Elements:
    """Makes elements of what was gathered, and of batches that are records, which have more columns if it `picks`."""

    def __init__(self, schema: pa.Schema, picks: bool = False) -> None:
        import pyarrow as pa

        self._picks = picks
        self._schema = without_dictionaries(pa.RecordBatch.from_pylist([], schema)).schema

    def __call__(self, batch: object, timestamps: np.ndarray | int | None) -> Iterator[ColumnBatch]:
        """Give the elements of a batch; `timestamps`: of its rows, or the one that all have, or None."""
        import numpy as np

        if isinstance(batch, ColumnBatch):  # of a source whose rows have timestamps of their own
            timestamps, batch = batch.timestamps, batch.batch
        position = 0
        for each in record_batches(batch):
            if not each.num_rows:
                continue
            given = each if each.schema.equals(self._schema) else self._cast(without_dictionaries(each))
            if isinstance(timestamps, int):
                yield ColumnBatch(given, np.full(given.num_rows, timestamps))
            elif timestamps is None:
                yield ColumnBatch(given)
            else:
                yield ColumnBatch(given, timestamps[position : position + given.num_rows])
            position += given.num_rows

    def _cast(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        import pyarrow as pa

        wanted, found = self._schema.names, batch.schema.names
        if sorted(wanted) != sorted(name for name in found if name in wanted or not self._picks):
            raise ValueError(
                f"a batch with the columns {', '.join(found) or '(none)'} came where as_columns() was told of "
                f"{', '.join(wanted)}"
            )
        columns = [
            column_as(batch.column(field.name), field.type, field.name, f"is {field.type} to as_columns()")
            for field in self._schema
        ]
        return pa.record_batch(columns, schema=self._schema)


def as_records_operator(description: object) -> AsRecordsOperator:
    """Return the operator that makes records of column batches.

    Parameters
    ----------
    description : type, optional
        Of the records; None: what each batch's own schema says.
    """
    return AsRecordsOperator(_Rows(None if description is None else record_type(description).codec))


class _Rows:
    """Says how the rows of an element become records."""

    def __init__(self, codec: TypeCodec | None) -> None:
        self._codec = codec
        self._codecs: dict[pa.Schema, TypeCodec] = {}
        self._pages = PageReader()

    @property
    def rows_in(self) -> int:
        return self._pages.row_count

    def __call__(self, value: ColumnBatch | bytes) -> Iterator[tuple[ArrowBatch, np.ndarray | None, TypeCodec]]:
        element = self._pages.element_of(value)
        batch = without_dictionaries(element.batch)
        codec = self._codec
        if codec is None:
            codec = self._codecs.get(batch.schema)
        if codec is None:
            codec = self._codecs[batch.schema] = record_type(batch.schema).codec
        for each in arrow_batches(batch):
            yield each, element.timestamps, codec


class ColumnTimestampsOperator(TimestampsAndWatermarksOperator):
    """Gives rows the timestamps that a column holds, and the stream its watermarks, as if a batch were one record.

    Parameters
    ----------
    column : str
        Integers, milliseconds since 1970, or Arrow timestamps; a row where it is null has no timestamp.
    strategy : WatermarkStrategy
        Its timestamp assigner is not asked.
    """

    def __init__(self, column: str, strategy: WatermarkStrategy) -> None:
        super().__init__(copy(strategy).with_timestamp_assigner(_LatestTimestamp()))
        self._column = column
        self._pages = PageReader()

    @property
    def rows_in(self) -> int:
        """Return how many rows came."""
        return self._pages.row_count

    def process_element(self, value: ColumnBatch | bytes, timestamp: int) -> None:
        """Give the rows of an element, or of a page, their timestamps."""
        element = self._pages.element_of(value)
        batch = element.batch
        if batch.schema.get_field_index(self._column) < 0:
            raise KeyError(
                f"the batch has no column {self._column!r} with timestamps; there are "
                f"{', '.join(batch.schema.names) or 'none'}"
            )
        times = milliseconds_in(batch.column(self._column), self._column)
        super().process_element(ColumnBatch(batch, times), timestamp)


class _LatestTimestamp(TimestampAssigner):
    """By its latest row an element moves event time on."""

    def extract_timestamp(self, value: ColumnBatch, record_timestamp: int) -> int:
        return value.latest
