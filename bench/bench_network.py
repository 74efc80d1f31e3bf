"""How fast do records go from one process to another over loopback TCP, next to plain send and recv?

A producer process writes, this one reads; each has its task thread and its I/O thread, so four threads share the
cores. Throughput: 8-byte records as columns (no Python objects) over 1, 100 and 1,000 channels, and 100-byte records
as Python's bytes, flushed every 100 ms; one rival sends the same bytes, lengths included, 32 KiB a call. The other is
Flink itself, its own network classes in a JVM, where ``make test-interop`` has brought them into build/interop
(FLINKBUF_INTEROP names another place); without them it is left out. Latency: one record emitted, flushed, received and
sent back, half of that; the rival does it with a socket. bench_partition_client.c asks for whole buffers without
records. In flink-benchmarks: StreamNetworkThroughputBenchmark, StreamNetworkLatencyBenchmark.
"""

import os
import socket
import subprocess
import threading
from functools import partial
from pathlib import Path
from time import perf_counter

import numpy as np
import pytest
from measure import SMOKE, measure, report, scaled
from remote_producer import SPAWN, RemoteProducer, echo, round_trips, time_round_trips

BATCH = 100_000  # records
SEGMENT = 32 * 1024
BATCHES = {"int64": scaled(200), "bytes_100": scaled(20)}
RECORD_BYTES = {"int64": 4 + 8, "bytes_100": 4 + 4 + 100}  # with their lengths
ROUND_TRIPS = scaled(4000)
REPEATS = 2 if SMOKE else 5
ROOT = Path(__file__).resolve().parent.parent
INTEROP = Path(os.environ.get("FLINKBUF_INTEROP", ROOT / "build" / "interop"))


def long_type():
    import flinkbuf as fb

    return fb.Types.LONG()


def type_of(kind):
    import flinkbuf as fb

    return long_type() if kind == "int64" else fb.Types.PRIMITIVE_ARRAY(fb.Types.BYTE())


def environment():
    import flinkbuf as fb

    return fb.NetworkEnvironment(num_segments=16_384)


# ---- throughput ----------------------------------------------------------------------------------------------------


def write(channel_count, kind, env, partition_id, answer):
    """One partition, in the other process."""
    import flinkbuf as fb

    column = np.random.default_rng(20130101).integers(-(2**63), 2**63, BATCH, dtype=np.int64)
    channels = np.arange(BATCH, dtype=np.uint32) % channel_count
    records = [bytes(100)] * BATCH
    with env.create_partition(partition_id, channel_count) as partition:
        answer()
        with fb.RecordWriter(partition, type_of(kind), "rebalance", buffer_timeout_ms=100) as writer:
            for _ in range(BATCHES[kind]):
                if kind == "int64":
                    writer.emit_batch(column, channels)
                else:
                    writer.emit_all(records)


def read(producer, channel_count, kind):
    """Read one partition to its end."""
    import flinkbuf as fb

    seen = 0
    with producer.open_gate(channel_count) as gate:
        reader = fb.RecordReader(gate, type_of(kind))
        if kind == "int64":
            while len(column := reader.read_batch(BATCH)):
                seen += len(column)
        else:
            for _ in reader:
                seen += 1
    assert seen == BATCHES[kind] * BATCH


def send_plain(port, count):
    data = bytes(SEGMENT)
    with socket.create_connection(("127.0.0.1", port)) as sender:
        sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(count):
            sender.sendall(data)


class PlainSender:
    """The rival: a process that sends as many bytes, 32 KiB a call."""

    def __init__(self, kind):
        self.count = -(-BATCHES[kind] * BATCH * RECORD_BYTES[kind] // SEGMENT)

    def __enter__(self):
        self.server = socket.create_server(("127.0.0.1", 0))
        return self

    def __exit__(self, *error):
        self.server.close()

    def run(self):
        process = SPAWN.Process(target=send_plain, args=(self.server.getsockname()[1], self.count), daemon=True)
        process.start()
        receiver, _ = self.server.accept()
        target = bytearray(SEGMENT)
        started = perf_counter()
        with receiver:
            while receiver.recv_into(target):
                pass
        self.seconds = perf_counter() - started
        process.join()


def has_flink():
    return (INTEROP / "classes" / "flinkbuf" / "interop" / "Throughput.class").exists()


def run_flink(kind, channel_count):
    """Seconds of each repeat of the same work by Flink, warmed up; see tests/interop/java/.../Throughput.java."""
    from flinkbuf.spark.java import find_java

    (jars,) = {path.parent for path in INTEROP.rglob("flink-dist-*.jar")}
    names = [jar for jar in jars.glob("*.jar") if jar.name.startswith(("flink-dist-", "log4j-"))]
    command = [
        str(find_java() / "bin" / "java"),
        "-Xmx1g",
        "-XX:MaxDirectMemorySize=2g",
        "--add-opens=java.base/java.lang=ALL-UNNAMED",
        f"-Dlog4j2.configurationFile={ROOT / 'tests' / 'interop' / 'java' / 'log4j2.properties'}",
        "-cp",
        os.pathsep.join(map(str, [INTEROP / "classes", *names])),
        "flinkbuf.interop.Throughput",
        kind,
        str(channel_count),
        str(BATCHES[kind] * BATCH),
        str(REPEATS),
    ]
    printed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=300).stdout
    return [float(line) for line in printed.split()]


# ---- latency -------------------------------------------------------------------------------------------------------


def round_trips_of_records():
    """Seconds of each round trip of one record between two processes."""
    return round_trips(environment, long_type, 7, ROUND_TRIPS)


def round_trips_in_one_process():
    """Seconds of each round trip of one record between two threads, over local channels."""
    import flinkbuf as fb

    asked, answered = fb.network.ResultPartitionID.random(), fb.network.ResultPartitionID.random()
    with (
        environment() as env,
        env.create_partition(asked, 1) as questions,
        env.create_partition(answered, 1) as answers,
    ):
        there = env.create_gate([fb.network.LocalChannel(asked, 0)])
        thread = threading.Thread(target=echo, args=(answers, there, long_type()))
        thread.start()
        with env.create_gate([fb.network.LocalChannel(answered, 0)]) as gate:
            seconds = time_round_trips(questions, gate, long_type(), 7, ROUND_TRIPS)
        thread.join()
    return seconds


def echo_plain(port):
    with socket.create_connection(("127.0.0.1", port)) as peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while data := peer.recv(SEGMENT):
            peer.sendall(data)


def round_trips_of_a_socket():
    """The same with 12 bytes and a socket."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        process = SPAWN.Process(target=echo_plain, args=(server.getsockname()[1],), daemon=True)
        process.start()
        peer, _ = server.accept()
        seconds = []
        with peer:
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for _ in range(ROUND_TRIPS):
                started = perf_counter()
                peer.sendall(bytes(12))
                peer.recv(SEGMENT)
                seconds.append(perf_counter() - started)
        process.join()
    return seconds


def percentile(seconds, share):
    return sorted(seconds)[int(len(seconds) * share)] / 2


THROUGHPUTS = [("int64", 1), ("int64", 100), ("int64", 1000), ("bytes_100", 1), ("bytes_100", 100)]
ROUNDS = {"flinkbuf": round_trips_of_records, "local": round_trips_in_one_process, "socket": round_trips_of_a_socket}


def measure_throughput(kind, channel_count, benchmark=None):
    count = BATCHES[kind] * BATCH
    with RemoteProducer(environment, partial(write, channel_count, kind)) as producer:
        measure(
            f"network_{kind}_{channel_count}.flinkbuf",
            partial(read, producer, channel_count, kind),
            count,
            "records",
            repeats=REPEATS,
            benchmark=benchmark,
        )


def measure_plain(kind, benchmark=None):
    """The rival's clock starts when its process is there; the harness keeps the fastest."""
    seconds = []
    with PlainSender(kind) as sender:
        for _ in range(REPEATS):
            sender.run()
            seconds.append(sender.seconds)
    for channel_count in [count for name, count in THROUGHPUTS if name == kind]:
        report(
            f"network_{kind}_{channel_count}.send_recv", seconds, BATCHES[kind] * BATCH, "records", benchmark=benchmark
        )


def measure_flink(kind, channel_count, benchmark=None):
    seconds = run_flink(kind, channel_count)
    report(f"network_{kind}_{channel_count}.flink", seconds, BATCHES[kind] * BATCH, "records", benchmark=benchmark)


def measure_latency(name, benchmark=None):
    rounds = ROUNDS[name]()[ROUND_TRIPS // 10 :]
    for label, share in (("p50", 0.5), ("p99", 0.99)):
        report(f"network_latency_{label}.{name}", [percentile(rounds, share)], 1, "records", benchmark=benchmark)


@pytest.mark.parametrize("kind, channel_count", THROUGHPUTS)
def test_throughput(benchmark, kind, channel_count):
    measure_throughput(kind, channel_count, benchmark)


@pytest.mark.skipif(not has_flink(), reason="build/interop is not there: make test-interop brings Flink's classes")
@pytest.mark.parametrize("kind, channel_count", THROUGHPUTS)
def test_flink(benchmark, kind, channel_count):
    benchmark.pedantic(measure_flink, (kind, channel_count, benchmark))


@pytest.mark.parametrize("kind", list(BATCHES))
def test_plain(benchmark, kind):
    benchmark.pedantic(measure_plain, (kind, benchmark))


@pytest.mark.parametrize("name", list(ROUNDS))
def test_latency(benchmark, name):
    benchmark.pedantic(measure_latency, (name, benchmark))


if __name__ == "__main__":
    for kind, channel_count in THROUGHPUTS:
        measure_throughput(kind, channel_count)
        if has_flink():
            measure_flink(kind, channel_count)
    for kind in BATCHES:
        measure_plain(kind)
    for name in ROUNDS:
        measure_latency(name)
