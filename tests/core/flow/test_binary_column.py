"""Rows as the values of a binary column: the bytes of `serialize`, and back to the same rows, whatever the arrays."""

import contextlib
import re
import threading
from collections import Counter

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support.data.arrow_data import LEAVES, batches, records_of, value
from support.data.golden_types import load, parse, sql_row_type

import flinkbuf as fb
from flinkbuf.records.arrow_batches import arrow_schema

GOLDEN = load("types")
FORMATS = pytest.mark.parametrize("make", [fb.as_type, fb.types.row_data_type])
KIND = "name string, n bigint"
ROWS = pa.array([{"name": "JFK", "n": 7}, None, {"name": None, "n": None}, {"name": "é", "n": -1}])
ROW_VALUES = [("JFK", 7), None, (None, None), ("é", -1)]


def bytes_of(array):
    assert isinstance(array, pa.BinaryArray)
    array.validate(full=True)
    return array.to_pylist()


def type_of(make, schema):
    """Or no example: what such rows have not."""
    try:
        return make(schema)
    except TypeError as error:
        assume("more digits than a DECIMAL" not in str(error))
        raise


def holds(found, *tests):
    """Whether a type is, or has in it, one of these."""
    return any(test(found) for test in tests) or any(
        holds(found.field(i).type, *tests) for i in range(found.num_fields)
    )


VIEWS = (pa.types.is_string_view, pa.types.is_binary_view, pa.types.is_list_view, pa.types.is_large_list_view)


@st.composite
def typed_batches(draw, max_rows=20):
    """A batch, and a type of its rows in one of both formats."""
    batch = draw(batches(max_rows))
    make = draw(st.sampled_from([fb.as_type, fb.types.row_data_type]))
    if make is fb.types.row_data_type:  # it has no times of day finer than milliseconds
        assume(not any(holds(field.type, pa.types.is_time64) for field in batch.schema))
    return batch, type_of(make, batch.schema)


@st.composite
def struct_arrays(draw):
    """The rows of a batch as structs, of which some are null; perhaps a slice, a few chunks, or behind a dictionary."""
    batch, kind = draw(typed_batches())
    nulls = draw(st.lists(st.booleans(), min_size=batch.num_rows, max_size=batch.num_rows))
    mask = pa.array(nulls, pa.bool_()) if draw(st.booleans()) else None
    if batch.num_columns:
        rows = pa.StructArray.from_arrays(batch.columns, fields=list(batch.schema), mask=mask)
    else:
        rows = pa.array([None if mask and is_null else {} for is_null in nulls], pa.struct([]))
    expected = [None if mask and is_null else row for row, is_null in zip(records_of(batch), nulls, strict=True)]
    start = draw(st.integers(0, len(rows)))
    rows, expected = rows.slice(start), expected[start:]
    has_views = holds(rows.type, *VIEWS)  # which pyarrow cannot take out of a dictionary
    way = draw(st.sampled_from(["plain", "chunks"] if has_views else ["plain", "chunks", "dictionary", "run ends"]))
    if way == "dictionary" and len(rows):
        places = draw(st.lists(st.none() | st.integers(0, len(rows) - 1), max_size=9))
        expected = [None if place is None else expected[place] for place in places]
        rows = pa.DictionaryArray.from_arrays(pa.array(places, pa.int8()), rows)
    if way == "run ends" and len(rows):
        rows = pa.RunEndEncodedArray.from_arrays(pa.array(range(2, 2 * len(rows) + 2, 2), pa.int32()), rows)
        expected = [row for row in expected for _ in range(2)]
    if way == "chunks" or draw(st.booleans()):
        cut = draw(st.integers(0, len(rows)))
        rows = pa.chunked_array([rows[:cut], rows[cut:]], rows.type)
    return rows, kind, batch.schema, expected


# -------------------------------------------------------------------------------------------------- the bytes of Flink


def has_columns(kind):
    try:
        return bool(arrow_schema(kind))
    except TypeError:
        return False


def schema_that_holds(name, given):
    """Of a decimal by itself, one with its digits; as exact as any time."""
    if name == "bigdec" and given is not None and abs(int(given["scale"])) <= 38:
        return pa.schema([("value", pa.decimal256(76, int(given["scale"])))])
    exact = {"localtime": pa.time64("ns"), "localdatetime": pa.timestamp("ns"), "instant": pa.timestamp("ns", "UTC")}
    return pa.schema([("value", exact[name])]) if name in exact else None


def go_round(case, kind, schema, found):
    """Golden bytes to an array, and back to the same bytes; or why not."""
    values = pa.array([bytes.fromhex(case["hex"])])
    try:
        rows = fb.deserialize_array(values, kind, schema=schema)
    except fb.errors.CorruptDataError as error:
        found[re.sub(r".*?: |; .*", "", str(error))] += 1
        return
    rows.validate(full=True)
    if rows.null_count:
        assert kind.deserialize(values[0].as_py()) is None
        found["null"] += 1
        return
    assert fb.serialize_batch(rows, kind).equals(values), case
    found["same"] += 1


def test_values_of_flink_become_rows_and_the_same_bytes():
    found = Counter()
    for case in GOLDEN["cases"]:
        kind = parse(case["type"])
        if has_columns(kind) and "bigdec," not in case["type"]:
            go_round(case, kind, schema_that_holds(case["type"], case["value"]), found)
    assert found == {
        "same": 186,
        "null": 11,
        "the row is a change (-U, +U or -D), which a batch has no place for": 12,
        "a row that is a change, which a batch has no place for": 1,
        "a point in time that the column's unit cannot hold": 4,
        "a date that the column cannot hold": 2,
        "text with half a surrogate pair, which has no UTF-8": 2,
    }


def test_rows_of_flink_sql_become_rows_and_the_same_bytes():
    found = Counter()
    for case in GOLDEN["binaryrow"]:
        go_round(case, sql_row_type(case["schema"]), None, found)
    assert found == {"same": 32, "the row is a change (-U, +U or -D), which a batch has no place for": 16}


@settings(max_examples=150)
@given(typed_batches())
def test_a_batch_has_the_bytes_of_serialize(given):
    batch, kind = given
    assert bytes_of(fb.serialize_batch(batch, kind)) == [kind.serialize(row) for row in records_of(batch)]


@settings(max_examples=100)
@given(struct_arrays())
def test_structs_have_the_bytes_of_serialize_and_come_back(given):
    rows, kind, schema, expected = given
    values = fb.serialize_batch(rows, kind)
    assert bytes_of(values) == [None if row is None else kind.serialize(row) for row in expected]
    again = fb.deserialize_array(values, kind, schema=schema)
    again.validate(full=True)
    assert repr(again.to_pylist()) == repr(rows.to_pylist())  # NaN is NaN


@settings(max_examples=100)
@given(st.sampled_from(LEAVES), st.data())
def test_single_values_have_the_bytes_of_serialize_and_come_back(leaf, data):
    found, values = leaf
    array = pa.array(data.draw(st.lists(st.none() | values, max_size=9)), found)
    array = array.slice(data.draw(st.integers(0, len(array))))
    kind = fb.as_type(found)
    written = fb.serialize_batch(array, kind)
    expected = [value(found, each) for each in array]
    assert bytes_of(written) == [None if each is None else kind.serialize(each) for each in expected]
    again = fb.deserialize_array(written, kind, schema=pa.schema([("value", found)]))
    again.validate(full=True)
    assert again.type == found
    assert repr(again.to_pylist()) == repr(array.to_pylist())


# ------------------------------------------------------------------------------------------------------- what is given


@FORMATS
def test_a_struct_that_is_null_is_null_and_comes_back(make):
    kind = make(KIND)
    values = fb.serialize_batch(ROWS, kind)
    assert bytes_of(values) == [None if row is None else kind.serialize(row) for row in ROW_VALUES]
    assert fb.deserialize_array(values, kind).equals(ROWS)
    batch = fb.deserialize_batch(values, kind)
    assert batch.schema == arrow_schema(KIND)
    assert batch.to_pylist() == [row or {"name": None, "n": None} for row in ROWS.to_pylist()]


def test_a_batch_and_a_table_are_rows():
    batch = pa.RecordBatch.from_struct_array(ROWS.drop_null())
    expected = [fb.as_type(KIND).serialize(row) for row in ROW_VALUES if row is not None]
    assert bytes_of(fb.serialize_batch(batch, KIND)) == expected
    assert bytes_of(fb.serialize_batch(pa.Table.from_batches([batch, batch[:1]]), KIND)) == [*expected, expected[0]]
    arrays = {"name": np.array(["JFK"], object), "n": np.array([7])}
    assert bytes_of(fb.serialize_batch(arrays, KIND)) == expected[:1]


def test_columns_are_found_by_name():
    batch = pa.record_batch({"n": [7], "name": ["JFK"]})
    assert bytes_of(fb.serialize_batch(batch, KIND)) == [fb.as_type(KIND).serialize(("JFK", 7))]


def test_pandas_has_nan_for_null():
    frame = pd.DataFrame({"name": ["JFK", None], "n": [7, None]}, index=[5, 3])
    expected = [fb.as_type(KIND).serialize(row) for row in [("JFK", 7), (None, None)]]
    values = fb.serialize_batch(frame, KIND)
    assert bytes_of(values) == expected
    assert bytes_of(fb.serialize_batch(frame["n"], "bigint")) == [fb.Types.LONG().serialize(7), None]
    assert bytes_of(fb.serialize_batch(pd.Series([{"name": "JFK", "n": 7}, None]), KIND)) == [expected[0], None]
    assert fb.deserialize_batch(values.to_pandas(), KIND).to_pandas().equals(frame.reset_index(drop=True))


@pytest.mark.parametrize("rows", [ROWS[:0], pa.chunked_array([], ROWS.type), pa.table({"name": [], "n": []})[:0]])
@FORMATS
def test_no_rows_are_no_values(rows, make):
    if isinstance(rows, pa.Table):
        rows = rows.cast(arrow_schema(KIND))
    values = fb.serialize_batch(rows, make(KIND))
    assert bytes_of(values) == []
    batch = fb.deserialize_batch(values, make(KIND))
    assert (batch.num_rows, batch.schema) == (0, arrow_schema(KIND))
    assert fb.deserialize_array(pa.chunked_array([], pa.binary()), make(KIND)).equals(ROWS[:0])


@pytest.mark.parametrize("kind", [fb.Types.ROW_NAMED([], []), fb.Types.ROW_DATA([], [])], ids=repr)
def test_rows_without_columns_are_counted(kind):
    rows = pa.array([{}, None, {}], pa.struct([]))
    values = fb.serialize_batch(rows, kind)
    assert bytes_of(values) == [kind.serialize(()), None, kind.serialize(())]
    assert fb.deserialize_array(values, kind).equals(rows)
    assert fb.deserialize_batch(values, kind).num_rows == 3


@pytest.mark.parametrize(
    "found",
    [
        pa.large_binary(),
        pa.binary_view(),
        pa.dictionary(pa.int16(), pa.binary()),
        pa.run_end_encoded(pa.int32(), pa.binary()),
    ],
    ids=str,
)
@FORMATS
def test_values_may_lie_in_any_way(found, make):
    rows = pa.concat_arrays([ROWS, ROWS[3:], ROWS[:1], ROWS[:1]])
    values = fb.serialize_batch(rows, make(KIND))
    if pa.types.is_run_end_encoded(found):
        import pyarrow.compute as pc

        values = pc.run_end_encode(values)
    elif pa.types.is_dictionary(found):
        values = values.dictionary_encode().cast(found)
    else:
        values = values.cast(found)
    for start in range(len(rows)):
        again = fb.deserialize_array(values.slice(start, 3), make(KIND))
        assert again.to_pylist() == rows.slice(start, 3).to_pylist()
    assert fb.deserialize_array(pa.chunked_array([values, values]), make(KIND)).to_pylist() == 2 * rows.to_pylist()


def test_values_of_one_length():
    values = fb.serialize_batch(pa.array([1, 2, 3]), "bigint")
    assert fb.deserialize_array(values.cast(pa.binary(8)), "bigint").to_pylist() == [1, 2, 3]
    assert fb.deserialize_batch(values, "bigint").to_pydict() == {"value": [1, 2, 3]}


def test_structs_may_be_the_values_of_a_type_that_is_no_row():
    kind = fb.Types.NULLABLE(fb.as_type(KIND))
    values = fb.serialize_batch(ROWS, kind)
    assert bytes_of(values) == [None if row is None else kind.serialize(row) for row in ROW_VALUES]
    assert fb.deserialize_array(values, kind).equals(ROWS)
    null = pa.array([kind.serialize(None)])  # a form that the type has for it
    assert fb.deserialize_array(null, kind).to_pylist() == [None]


def test_lists_of_structs_may_be_the_values():
    kind = fb.Types.OBJECT_ARRAY(fb.as_type(KIND))
    lists = pa.array([ROWS.to_pylist(), None, []], pa.list_(pa.field("element", ROWS.type)))
    values = fb.serialize_batch(lists, kind)
    assert bytes_of(values) == [kind.serialize(ROW_VALUES), None, kind.serialize([])]
    assert fb.deserialize_array(values, kind).equals(lists)


def test_tuples_are_found_by_place():
    kind = fb.Types.TUPLE([fb.Types.STRING(), fb.Types.LONG()])
    values = fb.serialize_batch(pa.record_batch({"x": ["a"], "y": [1]}), kind)
    assert bytes_of(values) == [kind.serialize(("a", 1))]
    assert fb.deserialize_batch(values, kind).to_pylist() == [{"f0": "a", "f1": 1}]


def test_a_wish_for_other_columns():
    declared = pa.schema([("name", pa.dictionary(pa.int32(), pa.string())), ("n", pa.int64())], {"a": "b"})
    rows = ROWS[:2]
    values = fb.serialize_batch(rows, KIND)
    array = fb.deserialize_array(values, KIND, schema=declared)
    assert (array.type, array.to_pylist()) == (pa.struct(list(declared)), rows.to_pylist())
    batch = fb.deserialize_batch(values, KIND, schema=declared)
    assert batch.schema.equals(declared, check_metadata=True)


@FORMATS
def test_not_null_columns_are_nullable_only_where_a_row_is_null(make):
    kind = "name string, n bigint not null"
    schema = arrow_schema(kind)
    values = fb.serialize_batch(ROWS[:2], make(kind))
    array = fb.deserialize_array(values, make(kind), schema=schema)
    array.validate(full=True)
    assert (array.type, array.to_pylist()) == (pa.struct(list(schema)), ROWS[:2].to_pylist())
    assert fb.deserialize_batch(values[:1], make(kind), schema=schema).schema == schema
    assert fb.deserialize_batch(values, make(kind), schema=schema).schema == arrow_schema(KIND)
    with pytest.raises(ValueError, match="row 2: column 'n': null, but .* NOT NULL"):
        fb.serialize_batch(ROWS, make(kind))
    bad = fb.serialize_batch(ROWS, make(KIND))
    with pytest.raises(fb.errors.CorruptDataError, match="row 2, byte .*column 'n': null, but .* NOT NULL"):
        fb.deserialize_array(bad, make(kind), schema=schema)
    lenient = fb.deserialize_array(bad, make(kind), schema=schema, mode="PERMISSIVE")
    assert lenient.to_pylist() == [ROWS[0].as_py(), None, None, ROWS[3].as_py()]


@FORMATS
def test_what_lies_below_a_null_struct_is_no_fault(make):
    days = pa.array([1, 2**60], pa.int64()).cast(pa.timestamp("s"))  # the second is no time of ours
    kind = make("t timestamp_ntz")
    rows = pa.StructArray.from_arrays([days], ["t"], mask=pa.array([False, True]))
    assert bytes_of(fb.serialize_batch(rows, kind))[1] is None
    with pytest.raises(ValueError, match="row 1: column 't': "):
        fb.serialize_batch(pa.StructArray.from_arrays([days], ["t"]), kind)


@FORMATS
def test_a_value_of_50_megabytes(make):
    rows = pa.array([{"name": "x" * (50 << 20), "n": 1}, None, {"name": "é", "n": 2}])
    values = fb.serialize_batch(rows, make(KIND))
    assert fb.deserialize_array(values, make(KIND)).equals(rows)


def test_threads_share_a_type():
    def work():
        for _ in range(50):
            values = fb.serialize_batch(rows, KIND)
            results.append(fb.deserialize_array(values, KIND).equals(rows))

    rows, results = pa.concat_arrays([ROWS] * 500), []
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [True] * 200


# ------------------------------------------------------------------------------------------------------ what is refused


@settings(max_examples=100)
@given(typed_batches(max_rows=6), st.data())
def test_bytes_that_are_not_right_are_errors_or_null_one_by_one(given, data):
    batch, kind = given
    values = bytes_of(fb.serialize_batch(batch, kind))
    for _ in range(data.draw(st.integers(1, 3)) if values else 0):
        wrong = bytearray(values[row := data.draw(st.integers(0, len(values) - 1))])
        if wrong:
            wrong[data.draw(st.integers(0, len(wrong) - 1))] ^= data.draw(st.integers(1, 255))
        wrong = wrong[: data.draw(st.integers(0, len(wrong)))] if data.draw(st.booleans()) else wrong + b"\0"
        values[row] = bytes(wrong)
    expected = []
    for each in values:  # each by itself, in a block of its own
        try:
            alone = fb.deserialize_array(pa.array([each]), kind, schema=batch.schema)
            kind.deserialize(each)  # what a column takes, a record takes
            expected += alone.to_pylist()
        except fb.errors.CorruptDataError:
            expected.append(None)
    array = pa.array(values, pa.binary())
    lenient = fb.deserialize_array(array, kind, schema=batch.schema, mode="permissive")
    lenient.validate(full=True)
    assert repr(lenient.to_pylist()) == repr(expected)
    with pytest.raises(fb.errors.CorruptDataError) if None in expected else contextlib.nullcontext() as caught:
        strict = fb.deserialize_array(array, kind, schema=batch.schema)
        assert repr(strict.to_pylist()) == repr(expected)
    if caught is not None:
        assert str(caught.value).startswith(f"row {expected.index(None)}, byte ")


@pytest.mark.parametrize("wrong", [0, 500, 511, 512, 513, 1999])
@FORMATS
def test_an_error_names_row_byte_and_column(wrong, make):
    kind = make(KIND)
    values = [kind.serialize(("text", i)) for i in range(2000)]
    values[wrong] = values[wrong][:-1]
    rows = [{"name": "text", "n": i} for i in range(2000)]
    rows[wrong] = None
    message = "byte 13, column 'n'" if make is fb.as_type else "byte 0, the batch"
    for array in (pa.array(values), pa.chunked_array([values[:700], values[700:]])):
        with pytest.raises(fb.errors.CorruptDataError, match=f"^row {wrong}, {message}: .*another"):
            fb.deserialize_batch(array, kind)
        assert fb.deserialize_array(array, kind, mode="PERMISSIVE").to_pylist() == rows


@FORMATS
def test_a_row_that_is_a_change_is_no_row_of_a_batch(make):
    kind, row = make(KIND), fb.Row("JFK", 7)
    row.set_row_kind(fb.types.RowKind.DELETE)
    values = pa.array([kind.serialize(row)])
    with pytest.raises(fb.errors.CorruptDataError, match="row 0, .*the row is a change"):
        fb.deserialize_array(values, kind)
    assert fb.deserialize_array(values, kind, mode="PERMISSIVE").to_pylist() == [None]


def test_a_value_that_the_type_cannot_hold_names_row_and_column():
    rows = pa.table({"t": pa.chunked_array([pa.array([1000], pa.time64("us")), pa.array([2000, 1], pa.time64("us"))])})
    with pytest.raises(ValueError, match="^row 2: column 't': a time with more than") as caught:
        fb.serialize_batch(rows, fb.types.row_data_type("t time"))
    assert caught.value.record_number == 2
    assert caught.value.field == "column 't'"


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: fb.serialize_batch(pa.record_batch({"name": ["a"]}), KIND), TypeError, "column 'n' is missing"),
        (lambda: fb.serialize_batch(pa.array(["a"]), KIND), TypeError, "string is no ROW"),
        (lambda: fb.serialize_batch(pa.array(["a"]), fb.types.row_data_type(KIND)), TypeError, "no type of batches"),
        (lambda: fb.serialize_batch([("a", 1)], KIND), TypeError, "a batch is a pyarrow RecordBatch or Table"),
        (lambda: fb.serialize_batch(ROWS, fb.Types.SET("bigint")), TypeError, "struct is no SET"),
        (lambda: fb.deserialize_batch(pa.array(["a"]), KIND), TypeError, "string is no PRIMITIVE_ARRAY"),
        (lambda: fb.deserialize_batch(pa.array([[1]], pa.list_(pa.int8())), KIND), TypeError, "no bytes"),
        (lambda: fb.deserialize_batch(pa.array([None]), KIND), TypeError, "no bytes"),
        (lambda: fb.deserialize_batch([b"a"], KIND), TypeError, "a batch is a pyarrow"),
        (lambda: fb.deserialize_batch(pa.array([b"a"]), fb.Types.SET("bigint")), TypeError, "has no column of Arrow"),
        (
            lambda: fb.deserialize_batch(pa.array([b"a"]), KIND, mode="DROPMALFORMED"),
            ValueError,
            "FAILFAST, PERMISSIVE",
        ),
    ],
)
def test_what_cannot_be_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()
