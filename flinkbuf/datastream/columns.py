"""Streams of column batches, and the aggregates that they know. PyFlink has no such thing.

A column stream is made of a stream of records by ``as_columns``, or of one whose records are Arrow batches already.
What is columns stays columns: filters and computed columns are evaluated by pyarrow or polars, keys, windows and
aggregates in C, and no Python object is made for a row before ``as_records``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from flinkbuf.datastream.arguments import check_function, check_is_object
from flinkbuf.datastream.data_stream_sink import CloseableIterator
from flinkbuf.datastream.joined_streams import JoinedColumnStreams, sliced_windows_of
from flinkbuf.datastream.program.column_factories import (
    AsRecordsFactory,
    ColumnAggregateFactory,
    ColumnCountFactory,
    ColumnFunctionFactory,
    ColumnRanksFactory,
    ColumnSessionFactory,
    ColumnTimestampsFactory,
    ColumnWindowFactory,
    KeyedBatchFactory,
)
from flinkbuf.runtime.graph.transformation import (
    ColumnKeyExchange,
    PartitionTransformation,
    SideOutputTransformation,
)
from flinkbuf.streaming.chain.functions import MapBatchFunction, as_call
from flinkbuf.streaming.chain.output_tag import OutputTag
from flinkbuf.streaming.columns.aggregate_function import ColumnAggregateFunction
from flinkbuf.streaming.columns.aggregates import WINDOW_END, WINDOW_START, Aggregate
from flinkbuf.streaming.columns.column_functions import check_expression
from flinkbuf.streaming.columns.column_value_state import ColumnValueState
from flinkbuf.streaming.columns.keyed_batch_function import KeyedBatchContext, KeyedBatchFunction
from flinkbuf.streaming.columns.ranked_rows import MAX_ORDERS, RankedRows
from flinkbuf.streaming.columns.sliced_windows import SlicedWindows
from flinkbuf.streaming.sinks.collect import BATCHES_CAPACITY, Collector
from flinkbuf.streaming.sinks.sink import Sink, SupportsPreprocessing
from flinkbuf.streaming.sinks.sink_factories import CollectBatchesFactory
from flinkbuf.streaming.time.watermark_strategy import WatermarkStrategy
from flinkbuf.streaming.windows.assigner import WindowAssigner
from flinkbuf.streaming.windows.count_windows import CountSlidingWindowAssigner, CountTumblingWindowAssigner
from flinkbuf.streaming.windows.session_windows import EventTimeSessionWindows

if TYPE_CHECKING:
    import pyarrow as pa

    from flinkbuf.datastream.data_stream import DataStream
    from flinkbuf.datastream.data_stream_sink import DataStreamSink
    from flinkbuf.datastream.program.operator_factories import OperatorFactory
    from flinkbuf.records.column_batch import ColumnBatch

__all__ = [
    "ColumnAggregateFunction",
    "ColumnStream",
    "ColumnValueState",
    "JoinedColumnStreams",
    "KeyedBatchContext",
    "KeyedBatchFunction",
    "KeyedColumnStream",
    "WindowedColumnStream",
    "collect",
    "count",
    "count_distinct",
    "first",
    "last",
    "max_",
    "max_by",
    "mean",
    "min_",
    "min_by",
    "stddev",
    "sum_",
    "window_end",
    "window_start",
]


class ColumnStream:
    """A stream whose elements are batches of rows, as Arrow columns; made by ``DataStream.as_columns``.

    Wherever a method asks what a column is, the name of one will do, an expression of ``pyarrow.compute`` or polars, or
    a function that takes a ``pyarrow.RecordBatch`` and gives a column.

    Examples
    --------
    >>> import pyarrow.compute as pc
    >>> from flinkbuf.datastream import StreamExecutionEnvironment
    >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    >>> bids = env.from_collection([(1, 20.0), (2, 5.0), (1, 30.0)]).as_columns("auction bigint, price double")
    >>> high = bids.filter(pc.field("price") > 10)
    >>> high = high.select("auction", euro=lambda batch: pc.multiply(batch["price"], 0.5))
    >>> high.execute_and_collect(limit=2)
    [Row(auction=1, euro=10.0), Row(auction=1, euro=15.0)]
    """

    def __init__(
        self, stream: DataStream[object], description: object = None, find_schema: Callable[[], pa.Schema] | None = None
    ) -> None:
        self._stream = stream
        self._description = description  # of its rows as records; None: known when they come
        self._find_schema = find_schema  # None: of the description
        self._find_schemas: tuple[Callable[[], pa.Schema], ...] = (self.schema,)  # one of each stream of a union

    def __repr__(self) -> str:
        return f"<ColumnStream {self._stream.get_name()!r}>"

    def _apply(
        self,
        name: str,
        function: Callable[[ColumnBatch], Iterable[ColumnBatch]],
        description: object = None,
        lifecycle: object = None,
    ) -> ColumnStream:
        from flinkbuf.streaming.columns.column_functions import schema_behind

        factory = ColumnFunctionFactory(None, function, lifecycle)
        stream = self._stream._transform(name, self._stream._value_type, factory)
        made = ColumnStream(stream, description, lambda: schema_behind(function, self.schema()))
        made._find_schemas = tuple(partial(_sure_schema_behind, function, find) for find in self._find_schemas)
        return made

    def _alike(self, stream: DataStream[object]) -> ColumnStream:
        """Return a stream of the same rows."""
        made = ColumnStream(stream, self._description, self.schema)
        made._find_schemas = self._find_schemas
        return made

    def schema(self) -> pa.Schema:
        """Return the names and types of its columns: a ``pyarrow.Schema``.

        Functions are called with a batch without rows to find them.

        Raises
        ------
        Exception
            What such a function raises.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> pairs = env.from_collection([(1, 2)]).as_columns("k int, n int")
        >>> pairs.key_by("k").aggregate(total=sum_("n"), mean=mean("n")).schema()
        k: int32
        total: int64
        mean: double
        """
        if self._find_schema is not None:
            return self._find_schema()
        from flinkbuf.records.arrow_batches import arrow_schema

        return arrow_schema(self._description)

    # --- what it is

    def name(self, name: str) -> ColumnStream:
        """Say what its operator is called in plans, metrics and errors.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> env.from_collection([(1,)]).as_columns("n int").drop().name("nothing dropped")
        <ColumnStream 'nothing dropped'>
        """
        self._stream.name(name)
        return self

    def uid(self, uid: str) -> ColumnStream:
        """Give its operator an id by which its state is found again after the program was changed.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> numbers = env.from_collection([(1, 2)]).as_columns("k int, n int").uid("numbers")
        >>> numbers.key_by("k").aggregate(n=sum_("n")).uid("sums").execute_and_collect(limit=1)
        [Row(k=1, n=2)]
        """
        self._stream.uid(uid)
        return self

    def set_parallelism(self, parallelism: int) -> ColumnStream:
        """Set how many subtasks its operator has; -1: the environment's default.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> pairs = env.from_collection([(1, 2), (3, 4)]).as_columns("k int, n int")
        >>> sums = pairs.key_by("k").aggregate(n=sum_("n")).set_parallelism(2)
        >>> sorted(sums.execute_and_collect(limit=2))
        [Row(k=1, n=2), Row(k=3, n=4)]
        """
        self._stream.set_parallelism(parallelism)
        return self

    def set_max_parallelism(self, max_parallelism: int) -> ColumnStream:
        """Set the number of its operator's key groups: the most subtasks that its state can ever be spread over.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> pairs = env.from_collection([(1, 2)]).as_columns("k int, n int")
        >>> pairs.key_by("k").aggregate(n=sum_("n")).set_max_parallelism(4).execute_and_collect(limit=1)
        [Row(k=1, n=2)]
        """
        self._stream.set_max_parallelism(max_parallelism)
        return self

    # --- rows

    def filter(self, predicate: object) -> ColumnStream:
        """Keep the rows for which a column of booleans is true; null counts as false.

        Examples
        --------
        >>> import pyarrow.compute as pc
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> numbers = env.from_collection([(1,), (2,), (3,)]).as_columns("n int")
        >>> numbers.filter(pc.field("n") != 2).execute_and_collect(limit=3)
        [Row(n=1), Row(n=3)]
        """
        from flinkbuf.streaming.columns.column_functions import FilterRows

        check_expression("the predicate of filter()", predicate)
        made = self._apply("Filter", FilterRows(predicate), self._description)
        made._find_schemas = self._find_schemas  # for which no predicate has to be called
        return made

    def select(self, *names: str, **columns: object) -> ColumnStream:
        """Make rows of these columns: those that are named, then those that are computed, under their new names.

        Examples
        --------
        >>> import pyarrow.compute as pc
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> numbers = env.from_collection([(1, 2)]).as_columns("a int, b int")
        >>> numbers.select("b", c="a", d=pc.field("a") + pc.field("b")).execute_and_collect(limit=1)
        [Row(b=2, c=1, d=3)]
        """
        from flinkbuf.streaming.columns.column_functions import SelectColumns

        if not names and not columns:
            raise ValueError("select() needs a column; rows without any would be no rows")
        return self._apply("Select", SelectColumns(_named(names, columns, "select()")))

    def with_columns(self, **columns: object) -> ColumnStream:
        """Add columns, or put others in the place of those that have these names.

        Examples
        --------
        >>> import pyarrow.compute as pc
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> numbers = env.from_collection([(1, 2)]).as_columns("a int, b int")
        >>> numbers.with_columns(b=pc.field("b") * 10, c="a").execute_and_collect(limit=1)
        [Row(a=1, b=20, c=1)]
        """
        from flinkbuf.streaming.columns.column_functions import SelectColumns

        return self._apply("WithColumns", SelectColumns(_named((), columns, "with_columns()"), keeps=True))

    def drop(self, *names: str) -> ColumnStream:
        """Leave columns out.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> env.from_collection([(1, 2)]).as_columns("a int, b int").drop("a").execute_and_collect(limit=1)
        [Row(b=2)]
        """
        from flinkbuf.streaming.columns.column_functions import DropColumns

        return self._apply("Drop", DropColumns(names))

    def rename(self, **names: str) -> ColumnStream:
        """Give columns other names: ``rename(old="new")``.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> env.from_collection([(1, 2)]).as_columns("a int, b int").rename(a="c").execute_and_collect(limit=1)
        [Row(c=1, b=2)]
        """
        from flinkbuf.streaming.columns.column_functions import RenameColumns

        return self._apply("Rename", RenameColumns(tuple(names.items())))

    def map_batches(self, function: Callable[[pa.RecordBatch], object]) -> ColumnStream:
        """Call a function with each batch; it gives a row for each row, in their order, which keeps its timestamp.

        Parameters
        ----------
        function : callable or MapBatchFunction
            As for `DataStream.map_batches`.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> numbers = env.from_collection([(1,), (2,)]).as_columns("n bigint")
        >>> numbers.map_batches(lambda batch: {"m": batch["n"].to_numpy() * 2}).execute_and_collect(limit=2)
        [Row(m=2), Row(m=4)]
        """
        from flinkbuf.streaming.columns.column_functions import MapRows

        return self._apply("MapBatches", MapRows(_batch_function(function, "map_batches()")), lifecycle=function)

    def flat_map_batches(self, function: Callable[[pa.RecordBatch], object]) -> ColumnStream:
        """Call a function with each batch; it gives any rows, which all have the latest timestamp of the batch.

        Examples
        --------
        >>> import pyarrow as pa
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> numbers = env.from_collection([(1,), (2,)]).as_columns("n bigint")
        >>> twice = numbers.flat_map_batches(lambda batch: pa.concat_batches([batch, batch]))
        >>> sorted(twice.execute_and_collect(limit=4))
        [Row(n=1), Row(n=1), Row(n=2), Row(n=2)]
        """
        from flinkbuf.streaming.columns.column_functions import FlatMapRows

        function_of_rows = FlatMapRows(_batch_function(function, "flat_map_batches()"))
        return self._apply("FlatMapBatches", function_of_rows, lifecycle=function)

    def assign_timestamps_and_watermarks(
        self, column: str, watermark_strategy: WatermarkStrategy | None = None
    ) -> ColumnStream:
        """Give each row its event time out of a column, and the stream its watermarks.

        Parameters
        ----------
        column : str
            Integers, milliseconds since 1970, or timestamps.
        watermark_strategy : WatermarkStrategy, optional
            By default that of timestamps in order. A batch counts as one record, with its latest timestamp.

        Examples
        --------
        >>> from flinkbuf.common import Time
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> from flinkbuf.datastream.window import TumblingEventTimeWindows
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> bids = env.from_collection([(1, 500), (1, 900), (1, 1500)]).as_columns("auction int, at bigint")
        >>> windows = bids.assign_timestamps_and_watermarks("at").key_by("auction").window(
        ...     TumblingEventTimeWindows.of(Time.seconds(1)))
        >>> windows.aggregate(bids=count()).execute_and_collect(limit=2)
        [Row(auction=1, bids=2), Row(auction=1, bids=1)]
        """
        if watermark_strategy is None:
            watermark_strategy = WatermarkStrategy.for_monotonous_timestamps()
        elif not isinstance(watermark_strategy, WatermarkStrategy):
            raise TypeError(
                f"a WatermarkStrategy is needed, got {type(watermark_strategy).__name__} {watermark_strategy!r}"
            )
        factory = ColumnTimestampsFactory(None, column, watermark_strategy)
        return self._alike(self._stream._transform("Timestamps/Watermarks", self._stream._value_type, factory))

    def union(self, *streams: ColumnStream) -> ColumnStream:
        """Give the rows of all, in any order.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> one, two = (env.from_collection([(n,)]).as_columns("n int") for n in (1, 2))
        >>> sorted(one.union(two).execute_and_collect(limit=2))
        [Row(n=1), Row(n=2)]
        """
        for each in streams:
            if not isinstance(each, ColumnStream):
                raise TypeError(f"union() of a column stream takes column streams, got {each!r:.80}; say as_columns()")
        alike = all(each._description == self._description for each in streams)
        united = self._stream.union(*(each._stream for each in streams))
        made = ColumnStream(united, self._description if alike else None, self.schema)
        made._find_schemas = tuple(find for each in (self, *streams) for find in each._find_schemas)
        return made

    def rebalance(self) -> ColumnStream:
        """Send each batch to the next subtask in turn.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> numbers = env.from_collection([(1,), (2,)]).as_columns("n int").rebalance()
        >>> sorted(numbers.with_columns(m="n").set_parallelism(2).execute_and_collect(limit=2))
        [Row(n=1, m=1), Row(n=2, m=2)]
        """
        return self._alike(self._stream.rebalance())

    # --- by key

    def key_by(self, *names: str) -> KeyedColumnStream:
        """Have rows with equal values in these columns meet in one subtask. A key of one column must not be null.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> flights = env.from_collection([("UA", "EWR", 3), ("UA", "EWR", 4)]).as_columns("c string, o string, n int")
        >>> flights.key_by("c", "o").aggregate(n=sum_("n")).execute_and_collect(limit=1)
        [Row(c='UA', o='EWR', n=7)]
        """
        if not names:
            raise ValueError("key_by() needs the name of a column; compute one with with_columns() first")
        for name in names:
            if not isinstance(name, str):
                raise TypeError(
                    f"key_by() of a column stream takes names of columns, got {type(name).__name__} {name!r:.80}; "
                    "compute a key with with_columns(), then key by its name"
                )
            if names.count(name) > 1:
                raise ValueError(f"key_by() is told of the column {name!r} twice")
        _check_keys_of_union(self, names)
        return KeyedColumnStream(self, names)

    def window_all(self, window_assigner: WindowAssigner[Any, Any]) -> WindowedColumnStream:
        """Cut all rows into windows, in one subtask; see `KeyedColumnStream.window`. Results have no columns of a key.

        What can be put together beforehand is better put together by key: a window by key, and one over all behind it.

        Examples
        --------
        >>> from flinkbuf.common import Time
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> from flinkbuf.datastream.window import TumblingEventTimeWindows
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> bids = env.from_collection([(1, 9, 500), (2, 7, 600)]).as_columns("auction int, price int, at bigint")
        >>> windows = bids.assign_timestamps_and_watermarks("at").window_all(
        ...     TumblingEventTimeWindows.of(Time.seconds(1)))
        >>> windows.aggregate(bids=count(), best=max_("price")).execute_and_collect(limit=1)
        [Row(bids=2, best=9)]
        """
        return WindowedColumnStream(KeyedColumnStream(self, ()), window_assigner)

    # --- the way out

    def as_records(self, type: object = None) -> DataStream[Any]:
        """Make records of the rows, for what follows record by record.

        Parameters
        ----------
        type : TypeInformation, DDL, pyspark StructType or pyarrow schema, optional
            Of the records. By default that of ``as_columns`` where the columns are still those; else records are the
            `Row` that each batch's own schema says, and the stream has no declared type.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> numbers = env.from_collection([(1,), (2,)]).as_columns("n int").as_records()
        >>> numbers.map(lambda row: row.n + 1).execute_and_collect(limit=2)
        [2, 3]
        """
        from flinkbuf.datastream.arguments import declared_rows

        description = self._description if type is None else type
        factory = AsRecordsFactory(None, description)
        return self._stream._transform("AsRecords", declared_rows(description), factory)

    def get_side_output(self, output_tag: OutputTag) -> ColumnStream:
        """Give the rows that its operator sent to this tag, such as those that came too late for their windows.

        Examples
        --------
        >>> from flinkbuf.common import Time
        >>> from flinkbuf.datastream import OutputTag, StreamExecutionEnvironment
        >>> from flinkbuf.datastream.window import TumblingEventTimeWindows
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> bids = env.from_collection([(1, 500)]).as_columns("auction int, at bigint")
        >>> windows = bids.assign_timestamps_and_watermarks("at").key_by("auction").window(
        ...     TumblingEventTimeWindows.of(Time.seconds(1)))
        >>> counts = windows.side_output_late_data(OutputTag("late")).aggregate(bids=count())
        >>> counts.get_side_output(OutputTag("late")).execute_and_collect(limit=1)
        []
        """
        stream, tag = self._stream, _tag_of(output_tag)
        stream._env._note_side_output(stream._operator("get_side_output"), tag, stream._value_type)
        side = SideOutputTransformation("SideOutput", stream._value_type, [stream._transformation], output_tag=tag)
        return ColumnStream(type(stream)(stream._env, side))

    def sink_to(self, sink: Sink) -> DataStreamSink:
        """Write the rows with a `Sink` of ``flinkbuf.datastream.connectors``.

        A `FileSink` of Parquet takes the batches as they are, by the names of their columns, if its buckets and its
        rolling policy do not depend on records, and so does a sink of yours that says so by `Sink.of_columns`. Others
        are given records.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> from flinkbuf.common import Encoder
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> from flinkbuf.datastream.connectors.file_system import FileSink
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> folder = tempfile.mkdtemp()
        >>> numbers = env.from_collection([(1,)]).as_columns("n int")
        >>> _ = numbers.sink_to(FileSink.for_row_format(folder, Encoder.simple_string_encoder()).build())
        >>> _ = env.execute()
        >>> [path.read_text() for path in pathlib.Path(folder).rglob("part-*")]
        ['+I[1]\\n']
        """
        wants_another = isinstance(sink, SupportsPreprocessing) and sink.get_transformer() is not None
        of_columns = None
        if isinstance(sink, Sink) and not wants_another:
            # What functions give is known without a run, too, but they would be called for it.
            of_columns = sink.of_columns(self.schema() if self._find_schema is None else None)
        if of_columns is None:
            return self.as_records().sink_to(sink)
        return self._stream._write_with(of_columns, takes_batches=True)

    def print(self, sink_identifier: str | None = None) -> DataStreamSink:
        """Print each row to the standard output, as `DataStream.print` does.

        Examples
        --------
        >>> from flinkbuf.common import Configuration
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> embedded = Configuration().set_string("execution.target", "embedded")  # as threads of this process
        >>> env = StreamExecutionEnvironment.get_execution_environment(embedded).set_parallelism(1)
        >>> _ = env.from_collection([(1,), (2,)]).as_columns("n int").print("rows")
        >>> _ = env.execute()
        rows> +I[1]
        rows> +I[2]
        """
        return self.as_records().print(sink_identifier)

    def execute_and_collect(self, job_execution_name: str | None = None, limit: int | None = None) -> Any:
        """Execute the program and give the rows as records: as they come, or a list of at most `limit`.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> env.from_collection([(1,), (2,)]).as_columns("n int").execute_and_collect(limit=1)
        [Row(n=1)]
        """
        records = self.as_records()
        if limit is None:
            return records.execute_and_collect(job_execution_name)
        return records.execute_and_collect(job_execution_name, limit)

    def execute_and_collect_batches(self, job_execution_name: str | None = None) -> CloseableIterator[pa.RecordBatch]:
        """Execute the program and give the rows as ``pyarrow.RecordBatch`` objects, as they come.

        Otherwise it does what `execute_and_collect` does.

        Examples
        --------
        >>> import pyarrow as pa
        >>> import pyarrow.compute as pc
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> numbers = env.from_collection(pa.table({"n": [1, 2, 3]})).as_columns()
        >>> halves = numbers.with_columns(half=pc.field("n") / 2.0)
        >>> with halves.execute_and_collect_batches() as batches:
        ...     table = pa.Table.from_batches(batches, halves.schema())
        >>> table.to_pydict()
        {'n': [1, 2, 3], 'half': [0.5, 1.0, 1.5]}
        """
        name = job_execution_name or "DataStream Collect"
        return CloseableIterator(self._stream._env._collected(self, name, BATCHES_CAPACITY))

    def _collect_to(self, collector: Collector) -> None:
        """Add a sink of one subtask that hands the batches to the program."""
        self._stream._sink("Data stream collect sink", CollectBatchesFactory(collector)).set_parallelism(1)

    def to_data_frame(self, schema: object = None) -> Any:
        """Give Spark the rows, as a DataFrame; see `DataStream.to_data_frame`.

        Parameters
        ----------
        schema : pyspark.sql.types.DataType or str, optional
            Of the columns, which are found by their names; by default those of `schema`.

        Examples
        --------
        >>> flights = env.from_data_frame(df).as_columns()  # doctest: +SKIP
        >>> flights.key_by("carrier").aggregate(delay=mean("delay")).to_data_frame().show()  # doctest: +SKIP
        """
        from flinkbuf.datastream.arguments import of_spark

        if schema is None:
            schema = of_spark("frames.schema").struct_type_of_arrow(self.schema())
        made = of_spark("stage.to_spark").columns_to_data_frame(self._stream, schema)
        return self.as_records(schema).to_data_frame(schema) if made is None else made


class KeyedColumnStream:
    """A column stream whose rows are told apart by columns; made by ``key_by``.

    Examples
    --------
    >>> from flinkbuf.datastream import StreamExecutionEnvironment
    >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    >>> env.from_collection([(1, 2)]).as_columns("k int, n int").key_by("k")
    <KeyedColumnStream by k>
    """

    def __init__(self, origin: ColumnStream, names: tuple[str, ...]) -> None:
        self._names = names  # none: of window_all
        self._origin = origin
        self._stream = self._exchanged()

    def __repr__(self) -> str:
        return f"<KeyedColumnStream by {', '.join(self._names)}>"

    def _exchanged(self, gathers: bool = False) -> DataStream[Any]:
        """Return the rows by key; `gathers`: for what gives the same rows whatever batches they come in."""
        stream = self._origin._stream
        exchange = PartitionTransformation(
            "Partition",
            stream._value_type,
            [stream._transformation],
            partitioner=ColumnKeyExchange(self._names, gathers),
            ship_strategy="HASH" if self._names else "GLOBAL",
        )
        return type(stream)(stream._env, exchange)

    def window(self, window_assigner: WindowAssigner[Any, Any]) -> WindowedColumnStream:
        """Cut the rows of each key into windows: of event time, tumbling, sliding or cumulating ones, or sessions.

        Parameters
        ----------
        window_assigner : WindowAssigner
            ``TumblingEventTimeWindows``, ``SlidingEventTimeWindows``, ``CumulatingEventTimeWindows``,
            ``EventTimeSessionWindows`` with one gap for all rows, or what `count_window` makes.

        Raises
        ------
        TypeError
            For other assigners, those that are derived from these among them.

        Examples
        --------
        >>> from flinkbuf.common import Time
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> from flinkbuf.datastream.window import SlidingEventTimeWindows
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> bids = env.from_collection([(1, 500), (1, 1500)]).as_columns("auction int, at bigint")
        >>> windows = bids.assign_timestamps_and_watermarks("at").key_by("auction").window(
        ...     SlidingEventTimeWindows.of(Time.seconds(2), Time.seconds(1)))
        >>> windows.aggregate(bids=count()).execute_and_collect(limit=3)
        [Row(auction=1, bids=1), Row(auction=1, bids=2), Row(auction=1, bids=1)]
        """
        return WindowedColumnStream(self, window_assigner)

    def count_window(self, size: int, slide: int = 0) -> WindowedColumnStream:
        """Put so many rows of a key into a window, which gives its result when it is full.

        Rows that are left over at the end give none. Results have the latest timestamp that there is, as those of
        `KeyedStream.count_window` have.

        Parameters
        ----------
        size : int
        slide : int, default 0
            One window begins at every so many rows of a key, so that they overlap; 0: at every `size`.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> bids = env.from_collection([(1, 20), (2, 5), (1, 30), (1, 40), (2, 7)]).as_columns("auction int, price int")
        >>> pairs = bids.key_by("auction").count_window(2)
        >>> pairs.aggregate(total=sum_("price")).execute_and_collect(limit=2)
        [Row(auction=1, total=50), Row(auction=2, total=12)]
        >>> bids.key_by("auction").count_window(2, 1).aggregate(total=sum_("price")).execute_and_collect(limit=3)
        [Row(auction=1, total=50), Row(auction=1, total=70), Row(auction=2, total=12)]
        """
        for name, value in (("size", size), ("slide", slide)):
            if isinstance(value, bool) or not isinstance(value, int):
                raise TypeError(f"the {name} of count_window() is a number of rows, got {value!r:.80}")
        assigner = CountTumblingWindowAssigner(size) if slide == 0 else CountSlidingWindowAssigner(size, slide)
        return WindowedColumnStream(self, assigner)

    def aggregate(self, *, row_kind: str | None = None, **aggregates: Aggregate) -> ColumnStream:
        """Give, for each batch, the keys that it has changed with what has come together so far; in batch mode each
        key once.

        Parameters
        ----------
        row_kind : str, optional
            The name of a last column that says what a row does to a table of the results by key: ``+I`` adds a key,
            ``+U`` takes the place of the row that the key has. What it was before is not given. By default, there is
            no such column.
        **aggregates : Aggregate
            What ``count()``, ``sum_(column)`` and their like give, or a `ColumnAggregateFunction`, by the name of the
            result's column.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> delays = env.from_collection([("UA", 2.0), ("AA", 33.0), ("UA", 4.0)]).as_columns("c string, d double")
        >>> sorted(delays.key_by("c").aggregate(flights=count(), mean=mean("d")).execute_and_collect(limit=2))
        [Row(c='AA', flights=1, mean=33.0), Row(c='UA', flights=2, mean=3.0)]
        """
        checked = _checked_aggregates(aggregates, self._names)
        if any(each.is_of_window for _, each in checked):
            raise ValueError("window_start() and window_end() are of a window: call window(...) before aggregate()")
        _check_names("aggregate()", (*self._names, *aggregates), row_kind=row_kind)
        stream = self._transform("Aggregate", checked, ColumnAggregateFactory(None, self._names, checked, row_kind))
        return ColumnStream(stream._stream, None, _with_columns(stream.schema, row_kind=row_kind))

    def deduplicate(self, keep: str = "first", by: object = None, *, row_kind: str | None = None) -> ColumnStream:
        """Give one row of each key: the first or the last, in the order in which they came or by a column.

        The first row to come is given when it comes, and of what was given only the key is kept. Otherwise each batch
        gives the keys whose row is another one now, and batch mode each key once. A row keeps its timestamp.

        Parameters
        ----------
        keep : {"first", "last"}
        by : str, expression or callable, optional
            Where this is lowest is the first row, where it is highest the last; null is less than every value. Of rows
            where it is equal, the first or the last to come.
        row_kind : str, optional
            The name of a last column: ``+I`` for the first row of a key, ``+U`` for one in the place of another.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> rows = [(1, "a", 20), (2, "b", 30), (1, "c", 10), (1, "d", 20)]
        >>> orders = env.from_collection(rows).as_columns("id int, what string, at int").key_by("id")
        >>> orders.deduplicate().execute_and_collect(limit=2)
        [Row(id=1, what='a', at=20), Row(id=2, what='b', at=30)]
        >>> orders.deduplicate("last", by="at", row_kind="kind").execute_and_collect(limit=2)
        [Row(id=1, what='d', at=20, kind='+I'), Row(id=2, what='b', at=30, kind='+I')]
        """
        ranked = None if keep == "first" and by is None else _one_row(keep, by)
        return self._first_rows("Deduplicate", ranked, row_kind)

    def top(
        self,
        n: int,
        by: object,
        descending: bool | Sequence[bool] = True,
        *,
        rank: str | None = None,
        row_kind: str | None = None,
    ) -> ColumnStream:
        """Give the first `n` rows of each key by an order, as they change; no others are kept.

        Each batch gives, of the keys that it has changed, with `rank` the ranks that have another row now, and without
        it the rows that have come in. Batch mode gives the rows of each key once. A row keeps its timestamp. Of rows
        where all of `by` is equal, the one that came first is before the others.

        Parameters
        ----------
        n : int
        by : str, expression or callable, or a sequence of them
            What rows are ordered by; where the first is equal, the next one counts. Null is less than every value, and
            NaN the greatest number.
        descending : bool or sequence of bool, default True
            Whether the greatest comes first: of all in `by`, or of each.
        rank : str, optional
            The name of a column behind those of the row, with its rank, from 1 on.
        row_kind : str, optional
            The name of a last column. With `rank`, or one row for each key: ``+I`` for a rank that is new, ``+U`` where
            another row takes it. Otherwise ``+I`` for a row that comes in, and ``-D`` for one that falls out, which is
            given then, too.

        Examples
        --------
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> bids = env.from_collection([(1, 20), (1, 50), (2, 5), (1, 30)]).as_columns("auction int, price int")
        >>> bids.key_by("auction").top(2, by="price", rank="rank").execute_and_collect(limit=3)
        [Row(auction=1, price=50, rank=1), Row(auction=1, price=30, rank=2), Row(auction=2, price=5, rank=1)]
        """
        return self._first_rows("Top", _top_rows(n, by, descending, rank), row_kind)

    def _first_rows(self, name: str, ranked: RankedRows | None, row_kind: str | None) -> ColumnStream:
        rank = None if ranked is None else ranked.rank
        _check_names(f"{name.lower()}()", (), rank=rank, row_kind=row_kind)
        factory = ColumnRanksFactory(None, self._names, ranked, row_kind)
        stream = self._stream._transform(name, self._stream._value_type, factory, is_keyed=True)
        return ColumnStream(stream, None, _with_columns(self._origin.schema, rank=rank, row_kind=row_kind))

    def join(self, other: KeyedColumnStream, how: str = "inner") -> JoinedColumnStreams:
        """Put rows together with those of another keyed column stream whose keys are equal.

        Go on with ``.window(assigner)``, ``.between(lower, upper)`` or ``.time_to_live(time)``, each of which gives a
        column stream: the columns of the left row, which is this stream's, then those of the right one. Keys are equal
        if their columns are, one by one, whatever they are called; a null in a key of several columns equals a null.

        Parameters
        ----------
        other : KeyedColumnStream
            By as many columns, of the same types.
        how : str, default "inner"
            "inner": pairs. "left", "right", "full": also left rows, right ones, or both, that have no partner, with
            null for the other's columns. "semi", "anti": only left rows, once each, or once a window: those that have a
            partner, or none.

        Examples
        --------
        >>> from flinkbuf.common import Time
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> auctions = env.from_collection([(1, "lamp"), (2, "desk")]).as_columns("id int, item string")
        >>> bids = env.from_collection([(1, 20), (1, 30)]).as_columns("auction int, price int")
        >>> sold = bids.key_by("auction").join(auctions.key_by("id")).time_to_live(Time.hours(1))
        >>> sorted(sold.execute_and_collect(limit=2))
        [Row(auction=1, price=20, id=1, item='lamp'), Row(auction=1, price=30, id=1, item='lamp')]
        """
        if not isinstance(other, KeyedColumnStream):
            raise TypeError(
                f"join() of a keyed column stream takes another one, got {type(other).__name__} {other!r:.80}; say "
                "as_columns(...) and key_by(...) there, too"
            )
        return JoinedColumnStreams(self, other, how)

    def process_batches(
        self, function: KeyedBatchFunction, output_type: object = None, timestamp_column: str | None = None
    ) -> ColumnStream:
        """Call a function with the rows of many keys at once; it has state and timers by key, as columns.

        Parameters
        ----------
        function : KeyedBatchFunction
            Each subtask has a copy of its own.
        output_type : TypeInformation, DDL, pyspark StructType or pyarrow schema, optional
            Of the results; without it `schema` is not known before they come.
        timestamp_column : str, optional
            Results have a column of this name with their timestamps, which they go on without. By default all results
            of a call have the latest timestamp of its batch, or of its timers.

        Examples
        --------
        >>> import numpy as np
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> class Silence(KeyedBatchFunction):  # a second without a row of a key
        ...     def open(self, runtime_context):
        ...         self.last = runtime_context.get_column_state("last", "at bigint")
        ...     def process_batch(self, batch, context):
        ...         latest = np.maximum.reduceat(context.timestamps, context.offsets[:-1])
        ...         self.last.put(context.keys, {"at": latest})
        ...         context.register_event_time_timers(context.keys, latest + 1000)
        ...     def on_timer(self, keys, context):
        ...         is_silent = self.last.get(keys)["at"].to_numpy() + 1000 == context.timestamps
        ...         yield {"caller": keys["caller"].filter(is_silent), "since": context.timestamps[is_silent] - 1000}
        >>> rows = [("ann", 100), ("bob", 500), ("ann", 900)]
        >>> calls = env.from_collection(rows).as_columns("caller string, at bigint")
        >>> keyed = calls.assign_timestamps_and_watermarks("at").key_by("caller")
        >>> list(keyed.process_batches(Silence(), "caller string, since bigint").execute_and_collect())
        [Row(caller='bob', since=500), Row(caller='ann', since=900)]
        """
        check_is_object(function)
        if not isinstance(function, KeyedBatchFunction):
            raise TypeError(
                "process_batches() takes a KeyedBatchFunction, which has process_batch(batch, context), got "
                f"{type(function).__name__} {function!r:.80}"
            )
        if timestamp_column is not None and not isinstance(timestamp_column, str):
            raise TypeError(
                "timestamp_column of process_batches() is the name of a column, got "
                f"{type(timestamp_column).__name__} {timestamp_column!r:.80}"
            )
        schema = None
        if output_type is not None:
            from flinkbuf.records.arrow_batches import arrow_schema

            schema = arrow_schema(output_type).remove_metadata()
            if timestamp_column in schema.names:
                raise ValueError(
                    f"output_type has a column {timestamp_column!r}, but results go on without their timestamp_column: "
                    "give one of them another name"
                )
        factory = KeyedBatchFactory(None, self._names, function, schema, timestamp_column)
        stream = self._stream._transform("ProcessBatches", self._stream._value_type, factory, is_keyed=True)
        return ColumnStream(stream, output_type, None if schema is not None else _unknown_schema)

    def _keyed_operator(self, name: str, factory: OperatorFactory, gathers: bool = False) -> DataStream[Any]:
        stream = self._exchanged(gathers)._transform(name, self._stream._value_type, factory, is_keyed=True)
        return stream if self._names else stream.force_non_parallel()

    def _transform(
        self, name: str, aggregates: tuple[tuple[str, Aggregate], ...], factory: OperatorFactory, gathers: bool = False
    ) -> ColumnStream:
        from flinkbuf.streaming.columns.column_groups import schema_of_groups

        stream = self._keyed_operator(name, factory, gathers)
        origin, names = self._origin, self._names
        return ColumnStream(stream, None, lambda: schema_of_groups(origin.schema(), names, aggregates))


class WindowedColumnStream:
    """Rows by key and window; made by ``KeyedColumnStream.window``.

    Examples
    --------
    >>> from flinkbuf.common import Time
    >>> from flinkbuf.datastream import StreamExecutionEnvironment
    >>> from flinkbuf.datastream.window import TumblingEventTimeWindows
    >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
    >>> bids = env.from_collection([(1, 500)]).as_columns("auction int, at bigint").key_by("auction")
    >>> bids.window(TumblingEventTimeWindows.of(Time.seconds(1)))
    <WindowedColumnStream of TumblingEventTimeWindows(1000, 0)>
    """

    def __init__(self, keyed: KeyedColumnStream, window_assigner: WindowAssigner[object, Any]) -> None:
        self._keyed = keyed
        self._assigner = window_assigner
        self._windows = _windows_of(window_assigner)
        self._is_counting = isinstance(self._windows, CountTumblingWindowAssigner | CountSlidingWindowAssigner)
        self._lateness_ms = 0
        self._late_tag: str | None = None

    def __repr__(self) -> str:
        return f"<WindowedColumnStream of {self._assigner!r}>"

    def allowed_lateness(self, time_ms: int) -> WindowedColumnStream:
        """Keep windows so many milliseconds after their end, and give the keys again that late rows change.

        Examples
        --------
        >>> from flinkbuf.common import Time
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> from flinkbuf.datastream.window import TumblingEventTimeWindows
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> bids = env.from_collection([(1, 500)]).as_columns("auction int, at bigint")
        >>> windows = bids.assign_timestamps_and_watermarks("at").key_by("auction").window(
        ...     TumblingEventTimeWindows.of(Time.seconds(1)))
        >>> windows.allowed_lateness(500).aggregate(bids=count()).execute_and_collect(limit=1)
        [Row(auction=1, bids=1)]
        """
        if isinstance(time_ms, bool) or not isinstance(time_ms, int):
            raise TypeError(f"allowed_lateness() takes milliseconds, an int, got {type(time_ms).__name__} {time_ms!r}")
        if time_ms < 0:
            raise ValueError(f"The allowed lateness cannot be negative, got {time_ms} ms")
        self._check_time("allowed_lateness()")
        self._lateness_ms = time_ms
        return self

    def side_output_late_data(self, output_tag: OutputTag) -> WindowedColumnStream:
        """Send rows that come too late for all their windows to this tag; see `ColumnStream.get_side_output`.

        Examples
        --------
        >>> from flinkbuf.common import Time
        >>> from flinkbuf.datastream import OutputTag, StreamExecutionEnvironment
        >>> from flinkbuf.datastream.window import TumblingEventTimeWindows
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> bids = env.from_collection([(1, 500)]).as_columns("auction int, at bigint")
        >>> windows = bids.assign_timestamps_and_watermarks("at").key_by("auction").window(
        ...     TumblingEventTimeWindows.of(Time.seconds(1)))
        >>> windows.side_output_late_data(OutputTag("late")).aggregate(bids=count()).execute_and_collect(limit=1)
        [Row(auction=1, bids=1)]
        """
        self._check_time("side_output_late_data()")
        self._late_tag = _tag_of(output_tag)
        return self

    def aggregate(self, **aggregates: Aggregate) -> ColumnStream:
        """Give each window, when it ends, as a row for each key: the key's columns, then these.

        Parameters
        ----------
        **aggregates : Aggregate
            What ``count()``, ``sum_(column)``, ``window_start()`` and their like give, or a
            `ColumnAggregateFunction`, by the name of the column.

        Examples
        --------
        >>> from flinkbuf.common import Time
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> from flinkbuf.datastream.window import TumblingEventTimeWindows
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> bids = env.from_collection([(1, 9, 500), (1, 7, 600)]).as_columns("auction int, price int, at bigint")
        >>> windows = bids.assign_timestamps_and_watermarks("at").key_by("auction").window(
        ...     TumblingEventTimeWindows.of(Time.seconds(1)))
        >>> windows.aggregate(bids=count(), best=max_("price")).execute_and_collect(limit=1)
        [Row(auction=1, bids=2, best=9)]
        """
        keyed = self._keyed
        checked = _checked_aggregates(aggregates, keyed._names)
        return keyed._transform("Window", checked, self._factory(checked), self._gathers)

    @property
    def _gathers(self) -> bool:
        """Return whether results are the same whatever batches rows come in; late ones change windows by batch."""
        return self._lateness_ms == 0

    def deduplicate(self, keep: str = "first", by: object = None, **columns: Aggregate) -> ColumnStream:
        """Give one row of each key when a window ends: the first or the last; see `KeyedColumnStream.deduplicate`.

        Parameters
        ----------
        keep : {"first", "last"}
        by : str, expression or callable, optional
            By default the rows are in the order in which they came, in windows of several slices of time within each.
        **columns : Aggregate
            ``window_start()`` and ``window_end()``, by the names of columns behind those of the row.

        Examples
        --------
        >>> from flinkbuf.common import Time
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> from flinkbuf.datastream.window import TumblingEventTimeWindows
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> bids = env.from_collection([(1, 9, 500), (1, 7, 600)]).as_columns("auction int, price int, at bigint")
        >>> windows = bids.assign_timestamps_and_watermarks("at").key_by("auction").window(
        ...     TumblingEventTimeWindows.of(Time.seconds(1)))
        >>> windows.deduplicate("last").execute_and_collect(limit=2)
        [Row(auction=1, price=7, at=600)]
        """
        return self._first_rows("deduplicate()", _one_row(keep, by), columns)

    def top(
        self,
        n: int,
        by: object,
        descending: bool | Sequence[bool] = True,
        *,
        rank: str | None = None,
        **columns: Aggregate,
    ) -> ColumnStream:
        """Give the first `n` rows of each key by an order when a window ends; see `KeyedColumnStream.top`.

        Parameters
        ----------
        n : int
        by : str, expression or callable, or a sequence of them
        descending : bool or sequence of bool, default True
        rank : str, optional
            The name of a last column, with the rank of a row.
        **columns : Aggregate
            ``window_start()`` and ``window_end()``, by the names of columns behind those of the row.

        Examples
        --------
        >>> from flinkbuf.common import Time
        >>> from flinkbuf.datastream import StreamExecutionEnvironment
        >>> from flinkbuf.datastream.window import TumblingEventTimeWindows
        >>> env = StreamExecutionEnvironment.get_execution_environment().set_parallelism(1)
        >>> bids = env.from_collection([(1, 9, 500), (1, 7, 600)]).as_columns("auction int, price int, at bigint")
        >>> windows = bids.assign_timestamps_and_watermarks("at").key_by("auction").window(
        ...     TumblingEventTimeWindows.of(Time.seconds(1)))
        >>> windows.top(2, by="price", rank="rank").execute_and_collect(limit=2)
        [Row(auction=1, price=9, at=500, rank=1), Row(auction=1, price=7, at=600, rank=2)]
        """
        return self._first_rows("top()", _top_rows(n, by, descending, rank), columns)

    def _first_rows(self, where: str, ranked: RankedRows, columns: dict[str, Aggregate]) -> ColumnStream:
        keyed = self._keyed
        for name, each in columns.items():
            if not isinstance(each, Aggregate) or not each.is_of_window:
                raise TypeError(
                    f"{name}= of {where} is window_start() or window_end(), got {type(each).__name__} {each!r:.80}; "
                    "others are results of aggregate()"
                )
        _check_names(where, tuple(columns), rank=ranked.rank)
        factory = self._factory((("rows", ranked), *columns.items()))
        stream = keyed._keyed_operator("Window", factory, self._gathers)
        return ColumnStream(stream, None, _with_columns(keyed._origin.schema, tuple(columns), ranked.rank))

    def _factory(self, aggregates: tuple[tuple[str, Aggregate], ...]) -> OperatorFactory:
        """Return the factory of the operator for these windows."""
        names, windows, late = self._keyed._names, self._windows, (self._lateness_ms, self._late_tag)
        if any(each.is_of_window for _, each in aggregates):
            self._check_time("window_start() and window_end()")
        if isinstance(windows, CountTumblingWindowAssigner | CountSlidingWindowAssigner):
            return ColumnCountFactory(None, names, windows, aggregates)
        if isinstance(windows, EventTimeSessionWindows):
            return ColumnSessionFactory(None, names, windows, aggregates, *late)
        return ColumnWindowFactory(None, names, windows, aggregates, *late)

    def _check_time(self, what: str) -> None:
        if self._is_counting:
            raise ValueError(
                f"{what} cannot be said of {self._assigner!r}, which no time ends: such a window is over when it has "
                "its rows, and no row is late"
            )


def _sure_schema_behind(
    function: Callable[[ColumnBatch], Iterable[ColumnBatch]], find: Callable[[], pa.Schema]
) -> pa.Schema:
    """Return the schema behind a function, as far as a call without rows is sure to tell it.

    It does not tell of doubles, which numpy makes of no values, whatever is made of some: they have no type here.
    """
    import pyarrow as pa

    from flinkbuf.streaming.columns.column_functions import schema_behind

    before = find()
    behind = schema_behind(function, before)
    fields = [
        pa.field(field.name, pa.null()) if pa.types.is_float64(field.type) and field not in before else field
        for field in behind
    ]
    return pa.schema(fields)


def _check_keys_of_union(stream: ColumnStream, names: tuple[str, ...]) -> None:
    """Raise TypeError if rows of an equal key would go to different subtasks, since streams of a union have it in types
    of their own. No subtask need see both.
    """
    if len(stream._find_schemas) < 2:
        return
    import pyarrow as pa

    from flinkbuf.records.column_exchange import check_goes_alike

    known: dict[str, pa.DataType] = {}
    for find in stream._find_schemas:
        try:
            schema = find()
        except Exception:  # it is not known before there are rows
            continue
        for name in names:
            if name in schema.names and not pa.types.is_null(type_ := schema.field(name).type):
                before = known.setdefault(name, type_)
                check_goes_alike(name, before, type_, f"is {type_} in one stream of union()", "in another")


# --- aggregates


def count(column: object = None) -> Aggregate:
    """Count the rows, or the values of a column that are not null.

    Examples
    --------
    >>> count()
    Aggregate(kind='count', columns=())
    """
    return Aggregate("count", () if column is None else (column,))


def sum_(column: object) -> Aggregate:
    """Add up a column: integers in 64 bits, other numbers as double or decimal; too large a sum is an error.

    Examples
    --------
    >>> sum_("price")
    Aggregate(kind='sum', columns=('price',))
    """
    return Aggregate("sum", (column,))


def min_(column: object) -> Aggregate:
    """Find the lowest value of a column.

    Examples
    --------
    >>> min_("price")
    Aggregate(kind='min', columns=('price',))
    """
    return Aggregate("min", (column,))


def max_(column: object) -> Aggregate:
    """Find the highest value of a column.

    Examples
    --------
    >>> max_("price")
    Aggregate(kind='max', columns=('price',))
    """
    return Aggregate("max", (column,))


def mean(column: object) -> Aggregate:
    """Find the mean of a column, as a double.

    Examples
    --------
    >>> mean("price")
    Aggregate(kind='mean', columns=('price',))
    """
    return Aggregate("mean", (column,))


def first(column: object) -> Aggregate:
    """Take the value of the first row, in the order in which they came, where it is not null.

    Examples
    --------
    >>> first("price")
    Aggregate(kind='first', columns=('price',))
    """
    return Aggregate("first", (column,))


def last(column: object) -> Aggregate:
    """Take the value of the last row, in the order in which they came, where it is not null.

    Examples
    --------
    >>> last("price")
    Aggregate(kind='last', columns=('price',))
    """
    return Aggregate("last", (column,))


def min_by(column: object, by: object) -> Aggregate:
    """Take the value of the row where another column is lowest; the first of several such rows.

    Examples
    --------
    >>> min_by("bidder", "price")
    Aggregate(kind='min_by', columns=('bidder', 'price'))
    """
    return Aggregate("min_by", (column, by))


def max_by(column: object, by: object) -> Aggregate:
    """Take the value of the row where another column is highest; the first of several such rows.

    Examples
    --------
    >>> max_by("bidder", "price")
    Aggregate(kind='max_by', columns=('bidder', 'price'))
    """
    return Aggregate("max_by", (column, by))


def count_distinct(column: object) -> Aggregate:
    """Count the different values of a column that are not null.

    Examples
    --------
    >>> count_distinct("bidder")
    Aggregate(kind='count_distinct', columns=('bidder',))
    """
    return Aggregate("count_distinct", (column,))


def stddev(column: object) -> Aggregate:
    """Find the standard deviation of a sample; null for fewer than two values.

    Examples
    --------
    >>> stddev("price")
    Aggregate(kind='stddev', columns=('price',))
    """
    return Aggregate("stddev", (column,))


def collect(column: object) -> Aggregate:
    """Collect the values of a column that are not null, in the order in which they came, as a list.

    Examples
    --------
    >>> collect("bidder")
    Aggregate(kind='collect', columns=('bidder',))
    """
    return Aggregate("collect", (column,))


def window_start() -> Aggregate:
    """Say when the window begins, as a timestamp.

    Examples
    --------
    >>> window_start()
    Aggregate(kind='window_start', columns=())
    """
    return Aggregate(WINDOW_START)


def window_end() -> Aggregate:
    """Say when the window ends, as a timestamp; that is no part of it any more.

    Examples
    --------
    >>> window_end()
    Aggregate(kind='window_end', columns=())
    """
    return Aggregate(WINDOW_END)


def _unknown_schema() -> pa.Schema:
    raise ValueError("which columns process_batches() gives is known when they come: say output_type=")


def _named(names: tuple[str, ...], columns: dict[str, object], where: str) -> tuple[tuple[str, object], ...]:
    for name in names:
        if not isinstance(name, str):
            raise TypeError(
                f"{where} takes names of columns, and others by keyword; got {type(name).__name__} {name!r:.80}"
            )
    for name, what in columns.items():
        check_expression(f"{name}= of {where}", what)
    twice = [name for name in names if name in columns or names.count(name) > 1]
    if twice:
        raise ValueError(f"{where} is told of the column {twice[0]!r} twice")
    return (*((name, name) for name in names), *columns.items())


def _batch_function(function: object, where: str) -> Callable[[pa.RecordBatch], object]:
    check_function(function, MapBatchFunction, f"{where} takes a function of a batch, or a MapBatchFunction")
    return as_call(function, MapBatchFunction, "map_batch")


def _one_row(keep: object, by: object) -> RankedRows:
    """Return which row of a group is kept."""
    if keep not in ("first", "last"):
        raise ValueError(f'keep= of deduplicate() is "first" or "last", got {keep!r:.80}')
    if by is not None:
        check_expression("by= of deduplicate()", by)
    is_last = keep == "last"
    return RankedRows(limit=1, by=() if by is None else ((by, is_last),), is_newest_first=is_last)


def _top_rows(n: object, by: object, descending: Any, rank: str | None) -> RankedRows:
    """Return which rows of a group are kept."""
    if isinstance(n, bool) or not isinstance(n, int):
        raise TypeError(f"top() takes how many rows a key has, an int, got {type(n).__name__} {n!r:.80}")
    if not 1 <= n < 2**31:
        raise ValueError(f"top() keeps one row of each key or more, got {n}")
    columns = tuple(by) if isinstance(by, (list, tuple)) else (by,)
    if not columns:
        raise ValueError("by= of top() names no column")
    if len(columns) > MAX_ORDERS:
        raise ValueError(f"by= of top() names {len(columns)} columns, and rows are ordered by {MAX_ORDERS} at most")
    for each in columns:
        check_expression("by= of top()", each)
    directions = tuple(descending) if isinstance(descending, (list, tuple)) else (descending,) * len(columns)
    if len(directions) != len(columns) or not all(isinstance(each, bool) for each in directions):
        raise ValueError(
            f"descending= of top() is True or False, or one of these for each of the {len(columns)} columns in by=; "
            f"got {descending!r:.80}"
        )
    return RankedRows(limit=n, by=tuple(zip(columns, directions, strict=True)), rank=rank)


def _check_names(where: str, taken: tuple[str, ...], **names: object) -> None:
    """Raise unless these are names of columns that a result has besides others, or None."""
    for parameter, name in names.items():
        if name is None:
            continue
        if not isinstance(name, str):
            raise TypeError(f"{parameter}= of {where} names a column, got {type(name).__name__} {name!r:.80}")
        if name in taken:
            raise ValueError(f"{parameter}= of {where}: there is a column {name!r} already; give it another name")
        taken = (*taken, name)


def _with_columns(
    find_schema: Callable[[], pa.Schema],
    times: tuple[str, ...] = (),
    rank: str | None = None,
    row_kind: str | None = None,
) -> Callable[[], pa.Schema]:
    """Return what finds a schema with these columns in the end, those that have a name."""

    def schema() -> pa.Schema:
        import pyarrow as pa

        types = [*((name, pa.timestamp("ms")) for name in times), (rank, pa.int64()), (row_kind, pa.string())]
        kept = [pa.field(each.name, each.type) for each in find_schema()]
        return pa.schema([*kept, *(pa.field(name, type_) for name, type_ in types if name is not None)])

    return schema


def _tag_of(output_tag: object) -> str:
    if not isinstance(output_tag, OutputTag):
        raise TypeError(f"an OutputTag is needed, got {type(output_tag).__name__} {output_tag!r:.80}")
    tag_id: str = output_tag.tag_id
    return tag_id


def _windows_of(
    assigner: Any,
) -> SlicedWindows | EventTimeSessionWindows | CountTumblingWindowAssigner | CountSlidingWindowAssigner:
    """Return what the operator is told of an assigner; one that a user has derived may do anything with a record."""
    windows = sliced_windows_of(assigner)
    if windows is not None:
        return windows
    if type(assigner) in (EventTimeSessionWindows, CountTumblingWindowAssigner):
        return assigner
    if type(assigner) is CountSlidingWindowAssigner and assigner.window_slide <= assigner.window_size:
        is_tumbling = assigner.window_slide == assigner.window_size
        return CountTumblingWindowAssigner(assigner.window_size) if is_tumbling else assigner
    raise TypeError(
        "windows over columns are TumblingEventTimeWindows, SlidingEventTimeWindows, CumulatingEventTimeWindows and "
        "EventTimeSessionWindows with one gap, by the times that assign_timestamps_and_watermarks(column, ...) gives "
        f"rows, or count_window(size, slide) without rows between two windows; got {assigner!r:.80}. Others are to be "
        "had record by record: as_records().key_by(...).window(...)"
    )


def _checked_aggregates(aggregates: dict[str, Aggregate], key: tuple[str, ...]) -> tuple[tuple[str, Aggregate], ...]:
    if not aggregates:
        raise ValueError("aggregate() needs an aggregate, such as bids=count()")
    for name, aggregate in aggregates.items():
        if not isinstance(aggregate, Aggregate):
            raise TypeError(
                f"{name}= of aggregate() is what count(), sum_(column) and their like give, or a "
                f"ColumnAggregateFunction; got {type(aggregate).__name__} {aggregate!r:.80}"
            )
        aggregate.check(name)
        if name in key:
            raise ValueError(f"{name}= of aggregate() has the name of a column of the key; give it another one")
    return tuple(aggregates.items())
