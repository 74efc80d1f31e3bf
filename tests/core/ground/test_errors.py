"""Errors: one list in C, one table of exceptions, and classes that a user can catch."""

import re
from pathlib import Path

import pytest

from flinkbuf import errors
from flinkbuf._core.partition.buffer_header import write_header
from flinkbuf._core.record.record_deserializer import RecordDeserializer

ROOT = Path(__file__).parents[3]


def names_in(path, pattern):
    return re.findall(pattern, (ROOT / path).read_text(), re.MULTILINE)


def test_every_code_of_the_core_has_an_exception():
    codes = [f"FB_E{name}" for name in names_in("csrc/ground/errors.h", r"^  X\((\w+), -\d+,")]
    assert len(codes) >= 17
    assert names_in("flinkbuf/_core/ground/errors.pyx", r"^    (FB_E\w+): \w+,") == codes
    assert names_in("flinkbuf/_core/ground/errors.pxd", r"^        (FB_E\w+)") == codes


@pytest.mark.parametrize("name", ["CorruptDataError", "InsufficientBuffersError", "CancelTaskError"])
def test_own_exceptions_can_be_caught_as_one(name):
    assert issubclass(getattr(errors, name), errors.FlinkbufError)


def test_corrupt_data_is_a_value_error_too():
    assert issubclass(errors.CorruptDataError, ValueError)


def test_error_says_where_and_what():
    with pytest.raises(
        ValueError, match="a buffer of 1 bytes with data type 3 cannot be stored in a file: argument out of range"
    ):
        write_header(3, False, 1)
    with pytest.raises(errors.CorruptDataError, match="record 0 at byte 0 of channel 3"):
        deserializer = RecordDeserializer(3)
        deserializer.set_next_buffer(b"\xff\xff\xff\xff")
        deserializer.poll()
