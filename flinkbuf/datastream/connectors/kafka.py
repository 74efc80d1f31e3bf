"""Topics of Kafka as sources and sinks. PyFlink: pyflink.datastream.connectors.kafka. Needs confluent-kafka."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

from flinkbuf.common.serialization import DeserializationSchema, SerializationSchema
from flinkbuf.datastream.arguments import OptionsBuilder
from flinkbuf.datastream.connectors.base import DeliveryGuarantee, StreamTransformer, SupportsPreprocessing
from flinkbuf.datastream.connectors.java_only import FlinkKafkaConsumer, FlinkKafkaProducer, Semantic
from flinkbuf.streaming.sinks.kafka_sink import KafkaSinkOptions, KafkaTopicSink
from flinkbuf.streaming.sources.kafka_client import KafkaTopicPartition, client_library, client_properties
from flinkbuf.streaming.sources.kafka_offsets import KafkaOffsetResetStrategy, KafkaOffsetsInitializer
from flinkbuf.streaming.sources.kafka_source import KafkaSourceOptions, KafkaTopicSource
from flinkbuf.streaming.sources.wanted_columns import MessageColumns

if TYPE_CHECKING:
    import confluent_kafka

__all__ = [
    "FlinkKafkaConsumer",
    "FlinkKafkaProducer",
    "KafkaOffsetResetStrategy",
    "KafkaOffsetsInitializer",
    "KafkaRecordSerializationSchema",
    "KafkaRecordSerializationSchemaBuilder",
    "KafkaSink",
    "KafkaSinkBuilder",
    "KafkaSource",
    "KafkaSourceBuilder",
    "KafkaTopicPartition",
    "KafkaTopicSelector",
    "Semantic",
]

_DISCOVERY_INTERVAL = "partition.discovery.interval.ms"
_COMMITS_OFFSETS = "commit.offsets.on.checkpoint"
DEFAULT_DISCOVERY_INTERVAL_MS = 300_000


class KafkaSource(KafkaTopicSource):
    """Reads partitions of topics; the offsets are in the checkpoint, so each message counts exactly once.

    Partitions are given out among the subtasks by topic and number; new ones are looked for every five minutes and read
    from their first message. The record's timestamp is the message's.

    References
    ----------
    PyFlink ``KafkaSource``.

    Examples
    --------
    >>> source = (
    ...     KafkaSource.builder()
    ...     .set_bootstrap_servers("localhost:9092")
    ...     .set_topics("flights")
    ...     .set_group_id("delays")
    ...     .set_starting_offsets(KafkaOffsetsInitializer.earliest())
    ...     .set_value_only_deserializer(SimpleStringSchema())
    ...     .build()
    ... )  # doctest: +SKIP
    """

    @staticmethod
    def builder() -> KafkaSourceBuilder:
        """Begin a source."""
        return KafkaSourceBuilder()


class KafkaSourceBuilder(OptionsBuilder[KafkaSourceOptions]):
    """What a `KafkaSource` is to read. PyFlink: KafkaSourceBuilder."""

    def __init__(self) -> None:
        self._options = KafkaSourceOptions(deserialize=_none_given)
        self._properties: dict[str, str] = {}

    def set_bootstrap_servers(self, bootstrap_servers: str) -> KafkaSourceBuilder:
        """Set where brokers are: ``host:port``, more of them with commas."""
        return self.set_property("bootstrap.servers", bootstrap_servers)

    def set_group_id(self, group_id: str) -> KafkaSourceBuilder:
        """Set the group that offsets are committed for when a checkpoint counts; others can see there how far it is."""
        return self.set_property("group.id", group_id)

    def set_topics(self, *topics: str) -> KafkaSourceBuilder:
        """Read these topics; they exist."""
        return self._with(topics=tuple(topics), topic_pattern=None, partitions=())

    def set_topic_pattern(self, topic_pattern: str) -> KafkaSourceBuilder:
        """Read topics whose whole name matches a regular expression of Python."""
        return self._with(topics=(), topic_pattern=topic_pattern, partitions=())

    def set_partitions(self, partitions: Iterable[KafkaTopicPartition]) -> KafkaSourceBuilder:
        """Read these partitions."""
        return self._with(topics=(), topic_pattern=None, partitions=tuple(sorted(partitions)))

    def set_starting_offsets(self, starting_offsets_initializer: KafkaOffsetsInitializer) -> KafkaSourceBuilder:
        """Set where to begin; at the first message unless it is set."""
        return self._with(starting=starting_offsets_initializer)

    def set_unbounded(self, stopping_offsets_initializer: KafkaOffsetsInitializer) -> KafkaSourceBuilder:
        """Stop at these offsets, though the source counts as one without an end."""
        return self._with(stopping=stopping_offsets_initializer, is_bounded=False)

    def set_bounded(self, stopping_offsets_initializer: KafkaOffsetsInitializer) -> KafkaSourceBuilder:
        """Stop at these offsets; no partitions are looked for later."""
        return self._with(stopping=stopping_offsets_initializer, is_bounded=True)

    def set_value_only_deserializer(self, deserialization_schema: DeserializationSchema) -> KafkaSourceBuilder:
        """Make records of the messages' values; one without a value, or that the schema makes None of, is left out."""
        produced = deserialization_schema.get_produced_type()
        return self._with(deserialize=_ValueOnly(deserialization_schema), produced_type=produced)

    def set_deserializer(self, deserialize: Callable[[Any], object], type_info: object = None) -> KafkaSourceBuilder:
        """Make records of whole messages. Flink's setDeserializer; PyFlink has none.

        Parameters
        ----------
        deserialize : callable
            Takes a ``confluent_kafka.Message`` and returns a record; None: there is none.
        type_info : TypeInformation, optional
            What the records are.
        """
        return self._with(deserialize=deserialize, produced_type=type_info)

    def set_client_id_prefix(self, prefix: str) -> KafkaSourceBuilder:
        """Set what the brokers' logs call the source."""
        return self.set_property("client.id", prefix)

    def set_property(self, key: str, value: str) -> KafkaSourceBuilder:
        """Set a property of librdkafka's consumer, or one of Flink's source.

        These are ``partition.discovery.interval.ms`` (-1: look once) and ``commit.offsets.on.checkpoint``.
        """
        self._properties[key] = str(value)
        return self

    def set_properties(self, props: Mapping[str, str]) -> KafkaSourceBuilder:
        """Set several properties."""
        for key, value in props.items():
            self.set_property(key, value)
        return self

    def build(self) -> KafkaSource:
        """Make the source.

        Raises
        ------
        ValueError
            Something is missing that it cannot do without.
        ImportError
            confluent-kafka is not installed.
        """
        options, properties = self._options, self._properties
        _require_servers(properties, "KafkaSource")
        if not (options.topics or options.topic_pattern or options.partitions):
            raise ValueError("a KafkaSource needs set_topics(...), set_topic_pattern(...) or set_partitions(...)")
        if options.deserialize is _none_given:
            raise ValueError("a KafkaSource needs set_value_only_deserializer(...)")
        if options.starting.kind == "committed" and "group.id" not in properties:
            raise ValueError("committed offsets are those of a group: set_group_id(...) is missing")
        client_library()
        interval_ms = int(properties.get(_DISCOVERY_INTERVAL, DEFAULT_DISCOVERY_INTERVAL_MS))
        looks_once = options.is_bounded or options.stopping is not None or interval_ms <= 0
        commits = "group.id" in properties and properties.get(_COMMITS_OFFSETS, "true").lower() == "true"
        return KafkaSource(
            replace(
                options,
                properties=client_properties(properties, (_DISCOVERY_INTERVAL, _COMMITS_OFFSETS)),
                discovery_interval_ms=None if looks_once else interval_ms,
                commits_offsets=commits,
            )
        )


def _none_given(message: object) -> NoReturn:
    raise NotImplementedError("no deserializer was set")


class _ValueOnly:
    def __init__(self, schema: DeserializationSchema) -> None:
        self._schema = schema

    def __call__(self, message: confluent_kafka.Message) -> object:
        value = message.value()
        return None if value is None else self._schema.deserialize(value)

    @property
    def of_value(self) -> Callable[[bytes], object]:
        """Return what makes the record of a value that is there."""
        return self._schema.deserialize

    def of_batches(self, wanted: object) -> MessageColumns | None:
        """Return what reads many values at once; None: the schema reads them one by one only."""
        make = getattr(self._schema, "of_batches", None)
        return None if make is None else make(wanted)


class KafkaTopicSelector(ABC):
    """Chooses the topic of a record. PyFlink: KafkaTopicSelector."""

    @abstractmethod
    def apply(self, data: object) -> str:
        """Return the topic."""


class KafkaRecordSerializationSchema(SerializationSchema):
    """Makes topic, key and value of a record. PyFlink: KafkaRecordSerializationSchema.

    Examples
    --------
    >>> from flinkbuf.common.serialization import SimpleStringSchema
    >>> schema = KafkaRecordSerializationSchema.builder().set_topic("words")
    >>> schema.set_value_serialization_schema(SimpleStringSchema()).build()("a")
    ('words', None, b'a')
    """

    def __init__(
        self, topic: Callable[[object], str], value: SerializationSchema, key: SerializationSchema | None
    ) -> None:
        self._topic = topic
        self._only_topic = topic.name if isinstance(topic, _OneTopic) else None
        self._value = value
        self._key = key

    @staticmethod
    def builder() -> KafkaRecordSerializationSchemaBuilder:
        """Begin a schema."""
        return KafkaRecordSerializationSchemaBuilder()

    def serialize(self, element: object) -> bytes:
        """Return the value of a record alone."""
        return self._value.serialize(element)

    def __call__(self, element: object) -> tuple[str, bytes | None, bytes]:
        """Return topic, key and value of a record."""
        key = None if self._key is None else self._key.serialize(element)
        return self._only_topic or self._topic(element), key, self._value.serialize(element)


class KafkaRecordSerializationSchemaBuilder:
    """What goes into a `KafkaRecordSerializationSchema`. PyFlink: KafkaRecordSerializationSchemaBuilder."""

    def __init__(self) -> None:
        self._topic: Callable[[object], str] | None = None
        self._value: SerializationSchema | None = None
        self._key: SerializationSchema | None = None

    def set_topic(self, topic: str) -> KafkaRecordSerializationSchemaBuilder:
        """Write all records into one topic."""
        self._topic = _OneTopic(topic)
        return self

    def set_topic_selector(
        self, topic_selector: Callable[[Any], str] | KafkaTopicSelector
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Choose the topic of each record."""
        if not isinstance(topic_selector, KafkaTopicSelector) and not callable(topic_selector):
            raise TypeError("topic_selector must be KafkaTopicSelector or a callable")
        self._topic = topic_selector.apply if isinstance(topic_selector, KafkaTopicSelector) else topic_selector
        return self

    def set_key_serialization_schema(
        self, key_serialization_schema: SerializationSchema
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Make a key of each record, which chooses its partition."""
        self._key = key_serialization_schema
        return self

    def set_value_serialization_schema(
        self, value_serialization_schema: SerializationSchema
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Make the value of each record."""
        self._value = value_serialization_schema
        return self

    def build(self) -> KafkaRecordSerializationSchema:
        """Make the schema."""
        if self._topic is None:
            raise ValueError("a record serializer needs set_topic(...) or set_topic_selector(...)")
        if self._value is None:
            raise ValueError("a record serializer needs set_value_serialization_schema(...)")
        return KafkaRecordSerializationSchema(self._topic, self._value, self._key)


class _OneTopic:
    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, element: object) -> str:
        return self.name


class KafkaSink(KafkaTopicSink, SupportsPreprocessing):
    """Writes records into topics.

    ``DeliveryGuarantee.EXACTLY_ONCE``: the records between two checkpoints are kept in the second one, and written and
    committed as one transaction when it counts; they are visible to consumers that read what is committed
    (``isolation.level=read_committed``). Each subtask is a transactional id ``<prefix>-<subtask>``, and commits an
    offset of a group of that name with each transaction, which tells after a failure whether it went through; a job
    that is begun again later than the brokers keep offsets (``offsets.retention.minutes``, a week) may write its last
    transaction twice. Brokers that are away while a transaction is committed are waited for, half a minute in each of
    ten attempts; then the job fails, and goes on from its checkpoint. The offset is committed over Kafka's protocol
    itself where brokers are of Kafka 3.0 or newer, and reached without a login, or by TLS, PLAIN or SCRAM; elsewhere
    by the client library, which may then take half a minute longer to go on. Where brokers have lost the marker that
    ends a transaction (KAFKA-20734), it is sent again, over the protocol; if nobody knows any more how it ended, the
    job fails with what an operator can do. ``AT_LEAST_ONCE``: each checkpoint waits until the brokers have everything.
    ``NONE``, the default: records that are on their way are lost with the process.

    A record whose timestamp is 0, the first millisecond of 1970, has that of its writing: the client library takes 0
    for none. Negative ones, which Kafka has not, are left out, too.

    References
    ----------
    PyFlink ``KafkaSink``.
    """

    @staticmethod
    def builder() -> KafkaSinkBuilder:
        """Begin a sink."""
        return KafkaSinkBuilder()

    def get_transformer(self) -> StreamTransformer | None:
        """Nothing is done to the stream before."""
        return None


class KafkaSinkBuilder:
    """What a `KafkaSink` is to do. PyFlink: KafkaSinkBuilder."""

    def __init__(self) -> None:
        self._properties: dict[str, str] = {}
        self._guarantee = DeliveryGuarantee.NONE
        self._prefix = ""
        self._serializer: KafkaRecordSerializationSchema | None = None

    def set_bootstrap_servers(self, bootstrap_servers: str) -> KafkaSinkBuilder:
        """Set where brokers are: ``host:port``, more of them with commas."""
        return self.set_property("bootstrap.servers", bootstrap_servers)

    def set_delivery_guarantee(self, delivery_guarantee: DeliveryGuarantee) -> KafkaSinkBuilder:
        """Set how often a record may come if something fails; NONE unless it is set."""
        if not isinstance(delivery_guarantee, DeliveryGuarantee):
            raise TypeError(f"delivery_guarantee must be a DeliveryGuarantee, got {delivery_guarantee!r}")
        self._guarantee = delivery_guarantee
        return self

    def set_transactional_id_prefix(self, transactional_id_prefix: str) -> KafkaSinkBuilder:
        """Set what transactional ids begin with: exactly once needs one that no other sink of the brokers has."""
        self._prefix = transactional_id_prefix
        return self

    def set_record_serializer(self, record_serializer: KafkaRecordSerializationSchema) -> KafkaSinkBuilder:
        """Set what makes messages of records."""
        if not callable(record_serializer):
            raise TypeError(f"record_serializer must be a KafkaRecordSerializationSchema, got {record_serializer!r}")
        self._serializer = record_serializer
        return self

    def set_property(self, key: str, value: str) -> KafkaSinkBuilder:
        """Set a property of librdkafka's producer."""
        self._properties[key] = str(value)
        return self

    def build(self) -> KafkaSink:
        """Make the sink.

        Raises
        ------
        ValueError
            Something is missing that it cannot do without.
        ImportError
            confluent-kafka is not installed.
        """
        _require_servers(self._properties, "KafkaSink")
        if self._serializer is None:
            raise ValueError("a KafkaSink needs set_record_serializer(...)")
        is_transactional = self._guarantee is DeliveryGuarantee.EXACTLY_ONCE
        if is_transactional and not self._prefix:
            raise ValueError("EXACTLY_ONCE delivery guarantee requires a transactional id prefix to be set")
        client_library()
        return KafkaSink(
            KafkaSinkOptions(
                self._serializer,
                client_properties(self._properties, ()),
                is_transactional,
                self._guarantee is not DeliveryGuarantee.NONE,
                self._prefix,
            )
        )


def _require_servers(properties: Mapping[str, str], what: str) -> None:
    if not properties.get("bootstrap.servers"):
        raise ValueError(f"a {what} needs set_bootstrap_servers(...)")
