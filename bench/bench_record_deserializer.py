"""How fast do records come out of 32 KiB buffers as bytes, one by one through the binding, next to struct and slices?

Records of 100 bytes lie mostly whole in a buffer; those of 100 KB all span and are joined. The rival is what one would
write in Python, with the same care for records that are cut by a buffer's end. Counterpart in Flink:
SpillingAdaptiveSpanningRecordDeserializer under SerializationFrameworkMiniBenchmarks.
"""

import struct

import pytest
from measure import measure, scaled

from flinkbuf._core.record.record_deserializer import RecordDeserializer

BUFFER_SIZE = 32768


def buffers_of(record_size, count):
    stream = (struct.pack(">i", record_size) + bytes(record_size)) * count
    return [stream[at : at + BUFFER_SIZE] for at in range(0, len(stream), BUFFER_SIZE)]


def flinkbuf(buffers):
    deserializer, count = RecordDeserializer(), 0
    for buffer in buffers:
        deserializer.set_next_buffer(buffer)
        for _ in deserializer:
            count += 1
    deserializer.finish()
    return count


def struct_slices(buffers):
    rest, count = b"", 0
    unpack = struct.Struct(">i").unpack_from
    for buffer in buffers:
        data, position = (rest + buffer if rest else buffer), 0
        while len(data) - position >= 4:
            end = position + 4 + unpack(data, position)[0]
            if end > len(data):
                break
            data[position + 4 : end]
            position, count = end, count + 1
        rest = data[position:]
    assert not rest
    return count


CASES = {
    f"record_deserializer_{size}_bytes.{read.__name__}": (read, size, scaled(count))
    for size, count in [(100, 20_000), (100_000, 200)]
    for read in (flinkbuf, struct_slices)
}


def run(name, benchmark=None):
    read, size, count = CASES[name]
    buffers = buffers_of(size, count)
    assert read(buffers) == count
    measure(name, lambda: read(buffers), count, "records", benchmark=benchmark)


@pytest.mark.parametrize("name", CASES)
def test_rate(benchmark, name):
    run(name, benchmark)


if __name__ == "__main__":
    for name in CASES:
        run(name)
