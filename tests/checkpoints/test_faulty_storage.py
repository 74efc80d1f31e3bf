"""Jobs whose checkpoints meet a storage that fails, hangs, is full or is taken away: their results are right, and what
counts as a checkpoint is one.
"""

import errno
import os
import shutil
import subprocess
import threading
import time

import pytest
from support.data.checkpoint_files import JOB_ID, write_checkpoint, written
from support.faults.faulty_files import faulty_storage
from support.programs.golden_savepoint import environment, results, stream

from flinkbuf.checkpoints.description import verify
from flinkbuf.checkpoints.locations import checkpoint_location, path_within
from flinkbuf.checkpoints.storage import storage_of

EVERY_FEW_MS = {
    "execution.checkpointing.interval": "20 ms",
    "execution.checkpointing.tolerable-failed-checkpoints": "100000",
    "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
}
IN_FILES = {"execution.checkpointing.data-inline-threshold": "0 b"}


def run_job(directory, **settings):
    env = environment({"execution.checkpointing.dir": str(directory), **EVERY_FEW_MS, **settings})
    return sorted(stream(env, 0.002).execute_and_collect())


def complete(directory):
    """The checkpoints in a directory; each of them is whole."""
    storage = storage_of(str(directory))
    os.makedirs(directory, exist_ok=True)
    found = [each for each in storage.list_checkpoints() if each.is_complete]
    for each in found:
        assert verify(storage, each.location).problems == ()
    return found


@pytest.mark.parametrize("every, settings", [(10, {}), (97, IN_FILES)])
def test_a_job_stands_a_storage_that_fails_now_and_then(tmp_path, every, settings):
    with faulty_storage(tmp_path, every=every) as (uri, faults):
        assert run_job(uri, **settings) == results()
    assert len(faults.struck) >= 2
    complete(tmp_path)


@pytest.mark.parametrize("settings", [{}, IN_FILES], ids=["inline", "files"])
def test_a_job_stands_a_storage_that_hangs(tmp_path, settings):
    """The call comes back when it is too late; meanwhile the checkpoint is given up, and later ones count."""
    with faulty_storage(tmp_path, every=30, hangs=True) as (uri, faults):
        heal = threading.Thread(target=lambda: faults.hung.wait(60) and (time.sleep(1.5), faults.healed.set()))
        heal.start()
        assert run_job(uri, **{"execution.checkpointing.timeout": "300 ms"}, **settings) == results()
        heal.join()
    assert faults.struck
    complete(tmp_path)


def test_what_is_given_up_while_it_is_written_leaves_no_directory(tmp_path):
    storage = storage_of(str(tmp_path))
    location = checkpoint_location(storage.directory, JOB_ID, 1)
    first, second = storage.open_output(location), storage.open_output(location)
    storage.delete_checkpoint(location)
    third = storage.open_output(location)
    for output in (first, second, third):
        output.abort()
    assert os.listdir(os.path.dirname(location)) == []


def test_a_checkpoint_is_deleted_although_a_task_still_writes_into_it(tmp_path):
    storage = storage_of(str(tmp_path))
    location = checkpoint_location(storage.directory, JOB_ID, 1)
    is_over = threading.Event()

    def write():
        while not is_over.is_set():
            with storage.open_output(location) as output:
                output.write(b"x")
                output.abort()

    threads = [threading.Thread(target=write) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(100):
            storage.delete_checkpoint(location)
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    storage.delete_checkpoint(location)
    assert os.listdir(os.path.dirname(location)) == []


def test_deleting_is_tried_again(tmp_path):
    with faulty_storage(tmp_path, every=3) as (uri, faults):
        storage = storage_of(uri)
        location = checkpoint_location(storage.directory, JOB_ID, 1)
        os.makedirs("/" + path_within(location))
        next(faults.calls)
        storage.delete_checkpoint(location)
        assert faults.struck == ["delete_tree"] and not os.path.exists("/" + path_within(location))


@pytest.fixture
def full_disk(tmp_path):
    """A file system in memory with room for little; only root can make one."""
    place = tmp_path / "small"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode:
        pytest.skip("only root can mount a file system")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_leaves_nothing_of_what_did_not_fit(full_disk):
    storage = storage_of(str(full_disk))
    location = checkpoint_location(storage.directory, JOB_ID, 1)
    for size in (300_000, 4_000_000):
        with pytest.raises(OSError) as caught:
            with storage.open_output(location) as output:
                output.write(b"x" * size)
                output.finish()
        assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, output.path)
    (full_disk / "filler").write_bytes(b"x" * 240_000)
    with pytest.raises(OSError) as caught:
        write_checkpoint(storage, 2)
        write_checkpoint(storage, 3, checkpoint_location(storage.directory, JOB_ID, 3))
        written(storage, location, b"x" * 20_000)
    assert caught.value.errno == errno.ENOSPC
    (full_disk / "filler").unlink()
    for each in storage.list_checkpoints():
        if each.is_complete:
            subtasks = storage.read_metadata(each.location).subtasks()
            assert all(storage.read(handle) for subtask in subtasks for handle in subtask.handles())
    metadata, path = write_checkpoint(storage, 9)
    assert storage.read_metadata(path) == metadata


def test_a_job_goes_on_when_the_disk_is_full_and_keeps_checkpoints_when_it_is_not(full_disk):
    filler = full_disk / "filler"
    filler.write_bytes(b"x" * 250_000)
    freed = threading.Timer(1.0, filler.unlink)
    freed.start()
    assert run_job(full_disk, **IN_FILES) == results()
    freed.join()
    complete(full_disk)


def test_a_directory_that_is_taken_away_comes_back(tmp_path):
    place = tmp_path / "checkpoints"
    is_over = threading.Event()

    def take_away():
        while not is_over.wait(0.05):
            shutil.rmtree(place, ignore_errors=True)

    thread = threading.Thread(target=take_away)
    thread.start()
    stop = threading.Timer(1.0, is_over.set)
    stop.start()
    try:
        assert run_job(place, **IN_FILES) == results()
    finally:
        is_over.set()
        thread.join()
    complete(place)
