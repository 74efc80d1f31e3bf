"""exchange(): records change their Spark partition inside 32 KiB buffers, not pickled one by one.

Blocking mode: ``mapPartitions(write_buffers)`` gives pairs (channel, envelope), Spark's own shuffle brings every
envelope to the task of its channel, and ``mapPartitions(read_buffers)`` gives the records back. Spark handles one
object per buffer; fault tolerance, spilling and shuffle files are Spark's (blocking.py).

Pipelined mode: the tasks of one barrier stage send buffers to each other over TCP while they run (pipelined.py).
"""

import operator
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from flinkbuf.config import NetworkConfig
from flinkbuf.log import logger
from flinkbuf.records.partitioner import WHOLE_RECORD, KeyPartitioner, Partitioner, as_partitioner, by_key
from flinkbuf.spark.barrier_stage import StageUser, check_barrier_stage
from flinkbuf.spark.exchange.blocking import WriteTask, as_written, through_shuffle
from flinkbuf.spark.exchange.pipelined import exchange_pipelined
from flinkbuf.spark.workers import check_workers, shipped
from flinkbuf.types.types import TypeInformation, Types, as_type, infer_type

if TYPE_CHECKING:
    from pyspark import RDD

T = TypeVar("T")
MODES = ("blocking", "pipelined")
STAGE_USER = StageUser(
    name="a pipelined exchange",
    log_name="exchange",
    needs="with {count} partitions",
    fewer="pass num_partitions={slots}",
    otherwise="use mode='blocking'",
    once="another pipelined exchange, and two in one stage could wait for each other: use mode='blocking' for one of "
    "the two, or put a shuffle such as repartition() between",
)
SAMPLE_SIZE = 200  # records looked at in each of up to three Spark partitions when the type is left out


def exchange(
    data: "RDD[T]",
    key: str | int | Callable[[T], Any] | tuple[Any, ...] | None = None,
    *,
    type: Any = None,
    partitioner: str | Partitioner | Callable[[T, int], int] | None = None,
    num_partitions: int | None = None,
    mode: Literal["blocking", "pipelined"] = "blocking",
    config: NetworkConfig | None = None,
) -> "RDD[T]":
    """Move every record of an RDD to the Spark partition that its key or a partitioner chooses.

    Does what ``rdd.partitionBy`` and ``rdd.repartition`` do, and moves 32 KiB buffers instead of pickled records:
    each record is encoded by its type, and Spark's shuffle, or the network, sees the buffers only.

    Parameters
    ----------
    data : RDD
        The records. For a DataFrame pass ``df.rdd`` and ``type=df.schema``.
    key : str, int, callable or tuple, optional
        Short for ``partitioner=fb.by_key(key)``: a field's name, its index, a function of the record, a tuple of
        fields, or ``"*"``, the whole record. Records with equal keys meet in one Spark partition; a record whose key
        is None is an error. What type a function's keys have is taken from a sample, unless
        ``partitioner=fb.by_key(function, key_type=...)`` says it.
    type : TypeInformation, str, pyspark DataType or pyarrow.Schema, optional
        What `fb.as_type` takes. Timestamps of a pyspark type are naive datetimes, as they are in the rows of a
        DataFrame; where the records hold aware ones, say ``timestamp`` in DDL or ``fb.Types.INSTANT()``. Left out, a
        sample of the data decides, which costs one small job, or two where the first, middle and last partition are
        empty; the type taken is logged as a warning of the logger ``flinkbuf`` in the form in which it can be passed
        here.
    partitioner : Partitioner, str or callable, optional
        ``fb.by_key(...)``, ``"rebalance"`` (the default without a key), ``"rescale"``, ``"shuffle"``, ``"global"``,
        ``"forward"``, ``"broadcast"``, or a function ``(record, num_partitions) -> int``.
    num_partitions : int, optional
        How many partitions the result has; by default as many as `data`. A pipelined exchange has as many tasks; where
        `data` has another number of partitions, a blocking exchange brings them, each one whole, to these tasks first.
    mode : {"blocking", "pipelined"}, default "blocking"
        ``"blocking"``: through Spark's shuffle, with its fault tolerance. ``"pipelined"``: the tasks of one barrier
        stage send to each other over TCP while they run; first results come before the last record is read, no file is
        written, and memory stays within the configured buffers. See the notes.
    config : NetworkConfig, optional
        Buffer size and memory of the writing tasks; for a pipelined exchange every knob of its network.

    Returns
    -------
    RDD
        The same records, each as its type gives it back: a `fb.Row` (a tuple with attributes and ``asDict()``, not a
        pyspark ``Row``) where the type has field names, a tuple for ``fb.Types.TUPLE``. What one partition of `data`
        sent to one partition of the result keeps its order; which partition of `data` comes first is not fixed.

    Raises
    ------
    TypeError
        If `data` is not an RDD, or another argument is of the wrong kind; when the job runs, if a record is not of
        the type (with producer, record number, field and value: the producer is the index of the partition of
        `data`).
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
    Spark may compute a lost partition again. A key or a function of the record sends the records the same way again;
    ``"rebalance"``, ``"rescale"`` and ``"shuffle"`` do so as long as the records come in the same order again.

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
    the driver fails and says what to open and to set. `fb.exchange_summaries` says what each run did.

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
    """
    if mode not in MODES:
        raise ValueError(f"mode must be one of {', '.join(map(repr, MODES))}, got {mode!r}")
    _check_is_rdd(data)
    if config is not None and not isinstance(config, NetworkConfig):
        raise TypeError(f"config must be a NetworkConfig, such as fb.NetworkConfig(segment_size=65536), got {config!r}")
    producer_count = data.getNumPartitions()
    channel_count = max(1, producer_count) if num_partitions is None else _check_count(num_partitions)
    partitioner = _choose_partitioner(key, partitioner)
    if partitioner.kind == "forward" and channel_count != producer_count:
        raise ValueError(
            f"partitioner 'forward' leaves every record in its partition, so num_partitions must be that of the data, "
            f"{producer_count}; got {channel_count}. 'rescale' and 'rebalance' take any number"
        )
    record_type, is_from_spark = _read_type(type)
    check_workers(data.context)
    if mode == "pipelined":
        check_barrier_stage(data, channel_count, STAGE_USER)
    sampled: tuple[str, ...] = ()
    if record_type is None or _needs_key_type(partitioner):
        record_type, partitioner, sampled = _infer_types(data, record_type, partitioner)
    if record_type.kind != "VOID":
        _check_key(partitioner, record_type)
        partitioner.selector(record_type, channel_count, 0, 0)  # a field that is not there fails here, not in a task
    exchange_id = int.from_bytes(os.urandom(8), "big")
    write = WriteTask(
        exchange_id, record_type, partitioner, producer_count, channel_count, config, sampled, is_from_spark
    )
    if mode == "pipelined":
        return exchange_pipelined(data, write)
    return through_shuffle(data, write)


def _check_is_rdd(data: Any) -> None:
    """Refuse what is not an RDD, with the way out for a DataFrame."""
    from pyspark import RDD
    from pyspark.sql import DataFrame

    if isinstance(data, DataFrame):
        raise TypeError(
            "exchange() moves the records of an RDD. For a DataFrame pass its rows and their schema: "
            "spark.createDataFrame(fb.exchange(df.rdd, key, type=df.schema), df.schema)"
        )
    if not isinstance(data, RDD):
        raise TypeError(f"exchange() takes an RDD, got {data.__class__.__module__}.{data.__class__.__qualname__}")


def _check_count(num_partitions: Any) -> int:
    """Take any kind of int, numpy's too."""
    try:
        count = None if isinstance(num_partitions, bool) else operator.index(num_partitions)
    except TypeError:
        count = None
    if count is None:
        raise TypeError(f"num_partitions must be a whole number, got {num_partitions!r}")
    if count < 1:
        raise ValueError(f"num_partitions must be at least 1, got {num_partitions!r}")
    return count


def _choose_partitioner(key: Any, partitioner: Any) -> Partitioner:
    """Make the partitioner out of the two ways to ask for it."""
    if key is not None and partitioner is not None:
        raise ValueError(f"give either key or partitioner: got key={key!r} and partitioner={partitioner!r}")
    asked = "rebalance" if partitioner is None else partitioner
    chosen = as_partitioner(asked) if key is None else by_key(key)
    if (
        isinstance(chosen, KeyPartitioner)
        and isinstance(chosen.key, tuple)
        and chosen.key_type is None
        and any(map(callable, chosen.key))
    ):
        raise ValueError(
            f"the key {chosen.key!r} holds a function, so the types of its {len(chosen.key)} parts must be "
            "declared: partitioner=fb.by_key(key, key_type=fb.Types.TUPLE([...]))"
        )
    return chosen


def _read_type(declared: Any) -> tuple[TypeInformation | None, bool]:
    """Return the type of the records, None if it is left out; and whether it was made of a pyspark type."""
    from pyspark.sql.types import DataType

    from flinkbuf.spark.schema import from_spark_rows  # brings pyspark

    if declared is None:
        return None, False
    if isinstance(declared, DataType):
        return from_spark_rows(declared), True
    return as_type(declared), False


def _check_key(partitioner: Partitioner, record_type: TypeInformation) -> None:
    """Refuse keys that records of this type cannot have, with the way out."""
    if not isinstance(partitioner, KeyPartitioner):
        return
    names = getattr(record_type, "field_names", None)
    for part in partitioner.key if isinstance(partitioner.key, tuple) else (partitioner.key,):
        if callable(part) or part == WHOLE_RECORD:
            continue
        if names is None and partitioner.key_type is None:
            raise ValueError(
                f"records of {as_written(record_type)} have no field {part!r} to be their key: key={WHOLE_RECORD!r} "
                "is the whole record, key=function what the function returns"
            )
        if (
            isinstance(part, str)
            and "." in part
            and names is not None
            and part not in names
            and part.partition(".")[0] in names
        ):
            raise ValueError(
                f"the records have no field {part!r}; the key for a field inside a field is a function: "
                f"key=lambda record: record.{part}"
            )


def _needs_key_type(partitioner: Partitioner) -> bool:
    return isinstance(partitioner, KeyPartitioner) and callable(partitioner.key) and partitioner.key_type is None


def _infer_types(
    data: "RDD[Any]", record_type: TypeInformation | None, partitioner: Partitioner
) -> tuple[TypeInformation, Partitioner, tuple[str, ...]]:
    """Take from a sample what was left out: the type of the records, of a key function's keys; and tell the user.

    Returned are both, and which of them the sample decided.
    """
    records = _sample(data)
    if not records:
        return record_type or Types.VOID(), as_partitioner("global"), ()  # nothing to move
    found = {}
    if record_type is None:
        record_type = _infer_record_type(records)
        found["type"] = f"type={as_written(record_type)}"
    if isinstance(partitioner, KeyPartitioner) and _needs_key_type(partitioner):
        key_type = infer_type([partitioner.key(record) for record in records])
        partitioner = replace(partitioner, key_type=key_type)
        found["key_type"] = f"by_key(..., key_type={as_written(key_type)})"
    logger.warning(
        "exchange: a sample of %d records says %s; declare it to skip the sampling and to be sure",
        len(records),
        " and ".join(found.values()),
    )
    return record_type, partitioner, tuple(found)


def _infer_record_type(records: list[Any]) -> TypeInformation:
    from pyspark.sql import Row

    try:
        return infer_type(records)
    except TypeError as error:
        if not isinstance(records[0], Row):
            raise
        raise TypeError(f"{error}; for the rows of a DataFrame df, type=df.schema") from None


def _sample(data: "RDD[Any]") -> list[Any]:
    """Return the first records of up to three Spark partitions, or some of the others if these are empty."""
    count = data.getNumPartitions()
    if count == 0:
        return []
    looked_at = {0, (count - 1) // 2, count - 1}
    if len(looked_at) < count and data._jrdd.rdd().isBarrier():
        raise ValueError(
            "the data are made in a barrier stage, such as that of a pipelined exchange, of which Spark runs no part "
            "to take a sample from: declare type=, and by_key(..., key_type=) for a function"
        )
    records = list(data.context.runJob(data, shipped(_head), sorted(looked_at)))
    others = [index for index in range(count) if index not in looked_at]
    if records or not others:
        return records
    few = 1 + SAMPLE_SIZE // len(others)
    return list(data.context.runJob(data, lambda rest: islice(rest, few), others))


def _head(records: Iterable[Any]) -> Iterator[Any]:
    return islice(records, SAMPLE_SIZE)
