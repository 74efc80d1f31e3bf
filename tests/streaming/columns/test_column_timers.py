"""Timers as columns fire as those of a set do: each key's in order of time, once, and what a call changes counts."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkbuf.streaming.columns import column_timers as module
from flinkbuf.streaming.columns.column_timers import ColumnTimers
from flinkbuf.streaming.columns.key_table import KeyTable, stable_order
from flinkbuf.streaming.state.key_groups import KeyGroups

KEYS = 5


def table():
    made = KeyTable(("k",), KeyGroups(None, 128, 0, 127))
    made.slots_of(pa.record_batch({"k": np.arange(KEYS)}))
    return made


def note(timers, model, entries, is_set):
    slots, times = np.array(entries, np.int64).reshape(-1, 2).T
    timers.note(slots, times, is_set)
    for entry in entries:
        if is_set:
            model.add(entry)
        else:
            model.discard(entry)


ENTRIES = st.lists(st.tuples(st.integers(0, KEYS - 1), st.integers(-3, 30)), max_size=6)
NOTES = st.lists(st.tuples(ENTRIES, st.booleans()), max_size=3)
STEPS = st.lists(st.tuples(NOTES, st.none() | st.integers(0, 40)), max_size=8)


@settings(max_examples=150, deadline=None)
@given(STEPS, st.lists(st.tuples(ENTRIES, st.booleans()), max_size=12), st.integers(1, 3), st.booleans())
def test_timers_are_those_of_a_set(steps, later, most_runs, is_restored):
    """`later` is what calls register and delete while timers fire."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "MOST_RUNS", most_runs)
        patch.setattr(module, "MOST_NOTED", 4)
        timers, model, later, watermark = ColumnTimers(table()), set(), list(later), -1
        for notes, step in steps:
            for entries, is_set in notes:
                note(timers, model, entries, is_set)
            if step is not None:
                watermark = max(watermark, step)
                for slots, times in timers.rounds_to(watermark):
                    first = {}
                    for slot, time in sorted(model, key=lambda entry: entry[1]):
                        if time <= watermark:
                            first.setdefault(slot, time)
                    assert list(zip(slots.tolist(), times.tolist(), strict=True)) == sorted(
                        first.items(), key=lambda entry: (entry[1], entry[0])
                    )
                    model -= set(first.items())
                    if later:
                        note(timers, model, *later.pop())
                assert not any(time <= watermark for _, time in model)
            if is_restored:
                frozen, timers = timers.frozen_rows(), ColumnTimers(table())
                for batch in frozen:
                    timers.restore_rows(batch)
            held = np.zeros(KEYS, np.bool_)
            timers.mark(held)
            assert set(np.flatnonzero(held)) == {slot for slot, _ in model}


def test_a_timer_that_is_moved_with_each_batch_keeps_no_memory(monkeypatch):
    monkeypatch.setattr(module, "MOST_NOTED", 64)
    timers, slots = ColumnTimers(table()), np.arange(KEYS)
    for at in range(2000):
        timers.note(slots, np.full(KEYS, at + 10_000), False)
        timers.note(slots, np.full(KEYS, at + 10_001), True)
        assert sum(map(len, timers._runs)) < 2000
    assert len(timers._whole()) == KEYS


def test_many_timers_of_one_key_that_are_due_at_once_are_not_sorted_again_by_each_call(monkeypatch):
    sorted_counts = []
    monkeypatch.setattr(module, "stable_order", lambda *a: sorted_counts.append(len(a[0])) or stable_order(*a))
    timers = ColumnTimers(table())
    timers.note(np.zeros(500, np.int64), np.arange(500), True)
    found = []
    for slots, times in timers.rounds_to(499):
        found += times.tolist()
        timers.note(slots, times + 1000, True)
    assert found == list(range(500))
    assert sum(sorted_counts) < 500 * 6


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 70000)))
def test_a_stable_order(numbers):
    numbers = np.array(numbers, np.int64)
    assert stable_order(numbers).tolist() == np.argsort(numbers, kind="stable").tolist()
