"""exchange(): records change their Spark partition inside 32 KiB buffers, not pickled one by one.

Blocking mode: ``mapPartitions(write_buffers)`` gives pairs (channel, envelope), Spark's own shuffle brings every
envelope to the task of its channel, and ``mapPartitions(read_buffers)`` gives the records back. Spark handles one
object per buffer; fault tolerance, spilling and shuffle files are Spark's.

An envelope is a buffer behind a header that says where it comes from, so that a task can tell the producers of
its channel apart and sees a buffer that is missing, doubled or out of order.
"""

import logging
import os
import re
import struct
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from flinkbuf.errors import CorruptDataError
from flinkbuf.partitioner import KeyPartitioner, Partitioner, as_partitioner, by_key, pointwise_targets
from flinkbuf.record_buffers import read_buffers, write_buffers
from flinkbuf.types import TypeInformation, Types, as_type, infer_type

if TYPE_CHECKING:
    from pyspark import RDD

MODES = ("blocking",)
SAMPLE_SIZE = 200  # records looked at in each of up to three Spark partitions when the type is left out

# Magic, exchange id, producer, sequence number within (producer, channel), is this the end marker?
_HEADER = struct.Struct(">4sQII?")
_MAGIC = b"FBX1"

_CALLERS_OF_USER_CODE = ("flinkbuf._core.record_buffers", "flinkbuf._core.channel_selector", __name__)

_logger = logging.getLogger("flinkbuf")


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

    Does what ``rdd.partitionBy`` and ``rdd.repartition`` do, several times faster: records are encoded by type into
    buffers of 32 KiB, and Spark's shuffle moves the buffers.

    Parameters
    ----------
    data : RDD
        The records. For a DataFrame pass ``df.rdd`` and ``type=df.schema``.
    key : str, int or callable, optional
        Short for ``partitioner=fb.by_key(key)``: a field's name, its index, or a function of the record. Records with
        equal keys meet in one Spark partition. What type a function's keys have is taken from a sample, unless
        ``fb.by_key(function, key_type=...)`` says it.
    type : TypeInformation, str, StructType or pyarrow.Schema, optional
        What `fb.as_type` takes. Left out, a sample of the data decides, which costs one small job; the type taken is
        logged as a warning of the logger ``flinkbuf`` in the form in which it can be passed here.
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
        The same records. What one partition of `data` sent to one partition of the result keeps its order; which
        partition of `data` comes first is not fixed.

    Raises
    ------
    TypeError
        If `data` is not an RDD; when the job runs, if a record is not of the type (with field, value and record
        number).
    ValueError
        If an argument is out of range, or key and partitioner are both given.
    CorruptDataError
        When the job runs, if a buffer is missing, doubled or damaged; with producer, channel and sequence number.

    Notes
    -----
    Spark may compute a lost partition again. A key or a function of the record sends the records the same way again;
    ``"rebalance"``, ``"rescale"`` and ``"shuffle"`` do so as long as the records come in the same order again.

    References
    ----------
    Flink ``DataStream.keyBy``, ``rebalance``, ``rescale``, ``shuffle``, ``global``, ``forward``, ``broadcast``,
    ``partitionCustom``.

    Examples
    --------
    >>> import flinkbuf as fb
    >>> trips = sc.parallelize([("JFK", 2.0), ("LGA", 7.5), ("JFK", -1.0)], 2)     # doctest: +SKIP
    >>> fb.exchange(trips, key=0, type="origin string, delay double").glom().collect()    # doctest: +SKIP
    [[('LGA', 7.5)], [('JFK', 2.0), ('JFK', -1.0)]]
    """
    if mode not in MODES:
        raise ValueError(f"mode must be one of {', '.join(map(repr, MODES))}, got {mode!r}")
    _check_is_rdd(data)
    producer_count = data.getNumPartitions()
    channel_count = max(1, producer_count) if num_partitions is None else num_partitions
    if isinstance(channel_count, bool) or not isinstance(channel_count, int) or channel_count < 1:
        raise ValueError(f"num_partitions must be a whole number of at least 1, got {num_partitions!r}")
    partitioner = _choose_partitioner(key, partitioner)
    if partitioner.kind == "forward" and channel_count != producer_count:
        raise ValueError(
            f"partitioner 'forward' leaves every record in its partition, so num_partitions must be that of the data, "
            f"{producer_count}; got {channel_count}. 'rescale' and 'rebalance' take any number"
        )
    type_is_inferred = type is None
    if type_is_inferred or _needs_key_type(partitioner):
        record_type, partitioner = _infer_types(data, None if type_is_inferred else as_type(type), partitioner)
    else:
        record_type = as_type(type)
    if record_type.kind != "VOID":
        partitioner.selector(record_type, channel_count, 0, 0)  # a field that is not there fails here, not in a task
    exchange_id = int.from_bytes(os.urandom(8), "big")
    write = WriteTask(
        exchange_id, record_type, partitioner, producer_count, channel_count, config, type_is_inferred
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
    config: Any = None
    type_is_inferred: bool = False

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
            if self.type_is_inferred and _is_about_type(error):
                raise _with_advice(error, self.type) from error
            raise
        for index, sequence in enumerate(sequences):
            if sequence:  # a channel that got nothing needs no end marker
                yield channels[index], _HEADER.pack(_MAGIC, self.exchange_id, producer, sequence, True)

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


def _choose_partitioner(key: Any, partitioner: Any) -> Partitioner:
    """Make the partitioner out of the two ways to ask for it."""
    if key is None:
        return as_partitioner("rebalance" if partitioner is None else partitioner)
    if partitioner is not None:
        raise ValueError(f"give either key or partitioner: got key={key!r} and partitioner={partitioner!r}")
    return by_key(key)


def _needs_key_type(partitioner: Partitioner) -> bool:
    return isinstance(partitioner, KeyPartitioner) and callable(partitioner.key) and partitioner.key_type is None


def _infer_types(
    data: "RDD[Any]", record_type: TypeInformation | None, partitioner: Partitioner
) -> tuple[TypeInformation, Partitioner]:
    """Take from a sample what was left out: the type of the records, of a key function's keys; and tell the user."""
    records = _sample(data)
    if not records:
        return record_type or Types.VOID(), as_partitioner("global")  # nothing to move
    found = []
    if record_type is None:
        record_type = infer_type(records)
        found.append(f"type={_as_written(record_type)}")
    if isinstance(partitioner, KeyPartitioner) and _needs_key_type(partitioner):
        key_type = infer_type([partitioner.key(record) for record in records])
        partitioner = replace(partitioner, key_type=key_type)
        found.append(f"by_key(..., key_type={_as_written(key_type)})")
    _logger.warning(
        "exchange: a sample of %d records says %s; declare it to skip the sampling and to be sure",
        len(records), " and ".join(found),
    )  # fmt: skip
    return record_type, partitioner


def _sample(data: "RDD[Any]") -> list[Any]:
    """Return the first records of up to three Spark partitions; none only if there are none at all."""
    last = data.getNumPartitions() - 1
    if last < 0:
        return []
    return list(data.context.runJob(data, _head, sorted({0, last // 2, last}))) or data.take(SAMPLE_SIZE)


def _head(records: Iterable[Any]) -> Iterator[Any]:
    return islice(records, SAMPLE_SIZE)


def _as_written(record_type: TypeInformation) -> str:
    """Return the type as a user writes it after ``import flinkbuf as fb``."""
    return re.sub(r"\bTypes(?=\.[A-Z_]+\()", "fb.Types", repr(record_type))


def _same_index(channel: int) -> int:
    """The partition function of the shuffle: a channel is the index of the Spark partition that reads it."""
    return channel


def _is_about_type(error: BaseException) -> bool:
    """Tell whether encoding raised this: what the user's own code raises passes unchanged."""
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    module = frame.tb_frame.f_globals.get("__name__", "") if frame is not None else ""
    # The innermost frame is ours and not one of those that call into the user's iterators and functions.
    return module.startswith("flinkbuf.") and module not in _CALLERS_OF_USER_CODE


def _with_advice(error: Exception, record_type: TypeInformation) -> Exception:
    taken = f"type={_as_written(record_type)} was taken from a sample"
    return error.__class__(f"{error} ({taken}: declare type= so that it fits every record)")
