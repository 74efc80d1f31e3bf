"""exchange() of an RDD: records change their Spark partition inside 32 KiB buffers, not pickled one by one.

Blocking mode: ``mapPartitions(write_buffers)`` gives pairs (channel, envelope), Spark's own shuffle brings every
envelope to the task of its channel, and ``mapPartitions(read_buffers)`` gives the records back. Spark handles one
object per buffer; fault tolerance, spilling and shuffle files are Spark's (blocking.py).

Pipelined mode: the tasks of one barrier stage send buffers to each other over TCP while they run (pipelined.py).
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from flinkbuf.config import NetworkConfig
from flinkbuf.log import logger
from flinkbuf.records.partitioner import WHOLE_RECORD, KeyPartitioner, Partitioner, as_partitioner
from flinkbuf.records.range_partitioner import RangePartitioner
from flinkbuf.spark.exchange.arguments import STAGE_USER, check_count, choose_partitioner
from flinkbuf.spark.exchange.blocking import WriteTask, as_written, through_shuffle
from flinkbuf.spark.exchange.pipelined import exchange_pipelined
from flinkbuf.spark.exchange.range_sample import with_sampled_bounds
from flinkbuf.spark.stage.barrier_stage import check_barrier_stage
from flinkbuf.spark.workers import check_workers, shipped
from flinkbuf.types.types import TypeInformation, Types, as_type, infer_type

if TYPE_CHECKING:
    from pyspark import RDD

SAMPLE_SIZE = 200  # records looked at in each of up to three Spark partitions when the type is left out


def exchange_rdd(
    data: "RDD[object]",
    key: object,
    partitioner: object,
    num_partitions: object,
    mode: str,
    config: NetworkConfig | None,
    type: object = None,
) -> "RDD[object]":
    """Return the RDD of the records of `data` in the partitions that they are sent to; see `exchange`."""
    producer_count = data.getNumPartitions()
    channel_count = max(1, producer_count) if num_partitions is None else check_count(num_partitions)
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
    if isinstance(partitioner, RangePartitioner) and partitioner.needs_bounds:
        partitioner = with_sampled_bounds(data, partitioner, record_type, channel_count)
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


def _choose_partitioner(key: object, partitioner: object) -> Partitioner:
    """As `choose_partitioner`; a key of several parts needs a type where one of them is a function."""
    chosen = choose_partitioner(key, partitioner)
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


def _read_type(declared: object) -> tuple[TypeInformation | None, bool]:
    """Return the type of the records, None if it is left out; and whether it was made of a pyspark type."""
    from pyspark.sql.types import DataType

    from flinkbuf.spark.frames.schema import from_spark_rows  # brings pyspark

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
    data: "RDD[object]", record_type: TypeInformation | None, partitioner: Partitioner
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


def _infer_record_type(records: list[object]) -> TypeInformation:
    from pyspark.sql import Row

    try:
        return infer_type(records)
    except TypeError as error:
        if not isinstance(records[0], Row):
            raise
        raise TypeError(f"{error}; for the rows of a DataFrame df, type=df.schema") from None


def _sample(data: "RDD[object]") -> list[object]:
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


def _head(records: Iterable[object]) -> Iterator[object]:
    return islice(records, SAMPLE_SIZE)
