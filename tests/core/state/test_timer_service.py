"""Timers: at most one for each time, key and namespace, in the order of their times."""

import sys

import numpy
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from flinkbuf._core.state.key_context import KeyContext, key_of
from flinkbuf._core.state.timer_service import InternalTimerService, timers_in
from flinkbuf.testing import ManualClock


class Fired:
    """Notes each timer, and may act on it."""

    def __init__(self):
        self.seen = []
        self.then = lambda timestamp, key: None

    def on_event_time(self, timestamp, key, namespace):
        self.seen.append(("event", timestamp, key, namespace))
        self.then(timestamp, key)

    def on_processing_time(self, timestamp, key, namespace):
        self.seen.append(("wall", timestamp, key, namespace))
        self.then(timestamp, key)


@pytest.fixture
def world():
    keys, clock, fired = KeyContext(), ManualClock(), Fired()
    return keys, clock, fired, InternalTimerService("timers", keys, fired, clock)


def test_a_timer_fires_once_its_time_has_come_and_not_before(world):
    keys, _, fired, service = world
    keys.set_key("a")
    service.register_event_time_timer(None, 5)
    service.advance_watermark(4)
    assert fired.seen == []
    keys.set_key("b")
    service.advance_watermark(5)
    assert (fired.seen, keys.key, service.current_watermark) == ([("event", 5, "a", None)], "a", 5)


def test_registering_twice_keeps_one_and_deleting_takes_it(world):
    keys, _, fired, service = world
    for key in ("a", "b", "a"):
        keys.set_key(key)
        for namespace in (None, "w"):
            service.register_event_time_timer(namespace, 5)
    assert len(service) == 4
    service.delete_event_time_timer("w", 5)
    service.delete_event_time_timer("unknown", 5)
    service.delete_event_time_timer("w", 6)
    service.advance_watermark(9)
    assert fired.seen == [("event", 5, "a", None), ("event", 5, "b", None), ("event", 5, "b", "w")]


def test_a_timer_that_is_late_fires_with_the_next_watermark(world):
    keys, _, fired, service = world
    keys.set_key("a")
    service.advance_watermark(10)
    service.register_event_time_timer(None, 3)
    assert fired.seen == []
    service.advance_watermark(10)
    assert fired.seen == [("event", 3, "a", None)]


def test_what_a_timer_registers_fires_in_the_same_turn_and_what_it_deletes_does_not(world):
    keys, _, fired, service = world

    def act(timestamp, key):
        if timestamp < 8:
            service.register_event_time_timer(None, timestamp + 2)
        if key == "a":
            keys.set_key("b")
            service.delete_event_time_timer(None, timestamp)

    fired.then = act
    for key in ("a", "b"):
        keys.set_key(key)
        service.register_event_time_timer(None, 4)
    service.advance_watermark(9)
    assert [(time, key) for _, time, key, _ in fired.seen] == [(4, "a"), (6, "a"), (8, "a")]


def test_only_the_earliest_timer_waits_for_the_clock(world):
    keys, clock, fired, service = world
    keys.set_key("a")
    service.register_processing_time_timer(None, 20)
    service.register_processing_time_timer(None, 30)
    assert clock.timer_count == 1
    service.register_processing_time_timer(None, 10)
    assert clock.timer_count == 1
    clock.advance_to(10)
    assert fired.seen == []
    clock.advance_to(11)
    assert fired.seen == [("wall", 10, "a", None)] and clock.timer_count == 1
    clock.advance_to(100)
    assert [time for _, time, _, _ in fired.seen] == [10, 20, 30] and clock.timer_count == 0


def test_nothing_fires_in_processing_time_after_quiesce(world):
    keys, clock, fired, service = world
    keys.set_key("a")
    service.register_processing_time_timer(None, 1)
    service.register_event_time_timer(None, 1)
    service.quiesce()
    service.register_processing_time_timer(None, 2)
    clock.advance_to(50)
    assert fired.seen == [] and clock.timer_count == 0
    service.advance_watermark(2**63 - 1)
    assert fired.seen == [("event", 1, "a", None)]


@pytest.mark.parametrize("time", [1.5, "soon", None, True])
def test_a_time_is_a_whole_number_of_milliseconds(world, time):
    keys, _, _, service = world
    keys.set_key("a")
    with pytest.raises(TypeError, match="whole number of milliseconds"):
        service.register_event_time_timer(None, time)


@pytest.mark.parametrize("kind", [numpy.int64, numpy.int32, numpy.uint16])
def test_a_time_of_numpy_s_is_the_same_timer(world, kind):
    keys, _, fired, service = world
    keys.set_key("a")
    service.register_event_time_timer(None, kind(5))
    service.register_event_time_timer(None, 5)
    service.register_event_time_timer(None, kind(6))
    service.delete_event_time_timer(None, kind(6))
    service.advance_watermark(10)
    assert fired.seen == [("event", 5, "a", None)] and type(fired.seen[0][1]) is int


def test_a_timer_needs_a_key_and_64_bits(world):
    keys, _, _, service = world
    with pytest.raises(RuntimeError, match="there is none now"):
        service.register_event_time_timer(None, 1)
    keys.set_key("a")
    with pytest.raises(OverflowError, match="64 bits"):
        service.register_event_time_timer(None, 2**63)


KEYS = st.sampled_from(["a", "b", 1, True, 1.0, None])
NAMESPACES = st.sampled_from([None, "w", (1, 2)])
TIMES = st.integers(-5, 20)


def identity(key):
    return type(key), key


class SortedList(RuleBasedStateMachine):
    """The same timers in a plain list, which is sorted and searched."""

    def __init__(self):
        super().__init__()
        self.keys, self.clock, self.fired = KeyContext(), ManualClock(), Fired()
        self.service = InternalTimerService("timers", self.keys, self.fired, self.clock)
        self.model = {"event": [], "wall": []}
        self.snapshots = []
        self.watermark = -10

    def methods(self, domain):
        kind = "event" if domain == "event" else "processing"
        return getattr(self.service, f"register_{kind}_time_timer"), getattr(self.service, f"delete_{kind}_time_timer")

    def take_fired(self):
        seen, self.fired.seen = self.fired.seen, []
        return [(time, identity(key), namespace) for _, time, key, namespace in seen]

    @rule(domain=st.sampled_from(["event", "wall"]), key=KEYS, namespace=NAMESPACES, time=TIMES)
    def register(self, domain, key, namespace, time):
        self.keys.set_key(key)
        self.methods(domain)[0](namespace, time)
        timer = (time, identity(key), namespace)
        if timer not in self.model[domain]:
            self.model[domain].append(timer)

    @rule(domain=st.sampled_from(["event", "wall"]), key=KEYS, namespace=NAMESPACES, time=TIMES)
    def delete(self, domain, key, namespace, time):
        self.keys.set_key(key)
        self.methods(domain)[1](namespace, time)
        if (time, identity(key), namespace) in self.model[domain]:
            self.model[domain].remove((time, identity(key), namespace))

    def check(self, domain, until):
        due = [timer for timer in self.model[domain] if timer[0] <= until]
        self.model[domain] = [timer for timer in self.model[domain] if timer[0] > until]
        fired = self.take_fired()
        assert [time for time, _, _ in fired] == sorted(time for time, _, _ in due)
        assert sorted(fired, key=repr) == sorted(due, key=repr)

    @rule(step=st.integers(0, 6))
    def advance_watermark(self, step):
        self.watermark += step
        self.service.advance_watermark(self.watermark)
        self.check("event", self.watermark)

    @rule(step=st.integers(1, 6))
    def advance_clock(self, step):
        self.clock.advance_to(self.clock.now_ms() + step)
        self.check("wall", self.clock.now_ms() - 1)

    @rule()
    def restore_elsewhere(self):
        event, wall = (list(timers_in(each)) for each in self.service.freeze())
        self.clock = ManualClock(self.clock.now_ms())
        self.service = InternalTimerService("timers", self.keys, self.fired, self.clock)
        self.service.advance_watermark(self.watermark)
        self.service.restore(event, wall)

    @rule()
    def freeze(self):
        self.snapshots.append(
            (self.service.freeze(), {domain: sorted(map(repr, self.model[domain])) for domain in self.model})
        )

    @invariant()
    def snapshots_stay_as_they_were(self):
        for frozen, expected in self.snapshots:
            for each, domain in zip(frozen, ("event", "wall"), strict=True):
                found = [(time, identity(key_of(token)), namespace) for time, token, namespace in timers_in(each)]
                assert sorted(map(repr, found)) == expected[domain]

    @invariant()
    def one_timer_waits_if_any(self):
        assert self.clock.timer_count == 1 or not self.model["wall"]
        assert len(self.service) == len(self.model["event"]) + len(self.model["wall"])


TestAgainstASortedList = SortedList.TestCase
TestAgainstASortedList.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_timers_that_are_moved_on_and_on_leave_nothing_behind(world):
    keys, _, fired, service = world
    keys.set_key("a")
    for time in range(100_000):
        service.register_event_time_timer(None, time)
        service.delete_event_time_timer(None, time)
    assert sys.getsizeof(service) < 10_000 and len(service) == 0
    service.register_event_time_timer(None, 5)
    service.advance_watermark(2**62)
    assert fired.seen == [("event", 5, "a", None)]


def test_a_snapshot_copies_no_timers(world):
    keys, _, fired, service = world
    for time in range(2_000):
        for key in range(3):
            keys.set_key(key)
            service.register_event_time_timer(None, time)
    before = sys.getallocatedblocks()
    frozen = service.freeze()
    assert sys.getallocatedblocks() - before < 100
    service.advance_watermark(2**62)
    assert len(fired.seen) == 6_000 and len(service) == 0
    assert sum(1 for _ in timers_in(frozen[0])) == 6_000
