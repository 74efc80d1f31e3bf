"""Equal keys are one key on every backend, whatever their bytes, in every process and after every restore."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.data import equal_keys
from support.data.equal_keys import PAIRS, TableWindow, hashable
from support.worlds.saved_states import restored, save

from flinkbuf._core.record.key_token import KeyTokens
from flinkbuf._core.state.key_context import KeyContext
from flinkbuf._core.state.rocksdb_table import entry_in, replaced
from flinkbuf.records.partitioner import key_group
from flinkbuf.streaming.state.key_groups import KeyGroups
from flinkbuf.streaming.state.rocksdb_backend import CACHE_ENTRIES, INCREMENTAL, LOCAL_DIRECTORIES, RocksDbStateBackend
from flinkbuf.streaming.state.state import MapStateDescriptor, ValueStateDescriptor
from flinkbuf.streaming.state.state_backend import KeyedStateBackend
from flinkbuf.streaming.state.state_ttl import StateTtlConfig
from flinkbuf.streaming.state.timers import TimerServices
from flinkbuf.testing import ManualClock
from flinkbuf.types.duration import Time
from flinkbuf.types.types import Types, object_type
from flinkbuf.types.values import Row

pytest.importorskip("rocksdict")


@pytest.fixture
def backend(tmp_path):
    """Makes backends of a kind."""
    made = []

    def make(kind, restore=None, key_type=None, is_incremental=True, parallelism=1, subtask=0):
        keys, clock = KeyContext(None if key_type is None else key_type.codec), ManualClock()
        groups = KeyGroups.of_subtask(key_type, 128, parallelism=parallelism, subtask_index=subtask)
        timers = TimerServices(keys, clock)
        if kind == "hashmap":
            made.append(KeyedStateBackend(keys, groups, clock, timers))
        else:
            options = {LOCAL_DIRECTORIES: str(tmp_path / "local"), INCREMENTAL: is_incremental, CACHE_ENTRIES: 1}
            made.append(RocksDbStateBackend(keys, groups, clock, timers, options))
        if restore is not None:
            made[-1].restore(restore)
        return made[-1]

    yield make
    for each in made:
        each.close()


def count(backend, key, namespace=None):
    """Count one more for a key; returns how many there are."""
    backend.key_context.set_key(key)
    state = backend.get_internal_state(ValueStateDescriptor("count", Types.LONG()))
    state.set_namespace(namespace)
    number = (state.value() or 0) + 1
    state.update(number)
    return number


def forget_cached(backend, namespace=None):
    """Have other keys take the place of those that are kept as objects."""
    for filler in range(100, 140):
        count(backend, filler, namespace)


@pytest.mark.parametrize("kind", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("name", PAIRS)
def test_equal_keys_have_one_state(backend, kind, name):
    one, equal = PAIRS[name]
    states = backend(kind)
    for expected, key in [(1, one), (2, equal), (3, one)]:
        assert count(states, key) == expected
        forget_cached(states)


@pytest.mark.parametrize("kind", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("name", PAIRS)
def test_equal_namespaces_are_one(backend, kind, name):
    one, equal = [TableWindow(name, value) for value in PAIRS[name]]
    states = backend(kind)
    for expected, namespace in [(1, one), (2, equal), (3, one)]:
        assert count(states, "key", namespace) == expected
        forget_cached(states, namespace)


def test_windows_that_are_equal_and_made_of_other_parts_are_refused_where_they_would_be_two(backend):
    one, equal = [TableWindow("one", number) for number in (1, 2)]
    for kind in ("hashmap", "rocksdb"):
        states = backend(kind)
        assert count(states, "key", one) == 1
        forget_cached(states, one)
        if kind == "hashmap":
            assert count(states, "key", equal) == 2
            continue
        with pytest.raises(ValueError, match=r"the window TableWindow\('one'\) is equal to one .* by its __getstate__"):
            count(states, "key", equal)
        assert count(states, "key", TableWindow("one", 1)) == 2


@pytest.mark.parametrize("before", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("after", ["hashmap", "rocksdb"])
def test_equal_keys_have_one_state_after_a_restore(backend, tmp_path, before, after):
    old = backend(before)
    keys = list(PAIRS)
    for name in keys:
        count(old, (name, PAIRS[name][0]))
        count(old, PAIRS[name][0], PAIRS["frozenset"][0])
    same = before == after == "rocksdb"
    saved = save(old, tmp_path / "saved", "CHECKPOINT" if same else "SAVEPOINT")
    new = backend(after, restored([saved], 1, 0, 1))
    for name in keys:
        assert count(new, (name, PAIRS[name][1])) == 2, name
        forget_cached(new)
        assert count(new, PAIRS[name][1], PAIRS["frozenset"][1]) == 2, name
    state = new.get_internal_state(ValueStateDescriptor("count", Types.LONG()))
    state.set_namespace(PAIRS["frozenset"][0])
    token_of = KeyTokens().token_of
    found = {token_of(key) for key in new.keys(state) if type(key) is not int or key < 100}
    assert found == {token_of(equal) for _, equal in PAIRS.values()}


@pytest.mark.parametrize("kind", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("has_ttl", [False, True], ids=["", "ttl"])
def test_the_user_keys_of_a_map_are_one_where_they_are_equal(backend, kind, has_ttl):
    """As in a dict of Python's, but that all NaN are one; what a dict does not take, no map takes."""
    states = backend(kind)
    descriptor = MapStateDescriptor("map", object_type(), Types.LONG())
    if has_ttl:
        descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
    mapping = states.get_state(descriptor)
    for name, (one, equal) in PAIRS.items():
        states.key_context.set_key(name)
        if not hashable(one):
            with pytest.raises(TypeError, match="unhashable"):
                mapping.put(one, 1)
            assert mapping.is_empty()
            continue
        mapping.put(one, 1)
        forget_cached(states)
        states.key_context.set_key(name)
        assert mapping.contains(equal) and mapping.get(equal) == 1, name
        mapping.put(equal, 2)
        assert list(mapping.values()) == [2] and mapping.get(one) == 2, name
        mapping.remove(equal)
        assert mapping.is_empty(), name


def test_equal_keys_windows_and_keys_of_maps_are_found_in_another_process(tmp_path):
    """By value: one process counts one of each pair, another one, with another order of sets, the equal ones."""
    script = Path(equal_keys.__file__).with_name("equal_keys_elsewhere.py")
    for seed, what in [("1", "write"), ("2", "read")]:
        ended = subprocess.run(
            [sys.executable, script, str(tmp_path), what],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path), "PATH": ""},
            capture_output=True,
            text=True,
        )
        assert ended.returncode == 0, ended.stderr
    kinds = ("hashmap", "rocksdb")
    assert ended.stdout.splitlines() == [f"{before} {after}: {{}}" for before in kinds for after in kinds]


@pytest.mark.parametrize("kind", ["hashmap", "rocksdb"])
def test_equal_keys_have_one_state_through_rescaling(backend, tmp_path, kind):
    """One of each pair and the other take turns, at a parallelism of 1, 2 and 3."""
    saved, turn = None, 0
    for parallelism in (1, 2, 3):
        part, found = [], {}
        for subtask in range(parallelism):
            restore = None if saved is None else restored(saved, parallelism - 1, subtask, parallelism)
            states = backend(kind, restore, parallelism=parallelism, subtask=subtask)
            for name, pair in PAIRS.items():
                key = (name, pair[turn % 2])
                if states.key_groups.grouper().group_of(key) in states.key_groups:
                    assert name not in found
                    found[name] = count(states, key), count(states, key, TableWindow(*key))
            part.append(save(states, tmp_path / f"{parallelism} {subtask}"))
        saved, turn = part, turn + 1
        assert found == dict.fromkeys(PAIRS, (turn, turn))


COUNT_ELSEWHERE = """
import sys
sys.path[:0] = sys.argv[2:]
from support.data.equal_keys import PAIRS
from flinkbuf._core.state.key_context import KeyContext
from flinkbuf._core.value.type_codec import TypeCodec
from flinkbuf.records.partitioner import key_group
from flinkbuf.streaming.state.key_groups import KeyGroups
from flinkbuf.streaming.state.rocksdb_backend import LOCAL_DIRECTORIES, RocksDbStateBackend
from flinkbuf.streaming.state.state import ValueStateDescriptor
from flinkbuf.streaming.state.state_ttl import StateTtlConfig
from flinkbuf.streaming.state.timers import TimerServices
from flinkbuf.testing import ManualClock
keys, clock = KeyContext(), ManualClock()
groups = KeyGroups.of_subtask(None, 128, parallelism=1, subtask_index=0)
backend = RocksDbStateBackend(keys, groups, clock, TimerServices(keys, clock), {LOCAL_DIRECTORIES: sys.argv[1]})
state = backend.get_state(ValueStateDescriptor("count", None))
for name, pair in PAIRS.items():
    keys.set_key(pair[0])
    state.update(name)
backend._tables[0].write_back()
for place, _ in backend._store.scan(bytes(2), bytes([127, 255])):
    print(place.hex())
backend.close()
"""


def test_the_place_of_a_key_is_the_same_in_every_process(tmp_path):
    found = [
        subprocess.run(
            [sys.executable, "-c", COUNT_ELSEWHERE, str(tmp_path), *sys.path],
            env={"PYTHONHASHSEED": seed, "PATH": ""},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert found[0] == found[1] and len(found[0].splitlines()) == len(PAIRS)


def old_place(namespace, key):
    """What files of the first version have: namespace and key as they are."""
    space, codec = object_type().codec.serialize(namespace), object_type().codec
    return (5).to_bytes(2, "big") + bytes(2) + len(space).to_bytes(2, "big") + space + codec.serialize(key)


@pytest.mark.parametrize("name", PAIRS)
def test_entries_of_older_files_find_their_place(name):
    one, equal = PAIRS[name]
    value, codec, token_of = Types.LONG().codec.serialize(7), object_type().codec, KeyTokens().token_of
    spaces = PAIRS["dataclass"]
    olds = [(old_place(spaces[0], one), value), (old_place(spaces[1], equal), value)]
    first, second = replaced(olds, {0: 3}, codec)
    assert first[0] == second[0] and first[0][:4] == bytes([0, 5, 0, 3])
    entry, namespace = entry_in(*first, b"", codec, False)
    assert entry.endswith(value) and codec.deserialize(namespace) == spaces[0]
    assert token_of(codec.deserialize(entry[1 + len(namespace) + 1 : -len(value)])) == token_of(one)


@pytest.mark.parametrize(
    "key_type",
    [
        Types.MAP(Types.STRING(), Types.LONG()),
        Types.ROW_NAMED(["m"], [Types.MAP(Types.STRING(), Types.LONG())]),
        Types.LIST(Types.MAP(Types.STRING(), Types.LONG())),
    ],
    ids=repr,
)
@pytest.mark.parametrize("kind", ["hashmap", "rocksdb"])
def test_equal_maps_of_a_declared_type_are_one_key(backend, kind, key_type):
    states = backend(kind, key_type=key_type)
    wrap = {"MAP": lambda m: m, "ROW": lambda m: (m,), "LIST": lambda m: [m]}[key_type.codec.kind]
    numbers = {str(i): i for i in range(20)}
    backwards = dict(reversed(numbers.items()))
    assert [count(states, wrap(m)) for m in (numbers, backwards, numbers, {"0": 0})] == [1, 2, 3, 1]


@pytest.mark.parametrize(
    "key", [*(one for one, _ in PAIRS.values()), Row(1, "x"), Row.of_kind("-D", 1), [Row(a=Row(2))]], ids=repr
)
def test_state_and_partitioner_agree_on_the_group_of_a_key(key):
    groups = KeyGroups.of_subtask(None, 128, parallelism=1, subtask_index=0)
    assert groups.grouper().group_of(key) == key_group(key, object_type(), 128)
