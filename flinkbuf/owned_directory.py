"""A temporary directory that is gone when its owner is, and at the latest when the next one is made.

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

LOCK = ".lock"
UNLOCKED_S = 60.0  # so young, a directory without a lock may be about to get one


class OwnedDirectory:
    """A temporary directory of one owner in this process; a context manager.

    Parameters
    ----------
    prefix : str
        What its name, and that of all others of its kind, begins with.
    parent : str, optional
        Where to make it; the system's directory for temporary files by default.

    Examples
    --------
    >>> with OwnedDirectory("flinkbuf-example-") as directory:
    ...     directory.path.is_dir()
    True
    >>> directory.path.exists()
    False
    """

    def __init__(self, prefix: str, parent: str | None = None) -> None:
        where = parent or tempfile.gettempdir()
        sweep(prefix, where)
        lock = None
        while lock is None:
            self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=where))
            lock = _lock(self.path)
        # Also when it was made and never used; a child that was forked removes nothing of its parent's.
        self._remove = weakref.finalize(self, _remove, self.path, lock, os.getpid())

    def close(self) -> None:
        """Remove it with all that is in it; closing again does nothing."""
        self._remove()

    def __enter__(self) -> OwnedDirectory:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _lock(path: Path) -> int | None:
    """Lock a new directory; None if another process swept it, since it had no lock yet."""
    try:
        lock = os.open(path / LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:
        return None
    fcntl.flock(lock, fcntl.LOCK_EX)  # waits until who sweeps has removed it all
    if os.fstat(lock).st_nlink:
        return lock
    os.close(lock)
    return None


def sweep(prefix: str, parent: str) -> None:
    """Remove the directories of processes that are gone."""
    for path in Path(parent).glob(prefix + "*"):
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
