"""Arrow batches of every type that a record can carry, and the records that have the same values."""

import datetime
import decimal

import pyarrow as pa
from hypothesis import strategies as st
from pyarrow import types

UTC = datetime.timezone.utc
TEXT = st.text(st.characters(codec="utf-8"), max_size=9)
# Years that every unit of a timestamp can hold.
MOMENTS = st.datetimes(datetime.datetime(1700, 1, 1), datetime.datetime(2250, 1, 1))


def _whole(unit, values):
    """Times as exact as their unit is."""
    step = {"s": 1_000_000, "ms": 1000}.get(unit, 1)
    return values.map(lambda value: value.replace(microsecond=value.microsecond // step * step))


def _decimals(precision, scale):
    limit = 10**precision - 1
    context = decimal.Context(prec=80)
    return st.integers(-limit, limit).map(lambda value: decimal.Decimal(value).scaleb(-scale, context))


def _ints(bits, signed=True):
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else st.integers(0, 2**bits - 1)


LEAVES = [
    (pa.bool_(), st.booleans()),
    *[(kind, _ints(kind.bit_width)) for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())],
    *[(kind, _ints(kind.bit_width, False)) for kind in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())],
    (pa.float16(), st.floats(width=16)),
    (pa.float32(), st.floats(width=32)),
    (pa.float64(), st.floats()),
    (pa.string(), TEXT),
    (pa.large_string(), TEXT),
    (pa.string_view(), st.one_of(TEXT, st.text("ab", min_size=13, max_size=40))),
    (pa.binary(), st.binary(max_size=9)),
    (pa.large_binary(), st.binary(max_size=9)),
    (pa.binary_view(), st.binary(max_size=30)),
    (pa.binary(3), st.binary(min_size=3, max_size=3)),
    (pa.null(), st.none()),
    (pa.date32(), st.dates()),
    (pa.date64(), st.dates()),
    *[(pa.time32(unit), _whole(unit, st.times())) for unit in ("s", "ms")],
    *[(pa.time64(unit), st.times()) for unit in ("us", "ns")],
    *[(pa.timestamp(unit), _whole(unit, MOMENTS)) for unit in ("s", "ms", "us", "ns")],
    (pa.timestamp("us", "UTC"), MOMENTS.map(lambda value: value.replace(tzinfo=UTC))),
    (pa.timestamp("ns", "Asia/Tokyo"), MOMENTS.map(lambda value: value.replace(tzinfo=UTC))),
    (pa.decimal128(5, 2), _decimals(5, 2)),
    (pa.decimal128(38, 0), _decimals(38, 0)),
    (pa.decimal128(20, -3), _decimals(20, -3)),
    (pa.decimal256(60, 7), _decimals(60, 7)),
    (pa.dictionary(pa.int8(), pa.string()), st.sampled_from(["a", "é", "", "long enough"])),
    (pa.dictionary(pa.int32(), pa.int64()), st.integers(0, 3)),
]


@st.composite
def types_and_values(draw, depth=2):
    """A type and a strategy for its values, which are never None themselves."""
    kind = draw(st.integers(0, 9)) if depth > 0 else 9
    if kind > 3:
        return draw(st.sampled_from(LEAVES))
    if kind == 3:
        fields = draw(st.lists(types_and_values(depth - 1), max_size=3))
        names = [f"f{i}" for i in range(len(fields))]
        found = pa.struct(list(zip(names, [each for each, _ in fields], strict=True)))
        return found, st.fixed_dictionaries(
            {name: st.none() | values for name, (_, values) in zip(names, fields, strict=True)}
        )
    if kind == 2:
        found, values = draw(types_and_values(depth - 1))
        keys = draw(st.sampled_from([(pa.string(), TEXT), (pa.int32(), _ints(32))]))
        entries = st.dictionaries(keys[1], st.none() | values, max_size=3).map(lambda each: list(each.items()))
        return pa.map_(keys[0], found), entries
    found, values = draw(types_and_values(depth - 1))
    make = draw(st.sampled_from([pa.list_, pa.large_list, pa.list_view, pa.large_list_view, lambda t: pa.list_(t, 2)]))
    sizes = {"min_size": 2, "max_size": 2} if types.is_fixed_size_list(make(found)) else {"max_size": 4}
    return make(found), st.lists(st.none() | values, **sizes)


@st.composite
def batches(draw, max_rows=20):
    """A batch of any columns, perhaps a slice of a longer one."""
    columns = draw(st.lists(types_and_values(), max_size=5))
    rows = draw(st.integers(0, max_rows))
    arrays = []
    for found, values in columns:
        either = values if draw(st.booleans()) else st.none() | values
        arrays.append(pa.array(draw(st.lists(either, min_size=rows, max_size=rows)), found))
    names = [f"c{i}" for i in range(len(columns))]
    if not columns:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))
    batch = pa.record_batch(arrays, names=names)
    start = draw(st.integers(0, rows))
    return batch.slice(start, draw(st.integers(0, rows - start))) if draw(st.booleans()) else batch


def records_of(batch):
    """The rows as tuples, with the values that the record path takes."""
    columns = [[value(column.type, each) for each in column] for column in batch.columns]
    return list(zip(*columns, strict=True)) if columns else [()] * batch.num_rows


def value(found, scalar):
    """What Python's record has for a scalar of Arrow."""
    if not scalar.is_valid:
        return None
    if types.is_dictionary(found):
        return value(found.value_type, scalar.value)
    if types.is_struct(found):
        return tuple(value(found.field(i).type, scalar[i]) for i in range(found.num_fields))
    if types.is_map(found):
        entries = zip(scalar.values.field(0), scalar.values.field(1), strict=True)
        return {value(found.key_type, key): value(found.item_type, item) for key, item in entries}
    if hasattr(scalar, "values"):
        return [value(found.value_type, each) for each in scalar.values]
    if types.is_float16(found):
        return float(scalar.as_py())
    if types.is_timestamp(found):
        micros = scalar.cast(pa.timestamp("us", found.tz)).value
        epoch = datetime.datetime(1970, 1, 1, tzinfo=UTC if found.tz else None)
        return epoch + datetime.timedelta(microseconds=micros)
    if types.is_time64(found):
        return scalar.cast(pa.time64("us")).as_py()
    return scalar.as_py()
