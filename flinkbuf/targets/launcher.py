"""The launcher: one process beside a program, with a single thread, which forks the program's local task managers.

It has imported what task managers need, so that each is there in milliseconds; it hears of each end at once, with exit
code or signal; and it outlives neither the program nor leaves anybody behind: it ends when its end of the channel, or
the process that started it, has ended, and what it forked ends with it. It is a session of its own, so that Ctrl-C on
a terminal reaches the program only.

On the channel, a pair of sockets, both say frames: the lengths of a head in JSON and of a body, then both. Standard
output and error of a task manager come with the call that starts it.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import faulthandler
import gc
import json
import os
import select
import signal
import socket
import struct
import sys
import time
import traceback
import warnings
from collections import deque
from typing import Final, NoReturn

from flinkbuf.control.message_codec import Json
from flinkbuf.runtime.manager.arrow_memory import prefer_system_memory
from flinkbuf.targets.libraries import import_all, import_libraries
from flinkbuf.targets.local_manager import ManagerOrder, run_local_manager

KILLED_WITH_PROGRAM_S = 1.0  # for task managers to end by themselves when the program has gone
ERROR_LIMIT = 16 * 1024  # characters of what a task manager says about its own failure
_LENGTHS = struct.Struct(">II")
_CHUNK = 256 * 1024
_PR_SET_PDEATHSIG = 1


def frame(head: Json, body: bytes = b"") -> bytes:
    """Return the bytes of a frame."""
    text = json.dumps(head).encode()
    return b"".join((_LENGTHS.pack(len(text), len(body)), text, body))


class FrameTaker:
    """Joins the bytes that come from a channel into frames."""

    def __init__(self) -> None:
        self._data = bytearray()

    def take(self, data: bytes) -> list[tuple[Json, bytes]]:
        """Return head and body of each frame that is whole now."""
        self._data += data
        frames = []
        while len(self._data) >= _LENGTHS.size:
            head_size, body_size = _LENGTHS.unpack_from(self._data)
            middle = _LENGTHS.size + head_size
            if len(self._data) < middle + body_size:
                break
            head = json.loads(self._data[_LENGTHS.size : middle])
            frames.append((head, bytes(self._data[middle : middle + body_size])))
            del self._data[: middle + body_size]
        return frames


class _Child:
    """A task manager that was forked and has not been reaped."""

    def __init__(self, number: int, pid: int, error_fd: int) -> None:
        self.number = number
        self.pid = pid
        self.error_fd = error_fd  # what it says about its own failure
        self.kill_at: float | None = None


class Launcher:
    """Does what the program asks on the channel, until the channel ends."""

    def __init__(self, channel: socket.socket, program_pid: int) -> None:
        self._channel = channel
        self._program_pid = program_pid
        self._pid = os.getpid()
        self._frames = FrameTaker()
        self._descriptors: deque[int] = deque()  # descriptors that came with frames not yet whole
        self._bundles: dict[str, bytes] = {}
        self._children: dict[int, _Child] = {}  # by process
        self._woken, self._waker = socket.socketpair()
        self._woken.setblocking(False)
        self._waker.setblocking(False)
        self._has_ended = False

    def run(self) -> None:
        """Serve until the program has gone, then end all that was forked."""
        signal.signal(signal.SIGCHLD, lambda number, stack: None)  # so that it wakes
        signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        poll = select.poll()
        for each in (self._channel, self._woken):
            poll.register(each, select.POLLIN)
        program = _pidfd(self._program_pid)
        if program is not None:
            poll.register(program, select.POLLIN)
        self._say({"ready": True})
        while not self._has_ended:
            ready = dict(poll.poll(self._patience_ms(program is None)))
            if self._woken.fileno() in ready:
                self._woken.recv(4096)
            if self._channel.fileno() in ready:
                self._hear()
            if program in ready or os.getppid() != self._program_pid:
                self._has_ended = True
            self._reap()
            self._kill_late()
        self._end_all()

    # ---- the channel

    def _hear(self) -> None:
        try:
            data, descriptors, _, _ = socket.recv_fds(self._channel, _CHUNK, 8)
        except OSError:
            data, descriptors = b"", []
        self._descriptors += descriptors
        if not data:
            self._has_ended = True
        for head, body in self._frames.take(data):
            if "keep" in head:
                self._bundles[head["keep"]] = body
                os.environ.clear()  # libraries look at it when they are imported
                os.environ.update(head["environment"])
                prefer_system_memory(os.environ)
                sys.path[:] = head["path"]
                import_all(head["modules"])
                import_libraries(head["libraries"])
            elif "forget" in head:
                self._bundles.pop(head["forget"], None)
            elif "start" in head:
                self._start(head["start"], head["job"], ManagerOrder(**head["order"]))
            elif "end" in head:
                self._end(head["end"], head["grace_s"])

    def _say(self, head: Json) -> None:
        with contextlib.suppress(OSError):  # the program has gone, which the loop finds out
            self._channel.sendall(frame(head))

    # ---- task managers

    def _start(self, number: int, job: str, order: ManagerOrder) -> None:
        output, errors = self._descriptors.popleft(), self._descriptors.popleft()
        failure, says_failure = os.pipe()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a library that was imported may have started a thread
                pid = os.fork()
        except OSError as error:
            self._say({"ended": number, "pid": None, "error": f"no process can be started: {error.strerror}"})
            os.close(failure)
        else:
            if pid == 0:
                self._be_manager(order, self._bundles[job], output, errors, says_failure)
            self._children[pid] = _Child(number, pid, failure)
            self._say({"started": number, "pid": pid})
        for descriptor in (output, errors, says_failure):
            os.close(descriptor)

    def _be_manager(self, order: ManagerOrder, bundle: bytes, output: int, errors: int, says_failure: int) -> NoReturn:
        """Run a forked task manager until its end."""
        code = 1
        try:
            self._leave_launcher(output, errors)
            run_local_manager(order, bundle)
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        except BaseException:
            text = traceback.format_exc()[-ERROR_LIMIT:]
            os.write(says_failure, text.encode("utf-8", "replace"))
        finally:
            _exit(code)

    def _leave_launcher(self, output: int, errors: int) -> None:
        os.setpgid(0, 0)  # killing the group also kills the processes that its functions start
        if _LIBC is not None:  # it is killed when the launcher has ended, however
            _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != self._pid:  # it was faster
                os._exit(1)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for each in (self._channel, self._woken, self._waker):
            each.close()
        for child in self._children.values():
            os.close(child.error_fd)
        for ours, theirs in ((output, 1), (errors, 2)):
            os.dup2(ours, theirs)
            os.close(ours)
        self._children.clear()
        self._bundles.clear()
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
        faulthandler.enable()

    def _end(self, number: int, grace_s: float) -> None:
        """Kill a task manager unless it has ended by itself by then."""
        for child in self._children.values():
            if child.number == number:
                deadline = time.monotonic() + grace_s
                child.kill_at = deadline if child.kill_at is None else min(child.kill_at, deadline)

    def _reap(self) -> None:
        while self._children:
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if found is None:
                return
            _kill_group(found.si_pid)  # what its functions started and left; its number is not another's yet
            pid, status, usage = os.wait4(found.si_pid, 0)
            child = self._children.pop(pid, None)
            if child is not None:
                self._say(
                    {
                        "ended": child.number,
                        "pid": pid,
                        "exit_code": os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
                        "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else None,
                        "peak_kib": usage.ru_maxrss // (1024 if sys.platform == "darwin" else 1),
                        "error": _read_all(child.error_fd),
                    }
                )

    def _kill_late(self) -> None:
        now_s = time.monotonic()
        for child in self._children.values():
            if child.kill_at is not None and child.kill_at <= now_s:
                child.kill_at = None
                _kill_group(child.pid)
                _kill(child.pid)

    def _patience_ms(self, looks_for_program: bool) -> float | None:
        deadlines = [child.kill_at for child in self._children.values() if child.kill_at is not None]
        patience_s = [max(0.0, min(deadlines) - time.monotonic()) + 0.001] if deadlines else []
        if looks_for_program:
            patience_s.append(0.5)
        return min(patience_s) * 1000 if patience_s else None

    def _end_all(self) -> None:
        """End all task managers: the program has gone, and with it their connections."""
        self._channel.close()
        deadline = time.monotonic() + KILLED_WITH_PROGRAM_S
        while self._children and time.monotonic() < deadline:
            self._reap()
            time.sleep(0.01)
        for child in self._children.values():
            _kill_group(child.pid)
            _kill(child.pid)
        while self._children:
            self._reap()
            time.sleep(0.005)


_LARGE = ("encodings.idna",)  # what a connection needs, and would be imported in each task manager


def _exit(code: int) -> NoReturn:
    """End what was forked, with what its functions have registered, but without what the launcher has of Python."""
    try:
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
    finally:
        os._exit(code)


def _pidfd(pid: int) -> int | None:
    """Return a descriptor to poll for the end of a process; None where the system has none."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _read_all(descriptor: int) -> str:
    """Read what a task manager has left; what it has started may still hold the other end."""
    os.set_blocking(descriptor, False)
    try:
        return os.read(descriptor, 4 * ERROR_LIMIT).decode("utf-8", "replace")
    except BlockingIOError:
        return ""
    finally:
        os.close(descriptor)


_LIBC: Final = ctypes.CDLL(None) if sys.platform == "linux" else None


def main(channel_fd: int, program_pid: int) -> None:
    """Be the launcher of a program."""
    import_all(_LARGE)
    gc.collect()
    gc.freeze()  # what is here stays, and is shared with what is forked
    Launcher(socket.socket(fileno=channel_fd), program_pid).run()
