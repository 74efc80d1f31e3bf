"""The peer itself: Flink to Flink gives what the tests expect of every pair."""

import socket

import pytest
from flink_peer import NO_EXCLUSIVE, FlinkError
from flink_records import END, await_processed, barrier, broadcast, end_of_data, expected, finish, records
from support.data.frames import Frame, FrameDecoder

import flinkbuf as fb


@pytest.mark.parametrize("kind", ["bytes", "long", "string"])
def test_flink_reads_what_flink_writes(open_flink, kind):
    here, there = open_flink(), open_flink()
    partition_id = fb.network.ResultPartitionID.random()
    steps = [records(500, 0, 1, 7, 40_000), barrier(1), broadcast(10, 3), records(99, 5), *END]
    there.create_partition(partition_id, 3)
    written = there.write(partition_id, kind, steps)
    assert here.read_all(kind, there.address, partition_id, 3).result(60) == expected(kind, steps, 3)
    written.result(60)


@pytest.mark.parametrize("codec", ["NONE", "LZ4", "ZSTD"])
def test_flink_reads_what_flink_wrote_to_a_file(open_flink, codec):
    config = fb.NetworkConfig(compression_codec=codec)
    here, there = open_flink(config), open_flink(config)
    partition_id = fb.network.ResultPartitionID.random()
    steps = [records(300, 100, 70_000), *END]
    there.create_partition(partition_id, 2, "BLOCKING")
    there.write(partition_id, "bytes", steps).result(60)
    read = here.read_all("bytes", there.address, partition_id, 2, type="BLOCKING")
    assert read.result(60) == expected("bytes", steps, 2)


def test_writer_learns_that_everything_was_processed(open_flink):
    here, there = open_flink(), open_flink()
    partition_id = fb.network.ResultPartitionID.random()
    there.create_partition(partition_id, 1)
    written = there.write(partition_id, "long", [records(10), end_of_data(), await_processed(), finish()])
    here.read_all("long", there.address, partition_id, 1).result(60)
    written.result(60)


def test_failure_over_there_is_told(open_flink):
    with pytest.raises(FlinkError, match="IllegalArgumentException: no partition"):
        open_flink().write(fb.network.ResultPartitionID.random(), "long", []).result(60)


# ---- the knobs that the other tests turn do what they say ------------------------------------------------


@pytest.mark.parametrize(("knobs", "credit"), [({}, 2), (NO_EXCLUSIVE, 0)], ids=["exclusive", "floating"])
def test_credit_that_flinks_reader_begins_with(open_flink, knobs, credit):
    flink, partition_id = open_flink(fb.NetworkConfig(**knobs)), fb.network.ResultPartitionID.random()
    with socket.create_server(("127.0.0.1", 0)) as server:
        reading = flink.read_all("long", server.getsockname(), partition_id, 1)
        connection, _ = server.accept()
        with connection:
            (request,) = FrameDecoder().feed(connection.recv(1 << 16))
    assert (request.message, request.partition, request.numbers["credit"]) == ("PartitionRequest", partition_id, credit)
    assert isinstance(reading.exception(60), FlinkError)


@pytest.mark.parametrize(("codec", "is_compressed"), [("NONE", False), ("LZ4", True), ("ZSTD", True)])
def test_buffers_that_flinks_writer_compresses(open_flink, codec, is_compressed):
    flink, partition_id = open_flink(fb.NetworkConfig(compression_codec=codec)), fb.network.ResultPartitionID.random()
    flink.create_partition(partition_id, 1, "BLOCKING")
    flink.write(partition_id, "bytes", [records(20, 30_000), *END]).result(60)
    decoder, frames = FrameDecoder(), []
    with socket.create_connection(flink.address) as client:
        request = Frame("PartitionRequest", receiver=bytes(range(16)), partition=bytes(partition_id), credit=1000)
        client.sendall(request.encode())
        while not frames or frames[-1].numbers["data_type"] != fb.network.DataType.END_OF_PARTITION:
            frames += decoder.feed(client.recv(1 << 16))
    assert any(frame.numbers["is_compressed"] for frame in frames) == is_compressed
