"""The thread that waits for a disk, from Python."""

import doctest

import pytest

from flinkbuf._core.io import io_executor
from flinkbuf._core.io.io_channel import IOChannel
from flinkbuf._core.io.io_executor import IOExecutor


def test_examples():
    assert doctest.testmod(io_executor).failed == 0


def test_close_does_what_is_queued(tmp_path):
    executor = IOExecutor("writer")
    channel = IOChannel(tmp_path / "file", "create", executor)
    for _ in range(100):
        channel.write(b"0123456789")
    executor.close()
    executor.close()
    assert (tmp_path / "file").stat().st_size == 1000 and executor.run_count >= 1 and executor.pending_count == 0
    channel.write(b"more")  # nobody else does it: the call itself
    channel.close()
    assert (tmp_path / "file").stat().st_size == 1004


def test_name_may_be_long():
    with IOExecutor("a name that is longer than a thread's may be"):
        pass
    with pytest.raises(TypeError):
        IOExecutor(7)
