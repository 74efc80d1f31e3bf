"""exchange(): records change their Spark partition inside 32 KiB buffers, not pickled one by one.

Blocking mode: ``mapPartitions(write_buffers)`` gives pairs (channel, envelope), Spark's own shuffle brings every
envelope to the task of its channel, and ``mapPartitions(read_buffers)`` gives the records back. Spark handles one
object per buffer; fault tolerance, spilling and shuffle files are Spark's.

An envelope is a buffer behind a header that says where it comes from, so that a task can tell the producers of
its channel apart and sees a buffer that is missing, doubled or out of order.
"""

import operator
import os
import re
import struct
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from traceback import walk_tb
from typing import TYPE_CHECKING, Any

from flinkbuf.config import NetworkConfig
from flinkbuf.errors import CorruptDataError
from flinkbuf.partitioner import (
    WHOLE_RECORD,
    KeyPartitioner,
    Partitioner,
    as_partitioner,
    by_key,
    pointwise_targets,
)
from flinkbuf.record_buffers import read_buffers, write_buffers
from flinkbuf.types import (
    MapTypeInfo,
    ObjectArrayTypeInfo,
    RowTypeInfo,
    TypeInformation,
    Types,
    as_type,
    infer_type,
)

if TYPE_CHECKING:
    from pyspark import RDD

MODES = ("blocking",)
SAMPLE_SIZE = 200  # records looked at in each of up to three Spark partitions when the type is left out

# Magic, exchange id, producer, sequence number within (producer, channel), is this the end marker?
_HEADER = struct.Struct(">4sQII?")
_MAGIC = b"FBX1"

_LOOP = "flinkbuf._core.record_buffers"  # takes records from the iterator of the user
_RECORD_NUMBER = re.compile(r"record \d+: ")


def exchange(
    data: "RDD[Any]",
    key: Any = None,
    *,
    type: Any = None,
    partitioner: Any = None,
    num_partitions: int | None = None,
    mode: str = "blocking",
    config: Any = None,
) -> "RDD[Any]":
    """Move every record of an RDD to the Spark partition that its key or a partitioner chooses.

    Does what ``rdd.partitionBy`` and ``rdd.repartition`` do, and moves 32 KiB buffers instead of pickled records:
    each record is encoded by its type, and Spark's shuffle sees the buffers only.

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
        How many partitions the result has; by default as many as `data`.
    mode : str, default "blocking"
        ``"blocking"``: through Spark's shuffle, with its fault tolerance.
    config : NetworkConfig, optional
        Buffer size and memory of the writing tasks.

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
        If an argument is out of range, or key and partitioner are both given; when the job runs, if a key is None.
    CorruptDataError
        When the job runs, if a buffer is missing, doubled or damaged; with producer, channel and sequence number.

    Notes
    -----
    Spark may compute a lost partition again. A key or a function of the record sends the records the same way again;
    ``"rebalance"``, ``"rescale"`` and ``"shuffle"`` do so as long as the records come in the same order again.

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
    envelopes = data.mapPartitionsWithIndex(write).partitionBy(channel_count, _same_index)
    return envelopes.mapPartitionsWithIndex(ReadTask(exchange_id, record_type))


@dataclass(frozen=True)
class WriteTask:
    """The producing half of an exchange: the body of one Spark task, pickled to where it runs."""

    exchange_id: int
    type: TypeInformation
    partitioner: Partitioner
    producer_count: int
    channel_count: int
    config: NetworkConfig | None = None
    sampled: tuple[str, ...] = ()  # "type", "key_type": which of them nobody declared
    is_from_spark: bool = False  # the type was made of a pyspark one

    def __call__(self, producer: int, records: Iterable[Any]) -> Iterator[tuple[int, bytes]]:
        """Yield (channel, envelope) for the records of Spark partition `producer`."""
        channels = self._channels_of(producer)
        sequences = [0] * len(channels)
        buffers = write_buffers(
            records, self.type, len(channels), self.partitioner,
            config=self.config, subtask_index=producer, seed=self._seed_of(producer),
        )  # fmt: skip
        try:
            for index, buffer in buffers:
                header = _HEADER.pack(_MAGIC, self.exchange_id, producer, sequences[index], False)
                sequences[index] += 1
                yield channels[index], b"".join((header, buffer))
        except (TypeError, ValueError, OverflowError) as error:
            raiser = _raiser_in_core(error)
            if not raiser:
                raise
            advice = self._advice(error, raiser)
            raise error.__class__(f"producer {producer}, {error}{advice}") from None
        for index, sequence in enumerate(sequences):
            if sequence:  # a channel that got nothing needs no end marker
                yield channels[index], _HEADER.pack(_MAGIC, self.exchange_id, producer, sequence, True)

    def _advice(self, error: Exception, raiser: str) -> str:
        """Say what to do about a record that was refused, where its message does not say it all."""
        what, taken = "type", self.type
        if raiser == "flinkbuf._core.channel_selector":
            if not isinstance(self.partitioner, KeyPartitioner) or error.__class__ is ValueError:
                return ""  # a channel that is none, a key that is None: no other type would help
            if callable(self.partitioner.key) and self.partitioner.key_type is not None:
                what, taken = "key_type", self.partitioner.key_type
        if what in self.sampled:
            return (
                f" ({what}={_as_written(taken)} was taken from a sample: declare {what}= so that it fits every record)"
            )
        if self.is_from_spark and "its time zone would be lost" in str(error):
            return (
                " (timestamps of a pyspark type are naive, as in the rows of a DataFrame; for aware datetimes declare "
                "the type in DDL, or with fb.Types.INSTANT())"
            )
        return ""

    def _seed_of(self, producer: int) -> int:
        """Return a seed that is the same when Spark runs this task again, so that random choices are too."""
        return (self.exchange_id + producer) % 2**32

    def _channels_of(self, producer: int) -> range:
        """Return the channels that `producer` may write to: all, or its share where the pattern is point-wise."""
        if self.partitioner.kind in ("forward", "rescale"):
            return pointwise_targets(producer, self.producer_count, self.channel_count)
        return range(self.channel_count)


@dataclass(frozen=True)
class ReadTask:
    """The consuming half of an exchange: the body of one Spark task, pickled to where it runs."""

    exchange_id: int
    type: TypeInformation

    def __call__(self, channel: int, pairs: Iterable[tuple[int, bytes]]) -> Iterator[Any]:
        """Yield the records in the envelopes of `channel`, one producer after the other."""
        arrivals = Arrivals(self.exchange_id, channel, (envelope for _, envelope in pairs))
        for producer in arrivals.producers():
            try:
                yield from read_buffers(arrivals.buffers_of(producer), self.type)
            except CorruptDataError as error:
                raise CorruptDataError(f"{arrivals.describe(producer)}: {error}") from error


@dataclass
class Arrivals:
    """The envelopes of one channel, told apart by producer in one pass.

    Spark delivers what one task wrote in one piece, so a buffer is handed on as soon as it comes. Should two
    producers be mixed, the buffers of the one that is not being read wait in memory.
    """

    exchange_id: int
    channel: int
    envelopes: Iterator[bytes]
    next_sequence: dict[int, int] = field(default_factory=dict)  # by producer; -1 after its end marker
    waiting: dict[int, deque[memoryview | None]] = field(default_factory=dict)  # None marks the end

    def producers(self) -> Iterator[int]:
        """Yield each producer when it is its turn to be read, by order of arrival."""
        while self.waiting or self._take():
            producer = next(iter(self.waiting))
            yield producer
            del self.waiting[producer]

    def buffers_of(self, producer: int) -> Iterator[memoryview]:
        """Yield the buffers of `producer` in order, to the end marker."""
        queue = self.waiting[producer]
        while True:
            while queue:
                buffer = queue.popleft()
                if buffer is None:
                    return
                yield buffer
            if not self._take():
                raise CorruptDataError("the end marker of this producer never came: the shuffle lost the rest")

    def describe(self, producer: int) -> str:
        """Say where in the exchange the reader is, for messages."""
        sequence = self.next_sequence.get(producer, 0)
        where = "at its end" if sequence < 0 else f"after {sequence} buffers"
        return f"exchange {self.exchange_id:016x}, channel {self.channel}, producer {producer}, {where}"

    def _take(self) -> bool:
        """Move one envelope into the queue of its producer; False where there is none left."""
        envelope = next(self.envelopes, None)
        if envelope is None:
            return False
        producer, is_end = self._check_header(envelope)
        buffer = None if is_end else memoryview(envelope)[_HEADER.size :]
        self.waiting.setdefault(producer, deque()).append(buffer)
        return True

    def _check_header(self, envelope: bytes) -> tuple[int, bool]:
        """Check that this is the envelope expected next from its producer; return producer and end flag."""
        if len(envelope) < _HEADER.size:
            raise CorruptDataError(
                f"exchange {self.exchange_id:016x}, channel {self.channel}: an envelope of {len(envelope)} bytes "
                f"is shorter than its header of {_HEADER.size} bytes"
            )
        magic, exchange_id, producer, sequence, is_end = _HEADER.unpack_from(envelope)
        if magic != _MAGIC or exchange_id != self.exchange_id:
            raise CorruptDataError(
                f"exchange {self.exchange_id:016x}, channel {self.channel}: an envelope starts with {magic!r} and "
                f"exchange {exchange_id:016x}; it does not belong here"
            )
        expected = self.next_sequence.get(producer, 0)
        if sequence != expected:
            raise CorruptDataError(f"{self.describe(producer)}: {_misplaced(sequence, expected)}")
        self.next_sequence[producer] = -1 if is_end else sequence + 1
        return producer, is_end


def _misplaced(sequence: int, expected: int) -> str:
    """Say what is wrong with buffer `sequence` where `expected` was due."""
    if expected < 0:
        return f"buffer {sequence} came after the end marker"
    if sequence < expected:
        return f"buffer {sequence} came twice or too late; buffer {expected} was due"
    return f"buffer {sequence} came where buffer {expected} was due; {sequence - expected} are missing or late"


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
    if key is None:
        chosen = as_partitioner("rebalance" if partitioner is None else partitioner)
    else:
        chosen = by_key(key)
    if isinstance(chosen, KeyPartitioner) and isinstance(chosen.key, tuple) and chosen.key_type is None:
        if any(map(callable, chosen.key)):
            raise ValueError(
                f"the key {chosen.key!r} holds a function, so the types of its {len(chosen.key)} parts must be "
                "declared: partitioner=fb.by_key(key, key_type=fb.Types.TUPLE([...]))"
            )
    return chosen


def _read_type(declared: Any) -> tuple[TypeInformation | None, bool]:
    """Return the type of the records, None if it is left out; and whether it was made of a pyspark type."""
    from pyspark.sql.types import DataType

    if declared is None:
        return None, False
    if isinstance(declared, DataType):
        return _with_local_timestamps(as_type(declared)), True
    return as_type(declared), False


def _with_local_timestamps(given: TypeInformation) -> TypeInformation:
    """Return the type with LOCAL_DATE_TIME for INSTANT: PySpark's rows hold a timestamp as a naive datetime."""
    if given == Types.INSTANT():
        return Types.LOCAL_DATE_TIME()
    if isinstance(given, RowTypeInfo):
        return RowTypeInfo(tuple(map(_with_local_timestamps, given.field_types)), given.names)
    if isinstance(given, ObjectArrayTypeInfo):
        return ObjectArrayTypeInfo(_with_local_timestamps(given.element_type))
    if isinstance(given, MapTypeInfo):
        return MapTypeInfo(_with_local_timestamps(given.key_type), _with_local_timestamps(given.value_type))
    return given


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
                f"records of {_as_written(record_type)} have no field {part!r} to be their key: key={WHOLE_RECORD!r} "
                "is the whole record, key=function what the function returns"
            )
        if isinstance(part, str) and "." in part and names is not None and part not in names:
            if part.partition(".")[0] in names:
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
        found["type"] = f"type={_as_written(record_type)}"
    if isinstance(partitioner, KeyPartitioner) and _needs_key_type(partitioner):
        key_type = infer_type([partitioner.key(record) for record in records])
        partitioner = replace(partitioner, key_type=key_type)
        found["key_type"] = f"by_key(..., key_type={_as_written(key_type)})"
    import logging  # costs more than the rest of this module: not before there is something to say

    logging.getLogger("flinkbuf").warning(
        "exchange: a sample of %d records says %s; declare it to skip the sampling and to be sure",
        len(records), " and ".join(found.values()),
    )  # fmt: skip
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
    records = list(data.context.runJob(data, _head, sorted(looked_at)))
    others = [index for index in range(count) if index not in looked_at]
    if records or not others:
        return records
    few = 1 + SAMPLE_SIZE // len(others)
    return list(data.context.runJob(data, lambda rest: islice(rest, few), others))


def _head(records: Iterable[Any]) -> Iterator[Any]:
    return islice(records, SAMPLE_SIZE)


def _as_written(record_type: TypeInformation) -> str:
    """Return the type as a user writes it after ``import flinkbuf as fb``."""
    return re.sub(r"\bTypes(?=\.[A-Z_]+\()", "fb.Types", repr(record_type))


def _same_index(channel: int) -> int:
    """The partition function of the shuffle: a channel is the index of the Spark partition that reads it."""
    return channel


def _raiser_in_core(error: Exception) -> str:
    """Return the module of the core that refused a record of this exchange; "" for an error of anybody else.

    Only the core's own frames may lie below the task's, and one iterator among them: an error of the user's
    iterator, function or value passes through a frame of Python, through the ``__next__`` of another of our
    iterators, or comes straight out of an iterator in C, which leaves none below the loop that called it.
    """
    if error.__class__ not in (TypeError, ValueError, OverflowError) or not _RECORD_NUMBER.match(str(error)):
        return ""
    frames = [frame for frame, _ in walk_tb(error.__traceback__)][1:]
    modules = [frame.f_globals.get("__name__", "") for frame in frames]
    iterators = [frame for frame in frames if frame.f_code.co_name.endswith("__next__")]
    if len(iterators) != 1 or modules[-1] == _LOOP or not all(name.startswith("flinkbuf._core.") for name in modules):
        return ""
    return modules[-1]
