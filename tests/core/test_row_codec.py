"""The life of a row: made without calling its class, freed into lists of its own, and still like any other object."""

import gc
import pickle
import sys

import pytest

from flinkbuf.types.row import Row, RowKind, row_classes
from flinkbuf.types.types import Types

PAIR = Types.ROW_NAMED(["origin", "delay"], [Types.STRING(), Types.DOUBLE()])


def row_of(size):
    """A type of `size` ints, and the bytes of one row for each of 300 first fields."""
    flink_type = Types.ROW([Types.LONG()] * size)
    return flink_type, [flink_type.serialize(tuple(range(first, first + size))) for first in range(300)]


@pytest.mark.parametrize("keeps", [False, True], ids=["dropped", "kept"])
def test_rows_of_every_size_hold_their_own_fields(keeps):
    # Between two of them all others are made and freed, so that memory goes from hand to hand.
    types = [row_of(size) for size in range(25)]
    kept = []
    for first in range(300):
        for size, (flink_type, data) in enumerate(types):
            row = flink_type.deserialize(data[first])
            assert row == tuple(range(first, first + size)) and type(row) is Row
            if keeps:
                kept.append((first, size, row))
    assert all(row == tuple(range(first, first + size)) for first, size, row in kept)


def test_a_row_has_the_hash_of_its_own_fields_whatever_lay_in_its_memory_before():
    # Python 3.14 keeps the hash of a tuple in the tuple.
    for number in range(1000):
        row = PAIR.deserialize(PAIR.serialize((f"k{number}", number / 3)))
        assert hash(row) == hash((f"k{number}", number / 3))
        assert {row: 1}[(f"k{number}", number / 3)] == 1


def test_rows_hold_their_class_as_long_as_they_live():
    classes = row_classes(("origin", "delay"))
    data = [PAIR.serialize(classes[kind]("JFK", 2.5)) for kind in RowKind]
    before = [sys.getrefcount(cls) for cls in classes]
    for _ in range(3):
        rows = [PAIR.deserialize(each) for each in data for _ in range(500)]
        assert [sys.getrefcount(cls) for cls in classes] == [count + 500 for count in before]
        made = [classes[kind]("JFK", 2.5) for kind in RowKind for _ in range(500)]
        assert [sys.getrefcount(cls) for cls in classes] == [count + 1000 for count in before]
        del rows, made
        assert [sys.getrefcount(cls) for cls in classes] == before


def test_rows_in_rows_are_freed_at_any_depth():
    Types.ROW([Types.LONG()]).codec  # its rows are freed our way from here on
    row = Row(1)
    for _ in range(300_000):
        row = Row(row)
    del row


def test_a_class_below_row_keeps_attributes_and_its_end():
    ends = []

    class Flight(row_classes(("origin", "delay"))[0]):
        def __del__(self):
            ends.append((self.origin, self.note))

    class Plain(row_classes(("origin", "delay"))[0]):
        __slots__ = ()

        def __del__(self):
            ends.append(tuple(self))

    PAIR.codec
    before = sys.getrefcount(Flight), sys.getrefcount(Plain)
    flight, plain = Flight("JFK", 2.5), Plain("EWR", 1.0)
    flight.note = "late"
    assert (sys.getrefcount(Flight), sys.getrefcount(Plain)) == (before[0] + 1, before[1] + 1)
    del flight, plain
    assert ends == [("JFK", "late"), ("EWR", 1.0)]
    assert (sys.getrefcount(Flight), sys.getrefcount(Plain)) == before


def test_an_end_that_is_added_later_is_called_once_for_rows_that_the_collector_does_not_see():
    flink_type = Types.ROW_NAMED(["added", "later"], [Types.LONG(), Types.LONG()])
    data = flink_type.serialize((3, 4))
    row = flink_type.deserialize(data)
    ends = []
    type(row).__del__ = lambda self: ends.append(self)  # it lives on there
    del row
    assert ends == [(3, 4)]
    del type(ends[0]).__del__
    ends.clear()
    assert [flink_type.deserialize(data) for _ in range(300)] == [(3, 4)] * 300 and ends == []


def test_a_cycle_through_a_row_is_collected_and_its_memory_used_again():
    flink_type = Types.ROW([Types.PICKLED_BYTE_ARRAY(), Types.LONG()])
    data = flink_type.serialize(([], 1))
    for _ in range(300):
        row = flink_type.deserialize(data)
        row[0].append(row)
        del row
    gc.collect()
    rows = [flink_type.deserialize(data) for _ in range(300)]
    assert all(row == ([], 1) for row in rows)
    assert pickle.loads(pickle.dumps(rows)) == rows
