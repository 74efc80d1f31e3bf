"""What type descriptions promise, how Spark's and pyarrow's are read, and what is taken from a sample of records."""

import copy
import datetime
import decimal
import enum
import math
import pickle
import random
import subprocess
import sys
from collections import namedtuple

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flinkbuf.types.types
from flinkbuf.types.types import NullableTypeInfo, TypeInformation, Types, as_type, column_dtype, infer_type
from flinkbuf.types.values import (
    Instant,
    InternalWatermark,
    JavaDate,
    LatencyMarker,
    Left,
    LocalDate,
    LocalDateTime,
    LocalTime,
    RecordAttributes,
    Right,
    Row,
    SqlDate,
    SqlTime,
    SqlTimestamp,
    StreamRecord,
    Watermark,
    WatermarkStatus,
)

UTC = datetime.timezone.utc
BASIC = [name for name in vars(Types) if name.isupper() and not getattr(Types, name).__code__.co_argcount]
PRIMITIVES = ["BOOLEAN", "BYTE", "SHORT", "CHAR", "INT", "LONG", "FLOAT", "DOUBLE"]

Color = enum.Enum("Color", ["RED", "GREEN"])


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


# What can be in a Python set.
basic = st.sampled_from(BASIC).map(lambda name: getattr(Types, name)())
hashable = basic | st.lists(basic, min_size=1, max_size=3).map(Types.TUPLE) | st.builds(Types.NULLABLE, basic)


def _compose(children):
    some = st.lists(children, min_size=1, max_size=3)
    names = st.lists(st.text(max_size=4), unique=True, min_size=3, max_size=3)
    return st.one_of(
        st.builds(Types.LIST, children),
        st.builds(Types.SET, hashable),
        st.builds(Types.OBJECT_ARRAY, children),
        st.builds(Types.MAP, hashable, children),
        st.builds(Types.EITHER, children, children),
        st.builds(Types.NULLABLE, children, st.booleans()),
        st.builds(Types.STREAM_ELEMENT, children),
        st.builds(Types.TUPLE, some),
        st.builds(Types.ROW, some),
        st.builds(lambda names, types: Types.ROW_NAMED(names[: len(types)], types), names, some),
    )


primitives = st.sampled_from(PRIMITIVES).map(lambda name: getattr(Types, name)())
leaves = st.one_of(
    basic,
    st.builds(Types.PRIMITIVE_ARRAY, primitives, st.booleans()),
    st.builds(Types.BASIC_ARRAY, st.one_of(primitives, st.just(Types.STRING()))),
    st.lists(st.text(max_size=3), min_size=1, max_size=3, unique=True).map(Types.ENUM),
    st.sampled_from([Types.ENUM(Color), Types.ENUM(Level)]),
)
types = st.recursive(leaves, _compose, max_leaves=6)


# --- descriptions


@given(types)
def test_repr_evaluates_to_an_equal_type(described):
    assert eval(repr(described)) == described


@given(types)
def test_types_pickle_copy_and_hash_as_themselves(described):
    for again in (pickle.loads(pickle.dumps(described)), copy.deepcopy(described), copy.copy(described)):
        assert again == described and hash(again) == hash(described) and repr(again) == repr(described)


@given(types, types)
def test_types_are_equal_exactly_if_they_print_the_same(one, other):
    assert (one == other) == (repr(one) == repr(other))


@given(types)
def test_as_type_of_a_type_is_that_type(described):
    assert as_type(described) is described


@pytest.mark.parametrize("name", BASIC)
def test_a_type_without_parts_exists_once_and_its_factory_says_what_it_holds(name):
    factory = getattr(Types, name)
    assert factory() is factory() and repr(factory()) == f"Types.{name}()"
    assert "Flink's" in factory.__doc__


def test_all_of_pyflinks_names_are_there():
    pyflink = """STRING BYTE BOOLEAN SHORT INT LONG FLOAT DOUBLE CHAR BIG_INT BIG_DEC SQL_DATE SQL_TIME SQL_TIMESTAMP
    INSTANT ROW ROW_NAMED TUPLE PRIMITIVE_ARRAY BASIC_ARRAY OBJECT_ARRAY MAP LIST PICKLED_BYTE_ARRAY"""
    assert not [name for name in pyflink.split() if not hasattr(Types, name)]


def test_types_cannot_be_changed():
    with pytest.raises(AttributeError):
        Types.LIST("int").element_type = Types.LONG()
    with pytest.raises((AttributeError, TypeError)):
        Types.INT().extra = 1


def test_a_type_with_its_codec_built_is_equal_to_one_without_and_pickles_without_it(monkeypatch):
    plain, used = Types.LIST(Types.INT()), Types.LIST(Types.INT())
    object.__setattr__(used, "_codec", object())  # an object() does not pickle to an equal one
    assert used == plain and hash(used) == hash(plain)
    assert not hasattr(pickle.loads(pickle.dumps(used)), "_codec")


def test_factories_take_whatever_as_type_reads():
    assert Types.LIST("int") == Types.LIST(Types.INT())
    assert Types.ROW_NAMED(iter(["a"]), iter(["array<int>"])) == as_type("a array<int>")
    assert Types.ENUM(x for x in "ab") == Types.ENUM(["a", "b"])


def test_fields_have_names_and_types():
    row = Types.ROW_NAMED(["a", "b"], ["int", "string"])
    assert row.field_names == ("a", "b") and row.field_types == (Types.INT(), Types.STRING())
    assert Types.ROW(["int"]).field_names == Types.TUPLE(["int"]).field_names == ("f0",)
    assert Types.ROW(["int"]) != Types.ROW_NAMED(["f0"], ["int"])


@pytest.mark.parametrize(
    "make, error, words",
    [
        (lambda: Types.ROW_NAMED(["a", "a"], ["int", "int"]), ValueError, "'a'"),
        (lambda: Types.ROW_NAMED(["a"], ["int", "int"]), ValueError, "1 field names .* for 2 types"),
        (lambda: Types.ROW_NAMED([1], ["int"]), TypeError, "field name must be a str, got 1"),
        (lambda: Types.PRIMITIVE_ARRAY("string"), TypeError, "not Types.STRING"),
        (lambda: Types.PRIMITIVE_ARRAY(Types.INT_VALUE()), TypeError, "not Types.INT_VALUE"),
        (lambda: Types.BASIC_ARRAY("date"), TypeError, "use OBJECT_ARRAY"),
        (lambda: Types.TUPLE([]), ValueError, "at least one field"),
        (lambda: Types.ENUM([]), ValueError, "at least one"),
        (lambda: Types.ENUM(["a", "a"]), ValueError, "differ"),
        (lambda: Types.ENUM("RED"), TypeError, "as a list"),
        (lambda: Types.ENUM(enum.Flag("F", ["A", "B"])), TypeError, "Flag"),
        (lambda: Types.LIST(int), TypeError, "a type is"),
        (lambda: Types.TUPLE([None]), TypeError, "a type is"),
        (lambda: TypeInformation().kind, TypeError, "describes no type"),
    ],
)
def test_a_wrong_description_is_refused_with_what_is_wrong(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_the_values_of_an_enum_are_in_order_of_their_ordinals_without_aliases():
    class WithAlias(enum.Enum):
        A = 2
        B = 1
        C = 2

    assert Types.ENUM(WithAlias).values == (WithAlias.A, WithAlias.B)


@pytest.mark.parametrize(
    "described, size",
    [
        (Types.INT(), 4),
        (Types.INSTANT(), 12),
        (Types.LOCAL_TIME(), 7),
        (Types.STRING(), None),
        (Types.TUPLE(["int", "bigint"]), 12),
        (Types.TUPLE(["int", "string"]), None),
        (Types.ROW(["int"]), None),
        (Types.ENUM(["a"]), 4),
        (Types.NULLABLE("int"), None),
        (Types.NULLABLE("int", padded=True), 5),
        (Types.NULLABLE("string", padded=True), None),
        (Types.TUPLE([Types.NULLABLE(Types.TUPLE(["int", "bigint"]), padded=True)]), 13),
    ],
)
def test_the_size_of_every_value_is_known_where_flink_knows_it(described, size):
    assert described.fixed_size == size


def test_a_padded_null_is_as_long_as_a_value():
    assert Types.NULLABLE("bigint", padded=True).padding == 8
    assert Types.NULLABLE("bigint").padding == Types.NULLABLE("string", padded=True).padding == 0


@pytest.mark.parametrize(
    "name, dtype",
    [
        ("BYTE", "i1"),
        ("SHORT", "i2"),
        ("INT", "i4"),
        ("LONG", "i8"),
        ("FLOAT", "f4"),
        ("DOUBLE", "f8"),
        ("LONG_VALUE", "i8"),
    ],
)
def test_a_column_of_numbers_has_a_numpy_type(name, dtype):
    assert column_dtype(getattr(Types, name)()) == numpy.dtype(dtype)


@pytest.mark.parametrize("described", [Types.STRING(), Types.BOOLEAN(), Types.CHAR(), Types.TUPLE(["int"])])
def test_what_is_no_number_has_no_column_type(described):
    with pytest.raises(TypeError, match="column of numbers"):
        column_dtype(described)


def test_importing_types_imports_neither_pyspark_nor_pyarrow_nor_pandas():
    script = (
        "import sys, flinkbuf.types.types as t; t.as_type('a int, b array<string>'); t.infer_type([(1, 'x')]);"
        "print([name for name in ('pyspark', 'pyarrow', 'pandas') if name in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True)
    assert out.stdout.strip() == "[]"


# --- values, by way of the codec


@pytest.mark.parametrize(
    "described, value",
    [
        (Types.TIMESTAMP_LTZ(), datetime.datetime(2024, 1, 1, tzinfo=UTC)),
        (Types.TIMESTAMP_LTZ(), Instant(1, 1)),
        (Types.INSTANT(), Instant(1, 0)),
        (Types.INSTANT(), Instant(1, 1)),
        (Types.LOCAL_DATE(), LocalDate(-5, 1, 1)),
        (Types.LOCAL_TIME(), LocalTime(1, 2, 3, 4)),
        (Types.LOCAL_DATE_TIME(), LocalDateTime(2024, 1, 1, nano=1)),
        (Types.DATE(), JavaDate(2**62)),
        (Types.SQL_DATE(), SqlDate(1)),
        (Types.SQL_TIME(), SqlTime(-1)),
        (Types.SQL_TIMESTAMP(), SqlTimestamp(0, 1)),
        (Types.ENUM(Color), Color.GREEN),
        (Types.EITHER("int", "string"), Right("x")),
        (Types.NULLABLE("int", padded=True), None),
        (Types.BASIC_ARRAY("string"), ["a", None]),
        (Types.BASIC_ARRAY("int"), [1, None]),
        (Types.STREAM_ELEMENT("int"), StreamRecord(5, None)),
        (Types.STREAM_ELEMENT("int"), Watermark(5)),
        (Types.STREAM_ELEMENT("int"), InternalWatermark(5, 1)),
        (Types.STREAM_ELEMENT("int"), LatencyMarker(5, bytes(range(16)), 1)),
        (Types.STREAM_ELEMENT("int"), WatermarkStatus.IDLE),
        (Types.STREAM_ELEMENT("int"), RecordAttributes(True)),
        (as_type("array<struct<a: int>>"), [None, Row(a=1)]),
        (as_type("map<string, date>"), {"a": None, "b": datetime.date(2024, 2, 29)}),
        (as_type("s string, b binary, d decimal(3, 2), n struct<x: int>"), Row(s=None, b=None, d=None, n=None)),
    ],
    ids=repr,
)
def test_a_type_gives_back_the_value_it_was_given_with_its_class(described, value):
    again = described.deserialize(described.serialize(value))
    assert again == value and type(again) is type(value)


def test_a_row_comes_back_with_names_and_kind_and_keeps_its_class():
    described = as_type("a int, b string")
    row = described.deserialize(described.serialize(Row.of_kind("-D", 1, None)))
    assert type(row) is type(Row.of_kind("-D", a=0, b=0)) and row.b is None
    assert type(Types.ROW(["int"]).deserialize(b"\x00\0\0\0\5")) is Row


@pytest.mark.parametrize("name", BASIC)
def test_none_is_written_exactly_where_the_type_says_so(name):
    described = getattr(Types, name)()
    if described.accepts_none:
        assert described.deserialize(described.serialize(None)) is None
    else:
        with pytest.raises(TypeError, match="None"):
            described.serialize(None)


@pytest.mark.parametrize("name", [name for name in BASIC if getattr(Types, name)().fixed_size is not None])
def test_a_fixed_size_is_what_the_codec_writes(name):
    described = getattr(Types, name)()
    values = {"BOOLEAN": True, "CHAR": "x", "DATE_DATA": datetime.date(2000, 1, 1), "TIME_DATA": datetime.time(1)}
    value = None if described.accepts_none else values.get(described.kind, 1)
    assert len(described.serialize(value)) == described.fixed_size
    assert len(Types.NULLABLE(described, padded=True).serialize(None)) == 1 + described.fixed_size


def test_the_codec_is_built_once_for_a_type():
    described = Types.LIST("int")
    assert described.codec is described.codec and Types.INT().codec is described.children[0].codec


@given(types)
def test_every_type_that_can_be_described_has_a_codec(described):
    assert described.codec.kind == described.kind


# --- Spark's DDL


@pytest.mark.parametrize(
    "ddl, described",
    [
        ("boolean", Types.BOOLEAN()),
        ("tinyint", Types.BYTE()),
        ("byte", Types.BYTE()),
        ("smallint", Types.SHORT()),
        ("int", Types.INT()),
        ("INTEGER", Types.INT()),
        ("bigint", Types.LONG()),
        ("float", Types.FLOAT()),
        ("double", Types.DOUBLE()),
        ("string", Types.STRING()),
        ("varchar(10)", Types.STRING()),
        ("binary", Types.PRIMITIVE_ARRAY(Types.BYTE())),
        ("decimal", Types.BIG_DEC()),
        ("decimal(10,2)", Types.BIG_DEC()),
        ("decimal( 10 , -2 )", Types.BIG_DEC()),
        ("date", Types.LOCAL_DATE()),
        ("time(6)", Types.LOCAL_TIME()),
        ("timestamp", Types.TIMESTAMP_LTZ()),
        ("timestamp_ntz", Types.LOCAL_DATE_TIME()),
        ("void", Types.VOID()),
        ("array<int>", Types.OBJECT_ARRAY(Types.INT())),
        ("map<string, array<date>>", Types.MAP(Types.STRING(), Types.OBJECT_ARRAY(Types.LOCAL_DATE()))),
        ("struct<a:int>", Types.ROW_NAMED(["a"], [Types.INT()])),
        ("struct<>", Types.ROW_NAMED([], [])),
        ("a int", Types.ROW_NAMED(["a"], [Types.INT()])),
        ("a: int, B string", Types.ROW_NAMED(["a", "B"], [Types.INT(), Types.STRING()])),
        ("date date", Types.ROW_NAMED(["date"], [Types.LOCAL_DATE()])),
        ("array array<int>", Types.ROW_NAMED(["array"], [Types.OBJECT_ARRAY(Types.INT())])),
        ("`a b``c` int", Types.ROW_NAMED(["a b`c"], [Types.INT()])),
        ("1st int", Types.ROW_NAMED(["1st"], [Types.INT()])),
        ("größe int", Types.ROW_NAMED(["größe"], [Types.INT()])),
        ("a int not null comment 'it''s, <x>', b int COMMENT \"q\"", as_type("a int, b int")),
        ("a string collate UTF8_LCASE not null, b int", as_type("a string, b int")),
        (
            "\n a\tint ,\n b struct < c : array < struct < d : int > > >\n",
            as_type("a int,b struct<c:array<struct<d:int>>>"),
        ),
        ("a timestamp_ltz(3), b timestamp_ntz(6), c decimal(9,2)", as_type("a timestamp, b timestamp_ntz, c decimal")),
    ],
)
def test_ddl_reads_as_spark_means_it(ddl, described):
    assert as_type(ddl) == described


@pytest.mark.parametrize(
    "ddl, position, words",
    [
        ("", 0, "a type must come here"),
        ("a", 0, "'a' is not a Spark type"),
        ("a int, b strin", 9, "'strin' is not a Spark type"),
        ("a int,", 6, "a column name must come here, got the end"),
        ("a int b int", 6, "got 'b'"),
        ("array<int", 9, "'>' must come here, got the end"),
        ("array<int>>", 10, "nothing may follow"),
        ("map<int>", 7, "',' must come here"),
        ("a varchar", 9, "needs a length"),
        ("a timestamp(3)", 11, "say timestamp_ltz(3), or timestamp_ntz(3)"),
        ("a timestamp_ltz(9)", 16, "at most 6 digits"),
        ("a int not", 9, "NULL must follow NOT"),
        ("a int comment x", 14, "quoted text"),
        ("a int; drop", 5, "';' does not belong here"),
        ("a int default 5", 6, "got 'default'"),
        ("a decimal(x)", 10, "a number must come here"),
    ],
)
def test_ddl_that_cannot_be_read_says_where_and_why(ddl, position, words):
    with pytest.raises(ValueError) as caught:
        as_type(ddl)
    assert f"at position {position}: " in str(caught.value) and words in str(caught.value)


@pytest.mark.parametrize("ddl", ["interval day to second", "a interval year to month", "variant", "a array<variant>"])
def test_what_flink_has_no_counterpart_for_is_a_type_error(ddl):
    with pytest.raises(TypeError, match="no counterpart in Flink; cast it first"):
        as_type(ddl)


def test_ddl_that_nests_without_end_is_refused_before_the_stack_is():
    with pytest.raises(ValueError, match="deeper than 100"):
        as_type("array<" * 100_000)
    assert as_type("array<" * 99 + "int" + ">" * 99).kind == "OBJECT_ARRAY"


@given(st.text(alphabet="abint <>(),:`'\"-", max_size=30))
def test_any_text_is_a_type_or_a_plain_error(text):
    try:
        assert isinstance(as_type(text), TypeInformation)
    except (ValueError, TypeError) as error:
        assert str(error)


def test_what_is_no_description_is_a_type_error_that_lists_what_is():
    for wrong in (5, None, int, object(), ["a int"], numpy.dtype("int64")):
        with pytest.raises(TypeError, match="Spark DDL string"):
            as_type(wrong)


# --- pyarrow


def test_pyarrow_schemas_fields_and_types_read_like_sparks():
    pa = pytest.importorskip("pyarrow")
    expected = {
        pa.bool_(): Types.BOOLEAN(),
        pa.int8(): Types.BYTE(),
        pa.int64(): Types.LONG(),
        pa.uint8(): Types.SHORT(),
        pa.uint32(): Types.LONG(),
        pa.uint64(): Types.BIG_INT(),
        pa.float16(): Types.FLOAT(),
        pa.float64(): Types.DOUBLE(),
        pa.string(): Types.STRING(),
        pa.large_string(): Types.STRING(),
        pa.null(): Types.VOID(),
        pa.binary(): as_type("binary"),
        pa.binary(4): as_type("binary"),
        pa.large_binary(): as_type("binary"),
        pa.decimal128(10, 2): Types.BIG_DEC(),
        pa.date32(): Types.LOCAL_DATE(),
        pa.time64("us"): Types.LOCAL_TIME(),
        pa.timestamp("us"): Types.LOCAL_DATE_TIME(),
        pa.timestamp("ns", "UTC"): Types.TIMESTAMP_LTZ(),
        pa.list_(pa.int32()): as_type("array<int>"),
        pa.large_list(pa.int32()): as_type("array<int>"),
        pa.list_(pa.int32(), 3): as_type("array<int>"),
        pa.map_(pa.string(), pa.int32()): as_type("map<string,int>"),
        pa.struct([("a", pa.int32())]): as_type("a int"),
        pa.dictionary(pa.int8(), pa.string()): Types.STRING(),
    }
    for arrow, described in expected.items():
        assert as_type(arrow) == described == as_type(pa.field("x", arrow)), arrow
    schema = pa.schema([(f"c{i}", arrow) for i, arrow in enumerate(expected)])
    assert as_type(schema) == Types.ROW_NAMED(schema.names, expected.values())


def test_a_pyarrow_type_without_a_counterpart_names_its_field():
    pa = pytest.importorskip("pyarrow")
    with pytest.raises(TypeError, match="duration.* of field 'a.b'"):
        as_type(pa.schema([("a", pa.struct([("b", pa.duration("s"))]))]))
    with pytest.raises(TypeError, match="Schema, Field or DataType"):
        as_type(pa.array([1]))


# --- a type from a sample

Point = namedtuple("Point", "x y")
NULLABLE_LONG = Types.NULLABLE(Types.LONG())
BYTES = Types.PRIMITIVE_ARRAY(Types.BYTE())


@pytest.mark.parametrize(
    "samples, described",
    [
        ([1, 2], Types.LONG()),
        ([1, 2**63 - 1, -(2**63)], Types.LONG()),
        ([1, 2**63], Types.BIG_INT()),
        ([1.5], Types.DOUBLE()),
        ([1.5, 2], Types.DOUBLE()),
        ([2**53, 0.5, math.inf], Types.DOUBLE()),
        ([True, False], Types.BOOLEAN()),
        (["a", None], Types.STRING()),
        ([1, None], NULLABLE_LONG),
        ([b"a", bytearray(b"b")], BYTES),
        ([decimal.Decimal("1.0"), None], Types.BIG_DEC()),
        ([datetime.date(2024, 1, 1)], Types.LOCAL_DATE()),
        ([datetime.date(2024, 1, 1), LocalDate(-5, 1, 1)], Types.LOCAL_DATE()),
        ([datetime.time(1)], Types.LOCAL_TIME()),
        ([datetime.datetime(2024, 1, 1)], Types.LOCAL_DATE_TIME()),
        ([datetime.datetime(2024, 1, 1, tzinfo=UTC), Instant(0, 1)], Types.TIMESTAMP_LTZ()),
        ([datetime.datetime(2024, 1, 1, tzinfo=UTC)], Types.TIMESTAMP_LTZ()),
        ([Instant(0), Instant(0, 1)], Types.INSTANT()),
        ([(1, "a"), (2, None)], Types.TUPLE(["bigint", "string"])),
        ([(1, "a"), (None, "b")], Types.TUPLE([NULLABLE_LONG, "string"])),
        ([(1,), None], Types.NULLABLE(Types.TUPLE(["bigint"]))),
        ([Row()], Types.ROW([])),
        (
            [(1, (2.0, None)), (1, (None, "x"))],
            Types.TUPLE(["bigint", Types.TUPLE([Types.NULLABLE("double"), "string"])]),
        ),
        ([Row(a=1, b=None), Row(a=None, b="x")], Types.ROW_NAMED(["a", "b"], ["bigint", "string"])),
        ([Row(1, None), Row.of_kind("-D", None, "x")], Types.ROW(["bigint", "string"])),
        ([Point(1, None), Point(None, 2.5)], Types.ROW_NAMED(["x", "y"], ["bigint", "double"])),
        ([[1], [], [2]], Types.LIST("bigint")),
        ([[1, None]], Types.LIST(NULLABLE_LONG)),
        ([["a", None]], Types.LIST("string")),
        ([{"a": 1, "b": None}], Types.MAP("string", "bigint")),
        ([{1, 2}, frozenset([3])], Types.SET("bigint")),
        ([{1, None}], Types.SET("bigint")),
        ([Color.RED, Color.GREEN], Types.ENUM(Color)),
        ([Level.LOW], Types.ENUM(Level)),
        ([Left(1), Right("a")], Types.EITHER("bigint", "string")),
        ([numpy.int32(5), 6], Types.LONG()),
        ([numpy.uint64(2**64 - 1)], Types.BIG_INT()),
        ([numpy.float32(0.5), numpy.int8(1)], Types.DOUBLE()),
        ([numpy.bool_(True), False], Types.BOOLEAN()),
        ([numpy.str_("x")], Types.STRING()),
        ([numpy.zeros(2), numpy.zeros(3)], Types.PRIMITIVE_ARRAY("double", numpy=True)),
        ([(b"\0", None), (None, [1.5])], Types.TUPLE([Types.NULLABLE(BYTES), Types.NULLABLE(Types.LIST("double"))])),
    ],
)
def test_a_sample_gives_the_type_that_holds_it(samples, described):
    assert infer_type(samples) == described
    shuffled = random.Random(5).sample(samples, len(samples))
    assert infer_type(shuffled) == described


def test_pysparks_rows_give_rows_with_their_names():
    spark = pytest.importorskip("pyspark.sql")
    assert infer_type([spark.Row(b=1, a="x")]) == Types.ROW_NAMED(["b", "a"], ["bigint", "string"])


@pytest.mark.parametrize(
    "samples, words",
    [
        ([], "there are no records"),
        ([None, None], "the record was None in all 2 samples"),
        ([(1, None), (2, None)], "field 1 was None in all 2 samples"),
        ([Row(a=1, b=None)], "field 'b' was None"),
        ([(1, "a"), (2, 5)], r"field 1 holds int \(5\) and str \('a'\), which no one type fits"),
        ([(1, (2, "a")), (1, (2, b"a"))], r"field 1 of field 1 holds bytes \(b'a'\) and str"),
        ([1, True], "the record holds bool .* and int"),
        ([0.5, True], "bool .* and float"),
        ([2**53 + 1, 0.5], "int 9007199254740993 is not exact as a float"),
        ([10**400, 0.5], "is not exact as a float"),
        ([numpy.int64(2**53 + 1), 0.5], "int 9007199254740993 is not exact as a float"),
        (
            [datetime.datetime(2024, 1, 1), datetime.datetime(2024, 1, 1, tzinfo=UTC)],
            "aware datetime .* and naive datetime",
        ),
        ([datetime.date(2024, 1, 1), datetime.datetime(2024, 1, 1)], "date .* and naive datetime"),
        ([datetime.time(1, tzinfo=UTC)], "whose zone Flink cannot keep"),
        ([[], []], "the record was empty in all samples, so the type of the element of the record is unknown"),
        ([([1],), ([None, "x"],)], "element of field 0 holds int .* and str"),
        ([{}], "the record was empty"),
        ([{"a": None}], "value of the record was None"),
        ([{"a": 1, "b": "x"}], "value of the record holds int .* and str .*ROW_NAMED"),
        ([(1, ())], "field 1 holds only tuples without fields"),
        ([(1,), (1, 2)], "tuples of 1 and 2 fields"),
        ([(1,), [1]], "list .* and tuple"),
        ([(1, 2), Point(1, 2)], "row with names .* and tuple"),
        ([Row(a=1), Row(b=1)], r"different fields, \['a'\] and \['b'\]"),
        ([Color.RED, Level.LOW], "enum Color .* and enum Level"),
        ([Left(1)], "never a Right"),
        ([object()], "holds object .* no type by itself.*PICKLED_BYTE_ARRAY"),
        ([StreamRecord(1)], "STREAM_ELEMENT"),
        ([1j], "complex"),
        ([numpy.zeros((2, 2))], "numpy array of float64, 2 dimensions"),
        ([numpy.zeros(2), numpy.zeros(2, "i4")], "float64, 1 dimensions .* and numpy array of int32"),
        ([datetime.timedelta(1)], "timedelta"),
    ],
)
def test_a_sample_that_no_type_fits_says_which_field_what_was_seen_and_what_to_do(samples, words):
    with pytest.raises(TypeError, match=words) as caught:
        infer_type(samples)
    assert "declare the type, such as type='origin string, delay double'" in str(caught.value)
    with pytest.raises(TypeError) as again:
        infer_type(samples[::-1])
    assert type(again.value) is type(caught.value)


def test_a_sample_that_nests_without_end_is_refused():
    endless = []
    endless.append(endless)
    with pytest.raises(TypeError, match="deeper than 100 levels"):
        infer_type([endless])


scalars = st.one_of(
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(),
    st.binary(),
    st.dates(),
    st.times(),
    st.datetimes(),
    st.decimals(allow_nan=False, allow_infinity=False),
)


@given(
    st.recursive(
        scalars,
        lambda inner: st.one_of(st.lists(inner, min_size=1, max_size=3).map(tuple), inner.map(lambda value: [value])),
        max_leaves=6,
    )
)
def test_one_record_always_gives_a_type_and_none_beside_it_only_adds_null(record):
    described = infer_type([record])
    with_none = infer_type([None, record])
    assert with_none == (described if described.accepts_none else NullableTypeInfo(described))


@given(st.recursive(scalars, lambda inner: st.lists(inner, min_size=1, max_size=3).map(tuple), max_leaves=6))
def test_a_record_comes_back_equal_through_the_type_inferred_from_it(record):
    described = infer_type([record])
    again = described.deserialize(described.serialize(record))
    assert again == record and repr(again) == repr(record).replace(", fold=1", "")  # Java's times have no fold


def test_the_public_names_are_those_that_are_listed():
    assert all(hasattr(flinkbuf.types.types, name) for name in flinkbuf.types.types.__all__)


def test_there_is_one_class_of_types_with_pyflinks_arguments():
    from flinkbuf.common import Types as of_pyflink

    assert flinkbuf.Types is of_pyflink
    made = Types.MAP(key_type_info="string", value_type_info=Types.LIST(element_type_info="int"))
    assert repr(made) == repr(Types.MAP("string", Types.LIST("int")))


def test_types_show_themselves_as_pyflink_does():
    nested = Types.ROW_NAMED(["a", "b"], [Types.TUPLE([Types.INT(), Types.BIG_DEC()]), Types.ROW([Types.SQL_DATE()])])
    assert str(nested) == "RowTypeInfo(a: TupleTypeInfo(Integer, BigDecimal), b: RowTypeInfo(DateTypeInfo))"
    assert str(Types.MAP(Types.STRING(), Types.BASIC_ARRAY(Types.STRING()))) == (
        "MapTypeInfo<String, BasicArrayTypeInfo<String>>"
    )
    assert str(Types.PRIMITIVE_ARRAY(Types.BYTE())) == "PrimitiveArrayTypeInfo<Byte>"


def test_a_row_type_tells_of_its_fields_as_pyflinks_does():
    row = Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.LONG()])
    assert row.get_field_names() == ["a", "b"]
    assert row.get_field_types() == [Types.INT(), Types.LONG()]
    assert row.get_field_index("b") == 1
    with pytest.raises(ValueError, match="not in"):
        row.get_field_index("c")
    assert Types.ROW([Types.INT()]).get_field_names() == ["f0"]
    assert Types.TUPLE([Types.INT()]).get_field_types() == [Types.INT()]
