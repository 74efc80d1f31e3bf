"""No request can block or slow the job master: neither many of them, nor large ones, nor clients that read nothing."""

import contextlib
import dataclasses
import http.client
import itertools
import re
import socket
import threading
from random import Random

import pytest
from support.waiting import wait_until

from flinkbuf.common import Configuration, Types, WatermarkStrategy
from flinkbuf.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from flinkbuf.datastream.connectors.data_gen import DataGeneratorSource
from flinkbuf.datastream.state import ValueStateDescriptor
from flinkbuf.runtime.driver.running_job import RunningJob, _Answer
from flinkbuf.runtime.graph.job_plan import EdgePlan, JobPlan, OperatorPlan, VertexPlan
from flinkbuf.runtime.master.job_master import JobMaster
from flinkbuf.runtime.master.restart_strategy import NoRestart
from flinkbuf.runtime.picture.job_picture import PictureMaker
from flinkbuf.runtime.protocol.failure import JobCanceledError
from flinkbuf.runtime.scheduler.execution_state import ExecutionState
from flinkbuf.web.routes import ROUTER
from flinkbuf.web.served_job import ServedJob
from flinkbuf.web.serving import _servers, close_servers

WIDE = "ee" * 16  # the job of 10,000 subtasks
MASTERS = ("_ask", "details", "accumulators", "cancel", "suspend", "trigger_savepoint")  # what reaches a job's thread


class Count(KeyedProcessFunction):
    """Counts by key."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        yield value


@pytest.fixture
def job(tmp_path):
    """One that runs, is served, and has a checkpoint every 20 ms."""
    pairs = {
        "execution.target": "embedded",
        "rest.enabled": "true",
        "heartbeat.interval": "50 ms",
        "execution.checkpointing.interval": "20 ms",
        "execution.checkpointing.dir": str(tmp_path),
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(pairs)).set_parallelism(2)
    source = DataGeneratorSource(int, 10**9, records_per_second=500)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
    numbers.key_by(lambda value: value % 7, Types.LONG()).process(Count())
    client = env.execute_async("flooded")
    try:
        yield client._job
    finally:
        client.cancel().result()
        close_servers()


@pytest.fixture
def server(job):
    (made,) = _servers.values()
    return made


def completed(job):
    return job.details()["checkpoints"]["counts"]["completed"]


def more_checkpoints(job, count=5):
    """Wait until the master has completed some more."""
    before = completed(job)
    wait_until(lambda: completed(job) >= before + count)


def paths_of(job_id, vertex_id, manager_id="none"):
    """All that can be asked for, the large ones first."""
    names = {"jobid": job_id, "vertexid": vertex_id, "taskmanagerid": manager_id, "triggerid": "ab" * 16}
    names |= {"checkpointid": "1", "subtaskindex": "0", "attempt": "0"}
    not_ready = ("/health", "/health/ready")  # 503: a job of these tests is only a picture
    paths = [path for method, path in ROUTER.paths if method == "GET" and path not in not_ready]
    made = [re.sub(":([a-z]+)", lambda found: names[found[1]], path) for path in paths]
    return sorted(made, key=lambda path: not path.endswith(("/picture", "/metrics", job_id)))


def ask(server, path, method="GET"):
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)) as connection:
        connection.request(method, path)
        response = connection.getresponse()
        return response.status, response.read()


def wide_picture(tasks=10, parallelism=1_000):
    """All subtasks run; every tenth has said something of itself."""
    operator = OperatorPlan("0" * 32, "Map")
    vertices = tuple(
        VertexPlan(f"{number:032x}", f"task {number}", parallelism, 32_768, operators=(operator,))
        for number in range(tasks)
    )
    edges = tuple(EdgePlan(number, number + 1, 0, 0, True) for number in range(tasks - 1))
    master = JobMaster(
        JobPlan(WIDE, "wide", vertices, edges), session_id="d" * 32, restart_strategy=NoRestart().create(Random(1))
    )
    told = {"records_in": 5, "records_out": 7, "busy_ms": 600, "watermark": 7, "bytes_in": 5, "bytes_out": 7}
    told |= {"operators": [{"operator_id": operator.id, "name": "Map", "metrics": {"seen": 5, "size": {"p99": 2.5}}}]}
    for execution in master.graph.executions():
        execution.state = ExecutionState.RUNNING
        if execution.vertex.index % 10 == 0:
            execution.keep(dict(told), None, 1_000)
    return PictureMaker(master).make(1_000)


class Silent:
    """What a job is to those who serve it; it has nothing but its picture."""

    silence_s = 0.0

    def __init__(self, picture):
        self.picture = picture


def test_requests_are_answered_while_the_job_master_does_nothing(job, server):
    more_checkpoints(job, 1)
    reached, free = threading.Event(), threading.Event()

    def hold():
        reached.set()
        free.wait(60)

    job._run._inbox.put(_Answer(hold))
    assert reached.wait(30)
    picture = job.picture
    try:
        paths = paths_of(picture.job_id, picture.vertices[0].plan.id, picture.managers[0].id)
        answers = {path: ask(server, path)[0] for path in paths}
        unheard = {path for path, status in answers.items() if status != 200}
        # What nobody has asked for, and a checkpoint that is not kept any more.
        assert all(re.search("/(savepoints|rescaling|checkpoints)/", path) for path in unheard), unheard
        assert not free.is_set() and job.picture is picture
    finally:
        free.set()
    more_checkpoints(job)


def test_the_job_goes_on_while_its_server_answers_nobody(job, server, monkeypatch):
    reached, free = threading.Event(), threading.Event()

    def hold(*_):
        reached.set()
        free.wait(60)
        raise RuntimeError("planted")

    monkeypatch.setattr("flinkbuf.web.server.answer_of", hold)
    asking = threading.Thread(target=ask, args=(server, "/jobs"))
    asking.start()
    try:
        assert reached.wait(30)
        picture = job.picture
        more_checkpoints(job)
        wait_until(lambda: job.picture is not picture)
        job.cancel()
        with pytest.raises(JobCanceledError):
            job.wait(30)
        assert job.has_ended and not free.is_set()
    finally:
        free.set()
        asking.join()


def test_a_flood_of_requests_reaches_no_job_master(job, server, monkeypatch):
    intruders = set()

    def watched(name, original):
        def call(self, *arguments, **more):
            if threading.current_thread().name.startswith("job server"):
                intruders.add(name)
            return original(self, *arguments, **more)

        return call

    for name in MASTERS:
        monkeypatch.setattr(RunningJob, name, watched(name, getattr(RunningJob, name)))
    wide = wide_picture()
    server.add(ServedJob(Silent(wide)))
    paths = paths_of(job.picture.job_id, job.picture.vertices[0].plan.id)
    large = [f"/jobs/{WIDE}/picture", f"/jobs/{WIDE}/vertices/{1:032x}", f"/jobs/{WIDE}", "/metrics"]
    statuses = [[], [], []]

    def flood(found, asked):
        found += [ask(server, path)[0] for path in asked]

    asked = (paths[::2], paths[1::2], large)
    threads = [threading.Thread(target=flood, args=each) for each in zip(statuses, asked, strict=True)]
    silent = [socket.create_connection(("127.0.0.1", server.port), timeout=30) for _ in range(20)]
    for path, each in zip(large, silent, strict=False):
        each.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    for each in silent[len(large) :]:  # they do not even ask to the end
        each.sendall(b"GET ")
    for each in threads:
        each.start()
    try:
        more_checkpoints(job)
    finally:
        for each in threads:
            each.join()
        for each in silent:
            each.close()
    assert intruders == set()
    assert list(map(len, statuses)) == list(map(len, asked))
    assert set(statuses[2]) == {200} and set(itertools.chain(*statuses)) <= {200, 400, 404}
    assert job.status.name == "RUNNING" and job.picture.restart_count == 0
    more_checkpoints(job)


def test_a_picture_of_ten_thousand_subtasks_is_frozen(server):
    wide = wide_picture()
    server.add(ServedJob(Silent(wide)))
    vertex = wide.vertices[0]
    for each in (wide, vertex, vertex.subtasks[0], vertex.subtasks[0].current):
        with pytest.raises((dataclasses.FrozenInstanceError, TypeError)):
            each.job_id = "another"
    status, body = ask(server, f"/jobs/{WIDE}/picture")
    assert status == 200 and len(body) < 1 << 20, "the page gets the worst of each task, and a row of the chosen one"
