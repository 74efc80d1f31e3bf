"""How fast is keyed state read and written, and what does it weigh, next to a plain dict?

``python bench/bench_keyed_state.py`` also measures the memory of 10 million keys, int to int, and how long a snapshot
of a million keys holds the operator up, and takes in all; under pytest only the rates. Flink: the state benchmarks of
flink-benchmarks (ValueStateBenchmark, ListStateBenchmark, MapStateBenchmark).
"""

import json
import sys
import time
from pathlib import Path

import pytest
from measure import measure, scaled

from flinkbuf._core.state.key_context import KeyContext
from flinkbuf.streaming.state.key_groups import KeyGroups
from flinkbuf.streaming.state.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from flinkbuf.streaming.state.state_backend import KeyedStateBackend
from flinkbuf.streaming.state.timers import TimerServices
from flinkbuf.testing import ManualClock

COUNT = scaled(100_000)
KEYS = [number * 7919 % 10_007 for number in range(COUNT)]


def new_backend():
    keys, clock = KeyContext(), ManualClock()
    groups = KeyGroups.of_subtask(None, 128, parallelism=1, subtask_index=0)
    return KeyedStateBackend(keys, groups, clock, TimerServices(keys, clock))


BACKEND = new_backend()
SET_KEY = BACKEND.key_context.set_key
VALUE = BACKEND.get_state(ValueStateDescriptor("value", None))
LIST = BACKEND.get_state(ListStateDescriptor("list", None))
MAP = BACKEND.get_state(MapStateDescriptor("map", None, None))


def value_read_and_written():
    read, write = VALUE.value, VALUE.update
    for key in KEYS:
        SET_KEY(key)
        write((read() or 0) + 1)


def list_added():
    add = LIST.add
    for key in KEYS:
        SET_KEY(key)
        add(key)
    for key in range(10_007):
        SET_KEY(key)
        LIST.clear()


def map_read_and_written():
    read, write = MAP.get, MAP.put
    for key in KEYS:
        SET_KEY(key)
        write(1, (read(1) or 0) + 1)


def plain_dict():
    table = {}
    read = table.get
    for key in KEYS:
        table[key] = (read(key) or 0) + 1


CASES = {
    "keyed_state.value": (value_read_and_written, COUNT, "records"),
    "keyed_state.list": (list_added, COUNT, "records"),
    "keyed_state.map": (map_read_and_written, COUNT, "records"),
    "keyed_state.plain_dict": (plain_dict, COUNT, "records"),
}


@pytest.mark.parametrize("name", CASES)
def test_rate(benchmark, name):
    measure(name, *CASES[name], benchmark=benchmark)


def resident_bytes():
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return 1024 * int(line.split()[1])
    return 0


def fill(backend, count):
    state, set_key = backend.get_state(ValueStateDescriptor("counts", None)), backend.key_context.set_key
    for key in range(count):
        set_key(1_000_000 + key)
        state.update(5_000_000 + key)
    return state


def memory(count):
    """Print the resident memory of so many keys."""
    before, backend = resident_bytes(), new_backend()
    state = fill(backend, count)
    size = resident_bytes() - before
    print(json.dumps({"name": "keyed_state.memory", "keys": count, "bytes": size, "bytes_per_key": size / count}))
    del state


def snapshot(count):
    """Print how long the task is held up by a snapshot, and how long its bytes take."""
    backend = new_backend()
    fill(backend, count)
    begin = time.perf_counter()
    live = backend.snapshot()
    taken = time.perf_counter()
    size = sum(section.size for section in live.readable().index.sections)
    seconds = {"task_s": taken - begin, "encode_s": time.perf_counter() - taken}
    print(json.dumps({"name": "keyed_state.snapshot", "keys": count, "bytes": size, **seconds}))


if __name__ == "__main__":
    for name in CASES:
        measure(name, *CASES[name])
    snapshot(scaled(1_000_000))
    memory(scaled(10_000_000))
    sys.stdout.flush()
