"""One job for hours: killed each minute, rescaled each five, its links cut and slowed; its output always compared.

``python soak.py DIRECTORY --hours 1``. What the driver and its task managers use is written to DIRECTORY/soak.csv each
second and drawn in DIRECTORY/soak.png. It ends with an error as soon as a record is lost, doubled or wrong, or if what
it holds has grown.
"""

import argparse
import contextlib
import csv
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

import chaos_program  # noqa: E402
import soak_program  # noqa: E402
from support.faults import link_faults  # noqa: E402

HALF, KEYS, SPAN_MS = soak_program.HALF, soak_program.KEYS, soak_program.SPAN_MS
STANDSTILL_S = 120  # without a single committed record something is stuck
FIELDS = [
    "second",
    "driver_rss_mb",
    "driver_threads",
    "driver_descriptors",
    "workers",
    "workers_rss_mb",
    "workers_threads",
    "workers_descriptors",
    "files",
    "checkpoint_kb",
    "completed",
    "restored",
    "rescaled",
    "kills",
    "cuts",
    "records",
]


class WrongOutputError(AssertionError):
    """A record is lost, doubled or wrong."""


class Model:
    """What the job has to say, computed from the numbers alone; each line is checked as it comes, then forgotten."""

    def __init__(self):
        self.records = 0
        self._ends = {(kind, key): _Gapless(SPAN_MS, SPAN_MS) for kind in ("window", "timer") for key in range(KEYS)}
        self._counts = {key: _Gapless(1, 1) for key in range(KEYS)}

    def check(self, line):
        """Take one line of the output."""
        kind, key, *rest = json.loads(line)
        self.records += 1
        if kind == "count":
            self._counts[key].take(rest[0], line)
        elif kind in ("window", "timer"):
            end, total, count = rest
            self._ends[kind, key].take(end, line)
            if (total, count) != expected(key, end):
                raise WrongOutputError(f"{line}: it must be {expected(key, end)}")
        else:
            raise WrongOutputError(line)

    def check_gaps(self):
        """Nothing before what has come may be missing for long; two transactions at a time are under way."""
        for (kind, key), seen in [*self._ends.items(), *((("count", key), each) for key, each in self._counts.items())]:
            if seen.missing_since is not None and time.monotonic() - seen.missing_since > STANDSTILL_S:
                raise WrongOutputError(f"{kind} {seen.next} of key {key} is missing, later ones have come")


class _Gapless:
    """Numbers that come once each, in almost any order; only those behind a gap are remembered."""

    def __init__(self, first, step):
        self.next, self.step, self.ahead, self.missing_since = first, step, set(), None

    def take(self, number, line):
        if number < self.next or number in self.ahead:
            raise WrongOutputError(f"{line} came twice")
        self.ahead.add(number)
        before = self.next
        while self.next in self.ahead:
            self.ahead.remove(self.next)
            self.next += self.step
        if not self.ahead:
            self.missing_since = None
        elif self.missing_since is None or self.next != before:
            self.missing_since = time.monotonic()


def expected(key, end):
    """Sum and count of the numbers of both splits that have this key and belong to the stretch up to `end`."""
    numbers = [
        number
        for base in (0, HALF)
        for number in range(base + end - SPAN_MS + (key - base - end + SPAN_MS) % KEYS, base + end, KEYS)
    ]
    return sum(numbers), len(numbers)


@dataclass
class Soak:
    """One run."""

    directory: Path
    backend: str = "hashmap"
    kill_every_s: float = 60
    rescale_every_s: float = 300
    cut_every_s: float = 20
    seed: int = 7
    model: Model = field(default_factory=Model)
    counts: dict = field(default_factory=lambda: defaultdict(int))

    def run(self, seconds, is_enough=lambda row: False):
        """Run so long, or until a row says that it is enough; returns the rows that were written."""
        self.rng = random.Random(self.seed)
        surroundings = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        surroundings.pop("FLINKBUF_PROPERTIES", None)
        program = [sys.executable, soak_program.__file__, str(self.directory), self.backend]
        with (
            open(self.directory / "driver.log", "w") as log,
            subprocess.Popen(program, env=surroundings, stdout=log, stderr=log) as driver,
        ):
            try:
                return self._watch(driver, seconds, is_enough)
            finally:
                driver.kill()
                for pid in self._workers():
                    _kill(pid)

    def _watch(self, driver, seconds, is_enough):
        started = last_record = time.monotonic()
        due = {self._kill: self.kill_every_s, self._rescale: self.rescale_every_s, self._harm_link: self.cut_every_s}
        at = {act: every * self.rng.uniform(0.3, 1) for act, every in due.items()}
        rows = []
        with open(self.directory / "soak.csv", "w", newline="") as file:
            table = csv.DictWriter(file, FIELDS)
            table.writeheader()
            while (now := time.monotonic() - started) < seconds:
                if driver.poll() is not None:
                    raise RuntimeError(f"the driver has ended: {(self.directory / 'driver.log').read_text()[-4000:]}")
                before = self.model.records
                self._read_output()
                if self.model.records > before:
                    last_record = time.monotonic()
                elif time.monotonic() - last_record > STANDSTILL_S:
                    raise RuntimeError(f"nothing was committed for {STANDSTILL_S} s")
                for act in due:
                    if now >= at[act]:
                        at[act] = now + due[act] * self.rng.uniform(0.7, 1.3)
                        act()
                rows.append(self._row(driver.pid, now))
                table.writerow(rows[-1])
                file.flush()
                if is_enough(rows[-1]):
                    break
                time.sleep(max(0.0, started + now + 1 - time.monotonic()))
            (self.directory / "stop").touch()
            driver.wait(120)
            self._read_output()
        return rows

    # ---- the output

    def _read_output(self):
        for path in list(Path(self.directory, "committed").glob("*")):
            for line in path.read_text().splitlines():
                self.model.check(line)
            path.unlink()
        self.model.check_gaps()
        for path in Path(self.directory, "pending").glob("*"):  # of processes that were killed
            with contextlib.suppress(FileNotFoundError):  # it was committed meanwhile
                if time.time() - path.stat().st_mtime > 10 * STANDSTILL_S:
                    path.unlink()

    # ---- faults

    def _workers(self):
        return chaos_program.workers(self.directory)

    def _kill(self):
        workers = self._workers()
        if workers:
            victim = self.rng.choice(workers)
            _kill(victim)
            Path(self.directory, "pids", str(victim)).unlink(missing_ok=True)
            self.counts["kills"] += 1

    def _rescale(self):
        parallelism = self.rng.choice((1, 2, 3))
        (self.directory / "rescale").write_text(str(parallelism))

    def _harm_link(self):
        for pid in self.rng.sample(self._workers(), k=min(1, len(self._workers()))):
            connections = link_faults.connections_of(pid)
            if connections:
                connection = self.rng.choice(connections)
                if self.rng.random() < 0.5:
                    link_faults.cut(connection)
                else:
                    link_faults.slow_down(connection, self.rng.choice((20_000, 200_000)))
                self.counts["cuts"] += 1
            for connection in connections:
                connection.close()

    # ---- what it uses

    def _row(self, driver, now):
        try:
            status = json.loads((self.directory / "status").read_text())
        except FileNotFoundError:
            status = {}
        driver_usage, workers = _usage([driver]), self._workers()
        usage = _usage(workers)
        return {
            "second": round(now, 1),
            **{f"driver_{name}": value for name, value in driver_usage.items()},
            "workers": len(workers),
            **{f"workers_{name}": value for name, value in usage.items()},
            "files": sum(len(files) for _, _, files in os.walk(self.directory / "checkpoints")),
            "checkpoint_kb": status.get("checkpoint_bytes", 0) // 1024,
            **{name: status.get(name, 0) for name in ("completed", "restored", "rescaled")},
            "kills": self.counts["kills"],
            "cuts": self.counts["cuts"],
            "records": self.model.records,
        }


def _usage(pids):
    rss = threads = descriptors = 0
    for pid in pids:
        try:
            status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
            rss += int(status.get("VmRSS", "0 kB").split()[0])
            threads += int(status["Threads"])
            descriptors += len(os.listdir(f"/proc/{pid}/fd"))
        except OSError:
            continue
    return {"rss_mb": rss // 1024, "threads": threads, "descriptors": descriptors}


def _kill(pid):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def check_flat(rows):
    """What the driver holds at the end is what it held after its first tenth; nothing piles up in storage.

    Raises
    ------
    AssertionError
        It names what has grown.
    """
    tenth = max(1, len(rows) // 10)
    early, late = rows[tenth : 2 * tenth], rows[-tenth:]
    for name, factor, more in (
        ("driver_rss_mb", 1.25, 10),
        ("driver_threads", 1, 4),
        ("driver_descriptors", 1, 8),
        ("files", 2, 20),
    ):
        before, after = (sorted(row[name] for row in part)[len(part) // 2] for part in (early, late))
        assert after <= before * factor + more, f"{name} has grown from {before} to {after}"


def draw(rows, path):
    """A picture with a strip for each thing that must stay flat."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    strips = [
        ("memory (MB)", "driver_rss_mb", "workers_rss_mb"),
        ("threads", "driver_threads", "workers_threads"),
        ("descriptors", "driver_descriptors", "workers_descriptors"),
        ("checkpoint files", "files"),
        ("checkpoint (KB)", "checkpoint_kb"),
        ("restores, rescalings", "restored", "rescaled"),
        ("records compared", "records"),
    ]
    figure, axes = pyplot.subplots(len(strips), sharex=True, figsize=(10, 12), constrained_layout=True)
    minutes = [row["second"] / 60 for row in rows]
    for axis, (title, *names) in zip(axes, strips, strict=True):
        for name in names:
            axis.plot(minutes, [row[name] for row in rows], label=name.replace("_", " "), linewidth=1)
        axis.set_ylabel(title)
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
        axis.legend(loc="upper left", fontsize="small")
    axes[-1].set_xlabel("minutes")
    figure.savefig(path, dpi=100)
    pyplot.close(figure)


def main():
    """Run it from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--hours", type=float, default=1)
    parser.add_argument("--backend", choices=("hashmap", "rocksdb"), default="hashmap")
    parser.add_argument("--seed", type=int, default=7)
    arguments = parser.parse_args()
    arguments.directory.mkdir(parents=True, exist_ok=True)
    if any(arguments.directory.iterdir()):
        parser.error(f"{arguments.directory} is not empty")
    soak = Soak(arguments.directory.resolve(), arguments.backend, seed=arguments.seed)
    rows = soak.run(arguments.hours * 3600)
    draw(rows, arguments.directory / "soak.png")
    print(json.dumps(rows[-1]))
    check_flat(rows)


if __name__ == "__main__":
    main()
