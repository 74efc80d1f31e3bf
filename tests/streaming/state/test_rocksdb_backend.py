"""Keyed state in RocksDB: what is in memory otherwise, files that checkpoints share, savepoints that all read."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.worlds.plain_storage import PlainStorage
from support.worlds.saved_states import restored, save
from test_state_backend import WRITES, backend_of, contents, play

from flinkbuf._core.state.key_context import KeyContext
from flinkbuf.checkpoints.handles import SharedFile, StateHandle
from flinkbuf.errors import CorruptDataError
from flinkbuf.streaming.checkpoint.snapshot_writer import SnapshotCancelledError
from flinkbuf.streaming.state import rocksdb_store
from flinkbuf.streaming.state.key_groups import KeyGroups
from flinkbuf.streaming.state.rocksdb_backend import (
    CACHE_BYTES,
    CACHE_ENTRIES,
    INCREMENTAL,
    LOCAL_DIRECTORIES,
    RocksDbStateBackend,
)
from flinkbuf.streaming.state.rocksdb_snapshot import UploadedFiles
from flinkbuf.streaming.state.rocksdb_store import RocksDbStore, rocksdict
from flinkbuf.streaming.state.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from flinkbuf.streaming.state.state_ttl import StateTtlConfig
from flinkbuf.streaming.state.timers import TimerServices
from flinkbuf.testing import ManualClock
from flinkbuf.types.duration import Time
from flinkbuf.types.types import Types

pytest.importorskip("rocksdict")


@pytest.fixture
def rocksdb(tmp_path):
    """Makes backends; closes them."""
    made = []

    def make(
        *, parallelism=1, subtask=0, restore=None, clock=None, is_incremental=True, cache=10_000, cache_size=1 << 20
    ):
        keys, clock = KeyContext(), clock or ManualClock()
        groups = KeyGroups.of_subtask(None, 128, parallelism=parallelism, subtask_index=subtask)
        options = {LOCAL_DIRECTORIES: str(tmp_path / "local"), INCREMENTAL: is_incremental, CACHE_ENTRIES: cache}
        options[CACHE_BYTES] = cache_size
        made.append(RocksDbStateBackend(keys, groups, clock, TimerServices(keys, clock), options))
        if restore is not None:
            made[-1].restore(restore)
        return made[-1]

    yield make
    for each in made:
        each.close()
    assert list((tmp_path / "local").iterdir()) == []


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25, deadline=None)
@given(writes=WRITES, cut=st.integers(0, 40), cache=st.sampled_from([1, 10_000]), data=st.data())
def test_states_are_those_of_plain_dicts_through_all_ways_of_saving(rocksdb, tmp_path, writes, cut, cache, data):
    old, new = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    kind = data.draw(st.sampled_from(["CHECKPOINT", "FULL_CHECKPOINT", "SAVEPOINT", "hashmap"]))
    model, states = {}, []
    for subtask in range(old):
        place = {"parallelism": old, "subtask": subtask}
        backend = backend_of(**place) if kind == "hashmap" else rocksdb(**place, cache=cache, cache_size=cache)
        group_of = backend.key_groups.grouper().group_of
        mine = [each for each in writes if group_of(each[1]) in backend.key_groups]
        play(backend, model, mine[:cut])
        backend.snapshot().release()  # one that comes to nothing
        play(backend, model, mine[cut:])
        saved = save(backend, tmp_path / "chk", "SAVEPOINT" if kind == "hashmap" else kind)
        play(backend, {}, mine)  # what is written later is not in it
        assert {keyed.backend for keyed in saved.operators[0].keyed} == (
            {"hashmap"} if kind in ("SAVEPOINT", "hashmap") else {"rocksdb"}
        )
        states.append(saved)
    found = {}
    for subtask in range(new):
        part = rocksdb(
            parallelism=new, subtask=subtask, restore=restored(states, old, subtask, new), cache=cache, cache_size=cache
        )
        found.update(contents(part, writes))
        if kind in ("SAVEPOINT", "hashmap"):
            other = backend_of(parallelism=new, subtask=subtask, restore=restored(states, old, subtask, new))
            assert contents(other, writes) == contents(part, writes)
    assert found == model


def fill(backend, keys, size=100):
    state = backend.get_state(ValueStateDescriptor("v", None))
    for key in keys:
        backend.key_context.set_key(key)
        state.update(b"%d" % key * size)
    return state


def value_of(backend, key):
    backend.key_context.set_key(key)
    return backend.get_state(ValueStateDescriptor("v", None)).value()


def paths(state):
    return {each.handle.path for each in state.shared_files()}


def test_a_checkpoint_refers_to_the_files_of_a_completed_one(rocksdb, tmp_path):
    job = tmp_path / "job"
    backend = rocksdb()
    fill(backend, range(2000))
    first = save(backend, job / "chk-1", checkpoint_id=1)
    assert paths(first) and all(Path(path).parent == job / "shared" for path in paths(first))
    # Nobody knows whether it will complete: its files are written again.
    second = save(backend, job / "chk-2", checkpoint_id=2)
    assert not paths(first) & paths(second)
    backend.notify_checkpoint_complete(2)
    fill(backend, range(2000, 2100))
    third = save(backend, job / "chk-3", checkpoint_id=3)
    assert paths(second) < paths(third)
    new = sum(each.handle.size for each in third.shared_files() if each.handle.path not in paths(second))
    assert new < first.size / 5
    full = save(backend, job / "chk-4", "FULL_CHECKPOINT", checkpoint_id=4)
    assert not paths(full) & paths(third)
    # After a failure, too: the files of what it begins from are there.
    again = rocksdb(restore=restored([third], 1, 0, 1))
    assert value_of(again, 2050) == b"2050" * 100
    fill(again, [5000])
    assert paths(third) < paths(save(again, job / "chk-5", checkpoint_id=5))
    savepoint = save(again, tmp_path / "savepoint", "SAVEPOINT", checkpoint_id=6)
    assert not list(savepoint.shared_files())
    assert value_of(backend_of(restore=restored([savepoint], 1, 0, 1)), 5000) == b"5000" * 100


def test_checkpoints_are_whole_unless_they_are_to_be_incremental(rocksdb, tmp_path):
    backend = rocksdb(is_incremental=False)
    fill(backend, range(10))
    state = save(backend, tmp_path / "job" / "chk-1")
    assert not list(state.shared_files())
    assert value_of(backend_of(restore=restored([state], 1, 0, 1)), 7) == b"7" * 100


def test_what_is_changed_in_place_is_written_back(rocksdb, tmp_path):
    backend = rocksdb(cache=1)
    maps = backend.get_state(MapStateDescriptor("m", None, None))
    lists = backend.get_internal_state(ListStateDescriptor("l", None))
    for turn in range(3):
        for key in range(100):
            backend.key_context.set_key(key)
            maps.put(turn, [turn])
            lists.set_namespace(turn % 2)
            lists.add(turn)
    for each in (backend, rocksdb(restore=restored([save(backend, tmp_path / "chk-1")], 1, 0, 1))):
        maps = each.get_state(MapStateDescriptor("m", None, None))
        lists = each.get_internal_state(ListStateDescriptor("l", None))
        each.key_context.set_key(42)
        assert dict(maps.items()) == {0: [0], 1: [1], 2: [2]}
        lists.set_namespace(0)
        assert lists.get() == [0, 2]
        assert sorted(each.keys(maps)) == list(range(100))
        assert sorted(each.keys(lists)) == list(range(100))
        lists.set_namespace(7)
        assert each.keys(lists) == []


def test_what_expires_is_cleaned_up_from_disk_too(rocksdb, tmp_path):
    clock = ManualClock()
    backend = rocksdb(clock=clock, cache=1)
    descriptor = ValueStateDescriptor("v", Types.LONG())
    config = StateTtlConfig.new_builder(Time.milliseconds(10)).cleanup_incrementally(50, False)
    descriptor.enable_time_to_live(config.build())
    state = backend.get_state(descriptor)
    for key in range(100):
        backend.key_context.set_key(key)
        state.update(key)
    backend.snapshot().release()
    clock.advance_to(8)
    backend.key_context.set_key(3)
    state.update(33)
    clock.advance_to(12)
    for _ in range(20):
        backend.key_context.set_key(1000)
        assert state.value() is None
    assert backend.keys(state) == [3]
    again = rocksdb(restore=restored([save(backend, tmp_path / "chk-1")], 1, 0, 1), clock=ManualClock(17))
    state = again.get_state(descriptor)
    again.key_context.set_key(3)
    assert state.value() == 33
    late = rocksdb(restore=restored([save(backend, tmp_path / "chk-2", "SAVEPOINT")], 1, 0, 1), clock=ManualClock(18))
    late.key_context.set_key(3)
    assert late.get_state(descriptor).value() is None


def test_states_that_nobody_asks_for_go_on_in_both_forms(rocksdb, tmp_path):
    backend = backend_of()
    fill(backend, range(50))
    states = [save(backend, tmp_path / "0", "SAVEPOINT")]
    for number, kind in enumerate(["CHECKPOINT", "CHECKPOINT", "SAVEPOINT", "SAVEPOINT"]):
        idle = rocksdb(restore=restored(states[-1:], 1, 0, 1))
        states.append(save(idle, tmp_path / f"job{number}" / "chk-1", kind))
    assert value_of(rocksdb(restore=restored(states[-1:], 1, 0, 1)), 49) == b"49" * 100
    # And one that has been read once lies in the files of the database.
    used = rocksdb(restore=restored(states[-1:], 1, 0, 1))
    assert value_of(used, 1) == b"1" * 100
    for _ in range(2):
        used = rocksdb(restore=restored([save(used, tmp_path / "job" / "chk-1")], 1, 0, 1))
    assert value_of(used, 48) == b"48" * 100


def test_state_of_another_type_is_refused(rocksdb, tmp_path):
    backend = rocksdb()
    fill(backend, [1])
    again = rocksdb(restore=restored([save(backend, tmp_path / "chk-1")], 1, 0, 1))
    with pytest.raises(TypeError, match="the snapshot has a state 'v' whose type is"):
        again.get_state(ValueStateDescriptor("v", Types.LONG()))


def test_memory_does_not_read_the_files_of_rocksdb(rocksdb, tmp_path):
    backend = rocksdb()
    fill(backend, [1])
    with pytest.raises(TypeError, match="take a savepoint with it"):
        backend_of(restore=restored([save(backend, tmp_path / "chk-1")], 1, 0, 1))


@pytest.mark.parametrize("position", [0, -1, 1000])
def test_damaged_files_are_refused(rocksdb, tmp_path, position):
    backend = rocksdb()
    fill(backend, range(1000))
    state = save(backend, tmp_path / "job" / "chk-1")
    (path,) = paths(state)
    data = bytearray(Path(path).read_bytes())
    data[position] ^= 4
    Path(path).write_bytes(data)
    with pytest.raises(CorruptDataError, match=f"{path} is damaged at byte 0"):
        rocksdb(restore=restored([state], 1, 0, 1))


def test_nothing_is_left_of_a_checkpoint_that_fails_or_is_cancelled(rocksdb, tmp_path):
    backend = rocksdb()
    fill(backend, range(3000))
    failed = 0
    for after in range(100):
        calls = []

        def write(size, calls=calls, after=after):
            calls.append(size)
            if len(calls) > after:
                raise OSError(28, "no space left on device")

        try:
            save(backend, tmp_path / "job" / "chk-1", storage=PlainStorage(write))
        except OSError:
            failed += 1
            assert [each for each in (tmp_path / "job").rglob("*") if each.is_file()] == []
        else:
            break
    assert failed > 1
    for kind in ("CHECKPOINT", "SAVEPOINT"):
        with pytest.raises(SnapshotCancelledError):
            save(backend, tmp_path / "other" / "chk-1", kind, is_cancelled=lambda: True)
    assert [each for each in (tmp_path / "other").rglob("*") if each.is_file()] == []


def test_state_that_is_larger_than_the_cache_takes_little_memory(rocksdb, tmp_path):
    backend = rocksdb(cache=100)
    fill(backend, range(20_000), 300)
    state = save(backend, tmp_path / "job" / "chk-1")
    assert state.size > 1_000_000
    again = rocksdb(restore=restored([state], 1, 0, 1), cache=100)
    assert all(value_of(again, key) == b"%d" % key * 300 for key in range(0, 20_000, 97))


def test_what_the_database_did_not_take_is_written_again(rocksdb, monkeypatch, tmp_path):
    """A function may catch the error of an update, and go on."""

    def fail(self):
        raise OSError(28, "No space left on device")

    backend, failed = rocksdb(cache=1, cache_size=1), []
    state = backend.get_state(ValueStateDescriptor("v", Types.LONG()))
    lists = backend.get_state(ListStateDescriptor("l", Types.LONG()))
    for number in range(400):
        backend.key_context.set_key(number)
        with monkeypatch.context() as patch:
            if 100 <= number < 200:
                patch.setattr(RocksDbStore, "flush", fail)
            try:
                state.update(number)
            except OSError:
                failed.append(number)
            try:
                lists.add(number)
            except OSError:
                failed.append(number)
    assert failed and 100 <= min(failed) <= max(failed) < 200
    for each in (backend, rocksdb(restore=restored([save(backend, tmp_path / "job" / "chk-1")], 1, 0, 1))):
        lists = each.get_state(ListStateDescriptor("l", Types.LONG()))
        for number in range(400):
            assert value_of_long(each, number) == number
            assert lists.get() == [number] or (number in failed and lists.get() == [])


def test_a_number_is_no_object_of_its_key(rocksdb, tmp_path):
    """What is read and written is the same through the cache of bytes, the files, and a change of the kind of value."""
    backend = rocksdb(cache_size=1 << 14)
    state = backend.get_state(ValueStateDescriptor("v", None))
    model = {}
    for number in range(3000):
        key = number * 7919 % 701
        backend.key_context.set_key(key)
        assert state.value() == model.get(key)
        model[key] = [number, [number], None, f"{number}", (number, [])][number % 5]
        state.update(model[key])
        assert state.value() == model[key]
        if number % 5 == 1:
            state.value().append("another's")  # what is given is a copy
            assert state.value() == [number]
    for each in (backend, rocksdb(restore=restored([save(backend, tmp_path / "job" / "chk-1")], 1, 0, 1))):
        assert {key: value_of(each, key) for key in model} == model
        assert sorted(each.keys(each.get_state(ValueStateDescriptor("v", None)))) == sorted(
            key for key, value in model.items() if value is not None
        )


def test_a_database_with_other_options_is_gone_on_with(tmp_path):
    """Checkpoints of before hold levels of files, compressed in another way, and single writes."""
    package = rocksdict()
    options = package.Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_write_buffer_size(1 << 16)
    options.set_max_bytes_for_level_base(1 << 18)
    options.set_target_file_size_base(1 << 16)
    old = package.Rdict(str(tmp_path / "store"), options)
    model = {}
    for number in range(30_000):
        model[b"%05d" % (number * 7919 % 20_011)] = b"%d" % number
    for place, data in model.items():
        old.put(place, data)
    old.flush()
    old.close()
    store = RocksDbStore(tmp_path / "store", cache_size=1 << 16)
    for number in range(0, 20_011, 3):
        place = b"%05d" % number
        assert store.get(place) == model[place]
        model[place] = b"new%d" % number
        store.write([(place, model[place])])
    store.delete_range(b"00100", b"00200")
    model = {place: data for place, data in model.items() if not b"00100" <= place < b"00200"}
    assert dict(store.scan(b"", b"9")) == model
    store.freeze(tmp_path / "frozen")
    store.destroy()
    again = RocksDbStore(tmp_path / "frozen", is_read_only=True)
    assert dict(again.scan(b"", b"9")) == model
    again.close()


PLACES = st.sampled_from([bytes(place) for place in ([], [0], [0, 0], [1] * 8, [1] * 16, [1] * 17, [1] * 17 + [0])])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=10, deadline=None)
@given(data=st.data())
def test_a_store_is_a_sorted_dict(tmp_path_factory, data):
    few = data.draw(st.sampled_from([0, 3, 1000]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rocksdb_store, "_FEW_CHANGES", few)  # files, files and single writes, single writes
        play_store(tmp_path_factory.mktemp("stores"), data)


def play_store(directory, data):
    store, model = RocksDbStore(directory / "store", cache_size=1), {}
    for step in range(data.draw(st.integers(1, 12))):
        do = data.draw(st.sampled_from(["write", "write", "write", "scan", "range", "freeze", "flush"]))
        if do == "write":
            entries = data.draw(st.lists(st.tuples(PLACES, st.none() | st.binary(max_size=3000)), max_size=8))
            store.write(entries)
            for place, value in entries:
                model[place] = value
                if value is None:
                    del model[place]
        elif do == "scan":
            begin, end = sorted(data.draw(st.tuples(PLACES, PLACES)))
            assert list(store.scan(begin, end)) == sorted(each for each in model.items() if begin <= each[0] < end)
        elif do == "range":
            begin, end = sorted(data.draw(st.tuples(PLACES, PLACES)))
            store.delete_range(begin, end)
            model = {place: value for place, value in model.items() if not begin <= place < end}
        elif do == "flush":
            store.flush()
        else:
            store.freeze(directory / f"frozen-{step}")
            frozen = RocksDbStore(directory / f"frozen-{step}", is_read_only=True)
            assert list(frozen.scan(b"", b"\xff")) == sorted(model.items())
            frozen.destroy()
        place = data.draw(PLACES)
        assert store.get(place) == model.get(place)
    assert list(store.scan(b"", b"\xff")) == sorted(model.items())
    store.destroy()


def test_changes_that_were_not_taken_as_a_file_are_there_and_taken_later(tmp_path):
    store = RocksDbStore(tmp_path / "store")
    model = {b"%05d" % number: b"%d" % number for number in range(3000)}
    store.write(model.items())
    obstacle = tmp_path / "store" / "changes.new"
    obstacle.mkdir()
    for _ in range(2):
        with pytest.raises(OSError, match="changes.new"):
            store.flush()
    assert store.get(b"00007") == b"7"
    obstacle.rmdir()
    assert dict(store.scan(b"", b"9")) == model
    assert not obstacle.exists()
    store.freeze(tmp_path / "frozen")
    frozen = RocksDbStore(tmp_path / "frozen", is_read_only=True)
    assert frozen.get(b"02999") == b"2999"
    frozen.close()
    store.destroy()


def value_of_long(backend, key):
    backend.key_context.set_key(key)
    return backend.get_state(ValueStateDescriptor("v", Types.LONG())).value()


def test_entries_that_cannot_be_read_are_an_error_and_not_left_out(tmp_path):
    store = RocksDbStore(tmp_path / "store")
    store.write([(b"%05d" % number, bytes([number % 256]) * 100) for number in range(5000)])
    store.freeze(tmp_path / "frozen")
    store.close()
    (path,) = (tmp_path / "frozen").glob("*.sst")
    data = bytearray(path.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 50] = bytes(50)
    path.unlink()  # the other directory has the same file
    path.write_bytes(data)
    damaged = RocksDbStore(tmp_path / "frozen", is_read_only=True)
    with pytest.raises(Exception, match="[Cc]orruption"):
        sum(1 for _ in damaged.scan(b"", b"9"))
    damaged.close()
    whole = RocksDbStore(tmp_path / "store", is_read_only=True)
    assert sum(1 for _ in whole.scan(b"", b"9")) == 5000
    assert list(whole.scan(b"00010x", b"00012")) == [(b"00011", bytes([11]) * 100)]
    assert list(whole.scan(b"9", b"99")) == []
    whole.close()


def test_the_package_is_named_where_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "rocksdict", None)
    with pytest.raises(ImportError, match=r"pip install 'flinkbuf\[rocksdb\]'"):
        rocksdict()


def test_files_that_a_checkpoint_of_unknown_end_has_elsewhere_are_written_again():
    """It may have completed, and what it did not refer to is deleted then."""

    def uploads(**paths):
        return {name: SharedFile(name, StateHandle(1, path=path)) for name, path in paths.items()}

    files = UploadedFiles(uploads(a="0/a", b="0/b"))
    files.note(1, uploads(a="0/a", b="1/b", c="1/c"))
    assert files.known() == uploads(a="0/a")
    files.note(2, uploads(a="0/a", b="2/b"))
    files.complete(1)
    assert files.known() == uploads(a="0/a", c="1/c")
    files.abort(2)
    assert files.known() == uploads(a="0/a", b="1/b", c="1/c")
    files.complete(2)
    assert files.known() == uploads(a="0/a", b="1/b", c="1/c")


def test_the_database_of_a_process_that_was_killed_is_deleted_when_the_next_one_is_made(rocksdb, tmp_path):
    program = (
        "import sys\n"
        "from flinkbuf._core.state.key_context import KeyContext\n"
        "from flinkbuf.streaming.state.key_groups import KeyGroups\n"
        "from flinkbuf.streaming.state.rocksdb_backend import LOCAL_DIRECTORIES, RocksDbStateBackend\n"
        "from flinkbuf.streaming.state.timers import TimerServices\n"
        "from flinkbuf.testing import ManualClock\n"
        "keys, clock = KeyContext(), ManualClock()\n"
        "groups = KeyGroups.of_subtask(None, 128, parallelism=1, subtask_index=0)\n"
        "options = {LOCAL_DIRECTORIES: sys.argv[1]}\n"
        "held = RocksDbStateBackend(keys, groups, clock, TimerServices(keys, clock), options)\n"
        "print(held._directory, flush=True); sys.stdin.read()"
    )
    arguments = [sys.executable, "-c", program, str(tmp_path / "local")]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        path = Path(process.stdout.readline().strip())
        rocksdb()
        assert path.is_dir(), "its process lives"
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert path.is_dir()
    rocksdb()
    assert not path.exists()
