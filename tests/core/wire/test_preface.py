"""Servers and clients with a secret, met by plain sockets: friends whose preface is written here a second time, from
its description alone, and strangers of every kind, who are told why and disturb nobody."""

import contextlib
import hmac
import os
import resource
import socket
import ssl
import struct
import threading

import pytest
from support.data.frames import Frame, FrameDecoder
from support.waiting import wait_until

from flinkbuf._core.io.reactor import Reactor
from flinkbuf._core.wire.partition_manager import PartitionManager
from flinkbuf._core.wire.partition_server import PartitionServer
from flinkbuf.config import NetworkConfig
from flinkbuf.errors import RemoteTransportError
from flinkbuf.network.environment import NetworkEnvironment, RemoteChannel
from flinkbuf.network.partition import ResultPartitionID
from flinkbuf.records.record_reader import RecordReader
from flinkbuf.records.record_writer import RecordWriter
from flinkbuf.types.types import Types

SECRET = bytes(range(32))
MAGIC = 0x66627566
HELLO, PROOF, REFUSAL = 1, 2, 3
CLIENT, SERVER = 1, 2
CHANNEL = bytes(range(16))


def message(kind, content, role=CLIENT, version=1):
    return struct.pack(">IIBBH", 12 + len(content), MAGIC, kind, role, version) + content


class Peer:
    """A client of the preface, and after it of frames."""

    def __init__(self, server):
        self.socket = socket.create_connection((server.host, server.port), timeout=20)
        self.hello = message(HELLO, struct.pack(">I", 0) + os.urandom(32))

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.socket.close()

    @property
    def address(self):
        return "{}:{}".format(*self.socket.getsockname())

    def say(self, data, piece=None):
        for start in range(0, len(data), piece or len(data)):
            self.socket.sendall(data[start : start + (piece or len(data))])

    def hear_exactly(self, size):
        data = b""
        while len(data) < size:
            got = self.socket.recv(size - len(data))
            if not got:
                raise EOFError(f"the stream ended {size - len(data)} bytes early")
            data += got
        return data

    def hear(self):
        """Return the next message: kind, content and all of its bytes."""
        header = self.hear_exactly(12)
        length, magic, kind, role, version = struct.unpack(">IIBBH", header)
        assert (magic, role, version) == (MAGIC, SERVER, 1) and 12 < length <= 212
        content = self.hear_exactly(length - 12)
        return kind, content, header + content

    def proof(self, secret, role, server_hello):
        label = {CLIENT: b"flinkbuf preface client", SERVER: b"flinkbuf preface server"}[role].ljust(24, b"\0")
        return hmac.digest(secret, label + self.hello + server_hello, "sha256")

    def prove(self, secret=SECRET, piece=None):
        """Say the preface. Return what was said: the proof goes with it."""
        self.say(self.hello, piece)
        kind, _, hello = self.hear()
        assert kind == HELLO
        proof = message(PROOF, self.proof(secret, CLIENT, hello))
        self.say(proof, piece)
        kind, content, _ = self.hear()
        if kind == REFUSAL:
            raise PermissionError(content.decode("ascii"))
        assert kind == PROOF and hmac.compare_digest(content, self.proof(SECRET, SERVER, hello))
        return self.hello + proof

    def is_served(self):
        """Whether the server answers a frame."""
        self.say(Frame("TaskEventRequest", receiver=CHANNEL).encode())
        decoder = FrameDecoder()
        frames = []
        while not frames:
            frames = decoder.feed(self.socket.recv(1 << 16))
        return frames[0].receiver == CHANNEL

    def refusal(self):
        """Read the refusal with which the stream ends, after a hello if there is one."""
        kind, content, _ = self.hear()
        if kind == HELLO:
            kind, content, _ = self.hear()
        assert kind == REFUSAL and self.socket.recv(1) == b""
        return content.decode("ascii")


@pytest.fixture
def serve():
    """A function that starts a server with a secret and options."""
    with Reactor() as reactor:
        manager = PartitionManager()

        def start(secret=SECRET, **options):
            return PartitionServer(reactor, manager, "127.0.0.1", secret=secret, **options)

        yield start
        reactor.close()
        manager.close()


def wait_for_refusals(server, count):
    wait_until(lambda: server.counters()["refused"] == count)


@pytest.fixture
def server(serve):
    """One that a friend uses all the time, and nobody disturbs."""
    server = serve()
    with Peer(server) as friend:
        friend.prove()
        yield server
        assert friend.is_served()
        with Peer(server) as other:
            other.prove()
            assert other.is_served()
    assert SECRET not in (server.last_refusal or "").encode("latin-1", "replace")


@pytest.mark.parametrize("piece", [None, 1, 7])
def test_who_knows_the_secret_is_served(server, piece):
    with Peer(server) as peer:
        peer.prove(piece=piece)
        assert peer.is_served()
        assert server.counters()["connections"] == 2
    assert server.counters()["refused"] == 0 and server.last_refusal is None


def test_wrong_secret_is_refused(server):
    with Peer(server) as peer:
        with pytest.raises(PermissionError, match="the client does not know the secret of the server"):
            peer.prove(bytes(32))
        assert peer.socket.recv(1) == b""
        assert server.last_refusal == (
            f"connection with {peer.address} refused: the client does not know the secret of the server: "
            "NetworkConfig(auth=...) differs between them"
        )
    assert server.counters()["refused"] == 1


def test_frames_before_the_proof_are_not_read(server):
    with Peer(server) as peer:
        peer.say(peer.hello + Frame("TaskEventRequest", receiver=CHANNEL).encode() * 10)
        assert "the client speaks plain Flink" in peer_refused_in_flink(peer)
    assert server.counters()["channels"] == 0


def peer_refused_in_flink(peer):
    """What a client of plain Flink reads: an error for the whole connection, then the end."""
    data = b""
    while got := peer.socket.recv(1 << 16):
        data += got
    if struct.unpack_from(">I", data, 4) == (MAGIC,):
        data = data[48:]  # the server's hello
    (frame,) = FrameDecoder().feed(data)
    assert frame.message == "ErrorResponse" and frame.receiver is None
    return frame.body.decode("latin-1")


def test_client_of_plain_flink_is_told_in_its_own_language(server):
    with Peer(server) as peer:
        peer.say(Frame("PartitionRequest", receiver=CHANNEL, partition=bytes(60), credit=2).encode())
        assert "the client speaks plain Flink and the server asks for proof" in peer_refused_in_flink(peer)
        wait_for_refusals(server, 1)
        assert f"connection with {peer.address} refused: the client speaks plain Flink" in server.last_refusal


def test_server_of_plain_flink_says_why_it_has_no_use_for_a_preface(serve):
    server = serve(secret=None)
    with Peer(server) as peer:
        peer.say(peer.hello)
        said = peer_refused_in_flink(peer)
        assert "a proof of a shared secret instead of a Flink frame: only one side has NetworkConfig(auth" in said
        assert f"connection with {peer.address}: frame at byte 0 of the stream: a proof" in server.last_refusal
    assert server.counters()["refused"] == 1
    with Peer(server) as peer:
        assert peer.is_served()


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "sent 47 45 54 20 2f 20 48 54 where the preface of flinkbuf was due"),
        (message(HELLO, bytes(99), version=2), "speaks version 2 of flinkbuf's preface, the server version 1"),
        (message(PROOF, bytes(32)), "sent message 2 of 44 bytes in role 1 where message 1 of 48 bytes was due"),
    ],
)
def test_whatever_else_comes_is_named(server, said, reason):
    with Peer(server) as peer:
        peer.say(said)
        assert reason in peer.refusal()
    wait_for_refusals(server, 1)
    assert reason in server.last_refusal


def test_client_of_tls_is_told_apart(server):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection((server.host, server.port), timeout=20) as plain:
        with pytest.raises(ssl.SSLError):
            context.wrap_socket(plain)
    wait_for_refusals(server, 1)
    assert "the client speaks TLS and the server does not" in server.last_refusal


def test_who_leaves_is_counted(server):
    for _ in range(20):
        Peer(server).socket.close()
    wait_for_refusals(server, 20)
    assert "before it proved that it knows the shared secret" in server.last_refusal
    wait_until(lambda: server.counters()["unproven"] == 0)


@pytest.fixture
def many_descriptors():
    """1,000 connections have 2,000 ends in this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 8192:
        pytest.skip(f"at most {hard} descriptors are allowed here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 8192), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_1000_friends_at_once_are_served(serve, many_descriptors):
    server = serve()
    peers = [Peer(server) for _ in range(1000)]
    hellos = []
    for peer in peers:
        peer.say(peer.hello)
    for peer in peers:
        hellos.append(peer.hear()[2])
    assert server.counters()["unproven"] == 1000
    for peer, hello in zip(peers, hellos, strict=True):
        peer.say(message(PROOF, peer.proof(SECRET, CLIENT, hello)))
    for peer in peers:
        assert peer.hear()[0] == PROOF
    assert server.counters()["connections"] == 1000 and server.counters()["refused"] == 0
    for peer in peers:
        peer.socket.close()


def test_1000_strangers_at_once_keep_nobody_out(serve, many_descriptors):
    server = serve(max_unproven=100)
    strangers = [Peer(server) for _ in range(1000)]
    with Peer(server) as friend:
        friend.prove()
        assert friend.is_served()
        wait_until(lambda: server.counters()["unproven"] <= 200)
        assert server.counters()["refused"] >= 900
        assert "too many connections wait to prove" in server.last_refusal
        assert friend.is_served()
    for stranger in strangers:
        stranger.socket.close()
    wait_until(lambda: server.counters()["unproven"] == 0)


def test_options_are_checked(serve):
    with pytest.raises(ValueError, match="a secret has at least 16 bytes, got 15"):
        serve(secret=bytes(15))
    with pytest.raises(ValueError, match="proof_timeout_ms must be at least 1, got 0"):
        serve(proof_timeout_ms=0)
    with pytest.raises(TypeError):
        serve(secret="a text that is long enough")


def test_closing_a_server_closes_those_who_wait(serve):
    server = serve()
    with Peer(server) as peer:
        wait_until(lambda: server.counters()["unproven"] == 1)
        server.close()
        assert peer.socket.recv(1) == b""
    with pytest.raises(RuntimeError, match="the partition server is closed"):
        server.last_refusal


# ---- clients ---------------------------------------------------------------------------------------------------------


class Impostor:
    """A server that accepts one connection after the other and does with each what `answer` does."""

    def __init__(self, answer):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.answer, self.failure = answer, None
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            connection.settimeout(20)
            with connection:
                with contextlib.suppress(OSError):
                    self.answer(connection)

    def __enter__(self):
        return self.listener.getsockname()

    def __exit__(self, *error):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()


def environment(secret=SECRET, **options):
    return NetworkEnvironment(NetworkConfig(auth=secret, **options), num_segments=64)


def send(env, records):
    """Write records to a new partition. Return its id."""
    partition_id = ResultPartitionID.random()
    with RecordWriter(env.create_partition(partition_id, 1), Types.STRING()) as writer:
        writer.emit_all(records)
    return partition_id


def receive(env, address, partition_id=None):
    channel = RemoteChannel(*address, partition_id or ResultPartitionID.random(), 0)
    with env.create_gate([channel]) as gate:
        return list(RecordReader(gate, Types.STRING()))


def refusal_of(address, secret=SECRET, **options):
    """What a reader is told whose client is not let in, or does not let itself in."""
    with environment(secret, **options) as env, pytest.raises(RemoteTransportError) as caught:
        receive(env, address)
    assert "{}:{}".format(*address) in str(caught.value) and "most likely lost" not in str(caught.value)
    return str(caught.value)


def test_records_travel_between_those_who_know_the_secret():
    records = [f"record {number}" for number in range(20_000)]
    with environment() as there, environment() as here:
        for _ in range(3):
            assert receive(here, there.address, send(there, records)) == records
        assert there._server.counters()["refused"] == 0


def test_reader_with_a_wrong_secret_is_told(server):
    said = refusal_of((server.host, server.port), bytes(16))
    assert "refused by the peer: the client does not know the secret of the server: NetworkConfig(auth=...)" in said


def test_reader_without_a_secret_is_told(server):
    said = refusal_of((server.host, server.port), None)
    assert "the client speaks plain Flink and the server asks for proof of a shared secret" in said


def test_reader_with_a_secret_refuses_a_server_without():
    with environment(None) as there, environment() as other:
        said = refusal_of(there.address)
        assert "the server speaks plain Flink and the client asks for proof of a shared secret" in said
        assert "a proof of a shared secret instead of a Flink frame" in there._server.last_refusal
        with environment(None) as plain:
            assert receive(plain, there.address, send(there, ["a"])) == ["a"]
        assert receive(other, other.address, send(other, ["b"])) == ["b"]


def hello_from(connection):
    data = b""
    while len(data) < 48:
        data += connection.recv(48 - len(data))
    return data


def linger(connection):
    while connection.recv(1 << 16):
        pass


def without_the_secret(connection):
    hello_from(connection)
    connection.sendall(message(HELLO, bytes(36), SERVER))
    connection.recv(100)
    connection.sendall(message(PROOF, bytes(32), SERVER))
    linger(connection)


def reflecting(connection):
    hello = hello_from(connection)
    connection.sendall(hello[:9] + bytes([SERVER]) + hello[10:])
    proof = connection.recv(44, socket.MSG_WAITALL)
    connection.sendall(proof[:9] + bytes([SERVER]) + proof[10:])
    linger(connection)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (without_the_secret, "the server does not know the secret of the client"),
        (reflecting, "the server does not know the secret of the client"),
        (lambda connection: connection.sendall(hello_from(connection)), "the client met a peer in its own role"),
        (lambda connection: (connection.sendall(b"SSH-2.0-OpenSSH_9.2p1\r\n"), linger(connection)), "another program"),
        (
            lambda connection: connection.sendall(message(REFUSAL, b"go\x1b[31m away", SERVER)),
            "refused by the peer: go?[31m away",
        ),
        (
            lambda connection: (connection.sendall(message(HELLO, bytes(40), SERVER, 2)), linger(connection)),
            "the server speaks version 2 of flinkbuf's preface, the client version 1",
        ),
        (lambda connection: hello_from(connection), "the server closed the connection before it proved"),
        (lambda connection: (connection.sendall(b"\x15\x03\x03\0\2\2\x46"), hello_from(connection)), "speaks TLS"),
    ],
)
def test_client_refuses_an_impostor(answer, reason):
    with Impostor(answer) as address:
        assert reason in refusal_of(address)


def test_client_asks_an_impostor_for_nothing():
    """What it wants to read is not for strangers."""
    said = []

    def listen(connection):
        said.append(hello_from(connection))
        connection.sendall(message(HELLO, bytes(36), SERVER))
        said.append(connection.recv(1000))
        connection.sendall(message(PROOF, bytes(32), SERVER))
        said.append(connection.recv(1000))

    with Impostor(listen) as address:
        refusal_of(address)
    assert [len(part) for part in said] == [48, 44, 0]


def test_client_tries_again_as_often_as_it_may():
    calls = []
    with environment() as there:

        def answer(connection):
            calls.append(1)
            hello_from(connection)

        with Impostor(answer) as address:
            refusal_of(address, retries=2)
        assert len(calls) == 3
        assert receive(there, there.address, send(there, ["a"])) == ["a"]


def test_secret_is_shown_nowhere():
    with environment(b"a secret of some length") as env:
        assert "a secret of" not in repr(env) + repr(env.config) + str(env._server.counters())
