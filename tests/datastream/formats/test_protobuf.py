"""Messages of Protocol Buffers, by the rows of their class."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("google.protobuf", reason="protobuf is not installed")

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from flinkbuf.common import Row, Types
from flinkbuf.datastream.formats.protobuf import (
    ProtobufRowDeserializationSchema,
    ProtobufRowSerializationSchema,
)
from flinkbuf.errors import CorruptDataError

KINDS = descriptor_pb2.FieldDescriptorProto


def made(*messages, enums=(), name="t.proto"):
    """Classes of messages, as protoc would make them: each a name and its fields, (name, type, more)."""
    file = descriptor_pb2.FileDescriptorProto(name=name, package="t", syntax="proto3")
    for enum, names in enums:
        values = [descriptor_pb2.EnumValueDescriptorProto(name=each, number=n) for n, each in enumerate(names)]
        file.enum_type.add(name=enum, value=values)
    for message, fields in messages:
        target = file.message_type.add(name=message)
        for number, (field, kind, *more) in enumerate(fields, 1):
            label = KINDS.LABEL_REPEATED if "repeated" in more else KINDS.LABEL_OPTIONAL
            added = target.field.add(name=field, number=number, label=label)
            if isinstance(kind, int):
                added.type = kind
            elif kind.startswith("map "):
                _, key, value = kind.split()
                entry = target.nested_type.add(name=f"{field.capitalize()}Entry")
                entry.options.map_entry = True
                entry.field.add(name="key", number=1, label=1, type=getattr(KINDS, f"TYPE_{key}"))
                of_value = entry.field.add(name="value", number=2, label=1)
                if value.startswith("."):
                    of_value.type, of_value.type_name = KINDS.TYPE_MESSAGE, value
                else:
                    of_value.type = getattr(KINDS, f"TYPE_{value}")
                added.label, added.type = KINDS.LABEL_REPEATED, KINDS.TYPE_MESSAGE
                added.type_name = f".t.{message}.{field.capitalize()}Entry"
            else:
                added.type = KINDS.TYPE_ENUM if kind.startswith("enum ") else KINDS.TYPE_MESSAGE
                added.type_name = kind.split()[-1]
            if "optional" in more:
                target.oneof_decl.add(name=f"_{field}")
                added.oneof_index, added.proto3_optional = len(target.oneof_decl) - 1, True
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return [message_factory.GetMessageClass(pool.FindMessageTypeByName(f"t.{each}")) for each, _ in messages]


PLACE = ("Place", [("x", KINDS.TYPE_DOUBLE)])
EVERYTHING = (
    "Everything",
    [
        ("a", KINDS.TYPE_INT32),
        ("b", KINDS.TYPE_SINT64),
        ("c", KINDS.TYPE_UINT32),
        ("d", KINDS.TYPE_FIXED64),
        ("e", KINDS.TYPE_FLOAT),
        ("f", KINDS.TYPE_DOUBLE),
        ("g", KINDS.TYPE_BOOL),
        ("h", KINDS.TYPE_STRING),
        ("i", KINDS.TYPE_BYTES),
        ("j", "enum .t.Kind"),
        ("k", ".t.Place"),
        ("l", KINDS.TYPE_STRING, "repeated"),
        ("m", ".t.Place", "repeated"),
        ("n", "map STRING INT64"),
        ("o", "map INT32 .t.Place"),
        ("p", KINDS.TYPE_INT64, "optional"),
        ("q", "enum .t.Kind", "repeated"),
    ],
)


@pytest.fixture(scope="module")
def everything():
    return made(EVERYTHING, PLACE, enums=[("Kind", ["A", "B"])])[0]


NUMBERS = st.integers
ROWS = st.builds(
    Row,
    NUMBERS(-(2**31), 2**31 - 1),
    NUMBERS(-(2**63), 2**63 - 1),
    NUMBERS(0, 2**32 - 1),
    NUMBERS(0, 2**63 - 1),
    st.floats(width=32, allow_nan=False),
    st.floats(allow_nan=False),
    st.booleans(),
    st.text(),
    st.binary(),
    st.sampled_from("AB"),
    st.none() | st.builds(Row, st.floats(allow_nan=False)),
    st.lists(st.text(), max_size=3),
    st.lists(st.builds(Row, st.floats(allow_nan=False)), max_size=3),
    st.dictionaries(st.text(), NUMBERS(-5, 5), max_size=3),
    st.dictionaries(NUMBERS(-5, 5), st.builds(Row, st.floats(allow_nan=False)), max_size=3),
    st.none() | NUMBERS(-5, 5),
    st.lists(st.sampled_from("AB"), max_size=3),
)


@given(row=ROWS)
def test_every_row_goes_round(everything, row):
    write, read = ProtobufRowSerializationSchema(everything), ProtobufRowDeserializationSchema(everything)
    assert read.deserialize(write.serialize(row)) == row


def test_messages_are_those_of_the_library_and_rows_have_names(everything):
    message = everything(a=7, p=0, n={"x": 1})
    message.k.x = 0.0
    found = ProtobufRowDeserializationSchema(everything).deserialize(message.SerializeToString())
    assert (found.a, found.p, found.n, found.k, found.j, found.l) == (7, 0, {"x": 1}, Row(0.0), "A", [])
    unset = ProtobufRowDeserializationSchema(everything).deserialize(b"")
    assert unset.k is None and unset.p is None and unset.h == "" and unset.i == b""


def test_types_are_those_of_rows(everything):
    types = ProtobufRowDeserializationSchema(everything).get_produced_type()
    place = Types.ROW_NAMED(["x"], [Types.DOUBLE()])
    assert types.field_names == tuple("abcdefghijklmnopq") or list(types.field_names) == list("abcdefghijklmnopq")
    found = dict(zip(types.field_names, types.field_types, strict=True))
    assert found["c"] == Types.LONG() and found["j"] == Types.STRING() and found["k"] == place
    assert found["o"] == Types.MAP(Types.INT(), place) and found["m"] == Types.OBJECT_ARRAY(place)


def test_what_does_not_fit_is_told_with_its_field(everything):
    write = ProtobufRowSerializationSchema(everything)
    good = [1, 2, 3, 4, 0.5, 0.5, True, "h", b"i", "A", None, [], [], {}, {}, None, []]
    for place, value, words in (
        (0, 2**31, "a: "),
        (2, -1, "c: "),
        (7, 5, "h: "),
        (7, None, "h: it is None, and the message cannot say so: declare the field optional"),
        (8, 5, "i: it is 5, and should be bytes"),
        (9, "C", "j: 'C' is no name of t.Kind: it has A, B"),
        (10, Row("x"), "k: x: "),
        (10, Row(1.0, 2.0), "k: it has 2 fields instead of 1"),
        (11, None, "l: it is None"),
        (13, [1], "n: it is .1., and should be a dict"),
        (13, {"a": "b"}, "n: "),
    ):
        row = [*good]
        row[place] = value
        with pytest.raises(ValueError, match=words):
            write.serialize(tuple(row))
    with pytest.raises(ValueError, match="it has 1 fields instead of 17"):
        write.serialize((1,))


def test_bytes_that_are_no_message_are_told(everything):
    read = ProtobufRowDeserializationSchema(everything)
    with pytest.raises(CorruptDataError, match="is no message t.Everything"):
        read.deserialize(b"\xff\xff")
    with pytest.raises(CorruptDataError, match="t.Everything.j is 7, and t.Kind has no name for it"):
        read.deserialize(b"\x50\x07")
    unsigned = made(("Big", [("n", KINDS.TYPE_UINT64)]))[0]
    with pytest.raises(CorruptDataError, match="t.Big.n is 18446744073709551615, more than a LONG holds"):
        ProtobufRowDeserializationSchema(unsigned).deserialize(unsigned(n=2**64 - 1).SerializeToString())


def test_classes_that_are_none_or_contain_themselves_are_refused():
    for schema in (ProtobufRowDeserializationSchema, ProtobufRowSerializationSchema):
        for given_class in (int, "Place", None):
            with pytest.raises(TypeError, match="must be a class that protoc has made"):
                schema(given_class)
        tree = made(("Tree", [("left", ".t.Tree")]))[0]
        with pytest.raises(TypeError, match="cannot contain rows of its own kind: t.Tree in t.Tree"):
            schema(tree)


def test_schemas_travel_where_the_class_is_not(everything):
    write = pickle.loads(pickle.dumps(ProtobufRowSerializationSchema(everything)))
    read = pickle.loads(pickle.dumps(ProtobufRowDeserializationSchema(everything)))
    row = Row(
        1, 2, 3, 4, 0.5, 0.5, True, "h", b"i", "B", Row(1.0), ["x"], [Row(2.0)], {"y": 1}, {5: Row(3.0)}, 9, ["A"]
    )
    assert read.deserialize(write.serialize(row)) == row
    assert write.serialize(row) == ProtobufRowSerializationSchema(everything).serialize(row)
