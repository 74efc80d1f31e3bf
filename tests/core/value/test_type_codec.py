"""What values become, byte for byte as Flink writes them, and what is refused on the way."""

import array
import contextlib
import datetime
import decimal
import enum
import gc
import pickle
import re
import struct
import subprocess
import sys
import zoneinfo

import numpy
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.data.golden_types import element_of, load, parse, same, value_of

import flinkbuf.types.values as fb
from flinkbuf._core.value.type_codec import TypeCodec
from flinkbuf.errors import CorruptDataError
from flinkbuf.types.types import Types

CASES = load("types")["cases"]
ELEMENTS = load("stream_elements")["cases"]
UTC = datetime.timezone.utc
FLIGHT = Types.ROW_NAMED(["origin", "delay"], [Types.STRING(), Types.DOUBLE()])


def names(cases):
    return [f"{i}-{case.get('type', case.get('element'))[:40]}" for i, case in enumerate(cases)]


def round_trip(flink_type, value):
    data = flink_type.serialize(value)
    assert flink_type.codec.skip(data) == len(data)
    return flink_type.deserialize(data)


# --- bytes of Flink


@pytest.mark.parametrize("case", CASES, ids=names(CASES))
def test_values_have_the_bytes_that_flink_writes(case):
    flink_type, value = parse(case["type"]), value_of(case["type"], case["value"])
    data = bytes.fromhex(case["hex"])
    assert flink_type.serialize(value) == data
    assert same(flink_type.deserialize(data), value)
    assert flink_type.codec.skip(data + b"\xff") == len(data)


@pytest.mark.parametrize("case", ELEMENTS, ids=names(ELEMENTS))
def test_stream_elements_have_the_bytes_that_flink_writes(case):
    flink_type, value = Types.STREAM_ELEMENT(parse(case.get("type", "int"))), element_of(case)
    data = bytes.fromhex(case["hex"])
    assert flink_type.serialize(value) == data
    assert same(flink_type.deserialize(data), value)
    assert flink_type.codec.skip(data + b"\xff") == len(data)


@pytest.mark.parametrize(
    "case", [c for c in CASES if len(c["hex"]) < 400], ids=names([c for c in CASES if len(c["hex"]) < 400])
)
def test_each_piece_of_a_value_is_refused(case):
    flink_type, data = parse(case["type"]), bytes.fromhex(case["hex"])
    for end in range(len(data)):
        with pytest.raises(CorruptDataError):
            flink_type.deserialize(data[:end])
    with pytest.raises(CorruptDataError, match="1 bytes are left over"):
        flink_type.deserialize(data + b"\0")


def test_big_integers_in_the_long_form_that_flink_also_writes_are_read():
    # Flink compares references, so its bytes for 0, 1 and 10 depend on how the BigInteger was made.
    assert [Types.BIG_INT().deserialize(b"\0\0\0\5" + bytes([n])) for n in (0, 1, 10)] == [0, 1, 10]


# --- any value, any bytes

PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
INT64 = st.integers(-(2**63), 2**63 - 1)
# Lone surrogates are text; a high one right before a low one is refused.
TEXT = st.text(st.characters() | st.sampled_from("\ud800\udbff\udc00\udfff"), max_size=40).filter(
    lambda text: not PAIR.search(text)
)
NAIVE = st.datetimes()
MILLIS = st.datetimes(timezones=st.just(UTC)).map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000))
DECIMALS = st.builds(
    lambda n, scale: decimal.Decimal((n < 0, tuple(map(int, str(abs(n)))), -scale)),
    st.integers(),
    st.integers(-(2**31), 2**31 - 1),
)
SCALARS = {
    "BOOLEAN": st.booleans(),
    "BYTE": st.integers(-128, 127),
    "SHORT": st.integers(-32768, 32767),
    "INT": st.integers(-(2**31), 2**31 - 1),
    "LONG": INT64,
    "FLOAT": st.floats(width=32),
    "DOUBLE": st.floats(),
    "CHAR": st.integers(0, 0xFFFF).map(chr),
    "STRING": TEXT,
    "STRING_VALUE": TEXT,
    "BIG_INT": st.integers(),
    "BIG_DEC": DECIMALS,
    "INSTANT": st.builds(fb.Instant, st.integers(-(10**15), 10**15), st.integers(0, 999_999_999)),
    "TIMESTAMP_LTZ": st.datetimes(timezones=st.just(UTC)),
    "LOCAL_DATE": st.dates(),
    "LOCAL_TIME": st.times(),
    "LOCAL_DATE_TIME": NAIVE,
    "SQL_TIMESTAMP": NAIVE,
    "SQL_DATE": st.dates(),
    "DATE": MILLIS,
    "SQL_TIME": st.times().map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000)),
}
NULLABLE_SCALARS = {
    "STRING",
    "BIG_INT",
    "BIG_DEC",
    "INSTANT",
    "TIMESTAMP_LTZ",
    "LOCAL_DATE",
    "LOCAL_TIME",
    "LOCAL_DATE_TIME",
    "SQL_TIMESTAMP",
}
HASHABLE = ["LONG", "STRING", "INT", "BOOLEAN", "LOCAL_DATE"]
MORNING = datetime.datetime(2024, 1, 1, 5, tzinfo=UTC)


@st.composite
def typed_values(draw, depth=2):
    """A type and a value of it."""
    kinds = ["scalar"] * 3 + (
        ["LIST", "TUPLE", "ROW", "MAP", "SET", "NULLABLE", "EITHER", "ARRAY", "BYTES"] if depth else []
    )
    kind = draw(st.sampled_from(kinds))
    if kind == "scalar":
        name = draw(st.sampled_from(sorted(SCALARS)))
        values = SCALARS[name]
        return getattr(Types, name)(), draw(st.none() | values if name in NULLABLE_SCALARS else values)
    if kind == "BYTES":
        return Types.PRIMITIVE_ARRAY(Types.BYTE()), draw(st.binary(max_size=20))
    if kind in ("SET", "MAP"):
        key = draw(st.sampled_from(HASHABLE))
        keys = draw(st.lists(SCALARS[key], unique=True, max_size=4))
        if kind == "SET":
            return Types.SET(getattr(Types, key)()), set(keys)
        inner, value = draw(typed_values(depth - 1))
        return Types.MAP(getattr(Types, key)(), inner), dict.fromkeys(keys, value)
    if kind in ("LIST", "ARRAY", "NULLABLE"):
        inner, value = draw(typed_values(depth - 1))
        if kind == "NULLABLE":
            return Types.NULLABLE(inner), draw(st.sampled_from([None, value]))
        values = [value] * draw(st.integers(0, 3)) + ([None] if kind == "ARRAY" else [])
        return (Types.LIST if kind == "LIST" else Types.OBJECT_ARRAY)(inner), values
    if kind == "EITHER":
        left, right = draw(typed_values(depth - 1)), draw(typed_values(depth - 1))
        return Types.EITHER(left[0], right[0]), draw(st.sampled_from([fb.Left(left[1]), fb.Right(right[1])]))
    fields = draw(st.lists(typed_values(depth - 1), min_size=1, max_size=9))
    types, values = [field[0] for field in fields], [field[1] for field in fields]
    if kind == "TUPLE":
        return Types.TUPLE(types), tuple(values)
    values = [draw(st.sampled_from([None, value])) for value in values]
    return Types.ROW(types), fb.Row.of_kind(draw(st.sampled_from(list(fb.RowKind))), *values)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(typed_values(), st.data())
def test_any_value_comes_back_and_damaged_bytes_are_refused_alike_by_decode_and_skip(typed, data):
    flink_type, value = typed
    encoded = flink_type.serialize(value)
    assert same(flink_type.deserialize(encoded), value)
    assert flink_type.codec.skip(encoded) == len(encoded)
    if encoded:
        damaged = bytearray(encoded)
        damaged[data.draw(st.integers(0, len(encoded) - 1))] ^= data.draw(st.integers(1, 255))
        check_decode_accepts_what_skip_accepts(flink_type, bytes(damaged))


@settings(max_examples=300, deadline=None)
@given(st.sampled_from([parse(name) for name in sorted({case["type"] for case in CASES})]), st.binary(max_size=60))
def test_any_bytes_are_refused_alike_by_decode_and_skip(flink_type, data):
    check_decode_accepts_what_skip_accepts(flink_type, data)


def check_decode_accepts_what_skip_accepts(flink_type, data):
    try:
        size = flink_type.codec.skip(data)
    except CorruptDataError:
        size = None
    if size is None:
        with pytest.raises(CorruptDataError):
            flink_type.deserialize(data)
        return
    try:
        value = flink_type.deserialize(data[:size])
    except CorruptDataError as error:
        assert "equal to others in Python" in str(error)
        return
    assert same(flink_type.deserialize(flink_type.serialize(value)), value)


# --- numbers


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_ints_are_checked_for_range_and_bools_are_no_ints(bits):
    flink_type = {8: Types.BYTE, 16: Types.SHORT, 32: Types.INT, 64: Types.LONG}[bits]()
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    for value in (low, high, 0, numpy.int64(low), numpy.int8(5)):
        assert round_trip(flink_type, value) == value
    for value in (low - 1, high + 1, 2**64, -(2**200)):
        with pytest.raises(OverflowError, match=f"within {low}..{high}"):
            flink_type.serialize(value)
    for value in (True, 1.0, "1", None, numpy.bool_(True), b"1", decimal.Decimal(1)):
        with pytest.raises(TypeError, match="expected "):
            flink_type.serialize(value)


@pytest.mark.parametrize(
    "value", [0, 7, 8, 255, 256, 257, 8191, 8192, 2**30 - 1, 2**30, 2**60 - 1, 2**60, 2**62, 2**63 - 1]
)
def test_ints_come_back_as_proper_ints_at_every_size(value):
    for number in (value, -value):
        found = round_trip(Types.LONG(), number)
        assert found == number and type(found) is int and hash(found) == hash(number)
        assert found + 1 - 1 == number and str(found) == str(number) and found.bit_length() == number.bit_length()


def test_doubles_take_exact_ints_and_numpy_floats_and_nothing_that_is_rounded():
    double = Types.DOUBLE()
    for value in (
        2**53,
        -(2**62),
        numpy.float32(0.1),
        numpy.float16(0.5),
        numpy.int32(3),
        numpy.float64(0.1),
        numpy.longdouble(0.5),
    ):
        assert double.deserialize(double.serialize(value)) == value
    with pytest.raises(ValueError, match="rounded"):
        double.serialize(2**53 + 1)
    with pytest.raises(OverflowError):
        double.serialize(10**400)
    for value in (True, "1.0", None, decimal.Decimal(1), 1j, numpy.bool_(True)):
        with pytest.raises(TypeError, match="expected DOUBLE"):
            double.serialize(value)


def test_floats_are_rounded_as_java_does_and_refused_where_they_would_become_infinite():
    single = Types.FLOAT()
    assert single.deserialize(single.serialize(0.1)) == struct.unpack("f", struct.pack("f", 0.1))[0]
    assert single.deserialize(single.serialize(float("-inf"))) == float("-inf")
    assert single.serialize(16777216) == struct.pack(">f", 16777216)
    for value in (3.5e38, -1e300):
        with pytest.raises(OverflowError):
            single.serialize(value)
    with pytest.raises(ValueError, match="rounded"):
        single.serialize(16777217)


@pytest.mark.parametrize(
    "value", ["1E+2147483647", "1E-2147483648", "0E+5", "0.00", "-1.10", "123456789012345678901234567890.5", "9" * 5000]
)
def test_decimals_keep_every_digit_and_the_scale(value):
    value = decimal.Decimal(value)
    if value.as_tuple().exponent == -(2**31):
        with pytest.raises(OverflowError, match="scale"):
            Types.BIG_DEC().serialize(value)
    else:
        assert round_trip(Types.BIG_DEC(), value).as_tuple() == value.as_tuple()


@pytest.mark.parametrize("value", ["NaN", "-Infinity", "sNaN", "-0.0"])
def test_decimals_that_java_has_none_of_are_refused(value):
    with pytest.raises(ValueError, match="BigDecimal"):
        Types.BIG_DEC().serialize(decimal.Decimal(value))


# --- text


@pytest.mark.parametrize(
    "text",
    ["", "\0", "\0\0", "\0" * 8, "ab", "abc\0", "é", "\xff" * 130, "\ud800", "\udc00\ud800", "a\U0010ffff\ud83d"],
)
def test_text_survives_with_nuls_and_lone_surrogates(text):
    assert round_trip(Types.STRING(), text) == text


@pytest.mark.parametrize("size", [*range(20), 126, 127, 128, 129, 16383, 16384])
def test_text_of_every_length_survives(size):
    for character in ("x", "é", "中", "\U0001f600"):
        text = character * size
        assert round_trip(Types.STRING(), text) == text
        assert round_trip(Types.TUPLE([Types.STRING_VALUE(), Types.STRING()]), (text, text)) == (text, text)


@pytest.mark.parametrize(
    "text", ["\ud83d\ude00", "x" * 200 + "\ud83d\ude00", "\U0001f600\ud800\ud83d\ude00", "\udc00\ud83d\ude00"]
)
def test_halves_of_a_character_side_by_side_are_refused_as_they_would_come_back_as_one(text):
    row = Types.ROW_NAMED(["name"], [Types.LIST("string")])
    with pytest.raises(
        ValueError, match=r"field 'name'\[1\]: expected STRING.*two halves \(surrogates\).*come back as that one"
    ):
        row.serialize((["ok", text],))
    with pytest.raises(ValueError, match="two halves"):
        Types.STRING_VALUE().serialize(text)
    joined = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    assert round_trip(Types.STRING(), joined) == joined


def test_repeated_short_text_is_right_whatever_came_before():
    flink_type = Types.LIST(Types.STRING())
    words = [f"{i:0{i % 7 + 2}d}"[-8:] for i in range(5000)] + ["ab", "ab\0", "ab\0\0", "\0\0", "\0\0\0", "ba"] * 3
    assert round_trip(flink_type, words) == words


# --- keys


@pytest.mark.parametrize(
    ("key_type", "keys"),
    [
        (Types.FLOAT(), (0.1, float(numpy.float32(0.1)))),
        (Types.TIMESTAMP_LTZ(), (MORNING, fb.Instant.from_datetime(MORNING))),
        (Types.LOCAL_DATE(), (datetime.date(2024, 1, 1), fb.LocalDate(2024, 1, 1))),
        (Types.SQL_TIME(), (datetime.time(0), fb.SqlTime(0))),
        (Types.TUPLE(["string", "float"]), (("a", 0.1), ("a", float(numpy.float32(0.1))))),
        (Types.NULLABLE(Types.FLOAT()), (0.1, float(numpy.float32(0.1)))),
        (Types.ROW_NAMED(["a", "b"], ["int", "int"]), (fb.Row(a=1, b=2), fb.Row(b=2, a=1))),
    ],
    ids=str,
)
def test_keys_that_get_the_same_bytes_are_refused_instead_of_one_being_lost(key_type, keys):
    assert len(set(keys)) == 2
    for key in keys:
        assert len(round_trip(Types.SET(key_type), {key})) == 1
    big = "x" * 5000  # so that the record moves while it is written
    with pytest.raises(ValueError, match=r"^field 'f0'\{key\}: expected .*one of the two would be lost"):
        Types.TUPLE([Types.MAP(key_type, "string")]).serialize((dict.fromkeys(keys, big),))
    with pytest.raises(ValueError, match=r"^element \{element\}: expected .*one of the two would be lost"):
        Types.SET(key_type).serialize(set(keys))


def test_maps_of_keys_that_may_merge_come_back_whole_if_none_does():
    for key_type, keys in (
        (Types.FLOAT(), [n / 4 for n in range(500)]),
        (Types.LOCAL_DATE(), [datetime.date(2024, 1, 1) + datetime.timedelta(n) for n in range(500)] + [None]),
        (Types.TUPLE(["float", "string"]), [(0.5, str(n)) for n in range(500)]),
    ):
        assert round_trip(Types.MAP(key_type, "string"), dict.fromkeys(keys, "value")) == dict.fromkeys(keys, "value")
    assert len(round_trip(Types.SET(Types.FLOAT()), {float("nan"), float("nan"), 1.0})) == 3


@pytest.mark.parametrize(
    ("flink_type", "words"),
    [
        (
            Types.SET(Types.BIG_DEC()),
            "elements.*elements that differ in Java but are equal in Python cannot be in one set",
        ),
        (
            Types.MAP(Types.BIG_DEC(), "void"),
            "keys.*keys that differ in Java but are equal in Python cannot be in one dict",
        ),
    ],
)
def test_keys_that_are_equal_in_python_only_are_named_as_that_on_reading(flink_type, words):
    ones = [Types.BIG_DEC().serialize(decimal.Decimal(text)) for text in ("1.0", "1.00")]
    data = struct.pack(">i", 2) + b"".join(b"\0" + one if flink_type.kind == "SET" else one + b"\1" for one in ones)
    with pytest.raises(CorruptDataError, match=f"1 of 2 {words}") as caught:
        flink_type.deserialize(data)
    assert "same type" not in str(caught.value)


# --- fields


def test_a_row_is_taken_from_tuples_lists_dicts_and_rows_of_any_kind_of_naming():
    pyspark = pytest.importorskip("pyspark.sql")
    data = FLIGHT.serialize(("JFK", 2.5))
    assert FLIGHT.deserialize(data).origin == "JFK"
    for value in (
        ["JFK", 2.5],
        {"delay": 2.5, "origin": "JFK"},
        fb.Row("JFK", 2.5),
        fb.Row(origin="JFK", delay=2.5),
        fb.Row(delay=2.5, origin="JFK"),
        pyspark.Row(origin="JFK", delay=2.5),
        pyspark.Row(delay=2.5, origin="JFK"),
        pyspark.Row("JFK", 2.5),
        pyspark.Row("origin", "delay")("JFK", 2.5),
    ):
        assert FLIGHT.serialize(value) == data


def test_a_tuple_is_taken_from_a_pyspark_row_too():
    pyspark = pytest.importorskip("pyspark.sql")
    flink_type = Types.TUPLE([Types.STRING(), Types.LONG()])
    assert round_trip(flink_type, pyspark.Row(key="a", count=1)) == ("a", 1)
    assert type(round_trip(flink_type, ["a", 1])) is tuple
    with pytest.raises(ValueError, match="kind of a Row"):
        flink_type.serialize(fb.Row.of_kind("-D", "a", 1))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"origin": "JFK"}, "field 'delay' is missing"),
        ({"origin": "JFK", "delay": 1.0, "gate": 4}, "no field 'gate'"),
        (fb.Row(origin="JFK", gate=4), "field 'delay' is missing"),
        (("JFK",), "1 fields instead of 2"),
        (("JFK", 1.0, 2.0), "3 fields instead of 2"),
        (fb.Row("JFK"), "1 fields instead of 2"),
    ],
)
def test_a_row_with_other_fields_is_refused(value, message):
    with pytest.raises(ValueError, match=message):
        FLIGHT.serialize(value)


def test_rows_keep_their_kind_and_are_compared_as_tuples():
    for kind in fb.RowKind:
        found = round_trip(FLIGHT, fb.Row.of_kind(kind, "JFK", None))
        assert found.row_kind is kind and found == ("JFK", None) and found.delay is None


def test_a_row_of_rows_is_collected_when_it_is_part_of_a_cycle():
    flink_type = Types.ROW([Types.LIST(Types.INT())])
    row = round_trip(flink_type, ([1],))
    assert gc.is_tracked(row)
    assert not gc.is_tracked(round_trip(FLIGHT, ("JFK", 1.0)))  # nothing in it could refer back
    row[0].append(row)
    del row
    assert gc.collect() >= 2


LEGS = Types.ROW_NAMED(["carrier", "legs"], [Types.STRING(), Types.LIST(FLIGHT)])


@pytest.mark.parametrize(
    ("flink_type", "value", "error", "parts"),
    [
        (FLIGHT, (1, 2.0), TypeError, ["field 'origin'", "expected STRING", "got 1 (int)"]),
        (LEGS, ("UA", [("a", 1.0), ("b", "late")]), TypeError, ["field 'legs'[1].'delay'", "'late' (str)"]),
        (Types.LIST(Types.BYTE()), [1, 300], OverflowError, ["element [1]", "expected BYTE", "-128..127"]),
        (Types.TUPLE([Types.INT(), Types.INT()]), (1, None), TypeError, ["field 'f1'", "None (NoneType)"]),
        (Types.MAP("string", "int"), {"k": "v"}, TypeError, ["element ['k']", "'v' (str)"]),
        (Types.MAP("string", "int"), {5: 1}, TypeError, ["{key}", "5 (int)"]),
        (Types.SET(Types.INT()), {"x"}, TypeError, ["{element}", "'x' (str)"]),
        (Types.EITHER(Types.INT(), Types.STRING()), fb.Right(1), TypeError, ["right", "1 (int)"]),
        (Types.EITHER(Types.INT(), Types.STRING()), 1, TypeError, ["Left or a Right"]),
        (Types.STREAM_ELEMENT(Types.INT()), fb.StreamRecord("x"), TypeError, ["value", "expected INT"]),
        (Types.STREAM_ELEMENT(Types.INT()), 7, TypeError, ["StreamRecord"]),
        (Types.STRING(), b"bytes", TypeError, ["value: expected STRING", "(bytes)"]),
        (Types.STRING_VALUE(), None, TypeError, ["expected STRING_VALUE"]),
        (Types.CHAR(), "ab", ValueError, ["one UTF-16 unit"]),
        (Types.CHAR(), "\U0001f600", ValueError, ["one UTF-16 unit"]),
        (Types.ENUM(["RED", "GREEN"]), "BLUE", ValueError, ["RED, GREEN"]),
        (Types.ENUM(["RED", "GREEN"]), 1, TypeError, ["RED, GREEN"]),
        (Types.ENUM(["RED", "GREEN"]), [], TypeError, ["RED, GREEN"]),
        (Types.LIST(Types.INT()), "12", TypeError, ["LIST(INT)"]),
        (Types.LIST(Types.NULL_VALUE()), [None] * 1025, OverflowError, ["1024"]),
        (Types.SET(Types.INT()), [1], TypeError, ["SET(INT)"]),
        (Types.VOID(), 0, TypeError, ["VOID"]),
        (Types.STRING(), "x" * 5, None, []),
    ],
    ids=str,
)
def test_a_refusal_names_field_value_and_type(flink_type, value, error, parts):
    if error is None:
        flink_type.serialize(value)
        return
    with pytest.raises(error) as caught:
        flink_type.serialize(value)
    assert all(part in str(caught.value) for part in parts), str(caught.value)


def test_a_refusal_cuts_long_values_and_survives_a_broken_repr():
    class Broken:
        def __repr__(self):
            raise OSError

    with pytest.raises(TypeError, match="OSError"):
        Types.INT().serialize(Broken())
    with pytest.raises(TypeError) as caught:
        Types.INT().serialize("x" * 10_000)
    assert len(str(caught.value)) < 200


def test_exceptions_of_user_code_pass_unchanged():
    class Odd:
        def __index__(self):
            raise LookupError("mine")

    for flink_type, value in (
        (Types.INT(), Odd()),
        (LEGS, ("UA", [("a", 1.0), ("b", Odd())])),
        (Types.SET(Types.INT()), {Odd()}),
    ):
        with pytest.raises(LookupError, match=r"^'?mine'?$"):
            flink_type.serialize(value)


def test_a_list_that_changes_while_it_is_encoded_is_an_error_and_no_crash():
    class Shrinks:
        def __index__(self):
            values.clear()
            return 1

    values = [Shrinks() for _ in range(10)]
    with pytest.raises(RuntimeError, match="changed its size"):
        Types.LIST(Types.INT()).serialize(values)


# --- arrays


@pytest.mark.parametrize("name", ["BOOLEAN", "BYTE", "SHORT", "CHAR", "INT", "LONG", "FLOAT", "DOUBLE"])
def test_numpy_arrays_are_copied_both_ways_and_mean_what_lists_mean(name):
    plain = Types.PRIMITIVE_ARRAY(getattr(Types, name)())
    dense = Types.PRIMITIVE_ARRAY(getattr(Types, name)(), numpy=True)
    values = numpy.array([0, 1, 1, 0, 1], dense.codec.deserialize(b"\0\0\0\0").dtype)
    data = dense.serialize(values)
    found = dense.deserialize(data)
    assert found.dtype == values.dtype and found.tolist() == values.tolist()
    assert dense.serialize(values[::2]) == dense.serialize(values[::2].copy())
    if name != "BYTE":
        listed = [chr(v) for v in values] if name == "CHAR" else values.tolist()
        assert plain.serialize(listed) == data == plain.serialize(values) == plain.serialize(tuple(listed))
        assert plain.deserialize(data) == listed


def test_numpy_arrays_of_other_numbers_are_checked_like_lists():
    longs = Types.PRIMITIVE_ARRAY(Types.LONG())
    assert (
        longs.serialize(numpy.array([1, -2], "int8"))
        == longs.serialize([1, -2])
        == longs.serialize(numpy.array([1, -2], ">i8"))
    )
    assert longs.serialize(array.array("q", [1, -2])) == longs.serialize([1, -2])
    with pytest.raises(OverflowError, match=r"element \[1\]"):
        longs.serialize(numpy.array([1, 2**63], "uint64"))
    for value in (numpy.array([1.0]), numpy.array([True]), numpy.array([[1]]), "12", {1: 2}, 5, None):
        with pytest.raises(TypeError):
            longs.serialize(value)


@pytest.mark.parametrize("name", ["BYTE", "SHORT", "INT", "LONG", "FLOAT", "DOUBLE", "BIG_INT", "BOOLEAN"])
@pytest.mark.parametrize(
    "array",
    [numpy.array(1), numpy.array([1]), numpy.array([[1.5]]), numpy.array([True]), numpy.array([1, 2])],
    ids=repr,
)
def test_an_array_is_no_number_however_many_it_holds(name, array):
    row = Types.ROW_NAMED(["n"], [getattr(Types, name)()])
    with pytest.raises(TypeError) as caught:
        row.serialize((array,))
    assert str(caught.value).startswith(f"field 'n': expected {name}, got array(") and "(ndarray)" in str(caught.value)


@pytest.mark.parametrize(
    ("flink_type", "array", "words"),
    [
        (Types.PRIMITIVE_ARRAY("int"), numpy.array(5, "int32"), "one dimension is needed, it has 0"),
        (Types.PRIMITIVE_ARRAY("int"), numpy.array([[5]], "int32"), "one dimension is needed, it has 2"),
        (Types.PRIMITIVE_ARRAY("double"), numpy.array(5), "one dimension is needed, it has 0"),
        (Types.PRIMITIVE_ARRAY("byte"), memoryview(b"abcd").cast("b", [2, 2]), "one dimension is needed, it has 2"),
        (Types.LIST("int"), numpy.array([1, 2]), r"use \.tolist\(\), or declare a PRIMITIVE_ARRAY"),
        (Types.LIST("int"), numpy.array(5), r"holds one value, not a list of them; \.item\(\)"),
        (Types.OBJECT_ARRAY("int"), numpy.array(5), r"holds one value"),
        (Types.BASIC_ARRAY("string"), numpy.array("x"), r"holds one value"),
        (Types.OBJECT_ARRAY(Types.LIST("int")), numpy.array([[1]]), r"use \.tolist\(\)"),
        (Types.OBJECT_ARRAY("int"), numpy.array([[1]]), r"\.item\(\)"),
    ],
    ids=str,
)
def test_an_array_where_it_does_not_fit_is_refused_with_the_way_out(flink_type, array, words):
    with pytest.raises(TypeError, match=f"expected .*{words}"):
        flink_type.serialize(array)
    if array.ndim == 1:
        assert round_trip(flink_type, array.tolist()) == array.tolist()


def test_an_object_array_is_taken_from_a_numpy_array_of_one_dimension():
    assert round_trip(Types.OBJECT_ARRAY("double"), numpy.array([1.5, 2])) == [1.5, 2.0]
    assert round_trip(Types.BASIC_ARRAY("string"), numpy.array(["a", "b"])) == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "code"), [("SHORT", "h"), ("INT", "i"), ("LONG", "q"), ("FLOAT", "f"), ("DOUBLE", "d")]
)
def test_numbers_are_taken_from_memory_at_any_address(name, code):
    flink_type = Types.PRIMITIVE_ARRAY(getattr(Types, name)())
    values = [1, -2, 3]
    data = b"x" + struct.pack(f"{len(values)}{code}", *values)
    assert flink_type.deserialize(flink_type.serialize(memoryview(data)[1:].cast(code))) == values


def test_every_nan_is_written_as_javas_one():
    nans = numpy.array([0x7FF0000000000001, 0xFFF8000000000123], "uint64").view("float64")
    data = b"\0\0\0\2" + 2 * bytes.fromhex("7ff8000000000000")
    assert Types.PRIMITIVE_ARRAY(Types.DOUBLE()).serialize(nans) == data
    assert Types.PRIMITIVE_ARRAY(Types.DOUBLE()).serialize(nans.tolist()) == data
    assert (
        Types.PRIMITIVE_ARRAY(Types.FLOAT()).serialize(numpy.array([-numpy.nan], "float32")) == b"\0\0\0\1\x7f\xc0\0\0"
    )


def test_bytes_are_taken_from_all_that_holds_bytes():
    flink_type = Types.PRIMITIVE_ARRAY(Types.BYTE())
    for value in (
        b"ab",
        bytearray(b"ab"),
        memoryview(b"ab"),
        memoryview(b"a_b")[::2].tobytes(),
        numpy.frombuffer(b"ab", "int8"),
    ):
        assert round_trip(flink_type, value) == b"ab"
    for value in ("ab", [97, 98], None, numpy.array([1, 2], "int16")):
        with pytest.raises(TypeError, match="bytes"):
            flink_type.serialize(value)


# --- dates and times


def test_a_moment_is_taken_in_any_zone_and_given_in_utc():
    winter = datetime.datetime(2024, 1, 15, 12, 0, 0, 5, zoneinfo.ZoneInfo("America/New_York"))
    found = round_trip(Types.TIMESTAMP_LTZ(), winter)
    assert found == winter and found.tzinfo is UTC and found.hour == 17
    odd = datetime.timezone(datetime.timedelta(hours=-3, microseconds=7))
    for moment in (datetime.datetime(1, 1, 1, tzinfo=odd), datetime.datetime(9999, 12, 31, 12, tzinfo=odd)):
        assert round_trip(Types.TIMESTAMP_LTZ(), moment) == moment


@given(st.datetimes(timezones=st.just(UTC)))
def test_an_instant_and_a_datetime_of_the_same_time_have_the_same_bytes(moment):
    instant = fb.Instant.from_datetime(moment)
    data = Types.INSTANT().serialize(instant)
    assert Types.TIMESTAMP_LTZ().serialize(moment) == Types.TIMESTAMP_LTZ().serialize(instant) == data
    assert Types.TIMESTAMP_LTZ().deserialize(data) == moment
    assert same(Types.INSTANT().deserialize(data), instant)


@pytest.mark.parametrize("value", [MORNING, datetime.datetime(2024, 1, 1), 5, "1970-01-01T00:00:00Z"], ids=str)
def test_an_instant_is_nothing_else(value):
    why = "Instant.from_datetime, or declare TIMESTAMP_LTZ" if isinstance(value, datetime.datetime) else ""
    with pytest.raises(TypeError, match=f"expected INSTANT.*{why}"):
        Types.INSTANT().serialize(value)


def test_what_pythons_times_cannot_hold_comes_back_in_a_class_that_can():
    for flink_type, value in (
        (Types.TIMESTAMP_LTZ(), fb.Instant(1, 1)),
        (Types.TIMESTAMP_LTZ(), fb.Instant(-31557014167219200, 0)),
        (Types.LOCAL_DATE(), fb.LocalDate(12024, 2, 29)),
        (Types.LOCAL_TIME(), fb.LocalTime(1, 2, 3, 4)),
        (Types.LOCAL_DATE_TIME(), fb.LocalDateTime(0, 1, 1)),
        (Types.SQL_TIMESTAMP(), fb.SqlTimestamp(-1, 999_000_001)),
        (Types.SQL_DATE(), fb.SqlDate(1)),
        (Types.SQL_TIME(), fb.SqlTime(86_400_000)),
        (Types.DATE(), fb.JavaDate(2**62)),
    ):
        assert same(round_trip(flink_type, value), value)
    assert round_trip(Types.TIMESTAMP_LTZ(), fb.Instant(0, 5000)) == datetime.datetime(1970, 1, 1, 0, 0, 0, 5, UTC)


@pytest.mark.parametrize(
    ("flink_type", "value"),
    [
        (Types.TIMESTAMP_LTZ(), datetime.datetime(2024, 1, 1)),
        (Types.DATE(), datetime.datetime(2024, 1, 1)),
        (Types.DATE(), datetime.datetime(2024, 1, 1, 0, 0, 0, 1, UTC)),
        (Types.LOCAL_DATE_TIME(), datetime.datetime(2024, 1, 1, tzinfo=UTC)),
        (Types.LOCAL_TIME(), datetime.time(1, tzinfo=UTC)),
        (Types.SQL_TIMESTAMP(), datetime.datetime(2024, 1, 1, tzinfo=UTC)),
        (Types.SQL_TIME(), datetime.time(1, 0, 0, 1)),
        (Types.LOCAL_DATE(), datetime.datetime(2024, 1, 1)),
        (Types.SQL_DATE(), datetime.datetime(2024, 1, 1)),
        (Types.LOCAL_DATE_TIME(), datetime.date(2024, 1, 1)),
        (Types.SQL_TIMESTAMP(), fb.Instant(0, 0)),
        (Types.DATE(), fb.JavaDate(-(2**63))),
        (Types.SQL_TIMESTAMP(), fb.SqlTimestamp(-(2**63), 192_000_000)),
    ],
    ids=str,
)
def test_a_time_that_would_lose_something_is_refused(flink_type, value):
    with pytest.raises((TypeError, ValueError), match=f"expected {flink_type.name}"):
        flink_type.serialize(value)


def test_nanoseconds_of_pandas_are_kept_and_its_nat_is_refused():
    pandas = pytest.importorskip("pandas")
    stamp = pandas.Timestamp("2024-02-29T01:02:03.123456789")
    assert round_trip(Types.LOCAL_DATE_TIME(), stamp) == fb.LocalDateTime(2024, 2, 29, 1, 2, 3, 123456789)
    assert round_trip(Types.SQL_TIMESTAMP(), stamp).nanos == 123456789
    assert round_trip(Types.TIMESTAMP_LTZ(), stamp.tz_localize("UTC")).nanos == 123456789
    for flink_type in (
        Types.LOCAL_DATE_TIME(),
        Types.SQL_TIMESTAMP(),
        Types.TIMESTAMP_LTZ(),
        Types.LOCAL_DATE(),
        Types.DATE(),
    ):
        with pytest.raises((TypeError, ValueError), match="expected"):
            flink_type.serialize(pandas.NaT)


# --- others


class Colour(enum.Enum):
    RED = 1
    GREEN = 2


def test_enum_members_are_written_as_their_place():
    flink_type = Types.ENUM(Colour)
    assert flink_type.serialize(Colour.GREEN) == b"\0\0\0\1" and round_trip(flink_type, Colour.RED) is Colour.RED
    with pytest.raises(CorruptDataError):
        flink_type.deserialize(b"\0\0\0\2")


def test_pickled_values_are_a_length_and_a_pickle():
    flink_type = Types.PICKLED_BYTE_ARRAY()
    data = flink_type.serialize({"a": [1, None]})
    assert struct.unpack(">i", data[:4])[0] == len(data) - 4 and pickle.loads(data[4:]) == {"a": [1, None]}
    assert flink_type.deserialize(data) == {"a": [1, None]}


def test_a_bool_is_no_number_among_the_values_of_an_enum():
    numbers, both = Types.ENUM([0, 1]), Types.ENUM([True, 5])
    assert [round_trip(numbers, value) for value in (0, 1)] == [0, 1] and round_trip(both, True) is True
    for flink_type, value in ((numbers, True), (numbers, False), (both, 1)):
        with pytest.raises((TypeError, ValueError), match="expected ENUM, got "):
            flink_type.serialize(value)
    with pytest.raises(TypeError, match="field 'e': expected ENUM, got True .*a bool is not taken for a number"):
        Types.ROW_NAMED(["e"], [numbers]).serialize((True,))


def run(script, data=b""):
    return subprocess.run([sys.executable, "-c", script], input=data, capture_output=True, check=True).stdout


# What Spark does with a class of the driver's __main__: by value, into a process whose __main__ is another.
SEND_A_CLASS = """
import sys
import pyspark.cloudpickle as cloudpickle
class Point:
    def __init__(self, x): self.x = x
    def __eq__(self, other): return self.x == other.x
sys.stdout.buffer.write(cloudpickle.dumps(Point(5)))
"""
PASS_IT_ON = """
import pickle, sys
point = pickle.loads(sys.stdin.buffer.read())
from flinkbuf.types.types import Types
sys.stdout.buffer.write(Types.PICKLED_BYTE_ARRAY().serialize([point, lambda: point.x + 1]))
"""


def test_what_only_cloudpickle_can_write_is_written_by_it_where_pyspark_is_loaded():
    pytest.importorskip("pyspark.cloudpickle")
    data = run(PASS_IT_ON, run(SEND_A_CLASS))
    point, after = Types.PICKLED_BYTE_ARRAY().deserialize(data)
    assert point.x == 5 and after() == 6 and type(point).__module__ == "__main__"


def test_what_does_not_pickle_is_refused_with_its_field_and_the_reason(monkeypatch):
    row = Types.ROW_NAMED(["task"], [Types.PICKLED_BYTE_ARRAY()])
    with pytest.raises(TypeError, match="field 'task': expected PICKLED_BYTES.*it does not pickle: .*generator"):
        row.serialize(((n for n in ()),))
    monkeypatch.delitem(sys.modules, "pyspark.cloudpickle", raising=False)
    monkeypatch.delitem(sys.modules, "cloudpickle", raising=False)
    with pytest.raises(TypeError, match="it does not pickle: .*lambda.*if cloudpickle is imported"):
        row.serialize((lambda: None,))


@pytest.mark.parametrize("key", ["LIST", "SET", "MAP", "OBJECT_ARRAY"])
def test_keys_that_python_cannot_hash_are_refused_when_the_type_is_made(key):
    element = TypeCodec("INT")
    inner = TypeCodec(key, (element, element) if key == "MAP" else (element,))
    for keyed in (lambda k: TypeCodec("SET", (k,)), lambda k: TypeCodec("MAP", (TypeCodec("TUPLE", (k,)), element))):
        with pytest.raises(ValueError, match="hashable"):
            keyed(inner)


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        (("NOTHING",), {}),
        (("TUPLE",), {}),
        (("LIST",), {}),
        (("ROW",), {}),
        (("ENUM",), {}),
        (("ENUM",), {"symbols": ("a", "a")}),
        (("TUPLE", (TypeCodec("INT"),)), {"names": ("a", "b")}),
        (("PRIMITIVE_ARRAY", (TypeCodec("STRING"),)), {}),
        (("INSTANT",), {}),
        (("LIST", (5,)), {}),
        (("ROW", (TypeCodec("INT"),)), {"classes": (list,) * 4}),
        (("NULLABLE", (TypeCodec("INT"),)), {"padding": -1}),
    ],
)
def test_a_codec_that_makes_no_sense_cannot_be_made(arguments, options):
    with pytest.raises((ValueError, TypeError)):
        TypeCodec(*arguments, **options)


@pytest.mark.parametrize(
    ("flink_type", "data", "message"),
    [
        (Types.LIST(Types.LONG()), b"\x7f\xff\xff\xff" + bytes(8), "count of 2147483647, but only 8 bytes"),
        (Types.LIST(Types.LONG()), b"\xff\xff\xff\xff", "count of -1"),
        (Types.LIST(Types.NULL_VALUE()), b"\0\0\4\1", "count of 1025"),
        (Types.LIST(Types.LIST(Types.NULL_VALUE())), b"\0\0\0\2\0\0\0\0\x7f\0\0\0", "byte 8 of 12"),
        (Types.STRING(), b"\xff\xff\xff\xff\x07abc", "text of 2147483646 characters, but only 3 bytes"),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"\x10\0\0\0abc", "expected at byte 0 of 7"),
        (Types.PRIMITIVE_ARRAY(Types.LONG(), numpy=True), b"\x10\0\0\0abc", "expected at byte 0 of 7"),
        (Types.BOOLEAN(), b"\2", "BOOLEAN expected at byte 0 of 1"),
        (Types.SET(Types.DOUBLE()), b"\0\0\0\2\0" + bytes(8) + b"\0\x80" + bytes(7), "equal to others in Python"),
        (
            Types.MAP("double", "int"),
            b"\0\0\0\2" + bytes(8) + b"\1\x80" + bytes(7) + b"\1",
            "equal to others in Python",
        ),
        (FLIGHT, b"\0\4JFK\x40", "DOUBLE expected at byte 5 of 6"),
    ],
    ids=str,
)
def test_damaged_bytes_are_an_error_that_says_where(flink_type, data, message):
    with pytest.raises(CorruptDataError, match=message):
        flink_type.deserialize(data)


@pytest.mark.parametrize(
    ("flink_type", "data", "place"),
    [
        (Types.STRING(), "02 8000", 1),  # a unit in two bytes that needs one
        (Types.STRING(), "02 ffff04", 1),  # a unit of 17 bits
        (Types.STRING(), "8200 61", 1),  # a length in two bytes that needs one
        (Types.STRING(), "ffffffff08", 4),  # a length of 32 bits
        (Types.LIST(Types.LONG()), "00000002" + "00" * 15, 0),
        (Types.LIST(Types.LONG()), "80000000" + "00" * 8, 0),
        (Types.PICKLED_BYTE_ARRAY(), "ffffffff", 0),
        (Types.PICKLED_BYTE_ARRAY(), "00000002 61", 0),
        (Types.BIG_INT(), "00000004", 0),  # numbers are never longer than they must be
        (Types.BIG_INT(), "00000006 007f", 0),
        (Types.BIG_INT(), "00000006 ff80", 0),
        (Types.BIG_INT(), "80000006 ff80", 0),
        (Types.LOCAL_DATE(), "000007e7 021d", 0),  # 29 February 2023
        (Types.LOCAL_DATE(), "80000000 8001", 0),
        (Types.LOCAL_TIME(), "180000 00000000", 0),
        (Types.LOCAL_TIME(), "000000 3b9aca00", 0),
        (Types.INSTANT(), "00" * 8 + "3b9aca00", 0),
        (Types.INSTANT(), "8000000000000000 00000000", 0),
        (Types.SQL_TIMESTAMP(), "0000000000000001 00000000", 0),  # two answers to which millisecond it is
        (Types.ROW([]), "20", 0),
        (Types.ROW([Types.INT(), Types.STRING()]), "01 00000001 0261", 0),
        (Types.ROW([Types.INT()] * 7), "3f01 00000001", 1),
        (Types.NULLABLE(Types.INT()), "02 00000000", 0),
        (Types.NULLABLE(Types.INT(), padded=True), "01 00010000", 2),
        (Types.PRIMITIVE_ARRAY(Types.BOOLEAN()), "00000002 01 02", 5),
        (Types.ENUM(["A", "B", "C"]), "00000003", 0),
        (Types.STREAM_ELEMENT(Types.INT()), "04 00000001", 1),
        (Types.STREAM_ELEMENT(Types.INT()), "07 00000001", 0),
    ],
    ids=str,
)
def test_bytes_that_nobody_writes_are_refused_by_decode_and_skip(flink_type, data, place):
    for read in (flink_type.deserialize, flink_type.codec.skip):
        with pytest.raises(CorruptDataError, match=f"expected at byte {place} of"):
            read(bytes.fromhex(data))


# --- references


def count_of_references(values):
    return [sys.getrefcount(value) for value in values]


@pytest.mark.parametrize(
    ("flink_type", "good", "bad"),
    [
        (FLIGHT, ("a text of some length", 1234.5), (object(), 1.0)),
        (FLIGHT, {"origin": "a text of some length", "delay": 0.5}, {"origin": "x"}),
        (LEGS, ("UA", [("a longer text", 1.0)]), ("UA", [("a", "b")])),
        (Types.TUPLE([Types.LONG(), Types.STRING()]), [10**15, "é\U0001f600"], (10**30, "x")),
        (Types.MAP("string", "bigint"), {"key": 10**15}, {"key": "value"}),
        (Types.SET(Types.STRING()), {"some element"}, {5.5}),
        (Types.OBJECT_ARRAY(Types.STRING()), ["some element", None], [object()]),
        (Types.BIG_DEC(), decimal.Decimal("1234567.89"), decimal.Decimal("NaN")),
        (Types.TIMESTAMP_LTZ(), datetime.datetime(2024, 1, 1, tzinfo=UTC), datetime.datetime(2024, 1, 1)),
        (Types.INSTANT(), fb.Instant(2**40, 999_999_999), datetime.datetime(2024, 1, 1, tzinfo=UTC)),
        (Types.LOCAL_TIME(), fb.LocalTime(1, 2, 3, 4), 5.5),
        (Types.EITHER(FLIGHT, Types.INT()), fb.Left(("JFK", 1.0)), fb.Left(5.5)),
        (Types.PRIMITIVE_ARRAY(Types.INT(), numpy=True), numpy.array([1, 2, 3], "int32"), numpy.array([0.5])),
        (Types.STREAM_ELEMENT(Types.STRING()), fb.StreamRecord("some text", 5), fb.StreamRecord(5.5)),
        (Types.ENUM(Colour), Colour.RED, 5.5),
        (Types.PICKLED_BYTE_ARRAY(), [1, 2], lambda: None),
    ],
    ids=str,
)
def test_no_reference_is_lost_or_kept_in_ten_thousand_rounds(flink_type, good, bad):
    data = flink_type.serialize(good)
    codec = flink_type.codec
    watched = [
        good,
        bad,
        codec,
        None,
        True,
        *(good if isinstance(good, (tuple, list, set)) else ()),
        *(codec.classes or ()),
    ]

    def rounds(count):
        for _ in range(count):
            flink_type.serialize(good)
            flink_type.deserialize(data)
            for refused in (lambda: flink_type.serialize(bad), lambda: flink_type.deserialize(data[:-1])):
                with contextlib.suppress(Exception):
                    refused()

    rounds(100)
    gc.collect()
    before, blocks = count_of_references(watched), sys.getallocatedblocks()
    rounds(2_500 if flink_type.kind in ("STREAM_ELEMENT", "PICKLED_BYTES") else 5_000)
    gc.collect()
    after = count_of_references(watched)
    assert all(abs(a - b) < 50 for a, b in zip(before, after, strict=True)), (before, after)
    assert sys.getallocatedblocks() - blocks < 500
