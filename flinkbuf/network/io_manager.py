"""The temporary files of a process: directories in turn, threads that wait for their disks, nothing left behind.

Whatever goes to disk for a while goes through one of these: blocking partitions, records too long for memory, sorting.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any

from flinkbuf._core.io.io_executor import IOExecutor
from flinkbuf.network.file_channels import (
    BlockChannelReader,
    BlockChannelWriter,
    BufferFileReader,
    BufferFileSegmentReader,
    BufferFileWriter,
    BulkBlockChannelReader,
)
from flinkbuf.owned_directory import OwnedDirectory

PREFIX = "flinkbuf-io-"
_default: IOManager | None = None
_default_lock = threading.Lock()


@dataclass(frozen=True)
class FileChannelID:
    """The name of a temporary file: a path, and the number of the directory that it lies in.

    Flink: ``FileIOChannel.ID``.
    """

    path: str
    directory_number: int

    def __fspath__(self) -> str:
        return self.path


class FileChannelEnumerator:
    """Names of files that belong together: one random beginning and a counter, directories in turn.

    Flink: ``FileIOChannel.Enumerator``.
    """

    def __init__(self, paths: list[Path]) -> None:
        self._paths = paths
        self._prefix = token_hex(16)
        self._count = 0
        self._lock = threading.Lock()

    def next(self) -> FileChannelID:
        """Name the next file, ``<random>.000000.channel`` and so on."""
        with self._lock:
            count, self._count = self._count, self._count + 1
        number = count % len(self._paths)
        return FileChannelID(str(self._paths[number] / f"{self._prefix}.{count:06d}.channel"), number)


class _Directory:
    """One directory for temporary files, its own part of it, and its two threads."""

    def __init__(self, parent: str) -> None:
        self.owned = OwnedDirectory(PREFIX, parent)
        self.path = self.owned.path
        self.reader = IOExecutor("fb-io-reader")
        self.writer = IOExecutor("fb-io-writer")

    def close(self) -> None:
        self.writer.close()
        self.reader.close()
        self.owned.close()


class IOManager:
    """Temporary files of one user, in turn over several directories; a context manager.

    Each directory gets one of its own, ``flinkbuf-io-<random>``, which is gone after `close`. A process that was killed
    leaves it behind, unlocked: the next manager on the same directory removes it, and never that of a process that
    lives. A directory has one thread for reading and one for writing, which start when they are needed first.

    A child that was forked makes its own: the parent's neither works nor removes anything there. Threads: any.

    Parameters
    ----------
    directories : sequence of path-like, optional
        Where temporary files go, best on different disks; they exist. By default those of ``SPARK_LOCAL_DIRS`` (inside
        Spark), else the system's directory for temporary files.

    Raises
    ------
    ValueError
        If the sequence is empty.
    OSError
        If one of the directories cannot be written to.

    References
    ----------
    Flink ``IOManager``, ``IOManagerAsync``.

    Examples
    --------
    >>> with IOManager() as manager:
    ...     name = manager.create_channel()
    ...     with manager.create_block_channel_writer(name) as writer:
    ...         writer.write_block(b"one block")
    ...     with manager.create_block_channel_reader(name, block_size=9) as reader:
    ...         reader.read_block()
    ...         block = bytes(reader.take())
    >>> block, os.path.exists(name)
    (b'one block', False)
    """

    def __init__(self, directories: Iterable[str | os.PathLike[str]] | None = None) -> None:
        parents = [os.fspath(path) for path in (temporary_directories() if directories is None else directories)]
        if not parents:
            raise ValueError("an I/O manager needs at least one directory; None stands for the usual ones")
        self._process_id = os.getpid()
        self._lock = threading.Lock()
        self._is_closed = False
        self._next = int(token_hex(4), 16) % len(parents)  # not all begin with the same disk
        self._directories: list[_Directory] = []
        try:
            for parent in parents:
                self._directories.append(_Directory(parent))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> IOManager:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End the threads and remove the directories with all that is in them; closing again does nothing."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        for directory in self._directories:
            directory.close()

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._is_closed

    @property
    def paths(self) -> list[Path]:
        """Its own directories, one in each that it was given."""
        return [directory.path for directory in self._directories]

    def _check_usable(self) -> None:
        if self._is_closed:
            raise RuntimeError("the I/O manager is closed")
        if os.getpid() != self._process_id:
            raise RuntimeError("this I/O manager belongs to the process that this one was forked from: make another")

    def _take_turn(self) -> int:
        self._check_usable()
        with self._lock:
            number, self._next = self._next, (self._next + 1) % len(self._directories)
        return number

    # ---- names

    def create_channel(self) -> FileChannelID:
        """Name a file that does not exist yet, at random, in the directory whose turn it is."""
        number = self._take_turn()
        return FileChannelID(str(self._directories[number].path / f"{token_hex(16)}.channel"), number)

    def create_channel_enumerator(self) -> FileChannelEnumerator:
        """Make names of files that belong together."""
        self._check_usable()
        return FileChannelEnumerator(self.paths)

    def partition_path(self) -> str:
        """Name the base path of a blocking partition, in the directory whose turn it is."""
        number = self._take_turn()
        return str(self._directories[number].path / f"partition-{token_hex(16)}")

    def delete_channel(self, name: str | os.PathLike[str]) -> None:
        """Remove a file, if it is there."""
        Path(name).unlink(missing_ok=True)

    # ---- threads

    def _directory_of(self, name: str | os.PathLike[str]) -> _Directory:
        self._check_usable()
        if isinstance(name, FileChannelID):
            return self._directories[name.directory_number]
        parents = Path(name).parents
        return next((one for one in self._directories if one.path in parents), self._directories[0])

    def reader_executor(self, name: str | os.PathLike[str]) -> IOExecutor:
        """Return the thread that reads in the directory of a file; elsewhere that of the first directory."""
        return self._directory_of(name).reader

    def writer_executor(self, name: str | os.PathLike[str]) -> IOExecutor:
        """Return the thread that writes in the directory of a file; elsewhere that of the first directory."""
        return self._directory_of(name).writer

    # ---- readers and writers

    def create_block_channel_writer(
        self,
        name: str | os.PathLike[str],
        callback: Callable[[Any, BaseException | None], None] | None = None,
        *,
        is_synchronous: bool = False,
    ) -> BlockChannelWriter:
        """Write a new file block by block (see `BlockChannelWriter`)."""
        executor = None if is_synchronous else self.writer_executor(name)
        return BlockChannelWriter(name, executor, callback)

    def create_block_channel_reader(
        self,
        name: str | os.PathLike[str],
        block_size: int,
        callback: Callable[[Any, BaseException | None], None] | None = None,
        *,
        is_synchronous: bool = False,
    ) -> BlockChannelReader:
        """Read a file block by block (see `BlockChannelReader`)."""
        executor = None if is_synchronous else self.reader_executor(name)
        return BlockChannelReader(name, block_size, executor, callback)

    def create_bulk_block_channel_reader(
        self, name: str | os.PathLike[str], segments: list[object], block_count: int
    ) -> BulkBlockChannelReader:
        """Read the first `block_count` blocks of a file at once, into `segments`."""
        return BulkBlockChannelReader(name, segments, block_count, self.reader_executor(name))

    def create_buffer_file_writer(
        self, name: str | os.PathLike[str], *, is_synchronous: bool = False
    ) -> BufferFileWriter:
        """Write a new file buffer by buffer, events included (see `BufferFileWriter`)."""
        return BufferFileWriter(name, None if is_synchronous else self.writer_executor(name))

    def create_buffer_file_reader(
        self, name: str | os.PathLike[str], *, max_size: int = 32768, is_synchronous: bool = False
    ) -> BufferFileReader:
        """Read a file buffer by buffer (see `BufferFileReader`)."""
        return BufferFileReader(name, None if is_synchronous else self.reader_executor(name), max_size)

    def create_buffer_file_segment_reader(self, name: str | os.PathLike[str]) -> BufferFileSegmentReader:
        """Say where in a file its buffers lie, without reading them (see `BufferFileSegmentReader`)."""
        self._check_usable()
        return BufferFileSegmentReader(name)


def temporary_directories() -> list[str]:
    """Return the directories that the environment names: Spark's, else the system's one."""
    named = [path for path in os.environ.get("SPARK_LOCAL_DIRS", "").split(",") if path]
    usable = [path for path in named if os.path.isdir(path) and os.access(path, os.W_OK)]
    return usable or [tempfile.gettempdir()]


def default_io_manager() -> IOManager:
    """Return the manager of this process, made at the first call; a child that was forked gets its own."""
    global _default
    with _default_lock:
        if _default is None or _default.is_closed or _default._process_id != os.getpid():
            _default = IOManager()
        return _default


def _forget_lock() -> None:
    global _default_lock
    _default_lock = threading.Lock()  # a thread of the parent may have held it


os.register_at_fork(after_in_child=_forget_lock)
