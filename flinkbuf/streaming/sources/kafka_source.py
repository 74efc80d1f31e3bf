"""A source of Kafka's topics: a split is a partition, its place is an offset, and both are in the checkpoint.

Flink: KafkaSource, KafkaSourceEnumerator, KafkaPartitionSplitReader, KafkaSourceReader.
"""

from __future__ import annotations

import re
import threading
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from flinkbuf._core.operators.stream_operator import NO_TIMESTAMP
from flinkbuf.errors import FlinkbufError
from flinkbuf.log import logger
from flinkbuf.records.column_batch import ColumnBatch
from flinkbuf.streaming.sources.input_status import InputStatus
from flinkbuf.streaming.sources.kafka_access import check_access
from flinkbuf.streaming.sources.kafka_client import (
    REQUEST_TIMEOUT_S,
    KafkaTopicPartition,
    as_client,
    client_library,
    make_consumer,
)
from flinkbuf.streaming.sources.kafka_offsets import KafkaOffsetsInitializer
from flinkbuf.streaming.sources.source import (
    Boundedness,
    EnumeratorContext,
    ReaderContext,
    Source,
    SourceReader,
    SplitEnumerator,
)
from flinkbuf.streaming.sources.wanted_columns import MessageColumns
from flinkbuf.types.type_information import TypeInformation

if TYPE_CHECKING:
    import pyarrow as pa
    from confluent_kafka import Consumer, Message, TopicPartition

    from flinkbuf._core.operators.source_operator import ReaderOutput

_BATCH = 500  # messages that are taken from the client library at once
_BATCHES_AHEAD = 2  # that wait for the task
_TOPICS_EVERY_MS = 15_000  # so often it is asked whether topics are still there; one that is gone twice was deleted
_POLL_S = 0.1  # the thread of a reader looks so often whether it is to end


@dataclass(frozen=True)
class KafkaSourceOptions:
    """What a source of Kafka was built with; of topics, pattern and partitions one is set."""

    deserialize: Callable[[Consumer], object]  # takes a message of the client library; None: no record
    properties: Mapping[str, object] = field(default_factory=dict)  # of the client library
    topics: tuple[str, ...] = ()
    topic_pattern: str | None = None
    partitions: tuple[KafkaTopicPartition, ...] = ()
    starting: KafkaOffsetsInitializer = field(default_factory=KafkaOffsetsInitializer.earliest)
    stopping: KafkaOffsetsInitializer | None = None
    is_bounded: bool = False
    discovery_interval_ms: int | None = None  # None: partitions are looked for once
    commits_offsets: bool = False  # to the group, when a checkpoint counts: for others to see, not for the source
    produced_type: TypeInformation | None = None


@dataclass(frozen=True)
class KafkaPartitionSplit:
    """The messages of a partition from `start` on, and before `stop` if there is one."""

    partition: KafkaTopicPartition
    start: int
    stop: int | None = None

    @property
    def split_id(self) -> str:
        """Return a name that is unique among the splits of the source."""
        return f"{self.partition.topic}-{self.partition.partition}"

    @property
    def is_empty(self) -> bool:
        """Return whether there is nothing to read."""
        return self.stop is not None and self.start >= self.stop


class KafkaTopicSource(Source):
    """Reads partitions; `flinkbuf.datastream.connectors.kafka.KafkaSource` is its face."""

    def __init__(self, options: KafkaSourceOptions) -> None:
        self.options = options

    @property
    def boundedness(self) -> Boundedness:  # type: ignore[override]
        """Return the boundedness that the source was built with."""
        return Boundedness.BOUNDED if self.options.is_bounded else Boundedness.CONTINUOUS_UNBOUNDED

    def get_produced_type(self) -> TypeInformation | None:
        """Return the type of the deserializer's records."""
        return self.options.produced_type

    def create_enumerator(self, context: EnumeratorContext) -> SplitEnumerator:
        """Find the partitions and where to begin."""
        return KafkaEnumerator(context, self.options)

    def restore_enumerator(self, context: EnumeratorContext, checkpoint: Any) -> SplitEnumerator:
        """Go on with unassigned splits; new partitions are read from their first message."""
        known, pending = checkpoint
        return KafkaEnumerator(context, self.options, known, pending)

    def create_reader(self, context: ReaderContext) -> SourceReader:
        """Read partitions."""
        return KafkaReader(context, self.options)

    def of_batches(self, wanted: object, max_rows: int, max_bytes: int) -> tuple[KafkaTopicSource, pa.Schema] | None:
        """Return a source of the same rows as batches of columns, and their schema; None: they are read one by one."""
        make = getattr(self.options.deserialize, "of_batches", None)
        columns = None if make is None else make(wanted)
        if columns is None or type(self).create_reader is not KafkaTopicSource.create_reader:
            return None
        return KafkaColumnSource(self.options, columns, max_rows), columns.schema


class KafkaColumnSource(KafkaTopicSource):
    """Reads partitions as batches of columns. Its checkpoints are those of a source of the same rows."""

    def __init__(self, options: KafkaSourceOptions, columns: MessageColumns, max_rows: int) -> None:
        super().__init__(options)
        self._columns = columns
        self._max_rows = max_rows

    def get_produced_type(self) -> None:
        """Return None: the records are batches."""

    def create_reader(self, context: ReaderContext) -> SourceReader:
        """Read partitions as batches."""
        return KafkaColumnReader(context, self.options, self._columns, self._max_rows)


class KafkaEnumerator(SplitEnumerator):
    """Finds partitions, once or again and again, and gives each to the reader that its topic and number choose."""

    def __init__(
        self,
        context: EnumeratorContext,
        options: KafkaSourceOptions,
        known: Iterable[KafkaTopicPartition] | None = None,
        pending: Iterable[KafkaPartitionSplit] = (),
    ) -> None:
        self._context = context
        self._options = options
        self._is_first = known is None  # nothing was found yet: partitions begin where the options say
        self._known = set(known or ())
        self._pending = {split.partition: split for split in pending}
        self._suspected: set[str] = set()  # topics that the last look did not find
        self._is_complete = False  # no partition is looked for any more
        self._consumer: Consumer | None = None

    def start(self) -> None:
        """Look for partitions on another thread, and whether their topics are still there."""
        self._context.call_async(self._discover, self._found, 0, self._options.discovery_interval_ms)
        self._context.call_async(self._missing, self._hear_of_missing, _TOPICS_EVERY_MS, _TOPICS_EVERY_MS)

    def _missing(self) -> list[str]:
        """Return the topics of known partitions that the brokers do not have; on the thread of periodic work.

        A reader is not told: the client library waits for a deleted topic to come back, without end.
        """
        names = {each.topic for each in self._known}
        if self._consumer is None or not names:
            return []
        topics = self._consumer.list_topics(timeout=REQUEST_TIMEOUT_S).topics
        return sorted(name for name in names if name not in topics)

    def _hear_of_missing(self, names: list[str] | None, error: BaseException | None) -> None:
        if error is not None:
            logger.warning("whether topics of Kafka are still there could not be found out: %s", error)
            return
        again = sorted(self._suspected & set(names or ()))  # one look may be at a broker that has not heard of it yet
        self._suspected = set(names or ())
        if again:
            raise FlinkbufError(
                f"topic {again[0]!r} of Kafka, which the job reads, was deleted: the brokers at "
                f"{self._options.properties.get('bootstrap.servers')} do not have it. Messages that were not read are "
                "lost. Begin the job anew without the topic; one that goes on from a checkpoint expects it"
            )

    def _discover(self) -> list[KafkaPartitionSplit]:
        """Ask the brokers; on the thread of periodic work."""
        if self._consumer is None:
            check_access(self._options.properties)
            # A consumer belongs to a group, if it commits or not.
            self._consumer = make_consumer({"group.id": "flinkbuf", **self._options.properties})
        new = sorted(set(self._partitions(self._consumer)) - self._known)
        starting = self._options.starting if self._is_first else KafkaOffsetsInitializer.earliest()
        starts = starting.find(self._consumer, new)
        stops = self._options.stopping.find(self._consumer, new) if self._options.stopping is not None else {}
        return [KafkaPartitionSplit(each, starts[each], stops.get(each)) for each in new]

    def _partitions(self, consumer: Consumer) -> list[KafkaTopicPartition]:
        options = self._options
        topics = consumer.list_topics(timeout=REQUEST_TIMEOUT_S).topics
        if options.topic_pattern is not None:
            pattern = re.compile(options.topic_pattern)
            names = [name for name in topics if pattern.fullmatch(name)]
        else:
            names = list(options.topics) or sorted({each.topic for each in options.partitions})
        for name in names:
            if name not in topics or topics[name].error is not None:
                raise ValueError(f"the brokers know no topic {name!r}; they have {sorted(topics)}")
        found = [KafkaTopicPartition(name, number) for name in names for number in topics[name].partitions]
        missing = set(options.partitions) - set(found)
        if missing:
            raise ValueError(f"the brokers know no partition {sorted(missing)[0]}")
        return list(options.partitions) or found

    def _found(self, splits: list[KafkaPartitionSplit] | None, error: BaseException | None) -> None:
        if error is not None:
            if self._is_first or self._options.discovery_interval_ms is None:
                raise error
            logger.warning("looking for new partitions failed, and is tried again: %s", error)
            return
        self._is_first = False
        for split in splits or ():
            self._known.add(split.partition)
            self._pending[split.partition] = split
        self._is_complete = self._options.discovery_interval_ms is None
        for subtask_index in sorted(self._context.registered_readers):
            self._give(subtask_index)

    def add_reader(self, subtask_index: int) -> None:
        """Give a reader the splits that are its own."""
        self._give(subtask_index)

    def handle_split_request(self, subtask_index: int, host: str | None) -> None:
        """Do nothing: splits are assigned when they are found, not on request."""

    def add_splits_back(self, splits: Sequence[KafkaPartitionSplit], subtask_index: int) -> None:
        """Keep the splits for their reader, until it comes again."""
        self._pending.update({split.partition: split for split in splits})

    def _give(self, subtask_index: int) -> None:
        mine = [
            split for each, split in self._pending.items() if owner_of(each, self._context.parallelism) == subtask_index
        ]
        for split in mine:
            del self._pending[split.partition]
        if mine:
            self._context.assign_splits({subtask_index: mine})
        if self._is_complete:
            self._context.signal_no_more_splits(subtask_index)

    def snapshot_state(self, checkpoint_id: int) -> object:
        """Return the found partitions, None before the first look, and the splits not assigned yet."""
        return None if self._is_first else (sorted(self._known), list(self._pending.values()))

    def close(self) -> None:
        """Close the connection to the brokers."""
        if self._consumer is not None:
            self._consumer.close()


def owner_of(partition: KafkaTopicPartition, parallelism: int) -> int:
    """Return the subtask of a partition: those of a topic go round, from one that the topic's name chooses.

    Examples
    --------
    >>> [owner_of(KafkaTopicPartition("flights", number), 3) for number in range(4)]
    [0, 1, 2, 0]
    """
    return (zlib.crc32(partition.topic.encode()) + partition.partition) % parallelism


class _Place:
    """Where a partition is read: one of them for each, that changes with each message."""

    __slots__ = ("output", "position", "split", "stop")

    def __init__(self, split: KafkaPartitionSplit) -> None:
        self.split = split
        self.position = split.start  # of the message that comes next
        self.stop = split.stop
        self.output: Any = None  # that of the split, from its first record on


class KafkaReader(SourceReader):
    """Emits what a thread of its own takes from the client library."""

    has_split_outputs = True

    def __init__(self, context: ReaderContext, options: KafkaSourceOptions, messages_at_once: int = _BATCH) -> None:
        self._context = context
        self._messages_at_once = messages_at_once
        self._options = options
        self._deserialize: Callable[[Any], object] = options.deserialize
        # Of the value alone, if it is all that is looked at: a call less for each message.
        self._deserialize_value: Callable[[bytes], object] | None = getattr(options.deserialize, "of_value", None)
        self._places: dict[tuple[str, int], _Place] = {}  # by topic and number
        self._ended: dict[KafkaTopicPartition, int] = {}  # where those of bounded sources have come to their end
        self._empty: list[str] = []  # ids of those that have nothing to read, and may not hold event time back
        self._has_no_more = False
        self._messages: list[Any] = []  # that were taken at once
        self._next = 0  # which of them comes next
        self._offsets: dict[int, list[TopicPartition]] = {}  # by checkpoint, to be committed to the group
        self._fetcher: _Fetcher | None = None

    def add_splits(self, splits: Sequence[KafkaPartitionSplit]) -> None:
        """Add partitions to read."""
        self._empty += [split.split_id for split in splits if split.is_empty]
        splits = [split for split in splits if not split.is_empty]
        if not splits:
            return
        if self._fetcher is None:
            properties = {"group.id": "flinkbuf", "auto.offset.reset": "error", **self._options.properties}
            consumer = make_consumer({**properties, "enable.partition.eof": True})
            self._fetcher = _Fetcher(consumer, self._context, self._messages_at_once)
        self._places.update({_key_of(split.partition): _Place(split) for split in splits})
        partitions = [as_client(split.partition, split.start) for split in splits]
        self._fetcher.order(lambda consumer: consumer.incremental_assign(partitions))

    def notify_no_more_splits(self) -> None:
        """End after the splits that the reader has."""
        self._has_no_more = True

    def poll_next(self, output: ReaderOutput) -> int:
        """Emit what was taken until the turn is over."""
        self._release_empty(output)
        if self._next == len(self._messages) and self._fetcher is not None:
            self._messages, self._next = self._fetcher.take(), 0
        while self._next < len(self._messages):
            self._emit(output)
            if output.is_turn_over:
                break
        return self._status()

    def _release_empty(self, output: ReaderOutput) -> None:
        while self._empty:
            output.release_output_for_split(self._empty.pop())

    def _status(self) -> int:
        if not self._places and self._has_no_more:
            return InputStatus.END_OF_INPUT
        is_amid = self._next < len(self._messages)
        has_more = is_amid or (self._fetcher is not None and self._fetcher.has_messages)
        return InputStatus.MORE_AVAILABLE if has_more else InputStatus.NOTHING_AVAILABLE

    def _emit(self, output: ReaderOutput) -> None:
        """Emit messages that come one after the other from a partition, until the turn is over."""
        messages = self._messages
        first = messages[self._next]
        topic, number = key = _key_in(first)
        place = self._places.get(key)
        if place is None or first.error() is not None:
            self._next += 1
            if first.error() is not None:
                self._hear(first, place, output)
            return  # of a partition that has ended
        collect = None if place.output is None else place.output.collect
        stop = place.stop
        of_value = self._deserialize_value
        deserialize: Callable[[Any], object] = self._deserialize if of_value is None else of_value
        for index in range(self._next, len(messages)):
            message = messages[index]
            if message.partition() != number or message.error() is not None or message.topic() != topic:
                return
            self._next = index + 1
            offset = message.offset()
            if offset < place.position:
                continue
            if stop is None or offset < stop:
                found = message if of_value is None else message.value()
                value = None if found is None else deserialize(found)
                if value is not None:
                    if collect is None:
                        place.output = output.create_output_for_split(place.split.split_id)
                        collect = place.output.collect
                    kind, timestamp_ms = message.timestamp()
                    collect(value, timestamp_ms if kind else None)
            place.position = offset + 1
            if stop is not None and offset + 1 >= stop:
                self._end(place, output)
                return
            if output.is_turn_over:
                return

    def _hear(self, message: Any, place: _Place | None, output: ReaderOutput) -> None:
        error = message.error()
        library = client_library()
        if error.code() != library.KafkaError._PARTITION_EOF:
            if error.retriable():
                logger.warning("Kafka: %s", error)
                return
            raise self._told(message, place) from library.KafkaException(error)
        if place is not None and place.stop is not None and message.offset() >= place.stop:
            self._end(place, output)  # what is before the end are marks of transactions

    def _told(self, message: Any, reached: _Place | None) -> FlinkbufError:
        """Say where an error of the brokers was, and what to do where that is known."""
        error = message.error()
        place = f"partition {message.partition()} of topic {message.topic()!r}"
        if error.code() != client_library().KafkaError._AUTO_OFFSET_RESET:
            return FlinkbufError(f"{place} of Kafka cannot be read: {error}")
        offset = "the offset" if reached is None else f"offset {reached.position}"
        return FlinkbufError(
            f"{place} of Kafka cannot be read on: the brokers do not have {offset}, where the job goes on. They have "
            "dropped what was there, as the topic's retention says, or the topic was made anew. "
            'set_property("auto.offset.reset", "earliest") goes on at the first message that is there, "latest" behind '
            f"the last; what was between is lost to the job. The brokers said: {error}"
        )

    def _advance(self, place: _Place, position: int, output: ReaderOutput) -> None:
        place.position = position
        if place.stop is not None and position >= place.stop:
            self._end(place, output)

    def _end(self, place: _Place, output: ReaderOutput) -> None:
        split = place.split
        del self._places[_key_of(split.partition)]
        self._ended[split.partition] = split.stop  # type: ignore[assignment]
        output.release_output_for_split(split.split_id)
        partition = as_client(split.partition)
        self._fetcher.order(lambda consumer: consumer.incremental_unassign([partition]))  # type: ignore[union-attr]

    def pause_or_resume_splits(self, to_pause: Sequence[str], to_resume: Sequence[str]) -> None:
        """Take no more messages of partitions that are ahead."""
        splits = [place.split for place in self._places.values()]
        pause = [as_client(split.partition) for split in splits if split.split_id in to_pause]
        resume = [as_client(split.partition) for split in splits if split.split_id in to_resume]
        if self._fetcher is not None:
            self._fetcher.order(lambda consumer: consumer.pause(pause))
            self._fetcher.order(lambda consumer: consumer.resume(resume))

    def snapshot_state(self, checkpoint_id: int) -> list[KafkaPartitionSplit]:
        """Return each partition from its next message on."""
        splits = [replace(place.split, start=place.position) for place in self._places.values()]
        if self._options.commits_offsets:
            offsets = {**self._ended, **{split.partition: split.start for split in splits}}
            self._offsets[checkpoint_id] = [as_client(each, offset) for each, offset in offsets.items()]
        return splits

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Tell the group how far it is; for others to see, the source has its offsets in the checkpoint."""
        offsets = self._offsets.pop(checkpoint_id, None)
        self._offsets = {key: value for key, value in self._offsets.items() if key > checkpoint_id}
        if offsets and self._fetcher is not None:
            self._fetcher.order(lambda consumer: _commit(consumer, offsets, checkpoint_id))

    def close(self) -> None:
        """End the thread and leave the brokers."""
        if self._fetcher is not None:
            self._fetcher.close()


class KafkaColumnReader(KafkaReader):
    """Emits the messages that were taken at once, as one batch for each partition, and is behind them then.

    So a checkpoint stands between batches, and each partition has its own offset and its own watermarks, as by records.
    """

    def __init__(
        self, context: ReaderContext, options: KafkaSourceOptions, columns: MessageColumns, max_rows: int
    ) -> None:
        super().__init__(context, options, max_rows)
        self._columns = columns

    def poll_next(self, output: ReaderOutput) -> int:
        """Emit what was taken at once."""
        self._release_empty(output)
        taken: dict[tuple[str, int], list[Message]] = {}
        for message in self._fetcher.take() if self._fetcher is not None else ():
            key = _key_in(message)
            if message.error() is None:
                taken.setdefault(key, []).append(message)
            else:  # such as that the partition has no more: behind the messages that came before
                self._emit_batch(key, taken.pop(key, []), output)
                self._hear(message, self._places.get(key), output)
        for key, messages in taken.items():
            self._emit_batch(key, messages, output)
        return self._status()

    def _emit_batch(self, key: tuple[str, int], messages: list[Any], output: ReaderOutput) -> None:
        place = self._places.get(key)
        if place is None:
            return  # it has ended
        messages = [message for message in messages if message.offset() >= place.position]
        if not messages:
            return
        stop = place.stop
        is_before = [stop is None or message.offset() < stop for message in messages]
        wanted = [message for message, is_wanted in zip(messages, is_before, strict=True) if is_wanted]
        element = self._element_of([message for message in wanted if message.value() is not None])
        if len(element):
            split_output = output.create_output_for_split(place.split.split_id)
            split_output.collect(element, None if element.timestamps is None else element.latest)
        self._advance(place, messages[-1].offset() + 1, output)

    def _element_of(self, messages: list[Any]) -> ColumnBatch:
        import numpy as np

        batch, kept = self._columns.read([message.value() for message in messages])
        found = [messages[index] for index in kept] if kept is not None else messages
        times = [time_ms if kind else NO_TIMESTAMP for kind, time_ms in (message.timestamp() for message in found)]
        has_none = all(time_ms == NO_TIMESTAMP for time_ms in times)
        return ColumnBatch(batch, None if has_none else np.array(times, np.int64))


def _key_of(partition: KafkaTopicPartition) -> tuple[str, int]:
    return partition.topic, partition.partition


def _key_in(message: Any) -> tuple[str, int]:
    return message.topic(), message.partition()


def _commit(consumer: Consumer, offsets: list[TopicPartition], checkpoint_id: int) -> None:
    try:
        consumer.commit(offsets=offsets, asynchronous=True)
    except client_library().KafkaException as error:
        logger.warning("the offsets of checkpoint %d were not committed to Kafka: %s", checkpoint_id, error)


class _Fetcher:
    """The thread that waits for messages, since the client library does not call back.

    It alone uses the consumer: what changes partitions waits for a thread that waits for messages.
    """

    def __init__(self, consumer: Consumer, context: ReaderContext, messages_at_once: int) -> None:
        self._consumer = consumer
        self._messages_at_once = messages_at_once
        self._orders: deque[Callable[[Consumer], object]] = deque()
        self._wake = context.wake
        self._name = f"{context.task.task_name_with_subtask} Kafka"
        self._batches: deque[list[Message]] = deque()
        self._has_room = threading.Condition()
        self._error: BaseException | None = None
        self._is_closed = False
        self._thread: threading.Thread | None = None

    def order(self, order: Callable[[Consumer], object]) -> None:
        """Have something done with the consumer."""
        self._orders.append(order)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()

    @property
    def has_messages(self) -> bool:
        """Return whether a batch waits, or an error."""
        return bool(self._batches) or self._error is not None

    def take(self) -> list[Message]:
        """Take a batch; raises what the thread has ended with."""
        with self._has_room:
            if self._batches:
                self._has_room.notify()
                return self._batches.popleft()
            if self._error is not None:
                error, self._error = self._error, None
                raise error
            return []

    def _run(self) -> None:
        try:
            while not self._is_closed:
                self._do_orders()
                messages = self._consumer.consume(self._messages_at_once, _POLL_S)
                if messages:
                    self._put(messages)
            self._do_orders()  # the last checkpoint of a job that ends is complete right before its readers are closed
        except BaseException as error:
            self._error = error
            self._wake()

    def _do_orders(self) -> None:
        while self._orders:
            self._orders.popleft()(self._consumer)

    def _put(self, messages: list[Message]) -> None:
        with self._has_room:
            while len(self._batches) >= _BATCHES_AHEAD and not self._is_closed:
                self._has_room.wait(_POLL_S)
            self._batches.append(messages)
        self._wake()

    def close(self) -> None:
        """End the thread, then the consumer, which must not be in use then."""
        self._is_closed = True
        with self._has_room:
            self._has_room.notify_all()
        if self._thread is not None:
            self._thread.join(REQUEST_TIMEOUT_S)
        self._consumer.close()
