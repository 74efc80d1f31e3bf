"""What PyFlink's own examples of connectors do, with data of ours and only their imports changed: Kafka in all formats
runs, and what is Java says what to use."""

import json

import pytest

pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")

from support.servers.kafka_brokers import mock_cluster

from flinkbuf.common import (
    ByteArraySchema,
    Row,
    RowFieldExtractorSchema,
    SimpleStringSchema,
    Types,
    WatermarkStrategy,
)
from flinkbuf.datastream import StreamExecutionEnvironment
from flinkbuf.datastream.connectors import DeliveryGuarantee
from flinkbuf.datastream.connectors.elasticsearch import (
    Elasticsearch6SinkBuilder,
    Elasticsearch7SinkBuilder,
    FlushBackoffType,
)
from flinkbuf.datastream.connectors.kafka import DeliveryGuarantee as GuaranteeOfKafka
from flinkbuf.datastream.connectors.kafka import (
    FlinkKafkaConsumer,
    FlinkKafkaProducer,
    KafkaOffsetsInitializer,
    KafkaRecordSerializationSchema,
    KafkaSink,
    KafkaSource,
)
from flinkbuf.datastream.connectors.pulsar import DeliveryGuarantee as GuaranteeOfPulsar
from flinkbuf.datastream.connectors.pulsar import (
    PulsarSink,
    PulsarSource,
    StartCursor,
    StopCursor,
    SubscriptionType,
    TopicRoutingMode,
)
from flinkbuf.datastream.formats.avro import (
    AvroRowDeserializationSchema,
    AvroRowSerializationSchema,
)
from flinkbuf.datastream.formats.csv import CsvRowSerializationSchema
from flinkbuf.datastream.formats.json import (
    JsonRowDeserializationSchema,
    JsonRowSerializationSchema,
)

ORDERS = [(1, "tea"), (2, "rum"), (3, "tea"), (4, "salt")]
ORDER = Types.ROW([Types.INT(), Types.STRING()])
BYTES = Types.PRIMITIVE_ARRAY(Types.BYTE())
AVRO_ORDER = """
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "int"},
            {"name": "item", "type": "string"}
        ]
    }"""


@pytest.fixture(scope="module")
def brokers():
    with mock_cluster() as address:
        yield address


@pytest.fixture
def env():
    env = StreamExecutionEnvironment.get_execution_environment()
    with pytest.warns(UserWarning, match="jars have no effect"):
        env.add_jars("file:///path/to/flink-sql-connector-kafka.jar")
    return env


def write(env, brokers, topic, stream, schema, **options):
    serializer = (
        KafkaRecordSerializationSchema.builder().set_topic(topic).set_value_serialization_schema(schema).build()
    )
    sink = (
        KafkaSink.builder()
        .set_record_serializer(serializer)
        .set_bootstrap_servers(brokers)
        .set_property("group.id", "orders")
        .build()
    )
    stream.sink_to(sink)
    env.execute()


def read(env, brokers, topic, schema, count):
    source = (
        KafkaSource.builder()
        .set_topics(topic)
        .set_value_only_deserializer(schema)
        .set_properties({"bootstrap.servers": brokers, "group.id": f"readers of {topic}"})
        .set_starting_offsets(KafkaOffsetsInitializer.earliest())
        .build()
    )
    stream = env.from_source(source, watermark_strategy=WatermarkStrategy.no_watermarks(), source_name="kafka source")
    return sorted(stream.execute_and_collect(limit=count))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("1", "1"),
        ("1.5", "1.5"),
        ('{"b": 1.5}', '{"b": 1.5}'),
        ("[0.1, 2]", "[0.1, 2]"),
        ("true", "true"),
        ('"a"', "a"),
    ],
)
def test_what_is_no_text_in_a_field_of_text_is_the_text_of_it(value, text):
    schema = JsonRowDeserializationSchema.Builder().type_info(Types.ROW_NAMED(["a"], [Types.STRING()])).build()
    assert schema.deserialize(f'{{"a": {value}}}'.encode()) == (text,)


def test_rows_of_json(env, brokers):
    orders = env.from_collection(ORDERS, type_info=ORDER)
    write(env, brokers, "json", orders, JsonRowSerializationSchema.Builder().with_type_info(ORDER).build())
    schema = JsonRowDeserializationSchema.Builder().type_info(ORDER).build()
    assert read(env, brokers, "json", schema, 4) == ORDERS


def test_rows_of_csv(env, brokers):
    orders = env.from_collection(ORDERS, type_info=ORDER)
    write(env, brokers, "csv", orders, CsvRowSerializationSchema.Builder(ORDER).build())
    assert read(env, brokers, "csv", SimpleStringSchema(), 4) == ["1,tea\n", "2,rum\n", "3,tea\n", "4,salt\n"]


def test_rows_of_avro(env, brokers):
    pytest.importorskip("fastavro", reason="fastavro is not installed")
    orders = env.from_collection(ORDERS, type_info=ORDER)
    write(env, brokers, "avro", orders, AvroRowSerializationSchema(avro_schema_string=AVRO_ORDER))
    found = read(env, brokers, "avro", AvroRowDeserializationSchema(avro_schema_string=AVRO_ORDER), 4)
    assert found == ORDERS and found[1].item == "rum"


def test_bytes(env, brokers):
    documents = [(json.dumps({"id": id, "item": item}).encode("utf-8"),) for id, item in ORDERS]
    stream = env.from_collection(documents, type_info=Types.ROW([BYTES]))
    write(env, brokers, "bytes", stream.map(lambda row: row[0], output_type=BYTES), ByteArraySchema())
    found = read(env, brokers, "bytes", ByteArraySchema(), 4)
    assert [json.loads(each.decode("utf-8"))["item"] for each in found] == ["tea", "rum", "tea", "salt"]


def test_key_and_value_are_fields_of_a_row(env, brokers):
    env.set_parallelism(1)
    rows = [Row(item.encode("utf-8"), str(id).encode("utf-8")) for id, item in ORDERS]
    stream = env.from_collection(rows, type_info=Types.ROW([BYTES, BYTES]))
    sink = (
        KafkaSink.builder()
        .set_bootstrap_servers(brokers)
        .set_record_serializer(
            KafkaRecordSerializationSchema.builder()
            .set_topic("fields")
            .set_key_serialization_schema(RowFieldExtractorSchema(0))
            .set_value_serialization_schema(RowFieldExtractorSchema(1))
            .build()
        )
        .set_delivery_guarantee(GuaranteeOfKafka.AT_LEAST_ONCE)
        .build()
    )
    stream.map(lambda row: row, output_type=Types.ROW([BYTES, BYTES])).sink_to(sink)
    env.execute("fields")
    source = (
        KafkaSource.builder()
        .set_topics("fields")
        .set_bootstrap_servers(brokers)
        .set_deserializer(lambda message: (message.key(), message.value()))
        .build()
    )
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "fields")
    expected = sorted((item.encode(), str(id).encode()) for id, item in ORDERS)
    assert sorted(stream.execute_and_collect(limit=4)) == expected


@pytest.mark.parametrize(
    ("index", "row", "error", "words"),
    [
        (-1, None, ValueError, "at least 0, got -1"),
        ("0", None, TypeError, "must be an int"),
        (2, (b"a", b"b"), IndexError, "has 2 fields"),
        (0, ("a",), TypeError, "must hold bytes, got str: encode it in a map before"),
    ],
)
def test_a_field_that_is_no_message_is_an_error(index, row, error, words):
    with pytest.raises(error, match=words):
        RowFieldExtractorSchema(index).serialize(row)


@pytest.mark.parametrize(
    ("make", "instead"),
    [
        (
            lambda: FlinkKafkaProducer(topic="t", serialization_schema=SimpleStringSchema(), producer_config={}),
            "KafkaSink",
        ),
        (
            lambda: FlinkKafkaConsumer(topics="t", deserialization_schema=SimpleStringSchema(), properties={}),
            "KafkaSource",
        ),
        (lambda: Elasticsearch6SinkBuilder().set_static_index("foo", "id", "bar"), "a Sink of your own"),
        (lambda: Elasticsearch7SinkBuilder().set_dynamic_index("name", "id"), "AsyncDataStream"),
        (lambda: FlushBackoffType.CONSTANT(), "a Sink of your own"),
        (lambda: PulsarSource.builder().set_service_url("pulsar://localhost:6650"), "a Source or a Sink of your own"),
        (lambda: PulsarSink.builder(), "a Source or a Sink of your own"),
        (lambda: StartCursor.latest(), "a Source or a Sink of your own"),
        (lambda: StopCursor.never(), "a Source or a Sink of your own"),
        (lambda: SubscriptionType.Exclusive(), "a Source or a Sink of your own"),
        (lambda: TopicRoutingMode.ROUND_ROBIN(), "a Source or a Sink of your own"),
    ],
)
def test_what_is_java_says_what_to_use(make, instead):
    with pytest.raises(NotImplementedError, match=f"is a Java class, and there is no JVM here: use .*{instead}"):
        make()


def test_a_guarantee_is_the_same_wherever_it_is_imported_from():
    assert DeliveryGuarantee is GuaranteeOfKafka is GuaranteeOfPulsar
