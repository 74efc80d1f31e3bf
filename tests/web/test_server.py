"""The server: who may read and who may change, over a real connection; one thread, and none after its end."""

import asyncio
import contextlib
import http.client
import itertools
import json
import os
import socket
import threading
import time

import pytest
from master_world import MasterWorld, pipeline

from flinkbuf.jobs.master.job_picture import PictureMaker
from flinkbuf.web.connections import Connections
from flinkbuf.web.json_lines import JsonLinesReporter
from flinkbuf.web.router import Answer
from flinkbuf.web.served_job import ServedJob
from flinkbuf.web.server import BODY_MAX, ENDED_MAX, JobServer, pieces_of
from flinkbuf.web.serving import ReporterConfig, WebConfig, _servers, check, close_servers, serve

JOB = "0b" * 16


class Job:
    """What a RunningJob is to those who serve it; its picture stays the same until it is told."""

    def __init__(self):
        self.world = MasterWorld(pipeline())
        self.world.start().register_all()
        self.world.all_report("INITIALIZING", "RUNNING")
        self.maker = PictureMaker(self.world.job)
        self.picture = self.maker.make(1000)
        self.canceled = 0

    def cancel(self):
        self.canceled += 1


@pytest.fixture
def job():
    return Job()


@pytest.fixture
def server(job):
    with contextlib.closing(JobServer()) as made:
        made.add(ServedJob(job))
        yield made


def ask(server, method, path, body=None, *, host=None, address="127.0.0.1", **headers):
    with contextlib.closing(http.client.HTTPConnection(address, server.port, timeout=10)) as connection:
        named = {"Host": host} if host else {}
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, {**named, **given})
        response = connection.getresponse()
        return response.status, response.headers, response.read()


def test_pictures_are_read_and_not_sent_twice(server, job):
    status, headers, body = ask(server, "GET", f"/jobs/{JOB}/picture")
    assert (status, json.loads(body)["state"]) == (200, "RUNNING")
    tag = headers["ETag"]
    assert ask(server, "GET", f"/jobs/{JOB}/picture", If_None_Match=tag)[0] == 304
    job.picture = job.maker.make(2000)
    assert ask(server, "GET", f"/jobs/{JOB}/picture", If_None_Match=tag)[0] == 200
    assert headers["X-Content-Type-Options"] == "nosniff" and headers["Cache-Control"] == "no-store"
    assert headers["Content-Type"] == "application/json; charset=UTF-8"


def test_who_has_no_token_changes_nothing(server, job):
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": server.token}):
        assert ask(server, "PATCH", f"/jobs/{JOB}", **headers)[0] == 401
    assert ask(server, "PATCH", f"/jobs/{JOB}?token=wrong")[0] == 401
    assert job.canceled == 0
    assert ask(server, "PATCH", f"/jobs/{JOB}", Authorization=f"Bearer {server.token}")[0] == 202
    assert ask(server, "PATCH", f"/jobs/{JOB}?token={server.token}")[0] == 202
    assert job.canceled == 2


def test_the_page_of_another_site_cannot_read_by_a_name_of_its_own(server):
    status, _, body = ask(server, "GET", "/jobs", host="evil.example:8081")
    assert status == 403 and b"evil.example" in body
    for host in ("localhost", "127.0.0.1", "[::1]:80", "x.localhost:1"):
        assert ask(server, "GET", "/jobs", host=host)[0] == 200


def test_beyond_the_loopback_reading_needs_the_token_too(job):
    with contextlib.closing(JobServer("0.0.0.0")) as server:
        server.add(ServedJob(job))
        assert ask(server, "GET", "/jobs")[0] == 401
        assert ask(server, "GET", "/metrics")[0] == 401
        assert ask(server, "GET", "/jobs", Authorization=f"Bearer {server.token}")[0] == 200
        assert ask(server, "GET", "/")[0] == 200, "the page itself says nothing"
        assert ask(server, "GET", "/jobs", host="its.name", Authorization=f"bearer {server.token}")[0] == 200
        assert server.link(JOB) == f"{server.address}/?token={server.token}#/job/{JOB}"


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/nothing", None, 404),
        ("PUT", "/jobs", None, 405),
        ("POST", f"/jobs/{JOB}/stop", b"{", 400),
        ("POST", f"/jobs/{JOB}/stop", b"[1]", 400),
        ("POST", f"/jobs/{JOB}/stop", b"\xff", 400),
        ("POST", f"/jobs/{JOB}/stop", b"[" * 60_000, 400),
        ("POST", f"/jobs/{JOB}/stop", b" " * (BODY_MAX + 1), 413),
        ("GET", "/static/../server.py", None, 404),
        ("GET", "/static/%2e%2e/server.py", None, 404),
        ("GET", "/static//etc/passwd", None, 404),
    ],
)
def test_bad_requests_get_flinks_error_bodies(method, path, body, status, server):
    found, _, text = ask(server, method, path, body, Authorization=f"Bearer {server.token}")
    assert found == status and isinstance(json.loads(text)["errors"][0], str)


def test_something_else_than_jobs_can_be_served():
    def respond(request):
        return Answer({"asked": [request.method, request.path, request.query]})

    with contextlib.closing(JobServer(respond=respond)) as server:
        status, headers, body = ask(server, "GET", "/jobs/x/picture?a=1&a=2")
        assert (status, json.loads(body)) == (200, {"asked": ["GET", "/jobs/x/picture", {"a": ["1", "2"]}]})
        assert "ETag" not in headers


def test_head_has_no_body(server):
    status, _, body = ask(server, "HEAD", "/jobs/overview")
    assert (status, body) == (200, b"")


def test_a_mistake_here_is_an_error_body_and_not_the_end(server, monkeypatch, caplog):
    def fail(*_):
        raise ZeroDivisionError("planted")

    monkeypatch.setattr("flinkbuf.web.server.answer_of", fail)
    status, _, body = ask(server, "GET", "/jobs")
    assert status == 500 and json.loads(body) == {"errors": ["Internal server error."]}
    assert "planted" in caplog.text
    monkeypatch.undo()
    assert ask(server, "GET", "/jobs")[0] == 200


def open_sockets():
    found = set()
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # that of the listing itself
            found.add(os.readlink(f"/proc/self/fd/{number}"))
    return {each for each in found if each.startswith("socket:")}


def test_after_its_end_nothing_is_left():
    before = set(threading.enumerate())
    sockets = open_sockets()
    server = JobServer()
    idle = socket.create_connection(("127.0.0.1", server.port))  # a client that says nothing keeps nobody
    server.close()
    server.close()
    idle.close()
    assert set(threading.enumerate()) == before
    assert open_sockets() == sockets
    with pytest.raises(ConnectionError):
        socket.create_connection(("127.0.0.1", server.port), timeout=5)


def test_ports_are_tried_in_their_order_and_a_taken_one_is_said():
    with contextlib.closing(JobServer()) as first:
        with contextlib.closing(JobServer(ports=(first.port, 0))) as second:
            assert second.port != first.port
        with pytest.raises(OSError, match=f"port {first.port}: .*set rest.port"):
            JobServer(ports=(first.port,))


# ---- a server that fails


@pytest.fixture
def nothing_left():
    """No thread and no socket."""
    threads, sockets = set(threading.enumerate()), open_sockets()
    yield
    assert set(threading.enumerate()) == threads
    assert open_sockets() == sockets


def test_what_keeps_it_from_its_start_is_raised(nothing_left, monkeypatch):
    async def fail(_):
        raise ZeroDivisionError("planted")

    monkeypatch.setattr("aiohttp.web.AppRunner.setup", fail)
    with pytest.raises(
        RuntimeError, match=r"jobs are not served at 127\.0\.0\.1, port \d+: ZeroDivisionError: planted"
    ):
        JobServer()


def test_a_start_that_takes_too_long_is_given_up(nothing_left, monkeypatch):
    async def wait(_):
        await asyncio.Event().wait()

    monkeypatch.setattr("aiohttp.web.AppRunner.setup", wait)
    monkeypatch.setattr("flinkbuf.web.server.START_WAIT_S", 0.01)
    with pytest.raises(RuntimeError, match=r"TimeoutError: it has not begun within 0\.01 s"):
        JobServer()


def test_a_system_without_threads_is_said(nothing_left, monkeypatch):
    def refuse(_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(RuntimeError, match="jobs are not served at .*can't start new thread"):
        JobServer()


def end_its_thread(server, monkeypatch):
    """Have a request end it; who has asked is hung up on."""

    def leave(*_):
        raise SystemExit("planted")

    with monkeypatch.context() as patch:
        patch.setattr("flinkbuf.web.server.answer_of", leave)
        with pytest.raises((http.client.HTTPException, ConnectionError)):
            ask(server, "GET", "/jobs")
    server._thread.join(10)


def test_a_server_whose_thread_has_died_holds_nobody(nothing_left, monkeypatch, caplog):
    server = JobServer()
    idle = socket.create_connection(("127.0.0.1", server.port), timeout=10)
    assert server.is_running
    end_its_thread(server, monkeypatch)
    assert not server.is_running
    assert f"jobs are not served at port {server.port} any more" in caplog.text and "planted" in caplog.text
    assert idle.recv(1) == b"", "whoever was connected is hung up on"
    idle.close()
    with pytest.raises(ConnectionError):
        socket.create_connection(("127.0.0.1", server.port), timeout=10)
    server.close()
    assert not server.is_running


def test_a_server_that_was_closed_does_not_run(server):
    server.close()
    assert not server.is_running


# ---- clients that are many, or do not read


def many(server, count):
    return [socket.create_connection(("127.0.0.1", server.port), timeout=10) for _ in range(count)]


def test_one_client_too_many_is_hung_up_on_and_the_others_are_answered(nothing_left, monkeypatch):
    monkeypatch.setattr("flinkbuf.web.server.CONNECTIONS_MAX", 3)
    with contextlib.closing(JobServer()) as server:
        clients = many(server, 3)
        (late,) = many(server, 1)
        with contextlib.suppress(ConnectionResetError):
            assert late.recv(1) == b""
        for each in clients:
            each.sendall(b"GET /jobs HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert each.recv(100).startswith(b"HTTP/1.1 200")
        clients.pop().close()
        for _ in range(10_000):  # there is room again as soon as the server has heard of it
            with contextlib.suppress(ConnectionError):
                assert ask(server, "GET", "/jobs")[0] == 200
                break
        else:
            raise AssertionError("there is no room again")
        for each in (late, *clients):
            each.close()


def large(request):
    return Answer("x" * (8 << 20) if request.path == "/large" else "small")


def ask_and_read_nothing(server, path="/large"):
    (client,) = many(server, 1)
    client.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    return client


def until(is_it):
    deadline = time.monotonic() + 10
    while not is_it():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def test_a_client_that_reads_nothing_is_hung_up_on(nothing_left, monkeypatch):
    monkeypatch.setattr("flinkbuf.web.server.SILENCE_S", 0.05)
    with contextlib.closing(JobServer(respond=large)) as server:
        silent = ask_and_read_nothing(server)
        until(lambda: server._connections.unsent_bytes > 0)
        until(lambda: not server._connections.open)
        got = 0
        with contextlib.suppress(ConnectionResetError):
            while data := silent.recv(1 << 20):
                got += len(data)
        assert got < 8 << 20
        silent.close()


def test_a_client_stays_as_long_as_something_moves():
    class Transport(asyncio.Transport):
        unsent, is_aborted = 1000, False

        def get_write_buffer_size(self):
            return self.unsent

        def abort(self):
            self.is_aborted = True

    async def look():
        made = Connections(asyncio.Protocol, 256, 3600)
        transport, client = Transport(), made()
        client.connection_made(transport)

        def is_aborted():
            """Whether it is by the time of the next look."""
            look, seen = client._timer._callback, client._timer._args
            client._timer.cancel()
            look(*seen)
            return transport.is_aborted

        assert not is_aborted(), "it has had no time yet"
        transport.unsent = 999
        assert not is_aborted(), "it has read a byte"
        client.data_received(b"x")
        assert not is_aborted(), "it has sent a byte"
        assert is_aborted()
        client.connection_lost(None)
        assert not made.open

    asyncio.run(look())


def test_answers_that_nobody_reads_are_bounded(nothing_left, monkeypatch):
    monkeypatch.setattr("flinkbuf.web.server.UNSENT_MAX", 10 << 20)
    with contextlib.closing(JobServer(respond=large)) as server:
        silent = [ask_and_read_nothing(server) for _ in range(8)]
        until(lambda: server._connections.unsent_bytes > 10 << 20)
        assert ask(server, "GET", "/small")[0] == 503
        assert server._connections.unsent_bytes <= 18 << 20
        for each in silent:
            each.close()
        until(lambda: ask(server, "GET", "/small")[0] == 200)


def test_after_each_answer_others_have_the_interpreter_for_as_long():
    times = []

    def respond(request):
        begin = time.perf_counter()
        time.sleep(0.02)
        times.append((begin, time.perf_counter()))
        return Answer("made")

    with contextlib.closing(JobServer(respond=respond)) as server:
        asking = [threading.Thread(target=ask, args=(server, "GET", "/jobs")) for _ in range(4)]
        for each in asking:
            each.start()
        for each in asking:
            each.join()
    assert len(times) == 4
    for (begin, end), (next_begin, _) in itertools.pairwise(times):
        assert next_begin >= end + (end - begin) - 0.001


def test_who_does_not_read_is_not_read(nothing_left):
    answered = []

    def respond(request):
        answered.append(request.path)
        return large(request)

    with contextlib.closing(JobServer(respond=respond)) as server:
        client = ask_and_read_nothing(server)
        until(lambda: server._connections.unsent_bytes > 0)
        client.settimeout(0.2)
        more, sent = b"GET /small HTTP/1.1\r\nHost: localhost\r\n\r\n" * 10_000, 0
        with pytest.raises(TimeoutError):
            while sent < 100 << 20:
                sent += client.send(more)
        assert answered == ["/large"]
        client.close()


def test_only_the_last_ended_jobs_are_kept(server, job):
    ended = []
    for number in range(ENDED_MAX + 5):
        other = Job()
        object.__setattr__(other.picture, "plan", type(job.picture.plan)(f"{number:032x}", "other", ()))
        served = ServedJob(other)
        server.add(served)
        served.end()
        ended.append(f"{number:032x}")
    jobs = list(server.cluster.jobs)
    assert JOB in jobs, "one that runs stays"
    assert jobs[-1] == ended[-1] and len(jobs) <= ENDED_MAX + 2 and ended[0] not in jobs


def test_json_comes_in_pieces_and_is_whole():
    rows = [[number, None, "x"] * 6 for number in range(1_000)]
    value = {"a": [{"b": list(range(100))}] * 3, "": [], "d": {"e": {"f": {"g": {"h": "ä\u2028"}}}}, "rows": rows}
    pieces = list(pieces_of(value))
    assert json.loads("".join(pieces)) == value and len(pieces) > 1_000
    assert max(map(len, pieces)) < 1_000
    assert len(list(pieces_of(rows[:10]))) == 1, "what is small is not divided"
    with pytest.raises(ValueError, match="not JSON compliant"):
        list(pieces_of({"x": float("nan")}))


# ---- one server for the jobs of a program


@pytest.fixture
def no_servers():
    close_servers()
    yield
    close_servers()


def test_jobs_that_are_configured_alike_share_a_server(no_servers):
    config = WebConfig()
    check(config)
    first, second = Job(), Job()
    served = [serve(each, config) for each in (first, second)]
    assert len(_servers) == 1 and served[0].link is not None
    (server,) = _servers.values()
    served[0].end()
    assert ask(server, "GET", f"/jobs/{JOB}/picture")[0] == 200, "its last picture stays"
    close_servers()
    assert not _servers


def test_a_server_whose_thread_has_died_is_replaced_and_its_links_lead_to_the_new_one(no_servers, job, monkeypatch):
    config = WebConfig()
    link = serve(job, config).link
    (failed,) = _servers.values()
    end_its_thread(failed, monkeypatch)
    check(config)
    (server,) = _servers.values()
    assert server is not failed and server.is_running
    assert server.link(JOB) == link and ask(server, "GET", f"/jobs/{JOB}/picture")[0] == 200
    check(config)
    assert list(_servers.values()) == [server]


def test_metrics_go_to_a_file_and_a_last_time_at_the_end(tmp_path, no_servers, job):
    path = tmp_path / "metrics.jsonl"
    config = WebConfig(False, reporters=(ReporterConfig("lines", str(path), 3_600_000),))
    served = serve(job, config)
    assert served.link is None and not _servers
    job.picture = job.maker.make(5000)
    served.end()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    found = {(each["scope"], each["name"]): each for each in lines}
    restarts = found["jobmanager.job", "numRestarts"]
    assert (restarts["value"], restarts["time"], restarts["labels"]["job_name"]) == (0, 5000, "pipeline")


def test_a_file_that_cannot_be_written_is_said_before_the_job_begins(tmp_path):
    with pytest.raises(FileNotFoundError):
        check(WebConfig(False, reporters=(ReporterConfig("lines", str(tmp_path / "no" / "file")),)))


def test_metrics_come_again_and_again(tmp_path, job):
    path = tmp_path / "metrics.jsonl"
    reporter = JsonLinesReporter(ServedJob(job), path, interval_ms=1)
    deadline = time.monotonic() + 10
    while path.stat().st_size == 0:
        assert time.monotonic() < deadline
    first = path.read_text().count('"numRestarts"')
    reporter.close()
    assert path.read_text().count('"numRestarts"') > first >= 1
