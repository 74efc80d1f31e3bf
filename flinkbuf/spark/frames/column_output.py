"""Batches of a column stream to Spark: the end of a column stream of which Spark makes a DataFrame.

A batch becomes messages of Arrow's IPC format, as those of records do, and Spark's own ``mapInArrow`` makes rows of
them: no row is an object of Python on its way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from flinkbuf.records.column_batch import ColumnBatch
from flinkbuf.spark.frames.arrow_output import MAX_ROWS, MESSAGES_WAITING
from flinkbuf.spark.frames.spark_sink import output_of
from flinkbuf.spark.frames.spark_task_io import OutputQueue
from flinkbuf.streaming.columns.column_functions import column_as
from flinkbuf.streaming.columns.column_operator import ColumnOperator

if TYPE_CHECKING:
    import pyarrow


class ColumnSinkOperator(ColumnOperator):
    """Hands each batch to Spark as messages.

    Parameters
    ----------
    schema : pyarrow.Schema
        Of the messages; columns are found by name and cast to it.
    required : tuple of str
        Columns in which nothing is null.
    """

    def __init__(self, schema: pyarrow.Schema, required: tuple[str, ...]) -> None:
        super().__init__()
        self._schema = schema
        self._required = required
        self._output: OutputQueue | None = None

    def open(self) -> None:
        """Find where Spark takes the batches of this task."""
        self._output = output_of(self.context)
        self._output.limit(MESSAGES_WAITING)

    def process_batch(self, element: ColumnBatch) -> None:
        """Hand the rows over, waiting while Spark is behind."""
        assert self._output is not None
        batch = self._as_declared(element.batch)
        for start in range(0, batch.num_rows, MAX_ROWS):
            message = batch.slice(start, MAX_ROWS).serialize().to_pybytes()
            self._output.put(message, self.context.mailbox.try_yield)

    def _as_declared(self, batch: pyarrow.RecordBatch) -> pyarrow.RecordBatch:
        import pyarrow as pa

        found, wanted = batch.schema.names, self._schema.names
        if sorted(found) != sorted(wanted):
            raise ValueError(
                f"to_data_frame() was given a batch with the columns {', '.join(found) or '(none)'}, where its schema "
                f"says {', '.join(wanted)}: columns are taken by their names, in any order"
            )
        columns = []
        for field in self._schema:
            said = f"is {field.type} to to_data_frame()"
            column = column_as(batch.column(field.name), field.type, field.name, said)
            columns.append(column)
            if field.name in self._required and column.null_count:
                raise ValueError(
                    f"a row has null in column {field.name!r}, which the schema of to_data_frame() declares not "
                    "nullable"
                )
        return pa.record_batch(columns, schema=self._schema)


@dataclass(frozen=True)
class ColumnSinkFactory:
    """What ``to_data_frame`` of a column stream puts into the graph."""

    schema: pyarrow.Schema
    required: tuple[str, ...]
    feeds_spark = True

    def __call__(self) -> ColumnSinkOperator:
        return ColumnSinkOperator(self.schema, self.required)
