"""Arrays that are not what their schema says are errors that name the column, and nothing of them is written."""

import random

import numpy as np
import pyarrow as pa
import pytest

import flinkbuf as fb

LATER = []


def array_with(kind, length, numbers, *buffers, children=None):
    """An array whose first buffer gets its numbers after pyarrow has looked at it."""
    memory = np.zeros(len(numbers), "i4")
    LATER.append((memory, numbers))
    return pa.Array.from_buffers(kind, length, [None, pa.py_buffer(memory), *buffers], children=children)


def batch_of(array):
    batch = pa.RecordBatch.from_arrays([array], ["a"])
    while LATER:
        memory, numbers = LATER.pop()
        memory[:] = numbers
    return batch


def text(*numbers, data=b"abcdef"):
    return array_with(pa.string(), len(numbers) - 1, numbers, pa.py_buffer(data))


def list_of(child, *numbers):
    return array_with(pa.list_(child.type), len(numbers) - 1, numbers, children=[child])


def view(*parts, data=b"x" * 20):
    return array_with(pa.string_view(), 1, parts, pa.py_buffer(data))


def indices(*numbers):
    return pa.DictionaryArray.from_arrays(pa.array(numbers, pa.int8()), pa.array(["a", "b"]), safe=False)


MALFORMED = {
    "falling": (lambda: text(0, 3, 2), "string", "offsets fall"),
    "negative": (lambda: text(-1, 3, 4), "string", "offsets fall"),
    "falling list": (lambda: list_of(pa.array([1, 2, 3]), 0, 2, 1), "array<bigint>", "offsets fall"),
    "long list": (lambda: list_of(pa.array([1, 2, 3]), 0, 2, 4), "array<bigint>", "beyond its values"),
    "text in a list": (lambda: list_of(text(0, 3, 2), 0, 2), "array<string>", "element': its offsets fall"),
    "view": (lambda: view(15, 0, 0, 10), "string", "beyond its buffer"),
    "view of no buffer": (lambda: view(15, 0, 1, 0), "string", "points to no buffer"),
    "negative view": (lambda: view(-2, 0, 0, 0), "string", "negative length"),
    "index": (lambda: indices(0, 5), "string", "points to no value of its dictionary"),
    "negative index": (lambda: indices(0, -1), "string", "points to no value of its dictionary"),
    "no UTF-8": (
        lambda: text(0, 2, 4, data=b"ab\xff\xfe"),
        "string",
        "row 1 of the batch: column 'a': text that is no UTF-8",
    ),
    "overlong": (lambda: text(0, 2, data=b"\xc0\x80"), "string", "no UTF-8"),
    "surrogate": (lambda: text(0, 3, data=b"\xed\xa0\x80"), "string", "no UTF-8"),
    "cut off": (lambda: text(0, 2, data=b"a\xc3\xa9"), "string", "no UTF-8"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_array_is_an_error(name):
    array, kind, message = MALFORMED[name]
    batch = batch_of(array())
    with pytest.raises(ValueError, match=message):
        list(fb.write_buffers(batch, f"a {kind}", 1))


def test_a_null_hides_what_is_behind_it():
    """Slots below a null hold anything."""
    values = pa.DictionaryArray.from_arrays(pa.array([9, 0], pa.int8()), pa.array(["a"]), safe=False)
    parent = pa.StructArray.from_buffers(pa.struct([("x", values.type)]), 2, [pa.py_buffer(b"\x02")], children=[values])
    batch = pa.RecordBatch.from_arrays([parent], ["a"])
    expected = list(fb.write_buffers([(None,), (("a",),)], "a struct<x: string>", 1))
    assert list(fb.write_buffers(batch, "a struct<x: string>", 1)) == expected


def test_offsets_of_any_kind_are_an_error_or_a_batch():
    rng = random.Random(5)
    for _ in range(3000):
        numbers = [rng.choice([0, 1, 2, 3, 6, -1, 2**31 - 1, -(2**31)]) for _ in range(4)]
        child = pa.array(["a", "bc", None, "é", "", "x" * 30])
        batch = batch_of(list_of(child, *numbers)).slice(rng.randrange(3))
        try:
            list(fb.write_buffers(batch, "a array<string>", 1))
        except ValueError:
            continue
        used = numbers[3 - batch.num_rows :]
        assert used == sorted(used)
        assert used[0] >= 0
        assert used[-1] <= 6


def test_a_capsule_of_another_kind_is_refused():
    class Wrong:
        def __arrow_c_array__(self, requested_schema=None):
            return pa.schema([]).__arrow_c_schema__(), pa.schema([]).__arrow_c_schema__()

    with pytest.raises(ValueError, match="PyCapsule"):
        list(fb.write_buffers(Wrong(), "a int", 1))


def test_a_stream_that_fails_says_why():
    def parts():
        yield pa.record_batch({"a": [1]})
        raise ValueError("the source broke")

    stream = pa.RecordBatchReader.from_batches(pa.schema([("a", pa.int64())]), parts())
    with pytest.raises(OSError, match="the source broke"):
        list(fb.write_buffers(stream, "a bigint", 1))
