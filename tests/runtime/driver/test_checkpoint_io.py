"""What a job has written and deleted of its checkpoints: on threads of its own, also where storage hangs or fails."""

import threading
import time

import pytest

from flinkbuf.checkpoints.handles import CheckpointMetadata, StateHandle
from flinkbuf.checkpoints.options import CheckpointOptions
from flinkbuf.checkpoints.storage import storage_of
from flinkbuf.runtime.driver import checkpoint_io
from flinkbuf.runtime.driver.checkpoint_io import CheckpointIo
from flinkbuf.runtime.scheduler.master_actions import (
    CheckpointStored,
    DiscardState,
    StoreCheckpoint,
    WithdrawCheckpoint,
)

JOB = "ab" * 16


def metadata(checkpoint_id, is_savepoint=False):
    return CheckpointMetadata(checkpoint_id, 1000, JOB, "job", is_savepoint, ())


class Around:
    def __init__(self, directory, leadership=None):
        self.directory = str(directory)
        self.told = []
        self.heard = threading.Condition()
        self.io = CheckpointIo("job", self.directory, self.hear, leadership)

    def hear(self, message):
        with self.heard:
            self.told.append(message)
            self.heard.notify_all()

    def location(self, checkpoint_id):
        return f"{self.directory}/{JOB}/chk-{checkpoint_id}"

    def store(self, checkpoint_id, kind="CHECKPOINT"):
        options = CheckpointOptions(kind, self.location(checkpoint_id))
        self.io.store(StoreCheckpoint(metadata(checkpoint_id, "SAVEPOINT" in kind), options))

    def wait(self, count=1):
        with self.heard:
            assert self.heard.wait_for(lambda: len(self.told) >= count, 30)
        return self.told

    def close(self, **options):
        return self.io.close(lambda: None, **options)


@pytest.fixture
def around(tmp_path):
    around = Around(tmp_path)
    yield around
    around.close()


def test_a_stored_checkpoint_can_be_found_again(around):
    around.store(3)
    (stored,) = around.wait()
    assert (stored.checkpoint_id, stored.path, stored.failure) == (3, around.location(3), None)
    assert storage_of(around.directory).read_metadata(stored.path) == metadata(3)
    assert stored.size > 0


def test_without_a_directory_the_job_master_keeps_it():
    around = Around("")
    around.io.store(StoreCheckpoint(metadata(3), CheckpointOptions()))
    assert around.told == [CheckpointStored(3)]


def test_a_storage_that_fails_is_told(around, monkeypatch):
    def fail(location, metadata):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(around.io.storage, "write_metadata", fail)
    around.store(3)
    (stored,) = around.wait()
    assert "No space left" in stored.failure.message


class Hanging:
    """Writes of some checkpoints wait until they may go on."""

    def __init__(self, around, monkeypatch, *checkpoints):
        self.may_go_on = threading.Event()
        write = around.io.storage.write_metadata

        def write_metadata(location, metadata):
            if metadata.checkpoint_id in checkpoints:
                assert self.may_go_on.wait(30)
            return write(location, metadata)

        monkeypatch.setattr(around.io.storage, "write_metadata", write_metadata)


def test_a_checkpoint_that_hangs_holds_up_no_other_and_not_the_job(around, monkeypatch):
    hanging = Hanging(around, monkeypatch, 1)
    begin = time.monotonic()
    around.store(1)
    around.store(2)
    assert time.monotonic() - begin < 1
    assert around.wait()[0].checkpoint_id == 2
    hanging.may_go_on.set()
    assert around.wait(2)[1].checkpoint_id == 1


def test_what_is_discarded_while_it_is_written_is_deleted_after_it_and_not_told(around, monkeypatch, tmp_path):
    hanging = Hanging(around, monkeypatch, 1)
    around.store(1)
    around.io.discard(DiscardState(1, around.location(1), ()))
    hanging.may_go_on.set()
    assert around.close()
    assert around.told == []
    assert not (tmp_path / JOB / "chk-1").exists()


def test_what_takes_too_long_to_write_comes_to_nothing_at_once(around, monkeypatch, tmp_path):
    hanging = Hanging(around, monkeypatch, 1)
    around.store(1)
    around.io.withdraw(WithdrawCheckpoint(1))
    around.io.withdraw(WithdrawCheckpoint(1))
    (stored,) = around.wait()
    assert (stored.checkpoint_id, stored.failure.type_name) == (1, "builtins.TimeoutError")
    around.io.discard(DiscardState(1, around.location(1), ()))
    hanging.may_go_on.set()
    assert around.close()
    assert len(around.told) == 1
    assert not (tmp_path / JOB / "chk-1").exists()


def test_what_is_stored_already_is_not_withdrawn(around):
    around.store(1)
    around.wait()
    around.io.withdraw(WithdrawCheckpoint(1))
    assert [each.failure for each in around.told] == [None]


def test_too_many_that_hang_are_refused_at_once(around, monkeypatch):
    monkeypatch.setattr(checkpoint_io, "MAX_HANGING", 2)
    hanging = Hanging(around, monkeypatch, 1, 2, 3)
    for checkpoint_id in (1, 2, 3):
        around.store(checkpoint_id)
    assert "the storage hangs" in around.wait()[0].failure.message
    hanging.may_go_on.set()
    around.wait(3)


def test_files_are_deleted_late_but_before_the_end(around, tmp_path):
    around.store(1)
    around.wait()
    shared = tmp_path / JOB / "shared" / "one"
    shared.parent.mkdir()
    shared.write_bytes(b"state")
    around.io.discard(DiscardState(1, around.location(1), (StateHandle(5, path=str(shared)),)))
    assert around.close()
    assert not shared.exists()
    assert not (tmp_path / JOB / "chk-1").exists()


def test_what_cannot_be_deleted_is_said_and_keeps_nobody(around, monkeypatch, caplog):
    def fail(location):
        raise PermissionError("not yours")

    monkeypatch.setattr(around.io.storage, "delete_directory", fail)
    around.io.discard(DiscardState(1, around.location(1), ()))
    around.io.discard(DiscardState(2, "", ()))
    assert around.close()
    assert "not yours" in caplog.text


def test_deleting_that_hangs_keeps_the_end_waiting_only_so_long(around, monkeypatch, caplog):
    may_go_on = threading.Event()
    monkeypatch.setattr(around.io.storage, "delete_directory", lambda location: may_go_on.wait(30))
    around.io.discard(DiscardState(1, around.location(1), ()))
    assert not around.close(timeout_s=0.05)
    assert "are still being deleted" in caplog.text
    may_go_on.set()


class Leader:
    """Notes what it is asked; says no from some moment on."""

    def __init__(self, is_lost=False):
        self.is_lost = is_lost
        self.asked = []

    def add_checkpoint(self, checkpoint_id, path):
        self.asked.append(("add", checkpoint_id, path))
        return not self.is_lost

    def may_discard(self, checkpoint_id):
        self.asked.append(("discard", checkpoint_id))
        return not self.is_lost


def test_a_checkpoint_of_a_job_that_is_held_counts_once_it_is_noted(tmp_path):
    around = Around(tmp_path, leader := Leader())
    around.store(1)
    around.wait()
    ((what, checkpoint_id, path),) = leader.asked
    assert (what, checkpoint_id) == ("add", 1)
    assert storage_of(path).read_metadata(path) == metadata(1)
    around.close()


@pytest.mark.parametrize(("kind", "is_noted"), [("SAVEPOINT", False), ("SAVEPOINT_SUSPEND", True)])
def test_only_savepoints_that_the_job_ends_with_are_noted(tmp_path, kind, is_noted):
    around = Around(tmp_path, leader := Leader())
    around.store(1, kind)
    around.wait()
    assert bool(leader.asked) is is_noted
    around.close()


def test_who_does_not_hold_the_job_any_more_tells_nobody_of_success_and_deletes_nothing(tmp_path):
    around = Around(tmp_path, Leader(is_lost=True))
    around.store(1)
    around.io.discard(DiscardState(1, around.location(1), ()))
    around.close()
    assert around.told == []
    assert (tmp_path / JOB / "chk-1" / "_metadata").exists()


def test_a_checkpoint_that_was_given_up_before_it_was_noted_never_is(tmp_path, monkeypatch):
    around = Around(tmp_path, leader := Leader())
    hanging = Hanging(around, monkeypatch, 1)
    around.store(1)
    around.io.discard(DiscardState(1, around.location(1), ()))
    hanging.may_go_on.set()
    around.close()
    assert leader.asked == [("discard", 1)]


class Slow(Leader):
    """Another program may find a checkpoint from now on; it is not known yet."""

    def __init__(self):
        super().__init__()
        self.is_noting, self.may_go_on = threading.Event(), threading.Event()
        self.failure = None

    def add_checkpoint(self, checkpoint_id, path):
        self.is_noting.set()
        assert self.may_go_on.wait(30)
        if self.failure is not None:
            raise self.failure
        return super().add_checkpoint(checkpoint_id, path)


@pytest.mark.parametrize("failure", [None, OSError(5, "Input/output error")])
def test_what_another_program_may_find_is_not_given_up_before_its_fate_is_known(tmp_path, failure):
    around = Around(tmp_path, leader := Slow())
    leader.failure = failure
    around.store(1)
    assert leader.is_noting.wait(30)
    around.io.withdraw(WithdrawCheckpoint(1))
    assert around.told == []
    leader.may_go_on.set()
    (stored,) = around.wait()
    assert (stored.failure and stored.failure.message) == (failure and str(failure))
    around.close()


def test_what_was_withdrawn_before_it_was_noted_never_is(tmp_path, monkeypatch):
    around = Around(tmp_path, leader := Leader())
    hanging = Hanging(around, monkeypatch, 1)
    around.store(1)
    around.io.withdraw(WithdrawCheckpoint(1))
    around.io.discard(DiscardState(1, around.location(1), ()))
    hanging.may_go_on.set()
    around.close()
    assert leader.asked == [("discard", 1)]
    assert len(around.told) == 1
