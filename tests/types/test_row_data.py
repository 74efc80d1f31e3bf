"""Rows of the table runtime as records: Flink's bytes both ways, and what such rows refuse."""

import datetime
import decimal
import pickle

import pytest
from support.data.golden_types import load, plain, sql_row_type, sql_type

import flinkbuf as fb
from flinkbuf.errors import CorruptDataError
from flinkbuf.types.values import Instant, LocalDateTime, Row

GOLDEN = load("types")
EPOCH = datetime.datetime(1970, 1, 1)


def sql_value(found, value):
    if value is None:
        return None
    if found.kind == "ROW_DATA":
        return Row.of_kind(value["kind"], *map(sql_value, found.field_types, value["fields"]))
    if found.kind == "ARRAY_DATA":
        return [sql_value(found.element_type, each) for each in value]
    if found.kind == "MAP_DATA":
        return {sql_value(found.key_type, k): sql_value(found.value_type, v) for k, v in value["pairs"]}
    if found.kind.startswith("TIMESTAMP"):
        second, milli = divmod(value["millis"], 1000)
        nano = milli * 1000000 + value["nano_of_milli"]
        local = EPOCH + datetime.timedelta(seconds=second)
        if nano % 1000 == 0:
            stamp = local.replace(microsecond=nano // 1000)
            return stamp.replace(tzinfo=datetime.timezone.utc) if "LTZ" in found.kind else stamp
        if "LTZ" in found.kind:
            return Instant(second, nano)
        return LocalDateTime(local.year, local.month, local.day, local.hour, local.minute, local.second, nano)
    if found.kind == "DATE_DATA":
        return EPOCH.date() + datetime.timedelta(value)
    if found.kind == "TIME_DATA":
        return (EPOCH + datetime.timedelta(milliseconds=value)).time()
    return plain(value)


def same(a, b):
    """Equal, and NaN to itself, 0.0 not to -0.0, decimals with their digits."""
    return repr(a) == repr(b)


@pytest.mark.parametrize("case", GOLDEN["binaryrow"], ids=lambda case: case["hex"][:48])
def test_rows_have_the_bytes_that_flink_writes(case):
    found = sql_row_type(case["schema"])
    row = Row.of_kind(case["kind"], *map(sql_value, found.field_types, case["fields"]))
    data = bytes.fromhex(case["hex"])
    assert found.serialize(row).hex() == case["hex"]
    again = found.deserialize(data)
    assert again.row_kind == row.row_kind
    assert same(tuple(again), tuple(found.deserialize(found.serialize(row))))
    assert found.serialize(again) == data
    assert all(same(*pair) for pair in zip(again, row, strict=True) if not isinstance(pair[1], tuple))
    assert found.codec.skip(data) == len(data)


@pytest.mark.parametrize("case", GOLDEN["tabledata"], ids=lambda case: f"{case['type']}-{case['hex'][:24]}")
def test_values_by_themselves_have_the_bytes_that_flink_writes(case):
    found = sql_type(case["type"])
    value = sql_value(found, case["value"])
    data = bytes.fromhex(case["hex"])
    assert found.serialize(value).hex() == case["hex"]
    assert same(found.deserialize(data), value)
    assert found.codec.skip(data) == len(data)
    assert found.fixed_size in (None, len(data))


def test_values_that_the_type_cannot_hold_exactly_are_refused():
    cases = [
        (fb.Types.DECIMAL_DATA(4, 2), decimal.Decimal("1.234"), ValueError, "more than 2 digits behind the point"),
        (fb.Types.DECIMAL_DATA(4, 2), decimal.Decimal(100), ValueError, "4 in all"),
        (fb.Types.TIMESTAMP_DATA(3), datetime.datetime(2020, 1, 1, 0, 0, 0, 1), ValueError, "would be lost"),
        (fb.Types.TIME_DATA(), datetime.time(0, 0, 0, 1), ValueError, "would be lost"),
        (fb.Types.STRING_DATA(), "\ud800", ValueError, "surrogate"),
        (fb.Types.STRING_DATA(), None, TypeError, "STRING_DATA"),
        (fb.Types.ARRAY_DATA("int"), "text", TypeError, "a list is needed"),
    ]
    for kind, value, error, message in cases:
        with pytest.raises(error, match=message):
            kind.serialize(value)


def test_an_int_is_a_decimal_and_a_shorter_one_is_filled_up():
    kind = fb.Types.DECIMAL_DATA(20, 2)
    assert str(kind.deserialize(kind.serialize(7))) == "7.00"
    assert kind.serialize(decimal.Decimal("7.0000")) == kind.serialize(7)


def test_each_piece_of_a_row_is_refused():
    kind = fb.types.row_data_type("a int, b string, c array<string>, d map<string, int>, e struct<f: decimal(30, 1)>")
    row = (1, "longer than seven", ["x", None, "longer than seven"], {"k": None}, (decimal.Decimal("1.5"),))
    data = kind.serialize(row)
    assert kind.deserialize(data) == row
    for cut in range(len(data)):
        with pytest.raises(CorruptDataError):
            kind.deserialize(data[:cut])


def test_a_refusal_names_the_field():
    kind = fb.types.row_data_type("a struct<b: array<int>>")
    with pytest.raises(TypeError, match=r"field 'a'\.'b'\[1\]: expected INT, got 'x'"):
        kind.serialize((([1, "x"],),))


def test_types_of_rows_are_values():
    kind = fb.types.row_data_type("id bigint not null, price decimal(10, 2), tags array<string>, at timestamp")
    for again in (pickle.loads(pickle.dumps(kind)), eval(repr(kind), {"Types": fb.Types})):
        assert again == kind
        assert hash(again) == hash(kind)
        assert again.serialize((1, None, None, None)) == kind.serialize(
            {"id": 1, "price": None, "tags": None, "at": None}
        )
    assert kind != fb.types.row_data_type("id bigint, price decimal(10, 2), tags array<string>, at timestamp")


@pytest.mark.parametrize("make", [lambda: fb.Types.DECIMAL_DATA(39, 0), lambda: fb.Types.TIMESTAMP_DATA(10)])
def test_digits_that_there_are_not_are_refused(make):
    with pytest.raises(ValueError, match="digits"):
        make()
