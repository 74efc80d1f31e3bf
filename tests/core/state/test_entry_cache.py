"""A cache of entries with a bound in bytes: what a dict would know, changes in order, and its memory."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkbuf._core.state.entry_cache import EntryCache

UNKNOWN = object()
PLACES = st.binary(max_size=3) | st.binary(min_size=14, max_size=20).map(lambda data: b"x" * 14 + data[:3])
DATA = st.binary(max_size=40) | st.binary(min_size=5000, max_size=5001)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_it_knows_what_it_was_told_and_hands_over_each_change_in_order(data):
    cache, store, changed = EntryCache(1), {}, {}
    for _ in range(data.draw(st.integers(1, 60))):
        place = data.draw(PLACES)
        if data.draw(st.booleans()):
            found = cache.get(place, UNKNOWN)
            assert found is not UNKNOWN or place not in changed
            if found is UNKNOWN and place in store:
                cache.keep(place, store[place])
            elif found is not UNKNOWN:
                assert found == (changed[place] if place in changed else store.get(place))
        else:
            value = data.draw(st.none() | DATA)
            is_same = cache.get(place, UNKNOWN) == value
            cache.change(place, value)
            if not is_same:
                changed[place] = value
        assert cache.get(place, UNKNOWN) in (changed[place] if place in changed else store.get(place), UNKNOWN)
        if cache.is_full() or data.draw(st.integers(0, 9)) == 0:
            found = list(cache.changes())
            assert [each for each, _ in found] == sorted(changed)  # none twice
            assert dict(found) == changed
            store.update(changed)
            store = {each: value for each, value in store.items() if value is not None}
            changed = {}
            cache.settle()
            assert cache.change_count == 0
            if cache.is_full():
                cache.next_generation()


def test_what_is_asked_for_stays_and_the_rest_leaves():
    cache = EntryCache(1 << 16)
    cache.keep(b"hot", b"1")
    for number in range(20_000):
        cache.keep(b"%08d" % number, b"data")
        assert cache.get(b"hot", None) == b"1" or number % 300  # asked for often enough
        if cache.is_full():
            cache.next_generation()
        assert cache.byte_count() < 4 << 16
    assert cache.turn > 10
    assert cache.get(b"00000001", UNKNOWN) is UNKNOWN
    assert cache.get(b"00019999", UNKNOWN) == b"data"


def test_an_entry_that_is_as_it_was_is_no_change():
    cache = EntryCache(1 << 16)
    cache.keep(b"a", b"1")
    cache.next_generation()
    cache.change(b"a", b"1")
    assert list(cache.changes()) == []
    cache.change(b"a", b"2")
    cache.change(b"a", b"1")  # the store may have been given 2 meanwhile: it is not compared with what it had
    assert list(cache.changes()) == [(b"a", b"1")]


def test_changes_do_not_leave_before_they_are_written():
    cache = EntryCache(1 << 16)
    cache.change(b"a", b"1")
    with pytest.raises(RuntimeError, match="the store does not have"):
        cache.next_generation()
    with pytest.raises(RuntimeError, match="the store does not have"):
        cache.clear()
    changes = cache.changes()
    cache.settle()
    cache.next_generation()
    with pytest.raises(RuntimeError, match="have left the cache"):
        next(changes)


def test_many_entries_are_found_again():
    cache, model, rng = EntryCache(1 << 30), {}, random.Random(1)
    for _ in range(50_000):
        place = rng.randrange(30_000).to_bytes(8, "big")
        model[place] = rng.randbytes(rng.choice((0, 8, 8, 8, 30)))
        cache.change(place, model[place])
    assert list(cache.changes()) == sorted(model.items())
    assert all(cache.get(place, None) == data for place, data in model.items())
    assert cache.change_count == len(model)
