"""Operations of a file that are under way, and come back in order."""

import sys

import pytest

from flinkbuf._core.io.io_channel import IOChannel
from flinkbuf._core.io.io_executor import IOExecutor
from flinkbuf.errors import CorruptDataError


@pytest.fixture(params=[False, True], ids=["executor", "inline"])
def executor(request):
    with IOExecutor("test") as executor:
        yield None if request.param else executor


def test_two_parts_and_offsets(tmp_path, executor):
    path = tmp_path / "file"
    with IOChannel(path, "create", executor) as channel:
        first = channel.write(b"0123", b"4567", item="first")
        channel.write(b"xy", offset=20)
        channel.write(b"z")
        taken = [channel.take() for _ in range(3)]
        assert taken[0] is first and first.item == "first" and first.is_done
        assert [(one.offset, one.size) for one in taken] == [(0, 8), (20, 2), (22, 1)]
        assert channel.take() is None and channel.take(0) is None and channel.outstanding_count == 0
    assert path.read_bytes() == b"01234567" + bytes(12) + b"xyz"


def test_reads_fill_as_far_as_the_file_goes(tmp_path, executor):
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    with IOChannel(path, "read", executor) as channel:
        one, two, rest = bytearray(3), bytearray(2), bytearray(9)
        channel.read(one, two)
        channel.read(rest, exactly=False)
        assert [channel.take().size, channel.take().size] == [5, 5]
        assert (one, two, rest[:5]) == (b"012", b"34", b"56789")
        channel.read(bytearray(1), exactly=False)
        assert channel.take().size == 0


def test_operations_behind_a_failure_come_back_undone(tmp_path, executor):
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    channel = IOChannel(path, "read", executor)
    submitted = [channel.read(bytearray(6))]
    for _ in range(5):
        try:
            submitted.append(channel.read(bytearray(6)))
        except CorruptDataError:  # the failure was quicker
            break
    taken = list(iter(channel.take, None))
    assert taken[: len(submitted)] == [one for one in submitted if one in taken]
    assert [one.is_done for one in taken] == [True] + [False] * (len(taken) - 1)
    with pytest.raises(CorruptDataError, match="at byte 10: the file ends inside a block"):
        channel.write(b"x")
    with pytest.raises(CorruptDataError, match="at byte 10"):
        channel.close()
    channel.close()


def test_bytes_are_held_until_done_and_not_longer(tmp_path, executor):
    data = bytearray(b"some bytes")
    with IOChannel(tmp_path / "file", "create", executor) as channel:
        before = sys.getrefcount(data)
        channel.write(data, item=None)
        channel.take()
        data.append(0)  # BufferError while anybody holds it
        assert sys.getrefcount(data) == before
        with pytest.raises(ValueError, match="one or two parts"):
            channel.write()
        with pytest.raises(BufferError):
            channel.read(b"read-only")
    with pytest.raises(RuntimeError, match="closed"):
        channel.write(b"x")


def test_channel_that_is_dropped_waits_for_its_bytes(tmp_path, executor):
    channel = IOChannel(tmp_path / "file", "create", executor)
    for _ in range(50):
        channel.write(bytes(1000))
    del channel
    assert (tmp_path / "file").stat().st_size == 50_000


def test_close_deletes(tmp_path, executor):
    channel = IOChannel(tmp_path / "file", "create", executor)
    channel.write(b"x")
    channel.close(deletes=True)
    assert not (tmp_path / "file").exists()
    assert channel.take().is_done
