"""Batches as rows of the table runtime: the bytes of records, back to the same columns, keys as Flink SQL's."""

import contextlib
import datetime
import decimal

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support.data.arrow_data import batches, records_of

import flinkbuf as fb
from flinkbuf._core.flow.batch_writer import HashBatchWriter
from flinkbuf._core.flow.record_buffers import HashBufferWriter
from flinkbuf.records.arrow_batches import split_batches
from flinkbuf.records.partitioner import as_partitioner, key_group_range

UTC = datetime.timezone.utc


def row_type_of(schema):
    """Or no example: decimals that Flink SQL has not."""
    try:
        return fb.types.row_data_type(schema)
    except TypeError as error:
        assume("more digits than a DECIMAL" not in str(error))
        raise


def write(items, kind, channels=1, partitioner="global", segment_size=64):
    """What each channel got, as one piece."""
    selector = as_partitioner(partitioner).selector(kind, channels, seed=7)
    found, records = split_batches(items)
    make = HashBufferWriter if found is None else HashBatchWriter
    joined = {}
    for channel, buffer in make(records if found is None else found, kind.codec, selector, segment_size):
        joined[channel] = joined.get(channel, b"") + bytes(buffer)
    return joined


def is_lossy(found):
    """Times that are finer than milliseconds, which TIME has not."""
    nested = [found.field(i).type for i in range(found.num_fields)] if pa.types.is_nested(found) else []
    return pa.types.is_time64(found) or any(map(is_lossy, nested))


def fine_times_are_refused(batch):
    assume(not any(is_lossy(column.type) for column in batch.columns))


@settings(max_examples=150, deadline=None)
@given(batches())
def test_a_batch_has_the_bytes_of_its_records(batch):
    fine_times_are_refused(batch)
    kind = row_type_of(batch.schema)
    assert write(batch, kind) == write(records_of(batch), kind)


@settings(max_examples=60, deadline=None)
@given(batches(), st.integers(1, 60), st.integers(1, 9))
def test_a_batch_comes_back(batch, size, max_rows):
    fine_times_are_refused(batch)
    data = b"".join(write(batch, row_type_of(batch.schema)).values())
    pieces = [data[i : i + size] for i in range(0, len(data), size)]
    found = list(fb.read_batches(pieces, row_type_of(batch.schema), schema=batch.schema, max_rows=max_rows))
    for part in found:
        part.validate(full=True)
    rows = [row for part in found for row in part.to_pylist()]
    assert repr(rows) == repr(batch.to_pylist())  # NaN is NaN


@settings(max_examples=60, deadline=None)
@given(batches(), st.data())
def test_keys_have_the_channels_of_records(batch, data):
    fine_times_are_refused(batch)
    kind = row_type_of(batch.schema)
    names = data.draw(st.lists(st.sampled_from([*batch.schema.names, "*"]), min_size=1, max_size=3, unique=True))
    key = "*" if "*" in names else tuple(names) if data.draw(st.booleans()) else names[0]
    assert write(batch, kind, 7, fb.by_key(key)) == write(records_of(batch), kind, 7, fb.by_key(key))


@settings(max_examples=60, deadline=None)
@given(batches(max_rows=5), st.data())
def test_bytes_that_are_not_right_are_errors_and_no_crash(batch, data):
    fine_times_are_refused(batch)
    kind = row_type_of(batch.schema)
    whole = bytearray(b"".join(write(batch, kind).values()))
    for _ in range(data.draw(st.integers(1, 3))):
        if whole:
            whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    whole = whole[: data.draw(st.integers(0, len(whole)))]
    with contextlib.suppress(fb.errors.CorruptDataError):
        for part in fb.read_batches([bytes(whole)], kind, schema=batch.schema):
            part.validate(full=True)
    with contextlib.suppress(fb.errors.CorruptDataError):
        list(fb.read_buffers([bytes(whole)], kind))


ROWS = pa.record_batch(
    {
        "flag": [True, None],
        "number": pa.array([7, None], pa.int32()),
        "text": ["short", "longer than seven"],
        "price": pa.array([decimal.Decimal("1.50"), None], pa.decimal128(20, 2)),
        "list": [["a", None, "a longer element"], []],
        "map": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
        "row": [{"x": 1, "y": "z"}, None],
        "at": pa.array([datetime.datetime(2020, 1, 1, 1, 2, 3, 456), None], pa.timestamp("us")),
    }
)


def test_every_bit_of_a_few_rows_may_be_wrong():
    kind = fb.types.row_data_type(ROWS.schema)
    whole = b"".join(write(ROWS, kind).values())
    for bit in range(8 * len(whole)):
        wrong = bytearray(whole)
        wrong[bit // 8] ^= 1 << bit % 8
        try:
            rows = [part.validate(full=True) for part in fb.read_batches([bytes(wrong)], kind, schema=ROWS.schema)]
        except fb.errors.CorruptDataError:
            continue
        records = list(fb.read_buffers([bytes(wrong)], kind))  # what a batch takes, records take
        assert rows is not None
        assert len(records) == 2


def test_rows_are_aligned_in_their_buffers():
    kind = fb.types.row_data_type(ROWS.schema)
    data = write(ROWS, kind)[0]
    assert len(data) % 8 == 0
    assert int.from_bytes(data[:4], "big") == int.from_bytes(data[4:8], "big") + 4


def test_a_stream_of_batches_is_read_as_records_and_back():
    kind = fb.types.row_data_type(ROWS.schema)
    buffers = [buffer for _, buffer in fb.write_buffers(ROWS, kind, 1)]
    records = list(fb.read_buffers(buffers, kind))
    assert records[0].text == "short"
    assert records[0].price == decimal.Decimal("1.50")
    assert records[0].map == {"k": 1}
    assert records[0].row == (1, "z")
    again = [buffer for _, buffer in fb.write_buffers(records, kind, 1)]
    assert next(fb.read_batches(again, kind)).to_pylist() == ROWS.to_pylist()
    assert next(fb.read_batches(again, kind)).schema.field("price").type == pa.decimal128(20, 2)


def test_the_key_is_a_row_of_its_own_as_in_flink_sql():
    kind = fb.Types.ROW_DATA(["id", "name", "extra"], [fb.Types.LONG(), fb.Types.STRING(), fb.Types.INT()])
    key = fb.Types.ROW_DATA(["name", "id"], [fb.Types.STRING(), fb.Types.LONG()])
    selector = fb.by_key(("name", "id")).selector(kind, 128, None)
    row = key.serialize(("a", 5))[4:]
    expected = murmur_of_words(row)
    assert selector.hash_code_of((5, "a", None)) == expected
    assert isinstance(selector.select_channel((None, None, 1)), int)  # null is a value


def murmur_of_words(data):
    """Murmur 3 with the seed 42, over words of 4 bytes."""
    mask, h = 0xFFFFFFFF, 42
    for i in range(0, len(data), 4):
        k = int.from_bytes(data[i : i + 4], "little") * 0xCC9E2D51 & mask
        k = (k << 15 | k >> 17) * 0x1B873593 & mask
        h ^= k
        h = ((h << 13 | h >> 19) & mask) * 5 + 0xE6546B64 & mask
    h ^= len(data)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        h = (h ^ h >> shift) * factor & mask
    h ^= h >> 16
    return h - (1 << 32) if h >= 1 << 31 else h


# ------------------------------------------------------------------------------------------------------ what is refused

NOT_NULL = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string(), nullable=False)])


@pytest.mark.parametrize("make", [fb.types.row_data_type, fb.as_type])
@pytest.mark.parametrize(
    ("columns", "column", "row"),
    [({"id": [1, None], "name": ["a", "b"]}, "id", 1), ({"id": [1, 2, 3], "name": ["a", "é", None]}, "name", 2)],
)
def test_a_null_in_a_column_that_is_not_nullable_is_refused_with_column_and_row(make, columns, column, row):
    batch = pa.record_batch({"id": pa.array(columns["id"], pa.int64()), "name": columns["name"]})
    with pytest.raises(ValueError, match=f"row {row} of the batch: column '{column}': null, but .* NOT NULL"):
        list(fb.write_buffers(batch, make(NOT_NULL), 1))


@pytest.mark.parametrize("make", [fb.types.row_data_type, fb.as_type])
def test_a_null_that_comes_for_a_column_that_is_not_nullable_is_refused_with_column_and_record(make):
    nullable = pa.schema([field.with_nullable(True) for field in NOT_NULL])
    batch = pa.record_batch({"id": [1, 2, 3], "name": ["a", "b", None]}, schema=nullable)
    buffers = [buffer for _, buffer in fb.write_buffers(batch, make(nullable), 1)]
    found = fb.read_batches(buffers, make(nullable), schema=NOT_NULL)
    assert next(found).num_rows == 2
    with pytest.raises(fb.errors.CorruptDataError, match="record 2, byte .*column 'name': null, but .* NOT NULL"):
        next(found)


def test_none_in_a_field_that_is_not_nullable_is_refused():
    kind = fb.types.row_data_type("a int not null, b struct<c: int not null>")
    assert kind.deserialize(kind.serialize((1, None))) == (1, None)
    with pytest.raises(TypeError, match="field 'a'.*NOT NULL"):
        kind.serialize((None, None))


@pytest.mark.parametrize(
    ("batch", "kind", "message"),
    [
        (pa.record_batch({"t": pa.array([1], pa.time64("us"))}), "t time", "row 0 .*column 't': a time with more than"),
        (
            pa.record_batch({"t": pa.array([1], pa.timestamp("us"))}),
            fb.Types.ROW_DATA(["t"], [fb.Types.TIMESTAMP_DATA(3)]),
            "column 't': a timestamp with more than milliseconds",
        ),
        (
            pa.record_batch({"d": pa.array([decimal.Decimal("123.45")])}),
            "d decimal(4, 2)",
            "column 'd': a decimal with more digits",
        ),
    ],
)
def test_what_a_slot_cannot_hold_is_refused(batch, kind, message):
    with pytest.raises(ValueError, match=message):
        list(fb.write_buffers(batch, fb.types.row_data_type(kind), 1))


def test_types_that_such_rows_cannot_hold_are_named():
    with pytest.raises(TypeError, match=r"field 'e': Types.ENUM.*no place in a ROW_DATA"):
        fb.Types.ROW_DATA(["e"], [fb.Types.ENUM(["a"])])
    with pytest.raises(TypeError, match=r"field 'd': decimal256\(60, 7\) has more digits"):
        fb.types.row_data_type(pa.schema([("d", pa.decimal256(60, 7))]))
    with pytest.raises(TypeError, match="no type of batches"):
        list(fb.write_buffers(pa.record_batch({"v": ["a"]}), fb.Types.STRING_DATA(), 1))


def test_intervals_are_numbers():
    months = pa.array([(1, 2, 3), None], pa.month_day_nano_interval())
    batch = pa.record_batch({"c": months, "d": pa.array([5, None], pa.duration("us"))})
    kind = fb.types.row_data_type(batch.schema)
    buffers = [buffer for _, buffer in fb.write_buffers(batch, kind, 1)]
    assert list(fb.read_buffers(buffers, kind)) == [((1, 2, 3), 5), (None, None)]
    assert next(fb.read_batches(buffers, kind, schema=batch.schema)).equals(batch)


def test_spark_types_keep_their_digits():
    from pyspark.sql import types as spark

    schema = spark.StructType(
        [
            spark.StructField("d", spark.DecimalType(10, 3), False),
            spark.StructField("i", spark.DayTimeIntervalType()),
            spark.StructField("a", spark.ArrayType(spark.TimestampType())),
        ]
    )
    found = fb.types.row_data_type(schema)
    assert repr(found) == (
        "Types.ROW_DATA(['d', 'i', 'a'], [Types.DECIMAL_DATA(10, 3), Types.LONG(), "
        "Types.ARRAY_DATA(Types.TIMESTAMP_LTZ_DATA(6))], not_null=['d'])"
    )


def test_all_key_groups_are_there():
    kind = fb.types.row_data_type("id bigint")
    batch = pa.record_batch({"id": list(range(2000))})
    found = write(batch, kind, 8, fb.by_key("id"))
    assert sorted(found) == list(range(8))
    assert key_group_range(128, 8, 7) == range(112, 128)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("array<bigint>", pa.array([[1]], pa.list_(pa.int64()))),
        ("string", pa.array(["abc"])),
        ("bigint", pa.array([1])),
        ("map<string, int>", pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int32()))),
    ],
)
def test_a_value_is_not_lost_in_a_column_of_nulls(kind, values):
    row = fb.types.row_data_type(f"v {kind}")
    buffers = [buffer for _, buffer in fb.write_buffers([pa.record_batch({"v": values})], row, 1)]
    with pytest.raises(fb.errors.CorruptDataError, match="a value in a column of nulls"):
        list(fb.read_batches(buffers, row, schema=pa.schema({"v": pa.null()})))


def test_a_list_of_numbers_is_not_the_bytes_of_a_binary_field():
    row = fb.Types.ROW_DATA(["v"], [fb.Types.PRIMITIVE_ARRAY(fb.Types.BYTE())])
    lists = pa.array([[1, 2, 3]], pa.list_(pa.int8()))
    with pytest.raises(TypeError, match=r"column 'v': .*cast the column to binary, or declare ARRAY_DATA\(BYTE\)"):
        list(fb.write_buffers([pa.record_batch({"v": lists})], row, 1))
    buffers = [buffer for _, buffer in fb.write_buffers([pa.record_batch({"v": pa.array([b"123"])})], row, 1)]
    with pytest.raises(TypeError, match=r"declare ARRAY_DATA\(BYTE\)"):
        list(fb.read_batches(buffers, row, schema=pa.schema({"v": lists.type})))


def test_a_decimal_that_a_type_has_no_digits_for_is_read_by_its_schema():
    """A type says nothing of the digits of its decimals; a schema and a DDL text do."""
    value = decimal.Decimal("1.123456789012345678901234567890")
    schema = pa.schema([("d", pa.decimal128(38, 30))])
    batch = pa.record_batch({"d": pa.array([value], pa.decimal128(38, 30))})
    buffers = [buffer for _, buffer in fb.write_buffers(batch, fb.as_type(schema), 1)]
    with pytest.raises(
        fb.errors.CorruptDataError, match=r"a type has no digits .*give the Arrow schema or the DDL text"
    ):
        list(fb.read_batches(buffers, fb.as_type(schema)))
    for kind in (schema, "d decimal(38, 30)"):
        buffers = [buffer for _, buffer in fb.write_buffers(batch, kind, 1)]
        assert [each.to_pydict() for each in fb.read_batches(buffers, kind)] == [{"d": [value]}]
