"""Streams, and what can be done with them. Flink: DataStream, KeyedStream; PyFlink: datastream/data_stream.py.

Nothing runs here: each method adds to the program of the environment, which runs when it is executed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import timedelta
from difflib import get_close_matches
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar, overload

from flinkbuf.datastream.arguments import (
    check_function,
    check_gives_values,
    check_is_object,
    checked_max_parallelism,
    checked_uid_hash,
    declared,
    declared_rows,
    group_name,
    of_spark,
    said,
    set_parallelism,
    with_names,
)
from flinkbuf.datastream.connected_streams import BroadcastConnectedStream, BroadcastStream, ConnectedStreams
from flinkbuf.datastream.data_stream_sink import CloseableIterator, DataStreamSink, GloballyCommittedSink
from flinkbuf.datastream.joined_streams import CoGroupedStreams, IntervalJoin, JoinedStreams
from flinkbuf.datastream.program.operator_factories import (
    FunctionFactory,
    KeyedProcessFactory,
    MadeBy,
    MapBatchesFactory,
    OperatorFactory,
    ProcessFactory,
    SideOutputFactory,
    TimestampsFactory,
)
from flinkbuf.datastream.slot_sharing_group import SlotSharingGroup
from flinkbuf.datastream.windowed_stream import AllWindowedStream, WindowedStream
from flinkbuf.runtime.graph.transformation import (
    UNNAMED_SINK,
    BatchSource,
    ChainingStrategy,
    CommittedBehind,
    CustomExchange,
    KeyedExchange,
    OperatorTransformation,
    PartitionTransformation,
    SideOutputTransformation,
    Transformation,
    UnionTransformation,
)
from flinkbuf.streaming.chain.aggregations import (
    COMBINED_KEY,
    CombiningOperatorFactory,
    ReduceOperatorFactory,
    field_reduce,
)
from flinkbuf.streaming.chain.functions import (
    FilterFunction,
    FlatMapFunction,
    Function,
    KeySelector,
    MapBatchFunction,
    MapFunction,
    Partitioner,
    ReduceFunction,
    as_selector,
)
from flinkbuf.streaming.chain.output_tag import OutputTag
from flinkbuf.streaming.chain.process_functions import KeyedProcessFunction, ProcessFunction
from flinkbuf.streaming.sinks.sink import Sink, SupportsPreprocessing
from flinkbuf.streaming.sinks.sink_factories import (
    PRINT_SINK_NAME,
    CollectSinkFactory,
    CommitterFactory,
    GlobalCommitterFactory,
    PrintSinkFactory,
    SinkWriterFactory,
    sink_factory_of,
)
from flinkbuf.streaming.state.state import MapStateDescriptor
from flinkbuf.streaming.time.watermark_strategy import WatermarkStrategy
from flinkbuf.streaming.windows.assigner import WindowAssigner
from flinkbuf.streaming.windows.count_windows import CountSlidingWindowAssigner, CountTumblingWindowAssigner
from flinkbuf.types.duration import Duration, Time, milliseconds_of
from flinkbuf.types.type_information import TupleTypeInfo, TypeInformation
from flinkbuf.types.types import Types

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark import RDD
    from pyspark.sql import DataFrame

    from flinkbuf.common.execution_config import ExecutionConfig
    from flinkbuf.datastream.columns import ColumnStream
    from flinkbuf.datastream.stream_execution_environment import StreamExecutionEnvironment

__all__ = [
    "AllWindowedStream",
    "BroadcastConnectedStream",
    "BroadcastStream",
    "CachedDataStream",
    "CloseableIterator",
    "CoGroupedStreams",
    "ConnectedStreams",
    "DataStream",
    "DataStreamSink",
    "JoinedStreams",
    "KeyedStream",
    "WindowedStream",
]


T = TypeVar("T", covariant=True)  # of the records of a stream
K = TypeVar("K", covariant=True)  # of their keys
R = TypeVar("R")  # of what a function makes of a record
W = TypeVar("W")  # of windows

_NO_RECORDS = (
    "a DataStream is a step of a program and holds no records: execute_and_collect() runs the program and gives them"
)
# What Spark, pandas and older versions of Flink call things.
_ELSEWHERE = {
    "collect": "execute_and_collect()",
    "take": "execute_and_collect(limit=...)",
    "limit": "execute_and_collect(limit=...)",
    "show": "print() and env.execute()",
    "foreach": "add_sink(function)",
    "groupBy": "key_by(function)",
    "group_by": "key_by(function)",
    "groupby": "key_by(function)",
    "where": "filter(function)",
    "select": "map(function)",
    "apply": "map(function)",
    "flatMap": "flat_map(function)",
    "keyBy": "key_by(function)",
    "write_as_text": "sink_to(FileSink.for_row_format(...).build())",
    "time_window": "key_by(...).window(...)",
}
DEFAULT_BATCH_DELAY = Duration.of_millis(100)


class DataStream(Generic[T]):
    """A stream of records; each method gives a new one. Made by an environment's sources. Flink's ``DataStream``.

    Wherever a type is asked for, None leaves it open, which is usual in Python: any objects go through. A declared
    type checks and converts each record where it is declared.

    Examples
    --------
    >>> from flinkbuf.datastream import StreamExecutionEnvironment
    >>> env = StreamExecutionEnvironment.get_execution_environment()
    >>> lengths = env.from_collection(["to", "be"]).map(len, output_type="int")
    >>> lengths.get_name(), lengths.get_type()
    ('Map', Types.INT())
    """

    _key_type: TypeInformation | None = None  # of a keyed stream, where it was declared

    def __init__(self, env: StreamExecutionEnvironment, transformation: Transformation) -> None:
        self._env = env
        self._transformation = transformation

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._transformation.name!r} of {self.get_type()!r}>"

    if not TYPE_CHECKING:  # which would take any name for one that is there

        def __getattr__(self, name: str) -> object:
            """Say of what only keyed streams have that `key_by` comes first, and which name was meant."""
            advice = ""
            if not name.startswith("_"):
                known = [each for each in dir(type(self)) if not each.startswith("_")]
                near = get_close_matches(name, known, 1, 0.8)
                if name in _ELSEWHERE:
                    advice = f": here it is {_ELSEWHERE[name]}"
                elif hasattr(KeyedStream, name):
                    advice = ": call key_by(...) first"
                elif near:
                    advice = f". Did you mean: {near[0]!r}?"
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{advice}")

        def __iter__(self) -> NoReturn:
            raise TypeError(_NO_RECORDS)

        def __len__(self) -> NoReturn:
            raise TypeError(_NO_RECORDS)

        def __bool__(self) -> bool:
            return True

    # --- what it is

    def get_name(self) -> str:
        """Return what its operator is called in plans, metrics and errors.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> words = env.from_collection(["to", "be"]).map(str.upper)
        >>> words.get_name(), words.name("shout").get_name(), words.filter(str.isupper).get_name()
        ('Map', 'shout', 'Filter')
        """
        return self._transformation.name

    def name(self, name: str) -> DataStream[T]:
        """Say what its operator is called in plans, metrics and errors.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> _ = env.from_collection(["to", "be"]).map(str.upper).name("shout").print().name("shown")
        >>> env.explain()
        Flink Streaming Job: 1 task, 1 subtask, 1 slot
        <BLANKLINE>
        [1] Source: Collection Source -> shout -> Sink: shown  x 1
        """
        self._operator("name").name = name
        return self

    def uid(self, uid: str) -> DataStream[T]:
        """Give its operator an id by which its state is found again after the program was changed.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> _ = env.get_config().disable_auto_generated_uids()  # so that none can be forgotten
        >>> words = env.from_collection(["to", "be"]).uid("words")
        >>> _ = words.map(str.upper).add_sink(print).uid("shown")
        >>> env.get_execution_plan()
        Traceback (most recent call last):
            ...
        ValueError: operator 'Map' has no uid, and generated ones are disabled: call uid(...) on it
        """
        self._operator("uid").uid = uid or None
        return self

    def set_uid_hash(self, uid_hash: str) -> DataStream[T]:
        """Give its operator an id, 32 hex digits, as it stood in the log of an older version of the program.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> words = env.from_collection(["to", "be"])
        >>> words.map(str.upper).set_uid_hash("cbc357ccb763df2852fee8c4fc7d55f2").execute_and_collect(limit=2)
        ['TO', 'BE']
        >>> words.map(str.upper).set_uid_hash("shout")
        Traceback (most recent call last):
            ...
        ValueError: Node hash must be a 32 character String that describes a hex code. Found: shout
        """
        self._operator("set_uid_hash").uid_hash = checked_uid_hash(uid_hash)
        return self

    def set_parallelism(self, parallelism: int) -> DataStream[T]:
        """Set how many subtasks its operator has; -1: the environment's default.

        Examples
        --------
        >>> from flinkbuf.datastream import MapFunction, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> class Placed(MapFunction):
        ...     def open(self, runtime_context):
        ...         self.place = runtime_context.get_index_of_this_subtask()
        ...     def map(self, value):
        ...         return self.place
        >>> numbers = env.from_collection(range(6)).rebalance()
        >>> sorted(numbers.map(Placed()).set_parallelism(3).execute_and_collect())
        [0, 0, 1, 1, 2, 2]
        """
        set_parallelism(self._operator("set_parallelism"), parallelism)
        return self

    def set_max_parallelism(self, max_parallelism: int) -> DataStream[T]:
        """Set the number of its operator's key groups: the most subtasks that its state can ever be spread over.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> sizes = env.from_collection(["to", "be"]).key_by(len).map(str.upper).set_max_parallelism(4)
        >>> sorted(sizes.set_parallelism(2).execute_and_collect())
        ['BE', 'TO']
        >>> sizes.set_parallelism(8).execute_and_collect()
        Traceback (most recent call last):
            ...
        ValueError: operator 'Map': max parallelism must be from its parallelism 8 to 32768, got 4
        """
        operator = self._operator("set_max_parallelism")
        operator.max_parallelism = checked_max_parallelism(max_parallelism)
        return self

    def get_type(self) -> TypeInformation:
        """Return the type of its records; PICKLED_BYTE_ARRAY if nobody declared one.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> words = env.from_collection(["to", "be"])
        >>> words.get_type(), words.map(len, "int").get_type()
        (Types.PICKLED_BYTE_ARRAY(), Types.INT())
        """
        return said(self._transformation.type)

    def get_execution_environment(self) -> StreamExecutionEnvironment:
        """Return the environment that it belongs to.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> def behind_zero(stream):
        ...     return stream.get_execution_environment().from_collection([0]).union(stream)
        >>> sorted(behind_zero(env.from_collection([1, 2])).execute_and_collect())
        [0, 1, 2]
        """
        return self._env

    def get_execution_config(self) -> ExecutionConfig:
        """Return the configuration of its environment.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> numbers = env.from_collection([1, 2])
        >>> _ = numbers.get_execution_config().set_auto_watermark_interval(50)
        >>> env.get_config().get_auto_watermark_interval()
        50
        """
        return self._env.get_config()

    def force_non_parallel(self) -> DataStream[T]:
        """Let its operator have one subtask, whatever is said later.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> totals = env.from_collection([1, 2, 3]).key_by(lambda n: 0).sum().force_non_parallel()
        >>> totals.execute_and_collect(limit=3)
        [1, 3, 6]
        >>> totals.set_parallelism(2)
        Traceback (most recent call last):
            ...
        ValueError: The parallelism of non parallel operator must be 1, got 2 for 'Reduce'
        """
        operator = self._operator("force_non_parallel")
        set_parallelism(operator, 1)
        operator.max_allowed_parallelism = 1
        return self

    def set_buffer_timeout(self, timeout_millis: int) -> DataStream[T]:
        """Send what its operator emitted after so many milliseconds; 0: each record at once, -1: full buffers only.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> numbers = env.from_collection([1, 2]).map(abs).set_buffer_timeout(0)  # each at once, for the least delay
        >>> numbers.rebalance().map(lambda n: -n).execute_and_collect(limit=2)
        [-1, -2]
        """
        operator = self._operator("set_buffer_timeout")
        if timeout_millis < -1:
            raise ValueError(f"timeout must be >= -1, got {timeout_millis}")
        operator.buffer_timeout_ms = timeout_millis
        return self

    def start_new_chain(self) -> DataStream[T]:
        """Begin a task with its operator.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> _ = env.from_collection([-1, 2]).map(abs).start_new_chain().filter(bool).print()
        >>> env.explain()
        Flink Streaming Job: 2 tasks, 2 subtasks, 1 slot
        <BLANKLINE>
        [1] Source: Collection Source  x 1
        <BLANKLINE>
        [2] Map -> Filter -> Sink: Print to Std. Out  x 1
            from [1] by FORWARD
        """
        self._operator("start_new_chain").chaining_strategy = ChainingStrategy.HEAD
        return self

    def disable_chaining(self) -> DataStream[T]:
        """Give its operator a task of its own.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> _ = env.from_collection([-1, 2]).map(abs).disable_chaining().filter(bool).print()
        >>> env.explain()
        Flink Streaming Job: 3 tasks, 3 subtasks, 1 slot
        <BLANKLINE>
        [1] Source: Collection Source  x 1
        <BLANKLINE>
        [2] Map  x 1
            from [1] by FORWARD
        <BLANKLINE>
        [3] Filter -> Sink: Print to Std. Out  x 1
            from [2] by FORWARD
        """
        self._operator("disable_chaining").chaining_strategy = ChainingStrategy.NEVER
        return self

    def slot_sharing_group(self, slot_sharing_group: str | SlotSharingGroup) -> DataStream[T]:
        """Let its operator share slots with the operators of this group only; those behind it follow.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> _ = env.from_collection([-1, 2]).map(abs).slot_sharing_group("models").print()
        >>> env.explain()
        Flink Streaming Job: 2 tasks, 2 subtasks, 2 slots
        <BLANKLINE>
        [1] Source: Collection Source  x 1
        <BLANKLINE>
        [2] Map -> Sink: Print to Std. Out  x 1
            from [1] by FORWARD
        """
        self._operator("slot_sharing_group").slot_sharing_group = group_name(slot_sharing_group)
        if isinstance(slot_sharing_group, SlotSharingGroup):
            self._env.register_slot_sharing_group(slot_sharing_group)
        return self

    def set_description(self, description: str) -> DataStream[T]:
        """Say more about its operator in the plan.

        Examples
        --------
        >>> import json
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> _ = env.from_collection([-1, 2]).map(abs).set_description("the sign is not needed").print()
        >>> [node["contents"] for node in json.loads(env.get_execution_plan())["nodes"]]
        ['Source: Collection Source', 'the sign is not needed', 'Sink: Print to Std. Out']
        """
        self._operator("set_description").description = description
        return self

    # --- record by record

    @overload
    def map(self, func: Callable[[T], R] | MapFunction[T, R]) -> DataStream[R]: ...

    @overload
    def map(self, func: Callable[[T], object] | MapFunction[T, object], output_type: object) -> DataStream[Any]: ...

    def map(self, func: Callable[[T], R] | MapFunction[T, R], output_type: object = None) -> DataStream[R]:
        """Give the function's result for each record; None is a result, too.

        Flink's ``DataStream.map``.

        Parameters
        ----------
        func : callable or MapFunction
        output_type : TypeInformation, optional
            Of the results.

        Returns
        -------
        DataStream
            As many records as there are here.

        Raises
        ------
        TypeError
            If the function is none, is a class, yields, or is a coroutine function.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> env.from_collection([1, 2]).map(lambda n: n * n).execute_and_collect(limit=2)
        [1, 4]
        """
        check_function(func, MapFunction, "The input must be a MapFunction or a callable function")
        check_gives_values(func)
        return self._call("Map", "map", func, declared(output_type))

    @overload
    def flat_map(self, func: Callable[[T], Iterable[R]] | FlatMapFunction[T, R]) -> DataStream[R]: ...

    @overload
    def flat_map(
        self, func: Callable[[T], Iterable[object]] | FlatMapFunction[T, object], output_type: object
    ) -> DataStream[Any]: ...

    def flat_map(
        self, func: Callable[[T], Iterable[R]] | FlatMapFunction[T, R], output_type: object = None
    ) -> DataStream[R]:
        """Give all that the function yields, or the elements of what it returns, for each record.

        Flink's ``DataStream.flatMap``.

        Parameters
        ----------
        func : callable or FlatMapFunction
            A generator function, or one that returns an iterable.
        output_type : TypeInformation, optional
            Of the results.

        Returns
        -------
        DataStream
            Any number of records for each.

        Raises
        ------
        TypeError
            If the function is none.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> env.from_collection(["to be"]).flat_map(str.split).execute_and_collect(limit=2)
        ['to', 'be']
        """
        check_function(func, FlatMapFunction, "The input must be a FlatMapFunction or a callable function")
        return self._call("FlatMap", "flat_map", func, declared(output_type))

    def filter(self, func: Callable[[T], object] | FilterFunction[T]) -> DataStream[T]:
        """Keep the records for which the function returns something true.

        Flink's ``DataStream.filter``.

        Parameters
        ----------
        func : callable or FilterFunction

        Returns
        -------
        DataStream
            Records as they were.

        Raises
        ------
        TypeError
            If the function is none.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> env.from_collection([1, 2, 3]).filter(lambda n: n % 2).execute_and_collect(limit=2)
        [1, 3]
        """
        check_function(func, FilterFunction, "The input must be a FilterFunction or a callable function")
        return self._call("Filter", "filter", func, self._value_type, converts=False)

    def map_batches(
        self,
        func: Callable[[Any], object] | MapBatchFunction,
        output_type: object = None,
        *,
        input_type: object = None,
        max_rows: int = 8192,
        max_bytes: int = 4 << 20,
        max_delay: Duration | Time | timedelta | None = DEFAULT_BATCH_DELAY,
        timestamps: str = "kept",
        timestamp_column: str | None = None,
    ) -> DataStream[Any]:
        """Call the function with many records at once, as a batch of Arrow columns; it gives batches, too.

        PyFlink has no such method. Records become columns and columns records in C, so that a function which computes
        with whole columns (numpy, pyarrow, polars, a model) costs a fraction of one that is called for each record.

        Parameters
        ----------
        func : callable or MapBatchFunction
            Takes a ``pyarrow.RecordBatch``, and returns a batch, an iterable of batches (a generator is one), or None:
            pyarrow RecordBatches and Tables, DataFrames of polars and pandas, whatever else has the Arrow PyCapsule
            interface, dicts of numpy arrays, structured arrays. Columns are found by name.
        output_type : TypeInformation, DDL, pyspark StructType or pyarrow schema, optional
            Of the records that the rows become. Without it they are the `Row` that each batch's own schema says, and
            the stream has no declared type.
        input_type : optional
            Likewise, of the records that come; by default the stream's declared type. It also says which types the
            columns have: give DDL or a pyarrow schema where decimals are to have their digits.
        max_rows : int, default 8192
            Of one batch.
        max_bytes : int, default 4 MiB
            A batch ends soon behind the record that brings so many bytes.
        max_delay : Duration, Time, datetime.timedelta or None, default 100 ms
            How long a record waits for others, by the clock; None: as long as event time stands still. In batch
            execution nothing ends a batch but its size and the end of the input.
        timestamps : {"kept", "latest"}, default "kept"
            ``"kept"``: each row has the timestamp of the record in its place, so the function has to give as many rows
            as it is given, in their order. ``"latest"``: all rows have the latest timestamp in their batch. Where
            records have no timestamps it does not matter.
        timestamp_column : str, optional
            The function gets timestamps as the last column, of this name: int64, milliseconds since 1970, null where a
            record has none. What it gives has such a column, too (int64 or an Arrow timestamp), and may have any
            number of rows.

        Raises
        ------
        ValueError, TypeError
            If the records' type is not known or has no columns; if an argument is out of range. When the job runs: if
            a record is not of the type, a column cannot hold a value, or the rows are not of the output type.

        Notes
        -----
        Before a watermark, an idle status, a checkpoint's barrier or the end of the input goes on, the function is
        called with what has come: no row is late for that reason, checkpoints stay exactly once, nothing is held back.
        So watermarks that come with every record make batches of one record each.
        The function has no current key, on a keyed stream either: a batch holds records of many keys.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> prices = env.from_collection([("tea", 2.0), ("rum", 9.0)], "item string, net double")
        >>> def with_tax(batch):
        ...     return {"item": batch["item"].to_numpy(zero_copy_only=False), "gross": 1.25 * batch["net"].to_numpy()}
        >>> with prices.map_batches(with_tax, "item string, gross double").execute_and_collect() as results:
        ...     sorted(results)
        [Row(item='rum', gross=11.25), Row(item='tea', gross=2.5)]
        """
        check_function(func, MapBatchFunction, "The input must be a MapBatchFunction or a callable function")
        options = {
            "function": func,
            "input_type": self._value_type if input_type is None else input_type,
            "output_type": output_type,
            "max_rows": max_rows,
            "max_bytes": max_bytes,
            "max_delay_ms": -1 if max_delay is None else milliseconds_of("max_delay", max_delay),
            "timestamps": timestamps,
            "timestamp_column": timestamp_column,
        }
        if options["input_type"] is None:
            raise ValueError(
                f"the records of {self.get_name()!r} are of no declared type, so their columns are not known: pass "
                "map_batches(..., input_type='id bigint, name string'), or give the operator before it an output type"
            )
        factory = MapBatchesFactory(None, options)
        factory.check()
        return self._transform("MapBatches", declared_rows(output_type), factory)

    def as_columns(
        self,
        type: object = None,
        *,
        max_rows: int = 8192,
        max_bytes: int = 4 << 20,
        max_delay: Duration | Time | timedelta | None = DEFAULT_BATCH_DELAY,
    ) -> ColumnStream:
        """Make a stream of column batches of the records, or of records that are Arrow batches themselves.

        PyFlink has no such method; see `flinkbuf.datastream.columns`.

        Parameters
        ----------
        type : TypeInformation, DDL, pyspark StructType or pyarrow schema, optional
            Of the records; by default the stream's declared type, or the columns of a DataFrame, which comes as the
            batches that Spark makes of it. Batches that are records (``pyarrow.RecordBatch`` or
            ``Table``) have these columns, in any order, and are cast to their types. If the declared type has fields
            of all these names they are found by them, and it may name some of these. A source that gives columns, such
            as Parquet or CSV files, does not read the others.
        max_rows, max_bytes, max_delay
            As for `map_batches`; batches that are records go on as they are.

        Raises
        ------
        ValueError, TypeError
            If the records' type is not known or has no columns; if an argument is out of range; if a source that reads
            columns has none of a name, or of a type whose values would never fit.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> from flinkbuf.datastream.columns import count
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> batches = env.from_collection([pa.record_batch({"n": [1, 2, 1]}), pa.record_batch({"n": [2, 2]})])
        >>> counts = batches.as_columns("n bigint").key_by("n").aggregate(count=count())
        >>> counts.execute_and_collect(limit=3)
        [Row(n=1, count=2), Row(n=2, count=1), Row(n=2, count=3)]
        """
        from flinkbuf.datastream.columns import ColumnStream
        from flinkbuf.datastream.program.column_factories import AsColumnsFactory
        from flinkbuf.records.column_batch import COLUMNS

        batches = self._of_batches(self._value_type if type is None else type, max_rows, max_bytes)
        description = type if type is not None else batches.schema if batches is not None else self._value_type
        if description is None:
            raise ValueError(
                f"the records of {self.get_name()!r} are of no declared type, so their columns are not known: say "
                "as_columns('id bigint, name string'), or give the operator before it an output type"
            )
        delay_ms = -1 if max_delay is None else milliseconds_of("max_delay", max_delay)
        factory = AsColumnsFactory(None, description, max_rows, max_bytes, delay_ms, self._value_type)
        factory.create()  # refuses what no operator can be made of
        return ColumnStream(self._transform("AsColumns", COLUMNS, factory, reads_batches=batches), description)

    def _of_batches(self, wanted: object, max_rows: int, max_bytes: int) -> BatchSource | None:
        """Return what makes the source that this stream is give batches; None: it is none, or has records only."""
        source = self._transformation
        make = getattr(source.factory, "of_batches", None) if isinstance(source, OperatorTransformation) else None
        made = None if make is None else make(wanted, max_rows, max_bytes)
        if make is None or made is None:
            return None
        try:
            whole, _ = make(None, max_rows, max_bytes)
        except TypeError:  # a column that nobody wants here has no type of Arrow
            whole = None
        return BatchSource(made[0], made[1], whole)

    def process(self, func: ProcessFunction[T, R], output_type: object = None) -> DataStream[R]:
        """Give all that the function yields; ``yield tag, value`` goes to a side output.

        Flink's ``DataStream.process``.

        Parameters
        ----------
        func : ProcessFunction
        output_type : TypeInformation, optional
            Of the results.

        Returns
        -------
        DataStream
            What goes to no side output; see `get_side_output`.

        Raises
        ------
        TypeError
            If the function is of another kind, or wants a keyed stream.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> class Twice(ProcessFunction):
        ...     def process_element(self, value, ctx):
        ...         yield value
        ...         yield value
        >>> env.from_collection([1]).process(Twice()).execute_and_collect(limit=2)
        [1, 1]
        """
        check_is_object(func)
        if isinstance(func, KeyedProcessFunction):
            raise TypeError("a KeyedProcessFunction needs a keyed stream: call key_by before process")
        if not isinstance(func, ProcessFunction):
            raise TypeError(f"The input must be a ProcessFunction, got {type(func).__name__} {func!r}")
        type_info = declared(output_type)
        return self._transform("PROCESS", type_info, ProcessFactory(type_info, func))

    def project(self, *field_indexes: int) -> DataStream[Any]:
        """Keep some fields of tuples, in this order.

        Flink's ``DataStream.project``.

        Parameters
        ----------
        field_indexes : int
            From 0.

        Returns
        -------
        DataStream
            Of tuples.

        Raises
        ------
        ValueError
            If the stream has no declared type of tuples, or no field is named.
        IndexError
            If there is no such field.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> pairs = env.from_collection([(1, "a")], Types.TUPLE([Types.INT(), Types.STRING()]))
        >>> pairs.project(1, 0).execute_and_collect(limit=1)
        [('a', 1)]
        """
        type_info = self._value_type
        if not isinstance(type_info, TupleTypeInfo):
            raise ValueError(f"Only Tuple DataStreams can be projected. This one has the type {said(type_info)}")
        if not field_indexes:
            raise ValueError("project() needs to select at least one (1) field.")
        size = len(type_info.field_types)
        for index in field_indexes:
            if not 0 <= index < size:
                raise IndexError(f"Index: {index}, Size: {size}")
        output_type = Types.TUPLE([type_info.field_types[index] for index in field_indexes])
        return self._call("Projection", "map", _Projection(field_indexes), output_type, converts=False)

    def assign_timestamps_and_watermarks(self, watermark_strategy: WatermarkStrategy) -> DataStream[T]:
        """Give each record its event time, and the stream its watermarks.

        Flink's ``DataStream.assignTimestampsAndWatermarks``.

        Parameters
        ----------
        watermark_strategy : WatermarkStrategy

        Returns
        -------
        DataStream
            The same records, with timestamps.

        Raises
        ------
        TypeError
            If it is no WatermarkStrategy.

        Examples
        --------
        >>> from flinkbuf.common import Duration, WatermarkStrategy
        >>> from flinkbuf.datastream import ProcessFunction, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> class Stamped(ProcessFunction):
        ...     def process_element(self, value, ctx):
        ...         yield value[0], ctx.timestamp()
        >>> late_by_5_s = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5))
        >>> times = late_by_5_s.with_timestamp_assigner(lambda value, _: value[1])
        >>> calls = env.from_collection([("ann", 7_000), ("bob", 4_000)]).assign_timestamps_and_watermarks(times)
        >>> calls.process(Stamped()).execute_and_collect(limit=2)
        [('ann', 7000), ('bob', 4000)]
        """
        if not isinstance(watermark_strategy, WatermarkStrategy):
            raise TypeError(
                f"a WatermarkStrategy is needed, got {type(watermark_strategy).__name__} {watermark_strategy!r}"
            )
        result = self._transform("Timestamps/Watermarks", self._value_type, TimestampsFactory(None, watermark_strategy))
        # As in PyFlink: extracting timestamps has the default parallelism, watermarks alone that of what they follow.
        if watermark_strategy.create_timestamp_assigner() is None:
            result._transformation.parallelism = _parallelism_of(self._transformation)
        return result

    def get_side_output(self, output_tag: OutputTag[R]) -> DataStream[R]:
        """Give the records that the operator sent to this tag.

        Flink's ``SingleOutputStreamOperator.getSideOutput``.

        Parameters
        ----------
        output_tag : OutputTag
            Its type, where it has one, is that of the records.

        Returns
        -------
        DataStream
            What the operator of this stream yielded with the tag.

        Raises
        ------
        TypeError
            If it is no OutputTag.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> odd = OutputTag("odd")
        >>> class Split(ProcessFunction):
        ...     def process_element(self, value, ctx):
        ...         yield (odd, value) if value % 2 else value
        >>> split = env.from_collection([1, 2, 3]).process(Split())
        >>> split.get_side_output(odd).execute_and_collect(limit=2)
        [1, 3]
        """
        if not isinstance(output_tag, OutputTag):
            raise TypeError(f"an OutputTag is needed, got {type(output_tag).__name__} {output_tag!r}")
        type_info = declared(output_tag.type_info)
        self._env._note_side_output(self._operator("get_side_output"), output_tag.tag_id, type_info)
        side = SideOutputTransformation("SideOutput", type_info, [self._transformation], output_tag=output_tag.tag_id)
        place = f"{self._operator('get_side_output').name}, side output {output_tag.tag_id}"
        factory = SideOutputFactory(type_info, "map", _identity, shown_as=place)
        return DataStream(self._env, side)._transform("Map", type_info, factory)

    # --- with others

    def union(self, *streams: DataStream[T]) -> DataStream[T]:
        """Give the records of all, in any order; all must have the same type.

        Flink's ``DataStream.union``.

        Parameters
        ----------
        streams : DataStream

        Returns
        -------
        DataStream
            The records of this stream and of those.

        Raises
        ------
        TypeError
            If one is no stream.
        ValueError
            If they have different types, or are of different environments.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> both = env.from_collection([1]).union(env.from_collection([2]))
        >>> sorted(both.execute_and_collect())
        [1, 2]
        """
        if not streams:
            return DataStream(self._env, self._transformation)
        inputs = [self, *streams]
        for stream in inputs:
            if not isinstance(stream, DataStream):
                raise TypeError(f"union takes streams, got {type(stream).__name__} {stream!r}")
            if stream._value_type != self._value_type:
                raise ValueError(
                    f"Cannot union streams of different types: {said(self._value_type)} and {said(stream._value_type)};"
                    " declare the same output_type for both"
                )
            if stream._env is not self._env:
                raise ValueError("Cannot union streams of different environments")
        union = UnionTransformation("Union", self._value_type, [stream._transformation for stream in inputs])
        return DataStream(self._env, union)

    @overload
    def connect(self, ds: DataStream[R]) -> ConnectedStreams[T, R]: ...

    @overload
    def connect(self, ds: BroadcastStream[R]) -> BroadcastConnectedStream[T, R]: ...

    def connect(
        self, ds: DataStream[R] | BroadcastStream[R]
    ) -> ConnectedStreams[T, R] | BroadcastConnectedStream[T, R]:
        """Put two streams, of any types, into one operator that sees both; or a stream and broadcast state.

        Examples
        --------
        >>> from flinkbuf.datastream import CoMapFunction, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> class InMinutes(CoMapFunction):
        ...     def map1(self, hours): return int(60 * hours)
        ...     def map2(self, text): return int(text.removesuffix(" min"))
        >>> hours, texts = env.from_collection([1.5, 2]), env.from_collection(["20 min"])
        >>> sorted(hours.connect(texts).map(InMinutes()).execute_and_collect())
        [20, 90, 120]
        """
        if isinstance(ds, BroadcastStream):
            return BroadcastConnectedStream(self, ds, ds.broadcast_state_descriptors)
        if not isinstance(ds, DataStream):
            raise TypeError(f"connect takes a DataStream or a BroadcastStream, got {type(ds).__name__} {ds!r}")
        return ConnectedStreams(self, ds)

    def join(self, other_stream: DataStream[R]) -> JoinedStreams[T, R]:
        """Put each record together with each of the other stream that has the same key and lies in the same window.

        Go on with ``.where(key_of_first).equal_to(key_of_second).window(assigner).apply(function)``; see
        `JoinedStreams`. PyFlink has no such method.

        Examples
        --------
        >>> from flinkbuf.common import Time, WatermarkStrategy
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> from flinkbuf.datastream.window import TumblingEventTimeWindows
        >>> times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value[1])
        >>> clicks = env.from_collection([("ann", 100), ("bob", 200)]).assign_timestamps_and_watermarks(times)
        >>> views = env.from_collection([("ann", 700), ("bob", 5200)]).assign_timestamps_and_watermarks(times)
        >>> same_user = clicks.join(views).where(lambda click: click[0]).equal_to(lambda view: view[0])
        >>> same_second = same_user.window(TumblingEventTimeWindows.of(Time.seconds(1)))
        >>> list(same_second.apply(lambda click, view: (click, view)).execute_and_collect())
        [(('ann', 100), ('ann', 700))]
        """
        return JoinedStreams(self, self._checked_other("join", other_stream))

    def co_group(self, other_stream: DataStream[R]) -> CoGroupedStreams[T, R]:
        """Look at the records of both streams that have the same key and lie in the same window, all at once.

        Go on with ``.where(key_of_first).equal_to(key_of_second).window(assigner).apply(function)``; see
        `CoGroupedStreams`. PyFlink has no such method.

        Examples
        --------
        >>> from flinkbuf.common import Time, WatermarkStrategy
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> from flinkbuf.datastream.window import TumblingEventTimeWindows
        >>> times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value[1])
        >>> orders = env.from_collection([("ann", 100), ("bob", 200)]).assign_timestamps_and_watermarks(times)
        >>> payments = env.from_collection([("ann", 700)]).assign_timestamps_and_watermarks(times)
        >>> by_user = orders.co_group(payments).where(lambda order: order[0]).equal_to(lambda payment: payment[0])
        >>> by_second = by_user.window(TumblingEventTimeWindows.of(Time.seconds(1)))
        >>> list(by_second.apply(lambda orders, payments: [] if payments else orders).execute_and_collect())
        [('bob', 200)]
        """
        return CoGroupedStreams(self, self._checked_other("co_group", other_stream))

    # --- how records travel

    def key_by(self, key_selector: Callable[[T], R] | KeySelector, key_type: object = None) -> KeyedStream[R, T]:
        """Bring records of the same key to the same subtask, and give each key state of its own.

        Parameters
        ----------
        key_selector : callable or KeySelector
            Gives the key of a record: always the same for the same record, in every process.
        key_type : TypeInformation, optional
            What the key is.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> words = env.from_collection(["to", "be", "or", "not", "to", "be"])
        >>> counts = words.map(lambda word: (word, 1)).key_by(lambda pair: pair[0]).sum(1)
        >>> sorted(counts.execute_and_collect())
        [('be', 1), ('be', 2), ('not', 1), ('or', 1), ('to', 1), ('to', 2)]
        """
        message = "Parameter key_selector should be type of KeySelector or a callable function."
        check_function(key_selector, KeySelector, message)
        return KeyedStream(self, key_selector, with_names(declared(key_type)))

    def partition_custom(
        self,
        partitioner: Callable[[R, int], int] | Partitioner,
        key_selector: Callable[[T], R] | KeySelector,
    ) -> DataStream[T]:
        """Send each record to the subtask that ``partitioner(key, num_partitions)`` gives for its key.

        Flink's ``DataStream.partitionCustom``.

        Parameters
        ----------
        partitioner : callable or Partitioner
            Gives a number from 0 and below the number of subtasks.
        key_selector : callable or KeySelector
            Gives the key of a record.

        Returns
        -------
        DataStream
            The same records.

        Raises
        ------
        TypeError
            If a function is none.

        Examples
        --------
        >>> from flinkbuf.datastream import MapFunction, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> class Placed(MapFunction):
        ...     def open(self, runtime_context):
        ...         self.place = runtime_context.get_index_of_this_subtask()
        ...     def map(self, value):
        ...         return value, self.place
        >>> numbers = env.from_collection([7, 150, 900])
        >>> by_size = numbers.partition_custom(lambda key, count: min(key // 100, count - 1), lambda n: n)
        >>> sorted(by_size.map(Placed()).set_parallelism(3).execute_and_collect())
        [(7, 0), (150, 1), (900, 2)]
        """
        check_function(
            partitioner, Partitioner, "Parameter partitioner should be type of Partitioner or a callable function."
        )
        check_function(
            key_selector, KeySelector, "Parameter key_selector should be type of KeySelector or a callable function."
        )
        exchange = CustomExchange(as_selector(partitioner, Partitioner, "partition"), as_selector(key_selector))
        return self._partition(exchange, "CUSTOM")

    def shuffle(self) -> DataStream[T]:
        """Send each record to a random subtask.

        Flink's ``DataStream.shuffle``.

        Returns
        -------
        DataStream
            The same records.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> sorted(env.from_collection([1, 2]).shuffle().map(lambda n: -n).set_parallelism(2).execute_and_collect())
        [-2, -1]
        """
        return self._partition("shuffle", "SHUFFLE")

    def rebalance(self) -> DataStream[T]:
        """Send records to all subtasks in turn.

        Flink's ``DataStream.rebalance``.

        Returns
        -------
        DataStream
            The same records.

        Examples
        --------
        >>> from flinkbuf.datastream import MapFunction, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> class Placed(MapFunction):
        ...     def open(self, runtime_context):
        ...         self.place = runtime_context.get_index_of_this_subtask()
        ...     def map(self, value):
        ...         return self.place
        >>> sorted(env.from_collection(range(4)).rebalance().map(Placed()).set_parallelism(2).execute_and_collect())
        [0, 0, 1, 1]
        """
        return self._partition("rebalance", "REBALANCE")

    def rescale(self) -> DataStream[T]:
        """Send records in turn to the few subtasks that belong to this one.

        Examples
        --------
        >>> from flinkbuf.datastream import MapFunction, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> class Placed(MapFunction):
        ...     def open(self, runtime_context):
        ...         self.place = runtime_context.get_index_of_this_subtask()
        ...     def map(self, value):
        ...         return value, self.place
        >>> numbers = env.from_collection([0, 1]).partition_custom(lambda key, count: key, lambda n: n)
        >>> halves = numbers.map(abs).set_parallelism(2)
        >>> places = dict(halves.rescale().map(Placed()).set_parallelism(4).execute_and_collect())
        >>> places[0] in (0, 1), places[1] in (2, 3)  # of four subtasks the first two belong to the first of two
        (True, True)
        """
        return self._partition("rescale", "RESCALE")

    def forward(self) -> DataStream[T]:
        """Send records to the subtask of the same number; what follows must have the same parallelism.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> numbers = env.from_collection([1, 2]).map(abs)
        >>> numbers.forward().map(lambda n: -n).execute_and_collect(limit=2)
        [-1, -2]
        >>> numbers.forward().map(abs).set_parallelism(2).execute_and_collect()  # doctest: +ELLIPSIS
        Traceback (most recent call last):
            ...
        ValueError: forward partitioning cannot change the parallelism: 'Map' has 1, 'Map' has 2; use rebalance(), ...
        """
        return self._partition("forward", "FORWARD")

    @overload
    def broadcast(self) -> DataStream[T]: ...

    @overload
    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor,
        *other_broadcast_state_descriptors: MapStateDescriptor,
    ) -> BroadcastStream[T]: ...

    def broadcast(
        self,
        broadcast_state_descriptor: MapStateDescriptor | None = None,
        *other_broadcast_state_descriptors: MapStateDescriptor,
    ) -> DataStream[T] | BroadcastStream[T]:
        """Send each record to every subtask; with descriptors, to be connected with a stream that reads their state.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> numbers = env.from_collection([1, 2]).broadcast()
        >>> sorted(numbers.map(lambda n: 10 * n).set_parallelism(3).execute_and_collect())
        [10, 10, 10, 20, 20, 20]
        """
        everywhere = self._partition("broadcast", "BROADCAST")
        if broadcast_state_descriptor is None:
            return everywhere
        descriptors = [broadcast_state_descriptor, *other_broadcast_state_descriptors]
        for descriptor in descriptors:
            if not isinstance(descriptor, MapStateDescriptor):
                raise TypeError(f"broadcast_state_descriptor must be MapStateDescriptor, got {descriptor!r}")
        return BroadcastStream(everywhere, descriptors)

    # --- in windows

    def window_all(self, window_assigner: WindowAssigner[T, W]) -> AllWindowedStream[T]:
        """Put all records into windows, in one subtask.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> from flinkbuf.datastream.window import CountTumblingWindowAssigner
        >>> pairs = env.from_collection([1, 2, 3, 4]).window_all(CountTumblingWindowAssigner(2))
        >>> pairs.reduce(lambda a, b: a + b).execute_and_collect(limit=2)
        [3, 7]
        """
        return AllWindowedStream(self, window_assigner)

    # --- ends

    def print(self, sink_identifier: str | None = None) -> DataStreamSink:
        """Print each record to the standard output: behind the identifier, and the subtask if there are several.

        Flink's ``DataStream.print``.

        Parameters
        ----------
        sink_identifier : str, optional

        Returns
        -------
        DataStreamSink
            The end of the stream, to be named and given a parallelism.

        Raises
        ------
        TypeError
            If the identifier is no str.

        Examples
        --------
        >>> from flinkbuf.common import Configuration
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> embedded = Configuration().set_string("execution.target", "embedded")  # as threads of this process
        >>> env = StreamExecutionEnvironment.get_execution_environment(embedded).set_parallelism(1)
        >>> _ = env.from_collection([1, 2]).print("n")
        >>> _ = env.execute("numbers")
        n> 1
        n> 2
        """
        if sink_identifier is not None and not isinstance(sink_identifier, str):
            raise TypeError(f"sink_identifier must be a str, got {sink_identifier!r}")
        return self._sink(PRINT_SINK_NAME, PrintSinkFactory(self._value_type, sink_identifier))

    def add_sink(self, sink_func: object) -> DataStreamSink:
        """Call something with each record: a function, or an object with ``invoke(value)`` such as a SinkFunction.

        With checkpoints a function is called at least once for a record: a job that goes on from a checkpoint calls it
        again for those since then. A `TwoPhaseCommitSinkFunction` writes them exactly once.

        Examples
        --------
        >>> from flinkbuf.common import Configuration
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> embedded = Configuration().set_string("execution.target", "embedded")  # so the sink's list is the program's
        >>> env = StreamExecutionEnvironment.get_execution_environment(embedded).set_parallelism(1)
        >>> seen = []
        >>> _ = env.from_collection([1, 2]).map(str).add_sink(seen.append).name("list")
        >>> _ = env.execute("numbers")
        >>> seen
        ['1', '2']
        """
        return self._sink("Unnamed", sink_factory_of(sink_func))

    def sink_to(self, sink: Sink) -> DataStreamSink:
        """Write the records with a `Sink` of ``flinkbuf.datastream.connectors``.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> from flinkbuf.common import Encoder
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> from flinkbuf.datastream.connectors.file_system import FileSink
        >>> folder = tempfile.TemporaryDirectory()
        >>> lines = FileSink.for_row_format(folder.name, Encoder.simple_string_encoder()).build()
        >>> _ = env.from_collection(["to", "be"]).sink_to(lines)
        >>> _ = env.execute("words")
        >>> [path.read_text().split() for path in pathlib.Path(folder.name).rglob("part-*")]
        [['to', 'be']]
        >>> folder.cleanup()
        """
        stream: DataStream[object] = self
        transformer = sink.get_transformer() if isinstance(sink, SupportsPreprocessing) else None
        if transformer is not None:
            stream = transformer.apply(self)
        if isinstance(sink, Sink):
            sink = sink.of_records(stream._value_type)
        return stream._write_with(sink)

    @overload
    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: None = None
    ) -> CloseableIterator[T]: ...

    @overload
    def execute_and_collect(self, job_execution_name: str | None, limit: int) -> list[T]: ...

    @overload
    def execute_and_collect(self, job_execution_name: str | None = None, *, limit: int) -> list[T]: ...

    def execute_and_collect(
        self, job_execution_name: str | None = None, limit: int | None = None
    ) -> CloseableIterator[T] | list[T]:
        """Execute the program and give this stream's records: as they come, or a list of at most `limit`.

        The job ends when the iterator is closed: use it in a ``with`` statement if it may not be read to its end. With
        checkpoints a record comes exactly once, when the checkpoint behind it is complete; if they are at least once,
        it comes at once, and again after a failure.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> squares = env.from_collection(range(1_000)).map(lambda n: n * n)
        >>> squares.execute_and_collect(limit=3)
        [0, 1, 4]
        >>> with squares.execute_and_collect("squares") as results:  # behind it the job is cancelled
        ...     next(square for square in results if square > 50)
        64
        """
        if limit is not None and limit <= 0:
            raise ValueError(f"Limit must be greater than 0, got {limit}")
        collector = self._env._collected(self, job_execution_name or "DataStream Collect")
        return CloseableIterator(collector) if limit is None else collector.take(limit)

    def to_rdd(self) -> RDD[T]:
        """Give Spark the records of this stream, as an RDD; Spark runs the program each time it computes the RDD.

        Returns
        -------
        pyspark.RDD
            Partition i holds what subtask i of the stream gives, while it gives it: the program runs in one barrier
            stage of the job that asks for the records, and waits while Spark is behind. What was made in the
            environment before, other sinks too, is part of that program.

        Raises
        ------
        ValueError
            If there are fewer slots than the program needs, or Spark cannot run it in a barrier stage.

        Notes
        -----
        A failure is Spark's to answer: where a shuffle follows, it runs the stage again, up to four times in all; where
        an action follows directly (``collect``, ``foreachPartition``), the job fails with the error. The restart
        strategy has no part in it. ``take`` and ``first`` work on one partition only: Spark refuses to run a part of a
        barrier stage, also of one whose result is persisted; and a barrier stage of ``union`` or ``coalesce`` needs
        more slots than Spark may have, which it looks for during ten minutes. Put a shuffle such as ``repartition``
        before these, and where Spark stops reading early, for the ``limit`` or ``show`` of a DataFrame.

        Examples
        --------
        >>> squares = env.from_rdd(sc.parallelize(range(4), 2)).map(lambda n: n * n).to_rdd()  # doctest: +SKIP
        >>> squares.sum()  # doctest: +SKIP
        14
        """
        return of_spark("stage.to_spark").to_rdd(self)

    def to_data_frame(self, schema: object = None) -> DataFrame:
        """Give Spark the records of this stream, as a DataFrame; see `to_rdd`.

        Parameters
        ----------
        schema : pyspark.sql.types.DataType or str, optional
            Columns as ``spark.createDataFrame`` takes them; by default those of the stream's declared type.

        Raises
        ------
        ValueError
            As `to_rdd`; and if neither a schema nor the stream's type is known.

        Examples
        --------
        >>> pairs = env.from_data_frame(spark.range(3)).map(  # doctest: +SKIP
        ...     lambda row: (row.id, row.id**2), Types.TUPLE([Types.LONG(), Types.LONG()])
        ... )
        >>> pairs.to_data_frame("n bigint, square bigint").collect()  # doctest: +SKIP
        """
        return of_spark("stage.to_spark").to_data_frame(self, schema)

    def cache(self) -> CachedDataStream[T]:
        """Give a stream that a batch job would keep; streaming jobs compute it each time, as in Flink.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> squares = env.from_collection([1, 2]).map(lambda n: n * n).cache()
        >>> squares.execute_and_collect(limit=2), squares.map(str).execute_and_collect(limit=2)
        ([1, 4], ['1', '4'])
        """
        return CachedDataStream(self._env, self._operator("cache"))

    # --- inside

    @property
    def _value_type(self) -> TypeInformation | None:
        """The declared type of its records; None: nobody declared one."""
        return self._transformation.type

    @property
    def _key_selector(self) -> Callable[[T], object] | KeySelector | None:
        """What gives the key of a record; None: it is not keyed."""
        return None

    def _operator(self, method: str) -> OperatorTransformation:
        if not isinstance(self._transformation, OperatorTransformation):
            raise RuntimeError(
                f"{method}() belongs to an operator, and {self._transformation.name!r} is none: it only says how "
                "records travel; call it on the stream before or after"
            )
        return self._transformation

    def _values(self) -> DataStream[T]:
        """The same records, not keyed."""
        return self

    def _checked_other(self, method: str, stream: DataStream[R]) -> DataStream[R]:
        """The stream that this one meets in one operator."""
        if not isinstance(stream, DataStream):
            raise TypeError(f"{method} takes a DataStream, got {type(stream).__name__} {stream!r}")
        if stream._env is not self._env:
            raise ValueError("streams of different environments cannot meet in one operator")
        return stream

    def _tagged(self, tag: Callable[[T], R]) -> DataStream[R]:
        """Its records with a tag, made where they are."""
        result = self._transform("Map", None, FunctionFactory(None, "map", tag))
        result._transformation.parallelism = _parallelism_of(self._transformation)
        return result

    def _call(
        self, name: str, kind: str, function: object, type_info: TypeInformation | None, *, converts: bool = True
    ) -> DataStream[R]:
        factory = FunctionFactory(type_info if converts else None, kind, function)
        return self._transform(name, type_info, factory)

    def _transform(
        self, name: str, type_info: TypeInformation | None, factory: OperatorFactory, **options: object
    ) -> DataStream[Any]:
        """Add an operator that reads this stream."""
        return self._join([self], name, type_info, factory, **options)

    def _join(
        self,
        streams: Sequence[DataStream[object]],
        name: str,
        type_info: TypeInformation | None,
        factory: OperatorFactory,
        **options: Any,
    ) -> DataStream[Any]:
        """Add an operator that reads several streams, each by an input of its own."""
        if any(stream._env is not self._env for stream in streams):
            raise ValueError("streams of different environments cannot meet in one operator")
        inputs = [stream._transformation for stream in streams]
        operator = OperatorTransformation(
            name, type_info, inputs, self._env.get_parallelism(), factory=factory, contract="Operator", **options
        )
        self._env._add_operator(operator)
        return DataStream(self._env, operator)

    def _meet(
        self, other: DataStream[object], name: str, type_info: TypeInformation | None, factory: OperatorFactory
    ) -> DataStream[R]:
        """Add an operator that reads this stream and another one, by their keys if both have some."""
        return self._join([self, other], name, type_info, factory)

    def _partition(self, partitioner: object, ship_strategy: str) -> DataStream[T]:
        return DataStream(
            self._env,
            PartitionTransformation(
                "Partition",
                self._value_type,
                [self._transformation],
                partitioner=partitioner,
                ship_strategy=ship_strategy,
            ),
        )

    def _sink(self, name: str, factory: Callable[[], object]) -> DataStreamSink:
        sink = self._transform(name, None, factory, is_sink=True)._operator("sink")  # type: ignore[arg-type]
        sink.contract = "Data Sink"
        return DataStreamSink(sink)

    def _write_with(self, sink: Sink, takes_batches: bool = False) -> DataStreamSink:
        """Add the writers of a sink, and its only committer behind them if there is one."""
        whole = SinkWriterFactory(sink, takes_batches)
        writer = replace(whole, is_committed_behind=True)
        if not getattr(sink, "commits_globally", False):
            added = self._sink(UNNAMED_SINK, whole)
            if getattr(sink, "has_committer", True):
                added._transformation.in_batch = CommittedBehind(writer, CommitterFactory(sink))
            return added
        writers = self._transform(UNNAMED_SINK, None, writer)  # type: ignore[arg-type]
        committer = writers._sink("Committer", GlobalCommitterFactory(sink)).set_parallelism(1)._transformation
        committer.max_allowed_parallelism = 1
        committer.is_committer = True
        return GloballyCommittedSink(writers._operator("sink"), committer)

    def _collect_to(self, collector: Any) -> None:
        """Add a sink of one subtask that hands the records to the program."""
        self._sink(
            "Data stream collect sink", CollectSinkFactory(collector, with_names(self._value_type))
        ).set_parallelism(1)


class _NoOperator(DataStream[T]):
    """A stream that is told apart from the operator it comes from, which cannot be changed through it."""

    def set_parallelism(self, parallelism: int) -> NoReturn:
        """Raise: see the class."""
        self._refuse("Set parallelism for")

    def name(self, name: str) -> NoReturn:
        """Raise: see the class."""
        self._refuse("Set name for")

    def get_name(self) -> NoReturn:
        """Raise: see the class."""
        self._refuse("Get name of")

    def uid(self, uid: str) -> NoReturn:
        """Raise: see the class."""
        self._refuse("Set uid for")

    def set_uid_hash(self, uid_hash: str) -> NoReturn:
        """Raise: see the class."""
        self._refuse("Set uid hash for")

    def set_max_parallelism(self, max_parallelism: int) -> NoReturn:
        """Raise: see the class."""
        self._refuse("Set max parallelism for")

    def force_non_parallel(self) -> NoReturn:
        """Raise: see the class."""
        self._refuse("Set force non-parallel for")

    def set_buffer_timeout(self, timeout_millis: int) -> NoReturn:
        """Raise: see the class."""
        self._refuse("Set buffer timeout for")

    def start_new_chain(self) -> NoReturn:
        """Raise: see the class."""
        self._refuse("Start new chain for")

    def disable_chaining(self) -> NoReturn:
        """Raise: see the class."""
        self._refuse("Disable chaining for")

    def slot_sharing_group(self, slot_sharing_group: str | SlotSharingGroup) -> NoReturn:
        """Raise: see the class."""
        self._refuse("Setting slot sharing group for")

    def cache(self) -> NoReturn:
        """Raise: see the class."""
        self._refuse("Cache for")

    def _refuse(self, what: str) -> NoReturn:
        raise RuntimeError(f"{what} {type(self).__name__} is not supported.")


class KeyedStream(_NoOperator[T], Generic[K, T]):
    """A stream whose records are told apart by a key; made by ``key_by``. Flink's ``KeyedStream``.

    Examples
    --------
    >>> from flinkbuf.datastream import StreamExecutionEnvironment
    >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    >>> delays = env.from_collection([("UA", 2), ("AA", 33), ("UA", 4)]).key_by(lambda delay: delay[0])
    >>> sorted(delays.sum(1).execute_and_collect())
    [('AA', 33), ('UA', 2), ('UA', 6)]
    """

    class AccumulateType(Enum):
        """What ``sum``, ``min``, ``max``, ``min_by`` and ``max_by`` make of two records."""

        MIN = 1
        MAX = 2
        MIN_BY = 3
        MAX_BY = 4
        SUM = 5

    def __init__(
        self, origin: DataStream[T], key_selector: Callable[[T], K] | KeySelector, key_type: TypeInformation | None
    ) -> None:
        exchange = KeyedExchange(as_selector(key_selector), key_type)
        super().__init__(
            origin._env,
            PartitionTransformation(
                "Partition",
                origin._value_type,
                [origin._values()._transformation],
                partitioner=exchange,
                ship_strategy="HASH",
            ),
        )
        self._origin_stream = origin
        self._selector = key_selector
        self._key_type = key_type

    def get_type(self) -> TypeInformation:
        """Return a row of the key's type and the records' type, as PyFlink does.

        Examples
        --------
        >>> from flinkbuf.common import Types
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> words = env.from_collection(["to", "be"], Types.STRING())
        >>> words.key_by(len, Types.INT()).get_type()
        Types.ROW_NAMED(['f0', 'f1'], [Types.INT(), Types.STRING()])
        """
        return Types.ROW_NAMED(["f0", "f1"], [said(self._key_type), said(self._value_type)])

    def reduce(self, func: Callable[[T, T], object] | ReduceFunction, *, two_phase: bool = False) -> DataStream[T]:
        """Reduce the records of each key, and give what has come together so far for each record.

        Flink's ``KeyedStream.reduce``.

        Parameters
        ----------
        func : callable or ReduceFunction
            Makes one value of two.
        two_phase : bool, default False
            Reduce the records of a key where they are, too, before they are sent to the subtask that has the key: those
            that come within the buffer timeout are sent as one. `func` may be given results of its own in both places,
            so it must not matter in which order values come and how they are put together. In Flink's SQL this is
            TWO_PHASE, in Spark what ``reduceByKey`` does.

        Returns
        -------
        DataStream
            One value for each record, with `two_phase` for what was sent as one; in batch mode one for each key.

        Raises
        ------
        TypeError
            If the function is none.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> env.from_collection([1, 2, 3]).key_by(lambda n: 0).reduce(lambda a, b: a + b).execute_and_collect(limit=3)
        [1, 3, 6]

        Less is sent, and the last result of each key is the same:

        >>> words = env.from_collection(["to", "be", "or", "not", "to", "be"]).map(lambda word: (word, 1))
        >>> counts = words.key_by(lambda pair: pair[0]).reduce(lambda a, b: (a[0], a[1] + b[1]), two_phase=True)
        >>> sorted(dict(counts.execute_and_collect()).items())
        [('be', 2), ('not', 1), ('or', 1), ('to', 2)]
        """
        check_function(func, ReduceFunction, "The input must be a ReduceFunction or a callable function")
        return self._reduce(func, two_phase)

    def sum(self, position_to_sum: int | str = 0, *, two_phase: bool = False) -> DataStream[T]:
        """Add up a field of each key's records, or the records themselves; other fields are the first record's.

        Flink's ``KeyedStream.sum``.

        Parameters
        ----------
        position_to_sum : int or str, default 0
            Of tuples and rows by position, of rows by name; records that are numbers have field 0.
        two_phase : bool, default False
            See `reduce`.

        Returns
        -------
        DataStream
            One record for each; in batch mode one for each key.

        Raises
        ------
        TypeError
            If the field is given by something else.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> pairs = env.from_collection([("a", 1), ("a", 2)]).key_by(lambda pair: pair[0])
        >>> pairs.sum(1).execute_and_collect(limit=2)
        [('a', 1), ('a', 3)]
        """
        return self._accumulate(position_to_sum, KeyedStream.AccumulateType.SUM, two_phase)

    def min(self, position_to_min: int | str = 0, *, two_phase: bool = False) -> DataStream[T]:
        """Keep the least value of a field; other fields are the first record's.

        Flink's ``KeyedStream.min``.

        Parameters
        ----------
        position_to_min : int or str, default 0
            Of tuples and rows by position, of rows by name; records that are numbers have field 0.
        two_phase : bool, default False
            See `reduce`.

        Returns
        -------
        DataStream
            One record for each; in batch mode one for each key.

        Raises
        ------
        TypeError
            If the field is given by something else.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> pairs = env.from_collection([("a", 1), ("a", 2)]).key_by(lambda pair: pair[0])
        >>> pairs.min(1).execute_and_collect(limit=2)
        [('a', 1), ('a', 1)]
        """
        return self._accumulate(position_to_min, KeyedStream.AccumulateType.MIN, two_phase)

    def max(self, position_to_max: int | str = 0, *, two_phase: bool = False) -> DataStream[T]:
        """Keep the greatest value of a field; other fields are the first record's.

        Flink's ``KeyedStream.max``.

        Parameters
        ----------
        position_to_max : int or str, default 0
            Of tuples and rows by position, of rows by name; records that are numbers have field 0.
        two_phase : bool, default False
            See `reduce`.

        Returns
        -------
        DataStream
            One record for each; in batch mode one for each key.

        Raises
        ------
        TypeError
            If the field is given by something else.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> pairs = env.from_collection([("a", 1), ("a", 2)]).key_by(lambda pair: pair[0])
        >>> pairs.max(1).execute_and_collect(limit=2)
        [('a', 1), ('a', 2)]
        """
        return self._accumulate(position_to_max, KeyedStream.AccumulateType.MAX, two_phase)

    def min_by(self, position_to_min_by: int | str = 0, *, two_phase: bool = False) -> DataStream[T]:
        """Keep the first record with the least value of a field.

        Flink's ``KeyedStream.minBy``.

        Parameters
        ----------
        position_to_min_by : int or str, default 0
            Of tuples and rows by position, of rows by name; records that are numbers have field 0.
        two_phase : bool, default False
            See `reduce`.

        Returns
        -------
        DataStream
            One record for each; in batch mode one for each key.

        Raises
        ------
        TypeError
            If the field is given by something else.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> pairs = env.from_collection([("a", 1), ("a", 2)]).key_by(lambda pair: pair[0])
        >>> pairs.min_by(1).execute_and_collect(limit=2)
        [('a', 1), ('a', 1)]
        """
        return self._accumulate(position_to_min_by, KeyedStream.AccumulateType.MIN_BY, two_phase)

    def max_by(self, position_to_max_by: int | str = 0, *, two_phase: bool = False) -> DataStream[T]:
        """Keep the first record with the greatest value of a field.

        Flink's ``KeyedStream.maxBy``.

        Parameters
        ----------
        position_to_max_by : int or str, default 0
            Of tuples and rows by position, of rows by name; records that are numbers have field 0.
        two_phase : bool, default False
            See `reduce`.

        Returns
        -------
        DataStream
            One record for each; in batch mode one for each key.

        Raises
        ------
        TypeError
            If the field is given by something else.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> pairs = env.from_collection([("a", 1), ("a", 2)]).key_by(lambda pair: pair[0])
        >>> pairs.max_by(1).execute_and_collect(limit=2)
        [('a', 1), ('a', 2)]
        """
        return self._accumulate(position_to_max_by, KeyedStream.AccumulateType.MAX_BY, two_phase)

    def process(self, func: KeyedProcessFunction[T, R], output_type: object = None) -> DataStream[R]:  # type: ignore[override]
        """Give all that the function yields; it has state and timers for each key.

        Examples
        --------
        >>> from flinkbuf.common import Types
        >>> from flinkbuf.datastream import KeyedProcessFunction, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> from flinkbuf.datastream.state import ValueStateDescriptor
        >>> class Changes(KeyedProcessFunction):
        ...     def open(self, runtime_context):
        ...         self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.INT()))
        ...     def process_element(self, value, ctx):
        ...         yield ctx.get_current_key(), value[1] - (self.last.value() or 0)
        ...         self.last.update(value[1])
        >>> delays = env.from_collection([("UA", 2), ("AA", 33), ("UA", 4)]).key_by(lambda delay: delay[0])
        >>> delays.process(Changes()).execute_and_collect(limit=3)
        [('UA', 2), ('AA', 33), ('UA', 2)]
        """
        check_is_object(func)
        if not isinstance(func, KeyedProcessFunction):
            raise TypeError(f"KeyedProcessFunction is required for KeyedStream, got {type(func).__name__} {func!r}")
        type_info = declared(output_type)
        return self._keyed("KEYED PROCESS", type_info, KeyedProcessFactory(type_info, func, self._selector))

    def key_by(self, key_selector: Callable[[T], R] | KeySelector, key_type: object = None) -> KeyedStream[R, T]:
        """Key the records by something else.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> flights = env.from_collection([("UA", "JFK", 2), ("AA", "JFK", 33)]).key_by(lambda flight: flight[0])
        >>> by_airport = flights.key_by(lambda flight: flight[1])
        >>> by_airport.max_by(2).execute_and_collect(limit=2)
        [('UA', 'JFK', 2), ('AA', 'JFK', 33)]
        """
        return self._origin_stream.key_by(key_selector, key_type)

    def window(self, window_assigner: WindowAssigner[T, W]) -> WindowedStream[K, T]:
        """Put the records of each key into windows.

        Examples
        --------
        >>> from flinkbuf.common import Time, WatermarkStrategy
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> from flinkbuf.datastream.window import TumblingEventTimeWindows
        >>> times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value[1])
        >>> clicks = env.from_collection([("ann", 100, 1), ("bob", 200, 1), ("ann", 300, 1), ("ann", 1500, 1)])
        >>> by_user = clicks.assign_timestamps_and_watermarks(times).key_by(lambda click: click[0])
        >>> seconds = by_user.window(TumblingEventTimeWindows.of(Time.seconds(1)))
        >>> sorted(seconds.reduce(lambda a, b: (*a[:2], a[2] + b[2])).execute_and_collect())
        [('ann', 100, 2), ('ann', 1500, 1), ('bob', 200, 1)]
        """
        return WindowedStream(self, window_assigner)

    def count_window(self, size: int, slide: int = 0) -> WindowedStream[K, T]:
        """Put so many records of a key into a window; with a slide, begin one after every so many.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> numbers = env.from_collection([1, 2, 3, 4]).key_by(lambda n: "all")
        >>> sums = numbers.count_window(2).reduce(lambda a, b: a + b)
        >>> sums.execute_and_collect(limit=2)
        [3, 7]
        >>> sums_of_two = numbers.count_window(2, 1).reduce(lambda a, b: a + b)  # windows overlap
        >>> sums_of_two.execute_and_collect(limit=3)
        [3, 5, 7]
        """
        assigner = CountTumblingWindowAssigner(size) if slide == 0 else CountSlidingWindowAssigner(size, slide)
        return WindowedStream(self, assigner)

    def interval_join(self, other_stream: KeyedStream[object, R]) -> IntervalJoin[T, R]:
        """Put each record together with those of another keyed stream that have its key and are near in event time.

        Go on with ``.between(lower_bound, upper_bound).process(function)``; see `IntervalJoined`. PyFlink has no such
        method.

        Examples
        --------
        >>> from flinkbuf.common import Duration, WatermarkStrategy
        >>> from flinkbuf.datastream import ProcessJoinFunction, StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> class Delay(ProcessJoinFunction):
        ...     def process_element(self, left, right, ctx):
        ...         yield left[0], right[1] - left[1]
        >>> times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value[1])
        >>> orders = env.from_collection([("tea", 0), ("rum", 1000)]).assign_timestamps_and_watermarks(times)
        >>> parcels = env.from_collection([("tea", 400), ("rum", 9000)]).assign_timestamps_and_watermarks(times)
        >>> both = orders.key_by(lambda order: order[0]).interval_join(parcels.key_by(lambda parcel: parcel[0]))
        >>> list(both.between(Duration.of_millis(0), Duration.of_seconds(5)).process(Delay()).execute_and_collect())
        [('tea', 400)]
        """
        if not isinstance(self._checked_other("interval_join", other_stream), KeyedStream):
            raise TypeError("interval_join needs both streams keyed: call key_by(...) on the other one, too")
        return IntervalJoin(self, other_stream)

    def shuffle(self) -> NoReturn:
        """Raise: records of one key stay together."""
        self._refuse_partitioning()

    def rescale(self) -> NoReturn:
        """Raise: records of one key stay together."""
        self._refuse_partitioning()

    def rebalance(self) -> NoReturn:
        """Raise: records of one key stay together."""
        self._refuse_partitioning()

    def forward(self) -> NoReturn:
        """Raise: records of one key stay together."""
        self._refuse_partitioning()

    def broadcast(self, *args: object) -> NoReturn:
        """Raise: records of one key stay together."""
        self._refuse_partitioning()

    def partition_custom(
        self,
        partitioner: Callable[[R, int], int] | Partitioner,
        key_selector: Callable[[T], R] | KeySelector,
    ) -> NoReturn:
        """Raise: records of one key stay together."""
        self._refuse_partitioning()

    def union(self, *streams: DataStream[T]) -> DataStream[T]:
        """Give the records of all; the result is not keyed.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> evens, odds = (env.from_collection(numbers).key_by(lambda n: n % 10) for numbers in ([2, 12], [1, 11]))
        >>> both = evens.union(odds)
        >>> sorted(both.key_by(lambda n: n % 10).sum().execute_and_collect())  # keyed again: a union is not
        [1, 2, 12, 14]
        """
        return self._values().union(
            *(stream._values() if isinstance(stream, DataStream) else stream for stream in streams)
        )

    def project(self, *field_indexes: int) -> DataStream[Any]:
        """Keep some fields of tuples; the result is not keyed.

        Examples
        --------
        >>> from flinkbuf.common import Types
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> flight = Types.TUPLE([Types.STRING(), Types.STRING(), Types.INT()])
        >>> flights = env.from_collection([("UA", "JFK", 2)], flight)
        >>> flights.key_by(lambda flight: flight[0]).project(2, 1).execute_and_collect(limit=1)
        [(2, 'JFK')]
        """
        return self._values().project(*field_indexes)

    @property
    def _key_selector(self) -> Callable[[T], object] | KeySelector | None:
        return self._selector

    def _values(self) -> DataStream[T]:
        return DataStream(self._env, self._transformation)

    def _call(
        self, name: str, kind: str, function: object, type_info: TypeInformation | None, *, converts: bool = True
    ) -> DataStream[R]:
        """As on any stream; a function that can be opened may use keyed state, so it has the key set."""
        if not isinstance(function, Function):
            return super()._call(name, kind, function, type_info, converts=converts)
        factory = FunctionFactory(type_info if converts else None, kind, function, self._selector)
        return self._keyed(name, type_info, factory)

    def _keyed(self, name: str, type_info: TypeInformation | None, factory: OperatorFactory) -> DataStream[R]:
        return self._transform(name, type_info, factory, is_keyed=True, key_type=self._key_type)

    def _meet(
        self, other: DataStream[object], name: str, type_info: TypeInformation | None, factory: OperatorFactory
    ) -> DataStream[R]:
        """Where only one of both says the type of its key, the other one has that, too: equal keys have to meet."""
        if not isinstance(other, KeyedStream):
            return super()._meet(other, name, type_info, factory)
        one, first, second = self, self._key_type, other._key_type
        if None not in (first, second) and first != second:
            raise ValueError(f"The keys for the two inputs are not equal: first key = {first}, second key = {second}")
        if first is None and second is not None:
            one = self._origin_stream.key_by(self._selector, second)
        elif second is None and first is not None:
            other = other._origin_stream.key_by(other._selector, first)
        return one._join([one, other], name, type_info, factory, is_keyed=True, key_type=one._key_type)

    def _refuse_partitioning(self) -> NoReturn:
        raise RuntimeError("Cannot override partitioning for KeyedStream.")

    def _accumulate(self, position: int | str, kind: KeyedStream.AccumulateType, two_phase: bool) -> DataStream[T]:
        if isinstance(position, bool) or not isinstance(position, (int, str)):
            raise TypeError(
                "The field position must be of int or str type to locate the value to calculate for min, max, min_by, "
                f"max_by and sum. The given type is: {type(position)}"
            )
        return self._reduce(field_reduce(kind.name.lower(), position), two_phase)

    def _reduce(self, function: ReduceFunction | Callable[..., object], two_phase: bool) -> DataStream[T]:
        keyed: KeyedStream[Any, Any] = self
        type_info = self._value_type
        factory = ReduceOperatorFactory(as_selector(self._selector), function, type_info)
        if two_phase:
            combining = factory.combining(self._key_type, self._env.get_buffer_timeout())
            keyed = self._combined(combining, type_info)
            factory = ReduceOperatorFactory(COMBINED_KEY, function, type_info, is_combined=True)
        return keyed._keyed("Reduce", type_info, MadeBy(type_info, factory))

    def _combined(
        self, factory: CombiningOperatorFactory, value_type: TypeInformation | None
    ) -> KeyedStream[K, tuple[K, int, Any]]:
        """Return what is combined of the records of each key, where they are, before it is sent."""
        types = [self._key_type, Types.LONG(), value_type]
        type_info = None if None in types else Types.TUPLE(types)
        origin = _operator_behind(self._origin_stream._transformation)
        combined = self._origin_stream._transform("Combine", type_info, MadeBy(None, factory), needs_uid=False)
        if origin is not None:  # or records would go another way before
            combined._transformation.parallelism = origin.parallelism
            combined._transformation.is_parallelism_configured = origin.is_parallelism_configured
        return KeyedStream(combined, COMBINED_KEY, self._key_type)


class CachedDataStream(_NoOperator[T]):
    """A stream that a batch job would keep for later jobs; made by ``cache``. Flink's ``CachedDataStream``.

    Examples
    --------
    >>> from flinkbuf.datastream import StreamExecutionEnvironment
    >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    >>> cached = env.from_collection([1, 2]).map(lambda n: n * n).cache()
    >>> cached.execute_and_collect(limit=2)
    [1, 4]
    >>> cached.invalidate()
    """

    def invalidate(self) -> None:
        """Forget what was kept; streaming jobs keep nothing.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> squares = env.from_collection([1, 2]).map(lambda n: n * n).cache()
        >>> squares.invalidate()
        >>> squares.execute_and_collect(limit=2)  # computed, as before
        [1, 4]
        """


class _Projection:
    """Some fields of a tuple."""

    def __init__(self, field_indexes: tuple[int, ...]) -> None:
        self.field_indexes = field_indexes

    def __call__(self, value: tuple[T, ...]) -> tuple[T, ...]:
        return tuple([value[index] for index in self.field_indexes])


def _identity(value: R) -> R:
    return value


def _operator_behind(transformation: Transformation) -> OperatorTransformation | None:
    """Return the operator that a stream's records stay beside, of several one of the highest parallelism.

    None: the stream says that they go elsewhere.
    """
    if isinstance(transformation, OperatorTransformation):
        return transformation
    if isinstance(transformation, PartitionTransformation) and transformation.partitioner != "forward":
        return None
    found = [_operator_behind(given) for given in transformation.inputs]
    known = [each for each in found if each is not None]
    return max(known, key=lambda each: each.parallelism or 0) if len(known) == len(found) else None


def _parallelism_of(transformation: Transformation) -> int | None:
    """Of the operator whose records a stream has; of several, the highest."""
    if isinstance(transformation, OperatorTransformation):
        return transformation.parallelism
    found = [_parallelism_of(given) for given in transformation.inputs]
    return max(each for each in found if each is not None) if all(found) else None
