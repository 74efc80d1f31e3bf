"""A temporary directory that is gone when its job is, and at the latest when the next job makes one.

A process that is killed removes nothing. So each directory holds a lock as long as its process lives: whoever makes a
directory first removes those whose lock is free.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
import weakref
from pathlib import Path

PREFIX = "flinkbuf-job-"
LOCK = ".lock"
UNLOCKED_S = 60.0  # so young, a directory without a lock may be about to get one


class JobDirectory:
    """A directory of one job; a context manager.

    Parameters
    ----------
    parent : str, optional
        Where to make it; the system's directory for temporary files by default.

    Examples
    --------
    >>> with JobDirectory() as directory:
    ...     directory.path.is_dir()
    True
    >>> directory.path.exists()
    False
    """

    def __init__(self, parent: str | None = None) -> None:
        where = parent or tempfile.gettempdir()
        sweep(where)
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=where))
        lock = os.open(self.path / LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Also when a job was made and never started; a child that was forked removes nothing of its parent's.
        self._remove = weakref.finalize(self, _remove, self.path, lock, os.getpid())

    def close(self) -> None:
        """Remove it with all that is in it; closing again does nothing."""
        self._remove()

    def __enter__(self) -> JobDirectory:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def sweep(parent: str) -> None:
    """Remove the directories of processes that are gone."""
    for path in Path(parent).glob(PREFIX + "*"):
        try:
            if path.stat().st_uid == os.getuid() and not path.is_symlink():
                _sweep(path)
        except OSError:  # another one sweeps, too
            continue


def _sweep(path: Path) -> None:
    try:
        lock = os.open(path / LOCK, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        if time.time() - path.stat().st_mtime > UNLOCKED_S:
            shutil.rmtree(path, ignore_errors=True)
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # BlockingIOError: its process lives
        shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(lock)


def _remove(path: Path, lock: int, process_id: int) -> None:
    if os.getpid() == process_id:
        shutil.rmtree(path, ignore_errors=True)
        os.close(lock)
