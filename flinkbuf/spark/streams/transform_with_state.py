"""Spark's ``transformWithState``, with state in the process that reads and writes it.

Spark's operator keeps all that makes a query exact: batches and their offsets, the watermark, batches without rows that
let timers fire, the state store whose versions are committed with the batches, restarts, sinks. What makes it slow in
Python is that each access to state, each timer and each row crosses to the JVM by itself. So the operator stays, and
what crosses is other:

* Keys are hashed into *key groups*, as many as the query has partitions, and to Spark a group is a key. A Spark task
  puts the rows of a group together, as the bytes of Arrow batches, before the shuffle; they arrive as few large rows
  (`packing`). How many groups there are is part of a checkpoint, whose partitions Spark fixes, too; where they are
  repartitioned, groups go as they are to other partitions.
* A group's state lives in the Python worker, in tables by the user's key (`key_group_state`). For a batch, a group
  appends one segment to its log in Spark's state store: what the batch has changed. The store's version is the batch's,
  so what counts is what Spark has committed, whoever died when; nothing of ours lies beside it.
* A worker keeps the groups that it has met. It asks Spark for the head of a group's log, two numbers of which say
  whether it has the last segment; if it has not it reads the segments that it missed, or the whole log. So it does not
  matter which worker Spark gives a group to, nor which attempts of a batch did not count.
* Timers are a table like the others. Spark knows one timer of a group: the next time at which the group has something
  to do. In event time that is the next move of the watermark: a row is late by the watermark of the batch before, as in
  Spark, so a group has to know each.

Two other ways were weighed. A long-running job beside the query, fed by its micro-batches, needs slots of its own, a
second query that reads results back, and a protocol between two checkpoints; state would be nearer by one read for each
group and batch. State in ``mapInArrow``, found by the batch's number, has no watermark, no batches without rows and no
commit that is one with Spark's.
"""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING

from flinkbuf.spark.workers import check_workers, shipped

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, GroupedData, SparkSession
    from pyspark.sql.streaming import StatefulProcessor
    from pyspark.sql.types import StructType

    from flinkbuf.spark.streams.key_group_processor import StatefulProgram

TIME_MODES = ("none", "processingTime", "eventTime")
OUTPUT_MODES = ("append", "update", "complete")
MOST_KEY_GROUPS = 32_768
_DELAY = "spark.watermarkDelayMs"  # where Spark notes that a column has a watermark
_HASH = "__flinkbuf_hash"


def transform_with_state(
    grouped: GroupedData,
    processor: StatefulProcessor,
    output_schema: StructType | str,
    output_mode: str = "append",
    time_mode: str = "none",
    initial_state: GroupedData | None = None,
    *,
    key_groups: int | None = None,
) -> DataFrame:
    """Apply a processor with state to each key, as ``grouped.transformWithState`` does.

    The processor is one written for Spark, unchanged: `handleInputRows` is given an iterator of rows and gives rows.
    What it keeps in value, list and map state, and its timers, live in the Python worker; they are part of the query's
    own checkpoint, which ``transformWithState`` cannot read, nor this function one of that.

    Parameters
    ----------
    grouped : GroupedData
        ``df.groupBy("column", ...)`` of a DataFrame, streaming or not.
    processor : StatefulProcessor
        Spark's interface, from ``pyspark.sql.streaming``.
    output_schema : StructType or str
        The columns of the rows that the processor gives.
    output_mode : {"append", "update", "complete"}
        As in Spark.
    time_mode : {"none", "processingTime", "eventTime"}
        Which time timers are set in. States with a time to live need processing time, and event time needs
        ``withWatermark``, as in Spark.
    initial_state : GroupedData, optional
        Rows that `handleInitialState` is given in the first batch, grouped by columns of the same types.
    key_groups : int, optional
        How many parts the keys are dealt into, one of which is worked on by one task: as many as the query has shuffle
        partitions. It stays the same as long as a checkpoint lives. Where Spark has repartitioned one, it has to be
        given, and an error says so with the number; a larger one leaves room for more partitions than at the beginning.

    Returns
    -------
    DataFrame
        The rows that the processor gives. If the input is a stream this is one, and any sink of Spark takes it.

    Raises
    ------
    TypeError, ValueError
        If an argument is not what it should be, or `init` asks for what there is not; `init` is called here once, with
        a copy of the processor.

    Examples
    --------
    >>> import flinkbuf as fb
    >>> from pyspark.sql import Row
    >>> from pyspark.sql.streaming import StatefulProcessor
    >>> class Count(StatefulProcessor):
    ...     def init(self, handle):
    ...         self.count = handle.getValueState("count", "n bigint")
    ...
    ...     def handleInputRows(self, key, rows, timerValues):
    ...         count = (self.count.get() or (0,))[0] + sum(1 for row in rows)
    ...         self.count.update((count,))
    ...         yield Row(word=key[0], n=count)
    >>> words = spark.createDataFrame([("to",), ("be",), ("to",)], "word string")  # doctest: +SKIP
    >>> counts = fb.transform_with_state(words.groupBy("word"), Count(), "word string, n bigint")  # doctest: +SKIP
    >>> sorted(map(tuple, counts.collect()))  # doctest: +SKIP
    [('be', 1), ('to', 2)]
    """
    from pyspark.sql.streaming import StatefulProcessor

    from flinkbuf.spark.exchange.frame_schema import as_struct_type, crossing_schema
    from flinkbuf.spark.streams.key_group_processor import KeyGroupProcessor, StatefulProgram
    from flinkbuf.spark.streams.keys import key_columns
    from flinkbuf.spark.streams.packing import KEY_GROUP, ROWS, unpack

    data, keys = _grouped(grouped, "grouped")
    if not isinstance(processor, StatefulProcessor):
        raise TypeError(f"processor must be a pyspark.sql.streaming.StatefulProcessor, got {processor!r}")
    output = as_struct_type(output_schema, "output_schema")
    output_mode = _one_of("output_mode", output_mode, OUTPUT_MODES)
    time_mode = _one_of("time_mode", time_mode, TIME_MODES)
    if find_spec("google.protobuf") is None:
        raise ModuleNotFoundError("Spark's operators with state in Python need protobuf: pip install protobuf")
    if key_groups is not None and not (isinstance(key_groups, int) and 0 < key_groups <= MOST_KEY_GROUPS):
        raise ValueError(f"key_groups must be an int from 1 to {MOST_KEY_GROUPS}, got {key_groups!r}")
    session = data.sparkSession
    check_workers(session.sparkContext)
    zone = str(session.conf.get("spark.sql.session.timeZone"))
    has_large = _is_set(session, "spark.sql.execution.arrow.useLargeVarTypes", "false")
    in_event_time = time_mode == "eventTime"
    time_column = _time_column(data) if in_event_time else None
    packed = _packed(data, keys, key_groups, reaches_all=in_event_time)
    packed_initial = initial_keys = None
    if initial_state is not None:
        initial, names = _grouped(initial_state, "initial_state")
        if initial.isStreaming:
            raise ValueError("initial_state is read once, in the first batch: it cannot be a streaming DataFrame")
        types = [
            [frame.schema[name].dataType for name in columns] for frame, columns in ((data, keys), (initial, names))
        ]
        if types[0] != types[1]:
            told = [", ".join(kind.simpleString() for kind in kinds) for kinds in types]
            raise TypeError(f"the DataFrame is grouped by columns of the types {told[0]}, initial_state by {told[1]}")
        initial_keys = key_columns(initial.schema, names, crossing_schema(initial.schema, zone), "initial_state")
        packed_initial = _packed(initial, names, key_groups, reaches_all=False).groupBy(KEY_GROUP)
    program = StatefulProgram(
        processor=processor,
        time_mode=time_mode.lower(),
        schemas={},
        output=output,
        arrow_output=crossing_schema(output, "UTC", has_large),
        keys=key_columns(data.schema, keys, crossing_schema(data.schema, zone), "grouped"),
        initial_keys=initial_keys,
        time_column=time_column if data.isStreaming else None,
        late_by_last=_is_set(session, "spark.sql.streaming.statefulOperator.allowMultiple", "true"),
        key_groups=key_groups,
    )
    program = replace(program, schemas=_schemas_of_init(program))
    rows = packed.groupBy(KEY_GROUP).transformWithState(
        KeyGroupProcessor(program), f"{ROWS} binary", output_mode, time_mode, packed_initial
    )
    return rows.mapInArrow(shipped(unpack), output)


def _grouped(grouped: GroupedData, name: str) -> tuple[DataFrame, list[str]]:
    """Return the DataFrame that is grouped, and by which of its columns.

    Raises
    ------
    TypeError
        If it is not grouped, or by something else than columns.
    """
    from pyspark.sql import GroupedData

    if not isinstance(grouped, GroupedData):
        raise TypeError(f'{name} must be a grouped DataFrame, such as df.groupBy("id"); got {grouped!r}')
    if not hasattr(grouped, "transformWithState"):
        raise TypeError("transform_with_state() needs PySpark 4.1 or later, whose transformWithState gives rows")
    if not hasattr(grouped, "_jgd"):
        raise TypeError(f"{name} is of Spark Connect, where transform_with_state() cannot work: use a classic session")
    data: DataFrame = grouped._df
    twice = sorted({column for column in data.columns if data.columns.count(column) > 1})
    if twice:
        raise ValueError(f"the DataFrame of {name} has columns of the same name: {', '.join(twice)}")
    plan = grouped.count()._jdf.queryExecution().analyzed()
    if not grouped._jgd.toString().endswith("type: GroupBy]"):
        raise TypeError(f"{name} must come from groupBy(), not from rollup(), cube() or pivot()")
    expressions = plan.groupingExpressions()
    keys = []
    for place in range(expressions.size()):
        expression = expressions.apply(place)
        if expression.getClass().getSimpleName() != "AttributeReference":
            raise TypeError(
                f"{name} is grouped by {expression.toString()}: make it a column with withColumn(), and group by that"
            )
        keys.append(expression.name())
    if not keys:
        raise ValueError(f'{name} is grouped by nothing: name the columns of the key, such as df.groupBy("id")')
    if len(set(keys)) < len(keys):
        raise ValueError(f"{name} is grouped by a column twice: {', '.join(keys)}")
    return data, keys


def _packed(data: DataFrame, keys: list[str], key_groups: int | None, reaches_all: bool) -> DataFrame:
    """Return the DataFrame's rows, many in one, by key group."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import BinaryType, DoubleType, FloatType, IntegerType, StructField, StructType, TimestampType

    from flinkbuf.spark.streams.packing import KEY_GROUP, ROWS, TIME, Pack

    def quoted(name: str) -> Column:
        return F.col(f"`{name.replace('`', '``')}`")

    def hashed(name: str) -> Column:
        if not isinstance(data.schema[name].dataType, (FloatType, DoubleType)):
            return quoted(name)
        # Both zeros are one key.
        return F.when(quoted(name) == 0, F.lit(0.0)).otherwise(quoted(name).cast("double"))

    fields = [StructField(KEY_GROUP, IntegerType()), StructField(ROWS, BinaryType())]
    if reaches_all:
        # What Spark looks for in event time. No row has a time here, so none is late to Spark: rows are told apart
        # where they are rows again.
        fields.insert(1, StructField(TIME, TimestampType(), metadata={_DELAY: 0}))
    with_hash = data.select(F.xxhash64(*map(hashed, keys)).alias(_HASH), *map(quoted, data.columns))
    return with_hash.mapInArrow(shipped(Pack(key_groups, reaches_all)), StructType(fields))


def _time_column(data: DataFrame) -> str:
    """Return the column that has a watermark."""
    found = [field.name for field in data.schema.fields if _DELAY in field.metadata]
    if not found:
        raise ValueError(
            'time_mode="eventTime" needs a watermark: call df.withWatermark("column", "10 seconds") before groupBy()'
        )
    return found[0]


def _schemas_of_init(program: StatefulProgram) -> dict[str, StructType]:
    """Call init() with a copy of the processor, and return what the DDL that it names means."""
    from pyspark import cloudpickle

    from flinkbuf.spark.exchange.frame_schema import as_struct_type

    schemas: dict[str, StructType] = {}

    def parse(ddl: str) -> StructType:
        schemas[ddl] = as_struct_type(ddl, "schema")
        return schemas[ddl]

    copy = cloudpickle.loads(cloudpickle.dumps(program.processor))
    copy.init(program.handle(parse))
    copy.close()
    return schemas


def _one_of(name: str, value: object, known: tuple[str, ...]) -> str:
    """Return a mode as Spark writes it."""
    for each in known:
        if isinstance(value, str) and value.lower() == each.lower():
            return each
    raise ValueError(f"{name} must be one of {', '.join(map(repr, known))}, got {value!r}")


def _is_set(session: SparkSession, name: str, default: str) -> bool:
    return str(session.conf.get(name, default)).lower() == "true"
