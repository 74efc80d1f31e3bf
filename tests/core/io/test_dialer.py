"""The Python end of dialing and adopting, without TLS: whoever takes a call carries plain bytes here."""

import socket

import pytest

from flinkbuf._core.io.dialer import Carrier, Dialer
from flinkbuf._core.io.reactor import Reactor
from flinkbuf._core.wire.partition_client import PartitionClient
from flinkbuf._core.wire.partition_manager import PartitionManager
from flinkbuf._core.wire.partition_server import PartitionServer

CHANNEL = bytes(range(16))


@pytest.fixture
def reactor():
    with Reactor() as reactor:
        yield reactor


@pytest.fixture
def server(reactor):
    manager = PartitionManager()
    yield PartitionServer(reactor, manager, None)
    reactor.close()
    manager.close()


def adopt(server, carrier=None, host="10.1.2.3"):
    """Hand one end of a pair to the server. Return the other."""
    mine, other = socket.socketpair()
    other.setblocking(False)
    mine.settimeout(20)
    server.adopt(other.detach(), host, 4711, carrier or Carrier())
    return mine


def test_server_that_listens_nowhere_serves_whom_it_is_given(server):
    assert server.port == 0 and server.host is None
    with adopt(server) as peer:
        peer.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert b"not a Flink peer" in peer.recv(4096)
    assert "connection with 10.1.2.3:4711: frame at byte 0" in server.last_refusal
    with adopt(server, host="::1") as peer:
        peer.sendall(bytes(20))
        peer.recv(4096)
    assert "connection with [::1]:4711: frame at byte 0" in server.last_refusal


def test_refusals_of_others_are_counted_with_its_own(server):
    server.note_refusal("connection with 10.1.2.3:1: no certificate")
    assert server.counters()["refused"] == 1
    assert server.last_refusal == "connection with 10.1.2.3:1: no certificate"


def test_what_is_not_adopted_is_closed(server):
    mine, other = socket.socketpair()
    with mine, pytest.raises(ValueError, match="expected an address in numbers, got not a host:1"):
        server.adopt(other.detach(), "not a host", 1, Carrier())
    assert mine.fileno() < 0 or mine.recv(1) == b""
    server.close()
    mine, other = socket.socketpair()
    with mine:
        with pytest.raises(RuntimeError, match="the partition server is closed"):
            server.adopt(other.detach(), "10.1.2.3", 1, Carrier())
        assert mine.recv(1) == b""
    server.note_refusal("nobody counts any more")


def test_dialer_has_no_call_until_somebody_asks(reactor):
    dialer = Dialer()
    client = PartitionClient(reactor, 32768, dialer=dialer)
    assert dialer.take() is None and dialer.fileno() > 2
    client.close()
    Carrier().fail("nobody hears this")
