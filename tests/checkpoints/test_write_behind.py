"""Files that a thread writes behind the one that makes their bytes."""

import errno
import os
import threading

import pytest

from flinkbuf.checkpoints import local_files, write_behind
from flinkbuf.checkpoints.storage import storage_of
from flinkbuf.checkpoints.write_behind import WriteBehind


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """A thread from the eleventh byte on, no more than a hundred bytes ahead of it, and the disk begins soon."""
    monkeypatch.setattr(local_files, "_AHEAD", 50)
    monkeypatch.setattr(write_behind, "_ALONE", 10)
    monkeypatch.setattr(write_behind, "_AHEAD", 100)


@pytest.fixture
def file(tmp_path):
    return storage_of(str(tmp_path)).open_output(str(tmp_path / "job" / "chk-1"))


class Stopped:
    """Holds each write back until it is told to go on, and notes in which thread it is."""

    def __init__(self, file):
        self.write_all_of_file, file.write_all = file.write_all, self
        self.is_inside, self.may_go_on = threading.Event(), threading.Event()
        self.threads, self.pieces = set(), []

    def __call__(self, pieces):
        self.threads.add(threading.current_thread())
        self.pieces.append(len(pieces))
        self.is_inside.set()
        assert self.may_go_on.wait(10)
        return self.write_all_of_file(pieces)


def test_what_was_written_lies_in_the_file_in_order(file):
    pieces = [bytes([n % 256]) * (n % 70) for n in range(500)]
    behind = WriteBehind(file)
    for piece in pieces:
        behind.write(piece)
    with open(behind.finish(), "rb") as written:
        assert written.read() == b"".join(pieces)
    assert file.size == sum(map(len, pieces))


def test_a_file_system_that_takes_no_advice_takes_the_file(file, monkeypatch):
    advices = []

    def refuse(*arguments):
        advices.append(arguments[1:3])
        raise OSError(errno.EINVAL, "no advice")

    monkeypatch.setattr(os, "posix_fadvise", refuse)
    for _ in range(3):
        file.write(bytes(30))
        file.write_all([b"12345", b"67890"])
    with open(file.finish(), "rb") as written:
        assert written.read() == (bytes(30) + b"1234567890") * 3
    assert advices == [(0, 70), (70, 50)]


def test_a_small_file_needs_no_thread(file):
    before = threading.active_count()
    behind = WriteBehind(file)
    behind.write(b"123456789")
    assert (file.size, threading.active_count()) == (9, before)
    behind.finish()


def test_bytes_wait_while_the_file_is_busy_and_go_to_it_together(file):
    behind = WriteBehind(file)
    behind.write(b"0123456789")
    stopped = Stopped(file)
    behind.write(b"first")
    assert stopped.is_inside.wait(10)
    for n in range(5):
        behind.write(b"%d" % n)
    assert file.size == 10
    stopped.may_go_on.set()
    with open(behind.finish(), "rb") as written:
        assert written.read() == b"0123456789first01234"
    assert stopped.pieces == [1, 5]
    assert threading.current_thread() not in stopped.threads
    assert not any(thread.is_alive() for thread in stopped.threads)


def test_not_more_waits_than_may(file):
    behind = WriteBehind(file)
    behind.write(b"0123456789")
    stopped = Stopped(file)
    behind.write(bytes(5))
    assert stopped.is_inside.wait(10)
    writes = []
    writer = threading.Thread(target=lambda: writes.extend(behind.write(bytes(40)) or n for n in range(5)))
    writer.start()
    writer.join(0.1)
    assert writer.is_alive()
    assert len(writes) == 3  # the third made it 120
    stopped.may_go_on.set()
    writer.join(10)
    behind.finish()
    assert file.size == 215


def test_an_error_of_the_file_comes_out_of_the_next_call(file):
    def full(pieces):
        raise OSError(errno.ENOSPC, "no space left", file.path)

    behind = WriteBehind(file)
    behind.write(b"0123456789")
    file.write_all = full
    with pytest.raises(OSError, match="no space left"):
        for _ in range(100):
            behind.write(bytes(40))
    with pytest.raises(OSError, match="no space left"):
        behind.finish()
    behind.discard()


def test_who_gives_up_leaves_neither_file_nor_thread(file, tmp_path):
    before = threading.active_count()
    behind = WriteBehind(file)
    behind.write(b"0123456789")
    stopped = Stopped(file)
    behind.write(b"first")
    assert stopped.is_inside.wait(10)
    threading.Timer(0.05, stopped.may_go_on.set).start()
    behind.discard()
    assert not any(thread.is_alive() for thread in stopped.threads)
    assert threading.active_count() <= before + 1  # the timer
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_without_a_thread_left_it_writes_by_itself(file, monkeypatch):
    def refuse(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    behind = WriteBehind(file)
    for n in range(50):
        behind.write(b"%02d" % n)
    with open(behind.finish(), "rb") as written:
        assert written.read() == b"".join(b"%02d" % n for n in range(50))
