"""The server: who may read and who may change, over a real connection; one thread, and none after its end."""

import asyncio
import base64
import contextlib
import http.client
import itertools
import json
import os
import socket
import threading
import time

import pytest
from support.other_user import as_other_user, needs_root
from support.waiting import wait_until
from support.worlds.master_world import MasterWorld, pipeline

from flinkbuf.runtime.picture.job_picture import PictureMaker
from flinkbuf.web.connections import ConnectionLimits, Connections
from flinkbuf.web.json_lines import JsonLinesReporter
from flinkbuf.web.router import Answer
from flinkbuf.web.served_job import ServedJob
from flinkbuf.web.server import BODY_MAX, CONNECTIONS_MAX, ENDED_MAX, PEER_CONNECTIONS_MAX, JobServer, pieces_of
from flinkbuf.web.serving import ReporterConfig, WebConfig, _servers, check, close_servers, serve

JOB = "0b" * 16
TOKEN = "a-token-of-a-test"


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
    assert ask(server, "PATCH", f"/jobs/{JOB}?token={server.token}")[0] == 401, "an address is seen by too many"
    assert job.canceled == 0
    assert ask(server, "PATCH", f"/jobs/{JOB}", Authorization=f"Bearer {server.token}")[0] == 202
    assert job.canceled == 1


def basic(password, name=""):
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


def test_tools_that_know_no_tokens_send_it_as_a_password(job):
    with contextlib.closing(JobServer(token=TOKEN)) as server:
        server.add(ServedJob(job))
        path = f"/jobs/{JOB}"
        for wrong in (basic("wrong"), basic("", TOKEN), "Basic ?", "Basic " + base64.b64encode(b"\xff:").decode()):
            assert ask(server, "PATCH", path, Authorization=wrong)[0] == 401
        assert job.canceled == 0
        for given in (basic(TOKEN), basic(TOKEN, "ada"), basic(server.token), f"bearer {TOKEN}"):
            assert ask(server, "PATCH", path, Authorization=given)[0] == 202
        assert job.canceled == 4


def test_a_password_that_a_browser_adds_by_itself_changes_nothing_for_another_site(server, job):
    given = basic(server.token)
    for origin in ("http://evil.example", "null", f"http://127.0.0.1:{server.port + 1}"):
        status, _, body = ask(server, "PATCH", f"/jobs/{JOB}", Authorization=given, Origin=origin)
        assert status == 403 and b"another site" in body
    assert job.canceled == 0
    own = f"http://127.0.0.1:{server.port}"
    assert ask(server, "PATCH", f"/jobs/{JOB}", Authorization=given, Origin=own)[0] == 202


def test_what_links_bring_along_is_good_for_no_other_server(job):
    with contextlib.closing(JobServer(token=TOKEN)) as first:
        kept, port = first.token, first.port
        assert kept != TOKEN and TOKEN not in first.link(JOB)
    # The program died, and begins again at its port with its token; or somebody else has heard what the page sends.
    with contextlib.closing(JobServer(ports=(port,), token=TOKEN)) as second:
        second.add(ServedJob(job))
        assert ask(second, "PATCH", f"/jobs/{JOB}", Authorization=f"Bearer {kept}")[0] == 401
        assert job.canceled == 0
        assert ask(second, "PATCH", f"/jobs/{JOB}", Authorization=f"Bearer {TOKEN}")[0] == 202


def ask_quietly(*arguments, **more):
    """For the child of another user: the status alone."""
    return ask(*arguments, **more)[0]


@needs_root
def test_another_user_of_the_machine_reads_nothing_without_the_token(server, job):
    for path in ("/jobs", f"/jobs/{JOB}/exceptions", f"/jobs/{JOB}/picture", "/metrics", "/jobmanager/config"):
        assert ask(server, "GET", path)[0] == 200
        assert as_other_user(ask_quietly, server, "GET", path) == 401
        assert as_other_user(ask_quietly, server, "HEAD", path) == 401
    assert as_other_user(ask_quietly, server, "GET", "/") == 200, "the page itself says nothing"
    given = f"Bearer {server.token}"

    def ask_with_token():
        return ask(server, "GET", "/jobs", Authorization=given)[0]

    assert as_other_user(ask_with_token) == 200


def test_without_a_word_of_the_system_reading_needs_the_token(server, monkeypatch):
    monkeypatch.setattr("flinkbuf.web.connections.user_of", lambda client, server: None)
    assert ask(server, "GET", "/jobs")[0] == 401
    assert ask(server, "GET", "/jobs", Authorization=f"Bearer {server.token}")[0] == 200


def test_the_page_of_another_site_cannot_read_by_a_name_of_its_own(server):
    status, _, body = ask(server, "GET", "/jobs", host="evil.example:8081")
    assert status == 403 and b"evil.example" in body
    for host in ("localhost", "127.0.0.1", "[::1]:80", "x.localhost:1"):
        assert ask(server, "GET", "/jobs", host=host)[0] == 200


def test_beyond_the_loopback_reading_needs_the_token_too(job):
    with contextlib.closing(JobServer("0.0.0.0")) as server:
        server.add(ServedJob(job))
        assert ask(server, "GET", "/jobs")[0] == 401, "another site's name may lead here"
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


def get(client, path="/jobs"):
    """Ask on a connection that stays; return the whole answer."""
    client.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    answer = b""
    while not answer.endswith(b"}"):
        data = client.recv(10_000)
        assert data, answer
        answer += data
    return answer


def is_hung_up(client):
    with contextlib.suppress(ConnectionResetError):
        return client.recv(1) == b""
    return True


def test_one_client_too_many_takes_the_place_of_the_one_that_was_quiet_for_longest(nothing_left, monkeypatch):
    monkeypatch.setattr("flinkbuf.web.server.PEER_CONNECTIONS_MAX", 3)
    with contextlib.closing(JobServer()) as server:
        clients = many(server, 3)
        wait_until(lambda: len(server._connections.open) == 3)
        assert get(clients[0]).startswith(b"HTTP/1.1 200")
        (late,) = many(server, 1)
        assert get(late).startswith(b"HTTP/1.1 200")
        assert is_hung_up(clients[1])
        assert get(clients[0]).startswith(b"HTTP/1.1 200") and get(clients[2]).startswith(b"HTTP/1.1 200")
        for each in (late, *clients):
            each.close()


class _Transport(asyncio.Transport):
    """Of a connection from wherever a test says."""

    def __init__(self, host):
        super().__init__({"peername": (host, 1), "sockname": ("10.0.0.1", 80)})
        self.is_aborted, self.unsent = False, 0

    def get_write_buffer_size(self):
        return self.unsent

    def abort(self):
        self.is_aborted = True


def test_a_full_server_takes_from_those_who_have_most():
    async def look():
        made = Connections(asyncio.Protocol, ConnectionLimits(6, 4, 3600, 3600))

        def come(host):
            transport = _Transport(host)
            made().connection_made(transport)
            return transport

        crowd = [come("10.0.0.2") for _ in range(4)]
        single = [come("10.0.0.3"), come("10.0.0.4")]
        made.of(crowd[0]).data_received(b"GET ")
        made.of(crowd[1]).begin()
        late = come("10.0.0.5")
        assert [each.is_aborted for each in crowd] == [False, False, True, False]
        again = come("10.0.0.2")
        assert not any(each.is_aborted for each in (*single, late, again)) and len(made.open) == 6
        for each in list(made.open.values()):
            each.connection_lost(None)
        assert not made.open

    asyncio.run(look())


def test_slow_requests_of_one_user_keep_nobody_out(nothing_left):
    with contextlib.closing(JobServer()) as server:
        slow = many(server, CONNECTIONS_MAX)
        for each in slow:
            with contextlib.suppress(ConnectionError):  # it has gone already, for the next one
                each.sendall(b"GET /jobs HTTP/1.1\r\nHost: ")
        assert ask(server, "GET", "/jobs")[0] == 200
        assert len(server._connections.open) <= PEER_CONNECTIONS_MAX
        for each in slow:
            each.close()


@needs_root
def test_another_user_who_holds_all_that_he_gets_keeps_nobody_out(nothing_left):
    def hold():
        held = many(server, CONNECTIONS_MAX)
        for each in held:
            with contextlib.suppress(ConnectionError):
                each.sendall(b"GET /jobs HTTP/1.1\r\nHost: ")
        for _ in range(3):
            os.write(told[1], b".")
            os.read(go[0], 1)
        return len(held)

    with contextlib.closing(JobServer()) as server:
        own = many(server, 4)
        wait_until(lambda: len(server._connections.open) == 4)
        told, go = os.pipe(), os.pipe()
        answers = []
        holding = threading.Thread(target=lambda: answers.append(as_other_user(hold)))
        holding.start()
        for _ in range(3):
            os.read(told[0], 1)
            assert [get(each)[:12] for each in own] == [b"HTTP/1.1 200"] * 4, "what was there stays"
            assert ask(server, "GET", "/jobs")[0] == 200, "and who comes is let in"
            os.write(go[1], b".")
        holding.join()
        assert answers == [CONNECTIONS_MAX]
        for each in (*told, *go):
            os.close(each)
        for each in own:
            each.close()


def test_a_connection_that_says_nothing_is_hung_up_on(nothing_left, monkeypatch):
    monkeypatch.setattr("flinkbuf.web.server.REQUEST_S", 0.05)
    with contextlib.closing(JobServer()) as server:
        (client,) = many(server, 1)
        assert is_hung_up(client)
        client.close()


def test_a_request_that_comes_byte_by_byte_is_hung_up_on(nothing_left, monkeypatch):
    monkeypatch.setattr("flinkbuf.web.server.REQUEST_S", 0.05)
    with contextlib.closing(JobServer()) as server:
        (client,) = many(server, 1)
        client.sendall(b"GET /jobs HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
        with pytest.raises(ConnectionError):
            for _ in range(2000):
                client.sendall(b"x")
                time.sleep(0.005)
        client.close()


def test_a_second_request_has_to_be_whole_in_time_too(nothing_left, monkeypatch):
    monkeypatch.setattr("flinkbuf.web.server.REQUEST_S", 0.05)
    with contextlib.closing(JobServer()) as server:
        (client,) = many(server, 1)
        assert get(client).startswith(b"HTTP/1.1 200")
        time.sleep(0.1)
        assert get(client).startswith(b"HTTP/1.1 200"), "one that rests between two requests stays"
        client.sendall(b"GET /")
        while client.recv(1000):
            pass
        client.close()


def test_a_body_that_does_not_come_is_waited_for_so_long(nothing_left, monkeypatch):
    monkeypatch.setattr("flinkbuf.web.server.REQUEST_S", 0.05)
    with contextlib.closing(JobServer()) as server:
        (client,) = many(server, 1)
        head = f"POST /jobs/{JOB}/stop HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {server.token}\r\n"
        client.sendall(f"{head}Content-Length: 10\r\n\r\n".encode() + b"{")
        assert client.recv(100).startswith(b"HTTP/1.1 408")
        client.close()


def test_a_connection_rests_after_a_request_whose_body_came_late(nothing_left, monkeypatch):
    monkeypatch.setattr("flinkbuf.web.server.REQUEST_S", 0.2)
    with contextlib.closing(JobServer()) as server:
        (client,) = many(server, 1)
        head = f"POST /jobs/{JOB}/stop HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {server.token}\r\n"
        client.sendall(f"{head}Content-Length: 2\r\n\r\n".encode())
        wait_until(lambda: any(each.is_answered_now for each in server._connections.open.values()))
        client.sendall(b"{}")
        assert client.recv(10_000).startswith(b"HTTP/1.1 404")
        time.sleep(0.5)
        assert get(client).startswith(b"HTTP/1.1 200")
        client.close()


def test_what_comes_while_an_answer_is_made_is_bounded():
    async def look():
        made = Connections(asyncio.Protocol, ConnectionLimits(6, 4, 3600, 3600, unanswered_bytes=1000))
        transport = _Transport("10.0.0.2")
        client = made()
        client.connection_made(transport)
        client.data_received(b"x" * 10_000)
        client.begin()
        client.data_received(b"x" * 1000)
        assert not transport.is_aborted
        client.data_received(b"x")
        assert transport.is_aborted
        client.connection_lost(None)

    asyncio.run(look())


def test_a_flood_of_what_cannot_be_read_is_one_line_in_the_log(nothing_left, caplog):
    with contextlib.closing(JobServer()) as server:
        for _ in range(100):
            (client,) = many(server, 1)
            client.sendall(b"GET /\x1b[2J\xff HTTP/9.9\r\n\x1b]0;owned\x07: x\r\n\r\n")
            with contextlib.suppress(ConnectionError):
                while client.recv(1000):
                    pass
            client.close()
    lines = caplog.text.strip().splitlines()
    assert len(lines) == 2 and "cannot be read" in lines[0] and "99 more like" in lines[1], lines
    assert "\x1b" not in caplog.text


def test_a_flood_of_what_fails_is_one_traceback_in_the_log(nothing_left, monkeypatch, caplog):
    def fail(*_):
        raise ZeroDivisionError("planted")

    monkeypatch.setattr("flinkbuf.web.server.answer_of", fail)
    with contextlib.closing(JobServer()) as server:
        for _ in range(20):
            assert ask(server, "GET", "/jobs")[0] == 500
    assert caplog.text.count("Traceback") == 1 and "19 more like" in caplog.text


def large(request):
    return Answer("x" * (8 << 20) if request.path == "/large" else "small")


def ask_and_read_nothing(server, path="/large"):
    (client,) = many(server, 1)
    client.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    return client


def test_a_client_that_reads_nothing_is_hung_up_on(nothing_left, monkeypatch):
    monkeypatch.setattr("flinkbuf.web.server.SILENCE_S", 0.05)
    with contextlib.closing(JobServer(respond=large)) as server:
        silent = ask_and_read_nothing(server)
        wait_until(lambda: server._connections.unsent_bytes > 0)
        wait_until(lambda: not server._connections.open)
        got = 0
        with contextlib.suppress(ConnectionResetError):
            while data := silent.recv(1 << 20):
                got += len(data)
        assert got < 8 << 20
        silent.close()


def test_a_client_stays_as_long_as_something_moves():
    async def look():
        made = Connections(asyncio.Protocol, ConnectionLimits(256, 256, 3600, 3600))
        transport, client = _Transport("10.0.0.2"), made()
        transport.unsent = 1000
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
        wait_until(lambda: server._connections.unsent_bytes > 10 << 20)
        assert ask(server, "GET", "/small")[0] == 503
        assert server._connections.unsent_bytes <= 18 << 20
        for each in silent:
            each.close()
        wait_until(lambda: ask(server, "GET", "/small")[0] == 200)


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
        wait_until(lambda: server._connections.unsent_bytes > 0)
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
