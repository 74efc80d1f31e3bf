"""The control plane over sockets: who comes in, what arrives, and that nothing stays behind."""

import contextlib
import resource
import signal
import socket
import struct
import subprocess
import sys
import textwrap
import threading
import time

import pytest
from support.faults.fault_proxy import REQUESTS, FaultProxy
from support.faults.namespaces import linked_namespaces
from support.servers.certificates import CAN_MAKE, make_certificates
from support.waiting import wait_until

from flinkbuf.control import control_server, tcp_health
from flinkbuf.control.control_client import ControlClient
from flinkbuf.control.control_server import ControlServer, control_server_of
from flinkbuf.control.secure_link import MESSAGE_LIMIT, ServerLink
from flinkbuf.errors import RemoteTransportError

pytestmark = pytest.mark.usefixtures("nothing_is_left")


class Log:
    """A handler that keeps what it is told, by connection."""

    def __init__(self):
        self.told = []
        self.connections = []
        self.echoes = False

    def connected(self, connection):
        self.connections.append(connection)
        self.told.append("connected")

    def received(self, connection, payload):
        self.told.append(payload)
        if self.echoes:
            connection.send(payload)

    def disconnected(self, connection, reason):
        self.told.append(f"disconnected: {reason}")


@pytest.fixture(scope="session")
def certificates(tmp_path_factory):
    if not CAN_MAKE:
        pytest.skip("the command openssl makes the certificates")
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(params=["plain", "tls"])
def tls(request):
    """The files of the driver and of a worker."""
    if request.param == "plain":
        return None, None
    certificates = request.getfixturevalue("certificates")
    return certificates.worker, certificates.other


@pytest.fixture
def server(tls):
    opened = ControlServer("127.0.0.1", tls=tls[0])
    yield opened
    opened.close()


@pytest.fixture
def log(server):
    handler = Log()
    server.open("job", handler)
    return handler


@pytest.fixture
def connect(server, tls):
    """Make clients of the server, which leave at the end."""
    clients = []

    def make(group="job", secret=None, **options):
        secret = server.secret_of(group) if secret is None else secret
        clients.append(ControlClient.connect(server.address, group, secret, **{"tls": tls[1], **options}))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


def reason_why(client, seconds=10):
    """Why a client is told that its connection ended."""
    with pytest.raises(RemoteTransportError) as caught:
        while client.receive(seconds) is not None:
            pass
    return str(caught.value)


# ---- what arrives


def test_payloads_arrive_both_ways_in_order(log, connect):
    client = connect()
    payloads = [bytes([n % 256]) * n for n in range(300)] + [b"", b"x" * 5_000_000]
    for payload in payloads:
        client.send(payload)
    while len(log.told) < 1 + len(payloads):
        client.receive(0.05)
    assert log.told == ["connected", *payloads]
    for payload in payloads:
        log.connections[0].send(payload)
    assert [client.receive(5) for _ in payloads] == payloads


def test_handlers_run_on_one_thread_and_send_from_any(server, log, connect):
    threads = set()
    log.received = lambda connection, payload: threads.add(threading.current_thread().name)
    clients = [connect() for _ in range(3)]
    for client in clients:
        client.send(b"x")
    wait_until(lambda: len(log.connections) == 3 and threads)
    assert threads == {"flinkbuf-control"}

    def send_many(connection):
        for number in range(500):
            connection.send(b"%d" % number)

    senders = [threading.Thread(target=send_many, args=[connection]) for connection in log.connections]
    for sender in senders:
        sender.start()
    for client in clients:
        assert [client.receive(5) for _ in range(500)] == [b"%d" % number for number in range(500)]
    for sender in senders:
        sender.join()


def test_many_threads_send_at_once(log, connect):
    client = connect()

    def send_many(name):
        for number in range(300):
            client.send(b"%s %d" % (name, number))

    senders = [threading.Thread(target=send_many, args=[name]) for name in (b"a", b"b", b"c")]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    wait_until(lambda: len(log.told) == 901)
    for name in (b"a", b"b", b"c"):
        assert [said for said in log.told[1:] if said[:1] == name] == [b"%s %d" % (name, n) for n in range(300)]


def test_what_a_handler_sends_at_once_arrives(log, connect):
    log.connected = lambda connection: (connection.send(b"welcome"), log.connections.append(connection))
    assert connect().receive(5) == b"welcome"


def test_send_does_not_wait_for_a_driver_that_does_not_read(server, log, connect):
    client = connect()
    wait_until(lambda: log.connections)
    free = threading.Event()
    server.call_soon(free.wait)
    started = time.monotonic()
    client.send(b"x" * 30_000_000)
    assert client.flush(0.05) is False
    assert time.monotonic() - started < 20
    free.set()
    assert client.flush(10) is True
    wait_until(lambda: len(log.told) == 2)


def test_a_payload_that_is_too_long_is_not_sent(log, connect):
    client = connect()
    wait_until(lambda: log.connections)
    for end in (client, log.connections[0]):
        with pytest.raises(ValueError, match="at most 67108864 can be sent"):
            end.send(bytes(MESSAGE_LIMIT + 1))


def test_receive_returns_at_its_time_or_when_it_is_woken(log, connect):
    client = connect()
    started = time.monotonic()
    assert client.receive(0) is None
    assert client.receive(0.05) is None
    assert 0.04 < time.monotonic() - started < 20
    timer = threading.Timer(0.05, client.wake)
    timer.start()
    assert client.receive(30) is None
    timer.join()
    client.wake()
    assert client.receive(30) is None
    assert client.receive(0) is None
    log.connections[0].send(b"x")
    assert client.receive(30) == b"x"


def test_a_call_later_comes_on_the_servers_thread_unless_it_is_canceled(server):
    called = []
    server.call_later(0.02, lambda: called.append(threading.current_thread().name))
    server.call_later(0.01, called.append, "canceled").cancel()
    wait_until(lambda: called)
    assert called == ["flinkbuf-control"]


# ---- the end


def test_each_end_is_told_once(log, connect):
    client = connect()
    client.send(b"last words")
    client.close()
    client.close()
    wait_until(lambda: len(log.told) == 3)
    assert log.told == ["connected", b"last words", "disconnected: it went away without a word"]
    with pytest.raises(RemoteTransportError, match="the connection to the driver is closed"):
        client.send(b"x")
    with pytest.raises(RemoteTransportError, match="the connection to the driver is closed"):
        client.receive(0)
    client.wake()


def test_what_the_driver_said_last_is_heard_before_the_end(log, connect):
    client = connect()
    wait_until(lambda: log.connections)
    log.connections[0].send(b"x" * 3_000_000)
    log.connections[0].send(b"goodbye")
    log.connections[0].close()
    assert [client.receive(5), client.receive(5)] == [b"x" * 3_000_000, b"goodbye"]
    assert reason_why(client) == "the driver closed the connection"
    wait_until(lambda: len(log.told) == 2)
    assert log.told == ["connected", "disconnected: the driver closed it"]
    log.connections[0].send(b"dropped")
    log.connections[0].close()


def test_the_group_that_is_closed_hears_nothing_more_and_others_do(server, log, connect):
    others = Log()
    server.open("other", others)
    client, other = connect(), connect("other")
    wait_until(lambda: log.connections and others.connections)
    log.connections[0].send(b"goodbye")
    server.close_group("job")
    assert client.receive(5) == b"goodbye"
    assert reason_why(client) == "the driver closed the connection"
    with pytest.raises(
        RemoteTransportError, match="the job takes no clients of 'job' any more: it ended or began anew"
    ):
        connect()
    other.send(b"still here")
    wait_until(lambda: others.told == ["connected", b"still here"])
    assert log.told == ["connected"]
    server.close_group("job")
    server.open("job", log)
    connect()
    wait_until(lambda: log.told == ["connected", "connected"])


def test_a_server_that_closes_lets_last_words_out(server, log, connect):
    client = connect()
    wait_until(lambda: log.connections)
    log.connections[0].send(b"goodbye")
    server.close()
    assert server.is_closed
    assert client.receive(5) == b"goodbye"
    assert reason_why(client) == "the driver closed the connection"
    assert log.told == ["connected", "disconnected: the driver has stopped"]
    log.connections[0].send(b"x")
    server.close()


def test_a_server_does_not_wait_long_for_who_does_not_read(monkeypatch, server, log, connect):
    monkeypatch.setattr(control_server, "LAST_WORDS_S", 0.2)
    connect()
    wait_until(lambda: log.connections)
    log.connections[0].send(bytes(MESSAGE_LIMIT))
    started = time.monotonic()
    server.close()
    assert time.monotonic() - started < 20
    assert log.told == ["connected", "disconnected: the driver has stopped"]


def test_a_handler_can_close_the_server(server, log, connect):
    log.received = lambda connection, payload: server.close()
    client = connect()
    client.send(b"x")
    assert reason_why(client) == "the driver closed the connection"
    server.close()
    assert server.is_closed


def test_a_handler_that_fails_ends_its_connection_and_no_other(server, log, connect, caplog):
    def fail(connection, payload):
        if payload == b"bad":
            raise RuntimeError("planted")
        log.told.append(payload)

    log.received = fail
    good, bad = connect(), connect()
    bad.send(b"bad")
    assert reason_why(bad) == "the driver closed the connection"
    good.send(b"good")
    wait_until(lambda: b"good" in log.told)
    assert "disconnected: the driver failed to handle what it said" in log.told
    assert "planted" in caplog.text


def test_groups_open_when_their_first_member_comes(server, connect):
    made = {}
    server.on_unknown("exchange-", lambda group: made.setdefault(group, Log()) if group != "exchange-no" else None)
    connect("exchange-1")
    connect("exchange-1")
    connect("exchange-2")
    wait_until(lambda: [len(log.connections) for log in made.values()] == [2, 1])
    assert list(made) == ["exchange-1", "exchange-2"]
    for group in ("exchange-no", "job-1"):
        with pytest.raises(RemoteTransportError, match="takes no clients of"):
            connect(group)
    server.off_unknown("exchange-")
    connect("exchange-2")
    with pytest.raises(RemoteTransportError, match="takes no clients of"):
        connect("exchange-3")


def test_a_group_is_open_once(server, log):
    with pytest.raises(ValueError, match="the group 'job' is open already"):
        server.open("job", Log())


def test_a_maker_that_fails_refuses(server, connect, caplog):
    def fail(group):
        raise RuntimeError("planted")

    server.on_unknown("x", fail)
    with pytest.raises(RemoteTransportError):
        connect("x1")
    assert "planted" in caplog.text


# ---- who does not come in


def test_who_does_not_know_the_secret_is_refused(log, connect):
    with pytest.raises(RemoteTransportError, match="closed before both ends had proved themselves"):
        connect(secret=b"x" * 32)
    assert log.told == []


def test_a_secret_of_another_group_is_refused(server, log, connect):
    with pytest.raises(RemoteTransportError, match="closed before both ends"):
        connect("job", secret=server.secret_of("other"))
    assert ControlServer.secret_of(server, "job") == server.secret_of("job") != server.secret_of("other")


def raw(server):
    return socket.create_connection(server.address, 10)


def is_closed(connection, seconds=10):
    connection.settimeout(seconds)
    with contextlib.suppress(ConnectionError):
        while connection.recv(4096):
            pass
    return True


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\r\n\r\n", b"FBcp\0\2", b"FBcp\0\1\xff\xff", bytes(5000)])
def test_a_stranger_is_closed_at_once(server, log, said):
    with raw(server) as stranger:
        stranger.sendall(said)
        assert is_closed(stranger)


def test_a_flood_of_strangers_is_one_line_in_the_log(server, caplog):
    for _ in range(100):
        with socket.create_connection(server.address, timeout=10) as stranger:
            stranger.sendall(b"\x1b[2J who are you\n")
            with contextlib.suppress(ConnectionError):
                while stranger.recv(1000):
                    pass
    server.close()
    lines = caplog.text.strip().splitlines()
    assert len(lines) == 2 and "is refused" in lines[0] and "99 more like" in lines[1], lines
    assert "\x1b" not in caplog.text


def test_who_says_nothing_is_closed_in_time(monkeypatch, server, log):
    monkeypatch.setattr(control_server, "GREETING_TIMEOUT_S", 0.2)
    with raw(server) as stranger:
        started = time.monotonic()
        assert is_closed(stranger)
        assert 0.1 < time.monotonic() - started < 20


def test_who_speaks_byte_by_byte_is_closed_in_time(monkeypatch, server, log):
    monkeypatch.setattr(control_server, "GREETING_TIMEOUT_S", 0.3)
    with raw(server) as stranger:
        started = time.monotonic()
        with contextlib.suppress(ConnectionError):
            for byte in b"FBcp\0\1\x0f\0" + bytes(1000):
                stranger.sendall(bytes([byte]))
                time.sleep(0.02)
        assert time.monotonic() - started < 15


def test_of_too_many_strangers_the_one_that_waited_longest_goes(monkeypatch, server, log, connect):
    monkeypatch.setattr(control_server, "STRANGERS_MAX", 3)
    with contextlib.ExitStack() as stack:
        strangers = []
        for number in range(5):
            strangers.append(stack.enter_context(raw(server)))
            count = min(number + 1, 3)
            wait_until(lambda count=count: len(server._strangers) == count)
        assert is_closed(strangers[0]) and is_closed(strangers[1])
        connect().send(b"x")
        assert is_closed(strangers[2])
        wait_until(lambda: log.told == ["connected", b"x"])
        assert len(server._strangers) == 2


def test_strangers_leave_the_process_most_of_its_files(monkeypatch, server, log):
    monkeypatch.setattr(control_server.resource, "getrlimit", lambda kind: (40, 40))
    with contextlib.ExitStack() as stack:
        strangers = [stack.enter_context(raw(server)) for _ in range(60)]
        assert is_closed(strangers[49])
        assert len(server._strangers) == 10


def test_a_client_that_is_reset_before_it_was_greeted_comes_again():
    """As one that a flood of strangers drove out."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            first, _ = listener.accept()
            first.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            first.close()
            second, _ = listener.accept()
            link = ServerLink(bytes(32), lambda group: b"secret", lambda group: True)
            with second:
                while not link.is_open:
                    second.sendall(link.take_output())
                    link.receive(second.recv(4096))
                second.sendall(link.take_output() + link.frame(b"welcome"))
                second.recv(1)

        thread = threading.Thread(target=serve)
        thread.start()
        client = ControlClient.connect(listener.getsockname(), "job", b"secret")
        assert client.receive(5) == b"welcome"
        client.close()
        thread.join()


def test_a_frame_that_was_changed_ends_the_connection(log, connect, caplog):
    client = connect()
    wait_until(lambda: log.connections)
    frame = client._link.frame(b"payload")
    with client._lock:
        client._put(frame[:-1] + bytes([frame[-1] ^ 1]))
        client._push()
    assert reason_why(client) == "the driver closed the connection"
    wait_until(lambda: len(log.told) == 2)
    assert log.told[1].startswith("disconnected: control message 0 was changed on its way")
    assert "was changed on its way" in caplog.text


def test_a_frame_from_the_driver_that_was_changed_ends_the_connection(server, log, connect):
    client = connect()
    wait_until(lambda: log.connections)
    connection = log.connections[0]
    server.call_soon(lambda: connection._write(connection._link.frame(b"payload")[:-1] + b"?"))
    assert "was changed on its way" in reason_why(client)


# ---- out of reach


def test_a_driver_out_of_reach_says_what_to_open():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(RemoteTransportError) as caught:
        ControlClient.connect(("127.0.0.1", port), "job", b"s", hint="spark.flinkbuf.driver.port sets the port")
    says = str(caught.value)
    assert f"{socket.gethostname()} cannot reach the driver at 127.0.0.1:{port}: Connection refused" in says
    assert f"open TCP port {port} of 127.0.0.1 for them" in says
    assert says.endswith("spark.flinkbuf.driver.port sets the port")


def test_a_driver_without_a_name_says_what_to_open():
    with pytest.raises(RemoteTransportError, match=r"cannot reach the driver at nowhere\.invalid:5: .*open TCP port 5"):
        ControlClient.connect(("nowhere.invalid", 5), "job", b"s")


def test_what_accepts_and_says_nothing_is_given_up_in_time():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        started = time.monotonic()
        with pytest.raises(RemoteTransportError, match=r"nothing came within 0\.2 s that proves it to be the driver"):
            ControlClient.connect(silent.getsockname()[:2], "job", b"s", timeout_s=0.2)
        assert time.monotonic() - started < 20


def test_of_several_ports_the_first_free_one_is_taken():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"listening at 127.0.0.1:{port}: Address already in use"):
            ControlServer("127.0.0.1", ports=[port])
        with pytest.raises(OSError, match="none of the 2 ports of spark.flinkbuf.driver.port can be listened at"):
            ControlServer("127.0.0.1", ports=[port, port])
        opened = ControlServer("127.0.0.1", "driver.example", ports=[port, 0])
        assert opened.address[0] == "driver.example" and opened.address[1] != port
        opened.close()
    with pytest.raises(ValueError, match=r"spark\.flinkbuf\.driver\.port names no port"):
        ControlServer("127.0.0.1", ports=[])


# ---- TLS


def test_only_one_end_with_tls_is_told_so(certificates):
    for ours, theirs in ((certificates.worker, None), (None, certificates.worker)):
        with control_server_of(tls=ours) as server:
            server.open("job", Log())
            with pytest.raises(RemoteTransportError, match=r"NetworkConfig\(tls=...\) must be set on both sides"):
                ControlClient.connect(server.address, "job", server.secret_of("job"), tls=theirs)


@pytest.mark.parametrize("who", ["expired", "stranger", "truster"])
def test_a_certificate_that_is_not_good_is_refused(certificates, who):
    with control_server_of(tls=certificates.worker) as server:
        log = Log()
        server.open("job", log)
        with pytest.raises(RemoteTransportError, match="TLS: .*certificate"):
            ControlClient.connect(server.address, "job", server.secret_of("job"), tls=getattr(certificates, who))
        assert log.told == []


def test_nothing_can_be_read_on_the_way(certificates):
    for tls in (None, certificates.worker):
        seen = []
        watch = {REQUESTS: lambda number, seen=seen: lambda data: (seen.append(data), [data])[1]}
        with control_server_of(tls=tls) as server, FaultProxy(server.address, watch) as proxy:
            log = Log()
            server.open("job", log)
            client = ControlClient.connect(proxy.address, "job", server.secret_of("job"), tls=tls)
            client.send(b"a secret of the user")
            wait_until(lambda told=log.told: len(told) == 2)
            client.close()
            assert (b"a secret of the user" in b"".join(seen)) == (tls is None)


# ---- many, and shared


def test_a_thousand_come_at_once():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 5000:
        pytest.skip("not enough descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 5000), hard))
    log = Log()
    log.echoes = True
    try:
        with control_server_of() as server:
            server.open("job", log)
            secret = server.secret_of("job")
            started = time.monotonic()
            clients = []

            def connect_many():
                for _ in range(100):
                    clients.append(ControlClient.connect(server.address, "job", secret, timeout_s=30))

            threads = [threading.Thread(target=connect_many) for _ in range(10)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            for number, client in enumerate(clients):
                client.send(b"%d" % number)
            assert [client.receive(30) for client in clients] == [b"%d" % number for number in range(1000)]
            assert time.monotonic() - started < 30
            assert len({connection.number for connection in log.connections}) == 1000
            for client in clients:
                client.close()
            wait_until(lambda: sum(str(each).startswith("disconnected") for each in log.told) == 1000)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_who_asks_for_the_same_shares_a_server():
    first, second = control_server_of(), control_server_of()
    other = control_server_of(advertised_host="localhost")
    assert first.server is second.server is not other.server
    first.close()
    first.close()
    assert not second.server.is_closed
    second.close()
    assert second.server.is_closed and not other.server.is_closed
    other.close()
    with control_server_of() as server:
        assert server is not first.server


def test_two_hundred_servers_leave_nothing():
    for _ in range(200):
        with control_server_of() as server:
            log = Log()
            server.open("job", log)
            client = ControlClient.connect(server.address, "job", server.secret_of("job"))
            client.send(b"x")
            client.close()


def test_a_worker_that_is_killed_is_known_at_once(server, tls):
    log = Log()
    server.open("job", log)
    code = f"""
        from pathlib import Path
        from flinkbuf.config import TlsConfig
        from flinkbuf.control.control_client import ControlClient
        PosixPath = Path
        client = ControlClient.connect({server.address!r}, "job", {server.secret_of("job")!r}, tls={tls[1]!r})
        client.send(b"here")
        client.receive(60)
    """
    worker = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)])
    wait_until(lambda: len(log.told) == 2)
    worker.send_signal(signal.SIGKILL)
    killed = time.monotonic()
    wait_until(lambda: len(log.told) == 3)
    assert time.monotonic() - killed < 20
    worker.wait()


def test_a_driver_that_is_killed_is_known_at_once():
    code = """
        import sys, time
        from flinkbuf.control.control_server import ControlServer
        class Handler:
            connected = lambda self, connection: connection.send(b"welcome")
        server = ControlServer("127.0.0.1")
        server.open("job", Handler())
        print(server.address[1], server.secret_of("job").hex(), flush=True)
        time.sleep(60)
    """
    driver = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True)
    port, secret = driver.stdout.readline().split()
    client = ControlClient.connect(("127.0.0.1", int(port)), "job", bytes.fromhex(secret))
    assert client.receive(10) == b"welcome"
    driver.send_signal(signal.SIGKILL)
    started = time.monotonic()
    assert reason_why(client)
    assert time.monotonic() - started < 20
    client.close()
    driver.wait()
    driver.stdout.close()


# ---- a machine that is gone


def test_idle_connections_are_probed(log, connect):
    client = connect()
    wait_until(lambda: log.connections)
    for end in (client._socket, log.connections[0]._transport.get_extra_info("socket")):
        assert end.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert [
            end.getsockopt(socket.IPPROTO_TCP, getattr(socket, name))
            for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT")
        ] == [2, 1, 3]
        assert not end.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)


def test_both_ends_give_up_a_machine_that_is_silent(monkeypatch, log, connect):
    monkeypatch.setattr(tcp_health, "PULSE_S", 0.05)
    monkeypatch.setattr(tcp_health, "has_unanswered", lambda connection: True)
    client, other = connect(), connect()
    wait_until(lambda: len(log.connections) == 2)
    silent = {other._socket.fileno()}
    monkeypatch.setattr(tcp_health, "is_silent", lambda connection: connection.fileno() in silent)
    assert reason_why(other) == "the driver's machine does not answer any more"
    other.close()
    silent.add(log.connections[0]._transport.get_extra_info("socket").fileno())
    assert reason_why(client)
    wait_until(lambda: "disconnected: its machine does not answer any more" in log.told)


def test_a_process_that_reads_nothing_is_not_silent(log, connect):
    """As one is whose interpreter lock is held for long: its kernel answers."""
    client = connect()
    wait_until(lambda: log.connections)
    log.connections[0].send(b"x" * 20_000_000)
    ours = log.connections[0]._transport.get_extra_info("socket")
    wait_until(lambda: tcp_health.has_unanswered(ours))
    deadline = time.monotonic() + 7
    while time.monotonic() < deadline:
        assert not tcp_health.is_silent(ours)
        time.sleep(0.1)
    assert client.receive(10) == b"x" * 20_000_000


HERE, THERE = "10.99.0.1", "10.99.0.2"


@pytest.mark.parametrize("is_idle", [True, False], ids=["idle", "sending"])
def test_both_ends_know_within_seconds_that_the_cable_was_pulled(monkeypatch, is_idle):
    for name, value in (("IDLE_S", 1), ("PROBES", 1), ("SILENCE_MS", 2_000), ("PULSE_S", 0.1)):
        monkeypatch.setattr(tcp_health, name, value)  # the shortest that the system has
    with contextlib.ExitStack() as opened:
        try:
            spaces = opened.enter_context(linked_namespaces(HERE, THERE))
        except (OSError, AttributeError) as error:
            pytest.skip(f"network namespaces are not permitted here, or `ip` is missing: {error}")
        server = spaces[HERE].run(ControlServer, HERE)
        opened.callback(server.close)
        log = Log()
        server.open("job", log)
        client = spaces[THERE].run(ControlClient.connect, server.address, "job", server.secret_of("job"))
        opened.callback(client.close, 0)
        assert client.local_host == THERE
        wait_until(lambda: log.connections)
        assert log.connections[0].peer_host == THERE
        spaces[HERE].ip("link", "set", "link0", "down")
        cut = time.monotonic()
        if not is_idle:
            client.send(b"x")
            log.connections[0].send(b"x")
        assert reason_why(client, 30)
        wait_until(lambda: len(log.told) == 2)
        assert time.monotonic() - cut < 25
