"""Who starts programs again asks whether they work, and whether their jobs do: without a token, and without names."""

import contextlib
import http.client
import json

import pytest
from support.worlds.master_world import MasterWorld, pipeline

from flinkbuf.runtime.picture.job_picture import PictureMaker
from flinkbuf.runtime.process.termination import Termination
from flinkbuf.runtime.scheduler.master_actions import CancelJob
from flinkbuf.web import health_routes
from flinkbuf.web.router import Cluster, Request
from flinkbuf.web.routes import answer
from flinkbuf.web.served_job import ServedJob
from flinkbuf.web.server import JobServer

JOB = "0b" * 16


class Job:
    """What a RunningJob is to those who serve it."""

    def __init__(self):
        self.world = MasterWorld(pipeline()).start()
        self.maker = PictureMaker(self.world.job)
        self.silence_s = 0.5

    @property
    def picture(self):
        return self.maker.make(self.world.now_ms)


@pytest.fixture
def job():
    return Job()


@pytest.fixture
def cluster(job):
    return Cluster({JOB: ServedJob(job)})


def ask(cluster, path="/health"):
    made = answer(Request("GET", path), cluster)
    return made.status, made.body


def run_all(job):
    job.world.register_all()
    job.world.all_report("INITIALIZING", "RUNNING")


def test_a_job_whose_tasks_all_run_is_well(cluster, job):
    run_all(job)
    tasks = sum(len(vertex.subtasks) for vertex in job.picture.vertices)
    jobs = [{"id": JOB, "status": "RUNNING", "running-tasks": tasks, "tasks": tasks}]
    for path in ("/health", "/health/live", "/health/ready", "/v1/health"):
        assert ask(cluster, path) == (200, {"status": "UP", "jobs": jobs})


def test_a_job_that_begins_is_alive_and_not_ready(cluster, job):
    assert ask(cluster, "/health/live")[0] == 200
    status, body = ask(cluster, "/health/ready")
    assert status == 503 and body["status"] == "DOWN"
    assert body["errors"] == [f"Job {JOB}: 0 of {body['jobs'][0]['tasks']} tasks run."]
    assert ask(cluster)[0] == 503


def test_a_job_that_ends_is_not_ready(cluster, job):
    run_all(job)
    job.world.tell(CancelJob())
    assert ask(cluster, "/health/ready")[1]["errors"] == [f"Job {JOB} is CANCELLING."]
    assert ask(cluster, "/health/live")[0] == 200


def test_a_thread_that_does_not_answer_is_not_alive(cluster, job):
    run_all(job)
    job.silence_s = 61.5
    assert ask(cluster, "/health/live")[1]["errors"] == [f"The thread of job {JOB} has not answered for 62 s."]
    assert ask(cluster, "/health/ready")[0] == 200
    assert ask(cluster)[0] == 503


def test_without_a_job_the_program_is_alive_and_not_ready(cluster, job):
    for empty in (Cluster(), cluster):
        for served in empty.jobs.values():
            served.end()
        if empty is cluster:
            job.world.tell(CancelJob())
        assert ask(Cluster(), "/health/live")[0] == 200
        assert ask(Cluster(), "/health/ready")[1]["errors"] == ["No job runs."]


def test_a_program_that_was_told_to_end_is_not_ready(cluster, job, monkeypatch):
    run_all(job)
    told = Termination()
    monkeypatch.setattr(Termination, "is_begun", property(lambda self: self is told))
    monkeypatch.setattr(health_routes, "the_termination", told)
    assert ask(cluster, "/health/ready")[1]["errors"] == ["The program was told to end."]
    assert ask(cluster, "/health/live")[0] == 200


def test_anybody_may_ask_and_nothing_else(cluster, job):
    with contextlib.closing(JobServer("0.0.0.0")) as server:
        server.add(ServedJob(job))

        def status_of(method, path):
            with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)) as connection:
                connection.request(method, path)
                response = connection.getresponse()
                return response.status, response.read()

        assert status_of("GET", "/health/live")[0] == 200
        assert status_of("HEAD", "/v1/health/live")[0] == 200
        code, text = status_of("GET", "/health")
        assert code == 503 and json.loads(text)["errors"]
        for method, path in (
            ("GET", "/jobs"),
            ("GET", "/health/../jobs"),
            ("GET", "/healthy"),
            ("POST", "/health"),
            ("GET", "//health/x"),
            ("GET", f"/jobs/{JOB}"),
        ):
            assert status_of(method, path)[0] in (401, 404, 405) and status_of(method, path)[0] != 200, path
