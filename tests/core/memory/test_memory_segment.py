"""MemorySegment against what Flink's class does, and where Python meets it."""

import json
import math
import re
import struct
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkbuf._core.memory.memory_segment import MemorySegment

GOLDEN = json.loads((Path(__file__).parents[2] / "golden/memory_segment/memory_segment.json").read_text())
EXCEPTIONS = {"IndexOutOfBoundsException": IndexError, "IllegalStateException": RuntimeError}


def snake(name):
    return re.sub(r"[A-Z]", lambda match: "_" + match.group().lower(), name)


def value_of(written):
    if isinstance(written, dict) and "char" in written:
        return chr(written["char"])
    if isinstance(written, dict):
        bits = bytes.fromhex(written["bits"])
        return struct.unpack(">f" if "float" in written else ">d", bits)[0]
    return written


def segment_of(data):
    segment = MemorySegment(len(data))
    segment.put_bytes(0, data)
    return segment


def same(left, right):
    return left == right or (isinstance(left, float) and math.isnan(left) and math.isnan(right))


@pytest.mark.skipif(sys.byteorder != "little", reason="the golden bytes of the native order are little-endian")
@pytest.mark.parametrize(
    "case", GOLDEN["puts"], ids=lambda case: f"{case['op']}-{case['hex'][6:22]}-{case['off_heap']}"
)
def test_puts_leave_the_bytes_that_flink_leaves_and_gets_read_them_back(case):
    segment = MemorySegment(16)
    value = value_of(case["value"])
    getattr(segment, snake(case["op"]))(case["offset"], value)
    assert bytes(segment).hex() == case["hex"]
    read = getattr(segment_of(bytes.fromhex(case["hex"])), snake(case["op"]).replace("put", "get"))(case["offset"])
    assert same(read, value & 0xFF if case["op"] == "put" else value)


@pytest.mark.parametrize("case", GOLDEN["compare"])
def test_compare_and_equal_to_give_flinks_values(case):
    a, b = segment_of(bytes.fromhex(case["a"])), segment_of(bytes.fromhex(case["b"]))
    assert a.compare(b, 0, 0, case["len"]) == case["compare"]
    assert a.compare(b, 1, 1, 3) == case["compare_off1_len3"]
    assert a.compare(b, 0, 0, 5, 7) == case["compare_lens_5_7"]
    assert a.equal_to(b, 0, 0, case["len"]) is case["equal_to"]
    assert a.equal_to(b, 1, 1, 8) is case["equal_to_off1_len8"]


@pytest.mark.parametrize("case", GOLDEN["swap"])
def test_swap_bytes_exchanges_what_flink_exchanges(case):
    a, b = segment_of(bytes.fromhex(case["a"])), segment_of(bytes.fromhex(case["b"]))
    a.swap_bytes(b, case["offset_a"], case["offset_b"], case["len"])
    assert (bytes(a).hex(), bytes(b).hex()) == (case["a_after"], case["b_after"])


@pytest.mark.parametrize("case", GOLDEN["copy_to"])
def test_copy_to_copies_what_flink_copies(case):
    source, target = segment_of(bytes.fromhex(case["source"])), MemorySegment(len(case["target"]) // 2)
    source.copy_to(case["offset"], target, case["target_offset"], case["len"])
    assert bytes(target).hex() == case["target"]


@pytest.mark.parametrize("case", GOLDEN["errors"], ids=lambda case: f"{case['op']}-{case['offset']}-{case['freed']}")
def test_accesses_fail_where_and_how_flinks_fail(case):
    segment = MemorySegment(case["segment_size"])
    if case["freed"]:
        segment.free()
    with pytest.raises(EXCEPTIONS[case["result"]]):
        getattr(segment, snake(case["op"]))(case["offset"])


def test_errors_name_width_offset_and_size():
    with pytest.raises(IndexError, match="4 bytes at offset 13 of a segment of 16 bytes"):
        MemorySegment(16).put_int(13, 0)
    with pytest.raises(IndexError, match="bytes from 0 of <MemorySegment 4 bytes> to 1 of <MemorySegment 4 bytes>"):
        MemorySegment(4).copy_to(0, MemorySegment(4), 1, 4)


def test_values_that_do_not_fit_are_refused_and_nothing_is_written():
    segment = MemorySegment(8)
    for put, value in [
        ("put_short", 2**15),
        ("put_int_big_endian", -(2**31) - 1),
        ("put_long", 2**63),
        ("put", 256),
        ("put_float", 1e300),
    ]:
        with pytest.raises(OverflowError):
            getattr(segment, put)(0, value)
    for wrong in ("", "ab", "\U0001f600"):
        with pytest.raises(ValueError):
            segment.put_char(0, wrong)
    with pytest.raises(TypeError):
        segment.put_int(0, "1")
    assert bytes(segment) == bytes(8)


@given(st.sampled_from(["", "_little_endian", "_big_endian"]), st.integers(0, 20), st.data())
def test_every_width_and_order_agrees_with_struct(order, offset, data):
    mark = {"": "=", "_little_endian": "<", "_big_endian": ">"}[order]
    segment = MemorySegment(32)
    for name, code, values in [
        ("short", "h", st.integers(-(2**15), 2**15 - 1)),
        ("int", "i", st.integers(-(2**31), 2**31 - 1)),
        ("long", "q", st.integers(-(2**63), 2**63 - 1)),
        ("float", "f", st.floats(width=32)),
        ("double", "d", st.floats()),
    ]:
        value = data.draw(values)
        getattr(segment, f"put_{name}{order}")(offset, value)
        assert segment.get_bytes(offset, struct.calcsize(mark + code)) == struct.pack(mark + code, value)
        assert same(getattr(segment, f"get_{name}{order}")(offset), value)


def test_the_segment_is_a_writable_buffer_that_cannot_be_freed_under_a_view():
    segment = MemorySegment(4)
    view = memoryview(segment)
    view[1] = 7
    assert segment.get(1) == 7 and len(segment) == segment.size == 4
    with pytest.raises(BufferError):
        segment.free()
    view.release()
    segment.free()
    segment.free()
    assert segment.is_freed and segment.size == 0
    with pytest.raises(RuntimeError, match="freed"):
        memoryview(segment)


def test_a_segment_may_be_stored_into_itself():
    segment = segment_of(b"abcdef")
    segment.put_bytes(1, memoryview(segment)[:5])
    assert bytes(segment) == b"aabcde"


def test_a_negative_size_is_a_value_error():
    with pytest.raises(ValueError):
        MemorySegment(-1)
