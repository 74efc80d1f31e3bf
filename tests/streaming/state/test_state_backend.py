"""Keyed state of an operator: names, types, snapshots at any moment, restores at any parallelism."""

import copy
import itertools
import sys
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.models.aggregates import Total
from support.models.frozen_tables import contents_of

from flinkbuf._core.state.key_context import KeyContext
from flinkbuf.checkpoints.state_file import SnapshotOutput
from flinkbuf.streaming.state.key_groups import KeyGroups
from flinkbuf.streaming.state.snapshot import OperatorSnapshot, SnapshotTarget
from flinkbuf.streaming.state.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueState,
    ValueStateDescriptor,
)
from flinkbuf.streaming.state.state_backend import KeyedStateBackend
from flinkbuf.streaming.state.state_ttl import StateTtlConfig
from flinkbuf.streaming.state.timers import TimerServices
from flinkbuf.testing import ManualClock
from flinkbuf.types.duration import Time
from flinkbuf.types.types import Types


def backend_of(*, key_type=None, parallelism=1, subtask=0, max_parallelism=128, restore=None, clock=None):
    keys, clock = KeyContext(None if key_type is None else key_type.codec), clock or ManualClock()
    groups = KeyGroups.of_subtask(key_type, max_parallelism, parallelism=parallelism, subtask_index=subtask)
    backend = KeyedStateBackend(keys, groups, clock, TimerServices(keys, clock))
    if restore is not None:
        backend.restore(restore)
    return backend


def snapshot_of(backend):
    """Through bytes and back."""
    return OperatorSnapshot.decode(OperatorSnapshot(keyed=(backend.snapshot(),)).encode())


DESCRIPTORS = {
    "value": ValueStateDescriptor("value", None),
    "typed": ValueStateDescriptor("typed", Types.LONG()),
    "list": ListStateDescriptor("list", Types.LONG()),
    "map": MapStateDescriptor("map", None, Types.LONG()),
    "reducing": ReducingStateDescriptor("reducing", lambda one, other: one + other, Types.LONG()),
    "aggregating": AggregatingStateDescriptor("aggregating", Total(), Types.LONG()),
}
KEYS = st.one_of(st.integers(-3, 3), st.sampled_from(["a", "b", None, True, False, 1.0, 0.0, -0.0, (1, "x"), b"\x00"]))
WRITES = st.lists(
    st.tuples(
        st.sampled_from(sorted(DESCRIPTORS)),
        KEYS,
        st.sampled_from([None, 1, (5, 6)]),
        st.integers(-9, 9),
        st.booleans(),
    ),
    max_size=40,
)


def identity(key):
    """What tells two keys apart that Python finds equal."""
    return (type(key), repr(key)) if not isinstance(key, tuple) else tuple(map(identity, key))


def write(state, kind, number):
    if kind in ("value", "typed"):
        state.update(number)
    elif kind == "map":
        state.put(number % 3, number)
    else:
        state.add(number)


def write_model(before, kind, number):
    if kind in ("value", "typed"):
        return number
    if kind == "map":
        return {**(before or {}), number % 3: number}
    if kind == "list":
        return [*(before or []), number]
    return number if before is None else before + number


def read(state, kind):
    if kind in ("value", "typed"):
        return state.value()
    if kind == "map":
        return dict(state.items()) or None
    return state.get() or None if kind == "list" else state.get()


def play(backend, model, writes):
    for kind, key, namespace, number, clears in writes:
        state = backend.get_internal_state(DESCRIPTORS[kind])
        backend.key_context.set_key(key)
        state.set_namespace(namespace)
        place = kind, identity(key), namespace
        if clears:
            state.clear()
            model.pop(place, None)
        else:
            write(state, kind, number)
            model[place] = write_model(model.get(place), kind, number)


def contents(backend, writes):
    """All that the backend has at the places that were written, in its key groups."""
    found, group_of = {}, backend.key_groups.grouper().group_of
    for kind, key, namespace, _, _ in writes:
        if group_of(key) in backend.key_groups:
            backend.key_context.set_key(key)
            state = backend.get_internal_state(DESCRIPTORS[kind])
            state.set_namespace(namespace)
            value = read(state, kind)
            if value is not None:
                found[kind, identity(key), namespace] = value
    return found


@settings(max_examples=150, deadline=None)
@given(writes=WRITES, cut=st.integers(0, 40), parallelism=st.integers(1, 5), releases=st.booleans())
def test_states_are_those_of_plain_dicts_through_snapshots_and_rescales(writes, cut, parallelism, releases):
    backend, model = backend_of(), {}
    play(backend, model, writes[:cut])
    live = OperatorSnapshot(keyed=(backend.snapshot(),))
    at_cut = {place: list(value) if isinstance(value, list) else value for place, value in model.items()}
    if releases:
        live_bytes = live.encode()
    play(backend, model, writes[cut:])
    if not releases:
        live_bytes = live.encode()  # while the operator went on
    assert contents(backend, writes) == model
    found = {}
    for subtask in range(parallelism):
        part = backend_of(parallelism=parallelism, subtask=subtask, restore=OperatorSnapshot.decode(live_bytes))
        mine = contents(part, writes)
        assert not mine.keys() & found.keys()
        found.update(mine)
    assert found == at_cut
    # And from several subtasks to one.
    again = [
        backend_of(parallelism=parallelism, subtask=subtask, restore=OperatorSnapshot.decode(live_bytes))
        for subtask in range(parallelism)
    ]
    for part in again[::2]:
        contents(part, writes)  # every second has been asked for its states, the others hand on what they never read
    joined = OperatorSnapshot(keyed=tuple(part for each in again for part in snapshot_of(each).keyed))
    assert contents(backend_of(restore=joined), writes) == at_cut


@settings(max_examples=60, deadline=None)
@given(writes=WRITES, cuts=st.lists(st.integers(0, 40), max_size=4), order=st.randoms(use_true_random=False))
def test_snapshots_that_overlap_each_see_their_own_moment(writes, cuts, order):
    backend, model, pending = backend_of(), {}, []
    for number, (kind, key, namespace, value, clears) in enumerate(writes):
        for _ in range(cuts.count(number)):
            pending.append((OperatorSnapshot(keyed=(backend.snapshot(),)), dict(model)))
        if pending and order.random() < 0.2:
            live, expected = pending.pop(order.randrange(len(pending)))
            restored = backend_of(restore=OperatorSnapshot.decode(live.encode()))
            assert contents(restored, writes) == expected
        play(backend, model, [(kind, key, namespace, value, clears)])
    assert contents(backend, writes) == model
    for live, expected in pending:
        assert contents(backend_of(restore=OperatorSnapshot.decode(live.encode())), writes) == expected


def test_a_value_that_is_changed_in_place_does_not_change_the_snapshot():
    backend = backend_of()
    state = backend.get_state(ValueStateDescriptor("s", None))
    backend.key_context.set_key("a")
    state.update({"seen": [1]})
    live = OperatorSnapshot(keyed=(backend.snapshot(),))
    value = state.value()
    value["seen"].append(2)
    state.update(value)
    restored = backend_of(restore=OperatorSnapshot.decode(live.encode()))
    restored.key_context.set_key("a")
    assert restored.get_state(ValueStateDescriptor("s", None)).value() == {"seen": [1]}
    assert state.value() == {"seen": [1, 2]}


@pytest.mark.parametrize(
    ("other", "what"),
    [
        (ListStateDescriptor("s", Types.LONG()), "kind is value, not list"),
        (ValueStateDescriptor("s", Types.STRING()), r"type is Types.LONG\(\), not Types.STRING"),
        (ReducingStateDescriptor("s", max, Types.LONG()), "kind is value, not reducing"),
    ],
)
def test_one_name_is_one_state(other, what):
    backend = backend_of()
    state = backend.get_state(ValueStateDescriptor("s", Types.LONG()))
    assert backend.get_state(ValueStateDescriptor("s", Types.LONG())) is state
    assert isinstance(state, ValueState)
    with pytest.raises(TypeError, match=f"there is a state 's' already whose {what}.*give one of them another name"):
        backend.get_state(other)
    restored = backend_of(restore=snapshot_of(backend))
    with pytest.raises(TypeError, match=f"the snapshot has a state 's' whose {what}"):
        restored.get_state(other)


def test_one_state_has_one_time_to_live():
    backend = backend_of()
    backend.get_state(ValueStateDescriptor("s", None))
    descriptor = ValueStateDescriptor("s", None)
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(1)).build())
    with pytest.raises(TypeError, match="there is a state 's' already, with another time to live"):
        backend.get_state(descriptor)


def test_a_user_s_state_and_the_operator_s_own_may_have_one_name():
    backend = backend_of()
    backend.key_context.set_key("a")
    backend.get_state(ValueStateDescriptor("s", None)).update(1)
    backend.get_internal_state(ValueStateDescriptor("s", None)).update(2)
    restored = backend_of(restore=snapshot_of(backend))
    restored.key_context.set_key("a")
    assert restored.get_state(ValueStateDescriptor("s", None)).value() == 1
    assert restored.get_internal_state(ValueStateDescriptor("s", None)).value() == 2


def test_stamps_go_through_snapshots_and_expired_values_are_left_out_if_asked():
    def descriptor(leaves_out):
        builder = StateTtlConfig.new_builder(Time.milliseconds(10)).disable_cleanup_in_background()
        made = ListStateDescriptor("s", Types.LONG())
        made.enable_time_to_live((builder.cleanup_full_snapshot() if leaves_out else builder).build())
        return made

    for leaves_out in (False, True):
        clock = ManualClock()
        backend = backend_of(clock=clock)
        backend.key_context.set_key("a")
        state = backend.get_state(descriptor(leaves_out))
        state.add(1)
        clock.advance_to(5)
        state.add(2)
        clock.advance_to(12)
        restored = backend_of(restore=snapshot_of(backend), clock=ManualClock(12))
        restored.key_context.set_key("a")
        again = restored.get_state(descriptor(leaves_out))
        assert contents_of(again.freeze())[None]["a"] == ([(2, 5)] if leaves_out else [(1, 0), (2, 5)])
        assert again.get() == [2]


def test_a_value_of_another_type_than_declared_is_refused_where_it_is_given():
    backend = backend_of()
    backend.key_context.set_key("a")
    state = backend.get_state(ValueStateDescriptor("count", Types.LONG()))
    state.update(1)
    with pytest.raises(
        TypeError, match="the state 'count' of the key 'a' cannot keep 'many': .*expected LONG, got 'many'"
    ):
        state.update("many")
    assert state.value() == 1


def test_a_key_that_is_not_this_subtask_s_is_an_error_that_says_why():
    backend = backend_of(parallelism=128, subtask=3)
    backend.key_context.set_key("a")
    backend.get_state(ValueStateDescriptor("s", None)).update(1)
    with pytest.raises(RuntimeError, match="key 'a' is in key group .* a key selector must give the same key"):
        snapshot_of(backend)


@pytest.mark.parametrize("change", [{"max_parallelism": 64}, {"key_type": Types.STRING()}])
def test_what_a_snapshot_s_keys_depend_on_cannot_change(change):
    with pytest.raises((ValueError, TypeError), match="set_max_parallelism|declare the same"):
        backend_of(restore=snapshot_of(backend_of()), **change)


def test_declared_keys_are_what_their_type_makes_of_them():
    backend = backend_of(key_type=Types.FLOAT())
    state = backend.get_state(ValueStateDescriptor("s", None))
    for key in (0.1, 0.10000000149011612, 1, 1.0):
        backend.key_context.set_key(key)
        state.update((state.value() or 0) + 1)
    assert [(type(key), key) for key in backend.keys(state)] == [(float, 0.10000000149011612), (float, 1.0)]
    with pytest.raises(TypeError, match="expected FLOAT, got 'a'"):
        backend.key_context.set_key("a")


def test_what_is_no_descriptor_is_refused():
    with pytest.raises(TypeError, match="expected a descriptor of a state, got 'count'"):
        backend_of().get_state("count")


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), WRITES.map(lambda writes: writes[:1])),
        st.tuples(st.sampled_from(["freeze", "release", "check"]), st.integers(0, 5)),
    ),
    max_size=60,
)


@settings(max_examples=200, deadline=None)
@given(steps=STEPS)
def test_snapshots_over_each_other_keep_what_was_in_any_order_of_their_ends(steps):
    backend, model, writes, taken = backend_of(), {}, [], []
    for what, argument in steps:
        if what == "write":
            play(backend, model, argument)
            writes += argument
        elif what == "freeze":
            at_cut = {place: copy.deepcopy(value) for place, value in model.items()}
            taken.append((OperatorSnapshot((backend.snapshot(),)), at_cut, list(writes)))
        elif what == "release" and taken:
            taken.pop(argument % len(taken))[0].release()
        elif what == "check" and taken:
            snapshot, at_cut, before = taken.pop(argument % len(taken))
            again = backend_of(restore=OperatorSnapshot.decode(snapshot.encode()))
            assert contents(again, before) == at_cut
        assert contents(backend, writes) == model
    for snapshot, at_cut, before in taken:
        again = backend_of(restore=OperatorSnapshot.decode(snapshot.encode()))
        assert contents(again, before) == at_cut
    for _ in range(len(writes)):  # changes go back a few at a time
        assert contents(backend, writes) == model


def pauses_of(backend):
    """Seconds of this thread from one moment to the next in which the writer of a snapshot let other threads run."""
    moments = [time.thread_time()]

    def is_cancelled():
        moments.append(time.thread_time())
        return False

    backend.snapshot().write(SnapshotTarget(SnapshotOutput(None, 0), is_cancelled=is_cancelled))
    return [after - before for before, after in itertools.pairwise(moments)]


@pytest.fixture
def short_switch_interval():
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.001)
    yield
    sys.setswitchinterval(before)


def test_a_snapshot_lets_others_run_every_millisecond(short_switch_interval):
    backend = backend_of(key_type=Types.LONG())
    state = backend.get_state(DESCRIPTORS["typed"])
    for key in range(100_000):
        backend.key_context.set_key(key)
        state.update(key)
    assert min(pauses_of(backend), default=1) < 0.005


def test_who_asks_for_the_interpreter_beside_a_snapshot_gets_it(short_switch_interval):
    backend = backend_of(key_type=Types.LONG())
    state = backend.get_state(DESCRIPTORS["typed"])
    for key in range(200_000):
        backend.key_context.set_key(key)
        state.update(key)
    steps, seen, is_over = 0, [], threading.Event()

    def be_busy():
        nonlocal steps
        while not is_over.is_set():
            steps += 1

    def is_cancelled():
        seen.append(steps)
        return False

    other = threading.Thread(target=be_busy)
    other.start()
    backend.snapshot().write(SnapshotTarget(SnapshotOutput(None, 0), is_cancelled=is_cancelled))
    is_over.set()
    other.join()
    assert len(set(seen)) > len(seen) / 2


def test_a_snapshot_of_few_but_large_values_lets_others_run_too():
    backend = backend_of()
    state = backend.get_state(DESCRIPTORS["value"])
    for key in range(40):
        backend.key_context.set_key(key)
        state.update([str(number) for number in range(20_000)])
    assert pauses_of(backend)
