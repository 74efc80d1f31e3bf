"""Java's hash codes, key groups and ranges, against what Flink 2.2.1 computed, for all ways to a hash."""

import ast
import contextlib
import datetime
import decimal
import os
import struct
import subprocess
import sys
import threading
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.data.golden_types import load, parse, value_of

from flinkbuf._core.record.key_group import KeyHasher, operator_index
from flinkbuf.errors import CorruptDataError
from flinkbuf.records.partitioner import (
    default_max_parallelism,
    key_group,
    key_group_range,
    key_groups,
)
from flinkbuf.types.types import Types, object_type
from flinkbuf.types.values import Left, Right, Row

GOLDEN = load("keygroups")
CASES = [pytest.param(case, id=f"{case['type']}-{i}") for i, case in enumerate(GOLDEN["cases"])]


def hasher(key_type):
    return KeyHasher(key_type.codec)


def hash_of(key_type, value):
    """The hash of a value, which is that of its bytes."""
    code = hasher(key_type).hash_code(value)
    assert hasher(key_type).hash_encoded(key_type.serialize(value)) == code
    return code


@pytest.mark.parametrize("case", CASES)
def test_keys_hash_and_fall_into_key_groups_as_in_flink(case):
    key_type = parse(case["type"])
    key = value_of(case["type"], case["value"])
    assert hasher(key_type).hash_code(key) == case["hash_code"]
    for max_parallelism, group in case["key_group"].items():
        assert key_group(key, key_type, int(max_parallelism)) == group
    assert [operator_index(key_group(key, key_type, 128), 128, p) for p in range(1, 9)] == case["operator_of_128"]


@pytest.mark.parametrize("case", CASES)
def test_encoded_keys_hash_as_in_flink(case):
    key_type = parse(case["type"])
    data = key_type.serialize(value_of(case["type"], case["value"]))
    assert hasher(key_type).hash_encoded(data) == case["hash_code"]
    nullable = Types.NULLABLE(key_type)
    assert hasher(nullable).hash_encoded(b"\0" + data) == case["hash_code"]


@pytest.mark.parametrize("case", CASES)
def test_cut_and_prolonged_bytes_are_refused(case):
    key_type = parse(case["type"])
    data = key_type.serialize(value_of(case["type"], case["value"]))
    for size in range(max(0, len(data) - 40), len(data)):
        with pytest.raises(ValueError, match="the bytes end inside"):
            hasher(key_type).hash_encoded(data[:size])
    with pytest.raises(ValueError, match=f"ends after {len(data)} of {len(data) + 1} bytes"):
        hasher(key_type).hash_encoded(data + b"\0")


@pytest.mark.parametrize(
    ("key_type", "data", "message"),
    [
        (Types.STRING(), b"\xff\xff\xff\xff\xff\x01", "corrupt"),  # a length over 32 bits
        (Types.STRING(), b"\x02\xff\xff\x7f", "corrupt"),  # a unit over 16 bits
        (Types.STRING(), b"\xff\xff\xff\xff\x0f", "the bytes end"),  # 4 billion units in no bytes
        (Types.BIG_INT(), b"\0\0\0\4", "corrupt"),  # a number of no bytes
        (Types.BIG_INT(), b"\xff\xff\xff\xff", "corrupt"),
        (Types.BIG_INT(), b"\x7f\xff\xff\xff\0", "the bytes end"),
        (Types.LIST(Types.INT()), b"\xff\xff\xff\xff", "corrupt"),
        (Types.LIST(Types.INT()), b"\x7f\xff\xff\xff\0\0\0\1", "the bytes end"),
        (Types.LIST(Types.NULL_VALUE()), b"\x7f\xff\xff\xff", "over its limit"),
        (Types.LOCAL_DATE_TIME(), b"\x80\0\0\0\x80" + bytes(8), "corrupt"),  # a time without its date
    ],
    ids=str,
)
def test_damaged_bytes_are_refused(key_type, data, message):
    with pytest.raises(CorruptDataError, match=message):
        hasher(key_type).hash_encoded(data)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted({case["type"] for case in GOLDEN["cases"]})), st.binary(max_size=48))
def test_any_bytes_have_a_hash_or_are_refused(name, data):
    with contextlib.suppress(ValueError):
        hasher(parse(name)).hash_encoded(data)


RANGES = [pytest.param(case, id=f"{case['parallelism']}-of-{case['max_parallelism']}") for case in GOLDEN["ranges"]]


@pytest.mark.parametrize("case", RANGES)
def test_ranges_partition_the_key_groups_as_in_flink(case):
    total, parallelism = case["max_parallelism"], case["parallelism"]
    ranges = [key_group_range(total, parallelism, i) for i in range(parallelism)]
    assert [[each[0], each[-1]] for each in ranges] == case["ranges"]
    assert [group for each in ranges for group in each] == list(range(total))
    owners = [next(i for i, each in enumerate(ranges) if group in each) for group in range(total)]
    assert owners == case["operator_of_group"]


@given(st.data())
def test_ranges_partition_the_key_groups_for_any_parallelism(data):
    total = data.draw(st.integers(1, 32768))
    parallelism = data.draw(st.integers(1, min(total, 300)))
    ends = [key_group_range(total, parallelism, i) for i in range(parallelism)]
    assert ends[0].start == 0 and ends[-1].stop == total
    assert all(one.stop == next_one.start and len(one) >= 1 for one, next_one in pairwise(ends))
    for index, groups in enumerate(ends):
        assert operator_index(groups[0], total, parallelism) == operator_index(groups[-1], total, parallelism) == index


@pytest.mark.parametrize(("parallelism", "expected"), GOLDEN["default_max_parallelism"])
def test_default_max_parallelism_is_flinks(parallelism, expected):
    assert default_max_parallelism(parallelism) == expected


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (default_max_parallelism, (0,), "parallelism must be from 1 to .*32768, got 0"),
        (default_max_parallelism, (32769,), "got 32769"),
        (key_group_range, (128, 129, 0), "parallelism must be from 1 to the max parallelism of 128, got 129"),
        (key_group_range, (0, 1, 0), "max parallelism must be from 1 to 32768, got 0"),
        (key_group_range, (128, 0, 0), "got 0"),
        (key_group_range, (32769, 1, 0), "got 32769"),
        (key_group_range, (128, 4, 4), "subtask index must be from 0 to 3, got 4"),
        (key_group_range, (128, 4, -1), "got -1"),
        (operator_index, (1, 4, 5), "got 5"),
        (key_group, (1, "int", 0), "got 0"),
    ],
)
def test_arguments_out_of_range_are_refused_as_in_flink(function, arguments, message):
    with pytest.raises(ValueError, match=message):
        function(*arguments)


NULLS = [Types.STRING(), Types.BIG_INT(), Types.INSTANT(), Types.NULLABLE(Types.INT()), Types.LONG(), Types.VOID()]


@pytest.mark.parametrize("key_type", NULLS, ids=repr)
def test_a_null_key_is_an_error(key_type):
    assert GOLDEN["null_key"].endswith("Assigned key must not be null!")
    with pytest.raises(ValueError, match="assigned key must not be null"):
        hasher(key_type).hash_code(None)


NULLS_OF_BYTES = [
    *(Types.STRING(), Types.VOID(), Types.BIG_INT(), Types.BIG_DEC(), Types.LOCAL_DATE(), Types.LOCAL_TIME()),
    *(Types.LOCAL_DATE_TIME(), Types.INSTANT(), Types.SQL_DATE(), Types.NULLABLE(Types.INT())),
]


@pytest.mark.parametrize("key_type", NULLS_OF_BYTES, ids=repr)
def test_an_encoded_null_key_is_an_error(key_type):
    with pytest.raises(ValueError, match="assigned key must not be null"):
        hasher(key_type).hash_encoded(key_type.serialize(None))


ARRAY = Types.PRIMITIVE_ARRAY(Types.BYTE())


@pytest.mark.parametrize(
    "key_type",
    [
        ARRAY,
        Types.BASIC_ARRAY(Types.STRING()),
        Types.OBJECT_ARRAY(Types.INT()),
        Types.LIST(ARRAY),
        Types.TUPLE([Types.INT(), ARRAY]),
        Types.ROW([Types.TUPLE([ARRAY])]),
        Types.ENUM(["A", "B"]),
        Types.PICKLED_BYTE_ARRAY(),
        Types.STREAM_ELEMENT(Types.INT()),
    ],
    ids=repr,
)
def test_types_that_java_does_not_hash_by_value_are_no_key_types(key_type):
    with pytest.raises(ValueError, match="cannot be a key"):
        key_group("any", key_type, 128)


@pytest.mark.parametrize("key_type", [Types.LONG_VALUE(), Types.LIST(Types.BOOLEAN_VALUE())], ids=repr)
def test_value_classes_that_hash_unlike_their_plain_types_are_no_key_types(key_type):
    with pytest.raises(ValueError, match="hashes .*_VALUE in a way of its own"):
        key_group(1, key_type, 128)


TEXTS = st.text(max_size=40).filter(lambda text: not any("\ud800" <= c <= "\udfff" for c in text))
LATIN = st.text(st.characters(max_codepoint=255), max_size=60)
MOMENTS = st.datetimes(min_value=datetime.datetime(1, 1, 1))
# Types and their values; `java_hash` below is the slow definition of their hash codes.
KINDS = {
    "BOOLEAN": (Types.BOOLEAN(), st.booleans()),
    "BYTE": (Types.BYTE(), st.integers(-(2**7), 2**7 - 1)),
    "SHORT": (Types.SHORT(), st.integers(-(2**15), 2**15 - 1)),
    "CHAR": (Types.CHAR(), st.characters(max_codepoint=0xFFFF)),
    "INT": (Types.INT(), st.integers(-(2**31), 2**31 - 1)),
    "LONG": (Types.LONG(), st.integers(-(2**63), 2**63 - 1)),
    "FLOAT": (Types.FLOAT(), st.floats(width=32)),
    "DOUBLE": (Types.DOUBLE(), st.floats()),
    "STRING": (Types.STRING(), TEXTS | LATIN),
    "BIG_INT": (Types.BIG_INT(), st.integers() | st.integers(-(2**200), 2**200)),
    "BIG_DEC": (Types.BIG_DEC(), st.decimals(allow_nan=False, allow_infinity=False)),
    "LOCAL_DATE": (Types.LOCAL_DATE(), st.dates()),
    "LOCAL_TIME": (Types.LOCAL_TIME(), st.times()),
    "LOCAL_DATE_TIME": (Types.LOCAL_DATE_TIME(), MOMENTS),
    "INSTANT": (Types.TIMESTAMP_LTZ(), MOMENTS.map(lambda moment: moment.replace(tzinfo=datetime.timezone.utc))),
}


def wrap(number):
    return (number + 2**31) % 2**32 - 2**31


def java_hash(name, value):
    """`Object.hashCode` as Java's documentation defines it."""
    if name == "BOOLEAN":
        return 1231 if value else 1237
    if name in ("BYTE", "SHORT", "INT"):
        return value
    if name in ("STRING", "CHAR"):
        units = value.encode("utf-16-be", "surrogatepass")
        result = 0
        for i in range(0, len(units), 2):
            result = 31 * result + int.from_bytes(units[i : i + 2], "big")
        return wrap(result)
    if name == "FLOAT":
        return 0x7FC00000 if value != value else struct.unpack(">i", struct.pack(">f", value))[0]
    if name in ("LONG", "DOUBLE"):
        form = ">q" if name == "LONG" else ">d"
        bits = 0x7FF8 << 48 if value != value else int.from_bytes(struct.pack(form, value), "big")
        return wrap(bits ^ bits >> 32)
    if name == "BIG_INT":
        result, magnitude = 0, abs(value)
        for shift in range(magnitude.bit_length() // 32 * 32, -1, -32):
            result = 31 * result + (magnitude >> shift & 0xFFFFFFFF)
        return wrap(-result if value < 0 else result)
    if name == "BIG_DEC":
        sign, digits, exponent = value.as_tuple()
        unscaled = int("".join(map(str, digits))) * (-1 if sign else 1)
        return wrap(31 * java_hash("BIG_INT", unscaled) - exponent)
    if name == "LOCAL_DATE":
        return wrap((value.year & ~0x7FF) ^ ((value.year << 11) + (value.month << 6) + value.day))
    if name == "LOCAL_TIME":
        second = value.hour * 3600 + value.minute * 60 + value.second
        return java_hash("LONG", second * 10**9 + value.microsecond * 1000)
    if name == "LOCAL_DATE_TIME":
        return java_hash("LOCAL_DATE", value.date()) ^ java_hash("LOCAL_TIME", value.time())
    delta = value - datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
    second = delta.days * 86400 + delta.seconds
    return wrap(java_hash("LONG", second) + 51 * delta.microseconds * 1000)


@pytest.mark.parametrize("name", KINDS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_objects_and_their_bytes_hash_as_java_defines_it(name, data):
    key_type, values = KINDS[name]
    value = data.draw(values)
    if isinstance(value, decimal.Decimal) and not value:
        value = value.copy_abs()  # Java's has no negative zero
    assert hash_of(key_type, value) == java_hash(name, value)


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_containers_hash_from_their_elements(data):
    names = data.draw(st.lists(st.sampled_from(sorted(set(KINDS) - {"BIG_DEC"})), min_size=1, max_size=4))
    values = [data.draw(KINDS[name][1]) for name in names]
    types = [KINDS[name][0] for name in names]
    hashes = [java_hash(name, value) for name, value in zip(names, values, strict=True)]
    as_tuple = as_row = 0
    for each in hashes:
        as_tuple = 31 * as_tuple + each
    as_row = 1
    for each in hashes:
        as_row = 31 * as_row + 31 + each
    assert hash_of(Types.TUPLE(types), tuple(values)) == wrap(as_tuple)
    assert hash_of(Types.ROW(types), Row(*values)) == wrap(as_row)
    assert hash_of(Types.ROW(types), Row.of_kind("-D", *values)) == wrap(as_row + 93)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-(2**31), 2**31 - 1), max_size=6), st.integers(0, 5))
@example([], 0)
def test_collections_hash_as_java_defines_them(values, place):
    element = Types.INT()
    as_list = 1
    for value in values:
        as_list = 31 * as_list + value
    assert hash_of(Types.LIST(element), values) == wrap(as_list)
    assert hash_of(Types.SET(element), set(values)) == wrap(sum(set(values)))
    pairs = {value: None if i == place else i for i, value in enumerate(values)}
    as_map = sum(key ^ (value or 0) for key, value in pairs.items())
    assert hash_of(Types.MAP(element, element), pairs) == wrap(as_map)
    either = Types.EITHER(Types.LIST(element), element)
    assert hash_of(either, Left(values)) == wrap(as_list)
    assert hash_of(either, Right(place)) == place
    array = Types.ROW([Types.PRIMITIVE_ARRAY(element)])
    assert hash_of(array, Row(values)) == wrap(31 + 31 + as_list)


INTS, PAIR = Types.LIST(Types.INT()), Types.ROW([Types.INT(), Types.STRING()])
MAP = Types.MAP(Types.STRING(), Types.INT())
LISTS = Types.LIST(Types.LIST(Types.LONG()))
OBJECTS = [Types.SET(Types.INT()), LISTS, Types.PRIMITIVE_ARRAY(Types.INT()), Types.OBJECT_ARRAY(Types.INT())]
NUMBERS = ["BYTE", "BOOLEAN", "CHAR", "LONG", "FLOAT", "DOUBLE", "SHORT"]
EITHER = Types.EITHER(Types.INT(), Types.STRING())


@pytest.mark.parametrize(
    ("key_type", "data", "expected"),
    [
        (Types.LIST(Types.STRING()), "00000002026100", 3968),
        (LISTS, "00000002 00000002 0000000000000001 0000000000000002 00000000", 31776),
        (OBJECTS[0], "00000003 0000000007 00ffffffff 01", 6),
        (MAP, "00000003 02610000000001 026201 026300fffffffd", 96),
        (Types.ROW([MAP]), "00 00000003 02610000000001 026201 026300fffffffd", 479),
        (Types.ROW([PAIR, INTS]), "00 e0026e 00000001 00000001", 39030),
        (
            Types.ROW([*OBJECTS, Types.BASIC_ARRAY(Types.STRING())]),
            "40 000000010000000007 000000010000000200000000000000010000000000000002 0000000200000001fffffffe"
            "000000030100000001000100000003 00000003 027800 0279",
            126845580,
        ),
        (
            Types.ROW([Types.PRIMITIVE_ARRAY(KINDS[name][0]) for name in NUMBERS]),
            "0000 000000020102 000000020100 0000000200614e2d 000000020000000000000001fffffffffffffffe"
            "00000002800000007fc00000 000000013ff8000000000000 00000001fffd",
            1792680323,
        ),
        (EITHER, "0100000005", 5),
        (EITHER, "000272", 114),
    ],
    ids=str,
)
def test_bytes_of_containers_hash_as_java_says(key_type, data, expected):
    assert hasher(key_type).hash_encoded(bytes.fromhex(data.replace(" ", ""))) == expected


COLUMNS = {
    "BOOLEAN": "bool",
    "BYTE": "int8",
    "SHORT": "int16",
    "INT": "int32",
    "LONG": "int64",
    "FLOAT": "float32",
    "DOUBLE": "float64",
}


@pytest.mark.parametrize("name", COLUMNS)
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_columns_hash_as_their_values_one_by_one(name, data):
    key_type, values = KINDS[name]
    items = data.draw(st.lists(values, max_size=20))
    column = np.array(items, COLUMNS[name])
    expected = [java_hash(name, item) for item in items]
    assert hasher(key_type).hash_codes(column).tolist() == expected
    assert hasher(key_type).hash_codes(column[::-1]).tolist() == expected[::-1]
    assert hasher(key_type).hash_codes(items).tolist() == expected
    groups = [key_group(item, key_type, 1000) for item in items]
    assert key_groups(column, key_type, 1000).tolist() == groups


def test_columns_that_may_not_fit_are_refused():
    with pytest.raises(TypeError, match="keys of int64 do not all fit the key type, which holds int32"):
        key_groups(np.arange(3), "int", 128)
    with pytest.raises(ValueError, match="one-dimensional array, got 2"):
        key_groups(np.zeros((2, 2), np.int64), "bigint", 128)
    assert key_groups(np.arange(3, dtype=np.int32), "bigint", 128).tolist() == [94, 86, 127]


def test_values_of_another_type_are_refused_by_their_codec():
    with pytest.raises(OverflowError):
        hasher(Types.INT()).hash_code(2**31)
    with pytest.raises(OverflowError):
        hasher(Types.LONG()).hash_code(2**63)
    with pytest.raises(TypeError):
        hasher(Types.STRING()).hash_code(b"bytes")
    with pytest.raises(TypeError):
        hasher(Types.LONG()).hash_code(True)
    assert hasher(Types.INT()).hash_code(np.int64(7)) == 7
    assert hasher(Types.DOUBLE()).hash_code(1) == hasher(Types.DOUBLE()).hash_code(1.0)


def test_a_failed_key_leaves_the_hasher_usable():
    pairs = hasher(Types.TUPLE([Types.INT(), Types.STRING()]))
    for _ in range(3):
        with pytest.raises(TypeError):
            pairs.hash_code(("no int", "a"))
        assert pairs.hash_code((1, "a")) == 128


def test_the_hash_of_a_long_column_leaves_the_gil():
    column = np.arange(8_000_000)
    ticks, stop = [], threading.Event()

    def tick():
        while not stop.wait(0.0005):
            ticks.append(1)

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        before = len(ticks)
        for _ in range(20):
            hasher(Types.LONG()).hash_codes(column)
            if len(ticks) > before + 3:
                break
    finally:
        stop.set()
        thread.join()
    assert len(ticks) > before + 3


# --- keys that nobody declared


@pytest.mark.parametrize("key", [0, -1, 2**31, 2**63 - 1, -(2**63), "", "flink", "x" * 100])
def test_an_undeclared_int_or_ascii_text_hashes_as_a_declared_one(key):
    declared = Types.LONG() if isinstance(key, int) else Types.STRING()
    assert hasher(object_type()).hash_code(key) == hasher(declared).hash_code(key)


UNDECLARED = """
import dataclasses, datetime, decimal, enum, sys
import numpy
from flinkbuf import Row
from flinkbuf._core.record.key_group import KeyHasher
from flinkbuf.types.types import object_type

class Colour(enum.Enum):
    RED = "red"

@dataclasses.dataclass(frozen=True)
class Stop:
    name: str
    lines: frozenset

names = ["JFK", "LGA", "Zürich", "€", "\\U0001f600", "\\ud800"]
keys = [
    *names, b"x", 2**64, 1.5, None, True, tuple(names), set(names), frozenset(names), {n: [n] for n in names},
    {frozenset(names): {"a", "b"}}, Row(1, "a"), Row(a=1), Row.of_kind("-D", a=1), decimal.Decimal("1.10"),
    datetime.date(2024, 1, 1), datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc), Colour.RED, Colour, len,
    Stop("x", frozenset(names)), numpy.float64(1.5), numpy.int32(7), numpy.arange(3), 3 + 4j,
    datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=1))),
]
print([KeyHasher(object_type().codec).hash_code(key) for key in keys])
"""


def test_undeclared_keys_hash_alike_in_every_process():
    hashes = set()
    for seed in ("0", "1", "12345"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-c", UNDECLARED], env=environment, capture_output=True, text=True, check=True
        )
        hashes.add(done.stdout)
    assert len(hashes) == 1
    numbers = ast.literal_eval(hashes.pop())
    assert len(set(numbers)) == len(numbers)


def test_the_hash_of_undeclared_keys_is_pinned():
    # Where state of a job lies depends on it, so it never changes.
    values = ["é", b"x", 1.5, None, True, ("a", 1), {"a": 1}, 2**64]
    expected = [-1984164351, 1001433414, 703984008, -118736463, 579652903, 746692878, -1433671130, 1499155631]
    assert [hasher(object_type()).hash_code(value) for value in values] == expected


def test_undeclared_keys_spread_over_the_key_groups():
    for keys in (
        [("user", i) for i in range(20_000)],
        [float(i) for i in range(20_000)],
        [f"Zürich {i}" for i in range(20_000)],
    ):
        counts = np.bincount([key_group(key, object_type(), 128) for key in keys], minlength=128)
        assert counts.min() > 90 and counts.max() < 230  # 156 on average


def test_undeclared_fields_of_declared_keys_hash_by_their_parts():
    pair = hasher(Types.TUPLE([Types.STRING(), object_type()]))
    assert pair.hash_code(("a", {"x", "y"})) == pair.hash_code(("a", {"y", "x"})) != pair.hash_code(("a", {"x"}))
    keys = [("a", {i}) for i in range(3)]
    assert pair.hash_codes(keys).tolist() == [pair.hash_code(key) for key in keys]
    assert [pair.hash_encoded(pair.codec.serialize(key)) for key in keys] == [pair.hash_code(key) for key in keys]


def test_none_is_a_key_where_nobody_declared_one_or_where_it_is_said():
    assert hasher(object_type()).takes_none and not hasher(Types.LONG()).takes_none
    assert hasher(object_type()).hash_code(None) == hasher(object_type()).hash_code(None)
    assert KeyHasher(Types.LONG().codec, takes_none=True).hash_code(None) == 0


def test_a_list_that_changes_while_its_key_is_made_is_an_error_and_no_crash():
    class Shrinks:
        def __reduce_ex__(self, protocol):
            values.clear()
            return str, ()

    for values in ([Shrinks(), "x" * 70, "y"], {1: Shrinks(), 2: "x" * 70}, {1, Shrinks(), "x" * 70}):
        with pytest.raises(RuntimeError, match="chang"):
            hasher(object_type()).hash_code(values)
    assert hasher(object_type()).hash_code(5) == 5
