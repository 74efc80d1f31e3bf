"""Streams of what Spark has: ``env.from_rdd`` and ``env.from_data_frame``."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from flinkbuf._core.conversion import convert
from flinkbuf._core.source_operator import IteratorSourceOperator
from flinkbuf.common import options
from flinkbuf.datastream.arguments import declared
from flinkbuf.datastream.data_stream import DataStream
from flinkbuf.streaming.iterator_source import CollectionSourceOperator
from flinkbuf.streaming.operator_context import OperatorContext
from flinkbuf.types.type_information import TypeInformation

if TYPE_CHECKING:
    from pyspark import RDD

INPUT = "spark_input"  # among the extras of an operator's context: a SlotInput
RDD_SOURCE_NAME, DATA_FRAME_SOURCE_NAME = "RDD Source", "DataFrame Source"

_numbers = itertools.count(1)  # only tells the sources of one program apart


class SparkSourceOperator(CollectionSourceOperator):
    """Emits what Spark gives its subtask, record by record, as Spark makes them."""

    def __init__(self, number: int, type_info: TypeInformation | None) -> None:
        IteratorSourceOperator.__init__(self, functools.partial(_records_for, number, type_info))
        self._markers = None


def _records_for(number: int, type_info: TypeInformation | None, context: OperatorContext) -> Iterable[Any]:
    given = context.extras.get(INPUT)
    if given is None:
        raise RuntimeError(
            f"{context.operator_name!r} reads from Spark, so its program runs on Spark only: leave the configuration's "
            "execution.target unset, or set it to 'spark'"
        )
    records: Iterable[Any] = given.records_of(number)
    return records if type_info is None else map(functools.partial(convert, type_info.codec), records)


class SparkSourceFactory:
    """What ``env.from_rdd`` puts into the graph. The RDD stays with the program: no copy of this has it.

    Attributes
    ----------
    data : RDD or None
        None in the processes of task managers, which get its records from Spark.
    number : int
        Tells the sources of a program apart.
    """

    reads_spark = True

    def __init__(self, data: RDD[Any], type_info: TypeInformation | None) -> None:
        self.data: RDD[Any] | None = data
        self.type_info = type_info
        self.number = next(_numbers)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "data": None}

    def __call__(self) -> SparkSourceOperator:
        """Make the operator of one subtask."""
        return SparkSourceOperator(self.number, self.type_info)


def from_rdd(env: Any, data: Any, type_info: Any = None) -> DataStream:
    """Make a stream of an RDD's records; see ``StreamExecutionEnvironment.from_rdd``."""
    return _stream_of(env, _checked_rdd(data), declared(type_info), RDD_SOURCE_NAME)


def from_data_frame(env: Any, data: Any) -> DataStream:
    """Make a stream of a DataFrame's rows; see ``StreamExecutionEnvironment.from_data_frame``."""
    from flinkbuf.spark.schema import from_spark_rows  # brings pyspark

    _check_is_data_frame(data)
    return _stream_of(env, data.rdd, from_spark_rows(data.schema), DATA_FRAME_SOURCE_NAME)


def _stream_of(env: Any, data: RDD[Any], type_info: TypeInformation | None, name: str) -> DataStream:
    stream: DataStream = env._source(name, type_info, SparkSourceFactory(data, type_info), is_parallel=True)
    return stream.set_parallelism(max(1, min(data.getNumPartitions(), _most_subtasks(env, data))))


def _most_subtasks(env: Any, data: RDD[Any]) -> int:
    """As many as the program says; where it says nothing, as many as Spark has cores."""
    is_said = env._configuration.contains_key(options.PARALLELISM.key)
    return int(env.get_parallelism() if is_said else data.context.defaultParallelism)


def _checked_rdd(data: Any) -> RDD[Any]:
    from pyspark import RDD

    if isinstance(data, RDD):
        return data
    advice = "; a DataFrame goes to from_data_frame" if hasattr(data, "schema") else ""
    raise TypeError(f"from_rdd takes an RDD, got {type(data).__module__}.{type(data).__qualname__}{advice}")


def _check_is_data_frame(data: Any) -> None:
    module = type(data).__module__
    if module.startswith("pyspark.sql.connect"):
        raise TypeError(
            "from_data_frame takes the DataFrame of a program that runs in Spark's driver; this one is of a Spark "
            "Connect client, which the tasks of a job cannot reach: run the program with spark-submit, or write the "
            "DataFrame to files and read these with from_source(FileSource...)"
        )
    if not (module.startswith("pyspark.sql") and hasattr(data, "rdd") and hasattr(data, "schema")):
        advice = "; an RDD goes to from_rdd" if hasattr(data, "mapPartitions") else ""
        raise TypeError(f"from_data_frame takes a DataFrame of pyspark, got {module}.{type(data).__qualname__}{advice}")
