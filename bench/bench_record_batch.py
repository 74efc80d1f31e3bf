"""How many raw 8-byte records a second go through writer, partition, gate and reader, a batch at a time?

No Python object per record: a numpy array in, a numpy array out, in one process and one thread. The batches follow
each other through a pool of 4 MiB, so the buffers stay warm as they do in a running task. Beside it what other
libraries make of the same columns. In flink-benchmarks: StreamNetworkThroughputBenchmark, local.
"""

import functools
from importlib.util import find_spec

import numpy as np
import pytest
from measure import measure, scaled

BATCH = 50_000  # records
BATCHES = scaled(40)
COLUMN = np.random.default_rng(20130101).integers(-(2**63), 2**63, BATCH, dtype=np.int64)


def flinkbuf_emit_batch(batches: int = BATCHES) -> np.ndarray:
    """RecordWriter.emit_batch → RecordReader.read_batch."""
    import flinkbuf as fb

    partition = fb.ResultPartition(_pool(), 1, type="PIPELINED")
    reader = fb.RecordReader(fb.InputGate([(partition, 0)]), fb.Types.LONG())
    with fb.RecordWriter(partition, fb.Types.LONG()) as writer:
        for _ in range(batches):
            writer.emit_batch(COLUMN)
            writer.flush()
            column = reader.read_batch(BATCH)
    return column


def numpy_big_endian(batches: int = BATCHES) -> np.ndarray:
    """Swap bytes out and in again, without lengths, channels or buffers: a floor, not a rival."""
    for _ in range(batches):
        data = COLUMN.astype(">i8").tobytes()
        column = np.frombuffer(data, ">i8").astype(np.int64)
    return column


def pyarrow_ipc(batches: int = BATCHES) -> np.ndarray:
    """One record batch a message, without a length per record."""
    import pyarrow as pa

    for _ in range(batches):
        batch = pa.record_batch([pa.array(COLUMN)], names=["value"])
        stream = pa.BufferOutputStream()
        with pa.ipc.new_stream(stream, batch.schema) as writer:
            writer.write_batch(batch)
        column = pa.ipc.open_stream(stream.getvalue()).read_next_batch().column(0).to_numpy()
    return column


@functools.cache
def _pool():
    import flinkbuf as fb

    return fb.NetworkBufferPool(128)


CASES = {"int64_batch.flinkbuf_emit_batch": flinkbuf_emit_batch, "int64_batch.numpy_big_endian": numpy_big_endian}
if find_spec("pyarrow"):
    CASES["int64_batch.pyarrow_ipc"] = pyarrow_ipc


def measure_batches(name, benchmark=None):
    function = CASES[name]
    assert np.array_equal(function(2), COLUMN), f"{name} does not give back what it was given"
    measure(name, function, BATCH * BATCHES, "records", benchmark=benchmark)


@pytest.mark.parametrize("name", CASES)
def test_batches(benchmark, name):
    measure_batches(name, benchmark)


if __name__ == "__main__":
    for name in CASES:
        measure_batches(name)
