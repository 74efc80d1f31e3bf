"""What Spark's checksums of rows say of an exchange of a DataFrame: whether the records are the same, in any order."""

import random

import pyarrow as pa
import pytest

import flinkbuf as fb
from flinkbuf._core.ground.xxh64 import xxh64
from flinkbuf.records.partitioner import NamedPartitioner
from flinkbuf.spark.exchange.blocking import WriteTask
from flinkbuf.spark.exchange.envelope import END_MARKER, HEADER_SIZE, header_of
from flinkbuf.spark.exchange.frame_tasks import FrameWriteTask
from flinkbuf.spark.exchange.row_checksum import tail_of, tail_size

SCHEMA = pa.schema([("key", pa.int64()), ("name", pa.string())])
MASK = 2**64 - 1


def hash_of_row(channel, envelope):
    """Spark's XXH64 of the bytes of an UnsafeRow."""
    fields = bytes(8), channel.to_bytes(8, "little"), len(envelope).to_bytes(4, "little"), (24).to_bytes(4, "little")
    return xxh64(*fields, envelope)


@pytest.mark.parametrize("size", [0, 1, 8, 9, 10, 18, 100, 32768])
@pytest.mark.parametrize("row_hash", [0, 1, 2**64 - 1])
def test_the_tail_gives_a_row_its_hash(size, row_hash):
    buffer = bytes(range(256)) * 128
    buffer = buffer[:size]
    header = header_of(7, 1, 2, END_MARKER, tail_size(HEADER_SIZE + size))
    envelope = header + buffer + tail_of(5, header, buffer, row_hash)
    assert len(envelope) % 8 == 0
    assert hash_of_row(5, envelope) == row_hash


def checksums_of(rows, partitioner, config):
    """Spark's RowBasedChecksum of each channel of one task that writes these rows."""
    write = WriteTask(7, fb.types.row_data_type(SCHEMA), partitioner, 1, 3, config)
    columns = [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), SCHEMA.types, strict=True)]
    batch = pa.record_batch(columns, schema=SCHEMA)
    found = {}
    for out in FrameWriteTask(write, range(3)).rows(0, iter([batch])):
        for channel, envelope in zip(*(column.to_pylist() for column in out.columns), strict=True):
            total, parity = found.get(channel, (0, 0))
            row_hash = hash_of_row(channel, envelope)
            found[channel] = (total + row_hash) & MASK, parity ^ row_hash
    return {channel: parity ^ (total << 27 | total >> 37) & MASK for channel, (total, parity) in found.items()}


@pytest.mark.parametrize(
    "partitioner", [fb.by_key("key"), fb.by_range("key").with_bounds(()), NamedPartitioner("broadcast")]
)
@pytest.mark.parametrize(
    "config",
    [
        None,
        fb.NetworkConfig(segment_size=4096, batch_shuffle_compression_enabled=False),
        fb.NetworkConfig(segment_size=4096, sort_shuffle_min_buffers=2, sort_shuffle_min_parallelism=1),
    ],
)
def test_spark_sees_the_same_records_in_any_order_and_no_others(partitioner, config):
    rows = [(number, f"name {number % 17}") for number in range(3000)]
    expected = checksums_of(rows, partitioner, config)
    assert expected and 0 not in expected.values()
    shuffled = rows.copy()
    random.Random(1).shuffle(shuffled)
    assert checksums_of(shuffled, partitioner, config) == expected
    for others in ([*rows, rows[7]], rows[1:], [(0, "other"), *rows[1:]]):
        assert checksums_of(others, partitioner, config) != expected
