"""The interface of a file system that checkpoints can lie in. Flink: CheckpointStateOutputStream."""

from __future__ import annotations

import errno
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from flinkbuf.checkpoints.damage import damaged


@dataclass(frozen=True)
class FileEntry:
    """An entry of a directory."""

    location: str
    is_directory: bool
    size: int = 0
    modified_ms: int = 0


class StateOutput(ABC):
    """A new file of state that one thread writes; another one may `abort` it at any moment.

    Owner: the caller that opened it, until `finish`; from then on the file belongs to the handles that name it. Without
    handles, `discard` deletes it. As a context manager it aborts when its block fails.

    Attributes
    ----------
    path : str
        Where it will be.
    size : int
        Bytes so far.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.size = 0
        self._inside = threading.Lock()  # held by the thread that uses the file; abort() does not wait for it
        self._fate = threading.Lock()  # of the next two, of which one alone comes true; never held for long
        self._is_kept = False
        self._is_aborted = False
        self._is_removed = False

    def write(self, data: bytes | bytearray | memoryview) -> int:
        """Append bytes; return the offset at which they begin.

        Raises
        ------
        OSError
            If they cannot be written; ECANCELED: the file was aborted.
        """
        return self.write_all((data,))

    def write_all(self, pieces: Sequence[bytes | bytearray | memoryview]) -> int:
        """Append several pieces; return the offset at which the first begins. Raises as `write` does."""
        views = [memoryview(data).cast("B") for data in pieces]
        self._enter()
        try:
            offset = self.size
            self._write_all(views)
            self.size = offset + sum(len(view) for view in views)
        except OSError as error:
            raise self._located(error) from None
        finally:
            self._leave()
        self._check()
        return offset

    def finish(self) -> str:
        """Make the file durable, and return its path; again: the same path.

        Raises
        ------
        OSError
            If it cannot be written to its end; it is then to be aborted.
        """
        if self._is_kept:
            return self.path
        self._enter()
        try:
            self._finish()
            with self._fate:
                self._is_kept = not self._is_aborted
        except OSError as error:
            raise self._located(error) from None
        finally:
            self._leave()
        self._check()
        return self.path

    def abort(self) -> None:
        """Give the file up and delete it; after `finish`, or again, it does nothing.

        From any thread. It does not wait for a write that hangs: the file is deleted when that comes back.
        """
        with self._fate:
            self._is_aborted = not self._is_kept
        if self._is_aborted:
            self._drop()

    def discard(self) -> None:
        """Delete the file, also after `finish`: for a caller that has passed on no handle of it. Again: nothing."""
        with self._fate:
            self._is_kept, self._is_aborted = False, True
        self._drop()

    def __enter__(self) -> StateOutput:
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        if kind is not None:
            self.abort()

    def _enter(self) -> None:
        self._inside.acquire()
        if self._is_aborted or self._is_kept:
            self._inside.release()
            self._check()
            raise ValueError(f"{self.path} is finished: nothing can be added to it")

    def _leave(self) -> None:
        """Close the file for a thread that aborted it meanwhile and found it in use."""
        self._inside.release()
        if self._is_aborted:
            self._drop()

    def _drop(self) -> None:
        if not self._inside.acquire(blocking=False):
            return  # the thread that uses the file looks at `_is_aborted` afterwards
        try:
            if not self._is_removed:
                self._is_removed = True
                self._remove()
        finally:
            self._inside.release()

    def _check(self) -> None:
        if self._is_aborted:
            raise OSError(errno.ECANCELED, "the file was given up while it was written", self.path)

    def _located(self, error: OSError) -> OSError:
        if error.filename is None and error.errno is not None:
            return OSError(error.errno, error.strerror, self.path)
        return error

    @abstractmethod
    def _write(self, data: memoryview) -> None: ...

    def _write_all(self, pieces: Sequence[memoryview]) -> None:
        """Append what fits the file's own way of taking many bytes; here: one piece after the other."""
        for data in pieces:
            self._write(data)

    @abstractmethod
    def _finish(self) -> None:
        """Close the file; its bytes and its name are durable."""

    @abstractmethod
    def _remove(self) -> None:
        """Close the file and delete it; both as well as one can."""


class StateInput(ABC):
    """A file of state that any number of threads read.

    Attributes
    ----------
    path : str
    size : int
        Bytes.
    """

    def __init__(self, path: str, size: int) -> None:
        self.path = path
        self.size = size

    def read_at(self, offset: int, size: int) -> bytes:
        """Return exactly so many bytes.

        Raises
        ------
        CorruptDataError
            If the file ends before them; nothing was allocated then.
        OSError
            If it cannot be read.
        """
        if offset < 0 or size < 0 or offset + size > self.size:
            where = min(max(offset, 0), self.size)
            raise damaged(self.path, where, f"{size} bytes are said to be at {offset}, but it has {self.size} in all")
        data = self._read(offset, size)
        if len(data) != size:
            raise damaged(self.path, offset + len(data), "it ends here, and had more bytes when it was opened")
        return data

    @abstractmethod
    def close(self) -> None:
        """Close the file; again: nothing."""

    def __enter__(self) -> StateInput:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @abstractmethod
    def _read(self, offset: int, size: int) -> bytes: ...


class Files(ABC):
    """One file system. Locations are those of `flinkbuf.checkpoints.locations`; errors are OSErrors."""

    @abstractmethod
    def create(self, path: str) -> StateOutput:
        """Make a new file, and the directories it lies in."""

    @abstractmethod
    def open(self, path: str) -> StateInput:
        """Open a file; FileNotFoundError if it does not exist."""

    @abstractmethod
    def put(self, path: str, data: bytes) -> None:
        """Write a whole file at once: it is durable with all its bytes, or does not exist.

        Raises
        ------
        FileExistsError
            If there is one.
        """

    @abstractmethod
    def delete(self, path: str) -> None:
        """Delete a file; if it does not exist: nothing."""

    @abstractmethod
    def delete_tree(self, location: str) -> None:
        """Delete a directory and all that is in it; if it does not exist: nothing."""

    @abstractmethod
    def make_directory(self, location: str) -> None:
        """Make a directory, and those it lies in."""

    @abstractmethod
    def entries(self, location: str) -> Sequence[FileEntry]:
        """Return the entries of a directory, by name; FileNotFoundError if it does not exist."""
