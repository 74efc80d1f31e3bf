"""The end of a stream whose records Spark takes: ``stream.to_rdd`` and ``stream.to_data_frame``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from queue import Empty
from typing import Any

from flinkbuf._core.operators.sink_operator import SinkFunctionOperator
from flinkbuf._core.value.conversion import convert
from flinkbuf.streaming.chain.operator_context import OperatorContext
from flinkbuf.streaming.sinks.collect import Collector
from flinkbuf.types.type_information import TypeInformation

OUTPUT = "spark_output"  # among the extras of an operator's context: an OutputQueue
SINK_NAME = "Spark Sink"


class OutputQueue(Collector):
    """Records between the task that makes them and Spark, which asks for one after the other.

    A task waits while Spark is behind. Where Spark wants no more of them, the job goes on without it.

    Examples
    --------
    >>> output = OutputQueue()
    >>> output.put(1); output.discard(); output.put(2); output.finish()
    >>> list(output)
    []
    """

    _is_discarding = False

    def put(self, record: Any, give_way: Callable[[], object] = bool) -> None:
        """Hand one record to Spark, waiting while it is behind; on a task's thread."""
        if not self._is_discarding:
            super().put(record, give_way)

    def limit(self, count: int) -> None:
        """Let so many wait at most; for records that are large."""
        self._capacity = count

    def close(self) -> None:
        """Do as `discard` does: a generator that is closed closes what it yields from, and its task must not fail."""
        self.discard()

    def discard(self) -> None:
        """Drop the records that are here, and those that come: the reader is gone."""
        self._is_discarding = True
        try:
            while True:  # who waits for room looks again
                self._queue.get_nowait()
        except Empty:
            with self._has_room:
                self._has_room.notify_all()


def output_of(context: OperatorContext) -> OutputQueue:
    """Return where Spark takes the records of a task.

    Raises
    ------
    RuntimeError
        If it takes none here.
    """
    output: OutputQueue | None = context.extras.get(OUTPUT)
    if output is None:
        raise RuntimeError(
            f"{context.operator_name!r} gives its records to Spark: its program is run by Spark, whenever it computes "
            "the result of to_rdd() or to_data_frame(), and not by execute()"
        )
    return output


class SparkSinkOperator(SinkFunctionOperator):
    """Hands each record to Spark, as its declared type gives it."""

    def __init__(self, type_info: TypeInformation | None) -> None:
        super().__init__(self._put)
        self._convert = None if type_info is None else functools.partial(convert, type_info.codec)
        self._output: OutputQueue | None = None

    def open(self) -> None:
        """Find where Spark takes the records of this task."""
        super().open()
        self._output = output_of(self.context)

    def _put(self, value: Any) -> None:
        record = value if self._convert is None else self._convert(value)
        self._output.put(record, self.context.mailbox.try_yield)  # type: ignore[union-attr]


class SparkSinkFactory:
    """What ``stream.to_rdd`` puts into the graph."""

    feeds_spark = True

    def __init__(self, type_info: TypeInformation | None) -> None:
        self.type_info = type_info

    def __call__(self) -> SparkSinkOperator:
        """Make the operator of one subtask."""
        return SparkSinkOperator(self.type_info)
