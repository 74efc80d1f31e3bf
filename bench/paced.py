"""How even a job is: records that come at a rate, each with the time it was due, and where they arrive."""

import contextlib
import itertools
import json
import subprocess
import sys
import threading
import time
from pathlib import Path

from flinkbuf.datastream import SinkFunction
from flinkbuf.datastream.connectors.data_gen import DataGeneratorSource, RateLimit, RateLimitedReader

STEP_NS = 10_000  # of a latency that is told apart
STEPS = 200_000  # the last one stands for all from two seconds on
PAUSES = 20  # the longest that are kept
BEGUN = "begun"  # a file that says that the first record that counts has come


class PacedSource(DataGeneratorSource):
    """(a key, when the record was due in nanoseconds since 1970, its number), at a rate.

    Parameters
    ----------
    keys : int
    count : int
        Records in all.
    records_per_second : float
        Of all subtasks together.
    filling : int, default 0
        So many first records come as fast as they can.
    """

    def __init__(self, keys, count, records_per_second, filling=0):
        super().__init__(int, count, records_per_second)
        self.keys, self.filling = keys, filling

    def create_reader(self, context):
        """Return one whose records know when they were due."""
        now_ms = context.processing_time.now_ms()
        rate = RateAfterFilling(self.records_per_second / context.parallelism, now_ms)
        return RateLimitedReader(context, Due(rate, self.keys, self.filling), rate)


class RateAfterFilling(RateLimit):
    """No limit while there is something to be filled."""

    is_filling = False

    def due(self, now_ms):
        """Return how many records may come now."""
        if not self.is_filling:
            return super().due(now_ms)
        self._next_ms = float(now_ms)
        return 1_000

    def take(self, count):
        """Note that so many have come."""
        if not self.is_filling:
            super().take(count)


class Due:
    """Makes the records; neighbours have keys that lie far apart."""

    def __init__(self, rate, keys, filling):
        self.rate, self.keys, self.filling = rate, keys, filling

    def __call__(self, number):
        """Return the record of this number. Those of a millisecond are due at its end."""
        self.rate.is_filling = number < self.filling
        return number * 7919 % self.keys, self.rate.next_ms * 1_000_000, number


class Arrivals(SinkFunction):
    """Counts how late each record is, and keeps the longest pauses between two; at the end as a file.

    Parameters
    ----------
    folder : str
        Where each subtask writes a file when it ends.
    first : int, default 0
        Records with smaller numbers are not counted.
    skipped_s : float, default 0
        So long after the first record they are not counted either.
    """

    def __init__(self, folder, first=0, skipped_s=0):
        self.folder, self.first, self.skipped_ns = folder, first, int(skipped_s * 1e9)

    def open(self, runtime_context):
        """Start with nothing."""
        self.index = runtime_context.get_index_of_this_subtask()
        self.late = [0] * STEPS
        self.begin_ns = self.before_ns = None
        self.pauses, self.milliseconds, self.count = [], [], 0
        self.opened_s, self.waited_before_s = time.monotonic(), waited_s()

    def invoke(self, value):
        """Take a record in."""
        now = time.time_ns()
        if value[2] < self.first:
            return
        if self.begin_ns is None:
            self.begin_ns = self.before_ns = now
            Path(self.folder, BEGUN).touch()
        if now - self.begin_ns >= self.skipped_ns:
            self.late[min(max(0, now - value[1]) // STEP_NS, STEPS - 1)] += 1
            if now - self.before_ns > 2_000_000:
                self.pauses.append((now - self.before_ns, self.before_ns))
                if len(self.pauses) > 50 * PAUSES:
                    self.pauses = sorted(self.pauses, reverse=True)[:PAUSES]
        if now // 1_000_000 != self.before_ns // 1_000_000 or not self.count:
            self.milliseconds.append(now // 1_000_000)
        self.count += 1
        self.before_ns = now

    def close(self):
        """Write what was seen."""
        seen = {
            "late": {step: count for step, count in enumerate(self.late) if count},
            "pauses": sorted(self.pauses, reverse=True)[:PAUSES],
            "milliseconds": self.milliseconds,
            "count": self.count,
            "waited": (waited_s() - self.waited_before_s) / (time.monotonic() - self.opened_s),
        }
        Path(self.folder, f"{self.index}-{time.time_ns()}.json").write_text(json.dumps(seen))


def waited_s():
    """Return the seconds that the threads of this process were ready to run and had no core, as far as Linux says."""
    found = Path("/proc/self/task").glob("*/schedstat")
    return sum(int(each.read_text().split()[1]) for each in found) / 1e9


@contextlib.contextmanager
def bystander(folder, skipped_s):
    """Have a process beside the job that only sleeps for a millisecond, again and again.

    The machine delays the job at least as much: who sleeps that often is the first to get a core. It counts over the
    same time as `Arrivals`, and gives a list to which it adds its arrivals, which are those of no job, at the end.
    """
    found = []
    command = [sys.executable, __file__, folder, str(skipped_s)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield found
        finally:
            seen, _ = process.communicate()
        found.append(json.loads(seen))


def _stand_by(folder, skipped_s):
    """Sleep until standard input ends; print how late it was each time, and the longest pauses."""
    wait_for_the_first(folder)
    time.sleep(skipped_s)
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    late, longest, due = {}, (0, 0), time.time_ns()
    while not ended.is_set():
        due += 1_000_000
        time.sleep(max(0, due - time.time_ns()) / 1e9)
        now = time.time_ns()
        step = min(max(0, now - due) // STEP_NS, STEPS - 1)
        late[step] = late.get(step, 0) + 1
        longest = max(longest, (now - due, due))
        due = max(due, now - 1_000_000)  # a pause counts once
    print(json.dumps({"late": late, "pauses": [longest]}))


def arrivals_in(folder):
    """Return what all subtasks have written."""
    return [json.loads(path.read_text()) for path in Path(folder).glob("*.json")]


def wait_for_the_first(folder, patience_s=300):
    """Return when a record that counts had come, in seconds since 1970."""
    until = time.monotonic() + patience_s
    while not Path(folder, BEGUN).exists():
        if time.monotonic() > until:
            raise RuntimeError(f"no record that counts has come in {patience_s} s")
        time.sleep(0.01)
    return time.time()


def late_ms(arrivals, share):
    """Return the milliseconds that a share of all records is not later than; the upper end of the step."""
    counts = {}
    for each in arrivals:
        for step, count in each["late"].items():
            counts[int(step)] = counts.get(int(step), 0) + count
    left = share * sum(counts.values())
    for step in sorted(counts):
        left -= counts[step]
        if left <= 0:
            return (step + 1) * STEP_NS / 1e6
    raise ValueError("no records have arrived")


def longest_gap_ms(arrivals):
    """Return the longest time without a record anywhere, and when it began, in milliseconds since 1970."""
    seen = sorted({each for arrival in arrivals for each in arrival["milliseconds"]})
    return max(((after - before, before) for before, after in itertools.pairwise(seen)), default=(0, 0))


if __name__ == "__main__":
    _stand_by(sys.argv[1], float(sys.argv[2]))
