"""Real jobs that are served: the link, figures that agree with the job's own, commands, and their end."""

import contextlib
import http.client
import json
import re
import sys
import threading
from urllib.parse import urlsplit

import pyarrow.compute as pc
import pytest

from flinkbuf.common import Configuration, WatermarkStrategy
from flinkbuf.datastream import MapFunction, StreamExecutionEnvironment
from flinkbuf.datastream.columns import sum_
from flinkbuf.datastream.connectors.data_gen import DataGeneratorSource
from flinkbuf.runtime.protocol.failure import JobCanceledError
from flinkbuf.runtime.protocol.job_status import JobStatus
from flinkbuf.web import serving
from flinkbuf.web.server import JobServer
from flinkbuf.web.serving import close_servers


class Counting(MapFunction):
    """Counts, and waits at the last value until it may go on."""

    gate = threading.Event()

    def open(self, runtime_context):
        group = runtime_context.get_metrics_group()
        self.seen = group.add_group("kind", "late").counter("seen")
        group.gauge("depth", lambda: 7)

    def map(self, value):
        self.seen.inc()
        if value == 99:
            Counting.gate.wait(30)
        return value


@pytest.fixture
def gate():
    Counting.gate.clear()
    yield Counting.gate
    Counting.gate.set()
    close_servers()


def environment(**more):
    settings = {"execution.target": "embedded", "rest.enabled": "true", "heartbeat.interval": "20 ms", **more}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    env.set_parallelism(1)
    return env


def begin(env, values=range(100)):
    stream = env.from_collection(list(values)).map(Counting())
    stream.filter(lambda value: False).print()
    return env.execute_async("numbers")


class Client:
    def __init__(self, link):
        parts = urlsplit(link)
        self.host, self.port, self.token = parts.hostname, parts.port, parts.query.removeprefix("token=")
        self.job_id = parts.fragment.removeprefix("/job/")

    def ask(self, method, path, body=None):
        with contextlib.closing(http.client.HTTPConnection(self.host, self.port, timeout=10)) as connection:
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, {"Authorization": f"Bearer {self.token}"})
            response = connection.getresponse()
            return response.status, json.loads(response.read())

    def until(self, path, is_it):
        """Ask until an answer is as expected: pictures come once a second."""
        for _ in range(20_000):
            status, body = self.ask("GET", path)
            assert status == 200, body
            if is_it(body):
                return body
            threading.Event().wait(0.01)
        raise AssertionError(f"{path} never came to it, it is {body}")


def link_of(capfd):
    found = re.search(r"job 'numbers' can be looked at: (\S+)", capfd.readouterr().err)
    assert found, "the link was not printed"
    return found[1]


def test_a_running_job_is_looked_at_and_cancelled(gate, capfd):
    job = begin(environment())
    client = Client(link_of(capfd))
    assert client.job_id == str(job.get_job_id())
    path = f"/jobs/{client.job_id}"
    page = client.until(
        f"{path}/picture",
        lambda page: (
            page["vertices"][0]["totals"]["records_out"] is not None
            and any(each["records_in"] == 100 for each in page["vertices"][0]["operators"])
        ),
    )
    own = job.details()
    assert page["state"] == own["state"] == "RUNNING" and page["jid"] == own["jid"]
    vertex = page["vertices"][0]["id"]
    metrics = {each["id"] for each in client.ask("GET", f"{path}/vertices/{vertex}/subtasks/0/metrics")[1]}
    assert {"Map.kind.late.seen", "Map.depth", "numRecordsOut"} <= metrics
    asked = f"{path}/vertices/{vertex}/metrics?get=0.Map.kind.late.seen,0.Map.depth"
    assert client.ask("GET", asked)[1] == [
        {"id": "0.Map.kind.late.seen", "value": "100"},
        {"id": "0.Map.depth", "value": "7"},
    ]
    assert client.ask("PATCH", path) == (202, {})
    gate.set()
    client.until(f"{path}/status", lambda body: body["status"] == "CANCELED")
    assert job.get_job_status().result() is JobStatus.CANCELED
    page = client.ask("GET", f"{path}/picture")[1]
    assert (page["state"], page["can-command"]) == ("CANCELED", False)


@pytest.mark.parametrize("parallelism", [1, 2])
def test_rows_of_columns_are_told_beside_their_batches(parallelism, capfd):
    """Whoever takes them, in the same task or in another one, they count once."""
    env = environment().set_parallelism(parallelism)
    numbers = env.from_collection([(number % 3, number) for number in range(100)])
    high = numbers.as_columns("k bigint, n bigint", max_rows=10)
    high = high.filter(lambda batch: pc.greater(batch["n"], 39)).name("High")
    high.key_by("k").aggregate(n=sum_("n")).as_records().filter(lambda record: False).print()
    high.select("n").as_records().filter(lambda record: False).print()
    job = env.execute_async("numbers")
    client = Client(link_of(capfd))
    job.get_job_execution_result().result()
    page = client.ask("GET", f"/jobs/{client.job_id}/picture")[1]
    operators = {each["name"]: each for vertex in page["vertices"] for each in vertex["operators"]}
    flows = {
        name: [operators[name][key] for key in ("records_in", "rows_in", "records_out", "rows_out")]
        for name in ("AsColumns", "High", "Aggregate")
    }
    assert flows["AsColumns"] == [100, None, 10, 100] and flows["High"] == [10, 100, 6, 60]
    assert flows["Aggregate"][1] == 60 and flows["Aggregate"][3] >= 18
    totals = dict.fromkeys(("rows_in", "rows_out"), 0)
    for vertex in page["vertices"]:
        for name in totals:
            totals[name] += vertex["totals"][name]
            assert len(vertex["history"][name]) == len(vertex["history"]["time"])
    assert totals == {"rows_in": 60, "rows_out": 60}, "of what tasks sent each other"
    (aggregate,) = [each["id"] for each in page["vertices"] if "Aggregate" in each["name"]]
    asked = f"/jobs/{client.job_id}/vertices/{aggregate}/metrics?get=0.numRowsIn,0.Aggregate.numRowsIn"
    told = client.ask("GET", asked)[1]
    assert len({each["value"] for each in told}) == 1 and len(told) == 2
    if parallelism == 1:
        assert told[0]["value"] == "60"


def test_stop_with_a_savepoint(gate, capfd, tmp_path):
    job = begin(environment())
    client = Client(link_of(capfd))
    path = f"/jobs/{client.job_id}"
    client.until(f"{path}/status", lambda body: body["status"] == "RUNNING")
    client.until(f"{path}/picture", lambda page: page["tasks"]["RUNNING"] == page["subtask-count"])
    status, body = client.ask("POST", f"{path}/stop", {"targetDirectory": str(tmp_path), "drain": True})
    assert status == 202
    gate.set()
    asked = f"{path}/savepoints/{body['request-id']}"
    done = client.until(asked, lambda body: body["status"]["id"] == "COMPLETED")
    operation = done["operation"]
    assert "location" in operation or "failure-cause" in operation  # it may have come to its end before it
    job.get_job_execution_result().result()


@pytest.mark.parametrize("kind", ["CONFIGURED", "FULL"])
def test_a_checkpoint_is_taken_when_somebody_asks(kind, gate, capfd, tmp_path):
    env = environment(**{"execution.checkpointing.dir": str(tmp_path)})
    numbers = DataGeneratorSource(lambda number: number, 10**9, 500)
    env.from_source(numbers, WatermarkStrategy.no_watermarks(), "numbers").filter(lambda number: False).print()
    job = env.execute_async("numbers")
    client = Client(link_of(capfd))
    path = f"/jobs/{client.job_id}"
    client.until(f"{path}/picture", lambda page: page["tasks"]["RUNNING"] == page["subtask-count"])
    status, body = client.ask("POST", f"{path}/checkpoints", {"checkpointType": kind})
    assert status == 202
    asked = f"{path}/checkpoints/{body['request-id']}"
    done = client.until(asked, lambda body: body["status"]["id"] == "COMPLETED")
    assert done["operation"] == {"checkpointId": 1}
    latest = client.until(f"{path}/checkpoints", lambda body: body["counts"]["completed"])["latest"]["completed"]
    assert (latest["id"], latest["is_savepoint"]) == (1, False)
    job.cancel()


def test_prometheus_and_lines_of_json(gate, capfd, tmp_path):
    path = tmp_path / "metrics.jsonl"
    reporters = {
        "metrics.reporter.prom.factory.class": "prometheus",
        "metrics.reporter.lines.factory.class": "json",
        "metrics.reporter.lines.path": str(path),
    }
    job = begin(environment(**reporters))
    client = Client(link_of(capfd))
    line = re.compile(r'^flink_taskmanager_job_task_operator_kind_seen\{.*kind="late".*\} 100$', re.MULTILINE)
    for _ in range(20_000):
        with contextlib.closing(http.client.HTTPConnection(client.host, client.port, timeout=10)) as connection:
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
        if line.search(text):
            break
        threading.Event().wait(0.01)
    assert line.search(text), text
    of_program = dict(re.findall(r"^flink_jobmanager_Status_(\w+)\{host=\"[^\"]+\"\} (\S+)$", text, re.MULTILINE))
    for name in ("CPU_Load", "CPU_Time", "Memory_Resident", "Threads_Count", "Files_Open"):
        assert float(of_program[f"Process_{name}"]) >= 0
    assert float(of_program["Python_GarbageCollector_Count"]) > 0
    asked = "Status.Process.Threads.Count"
    assert int(client.ask("GET", f"/jobmanager/metrics?get={asked}")[1][0]["value"]) > 1
    assert client.ask("GET", "/health") == (200, client.ask("GET", "/health/live")[1])
    gate.set()
    job.get_job_execution_result().result()
    assert any(json.loads(each)["name"] == "numRestarts" for each in path.read_text().splitlines())


def test_a_job_without_it_serves_nothing(capfd):
    before = threading.active_count()
    env = environment(**{"rest.enabled": "false"})
    env.from_collection([1]).print()
    env.execute("quiet")
    assert "can be looked at" not in capfd.readouterr().err and threading.active_count() == before


def test_the_token_of_tools_comes_from_a_file_of_ones_own(gate, capfd, tmp_path):
    file = tmp_path / "token"
    file.write_text("a-token-of-a-test\n")
    file.chmod(0o644)
    with pytest.raises(ValueError, match="rest.token-file: .* in a file of your own with mode 600"):
        begin(environment(**{"rest.token-file": str(file)}))
    file.chmod(0o600)
    with pytest.raises(ValueError, match="not both"):
        begin(environment(**{"rest.token-file": str(file), "rest.token": "another-token-of-a-test"}))
    job = begin(environment(**{"rest.token-file": str(file)}))
    link = link_of(capfd)
    assert "a-token-of-a-test" not in link
    client = Client(link)
    client.token = "a-token-of-a-test"
    assert client.ask("PATCH", f"/jobs/{client.job_id}")[0] == 202
    gate.set()
    with pytest.raises(JobCanceledError):
        job.get_job_execution_result().result()


@pytest.mark.filterwarnings("ignore:these settings have no effect")
def test_secrets_leave_the_program_by_no_path(gate, capfd):
    env = environment(**{"s3.secret-key": "12345x", "fs.azure.account.key": "12345x", "http-headers": "12345x"})
    env.get_config().set_global_job_parameters({"airport": "JFK", "db.password": "12345x"})
    job = begin(env)
    client = Client(link_of(capfd))
    path = f"/jobs/{client.job_id}"
    asked = [f"{path}/config", f"{path}/jobmanager/config", "/jobmanager/config", f"{path}/picture", path]
    answers = {each: client.ask("GET", each) for each in asked}
    assert {status for status, _ in answers.values()} == {200}
    assert "12345x" not in json.dumps(answers)
    shown = answers[f"{path}/config"][1]["execution-config"]["user-config"]
    assert shown == {"airport": "JFK", "db.password": "******"}
    entries = {each["key"]: each["value"] for each in answers[f"{path}/jobmanager/config"][1]}
    assert entries["s3.secret-key"] == entries["fs.azure.account.key"] == entries["http-headers"] == "******"
    gate.set()
    job.get_job_execution_result().result()


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("rest.port", "80-70", "no range of ports"),
        ("rest.token", "short", "16 printable"),
        ("metrics.reporter.x.factory.class", "other", "x.factory.class is one of"),
        ("metrics.reporter.x.factory.class", "json", "x.path is missing"),
    ],
)
def test_wrong_settings_are_said_at_once(key, value, text):
    with pytest.raises(ValueError, match=text):
        environment(**{key: value}).from_collection([1]).print()
        env = environment(**{key: value})
        env.from_collection([1]).print()
        env.execute()


# ---- a page that nobody has asked for


@pytest.fixture
def watched(monkeypatch):
    """Somebody sits before the program, who has said nothing of a page."""
    monkeypatch.setattr("flinkbuf.common.web_options._is_interactive", lambda: True)
    monkeypatch.setattr(serving, "_said", set())
    close_servers()
    yield
    close_servers()


def no_port(monkeypatch):
    def refuse(*_):
        raise OSError("jobs cannot be served here: planted; set rest.port")

    monkeypatch.setattr("flinkbuf.web.server._bound", refuse)


def no_aiohttp(monkeypatch):
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    monkeypatch.delitem(sys.modules, "flinkbuf.web.server")


def no_start(monkeypatch):
    async def fail(_):
        raise ZeroDivisionError("planted")

    monkeypatch.setattr("aiohttp.web.AppRunner.setup", fail)


PLANTED = [
    (no_port, OSError, "planted; set rest.port"),
    (
        no_aiohttp,
        ImportError,
        r"aiohttp, which cannot be imported .*pip install 'flinkbuf\[web\]', or set rest.enabled",
    ),
    (no_start, RuntimeError, "ZeroDivisionError: planted; rest.enabled: false"),
]


@pytest.mark.parametrize(("plant", "kind", "text"), PLANTED)
def test_a_page_that_nobody_has_asked_for_stops_no_job(plant, kind, text, watched, monkeypatch, caplog, capfd):
    plant(monkeypatch)
    caplog.set_level("INFO", "flinkbuf")
    for number in range(2):
        results = []
        env = environment(**{"rest.enabled": "auto"})
        env.from_collection([1, 2]).add_sink(results.append)
        env.execute(f"without {number}")
        assert results == [1, 2]
    (warning,) = [each for each in caplog.records if "no page" in each.message]
    assert warning.levelname == ("INFO" if kind is ImportError else "WARNING") and re.search(text, warning.message)
    assert warning.exc_info is None, "plain"
    assert "can be looked at" not in capfd.readouterr().err and not serving._servers


@pytest.mark.parametrize("asked", [{"rest.enabled": "true"}, {"rest.port": "0"}, {"rest.bind-address": "127.0.0.1"}])
@pytest.mark.parametrize(("plant", "kind", "text"), PLANTED)
def test_one_that_was_asked_for_is_missed_before_the_job_begins(plant, kind, text, asked, watched, monkeypatch):
    plant(monkeypatch)
    results = []
    env = environment(**{"rest.enabled": "auto", **asked})
    env.from_collection([1, 2]).add_sink(results.append)
    with pytest.raises(kind, match=text):
        env.execute()
    assert results == []


def test_a_port_that_is_taken_is_said(watched):
    with contextlib.closing(JobServer()) as taken:
        env = environment(**{"rest.enabled": "auto", "rest.port": str(taken.port)})
        env.from_collection([1]).print()
        with pytest.raises(OSError, match=f"port {taken.port}: .*set rest.port and rest.bind-address"):
            env.execute()


def test_a_page_that_can_be_is_there(watched, capfd):
    env = environment(**{"rest.enabled": "auto"})
    env.from_collection([1]).print()
    env.execute("shown")
    assert "job 'shown' can be looked at" in capfd.readouterr().err


def test_the_token_does_not_stay_in_a_notebook(watched, capfd, monkeypatch):
    monkeypatch.setitem(sys.modules, "ipykernel", object())
    env = environment(**{"rest.enabled": "auto"})
    env.from_collection([1]).print()
    client = env.execute_async("shown")
    client.get_job_execution_result().result()
    said = capfd.readouterr().err
    assert f"/#/job/{client.get_job_id()}" in said and "token=" not in said
    assert "?token=" in client.page
