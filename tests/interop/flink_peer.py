"""TaskManagers' networks of the real Apache Flink, in a JVM of their own that takes commands (java/.../Peer.java)."""

import itertools
import json
import subprocess
import threading
from concurrent.futures import Future

import flinkbuf as fb

NO_LIMIT = 2**62
NO_EXCLUSIVE = {"buffers_per_channel": 0, "read_buffer_required_per_gate_max": 1}  # Flink has the second only
NETWORK_MEMORY = 64 * 1024 * 1024


class FlinkError(Exception):
    """A command that failed over there: the exceptions, outermost first, as "class: message"."""

    def __init__(self, causes):
        super().__init__("\n".join(causes))
        self.causes = causes


class FlinkPeer:
    """One JVM. Commands run at the same time, each gives a future; the JVM ends with `close`, or by `kill`."""

    def __init__(self, java, classpath, log, folder):
        command = [
            str(java),
            "-Xmx512m",
            "-XX:MaxDirectMemorySize=1g",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "--add-opens=java.base/java.lang=ALL-UNNAMED",
            f"-Dlog4j2.configurationFile={log}",
            f"-Djava.io.tmpdir={folder}",
            "-cp",
            classpath,
            "flinkbuf.interop.Peer",
        ]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder
        )  # what it is asked to write at relative paths lands there
        self._lock, self._ids, self._waiting = threading.Lock(), itertools.count(), {}
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        for line in self._process.stdout:
            answer = json.loads(line)
            future = self._waiting.pop(answer["id"])
            if "failure" in answer:
                future.set_exception(FlinkError(answer["failure"]))
            else:
                future.set_result(answer)
        for future in self._waiting.values():
            future.set_exception(FlinkError([f"the JVM ended with status {self._process.wait()}"]))

    def send(self, verb, environment, **fields):
        future = Future()
        with self._lock:
            number = next(self._ids)
            self._waiting[number] = future
            line = json.dumps({"id": number, "verb": verb, "environment": environment, **fields})
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        return future

    def kill(self):
        self._process.kill()
        self._process.wait()

    def close(self):
        self._process.stdin.close()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process.stdout.close()


class FlinkEnvironment:
    """One TaskManager's network in a peer: configured by a `NetworkConfig`, as ours, and by more options of Flink."""

    _names = itertools.count()

    def __init__(self, peer, config, options=()):
        self._peer, self._name = peer, str(next(self._names))
        answer = peer.send("open", self._name, options={**config.to_flink(), **dict(options)}, memory=NETWORK_MEMORY)
        self.address = ("127.0.0.1", answer.result(60)["port"])

    def create_partition(self, partition_id, subpartitions, type="PIPELINED_BOUNDED"):
        created = self._peer.send(
            "create", self._name, partition=partition_id.hex(), subpartitions=subpartitions, type=type
        )
        created.result(60)

    def write(self, partition_id, kind, steps, flush_ms=100):
        """Start a task that writes a partition by `steps`; a future of its end."""
        return self._peer.send(
            "write", self._name, partition=partition_id.hex(), records=kind, steps=steps, flush_ms=flush_ms
        )

    def read(
        self, kind, gates, limit=NO_LIMIT, pause_every=NO_LIMIT, pause_ms=0, buffer_size=0, type="PIPELINED_BOUNDED"
    ):
        """Start a task for each gate, a pair of a subpartition index and a list of (address, partition id): one channel
        each. A future of the digests by gate and channel. `limit` and `pause_every` count the records of each task;
        `buffer_size` is what it asks its senders for, 0: nothing."""
        described = [
            {
                "subpartition": subpartition,
                "type": type,
                "producers": [
                    {"host": host, "port": port, "partition": partition_id.hex()}
                    for (host, port), partition_id in producers
                ],
            }
            for subpartition, producers in gates
        ]
        answer = self._peer.send(
            "read",
            self._name,
            records=kind,
            gates=described,
            limit=limit,
            pause_every=pause_every,
            pause_ms=pause_ms,
            buffer_size=buffer_size,
        )
        digests = Future()
        answer.add_done_callback(lambda done: _pass_on(done, digests))
        return digests

    def read_all(self, kind, address, partition_id, subpartitions, **options):
        """One task for each subpartition of one partition; a future of their digests."""
        return self.read(kind, [(index, [(address, partition_id)]) for index in range(subpartitions)], **options)

    def release(self, partition_id):
        self._peer.send("release", self._name, partition=partition_id.hex()).result(60)

    def close(self):
        """Close everything; fails if somebody still holds a segment afterwards."""
        out = self._peer.send("close", self._name).result(60)["segments_out"]
        assert out == 0, f"{out} of Flink's segments have not come home"


def _pass_on(done, digests):
    if done.exception() is not None:
        digests.set_exception(done.exception())
    else:
        digests.set_result([digest for gate in done.result()["gates"] for digest in gate])


def remote_channels(address, partition_id, subpartitions):
    """A channel for each subpartition of one partition."""
    return [fb.network.RemoteChannel(*address, partition_id, index) for index in range(subpartitions)]
