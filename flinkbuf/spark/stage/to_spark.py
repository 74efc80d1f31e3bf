"""Streams that Spark takes: ``stream.to_rdd`` and ``stream.to_data_frame``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flinkbuf.datastream.arguments import with_names
from flinkbuf.datastream.data_stream import DataStream
from flinkbuf.runtime.graph.transformation import OperatorTransformation, SideOutputTransformation, Transformation
from flinkbuf.spark.frames.arrow_input import safe_arrow_schema
from flinkbuf.spark.frames.arrow_output import ArrowSinkFactory, Messages, arrow_output
from flinkbuf.spark.frames.column_output import ColumnSinkFactory
from flinkbuf.spark.frames.schema import to_ddl, to_struct_type
from flinkbuf.spark.frames.spark_sink import SINK_NAME, SparkSinkFactory
from flinkbuf.spark.stage.job import active_context
from flinkbuf.spark.stage.job_output import JobOutput
from flinkbuf.spark.workers import shipped
from flinkbuf.types.type_information import RowTypeInfo, TupleTypeInfo, TypeInformation
from flinkbuf.types.types import as_type

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import DataFrame


def to_rdd(stream: DataStream) -> RDD[object]:
    """Give Spark the records of a stream; see ``DataStream.to_rdd``."""
    return _taken(stream, SparkSinkFactory(with_names(stream._value_type)))


def _taken(stream: DataStream, factory: Callable[[], object]) -> RDD[object]:
    """Return what the sinks of that factory give Spark."""
    context = active_context()
    env = stream.get_execution_environment()
    noted = len(env._operators)
    sink = stream._sink(SINK_NAME, factory)
    sink.set_parallelism(_parallelism_of(stream))
    try:
        graph, settings, made_with = env._program_for_spark(None)
        output = JobOutput(context, graph, settings, **made_with)
    except BaseException:
        del env._operators[noted:]  # the program is as it was
        raise
    env._forget_program()
    return output.take_rdd()


def to_data_frame(stream: DataStream, schema: Any = None) -> DataFrame:
    """Give Spark the records of a stream as rows; see ``DataStream.to_data_frame``."""
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
    if schema is None:
        schema = _schema_of(stream)
    # Refuses a schema that is none before anything is made of the program.
    wanted = session.createDataFrame([], schema).schema
    known = with_names(stream._value_type)
    records = arrow_output(known, wanted, _is_single(known, schema))
    if records is None:
        return session.createDataFrame(to_rdd(stream), schema)
    messages = _taken(stream, ArrowSinkFactory(records)).map(_in_a_row)
    return session.createDataFrame(messages, "message binary").mapInArrow(shipped(Messages(records.result)), wanted)


def columns_to_data_frame(stream: DataStream, schema: Any) -> DataFrame | None:
    """Give Spark the rows of a column stream; None: it has columns that have to go as records."""
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
    wanted = session.createDataFrame([], schema).schema
    result = safe_arrow_schema(wanted)
    if result is None:
        return None
    required = tuple(field.name for field in wanted if not field.nullable)
    messages = _taken(stream, ColumnSinkFactory(result, required)).map(_in_a_row)
    return session.createDataFrame(messages, "message binary").mapInArrow(shipped(Messages(result)), wanted)


def _in_a_row(message: object) -> tuple[object]:
    return (message,)


def _is_single(known: TypeInformation | None, schema: object) -> bool:
    """Whether each record is the value of the only column, as ``createDataFrame`` understands the schema."""
    if known is not None:
        return not isinstance(known, (RowTypeInfo, TupleTypeInfo))
    return as_type(schema).kind != "ROW"


def _schema_of(stream: DataStream) -> object:
    """Return the columns that the stream's type says."""
    known = with_names(stream._value_type)
    if known is None:
        raise ValueError(
            f"the records of {stream.get_name()!r} are of no declared type, so their columns are not known: pass "
            "to_data_frame(schema), such as 'id bigint, name string', or give the operator before it an output type"
        )
    return to_struct_type(known) if isinstance(known, (RowTypeInfo, TupleTypeInfo)) else to_ddl(known)


def _parallelism_of(stream: DataStream) -> int:
    """As many subtasks as the operator has that gives the records: no record changes its subtask."""
    transformation: Transformation = stream._transformation
    while isinstance(transformation, SideOutputTransformation):
        transformation = transformation.inputs[0]
    known = transformation.parallelism if isinstance(transformation, OperatorTransformation) else None
    return int(known or stream.get_execution_environment().get_parallelism())
