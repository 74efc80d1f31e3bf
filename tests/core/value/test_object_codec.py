"""Values that nobody declared come back as from a pickle, whatever they are, and no bytes do any harm."""

import collections
import contextlib
import dataclasses
import datetime
import decimal
import enum
import gc
import pickle
import sys
import zoneinfo

import numpy
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import flinkbuf as fb
from flinkbuf._core.value.type_codec import TypeCodec
from flinkbuf.errors import CorruptDataError
from flinkbuf.types.row import row_class
from flinkbuf.types.types import Types, object_type

OBJECT = object_type()
UTC = datetime.timezone.utc
PICKLED = 0x82  # the tag of a value that went through pickle


def same(a, b):
    """Equal in value, class, sign and kind of change, and in order where there is one."""
    if type(a) is not type(b):
        return False
    if isinstance(a, (tuple, list)):
        kinds = getattr(a, "row_kind", None) == getattr(b, "row_kind", None)
        return kinds and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return same(list(a.items()), list(b.items()))
    if isinstance(a, (set, frozenset)):
        return same(sorted(a, key=repr), sorted(b, key=repr))
    if isinstance(a, (datetime.datetime, datetime.time)):
        return a.replace(fold=0) == b.replace(fold=0) and a.fold == b.fold and a.tzinfo is b.tzinfo
    return repr(a) == repr(b)


TEXT = st.text(st.characters() | st.sampled_from("\ud800\udbff\udc00\udfffé€\U0001f600"), max_size=70)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | TEXT
    | st.text("abc", max_size=70)
    | st.binary(max_size=20)
    | st.binary(max_size=20).map(bytearray)
    | st.dates()
    | st.times()
    | st.times(timezones=st.just(UTC)).map(lambda t: t.replace(fold=1))
    | st.datetimes()
    | st.datetimes(timezones=st.just(UTC))
    | st.timedeltas()
    | st.decimals()
)
HASHABLE = st.none() | st.booleans() | st.integers() | st.floats() | TEXT | st.binary(max_size=9) | st.dates()
NAMES = st.lists(TEXT, max_size=4, unique=True)


def rows(values):
    kinds = st.sampled_from(list(fb.types.RowKind))
    plain = st.builds(lambda kind, fields: fb.Row.of_kind(kind, *fields), kinds, st.lists(values, max_size=4))
    named = NAMES.filter(bool).flatmap(lambda names: st.fixed_dictionaries(dict.fromkeys(names, values)))
    return plain | st.builds(lambda kind, fields: row_class(tuple(fields), kind)(*fields.values()), kinds, named)


VALUES = st.recursive(
    LEAVES,
    lambda values: (
        st.lists(values, max_size=20)
        | st.lists(values, max_size=20).map(tuple)
        | st.dictionaries(HASHABLE, values, max_size=6)
        | st.sets(HASHABLE, max_size=6)
        | st.frozensets(st.tuples(HASHABLE), max_size=6)
        | rows(values)
    ),
    max_leaves=25,
)


# --- as a pickle would


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(VALUES)
def test_any_value_comes_back_as_from_a_pickle(value):
    data = OBJECT.serialize(value)
    assert same(OBJECT.deserialize(data), pickle.loads(pickle.dumps(value)))
    assert OBJECT.codec.skip(data) == len(data)


@pytest.mark.parametrize("bits", [6, 7, 8, 14, 15, 16, 23, 31, 32, 47, 59, 60, 61, 63, 64, 65, 127, 128])
def test_ints_come_back_at_every_size(bits):
    for value in (2**bits - 1, 2**bits, 2**bits + 1):
        for number in (value, -value):
            data = OBJECT.serialize(number)
            assert OBJECT.deserialize(data) == number and OBJECT.codec.skip(data) == len(data)


def test_small_values_take_few_bytes():
    assert len(OBJECT.serialize(5)) == 2 and len(OBJECT.serialize("JFK")) == 4
    assert len(OBJECT.serialize(("JFK", 5, None, 1.5))) == 1 + 4 + 2 + 1 + 9


@pytest.mark.parametrize("size", [0, 1, 15, 16, 62, 63, 64, 65, 5000])
def test_values_of_every_length_come_back(size):
    for value in ("x" * size, "é" * size, "€" * size, "\U0001f600" * size, b"x" * size, (None,) * size, [1] * size):
        assert same(OBJECT.deserialize(OBJECT.serialize(value)), value)
    assert OBJECT.deserialize(OBJECT.serialize(dict.fromkeys(range(size)))) == dict.fromkeys(range(size))


def test_not_a_numbers_keep_their_bits():
    odd = numpy.array([0xFFF8000000000123], "u8").view("f8")[0].item()
    assert numpy.float64(OBJECT.deserialize(OBJECT.serialize(odd))).view("u8") == 0xFFF8000000000123


class Colour(enum.Enum):
    RED = 1


class Text(str):
    __slots__ = ()


class OwnRow(fb.Row):
    """A class below those of rows, with attributes."""


@dataclasses.dataclass
class Flight:
    origin: str
    delays: list


Point = collections.namedtuple("Point", "x y")


@pytest.mark.parametrize(
    "value",
    [
        Colour.RED,
        Text("x"),
        Point(1, 2),
        OwnRow(1),
        Flight("JFK", [1.0]),
        fb.types.Left(5),
        numpy.float64(1.5),
        numpy.int64(7),
        3 + 4j,
        range(3),
        collections.OrderedDict(a=1),
        datetime.datetime(2024, 1, 1, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin")),
        datetime.time(1, tzinfo=datetime.timezone(datetime.timedelta(hours=1))),
    ],
    ids=repr,
)
def test_what_is_not_built_in_keeps_its_class_too(value):
    for whole in (value, [value], ("key", {"inside": value})):
        data = OBJECT.serialize(whole)
        again = OBJECT.deserialize(data)
        assert data[0] == PICKLED and again == whole and repr(again) == repr(whole)


def test_lambdas_and_classes_of_functions_go_through_cloudpickle():
    class Local:
        def __init__(self, x):
            self.x = x

    assert OBJECT.deserialize(OBJECT.serialize(lambda x: x + 1))(1) == 2
    assert OBJECT.deserialize(OBJECT.serialize([Local(5)]))[0].x == 5


def test_what_does_not_pickle_is_refused_with_the_reason():
    with pytest.raises(TypeError, match=r"expected OBJECT, got .*generator.*it does not pickle"):
        OBJECT.serialize([1, (x for x in ())])
    with pytest.raises(TypeError, match=r"field 'f1': expected OBJECT"):
        Types.TUPLE([Types.INT(), OBJECT]).serialize((1, (x for x in ())))


# --- one object at two places, containers that hold themselves


def test_one_object_at_two_places_is_one_object_again():
    inner = [1]
    for value in ([inner, inner], (inner, {"a": (inner,)}), {"a": inner, "b": inner}, [((inner,),), inner]):
        again = OBJECT.deserialize(OBJECT.serialize(value))
        first, *_ = again.values() if isinstance(again, dict) else again
        while isinstance(first, tuple):
            first = first[0]
        first.append("seen at the other place")
        assert str(again).count("seen at the other place") == 2
    pair = (inner,)
    again = OBJECT.deserialize(OBJECT.serialize((pair, pair)))
    assert again[0][0] is again[1][0]


def test_what_others_hold_too_is_no_reason_to_pickle():
    held = [[i] for i in range(200)]
    data = OBJECT.serialize(held)
    assert data[0] != PICKLED and OBJECT.deserialize(data) == held
    assert OBJECT.serialize([*held, held[0]])[0] == PICKLED
    assert OBJECT.serialize([(), (), frozenset(), "x", "x"])[0] != PICKLED


def test_containers_that_hold_themselves_do_so_again():
    a_list, a_dict = [], {}
    a_list.append(a_list)
    a_dict["self"] = (a_dict,)
    assert (again := OBJECT.deserialize(OBJECT.serialize(a_list)))[0] is again
    assert (again := OBJECT.deserialize(OBJECT.serialize(a_dict)))["self"][0] is again
    outer = [1, {"in": a_list}]
    inner = OBJECT.deserialize(OBJECT.serialize(outer))[1]["in"]
    assert inner[0] is inner


def test_sharing_a_thousand_times_over_ends_soon():
    value = [1]
    for _ in range(100):
        value = [value, value]
    again = OBJECT.deserialize(OBJECT.serialize(value))
    assert again[0] is again[1]


def nested(depth):
    value = 1
    for _ in range(depth):
        value = [value]
    return value


def test_values_nest_as_deep_as_pickle_goes_and_then_are_refused():
    for depth in (1, 127, 128, 129, 200):
        data = OBJECT.serialize(nested(depth))
        assert (data[0] == PICKLED) == (depth > 128)
        assert OBJECT.deserialize(data) == nested(depth)
    with pytest.raises(ValueError, match="it nests too deep to be pickled"):
        OBJECT.serialize(nested(100_000))
    with pytest.raises(CorruptDataError, match="nests deeper than 128 levels"):
        OBJECT.deserialize(b"\x51" * 200 + b"\x60")


# --- wherever a type goes


@pytest.mark.parametrize(
    ("flink_type", "value"),
    [
        (Types.ROW([OBJECT, Types.INT(), OBJECT]), fb.Row({"a": [1.0]}, 5, None)),
        (Types.TUPLE([OBJECT, OBJECT]), (None, ("x", True))),
        (Types.LIST(OBJECT), [1, "a", None, (2.5,)]),
        (Types.MAP(OBJECT, OBJECT), {"a": 1, 2: None, (3, "x"): [4]}),
        (Types.SET(OBJECT), {1, "a", None, (2,)}),
        (Types.NULLABLE(OBJECT), ["x"]),
        (Types.STREAM_ELEMENT(OBJECT), fb.types.StreamRecord(("JFK", 1.5), 7)),
        (Types.EITHER(OBJECT, Types.INT()), fb.types.Left({1: 2})),
    ],
    ids=lambda x: x.kind if hasattr(x, "kind") else "",
)
def test_an_undeclared_field_holds_anything(flink_type, value):
    data = flink_type.serialize(value)
    assert same(flink_type.deserialize(data), value) if isinstance(value, (tuple, list)) else True
    assert flink_type.deserialize(data) == value and flink_type.codec.skip(data) == len(data)


@pytest.mark.parametrize("segment_size", [4096, 32768])
def test_records_cross_buffers_at_any_place(segment_size):
    records = [("text", i, i / 7, None, {"list": list(range(i % 50))}, "x" * (i % 3000)) for i in range(500)]
    records += [Colour.RED, "é" * 9000, [1.0] * 5000]
    config = fb.NetworkConfig(segment_size=segment_size)
    buffers = fb.write_buffers(records, OBJECT, 1, "forward", config=config)
    assert list(fb.read_buffers([buffer for _, buffer in buffers], OBJECT)) == records


def test_types_that_differ_in_trust_are_equal_and_say_so():
    assert object_type(trusted=False) == OBJECT and repr(OBJECT) == "object_type()"
    assert repr(object_type(trusted=False)) == "object_type(trusted=False)"
    assert not pickle.loads(pickle.dumps(object_type(trusted=False))).trusted


# --- any bytes


def test_a_pickle_of_a_stranger_is_never_unpickled():
    stranger = object_type(trusted=False)
    assert stranger.deserialize(OBJECT.serialize(("a", [1]))) == ("a", [1])
    with pytest.raises(CorruptDataError, match="not unpickled; set a secret on both sides, or declare the type"):
        stranger.deserialize(OBJECT.serialize(Colour.RED))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "end inside"),
        (b"\xff", "no value begins with 0xff"),
        (b"\x84\x60", "no value begins with 0x84"),
        (b"\x41\x82\x00\x00\x00\x00", "no value begins with 0x82"),
        (b"\x02a\x80", "ASCII"),
        (b"\x78\x05\x00\x00\x00\x60", "a count of 5, but only 1 bytes"),
        (b"\x74\x01\x00\x00\x00\x00\x00\x11\x00", "U\\+10FFFF"),
        (b"\x7c\xe7\x07\x02\x1e", "no date"),
        (b"\x80\x01\x00\x00\x00x", "no text of a Decimal"),
        (b"\x7b\x01\x00\x00\x00\x50\x60", "unhashable"),
        (b"\x79\x01\x00\x00\x00\x7b\x00\x00\x00\x00", "unhashable"),
        (b"\x79\x02\x00\x00\x00\x62\x68\x01", "1 of 2 elements are equal"),
        (b"\x7b\x02\x00\x00\x00\x62\x60\x68\x01\x60", "1 of 2 keys are equal"),
        (b"\x81\x00\x01\x02\x00\x00\x00\x0a\x00\x00\x00\x01\x00\x00\x00a\x01\x00\x00\x00a\x60\x60", "must differ"),
        (b"\x81\x00\x01\x01\x00\x00\x00\x05\x00\x00\x00\x01\x00\x00\x00\xff\x60", "UTF-8"),
    ],
)
def test_damaged_bytes_are_an_error_that_says_what(data, message):
    with pytest.raises(CorruptDataError, match=message):
        OBJECT.deserialize(data)


STRANGER = object_type(trusted=False)
LOOKED_INTO_LATER = ("equal to others", "unhashable", "Decimal", "UTF-8", "must differ", "pickled value")


def check_any_bytes(data):
    """Decoding ends in a value or in CorruptDataError, and skip says the same but of what it does not look into."""
    try:
        size = STRANGER.codec.skip(data)
    except CorruptDataError:
        with pytest.raises(CorruptDataError):
            STRANGER.deserialize(data)
        return
    try:
        value = STRANGER.deserialize(data[:size])
    except CorruptDataError as error:
        assert any(words in str(error) for words in LOOKED_INTO_LATER), error
        return
    assert same(OBJECT.deserialize(OBJECT.serialize(value)), value)


TAGS = st.sampled_from([*range(0x40, 0x84), *range(4)])


@settings(max_examples=1500, deadline=None)
@given(st.binary(max_size=60) | st.lists(TAGS | st.integers(0, 255) | st.just(0), max_size=60).map(bytes))
def test_any_bytes_are_a_value_or_corrupt(data):
    check_any_bytes(data)


@settings(max_examples=500, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(VALUES, st.data())
def test_damaged_values_are_a_value_or_corrupt(value, data):
    damaged = bytearray(OBJECT.serialize(value))
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    check_any_bytes(bytes(damaged))
    check_any_bytes(bytes(damaged[: data.draw(st.integers(0, len(damaged)))]))


# --- user code that runs on the way, references


def test_exceptions_of_user_code_pass_unchanged():
    class Odd:
        def __reduce_ex__(self, protocol):
            raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        OBJECT.serialize([Odd()])


GOOD = {
    "leaves": (1, 10**30, "text", "é\U0001f600", b"b", bytearray(b"x"), 1.5, decimal.Decimal("1.5"), True, None),
    "times": [datetime.date(2024, 1, 1), datetime.datetime(2024, 1, 1, tzinfo=UTC), datetime.timedelta(1)],
    "containers": {"a": [1, (2, {3}), frozenset({"x"})], 5: {"b": []}},
    "rows": [fb.Row(1, "x"), fb.Row(a=1, b=["y"]), fb.Row.of_kind("-D", a=1, b=None)],
    "many held lists": [[i] for i in range(100)],
    "pickled": [Colour.RED, 3 + 4j],
    "shared": [[1]] * 2,
}


@pytest.mark.parametrize("name", GOOD)
def test_no_reference_is_lost_or_kept_in_many_rounds(name):
    good, bad = GOOD[name], [GOOD[name], (x for x in ())]
    data = OBJECT.serialize(good)
    watched = [good, None, True, fb.Row, *good, *(good.values() if isinstance(good, dict) else ())]

    def rounds(count):
        for _ in range(count):
            OBJECT.serialize(good)
            OBJECT.deserialize(data)
            for refused in (lambda: OBJECT.serialize(bad), lambda: OBJECT.deserialize(data[:-1])):
                with contextlib.suppress(Exception):
                    refused()

    rounds(50)
    gc.collect()
    before, blocks = [sys.getrefcount(each) for each in watched], sys.getallocatedblocks()
    rounds(1000)
    gc.collect()
    after = [sys.getrefcount(each) for each in watched]
    assert all(abs(a - b) < 50 for a, b in zip(before, after, strict=True)), (before, after)
    assert sys.getallocatedblocks() - blocks < 500


def test_a_codec_without_classes_of_rows_pickles_rows():
    codec = TypeCodec("OBJECT")
    assert codec.serialize(fb.Row(1))[0] == PICKLED and codec.deserialize(codec.serialize(fb.Row(1))) == fb.Row(1)
