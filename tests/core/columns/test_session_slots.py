"""What Python asks of sessions by slots; test_session_slots.c compares them with a model."""

import numpy as np
import pytest

from flinkbuf._core.columns.session_slots import NO_SLOT, SessionSlots


def keys(*numbers):
    return np.array(numbers, np.uint32)


def times(*numbers):
    return np.array(numbers, np.int64)


def test_rows_join_sessions_whose_parts_are_told_in_order():
    sessions = SessionSlots(10)
    slots = sessions.add(keys(0, 0, 0, 1, 0, 0), 2, times(40, 0, 20, 20, 10, 30))
    assert slots.tolist() == [0, 1, 2, 3, 4, 5]
    assert [each.tolist() for each in sessions.take_parts()] == [[1, 2, 4, 5], [0, 0, 0, 0]]
    assert [each.tolist() for each in sessions.take_parts()] == [[], []]
    assert sessions.add(keys(0), 2, times(45)).tolist() == [0]
    assert [each.tolist() for each in sessions.describe(sessions.all())] == [[0, 1], [0, 20], [55, 30], [0, 0]]
    assert (len(sessions), sessions.open_count) == (6, 2)


def test_late_rows_have_no_slot_and_change_sessions_that_are_not_over():
    sessions = SessionSlots(10, 5)
    assert sessions.advance(3).tolist() == []
    assert sessions.add(keys(0, 0), 1, times(0, 20)).tolist() == [0, 1]
    assert sessions.advance(9).tolist() == [0]
    assert sessions.add(keys(0, 1), 2, times(1, -6)).tolist() == [0, NO_SLOT] and sessions.late_count == 1
    assert sessions.take_changed().tolist() == []  # it goes on, and ends again
    assert sessions.advance(10).tolist() == [0]
    assert sessions.add(keys(0), 2, times(0)).tolist() == [0] and sessions.take_changed().tolist() == [0]
    assert sessions.take_changed().tolist() == []
    assert sessions.advance(14).tolist() == [] and sessions.open_count == 2
    assert sessions.advance(15).tolist() == [] and sessions.open_count == 1


def test_a_new_table_goes_on_with_the_sessions_of_another():
    one, other = SessionSlots(10), SessionSlots(10)
    one.add(keys(1, 0), 2, times(5, 7))
    assert other.restore(*one.describe(one.all())[:1], 2, *one.describe(one.all())[1:]).tolist() == [0, 1]
    assert other.advance(100).tolist() == [0, 1] and other.nbytes > 0


def test_batches_without_rows_are_nothing():
    sessions = SessionSlots(10)
    assert sessions.add(keys(), 0, times()).tolist() == []
    assert [each.tolist() for each in sessions.describe(sessions.all())] == [[], [], [], []]
    assert sessions.advance(5).tolist() == sessions.take_changed().tolist() == []
    assert sessions.restore(times(), 0, times(), times(), np.array([], np.uint8)).tolist() == []


def test_what_does_not_fit_is_refused():
    sessions = SessionSlots(10)
    with pytest.raises(OverflowError, match=f"a row with timestamp {2**63 - 10} does not fit into 64 bits"):
        sessions.add(keys(0, 0), 1, times(0, 2**63 - 10))
    for said in (
        lambda: sessions.add(keys(0, 1), 1, times(0, 0)),
        lambda: sessions.add(keys(0), 1, times(0, 0)),
        lambda: sessions.restore(times(1), 1, times(0), times(5), np.array([0], np.uint8)),
        lambda: sessions.restore(times(0), 1, times(), times(5), np.array([0], np.uint8)),
        lambda: SessionSlots(0),
        lambda: SessionSlots(5, -1),
    ):
        with pytest.raises(ValueError):
            said()
    with pytest.raises(IndexError, match="there are 0 slots, got 0 to 0"):
        sessions.describe(times(0))
    assert len(sessions) == 0
