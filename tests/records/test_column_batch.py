"""Elements of column streams, and their pages: what was put in comes out, and bytes that are no page are refused."""

import datetime
import gc
import pickle
import random
import weakref
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkbuf._core.operators.stream_operator import NO_TIMESTAMP
from flinkbuf._core.value.own_value import is_fixed_value
from flinkbuf.errors import CorruptDataError
from flinkbuf.records.column_batch import COLUMNS, ColumnBatch, PageReader, PageWriter
from flinkbuf.types.types import Types

COLUMNS_OF = {
    "l": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "b": (pa.bool_(), st.booleans()),
    "s": (pa.string(), st.text(max_size=5)),
    "d": (pa.float64(), st.floats()),
    "n": (pa.decimal128(10, 2), st.decimals(-10000, 10000, places=2)),
    "t": (pa.timestamp("us", "UTC"), st.datetimes(datetime.datetime(1970, 1, 2), datetime.datetime(2030, 1, 1))),
    "x": (pa.list_(pa.int32()), st.lists(st.integers(0, 9), max_size=3)),
    "z": (pa.null(), st.none()),
}


@st.composite
def batches(draw):
    names = draw(st.lists(st.sampled_from(sorted(COLUMNS_OF)), unique=True, min_size=1))
    count = draw(st.integers(0, 6))
    columns = [
        pa.array(draw(st.lists(st.none() | COLUMNS_OF[name][1], min_size=count, max_size=count)), COLUMNS_OF[name][0])
        for name in names
    ]
    batch = pa.record_batch(columns, names)
    start = draw(st.integers(0, count))
    return batch.slice(start, draw(st.integers(0, count - start)))


@given(batches(), st.booleans())
def test_a_page_is_what_it_was_made_of(batch, has_timestamps):
    times = np.arange(batch.num_rows) * 7 - 3 if has_timestamps else None
    found = PageReader().read(PageWriter().write(ColumnBatch(batch, times)))
    assert found.batch.schema == batch.schema
    assert str(found.batch.to_pylist()) == str(batch.to_pylist())
    assert (found.timestamps is None) is not has_timestamps
    assert times is None or found.timestamps.tolist() == times.tolist()


@given(st.lists(st.tuples(batches(), st.booleans())))
def test_pieces_of_a_page_are_the_page(elements):
    writer = PageWriter()
    for batch, has_timestamps in elements:
        element = ColumnBatch(batch, np.arange(batch.num_rows) if has_timestamps else None)
        assert b"".join(writer.write_pieces(element)) == PageWriter().write(element) == writer.write(element)


def test_pieces_are_the_memory_of_large_columns_and_go_with_the_writer():
    batch = pa.record_batch({"a": np.arange(10_000), "b": np.arange(10_000) % 3, "c": ["small"] * 10_000}).slice(1000)
    writer = PageWriter()
    pieces = writer.write_pieces(ColumnBatch(batch))
    addresses = [pa.py_buffer(piece).address for piece in pieces]
    assert [column.buffers()[1].address + 8000 for column in batch.columns[:2]] == addresses[1:3]
    body = weakref.ref(writer._body._pieces)
    del writer
    assert body() is None


def test_a_reader_knows_schemas_again():
    reader = PageReader()
    for number in range(200):  # more than it keeps
        names = [f"column {number % 150}"]
        assert reader.read(PageWriter().write(ColumnBatch(pa.record_batch([[number]], names)))).batch.to_pydict() == {
            names[0]: [number]
        }


@pytest.mark.parametrize(
    ("plain", "values"),
    [
        (lambda text: pa.list_(text), [["a", None], None, []]),
        (lambda text: pa.large_list(text), [["a", None], None, []]),
        (lambda text: pa.list_(text, 2), [["a", "b"], None, ["c", None]]),
        (lambda text: pa.struct([("s", text), ("n", pa.int64())]), [{"s": "a", "n": 1}, None, {"s": None, "n": 2}]),
        (lambda text: pa.map_(pa.string(), pa.list_(text)), [[("k", ["a"])], None, []]),
    ],
)
def test_dictionaries_within_other_values_travel_likewise(plain, values):
    column = pa.array(values, plain(pa.string()))
    if pa.types.is_fixed_size_list(column.type):  # to which Arrow has no such cast
        encoded = pa.FixedSizeListArray.from_arrays(column.values.dictionary_encode(), 2, mask=column.is_null())
    else:
        encoded = column.cast(plain(pa.dictionary(pa.int32(), pa.string())))
    others = pa.UnionArray.from_sparse(pa.array([0] * 3, pa.int8()), [pa.array([1, 2, 3])])
    batch = pa.record_batch({"column": encoded, "other": others})
    found = PageReader().read(PageWriter().write(ColumnBatch(batch.slice(1)))).batch
    assert found["other"].to_pylist() == [2, 3] and found["column"].type == column.type
    assert found["column"].to_pylist() == values[1:]


def test_dictionaries_travel_as_what_they_stand_for():
    texts = pa.array(["a", "b", None, "a"]).dictionary_encode()
    found = PageReader().read(PageWriter().write(ColumnBatch(pa.record_batch({"t": texts}))))
    assert found.batch.schema.field("t").type == pa.string()
    assert found.batch.to_pydict() == {"t": ["a", "b", None, "a"]}


def test_bytes_that_are_no_page_are_refused():
    page = PageWriter().write(ColumnBatch(pa.record_batch({"a": [1, 2, 3], "b": ["x", None, "yz"]}), np.arange(3)))
    reader, chance = PageReader(), random.Random(5)
    for size in range(len(page)):
        with pytest.raises(CorruptDataError, match="a page of"):
            reader.read(page[:size])
    with pytest.raises(CorruptDataError, match="of version 7; this flinkbuf reads version 1"):
        reader.read(b"\x07" + page[1:])
    for _ in range(2000):
        broken = bytearray(page)
        for _ in range(chance.randrange(1, 4)):
            broken[chance.randrange(len(broken))] = chance.randrange(256)
        try:
            found = PageReader().read(bytes(broken))
        except CorruptDataError:
            continue
        found.batch.validate(full=True)
        assert len(found.timestamps if found.timestamps is not None else found) == len(found)


@pytest.mark.parametrize("made", [pa.list_(pa.string()), pa.large_list(pa.int8()), pa.map_(pa.string(), pa.int8())])
@pytest.mark.parametrize("is_nested", [False, True])
def test_a_list_of_no_rows_that_begins_behind_its_elements_is_refused(made, is_nested):
    """Arrow looks at the offsets of rows, of which there are none, and its functions take the first one as it is."""
    offsets = pa.py_buffer((74).to_bytes(8 if pa.types.is_large_list(made) else 4, "little") * 2)
    children = [pa.array([], made.field(0).type)]
    column = pa.Array.from_buffers(made, 0, [None, offsets], children=children)
    if is_nested:
        column = pa.StructArray.from_arrays([pa.ListArray.from_arrays(pa.array([0, 0], pa.int32()), column)], ["part"])
    broken = pa.record_batch([column], ["c"])
    broken.validate(full=True)
    with pytest.raises(CorruptDataError, match="lists of no rows begin at element 74 of 0"):
        PageReader().read(PageWriter().write(ColumnBatch(broken)))


def test_rows_are_chosen_with_their_timestamps():
    rows = ColumnBatch(pa.record_batch({"a": [1, 2, 3, 4]}), np.array([40, 10, 30, 20]))
    assert rows.latest == 40
    chosen = rows.filter(pa.array([True, None, False, True]))
    assert (chosen.batch["a"].to_pylist(), chosen.timestamps.tolist()) == ([1, 4], [40, 20])
    assert rows.filter(pa.array([True] * 4)) is rows
    taken = rows.take(np.array([2, 0]))
    assert (taken.batch["a"].to_pylist(), taken.timestamps.tolist(), taken.latest) == ([3, 1], [30, 40], 40)
    assert ColumnBatch(rows.batch).filter(pa.array([False] * 4)).latest == NO_TIMESTAMP
    assert rows.take(np.array([], np.int64)).latest == NO_TIMESTAMP


@given(batches(), st.data(), st.booleans())
def test_a_mask_chooses_rows_as_a_list_would(batch, data, has_timestamps):
    count = batch.num_rows
    mask = data.draw(st.lists(st.sampled_from([True, True, False, None]), min_size=count, max_size=count))
    times = list(range(30, 30 + count))
    rows = ColumnBatch(batch, np.array(times, np.int64) if has_timestamps else None)
    chosen = rows.filter(pa.array(mask, pa.bool_()))
    assert chosen.batch.schema == batch.schema
    assert str(chosen.batch.to_pylist()) == str(
        [row for row, is_in in zip(batch.to_pylist(), mask, strict=True) if is_in]
    )
    if has_timestamps:
        assert chosen.timestamps.tolist() == [each for each, is_in in zip(times, mask, strict=True) if is_in]
    else:
        assert chosen.timestamps is None


def test_a_column_may_be_called_as_the_filter_calls_the_timestamps():
    rows = ColumnBatch(pa.record_batch({"timestamps": ["x", "y"]}), np.array([1, 2])).filter(pa.array([False, True]))
    assert (rows.batch.to_pydict(), rows.timestamps.tolist()) == ({"timestamps": ["y"]}, [2])


def test_other_columns_for_the_same_rows_keep_what_is_known_of_these():
    rows = ColumnBatch(pa.record_batch({"a": [1, 2]}), np.array([5, 3]))
    other = pa.record_batch({"b": [3, 4]})
    assert rows.with_batch(other).latest == rows.latest == rows.with_batch(other).latest == 5
    assert ColumnBatch(other).with_batch(other).latest == NO_TIMESTAMP


def test_nobody_changes_an_element():
    assert is_fixed_value(ColumnBatch(pa.record_batch({"a": [[1], [2]]})))


def test_the_type_of_pages_is_that_of_bytes():
    assert Types.PRIMITIVE_ARRAY(Types.BYTE()) != COLUMNS
    assert COLUMNS.deserialize(COLUMNS.serialize(b"page")) == b"page"
    assert repr(COLUMNS) == "COLUMNS"


def test_values_of_python_are_what_arrow_says():
    batch = pa.record_batch({"n": pa.array([Decimal("1.10")])})
    assert PageReader().read(PageWriter().write(ColumnBatch(batch))).batch.to_pydict() == {"n": [Decimal("1.10")]}


@pytest.mark.parametrize("times", [None, np.array([30, 10, 20, 40])], ids=["untimed", "timed"])
def test_rows_that_are_filtered_are_copied_when_somebody_looks_at_them(times):
    """And only the columns that are left then; which rows and which timestamps they are does not change by that."""
    batch = pa.record_batch({"a": [1, 2, 3, 4], "b": ["w", "x", None, "z"]})
    whole = ColumnBatch(batch, times)
    mask = pa.array([True, False, None, True])
    few = whole.filter(mask)
    assert len(few) == 2 and few.latest == (40 if times is not None else NO_TIMESTAMP)
    assert PageReader().element_of(few) is few  # as the next operator of a chain takes it
    assert "batch" not in few.__dict__ and is_fixed_value(few)
    arranged = few.arranged(lambda rows: rows.select(["b"]).rename_columns(["c"]))
    assert "batch" not in few.__dict__ and len(arranged) == 2 and arranged.latest == few.latest
    assert arranged.batch.to_pydict() == {"c": ["w", "z"]} and few.batch.equals(batch.filter(mask))
    again = few.filter(pa.array([False, True])).arranged(lambda rows: rows.select(["a"]))
    for rows, expected in ((few, [1, 4]), (again, [4]), (few.arranged(lambda rows: rows), [1, 4])):
        for each in (rows, pickle.loads(pickle.dumps(rows)), rows.take(np.arange(len(rows)))):
            assert each.batch["a"].to_pylist() == expected
            found = None if each.timestamps is None else each.timestamps.tolist()
            assert found == (None if times is None else [{1: 30, 4: 40}[a] for a in expected])
    assert whole.filter(pa.array([True] * 4)) is whole and len(whole.filter(pa.array([False] * 4)).batch["a"]) == 0


def test_what_rows_were_part_of_is_let_go_when_they_were_copied():
    whole = ColumnBatch(pa.record_batch({"a": [1, 2]}), np.array([1, 2]))
    held = weakref.ref(whole)
    few = whole.filter(pa.array([True, False]))
    del whole
    assert held() is not None and few.batch.num_rows == 1
    gc.collect()
    assert held() is None and few.timestamps.tolist() == [1]
