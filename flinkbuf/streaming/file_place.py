"""Where files of sources and sinks lie: on this machine, or on HDFS. A path is absolute, or a URI of HDFS."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from functools import lru_cache
from io import SEEK_CUR, SEEK_END, SEEK_SET, BufferedReader, RawIOBase
from typing import Any, BinaryIO
from urllib.parse import unquote, urlsplit

from flinkbuf.checkpoints.files import FileEntry, StateInput, StateOutput
from flinkbuf.checkpoints.hdfs_files import SCHEMES, HdfsFiles, is_there
from flinkbuf.checkpoints.locations import name_of, normalized, place_of, query_of, scheme_of

_READ_BYTES = 1 << 20  # that are asked of a DataNode at once
_FILE_MODE, _DIRECTORY_MODE = 0o644, 0o755  # as others may read what is written here, too


def local_path(path: str | os.PathLike[str]) -> str:
    """Return the absolute path of a local file that may be written as a URI.

    It is absolute as of now, in the program: a task may work in another directory.

    Examples
    --------
    >>> local_path("file:///data/a%20b"), local_path("/data/x")
    ('/data/a b', '/data/x')
    """
    text = os.fspath(path)
    scheme = urlsplit(text).scheme
    if scheme == "file":
        return os.path.abspath(unquote(urlsplit(text).path))
    if len(scheme) > 1:
        raise ValueError(f"only local files can be read and written, got {text!r}")
    return os.path.abspath(text)


def located(path: str | os.PathLike[str]) -> str:
    """Return where a file or directory lies that a user names: an absolute path, or a URI of HDFS.

    Raises
    ------
    ValueError
        If it lies elsewhere, or hdfs-native is missing.
    """
    text = os.fspath(path)
    scheme = scheme_of(text)
    if scheme not in SCHEMES:
        if len(scheme) > 1:
            raise ValueError(f"files are read and written on this machine or on HDFS (hdfs://…), got {text!r}")
        return local_path(text)
    if not is_there():
        raise ValueError(f"{text!r} needs hdfs-native, here and where the tasks run: pip install 'flinkbuf[hdfs]'")
    if query_of(text):
        raise ValueError(f"files on HDFS have no options, got {text!r}")
    return normalized(text)


def is_remote(path: str) -> bool:
    """Return whether a path is one of HDFS."""
    return scheme_of(path) in SCHEMES


def remote_files(path: str) -> HdfsFiles:
    """Return the file system of a path of HDFS; one for each process."""
    return _files_at(os.getpid(), place_of(path))  # a client's threads do not live on in a child


@lru_cache(maxsize=16)
def _files_at(process_id: int, place: str) -> HdfsFiles:
    return HdfsFiles(f"{place}/", _FILE_MODE, _DIRECTORY_MODE)


def files_in(path: str) -> Iterator[FileEntry]:
    """Yield all files below a directory of HDFS, hidden ones too; none if it does not exist."""
    entries: list[FileEntry] = []
    with contextlib.suppress(FileNotFoundError):
        entries = list(remote_files(path).entries(path))
    for each in entries:
        if each.is_directory:
            yield from files_in(each.location)
        else:
            yield each


def open_to_read(path: str) -> BinaryIO:
    """Open a file; its bytes are as they lie there."""
    if not is_remote(path):
        return open(path, "rb")
    return BufferedReader(_ReadFile(remote_files(path).open(path)), _READ_BYTES)


def source_for_libraries(path: str) -> str | BinaryIO:
    """Return what libraries read a file by that know local paths; of HDFS an open file, which holds nothing open."""
    return open_to_read(path) if is_remote(path) else path


class _ReadFile(RawIOBase):
    def __init__(self, file: StateInput) -> None:
        self._file = file
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        size = max(0, min(len(buffer), self._file.size - self._at))
        buffer[:size] = self._file.read_at(self._at, size) if size else b""
        self._at += size
        return size

    def seek(self, offset: int, whence: int = SEEK_SET) -> int:
        self._at = offset + {SEEK_SET: 0, SEEK_CUR: self._at, SEEK_END: self._file.size}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def close(self) -> None:
        self._file.close()
        super().close()


class WrittenFile(RawIOBase):
    """A new file of HDFS as a file of Python: closing it makes it whole."""

    def __init__(self, output: StateOutput) -> None:
        self._output = output

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self._output.write(view)
        return len(view)

    def tell(self) -> int:
        return self._output.size

    def close(self) -> None:
        if not self.closed:
            super().close()
            self._output.finish()

    def abandon(self) -> None:
        """Give the file up, and delete it."""
        with contextlib.suppress(OSError, ValueError):
            self._output.abort()
        super().close()


def is_hidden(path: str) -> bool:
    """Return whether a name says that the file is not to be read."""
    return name_of(path).startswith((".", "_"))
