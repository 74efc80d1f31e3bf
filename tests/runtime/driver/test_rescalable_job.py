"""Jobs that go on with another parallelism: nothing is lost or counted twice, and it stays one job to its program."""

import contextlib
import http.client
import json
import os
import tempfile
import threading
from concurrent.futures import Future
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest
from support.waiting import wait_until

from flinkbuf.common import Configuration, Types, WatermarkStrategy
from flinkbuf.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from flinkbuf.datastream.connectors.data_gen import DataGeneratorSource
from flinkbuf.datastream.state import ValueStateDescriptor
from flinkbuf.runtime.driver import rescalable_job
from flinkbuf.runtime.driver.rescalable_job import RescalableJob
from flinkbuf.runtime.driver.savepoint_requests import SavepointError
from flinkbuf.runtime.protocol.failure import JobCanceledError
from flinkbuf.runtime.protocol.job_status import JobStatus
from flinkbuf.web.serving import _servers, close_servers

COUNT = 300
KEYS = 5


class Count(KeyedProcessFunction):
    """Counts by key."""

    free = threading.Event()
    seen = threading.Event()

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))
        self.subtasks = runtime_context.get_number_of_parallel_subtasks()

    def process_element(self, value, ctx):
        Count.seen.set()
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield value % KEYS, count, self.subtasks


@pytest.fixture(autouse=True)
def _events():
    Count.free.clear()
    Count.seen.clear()
    yield
    Count.free.set()
    close_servers()


def in_time(value):
    """Behind the source, in its chain: it comes to its end only when the test has got what it wants."""
    Count.free.wait(0.02)
    return value


def begin(results, **settings):
    pairs = {"execution.target": "embedded", "rest.enabled": "true", "heartbeat.interval": "50 ms", **settings}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(pairs))
    env.set_parallelism(1)
    env.set_buffer_timeout(1)
    numbers = env.from_collection(list(range(COUNT)), Types.LONG()).map(in_time, Types.LONG())
    counted = numbers.key_by(lambda value: value % KEYS, Types.LONG()).process(Count())
    counted.add_sink(results.append)
    client = env.execute_async("counted")
    assert Count.seen.wait(30)
    return client


def ask(method, path):
    (server,) = _servers.values()
    parts = urlsplit(server.address)
    with contextlib.closing(http.client.HTTPConnection(parts.hostname, parts.port, timeout=10)) as connection:
        connection.request(method, path, headers={"Authorization": f"Bearer {server.token}"})
        response = connection.getresponse()
        return response.status, json.loads(response.read())


def outcome(client, trigger_id):
    path = f"/jobs/{client.get_job_id()}/rescaling/{trigger_id}"
    for _ in range(3_000):
        status, body = ask("GET", path)
        assert status == 200
        if body["status"]["id"] == "COMPLETED":
            return body["operation"]
        threading.Event().wait(0.01)
    raise AssertionError("it never came to its end")


def temporary():
    return [name for name in os.listdir(tempfile.gettempdir()) if name.startswith("flinkbuf-rescaling-")]


def test_every_record_counts_once_with_another_parallelism():
    results, before = [], temporary()
    client = begin(results)
    job_id = str(client.get_job_id())
    status, body = ask("PATCH", f"/jobs/{job_id}/rescaling?parallelism=3")
    assert status == 202
    assert outcome(client, body["request-id"]) == {"job-id": job_id}
    vertices = ask("GET", f"/jobs/{job_id}")[1]["vertices"]
    assert {each["parallelism"] for each in vertices} == {1, 3}, "the source cannot be parallel"
    Count.free.set()
    client.get_job_execution_result().result()
    assert sorted((key, count) for key, count, _ in results) == sorted(
        (key, count) for key in range(KEYS) for count in range(1, COUNT // KEYS + 1)
    )
    assert {subtasks for _, _, subtasks in results} == {1, 3}
    assert temporary() == before
    assert client.get_job_status().result().name == "FINISHED"


def test_what_cannot_be_is_said_and_the_job_goes_on():
    results = []
    client = begin(results, **{"pipeline.max-parallelism": "4"})
    operation = outcome(client, ask("PATCH", f"/jobs/{client.get_job_id()}/rescaling?parallelism=5")[1]["request-id"])
    assert "max parallelism must be from its parallelism 5" in operation["failure-cause"]["stack-trace"]
    Count.free.set()
    client.get_job_execution_result().result()
    assert len(results) == COUNT and {subtasks for _, _, subtasks in results} == {1}


def test_more_subtasks_than_key_groups_are_refused_before_anything_stops():
    results = []
    client = begin(results)
    operation = outcome(client, ask("PATCH", f"/jobs/{client.get_job_id()}/rescaling?parallelism=129")[1]["request-id"])
    assert "its max parallelism is 128" in operation["failure-cause"]["stack-trace"]
    Count.free.set()
    client.get_job_execution_result().result()
    assert len(results) == COUNT


def test_a_savepoint_that_cannot_be_stored_is_said_and_is_a_failure_as_of_any_stop(tmp_path):
    results, file = [], tmp_path / "file"
    file.write_text("no directory")
    client = begin(results, **{"execution.checkpointing.savepoint-dir": str(file)})
    operation = outcome(client, ask("PATCH", f"/jobs/{client.get_job_id()}/rescaling?parallelism=2")[1]["request-id"])
    assert "no directory" in operation["failure-cause"]["stack-trace"]
    with pytest.raises(RuntimeError, match="could not be stopped with savepoint 1"):
        client.get_job_execution_result().result()


def test_cancelling_wins():
    results, before = [], temporary()
    client = begin(results)
    asked = ask("PATCH", f"/jobs/{client.get_job_id()}/rescaling?parallelism=2")[1]["request-id"]
    client.cancel()
    Count.free.set()
    with pytest.raises(JobCanceledError):
        client.get_job_execution_result().result()
    assert "failure-cause" in outcome(client, asked) and temporary() == before


def test_a_second_one_waits_for_nobody():
    results = []
    client = begin(results)
    path = f"/jobs/{client.get_job_id()}/rescaling"
    first, second = (ask("PATCH", f"{path}?parallelism={width}")[1]["request-id"] for width in (2, 4))
    assert "already" in outcome(client, second)["failure-cause"]["stack-trace"]
    assert "job-id" in outcome(client, first)
    Count.free.set()
    client.get_job_execution_result().result()
    assert len(results) == COUNT


class FakeRun:
    """A run that does nothing, and tells what it was asked for."""

    def __init__(self, on_end, graph=None, restored=None, job_id="c" * 32):
        self.on_end, self.graph, self.job_id = on_end, graph, job_id
        self.plan = SimpleNamespace(vertices=())
        self.status, self.calls, self.savepoint = JobStatus.RUNNING, [], Future()
        self.after_first_checkpoint = self.page = self.failure = None
        self.stopping_savepoint = ""

    def start(self):
        self.calls.append("start")

    def cancel(self):
        self.calls.append("cancel")

    def trigger_savepoint(self, directory, kind):
        self.directory = directory
        return self.savepoint

    def fail_after_end(self, error):
        self.status, self.exception = JobStatus.FAILED, error

    def wait(self, timeout_s):
        if self.failure is not None:
            raise self.failure

    def end(self, status=JobStatus.FINISHED, error=None):
        self.status, self.failure = status, error
        for call in self.on_end:
            call(error)


def test_between_two_runs_it_begins_again_and_can_be_cancelled(monkeypatch, tmp_path):
    def restored(path):  # what happens while the job has no run
        seen.append(job.status)
        job.cancel()

    seen, graph = [], SimpleNamespace(vertices=())
    monkeypatch.setattr(rescalable_job, "restored_from", restored)
    job = RescalableJob(FakeRun, lambda parallelism, restored: graph, [], str(tmp_path))
    first = job._run
    rescaled = job.rescale(3)
    first.savepoint.set_result("savepoint")
    first.end()
    assert rescaled.done()
    assert seen == [JobStatus.RESTARTING]
    assert job._run is not first
    assert sorted(job._run.calls) == ["cancel", "start"]
    assert job.status is JobStatus.RUNNING


def test_a_task_that_fails_behind_the_savepoint_does_not_end_the_job(monkeypatch, tmp_path):
    begun = []
    monkeypatch.setattr(rescalable_job, "restored_from", begun.append)
    graph = SimpleNamespace(vertices=())
    job = RescalableJob(FakeRun, lambda parallelism, restored: graph, [], str(tmp_path))
    first = job._run
    rescaled = job.rescale(3)
    first.stopping_savepoint = "/savepoints/whole"
    error = RuntimeError("the job was stopped with savepoint /savepoints/whole, which is whole, but it is FAILED")
    first.savepoint.set_exception(error)
    waiting = threading.Thread(target=lambda: begun.append(job.wait(30)))
    wait, ended = first.wait, threading.Event()
    first.wait = lambda timeout_s: ended.wait(timeout_s) and wait(timeout_s)
    waiting.start()
    first.end(JobStatus.FAILED, error)
    ended.set()
    waiting.join(30)
    assert begun == ["/savepoints/whole", None], "waiting goes on, for the end of the new run"
    assert rescaled.result() == job.job_id and job._run is not first and job._run.calls == ["start"]


def test_a_job_that_is_cancelled_behind_the_savepoint_does_not_begin_again(monkeypatch, tmp_path):
    job = rescalable(str(tmp_path), monkeypatch=monkeypatch)
    first = job._run
    rescaled = job.rescale(3)
    first.stopping_savepoint = "/savepoints/whole"
    first.savepoint.set_exception(RuntimeError("the job ends"))
    first.end(JobStatus.CANCELED)
    assert "CANCELED" in str(rescaled.exception()) and job._run is first


# ---- savepoints that are nobody's but the job's


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """Where temporary directories are made."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def rescalable(savepoint_directory="", restore=lambda path: None, monkeypatch=None):
    monkeypatch.setattr(rescalable_job, "restored_from", restore)
    return RescalableJob(FakeRun, lambda parallelism, restored: SimpleNamespace(vertices=()), [], savepoint_directory)


def rescale(job, width):
    """Let it come to another parallelism; returns where the savepoint went."""
    run, rescaled = job._run, job.rescale(width)
    with open(os.path.join(run.directory, f"state-{width}"), "w") as file:
        file.write("state")
    run.savepoint.set_result(file.name)
    run.end()
    assert rescaled.done() and job._run is not run
    return run.directory


def test_a_temporary_savepoint_goes_when_the_run_has_a_checkpoint_of_its_own(folder, monkeypatch):
    job = rescalable(monkeypatch=monkeypatch)
    directory = rescale(job, 2)
    assert os.listdir(directory) == ["state-2"], "what fails before that begins from it again"
    job._run.after_first_checkpoint()
    assert os.listdir(folder) == []
    job._run.end()


def test_of_many_rescalings_without_checkpoints_only_the_last_savepoint_is_kept(folder, monkeypatch):
    job = rescalable(monkeypatch=monkeypatch)
    for width in range(2, 7):
        assert os.listdir(rescale(job, width)) == [f"state-{width}"]
        assert len(os.listdir(folder)) == 1
    late = job._run.after_first_checkpoint
    last = rescale(job, 2)
    late()  # of a run that is over: it takes nothing from the one that goes on
    assert os.listdir(last) == ["state-2"]
    job._run.end()
    assert os.listdir(folder) == []


def test_a_directory_that_the_user_has_named_keeps_all(tmp_path, monkeypatch):
    job = rescalable(str(tmp_path), monkeypatch=monkeypatch)
    for width in (2, 3):
        assert rescale(job, width) == str(tmp_path)
        assert job._run.after_first_checkpoint is None
    job._run.end()
    assert sorted(os.listdir(tmp_path)) == ["state-2", "state-3"]


def test_what_a_task_still_writes_for_a_savepoint_that_was_given_up_goes_with_the_job(folder, monkeypatch):
    job = rescalable(monkeypatch=monkeypatch)
    run, rescaled = job._run, job.rescale(2)
    run.savepoint.set_exception(OSError("planted"))
    assert isinstance(rescaled.exception(), OSError) and os.listdir(folder) == []
    os.makedirs(run.directory)  # by a task that has not heard of it
    run.end()
    assert os.listdir(folder) == []


def test_one_that_is_cancelled_while_its_savepoint_fails_is_given_up_once(folder, monkeypatch):
    def look(directory):  # in the middle of giving up: the run, which heard of cancelling, says that it has none
        seen.append(directory)
        run.savepoint.set_exception(RuntimeError("the job ends"))
        return holds_savepoint(directory)

    seen, holds_savepoint = [], rescalable_job._holds_savepoint
    monkeypatch.setattr(rescalable_job, "_holds_savepoint", look)
    job = rescalable(monkeypatch=monkeypatch)
    run, rescaled = job._run, job.rescale(2)
    job.cancel()
    assert seen == [run.directory], "a directory that another thread removes cannot be looked through"
    assert "cancelled" in str(rescaled.exception()) and os.listdir(folder) == []


def test_a_savepoint_that_nothing_began_from_stays(folder, monkeypatch):
    def restore(path):
        raise ValueError("planted")

    job = rescalable(restore=restore, monkeypatch=monkeypatch)
    run, rescaled = job._run, job.rescale(2)
    run.savepoint.set_result(os.path.join(run.directory, "savepoint"))
    run.end()
    with pytest.raises(RuntimeError, match=r"stopped with .*savepoint, but did not begin again: planted; .*state-rec"):
        rescaled.result()
    assert os.listdir(folder) == [os.path.basename(run.directory)], "there is nothing else of the job"
    assert job.status is JobStatus.FAILED and isinstance(job.exception.__cause__, ValueError)


def begin_endless(**settings):
    """A job that goes on until it is cancelled, and is brought to parallelism 2."""
    pairs = {"execution.target": "embedded", "rest.enabled": "true", "heartbeat.interval": "50 ms", **settings}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(pairs))
    env.set_parallelism(1)
    source = DataGeneratorSource(int, 10**9, records_per_second=200)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
    numbers.key_by(lambda value: value % KEYS, Types.LONG()).process(Count())
    client = env.execute_async("endless")
    assert Count.seen.wait(30)
    rescaled = outcome(client, ask("PATCH", f"/jobs/{client.get_job_id()}/rescaling?parallelism=2")[1]["request-id"])
    assert "job-id" in rescaled
    return client


def test_a_running_job_deletes_it_after_a_checkpoint(folder, tmp_path_factory):
    checkpoints = str(tmp_path_factory.mktemp("checkpoints"))
    client = begin_endless(**{"execution.checkpointing.interval": "100 ms", "execution.checkpointing.dir": checkpoints})
    run = client._job._run
    wait_until(lambda: temporary() == [])
    assert run.after_first_checkpoint is None and not run.has_ended
    assert run.details()["checkpoints"]["counts"]["completed"] >= 1
    client.cancel().result()


def test_a_running_job_keeps_it_after_a_savepoint(folder, tmp_path_factory):
    """Only one that a job would begin from again counts."""
    client = begin_endless()
    run = client._job._run
    directory = str(tmp_path_factory.mktemp("savepoints"))

    def savepoint():
        try:
            return client.trigger_savepoint(directory).result()
        except SavepointError:  # some tasks do not run yet
            return None

    wait_until(savepoint)
    assert run.after_first_checkpoint is not None and len(temporary()) == 1
    client.cancel().result()
    assert temporary() == []


def test_an_operator_that_was_given_a_parallelism_keeps_it():
    settings = {"execution.target": "embedded", "rest.enabled": "true"}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings)).set_parallelism(2)
    numbers = env.from_collection(list(range(COUNT)), Types.LONG()).map(in_time, Types.LONG()).set_parallelism(1)
    numbers.key_by(lambda value: value % KEYS, Types.LONG()).process(Count()).set_parallelism(2).name("kept").map(
        lambda value: value
    ).name("rescaled").disable_chaining().add_sink(lambda value: None)
    client = env.execute_async("counted")
    assert Count.seen.wait(30)
    wait_until(lambda: all(each["tasks"]["RUNNING"] == each["parallelism"] for each in client.details()["vertices"]))
    client._job.rescale(3).result(30)
    found = {each["name"]: each["parallelism"] for each in client.details()["vertices"]}
    assert [parallelism for name, parallelism in found.items() if "kept" in name] == [2]
    assert [parallelism for name, parallelism in found.items() if "rescaled" in name] == [3]
    Count.free.set()
    client.get_job_execution_result().result()
