"""How fast is state on disk, in less memory than it would take, and what does a checkpoint write of it?

A count by key over RocksDB with incremental checkpoints, parallelism 1, in processes whose memory a cgroup limits
(``memory.limit_in_bytes``, version 1, or ``memory.max``): what the kernel caches of files is inside the limit. First
each key is written once, in an order of chance, then keys are updated by chance. Updates are per second and per
processor second, of all threads, RocksDB's too. Checkpoints are taken at an interval: the bytes of
all their files beside those that have changed, which are key and value of each update.

python bench/bench_large_state.py --keys 10000000 --limit 2g [--backend hashmap]       needs root, for the cgroup
"""

import argparse
import contextlib
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import pytest
from measure import SMOKE, report

from flinkbuf.common import Configuration, Types, WatermarkStrategy
from flinkbuf.datastream import FlatMapFunction, StreamExecutionEnvironment
from flinkbuf.datastream.connectors.data_gen import DataGeneratorSource
from flinkbuf.datastream.state import ValueStateDescriptor

STEP, MASK, PRIME = 0x9E3779B97F4A7C15, (1 << 64) - 1, (1 << 61) - 1
ENTRY_BYTES = 8 + 8  # key and value
UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


class PermutedSource(DataGeneratorSource):
    """Each key below `keys` once, in an order of chance, then so many keys by chance."""

    def __init__(self, keys, updates):
        super().__init__(KeyByNumber(keys), keys + updates, type_info=Types.LONG())


class KeyByNumber:
    """The key of a number."""

    def __init__(self, keys):
        self.keys = keys
        self.step = next(step for step in range(int(keys * 0.618), keys + 2) if step and math.gcd(step, keys) == 1)

    def __call__(self, number):
        """Return the key."""
        if number < self.keys:
            return number * self.step % self.keys
        return (number * STEP & MASK) * 0xBF58476D1CE4E5B9 % PRIME % self.keys


class Count(FlatMapFunction):
    """Counts the records of a key, and notes when it is done with all keys, and with all updates."""

    def __init__(self, keys, updates, folder):
        self.keys, self.updates, self.folder = keys, updates, folder

    def open(self, context):
        self.count = context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.seen, self.marks = 0, [1, self.keys, self.keys + self.updates]

    def flat_map(self, value):
        self.count.update((self.count.value() or 0) + 1)
        self.seen += 1
        if self.seen in self.marks:
            self.note()
        return ()

    def note(self):
        usage = resource.getrusage(resource.RUSAGE_SELF)
        noted = {"at": time.time(), "cpu_s": usage.ru_utime + usage.ru_stime}
        Path(self.folder, f"{self.marks.index(self.seen)}.json").write_text(json.dumps(noted))


def itself(value):
    return value


def run(options, folder):
    """Run the job in this process, and return the files of its checkpoints and where it stood when."""
    settings = {
        "execution.target": "embedded",
        "state.backend.type": options.backend,
        "state.backend.rocksdb.localdir": f"{folder}/rocksdb",
        "execution.checkpointing.incremental": "true",
        "execution.checkpointing.interval": options.interval,
        "execution.checkpointing.dir": f"{folder}/checkpoints",
        "restart-strategy.type": "none",
        "pipeline.progress": "false",
        **dict(each.split("=", 1) for each in options.set),
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings)).set_parallelism(1)
    source = PermutedSource(options.keys, options.updates)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "keys", Types.LONG())
    numbers.key_by(itself, Types.LONG()).flat_map(Count(options.keys, options.updates, folder))
    job = env.execute_async("large state")
    files, result = {}, job.get_job_execution_result()
    while not result.done():
        for path in Path(folder, "checkpoints").rglob("*"):
            with contextlib.suppress(FileNotFoundError):  # of an old checkpoint: deleted meanwhile
                status = path.stat()
                if path.is_file():
                    files[path] = (status.st_mtime, status.st_size)
        time.sleep(0.2)
    result.result()
    return sorted(files.values()), [json.loads(Path(folder, f"{mark}.json").read_text()) for mark in range(3)]


def summary_of(options, files, marks):
    """Return rates of both parts, and what checkpoints wrote meanwhile for each byte that had changed."""
    found = {}
    for name, count, begin, end in (
        ("filled", options.keys, *marks[:2]),
        ("updated", options.updates, *marks[1:]),
    ):
        written = sum(size for at, size in files if begin["at"] < at <= end["at"])
        found[name] = {
            "seconds": end["at"] - begin["at"],
            "cpu_s": end["cpu_s"] - begin["cpu_s"],
            "checkpoint_bytes": written,
            "by_changed": written / (count * ENTRY_BYTES),
        }
    found["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return found


# ---- the limit


def limited_group(limit):
    """Return a new cgroup below that of this process, with a limit of memory."""
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    by_kind = dict(line.split(":", 2)[1:] for line in lines)
    if "memory" in by_kind:
        root, name = Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"
    else:
        root, name = Path("/sys/fs/cgroup"), "memory.max"
    group = root / by_kind.get("memory", by_kind.get("", "/")).lstrip("/") / f"flinkbuf-bench-{os.getpid()}"
    group.mkdir()
    (group / name).write_text(str(limit))
    return group


def measure_state(options, benchmark=None):
    """Run it in a process of its own, and report."""
    group = limited_group(options.bytes) if options.bytes else None
    begin = [sys.executable, __file__, "--inside", str(group) if group else "-"]
    passed = [f"--{name}={getattr(options, name)}" for name in ("keys", "updates", "backend", "interval", "folder")]
    try:
        done = subprocess.run(
            [*begin, *passed, *(f"--set={each}" for each in options.set)], capture_output=True, text=True
        )
    finally:
        if group:
            group.rmdir()
    if done.returncode:
        raise RuntimeError(f"the job ended with {done.returncode}:\n{done.stderr[-3000:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    for name, count in (("filled", options.keys), ("updated", options.updates)):
        report(f"large_state_{name}.flinkbuf", [found[name]["seconds"]], count, "records", benchmark=benchmark)
        report(f"large_state_{name}_cpu.flinkbuf", [found[name]["cpu_s"]], count, "records", benchmark=benchmark)
    return found


def parsed(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=20_000 if SMOKE else 50_000_000)
    parser.add_argument("--updates", type=int, help="as many as there are keys, at most 10 million, by default")
    parser.add_argument("--limit", default="0" if SMOKE else "2g", help="of memory: 512m, 2g; 0: none")
    parser.add_argument("--backend", choices=["hashmap", "rocksdb"], default="rocksdb")
    parser.add_argument("--interval", default="1 s" if SMOKE else "10 s", help="of checkpoints")
    parser.add_argument("--folder", default=tempfile.gettempdir(), help="on the disk that state is to lie on")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="an option of the job")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    parser.add_argument("--smoke", action="store_true", help="few keys, without a limit")
    options = parser.parse_args(arguments)
    unit = UNITS.get(options.limit[-1].lower(), 1)
    options.bytes = int(options.limit.rstrip("kmgKMG")) * unit
    if options.updates is None:
        options.updates = min(options.keys, 10_000_000)
    return options


@pytest.mark.skipif(find_spec("rocksdict") is None, reason="RocksDB is not installed: pip install 'flinkbuf[rocksdb]'")
def test_state(benchmark):
    benchmark.pedantic(lambda: None, rounds=1)
    measure_state(parsed([]), benchmark)


def main():
    options = parsed()
    if options.inside is None:
        print(json.dumps(measure_state(options)))
        return
    if options.inside != "-":
        Path(options.inside, "cgroup.procs").write_text(str(os.getpid()))
    with tempfile.TemporaryDirectory(prefix="flinkbuf-bench-", dir=options.folder) as folder:
        print(json.dumps(summary_of(options, *run(options, folder))))


if __name__ == "__main__":
    main()
