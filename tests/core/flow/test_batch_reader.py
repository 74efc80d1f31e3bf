"""What was written comes back as batches, whoever wrote it; and bytes that are not right are errors with a place."""

import math
import random

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.data.arrow_data import batches, records_of

import flinkbuf as fb

ROWS = pa.record_batch(
    {
        "n": pa.array([1, None, 3, 4], pa.int64()),
        "s": ["a", "é", None, "x" * 40],
        "l": [[1, None], [], None, [2]],
        "m": pa.array([[("k", 1)], None, [], [("q", None)]], pa.map_(pa.string(), pa.int32())),
        "t": pa.array([None, 2, 3, 4], pa.timestamp("us", "UTC")),
        "d": pa.array([None, "1.25", "-3.50", "0.01"], pa.string()).cast(pa.decimal128(9, 2)),
    }
)


def buffers_of(items, kind, segment_size=4096):
    config = fb.NetworkConfig(segment_size=segment_size)
    return [buffer for _, buffer in fb.write_buffers(items, kind, 1, config=config)]


def cut(data, size):
    return [data[i : i + size] for i in range(0, len(data), size)]


def same(left, right):
    """Equality in which NaN is itself."""
    if isinstance(left, float) and isinstance(right, float):
        return left == right or (math.isnan(left) and math.isnan(right))
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    return left == right


@settings(max_examples=60)
@given(batches(), st.integers(1, 60), st.integers(1, 9))
def test_a_batch_comes_back(batch, size, max_rows):
    data = b"".join(buffers_of(batch, batch.schema))
    found = list(fb.read_batches(cut(data, size), batch.schema, max_rows=max_rows))
    assert all(0 < part.num_rows <= max_rows and part.schema.names == batch.schema.names for part in found)
    assert sum(part.num_rows for part in found) == batch.num_rows
    for part in found:
        part.validate(full=True)
    rows = [row for part in found for row in part.to_pylist()]
    assert same(rows, batch.to_pylist())


@settings(max_examples=30)
@given(batches())
def test_records_come_back_as_a_batch(batch):
    """The reader does not ask who wrote."""
    found = list(fb.read_batches(buffers_of(records_of(batch), batch.schema), batch.schema))
    assert same([row for part in found for row in part.to_pylist()], batch.to_pylist())


@settings(max_examples=60)
@given(batches(max_rows=5), st.data())
def test_bytes_that_are_not_right_are_errors_and_no_crash(batch, data):
    whole = bytearray(b"".join(buffers_of(batch, batch.schema)))
    for _ in range(data.draw(st.integers(1, 3))):
        if whole:
            whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    whole = whole[: data.draw(st.integers(0, len(whole)))]
    try:
        for part in fb.read_batches([bytes(whole)], batch.schema):
            part.validate(full=True)
    except fb.errors.CorruptDataError:
        pass


def test_every_bit_of_a_few_rows_may_be_wrong():
    whole = b"".join(buffers_of(ROWS, ROWS.schema))
    for bit in range(8 * len(whole)):
        wrong = bytearray(whole)
        wrong[bit // 8] ^= 1 << bit % 8
        try:
            rows = [part.validate(full=True) for part in fb.read_batches([bytes(wrong)], ROWS.schema)]
        except fb.errors.CorruptDataError:
            continue
        list(fb.read_buffers([bytes(wrong)], ROWS.schema))  # what a batch takes, records take
        assert rows


def test_the_rows_before_an_error_come_first():
    kind = "n bigint, s string"
    good = b"".join(buffers_of([(i, "text") for i in range(10)], kind))
    bad = b"\0\0\0\7" + b"\0" * 7
    batches_found = fb.read_batches([good + bad + good], kind, max_rows=4)
    assert [next(batches_found).num_rows for _ in range(3)] == [4, 4, 2]
    for _ in range(2):
        with pytest.raises(
            fb.errors.CorruptDataError, match="record 10, byte 7, column 'n': the bytes end inside a record"
        ):
            next(batches_found)


@pytest.mark.parametrize(
    ("records", "written", "read", "message"),
    [
        ([(1, 2)], "a bigint, b bigint", "a bigint", "longer than the declared type"),
        ([(2,)], "a bigint", "a bigint, b bigint", "column 'b': the bytes end inside a record"),
        ([("\ud800",)], "a string", "a string", "column 'a': text with half a surrogate pair"),
    ],
)
def test_bytes_of_another_type_are_errors(records, written, read, message):
    with pytest.raises(fb.errors.CorruptDataError, match=message):
        list(fb.read_batches(buffers_of(records, written), read))


@pytest.mark.parametrize("kind", [fb.Types.STRING_VALUE(), fb.Types.ROW_NAMED(["value"], [fb.Types.STRING_VALUE()])])
@pytest.mark.parametrize("more", ["", "é"])
def test_a_text_that_has_no_null_counts_its_units_alone(kind, more):
    texts = ["", "a", "x" * 16, "x" * 126, "x" * 127, "x" * 128, "y" * 40000, more]
    batch = pa.record_batch({"value": texts})
    records = texts if kind == fb.Types.STRING_VALUE() else [(text,) for text in texts]
    buffers = buffers_of(batch, kind)
    assert b"".join(buffers) == b"".join(buffers_of(records, kind))
    assert pa.Table.from_batches(fb.read_batches(buffers, kind))["value"].to_pylist() == texts


def test_a_row_that_is_a_change_has_no_place():
    row = fb.Row(1)
    row.set_row_kind(fb.types.RowKind.DELETE)
    with pytest.raises(fb.errors.CorruptDataError, match="the row is a change"):
        list(fb.read_batches(buffers_of([row], "a bigint"), "a bigint"))


@pytest.mark.parametrize(
    ("found", "values", "message"),
    [
        (pa.uint8(), [300], "a number that the column cannot hold"),
        (pa.uint64(), [-1], "a number that the column cannot hold"),
        (pa.float16(), [1e6], "cannot hold exactly"),
        (pa.decimal128(5, 2), ["1.234"], "scale cannot hold exactly"),
        (pa.decimal128(5, 2), ["1234"], "more digits"),
        (pa.timestamp("s", "UTC"), [1], "more exact than the column's unit"),
        (pa.binary(3), [b"ab"], "another length"),
        (pa.list_(pa.int32(), 2), [[1]], "another length"),
    ],
)
def test_what_a_column_cannot_hold_is_an_error(found, values, message):
    import datetime
    import decimal

    make = {"decimal128(5, 2)": decimal.Decimal}.get(str(found), lambda value: value)
    if pa.types.is_timestamp(found):
        make = lambda value: datetime.datetime(2020, 1, 1, 0, 0, 0, value, datetime.timezone.utc)  # noqa: E731
    schema = pa.schema([("a", found)])
    with pytest.raises(fb.errors.CorruptDataError, match=message):
        list(fb.read_batches(buffers_of([(make(value),) for value in values], schema), schema))


def test_decimals_come_to_the_scale_of_their_column():
    import decimal

    digits = ["1", "-2.5", "0", "10", "-0.010", "999"]
    kind = "a decimal(10, 3)"
    buffers = buffers_of([(decimal.Decimal(text),) for text in digits], kind)
    (batch,) = fb.read_batches(buffers, kind)
    assert batch.schema.field("a").type == pa.decimal128(10, 3)
    assert batch["a"].to_pylist() == [decimal.Decimal(text) for text in digits]


def test_a_spark_type_gives_spark_columns():
    kind = "a int, b array<timestamp>, c map<string, date>, d struct<x: binary, y: timestamp_ntz>, e decimal, f time(6)"
    schema = next(fb.read_batches(buffers_of([(1, [], {}, (b"x", None), None, None)], kind), kind)).schema
    assert [str(field.type) for field in schema] == [
        "int32",
        "list<element: timestamp[us, tz=UTC]>",
        "map<string, date32[day]>",
        "struct<x: binary, y: timestamp[us]>",
        "decimal128(10, 0)",
        "time64[us]",
    ]


def test_records_without_fields_are_one_column():
    (batch,) = fb.read_batches(buffers_of([1, 2, 3], "bigint"), "bigint")
    assert batch.to_pydict() == {"value": [1, 2, 3]}
    (batch,) = fb.read_batches(buffers_of(["a", None], "string"), "string")
    assert batch.to_pydict() == {"value": ["a", None]}


def test_metadata_and_nullability_are_those_of_the_schema():
    schema = pa.schema([pa.field("a", pa.int64(), False, {"k": "v"})], {"x": "y"})
    batch = pa.record_batch([pa.array([1, 2])], schema=schema)
    (found,) = fb.read_batches(buffers_of(batch, schema), schema)
    assert found.schema.equals(schema, check_metadata=True)


def test_a_type_without_columns_is_refused():
    with pytest.raises(TypeError, match="column 'f0': .*SET"):
        fb.read_batches([], fb.Types.ROW([fb.Types.SET("int")]))
    for options in ({"max_rows": 0}, {"max_bytes": 0}):
        with pytest.raises(ValueError, match="max_"):
            fb.read_batches([], "a int", **options)


def test_a_batch_ends_at_its_bytes():
    buffers = buffers_of([(i, "x" * 100) for i in range(5000)], "n bigint, s string")
    sizes = [part.num_rows for part in fb.read_batches(buffers, "n bigint, s string", max_bytes=20_000)]
    assert sum(sizes) == 5000
    assert max(sizes) < 250


def test_a_gate_gives_batches():
    partition = fb.ResultPartition(fb.NetworkBufferPool(64, segment_size=128), 3, type="PIPELINED")
    rng = random.Random(1)
    rows = [(rng.randrange(100), "x" * rng.randrange(60)) for _ in range(100)]
    with fb.RecordWriter(partition, "n bigint, s string", fb.by_key("n")) as writer:
        writer.emit_all(rows)
    gate = fb.InputGate([(partition, i) for i in range(3)])
    reader = fb.RecordReader(gate, "n bigint, s string")
    first = next(reader)  # records and batches take turns as one likes
    found = [tuple(first)]
    for batch in reader.read_batches(max_rows=30):
        assert batch.num_rows <= 30
        found += [tuple(row.values()) for row in batch.to_pylist()]
    assert sorted(found) == sorted(rows)


def test_a_channel_that_ends_inside_a_record_names_it():
    partition = fb.ResultPartition(fb.NetworkBufferPool(16), 1)
    with fb.RecordWriter(partition, fb.Types.TUPLE(["bigint", "bigint"])) as writer:
        writer.emit((1, 2))
    reader = fb.RecordReader(fb.InputGate([(partition, 0)]), fb.Types.TUPLE(["bigint", "bigint", "bigint"]))
    with pytest.raises(fb.errors.CorruptDataError, match="channel 0, record 0, byte 16, column 'f2'"):
        list(reader.read_batches())


def test_elements_of_a_stream_are_no_batch():
    partition = fb.ResultPartition(fb.NetworkBufferPool(16), 1)
    reader = fb.RecordReader(fb.InputGate([(partition, 0)]), fb.Types.STREAM_ELEMENT("a bigint"))
    with pytest.raises(TypeError, match=r"no batches|no column"):
        reader.read_batches()
