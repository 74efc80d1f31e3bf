"""The text that a value is printed as; expected texts are what PyFlink 2.2.1 printed."""

import datetime
from decimal import Decimal

import pytest

from flinkbuf.streaming.sinks.value_text import text_of
from flinkbuf.types.types import Types
from flinkbuf.types.values import Instant, Row, RowKind

MOMENT = datetime.datetime(2020, 1, 2, 3, 4, 5, 678_000)


@pytest.mark.parametrize("value", [1, "a", True, None, [1, 2], (1, "t"), {"k": 1}, b"x", 0.1])
def test_what_nobody_declared_is_printed_as_python_prints_it(value):
    assert text_of(None)(value) == text_of(Types.PICKLED_BYTE_ARRAY())(value) == str(value)


@pytest.mark.parametrize(
    ("type_info", "value", "text"),
    [
        (Types.ROW([Types.INT(), Types.STRING()]), (1, "a"), "+I[1,a]"),
        (Types.ROW_NAMED(["x", "y"], [Types.BOOLEAN(), Types.DOUBLE()]), Row(True, 0.1), "+I[True,0.1]"),
        (Types.ROW([Types.STRING()]), Row.of_kind(RowKind.DELETE, None), "-D[None]"),
        (Types.TUPLE([Types.INT(), Types.STRING()]), (1, "a"), "(1,a)"),
        (Types.LIST(Types.INT()), [1, 2], "[1, 2]"),
        (Types.LIST(Types.STRING()), ["a", None], "[a, null]"),
        (Types.BASIC_ARRAY(Types.STRING()), ["a", "b"], "[a, b]"),
        (Types.PRIMITIVE_ARRAY(Types.INT()), [1, 2], "[1, 2]"),
        (Types.MAP(Types.STRING(), Types.INT()), {"a": 1, "b": 2}, "{a=1, b=2}"),
        (Types.BOOLEAN(), True, "true"),
        (Types.BOOLEAN(), False, "false"),
        (Types.STRING(), None, "null"),
        (Types.BIG_DEC(), Decimal("1.50"), "1.50"),
        (Types.SQL_DATE(), datetime.date(2020, 1, 2), "2020-01-02"),
        (Types.SQL_TIME(), datetime.time(1, 2, 3, 456_000), "01:02:03"),
        (Types.SQL_TIMESTAMP(), MOMENT, "2020-01-02 03:04:05.678"),
        (Types.SQL_TIMESTAMP(), MOMENT.replace(microsecond=0), "2020-01-02 03:04:05.0"),
        (Types.INSTANT(), Instant(1, 5), "1970-01-01T00:00:01.000000005Z"),
        (Types.LOCAL_DATE(), datetime.date(2020, 1, 2), "2020-01-02"),
        (Types.LOCAL_DATE_TIME(), MOMENT, "2020-01-02T03:04:05.678"),
    ],
)
def test_what_is_declared_is_printed_as_flink_prints_it(type_info, value, text):
    assert text_of(type_info)(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1, "0.1"),
        (1e20, "1.0E20"),
        (1e-5, "1.0E-5"),
        (100.0, "100.0"),
        (1e7, "1.0E7"),
        (9_999_999.0, "9999999.0"),
        (123456.789, "123456.789"),
        (1.5e-7, "1.5E-7"),
        (0.001, "0.001"),
        (0.0123, "0.0123"),
        (-2.5, "-2.5"),
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1, "1.0"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
        (float("nan"), "NaN"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
    ],
)
def test_a_double_is_printed_as_java_prints_it(value, text):
    assert text_of(Types.DOUBLE())(value) == text


@pytest.mark.parametrize(("value", "text"), [(0.1, "0.1"), (1.5, "1.5"), (16777216.0, "1.6777216E7"), (1e-3, "0.001")])
def test_a_float_is_the_shortest_decimal_of_its_32_bits(value, text):
    assert text_of(Types.FLOAT())(value) == text
