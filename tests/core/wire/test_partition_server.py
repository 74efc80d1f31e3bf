"""A server asked in the very bytes of Flink's clients; what it answers is what Flink's server answered."""

import json
import re
import socket
from pathlib import Path

import pytest
from support.data.frames import Frame, FrameDecoder
from support.waiting import wait_until

from flinkbuf._core.io.reactor import Reactor
from flinkbuf._core.memory.local_buffer_pool import NetworkBufferPool
from flinkbuf._core.wire.partition_manager import PartitionManager
from flinkbuf._core.wire.partition_server import PartitionServer
from flinkbuf.network.buffer import DataType
from flinkbuf.network.partition import ResultPartition

CONVERSATIONS = Path(__file__).parents[2] / "golden" / "conversations"
CHANNEL = bytes(range(16))
ID = bytes(range(60))


class Client:
    """A plain socket that speaks frames."""

    def __init__(self, server):
        self.socket = socket.create_connection((server.host, server.port), timeout=20)
        self.decoder, self.waiting = FrameDecoder(), []

    def say(self, message, **fields):
        self.socket.sendall(Frame(message, **fields).encode())

    def hear(self):
        """Return the next frame, None when the server has ended the stream."""
        while not self.waiting:
            data = self.socket.recv(1 << 16)
            if not data:
                self.decoder.close()
                return None
            self.waiting += self.decoder.feed(data)
        return self.waiting.pop(0)


@pytest.fixture
def manager():
    manager = PartitionManager()
    yield manager
    manager.close()


@pytest.fixture
def server(manager):
    with Reactor() as reactor, PartitionServer(reactor, manager, "127.0.0.1", request_timeout_ms=200) as server:
        yield server


@pytest.fixture
def pool():
    with NetworkBufferPool(64, 4096) as pool:
        yield pool
        wait_until(lambda: pool.available_segment_count == 64)  # the server learns of a client's end in its own time


def load(name):
    """Both sides of a recorded conversation, as (direction, frame, bytes) in order."""
    recorded = json.loads((CONVERSATIONS / f"conversation_{name}.json").read_text())
    subpartitions = int(re.search(r"subpartitions=(\d+)", recorded["note"])[1])
    said = []
    for entry in recorded["frames"]:
        (frame,) = FrameDecoder().feed(bytes.fromhex(entry["hex"]))
        said.append((entry["direction"] == "client_to_server", frame, bytes.fromhex(entry["hex"])))
    return subpartitions, said


def stream_of(frames):
    """What a subpartition carries, however it was cut into buffers: data joined, events in their place."""
    stream = []
    for frame in frames:
        data_type = frame.numbers["data_type"]
        if data_type in (DataType.DATA_BUFFER, DataType.DATA_BUFFER_WITH_CLEAR_END) and stream and stream[-1][0] == 1:
            stream[-1] = (1, stream[-1][1] + frame.body)
        elif data_type in (DataType.DATA_BUFFER, DataType.DATA_BUFFER_WITH_CLEAR_END):
            stream.append((1, frame.body))
        else:
            stream.append((data_type, frame.body))
    return stream


def write_like_flink(partition, said, subpartitions):
    """Put what Flink's server sent into `partition`, data and events in the order of each subpartition."""
    for index in range(subpartitions):
        frames = [frame for is_client, frame, _ in said if not is_client and frame.numbers["subpartition"] == index]
        for data_type, body in stream_of(frames):
            if data_type == 1:
                partition.emit(body, index)
            elif data_type != DataType.END_OF_PARTITION:
                partition.emit_event_bytes(body, data_type, index)
    partition.finish()


@pytest.mark.parametrize("name", ["pipelined", "credit"])
def test_client_of_flink_gets_what_the_server_of_flink_sent(name, manager, server, pool):
    subpartitions, said = load(name)
    requests = [frame for is_client, frame, _ in said if is_client and frame.message == "PartitionRequest"]
    resumes = {frame.receiver for is_client, frame, _ in said if is_client and frame.message == "ResumeConsumption"}
    partition = ResultPartition(pool, subpartitions)
    manager.register(requests[0].partition, partition)
    write_like_flink(partition, said, subpartitions)
    client = Client(server)
    for is_client, frame, wire in said:
        if is_client and frame.message == "PartitionRequest":
            client.socket.sendall(wire)
    answers = {request.receiver: [] for request in requests}
    credit = {request.receiver: request.numbers["credit"] for request in requests}
    open_channels = set(answers)
    while open_channels:
        frame = client.hear()
        assert frame.message == "BufferResponse"
        assert frame.numbers["sequence_number"] == len(answers[frame.receiver])
        answers[frame.receiver].append(frame)
        data_type = frame.numbers["data_type"]
        if data_type == DataType.DATA_BUFFER:
            credit[frame.receiver] -= 1
            assert credit[frame.receiver] >= 0
            if credit[frame.receiver] == 0:
                client.say("AddCredit", receiver=frame.receiver, credit=3)
                credit[frame.receiver] = 3
        elif data_type == DataType.ALIGNED_CHECKPOINT_BARRIER:
            assert frame.receiver in resumes
            client.say("ResumeConsumption", receiver=frame.receiver)
        elif data_type == DataType.END_OF_PARTITION:
            client.say("CancelPartitionRequest", receiver=frame.receiver)
            open_channels.remove(frame.receiver)
    for receiver, frames in answers.items():
        recorded = [frame for is_client, frame, _ in said if not is_client and frame.receiver == receiver]
        assert stream_of(frames) == stream_of(recorded)
        assert {frame.numbers["subpartition"] for frame in frames} == {recorded[0].numbers["subpartition"]}
    client.say("CloseRequest")
    assert client.hear() is None
    partition.close()
    assert len(manager) == 0


def test_missing_partition_is_told_in_the_bytes_of_flink(server):
    case = json.loads((CONVERSATIONS.parent / "netty_frames/netty_frames.json").read_text())["cases"][-1]
    (request,) = FrameDecoder().feed(bytes.fromhex(case["hex"]))
    assert case["fields"]["cause_class"].endswith("PartitionNotFoundException")
    client = Client(server)
    client.say("PartitionRequest", receiver=request.receiver, partition=bytes.fromhex(case["fields"]["partition_id"]))
    assert client.hear().encode().hex() == case["hex"]
    client.socket.close()


def test_failure_of_a_partition_reaches_its_reader(manager, server, pool):
    with ResultPartition(pool, 1) as partition:
        manager.register(ID, partition)
        client = Client(server)
        client.say("PartitionRequest", receiver=CHANNEL, partition=ID, credit=1)
        partition.emit(b"data", 0)
        partition.flush_all()
        assert client.hear().message == "BufferResponse"
        partition.fail(ZeroDivisionError("by zero"))
        frame = client.hear()
        assert frame.message == "ErrorResponse" and frame.receiver == CHANNEL
        assert b"ZeroDivisionError: by zero" in frame.body
        client.socket.close()


def test_closing_the_reactor_closes_its_server(manager):
    reactor = Reactor()
    server = PartitionServer(reactor, manager, "127.0.0.1")
    client = Client(server)
    reactor.close()
    assert client.hear() is None
    server.close()
    with pytest.raises(RuntimeError, match="the partition server is closed"):
        server.counters()
    with pytest.raises(RuntimeError, match="the reactor is closed"):
        PartitionServer(reactor, manager, "127.0.0.1")
    client.socket.close()


def test_address_that_is_taken_is_named(manager, server):
    with Reactor() as reactor:
        with pytest.raises(OSError, match=f"listening at 127.0.0.1:{server.port}: Address already in use"):
            PartitionServer(reactor, manager, "127.0.0.1", server.port)
        with pytest.raises(ValueError, match="request_timeout_ms must be at least 1"):
            PartitionServer(reactor, manager, "127.0.0.1", request_timeout_ms=0)


# ---- without a secret everybody may come: so many, with so much that waits


@pytest.fixture
def serve(manager):
    """Make servers that know no secret, with limits of a test."""
    with Reactor() as reactor:
        yield lambda **limits: PartitionServer(reactor, manager, "127.0.0.1", **limits)


def channel_of(number):
    return number.to_bytes(16, "big")


def is_ended(client):
    try:
        while (frame := client.hear()) is not None:
            assert frame.message == "ErrorResponse"
    except ConnectionResetError:
        pass
    return True


def test_of_strangers_so_many_requests_wait_and_what_is_there_is_served(manager, serve, pool):
    server = serve(max_waiting=3, request_timeout_ms=60_000)
    client, other = Client(server), Client(server)
    for number in range(5):
        client.say("PartitionRequest", receiver=channel_of(number), partition=ID, credit=1)
    refused = [client.hear() for _ in range(2)]
    assert [frame.receiver for frame in refused] == [channel_of(3), channel_of(4)]
    assert {frame.message for frame in refused} == {"ErrorResponse"}
    assert b"PartitionNotFoundException" in refused[0].encode(), "the client may ask again"
    assert server.counters()["channels"] == 3
    with ResultPartition(pool, 2) as partition:
        partition.emit(b"data", 0)
        partition.emit(b"more", 1)
        partition.flush_all()
        manager.register(bytes(reversed(ID)), partition)
        client.say("PartitionRequest", receiver=channel_of(5), partition=bytes(reversed(ID)), credit=1)
        assert client.hear().body == b"data", "what does not wait is no matter of this limit"
        client.say("CancelPartitionRequest", receiver=channel_of(0))
        client.say("PartitionRequest", receiver=channel_of(6), partition=ID, credit=1)
        other.say(
            "PartitionRequest",
            receiver=CHANNEL,
            partition=bytes(reversed(ID)),
            subpartition=1,
            last_subpartition=1,
            credit=1,
        )
        assert other.hear().body == b"more", "others are not disturbed"
        wait_until(lambda: server.counters()["channels"] == 5)  # the other connection is heard in its own time
        client.socket.close()
        other.socket.close()
    wait_until(lambda: server.counters()["connections"] == 0)
    server.close()


def test_of_all_strangers_sixteen_times_as_many_wait(serve):
    server = serve(max_waiting=3, request_timeout_ms=60_000)
    clients = [Client(server) for _ in range(17)]
    for client in clients:
        for number in range(3):
            client.say("PartitionRequest", receiver=channel_of(number), partition=ID, credit=1)
        wait_until(lambda: server.counters()["channels"] >= min(48, 3 * (clients.index(client) + 1)))  # noqa: B023
    assert [clients[-1].hear().message for _ in range(3)] == ["ErrorResponse"] * 3
    assert server.counters()["channels"] == 48
    for client in clients:
        client.socket.close()
    wait_until(lambda: server.counters()["connections"] == 0)
    server.close()


def test_a_stranger_too_many_takes_the_place_of_one_that_reads_nothing(manager, serve, pool):
    server = serve(max_connections=3)
    with ResultPartition(pool, 2) as partition:
        manager.register(ID, partition)
        reader, idle = Client(server), Client(server)
        reader.say("PartitionRequest", receiver=CHANNEL, partition=ID, credit=1)
        wait_until(lambda: server.counters()["channels"] == 1 and server.counters()["connections"] == 2)
        idle_too, late = Client(server), Client(server)
        assert is_ended(idle)
        late.say("PartitionRequest", receiver=CHANNEL, partition=ID, subpartition=1, last_subpartition=1, credit=1)
        for subpartition, client in enumerate((reader, late)):
            partition.emit(b"data", subpartition)
            partition.flush_all()
            assert client.hear().body == b"data"
        assert server.counters()["connections"] <= 3 and server.counters()["refused"] >= 1
        third = Client(server)
        assert is_ended(idle_too)
        third.say("PartitionRequest", receiver=CHANNEL, partition=bytes(60), credit=1)
        wait_until(lambda: server.counters()["channels"] == 3)
        late_again = Client(server)  # all read, or wait
        assert is_ended(late_again)
        for client in (reader, idle, idle_too, late, third, late_again):
            client.socket.close()
    wait_until(lambda: server.counters()["connections"] == 0)
    server.close()


def test_a_stranger_that_asks_for_nothing_is_told_and_hung_up_on(serve):
    server = serve(proof_timeout_ms=50)
    silent, half = Client(server), Client(server)
    half.socket.sendall(b"\0\0\0\x40")
    for client in (silent, half):
        told = client.hear()
        assert told.message == "ErrorResponse" and b"nothing was asked for within 50 ms" in told.encode()
        assert client.hear() is None
        client.socket.close()
    wait_until(lambda: server.counters()["connections"] == 0)
    assert "nothing was asked for" in server.last_refusal
    server.close()
