"""Messages in Avro's binary format, by the rows of their schema."""

import datetime
import io
import json
import pickle
from decimal import Decimal

import pytest

fastavro = pytest.importorskip("fastavro", reason="fastavro is not installed")

from flinkbuf.common import Row, Types  # noqa: E402
from flinkbuf.datastream.formats.avro import (  # noqa: E402
    AvroBulkWriters,
    AvroRowDeserializationSchema,
    AvroRowSerializationSchema,
    AvroSchema,
)
from flinkbuf.errors import CorruptDataError  # noqa: E402


def record(**fields):
    return json.dumps(
        {"type": "record", "name": "R", "fields": [{"name": name, "type": each} for name, each in fields.items()]}
    )


PAIR = record(id="int", name="string")
PLACE = {"type": "record", "name": "Place", "fields": [{"name": "x", "type": "double"}]}
EVERYTHING = record(
    n="long",
    text=["null", "string"],
    day={"type": "int", "logicalType": "date"},
    at={"type": "long", "logicalType": "timestamp-millis"},
    price={"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2},
    raw="bytes",
    kind={"type": "enum", "name": "Kind", "symbols": ["A", "B"]},
    tags={"type": "array", "items": "string"},
    times={"type": "map", "values": {"type": "long", "logicalType": "timestamp-micros"}},
    place=PLACE,
    other=["null", "Place"],
    places={"type": "array", "items": "Place"},
)
MOMENT = datetime.datetime(2024, 2, 29, 12, 30, 0, 123_000)
ROW = Row(
    5, "a", MOMENT.date(), MOMENT, Decimal("1.50"), b"\0\1", "B", ["x"], {"k": MOMENT}, Row(1.5), None, [Row(2.5)]
)


def test_a_row_becomes_the_bytes_of_avro_and_comes_back():
    written = AvroRowSerializationSchema(avro_schema_string=PAIR).serialize((1, "hi"))
    expected = io.BytesIO()
    fastavro.schemaless_writer(expected, json.loads(PAIR), {"id": 1, "name": "hi"})
    assert written == expected.getvalue() == b"\x02\x04hi"
    found = AvroRowDeserializationSchema(avro_schema_string=PAIR).deserialize(written)
    assert found == (1, "hi") and found.name == "hi"


def test_every_type_goes_round():
    writing, reading = (
        pickle.loads(pickle.dumps(each(avro_schema_string=EVERYTHING)))
        for each in (AvroRowSerializationSchema, AvroRowDeserializationSchema)
    )
    found = reading.deserialize(writing.serialize(ROW))
    assert found == ROW and found.place.x == 1.5 and found.places[0].x == 2.5 and found.times["k"] == MOMENT
    again = reading.get_produced_type()
    assert again.deserialize(again.serialize(found)) == found


def test_a_moment_with_a_zone_is_the_same_moment():
    schema = record(at={"type": "long", "logicalType": "timestamp-millis"})
    zoned = MOMENT.replace(tzinfo=datetime.timezone(datetime.timedelta(hours=2)))
    written = AvroRowSerializationSchema(avro_schema_string=schema).serialize((zoned,))
    found = AvroRowDeserializationSchema(avro_schema_string=schema).deserialize(written)
    assert found.at == MOMENT - datetime.timedelta(hours=2)


def test_the_type_of_the_rows_is_that_of_flink():
    assert AvroRowDeserializationSchema(avro_schema_string=EVERYTHING).get_produced_type() == Types.ROW_NAMED(
        ["n", "text", "day", "at", "price", "raw", "kind", "tags", "times", "place", "other", "places"],
        [
            Types.LONG(),
            Types.STRING(),
            Types.SQL_DATE(),
            Types.SQL_TIMESTAMP(),
            Types.BIG_DEC(),
            Types.PRIMITIVE_ARRAY(Types.BYTE()),
            Types.STRING(),
            Types.OBJECT_ARRAY(Types.STRING()),
            Types.MAP(Types.STRING(), Types.SQL_TIMESTAMP()),
            Types.ROW_NAMED(["x"], [Types.DOUBLE()]),
            Types.ROW_NAMED(["x"], [Types.DOUBLE()]),
            Types.OBJECT_ARRAY(Types.ROW_NAMED(["x"], [Types.DOUBLE()])),
        ],
    )


@pytest.mark.parametrize("message", [b"", b"\x02", b"\x02\x08hi", b"\x02\x04hi\0"])
def test_bytes_of_another_schema_are_an_error(message):
    with pytest.raises(CorruptDataError, match="this schema|behind the record"):
        AvroRowDeserializationSchema(avro_schema_string=PAIR).deserialize(message)


@pytest.mark.parametrize(
    ("row", "words"), [((1,), "1 fields instead of 2"), (("x", "hi"), "id"), ((1, None), "name"), (7, "'int'")]
)
def test_a_row_that_does_not_fit_is_an_error(row, words):
    with pytest.raises(ValueError, match=f"does not fit the Avro schema 'R': .*{words}"):
        AvroRowSerializationSchema(avro_schema_string=PAIR).serialize(row)


@pytest.mark.parametrize("make", [AvroRowSerializationSchema, AvroRowDeserializationSchema])
@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        (None, TypeError, "must be the schema's JSON text"),
        ("{", ValueError, "no Avro schema"),
        ('{"type": "nothing"}', ValueError, "no Avro schema"),
        ('"int"', TypeError, "is a record"),
    ],
)
def test_a_schema_that_is_none_is_refused(make, text, error, words):
    with pytest.raises(error, match=words):
        make(avro_schema_string=text)


def test_what_is_java_says_what_to_use():
    with pytest.raises(NotImplementedError, match="use avro_schema_string"):
        AvroRowDeserializationSchema("com.example.Pair")
    with pytest.raises(NotImplementedError, match="the schema's JSON text"):
        AvroSchema.parse_string(PAIR)
    with pytest.raises(NotImplementedError, match="Parquet"):
        AvroBulkWriters.for_generic_record(None)


def test_a_union_of_several_types_is_refused():
    with pytest.raises(TypeError, match="union of several types"):
        AvroRowDeserializationSchema(avro_schema_string=record(either=["int", "string"]))
