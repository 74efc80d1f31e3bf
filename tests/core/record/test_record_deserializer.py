"""Records joined again from buffers cut anywhere, and everything that can be wrong with the bytes."""

import doctest
import errno
import gc
import hashlib
import json
import sys
import threading
import time
import weakref
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkbuf._core.record import record_deserializer
from flinkbuf._core.record.record_deserializer import RecordDeserializer
from flinkbuf.errors import CorruptDataError

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "spanning" / "spanning.json").read_text())


def lin31(size, seed):
    """The made-up payloads of the golden files."""
    return bytes((i * 31 + seed) & 0xFF for i in range(size))


def frame(*records):
    return b"".join(len(record).to_bytes(4, "big") + record for record in records)


def cut(stream, sizes):
    """The stream in buffers of the given sizes, the last one taking the rest."""
    buffers = []
    for size in sizes:
        buffers.append(stream[:size])
        stream = stream[size:]
    return [*buffers, stream]


def read(buffers, **options):
    deserializer = RecordDeserializer(**options)
    records = []
    for buffer in buffers:
        deserializer.set_next_buffer(buffer)
        records.extend(deserializer)
    deserializer.finish()
    assert deserializer.record_count == len(records)
    return records


def buffers_of(case):
    return [bytes.fromhex(buffer["hex"]) for buffer in case["buffers"] if buffer["data_type"] == "DATA_BUFFER"]


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda case: f"{case['segment_size']}-{len(case['records'])}")
@pytest.mark.parametrize("spill_threshold", [1, 30, 5 << 20])
def test_flinks_buffers_give_its_records(case, spill_threshold):
    records = read(buffers_of(case), spill_threshold=spill_threshold)
    assert [record.hex() for record in records] == [record["hex"] for record in case["records"]]


@pytest.mark.parametrize("case", GOLDEN["big_cases"], ids=lambda case: str(case["segment_size"]))
@pytest.mark.parametrize("spill_threshold", [50_000, 5 << 20])
def test_flinks_buffers_give_its_large_records(case, spill_threshold):
    stream = frame(*(lin31(record["size"], record["seed"]) for record in case["records"]))
    golden = [buffer for buffer in case["buffers"] if buffer["data_type"] == "DATA_BUFFER"]
    buffers = cut(stream, [buffer["size"] for buffer in golden])[:-1]
    assert [hashlib.sha256(buffer).hexdigest() for buffer in buffers] == [buffer["sha256"] for buffer in golden]
    assert [hashlib.sha256(record).hexdigest() for record in read(buffers, spill_threshold=spill_threshold)] == [
        record["sha256"] for record in case["records"]
    ]


records_and_cuts = st.tuples(st.lists(st.binary(max_size=60), max_size=12), st.lists(st.integers(0, 40), max_size=40))


@settings(deadline=None)  # a loaded machine is no failure
@given(records_and_cuts, st.sampled_from([20, 5 << 20]))
def test_any_cut_of_the_stream_gives_the_records_back(records_and_cuts, spill_threshold):
    records, sizes = records_and_cuts
    assert read(cut(frame(*records), sizes), spill_threshold=spill_threshold) == records


def test_nothing_is_unconsumed_between_records():
    deserializer = RecordDeserializer()
    assert deserializer.unconsumed() == b""
    deserializer.set_next_buffer(frame(b"abc"))
    assert list(deserializer) == [b"abc"]
    assert deserializer.unconsumed() == b""


@settings(deadline=None)  # a loaded machine is no failure
@given(records_and_cuts.filter(lambda drawn: drawn[0]), st.data())
def test_stream_that_ends_inside_a_record_is_an_error(records_and_cuts, data):
    records, sizes = records_and_cuts
    stream = frame(*records)
    boundaries = [0]
    for record in records:
        boundaries.append(boundaries[-1] + 4 + len(record))
    end = data.draw(st.integers(0, len(stream)).filter(lambda end: end not in boundaries))
    number = max(i for i, boundary in enumerate(boundaries) if boundary < end)
    where = f"record {number} at byte {boundaries[number]} of the stream: the stream ends inside it"
    with pytest.raises(CorruptDataError, match=where):
        read(cut(stream[:end], sizes))


@pytest.mark.parametrize("length", [-1, -5, -(2**31)])
@pytest.mark.parametrize("at", [0, 1, 6, 8, 9, 10, 13])
def test_negative_length_names_channel_record_and_offset(length, at):
    stream = frame(b"ab") + length.to_bytes(4, "big", signed=True) + b"rest"
    deserializer, found = RecordDeserializer(7), []
    where = rf"record 1 at byte 6 of channel 7: its length is negative \({length}\)"
    with pytest.raises(CorruptDataError, match=where):
        for buffer in cut(stream, [at]):
            deserializer.set_next_buffer(buffer)
            for record in deserializer:
                found.append(record)
    assert found == [b"ab"]


@pytest.mark.parametrize("at", [0, 3, 4, 50])
def test_length_over_the_limit_is_an_error_before_any_memory_is_taken(at):
    deserializer = RecordDeserializer(max_record_size=99)
    deserializer.set_next_buffer(frame(bytes(99)))
    assert list(deserializer) == [bytes(99)]
    with pytest.raises(CorruptDataError, match="length is 100 bytes, over the limit of 99 .max_record_size."):
        for buffer in cut(frame(bytes(100)), [at]):
            deserializer.set_next_buffer(buffer)
            list(deserializer)


def test_buffer_with_unread_records_cannot_be_replaced_or_ended():
    deserializer = RecordDeserializer()
    deserializer.set_next_buffer(frame(b"one", b"two"))
    assert deserializer.poll() == b"one"
    with pytest.raises(RuntimeError, match="unread records"):
        deserializer.set_next_buffer(frame(b"three"))
    with pytest.raises(RuntimeError, match="unread records"):
        deserializer.finish()
    assert deserializer.poll() == b"two"
    deserializer.finish()


def test_buffer_is_held_until_it_is_used_up():
    buffer = bytearray(frame(b"abc") + b"\0\0")
    deserializer = RecordDeserializer()
    deserializer.set_next_buffer(buffer)
    assert deserializer.poll() == b"abc"
    with pytest.raises(BufferError):
        buffer.append(1)
    assert deserializer.poll() is None
    buffer.append(1)
    deserializer.set_next_buffer(buffer)
    deserializer.clear()
    buffer.append(1)
    deserializer.set_next_buffer(buffer)
    del deserializer
    buffer.append(1)


@pytest.mark.parametrize("taken", [0, 1, 2])
def test_deserializer_and_buffer_that_hold_each_other_are_collected(taken):
    class Buffer(bytearray):
        pass

    buffer = Buffer(frame(b"abc"))
    buffer.deserializer = RecordDeserializer()
    buffer.deserializer.set_next_buffer(buffer)
    for _ in range(taken):  # the second poll lets the buffer go
        buffer.deserializer.poll()
    collected = weakref.ref(buffer)
    del buffer
    gc.collect()
    assert collected() is None


def test_spilling_nowhere_names_record_and_cause(tmp_path):
    deserializer = RecordDeserializer(2, spill_threshold=10, spill_dirs=[tmp_path / "missing"])
    deserializer.set_next_buffer(frame(b"ab", bytes(1000))[:100])
    assert deserializer.poll() == b"ab"
    where = r"cannot spill record 1 at byte 6 of channel 2 \(1000 bytes\)"
    with pytest.raises(FileNotFoundError, match=where) as raised:
        deserializer.poll()
    assert raised.value.errno == errno.ENOENT
    deserializer.clear()
    deserializer.set_next_buffer(frame(b"cd"))
    assert list(deserializer) == [b"cd"]


@pytest.mark.parametrize(
    "options",
    [{"spill_threshold": 0}, {"max_record_size": 0}, {"max_record_size": 2**31}, {"spill_dirs": []}],
    ids=str,
)
def test_impossible_options_raise(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        RecordDeserializer(**options)


def test_other_threads_run_while_a_record_is_spilled(tmp_path):
    stream = frame(bytes(64 << 20))
    turns, stop = [0], threading.Event()

    def count():
        while not stop.is_set():
            turns[0] += 1
            time.sleep(0)

    deserializer = RecordDeserializer(spill_dirs=[tmp_path])
    deserializer.set_next_buffer(memoryview(stream)[:-1])
    switch_interval = sys.getswitchinterval()
    thread = threading.Thread(target=count)
    thread.start()
    try:
        sys.setswitchinterval(10)  # s: a thread runs until it lets the GIL go itself
        before = turns[0]
        assert deserializer.poll() is None
        during = turns[0] - before
    finally:
        sys.setswitchinterval(switch_interval)
        stop.set()
        thread.join()
    assert during > 0


def test_examples_of_the_documentation_run():
    failed, attempted = doctest.testmod(record_deserializer)
    assert failed == 0 < attempted
