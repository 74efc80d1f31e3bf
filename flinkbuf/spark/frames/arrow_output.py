"""Records of a stream to Spark as Arrow batches: the end of a stream of which Spark makes a DataFrame.

Records become columns in C, in the tasks of the job. Messages of Arrow's IPC format go to Spark, some thousand records
each, and become rows of the DataFrame in its own ``mapInArrow``: nothing is pickled row by row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flinkbuf._core.flow.batch_records import RecordsToBatch
from flinkbuf._core.operators.batch_operator import MapBatchesOperator
from flinkbuf.records.arrow_batches import batch_builder
from flinkbuf.spark.frames.arrow_input import fits, holds_instants, is_instant, safe_arrow_schema
from flinkbuf.spark.frames.local_times import from_local
from flinkbuf.spark.frames.spark_sink import output_of
from flinkbuf.spark.frames.spark_task_io import OutputQueue
from flinkbuf.types.type_information import RowTypeInfo, TupleTypeInfo, TypeInformation
from flinkbuf.types.types import Types

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql.types import DataType, StructType

MAX_ROWS = 10_000  # of a message; as spark.sql.execution.arrow.maxRecordsPerBatch
MAX_BYTES = 1 << 20
MAX_DELAY_MS = 200  # how long a record waits for others before Spark gets it
MESSAGES_WAITING = 8  # that Spark has not taken yet


@dataclass(frozen=True)
class ArrowRecords:
    """Makes messages of records.

    Attributes
    ----------
    type : TypeInformation
        Of the records.
    schema : pyarrow.Schema
        Of the columns that they become: times without a zone, where the records have such.
    result : pyarrow.Schema
        Of the messages: there they are instants, for Spark.
    required : tuple of str
        Columns in which nothing is null.
    """

    type: TypeInformation
    schema: pyarrow.Schema
    result: pyarrow.Schema
    required: tuple[str, ...]

    def gathered(self) -> RecordsToBatch:
        """Return what gathers records for a message."""
        codec = self.type.codec
        return RecordsToBatch(codec, batch_builder(codec, self.schema, MAX_ROWS, MAX_BYTES))

    def message_of(self, batch: pyarrow.RecordBatch) -> bytes:
        """Return the message of a batch.

        Raises
        ------
        ValueError
            If something is null in a column in which nothing may be.
        """
        for index, (given, wanted) in enumerate(zip(self.schema, self.result, strict=True)):
            if given.type != wanted.type:
                batch = batch.set_column(index, wanted, from_local(batch.column(index)))
        for name in self.required:
            column = batch.column(name)
            if column.null_count:
                row = column.is_null().index(True).as_py()
                raise ValueError(
                    f"a record has None in column {name!r}, which the schema of to_data_frame() declares not nullable: "
                    f"{batch.slice(row, 1).to_pylist()[0]!r:.200}"
                )
        return batch.serialize().to_pybytes()


class MessageSink:
    """What the operator calls with each batch, and opens: it hands messages to Spark."""

    def __init__(self, records: ArrowRecords) -> None:
        self._records = records
        self.operator: MapBatchesOperator | None = None  # that of the sink, which sets it
        self._output: OutputQueue | None = None

    def open(self, runtime_context: object) -> None:
        """Find where Spark takes the records of this task."""
        assert self.operator is not None
        self._output = output_of(self.operator.context)
        self._output.limit(MESSAGES_WAITING)

    def close(self) -> None:
        """Let the operator go."""
        self.operator = None

    def __call__(self, batch: pyarrow.RecordBatch, timestamps: object) -> tuple[()]:
        self._output.put(self._records.message_of(batch), self.operator.context.mailbox.try_yield)  # type: ignore[union-attr]
        return ()


@dataclass(frozen=True)
class ArrowSinkFactory:
    """What ``stream.to_data_frame`` puts into the graph."""

    records: ArrowRecords
    feeds_spark = True

    def __call__(self) -> MapBatchesOperator:
        sink = MessageSink(self.records)
        sink.operator = MapBatchesOperator(sink, self.records.gathered(), sink, MAX_DELAY_MS)
        return sink.operator


@dataclass(frozen=True)
class Messages:
    """The body of ``mapInArrow``: messages to the batches that they are."""

    schema: pyarrow.Schema

    def __call__(self, batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        """Yield a batch for each message."""
        import pyarrow as pa

        for batch in batches:
            for message in batch.column(0):
                yield pa.ipc.read_record_batch(message.as_buffer(), self.schema)


def arrow_output(known: TypeInformation | None, wanted: StructType, is_single: bool) -> ArrowRecords | None:
    """Return what makes messages of a stream's records; None: they have to go as objects.

    These are records of no declared type with timestamps, which may have a zone or none; decimals, which Spark rounds;
    and whatever `arrow_input` does not take either.

    Parameters
    ----------
    known : TypeInformation or None
        The records' declared type.
    wanted : StructType
        Of the DataFrame.
    is_single : bool
        Each record is the value of the only column.
    """
    result = safe_arrow_schema(wanted)
    if result is None or any(_needs_objects(field.dataType) for field in wanted):
        return None
    if any(holds_instants(field.type) and not is_instant(field.type) for field in result):
        return None
    record_type = known if is_single and known is not None else _positional(known, wanted, is_single)
    if record_type is None or (known is None and any(is_instant(field.type) for field in result)):
        return None
    types = [record_type] if is_single else list(record_type.field_types)  # type: ignore[attr-defined]
    if len(types) != len(result):
        return None
    schema = _as_shown(result, types)
    if not fits(record_type, schema):
        return None
    return ArrowRecords(record_type, schema, result, tuple(field.name for field in wanted if not field.nullable))


def _positional(known: TypeInformation | None, wanted: StructType, is_single: bool) -> TypeInformation | None:
    """The type of records whose fields are the columns in their order, whatever either calls them."""
    from flinkbuf.spark.frames.schema import from_spark_rows  # brings pyspark

    try:
        if known is None:
            return from_spark_rows(wanted.fields[0].dataType if is_single else wanted)
    except TypeError:
        return None
    return Types.ROW(list(known.field_types)) if isinstance(known, (RowTypeInfo, TupleTypeInfo)) else None


def _as_shown(result: pyarrow.Schema, types: list[TypeInformation]) -> pyarrow.Schema:
    """The columns that records become: instants are times without a zone where the records have these."""
    import pyarrow as pa

    fields = zip(result, types, strict=True)
    return pa.schema(
        [
            field.with_type(pa.timestamp("us")) if is_instant(field.type) and each == Types.LOCAL_DATE_TIME() else field
            for field, each in fields
        ]
    )


def _needs_objects(found: DataType) -> bool:
    """Whether a column holds decimals, or parts that may not be null."""
    from pyspark.sql.types import ArrayType, DecimalType, MapType, StructType

    if isinstance(found, DecimalType):
        return True
    if isinstance(found, ArrayType):
        return not found.containsNull or _needs_objects(found.elementType)
    if isinstance(found, MapType):
        parts = (found.keyType, found.valueType)
        return not found.valueContainsNull or any(_needs_objects(part) for part in parts)
    if isinstance(found, StructType):
        return any(not field.nullable or _needs_objects(field.dataType) for field in found)
    return False
