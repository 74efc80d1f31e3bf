"""Batches and columns in blocking partitions: the rows of every subpartition come back, however they were collected."""

import gc

import numpy as np
import pyarrow as pa
import pytest

import flinkbuf as fb

CHANNELS = 40
ROWS = 4000
BATCH = pa.record_batch(
    {
        "key": pa.array([number * 7919 % 501 for number in range(ROWS)], pa.int64()),
        "text": [None if number % 11 == 0 else "é" * (number % 60) for number in range(ROWS)],
    }
)
# A log of fewer buffers than there are subpartitions, or two builders for each of them.
COLLECTED = [
    pytest.param({"sort_buffers": 4}, id="log"),
    pytest.param({"sort_buffers": 100}, id="builders"),
    pytest.param({"storage": "file"}, id="file"),
]


@pytest.fixture
def pool():
    """A pool whose segments must all be home at the end of the test."""
    made = fb.NetworkBufferPool(128, segment_size=1024)
    yield made
    gc.collect()
    assert made.available_segment_count == made.total_segment_count


def rows_of(batch):
    return list(zip(*(column.to_pylist() for column in batch.columns), strict=True))


def contents(partition, record_type):
    """The records of each subpartition."""
    found = []
    for channel in range(CHANNELS):
        with fb.InputGate([(partition, channel)]) as gate:
            records = fb.RecordReader(gate, record_type)
            found.append([tuple(record) if isinstance(record, fb.Row) else record for record in records])
    return found


def written(pool, path, record_type, write, partitioner="rebalance", **options):
    """What the subpartitions hold that `write` has filled."""
    partition = fb.ResultPartition(pool, CHANNELS, "BLOCKING", path, **options)
    try:
        with fb.RecordWriter(partition, record_type, partitioner, seed=5) as writer:
            write(writer)
        return contents(partition, record_type)
    finally:
        partition.release()
        partition.close()


@pytest.mark.parametrize("options", COLLECTED)
@pytest.mark.parametrize("partitioner", ["rebalance", "shuffle", "broadcast", fb.by_key("key")])
def test_rows_of_batches_go_where_records_go(pool, tmp_path, partitioner, options):
    def write_batches(writer):
        assert writer.emit_batch(BATCH.slice(0, 1)) == 1
        assert writer.emit_batch(BATCH.slice(1)) == ROWS - 1
        assert writer.record_count == ROWS

    expected = written(pool, tmp_path / "r", BATCH.schema, lambda writer: writer.emit_all(rows_of(BATCH)), partitioner)
    assert sum(map(len, expected)) == ROWS * (CHANNELS if partitioner == "broadcast" else 1)
    assert written(pool, tmp_path / "b", BATCH.schema, write_batches, partitioner, **options) == expected


@pytest.mark.parametrize("options", COLLECTED)
def test_rows_go_to_the_channels_that_are_given_between_other_records(pool, tmp_path, options):
    channels = np.random.default_rng(3).integers(0, CHANNELS, ROWS).astype(np.uint32)

    def write(writer):
        writer.emit_to((-1, "first"), 0)
        writer.emit_batch(BATCH.slice(0, 700), channels[:700])
        writer.broadcast((-2, "all"))
        writer.emit_batch(BATCH.slice(700), channels[700:])

    expected = [[] for _ in range(CHANNELS)]
    expected[0].append((-1, "first"))
    for number, (row, channel) in enumerate(zip(rows_of(BATCH), channels, strict=True)):
        if number == 700:
            for records in expected:
                records.append((-2, "all"))
        expected[channel].append(row)
    assert written(pool, tmp_path / "p", BATCH.schema, write, **options) == expected


@pytest.mark.parametrize("options", COLLECTED)
@pytest.mark.parametrize("partitioner", ["broadcast", "rebalance"])
def test_a_row_may_be_larger_than_all_buffers(pool, tmp_path, partitioner, options):
    batch = pa.record_batch({"text": ["a", "b" * 500_000, "c", "d" * 1020, "e" * 1023, "f" * 150_000, "g"]})
    expected = [[] for _ in range(CHANNELS)]
    for number, row in enumerate(rows_of(batch)):
        for channel in range(CHANNELS) if partitioner == "broadcast" else [number % CHANNELS]:
            expected[channel].append(row)
    found = written(pool, tmp_path / "p", batch.schema, lambda writer: writer.emit_batch(batch), partitioner, **options)
    first = next(channel for channel in range(CHANNELS) if found[channel] == [("a",)] or partitioner == "broadcast")
    assert found[first:] + found[:first] == expected


@pytest.mark.parametrize("options", COLLECTED)
@pytest.mark.parametrize("partitioner", ["rebalance", "broadcast", fb.by_key("*")])
def test_columns_of_numbers_go_where_records_go(pool, tmp_path, partitioner, options):
    column = np.arange(9000, dtype=np.int64) * 37
    kind = fb.Types.LONG()
    expected = written(pool, tmp_path / "r", kind, lambda writer: writer.emit_all(column.tolist()), partitioner)
    assert sum(map(len, expected)) == 9000 * (CHANNELS if partitioner == "broadcast" else 1)
    assert written(pool, tmp_path / "c", kind, lambda writer: writer.emit_batch(column), partitioner, **options) == (
        expected
    )


@pytest.mark.parametrize("options", COLLECTED)
def test_rows_before_one_at_fault_are_written(pool, tmp_path, options):
    batch = pa.record_batch({"key": ["x"] * 600 + [None] + ["y"] * 10})

    def write(writer):
        with pytest.raises(ValueError, match="row 600 of the batch: column 'key': a key that is null"):
            writer.emit_batch(batch)
        assert writer.emit_batch(batch.slice(601)) == 10

    found = written(pool, tmp_path / "p", batch.schema, write, fb.by_key("key"), **options)
    assert sorted(row for rows in found for row in rows) == [("x",)] * 600 + [("y",)] * 10


def test_a_released_partition_ends_the_batch(pool, tmp_path):
    partition = fb.ResultPartition(pool, CHANNELS, "BLOCKING", tmp_path / "p", sort_buffers=4)
    with pytest.raises(fb.errors.CancelTaskError), fb.RecordWriter(partition, BATCH.schema) as writer:
        writer.emit_batch(BATCH)
        partition.release()
        writer.emit_batch(BATCH)
    partition.close()
