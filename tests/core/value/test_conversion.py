"""A converted value is what a reader would get, and the very object where nothing changes."""

import datetime
import math

import pytest
from hypothesis import HealthCheck, given, settings
from test_type_codec import same, typed_values

import flinkbuf as fb
from flinkbuf._core.value.conversion import convert
from flinkbuf.types.types import Types, object_type

FLIGHT = Types.ROW_NAMED(["origin", "delay", "seats"], [Types.STRING(), Types.DOUBLE(), Types.INT()])
PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(typed_values())
def test_a_converted_value_is_what_a_reader_gets(typed):
    flink_type, value = typed
    converted, read = convert(flink_type.codec, value), flink_type.deserialize(flink_type.serialize(value))
    assert same(converted, read) and type(converted) is type(read)
    assert getattr(converted, "row_kind", 0) == getattr(read, "row_kind", 0)


@pytest.mark.parametrize(
    ("flink_type", "value"),
    [
        (Types.LONG(), 5),
        (Types.INT(), -(2**31)),
        (Types.STRING(), "JFK"),
        (Types.STRING(), None),
        (Types.DOUBLE(), math.nan),
        (Types.BOOLEAN(), True),
        (Types.NULLABLE(Types.INT()), None),
        (PAIR, ("a", 1)),
        (FLIGHT, fb.Row(origin="JFK", delay=None, seats=3)),
        (FLIGHT, fb.Row.of_kind("-D", origin="JFK", delay=0.5, seats=3)),
        (object_type(), b"bytes"),
        (Types.TUPLE([object_type(), PAIR]), (1.5, ("a", 1))),
    ],
)
def test_a_value_that_stays_as_it_is_is_the_same_object(flink_type, value):
    assert convert(flink_type.codec, value) is value


@pytest.mark.parametrize(
    ("flink_type", "value", "expected"),
    [
        (Types.DOUBLE(), 1, 1.0),
        (Types.FLOAT(), 0.1, 0.10000000149011612),
        (Types.LONG(), 2**62, 2**62),
        (Types.STRING(), "é", "é"),
        (FLIGHT, ("JFK", 1, 2), fb.Row(origin="JFK", delay=1.0, seats=2)),
        (FLIGHT, {"seats": 2, "delay": 1.5, "origin": "JFK"}, fb.Row(origin="JFK", delay=1.5, seats=2)),
        (Types.TUPLE([Types.DOUBLE(), Types.STRING()]), [1, "x"], (1.0, "x")),
        (Types.LIST(Types.DOUBLE()), (1, 2), [1.0, 2.0]),
        (Types.LOCAL_DATE(), datetime.date(2024, 1, 1), datetime.date(2024, 1, 1)),
    ],
)
def test_what_changes_is_made_anew(flink_type, value, expected):
    converted = convert(flink_type.codec, value)
    assert same(converted, expected) and type(converted) is type(expected)


def test_containers_are_copies():
    value = ["x"]
    for flink_type in (Types.LIST(Types.STRING()), object_type()):
        converted = convert(flink_type.codec, value)
        assert converted == value and converted is not value


@pytest.mark.parametrize(
    ("flink_type", "value", "error", "message"),
    [
        (Types.LONG(), True, TypeError, "expected LONG"),
        (Types.INT(), 2**31, OverflowError, "expected INT"),
        (FLIGHT, ("JFK", "late", 3), TypeError, "field 'delay': expected DOUBLE, got 'late'"),
        (PAIR, ("a",), ValueError, "1 fields instead of 2"),
        (FLIGHT, fb.Row(1, 2), ValueError, "2 fields instead of 3"),
    ],
)
def test_a_refusal_is_that_of_the_codec(flink_type, value, error, message):
    with pytest.raises(error, match=message):
        convert(flink_type.codec, value)
