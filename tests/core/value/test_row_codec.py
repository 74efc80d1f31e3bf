"""The life of a row: made without calling its class, freed into lists of its own, and still like any other object."""

import collections
import gc
import pickle
import random
import sys

import pytest

import flinkbuf as fb
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


def test_a_kind_is_found_where_a_class_or_a_row_has_it():
    kind = fb.Types.ROW_NAMED(["a", "b"], [fb.Types.LONG(), fb.Types.LONG()])
    Swapped = collections.namedtuple("Swapped", "b a")

    class OfClass(tuple):
        __slots__ = ()
        row_kind = 3

    class Computed(tuple):
        row_kind = property(lambda self: 3)

    class Own(tuple):
        pass

    class Wrong(tuple):
        row_kind = -1

    class TooLarge(tuple):
        row_kind = 2**32

    own = Own((1, 2))
    own.row_kind = 3
    for value in (OfClass((1, 2)), Computed((1, 2)), own):
        assert kind.deserialize(kind.serialize(value)) == fb.Row.of_kind("-D", 1, 2)
    for value in (Wrong((1, 2)), TooLarge((1, 2))):
        assert kind.serialize(Swapped(b=2, a=1)) == kind.serialize((1, 2))
        with pytest.raises(ValueError, match="row_kind is one of 0 to 3"):
            kind.serialize(value)
        assert kind.serialize(Swapped(b=2, a=1)) == kind.serialize((1, 2))


def test_rows_of_many_classes_take_turns():
    """What is known of one class is not taken for another: names of a row, of a class, none; kinds, such fields."""
    spark = pytest.importorskip("pyspark.sql")
    Named = collections.namedtuple("Named", "b a")
    Kind = collections.namedtuple("Kind", "row_kind b")
    kind = fb.Types.ROW_NAMED(["a", "b"], [fb.Types.LONG(), fb.Types.LONG()])
    kinds = fb.Types.ROW_NAMED(["row_kind", "b"], [fb.Types.LONG(), fb.Types.LONG()])
    plain = fb.Types.ROW([fb.Types.LONG(), fb.Types.LONG()])

    class Pair(tuple):
        pass

    given = [
        (fb.Row(a=1, b=2), (1, 2), (1, 2)),
        (fb.Row(b=2, a=1), (1, 2), (2, 1)),
        (Named(b=2, a=1), (1, 2), (2, 1)),
        (spark.Row(b=2, a=1), (1, 2), (2, 1)),
        (spark.Row(a=1, b=2), (1, 2), (1, 2)),
        (spark.Row(1, 2), (1, 2), (1, 2)),
        (fb.Row(1, 2), (1, 2), (1, 2)),
        (Pair((1, 2)), (1, 2), (1, 2)),
        (fb.Row.of_kind("-D", 1, 2), fb.Row.of_kind("-D", 1, 2), fb.Row.of_kind("-D", 1, 2)),
    ]
    rng = random.Random(1)
    for _ in range(200):
        value, by_name, by_place = rng.choice(given)
        for type_, wanted in ((kind, by_name), (plain, by_place)):
            (found,) = fb.read_buffers([buffer for _, buffer in fb.write_buffers([value], type_, 1)], type_)
            assert tuple(found) == tuple(wanted)
            assert found.row_kind == getattr(wanted, "row_kind", 0)
        for value in (Kind(1, 2), spark.Row(row_kind=1, b=2)):
            (found,) = fb.read_buffers([buffer for _, buffer in fb.write_buffers([value], kinds, 1)], kinds)
            assert tuple(found) == (1, 2)
            assert type(found).row_kind == 0
