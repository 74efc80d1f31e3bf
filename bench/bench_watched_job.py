"""What does a busy job pay for being looked at?

A keyed count on threads of the program, and the same job again and again in turn: `flinkbuf_looked_at` reports once a
second, has a page that is asked for its picture once a second as the page in a browser asks, and a Prometheus that
scrapes it every five seconds; `not_served` has no server, no reporter, and Flink's heartbeat of ten seconds. Who asks
is a process of its own.

`watched_job`: the tasks' processor time per record, the least of all runs of both jobs, plus what else has run in the
process, every thread but the tasks': the server's, the job master's, the task manager's, as a share of the time that
passed, in which tasks that share the interpreter with them do nothing. `watched_job_process`: the processor time of the
whole process per record, as it is. There the tasks' own time is in it, which differs by some percent from run to run on
a machine that others use, too, and so by more than what is asked here. Flink has no such benchmark.

python bench/bench_watched_job.py [--smoke]
"""

import contextlib
import gc
import io
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from measure import SMOKE, report, scaled

from flinkbuf.common import Configuration, Types, WatermarkStrategy
from flinkbuf.datastream import MapFunction, StreamExecutionEnvironment
from flinkbuf.datastream.connectors.number_seq import NumberSequenceSource
from flinkbuf.streaming.state.state import ValueStateDescriptor
from flinkbuf.web.serving import close_servers

COUNT = scaled(8_000_000)
KEYS = 1_000
REPEATS = 1 if SMOKE else 3
SETTINGS = {
    "not_served": {"rest.enabled": "false"},
    "flinkbuf_looked_at": {"rest.enabled": "true", "metrics.reporter.prom.factory.class": "prometheus"},
}

# The process that looks: as often as the page does, with what the page has got already.
LOOKER = """
import http.client, sys, time
host, port, job_id = sys.argv[1:]
connection, tag, looks = http.client.HTTPConnection(host, int(port), timeout=10), "", 0
def get(path, headers={}):
    connection.request("GET", path, headers=headers)
    response = connection.getresponse()
    response.read()
    return response
try:
    while True:
        response = get(f"/jobs/{job_id}/picture?vertex=none", {"If-None-Match": tag} if tag else {})
        tag, looks = response.headers.get("ETag", tag), looks + 1
        if looks % 5 == 0:
            get("/metrics")
        print(looks, flush=True)
        time.sleep(1)
except (OSError, http.client.HTTPException):
    pass
"""


class Count(MapFunction):
    """(key, records of it so far)."""

    def open(self, context):
        self.count = context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def map(self, value):
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        return value, count


def key_of(number):
    return number % KEYS


def start(settings, count):
    """Return the client of a job, and the link to it."""
    pairs = {"execution.target": "embedded", "pipeline.progress": "false", **settings}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(pairs)).set_parallelism(1)
    source = NumberSequenceSource(0, count - 1)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
    numbers.key_by(key_of, Types.LONG()).map(Count())
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        client = env.execute_async()
    return client, said.getvalue().split()[-1] if said.getvalue() else None


@contextlib.contextmanager
def looked_at(link):
    """Somebody looks, from another process, and must have seen something."""
    parts = urlsplit(link)
    job_id = parts.fragment.rpartition("/")[2]
    command = [sys.executable, "-c", LOOKER, parts.hostname, str(parts.port), job_id]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as looker:
        try:
            yield
        finally:
            looker.kill()
            if not looker.stdout.read() and not SMOKE:
                raise RuntimeError("nobody has looked at the job: it was too short")


@dataclass(frozen=True)
class Run:
    """Seconds of one job: of the clock, of all processors, and of these of threads that are no tasks."""

    passed: float
    process: float
    others: float

    @property
    def tasks(self):
        return self.process - self.others


def other_threads():
    """Return seconds of processors by thread, but for those of tasks and the one that measures."""
    found = {}
    for thread in threading.enumerate():
        if thread is not threading.main_thread() and not thread.name.endswith("#0"):
            with contextlib.suppress(OSError):  # it has just ended
                text = Path(f"/proc/self/task/{thread.native_id}/schedstat").read_text()
                found[thread.native_id] = int(text.split()[0]) / 1e9
    return found


def run(settings, count=COUNT):
    """Run the job once, and have it looked at if it is served."""
    gc.collect()
    before = other_threads()
    begin, begin_process = time.perf_counter(), time.process_time()
    client, link = start(settings, count)
    starting = time.process_time()
    with looked_at(link) if link else contextlib.nullcontext():
        begin_process += time.process_time() - starting  # to start the one that looks is no part of it
        others, result = before, client.get_job_execution_result()
        while not result.done():
            others = others | other_threads()
            time.sleep(0.05)
        passed, process = time.perf_counter() - begin, time.process_time() - begin_process
    others = others | other_threads()
    return Run(passed, process, sum(spent - before.get(id, 0) for id, spent in others.items()))


def measure_watched(benchmark=None):
    runs = {name: [] for name in SETTINGS}
    for settings in SETTINGS.values():  # what is loaded once, and the server itself, are no part of it
        run(settings, COUNT // 3)
    for repeat in range(REPEATS):
        for name in SETTINGS if repeat % 2 == 0 else reversed(SETTINGS):
            runs[name].append(run(SETTINGS[name]))
    close_servers()
    tasks = min(each.tasks for found in runs.values() for each in found)
    for name, found in runs.items():
        seconds = [tasks / (1 - each.others / each.passed) for each in found]
        report(f"watched_job.{name}", seconds, COUNT, "records", benchmark=benchmark)
        process = [each.process for each in found]
        report(f"watched_job_process.{name}", process, COUNT, "records", benchmark=benchmark)


def test_cost(benchmark):
    benchmark.pedantic(lambda: None, rounds=1)
    measure_watched(benchmark)


if __name__ == "__main__":
    measure_watched()
