"""exchange() of a DataFrame: its rows change their Spark partition inside 32 KiB buffers, made and read in C.

Blocking mode: ``mapInArrow`` makes rows (channel, envelope) of Arrow batches, Spark's own shuffle of DataFrames brings
these to the task of their channel, and ``mapInArrow`` makes Arrow batches of them again (frame_tasks.py). Pipelined
mode: one ``mapInArrow`` in a barrier stage, whose tasks send each other buffers over TCP (frame_pipelined.py).

Nothing here needs more of a session than Spark Connect has, but where it says so.
"""

from __future__ import annotations

import os
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from flinkbuf.config import NetworkConfig
from flinkbuf.records.partitioner import NamedPartitioner, Partitioner
from flinkbuf.records.range_partitioner import RangePartitioner
from flinkbuf.spark.exchange.arguments import check_count, choose_partitioner
from flinkbuf.spark.exchange.blocking import WriteTask
from flinkbuf.spark.exchange.envelope import compressor_of
from flinkbuf.spark.exchange.frame_order import in_certain_order
from flinkbuf.spark.exchange.frame_pipelined import FramePipelinedTask, meeting_of, task_count_of
from flinkbuf.spark.exchange.frame_ranges import with_sampled_bounds
from flinkbuf.spark.exchange.frame_schema import (
    as_struct_type,
    check_keys,
    column_names,
    crosses_as_text,
    crossing_schema,
    type_between_tasks,
    with_column_names,
)
from flinkbuf.spark.exchange.frame_shuffle import channel_ids, into_channels
from flinkbuf.spark.exchange.frame_tasks import (
    ARRIVING_BYTES,
    ROWS_SCHEMA,
    BatchFunction,
    BatchLimits,
    Columns,
    FrameReadTask,
    FrameSource,
    FrameWriteTask,
    MapTask,
    NamedColumns,
)
from flinkbuf.spark.exchange.whole import computed_whole
from flinkbuf.spark.workers import check_workers, shipped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_ARROW = "spark.sql.execution.arrow."
_SORTS_FIRST = "spark.sql.execution.sortBeforeRepartition"


def exchange_frame(
    data: DataFrame,
    key: object,
    partitioner: object,
    num_partitions: object,
    mode: str,
    config: NetworkConfig | None,
    *,
    before: BatchFunction | None = None,
    before_schema: object = None,
    after: BatchFunction | None = None,
    schema: object = None,
) -> DataFrame:
    """Return the DataFrame of the rows of `data` in the partitions that they are sent to; see `exchange`."""
    chosen = _check_partitioner(choose_partitioner(key, partitioner), num_partitions)
    count = None if num_partitions is None else check_count(num_partitions)
    _check_functions(before, before_schema, after, schema)
    if not is_connect(data):
        check_workers(data.sparkSession.sparkContext)
    if not data.columns:
        return _without_columns(data, chosen, count, mode, config, before, after)
    if before is None and after is None and any(crosses_as_text(field.dataType) for field in data.schema):
        return _with_texts(data, chosen, count, mode, config)
    crossing = data.schema if before_schema is None else as_struct_type(before_schema, "before_schema")
    result = crossing if schema is None else as_struct_type(schema, "schema")
    if before is not None:
        before = NamedColumns(before, crossing.names, "before", _said_by("before_schema", before_schema))
    if after is not None:
        after = NamedColumns(after, result.names, "after", _said_by("schema", schema))
    rows, source = with_plain_names(data, before)
    if chosen.kind == "forward":
        return rows.mapInArrow(shipped(MapTask(source, after)), result)
    columns = columns_of(crossing, data.sparkSession)
    is_case_sensitive = setting(data.sparkSession, "spark.sql.caseSensitive", "false") == "true"
    chosen = with_column_names(chosen, crossing.names, is_case_sensitive)
    check_keys(chosen, crossing)
    if isinstance(chosen, RangePartitioner):
        chosen.range_fields(columns.type)  # a column that is not there fails here, not in a task
    else:
        chosen.selector(columns.type, count or 1, 0, 0)
    exchange = FrameExchange(rows, source, columns, chosen, config, after, result)
    return exchange.pipelined(count) if mode == "pipelined" else exchange.blocking(count)


class FrameExchange:
    """An exchange of a DataFrame whose arguments have been read.

    Parameters
    ----------
    rows : DataFrame
        What is exchanged, with names that ``mapInArrow`` can find.
    source : FrameSource
        What becomes of its batches first.
    columns : Columns
        What crosses then.
    partitioner : Partitioner
    config : NetworkConfig or None
    after : callable or None
    result : StructType
        What `after` gives, or crossed.
    """

    def __init__(
        self,
        rows: DataFrame,
        source: FrameSource,
        columns: Columns,
        partitioner: Partitioner,
        config: NetworkConfig | None,
        after: BatchFunction | None,
        result: StructType,
    ) -> None:
        self.rows, self.source, self.columns = rows, source, columns
        self.session = rows.sparkSession
        self.partitioner, self.config = partitioner, config
        self.after, self.result = after, result

    def blocking(self, count: int | None) -> DataFrame:
        """Return the result of an exchange through Spark's shuffle."""
        if count is None:
            count = int(setting(self.session, "spark.sql.shuffle.partitions", "200"))
        self._take_sample(count, None)
        write = self.write_task(count)
        if write.order.get("is_order_sensitive") and setting(self.session, _SORTS_FIRST, "true") == "true":
            self.rows = in_certain_order(self.rows, is_connect(self.rows))
        moved, read = self._through_shuffle(write)
        return moved.mapInArrow(shipped(replace(read, after=self.after)), self.result)

    def pipelined(self, count: int | None) -> DataFrame:
        """Return the result of an exchange within one barrier stage, through a shuffle before it if need be."""
        is_client = is_connect(self.rows)
        if not is_client:
            count, is_direct = task_count_of(self.rows, count)
        elif count is None:
            raise ValueError(
                "a pipelined exchange has one task for each partition, all at once, and a client of Spark Connect "
                "cannot ask how many slots there are: pass num_partitions=, as many as Spark has cores at most"
            )
        else:
            is_direct = False
        self._take_sample(count, count if is_direct else None)
        write = self.write_task(count)
        meeting, bind_host = meeting_of(self.rows, write, is_client)
        task = FramePipelinedTask(write, meeting, None, bind_host, self.columns, self.source, None, self.after)
        rows = self.rows
        if not is_direct:
            hand_over = {**vars(self.write_task(count)), "partitioner": NamedPartitioner("global")}
            rows, read = self._through_shuffle(FrameHandOver(**hand_over))
            task = replace(task, source=FrameSource(), handed_over=read)
        return computed_whole(rows.mapInArrow(shipped(task), self.result, barrier=True), count)

    def _through_shuffle(self, write: WriteTask) -> tuple[DataFrame, FrameReadTask]:
        """Return the envelopes where Spark's shuffle has brought them, and what reads them there."""
        compressor_of(self.config)  # a codec that is not there fails here, not in a task
        ids = channel_ids(self.session, write.channel_count)
        send = FrameWriteTask(write, ids, self.source, filler_count(self.session, self.config))
        envelopes = self.rows.mapInArrow(shipped(send), ROWS_SCHEMA)
        moved = into_channels(envelopes, write.channel_count)
        return moved, FrameReadTask(write.exchange_id, self.columns, ids, write.config)

    def _take_sample(self, count: int, producer_count: int | None) -> None:
        """Give a range partitioner its bounds."""
        if isinstance(self.partitioner, RangePartitioner) and self.partitioner.needs_bounds:
            self.partitioner = with_sampled_bounds(
                self.rows, self.source, self.columns, self.partitioner, count, producer_count
            )

    def write_task(self, count: int) -> WriteTask:
        """Return what goes where; how many producers there are is not known before Spark runs them."""
        exchange_id = int.from_bytes(os.urandom(8), "big")
        return WriteTask(exchange_id, self.columns.type, self.partitioner, count, count, self.config)


class FrameHandOver(WriteTask):
    """Sends all rows of one partition of the data to one task, so that what it sends on keeps its order."""

    def channels_of(self, producer: int) -> range:
        """Return the task: they take turns, for nobody knows how many partitions there are."""
        task = producer % self.channel_count
        return range(task, task + 1)


def is_connect(data: DataFrame) -> bool:
    """Whether it is a DataFrame of Spark Connect, whose driver is another process."""
    return any(each.__module__.startswith("pyspark.sql.connect.") for each in type(data).__mro__)


def setting(session: SparkSession, name: str, default: str) -> str:
    """Return a setting of the session as text; the default where Spark knows none of that name."""
    try:
        found = session.conf.get(name)
    except Exception:  # each kind of session has its own
        found = None
    return default if found is None else str(found).lower() if str(found) in ("True", "False") else str(found)


def with_plain_names(data: DataFrame, before: BatchFunction | None) -> tuple[DataFrame, FrameSource]:
    """Return the rows under names that ``mapInArrow`` can find, and the source that gives them their own.

    It looks for columns by name, and finds none whose name has a dot, and not which of two that have the same.
    """
    names = column_names(data.columns)
    is_unique = len({name.lower() for name in names}) == len(names)  # Spark looks for names without regard to case
    if is_unique and names == data.columns and all(name.isidentifier() for name in names):
        return data, FrameSource(before=before)
    return data.toDF(*(f"c{place}" for place in range(len(names)))), FrameSource(names, before)


def columns_of(crossing: StructType, session: SparkSession) -> Columns:
    """Return what the rows between the tasks are, as this session's ``mapInArrow`` has them."""
    is_large = setting(session, _ARROW + "useLargeVarTypes", "false") == "true"
    found = crossing_schema(crossing, setting(session, "spark.sql.session.timeZone", "UTC"), is_large)
    most_rows, most_bytes = _arrow_limits(session)
    limits = BatchLimits()
    limits = BatchLimits(
        min(most_rows, limits.max_rows) if most_rows > 0 else limits.max_rows,
        min(most_bytes, limits.max_bytes) if most_bytes > 0 else limits.max_bytes,
    )
    return Columns(found, type_between_tasks(found), limits)


def _arrow_limits(session: SparkSession) -> tuple[int, int]:
    """Return how many rows, and bytes, Spark puts in an Arrow batch; 0 or less: any number."""
    rows = int(setting(session, _ARROW + "maxRecordsPerBatch", "10000"))
    return rows, bytes_of(setting(session, _ARROW + "maxBytesPerBatch", "0"))


def bytes_of(size: str) -> int:
    """Return the bytes that Spark's settings write so; 0 for what is none.

    Examples
    --------
    >>> bytes_of("67108864b"), bytes_of("64m"), bytes_of("100"), bytes_of("-1")
    (67108864, 67108864, 100, 0)
    """
    found = re.fullmatch(r"(\d+)([bkmgt]?)b?", size.strip().lower())
    return int(found[1]) << _SHIFTS[found[2] or "b"] if found else 0


MAX_FILLERS = 4096
_SHIFTS = {"b": 0, "k": 10, "m": 20, "g": 30, "t": 40}


def filler_count(session: SparkSession, config: NetworkConfig | None) -> int:
    """Return how many empty rows go with each envelope, so that Spark's batches stay below `ARRIVING_BYTES` or so.

    None where Spark's own limit sees to it, which ``mapInArrow`` keeps since 4.1. Where Spark puts tens of millions of
    rows in a batch, its batches may become larger: so many fillers would cost more than what they go with.
    """
    most_rows, most_bytes = _arrow_limits(session)
    is_kept = tuple(int(part) for part in session.version.split(".")[:2]) >= (4, 1)
    if is_kept and 0 < most_bytes <= 2 * ARRIVING_BYTES:
        return 0
    size = (config or NetworkConfig()).segment_size
    return min(MAX_FILLERS, max(0, -(-most_rows * size // ARRIVING_BYTES) - 1))


def _check_partitioner(partitioner: Partitioner, num_partitions: object) -> Partitioner:
    """Refuse what cannot be asked about rows that cross as columns, with the way out."""
    if partitioner.kind == "custom":
        raise TypeError(
            "a partitioner that is a function of a record cannot be asked about the columns of a DataFrame: make what "
            'it looks at a column, and say key="column"; or exchange df.rdd'
        )
    if partitioner.kind == "rescale":
        raise ValueError(
            "partitioner 'rescale' needs to know how many partitions the data have, which Spark does not tell of a "
            "DataFrame before it runs: use 'rebalance'"
        )
    if partitioner.kind == "forward" and num_partitions is not None:
        raise ValueError(
            "partitioner 'forward' leaves every row in its partition, so num_partitions is that of the data: leave it "
            "out. 'rebalance' takes any number"
        )
    return partitioner


def _check_functions(before: object, before_schema: object, after: object, schema: object) -> None:
    for name, function in (("before", before), ("after", after)):
        if function is not None and not callable(function):
            raise TypeError(f"{name}= is a function over an iterator of Arrow batches, got {function!r}")
    if before is None and before_schema is not None:
        raise ValueError("before_schema= says what before= gives, which was not given")
    if after is None and schema is not None:
        raise ValueError("schema= says what after= gives, which was not given; for what before= gives: before_schema=")


def _said_by(argument: str, schema: object) -> str:
    """Return who names the columns, for an error."""
    return "the DataFrame has" if schema is None else f"{argument}= says"


def _without_columns(
    data: DataFrame,
    partitioner: Partitioner,
    count: int | None,
    mode: str,
    config: NetworkConfig | None,
    before: BatchFunction | None,
    after: BatchFunction | None,
) -> DataFrame:
    """Exchange rows of which nothing is left but their number: Arrow's batches of no columns lose it in Spark."""
    from pyspark.sql import functions

    if before is not None or after is not None:
        raise ValueError("the DataFrame has no columns, so Spark would bring no row to before= or after=")
    one = data.select(functions.lit(True).alias("row"))
    return exchange_frame(one, None, partitioner, count, mode, config).select()


def _check_ranges_without_texts(partitioner: RangePartitioner, names: list[str], is_text: list[bool]) -> None:
    texts = {name.lower() for name, text in zip(names, is_text, strict=True) if text}
    asked = {str(names[each] if isinstance(each, int) else each).lower() for each in partitioner.columns}
    if "*" in asked or asked & texts:
        raise TypeError(
            f"by_range() cannot order intervals, which cross as text: {', '.join(sorted(texts))}; range by a number "
            "made of them, such as months"
        )


def _with_texts(
    data: DataFrame, partitioner: Partitioner, count: int | None, mode: str, config: NetworkConfig | None
) -> DataFrame:
    """Exchange rows with columns that ``mapInArrow`` does not take, or not give: they cross as text."""
    from pyspark.sql import functions

    fields, places = data.schema.fields, [f"c{place}" for place in range(len(data.columns))]
    is_text = [crosses_as_text(field.dataType) for field in fields]
    if isinstance(partitioner, RangePartitioner):
        _check_ranges_without_texts(partitioner, data.columns, is_text)
    columns = [
        functions.col(place).cast("string") if text else functions.col(place)
        for place, text in zip(places, is_text, strict=True)
    ]
    texts = data.toDF(*places).select(*columns).toDF(*data.columns)
    moved = exchange_frame(texts, None, partitioner, count, mode, config).toDF(*places)
    back = [
        functions.col(place).cast(field.dataType) if text else functions.col(place)
        for place, field, text in zip(places, fields, is_text, strict=True)
    ]
    return moved.select(
        *(column.alias(field.name, metadata=field.metadata) for column, field in zip(back, fields, strict=True))
    )
