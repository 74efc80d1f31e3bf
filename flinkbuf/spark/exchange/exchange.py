"""exchange(): records and rows change their Spark partition inside 32 KiB buffers, not one by one.

What it takes decides on the way: the records of an RDD (rdd_exchange.py), the Arrow batches of a DataFrame
(frame_exchange.py).
"""

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from flinkbuf.config import NetworkConfig
from flinkbuf.records.partitioner import Partitioner
from flinkbuf.spark.exchange.arguments import check_config, check_mode

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import DataFrame

    BatchFunction = Callable[[Iterator[Any]], Iterable[object]]  # of pyarrow.RecordBatch, which has no types of its own


T = TypeVar("T")


@overload
def exchange(
    data: "DataFrame",
    key: str | int | tuple[str | int, ...] | None = None,
    *,
    partitioner: str | Partitioner | None = None,
    num_partitions: int | None = None,
    mode: Literal["blocking", "pipelined"] = "blocking",
    config: NetworkConfig | None = None,
    before: "BatchFunction | None" = None,
    before_schema: object = None,
    after: "BatchFunction | None" = None,
    schema: object = None,
) -> "DataFrame": ...


@overload
def exchange(
    data: "RDD[T]",
    key: str | int | Callable[[T], object] | tuple[object, ...] | None = None,
    *,
    type: object = None,
    partitioner: str | Partitioner | Callable[[T, int], int] | None = None,
    num_partitions: int | None = None,
    mode: Literal["blocking", "pipelined"] = "blocking",
    config: NetworkConfig | None = None,
) -> "RDD[T]": ...


def exchange(
    data: "RDD[Any] | DataFrame",
    key: str | int | Callable[[Any], object] | tuple[object, ...] | None = None,
    *,
    type: object = None,
    partitioner: str | Partitioner | Callable[[Any, int], int] | None = None,
    num_partitions: int | None = None,
    mode: Literal["blocking", "pipelined"] = "blocking",
    config: NetworkConfig | None = None,
    before: "BatchFunction | None" = None,
    before_schema: object = None,
    after: "BatchFunction | None" = None,
    schema: object = None,
) -> object:
    """Move every record of an RDD, or row of a DataFrame, to the Spark partition that its key or a partitioner chooses.

    Does what ``partitionBy`` and ``repartition`` do, and moves 32 KiB buffers instead of pickled records or single
    rows: each record is encoded by its type, and Spark's shuffle, or the network, sees the buffers only. The rows of a
    DataFrame cross as Arrow batches, encoded and decoded in C.

    Parameters
    ----------
    data : RDD or DataFrame
        The records. A DataFrame may be one of Spark Connect.
    key : str, int, callable or tuple, optional
        Short for ``partitioner=fb.by_key(key)``: a field's name, its index, a function of the record, a tuple of
        fields, or ``"*"``, the whole record. Records with equal keys meet in one Spark partition; a record of an RDD
        whose key is None is an error. What type a function's keys have is taken from a sample, unless
        ``partitioner=fb.by_key(function, key_type=...)`` says it. Of a DataFrame only columns.
    type : TypeInformation, str, pyspark DataType or pyarrow.Schema, optional
        Of an RDD: what `fb.as_type` takes. Timestamps of a pyspark type are naive datetimes, as they are in the rows of
        a DataFrame; where the records hold aware ones, say ``timestamp`` in DDL or ``fb.Types.TIMESTAMP_LTZ()``. Left
        out, a sample of the data decides, which costs one small job, or two where the first, middle and last partition
        are empty; the type taken is logged as a warning of the logger ``flinkbuf`` in the form in which it can be
        passed here.
    partitioner : Partitioner, str or callable, optional
        ``fb.by_key(...)``, ``fb.by_range(...)`` (each partition has greater records than the one before; a job that
        computes all of `data` takes a sample first), ``"rebalance"`` (the default without a key), ``"rescale"``,
        ``"shuffle"``, ``"global"``, ``"forward"``, ``"broadcast"``, or a function ``(record, num_partitions) -> int``.
        Of a DataFrame neither ``"rescale"`` nor a function; ``"forward"`` is no shuffle at all there.
    num_partitions : int, optional
        How many partitions the result has; by default as many as `data`. A pipelined exchange has as many tasks; where
        `data` has another number of partitions, a blocking exchange brings them, each one whole, to these tasks first.
        Of a DataFrame by default ``spark.sql.shuffle.partitions``; pipelined, as many as it has, where Spark knows that
        before it runs and has slots for them, else as many as there are slots.
    mode : {"blocking", "pipelined"}, default "blocking"
        ``"blocking"``: through Spark's shuffle, with its fault tolerance. ``"pipelined"``: the tasks of one barrier
        stage send to each other over TCP while they run; first results come before the last record is read, no file is
        written, and memory stays within the configured buffers. See the notes.
    config : NetworkConfig, optional
        Buffer size and memory of the writing tasks; for a pipelined exchange every knob of its network.
    before, after : callable, optional
        Of a DataFrame: functions over an iterator of pyarrow.RecordBatches that give such, as for ``mapInArrow``. They
        see the batches of a partition before it is exchanged, and those of a partition of the result, in the same pass
        of the Python worker.
    before_schema, schema : StructType or str, optional
        What `before`, and `after`, give where these are other columns than they got. The key is one of `before`'s.
        Both give their columns by name, in any order; a batch with other names is an error.

    Returns
    -------
    RDD or DataFrame
        Of a DataFrame: one of the same schema, or of `schema`; no batch has more rows or bytes than Spark's own
        settings for Arrow say, but for the rows of one buffer. Of an RDD the same records, each as its type gives it
        back: a `fb.Row` (a tuple with attributes and ``asDict()``, not a pyspark ``Row``) where the type has field
        names, a tuple for ``fb.Types.TUPLE``. What one partition of `data` sent to one partition of the result keeps
        its order, but for a DataFrame without a key; which partition of `data` comes first is not fixed.

    Raises
    ------
    TypeError
        If `data` is neither, a column is of a type that Spark cannot bring to Python, or another argument is of the
        wrong kind; when the job runs, if a record is not of the type (with producer, record number, field and value:
        the producer is the index of the partition of `data`).
    ValueError
        If an argument is out of range, or key and partitioner are both given; if there are fewer slots than a pipelined
        exchange has tasks, or Spark cannot run them in a barrier stage; when the job runs, if a key is None.
    RuntimeError
        If Spark's workers cannot import flinkbuf in the same version: here, where Spark runs on this machine alone, and
        when the job runs, otherwise.
    OSError
        If the driver cannot listen for the tasks of a pipelined exchange; as RemoteTransportError, when the job runs,
        if they cannot reach it.
    PeerFailedError
        When the job of a pipelined exchange runs, if another task failed or is gone; with index, process and reason.
    CorruptDataError
        When the job runs, if a buffer is missing, doubled or damaged; with producer, channel and sequence number.

    Notes
    -----
    Spark may run a task again whose output is lost. A key, a range and a function that looks at nothing but its record
    send the records of an RDD the same way again; ``"rebalance"``, ``"rescale"`` and ``"shuffle"`` do so if the records
    come in the same order. Where they may not, and where a function may remember something, Spark is told so: it
    computes again all that depends on it, or fails the job, as for its own ``repartition``. Rows of a DataFrame that
    are exchanged without a key are sorted first, by a hash, unless they come straight from where they are read.

    All tasks of a pipelined exchange run at once, so each needs a slot, and dynamic allocation must be off. When one
    fails, all do, within seconds. Spark runs such a stage again where a shuffle follows it (``reduceByKey``, a blocking
    exchange), up to four times in all; the stage of an action that follows directly (``collect``, ``foreachPartition``)
    fails the job, and it is for the caller to run that again. ``take`` and ``first`` work on one partition only: Spark
    refuses to run a part of a barrier stage. Two pipelined exchanges need a shuffle between them, and one after each of
    two that a union puts together. A task that stops reading its records still sends the others theirs, when its code
    has come to its end or closes the iterator; but where Spark itself stops reading, for the ``limit`` of a DataFrame,
    the others may fail: put a shuffle between. A result that is persisted is read from Spark's cache only if all of it
    is there: where Spark has lost a part, the job fails and says so, for the missing tasks alone cannot compute it.
    ``StorageLevel.MEMORY_AND_DISK`` loses less than ``cache()``.

    The tasks of a pipelined exchange meet at a socket of the driver, at ``spark.flinkbuf.driver.bindAddress`` (by
    default ``spark.driver.bindAddress``) and a port of ``spark.flinkbuf.driver.port`` (``"7000-7100"``; any, by
    default), and are told ``spark.flinkbuf.driver.host`` (``spark.driver.host``). Each listens at the address that it
    reached the driver with, or at ``spark.flinkbuf.task.bindAddress``, and a port of the configuration's `data_port`.
    Whoever connects has to prove that he knows a secret which Spark brought to the tasks, and each message to the
    driver and from it is authenticated; with ``tls`` in `config` all of it is encrypted, too. A task that cannot reach
    the driver fails and says what to open and to set. `fb.spark.exchange_summaries` says what each run did.

    Keys are equal as Java's ``equals`` sees them: 0.0 and -0.0 are two keys, and so are ``Decimal("1.0")`` and
    ``Decimal("1.00")``, though Python calls them equal. Key by a function to normalise them, such as
    ``key=lambda record: record.price.normalize()``.

    References
    ----------
    Flink ``DataStream.keyBy``, ``rebalance``, ``rescale``, ``shuffle``, ``global``, ``forward``, ``broadcast``,
    ``partitionCustom``.

    Examples
    --------
    >>> import flinkbuf as fb
    >>> trips = sc.parallelize([("JFK", 2.0), ("BOS", 7.5), ("JFK", -1.0)], 2)  # doctest: +SKIP
    >>> by_origin = fb.exchange(trips, key="origin", type="origin string, delay double")  # doctest: +SKIP
    >>> [sorted(part) for part in by_origin.glom().collect()]  # doctest: +SKIP
    [[Row(origin='BOS', delay=7.5)], [Row(origin='JFK', delay=-1.0), Row(origin='JFK', delay=2.0)]]
    >>> delays = spark.createDataFrame(trips, "origin string, delay double")  # doctest: +SKIP
    >>> fb.exchange(delays, "origin").mapInArrow(each_origin, "origin string, mean double")  # doctest: +SKIP
    """
    check_mode(mode)
    check_config(config)
    from pyspark.sql import DataFrame

    if isinstance(data, DataFrame):
        from flinkbuf.spark.exchange.frame_exchange import exchange_frame

        if type is not None:
            raise TypeError(
                "the rows of a DataFrame are of its own columns, so type= is for RDDs; to change the columns: cast "
                "them, or before=function with before_schema="
            )
        return exchange_frame(
            data,
            key,
            partitioner,
            num_partitions,
            mode,
            config,
            before=before,
            before_schema=before_schema,
            after=after,
            schema=schema,
        )
    rdd = _checked_rdd(data)
    chain = {"before": before, "before_schema": before_schema, "after": after, "schema": schema}
    given = [name for name, value in chain.items() if value is not None]
    if given:
        raise TypeError(f"{given[0]}= is for DataFrames; of an RDD: rdd.mapPartitions(function) before, or after")
    from flinkbuf.spark.exchange.rdd_exchange import exchange_rdd

    return exchange_rdd(rdd, key, partitioner, num_partitions, mode, config, type)


def _checked_rdd(data: object) -> "RDD[object]":
    from pyspark import RDD

    if not isinstance(data, RDD):
        found = f"{data.__class__.__module__}.{data.__class__.__qualname__}"
        raise TypeError(f"exchange() takes an RDD or a DataFrame of PySpark, got {found}")
    return data
