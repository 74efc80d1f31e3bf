"""How fast does keyed state go into a file and back, next to a plain file and pickle?

``python bench/bench_checkpoint.py``: a million keys with values of 100 bytes, and a million of int to int; how long a
snapshot takes in all, how long it holds the interpreter, how long the longest pause of another thread is meanwhile, and
how long reading back takes. Flink: the checkpointing benchmarks of flink-benchmarks (CheckpointingTimeBenchmark).
"""

import gc
import json
import os
import pickle
import sys
import tempfile
import threading
import time
from pathlib import Path

from measure import SMOKE, scaled

from flinkbuf._core.key_context import KeyContext
from flinkbuf.checkpoints.handles import OperatorRestore, TaskRestore
from flinkbuf.checkpoints.options import CheckpointOptions
from flinkbuf.checkpoints.storage import storage_of
from flinkbuf.streaming.key_groups import KeyGroups
from flinkbuf.streaming.operator_config import ExecutionSettings, TaskInfo
from flinkbuf.streaming.snapshot import OperatorSnapshot
from flinkbuf.streaming.snapshot_reader import read_restore
from flinkbuf.streaming.snapshot_writer import write_snapshot
from flinkbuf.streaming.state import ValueStateDescriptor
from flinkbuf.streaming.state_backend import KeyedStateBackend
from flinkbuf.streaming.task_snapshot import TaskStateSnapshot
from flinkbuf.streaming.timers import TimerServices
from flinkbuf.testing import ManualClock
from flinkbuf.types.types import Types

COUNT = scaled(1_000_000)
ID = "0" * 32


def new_backend():
    keys, clock = KeyContext(), ManualClock()
    groups = KeyGroups.of_subtask(None, 128, parallelism=1, subtask_index=0)
    return KeyedStateBackend(keys, groups, clock, TimerServices(keys, clock))


def filled(type, values):
    backend = new_backend()
    state, set_key = backend.get_state(ValueStateDescriptor("v", type)), backend.key_context.set_key
    for key, value in enumerate(values):
        set_key(key)
        state.update(value)
    return backend


CASES = {
    "bytes_100": (None, lambda key: b"%0100d" % key),
    "text_100": (Types.STRING(), lambda key: f"{key:0100d}"),
    "int": (None, lambda key: key),
    "tuple": (None, lambda key: (key, "word", 2.5)),
}


def in_plain_file(directory, data):
    """As the storage does it: written and made durable."""
    path = Path(directory) / "plain"
    begin = time.perf_counter()
    with path.open("wb") as file:
        for offset in range(0, len(data), 1 << 18):
            file.write(memoryview(data)[offset : offset + (1 << 18)])
        file.flush()
        os.fsync(file.fileno())
    return time.perf_counter() - begin


def by_pickle(directory, values):
    path = Path(directory) / "pickled"
    begin = time.perf_counter()
    with path.open("wb") as file:
        pickle.dump(values, file, protocol=5)
        file.flush()
        os.fsync(file.fileno())
    written = time.perf_counter() - begin
    begin = time.perf_counter()
    with path.open("rb") as file:
        pickle.load(file)
    return written, time.perf_counter() - begin


class Pauses(threading.Thread):
    """Asks for the interpreter all the time, as a task does, and notes the longest time it had to wait."""

    def __init__(self):
        super().__init__(daemon=True)
        self.longest, self.steps, self.is_over = 0.0, 0, False

    def run(self):
        last = time.perf_counter()
        while not self.is_over:
            now = time.perf_counter()
            self.longest = max(self.longest, now - last)
            last = now
            self.steps += 1


def snapshot(backend, directory):
    """Return seconds of the task's thread and of the other, CPU seconds of the other, and what was written."""
    storage = storage_of(directory)
    options = CheckpointOptions(location=os.path.join(directory, "job", "chk-1"))
    begin = time.perf_counter()
    taken = TaskStateSnapshot(1, {ID: OperatorSnapshot((backend.snapshot(),))})
    task_s, begin, cpu = time.perf_counter() - begin, time.perf_counter(), time.thread_time()
    state = write_snapshot(taken, storage=storage, options=options, settings=ExecutionSettings())
    return task_s, time.perf_counter() - begin, time.thread_time() - cpu, state


def restore(state, type, directory):
    info = TaskInfo("job", "job", "vertex", "task")
    operators = tuple(
        OperatorRestore(each.operator_id, 1, (each.operator,) if each.operator else (), each.keyed)
        for each in state.operators
    )
    begin = time.perf_counter()
    task = read_restore(TaskRestore(1, operators), info, storage_of(directory))
    backend = new_backend()
    backend.restore(task.operators[ID])
    backend.get_state(ValueStateDescriptor("v", type))
    return time.perf_counter() - begin


def run(name):
    type, value = CASES[name]
    values = [value(key) for key in range(COUNT)]
    backend = filled(type, values)
    gc.collect()
    gc.freeze()
    with tempfile.TemporaryDirectory(dir=os.environ.get("FLINKBUF_BENCH_DIRECTORY")) as directory:
        found = [snapshot(backend, directory) for _ in range(1 if SMOKE else 3)]
        task_s, seconds, cpu_s, state = min(found, key=lambda each: each[1])
        data = bytes(state.size)
        plain_s = min(in_plain_file(directory, os.urandom(len(data))) for _ in range(1 if SMOKE else 3))
        pickle_s, unpickle_s = by_pickle(directory, dict(enumerate(values)))
        restore_s = restore(state, type, directory)
        pauses = Pauses()
        pauses.start()
        time.sleep(0.2)
        pauses.longest = 0.0
        beside_s = snapshot(backend, directory)[1]
        pauses.is_over = True
        pauses.join()
    figures = {
        "keys": COUNT,
        "bytes": state.size,
        "task_s": task_s,
        "write_s": seconds,
        "write_cpu_s": cpu_s,
        "plain_file_s": plain_s,
        "part_of_plain_file": plain_s / seconds,
        "pickle_dump_s": pickle_s,
        "restore_s": restore_s,
        "pickle_load_s": unpickle_s,
        "write_beside_a_busy_thread_s": beside_s,
        "longest_pause_s": pauses.longest,
    }
    print(json.dumps({"name": f"checkpoint.{name}", **{key: round(each, 5) for key, each in figures.items()}}))


if __name__ == "__main__":
    for name in [each for each in sys.argv[1:] if each in CASES] or CASES:
        run(name)
