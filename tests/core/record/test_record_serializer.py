"""Records cut over buffers: the bytes that Flink writes, for every segment size."""

import doctest
import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkbuf._core.record import record_serializer
from flinkbuf._core.record.record_serializer import RecordSerializer

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "spanning" / "spanning.json").read_text())


def lin31(size, seed):
    """The made-up payloads of the golden files."""
    return bytes((i * 31 + seed) & 0xFF for i in range(size))


def serialize(records, segment_size):
    serializer = RecordSerializer(segment_size)
    buffers = [buffer for record in records for buffer in serializer.serialize(record)]
    last = serializer.flush()
    return [*buffers, last] if last else buffers


def data_buffers(case):
    return [buffer for buffer in case["buffers"] if buffer["data_type"] == "DATA_BUFFER"]


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda case: f"{case['segment_size']}-{len(case['records'])}")
def test_buffers_are_those_of_flink(case):
    records = [bytes.fromhex(record["hex"]) for record in case["records"]]
    assert [buffer.hex() for buffer in serialize(records, case["segment_size"])] == [
        buffer["hex"] for buffer in data_buffers(case)
    ]


@pytest.mark.parametrize("case", GOLDEN["big_cases"], ids=lambda case: str(case["segment_size"]))
def test_buffers_of_large_records_are_those_of_flink(case):
    records = [lin31(record["size"], record["seed"]) for record in case["records"]]
    buffers = serialize(records, case["segment_size"])
    assert [(len(buffer), hashlib.sha256(buffer).hexdigest()) for buffer in buffers] == [
        (buffer["size"], buffer["sha256"]) for buffer in data_buffers(case)
    ]


@settings(deadline=None)  # a loaded machine is no failure
@given(st.lists(st.binary(max_size=70), max_size=12), st.integers(1, 80))
def test_buffers_hold_the_stream_and_only_the_last_is_not_full(records, segment_size):
    stream = b"".join(len(record).to_bytes(4, "big") + record for record in records)
    buffers = serialize(records, segment_size)
    assert b"".join(buffers) == stream
    assert [len(buffer) for buffer in buffers[:-1]] == [segment_size] * (len(buffers) - 1)


def test_flush_gives_the_unfinished_buffer_once():
    serializer = RecordSerializer(100)
    assert serializer.flush() == b""
    assert serializer.serialize(b"abc") == []
    assert serializer.flush() == b"\0\0\0\3abc"
    assert serializer.flush() == b""


def test_record_that_ends_with_its_buffer_leaves_nothing_to_flush():
    serializer = RecordSerializer(7)
    assert serializer.serialize(b"abc") == [b"\0\0\0\3abc"]
    assert serializer.flush() == b""


@pytest.mark.parametrize("record", [bytearray(b"abc"), memoryview(b"xabc")[1:]])
def test_any_bytes_like_record_is_taken(record):
    assert serialize([record], 100) == [b"\0\0\0\3abc"]


@pytest.mark.parametrize("record", ["abc", 3, None])
def test_record_that_is_not_bytes_raises_and_writes_nothing(record):
    serializer = RecordSerializer(100)
    with pytest.raises(TypeError):
        serializer.serialize(record)
    serializer.serialize(b"abc")
    assert serializer.flush() == b"\0\0\0\3abc"


@pytest.mark.parametrize("segment_size", [0, 2**31])
def test_impossible_segment_size_raises(segment_size):
    with pytest.raises(ValueError, match=f"got {segment_size}"):
        RecordSerializer(segment_size)


def test_examples_of_the_documentation_run():
    failed, attempted = doctest.testmod(record_serializer)
    assert failed == 0 < attempted
