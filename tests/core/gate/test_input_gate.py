"""Which of a consumer's channels have something to read."""

import contextlib
import functools
import socket
import sys
import threading
import time
from pathlib import Path

import pytest
from support.data.frames import Frame, FrameDecoder
from support.waiting import wait_until

import flinkbuf as fb
from flinkbuf._core.flow.channel_state import InputChannelState
from flinkbuf.network.events import EndOfData, EndOfPartition

GOLDEN = Path(__file__).parents[2] / "golden"
END_OF_PARTITION = bytes(4)


@pytest.fixture
def pool():
    with fb.NetworkBufferPool(32, segment_size=4096) as pool:
        yield pool
        assert pool.available_segment_count == 32, "a segment did not come home"


def test_a_gate_without_channels_is_refused():
    with pytest.raises(ValueError, match="at least one channel"):
        fb.InputGate([])


def test_a_subpartition_that_does_not_exist_is_refused(pool):
    with fb.ResultPartition(pool, 2) as partition:
        for index in (-1, 2):
            with pytest.raises(IndexError, match=f"subpartition {index}"):
                fb.InputGate([(partition, index)])


def test_a_subpartition_can_be_read_once(pool):
    with fb.ResultPartition(pool, 1) as partition:
        with fb.InputGate([(partition, 0)]) as first, fb.InputGate([(partition, 0)]) as second:
            first.request_partitions()
            with pytest.raises(RuntimeError, match="channel 0"):
                second.poll()


def test_poll_returns_none_when_nothing_comes_in_time(pool):
    with fb.ResultPartition(pool, 1) as partition, fb.InputGate([(partition, 0)]) as gate:
        assert gate.poll() is None
        assert gate.poll(30) is None
        assert not gate.is_finished


def test_a_closed_gate_lets_the_partition_go(pool):
    partition = fb.ResultPartition(pool, 1)
    writer = fb.RecordWriter(partition, fb.Types.INT())
    gate = fb.InputGate([(partition, 0)])
    writer.emit(1)
    gate.request_partitions()
    gate.close()
    gate.close()
    assert gate.is_closed and gate.queued_channel_count == 0
    writer.close()
    partition.close()


# ---- compressed buffers, as a Flink server sends them -------------------------------------------------------------


class FlinkServer:
    """A plain socket that answers one client with given buffers, as far as its credit allows.

    `answers` has a list of frames for each subpartition; `heard` is what the client said.
    """

    def __init__(self, answers):
        self.answers = answers
        self.heard = []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.address = self.socket.getsockname()
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        connection, _ = self.socket.accept()
        decoder, waiting, credit = FrameDecoder(), {}, {}
        with connection:
            while data := connection.recv(1 << 16):
                for frame in decoder.feed(data):
                    self.heard.append(frame)
                    if frame.message == "PartitionRequest":
                        waiting[frame.receiver] = list(self.answers[frame.numbers["subpartition"]])
                        credit[frame.receiver] = 0
                    if frame.receiver is not None:
                        credit[frame.receiver] += frame.numbers["credit"]
                        self.send(connection, frame.receiver, waiting, credit)

    def send(self, connection, receiver, waiting, credit):
        while waiting[receiver] and (waiting[receiver][0]["data_type"] != 1 or credit[receiver] > 0):
            answer = waiting[receiver].pop(0)
            credit[receiver] -= answer["data_type"] == 1
            connection.sendall(Frame("BufferResponse", receiver=receiver, **answer).encode())

    def close(self):
        self.thread.join(20)
        self.socket.close()


def blocks(parts, codec, end=True):
    """Answers with `parts`, each a compressed buffer where that is shorter, and the end of the partition."""
    compressor = fb.network.BufferCompressor(codec)
    answers = []
    for number, part in enumerate(parts):
        block = compressor.compress(part)
        answers.append(
            {
                "body": block or part,
                "is_compressed": block is not None,
                "data_type": 1,
                "sequence_number": number,
                "backlog": len(parts) - number - 1,
            }
        )
    if end:
        answers.append({"body": END_OF_PARTITION, "data_type": 10, "sequence_number": len(parts)})
    return answers


@contextlib.contextmanager
def gate_on(server, **knobs):
    with fb.NetworkEnvironment(fb.NetworkConfig(**knobs), num_segments=64) as env:
        channels = [fb.network.RemoteChannel(*server.address, bytes(60), index) for index in range(len(server.answers))]
        with env.create_gate(channels) as gate:
            yield gate
    server.close()


def written(numbers):
    payloads = [fb.Types.INT().serialize(number) for number in numbers]
    return b"".join(len(payload).to_bytes(4, "big") + payload for payload in payloads)


@pytest.mark.parametrize("codec", ["LZ4", "ZSTD"])
def test_compressed_buffers_are_read_like_others(codec):
    data = written(range(1000))
    server = FlinkServer([blocks([data[:3001], data[3001:3005], data[3005:]], codec)])
    with gate_on(server, compression_codec=codec) as gate:
        assert list(fb.RecordReader(gate, fb.Types.INT())) == list(range(1000))


class Promised(FlinkServer):
    """Announces one buffer for each channel, and uses its credit only once every channel has some: what a server of
    Flink does where the data that it announced has been sent already, in a buffer that was not finished then."""

    def send(self, connection, receiver, waiting, credit):
        if credit[receiver] == 0:
            connection.sendall(Frame("BacklogAnnouncement", receiver=receiver, backlog=1).encode())
        elif len(credit) == len(self.answers) and all(credit.values()):
            for each in credit:
                super().send(connection, each, waiting, credit)


def test_promises_that_are_not_used_starve_no_other_channel():
    """Without exclusive buffers, and with one floating buffer for all three."""
    data = {"body": written([7]), "data_type": 1, "sequence_number": 0}
    server = Promised([[data, {"body": END_OF_PARTITION, "data_type": 10, "sequence_number": 1}]] * 3)
    with gate_on(server, buffers_per_channel=0, floating_buffers_per_gate=1) as gate:
        read = 0
        while not gate.is_finished:
            _, buffer = gate.poll(10_000)
            with buffer:
                read += buffer.is_buffer
        assert read == 3


def test_larger_buffers_than_ours_are_an_error_that_says_so():
    server = FlinkServer([[{"body": bytes(4097), "data_type": 1, "sequence_number": 0, "backlog": 0}]])
    with gate_on(server, segment_size=4096) as gate:
        with pytest.raises(
            fb.errors.CorruptDataError, match="4097 bytes, at most 4096 .* the segment size of the reading side"
        ):
            gate.poll(20_000)


def test_a_compressed_buffer_without_decompressor_names_channel_and_setting():
    server = FlinkServer([blocks([bytes(100)], "LZ4")])
    with fb.NetworkEnvironment(num_segments=64) as env:
        gate = env.create_gate([fb.network.RemoteChannel(*server.address, bytes(60), 0)])
        gate.decompressor = None
        for _ in range(2):  # who asks again is told again
            with pytest.raises(RuntimeError, match="channel 0, buffer 0 is compressed, .*network.compression.codec"):
                gate.poll(20_000)
        gate.decompressor = fb.network.BufferDecompressor("LZ4")
        assert bytes(gate.poll()[1]) == bytes(100)
        gate.close()
        assert env.pool.available_segment_count == 64
    server.close()


def test_a_damaged_block_names_channel_and_buffer_and_is_not_passed_over():
    answers = blocks([written(range(100)), written(range(100, 1000))], "LZ4")
    answers[1]["body"] = answers[1]["body"][:-1]
    server = FlinkServer([answers])
    with gate_on(server) as gate:
        reader = fb.RecordReader(gate, fb.Types.INT())
        assert [next(reader) for _ in range(100)] == list(range(100))
        for _ in range(2):
            with pytest.raises(fb.errors.CorruptDataError, match="channel 0, buffer 1: .*compressed with LZ4"):
                next(reader)


def test_a_checkpoint_has_the_originals_of_compressed_buffers():
    server = FlinkServer([blocks([written(range(100)), written(range(100, 1000)), written(range(1000, 1100))], "LZ4")])
    with gate_on(server) as gate:
        reader = fb.RecordReader(gate, fb.Types.INT(), events=True)
        state = InputChannelState(reader)
        assert [next(reader) for _ in range(50)] == list(range(50))
        wait_until(lambda: gate.figures()["channels"][0]["queued"] >= 2)
        assert state.start(1, 1 << 20)
        assert b"".join(state.stop()[0]) == written(range(50, 1100))
        gate.decompressor = None
        with pytest.raises(RuntimeError, match="channel 0 .*no decompressor"):
            state.start(2, 1 << 20)
        assert state.checkpoint_id is None
        reader.close()


def test_the_wrong_codec_is_an_error_that_asks_for_the_right_one():
    server = FlinkServer([blocks([bytes(100)], "ZSTD")])
    with gate_on(server, compression_codec="LZ4") as gate:
        with pytest.raises(fb.errors.CorruptDataError, match="does the producer use another"):
            gate.poll(20_000)


@pytest.mark.parametrize(
    "codec, package, error",
    [("LZO", None, "does not read or write LZO"), ("ZSTD", "zstandard", "need the package zstandard")],
)
def test_a_codec_that_is_not_there_hurts_only_when_it_is_needed(codec, package, error, monkeypatch):
    if package is not None:
        monkeypatch.setitem(sys.modules, package, None)
    plain = {"body": b"plain", "data_type": 1}
    server = FlinkServer([[plain, {"body": bytes(20), "data_type": 1, "is_compressed": True, "sequence_number": 1}]])
    with gate_on(server, compression_codec=codec) as gate:
        assert bytes(gate.poll(20_000)[1]) == b"plain"
        with pytest.raises((ValueError, ImportError), match=error):
            gate.poll(20_000)


def test_a_compressed_buffer_in_hand_goes_home_when_the_gate_is_closed():
    server = FlinkServer([blocks([bytes(100)], "LZ4", end=False)])
    with fb.NetworkEnvironment(num_segments=64) as env:
        gate = env.create_gate([fb.network.RemoteChannel(*server.address, bytes(60), 0)])
        gate.decompressor = None
        with pytest.raises(RuntimeError, match="no decompressor"):
            gate.poll(20_000)
        gate.close()
        assert env.pool.available_segment_count == 64
    server.close()


# ---- acknowledgements ---------------------------------------------------------------------------------------------


@pytest.fixture(params=["local", "remote"])
def linked(request):
    """A partition with two subpartitions and a gate that reads both, in this process or over the wire."""
    with fb.NetworkEnvironment(num_segments=64) as env:
        partition_id = fb.network.ResultPartitionID.random()
        partition = env.create_partition(partition_id, 2)
        kind = (
            fb.network.LocalChannel
            if request.param == "local"
            else functools.partial(fb.network.RemoteChannel, *env.address)
        )
        with env.create_gate([kind(partition_id, index) for index in range(2)]) as gate:
            yield partition, gate
        partition.close()


def test_producer_learns_that_all_was_processed(linked):
    partition, gate = linked
    with fb.RecordWriter(partition, fb.Types.INT()) as writer:
        writer.emit_all(range(100))
    reader = fb.RecordReader(gate, fb.Types.INT())
    assert sorted(reader) == list(range(100))
    assert partition.wait_for_all_data_processed(20_000)


def test_who_takes_events_acknowledges_himself(linked):
    partition, gate = linked
    writer = fb.RecordWriter(partition, fb.Types.INT())
    writer.emit_all(range(10))
    writer.write_event(EndOfData())
    reader = fb.RecordReader(gate, fb.Types.INT(), events=True)
    ended = []
    while len(ended) < 2:
        if isinstance(next(reader), EndOfData):
            ended.append(reader.channel_index)
    assert not partition.wait_for_all_data_processed(30)
    for channel in ended:
        gate.acknowledge_all_records_processed(channel)
    assert partition.wait_for_all_data_processed(20_000) and partition.is_all_data_processed
    writer.stop()
    partition.finish()
    assert list(reader) == [EndOfPartition()] * 2
    gate.acknowledge_all_records_processed(0)  # nobody is left to be told
    with pytest.raises(IndexError, match="channel 2 of a gate with 2"):
        gate.acknowledge_all_records_processed(2)


def test_readers_that_leave_early_are_not_waited_for(linked):
    partition, gate = linked
    with fb.RecordWriter(partition, fb.Types.INT()) as writer:
        writer.emit_all(range(10))
    gate.poll(20_000)[1].release()
    gate.close()
    assert partition.wait_for_all_data_processed(20_000) is False


# ---- debloating ---------------------------------------------------------------------------------------------------


def test_debloating_is_off_unless_asked_for(linked):
    assert linked[1].announced_buffer_size is None


@pytest.mark.parametrize("kind", ["local", "remote"])
def test_a_slow_consumer_gets_smaller_buffers(kind):
    config = fb.NetworkConfig(
        buffer_debloat_enabled=True,
        buffer_debloat_period_ms=5,
        buffer_debloat_target_ms=10,
        buffer_debloat_samples=1,
        min_segment_size=1024,
    )
    with fb.NetworkEnvironment(config, num_segments=64) as env:
        partition_id = fb.network.ResultPartitionID.random()
        partition = env.create_partition(partition_id, 1)
        channel = fb.network.LocalChannel(partition_id, 0)
        if kind == "remote":
            channel = fb.network.RemoteChannel(*env.address, partition_id, 0)
        with env.create_gate([channel]) as gate:
            assert gate.announced_buffer_size == 32768
            writer = threading.Thread(target=lambda: write_all(partition))
            writer.start()
            sizes = []
            while item := gate.poll(20_000):
                with item[1] as buffer:
                    sizes.append(buffer.size)
                if len(sizes) < 60:
                    time.sleep(0.01)  # 3 MB/s at most: 1 KiB a buffer would do
            writer.join()
            assert max(sizes[:5]) == 32768
            assert 1024 in sizes and min(sizes[:-3]) >= 1024
            assert gate.announced_buffer_size >= 1024


def write_all(partition):
    with partition:
        for _ in range(20_000):
            partition.emit(bytes(100), 0)
        partition.finish()


@pytest.mark.parametrize("name, value", [("period_ms", 0), ("target_ms", 0), ("min_size", 0), ("max_size", 10)])
def test_knobs_of_debloating_are_checked(pool, name, value):
    knobs = {"period_ms": 200, "target_ms": 1000, "min_size": 256, "max_size": 4096}
    knobs |= {"threshold_percentages": 25, "samples": 20}
    with fb.ResultPartition(pool, 1) as partition, fb.InputGate([(partition, 0)]) as gate:
        with pytest.raises(ValueError, match=f"{name}={value}"):
            gate.set_debloating(**{**knobs, name: value})
        gate.set_debloating(**knobs)
        gate.request_partitions()
        with pytest.raises(RuntimeError):
            gate.set_debloating(**knobs)


def test_the_error_of_a_channel_says_which_one_it_is(pool):
    with fb.ResultPartition(pool, 1) as one, fb.ResultPartition(pool, 1) as two:
        with fb.InputGate([(one, 0)]) as first, fb.InputGate([(two, 0)]) as second:
            with fb.network.UnionInputGate([first, second]) as union:
                two.fail("its reason")
                with pytest.raises(fb.errors.CancelTaskError, match="channel 1 .*its reason") as failure:
                    union.poll(5000)
                assert failure.value.channel_index == 1


def test_totals_are_the_sums_of_figures_before_and_after_the_end():
    pool = fb.NetworkBufferPool(16, segment_size=4096)
    partitions = [fb.ResultPartition(pool, 1) for _ in range(2)]
    for partition in partitions:
        with fb.RecordWriter(partition, fb.Types.INT()) as writer:
            writer.emit_all(range(500))
    with fb.InputGate([(partition, 0) for partition in partitions]) as gate:
        reader = fb.RecordReader(gate, fb.Types.INT())
        assert [next(reader) for _ in range(10)]
        for closed in (False, True):
            if closed:
                gate.close()
            channels, totals = gate.figures()["channels"], gate.totals()
            for name in ("bytes", "buffers", "queued"):
                assert totals[name] == sum(channel[name] for channel in channels)
            assert totals["credit"] == 0 and totals["pool"] is None and totals["bytes"] > 0
            assert totals["oldest_ms"] >= 0
