"""The rows of a DataFrame as Arrow batches that Spark's JVM makes, and as records of a stream.

The JVM writes batches of columns as messages of Arrow's IPC format, and Python's workers get them as they are: no row
is pickled, none is a Python object before the stream's source decodes it, in C. Classic Spark alone has the method.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flinkbuf._core.columns.arrow_column import ArrowPlan
from flinkbuf.records import spark_arrow
from flinkbuf.records.arrow_batches import records_of
from flinkbuf.spark.frames.local_times import to_local
from flinkbuf.types.type_information import TypeInformation

if TYPE_CHECKING:
    import pyarrow
    from py4j.java_gateway import JavaObject
    from pyspark import RDD
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


@dataclass(frozen=True)
class ArrowRows:
    """Decodes the messages of one DataFrame.

    Attributes
    ----------
    schema : pyarrow.Schema
        Of the messages, which do not say it themselves.
    type : TypeInformation
        Of the records.
    """

    schema: pyarrow.Schema
    type: TypeInformation

    def __call__(self, messages: Iterable[bytes]) -> Iterator[object]:
        """Return the rows of all messages."""
        return records_of(self.batches(messages), self.type.codec)

    def batches(self, messages: Iterable[bytes]) -> Iterator[pyarrow.RecordBatch]:
        """Return the batches in messages, their instants as times of this process."""
        import pyarrow as pa

        times = [index for index, field in enumerate(self.schema) if is_instant(field.type)]
        for message in messages:
            batch = pa.ipc.read_record_batch(pa.py_buffer(message), self.schema)
            for index in times:
                batch = batch.set_column(index, self.schema.names[index], to_local(batch.column(index)))
            yield batch


@dataclass(frozen=True)
class ArrowBatches:
    """Decodes the messages of one DataFrame as batches, which are the records of a stream that becomes columns.

    Attributes
    ----------
    schema : pyarrow.Schema
        Of the messages, and of the batches: instants stay instants.
    """

    schema: pyarrow.Schema

    def __call__(self, messages: Iterable[bytes]) -> Iterator[object]:
        """Yield a batch for each message."""
        import pyarrow as pa

        for message in messages:
            yield pa.ipc.read_record_batch(pa.py_buffer(message), self.schema)


def arrow_input(data: DataFrame, record_type: TypeInformation) -> tuple[RDD[bytes], ArrowRows] | None:
    """Return the messages of a DataFrame and what reads them; None: it has columns that have to come as rows.

    See `arrow_reader`.
    """
    read = arrow_reader(data, record_type)
    return None if read is None else (_messages(data), read)


def arrow_reader(data: DataFrame, record_type: TypeInformation) -> ArrowRows | None:
    """Return what reads the batches of a DataFrame; None: it has columns that cannot come so.

    These are columns of one name, intervals, user-defined types and whatever else Arrow or the type has no place for,
    and instants inside of lists, maps and structs.
    """
    has_large_types = data.sparkSession.conf.get("spark.sql.execution.arrow.useLargeVarTypes", "false")
    schema = safe_arrow_schema(data.schema, str(has_large_types) == "true")
    if schema is None:
        return None
    import pyarrow as pa  # which is there if a schema is

    shown = [field.with_type(pa.timestamp("us")) if is_instant(field.type) else field for field in schema]
    if any(holds_instants(field.type) for field in shown) or not fits(record_type, shown):
        return None
    return ArrowRows(schema, record_type)


def safe_arrow_schema(schema: StructType, has_large_types: bool = False) -> pyarrow.Schema | None:
    """Return the schema of the batches that the JVM makes of these columns; None: it makes none, or not safely."""
    try:
        import pyarrow  # noqa: F401

        is_unknown = has_large_types and not spark_arrow.knows_large_types()
    except ImportError:  # there is no pyarrow
        return None
    if is_unknown or len(set(schema.names)) < len(schema.names):
        return None
    try:
        return spark_arrow.arrow_schema_of(schema, prefers_large_types=has_large_types)
    except Exception:  # of any kind, as PySpark has many: rows say better what is wrong, or take it
        return None


def fits(record_type: TypeInformation, fields: Iterable[object]) -> bool:
    """Whether columns of Arrow can be read as, or be made of, records of a type."""
    import pyarrow as pa

    try:
        ArrowPlan(record_type.codec, pa.schema(fields).__arrow_c_schema__())
    except TypeError:
        return False
    return True


def _messages(data: DataFrame) -> RDD[bytes]:
    from pyspark import RDD
    from pyspark.serializers import NoOpSerializer

    frame: JavaObject = data._jdf
    messages = frame.toArrowBatchRdd(frame.queryExecution().executedPlan())
    return RDD(messages.toJavaRDD(), data.sparkSession.sparkContext, NoOpSerializer())


def is_instant(found: pyarrow.DataType) -> bool:
    """Whether an Arrow type is that of instants."""
    import pyarrow as pa

    return pa.types.is_timestamp(found) and found.tz is not None


def holds_instants(found: pyarrow.DataType) -> bool:
    """Whether an Arrow type is that of instants, or has it inside."""
    return is_instant(found) or any(holds_instants(found.field(i).type) for i in range(found.num_fields))
