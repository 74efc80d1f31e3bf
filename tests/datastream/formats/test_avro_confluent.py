"""Messages in Avro's binary format whose schema is a number of a registry."""

import io
import json
import pickle

import pytest

fastavro = pytest.importorskip("fastavro", reason="fastavro is not installed")

from support.servers.schema_registry import running_registry  # noqa: E402
from test_avro import EVERYTHING, PAIR, ROW, record  # noqa: E402

from flinkbuf.common import Row  # noqa: E402
from flinkbuf.datastream.formats import schema_registry  # noqa: E402
from flinkbuf.datastream.formats.avro_confluent import (  # noqa: E402
    ConfluentRegistryAvroRowDeserializationSchema,
    ConfluentRegistryAvroRowSerializationSchema,
)
from flinkbuf.errors import CorruptDataError, FlinkbufError  # noqa: E402


@pytest.fixture
def registry(monkeypatch):
    monkeypatch.setattr(schema_registry, "_PAUSES_S", (0.001, 0.001))
    with running_registry() as registry:
        yield registry


def reading(registry, schema=PAIR, **configs):
    configs = {key.replace("_", "."): value for key, value in configs.items()}
    return ConfluentRegistryAvroRowDeserializationSchema(schema, registry.url, configs)


def writing(registry, schema=PAIR, subject="pairs-value"):
    return ConfluentRegistryAvroRowSerializationSchema(subject, schema, registry.url)


def written_as(schema, number, value):
    """As another client writes it."""
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(json.loads(schema)), value)
    return b"\0" + number.to_bytes(4, "big") + stream.getvalue()


def test_rows_go_round_and_the_registry_is_asked_once(registry):
    write, read = writing(registry), reading(registry)
    messages = [write.serialize((number, "hi")) for number in range(3)]
    assert messages[1] == b"\0\0\0\0\x01\x02\x04hi"
    assert [read.deserialize(each) for each in messages] == [Row(0, "hi"), Row(1, "hi"), Row(2, "hi")]
    assert registry.asked == ["POST /subjects/pairs-value/versions", "GET /schemas/ids/1"]


def test_every_type_goes_round(registry):
    message = writing(registry, EVERYTHING, "all / of them").serialize(ROW)
    assert reading(registry, EVERYTHING).deserialize(message) == ROW


def test_what_other_versions_have_written_is_read_as_the_schema_that_is_given(registry):
    older = record(name="string", id="int")
    newer = record(id="int", name="string", more="bytes")
    asked = json.loads(PAIR)
    asked["fields"] += [{"name": "since", "type": "long", "default": 7}]
    asked["fields"][0]["type"] = "long"
    numbers = [registry.add("pairs-value", schema) for schema in (older, newer)]
    read = reading(registry, json.dumps(asked))
    assert read.deserialize(written_as(older, numbers[0], {"name": "a", "id": 1})) == Row(1, "a", 7)
    assert read.deserialize(written_as(newer, numbers[1], {"id": 2, "name": "b", "more": b"x"})) == Row(2, "b", 7)


def test_a_schema_that_uses_those_of_other_subjects_is_put_together(registry):
    place = '{"type": "record", "name": "Place", "fields": [{"name": "x", "type": "double"}]}'
    registry.add("place", place)
    uses = record(place="Place")
    number = registry.add("uses", uses, references=[{"name": "Place", "subject": "place", "version": 1}])
    given = record(place=json.loads(place))
    message = b"\0" + number.to_bytes(4, "big") + b"\0\0\0\0\0\0\xf8\x3f"
    assert reading(registry, given).deserialize(message) == Row(Row(1.5))


def test_what_is_not_of_the_registry_is_told(registry):
    read = reading(registry)
    number = registry.add("pairs-value", PAIR)
    other = registry.add("texts", '"string"')
    protobuf = registry.add("p", 'syntax = "proto3";', "PROTOBUF")
    broken = registry.add("b", '{"type": "none of them"}')
    begin = {each: b"\0" + each.to_bytes(4, "big") for each in (number, other, protobuf, broken, 99)}
    for message, error, words in (
        (b"\x02\x04hi", CorruptDataError, "does not begin with a byte of 0 .* AvroRowDeserializationSchema"),
        (b"\0\0\0\0", CorruptDataError, "does not begin"),
        (b"", CorruptDataError, "does not begin"),
        (begin[99] + b"\x02", FlinkbufError, "refuses .*/schemas/ids/99: 404 .*not found"),
        (begin[number] + b"\x02", CorruptDataError, "is no record of schema 1"),
        (begin[number] + b"\x02\x04hi!", CorruptDataError, "has 1 bytes behind the record"),
        (begin[other] + b"\x04hi", CorruptDataError, "cannot be read as 'R'"),
        (begin[protobuf] + b"\0", CorruptDataError, "is one of PROTOBUF, not of Avro"),
        (begin[broken] + b"\0", FlinkbufError, "a schema that cannot be read"),
    ):
        with pytest.raises(error, match=words):
            read.deserialize(message)


def test_a_registry_that_is_away_for_a_moment_is_asked_again_and_one_that_stays_away_is_told(registry):
    number = registry.add("pairs-value", PAIR)
    message = written_as(PAIR, number, {"id": 1, "name": "a"})
    registry.fails = [503, 429]
    assert reading(registry).deserialize(message) == Row(1, "a")
    registry.fails = [503] * 9
    with pytest.raises(FlinkbufError, match="does not answer: 503"):
        reading(registry).deserialize(message)
    registry.fails = []
    two = ConfluentRegistryAvroRowDeserializationSchema(PAIR, f"http://127.0.0.1:1, {registry.url}/")
    assert two.deserialize(message) == Row(1, "a")
    nobody = ConfluentRegistryAvroRowDeserializationSchema(PAIR, "http://127.0.0.1:1")
    with pytest.raises(FlinkbufError, match="at http://127.0.0.1:1 does not answer"):
        nobody.deserialize(message)


def test_a_schema_that_does_not_fit_those_before_it_is_told(registry):
    registry.refuses = True
    with pytest.raises(FlinkbufError, match="refuses .*/subjects/pairs-value/versions: 409 .*incompatible"):
        writing(registry).serialize((1, "a"))


def test_a_user_is_said_where_there_is_one(registry):
    registry.user = "me:secret"
    number = registry.add("pairs-value", PAIR)
    message = written_as(PAIR, number, {"id": 1, "name": "a"})
    assert reading(registry, basic_auth_user_info="me:secret").deserialize(message) == Row(1, "a")
    with pytest.raises(FlinkbufError, match="401") as told:
        reading(registry, basic_auth_user_info="me:wrong").deserialize(message)
    assert "wrong" not in str(told.value)


def test_schemas_travel_with_the_program(registry):
    write, read = (pickle.loads(pickle.dumps(each)) for each in (writing(registry), reading(registry)))
    assert read.deserialize(write.serialize((1, "a"))) == Row(1, "a")
    assert read.get_produced_type() == reading(registry).get_produced_type()


def test_mistakes_are_told_where_they_are_made():
    for call, error, words in (
        (lambda: ConfluentRegistryAvroRowDeserializationSchema(PAIR, "localhost:8081"), ValueError, "begins with http"),
        (lambda: ConfluentRegistryAvroRowDeserializationSchema("{", "http://a"), ValueError, "no Avro schema"),
        (
            lambda: ConfluentRegistryAvroRowDeserializationSchema(PAIR, "http://a", {"basic.auth": "x"}),
            ValueError,
            "has no property 'basic.auth'; it has basic.auth.user.info",
        ),
        (
            lambda: ConfluentRegistryAvroRowSerializationSchema("", PAIR, "http://a"),
            TypeError,
            "such as 'orders-value'",
        ),
    ):
        with pytest.raises(error, match=words):
            call()
