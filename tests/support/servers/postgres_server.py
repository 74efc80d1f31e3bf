"""A PostgreSQL server of a test's own, in a directory of its own, reached over a Unix socket and over TCP."""

import os
import shutil
import socket
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.waiting import wait_until


def programs():
    """The directory of initdb and pg_ctl; skips the test where there is no server."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb")) or [Path(shutil.which("initdb") or "/missing")]
    if not found[-1].exists():
        pytest.skip("no PostgreSQL server here; on Debian or Ubuntu: sudo apt-get install postgresql")
    return found[-1].parent


class Server:
    def __init__(self, folder, settings):
        self.folder = Path(folder)
        self.programs = programs()
        self.as_user = []
        if os.getuid() == 0:  # PostgreSQL refuses to run as root
            self.as_user = ["runuser", "-u", "postgres", "--"]
            self.folder.chmod(0o755)
            shutil.chown(self.folder, "postgres")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.host, self.port = probe.getsockname()
        self.settings = {
            "port": self.port,
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": self.folder,
            "fsync": "off",
            **settings,
        }
        initdb = [self.programs / "initdb", "-D", self.data, "-A", "trust", "-U", "tester", "-N"]
        self._run(*initdb)

    @property
    def data(self):
        return self.folder / "data"

    @property
    def connection(self):
        return f"host={self.folder} port={self.port} user=tester dbname=postgres"

    def _run(self, *command):
        subprocess.run([*self.as_user, *command], check=True, capture_output=True)

    def start(self):
        options = " ".join(f"-c {name}={value}" for name, value in self.settings.items())
        self._run(self.programs / "pg_ctl", "-D", self.data, "-w", "-l", self.folder / "log", "-o", options, "start")

    def stop(self):
        self._run(self.programs / "pg_ctl", "-D", self.data, "-m", "immediate", "-w", "-t", "180", "stop")

    def back_up(self):
        """Copy what is on disk, behind a CHECKPOINT and while nothing is written."""
        self._run("cp", "-a", self.data, self.folder / "backup")
        self._run("rm", self.folder / "backup" / "postmaster.pid")

    def set_back(self):
        """Begin again with what was copied, as a restored server does: its log goes on another way."""
        self.stop()
        self._run("rm", "-rf", self.data)
        self._run("mv", self.folder / "backup", self.data)
        self._run("touch", self.data / "recovery.signal")
        self.settings["restore_command"] = "false"  # there is nothing behind the copy
        self.start()  # which ends as soon as it can be read
        wait_until(lambda: not self._is_in_recovery())

    def _is_in_recovery(self):
        query = [self.programs / "psql", "-Atd", self.connection, "-c", "SELECT pg_is_in_recovery()"]
        return subprocess.run(query, capture_output=True).stdout != b"f\n"


@contextmanager
def postgres_server(**settings):
    """Run a server in a folder that is not pytest's, which each start of pytest closes to the server's user."""
    with tempfile.TemporaryDirectory(prefix="flinkbuf-postgres-") as folder:
        server = Server(folder, settings)
        server.start()
        try:
            yield server
        finally:
            server.stop()
