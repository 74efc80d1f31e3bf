"""Partitions over TLS: records arrive whole and unreadable on the way, and whoever shows no certificate, an expired
one or one of another authority is told so, on both sides, and disturbs nobody. Certificates are made with openssl."""

import os
import random
import socket
import ssl
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from support.servers.certificates import CAN_MAKE, make_certificates, openssl
from support.waiting import wait_until

from flinkbuf._core.io.dialer import Dialer
from flinkbuf._core.io.reactor import Reactor
from flinkbuf._core.wire.partition_manager import PartitionManager
from flinkbuf._core.wire.partition_server import PartitionServer
from flinkbuf.config import NetworkConfig, TlsConfig
from flinkbuf.errors import CancelTaskError, RemoteTransportError
from flinkbuf.network import ports
from flinkbuf.network.environment import NetworkEnvironment, RemoteChannel
from flinkbuf.network.partition import ResultPartitionID
from flinkbuf.network.tls_context import make_context, reason_of
from flinkbuf.network.tls_tunnel import TlsTunnel
from flinkbuf.records.record_reader import RecordReader
from flinkbuf.records.record_writer import RecordWriter
from flinkbuf.types.types import Types

pytestmark = pytest.mark.skipif(not CAN_MAKE, reason="the command openssl makes the certificates")

SECRET = bytes(range(32))
TYPE = Types.PRIMITIVE_ARRAY(Types.BYTE())


@pytest.fixture(scope="session")
def certificates(tmp_path_factory):
    return make_certificates(tmp_path_factory.mktemp("certificates"))


def environment(tls, auth=None, **options):
    return NetworkEnvironment(NetworkConfig(tls=tls, auth=auth, **options), num_segments=128)


def send(env, records, subpartitions=1):
    """Write records to a new partition in a thread of its own. Return its id and the thread."""
    partition_id = ResultPartitionID.random()
    partition = env.create_partition(partition_id, subpartitions)

    def write():
        with suppress(CancelTaskError, RemoteTransportError), RecordWriter(partition, TYPE, "rebalance") as writer:
            writer.emit_all(records)

    thread = threading.Thread(target=write)
    thread.start()
    return partition_id, thread


def receive(env, address, partition_id=None, subpartitions=1):
    partition_id = partition_id or ResultPartitionID.random()
    with env.create_gate([RemoteChannel(*address, partition_id, index) for index in range(subpartitions)]) as gate:
        return list(RecordReader(gate, TYPE))


def receive_one(env, address, partition_id, subpartition):
    with env.create_gate([RemoteChannel(*address, partition_id, subpartition)]) as gate:
        return list(RecordReader(gate, TYPE))


def exchange(reader, writer, records, address=None):
    partition_id, thread = send(writer, records)
    try:
        return receive(reader, address or writer.address, partition_id)
    finally:
        thread.join()


class Proxy:
    """Forwards bytes to an address and keeps what it saw; `cut` resets all connections."""

    def __init__(self, address):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address, self.to = self.listener.getsockname(), address
        self.seen, self.sockets, self.threads = [], [], []
        self.start(self.accept)

    def start(self, *call):
        self.threads.append(threading.Thread(target=call[0], args=call[1:]))
        self.threads[-1].start()

    def accept(self):
        while True:
            try:
                here, _ = self.listener.accept()
            except OSError:
                return
            there = socket.create_connection(self.to)
            self.sockets += [here, there]
            self.start(self.forward, here, there)
            self.start(self.forward, there, here)

    def forward(self, source, target):
        try:
            while data := source.recv(1 << 16):
                self.seen.append(data)
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def cut(self):
        for end in self.sockets:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            with suppress(OSError):  # the other side of it was first
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for thread in list(self.threads):
            thread.join()
        for end in self.sockets:
            end.close()


# ---- what arrives ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("auth", [None, SECRET])
def test_records_arrive_whole(certificates, auth):
    drawn = random.Random(1)
    records = [drawn.randbytes(drawn.choice([0, 1, 100, 40_000])) for _ in range(2000)] + [drawn.randbytes(5_000_000)]
    with environment(certificates.worker, auth) as there, environment(certificates.other, auth) as here:
        assert exchange(here, there, records) == records
        assert exchange(there, here, records) == records
        assert there._server.counters()["refused"] == here._server.counters()["refused"] == 0


@pytest.mark.parametrize("kind", ["sort-merge", "file", "mmap"])
def test_blocking_partitions_arrive_whole_any_number_of_times(certificates, kind):
    drawn = random.Random(2)
    records = [drawn.randbytes(drawn.choice([0, 1, 100, 40_000])) for _ in range(600)] + [drawn.randbytes(1_000_000)]
    kinds = {
        "sort_shuffle_min_parallelism": 1 if kind == "sort-merge" else 100,
        "blocking_shuffle_type": "file" if kind == "sort-merge" else kind,
    }
    partition_id = ResultPartitionID.random()
    with environment(certificates.worker, **kinds) as there, environment(certificates.other) as here:
        partition = there.create_partition(partition_id, 2, "BLOCKING")
        with RecordWriter(partition, TYPE, "rebalance") as writer:
            assert writer.emit_all(records) == len(records)
        for _ in range(2):
            found = [receive_one(here, there.address, partition_id, channel) for channel in range(2)]
            assert sorted(found) == sorted([records[0::2], records[1::2]])
        there.release_partition(partition_id)


def test_channels_share_a_connection_and_others_have_their_own(certificates):
    records = [bytes([number % 256]) * (number % 3000) for number in range(3000)]
    with environment(certificates.worker) as there:
        partition_id, thread = send(there, records, subpartitions=10)
        with environment(certificates.other, max_num_tcp_connections=3) as here:
            assert sorted(receive(here, there.address, partition_id, 10)) == sorted(records)
            assert here._client.counters()["connections"] == 3
        thread.join()


def test_nothing_can_be_read_on_the_way(certificates):
    text = b"do not read this"
    for tls in (None, certificates.worker):
        with environment(tls) as there, Proxy(there.address) as proxy:
            with environment(tls) as here:
                assert exchange(here, there, [text] * 1000, proxy.address) == [text] * 1000
            seen = b"".join(proxy.seen)
            assert (text in seen) == (tls is None)
            assert (b"\xba\xdc\x0f\xfe" in seen) == (tls is None)


def test_slow_reader_costs_no_memory(certificates):
    with environment(certificates.worker) as there, environment(certificates.other) as here:
        partition_id, thread = send(there, (bytes(30_000) for _ in range(2000)))
        with here.create_gate([RemoteChannel(*there.address, partition_id, 0)]) as gate:
            reader = iter(RecordReader(gate, TYPE))
            next(reader)
            time.sleep(0.3)
            assert there._server.counters()["buffers"] < 30
            assert sum(1 for _ in reader) == 1999
        thread.join()


def test_many_readers_come_at_once(certificates):
    with environment(certificates.worker, SECRET) as there:
        sent = [send(there, [bytes([index])] * 100) for index in range(12)]
        heard = {}

        def read(index):
            with environment(certificates.other, SECRET) as here:
                heard[index] = receive(here, there.address, sent[index][0])

        readers = [threading.Thread(target=read, args=(index,)) for index in range(12)]
        for thread in readers:
            thread.start()
        for thread in readers + [thread for _, thread in sent]:
            thread.join()
        assert heard == {index: [bytes([index])] * 100 for index in range(12)}


# ---- who is refused --------------------------------------------------------------------------------------------------


def refusal_of(tls, address, auth=None):
    """What a reader is told that is refused, or refuses."""
    with environment(tls, auth) as here, pytest.raises(RemoteTransportError) as caught:
        receive(here, address)
    text = str(caught.value)
    assert "{}:{}".format(*address) in text and "most likely lost" not in text and "still running" not in text
    return text


@pytest.fixture
def there(certificates):
    """A server that goes on serving whatever strangers do."""
    with environment(certificates.worker) as there, environment(certificates.other) as friend:
        assert exchange(friend, there, [b"before"]) == [b"before"]
        yield there
        assert exchange(friend, there, [b"after"]) == [b"after"]


@pytest.mark.parametrize(
    ("who", "told", "known"),
    [
        ("expired", "the peer refuses this side's certificate: it has expired", "certificate has expired"),
        ("stranger", "the peer refuses this side's certificate: it does not know the authority", "issuer certificate"),
    ],
)
def test_client_without_a_good_certificate_is_told(certificates, there, who, told, known):
    assert f"TLS: {told}" in refusal_of(getattr(certificates, who), there.address)
    wait_until(lambda: there._server.counters()["refused"] == 1)
    assert "connection with 127.0.0.1:" in there._server.last_refusal
    assert "TLS: the peer's certificate is refused" in there._server.last_refusal
    assert known in there._server.last_refusal


@pytest.mark.parametrize(
    ("who", "told", "known"),
    [
        ("expired", "certificate has expired", "the peer refuses this side's certificate: it has expired"),
        ("stranger", "issuer certificate", "this side's certificate: it does not know the authority that signed it"),
    ],
)
def test_server_without_a_good_certificate_is_refused(certificates, who, told, known):
    with environment(getattr(certificates, who)) as there:
        text = refusal_of(certificates.other, there.address)
        assert "TLS: the peer's certificate is refused" in text and told in text
        wait_until(lambda: there._server.counters()["refused"] == 1)
        assert known in there._server.last_refusal


def test_client_that_trusts_another_authority_refuses_the_server(certificates, there):
    assert "TLS: the peer's certificate is refused: " in refusal_of(certificates.truster, there.address)


def test_client_without_any_certificate_is_refused(certificates, there):
    context = make_context(certificates.other, False)
    bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    bare.check_hostname, bare.verify_mode = False, ssl.CERT_NONE
    for attempt, maximum in enumerate((ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3), start=1):
        bare.maximum_version = maximum
        with socket.create_connection(there.address, timeout=20) as plain, pytest.raises(ssl.SSLError):
            with bare.wrap_socket(plain) as wrapped:
                wrapped.recv(1)
        wait_until(lambda attempt=attempt: there._server.counters()["refused"] == attempt)
        assert "TLS: the peer shows no certificate" in there._server.last_refusal
    with socket.create_connection(there.address, timeout=20) as plain, context.wrap_socket(plain) as wrapped:
        assert wrapped.version() == "TLSv1.3"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_old_versions_of_tls_are_refused(certificates, there):
    context = make_context(certificates.other, False)
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1_1, ssl.TLSVersion.TLSv1_1
    with socket.create_connection(there.address, timeout=20) as plain, pytest.raises(ssl.SSLError):
        context.wrap_socket(plain)
    wait_until(lambda: there._server.counters()["refused"] == 1)
    assert "no version of TLS from 1.2 up" in there._server.last_refusal


@pytest.mark.parametrize("auth", [None, SECRET])
def test_client_of_tls_and_server_without_see_what_they_met(certificates, auth):
    with environment(None, auth) as there:
        said = refusal_of(certificates.other, there.address, auth)
        assert "the peer does not speak TLS: NetworkConfig(tls=...) must be set on both sides" in said
        wait_until(lambda: there._server.counters()["refused"] == 1)
        assert "TLS" in there._server.last_refusal


@pytest.mark.parametrize("auth", [None, SECRET])
def test_server_of_tls_and_client_without_see_what_they_met(certificates, auth):
    with environment(certificates.worker, auth) as there:
        with environment(None, auth) as here, pytest.raises(RemoteTransportError, match="speaks TLS"):
            receive(here, there.address)
        wait_until(lambda: there._server.counters()["refused"] == 1)
        assert "the peer does not speak TLS" in there._server.last_refusal


def test_wrong_secret_is_told_through_tls(certificates):
    with environment(certificates.worker, SECRET) as there:
        said = refusal_of(certificates.other, there.address, bytes(16))
        assert "refused by the peer: the client does not know the secret of the server" in said
        assert "connection with 127.0.0.1:" in there._server.last_refusal


def test_connection_that_cannot_be_made_names_its_peer(certificates):
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        address = nobody.getsockname()
    with environment(certificates.other) as here, pytest.raises(RemoteTransportError) as caught:
        receive(here, address)
    assert "connection with {}:{}: connecting failed: Connection refused".format(*address) in str(caught.value)


def test_peer_that_dies_is_named(certificates):
    with environment(certificates.worker) as there, Proxy(there.address) as proxy:
        partition_id, thread = send(there, (bytes(30_000) for _ in range(10_000)))
        with environment(certificates.other) as here:
            with here.create_gate([RemoteChannel(*proxy.address, partition_id, 0)]) as gate:
                reader = iter(RecordReader(gate, TYPE))
                next(reader)
                started = time.monotonic()
                proxy.cut()
                with pytest.raises(RemoteTransportError, match="most likely lost") as caught:
                    for _ in reader:
                        pass
                assert time.monotonic() - started < 20
                assert "connection with {}:{}: ".format(*proxy.address) in str(caught.value)
        thread.join()  # its producer is told, too


# ---- limits ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def tunnel(certificates):
    """A function that starts a tunnel with options. It returns the server and its address."""
    with Reactor() as reactor:
        manager = PartitionManager()
        tunnels = []

        def start(**options):
            server = PartitionServer(reactor, manager, None)
            listener = ports.listen("127.0.0.1", 0)
            tunnels.append(TlsTunnel(certificates.worker, reactor, server, Dialer(), listener, **options))
            return server, ("127.0.0.1", tunnels[-1].port)

        yield start
        for tunnel in tunnels:
            tunnel.stop_accepting()
        reactor.close()
        for tunnel in tunnels:
            tunnel.close()
            tunnel.close()
        manager.close()


def shake_hands(certificates, address):
    with socket.create_connection(address, timeout=20) as plain:
        with make_context(certificates.other, False).wrap_socket(plain) as wrapped:
            assert wrapped.cipher()


def test_who_stalls_or_drips_is_refused_in_time(certificates, tunnel):
    server, address = tunnel(handshake_timeout_ms=200)
    with socket.create_connection(address, timeout=20) as silent, socket.create_connection(address, timeout=20) as slow:
        shake_hands(certificates, address)
        try:
            for byte in b"\x16\x03\x01\x01\x00\x01\x00" + bytes(100):
                slow.sendall(bytes([byte]))
                time.sleep(0.01)
        except ConnectionError:
            pass
        assert silent.recv(100) == b""
        shake_hands(certificates, address)
    wait_until(lambda: server.counters()["refused"] == 2)
    assert "did not finish the handshake within 200 ms" in server.last_refusal


def test_strangers_at_once_keep_nobody_out(certificates, tunnel):
    server, address = tunnel(max_unproven=8)
    strangers = [socket.create_connection(address, timeout=20) for _ in range(60)]
    shake_hands(certificates, address)
    wait_until(lambda: server.counters()["refused"] >= 50)
    assert "too many handshakes at a time; this one had waited longest" in server.last_refusal
    shake_hands(certificates, address)
    for stranger in strangers:
        stranger.close()


def test_garbage_is_refused(certificates, tunnel):
    server, address = tunnel()
    drawn = random.Random(3)
    for start in (b"", b"\x16\x03\x01\x00\x20", b"\x16\x03\x03\x01\x00\x01\x00\x00\xfc\x03\x03"):
        for _ in range(20):
            with socket.create_connection(address, timeout=20) as stranger:
                try:
                    stranger.sendall(start + drawn.randbytes(drawn.randrange(300, 3000)))
                    while stranger.recv(1000):
                        pass
                except ConnectionError:
                    pass
    wait_until(lambda: server.counters()["refused"] == 60)
    shake_hands(certificates, address)


def test_flood_is_cut_off(certificates, tunnel):
    _, address = tunnel()
    with socket.create_connection(address, timeout=20) as stranger:
        with pytest.raises(ConnectionError):
            for _ in range(1000):
                stranger.sendall(bytes(1 << 20))
    shake_hands(certificates, address)


@pytest.mark.parametrize("start", [b"", b"\x16\x03\x01"])
@pytest.mark.parametrize("pause", [0, 0.1])
def test_half_open_handshake_is_refused(certificates, tunnel, start, pause):
    server, address = tunnel()
    with socket.create_connection(address, timeout=20) as stranger:
        stranger.sendall(start)
        time.sleep(pause)
        stranger.shutdown(socket.SHUT_WR)
        while stranger.recv(100):
            pass
    wait_until(lambda: server.counters()["refused"] == 1)
    assert "the peer closed the connection in the middle" in server.last_refusal


@pytest.mark.parametrize("error", [ssl.SSLEOFError, ssl.SSLZeroReturnError])
def test_both_errors_for_an_early_end_are_told_in_one_way(error):
    assert reason_of(error(ssl.SSL_ERROR_EOF, "EOF")) == "TLS: the peer closed the connection in the middle"


def test_peer_that_only_shakes_hands_is_served_and_goes(certificates, tunnel):
    server, address = tunnel()
    for _ in range(10):
        shake_hands(certificates, address)
    wait_until(lambda: server.counters()["connections"] == 0)
    assert server.counters()["refused"] == 0


# ---- the end ---------------------------------------------------------------------------------------------------------


def descriptors():
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="descriptors are counted in /proc")
def test_nothing_is_left_behind(certificates):
    def rounds(count):
        for _ in range(count):
            with environment(certificates.worker, SECRET) as there, environment(certificates.other, SECRET) as here:
                assert exchange(here, there, [b"x"] * 1000) == [b"x"] * 1000
                with environment(certificates.expired, SECRET) as stranger, pytest.raises(RemoteTransportError):
                    receive(stranger, there.address)

    rounds(2)
    before, threads = descriptors(), threading.active_count()
    rounds(10)
    assert descriptors() <= before and threading.active_count() == threads


def test_closing_does_not_wait_for_strangers(certificates):
    there, here = environment(certificates.worker), environment(certificates.other)
    with socket.create_server(("127.0.0.1", 0)) as mute, socket.create_connection(there.address) as silent:
        gate = here.create_gate([RemoteChannel(*mute.getsockname(), ResultPartitionID.random(), 0)])
        gate.request_partitions()
        time.sleep(0.1)
        started = time.monotonic()
        here.close()
        there.close()
        assert time.monotonic() - started < 20
        silent.settimeout(20)
        assert silent.recv(1) == b""
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(there.address, timeout=5)


def test_environment_that_nobody_closed_does_not_keep_the_process(certificates):
    tls = certificates.worker
    files = {name: str(getattr(tls, name)) for name in ("certificate", "key", "authority")}
    code = f"""
    import flinkbuf as fb
    tls = fb.network.TlsConfig(**{files!r})
    env = fb.NetworkEnvironment(fb.NetworkConfig(tls=tls))
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, timeout=60, cwd=Path(__file__).parents[2])


def test_environment_that_nobody_holds_ends_its_thread(certificates):
    before = threading.active_count()
    environment(certificates.worker)
    wait_until(lambda: threading.active_count() == before)


# ---- files -----------------------------------------------------------------------------------------------------------


def test_files_that_do_not_fit_are_named(certificates, tmp_path):
    worker, other = certificates.worker, certificates.other
    garbage, encrypted = tmp_path / "garbage.pem", tmp_path / "encrypted.key"
    garbage.write_text("not a certificate\n")
    openssl(f"pkcs8 -topk8 -in {worker.key} -out {encrypted} -passout pass:hidden")

    def files(**changes):
        values = {"certificate": worker.certificate, "key": worker.key, "authority": worker.authority, **changes}
        return TlsConfig(**values)

    for name in ("certificate", "key", "authority"):
        with pytest.raises(FileNotFoundError, match=f"tls.{name}: No such file or directory"):
            environment(files(**{name: tmp_path / "nowhere"}))
    for changes in ({"key": other.key}, {"key": encrypted}, {"certificate": garbage}, {"key": garbage}):
        with pytest.raises(ValueError, match="must be a certificate and its key, not encrypted, as PEM"):
            environment(files(**changes))
    with pytest.raises(ValueError, match=r"tls.authority .*garbage.pem must hold certificates as PEM"):
        environment(files(authority=garbage))


def test_port_that_is_taken_is_named(certificates):
    with environment(certificates.worker) as env:
        port = env.address[1]
        with pytest.raises(OSError, match=f"listening at 127.0.0.1:{port}: Address already in use"):
            environment(certificates.worker, data_port=str(port))
        with environment(certificates.worker, data_port=f"{port}-{port + 20}") as other:
            assert port < other.address[1] <= port + 20


def test_flinks_switch_turns_it_off(certificates):
    with environment(certificates.worker, data_ssl_enabled=False) as there, environment(None) as here:
        assert exchange(here, there, [b"plain"]) == [b"plain"]


def test_of_a_hosts_addresses_it_listens_at_the_one_that_others_ask_for(monkeypatch):
    found = [
        (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("::1", 0, 0, 0)),
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0)),
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    with ports.listen("localhost", 0) as listener:
        assert listener.getsockname()[0] == "127.0.0.1"
    if socket.has_ipv6:
        del found[1]
        with suppress(OSError), ports.listen("ip6-localhost", 0) as listener:
            assert listener.getsockname()[0] == "::1"
