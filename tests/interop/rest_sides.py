"""The same jobs on the real Flink and here, and what each answers over HTTP."""

import contextlib
import http.client
import json
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from flinkbuf.common import Configuration, Types, WatermarkStrategy
from flinkbuf.common.accumulators import IntCounter
from flinkbuf.common.watermark_strategy import TimestampAssigner
from flinkbuf.datastream import MapFunction, StreamExecutionEnvironment
from flinkbuf.datastream.connectors.data_gen import DataGeneratorSource
from flinkbuf.web import serving

KEYS = 7
WAIT_S = 60
ENDLESS = 10**12


@dataclass(frozen=True)
class Job:
    """One of those that both run; see CountingJob.java."""

    name: str
    count: int
    failures: int  # attempts that fail

    @property
    def per_second(self):
        return 1_000 if self.count == ENDLESS else 1_000_000


# Restarted at most once.
JOBS = {
    "running": Job("running", ENDLESS, 0),
    "restarted": Job("restarted", ENDLESS, 1),
    "failed": Job("failed", 100, 2),
    "finished": Job("finished", 100, 0),
}
OPTIONS = {
    "execution.checkpointing.interval": "200 ms",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "1",
    "restart-strategy.fixed-delay.delay": "50 ms",
    "pipeline.max-parallelism": "128",
}


@dataclass(frozen=True)
class Reply:
    """What came back; `body` is read as JSON where it is."""

    status: int
    content_type: str
    body: Any


class Side:
    """One that answers."""

    def __init__(self, address, headers):
        parts = urlsplit(address)
        self._host, self._port, self._headers = parts.hostname, parts.port, headers
        self.jobs = {}

    def ask(self, method, path, body=None):
        """Ask; `body` is a text as it is, or what becomes JSON."""
        text = body if body is None or isinstance(body, str) else json.dumps(body)
        headers = self._headers if text is None else {**self._headers, "Content-Type": "application/json"}
        with contextlib.closing(http.client.HTTPConnection(self._host, self._port, timeout=30)) as connection:
            connection.request(method, path, text, headers)
            response = connection.getresponse()
            kind, read = response.getheader("Content-Type", ""), response.read()
        return Reply(response.status, kind, json.loads(read) if "json" in kind and read else read)

    def get(self, path):
        """Return what a path answers that has to be there."""
        reply = self.ask("GET", path)
        assert reply.status == 200, (path, reply)
        return reply.body

    def until(self, path, is_it):
        """Ask until the answer is as expected: whoever counts does so now and then."""
        deadline = time.monotonic() + WAIT_S
        while not is_it(body := self.get(path)):
            assert time.monotonic() < deadline, f"{path} never came to it: {body}"
            time.sleep(0.05)
        return body

    def state(self, name):
        return self.get(f"/jobs/{self.jobs[name]}")["state"]

    def await_state(self, name, state):
        self.until(f"/jobs/{self.jobs[name]}", lambda body: body["state"] == state)

    def vertices(self, name):
        """Ids, the source's first."""
        return [each["id"] for each in self.get(f"/jobs/{self.jobs[name]}")["vertices"]]


class FlinkSide(Side):
    """A cluster of Flink."""

    def __init__(self, peer, folder):
        options = {
            "rest.address": "127.0.0.1",
            "rest.bind-address": "127.0.0.1",
            "rest.port": "0",
            "rest.flamegraph.enabled": "true",
            "rest.flamegraph.num-samples": "10",
            "heartbeat.interval": "200",
            "web.submit.enable": "false",
            "metrics.fetcher.update-interval": "100",
            "web.refresh-interval": "100",
            "execution.checkpointing.dir": (folder / "checkpoints").as_uri(),
            "taskmanager.memory.managed.size": "16m",
            "taskmanager.memory.network.min": "16m",
            "taskmanager.memory.network.max": "16m",
        }
        self._peer = peer
        started = peer.send("cluster-start", "flink", options=options, slots=8).result(60)
        self.paths = [tuple(each.split(" ", 1)) for each in started["paths"]]
        super().__init__(started["address"], {})

    def run(self, job, name=None, options=()):
        answer = self._peer.send(
            "cluster-run",
            "flink",
            name=job.name,
            count=job.count,
            per_second=job.per_second,
            failures=job.failures,
            options={**OPTIONS, **dict(options)},
        )
        self.jobs[name or job.name] = answer.result(30)["job"]

    def close(self):
        self._peer.kill()  # it has nothing that anybody needs, and it takes its time


class OurSide(Side):
    """Programs of ours in this process, all served at one address."""

    TOKEN = "interop-token-of-a-test"

    def __init__(self, folder):
        self._folder, self._clients = folder, []
        self._run(JOBS["finished"])
        ((_, server),) = serving._servers.items()
        super().__init__(server.address, {"Authorization": f"Bearer {self.TOKEN}"})

    def _run(self, job, options=()):
        settings = {
            **OPTIONS,
            **dict(options),
            "execution.target": "local",
            "execution.checkpointing.dir": (self._folder / "checkpoints").as_uri(),
            "rest.enabled": "true",
            "rest.token": self.TOKEN,
            "heartbeat.interval": "100 ms",
            "pipeline.progress": "false",
        }
        env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
        env.set_parallelism(2)
        numbers = DataGeneratorSource(lambda number: number, job.count, job.per_second, Types.LONG())
        times = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Times())
        stream = env.from_source(numbers, times, "numbers").map(Count(job.failures), Types.LONG()).name("count")
        sums = stream.key_by(lambda number: number % KEYS, Types.LONG()).reduce(lambda one, two: one + two)
        sums.name("sum").filter(lambda total: False).name("nowhere").print()
        self._clients.append(env.execute_async(job.name))
        return str(self._clients[-1].get_job_id())

    def run(self, job, name=None, options=()):
        self.jobs[name or job.name] = self._run(job, options)

    def close(self):
        for each in self._clients:
            each.cancel()
        for each in self._clients:
            with contextlib.suppress(Exception):
                each.get_job_execution_result().result(30)
        serving.close_servers()


class Times(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return value


class Count(MapFunction):
    """Passes on what it counts; fails in its first attempts."""

    def __init__(self, failures):
        self.failures = failures

    def open(self, runtime_context):
        self.is_early = runtime_context.get_attempt_number() < self.failures
        self.lines = IntCounter()
        runtime_context.add_accumulator("lines", self.lines)
        self.seen = runtime_context.get_metrics_group().counter("seen")

    def map(self, value):
        if self.is_early:
            raise ValueError("not yet")
        self.lines.add(1)
        self.seen.inc()
        return value
