"""Networks of their own, in one process: a thread enters one, and what it opens there stays there."""

import contextlib
import ctypes
import os
import subprocess

from support.faults.fault_job import Task

CLONE_NEWNET = 0x40000000
PATIENCE_S = 60


class Namespace:
    """A network of its own, with one interface to another one."""

    def __init__(self):
        self.fd = in_thread(self._make)

    @staticmethod
    def _make():
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(CLONE_NEWNET) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)

    def run(self, function, *args, **options):
        """Call it in a thread that is inside, and so will be what it starts."""
        return in_thread(self._enter, function, args, options)

    def _enter(self, function, args, options):
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(self.fd, CLONE_NEWNET) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        return function(*args, **options)

    def ip(self, *words):
        done = self.run(subprocess.run, ["ip", *words], capture_output=True, text=True)
        if done.returncode != 0:
            raise OSError(f"ip {' '.join(words)}: {done.stderr.strip()}")

    def __enter__(self):
        return self

    def __exit__(self, *error):
        os.close(self.fd)


def in_thread(function, *args):
    """What it returns or raises; the thread ends, and with it whatever it entered."""
    task = Task(function, *args)
    task.start()
    task.end(PATIENCE_S)
    if task.error is not None:
        raise task.error
    return task.result


@contextlib.contextmanager
def linked_namespaces(*addresses):
    """Two networks by their addresses, with a link between them. OSError where the system does not permit them."""
    with contextlib.ExitStack() as opened:
        spaces = {address: opened.enter_context(Namespace()) for address in addresses}
        first, second = spaces.values()
        other = f"/proc/{os.getpid()}/fd/{second.fd}"
        first.ip("link", "add", "link0", "type", "veth", "peer", "name", "link0", "netns", other)
        for address, space in spaces.items():
            space.ip("address", "add", f"{address}/24", "dev", "link0")
            space.ip("link", "set", "link0", "up")
        yield spaces
