"""What does TLS cost: buffers of 32 KiB from one process to another with and without it, next to ssl's own sockets?

A producer process writes records of 32,000 bytes, this one reads them, both with `NetworkConfig(tls=...)` and without;
the rival sends as many bytes by `SSLSocket.sendall` and receives them by `recv_into`. Then one record emitted, flushed,
received and sent back, half of that. The plain figures are those of bench_network.py for this record size. Certificates
are made with the command openssl.
"""

import shutil
import socket
import ssl
import subprocess
import tempfile
from functools import partial
from pathlib import Path
from time import perf_counter

import pytest
from measure import SMOKE, measure, report, scaled
from remote_producer import SPAWN, RemoteProducer, round_trips

RECORD = bytes(32_000)
COUNT = scaled(20_000)
ROUND_TRIPS = scaled(2000)
REPEATS = 2 if SMOKE else 5
CURVE = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"


class Certificates:
    """Files of an authority and of one worker, as long as the context lasts; `paths` survive pickling."""

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        here = Path(self.folder.name)
        for arguments in (
            f"req -x509 {CURVE} -keyout {here}/ca.key -out {here}/ca.pem -days 10 -subj /CN=bench",
            f"req {CURVE} -keyout {here}/worker.key -out {here}/worker.csr -subj /CN=worker",
            f"x509 -req -in {here}/worker.csr -CA {here}/ca.pem -CAkey {here}/ca.key -CAcreateserial "
            f"-out {here}/worker.pem -days 10",
        ):
            subprocess.run(["openssl", *arguments.split()], check=True, capture_output=True)
        return {"certificate": f"{here}/worker.pem", "key": f"{here}/worker.key", "authority": f"{here}/ca.pem"}

    def __exit__(self, *error):
        self.folder.cleanup()


def environment(paths):
    import flinkbuf as fb

    return fb.NetworkEnvironment(
        fb.NetworkConfig(tls=fb.network.TlsConfig(**paths) if paths else None), num_segments=4096
    )


def bytes_type():
    import flinkbuf as fb

    return fb.Types.PRIMITIVE_ARRAY(fb.Types.BYTE())


# ---- throughput ------------------------------------------------------------------------------------------------------


def write(env, partition_id, answer):
    """One partition, in the other process."""
    import flinkbuf as fb

    partition = env.create_partition(partition_id, 1)
    answer()
    with fb.RecordWriter(partition, bytes_type()) as writer:
        writer.emit_all(RECORD for _ in range(COUNT))


def read(producer):
    """Read one partition to its end."""
    import flinkbuf as fb

    with producer.open_gate() as gate:
        assert sum(1 for _ in fb.RecordReader(gate, bytes_type())) == COUNT


def context_of(paths, is_server):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if is_server else ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_REQUIRED
    context.load_cert_chain(paths["certificate"], paths["key"])
    context.load_verify_locations(paths["authority"])
    return context


def send_plain(port, paths):
    with socket.create_connection(("127.0.0.1", port)) as plain:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with context_of(paths, False).wrap_socket(plain) as sender:
            for _ in range(COUNT):
                sender.sendall(RECORD)


class PlainSender:
    """The rival: ssl's own sockets."""

    def __init__(self, paths):
        self.paths = paths

    def run(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            process = SPAWN.Process(target=send_plain, args=(server.getsockname()[1], self.paths), daemon=True)
            process.start()
            plain, _ = server.accept()
            target = bytearray(len(RECORD))
            with context_of(self.paths, True).wrap_socket(plain, server_side=True) as receiver:
                started = perf_counter()
                while receiver.recv_into(target):
                    pass
                self.seconds = perf_counter() - started
            process.join()


# ---- figures ---------------------------------------------------------------------------------------------------------


def measure_throughput(name, paths, benchmark=None):
    with RemoteProducer(partial(environment, paths), write) as producer:
        size = COUNT * len(RECORD)
        measure(f"tls_throughput.{name}", partial(read, producer), size, "bytes", repeats=REPEATS, benchmark=benchmark)


def measure_rival(paths, benchmark=None):
    """The rival's clock starts when its process is there and has shaken hands; the harness keeps the fastest."""
    sender, seconds = PlainSender(paths), []
    for _ in range(REPEATS):
        sender.run()
        seconds.append(sender.seconds)
    report("tls_throughput.ssl_socket", seconds, COUNT * len(RECORD), "bytes", benchmark=benchmark)


def measure_latency(name, paths, benchmark=None):
    rounds = sorted(round_trips(partial(environment, paths), bytes_type, b"12345678", ROUND_TRIPS)[ROUND_TRIPS // 10 :])
    for label, share in (("p50", 0.5), ("p99", 0.99)):
        report(f"tls_latency_{label}.{name}", [rounds[int(len(rounds) * share)] / 2], 1, "records", benchmark=benchmark)


def measure_all(benchmark=None):
    with Certificates() as paths:
        for name, files in (("plain", None), ("tls", paths)):
            measure_throughput(name, files)
            measure_latency(name, files, benchmark)
        measure_rival(paths, benchmark)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="certificates are made with the command openssl")
def test_tls(benchmark):
    benchmark.pedantic(measure_all, (benchmark,))


if __name__ == "__main__":
    measure_all()
