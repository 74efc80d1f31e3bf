"""How fast do the rows of Arrow batches go by key into the buffers of many channels, and back to batches?

Rows of (int64, string, float64), and of numbers only; beside it what pyarrow makes of the same rows: take() of each
channel's rows and IPC. One thread. Design: 25 M rows/s at every width, 60 M rows/s of numbers into 8 channels, and
1 GB/s of ten columns (84 bytes a row).
"""

import functools

import numpy as np
import pytest
from measure import measure, scaled

pytest.importorskip("pyarrow")
import pyarrow as pa

ROWS = scaled(1_000_000)
STEP = 65536  # rows of a batch
RNG = np.random.default_rng(20130101)


@functools.cache
def _mixed():
    words = np.array(["ALPHA", "BRAVO", "CHARLIE", "N12345", "N9988X"])
    return pa.table(
        {
            "key": RNG.integers(0, 2**40, ROWS),
            "text": pa.array(words[RNG.integers(0, len(words), ROWS)]),
            "value": RNG.random(ROWS),
        }
    ).to_batches(STEP)


@functools.cache
def _numbers():
    return pa.table({"key": RNG.integers(0, 2**40, ROWS), "value": RNG.random(ROWS)}).to_batches(STEP)


@functools.cache
def _wide():
    numbers = {f"n{i}": RNG.integers(0, 2**40, ROWS) for i in range(5)}
    floats = {f"d{i}": RNG.random(ROWS) for i in range(3)}
    words = np.array(["ALPHA", "BRAVO", "CHARLIE", "N12345", "N9988X"])
    texts = {f"t{i}": pa.array(words[RNG.integers(0, len(words), ROWS)]) for i in range(2)}
    return pa.table({**numbers, **floats, **texts}).to_batches(STEP)


def flinkbuf_write(batches, channels):
    """write_buffers with by_key: (channel, bytes)."""
    import flinkbuf as fb

    config = fb.NetworkConfig(sort_shuffle_min_buffers=4 * channels)  # a page a channel
    return list(fb.write_buffers(batches, batches[0].schema, channels, fb.by_key("key"), config=config))


@functools.cache
def _bounded(column, channels):
    from flinkbuf.records.range_partitioner import by_range, range_bounds

    partitioner = by_range(column)
    return partitioner.with_bounds(range_bounds(_mixed()[:2], partitioner, channels))


def flinkbuf_range(batches, channels, column):
    """write_buffers with by_range: (channel, bytes)."""
    import flinkbuf as fb

    config = fb.NetworkConfig(sort_shuffle_min_buffers=4 * channels)
    return list(fb.write_buffers(batches, batches[0].schema, channels, _bounded(column, channels), config=config))


def flinkbuf_both(batches, channels):
    """The same, and read_batches of every channel."""
    import flinkbuf as fb

    of_channel = [[] for _ in range(channels)]
    for channel, buffer in flinkbuf_write(batches, channels):
        of_channel[channel].append(buffer)
    return sum(batch.num_rows for buffers in of_channel for batch in fb.read_batches(buffers, batches[0].schema))


@functools.cache
def _pool():
    import flinkbuf as fb

    return fb.NetworkBufferPool(4096)


def flinkbuf_partition(batches, channels):
    """emit_batch into a partition, read_batches from its gate, a batch at a time through one pool."""
    import flinkbuf as fb

    partition = fb.ResultPartition(_pool(), channels, type="PIPELINED")
    gate = fb.InputGate([(partition, i) for i in range(channels)])
    reader = fb.RecordReader(gate, batches[0].schema)
    rows = 0
    with fb.RecordWriter(partition, batches[0].schema, fb.by_key("key"), buffer_timeout_ms=-1) as writer:
        found = reader.read_batches(max_rows=16384)
        for batch in batches:
            writer.emit_batch(batch)
            writer.flush()
            want = rows + batch.num_rows
            while rows + 16384 <= want:
                rows += next(found).num_rows
    return rows + sum(batch.num_rows for batch in found)


def pyarrow_take(batches, channels):
    """Hash in numpy, take() each channel's rows, write and read them as IPC."""
    rows = 0
    for batch in batches:
        keys = batch.column(0).to_numpy()
        order = np.argsort((keys ^ keys >> 32).astype(np.uint32) % channels, kind="stable")
        counts = np.bincount((keys ^ keys >> 32).astype(np.uint32) % channels, minlength=channels)
        taken, start = batch.take(pa.array(order)), 0
        for count in counts:
            part = taken.slice(start, count)
            start += count
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as writer:
                writer.write_batch(part)
            rows += pa.ipc.open_stream(sink.getvalue()).read_next_batch().num_rows
    return rows


def ten_columns(batches, channels):
    """Ten columns into one channel and back, a buffer at a time."""
    import flinkbuf as fb

    schema = batches[0].schema
    buffers = (buffer for _, buffer in fb.write_buffers(batches, schema, channels))
    return sum(batch.num_rows for batch in fb.read_batches(buffers, schema))


CASES = {}
for width in (8, 100, 1000):
    CASES[f"arrow_rows_{width}.flinkbuf"] = (flinkbuf_both, _mixed, width)
    CASES[f"arrow_rows_{width}.flinkbuf_partition"] = (flinkbuf_partition, _mixed, width)
    CASES[f"arrow_rows_{width}.pyarrow_take_ipc"] = (pyarrow_take, _mixed, width)
    CASES[f"arrow_range_{width}.flinkbuf_long"] = (functools.partial(flinkbuf_range, column="key"), _mixed, width)
    CASES[f"arrow_range_{width}.flinkbuf_text"] = (functools.partial(flinkbuf_range, column="text"), _mixed, width)
CASES["arrow_numbers_8.flinkbuf_write"] = (lambda batches, n: flinkbuf_write(batches, n), _numbers, 8)
CASES["arrow_ten_columns.flinkbuf"] = (ten_columns, _wide, 1)


def measure_case(name, benchmark=None):
    function, make, channels = CASES[name]
    batches = make()
    rows = sum(batch.num_rows for batch in batches)
    found = function(batches, channels)
    assert found == rows or isinstance(found, list), f"{name} gives {found} of {rows} rows"
    measure(name, lambda: function(batches, channels), rows, "rows", benchmark=benchmark)


@pytest.mark.parametrize("name", CASES)
def test_batches(benchmark, name):
    measure_case(name, benchmark)


if __name__ == "__main__":
    for name in CASES:
        measure_case(name)
