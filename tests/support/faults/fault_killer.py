"""Processes to be killed: one that forks a victim for every line it reads, and what a test holds of it.

The process that forks has no thread of its own, so a victim costs a fork and not a start of Python. A victim writes or
reads one partition, says what it has come to, and then waits to be killed: it never ends by itself, so its number is
nobody else's while somebody may send it a signal. How far it has read stands in a file that survives it.
"""

import contextlib
import json
import mmap
import os
import signal
import struct
import subprocess
import sys
import threading

from support.faults.fault_job import TYPE, config_of, records_of

import flinkbuf as fb

PRODUCE, CONSUME = "produce", "consume"


class Killer:
    """Has victims forked, one at a time, and kills them with SIGKILL."""

    def __init__(self, count_path):
        with open(count_path, "wb") as file:
            file.write(bytes(8))
        self._file = open(count_path, "r+b")  # noqa: SIM115  # closed with the killer
        self._count = mmap.mmap(self._file.fileno(), 8)
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(count_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},  # the same flinkbuf as here
        )
        self._said, self._says, self._victim = [], threading.Condition(), None
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self._victim is not None:
            os.kill(self._victim, signal.SIGKILL)
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        self._process.wait(60)
        self._listener.join(60)
        self._process.stdout.close()
        self._count.close()
        self._file.close()

    def _listen(self):
        for line in self._process.stdout:
            with self._says:
                word, _, rest = line.strip().partition(" ")
                self._said.append((word, rest))
                self._says.notify_all()
        with self._says:
            self._said.append(("gone", "the process that forks has ended"))
            self._says.notify_all()

    def hear(self, *words, seconds=60):
        """Wait until the victim has said one of `words`; gives what it said after it, or None if it is dead."""
        with self._says:
            is_said = self._says.wait_for(lambda: self.said(*words, "dead", "gone"), seconds)
            assert is_said, f"{words} was waited for in vain"
            word, rest = self.said(*words, "dead", "gone")
        assert word != "gone", rest
        return rest if word in words else None

    def said(self, *words):
        """The first that begins with one of `words`, as (word, rest), if any."""
        return next((each for each in self._said if each[0] in words), None)

    def start(self, role, **task):
        """Fork a victim for a task: a dict of what `produce` or `consume` take."""
        with self._says:
            self._said.clear()
        self._count[:] = bytes(8)
        self._process.stdin.write(json.dumps({"role": role, **task}) + "\n")
        self._process.stdin.flush()
        self._victim = int(self.hear("pid"))

    def kill(self):
        """End it, wherever it is; it is gone when this returns, and so are its sockets."""
        os.kill(self._victim, signal.SIGKILL)
        self._victim = None
        self.hear()

    @property
    def count(self):
        """Records that the victim has read."""
        return struct.unpack("q", self._count)[0]


# ---- in the other process ------------------------------------------------------------------------------------------


def say(word, rest=""):
    os.write(1, f"{word} {rest}\n".encode())


def environment(task):
    return fb.NetworkEnvironment(
        config_of(task["buffers_per_channel"], auth=bytes.fromhex(task["secret"]), partition_request_timeout_ms=60_000),
        num_segments=64,
    )


def produce(task, count):
    """Write records into a partition that others ask for at the address that is said."""
    with environment(task) as env:
        say("address", env.address[1])
        with env.create_partition(task["partition_id"], 1) as partition:
            with fb.RecordWriter(partition, TYPE, buffer_timeout_ms=task["timeout_ms"]) as writer:
                writer.emit_all(records_of(task["record_count"]))
    say("done")


def consume(task, count):
    """Read a partition, and compare every record as it comes."""
    channel = fb.network.RemoteChannel("127.0.0.1", task["port"], task["partition_id"], 0)
    with environment(task) as env, env.create_gate([channel]) as gate:
        for number, record in enumerate(fb.RecordReader(gate, TYPE)):
            if record != (number, f"record {number} of channel 0"):
                say("wrong", f"record {number}: {record!r}")
            count[:] = struct.pack("q", number + 1)
    say("done")


def be_killed(task, count):
    say("pid", os.getpid())
    try:
        {PRODUCE: produce, CONSUME: consume}[task["role"]](task, count)
    except BaseException as error:
        say("error", f"{type(error).__name__}: {error}".replace("\n", " "))
    os.read(0, 1)  # nothing more is written before it is dead: this ends with the test's process
    os._exit(1)


def main(count_path):
    with open(count_path, "r+b") as file:
        count = mmap.mmap(file.fileno(), 8)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            be_killed(json.loads(line), count)
        os.waitpid(child, 0)
        say("dead")


if __name__ == "__main__":
    main(sys.argv[1])
