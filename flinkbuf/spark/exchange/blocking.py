"""The two halves of a blocking exchange, as bodies of Spark tasks: buffers into Spark's shuffle, and out of it."""

import operator
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flinkbuf._core.record.record_digest import RecordDigests
from flinkbuf.config import NetworkConfig
from flinkbuf.errors import CorruptDataError
from flinkbuf.records.partitioner import CustomPartitioner, KeyPartitioner, Partitioner, pointwise_targets
from flinkbuf.records.record_buffers import read_buffers, write_buffers
from flinkbuf.spark.exchange.envelope import (
    BUFFER,
    COMPRESSED_BUFFER,
    END_MARKER,
    Arrivals,
    compressor_of,
    header_of,
)
from flinkbuf.spark.exchange.pure_function import is_pure
from flinkbuf.spark.frames.rdd_order import declare_order
from flinkbuf.spark.workers import shipped
from flinkbuf.types.types import TypeInformation

if TYPE_CHECKING:
    from pyspark import RDD


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

    def __call__(self, producer: int, records: Iterable[object]) -> Iterator[tuple[int, bytes]]:
        """Yield (channel, envelope) for the records of Spark partition `producer`."""
        for channel, sequence, kind, buffer in self.buffers(producer, records):
            yield channel, header_of(self.exchange_id, producer, sequence, kind) + buffer

    def buffers(
        self, producer: int, records: Iterable[object], digests: RecordDigests | None = None
    ) -> Iterator[tuple[int, int, int, bytes]]:
        """Yield (channel, sequence number, kind, buffer) for the records, or batches, of Spark partition `producer`.

        `digests` takes what each channel gets, before it is compressed.
        """
        channels = self.channels_of(producer)
        sequences = [0] * len(channels)
        compressor = compressor_of(self.config)
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
                if digests is not None:
                    digests.add(channels[index], buffer)
                block = None if compressor is None else compressor.compress(buffer)
                kind = BUFFER if block is None else COMPRESSED_BUFFER
                sequence = sequences[index]
                sequences[index] += 1
                yield channels[index], sequence, kind, buffer if block is None else block
        except (TypeError, ValueError, OverflowError) as error:
            # Only of a record that this writer refused is anything to be said; the user's iterator may have its own.
            refused = self.explain(producer, error) if buffers.has_record_in_hand else None
            if refused is None:
                raise
            raise refused from None
        for index, sequence in enumerate(sequences):
            if sequence:  # a channel that got nothing needs no end marker
                yield channels[index], sequence, END_MARKER, b""

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
                "the type in DDL, or with fb.Types.TIMESTAMP_LTZ())"
            )
        return ""

    @property
    def name(self) -> str:
        """What messages call the exchange: its number."""
        return f"{self.exchange_id:016x}"

    def seed_of(self, producer: int) -> int:
        """Return a seed that is the same when Spark runs this task again, so that random choices are too."""
        return (self.exchange_id + producer) % 2**32

    @property
    def order(self) -> dict[str, bool]:
        """What to tell Spark where the channel of a record does not depend on the record alone: for `declare_order`."""
        if isinstance(self.partitioner, CustomPartitioner):
            return {"is_indeterminate": not is_pure(self.partitioner.function)}
        is_by_turns = self.partitioner.kind in ("rebalance", "rescale", "shuffle")
        return {"is_order_sensitive": is_by_turns and len(self.channels_of(0)) > 1}

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
    config: NetworkConfig | None = None

    def __call__(self, channel: int, pairs: Iterable[tuple[int, bytes]]) -> Iterator[object]:
        """Yield the records in the envelopes of `channel`, one producer after the other."""
        arrivals = Arrivals(self.exchange_id, channel, (envelope for _, envelope in pairs), self.config)
        for producer in arrivals.producers():
            try:
                yield from read_buffers(arrivals.buffers_of(producer), self.type)
            except CorruptDataError as error:
                raise CorruptDataError(f"{arrivals.describe(producer)}: {error}") from error


def through_shuffle(data: "RDD[object]", write: WriteTask) -> "RDD[object]":
    """Return the RDD of what `write` makes of the records of `data`, brought by Spark's shuffle to where it says."""
    compressor_of(write.config)  # a codec that is not there fails here, not in a task
    envelopes = declare_order(data.mapPartitionsWithIndex(shipped(write)), **write.order)
    # A channel is the index of the Spark partition that reads it.
    moved = envelopes.partitionBy(write.channel_count, operator.index)
    return moved.mapPartitionsWithIndex(shipped(ReadTask(write.exchange_id, write.type, write.config)))


def as_written(record_type: TypeInformation) -> str:
    """Return the type as a user writes it after ``import flinkbuf as fb``."""
    return re.sub(r"\bTypes(?=\.[A-Z_]+\()", "fb.Types", repr(record_type))
