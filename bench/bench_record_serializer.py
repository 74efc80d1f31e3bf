"""How fast are bytes cut over 32 KiB buffers, one record a call through the binding, next to struct and bytearray?

Counterpart in Flink: RecordWriter.serializeRecord under SerializationFrameworkMiniBenchmarks. The writers of flinkbuf
do the same without a call a record: see bench_record_writer.py.
"""

import struct

import pytest
from measure import measure, scaled

from flinkbuf._core.record.record_serializer import RecordSerializer

BUFFER_SIZE = 32768


def flinkbuf(records):
    serializer, buffers = RecordSerializer(BUFFER_SIZE), []
    serialize = serializer.serialize
    for record in records:
        buffers += serialize(record)
    buffers.append(serializer.flush())
    return buffers


def struct_bytearray(records):
    pack = struct.Struct(">i").pack
    waiting, buffers = bytearray(), []
    for record in records:
        waiting += pack(len(record))
        waiting += record
        while len(waiting) >= BUFFER_SIZE:
            buffers.append(bytes(waiting[:BUFFER_SIZE]))
            del waiting[:BUFFER_SIZE]
    buffers.append(bytes(waiting))
    return buffers


CASES = {
    f"record_serializer_{size}_bytes.{write.__name__}": (write, size, scaled(count))
    for size, count in [(100, 20_000), (100_000, 200)]
    for write in (flinkbuf, struct_bytearray)
}


def run(name, benchmark=None):
    write, size, count = CASES[name]
    records = [bytes(size)] * count
    assert sum(map(len, write(records))) == count * (size + 4)
    measure(name, lambda: write(records), count, "records", benchmark=benchmark)


@pytest.mark.parametrize("name", CASES)
def test_rate(benchmark, name):
    run(name, benchmark)


if __name__ == "__main__":
    for name in CASES:
        run(name)
