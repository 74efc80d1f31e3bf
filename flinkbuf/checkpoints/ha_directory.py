"""The steps of `ha_protocol`, done on a real directory: local, or mounted by all who may run the job."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
import uuid
from collections.abc import Callable
from typing import Any, Final

from flinkbuf.checkpoints import ha_protocol as protocol
from flinkbuf.checkpoints.damage import damaged
from flinkbuf.checkpoints.local_files import LocalFiles, sync_directory
from flinkbuf.control.message_codec import Json
from flinkbuf.errors import CorruptDataError
from flinkbuf.private_files import private_opener
from flinkbuf.processes import process_space, status_of

PAUSE_S: Final = 0.5  # between two tries to learn what a directory that fails has taken in


class HaDirectory:
    """A directory of one job. All machines must see each other's files at once: a local disk, or a mount that does
    not remember which names there are, and gives no call up (NFS: ``lookupcache=none``, ``actimeo=0`` and ``hard``).

    Parameters
    ----------
    path : str
    pause : callable, optional
        ``pause(why)`` waits before a step is tried again; half a second by default.
    """

    def __init__(self, path: str, pause: Callable[[str], None] = lambda why: time.sleep(PAUSE_S)) -> None:
        self.path = path
        self._pause = pause

    def exists(self) -> bool:
        """Return whether there is such a directory."""
        return os.path.isdir(self.path)

    def make(self) -> None:
        """Make the directory, if it does not exist."""
        LocalFiles().make_directory(self.path)

    def perform(self, steps: protocol.Steps[protocol.T]) -> protocol.T:
        """Do all steps; return the result of the generator, or raise its error."""
        try:
            step = next(steps)
            while True:
                try:
                    found = self.do(step)
                except OSError as error:  # the generator decides what follows from the error
                    step = steps.throw(error)
                else:
                    step = steps.send(found)
        except StopIteration as end:
            return end.value
        except CorruptDataError as error:
            name, offset, what = error.path, error.offset, error.what  # type: ignore[attr-defined]
            raise damaged(os.path.join(self.path, name), offset, what) from None

    def do(self, step: protocol.Step) -> Any:
        """Do one step; return its answer."""
        if isinstance(step, protocol.ListNames):
            return self._names()
        if isinstance(step, protocol.Pause):
            return self._pause(step.why)
        path = self._place_of(step.name)
        if isinstance(step, protocol.Read):
            return self._read(path)
        if isinstance(step, protocol.Create):
            return self._create(path, step.data)
        if isinstance(step, protocol.Write):
            return self._replace(path, step.data)
        if isinstance(step, protocol.Touch):
            return self._touch(path)
        assert isinstance(step, protocol.Delete), step
        return self._delete(path)

    # What a directory elsewhere does in another way.

    def _place_of(self, name: str) -> str:
        return os.path.join(self.path, name)

    def _read(self, path: str) -> bytes | None:
        return _read(path)

    def _create(self, path: str, data: bytes) -> bool:
        return _create(path, data)

    def _replace(self, path: str, data: bytes) -> None:
        _replace(path, data)

    def _touch(self, path: str) -> bool:
        return _touch(path)

    def _delete(self, path: str) -> None:
        LocalFiles().delete(path)

    def _names(self) -> list[str]:
        """Names of what is half written begin with a dot."""
        try:
            return [name for name in os.listdir(self.path) if not name.startswith(".")]
        except FileNotFoundError:
            return []

    def age_ms(self, name: str) -> int | None:
        """Return how long ago a file was touched, by the clock of the machine that has the disk; None: it is gone."""
        clock = os.path.join(self.path, f".clock-{uuid.uuid4().hex}")
        try:
            with contextlib.suppress(FileNotFoundError):
                before = os.stat(os.path.join(self.path, name)).st_mtime_ns
                os.close(os.open(clock, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
                return max(0, os.stat(clock).st_mtime_ns - before) // 1_000_000
            return None
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(clock)


def _read(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def _create(path: str, data: bytes) -> bool:
    try:
        descriptor = private_opener(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC)
    except FileExistsError:
        return False
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    sync_directory(os.path.dirname(path))
    return True


def _replace(path: str, data: bytes) -> None:
    directory, name = os.path.split(path)
    temporary = os.path.join(directory, f".{name}-{uuid.uuid4().hex}")
    try:
        _create(temporary, data)
        os.rename(temporary, path)
    except BaseException:
        LocalFiles().delete(temporary)
        raise
    sync_directory(directory)


def _touch(path: str) -> bool:
    try:
        os.utime(path)
    except FileNotFoundError:
        return False
    return True


# ---- who holds a lease


def this_process() -> bytes:
    """Return how a lease names the process that holds it."""
    process_id = os.getpid()
    facts = {"host": socket.gethostname(), "pid": process_id, "machine": process_space()}
    return json.dumps({**facts, "started": _started(process_id)}).encode()


def holder_text(holder: bytes | None) -> str:
    """Return a lease's holder for people."""
    facts = _facts(holder)
    return f"process {facts['pid']} on {facts['host']}" if facts else "another process"


def is_gone(holder: bytes | None) -> bool:
    """Return whether a holder is known to have ended: one of this machine whose process is gone."""
    facts = _facts(holder)
    if not facts or facts["machine"] != process_space() or not facts["machine"]:
        return False
    return _started(facts["pid"]) != facts["started"]


def _started(process_id: int) -> str:
    """Return when a process began; '' if it has ended."""
    status = status_of(process_id)
    return "" if status is None else str(status.started)


def _facts(holder: bytes | None) -> Json:
    """Return the facts in a lease; an empty lease, of a maker stopped at once, has none."""
    try:
        facts = json.loads(holder or b"{}")
        return facts if {"host", "pid", "machine", "started"} <= facts.keys() else {}
    except (ValueError, AttributeError):
        return {}
