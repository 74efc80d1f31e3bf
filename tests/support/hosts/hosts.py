"""Several hosts out of one machine, with a network between them that is slowed, broken and mended.

A host is namespaces of its own (network, processes, mounts, name) with an address, a name that all know, a temporary
directory, and `SHARED`, a directory that all have, as of NFS. What passes between them goes through `switch_process`.
Linux, root, /dev/net/tun, and `ip`, `unshare` and `nsenter`; nothing is configured outside, and nothing is left: hosts
end with the process that made them, and everything in them with them.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SHARED = "/mnt"  # where the shared directory is, on each host
NETWORK = "10.77.0."
START_S, END_S = 20, 20
NAMESPACES = ("--net", "--mount", "--uts", "--ipc", "--pid")
_TIME_WAIT = "06"


class HostsMissingError(RuntimeError):
    """This machine can make no hosts; says why."""


def why_not():
    """Return a sentence that says what is missing here to make hosts; None if nothing is."""
    if not sys.platform.startswith("linux"):
        return "hosts are made of Linux namespaces, and this is no Linux"
    if os.geteuid() != 0:
        return "hosts are made by root alone"
    for tool in ("ip", "unshare", "nsenter", "mount"):
        if shutil.which(tool) is None:
            return f"`{tool}` is missing, of which hosts are made (Debian: iproute2, util-linux)"
    if not os.path.exists("/dev/net/tun"):
        return "this kernel has no /dev/net/tun, through which hosts reach each other"
    return None


class Hosts:
    """Hosts by name, and the network between them. A context manager.

    Parameters
    ----------
    names : iterable of str
    folder : Path
        For their temporary directories and the shared one.
    """

    def __init__(self, names, folder):
        self.folder, self.shared = Path(folder), Path(folder) / "shared"
        self.shared.mkdir(parents=True)
        self._opened = contextlib.ExitStack()
        self._by_name = {}
        names = list(names)
        known = "".join(f"{NETWORK}{number} {name}\n" for number, name in enumerate(names, 1))
        (self.folder / "names").write_text(f"127.0.0.1 localhost\n{known}")
        try:
            switch_ends = []
            for number, name in enumerate(names, 1):
                host_end, switch_end = map(self._opened.enter_context, socket.socketpair())
                switch_ends.append(switch_end)
                self._by_name[name] = Host(name, number, self, host_end)
                self._opened.callback(self._by_name[name].end)
            self._switch = self._start_switch(switch_ends)
            self._opened.callback(self._end_switch)
            for host in self._by_name.values():
                host.wait_until_ready()
        except BaseException:
            self._opened.close()
            raise

    def _start_switch(self, ends):
        descriptors = [end.fileno() for end in ends]
        command = [sys.executable, "-I", str(HERE / "switch_process.py"), *map(str, descriptors)]
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, pass_fds=descriptors
        )

    def _end_switch(self):
        with self._switch:
            with contextlib.suppress(OSError):
                self._switch.stdin.close()
            self._switch.kill()

    def __getitem__(self, name):
        return self._by_name[name]

    def __iter__(self):
        return iter(self._by_name.values())

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._opened.close()

    # ---- the network; `one` and `other` are hosts, names or lists of them; without, it is all hosts

    def set(self, one=None, other=None, *, both=True, **changes):
        """Change the directions from one to another one, and back; return the bytes of TCP that each has let through.

        `delay_s`, `loss` (a share), `bytes_a_second`, `is_cut`, `cut_after` (so many more bytes of TCP), `ports` (the
        ranges where the other one lets anybody in).
        """
        ones, others = self._numbers(one), self._numbers(other)
        pairs = {(a, b) for a in ones for b in others if a != b}
        if both:
            pairs |= {(b, a) for a, b in pairs}
        return self._tell({"directions": sorted(pairs), "changes": changes})

    def cut(self, one=None, other=None, *, both=True):
        """Let nothing through: whoever sends hears nothing of it."""
        self.set(one, other, both=both, is_cut=True)

    def mend(self):
        """Let all through again, at once."""
        self.set(delay_s=0.0, loss=0.0, bytes_a_second=None, is_cut=False, cut_after=None, ports=None)

    def _tell(self, command):
        if self._switch.stdout.closed or self._switch.poll() is not None:
            raise RuntimeError("the switch has ended")
        self._switch.stdin.write(json.dumps(command) + "\n")
        answer = self._switch.stdout.readline()
        while answer == "ready\n":
            answer = self._switch.stdout.readline()
        return json.loads(answer)

    def _numbers(self, hosts):
        if hosts is None:
            return [host.number for host in self]
        if isinstance(hosts, (str, Host)):
            hosts = [hosts]
        return [(self[host] if isinstance(host, str) else host).number for host in hosts]


class Host:
    """One host; `Hosts` makes it.

    Attributes
    ----------
    name, address : str
    temporary : Path
        Its temporary directory, as seen from everywhere.
    """

    def __init__(self, name, number, hosts, channel):
        self.name, self.number, self.address = name, number, f"{NETWORK}{number}"
        self.temporary = hosts.folder / name
        self.temporary.mkdir()
        self.pid = None
        self._started = []
        settings = {
            "name": name,
            "number": number,
            "address": self.address,
            "names": str(hosts.folder / "names"),
            "shared": str(hosts.shared),
            "shared_at": SHARED,
            "switch": channel.fileno(),
        }
        command = ["unshare", *NAMESPACES, "--fork", "--kill-child", "--mount-proc", sys.executable, "-I"]
        self._process = subprocess.Popen(
            [*command, str(HERE / "host_process.py"), json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            pass_fds=[channel.fileno()],
        )

    def wait_until_ready(self):
        """Wait until processes can be started there."""
        if self._process.stdout.readline() != "ready\n":
            self._process.stdin.close()
            raise HostsMissingError(f"this machine makes no hosts: {self._process.stderr.read().strip()}")
        self.pid = _only_child_of(self._process.pid)

    def end(self):
        """End all that runs there, and the host. Idempotent."""
        if not self._process.stdin.closed:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
            try:
                self._process.wait(END_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
            with self._process:  # closes its pipes
                pass
        for process in self._started:
            process.wait(END_S)
            process.close()

    def start(self, *command, **variables):
        """Start a process there; its standard output and error go to files of `HostProcess`."""
        self._started.append(HostProcess(self, list(map(str, command)), variables))
        return self._started[-1]

    def run(self, *command, timeout_s=60, **variables):
        """Run a command there and return what it printed; AssertionError, with what it said, if it fails."""
        process = self.start(*command, **variables)
        assert process.wait(timeout_s) == 0, process.said()
        return process.output()

    def set_interface(self, word):
        """Take its interface ``"down"`` or ``"up"``: what is sent then fails at once."""
        subprocess.run([*self._inside(), "ip", "link", "set", "eth0", word], check=True)

    def processes(self):
        """Return the command lines of what runs there, by the process id outside."""
        found = {}
        own = os.readlink(f"/proc/{self.pid}/ns/pid")
        for entry in os.listdir("/proc"):
            with contextlib.suppress(OSError):
                if entry.isdigit() and int(entry) != self.pid and os.readlink(f"/proc/{entry}/ns/pid") == own:
                    line = Path(f"/proc/{entry}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
                    found[int(entry)] = line
        return found

    def sockets(self):
        """Return (local address, remote address) of its TCP sockets that a process holds, or the system for one."""
        found = []
        for name in ("tcp", "tcp6"):
            for line in Path(f"/proc/{self.pid}/net/{name}").read_text().splitlines()[1:]:
                _, local, remote, state, *_ = line.split()
                if state != _TIME_WAIT:
                    found.append((_address(local), _address(remote)))
        return found

    def files(self):
        """Return the files in its temporary directory."""
        return sorted(str(path.relative_to(self.temporary)) for path in self.temporary.rglob("*") if path.is_file())

    def _inside(self):
        return ["nsenter", "--target", str(self.pid), *NAMESPACES]


class HostProcess:
    """A process on a host.

    Attributes
    ----------
    out, err : Path
        What it has printed.
    """

    _count = 0

    def __init__(self, host, command, variables):
        HostProcess._count += 1
        logs = host.temporary.parent / "logs"
        logs.mkdir(exist_ok=True)
        stem = f"{host.name}-{HostProcess._count}"
        self.host, self.out, self.err = host, logs / f"{stem}.out", logs / f"{stem}.err"
        environment = {"PATH": os.environ["PATH"], "HOME": "/root", "LANG": "C.UTF-8", "TMPDIR": str(host.temporary)}
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self._process = subprocess.Popen(
                [*host._inside(), *command],
                env={**environment, **variables},
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    def kill(self, number=signal.SIGKILL):
        """Send it a signal, SIGKILL by default."""
        with contextlib.suppress(OSError, ValueError):
            os.kill(_only_child_of(self._process.pid, 1), number)
        if number == signal.SIGKILL:
            self._process.wait(END_S)

    def close(self):
        """End its standard input."""
        with contextlib.suppress(OSError):
            self._process.stdin.close()

    def write(self, text):
        """Give it a line of standard input."""
        self._process.stdin.write(f"{text}\n".encode())
        self._process.stdin.flush()

    def poll(self):
        """Return how it has ended; None: not yet."""
        return self._process.poll()

    def wait(self, timeout_s):
        """Wait for its end and return how it was; AssertionError, with what it said, if it does not come."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill(signal.SIGQUIT)  # Java and pytest say where they are
            time.sleep(0.5)
            self.kill()
            raise AssertionError(f"it has not ended within {timeout_s} s; {self.said()}") from None

    def wait_for(self, text, timeout_s=60):
        """Wait until it has printed a text."""
        self._wait_for(text, self.output, timeout_s)

    def wait_for_error(self, text, timeout_s=60):
        """Wait until it has printed a text to standard error, as of a log."""
        self._wait_for(text, self.errors, timeout_s)

    def _wait_for(self, text, printed, timeout_s):
        deadline = time.monotonic() + timeout_s
        while text not in printed():
            assert self.poll() is None or text in printed(), f"it ended before it said {text!r}; {self.said()}"
            assert time.monotonic() < deadline, f"it did not say {text!r} within {timeout_s} s; {self.said()}"
            time.sleep(0.02)

    def output(self):
        """Return what it printed so far."""
        return self.out.read_text(errors="replace")

    def errors(self):
        """Return what it printed to standard error so far."""
        return self.err.read_text(errors="replace")

    def said(self):
        """Return the end of what it has printed, for messages."""
        return f"on {self.host.name}, {self.poll()}:\n{self.output()[-3000:]}\n{self.errors()[-6000:]}"


def _only_child_of(pid, wait_s=START_S):
    deadline = time.monotonic() + wait_s
    while True:
        words = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if words:
            return int(words[0])
        if time.monotonic() > deadline:
            raise ValueError(f"process {pid} has no child")
        time.sleep(0.01)


def _address(text):
    host, port = text.split(":")
    return f"{'.'.join(map(str, reversed(bytes.fromhex(host[-8:]))))}:{int(port, 16)}"


def hosts_or_skip(names, folder):
    """Return the hosts, or leave the test out with a sentence that says what is missing."""
    missing = why_not()
    if missing is not None:
        pytest.skip(missing)
    try:
        return Hosts(names, folder)
    except HostsMissingError as error:
        pytest.skip(str(error))
