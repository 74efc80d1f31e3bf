"""A Redis server of a test's own, on a port of 127.0.0.1; nothing of it is written to a disk."""

import shutil
import socket
import subprocess
import time
from contextlib import contextmanager, suppress

import pytest


class Server:
    def __init__(self, folder):
        self.folder = folder
        self.program = shutil.which("redis-server")
        if self.program is None:
            pytest.skip("no Redis server here; on Debian or Ubuntu: sudo apt-get install redis-server")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.process = None

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self):
        options = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir", str(self.folder)]
        self.process = subprocess.Popen([self.program, *options], stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            time.sleep(0.02)
        raise AssertionError("the Redis server does not come up")

    def stop(self):
        self.process.kill()
        self.process.wait()


@contextmanager
def redis_server(folder):
    server = Server(folder)
    server.start()
    try:
        yield server
    finally:
        server.stop()
