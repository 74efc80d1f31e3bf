"""Values of PostgreSQL as values of declared types: exactly these, or an error."""

import datetime
from contextlib import suppress
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkbuf.streaming.postgres.postgres_replication import Received, parse_lsn, read_message
from flinkbuf.streaming.postgres.postgres_values import converter, is_readable
from flinkbuf.types.types import Types
from flinkbuf.types.values import Instant

UTC = datetime.timezone.utc
TEXTS = Types.OBJECT_ARRAY(Types.STRING())


@pytest.mark.parametrize(
    ("declared", "type_oid", "text", "value"),
    [
        (Types.BOOLEAN(), 16, "f", False),
        (Types.LONG(), 21, "-7", -7),
        (Types.DOUBLE(), 700, "0.1", 0.10000000149011612),  # what the server has
        (Types.DOUBLE(), 701, "-Infinity", -float("inf")),
        (Types.BIG_DEC(), 1700, "10.50", Decimal("10.50")),
        (Types.STRING(), 1700, "NaN", "NaN"),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), 17, "\\x00ff", b"\0\xff"),
        (Types.SQL_DATE(), 1082, "2024-02-29", datetime.date(2024, 2, 29)),
        (Types.LOCAL_TIME(), 1083, "01:02:03.000004", datetime.time(1, 2, 3, 4)),
        (Types.SQL_TIME(), 1083, "01:02:03.5", datetime.time(1, 2, 3, 500_000)),
        (Types.SQL_TIMESTAMP(), 1114, "0001-01-01 00:00:00.5", datetime.datetime(1, 1, 1, 0, 0, 0, 500_000)),
        (Types.TIMESTAMP_LTZ(), 1184, "2024-01-01 00:00:00+00", datetime.datetime(2024, 1, 1, tzinfo=UTC)),
        (Types.INSTANT(), 1184, "1970-01-01 00:00:01.000001+00", Instant(1, 1_000)),
        (Types.LIST(Types.LIST(Types.INT())), 1007, "[0:1][1:2]={{1,2},{3,4}}", [[1, 2], [3, 4]]),
        (Types.OBJECT_ARRAY(TEXTS), 1009, "{}", []),
        (TEXTS, 1009, '{null,"null","a\\"b\\\\c",d e}', [None, "null", 'a"b\\c', "d e"]),
    ],
)
def test_a_value_is_read(declared, type_oid, text, value):
    found = converter(declared, type_oid)(text)
    assert found == value and type(found) is type(value)
    assert is_readable(declared)
    declared.serialize(found)


def test_numbers_that_are_none_are_read_as_floats():
    value = converter(Types.DOUBLE(), 701)("NaN")
    assert value != value


@pytest.mark.parametrize(
    ("declared", "type_oid", "text"),
    [
        (Types.BIG_DEC(), 1700, "NaN"),
        (Types.BIG_DEC(), 1700, "-Infinity"),
        (Types.SQL_DATE(), 1082, "infinity"),
        (Types.SQL_DATE(), 1082, "0044-03-15 BC"),
        (Types.SQL_DATE(), 1082, "10000-01-01"),
        (Types.SQL_TIME(), 1083, "00:00:00.0001"),
        (Types.LOCAL_TIME(), 1083, "24:00:00"),
        (Types.SQL_TIMESTAMP(), 1114, "infinity"),
        (Types.TIMESTAMP_LTZ(), 1184, "0044-03-15 00:00:00+00 BC"),
        (Types.LIST(Types.INT()), 1007, "{1,NULL}"),
        (Types.LIST(Types.INT()), 1007, "{{1}}"),
        (Types.LIST(Types.LIST(Types.INT())), 1007, "{1}"),
        (TEXTS, 1009, "{a"),
        (TEXTS, 1009, "{a,}"),
        (TEXTS, 1009, "{a}b"),
        (TEXTS, 1009, '{"a}'),
        (TEXTS, 1009, "a"),
        (TEXTS, 1009, ""),
        (Types.BOOLEAN(), 16, "true"),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), 17, "abc"),
    ],
)
def test_a_value_that_the_type_cannot_hold_is_refused(declared, type_oid, text):
    with pytest.raises((ValueError, ArithmeticError)):
        converter(declared, type_oid)(text)


@pytest.mark.parametrize(
    ("declared", "type_oid"),
    [
        (Types.INT(), 20),
        (Types.FLOAT(), 701),
        (Types.DOUBLE(), 1700),
        (Types.BIG_DEC(), 701),
        (Types.SQL_TIMESTAMP(), 1184),
        (Types.INSTANT(), 1114),
        (Types.LIST(Types.INT()), 1016),
        (Types.LIST(Types.INT()), 23),
        (Types.INT(), 99_999),
    ],
)
def test_a_column_of_another_type_does_not_fit(declared, type_oid):
    assert converter(declared, type_oid) is None


def test_what_no_column_can_be_is_known():
    for declared in (Types.MAP(Types.INT(), Types.INT()), Types.BYTE(), Types.LIST(Types.ROW([Types.INT()]))):
        assert not is_readable(declared)


def array_text(values):
    """As PostgreSQL's array_out has it, with quotes around all."""
    if values is None:
        return "NULL"
    if isinstance(values, str):
        return '"' + values.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return "{" + ",".join(map(array_text, values)) + "}"


@given(st.lists(st.none() | st.text()))
def test_arrays_are_read_as_they_were_written(values):
    assert converter(TEXTS, 1009)(array_text(values)) == values


@given(st.text('{},"\\aN[0:1]='))
def test_any_text_is_an_array_or_an_error(text):
    for declared in (TEXTS, Types.OBJECT_ARRAY(TEXTS)):
        with suppress(ValueError):
            assert isinstance(converter(declared, 1009)(text), list)


@given(st.binary(max_size=40))
def test_any_bytes_are_a_message_of_replication_or_an_error(data):
    for kind in (b"", b"w", b"k"):
        received = Received()
        try:
            read_message(kind + data, received)
            assert len(received.messages) == 1
        except ValueError:
            assert not received.messages


@pytest.mark.parametrize("text", ["", "1", "g/1", "1/123456789", "1/2/3", "١/1"])
def test_a_place_in_the_log_is_written_as_postgresql_does(text):
    with pytest.raises(ValueError, match="is written as '16/B374D848'"):
        parse_lsn(text)
