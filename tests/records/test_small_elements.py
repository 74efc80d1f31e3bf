"""Small elements go on together: all rows, in their order, and none waits where nothing is to be awaited."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkbuf._core.operators.stream_operator import NO_TIMESTAMP
from flinkbuf.records import small_elements
from flinkbuf.records.column_batch import ColumnBatch
from flinkbuf.records.column_exchange import ColumnKeyPartitioner
from flinkbuf.records.small_elements import SmallElements, small_elements_for

STEPS = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 70), st.sampled_from("abc"), st.booleans()), max_size=30)


def element_of(first, count, name="a", has_times=True):
    numbers = np.arange(first, first + count)
    return ColumnBatch(pa.record_batch({name: numbers}), numbers * 10 if has_times else None)


def rows_of(elements):
    """Each row with its column's name and its timestamp."""
    found = []
    for each in elements:
        times = [NO_TIMESTAMP] * len(each) if each.timestamps is None else each.timestamps.tolist()
        (name,) = each.batch.schema.names
        found += [(name, number, time) for number, time in zip(each.batch[name].to_pylist(), times, strict=True)]
    return found


@given(STEPS, st.sampled_from([-1, 1, 100]), st.integers(1, 3), st.integers(1, 9))
def test_all_rows_go_on_in_their_order(steps, delay_ms, channel_count, most_elements):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(small_elements, "_ROWS_A_CHANNEL", 8)
        patch.setattr(small_elements, "_MOST_ELEMENTS", most_elements)
        small = SmallElements(channel_count, delay_ms)
        came, gone, now_ms, first = [], [], 0, 0
        for count, pause_ms, name, has_times in steps:
            now_ms += pause_ms
            element = element_of(first, count, name, has_times)
            first += count
            came.append(element)
            had = small.count
            gone += small.add(element, now_ms)
            waiting = len(came) and len(rows_of(came)) - len(rows_of(gone))
            assert small.count < most_elements and waiting < 8 * channel_count
            assert small.count or rows_of(gone) == rows_of(came)
            assert had or delay_ms < 0 or 2 * pause_ms <= delay_ms or small.count == 0
        gone += small.take()
        assert small.count == 0 and small.take() == []
        assert rows_of(gone) == rows_of(came)
        assert len(gone) <= len(came)


def test_an_element_waits_where_another_came_shortly_before():
    small = SmallElements(1, 100)
    assert len(list(small.add(element_of(0, 1), 1000))) == 1
    assert len(list(small.add(element_of(1, 1), 1051))) == 1  # where they are rare, none waits
    assert list(small.add(element_of(2, 1), 1101)) == [] and small.began_ms == 1101
    assert list(small.add(element_of(3, 1), 1190)) == [] and small.began_ms == 1101
    (gone,) = small.take()
    assert gone.batch["a"].to_pylist() == [2, 3] and gone.timestamps.tolist() == [20, 30]


def test_a_large_element_goes_behind_those_that_wait_and_is_not_copied():
    small = SmallElements(1, -1)
    one, large = element_of(0, 3), element_of(3, 1 << 11)
    assert list(small.add(one, 0)) == []
    before, gone = small.add(large, 0)
    assert before.batch["a"].to_pylist() == [0, 1, 2] and gone is large


def test_wide_rows_are_few():
    small = SmallElements(8, -1)
    wide = ColumnBatch(pa.record_batch({"a": ["x" * (1 << 18)]}))
    assert [len(list(small.add(wide, 0))) for _ in range(4)] == [0, 0, 0, 1]


def test_dictionaries_go_together_as_their_values():
    small, made = SmallElements(1, -1), []
    for values in (["x", "y"], ["y", None]):
        made += small.add(ColumnBatch(pa.record_batch({"a": pa.array(values).dictionary_encode()})), 0)
    made += small.take()
    assert [each.batch["a"].to_pylist() for each in made] == [["x", "y", "y", None]]


def test_what_waits_stays_as_it_was():
    """A function may give batches over one array of numpy, into which it writes again."""
    small, numbers = SmallElements(1, -1), np.zeros(3, np.int64)
    for number in range(3):
        numbers[:] = number
        rows = ColumnBatch(pa.record_batch({"a": numbers}), numbers)
        assert list(small.add(rows if number else rows.filter(pa.array([True, False, True])), 0)) == []
    numbers[:] = 7
    (gone,) = small.take()
    assert gone.batch["a"].to_pylist() == gone.timestamps.tolist() == [0, 0, 1, 1, 1, 2, 2, 2]


def test_what_arrow_cannot_put_together_goes_on_by_itself(monkeypatch):
    def refuse(batches):
        raise pa.ArrowNotImplementedError("concatenation of such")

    small = SmallElements(1, -1)
    given = [element_of(0, 2), element_of(2, 1)]
    assert [list(small.add(each, 0)) for each in given] == [[], []]
    monkeypatch.setattr(pa, "concat_batches", refuse)
    assert rows_of(small.take()) == rows_of(given)


def test_elements_wait_where_no_result_tells_of_it():
    by_key = ColumnKeyPartitioner(("a",), 128, gathers=True)
    assert small_elements_for(by_key, 2, 100) is not None and small_elements_for(by_key, 2, -1) is not None
    assert small_elements_for(by_key, 2, 0) is None  # each is to be sent at once
    assert small_elements_for(ColumnKeyPartitioner(("a",), 128), 2, 100) is None
    assert small_elements_for("rebalance", 2, 100) is None
