"""Logs and threads of the program and of its task managers, as those are asked for them over HTTP."""

import http.client
import logging
import time
from concurrent.futures import Future

import pytest
from test_served_jobs import Client

from flinkbuf.common import Configuration
from flinkbuf.datastream import MapFunction, StreamExecutionEnvironment
from flinkbuf.targets.launcher_process import end_launcher
from flinkbuf.web import server as server_module
from flinkbuf.web.serving import _servers, close_servers


class Wait(MapFunction):
    """Says that it waits, and does until there is a file."""

    def __init__(self, go_on):
        self.go_on = go_on

    def map(self, value):
        logging.getLogger("airports").warning("waiting for \x1b[1m%s", value)
        self.step_aside()
        return value

    def step_aside(self):
        while not self.go_on.exists():
            time.sleep(0.01)


@pytest.fixture(params=["embedded", "local"])
def job(request, tmp_path):
    """A client of a job that waits."""
    settings = {"execution.target": request.param, "rest.port": "0", "heartbeat.interval": "50 ms"}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings)).set_parallelism(1)
    env.from_collection(["JFK"]).map(Wait(tmp_path / "go-on")).print()
    job = env.execute_async("airports")
    yield Client(job.page)
    (tmp_path / "go-on").touch()
    job.get_job_execution_result().result()
    close_servers()
    if request.param == "local":
        end_launcher()


def text(client, path):
    connection = http.client.HTTPConnection(client.host, client.port, timeout=20)
    connection.request("GET", path)
    answer = connection.getresponse()
    said = answer.read().decode()
    connection.close()
    assert answer.status == 200 and answer.headers["Content-Type"] == "text/plain; charset=UTF-8", said
    return said


def manager_that_waits(client):
    picture = client.until(f"/jobs/{client.job_id}/picture", lambda page: page["tasks"]["RUNNING"] >= 1)
    return next(
        row[3] for vertex in picture["vertices"] for row in vertex["subtasks"]["rows"] if "Map" in vertex["name"]
    )


def test_the_log_of_a_task_manager_is_what_its_process_has_logged(job):
    manager = manager_that_waits(job)
    while "waiting for" not in (said := text(job, f"/taskmanagers/{manager}/log")):
        time.sleep(0.02)
    (line,) = [line for line in said.splitlines() if "waiting for" in line]
    assert "WARNING airports [airports, " in line and line.endswith("waiting for \\x1b[1mJFK")


def test_the_program_has_a_log_of_its_own(job):
    logging.getLogger("mine").warning("the program says something")
    assert "WARNING mine the program says something\n" in text(job, "/jobmanager/log")


def test_threads_are_seen_where_they_are(job):
    manager = manager_that_waits(job)
    for _ in range(500):
        infos = job.ask("GET", f"/taskmanagers/{manager}/thread-dump")[1]["threadInfos"]
        if any("step_aside" in each["stringifiedThreadInfo"] for each in infos):
            break
    (task,) = [each for each in infos if "step_aside" in each["stringifiedThreadInfo"]]
    assert "Map" in task["threadName"] and task["stringifiedThreadInfo"].startswith('"')
    assert any(
        each["threadName"] == "MainThread" for each in job.ask("GET", "/jobmanager/thread-dump")[1]["threadInfos"]
    )


def test_a_task_manager_that_does_not_answer_is_not_waited_for_long(job, monkeypatch):
    monkeypatch.setattr(server_module, "INQUIRY_S", 0.2)
    manager = manager_that_waits(job)
    (server,) = _servers.values()
    served = server.cluster.jobs[job.job_id]
    silent = Future()
    silent.set_running_or_notify_cancel()
    monkeypatch.setattr(served, "inspect_manager", lambda manager_id, subject: silent)
    status, body = job.ask("GET", f"/taskmanagers/{manager}/log")
    assert (status, body["errors"]) == (503, ["There was no answer within 0.2 s."])
    silent.set_exception(RuntimeError("job 'airports' is FINISHED"))
    status, body = job.ask("GET", f"/taskmanagers/{manager}/log")
    assert (status, body["errors"]) == (503, ["There is no answer: job 'airports' is FINISHED"])


def test_another_user_reads_no_log(job, monkeypatch):
    monkeypatch.setattr("flinkbuf.web.connections.user_of", lambda client, server: None)
    stranger = Client(f"http://{job.host}:{job.port}/?token=x#/job/{job.job_id}")
    for path in ("/jobmanager/log", "/jobmanager/thread-dump", "/taskmanagers/program/log"):
        assert stranger.ask("GET", path)[0] == 401
