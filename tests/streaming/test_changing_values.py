"""What is read from state is what was last written, whatever a function does to the objects that it still holds."""

import copy
from types import SimpleNamespace

import pytest
from support.worlds.saved_states import restored, save

from flinkbuf._core.state.key_context import KeyContext
from flinkbuf.common.time import Time
from flinkbuf.streaming.state.key_groups import KeyGroups
from flinkbuf.streaming.state.operator_state import OperatorStateBackend
from flinkbuf.streaming.state.rocksdb_backend import CACHE_ENTRIES, LOCAL_DIRECTORIES, RocksDbStateBackend
from flinkbuf.streaming.state.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from flinkbuf.streaming.state.state_backend import KeyedStateBackend
from flinkbuf.streaming.state.state_ttl import StateTtlConfig
from flinkbuf.streaming.state.timers import TimerServices
from flinkbuf.testing import ManualClock
from flinkbuf.types.types import Types

pytest.importorskip("rocksdict")

BACKENDS = pytest.mark.parametrize("kind", ["hashmap", "rocksdb"])


class Gather:
    """An aggregation whose accumulator is a list that grows in place, and whose result is that list."""

    def create_accumulator(self):
        return []

    def add(self, value, accumulator):
        accumulator.append(value)
        return accumulator

    def get_result(self, accumulator):
        return accumulator

    def merge(self, one, other):
        return one + other


def extend(one, other):
    one.extend(other)
    return one


@pytest.fixture
def backend(tmp_path):
    """Makes backends of a kind."""
    made = []

    def with_clock(kind, restore=None, key_type=None):
        keys, clock = KeyContext(None if key_type is None else key_type.codec), ManualClock()
        groups = KeyGroups.of_subtask(key_type, 128, parallelism=1, subtask_index=0)
        timers = TimerServices(keys, clock)
        if kind == "hashmap":
            made.append(KeyedStateBackend(keys, groups, clock, timers))
        else:
            options = {LOCAL_DIRECTORIES: str(tmp_path / "local"), CACHE_ENTRIES: 1}
            made.append(RocksDbStateBackend(keys, groups, clock, timers, options))
        if restore is not None:
            made[-1].restore(restore)
        return made[-1], clock

    def make(*arguments, **named):
        return with_clock(*arguments, **named)[0]

    make.with_clock = with_clock
    yield make
    for each in made:
        each.close()


# Of each kind: the descriptor, how an object is handed over, what is read, and what is read of one such object.
HANDED_OVER = {
    "value": (ValueStateDescriptor("s", None), lambda s, v: s.update(v), lambda s: s.value(), lambda v: v),
    "declared value": (
        ValueStateDescriptor("s", Types.LIST(Types.LIST(Types.LONG()))),
        lambda s, v: s.update(v),
        lambda s: s.value(),
        lambda v: v,
    ),
    "list add": (ListStateDescriptor("s", None), lambda s, v: s.add(v), lambda s: s.get(), lambda v: [v]),
    "list add_all": (ListStateDescriptor("s", None), lambda s, v: s.add_all([v]), lambda s: s.get(), lambda v: [v]),
    "list update": (ListStateDescriptor("s", None), lambda s, v: s.update([v]), lambda s: s.get(), lambda v: [v]),
    "map put": (
        MapStateDescriptor("s", None, None),
        lambda s, v: s.put("x", v),
        lambda s: s.get("x"),
        lambda v: v,
    ),
    "map put_all": (
        MapStateDescriptor("s", None, None),
        lambda s, v: s.put_all({"x": v}),
        lambda s: dict(s.items())["x"],
        lambda v: v,
    ),
    "map values": (
        MapStateDescriptor("s", None, None),
        lambda s, v: s.put("x", v),
        lambda s: list(s.values()),
        lambda v: [v],
    ),
    "reducing": (ReducingStateDescriptor("s", extend, None), lambda s, v: s.add(v), lambda s: s.get(), lambda v: v),
    "aggregating": (
        AggregatingStateDescriptor("s", Gather(), None),
        lambda s, v: s.add(v),
        lambda s: s.get(),
        lambda v: [v],
    ),
}
TTL = pytest.mark.parametrize("has_ttl", [False, True], ids=["", "ttl"])


def descriptor_of(name, has_ttl):
    descriptor = copy.copy(HANDED_OVER[name][0])
    if has_ttl:
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(1000)).build())
    return descriptor


@BACKENDS
@TTL
@pytest.mark.parametrize("name", HANDED_OVER)
def test_what_changes_after_it_was_handed_over_or_read_changes_no_state(backend, kind, name, has_ttl):
    _, hand_over, read, expected = HANDED_OVER[name]
    states = backend(kind)
    states.key_context.set_key("key")
    state = states.get_state(descriptor_of(name, has_ttl))
    value = [[1], [2]]
    hand_over(state, value)
    value[0].append(7)
    value.append([8])
    assert read(state) == expected([[1], [2]])
    given = read(state)
    given[-1].append(9)
    given.append([10])
    assert read(state) == expected([[1], [2]])


@BACKENDS
@TTL
@pytest.mark.parametrize("name", HANDED_OVER)
def test_what_changes_after_the_snapshot_was_taken_is_not_in_it(backend, tmp_path, kind, name, has_ttl):
    _, hand_over, read, expected = HANDED_OVER[name]
    states = backend(kind)
    states.key_context.set_key("key")
    state = states.get_state(descriptor_of(name, has_ttl))
    value = [[1], [2]]
    hand_over(state, value)
    given = read(state)
    taken = states.snapshot()
    value[0].append(7)
    given[-1].append(8)
    read(state)[-1].append(9)
    hand_over(state, [[3]])
    saved = save(Taken(taken), tmp_path / "saved")
    again = backend(kind, restored([saved], 1, 0, 1))
    again.key_context.set_key("key")
    assert read(again.get_state(descriptor_of(name, has_ttl))) == expected([[1], [2]])


class Taken:
    """A backend whose snapshot was taken before."""

    def __init__(self, taken):
        self.taken = taken

    def snapshot(self):
        return self.taken


class Kept(Gather):
    """Holds its accumulators itself and changes them later, as a cache does."""

    def __init__(self):
        self.held = []

    def add(self, value, accumulator):
        if not self.held:
            self.held.append(accumulator)
        self.held[0].append(value)
        return self.held[0]


@BACKENDS
def test_an_accumulator_that_its_function_goes_on_holding_is_not_in_the_snapshot(backend, tmp_path, kind):
    function = Kept()
    descriptor = AggregatingStateDescriptor("s", function, None)
    states = backend(kind)
    states.key_context.set_key("key")
    state = states.get_state(descriptor)
    state.add(1)
    state.add(2)
    taken = states.snapshot()
    state.add(3)
    assert state.get() == [1, 2, 3]
    again = backend(kind, restored([save(Taken(taken), tmp_path / "saved")], 1, 0, 1))
    again.key_context.set_key("key")
    assert again.get_state(descriptor).get() == [1, 2]


@BACKENDS
def test_a_key_that_changes_later_keeps_its_state(backend, tmp_path, kind):
    states = backend(kind)
    state = states.get_state(ValueStateDescriptor("s", None))
    key = ["a", ["b"]]
    states.key_context.set_key(key)
    state.update(1)
    key[1].append("c")
    for given in states.keys(state):
        given.append("d")
    again = backend(kind, restored([save(states, tmp_path / "saved")], 1, 0, 1))
    found = again.get_state(ValueStateDescriptor("s", None))
    again.key_context.set_key(["a", ["b"]])
    assert found.value() == 1 and again.keys(found) == [["a", ["b"]]]


def test_operator_state_is_what_was_handed_over():
    states = OperatorStateBackend()
    elements = states.get_list_state(ListStateDescriptor("l", None))
    rules = states.get_broadcast_state(MapStateDescriptor("b", None, None))
    value = [1]
    elements.add(value)
    rules.put("x", value)
    value.append(2)
    taken = states.snapshot()
    elements.get()[0].append(3)
    rules.get("x").append(3)
    next(iter(rules.values())).append(3)
    rules.read_only().get("x").append(3)
    assert elements.get() == [[1]] and rules.get("x") == [1] and dict(rules.items()) == {"x": [1]}
    assert taken["lists"]["l"] == [[1]] and taken["broadcasts"]["b"] == {"x": [1]}


def test_a_reader_of_broadcast_state_sees_what_was_put_last():
    rules = OperatorStateBackend().get_broadcast_state(MapStateDescriptor("b", None, None))
    view = rules.read_only()
    for number in range(3):
        rules.put("x", [number])
        assert view.get("x") == [number] and dict(view.items()) == {"x": [number]} and list(view.values()) == [[number]]
        assert view.get("x") is view.get("x")
    rules.clear()
    assert view.get("x") is None


DECLARED = {
    "value": (ValueStateDescriptor("s", Types.INT()), lambda s, v: s.update(v)),
    "list": (ListStateDescriptor("s", Types.INT()), lambda s, v: s.add(v)),
    "list update": (ListStateDescriptor("s", Types.INT()), lambda s, v: s.update([1, v])),
    "map": (MapStateDescriptor("s", Types.STRING(), Types.INT()), lambda s, v: s.put("x", v)),
    "map key": (MapStateDescriptor("s", Types.INT(), Types.INT()), lambda s, v: s.put(v, 1)),
    "reducing": (ReducingStateDescriptor("s", lambda one, other: one + other, Types.INT()), lambda s, v: s.add(v)),
    "aggregating": (
        AggregatingStateDescriptor("s", Gather(), Types.LIST(Types.INT())),
        lambda s, v: s.add(v),
    ),
}


@BACKENDS
@TTL
@pytest.mark.parametrize("name", DECLARED)
@pytest.mark.parametrize("value", [1.5, "text", 2**40, [1]], ids=repr)
def test_state_refuses_what_is_not_of_its_type_and_stays_as_it_was(backend, kind, name, value, has_ttl):
    descriptor, hand_over = DECLARED[name]
    descriptor = copy.copy(descriptor)
    if has_ttl:
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(1000)).build())
    states = backend(kind)
    states.key_context.set_key("key")
    state = states.get_state(descriptor)
    with pytest.raises((TypeError, OverflowError), match="the state 's' of the key 'key' cannot keep"):
        hand_over(state, value)
    states.snapshot().release()


@BACKENDS
def test_a_value_is_read_as_its_declared_type_has_it_before_and_after_a_restore(backend, tmp_path, kind):
    descriptors = [
        ValueStateDescriptor("double", Types.DOUBLE()),
        ValueStateDescriptor("row", Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()])),
        MapStateDescriptor("map", Types.DOUBLE(), Types.DOUBLE()),
        ListStateDescriptor("list", Types.TUPLE([Types.INT(), Types.DOUBLE()])),
    ]

    def read(states):
        states.key_context.set_key("key")
        double, row, mapping, elements = [states.get_state(each) for each in descriptors]
        return repr([double.value(), row.value().a, dict(mapping.items()), elements.get()])

    states = backend(kind)
    states.key_context.set_key("key")
    double, row, mapping, elements = [states.get_state(each) for each in descriptors]
    double.update(1)
    row.update((1, "x"))
    mapping.put(1, 2)
    elements.add([1, 2])
    before = read(states)
    assert before == "[1.0, 1, {1.0: 2.0}, [(1, 2.0)]]"
    assert read(backend(kind, restored([save(states, tmp_path / "saved")], 1, 0, 1))) == before


# ---- a time to live that comes and goes


FILLED = {
    "value": (ValueStateDescriptor("s", Types.LONG()), lambda s: s.update(7), lambda s: s.value(), None),
    "list": (ListStateDescriptor("s", Types.LONG()), lambda s: s.add_all([7, 8]), lambda s: s.get(), []),
    "map": (
        MapStateDescriptor("s", Types.STRING(), None),
        lambda s: s.put_all({"x": 7, "y": [8]}),
        lambda s: dict(s.items()),
        {},
    ),
    "reducing": (
        ReducingStateDescriptor("s", lambda one, other: one + other, Types.LONG()),
        lambda s: s.add(7),
        lambda s: s.get(),
        None,
    ),
    "aggregating": (AggregatingStateDescriptor("s", Gather(), None), lambda s: s.add(7), lambda s: s.get(), None),
}


@pytest.mark.parametrize("before", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("after", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("name", FILLED)
def test_a_time_to_live_may_be_given_to_state_that_exists(backend, tmp_path, before, after, name):
    descriptor, fill, read, nothing = FILLED[name]
    expected = fill_and_save(backend, tmp_path, before, after, descriptor, fill, read)
    states, clock = backend.with_clock(after, restored([expected.saved], 1, 0, 1))
    clock.advance_to(5000)
    state = with_key(states, expiring(descriptor))
    clock.advance_to(14_999)
    assert read(state) == expected.value  # as young as when the state was asked for
    clock.advance_to(15_000)
    assert read(state) == nothing


@pytest.mark.parametrize("before", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("after", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("name", FILLED)
def test_a_time_to_live_may_be_taken_from_state_that_exists(backend, tmp_path, before, after, name):
    descriptor, fill, read, _ = FILLED[name]
    expected = fill_and_save(backend, tmp_path, before, after, expiring(descriptor), fill, read)
    states, clock = backend.with_clock(after, restored([expected.saved], 1, 0, 1))
    clock.advance_to(10**9)
    assert read(with_key(states, descriptor)) == expected.value
    again, _ = backend.with_clock(after, restored([save(states, tmp_path / "again")], 1, 0, 1))
    assert read(with_key(again, descriptor)) == expected.value


def expiring(descriptor):
    descriptor = copy.copy(descriptor)
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(10)).build())
    return descriptor


def with_key(states, descriptor):
    states.key_context.set_key(("a key", True))
    return states.get_state(descriptor)


def fill_and_save(backend, tmp_path, before, after, descriptor, fill, read):
    states = backend(before)
    state = with_key(states, descriptor)
    fill(state)
    kind = "CHECKPOINT" if before == after == "rocksdb" else "SAVEPOINT"
    return SimpleNamespace(value=read(state), saved=save(states, tmp_path / "saved", kind))


@BACKENDS
@TTL
def test_a_map_keeps_none_as_a_value_of_any_type(backend, tmp_path, kind, has_ttl):
    descriptor = MapStateDescriptor("s", Types.STRING(), Types.BOOLEAN())
    descriptor = expiring(descriptor) if has_ttl else descriptor
    states = backend(kind)
    state = with_key(states, descriptor)
    state.put("x", None)
    state.put_all({"y": None, "z": True})
    again = with_key(backend(kind, restored([save(states, tmp_path / "saved")], 1, 0, 1)), descriptor)
    for each in (state, again):
        assert dict(each.items()) == {"x": None, "y": None, "z": True} and "x" not in each and "z" in each
