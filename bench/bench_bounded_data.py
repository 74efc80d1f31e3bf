"""What does a hash-style blocking partition cost beside plain files, written and read?

Subpartitions share 64 MiB, in buffers of 32 KiB that the producer fills through `emit`; each is read to its end through
a view. The rival writes and reads the same bytes in as many files, 256 KiB at a time, in one buffer. All of it stays in
the memory of the system: what is compared is the way there. Counterpart in Flink: BoundedBlockingSubpartition under
BlockingPartitionBenchmark.
"""

import gc
import os
import shutil
import tempfile
from pathlib import Path

import pytest
from measure import measure, scaled

from flinkbuf._core.io.io_executor import IOExecutor
from flinkbuf._core.memory.local_buffer_pool import NetworkBufferPool
from flinkbuf._core.partition.bounded_partition import BoundedStorage
from flinkbuf._core.partition.result_partition import ResultPartition

SEGMENT_SIZE, PLAIN_SIZE = 32768, 256 * 1024
TOTAL = scaled(64) << 20
MIB = TOTAL >> 20
NETWORK = NetworkBufferPool(64, segment_size=SEGMENT_SIZE)
EXECUTOR = IOExecutor("bench")
RECORD = os.urandom(PLAIN_SIZE)
FOLDER = Path(tempfile.mkdtemp(prefix="flinkbuf-bench-"))
BLOCKING = 3


def write_partition(count, storage):
    local = NETWORK.create_buffer_pool(64, 64)
    partition = ResultPartition(local, BLOCKING, count, BoundedStorage(FOLDER / storage, storage, EXECUTOR))
    share = TOTAL // count
    for start in range(0, share, PLAIN_SIZE):
        record = RECORD if share - start >= PLAIN_SIZE else RECORD[: share - start]
        for index in range(count):
            partition.emit(record, index)
    partition.finish()
    return partition


def read_partition(partition, count):
    size = 0
    for index in range(count):
        with partition.create_view(index) as view:
            while True:
                polled = view.poll()
                if polled is None:
                    if view.listener.wait(1000):
                        continue
                    break
                buffer, _, _, _ = polled
                size += len(buffer)
                is_end = int(buffer.data_type) == 10
                buffer.release()
                if is_end:
                    break
    return size


def write_plain(count):
    share = TOTAL // count
    for index in range(count):
        with open(FOLDER / f"plain.{index}", "wb", buffering=0) as file:
            for start in range(0, share, PLAIN_SIZE):
                file.write(RECORD if share - start >= PLAIN_SIZE else RECORD[: share - start])


def read_plain(count):
    target, size = bytearray(PLAIN_SIZE), 0
    for index in range(count):
        with open(FOLDER / f"plain.{index}", "rb", buffering=0) as file:
            while read := file.readinto(target):
                size += read
    return size


def write_and_drop(count, storage):
    partition = write_partition(count, storage)
    partition.release()
    partition.close()


def write_plain_and_drop(count):
    write_plain(count)
    for index in range(count):
        os.unlink(FOLDER / f"plain.{index}")


CASES = [(count, work) for count in (1, 100, 1000) for work in ("write", "read")]
STORAGES = ["file", "mmap", "file-mmap"]


def run(count, work, benchmark=None):
    options = {"benchmark": benchmark} if benchmark is not None else {}
    name = f"bounded_{work}_{count}"
    if work == "write":
        measure(f"{name}.plain_files", lambda: write_plain_and_drop(count), MIB, "MiB")
        for storage in STORAGES:
            measure(f"{name}.{storage}", lambda storage=storage: write_and_drop(count, storage), MIB, "MiB", **options)
            options = {}
        return
    write_plain(count)
    measure(f"{name}.plain_files", lambda: read_plain(count), MIB, "MiB")
    write_plain_and_drop(count)
    for storage in STORAGES:
        partition = write_partition(count, storage)
        measure(
            f"{name}.{storage}", lambda partition=partition: read_partition(partition, count), MIB, "MiB", **options
        )
        options = {}
        partition.release()
        partition.close()
        del partition
        gc.collect()


@pytest.mark.parametrize(("count", "work"), CASES)
def test_rate(benchmark, count, work):
    run(count, work, benchmark)


if __name__ == "__main__":
    try:
        for case in CASES:
            run(*case)
    finally:
        shutil.rmtree(FOLDER, ignore_errors=True)
