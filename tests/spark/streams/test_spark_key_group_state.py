"""The tables of a key group and its log, without Spark: against plain dicts, with any history, read at any point."""

import array
import copy
import datetime
import enum
import math
import random
import struct
from decimal import Decimal

import pytest

pytest.importorskip("pyspark.sql").functions

from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from pyspark.sql.types import Row, UserDefinedType  # noqa: E402

from flinkbuf.errors import CorruptDataError  # noqa: E402
from flinkbuf.spark.streams import key_group_state as state_module  # noqa: E402
from flinkbuf.spark.streams.key_group_state import (  # noqa: E402
    TIMERS,
    Head,
    KeyGroupState,
    log_is_long,
    read_segment,
    write_segment,
)

KEYS = st.sampled_from([("a",), ("b",), (None,)])
BELOW = st.integers(0, 3)
NUMBERS = st.integers(0, 9)
STEPS = st.one_of(
    st.tuples(st.just("put"), KEYS, NUMBERS),
    st.tuples(st.just("remove"), KEYS),
    st.tuples(st.just("put_below"), KEYS, BELOW, NUMBERS),
    st.tuples(st.just("remove_below"), KEYS, BELOW),
    st.tuples(st.just("clear"), KEYS),
    st.tuples(st.just("clear_all")),
    st.tuples(st.just("register"), KEYS, NUMBERS),
    st.tuples(st.just("delete"), KEYS, NUMBERS),
    st.tuples(st.just("commit")),
)


def new_state():
    state = KeyGroupState()
    state.settle()
    tables(state)
    return state


def tables(state):
    return state.table("state.flat", "value: bigint"), state.table("state.map", "map: int to bigint")


class Model:
    """The same in plain dicts."""

    def __init__(self):
        self.flat, self.map, self.timers = {}, {}, {}

    def as_values(self):
        return (
            self.flat,
            {key: list(entries.items()) for key, entries in self.map.items() if entries},
            {key: sorted(times) for key, times in self.timers.items() if times},
        )


def values_of(state):
    flat, nested = tables(state)
    return (
        flat.rows,
        {key: list(entries.items()) for key, entries in nested.rows.items()},
        {key: sorted(times) for key, times in state.tables[TIMERS].rows.items()},
    )


def play(step, state, model):
    flat, nested = tables(state)
    match step:
        case ("put", key, number):
            flat.put(key, (number,))
            model.flat[key] = (number,)
        case ("remove", key):
            flat.remove(key)
            model.flat.pop(key, None)
        case ("put_below", key, below, number):
            nested.put(key, (below,), (number,))
            model.map.setdefault(key, {})[below,] = (number,)
        case ("remove_below", key, below):
            nested.remove(key, (below,))
            model.map.get(key, {}).pop((below,), None)
        case ("clear", key):
            nested.clear(key)
            model.map.pop(key, None)
        case ("clear_all",):
            flat.clear_all()
            nested.clear_all()
            model.flat, model.map = {}, {}
        case ("register", key, at):
            state.timers.register(key, at)
            model.timers.setdefault(key, set()).add(at)
        case ("delete", key, at):
            state.timers.delete(key, at)
            model.timers.get(key, set()).discard(at)


@given(st.lists(STEPS, max_size=40))
def test_whoever_reads_the_log_has_the_same_state_in_the_same_order(steps):
    state, model, follower, log = new_state(), Model(), new_state(), []
    for step in [*steps, ("commit",)]:
        if step[0] != "commit":
            play(step, state, model)
            continue
        assert values_of(state) == model.as_values()
        log.append(write_segment(len(log), len(log) + 1, state.take_changes()))
        assert state.take_changes() == {}
        parent, token, changes = read_segment(log[-1], "it")
        assert (parent, token) == (len(log) - 1, len(log))
        follower.apply(changes)
        assert values_of(follower) == model.as_values()
    whole = new_state()
    for piece in state.pieces():
        whole.apply(read_segment(write_segment(0, 1, piece), "it")[2])
    assert values_of(whole) == model.as_values()
    whole.settle()
    due = [(at, key) for key, times in model.timers.items() for at in times if at <= 5]
    assert sorted(whole.timers.take_due(5), key=repr) == sorted(due, key=repr)


@given(st.lists(STEPS, max_size=40), st.integers(1, 4))
def test_the_whole_state_is_written_in_pieces_of_any_size(steps, size):
    state, model = new_state(), Model()
    for step in steps:
        play(step, state, model)
    before, state_module._PIECE = state_module._PIECE, size
    try:
        whole = new_state()
        for piece in state.pieces():
            whole.apply(piece)
    finally:
        state_module._PIECE = before
    assert values_of(whole) == model.as_values()


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.one_of(st.tuples(st.just("put"), KEYS), st.tuples(st.just("remove"), KEYS))),
        max_size=30,
    )
)
def test_an_entry_is_over_when_its_time_to_live_is(steps):
    state, model, now = KeyGroupState(), {}, 0
    flat = state.table("state.flat", "expiring value: bigint")
    nested = state.table("state.list", "expiring list: bigint")
    for passed, (what, key) in steps:
        now += passed
        for table in (flat, nested):
            table.ttl_ms, table.now_ms = 5, now
        if what == "put":
            flat.put(key, (now,))
            nested.put(key, 0, (now,))
            model[key] = now
        else:
            flat.remove(key)
            nested.remove(key, 0)
            model.pop(key, None)
        for each in [("a",), ("b",), (None,)]:
            alive = (model[each],) if each in model and now < model[each] + 5 else None
            assert flat.get(each) == nested.get(each, 0) == alive
            assert nested.entries(each) == ({} if alive is None else {0: alive})
        for table in (flat, nested):
            table.sweep()
        ends = [written + 5 for written in model.values() if written + 5 > now]
        assert flat.expiry.first_ms == nested.expiry.first_ms == min(ends, default=None)
        assert len(flat.rows) == len(nested.rows) == len(ends)
    other = KeyGroupState()
    other.table("state.flat", "expiring value: bigint")
    other.table("state.list", "expiring list: bigint")
    for name, changes in read_segment(write_segment(0, 1, state.take_changes()), "it")[2].items():
        other.apply({name: changes})
    other.settle()
    assert other.tables["state.flat"].rows == flat.rows
    assert other.tables["state.list"].rows == nested.rows
    assert other.tables["state.flat"].expiry.first_ms == flat.expiry.first_ms


def test_timers_set_while_others_fire_are_not_due_before_the_next_call():
    state = new_state()
    for at in (3, 1, 2, 9):
        state.timers.register(("a",), at)
    state.timers.register((None,), 2)
    due = state.timers.take_due(3)
    assert [at for at, _ in due] == [1, 2, 2, 3]
    state.timers.register(("a",), 0)
    state.timers.register(("a",), 1)  # still there: the one that fires
    for at, key in due:
        state.timers.delete(key, at)
    assert state.timers.first_ms() == 0
    assert state.timers.take_due(3) == [(0, ("a",))]
    state.timers.delete(("a",), 0)
    assert state.timers.first_ms() == 9


def test_a_timer_that_was_deleted_and_set_again_fires_once():
    state = new_state()
    state.timers.register(("a",), 1)
    state.timers.delete(("a",), 1)
    state.timers.register(("a",), 1)
    assert state.timers.take_due(1) == [(1, ("a",))]


def test_other_bytes_than_a_segment_are_refused():
    data = write_segment(1, 2, {})
    assert read_segment(data, "it") == (1, 2, {})
    with pytest.raises(CorruptDataError, match="it is no segment"):
        read_segment(b"x" + data, "it")
    for place in range(5, len(data)):
        broken = bytearray(data)
        broken[place] ^= 1
        with pytest.raises(CorruptDataError, match="checksum"):
            read_segment(bytes(broken), "it")


def test_a_state_of_another_type_is_refused():
    state = new_state()
    with pytest.raises(TypeError, match="the state 'flat' as value: bigint, and the program asks for list: bigint"):
        state.table("state.flat", "list: bigint")


def test_the_log_is_as_long_as_what_it_began_with():
    head = Head(2, 1, 0, 3, 5, whole_bytes=100_000, later_bytes=60_000, watermark=0, timer=-1)
    assert not log_is_long(head, 40_000)
    assert log_is_long(head, 40_001)
    assert not log_is_long(head._replace(whole_bytes=0, later_bytes=0), 1000)


def test_nan_is_a_key():
    from pyspark.sql.types import StructType

    from flinkbuf.spark.streams.values import as_lookup, from_lookup

    schema = StructType().add("d", "double").add("s", "string")
    assert as_lookup((float("nan"), "NaN")) == as_lookup((math.nan, "NaN"))
    assert math.copysign(1, as_lookup((-0.0, None))[0]) == 1
    value, text = from_lookup(as_lookup((float("nan"), "NaN")), schema)
    assert math.isnan(value) and text == "NaN"
    assert copy.copy(from_lookup(as_lookup((1.5, None)), schema)) == (1.5, None)


@pytest.mark.parametrize("seed", range(4))
def test_many_timers_are_due_in_order_of_time_and_once(seed):
    draw, state, model, now = random.Random(seed), new_state(), {}, 0
    for _ in range(12):
        for _ in range(draw.choice([3, 40, 2500])):
            key, at = (draw.randrange(50),), now + draw.randrange(-5, draw.choice([50, 5000]))
            if draw.random() < 0.3 and model.get(key):
                at = draw.choice(sorted(model[key]))
                state.timers.delete(key, at)
                model[key].discard(at)
            else:
                state.timers.register(key, at)
                model.setdefault(key, set()).add(at)
        expected = sorted((at, key) for key, times in model.items() for at in times)
        assert state.timers.first_ms() == next((at for at, _ in expected), None)
        now += draw.choice([0, 1, 30, 2000])
        due = [(at, key) for at, key in state.timers.take_due(now)]
        assert [at for at, _ in due] == sorted(at for at, _ in due)
        assert sorted(set(due)) == [timer for timer in expected if timer[0] <= now]
        for at, key in due:
            if state.timers.is_registered(key, at):
                state.timers.delete(key, at)
                model[key].remove(at)
        assert not any(at <= now for times in model.values() for at in times)


KINDS = {  # values that are kept as they are, and others that are refused
    "byte": ([-128, 127], [-129, 128, True, 1.0, "1"]),
    "short": ([-(1 << 15), (1 << 15) - 1], [1 << 15, False, b"1"]),
    "integer": ([-(1 << 31), (1 << 31) - 1], [-(1 << 31) - 1, 1 << 31, 0.0]),
    "long": ([-(1 << 63), (1 << 63) - 1], [-(1 << 63) - 1, 1 << 63, 1 << 200, True]),
    "double": ([1.5, math.inf], [1, "1"]),
    "boolean": ([True, False], [1, 0]),
    "string": (["", "é\0"], [b"", 1]),
    "binary": ([b"", b"\0"], ["", 1]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_value_is_kept_as_it_is_or_refused(kind):
    from pyspark.sql.types import StructType

    from flinkbuf.spark.streams.values import StateValues

    values = StateValues(StructType().add("a", kind).add("b", kind, nullable=False), "the state 'it'")
    good, bad = KINDS[kind]
    for value in good:
        for pair in ((value, value), (None, value)):
            assert values.stored(pair) is pair and values.given(pair) == pair
        assert values.stored([value, value]) == (value, value)
    for value in [*bad, None]:
        with pytest.raises((TypeError, ValueError), match="the state 'it', field 'b'"):
            values.stored((good[0], value))
    for other in ((good[0],), (good[0],) * 3):
        with pytest.raises(ValueError, match="takes 2 values"):
            values.stored(other)


class Color(str, enum.Enum):
    RED = "red"


class Text(str):
    pass


class Bytes(bytes):
    pass


class Number(enum.IntEnum):
    ONE = 1


class Price(Decimal):
    pass


OWN_CLASSES = [("string", Color.RED, "red"), ("string", Text("é"), "é"), ("array", [Text("a")], ["a"])]
OWN_CLASSES += [("map", {Color.RED: Text("b")}, {"red": "b"}), ("struct", (Text("a"),), ("a",))]


@pytest.mark.parametrize(("kind", "value", "expected"), OWN_CLASSES)
def test_a_string_of_a_class_of_its_own_is_kept_as_a_string_that_a_checkpoint_holds(kind, value, expected):
    values = values_of_type(kind)
    state = KeyGroupState()
    state.table("state.it", f"value: {values.description}").put(("a",), values.stored((value,)))
    other = KeyGroupState()
    other.apply(read_segment(write_segment(0, 1, state.take_changes()), "it")[2])
    (found,) = values.given(other.tables["state.it"].get(("a",)))
    assert found == expected and repr(list(found)) == repr(list(expected))
    if kind == "string":
        assert type(found) is str


REFUSED = [("long", Number.ONE), ("binary", Bytes(b"a")), ("decimal(5,2)", Price(1)), ("integer", Number.ONE)]
REFUSED += [
    (kind, Decimal(value)) for kind in ("decimal(5,2)", "decimal(38,0)") for value in ("NaN", "sNaN", "-Infinity")
]


@pytest.mark.parametrize(("kind", "value"), REFUSED)
def test_what_a_checkpoint_does_not_hold_is_refused_where_it_is_kept(kind, value):
    with pytest.raises((TypeError, ValueError), match="the state 'it', field 'a'"):
        values_of_type(kind).stored((value,))


def test_a_segment_never_has_a_pickle():
    state = new_state()
    state.table("state.text", "value: string").put(("a",), (Text("a"),))
    with pytest.raises(TypeError, match="keep builtin values in state"):
        write_segment(0, 1, state.take_changes())


def values_of_type(kind, class_name="StateValues"):
    from pyspark.sql import types
    from pyspark.sql.types import ArrayType, MapType, StringType, StructType

    from flinkbuf.spark.streams import values

    text, price = StringType(), types.DecimalType(5, 2)
    nested = {
        "array": ArrayType(text),
        "map": MapType(text, text),
        "struct": StructType().add("a", "string"),
        "varchar": types.VarcharType(3),
        "prices": ArrayType(price),
        "price struct": StructType().add("a", price).add("b", ArrayType(StructType().add("c", price))),
        "price map": MapType(price, price),
        "floats": ArrayType(types.FloatType()),
        "float map": MapType(types.FloatType(), text),
        "doubles": ArrayType(types.DoubleType()),
        "double struct": StructType().add("a", ArrayType(types.DoubleType())),
        "dates": ArrayType(types.DateType()),
        "times": MapType(types.TimestampNTZType(), types.DayTimeIntervalType()),
        "point": Point(),
        "points": ArrayType(Point()),
        "variant": types.VariantType(),
    }
    return getattr(values, class_name)(StructType().add("a", nested.get(kind, kind)), "the state 'it'")


class Place:
    def __init__(self, x, y):
        self.x, self.y = x, y
        self.both = [x, y]

    def __repr__(self):
        return f"Place({self.x}, {self.y})"


class Point(UserDefinedType):
    """Gives one list twice, as it may."""

    @classmethod
    def sqlType(cls):
        from pyspark.sql.types import ArrayType, DoubleType

        return ArrayType(ArrayType(DoubleType()))

    @classmethod
    def module(cls):
        return __name__

    def serialize(self, obj):
        return [obj.both, obj.both]

    def deserialize(self, datum):
        return Place(*datum[1])


Place.__UDT__ = Point()
PARTS = [  # of one type, what is given, and what comes back
    ("prices", [Decimal("1.2"), None, Decimal("-0.005E3")], [Decimal("1.20"), None, Decimal("-5.00")]),
    ("price struct", (Decimal(1), [{"c": Decimal("2.5")}]), Row(a=Decimal("1.00"), b=[Row(c=Decimal("2.50"))])),
    ("price struct", {"b": None}, Row(a=None, b=None)),
    ("price map", {Decimal("1.5"): Decimal(2)}, {Decimal("1.50"): Decimal("2.00")}),
    ("floats", [0.1, None, math.inf], [0.10000000149011612, None, math.inf]),
    ("doubles", array.array("d", [0.1]), [0.1]),
    ("doubles", (0.1, None), [0.1, None]),
    ("dates", [datetime.date(2020, 1, 2), None], [datetime.date(2020, 1, 2), None]),
    ("times", {datetime.datetime(2020, 1, 2, 3): None}, {datetime.datetime(2020, 1, 2, 3): None}),
    ("varchar", Text("abc"), "abc"),
    ("point", Place(1.5, -0.0), Place(1.5, -0.0)),
    ("points", [None, Place(1.5, 2.5)], [None, Place(1.5, 2.5)]),
]


@pytest.mark.parametrize(("kind", "value", "expected"), PARTS)
def test_what_is_inside_of_a_value_is_brought_to_its_type(kind, value, expected):
    values = values_of_type(kind)
    kept = values.stored((value,))
    hash(kept)
    (found,) = values.given(kept)
    assert repr(found) == repr(expected)  # equal decimals may have other digits
    assert values.stored((found,)) == kept
    assert read_segment(write_segment(0, 1, {"s": ("value: x", {("k",): kept, ("l",): kept}, [])}), "it")


@pytest.mark.parametrize(
    ("kind", "value", "told"),
    [
        ("array", [1], "1 is no string"),
        ("map", {"a": 5}, "5 is no string"),
        ("map", {5: "a"}, "5 is no string"),
        ("struct", (b"a",), "b'a' is no string"),
        ("struct", {"a": True}, "True is no string"),
        ("varchar", 1, "1 is no string"),
        ("prices", [Decimal("1.234")], r"1\.234 does not fit into decimal\(5,2\)"),
        ("prices", [Decimal("NaN")], "NaN is no number"),
        ("price struct", (None, [(Decimal(1000),)]), "1000 does not fit"),
        ("price map", {Decimal("0.001"): None}, r"0\.001 does not fit"),
        ("floats", [-1e300], "does not fit into a float of 32 bits"),
        ("float", 1e300, "does not fit into a float of 32 bits"),
        ("doubles", [1], "can not accept object 1"),
        ("float map", {0.1: "a", 0.10000000149011612: "b"}, "two keys .* become one"),
        ("variant", object(), "is no VariantVal"),
    ],
)
def test_what_is_inside_of_a_value_and_does_not_fit_is_refused(kind, value, told):
    with pytest.raises((TypeError, ValueError), match=f"the state 'it', field 'a'.*{told}"):
        values_of_type(kind).stored((value,))


@pytest.mark.parametrize("kind", ["floats", "doubles", "double struct"])
def test_floats_inside_of_keys_are_equal_where_users_see_equal_ones(kind):
    keys, others = values_of_type(kind, "StateKeys"), values_of_type(kind)
    negative_nan = struct.unpack("d", struct.pack("Q", 0xFFF8000000000001))[0]
    zeros, nans = [([each],) if kind == "double struct" else [each] for each in (0.0, -0.0)], []
    nans += [([each],) if kind == "double struct" else [each] for each in (math.nan, negative_nan)]
    for first, second in (zeros, nans):
        assert keys.stored((first,)) == keys.stored((second,))
    assert others.stored((zeros[0],)) != others.stored((zeros[1],))


def test_a_state_that_was_deleted_is_refused():
    from pyspark.sql.types import StructType

    from flinkbuf.spark.streams.handle import Handle

    handle = Handle(False, False, lambda ddl: StructType().add("n", "long"))
    states = [handle.getValueState("v", "n bigint"), handle.getListState("l", "n bigint")]
    states.append(handle.getMapState("m", "n bigint", "n bigint"))
    for name in "vlm":
        handle.deleteIfExists(name)
    handle.close_init()
    handle.visit(KeyGroupState(), 0)
    for state in states:
        with pytest.raises(RuntimeError, match="belongs to a key"):
            state.exists()
    handle.current.key = ("a",)
    for state in states:
        for method in (state.exists, state.clear):
            with pytest.raises(RuntimeError, match="was deleted"):
                method()
