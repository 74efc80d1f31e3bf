"""What a task leaves behind through a storage and back: all of it, by key group, and nothing where it fails."""

import contextlib
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.worlds.plain_storage import PlainStorage
from support.worlds.saved_states import ID, info_of, restore_of
from test_state_backend import DESCRIPTORS, WRITES, backend_of, contents, play

from flinkbuf.checkpoints.handles import KeyedStateHandle, StateHandle, TaskRestore
from flinkbuf.checkpoints.options import CheckpointOptions
from flinkbuf.checkpoints.storage import storage_of
from flinkbuf.errors import CorruptDataError
from flinkbuf.streaming.chain.operator_config import ExecutionSettings
from flinkbuf.streaming.checkpoint.snapshot_reader import read_restore
from flinkbuf.streaming.checkpoint.snapshot_writer import SnapshotCancelledError, write_snapshot
from flinkbuf.streaming.checkpoint.task_snapshot import TaskStateSnapshot
from flinkbuf.streaming.state.operator_state import OperatorStateBackend
from flinkbuf.streaming.state.snapshot import OperatorSnapshot
from flinkbuf.streaming.state.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from flinkbuf.types.types import Types


def save(operators, location="", storage=None, **arguments):
    arguments.setdefault("settings", ExecutionSettings(checkpoint_memory_threshold=0))
    task = operators if isinstance(operators, TaskStateSnapshot) else TaskStateSnapshot(3, operators)
    return write_snapshot(task, storage=storage, options=CheckpointOptions(location=str(location)), **arguments)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(writes=WRITES, old=st.integers(1, 4), new=st.integers(1, 4), inline=st.booleans(), is_compressed=st.booleans())
def test_keyed_state_goes_from_any_parallelism_to_any_other(tmp_path, writes, old, new, inline, is_compressed):
    storage, model, states = PlainStorage(), {}, []
    chosen = ExecutionSettings(checkpoint_memory_threshold=10**6 if inline else 0, checkpoint_compression=is_compressed)
    for subtask in range(old):
        backend = backend_of(parallelism=old, subtask=subtask)
        group_of = backend.key_groups.grouper().group_of
        play(backend, model, [each for each in writes if group_of(each[1]) in backend.key_groups])
        states.append(save({ID: OperatorSnapshot((backend.snapshot(),))}, tmp_path, storage, settings=chosen))
        assert all(bool(handle.path) != inline for handle in states[-1].handles())
    found = {}
    for subtask in range(new):
        task = read_restore(restore_of(states, old), info_of(subtask, new), storage)
        part = backend_of(parallelism=new, subtask=subtask, restore=task.operators[ID])
        mine = contents(part, writes)
        assert not mine.keys() & found.keys()
        found.update(mine)
    assert found == model


def lists_of(states, old, subtask, new):
    snapshot = read_restore(restore_of(states, old), info_of(subtask, new), None).operators[ID]
    return snapshot.lists, snapshot.union_lists, snapshot.broadcasts


def test_union_lists_are_alike_if_all_of_them_are():
    def saved(*names, alike=()):
        backend = OperatorStateBackend()
        for name in names:
            get = backend.get_alike_list_state if name in alike else backend.get_union_list_state
            get(ListStateDescriptor(name, None)).add(1)
        return save({ID: OperatorSnapshot(**backend.snapshot())}).operators[0]

    assert saved("a", alike=["a"]).has_alike_unions
    assert not saved("a").has_alike_unions
    found = saved("a", "b", alike=["b"])
    assert found.has_union_lists and not found.has_alike_unions


def test_operator_state_is_dealt_out_united_and_given_in_turn():
    states = []
    for subtask in range(2):
        backend = OperatorStateBackend()
        backend.get_list_state(ListStateDescriptor("l", None)).add_all([subtask * 10 + each for each in range(2)])
        backend.get_union_list_state(ListStateDescriptor("u", None)).add(subtask)
        backend.get_broadcast_state(MapStateDescriptor("b", None, None)).put("from", subtask)
        states.append(save({ID: OperatorSnapshot(**backend.snapshot())}))
        assert states[-1].operators[0].has_lists and states[-1].operators[0].has_union_lists
    union = {"u": [0, 1]}
    assert lists_of(states, 2, 0, 1) == ({"l": [0, 1, 10, 11]}, union, {"b": {"from": 0}})
    assert lists_of(states, 2, 2, 4) == ({"l": [10]}, union, {"b": {"from": 0}})
    assert lists_of(states, 2, 1, 2) == ({"l": [10, 11]}, union, {"b": {"from": 1}})
    # One handle at the same parallelism is the subtask's own; at another it is that of the only old subtask.
    assert lists_of(states[1:], 2, 0, 2) == ({"l": [10, 11]}, {"u": [1]}, {"b": {"from": 1}})
    assert lists_of(states[1:], 1, 1, 2) == ({"l": [11]}, {"u": [1]}, {"b": {"from": 1}})
    # A subtask without state has a place all the same.
    empty = save({ID: OperatorSnapshot(keyed=(backend_of().snapshot(),))})
    assert lists_of([empty, states[1]], 2, 1, 2) == ({"l": [10, 11]}, {"u": [1]}, {"b": {"from": 1}})


def test_an_operator_without_state_leaves_nothing():
    state = save({ID: OperatorSnapshot()})
    assert state.operators == () and state.size == 0


def test_channels_come_back(tmp_path):
    storage = PlainStorage()
    for location, used in ((tmp_path, storage), ("", None)):
        taken = TaskStateSnapshot(3, {}, False, [(0, 1, b"in"), (1, 0, bytearray(b""))], [(0, 3, memoryview(b"out"))])
        state = save(taken, location, used)
        restore = TaskRestore(3, (), state.input_channels, state.output_channels)
        again = read_restore(restore, info_of(), used)
        assert again.input_channels == [(0, 1, b"in"), (1, 0, b"")]
        assert again.output_channels == [(0, 3, b"out")]


def filled(count=2000):
    backend = backend_of()
    state = backend.get_state(ValueStateDescriptor("v", None))
    for key in range(count):
        backend.key_context.set_key(key)
        state.update("x" * 100)
    return backend, state


def is_free(backend, state):
    """Whether nothing keeps the operator from writing into its table."""
    snapshot = backend.snapshot()
    (part,) = snapshot._parts
    layers = list(part.table.parts())
    snapshot.release()
    return len(layers) == 1


@pytest.mark.parametrize("failing", range(4))
def test_a_storage_that_fails_leaves_no_file_and_no_snapshot(tmp_path, failing, monkeypatch):
    backend, state = filled()
    writes = []

    def write(size):
        writes.append(size)
        if len(writes) > failing:
            raise OSError(28, "no space left on device")

    monkeypatch.setattr("flinkbuf.checkpoints.state_file._SMALL", 1 << 14)
    monkeypatch.setattr("flinkbuf.streaming.state.keyed_snapshot.BUFFER_SIZE", 1 << 15)
    with pytest.raises(OSError, match="no space left"):
        save({ID: OperatorSnapshot((backend.snapshot(),))}, tmp_path, PlainStorage(write))
    assert list(tmp_path.iterdir()) == []
    assert is_free(backend, state)


def test_who_cancels_gets_an_error_and_leaves_no_file(tmp_path, monkeypatch):
    monkeypatch.setattr("flinkbuf.streaming.state.keyed_snapshot.BUFFER_SIZE", 1 << 15)
    for after in range(0, 100):
        backend, state = filled(5000)
        calls = []

        def is_cancelled(calls=calls, after=after):
            calls.append(None)
            return len(calls) > after

        snapshot = {ID: OperatorSnapshot((backend.snapshot(),))}
        try:
            save(snapshot, tmp_path, PlainStorage(), is_cancelled=is_cancelled)
        except SnapshotCancelledError:
            assert list(tmp_path.iterdir()) == []
        else:
            assert after > 10
            break
        assert is_free(backend, state)
    else:
        raise AssertionError("it was always cancelled")


class SharingPart:
    """Keyed state with a file of its own, as RocksDB's; then it fails, or what comes behind it does."""

    def __init__(self, error=None, later_error=None):
        self.error, self.later_error = error, later_error

    def write(self, target):
        output = target.open_shared()
        target.shared.append(output)
        output.write(b"table")
        output.finish()
        target.output.write(b"index")
        if self.error is not None:
            raise self.error
        return self.handle

    def handle(self):
        raise self.later_error

    def release(self):
        pass


@pytest.mark.parametrize("part", [SharingPart(error=OSError(28, "full")), SharingPart(later_error=OSError(28, "full"))])
def test_files_that_were_whole_before_it_failed_are_deleted_too(tmp_path, part):
    storage = storage_of(str(tmp_path))
    with pytest.raises(OSError, match="full"):
        save({ID: OperatorSnapshot((part,))}, tmp_path / "job" / "chk-3", storage)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_files_that_were_whole_when_it_was_cancelled_are_deleted_too(tmp_path):
    class Cancelling(SharingPart):
        is_written = False

        def handle(self):  # the last thing that is asked
            self.is_written = True
            return KeyedStateHandle(0, 127, 128, StateHandle(0))

    part = Cancelling()
    with pytest.raises(SnapshotCancelledError):
        save(
            {ID: OperatorSnapshot((part,))},
            tmp_path / "job" / "chk-3",
            storage_of(str(tmp_path)),
            is_cancelled=lambda: part.is_written,
        )
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_snapshot_released_by_another_is_given_up():
    backend, state = filled(5000)
    snapshot = TaskStateSnapshot(3, {ID: OperatorSnapshot((backend.snapshot(),))})
    snapshot.release()
    snapshot.release()
    assert is_free(backend, state)


def test_values_that_cannot_be_saved_are_refused_where_they_are_given():
    backend = backend_of()
    backend.key_context.set_key("k")
    with pytest.raises(TypeError, match=r"the state 'v' of the key 'k' cannot keep <unlocked"):
        backend.get_state(ValueStateDescriptor("v", None)).update(threading.Lock())
    lists = OperatorStateBackend()
    with pytest.raises((TypeError, ValueError), match=r"the list state 'l' cannot be saved"):
        lists.get_list_state(ListStateDescriptor("l", None)).add(threading.Lock())


def test_state_without_a_directory_has_a_limit():
    backend, _ = filled(60_000)
    with pytest.raises(ValueError, match="larger than 5242880 bytes, the most that can be kept"):
        save({ID: OperatorSnapshot((backend.snapshot(),))})


def test_a_file_without_a_storage_is_refused(tmp_path):
    state = save({ID: OperatorSnapshot((filled(10)[0].snapshot(),))}, tmp_path, PlainStorage())
    with pytest.raises(ValueError, match=f"the state lies in {tmp_path}"):
        read_restore(restore_of([state], 1), info_of(), None)


def test_an_unread_state_goes_on_though_its_file_is_gone(tmp_path):
    storage = PlainStorage()
    backend, _ = filled(10)
    first = save({ID: OperatorSnapshot((backend.snapshot(),))}, tmp_path / "1", storage)
    idle = backend_of(restore=read_restore(restore_of([first], 1), info_of(), storage).operators[ID])
    second = save({ID: OperatorSnapshot((idle.snapshot(),))}, tmp_path / "2", storage)
    # Taken before somebody asks for the state, written afterwards.
    late = OperatorSnapshot((idle.snapshot(),))
    for state in (first, second):
        (handle,) = state.handles()
        Path(handle.path).write_bytes(b"")
    idle.key_context.set_key(3)
    assert idle.get_state(ValueStateDescriptor("v", None)).value() == "x" * 100
    third = save({ID: late}, tmp_path / "3", storage)
    again = backend_of(restore=read_restore(restore_of([third], 1), info_of(), storage).operators[ID])
    again.key_context.set_key(9)
    assert again.get_state(ValueStateDescriptor("v", None)).value() == "x" * 100


@settings(max_examples=200)
@given(data=st.data(), kind=st.sampled_from(["value", "list", "map", "reducing"]), has_ttl=st.booleans())
def test_entries_of_nobody_are_refused_not_taken(data, kind, has_ttl):
    """Also where all checksums are right."""
    from flinkbuf._core.state.state_codec import read_entries, read_timers

    backend = backend_of()
    state = backend.get_state(DESCRIPTORS[kind])
    parts = st.one_of(st.binary(max_size=12), st.sampled_from([b"\x00", b"\x01", b"\x02"]))
    found = b"".join(data.draw(st.lists(parts, max_size=6)))
    for read in (
        lambda: read_entries(found, state, backend.key_context, Types.STRING().codec, Types.LONG().codec, has_ttl),
        lambda: read_timers(found, backend.key_context, Types.STRING().codec),
    ):
        with contextlib.suppress(CorruptDataError):
            read()
