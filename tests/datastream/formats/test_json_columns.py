"""JSON messages as columns: rows and errors as read one by one, whatever bytes a message has."""

import json

import pytest

pa = pytest.importorskip("pyarrow")
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from flinkbuf._core.flow.batch_records import RecordsToBatch  # noqa: E402
from flinkbuf.common import Types  # noqa: E402
from flinkbuf.datastream.formats.json import JsonRowDeserializationSchema  # noqa: E402
from flinkbuf.records.arrow_batches import arrow_schema, batch_builder  # noqa: E402

ROW_TYPE = Types.ROW_NAMED(
    ["b", "i", "t", "h", "f", "s"],
    [Types.BOOLEAN(), Types.LONG(), Types.BYTE(), Types.FLOAT(), Types.DOUBLE(), Types.STRING()],
)
NAMES = st.sampled_from([*"bithfsx", "\\u0069", "\xe9"])
NUMBERS = ["1", "-0", "-0.0", "300", "1.5", "1.0", "1e3", "1e400", "NaN", "0.1", "16777217.0000001", "-Infinity", "01"]
TEXTS = ['"1"', '""', '"\xe9"', '"\\ud83d\\ude00"', '"\\ud800"', '"a\tb"', '"\\u0000"', '"}"', '"{"', '"x\\n{"']
OTHERS = ["null", "true", "[1]", '{"a": 1}', '{"a": 1, "a": 2}', "x", "99999999999999999999"]
VALUES = st.sampled_from([*NUMBERS, *TEXTS, *OTHERS])
FIELDS = st.tuples(NAMES, VALUES).map(lambda pair: f'"{pair[0]}": {pair[1]}')
OBJECTS = st.lists(FIELDS, max_size=3).map(lambda fields: "{" + ", ".join(fields) + "}")
PARTS = [b"", b" ", b"null", b"{}{}", b'{"i": {"a": 1}', b', "i": 1}', b'{"i": "}', b'{"}', b"[]", b"{", b'{"i": 1} x']
BYTES = [b"\xef\xbb\xbf{}", b"{}\x00{}", '{"i": 1}'.encode("utf-16"), b'{"x": "\xff"}', b'{"s": "\xed\xa0\x80"}']
BROKEN = st.sampled_from([*PARTS, *BYTES, b'\n{\n"i": 1\r\n}\n'])
GOOD = st.fixed_dictionaries(
    {},
    optional={
        "b": st.none() | st.booleans(),
        "i": st.none() | st.integers(-(2**63), 2**63 - 1),
        "h": st.none() | st.floats(width=32),
        "f": st.none() | st.floats(),
        "s": st.none() | st.text(max_size=4),
        "x": st.recursive(st.integers() | st.text(max_size=2), lambda inner: st.lists(inner, max_size=2), max_leaves=4),
    },
)
MESSAGES = st.lists(
    GOOD.map(lambda value: json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    | OBJECTS.map(lambda text: text.encode("utf-8", "replace"))
    | BROKEN,
    max_size=4,
)


def from_records(schema, messages):
    gathered = RecordsToBatch(ROW_TYPE.codec, batch_builder(ROW_TYPE.codec, ROW_TYPE, 1 << 20, 1 << 30))
    kept = []
    for index, message in enumerate(messages):
        row = schema.deserialize(message)
        if row is not None:
            gathered.add_record(row)
            kept.append(index)
    return str(gathered.finish().to_pylist() if kept else []), kept


def from_columns(schema, messages):
    batch, kept = schema.of_batches(None).read(messages)
    return str(batch.to_pylist()), list(range(len(messages))) if kept is None else kept


def outcome(read, *arguments):
    try:
        return read(*arguments)
    except (ValueError, TypeError, OverflowError) as error:
        return f"error: {error}"


@settings(max_examples=250, deadline=None)
@given(messages=MESSAGES, ignores_errors=st.booleans())
def test_any_messages_are_read_as_by_records(messages, ignores_errors):
    schema = JsonRowDeserializationSchema(ROW_TYPE, ignore_parse_errors=ignores_errors)
    assert outcome(from_columns, schema, messages) == outcome(from_records, schema, messages)


def test_wanted_columns_alone_are_read():
    schema = JsonRowDeserializationSchema(ROW_TYPE)
    batch, kept = schema.of_batches("s string, t bigint").read([b'{"s": "a", "t": 1, "i": 1.5}'])
    assert batch.schema == arrow_schema("s string, t bigint")
    assert (batch.to_pylist(), kept) == ([{"s": "a", "t": 1}], None)
    with pytest.raises(ValueError, match="as_columns.. was told of the column 'z'"):
        schema.of_batches("z int")


def test_what_is_read_one_by_one():
    class Other(JsonRowDeserializationSchema):
        def deserialize(self, message):
            return None

    assert Other(ROW_TYPE).of_batches(None) is None
    assert JsonRowDeserializationSchema(ROW_TYPE, fail_on_missing_field=True).of_batches(None) is None
    assert JsonRowDeserializationSchema(Types.LONG()).of_batches(None) is None
    assert JsonRowDeserializationSchema(Types.ROW_NAMED(["d"], [Types.BIG_DEC()])).of_batches(None) is None
