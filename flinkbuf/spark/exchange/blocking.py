"""The two halves of a blocking exchange, as bodies of Spark tasks: buffers into Spark's shuffle, and out of it.

An envelope is a buffer behind a header that says where it comes from, so that a task can tell the producers of
its channel apart and sees a buffer that is missing, doubled or out of order.
"""

import operator
import re
import struct
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flinkbuf.config import NetworkConfig
from flinkbuf.errors import CorruptDataError
from flinkbuf.records.partitioner import KeyPartitioner, Partitioner, pointwise_targets
from flinkbuf.records.record_buffers import read_buffers, write_buffers
from flinkbuf.spark.workers import shipped
from flinkbuf.types.types import TypeInformation

if TYPE_CHECKING:
    from pyspark import RDD

# Magic, exchange id, producer, sequence number within (producer, channel), is this the end marker?
_HEADER = struct.Struct(">4sQII?")
_MAGIC = b"FBX1"


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
        channels = self.channels_of(producer)
        sequences = [0] * len(channels)
        buffers = write_buffers(
            records,
            self.type,
            len(channels),
            self.partitioner,
            config=self.config,
            subtask_index=producer,
            seed=self.seed_of(producer),
        )
        try:
            for index, buffer in buffers:
                header = _HEADER.pack(_MAGIC, self.exchange_id, producer, sequences[index], False)
                sequences[index] += 1
                yield channels[index], b"".join((header, buffer))
        except (TypeError, ValueError, OverflowError) as error:
            # Only of a record that this writer refused is anything to be said; the user's iterator may have its own.
            refused = self.explain(producer, error) if buffers.has_record_in_hand else None
            if refused is None:
                raise
            raise refused from None
        for index, sequence in enumerate(sequences):
            if sequence:  # a channel that got nothing needs no end marker
                yield channels[index], _HEADER.pack(_MAGIC, self.exchange_id, producer, sequence, True)

    def explain(self, producer: int, error: Exception) -> Exception | None:
        """Return the error with the producer and with what to do about it; None if it is not about a record refused."""
        if getattr(error, "record_number", None) is None:
            return None
        return error.__class__(f"producer {producer}, {error}{self._advice(error)}")

    def _advice(self, error: Exception) -> str:
        """Say what to do about a record that was refused, where its message does not say it all."""
        what, taken = "type", self.type
        if error.refused_by != "type":  # type: ignore[attr-defined]
            if not isinstance(self.partitioner, KeyPartitioner) or error.__class__ is ValueError:
                return ""  # a channel that is none, a key that is None: no other type would help
            if callable(self.partitioner.key) and self.partitioner.key_type is not None:
                what, taken = "key_type", self.partitioner.key_type
        if what in self.sampled:
            return (
                f" ({what}={as_written(taken)} was taken from a sample: declare {what}= so that it fits every record)"
            )
        if self.is_from_spark and "its time zone would be lost" in str(error):
            return (
                " (timestamps of a pyspark type are naive, as in the rows of a DataFrame; for aware datetimes declare "
                "the type in DDL, or with fb.Types.INSTANT())"
            )
        return ""

    def seed_of(self, producer: int) -> int:
        """Return a seed that is the same when Spark runs this task again, so that random choices are too."""
        return (self.exchange_id + producer) % 2**32

    def channels_of(self, producer: int) -> range:
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


def through_shuffle(data: "RDD[Any]", write: WriteTask) -> "RDD[Any]":
    """Return the RDD of what `write` makes of the records of `data`, brought by Spark's shuffle to where it says."""
    envelopes = data.mapPartitionsWithIndex(shipped(write))
    # A channel is the index of the Spark partition that reads it.
    moved = envelopes.partitionBy(write.channel_count, operator.index)
    return moved.mapPartitionsWithIndex(shipped(ReadTask(write.exchange_id, write.type)))


def as_written(record_type: TypeInformation) -> str:
    """Return the type as a user writes it after ``import flinkbuf as fb``."""
    return re.sub(r"\bTypes(?=\.[A-Z_]+\()", "fb.Types", repr(record_type))
