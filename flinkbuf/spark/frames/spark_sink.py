"""The end of a stream whose records Spark takes: ``stream.to_rdd`` and ``stream.to_data_frame``."""

from __future__ import annotations

import functools

from flinkbuf._core.operators.sink_operator import SinkFunctionOperator
from flinkbuf._core.value.conversion import convert
from flinkbuf._core.value.own_value import copied
from flinkbuf.spark.frames.spark_task_io import OutputQueue, SparkTaskIo
from flinkbuf.streaming.chain.operator_context import OperatorContext
from flinkbuf.types.type_information import TypeInformation

SINK_NAME = "Spark Sink"


def output_of(context: OperatorContext) -> OutputQueue:
    """Return where Spark takes the records of a task.

    Raises
    ------
    RuntimeError
        If it takes none here.
    """
    io = context.target_io
    if not isinstance(io, SparkTaskIo) or io.output is None:
        raise RuntimeError(
            f"{context.operator_name!r} gives its records to Spark: its program is run by Spark, whenever it computes "
            "the result of to_rdd() or to_data_frame(), and not by execute()"
        )
    return io.output


class SparkSinkOperator(SinkFunctionOperator):
    """Hands each record to Spark, as its declared type gives it; no function of the job holds the same object."""

    def __init__(self, type_info: TypeInformation | None) -> None:
        super().__init__(self._put)
        self._convert = copied if type_info is None else functools.partial(convert, type_info.codec)
        self._output: OutputQueue | None = None

    def open(self) -> None:
        """Find where Spark takes the records of this task."""
        super().open()
        self._output = output_of(self.context)

    def _put(self, value: object) -> None:
        self._output.put(self._convert(value), self.context.mailbox.try_yield)  # type: ignore[union-attr]


class SparkSinkFactory:
    """What ``stream.to_rdd`` puts into the graph."""

    feeds_spark = True

    def __init__(self, type_info: TypeInformation | None) -> None:
        self.type_info = type_info

    def __call__(self) -> SparkSinkOperator:
        """Make the operator of one subtask."""
        return SparkSinkOperator(self.type_info)
