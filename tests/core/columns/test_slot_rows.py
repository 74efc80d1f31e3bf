"""Rows by slot and time are found, withdrawn and let go as those of a plain list."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkbuf._core.columns.slot_rows import RowProbe, SlotRows

SLOTS = 40  # more than one group of the tree
ROWS = st.lists(st.tuples(st.integers(0, SLOTS - 1) | st.integers(0, 1), st.integers(-20, 20)), max_size=30)
STEPS = st.lists(
    st.tuples(st.just("insert"), ROWS)
    | st.tuples(st.sampled_from(["pairs", "withdraw"]), ROWS, st.integers(-5, 5), st.integers(0, 8))
    | st.tuples(st.just("expire"), st.integers(-25, 25))
    | st.tuples(st.just("between"), st.integers(-25, 25), st.integers(0, 20))
    | st.tuples(st.just("keep"), st.permutations(range(SLOTS)), st.integers(0, SLOTS)),
    max_size=12,
)


def arrays(rows):
    return np.array([slot for slot, _ in rows], np.uint32), np.array([time for _, time in rows], np.int64)


@settings(max_examples=150, deadline=None)
@given(STEPS, st.sampled_from([1, 3, 64]))
def test_rows_are_those_of_a_list(steps, room):
    rows, model, number = SlotRows(), [], 0  # of slot, time, number, whether it had a partner
    rows.grow(SLOTS)
    for kind, *what in steps:
        if kind == "insert":
            rows.insert(*arrays(what[0]), number)
            model += [[slot, time, number + i, False] for i, (slot, time) in enumerate(what[0])]
            number += len(what[0])
            model.sort(key=lambda row: (row[1], row[2]))
        elif kind in ("pairs", "withdraw"):
            asked, lower, width = what
            probe = RowProbe(*arrays(asked), lower, lower + width, kind == "pairs")
            found, wanted, had_partner = [], [], [False] * len(asked)
            assert rows.find(probe).tolist() == [
                next((row[2] for row in model if row[0] == slot and lower <= row[1] - time <= lower + width), -1)
                for slot, time in asked
            ]
            for i, (slot, time) in enumerate(asked):
                partners = [row for row in model if row[0] == slot and lower <= row[1] - time <= lower + width]
                wanted += [(i, row[2]) for row in partners]
                if kind == "withdraw":
                    model = [row for row in model if row not in partners]
                for row in partners:
                    row[3] = had_partner[i] = True
            for probe_rows, numbers in (rows.pairs if kind == "pairs" else rows.withdraw)(probe, room):
                assert len(numbers) <= room
                found += zip(probe_rows.tolist(), numbers.tolist(), strict=True)
            assert found == wanted
            if kind == "pairs":
                assert probe.had_partner.tolist() == had_partner
        elif kind == "expire":
            found = [
                row for taken in rows.expire(what[0], room) for row in zip(*map(np.ndarray.tolist, taken), strict=True)
            ]
            assert sorted(found) == sorted(
                (slot, number, time, had) for slot, time, number, had in model if time <= what[0]
            )
            model = [row for row in model if row[1] > what[0]]
        elif kind == "between":
            lower, upper = what[0], what[0] + what[1]
            found = [
                row
                for taken in rows.between(lower, upper, room)
                for row in zip(*map(np.ndarray.tolist, taken), strict=True)
            ]
            wanted = [(slot, number, time, had) for slot, time, number, had in model if lower <= time <= upper]
            assert found == sorted(wanted, key=lambda row: (row[0], row[2], row[1]))
        else:
            kept = what[0][: what[1]]
            rows.keep(np.array(kept, np.uint32))
            rows.grow(SLOTS)
            model = [[kept.index(row[0]), *row[1:]] for row in model if row[0] in kept]
        assert len(rows) == len(model)
        assert rows.earliest == min((row[1] for row in model), default=None)
        first = rows.first_numbers().tolist()
        assert first == [next((row[2] for row in model if row[0] == slot), -1) for slot in range(SLOTS)]


def test_bounds_at_the_ends_of_time_hold_all_there_is():
    rows = SlotRows()
    rows.grow(1)
    slots = np.zeros(3, np.uint32)
    ends = np.array([-(2**63), 0, 2**63 - 1])
    rows.insert(slots, ends, 0)
    for lower, upper in [(-(2**63), 2**63 - 1), (-(2**64), 2**64)]:
        probe = RowProbe(slots, ends, lower, upper)
        ((found, _),) = rows.pairs(probe, 16)
        assert found.tolist().count(1) == 3
    assert [taken.numbers.tolist() for taken in rows.expire(2**63 - 1, 16)] == [[0, 1, 2]]


def test_what_is_no_slot_and_no_time_is_refused():
    rows = SlotRows()
    rows.grow(1)
    with pytest.raises(IndexError, match="there are 1 slots, got 1"):
        rows.insert(np.array([1], np.uint32), np.array([0]), 0)
    with pytest.raises(ValueError, match="2 times for 1 slots"):
        rows.insert(np.array([0], np.uint32), np.array([0, 1]), 0)
    with pytest.raises(ValueError, match="2 times for 1 slots"):
        RowProbe(np.array([0], np.uint32), np.array([0, 1]), 0, 0)
    with pytest.raises(IndexError, match="there are 1 slots, got 7"):
        list(rows.pairs(RowProbe(np.array([7], np.uint32), np.array([0]), 0, 0), 8))
    with pytest.raises(ValueError, match="a slot is named twice"):
        rows.keep(np.array([0, 0], np.uint32))
