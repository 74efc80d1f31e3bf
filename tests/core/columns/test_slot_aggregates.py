"""Aggregates by slots give what plain Python gives: of batches as of slices, of merged parts as of the whole."""

import datetime
import decimal
import functools
import math
import statistics
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkbuf._core.columns.slot_aggregates import make_aggregate

SLOT_COUNT = 5
FLOATS = st.sampled_from([0.0, -0.0, 1.5, -2.25, 1e10, math.inf, -math.inf, math.nan])
NUMBERS = {
    pa.int8(): st.integers(-128, 127),
    pa.int16(): st.integers(-(2**15), 2**15 - 1),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**57), 2**57),
    pa.uint8(): st.integers(0, 255),
    pa.uint16(): st.integers(0, 2**16 - 1),
    pa.uint32(): st.integers(0, 2**32 - 1),
    pa.uint64(): st.integers(0, 2**58),
    pa.float32(): FLOATS,
    pa.float64(): FLOATS,
    pa.decimal32(9, 2): st.decimals(-9999, 9999, places=2),
    pa.decimal64(18, 3): st.decimals(-9999, 9999, places=3),
    pa.decimal128(30, 4): st.decimals(-(10**25), 10**25, places=4),
}
ORDERED = NUMBERS | {
    pa.bool_(): st.booleans(),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.date32(): st.dates(),
    pa.date64(): st.dates(),
    pa.time32("s"): st.sampled_from([datetime.time(hour) for hour in range(5)]),
    pa.time64("us"): st.times(),
    pa.timestamp("us"): st.datetimes(),
    pa.duration("us"): st.timedeltas(datetime.timedelta(-(10**5)), datetime.timedelta(10**5)),
    pa.string(): st.text("abé\0", max_size=5),
    pa.large_string(): st.text("ab", max_size=40),
    pa.binary(): st.binary(max_size=4),
    pa.large_binary(): st.binary(max_size=4),
    pa.binary(2): st.binary(min_size=2, max_size=2),
}
ANY = ORDERED | {
    pa.list_(pa.int8()): st.lists(st.none() | st.integers(0, 3), max_size=2),
    pa.struct([("a", pa.int8())]): st.fixed_dictionaries({"a": st.none() | st.integers(0, 3)}),
    pa.dictionary(pa.int8(), pa.string()): st.sampled_from(["a", "b", "c"]),
    pa.null(): st.none(),
}


def plain(value):
    """What is equal where values are the same."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else (value, math.copysign(1, value))
    if isinstance(value, list):
        return [plain(each) for each in value]
    return value


def in_order(value):
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value, math.copysign(1, value))
    return value.encode() if isinstance(value, str) else value


def add(values):
    """The sum, of decimals with every digit."""
    with decimal.localcontext(prec=60):
        return functools.reduce(lambda one, other: one + other, values)


MODELS = {
    "sum": add,
    "min": lambda values: min(values, key=in_order),
    "max": lambda values: max(values, key=in_order),
    "mean": lambda values: float(
        add([each if isinstance(each, float) else Fraction(each) for each in values]) / len(values)
    ),
    "first": lambda values: values[0],
    "last": lambda values: values[-1],
    "collect": list,
}


def expected_of(kind, rows):
    """Of rows (slot, value), for each slot."""
    found = []
    for slot in range(SLOT_COUNT):
        values = [row[1] for row in rows if row[0] == slot and row[1] is not None]
        if kind == "count_distinct":
            found.append(len({str(plain(value)) for value in values}))
        elif kind == "count":
            found.append(len(values))
        elif kind.endswith("_by"):
            ranked = [row for row in rows if row[0] == slot and row[2] is not None]
            best = {"min_by": min, "max_by": max}[kind]
            found.append(best(ranked, key=lambda row: in_order(row[2]))[1] if ranked else None)
        else:
            found.append(MODELS[kind](values) if values else None)
    return found


def drawn(data, kind, types, kinds, size=25):
    """Rows, and an array of slots with arrays of the columns, which begin somewhere in larger ones."""
    strategies = [st.none() | kinds[type_] for type_ in types]
    rows = data.draw(st.lists(st.tuples(st.integers(0, SLOT_COUNT - 1), *strategies), max_size=size), label=kind)
    slots = np.array([row[0] for row in rows], np.uint32)
    skipped = data.draw(st.integers(0, 9))
    columns = []
    for k, type_ in enumerate(types):
        values = [row[k + 1] for row in rows]
        columns.append(pa.array((values[:1] or [None]) * skipped + values, type_)[skipped:])
    # What Arrow keeps of a float or a time is what it gives back.
    kept = [column.to_pylist() for column in columns]
    return list(zip((row[0] for row in rows), *kept, strict=True)), slots, columns


def accumulate_in_parts(data, make, slots, columns):
    """One aggregate that had all rows, batch by batch, and one into which others have been merged."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(slots)), max_size=4)))
    whole, merged = make(), make()
    for start, end in zip([0, *cuts], [*cuts, len(slots)], strict=True):
        part = make()
        batch = [column[start:end] for column in columns]
        whole.accumulate(slots[start:end], SLOT_COUNT, *batch)
        part.accumulate(slots[start:end], SLOT_COUNT, *batch)
        order = np.array(data.draw(st.permutations(range(SLOT_COUNT))))
        states = part.state(order)
        assert tuple(state.type for state in states) == part.state_types
        merged.merge(
            order.astype(np.uint32), SLOT_COUNT, *[pa.concat_arrays([state[:1], state])[1:] for state in states]
        )
    return whole, merged


def check_aggregate(data, kind, types, kinds, compare=lambda found, expected: plain(found) == plain(expected)):
    make = functools.partial(make_aggregate, kind, *types)
    rows, slots, columns = drawn(data, kind, types, kinds)
    expected = expected_of(kind, rows)
    for aggregate in accumulate_in_parts(data, make, slots, columns):
        result = aggregate.result()
        result.validate(full=True)
        assert result.type == aggregate.result_type
        assert all(map(compare, result.to_pylist(), expected)), (result.to_pylist(), expected)
        some = np.array([3, 1, 1])
        assert list(map(plain, aggregate.result(some).to_pylist())) == [plain(result[i].as_py()) for i in some]
        assert aggregate.result(np.array([], np.int64)).type == aggregate.result_type
        for state in aggregate.state():
            state.validate(full=True)
            assert len(state) == SLOT_COUNT
        aggregate.clear()
        assert len(aggregate.result()) == 0 and aggregate.nbytes == 0


def close(found, expected):
    if expected is None or found is None or math.isnan(expected) or math.isinf(expected):
        return plain(found) == plain(expected)
    return math.isclose(found, expected, rel_tol=1e-12, abs_tol=1e-3)


@pytest.mark.parametrize("type_", NUMBERS, ids=str)
@pytest.mark.parametrize("kind", ["sum", "mean"])
@settings(max_examples=20)
@given(st.data())
def test_sums_and_means(kind, type_, data):
    compare = close if kind == "mean" or pa.types.is_floating(type_) else lambda found, expected: found == expected
    check_aggregate(data, kind, [type_], NUMBERS, compare)


@pytest.mark.parametrize("type_", ORDERED, ids=str)
@pytest.mark.parametrize("kind", ["min", "max", "count_distinct"])
@settings(max_examples=20)
@given(st.data())
def test_extremes_and_distinct_values(kind, type_, data):
    check_aggregate(data, kind, [type_], ORDERED)


@pytest.mark.parametrize("type_", ANY, ids=str)
@pytest.mark.parametrize("kind", ["first", "last", "collect", "count"])
@settings(max_examples=15)
@given(st.data())
def test_values_of_any_type(kind, type_, data):
    check_aggregate(data, kind, [type_], ANY)


@pytest.mark.parametrize("kind", ["min_by", "max_by"])
@settings(max_examples=150)
@given(st.data())
def test_values_of_the_row_in_which_another_is_extreme(kind, data):
    types = [data.draw(st.sampled_from(list(ANY))), data.draw(st.sampled_from(list(ORDERED)))]
    check_aggregate(data, kind, types, ANY)


@pytest.mark.parametrize("type_", [pa.int32(), pa.float64(), pa.decimal128(30, 4)], ids=str)
@settings(max_examples=50)
@given(st.data())
def test_standard_deviations(type_, data):
    kinds = NUMBERS | {pa.float64(): st.floats(-1e6, 1e6), pa.decimal128(30, 4): st.decimals(-(10**6), 10**6, places=4)}
    rows, slots, columns = drawn(data, "stddev", [type_], kinds)
    for aggregate in accumulate_in_parts(data, lambda: make_aggregate("stddev", type_), slots, columns):
        for slot, found in enumerate(aggregate.result().to_pylist()):
            values = [Fraction(value) for at, value in rows if at == slot and value is not None]
            assert (found is None) == (len(values) < 2)
            if found is not None:
                assert math.isclose(found, statistics.stdev(values), rel_tol=1e-7, abs_tol=1e-3)


@settings(max_examples=50)
@given(st.data())
def test_rows_are_counted(data):
    rows, slots, _ = drawn(data, "count", [], {})
    for aggregate in accumulate_in_parts(data, lambda: make_aggregate("count"), slots, []):
        assert aggregate.result().to_pylist() == [sum(row[0] == slot for row in rows) for slot in range(SLOT_COUNT)]


def test_long_columns_agree_with_group_by():
    random = np.random.default_rng(3)
    slots = random.integers(0, 5000, 100_000).astype(np.uint32)
    table = pa.table({"slot": slots, "value": pa.array(random.integers(-(2**40), 2**40, 100_000), mask=slots % 7 == 1)})
    kinds = ["sum", "min", "max", "mean", "count", "count_distinct", "stddev"]
    other = [("value", kind, pa.compute.VarianceOptions(ddof=1) if kind == "stddev" else None) for kind in kinds]
    expected = table.group_by("slot").aggregate(other).sort_by("slot")
    for kind in kinds:
        aggregate = make_aggregate(kind, pa.int64())
        for batch in table.to_batches(8192):
            aggregate.accumulate(batch["slot"].to_numpy(), 5000, batch["value"])
        found, wanted = aggregate.result().to_pylist(), expected[f"value_{kind}"].to_pylist()
        if kind in ("mean", "stddev"):
            assert found == [None if value is None else pytest.approx(value, rel=1e-9, abs=1e-9) for value in wanted]
        else:
            assert found == wanted


@pytest.mark.parametrize("kind", ["last", "max", "max_by"])
@pytest.mark.parametrize("size", [1, 40])
def test_values_that_are_replaced_again_and_again_take_no_memory(kind, size):
    values = [f"{i:0{size + 8}d}" for i in range(20_000)]
    types = (pa.string(), pa.int64()) if kind == "max_by" else (pa.string(),)
    aggregate = make_aggregate(kind, *types)
    for start in range(0, 20_000, 100):
        columns = [pa.array(values[start : start + 100]), pa.array(range(start, start + 100))][: len(types)]
        aggregate.accumulate(np.arange(100, dtype=np.uint32), 100, *columns)
        assert aggregate.result().to_pylist() == values[start : start + 100]
    assert aggregate.nbytes < 1_000_000
    longer = [value + "x" * size * 3 * (i % 5) for i, value in enumerate(values)]
    for start in range(0, 20_000, 100):
        columns = [pa.array(longer[start : start + 100]), pa.array(range(20_000 + start, 20_100 + start))][: len(types)]
        aggregate.accumulate(np.arange(100, dtype=np.uint32), 100, *columns)
    assert aggregate.result().to_pylist() == longer[-100:] and aggregate.nbytes < 1_000_000


def test_accumulators_grow_with_the_slots_and_a_state_stays_as_it_was():
    total = make_aggregate("sum", pa.int64())
    total.accumulate(np.array([0], np.uint32), 1, pa.array([1]))
    state = total.state()
    total.accumulate(np.array([0, 99_999], np.uint32), 100_000, pa.array([5, 7]))
    assert state[0].to_pylist() == [1]
    assert total.result(np.array([0, 50_000, 99_999])).to_pylist() == [6, None, 7]


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (pa.int64(), 2**63 - 1),
        (pa.int64(), -(2**63)),
        (pa.uint64(), 2**64 - 1),
        (pa.decimal128(38, 0), Decimal(10**38 - 1)),
        (pa.decimal128(38, 0), Decimal("-" + "9" * 38)),
    ],
)
def test_a_sum_without_room_names_the_row(type_, value):
    total = make_aggregate("sum", type_)
    small = 1 if value > 0 else -1
    with pytest.raises(OverflowError, match=rf"row 3: with its value {small} the sum of slot 1 has no room in"):
        total.accumulate(np.array([1, 0, 1, 1], np.uint32), 2, pa.array([value, value, None, small], type_))


def test_a_mean_of_integers_goes_beyond_what_they_can_hold():
    mean = make_aggregate("mean", pa.int64())
    mean.accumulate(np.zeros(3, np.uint32), 1, pa.array([2**63 - 1] * 3))
    assert mean.result().to_pylist() == [float(2**63)]


@pytest.mark.parametrize("kind", ["sum", "mean", "stddev"])
@pytest.mark.parametrize("type_", [pa.string(), pa.bool_(), pa.decimal256(50, 2), pa.date32()], ids=str)
def test_what_has_no_sum_is_refused(kind, type_):
    with pytest.raises(TypeError, match=r"values of .* have no sum"):
        make_aggregate(kind, type_)


@pytest.mark.parametrize(
    "type_", [pa.list_(pa.int8()), pa.string_view(), pa.month_day_nano_interval(), pa.null()], ids=str
)
def test_what_has_no_order_is_refused(type_):
    for kind, types in (("min", [type_]), ("max_by", [pa.int8(), type_])):
        with pytest.raises(TypeError, match=r"values of .* have no order here"):
            make_aggregate(kind, *types)


@pytest.mark.parametrize("kind", ["first", "last", "collect"])
def test_what_pyarrow_takes_no_rows_of_is_refused(kind):
    with pytest.raises(TypeError, match="values of string_view are not kept here: cast"):
        make_aggregate(kind, pa.string_view())
    assert make_aggregate("count", pa.string_view()).result_type == pa.int64()


def test_wrong_calls_say_what_is_wrong():
    with pytest.raises(ValueError, match=r"no aggregate 'median'; there are count, sum"):
        make_aggregate("median", pa.int8())
    with pytest.raises(TypeError, match="min_by takes 2 columns, got 1"):
        make_aggregate("min_by", pa.int8())
    total, slots = make_aggregate("sum", pa.int8()), np.zeros(2, np.uint32)
    with pytest.raises(TypeError, match="takes columns of int8, got int64"):
        total.accumulate(slots, 1, pa.array([1, 2]))
    with pytest.raises(TypeError, match="takes 1 columns, got 0"):
        total.accumulate(slots, 1)
    with pytest.raises(ValueError, match="a column of 1 rows for 2 slots"):
        total.accumulate(slots, 1, pa.array([1], pa.int8()))
    with pytest.raises(IndexError, match="there are 1 slots, got 4"):
        total.accumulate(slots + np.uint32(4), 1, pa.array([1, 2], pa.int8()))
    total.accumulate(slots, 3, pa.array([1, 2], pa.int8()))
    with pytest.raises(ValueError, match="3 slots, which do not become 2"):
        total.accumulate(slots, 2, pa.array([1, 2], pa.int8()))
    with pytest.raises(IndexError, match="there are 3 slots, got 3 to 3"):
        total.result(np.array([3]))
    assert total.result().to_pylist() == [3, None, None]
