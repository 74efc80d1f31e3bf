"""Files: all bytes or an error that says where."""

import doctest
import os

import pytest

from flinkbuf._core.io import file_channel
from flinkbuf._core.io.file_channel import FileChannel
from flinkbuf.errors import CorruptDataError


def test_examples():
    assert doctest.testmod(file_channel).failed == 0


def test_what_is_written_can_be_read_and_extended(tmp_path):
    path = tmp_path / "data"
    with FileChannel(path, "create") as channel:
        assert channel.write(bytearray(b"0123")) == 4
        channel.sync()
    with FileChannel(path, "extend") as channel, FileChannel(path) as reader:
        assert channel.write(memoryview(b"456789")) == 10
        assert reader.read(2, 8) == b"23456789" and reader.size == 10
        with pytest.raises(RuntimeError, match="reading only"):
            reader.write(b"x")
        channel.close_and_delete()
        assert not channel.is_open and not path.exists()
        assert reader.read(0, 10) == b"0123456789"  # removed under a reader


def test_end_of_the_file_is_an_error_with_its_place_before_memory_is_taken(tmp_path):
    path = tmp_path / "data"
    path.write_bytes(b"0123456789")
    with FileChannel(path) as channel:
        for offset, size, end in ((4, 7, 10), (10, 1, 10), (50, 5, 50), (0, 1 << 60, 10)):
            with pytest.raises(CorruptDataError, match=f"{path} at byte {end}: the file ends here") as raised:
                channel.read(offset, size)
            assert raised.value.offset == end and raised.value.path == str(path)
        os.truncate(path, 3)
        with pytest.raises(CorruptDataError, match="at byte 3"):
            channel.read(0, 10)


def test_errors_are_those_of_the_system_with_path(tmp_path):
    with pytest.raises(FileNotFoundError, match="somebody removed it") as raised:
        FileChannel(tmp_path / "missing")
    assert raised.value.filename == str(tmp_path / "missing")
    (tmp_path / "there").write_bytes(b"")
    with pytest.raises(FileExistsError, match="name another path"):
        FileChannel(tmp_path / "there", "create")
    with pytest.raises(IsADirectoryError):
        FileChannel(tmp_path, "extend")
    with pytest.raises(ValueError, match="mode must be one of"):
        FileChannel(tmp_path / "there", "w")
    with pytest.raises(ValueError, match="zero byte"):
        FileChannel("a\0b")
    channel = FileChannel(tmp_path / "there")
    channel.close()
    channel.close()
    with pytest.raises(RuntimeError, match="closed"):
        channel.read(0, 1)
