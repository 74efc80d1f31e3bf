"""What stands in front of each buffer in a file, from Python; every case of it is in test_buffer_header.c."""

import doctest

import pytest

from flinkbuf._core.partition import buffer_header
from flinkbuf._core.partition.buffer_header import HEADER_SIZE, read_header, write_header
from flinkbuf.errors import CorruptDataError


def test_examples():
    assert doctest.testmod(buffer_header).failed == 0


def test_what_cannot_be_stored_is_said():
    with pytest.raises(ValueError, match="4 bytes with data type 3 cannot be stored"):
        write_header(3, False, 4)
    with pytest.raises(CorruptDataError, match="no header's: ff00"):
        read_header(b"\xff" + bytes(7))
    with pytest.raises(ValueError, match=f"has {HEADER_SIZE} bytes, got 3"):
        read_header(bytes(3))
