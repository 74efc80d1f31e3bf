"""From which offset of a partition a source of Kafka begins, and before which it ends. Flink: OffsetsInitializer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from flinkbuf.streaming.sources.kafka_client import (
    REQUEST_TIMEOUT_S,
    KafkaTopicPartition,
    as_client,
    ask,
    client_library,
)

if TYPE_CHECKING:
    from confluent_kafka import Consumer


class KafkaOffsetResetStrategy(Enum):
    """Where to begin if a group has committed nothing. PyFlink: KafkaOffsetResetStrategy."""

    LATEST = 0
    EARLIEST = 1
    NONE = 2


@dataclass(frozen=True)
class KafkaOffsetsInitializer:
    """Offsets that are found when the job begins. PyFlink: KafkaOffsetsInitializer.

    Examples
    --------
    >>> KafkaOffsetsInitializer.timestamp(1_700_000_000_000).kind
    'timestamp'
    """

    kind: str
    timestamp_ms: int = 0
    given: Mapping[KafkaTopicPartition, int] = field(default_factory=dict)
    reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.EARLIEST

    @staticmethod
    def earliest() -> KafkaOffsetsInitializer:
        """Begin at the first record that is still there."""
        return KafkaOffsetsInitializer("earliest")

    @staticmethod
    def latest() -> KafkaOffsetsInitializer:
        """Begin behind the last record."""
        return KafkaOffsetsInitializer("latest")

    @staticmethod
    def timestamp(timestamp: int) -> KafkaOffsetsInitializer:
        """Begin at the first record not older than this many milliseconds since 1970; behind the last if all are."""
        return KafkaOffsetsInitializer("timestamp", timestamp_ms=timestamp)

    @staticmethod
    def committed_offsets(
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.NONE,
    ) -> KafkaOffsetsInitializer:
        """Begin at the offsets that the group has committed."""
        return KafkaOffsetsInitializer("committed", reset_strategy=offset_reset_strategy)

    @staticmethod
    def offsets(
        offsets: Mapping[KafkaTopicPartition, int],
        offset_reset_strategy: KafkaOffsetResetStrategy = KafkaOffsetResetStrategy.EARLIEST,
    ) -> KafkaOffsetsInitializer:
        """Begin at these offsets; for a partition that is not among them the strategy holds."""
        return KafkaOffsetsInitializer("offsets", given=dict(offsets), reset_strategy=offset_reset_strategy)

    def find(self, consumer: Consumer, partitions: Sequence[KafkaTopicPartition]) -> dict[KafkaTopicPartition, int]:
        """Ask the brokers for the offset of each partition.

        Raises
        ------
        ValueError
            There is none for a partition, and the strategy is NONE.
        """
        if self.kind == "timestamp":
            return self._by_time(consumer, partitions)
        if self.kind in ("earliest", "latest"):
            return {each: _edge(consumer, each, self.kind == "latest") for each in partitions}
        known = dict(self.given) if self.kind == "offsets" else _committed(consumer, partitions)
        return {each: known[each] if each in known else self._reset(consumer, each) for each in partitions}

    def _by_time(self, consumer: Consumer, partitions: Sequence[KafkaTopicPartition]) -> dict[KafkaTopicPartition, int]:
        asked = [as_client(each, self.timestamp_ms) for each in partitions]
        found = consumer.offsets_for_times(asked, timeout=REQUEST_TIMEOUT_S)
        for each in found:
            if each.error is not None:
                raise client_library().KafkaException(each.error)
        offsets = {KafkaTopicPartition(each.topic, each.partition): each.offset for each in found}
        return {each: offsets[each] if offsets[each] >= 0 else _edge(consumer, each, True) for each in partitions}

    def _reset(self, consumer: Consumer, partition: KafkaTopicPartition) -> int:
        if self.reset_strategy is KafkaOffsetResetStrategy.NONE:
            raise ValueError(
                f"partition {partition.partition} of topic {partition.topic!r} has no offset to begin from: the group "
                "has committed none; give an offset_reset_strategy"
            )
        return _edge(consumer, partition, self.reset_strategy is KafkaOffsetResetStrategy.LATEST)


def _edge(consumer: Consumer, partition: KafkaTopicPartition, is_end: bool) -> int:
    low, high = consumer.get_watermark_offsets(as_client(partition), timeout=REQUEST_TIMEOUT_S)
    return high if is_end else low


def _committed(consumer: Consumer, partitions: Sequence[KafkaTopicPartition]) -> dict[KafkaTopicPartition, int]:
    asked = [as_client(each) for each in partitions]
    found = ask(lambda: consumer.committed(asked, timeout=REQUEST_TIMEOUT_S))
    for each in found:
        if each.error is not None:  # not the same as nothing committed
            raise client_library().KafkaException(each.error)
    return {KafkaTopicPartition(each.topic, each.partition): each.offset for each in found if each.offset >= 0}
