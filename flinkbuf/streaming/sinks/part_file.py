"""One file that a sink writes: hidden while it is in progress, renamed when it is committed.

Flink: InProgressFileWriter, OutputStreamBasedPartFileWriter, PartFileInfo.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import IO, Any, Protocol, cast

from flinkbuf.checkpoints.local_files import sync_directory
from flinkbuf.errors import CorruptDataError
from flinkbuf.streaming.file_place import WrittenFile, is_remote, remote_files

_COPY_BYTES = 1024 * 1024  # at a time


@dataclass
class PartFileInfo:
    """The part file that is being written in one bucket. Flink: PartFileInfo."""

    bucket_id: str
    creation_ms: int
    last_update_ms: int
    size: int = 0  # bytes


@dataclass(frozen=True)
class PendingFile:
    """A file that is complete and waits for its name. It is what a file sink commits.

    Attributes
    ----------
    in_progress_path, final_path : str
    replaces : tuple of str
        Files in progress that it has begun with, of attempts that failed; they go when it has its name.
    """

    in_progress_path: str
    final_path: str
    replaces: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"file {self.final_path!r}"

    def commit(self) -> bool:
        """Rename the file; return False if neither it nor a file of the final name exists."""
        if is_remote(self.final_path):
            return self._commit_remote()
        try:
            os.replace(self.in_progress_path, self.final_path)
        except FileNotFoundError:
            if not os.path.exists(self.final_path):
                return False
        sync_directory(os.path.dirname(self.final_path) or os.curdir)
        for path in self.replaces:
            with contextlib.suppress(OSError):  # it is hidden, and does no harm
                os.remove(path)
        return True

    def _commit_remote(self) -> bool:
        files = remote_files(self.final_path)
        try:
            files.rename(self.in_progress_path, self.final_path)
        except FileNotFoundError:
            try:
                files.entry(self.final_path)
            except FileNotFoundError:
                return False
        return True


@dataclass(frozen=True)
class PartInProgress:
    """A file in progress as a checkpoint knows it: what is behind `size` was written later.

    Flink: InProgressFileRecoverable.
    """

    path: str
    info: PartFileInfo
    replaces: tuple[str, ...] = ()

    @property
    def size(self) -> int:
        """Return how many of the file's bytes count."""
        return self.info.size


class PartWriter(Protocol):
    """Turns records into the bytes of one file."""

    def add_element(self, element: Any) -> int | None:
        """Take one record; return how many bytes it has become, or None: the file has to be asked how long it is."""
        ...

    def flush(self) -> None:
        """Give the file what is held back, as far as the format allows."""
        ...

    def finish(self) -> None:
        """Write the end of the file; it is not closed."""
        ...


class PartFile:
    """A file in progress.

    Parameters
    ----------
    final_path : str
        What it will be called.
    info : PartFileInfo
        Kept up to date for the rolling policy.
    create_writer : callable
        Takes the open file and returns a writer of records.
    hidden_name : str, optional
        What it is called until then.
    begins_with : PartInProgress, optional
        What it goes on from: its bytes are copied, since their writer may not know yet that it is given up.
    """

    def __init__(
        self,
        final_path: str,
        info: PartFileInfo,
        create_writer: Callable[[IO[bytes]], PartWriter],
        hidden_name: str | None = None,
        begins_with: PartInProgress | None = None,
    ) -> None:
        self.info = info
        self._final_path = final_path
        self._replaces = () if begins_with is None else (*begins_with.replaces, begins_with.path)
        folder, name = os.path.split(final_path)
        self._path = os.path.join(folder, hidden_name or f".{name}.inprogress.{uuid.uuid4()}")
        self._file = self._open()
        try:
            if begins_with is not None:
                _copy(begins_with, self._file)
            self._writer: PartWriter = create_writer(self._file)
        except BaseException:
            self._file.close()
            raise

    def _open(self) -> IO[bytes]:
        folder = os.path.dirname(self._path)
        self._unsynced = _directories_with_new_names(folder)
        os.makedirs(folder, exist_ok=True)
        return open(self._path, "xb")

    def write(self, element: object, now_ms: int) -> None:
        """Add one record."""
        try:
            size = self._writer.add_element(element)
            # Asking the file is a system call, which costs more than all the rest of a record.
            self.info.size = self._file.tell() if size is None else self.info.size + size
        except OSError as error:
            raise self._located(error) from error
        self.info.last_update_ms = now_ms

    def flush(self) -> None:
        """Hand the bytes to the operating system."""
        try:
            self._writer.flush()
            self._file.flush()
        except OSError as error:
            raise self._located(error) from error

    def persist(self) -> PartInProgress:
        """Write all bytes to the disk, and return what a checkpoint keeps of the file."""
        self.flush()
        try:
            self._sync()
        except OSError as error:
            raise self._located(error) from error
        return PartInProgress(self._path, replace(self.info, size=self._file.tell()), self._replaces)

    def finish(self) -> PendingFile:
        """End the file: all its bytes are on the disk, and it waits for its name."""
        try:
            self._writer.finish()
            self._file.flush()
            self._sync()
            self._file.close()
        except OSError as error:
            raise self._located(error) from error
        return PendingFile(self._path, self._final_path, self._replaces)

    def abandon(self) -> None:
        """Close the file as it is, under its hidden name: what a failed job leaves.

        A writer that holds something of its own has a method ``abandon()``.
        """
        with contextlib.suppress(OSError):
            getattr(self._writer, "abandon", bool)()
        with contextlib.suppress(OSError):  # such as a disk that is full: the reason was raised before
            self._file.close()

    def _sync(self) -> None:
        """Have the bytes on the disk, and the name: a checkpoint that counts the file finds it after a power cut."""
        os.fsync(self._file.fileno())
        while self._unsynced:
            sync_directory(self._unsynced[-1])
            self._unsynced.pop()

    def _located(self, error: OSError) -> OSError:
        """Return the same error with the path, which Python does not know while it writes."""
        if error.filename is not None or error.errno is None:
            return error
        return OSError(error.errno, os.strerror(error.errno), self._path)


class RemotePartFile(PartFile):
    """A file in progress on HDFS. It has no bytes there for certain before it is closed, so a checkpoint ends it."""

    def _open(self) -> IO[bytes]:
        if self._replaces:
            raise ValueError(f"{self._replaces[-1]} goes on from a checkpoint, which parts on HDFS do not")
        self._written = WrittenFile(remote_files(self._path).create(self._path))
        return cast("IO[bytes]", self._written)

    def abandon(self) -> None:
        """Give the file up, and delete it."""
        with contextlib.suppress(OSError):
            getattr(self._writer, "abandon", bool)()
        self._written.abandon()

    def _sync(self) -> None:
        """Closing it does."""


def _copy(part: PartInProgress, file: IO[bytes]) -> None:
    try:
        source = open(part.path, "rb")  # noqa: SIM115
    except FileNotFoundError as error:
        raise FileNotFoundError(
            error.errno,
            "a part file that the checkpoint has in progress is gone; either a later checkpoint has completed it (then "
            "begin from the latest one), or another process has removed hidden files",
            part.path,
        ) from error
    with source:
        there = os.fstat(source.fileno()).st_size
        if there < part.size:
            raise CorruptDataError(f"{part.path} has {there} bytes, and the checkpoint says that it has {part.size}")
        left = part.size
        while left:
            block = source.read(min(left, _COPY_BYTES))
            file.write(block)
            left -= len(block)


def _directories_with_new_names(folder: str) -> list[str]:
    """Return the directories that get a new name when a file is made in `folder`, which may not be there yet.

    The one above is always among them: another subtask may have made `folder` a moment ago.
    """
    folder = os.path.abspath(folder)
    found = [folder, os.path.dirname(folder)]
    while not os.path.isdir(found[-1]):
        found.append(os.path.dirname(found[-1]))
    return found
