"""A client that reads from the recorded servers of Flink: it says what Flink's client said, and gets what it got.

What may differ between two runs of Flink may differ here: how much credit comes in one frame, and whether a channel
that ends at once is acknowledged before. Channels are asked for in no particular order.
"""

import collections
import contextlib
import json
import socket
import struct
import threading
import time
from pathlib import Path

import pytest
from support.data.frames import Frame, FrameDecoder
from support.waiting import wait_until

import flinkbuf as fb
from flinkbuf._core.io.reactor import Reactor
from flinkbuf._core.wire.partition_client import PartitionClient
from flinkbuf._core.wire.partition_manager import PartitionManager
from flinkbuf.network.buffer import DataType
from flinkbuf.network.events import CheckpointBarrier, EndOfData, EndOfPartition, Event, event_from_bytes

CONVERSATIONS = Path(__file__).parents[2] / "golden" / "conversations"
SEGMENT_SIZE = 4096
SEGMENTS = 64
CHANNEL = bytes(range(16))
ID = bytes(range(60))
RECORD = fb.Types.STREAM_ELEMENT(fb.Types.TUPLE([fb.Types.LONG(), fb.Types.STRING(), fb.Types.DOUBLE()]))


class Server:
    """A plain socket that says what it is told to, and keeps what it hears."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.host, self.port = self.listener.getsockname()
        self.socket, self.decoder = None, FrameDecoder()
        self.waiting, self.heard = [], []

    def accept(self):
        self.listener.settimeout(20)
        self.socket, _ = self.listener.accept()
        self.socket.settimeout(20)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.decoder = FrameDecoder()
        return self

    def hear(self):
        """Return the next frame, None when the client has ended the stream."""
        while not self.waiting:
            data = self.socket.recv(1 << 16)
            if not data:
                self.decoder.close()
                return None
            self.waiting += self.decoder.feed(data)
        self.heard.append(self.waiting.pop(0))
        return self.heard[-1]

    def say(self, message, **fields):
        self.send(Frame(message, **fields).encode())

    def send(self, data, piece=None):
        for start in range(0, len(data), piece or len(data)):
            self.socket.sendall(data[start : start + (piece or len(data))])

    def close(self):
        for each in (self.socket, self.listener):
            if each is not None:
                each.close()


@pytest.fixture
def server():
    server = Server()
    yield server
    server.close()


@pytest.fixture
def pool():
    with fb.NetworkBufferPool(SEGMENTS, SEGMENT_SIZE) as pool:
        yield pool
        wait_until(lambda: (pool.used_segment_count, pool.required_segment_count) == (0, 0))


@pytest.fixture
def reactor():
    with Reactor() as reactor:
        yield reactor


@pytest.fixture
def client(reactor):
    client = PartitionClient(reactor, SEGMENT_SIZE, backoff_initial_ms=10, backoff_max_ms=20, request_timeout_ms=10)
    yield client
    client.close()


def open_gate(client, pool, server, channels, *, exclusive=2, floating=8, codec=None):
    """A gate over `channels`: partition id, subpartition and channel id of each."""
    decompressor = fb.network.BufferDecompressor(codec, SEGMENT_SIZE) if codec else None
    gate = fb.InputGate(channel_count=len(channels), decompressor=decompressor)
    gate.set_network(client, PartitionManager(), pool.create_buffer_pool(1, floating), 1000)
    for index, (partition, subpartition, channel_id) in enumerate(channels):
        gate.set_remote(
            index, server.host, server.port, partition, subpartition, exclusive_buffers=exclusive, channel_id=channel_id
        )
    return gate


@contextlib.contextmanager
def beside(function, *arguments):
    """Run `function` in a thread during the block; what it raises is raised at the end of it."""
    errors = []

    def run():
        try:
            function(*arguments)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        thread.join(60)
        assert not thread.is_alive()
        if errors:
            raise errors[0]


# ---- recorded conversations ---------------------------------------------------------------------------------


def load(name):
    """Both sides of a recorded conversation, as (is client's, frame, bytes) in order."""
    recorded = json.loads((CONVERSATIONS / f"conversation_{name}.json").read_text())
    said = []
    for entry in recorded["frames"]:
        (frame,) = FrameDecoder().feed(bytes.fromhex(entry["hex"]))
        said.append((entry["direction"] == "client_to_server", frame, bytes.fromhex(entry["hex"])))
    return said


def requests_of(said):
    return [(frame, wire) for is_client, frame, wire in said if is_client and frame.message == "PartitionRequest"]


def channels_of(said):
    return [(frame.partition, frame.numbers["subpartition"], frame.receiver) for frame, _ in requests_of(said)]


class Replay:
    """The server's side of a conversation: sends what was recorded as soon as the client allows it."""

    def __init__(self, server, said, piece=None):
        self.server, self.said, self.piece = server, said, piece
        self.credit, self.granted, self.blocked, self.over = {}, collections.Counter(), set(), set()

    def hear(self):
        frame = self.server.hear()
        assert frame is not None, "the client has ended the stream"
        if frame.message == "AddCredit":
            self.credit[frame.receiver] += frame.numbers["credit"]
            self.granted[frame.receiver] += frame.numbers["credit"]
        elif frame.message == "ResumeConsumption":
            self.blocked.remove(frame.receiver)
        elif frame.message == "CancelPartitionRequest":
            self.over.add(frame.receiver)

    def run(self, until=None):
        try:
            self.start()
            self.send([(frame, wire) for is_client, frame, wire in self.said if not is_client][:until])
            while until is None and len(self.over) < len(self.credit):
                self.hear()
        except BaseException:
            self.server.close()  # who reads does not wait for the rest
            raise

    def start(self):
        """The client asks in the very bytes of Flink's client, for all channels at once and so in any order."""
        self.server.accept()
        asked = [self.server.hear() for _ in requests_of(self.said)]
        assert {frame.encode() for frame in asked} == {wire for _, wire in requests_of(self.said)}
        self.credit = {frame.receiver: frame.numbers["credit"] for frame in asked}

    def send(self, frames):
        for frame, wire in frames:
            is_data = frame.numbers["data_type"] == DataType.DATA_BUFFER
            while frame.receiver in self.blocked or (is_data and self.credit[frame.receiver] == 0):
                self.hear()
            self.credit[frame.receiver] -= is_data
            if frame.numbers["data_type"] == DataType.ALIGNED_CHECKPOINT_BARRIER:
                self.blocked.add(frame.receiver)
            self.server.send(wire, self.piece)

    def check_client(self):
        """What the client said, channel by channel, is what Flink's client said."""
        for receiver in self.credit:
            ours = [frame.message for frame in self.server.heard if frame.receiver == receiver]
            theirs = [frame.message for is_client, frame, _ in self.said if is_client and frame.receiver == receiver]
            free = ("AddCredit", "AckAllUserRecordsProcessed")
            assert [m for m in ours if m not in free] == [m for m in theirs if m not in free]
            if "AckAllUserRecordsProcessed" in ours:
                assert ours.count("AckAllUserRecordsProcessed") == 1
                assert ours.index("AckAllUserRecordsProcessed") == len(ours) - 2  # right before the end
            used = sum(
                not is_client and frame.receiver == receiver and frame.numbers["data_type"] == DataType.DATA_BUFFER
                for is_client, frame, _ in self.said
            )
            assert self.granted[receiver] + 2 <= used + 2 + 8  # never more than it has buffers


def records_in(data, type):
    """The records of a stream of bytes, without any of the code that is tested."""
    records, at = [], 0
    while at < len(data):
        (size,) = struct.unpack_from(">i", data, at)
        records.append(type.deserialize(data[at + 4 : at + 4 + size]))
        at += 4 + size
    assert at == len(data)
    return records


def element_of(reader, item):
    """What a reader of stream elements gives, as the objects that the type has for them."""
    is_record = not isinstance(item, (Event, fb.types.Watermark, fb.types.WatermarkStatus, fb.types.LatencyMarker))
    return fb.types.StreamRecord(item, reader.timestamp) if is_record else item


@pytest.mark.parametrize("piece", [None, 1, 13, 1000])
def test_pipelined_partition_of_flink_is_read_with_its_barriers(server, client, pool, piece):
    said = load("pipelined")
    replay = Replay(server, said, piece)
    with beside(replay.run):
        items = [[], []]
        with open_gate(client, pool, server, channels_of(said)) as gate:
            reader = fb.RecordReader(gate, RECORD, events=True)
            for item in reader:
                items[reader.channel_index].append(element_of(reader, item))
                if isinstance(item, CheckpointBarrier):
                    gate.resume_consumption(reader.channel_index)
    replay.check_client()
    for channel, received in enumerate(items):
        frames = [frame for is_client, frame, _ in said if not is_client and frame.numbers["subpartition"] == channel]
        wanted = []
        for frame in frames:
            if frame.numbers["data_type"] == DataType.DATA_BUFFER:
                wanted += records_in(frame.body, RECORD)
            else:
                wanted.append(event_from_bytes(frame.body))
        assert received == wanted
        assert [type(item) for item in received if isinstance(item, Event)] == [
            *[CheckpointBarrier] * 3,
            EndOfData,
            EndOfPartition,
        ]
        values = [item.value for item in received if isinstance(item, fb.types.StreamRecord)]
        assert [value[0] for value in values] == list(range(channel, 300, 2))


def test_slow_reader_of_flink_is_fed_as_its_credit_allows(server, client, pool):
    said = load("credit")
    replay = Replay(server, said)
    with beside(replay.run):
        got = bytearray()
        with open_gate(client, pool, server, channels_of(said)) as gate:
            while not gate.is_finished:
                _, buffer = gate.poll(20_000)
                if DataType(buffer.data_type).is_buffer:
                    got += bytes(buffer)
                elif buffer.data_type == DataType.END_OF_DATA:
                    gate.acknowledge_all_records_processed(0)
                time.sleep(0.002)
                buffer.release()
    replay.check_client()
    messages = [frame.message for frame in server.heard]
    assert (
        messages[-2:]
        == ["AckAllUserRecordsProcessed", "CancelPartitionRequest"]
        == [frame.message for is_client, frame, _ in said if is_client][-2:]
    )
    wanted = [frame.body for is_client, frame, _ in said if not is_client and frame.numbers["data_type"] == 1]
    assert bytes(got) == b"".join(wanted)


def test_reader_that_stops_early_cancels_each_buffer_that_still_comes(server, client, pool):
    said = load("early_stop")
    answers = [(frame, wire) for is_client, frame, wire in said if not is_client]
    replay = Replay(server, said)
    with beside(replay.run, 7):
        with open_gate(client, pool, server, channels_of(said)) as gate:
            for number in range(2):
                channel, buffer = gate.poll(20_000)
                assert (channel, bytes(buffer)) == (0, answers[number][0].body)
                buffer.release()
    while not replay.over:
        replay.hear()
    for _, wire in answers[7:]:  # they were on their way
        server.send(wire)
    cancels = sum(is_client and frame.message == "CancelPartitionRequest" for is_client, frame, _ in said)
    while sum(frame.message == "CancelPartitionRequest" for frame in server.heard) < cancels:
        replay.hear()
    replay.check_client()
    assert pool.used_segment_count == 0 and client.counters()["channels"] == 0


def restored(frame):
    """The data of a compressed response, by the package alone: each part is a block behind its two lengths."""
    block, data, at = pytest.importorskip("lz4.block"), b"", 0
    for size in frame.part_sizes:
        packed, original = struct.unpack_from("<ii", frame.body, at)
        assert packed == size - 8
        data += block.decompress(frame.body[at + 8 : at + size], uncompressed_size=original)
        at += size
    return data


@pytest.mark.parametrize("piece", [None, 11])
def test_compressed_partition_of_flink_is_read(server, client, pool, piece):
    pytest.importorskip("lz4")
    said = load("blocking_lz4")
    replay = Replay(server, said, piece)
    row = fb.Types.STREAM_ELEMENT(fb.Types.ROW([fb.Types.INT(), fb.Types.STRING(), fb.Types.LONG(), fb.Types.DOUBLE()]))
    elements = [[], []]
    with beside(replay.run), open_gate(client, pool, server, channels_of(said), codec="LZ4") as gate:
        reader = fb.RecordReader(gate, row)
        for element in reader:
            elements[reader.channel_index].append(element_of(reader, element))
    replay.check_client()
    for channel, received in enumerate(elements):
        data = b"".join(
            restored(frame)
            for is_client, frame, _ in said
            if not is_client and frame.numbers["subpartition"] == channel and frame.numbers["is_compressed"]
        )
        assert received == records_in(data, row)
        squares = [element.value[2] for element in received if isinstance(element, fb.types.StreamRecord)]
        assert squares == [n * n for n in range(channel, 1000, 2)]


# ---- errors, as exceptions ----------------------------------------------------------------------------------


def refuse(server, **error):
    server.accept().hear()
    server.say("ErrorResponse", **error)


@pytest.fixture
def gate(client, pool, server):
    with open_gate(client, pool, server, [(ID, 3, CHANNEL)]) as gate:
        yield gate


def test_partition_that_is_not_found_is_asked_for_until_the_backoff_is_used_up(gate, server):
    case = json.loads((CONVERSATIONS.parent / "netty_frames/netty_frames.json").read_text())["cases"][-1]
    assert case["fields"]["cause_class"].endswith("PartitionNotFoundException")
    (recorded,) = FrameDecoder().feed(bytes.fromhex(case["hex"]))

    def answer():
        server.accept()
        for _ in range(4):  # 10, 20, 30, then 40 ms
            assert server.hear().message == "PartitionRequest"
            server.say("ErrorResponse", receiver=CHANNEL, body=recorded.body)

    where = rf"channel 0 \(subpartition 3 of partition {ID.hex()} at"
    with beside(answer), pytest.raises(fb.errors.PartitionNotFoundError, match=where) as info:
        gate.poll(20_000)
    assert f"was not found at 127.0.0.1:{server.port}: its producer has not registered it there" in str(info.value)
    with pytest.raises(fb.errors.PartitionNotFoundError):
        gate.poll()  # it stays


def test_failure_that_a_server_of_flink_reports_is_shown_with_its_class(gate, server):
    cases = json.loads((CONVERSATIONS.parent / "netty_frames/netty_frames.json").read_text())["cases"]
    (case,) = [case for case in cases if case["message"] == "ErrorResponse" and case["fields"]["fatal"]]
    (recorded,) = FrameDecoder().feed(bytes.fromhex(case["hex"]))
    state, arithmetic = b"\x00\x1fjava.lang.IllegalStateException", b"\x00\x1djava.lang.ArithmeticException"
    body = recorded.body.replace(state, arithmetic)
    with beside(lambda: refuse(server, body=body)), pytest.raises(fb.errors.RemoteTransportError) as info:
        gate.poll(20_000)
    assert "java.lang.ArithmeticException: boom" in str(info.value)
    assert f"connection with 127.0.0.1:{server.port}" in str(info.value)


def test_connection_that_breaks_is_named(gate, server):
    advice = "the task there was most likely lost"
    with (
        beside(lambda: (server.accept().hear(), server.close())),
        pytest.raises(fb.errors.RemoteTransportError, match=advice),
    ):
        gate.poll(20_000)


def test_connection_that_is_refused_is_named(client, pool, server):
    server.close()
    with open_gate(client, pool, server, [(ID, 0, CHANNEL)]) as gate:
        with pytest.raises(ConnectionError, match="Connection refused; is the task there still running"):
            gate.poll(20_000)


def test_bytes_that_are_no_frames_are_corrupt_data(gate, server):
    def answer():
        server.accept().hear()
        server.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with beside(answer), pytest.raises(fb.errors.CorruptDataError, match="not a Flink peer"):
        gate.poll(20_000)


def test_host_without_an_address_is_named(client, pool):
    gate = fb.InputGate(channel_count=1)
    gate.set_network(client, PartitionManager(), pool.create_buffer_pool(1, 8), 1000)
    with pytest.raises(fb.errors.RemoteTransportError, match="no-such-host.invalid:6121 cannot be found"):
        gate.set_remote(0, "no-such-host.invalid", 6121, ID, 0)
    gate.close()


def test_channels_are_checked(client, pool, server):
    gate = fb.InputGate(channel_count=1)
    with pytest.raises(RuntimeError):
        gate.set_remote(0, server.host, server.port, ID, 0)  # it has no network yet
    gate.set_network(client, PartitionManager(), pool.create_buffer_pool(1, 8), 1000)
    with pytest.raises(ValueError, match="a partition id has 60 bytes, got 59"):
        gate.set_remote(0, server.host, server.port, ID[1:], 0)
    with pytest.raises(ValueError, match="a channel id has 16 bytes, got 3"):
        gate.set_remote(0, server.host, server.port, ID, 0, channel_id=b"abc")
    with pytest.raises(fb.errors.InsufficientBuffersError):
        gate.set_remote(0, server.host, server.port, ID, 0, exclusive_buffers=SEGMENTS)
    gate.set_remote(0, server.host, server.port, ID, 0)
    with pytest.raises(RuntimeError):
        gate.set_remote(0, server.host, server.port, ID, 0)
    gate.close()


# ---- life ---------------------------------------------------------------------------------------------------


def test_closing_the_client_closes_its_gates_and_connections(client, pool, server):
    gate = open_gate(client, pool, server, [(ID, 0, CHANNEL), (ID, 1, CHANNEL[::-1])])
    gate.request_partitions()
    server.accept()
    assert [server.hear().message, server.hear().message] == ["PartitionRequest"] * 2
    assert client.counters()["connections"] == 1 and client.counters()["channels"] == 2
    client.close()
    client.close()
    assert gate.is_closed
    while (frame := server.hear()) is not None:
        assert frame.message in ("CancelPartitionRequest", "CloseRequest")
    with pytest.raises(RuntimeError, match="the partition client is closed"):
        client.counters()
    with pytest.raises(RuntimeError, match="the partition client is closed"):
        open_gate(client, pool, server, [(ID, 0, CHANNEL)])
    with pytest.raises(RuntimeError, match="closed"):
        gate.poll()


def test_closing_the_reactor_closes_the_client_first(pool, server):
    reactor = Reactor()
    client = PartitionClient(reactor, SEGMENT_SIZE)
    gate = open_gate(client, pool, server, [(ID, 0, CHANNEL)])
    gate.request_partitions()
    server.accept().hear()
    reactor.close()
    assert gate.is_closed
    with pytest.raises(RuntimeError, match="closed"):
        client.counters()
    with pytest.raises(RuntimeError, match="the reactor is closed"):
        PartitionClient(reactor, SEGMENT_SIZE)


def test_client_that_is_forgotten_takes_its_connections_along(reactor, pool, server):
    client = PartitionClient(reactor, SEGMENT_SIZE)
    gate = open_gate(client, pool, server, [(ID, 0, CHANNEL)])
    gate.request_partitions()
    server.accept().hear()
    del client, gate
    while server.hear() is not None:
        continue
    assert reactor.counters()["sources"] == 0


def test_connection_is_not_kept_where_that_is_not_wanted(reactor, pool, server):
    client = PartitionClient(reactor, SEGMENT_SIZE, keeps_connections=False)
    for _ in range(3):
        with open_gate(client, pool, server, [(ID, 0, CHANNEL)]) as gate:
            gate.request_partitions()
            server.accept()
            assert server.hear().message == "PartitionRequest"
        assert server.hear().message == "CloseRequest"
        assert server.hear() is None
        server.socket.close()
    client.close()


def test_arguments_are_checked(reactor):
    with pytest.raises(ValueError, match="proof_timeout_ms must be at least 1"):
        PartitionClient(reactor, SEGMENT_SIZE, proof_timeout_ms=0)
    with pytest.raises(ValueError, match="a secret has at least 16 bytes, got 3"):
        PartitionClient(reactor, SEGMENT_SIZE, secret=b"abc")
    with pytest.raises(TypeError):
        PartitionClient(None, SEGMENT_SIZE)
