"""The program's end of its launcher: has it started when one is needed, and hears what becomes of task managers."""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import itertools
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from flinkbuf.control.message_codec import Json
from flinkbuf.log import logger
from flinkbuf.targets.launcher import FrameTaker, frame
from flinkbuf.targets.libraries import libraries_of
from flinkbuf.targets.local_manager import ManagerOrder

T = TypeVar("T")


END_PATIENCE_S = 5.0  # for the launcher to end with all that it has forked; then it is killed
_CHUNK = 64 * 1024
_OF_TASKS = tuple(f"flinkbuf.{each}." for each in ("_core", "types", "network", "records", "async_io", "streaming"))
_RUN = "import sys; sys.path[:] = {path!r}; from flinkbuf.targets.launcher import main; main({fd}, {pid})"


@dataclass(frozen=True)
class ProcessEnd:
    """How the process of a task manager ended.

    Attributes
    ----------
    pid : int or None
        None: it never came into being.
    exit_code, signal : int or None
        One of them, if it is known.
    peak_kib : int
        The most memory it had.
    error : str
        The traceback of what ended it, or why it could not be started.
    """

    pid: int | None = None
    exit_code: int | None = None
    signal: int | None = None
    peak_kib: int = 0
    error: str = ""

    def __str__(self) -> str:
        if self.signal is not None:
            name = signal.Signals(self.signal).name if self.signal in set(signal.Signals) else f"signal {self.signal}"
            return f"was killed by {name}"
        return "has ended" if self.exit_code is None else f"ended with exit code {self.exit_code}"


OnStarted = Callable[[int], object]
OnEnded = Callable[[ProcessEnd], object]


class LauncherProcess:
    """A launcher that runs. Its methods may be called by any thread; callbacks come on a thread of its own.

    Attributes
    ----------
    pid : int
        Of the launcher.
    """

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            code = _RUN.format(path=program_path(), fd=theirs.fileno(), pid=os.getpid())
            self._process = subprocess.Popen(
                [sys.executable, *subprocess._args_from_interpreter_flags(), "-c", code],  # type: ignore[attr-defined]
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self.pid = self._process.pid
        self._program_pid = os.getpid()
        self._channel = ours
        self._lock = threading.Lock()  # of what is sent, and of the dict
        self._numbers = itertools.count(1)
        self._waiting: dict[int, tuple[OnStarted, OnEnded]] = {}  # by number of the task manager
        self._has_ended = False
        self._thread = threading.Thread(target=self._read, name="flinkbuf-launcher", daemon=True)
        self._thread.start()

    @property
    def is_usable(self) -> bool:
        """Return whether the launcher can start task managers: it runs, and belongs to this process."""
        return not self._has_ended and self._program_pid == os.getpid()

    def keep(self, job: str, bundle: bytes) -> None:
        """Give the launcher the bundle that the task managers of a job need."""
        modules = [name for name in sys.modules if name.startswith(_OF_TASKS)]
        head = {"modules": modules, "libraries": libraries_of(bundle), "path": program_path()}
        self._say({"keep": job, **head, "environment": dict(os.environ)}, bundle)

    def forget(self, job: str) -> None:
        """Drop the bundle of a job that is over."""
        with contextlib.suppress(OSError):
            self._say({"forget": job})

    def start(self, job: str, order: ManagerOrder, on_started: OnStarted, on_ended: OnEnded) -> int:
        """Have a task manager forked; returns its number. `on_ended` is called once, whatever happens.

        Its standard output and error are those that this process has now.

        Raises
        ------
        OSError
            The launcher has ended.
        """
        number = next(self._numbers)
        with self._lock:
            self._waiting[number] = on_started, on_ended
        try:
            self._say({"start": number, "job": job, "order": dataclasses.asdict(order)}, descriptors=(1, 2))
        except OSError:
            with self._lock:
                is_told = self._waiting.pop(number, None) is None
            if not is_told:
                raise
        return number

    def end(self, number: int, grace_s: float) -> None:
        """Kill a task manager unless it has ended by itself after so long."""
        with contextlib.suppress(OSError):  # the launcher has ended, with all that it had forked
            self._say({"end": number, "grace_s": grace_s})

    def close(self) -> None:
        """End the launcher and all that it has forked; return when they are gone. Idempotent."""
        if self._program_pid != os.getpid():  # not ours
            self._channel.close()
            return
        with contextlib.suppress(OSError):
            self._channel.shutdown(socket.SHUT_RDWR)
        try:
            self._process.wait(END_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if threading.current_thread() is not self._thread:
            self._thread.join()
        self._channel.close()

    def _say(self, head: Json, body: bytes = b"", descriptors: tuple[int, ...] = ()) -> None:
        data = memoryview(frame(head, body))
        with self._lock:
            if descriptors:
                sent = socket.send_fds(self._channel, [data], descriptors)
                data = data[sent:]
            self._channel.sendall(data)

    # ---- on its thread

    def _read(self) -> None:
        frames = FrameTaker()
        while True:
            try:
                data = self._channel.recv(_CHUNK)
            except OSError:
                data = b""
            if not data:
                break
            for head, _ in frames.take(data):
                self._hear(head)
        self._bury()

    def _hear(self, head: Json) -> None:
        if "started" in head:
            with self._lock:
                callbacks = self._waiting.get(head["started"])
            if callbacks is not None:
                self._call(callbacks[0], head["pid"])
        elif "ended" in head:
            with self._lock:
                callbacks = self._waiting.pop(head.pop("ended"), None)
            if callbacks is not None:
                self._call(callbacks[1], ProcessEnd(**head))

    def _bury(self) -> None:
        """Report the end of all task managers: the launcher has ended, and no process can tell of them any more."""
        self._has_ended = True
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        for _, on_ended in waiting.values():
            self._call(on_ended, ProcessEnd(error="the process that starts task managers, their launcher, has ended"))

    def _call(self, callback: Callable[[T], object], argument: T) -> None:
        try:
            callback(argument)
        except Exception:
            logger.exception("hearing of a task manager's process")


def program_path() -> list[str]:
    """``sys.path`` of this process, as another one needs it: without entries that mean where one is."""
    here = working_directory()
    return [os.path.join(here, entry) if isinstance(entry, str) else os.fspath(entry) for entry in sys.path]


def working_directory() -> str:
    """Return the working directory of this process."""
    try:
        return os.getcwd()
    except OSError:  # the directory was removed
        return os.sep


# ---- one for all jobs of the program

_lock = threading.Lock()
_launcher: LauncherProcess | None = None


def the_launcher() -> LauncherProcess:
    """Return this program's launcher; if there is none that can be used, another one is started, without waiting."""
    global _launcher
    with _lock:
        if _launcher is None or not _launcher.is_usable:
            if _launcher is not None:
                _launcher.close()
            _launcher = LauncherProcess()
        return _launcher


def end_launcher() -> None:
    """End the launcher, if there is one; the next local job starts another."""
    global _launcher
    with _lock:
        ended, _launcher = _launcher, None
    if ended is not None:
        ended.close()


atexit.register(end_launcher)
