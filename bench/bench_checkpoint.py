"""How fast does state go into a checkpoint and back, and what does a job pay for it?

`checkpoint_write`: a million keys of a keyed state, values of 100 bytes, from the dict they are in until they lie in a
file for good; beside it a file of the same size that is there in memory already, and what pickle takes. Each contender
writes a new file and deletes it, turn by turn, since a machine's first use of a page costs more than the rest.
`checkpoint_write_columns`: a count, a sum and a maximum of each of a million keys of a column stream, likewise.
`checkpoint_read`: from the file until a function can read the state. `checkpoint_rescale`: two subtasks' files read by
four. `checkpoint_job`: a keyed count over a million keys with a checkpoint every second, and the same job without; in
`checkpoint_pause` the longest time between two records of a subtask, its first second left out.
`checkpoint_full_queues`: how long a checkpoint takes while a slow function holds back all that is before it, unaligned
and aligned. Flink: the checkpointing benchmarks of flink-benchmarks (CheckpointingTimeBenchmark).

python bench/bench_checkpoint.py [NAME...]       all, or those whose names begin so; --smoke for a short run
FLINKBUF_BENCH_DIRECTORY                         where files go, instead of the system's place for temporary ones
"""

import argparse
import functools
import gc
import json
import os
import pickle
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from measure import SMOKE, report, scaled

from flinkbuf._core.state.key_context import KeyContext
from flinkbuf.checkpoints.handles import OperatorRestore, TaskRestore
from flinkbuf.checkpoints.options import CheckpointOptions
from flinkbuf.checkpoints.storage import storage_of
from flinkbuf.common import Configuration, Types, WatermarkStrategy
from flinkbuf.datastream import KeyedProcessFunction, MapFunction, StreamExecutionEnvironment
from flinkbuf.datastream.connectors.number_seq import NumberSequenceSource
from flinkbuf.records.column_batch import ColumnBatch
from flinkbuf.streaming.chain.operator_config import ExecutionSettings, TaskInfo
from flinkbuf.streaming.checkpoint.snapshot_reader import read_restore
from flinkbuf.streaming.checkpoint.snapshot_writer import write_snapshot
from flinkbuf.streaming.checkpoint.task_snapshot import TaskStateSnapshot
from flinkbuf.streaming.columns.aggregates import Aggregate
from flinkbuf.streaming.columns.column_aggregates import ColumnAggregateOperator
from flinkbuf.streaming.state.key_groups import KeyGroups
from flinkbuf.streaming.state.snapshot import OperatorSnapshot
from flinkbuf.streaming.state.state import ValueStateDescriptor
from flinkbuf.streaming.state.state_backend import KeyedStateBackend
from flinkbuf.streaming.state.timers import TimerServices
from flinkbuf.testing import ManualClock, OperatorHarness

KEYS = scaled(1_000_000)
JOB_COUNT = scaled(8_000_000)
REPEATS = 1 if SMOKE else 5
JOB_REPEATS = 1 if SMOKE else 3
OPERATOR = "0" * 32
VALUES = {"bytes_100": lambda key: b"%0100d" % key, "int": lambda key: key}
PATIENCE_S = 5 if SMOKE else 30  # with a checkpoint that waits for full queues
BATCH_ROWS = 8192
PIECE = 1 << 18  # bytes that a plain file is given at a time


def temporary_directory():
    return tempfile.TemporaryDirectory(prefix="flinkbuf-bench-", dir=os.environ.get("FLINKBUF_BENCH_DIRECTORY"))


# ---- state into a file and back


def new_backend(parallelism=1, index=0):
    keys, clock = KeyContext(), ManualClock()
    groups = KeyGroups.of_subtask(None, 128, parallelism=parallelism, subtask_index=index)
    return KeyedStateBackend(keys, groups, clock, TimerServices(keys, clock))


def filled(values, parallelism=1, index=0):
    """Return a backend with the keys that are its own."""
    backend = new_backend(parallelism, index)
    state, set_key = backend.get_state(ValueStateDescriptor("v", None)), backend.key_context.set_key
    grouper = backend.key_groups.grouper()
    for key, value in enumerate(values):
        if parallelism == 1 or grouper.first <= grouper.group_of(key) <= grouper.last:
            set_key(key)
            state.update(value)
    return backend


def write(snapshot, directory):
    """Return what the job master gets to know of an operator's snapshot."""
    options = CheckpointOptions(location=os.path.join(directory, "job", "chk-1"))
    return write_snapshot(
        TaskStateSnapshot(1, {OPERATOR: snapshot}),
        storage=storage_of(directory),
        options=options,
        settings=ExecutionSettings(),
    )


def read(states, directory, parallelism=1, index=0):
    """Restore one subtask out of several states."""
    parts = tuple(part for state in states for each in state.operators for part in each.keyed)
    restore = TaskRestore(1, (OperatorRestore(OPERATOR, len(states), (), parts),))
    task = read_restore(restore, TaskInfo("job", "job", "vertex", "task"), storage_of(directory))
    backend = new_backend(parallelism, index)
    backend.restore(task.operators[OPERATOR])
    return backend, backend.get_state(ValueStateDescriptor("v", None))


def put_durably(path, write_into):
    with open(path, "xb") as file:
        write_into(file)
        file.flush()
        os.fsync(file.fileno())


def write_plain(data, directory):
    def write_into(file):
        for offset in range(0, len(data), PIECE):
            file.write(data[offset : offset + PIECE])

    put_durably(Path(directory, "plain"), write_into)


def write_pickle(values, directory):
    put_durably(Path(directory, "pickle"), lambda file: pickle.dump(values, file, protocol=5))


def seconds_of(function):
    gc.collect()
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin


def measure_write(kind, benchmark=None):
    values = [VALUES[kind](key) for key in range(KEYS)]
    backend, by_key = filled(values), dict(enumerate(values))
    measure_writers(
        f"checkpoint_write_{kind}",
        lambda directory: write(OperatorSnapshot((backend.snapshot(),)), directory),
        {"pickle": functools.partial(write_pickle, by_key)},
        benchmark,
    )


def measure_write_columns(benchmark=None):
    aggregates = (
        ("n", Aggregate("count")),
        ("total", Aggregate("sum", ("value",))),
        ("best", Aggregate("max", ("value",))),
    )
    with OperatorHarness(ColumnAggregateOperator(("key",), aggregates)) as harness:
        for start in range(0, KEYS, BATCH_ROWS):
            keys = np.arange(start, min(KEYS, start + BATCH_ROWS))
            harness.process_element(ColumnBatch(pa.record_batch({"key": keys, "value": keys * 7919 % 1000})))
        harness.take_output()
        measure_writers(
            "checkpoint_write_columns", lambda directory: write(harness.snapshot(), directory), {}, benchmark
        )


def measure_writers(name, write_state, others, benchmark=None):
    gc.collect()
    gc.freeze()
    with temporary_directory() as directory:
        size = write_state(directory).size
        data = memoryview(os.urandom(size))
        contenders = {"flinkbuf": write_state, "plain_file": functools.partial(write_plain, data), **others}
        seconds = {contender: [] for contender in contenders}
        for _ in range(REPEATS):
            for contender, function in contenders.items():
                delete_files(directory)
                seconds[contender].append(seconds_of(functools.partial(function, directory)))
    gc.unfreeze()
    for contender, found in seconds.items():
        report(f"{name}.{contender}", found, size, "bytes", benchmark=benchmark)


def delete_files(directory):
    for path in Path(directory).rglob("*"):
        if path.is_file():
            path.unlink()


def measure_read(kind, benchmark=None):
    values = [VALUES[kind](key) for key in range(KEYS)]
    with temporary_directory() as directory:
        state = write(OperatorSnapshot((filled(values).snapshot(),)), directory)
        write_pickle(dict(enumerate(values)), directory)

        def unpickle():
            with open(Path(directory, "pickle"), "rb") as file:
                pickle.load(file)

        gc.collect()
        gc.freeze()
        contenders = {"flinkbuf": lambda: read([state], directory), "pickle": unpickle}
        for name, function in contenders.items():
            seconds = [seconds_of(function) for _ in range(REPEATS)]
            report(f"checkpoint_read_{kind}.{name}", seconds, 1, "snapshots", benchmark=benchmark)
        gc.unfreeze()


def measure_rescale(benchmark=None):
    """All four in a row; on as many machines it takes as long as the slowest."""
    values = [VALUES["bytes_100"](key) for key in range(KEYS)]
    with temporary_directory() as directory:
        states = [write(OperatorSnapshot((filled(values, 2, index).snapshot(),)), directory) for index in range(2)]
        gc.collect()
        gc.freeze()

        def read_all():
            for index in range(4):
                read(states, directory, 4, index)

        seconds = [seconds_of(read_all) for _ in range(REPEATS)]
        gc.unfreeze()
    report("checkpoint_rescale.flinkbuf", seconds, 1, "rescalings", benchmark=benchmark)


# ---- jobs


def environment(settings, parallelism=2, target="local"):
    settings = {"execution.target": target, "pipeline.progress": "false", **settings}
    configuration = Configuration.from_dict(settings)
    return StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(parallelism)


class Count(KeyedProcessFunction):
    """Counts the records of each key, and notes the longest time between two of them."""

    def __init__(self, folder):
        self.folder = folder

    def open(self, context):
        self.count = context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.path = Path(self.folder, f"pause-{context.get_index_of_this_subtask()}")
        self.begin = self.last = time.monotonic()
        self.longest = 0.0

    def process_element(self, value, context):
        self.count.update((self.count.value() or 0) + 1)
        now = time.monotonic()
        if now - self.last > self.longest and now - self.begin > 1:
            self.longest = now - self.last
        self.last = now

    def close(self):
        self.path.write_text(str(self.longest))


def key_of(number):
    return number % KEYS


def count_job(interval_ms, count=JOB_COUNT):
    """Return its seconds, its longest pause and how many checkpoints were completed."""
    with temporary_directory() as folder:
        settings = {"execution.checkpointing.dir": folder}
        if interval_ms:
            settings["execution.checkpointing.interval"] = f"{interval_ms} ms"
        env = environment(settings)
        source = NumberSequenceSource(0, count - 1)
        numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
        numbers.key_by(key_of, Types.LONG()).process(Count(folder))
        begin = time.perf_counter()
        client = env.execute_async()
        client.get_job_execution_result().result()
        seconds = time.perf_counter() - begin
        counts = client.details()["checkpoints"]["counts"] if interval_ms else {"completed": 0}
        pauses = [float(path.read_text()) for path in Path(folder).glob("pause-*")]
        return seconds, max(pauses), counts["completed"]


def measure_job(benchmark=None):
    cases = {"without": 0, "every_second": 1000}
    found = {name: [] for name in cases}
    count_job(0, 1000)  # the first job of a program starts what all task managers come from
    for _ in range(JOB_REPEATS):
        for name, interval_ms in cases.items():
            found[name].append(count_job(interval_ms))
    for name, runs in found.items():
        seconds, pauses, _ = zip(*runs, strict=True)
        report(f"checkpoint_job.{name}", list(seconds), JOB_COUNT, "records", benchmark=benchmark)
        report(f"checkpoint_pause.{name}", list(pauses), 1, "pauses", benchmark=benchmark)
    print(json.dumps({"name": "checkpoint_job.completed", "checkpoints": [each[2] for each in found["every_second"]]}))


class Slow(MapFunction):
    """Lets a few hundred records a second pass."""

    def map(self, value):
        time.sleep(0.002)
        return value


def full_queue_seconds(is_unaligned):
    """Seconds of the first checkpoint of a job whose queues were full when it began."""
    interval_ms = 500 if SMOKE else 2000
    with temporary_directory() as folder:
        env = environment(
            {
                "execution.checkpointing.dir": folder,
                "execution.checkpointing.interval": f"{interval_ms} ms",
                "execution.checkpointing.unaligned.enabled": str(is_unaligned).lower(),
            },
            target="embedded",
        )
        numbers = env.from_source(
            NumberSequenceSource(0, 10**9), WatermarkStrategy.no_watermarks(), "numbers", Types.LONG()
        )
        numbers.key_by(key_of, Types.LONG()).map(Slow(), Types.LONG())
        client = env.execute_async()
        try:
            limit = time.monotonic() + PATIENCE_S
            while time.monotonic() < limit:
                checkpoints = client.details()["checkpoints"]
                if checkpoints["counts"]["completed"]:
                    return checkpoints["history"][-1]["end_to_end_duration"] / 1e3
                time.sleep(0.02)
            return PATIENCE_S
        finally:
            client.cancel().result()


def measure_full_queues(benchmark=None):
    """The aligned one is given up after half a minute: it waits for all that is in the queues."""
    for name, is_unaligned in {"unaligned": True, "aligned": False}.items():
        seconds = [full_queue_seconds(is_unaligned) for _ in range(JOB_REPEATS if is_unaligned else 1)]
        report(f"checkpoint_full_queues.{name}", seconds, 1, "checkpoints", benchmark=benchmark)


CASES = {
    "checkpoint_write_bytes_100": functools.partial(measure_write, "bytes_100"),
    "checkpoint_write_int": functools.partial(measure_write, "int"),
    "checkpoint_write_columns": measure_write_columns,
    "checkpoint_read_bytes_100": functools.partial(measure_read, "bytes_100"),
    "checkpoint_read_int": functools.partial(measure_read, "int"),
    "checkpoint_rescale": measure_rescale,
    "checkpoint_job": measure_job,
    "checkpoint_full_queues": measure_full_queues,
}


@pytest.mark.parametrize("name", CASES)
def test_checkpoint(benchmark, name):
    benchmark.pedantic(lambda: None, rounds=1)
    CASES[name](benchmark)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(CASES))
    parser.add_argument("--smoke", action="store_true", help="a twentieth of the work, once")
    names = parser.parse_args().names
    for name, run in CASES.items():
        if not names or name.startswith(tuple(names)):
            run()
