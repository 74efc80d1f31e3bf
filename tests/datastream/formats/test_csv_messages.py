"""CSV messages as columns: rows and errors as read one by one, whatever bytes a message has."""

import pytest

pa = pytest.importorskip("pyarrow")
from hypothesis import example, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from flinkbuf._core.flow.batch_records import RecordsToBatch  # noqa: E402
from flinkbuf.common import Types  # noqa: E402
from flinkbuf.datastream.formats.csv import CsvRowDeserializationSchema  # noqa: E402
from flinkbuf.records.arrow_batches import arrow_schema, batch_builder  # noqa: E402

ROW_TYPE = Types.ROW_NAMED(
    ["i", "s", "f", "b", "h"], [Types.LONG(), Types.STRING(), Types.DOUBLE(), Types.BOOLEAN(), Types.FLOAT()]
)
FIELDS = ["1", "", "-7", "+1", "0x1", "1.5", "1e3", "nan", "nan(1)", "inf", "true", "FALSE", "null", "a b", " 1", "é"]
QUOTED = ['"a"', '"a,b"', '"a""b"', '""', '"a\nb"', '"', 'a"b', '"a"b', '"1"', "0.1", "16777217.0000001", "1_0"]
OTHERS = ["99999999999999999999", "#", "\\", "\0", "\ufeff"]
LINES = st.lists(st.sampled_from(FIELDS + QUOTED + OTHERS), max_size=6).map(",".join)
GOOD = st.tuples(
    st.integers(-(2**63), 2**63 - 1), st.sampled_from(["", "x", '"a,b"', '"a""b"', "é"]), st.floats(), st.booleans()
).map(lambda row: f"{row[0]},{row[1]},{row[2]},{str(row[3]).lower()},{row[0] % 1000 / 8}")
ENDS = st.sampled_from(["", "\n", "\r\n", "\r", "\n\n", "\nx"])
TEXTS = st.tuples(GOOD | GOOD | LINES, ENDS).map(lambda pair: (pair[0] + pair[1]).encode("utf-8", "surrogatepass"))
BROKEN = st.sampled_from(
    [b"", b"\n", b"\xff,a,1,true,1", b"1,\xed\xa0\x80,1,true,1", b"\xef\xbb\xbf1,a,1,true,1", b"1,a"]
)
MESSAGES = st.lists(TEXTS | TEXTS | BROKEN, max_size=4)


def schema_of(ignores_errors=False, **said):
    builder = CsvRowDeserializationSchema.Builder(ROW_TYPE).set_ignore_parse_errors(ignores_errors)
    for name, value in said.items():
        getattr(builder, name)(value)
    return builder.build()


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
@given(messages=MESSAGES, ignores_errors=st.booleans(), null=st.sampled_from([None, "null", "x", "1"]))
@example(messages=[b'1,"a,1,true,1', b'2,b",2,true,2'], ignores_errors=True, null=None)
@example(messages=[b'1,a,1,true,"1', b'2",b,2,true,2'], ignores_errors=False, null=None)
def test_any_messages_are_read_as_by_records(messages, ignores_errors, null):
    schema = schema_of(ignores_errors, **({} if null is None else {"set_null_literal": null}))
    assert outcome(from_columns, schema, messages) == outcome(from_records, schema, messages)


def test_plain_messages_are_read_at_once(monkeypatch):
    schema = schema_of()
    columns = schema.of_batches("s string, i bigint")
    monkeypatch.setattr(CsvRowDeserializationSchema, "deserialize", None)
    batch, kept = columns.read([b'1,"a,b",1.5,true,2\r\n', b"2,b,,false,1", b"3,,1,true,1\n"])
    assert batch.schema == arrow_schema("s string, i bigint")
    assert kept is None
    assert batch.to_pylist() == [{"s": "a,b", "i": 1}, {"s": "b", "i": 2}, {"s": "", "i": 3}]


def test_what_is_read_one_by_one():
    class Other(CsvRowDeserializationSchema):
        def deserialize(self, message):
            return None

    assert Other(schema_of()._schema).of_batches(None) is None
    assert schema_of(set_escape_character="\\").of_batches(None) is None
    assert schema_of(set_allow_comments=True).of_batches(None) is None
    with pytest.raises(ValueError, match="as_columns.. was told of the column 'z'"):
        schema_of().of_batches("z int")
