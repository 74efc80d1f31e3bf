"""Keys that compare as their values do, the same from records and from columns; and the channels between bounds."""

import bisect
import datetime
import math
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkbuf._core.columns.arrow_column import batches_of
from flinkbuf._core.columns.range_selector import BatchRanges, RangeField, RangeSelector
from flinkbuf.records.arrow_batches import arrow_schema, record_type
from flinkbuf.types.types import Types, as_type


def selector_of(ddl, channel_count=1, bounds=(), **order):
    types = as_type(ddl).field_types
    fields = [RangeField(each.codec, index, f"f{index}", **order) for index, each in enumerate(types)]
    return RangeSelector(fields, channel_count, bounds)


def key(ddl, *values, **order):
    return selector_of(ddl, **order).key_of(values)


def in_order(value):
    """What Python compares in Spark's order: no value equals null, which is first."""
    if value is None:
        return (0,)
    if isinstance(value, float):
        return (1, math.isnan(value), 0.0 if math.isnan(value) else value)
    if isinstance(value, str):
        return (1, value.encode("utf-8", "surrogatepass"))
    if isinstance(value, (list, tuple)):
        return (1, [in_order(each) for each in value])
    return (1, value)


DECIMALS = st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**15), max_value=10**15, places=10)
VALUES = {
    "boolean": st.booleans(),
    "tinyint": st.integers(-128, 127),
    "smallint": st.integers(-(2**15), 2**15 - 1),
    "int": st.integers(-(2**31), 2**31 - 1),
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32),
    "double": st.floats(),
    "string": st.text(st.characters(exclude_categories=["Cs"])),
    "binary": st.binary(),
    "decimal(38, 18)": DECIMALS,
    "date": st.dates(),
    "timestamp_ntz": st.datetimes(),
    "timestamp": st.datetimes(timezones=st.just(datetime.timezone.utc)),
    "array<string>": st.lists(st.none() | st.text(max_size=2), max_size=3),
    "array<bigint>": st.lists(st.none() | st.integers(-2, 2), max_size=3),
    "struct<a: int, b: string>": st.tuples(st.none() | st.integers(-2, 2), st.none() | st.text(max_size=2)),
}


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("is_descending", [False, True])
@settings(max_examples=20)
@given(st.data())
def test_keys_compare_as_their_values_do(kind, is_descending, data):
    one, other = data.draw(VALUES[kind]), data.draw(VALUES[kind])
    keys = [key(f"f0 {kind}", value, is_descending=is_descending) for value in (one, other)]
    if is_descending:
        keys.reverse()
    assert (keys[0] < keys[1]) == (in_order(one) < in_order(other))
    assert (keys[0] == keys[1]) == (in_order(one) == in_order(other))


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("order", [{}, {"is_descending": True, "has_nulls_first": False}])
@settings(max_examples=20)
@given(st.data())
def test_keys_of_columns_are_those_of_records(kind, order, data):
    rows = [(value,) for value in data.draw(st.lists(st.none() | VALUES[kind], max_size=5))]
    schema = arrow_schema(f"f0 {kind}")
    column = [
        None if row[0] is None else {"a": row[0][0], "b": row[0][1]} if "struct" in kind else row[0] for row in rows
    ]
    batch = pa.record_batch([pa.array(column, schema.field(0).type)], schema=schema)
    selector = selector_of(f"f0 {kind}", **order)
    (found,) = batches_of(batch)
    keys = BatchRanges(selector).keys_of(record_type(schema).codec, found, range(len(rows)))
    assert keys == [selector.key_of(row) for row in rows]


@given(st.lists(st.tuples(st.none() | st.integers(-3, 3), st.none() | st.text("ab\0", max_size=2)), min_size=2))
def test_the_first_column_counts_most(rows):
    selector = selector_of("f0 int, f1 string")
    assert sorted(rows, key=selector.key_of) == sorted(rows, key=in_order)


@pytest.mark.parametrize(
    ("is_descending", "has_nulls_first", "expected"),
    [
        (False, True, [None, 1, 2]),
        (False, False, [1, 2, None]),
        (True, True, [None, 2, 1]),
        (True, False, [2, 1, None]),
    ],
)
def test_nulls_come_where_they_are_wanted(is_descending, has_nulls_first, expected):
    selector = selector_of("f0 int", is_descending=is_descending, has_nulls_first=has_nulls_first)
    assert [row[0] for row in sorted([(2,), (None,), (1,)], key=selector.key_of)] == expected


@pytest.mark.parametrize("number", [10**30, 10**100, 7 * 10**400, 1, 0])
def test_decimals_of_any_size_and_scale_compare_by_value(number):
    rows = [Decimal(number), Decimal(number) + 1, Decimal(-number), Decimal(number).scaleb(-30), Decimal(number) * 10]
    field = RangeField(Types.BIG_DEC().codec)
    selector = RangeSelector([field], 1, ())
    assert sorted(rows, key=selector.key_of) == sorted(rows)
    assert selector.key_of(Decimal("1.50")) == selector.key_of(Decimal("1.5"))
    assert selector.key_of(Decimal("0E+5")) == selector.key_of(Decimal("0.00"))


def test_other_columns_of_arrow_have_the_keys_of_their_values():
    values = ["b", None, "a", "b"]
    kinds = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
    selector = selector_of("f0 string")
    for kind in kinds:
        column = (
            pa.array(values, pa.string()).dictionary_encode().cast(kind)
            if "dict" in str(kind)
            else pa.array(values, kind)
        )
        (batch,) = batches_of(pa.record_batch({"f0": column}).slice(1))
        keys = BatchRanges(selector).keys_of(as_type("f0 string").codec, batch, range(3))
        assert keys == [selector.key_of((value,)) for value in values[1:]]


@given(st.lists(st.integers(-20, 20), unique=True, max_size=12), st.integers(-25, 25))
def test_a_record_goes_to_the_first_channel_whose_bound_it_does_not_pass(bounds, number):
    bounds.sort()
    keys = [key("f0 bigint", bound) for bound in bounds]
    selector = selector_of("f0 bigint", len(bounds) + 1, keys)
    assert selector.select_channel((number,)) == bisect.bisect_left(bounds, number)
    assert selector.select_channel((None,)) == 0


WORDS = st.text("ab\0é", max_size=12)


@given(st.lists(WORDS, unique=True, max_size=12), WORDS, st.sampled_from(["", "aaaaaaaaa"]))
def test_bounds_that_begin_alike_are_told_apart(bounds, text, head):
    bounds = sorted({(head + each).encode() for each in bounds})
    keys = [key("f0 string", bound.decode()) for bound in bounds]
    selector = selector_of("f0 string", len(bounds) + 1, keys)
    assert selector.select_channel((head + text,)) == bisect.bisect_left(bounds, (head + text).encode())


@pytest.mark.parametrize("ddl", ["map<string, int>", "array<map<int, int>>"])
def test_types_without_an_order_are_refused(ddl):
    with pytest.raises(ValueError, match="values of .* have no order"):
        selector_of(f"f0 {ddl}")


def test_bounds_have_to_rise_and_be_fewer_than_the_channels():
    keys = [key("f0 int", number) for number in (1, 2)]
    with pytest.raises(ValueError, match="each above the one before"):
        selector_of("f0 int", 3, [keys[1], keys[0]])
    with pytest.raises(ValueError, match="2 channels have at most 1 bounds, got 2"):
        selector_of("f0 int", 2, keys)


def test_a_value_that_is_not_of_the_type_names_record_and_field():
    selector = selector_of("f0 int")
    selector.select_channel((1,))
    with pytest.raises(TypeError, match=r"record 1: key field 'f0'.*'two'"):
        selector.select_channel(("two",))
    assert selector.select_channel((3,)) == 0


def test_numbers_that_are_the_bytes_of_a_value_are_compared_as_those():
    codec = Types.ROW_NAMED(["x"], [Types.PRIMITIVE_ARRAY(Types.BYTE())]).codec
    selector = RangeSelector([RangeField(codec.children[0], 0, "x")], 4, [])
    values = [b"", b"\0", b"\1", b"\1\0", b"\x80"]
    lists = pa.array(
        [[number - 256 if number > 127 else number for number in value] for value in values], pa.list_(pa.int8())
    )
    (batch,) = batches_of(pa.record_batch({"x": lists}))
    keys = [selector.key_of((value,)) for value in values]
    assert BatchRanges(selector).keys_of(codec, batch, range(len(values))) == keys == sorted(keys)
