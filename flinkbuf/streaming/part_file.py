"""One file that a sink writes: hidden while it is in progress, renamed when it is committed.

Flink: InProgressFileWriter, OutputStreamBasedPartFileWriter, PartFileInfo.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from dataclasses import dataclass
from typing import IO, Any, Protocol


@dataclass
class PartFileInfo:
    """The part file that is being written in one bucket. Flink: PartFileInfo."""

    bucket_id: str
    creation_ms: int
    last_update_ms: int
    size: int = 0  # bytes


@dataclass(frozen=True)
class PendingFile:
    """A file that is complete and waits for its name. It is what a file sink commits."""

    in_progress_path: str
    final_path: str

    def __str__(self) -> str:
        return f"file {self.final_path!r}"

    def commit(self) -> None:
        """Give it its name; nothing happens if it has it already."""
        try:
            os.replace(self.in_progress_path, self.final_path)
        except FileNotFoundError:
            if not os.path.exists(self.final_path):
                raise
        _sync_directory(os.path.dirname(self.final_path))


class PartWriter(Protocol):
    """Turns records into the bytes of one file."""

    def add_element(self, element: Any) -> None:
        """Take one record."""
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
    """

    def __init__(self, final_path: str, info: PartFileInfo, create_writer: Any) -> None:
        self.info = info
        self._final_path = final_path
        folder, name = os.path.split(final_path)
        os.makedirs(folder, exist_ok=True)
        self._path = os.path.join(folder, f".{name}.inprogress.{uuid.uuid4()}")
        self._file: IO[bytes] = open(self._path, "xb")  # noqa: SIM115
        try:
            self._writer: PartWriter = create_writer(self._file)
        except BaseException:
            self._file.close()
            raise

    def write(self, element: Any, now_ms: int) -> None:
        """Add one record."""
        try:
            self._writer.add_element(element)
            self.info.size = self._file.tell()
        except OSError as error:
            raise self._located(error) from error
        self.info.last_update_ms = now_ms

    def flush(self) -> None:
        """Have the system write what is there."""
        try:
            self._writer.flush()
            self._file.flush()
        except OSError as error:
            raise self._located(error) from error

    def finish(self) -> PendingFile:
        """End it: all its bytes are on the disk, and it waits for its name."""
        try:
            self._writer.finish()
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
        except OSError as error:
            raise self._located(error) from error
        return PendingFile(self._path, self._final_path)

    def abandon(self) -> None:
        """Close it as it is, under its hidden name: what a failed job leaves.

        A writer that holds something of its own has a method ``abandon()``.
        """
        with contextlib.suppress(OSError):
            getattr(self._writer, "abandon", bool)()
        with contextlib.suppress(OSError):  # such as a disk that is full: the reason was raised before
            self._file.close()

    def _located(self, error: OSError) -> OSError:
        """The same error with the path, which Python does not know while it writes."""
        if error.filename is not None or error.errno is None:
            return error
        return OSError(error.errno, os.strerror(error.errno), self._path)


def _sync_directory(path: str) -> None:
    """Have a new name on the disk, too."""
    descriptor = os.open(path or ".", os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
