"""Files of checkpoints on this machine: durable when finished, gone when given up, whole or not at all."""

import errno
import os
import pickle
import shutil
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.data.checkpoint_files import JOB_ID, inline, write_checkpoint, written

from flinkbuf.checkpoints.handles import StateHandle
from flinkbuf.checkpoints.locations import SHARED, checkpoint_location, child, savepoint_location
from flinkbuf.checkpoints.storage import storage_of
from flinkbuf.errors import CorruptDataError


@pytest.fixture
def storage(tmp_path):
    return storage_of(str(tmp_path / "checkpoints"))


def files_below(path):
    return sorted(
        os.path.relpath(os.path.join(folder, name), path) for folder, _, names in os.walk(path) for name in names
    )


def test_a_storage_touches_nothing_until_it_is_used(storage, tmp_path):
    assert storage.directory == str(tmp_path / "checkpoints")
    assert pickle.loads(pickle.dumps(storage)).directory == storage.directory
    assert not files_below(tmp_path)


@settings(max_examples=30)
@given(st.lists(st.binary(max_size=300) | st.integers(0, 600_000).map(lambda size: b"x" * size), max_size=6))
def test_pieces_come_back_by_their_offsets(tmp_path_factory, pieces):
    storage = storage_of(str(tmp_path_factory.mktemp("checkpoints")))
    handles = written(storage, storage.directory, *pieces)
    assert [storage.read(handle) for handle in handles] == pieces


def test_each_file_has_a_name_of_its_own(storage):
    first, second = (written(storage, storage.directory, b"a")[0].path for _ in range(2))
    assert first != second


def test_any_buffer_can_be_written(storage):
    with storage.open_output(storage.directory) as output:
        assert output.write(bytearray(b"ab")) == 0
        assert output.write(memoryview(b"cdef").cast("H")) == 2
        assert output.size == 6
        assert output.finish() == output.finish() == output.path
        output.abort()
    with pytest.raises(ValueError, match="is finished"):
        output.write(b"x")
    with storage.open_input(output.path) as file:
        assert (file.size, file.read_at(1, 3)) == (6, b"bcd")


def test_a_file_without_bytes_is_one(storage):
    with storage.open_output(storage.directory) as output:
        path = output.finish()
    assert storage.read(StateHandle(0, path=path)) == b""


def test_a_read_past_the_end_names_file_and_offset(storage):
    (handle,) = written(storage, storage.directory, b"abc")
    with storage.open_input(handle.path) as file:
        for offset, size in ((0, 4), (4, 0), (3, 1), (-1, 2), (0, -1), (0, 1 << 62)):
            with pytest.raises(CorruptDataError, match="but it has 3 in all") as caught:
                file.read_at(offset, size)
            assert caught.value.path == handle.path
    file.close()


def test_a_file_that_is_cut_while_it_is_read_is_refused(storage):
    (handle,) = written(storage, storage.directory, b"abcdef")
    with storage.open_input(handle.path) as file:
        os.truncate(handle.path, 2)
        with pytest.raises(CorruptDataError, match="damaged at byte 2: it ends here"):
            file.read_at(0, 6)


def test_every_flip_of_a_bit_in_state_is_refused(storage):
    _, handle = written(storage, storage.directory, b"12345", b"state")
    with open(handle.path, "rb") as file:
        good = file.read()
    for place in range(5, 10):
        for bit in range(8):
            bad = bytearray(good)
            bad[place] ^= 1 << bit
            with open(handle.path, "wb") as file:
                file.write(bad)
            with pytest.raises(CorruptDataError, match="damaged at byte 5: the checksum of the 5 bytes"):
                storage.read(handle)


def test_state_in_memory_is_checked_as_well(storage):
    assert storage.read(inline(b"abc")) == b"abc"
    for bad in (StateHandle(3, 1, data=b"abc"), StateHandle(2, data=b"abc")):
        with pytest.raises(CorruptDataError, match="state in memory is damaged"):
            storage.read(bad)


def test_a_file_that_is_gone_is_not_found(storage):
    with pytest.raises(FileNotFoundError):
        storage.read(StateHandle(1, path=storage.directory + "/nothing"))


# ---- given up


def test_what_fails_while_it_is_written_leaves_nothing(storage, tmp_path):
    with pytest.raises(KeyError):
        with storage.open_output(storage.directory) as output:
            output.write(b"x" * 1_000_000)
            raise KeyError
    assert not files_below(tmp_path)
    output.abort()
    with pytest.raises(OSError, match="was given up") as caught:
        output.write(b"x")
    assert caught.value.errno == errno.ECANCELED
    with pytest.raises(OSError, match="was given up"):
        output.finish()


@pytest.mark.parametrize("step", ["_write", "_finish"])
def test_whoever_aborts_does_not_wait_for_a_storage_that_hangs(storage, tmp_path, step):
    output = storage.open_output(storage.directory)
    inside, go_on, errors = threading.Event(), threading.Event(), []
    done = getattr(output, step)

    def hang(*arguments):
        inside.set()
        assert go_on.wait(20)
        done(*arguments)

    setattr(output, step, hang)

    def write():
        try:
            output.write(b"abc")
            output.finish()
        except OSError as error:
            errors.append(error.errno)

    thread = threading.Thread(target=write)
    thread.start()
    assert inside.wait(20)
    output.abort()
    assert files_below(tmp_path), "it is still in use"
    go_on.set()
    thread.join(20)
    assert errors == [errno.ECANCELED]
    assert not files_below(tmp_path)


def test_a_file_is_finished_or_gone_whenever_it_is_aborted(storage, tmp_path):
    """Both at once, many times: the writer has its path and the file is there, or it was told that it is not."""
    for _ in range(200):
        output = storage.open_output(storage.directory)
        start, kept = threading.Barrier(2), []

        def write(output=output, start=start, kept=kept):
            start.wait()
            try:
                output.write(b"abc")
                kept.append(output.finish())
            except OSError as error:
                assert error.errno == errno.ECANCELED

        thread = threading.Thread(target=write)
        thread.start()
        start.wait()
        output.abort()
        thread.join()
        assert [str(tmp_path / "checkpoints" / name) for name in files_below(tmp_path / "checkpoints")] == kept
        for path in kept:
            os.unlink(path)


# ---- a whole checkpoint


def test_a_checkpoint_is_one_when_its_metadata_is_there(storage):
    location = checkpoint_location(storage.directory, JOB_ID, 7)
    written(storage, location, b"state")
    with pytest.raises(FileNotFoundError, match=f"no checkpoint or savepoint at {location}"):
        storage.read_metadata(location)
    metadata, path = write_checkpoint(storage)
    assert path == location + "/_metadata"
    for each in (path, location, location + "/", "file://" + location):
        assert storage.read_metadata(each) == metadata
    for subtask in metadata.subtasks():
        for handle in (*subtask.handles(), *(each.handle for each in subtask.shared_files())):
            assert len(storage.read(handle)) == handle.size


def test_metadata_is_never_written_again(storage):
    metadata, path = write_checkpoint(storage)
    with pytest.raises(FileExistsError, match="is there already"):
        storage.write_metadata(os.path.dirname(path), metadata)
    assert storage.read_metadata(path) == metadata


@pytest.mark.parametrize("failing", ["fsync", "rename"])
def test_metadata_is_there_as_a_whole_or_not_at_all(storage, monkeypatch, failing):
    metadata, _ = write_checkpoint(storage)
    location = checkpoint_location(storage.directory, JOB_ID, 8)
    storage.create_directory(location)

    def fail(*arguments):
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(os, failing, fail)
    with pytest.raises(OSError):
        storage.write_metadata(location, metadata)
    assert files_below(location) == []


def test_a_savepoint_can_be_moved_and_the_files_of_its_job_with_it(storage, tmp_path):
    metadata, path = write_checkpoint(storage, location=savepoint_location(storage.directory, JOB_ID, "0" * 12))
    job = os.path.join(storage.directory, JOB_ID)
    shutil.move(storage.directory, tmp_path / "elsewhere")
    moved = storage.read_metadata(path.replace("/checkpoints/", "/elsewhere/"))
    handles = [each for subtask in moved.subtasks() for each in subtask.handles()]
    assert [storage.read(each) for each in handles if each.path] and not os.path.exists(job)
    assert moved != metadata


def test_deleting_a_checkpoint_leaves_what_others_use(storage):
    first, second = (write_checkpoint(storage, number) for number in (1, 2))
    storage.delete_checkpoint(os.path.dirname(first[1]))
    storage.delete_checkpoint(os.path.dirname(first[1]))
    assert [each.checkpoint_id for each in storage.list_checkpoints()] == [2]
    for metadata in (first[0], second[0]):
        for file in next(metadata.subtasks()).shared_files():
            assert storage.read(file.handle)
    storage.remove_job_directory(JOB_ID)
    assert storage.read_metadata(second[1]) == second[0]
    storage.delete_checkpoint(os.path.dirname(second[1]))
    storage.remove_job_directory(JOB_ID)
    storage.remove_job_directory(JOB_ID)
    assert os.listdir(storage.directory) == []


def test_what_a_task_has_written_too_late_goes_with_the_job(storage):
    location = checkpoint_location(storage.directory, JOB_ID, 3)
    with storage.open_output(location) as output:
        output.write(b"nobody knows of it")
        output.finish()
    storage.remove_job_directory(JOB_ID)
    assert os.listdir(storage.directory) == []


def test_metadata_goes_first_so_that_half_a_checkpoint_is_none(storage, monkeypatch):
    _, path = write_checkpoint(storage)
    monkeypatch.setattr(shutil, "rmtree", lambda *arguments: (_ for _ in ()).throw(OSError(errno.EIO, "broken")))
    with pytest.raises(OSError, match="broken"):
        storage.delete_checkpoint(os.path.dirname(path))
    assert not os.path.exists(path) and len(os.listdir(os.path.dirname(path))) == 1


@pytest.mark.parametrize("location", ["/", "/tmp", "/checkpoints/job/shared", "s3://bucket", "/c/chk-x"])
def test_only_what_is_called_as_a_checkpoint_is_deleted(storage, location):
    with pytest.raises(ValueError, match="it is not deleted"):
        storage.delete_checkpoint(location)


def test_files_are_deleted_all_even_if_one_cannot_be(storage):
    first, second = (written(storage, storage.directory, b"x")[0] for _ in range(2))
    bad = StateHandle(1, path=storage.directory)
    with pytest.raises(OSError):
        storage.delete([inline(b"x"), bad, first, first, second, StateHandle(1, path=storage.directory + "/no/such")])
    assert os.listdir(storage.directory) == []


def test_checkpoints_are_found_newest_first(storage):
    write_checkpoint(storage, 1)
    write_checkpoint(storage, 2, checkpoint_location(storage.directory, JOB_ID, 2, epoch=3))
    _, savepoint = write_checkpoint(storage, 3, savepoint_location(storage.directory, JOB_ID, "0" * 12))
    unfinished = checkpoint_location(storage.directory, JOB_ID, 4)
    written(storage, unfinished, b"state")
    for age, name in enumerate(("chk-4", "chk-2-3/_metadata", "chk-1/_metadata")):
        os.utime(os.path.join(storage.directory, JOB_ID, name), (10**9 - age, 10**9 - age))
    for file in os.scandir(unfinished):
        os.utime(file.path, (10**9, 10**9))
    found = storage.list_checkpoints()
    assert [(each.checkpoint_id, each.is_savepoint, each.is_complete) for each in found] == [
        (None, True, True),
        (4, False, False),
        (2, False, True),
        (1, False, True),
    ]
    assert found[0].metadata_size == os.path.getsize(savepoint)
    assert storage.list_checkpoints(storage.directory + "/" + JOB_ID) == found[1:]
    assert storage.list_checkpoints(savepoint) == storage.list_checkpoints(found[0].location) == found[:1]
    with pytest.raises(FileNotFoundError):
        storage.list_checkpoints(storage.directory + "/nothing")


def test_a_directory_that_cannot_be_is_refused_early(storage, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(NotADirectoryError, match="file is no directory: checkpoints cannot lie in it"):
        storage.create_directory(str(tmp_path / "file" / "job"))
    storage.create_directory(storage.directory)
    assert os.path.isdir(storage.directory)


def test_a_directory_that_vanishes_is_made_again(storage):
    location = child(storage.directory, JOB_ID, SHARED)
    written(storage, location, b"a")
    shutil.rmtree(storage.directory)
    (handle,) = written(storage, location, b"b")
    assert storage.read(handle) == b"b"


def test_names_and_bytes_are_forced_to_the_disk_before_metadata_has_its_name(storage, monkeypatch):
    """What a power cut leaves is what was synced: each file, then its directory, and the metadata before its name."""
    deeds = []

    def note(name, real):
        def noted(*arguments):
            target = arguments[0]
            deeds.append((name, os.readlink(f"/proc/self/fd/{target}") if name == "fsync" else arguments[1]))
            return real(*arguments)

        return noted

    for name in ("fsync", "rename"):
        monkeypatch.setattr(os, name, note(name, getattr(os, name)))
    location = checkpoint_location(storage.directory, JOB_ID, 1)
    (handle,) = written(storage, location, b"state")
    assert deeds[-2:] == [("fsync", handle.path), ("fsync", location)]
    assert ("fsync", os.path.dirname(location)) in deeds and ("fsync", storage.directory) in deeds
    deeds.clear()
    write_checkpoint(storage, 1)
    kinds = [name for name, _ in deeds]
    assert deeds[-1] == ("fsync", location) and deeds[-2] == ("rename", location + "/_metadata")
    assert kinds.count("rename") == 1 and deeds[kinds.index("rename") - 2][1].startswith(location + "/._metadata-")
