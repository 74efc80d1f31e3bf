"""Files of checkpoints wherever ``pyarrow.fs`` reaches: S3 and what speaks as it does, GCS, Azure, HDFS."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING
from urllib.parse import unquote

from flinkbuf.checkpoints.files import FileEntry, Files, StateInput, StateOutput
from flinkbuf.checkpoints.locations import child, name_of, parent, path_within

if TYPE_CHECKING:
    from pyarrow import NativeFile, fs

_OBJECT_STORES = ("s3", "gcs", "abfs")  # a file is there when it was closed, and not before; directories are none
_OF_HADOOP = ("hdfs", "viewfs")  # of which pyarrow has only a face: libhdfs.so of Hadoop, a JVM, and its CLASSPATH
_SAME = {"s3a": "s3", "s3n": "s3"}  # as Hadoop calls it: what Spark's users write


class RemoteFiles(Files):
    """The file system of one URI, and of all that have the same scheme and authority.

    Parameters
    ----------
    uri : str
        With its options, if it has any.

    Raises
    ------
    ImportError
        If there is no pyarrow.
    ValueError
        If pyarrow knows no such file system.
    """

    def __init__(self, uri: str) -> None:
        self._fs: fs.FileSystem
        self._fs, path = _from_uri(uri)
        self._is_object_store = self._fs.type_name in _OBJECT_STORES
        self._root = path.strip("/") if not path_within(uri) else _without_end(path, unquote(path_within(uri)))

    def _path(self, location: str) -> str:
        within = unquote(path_within(location))
        return f"{self._root.rstrip('/')}/{within}" if self._root else within

    def create(self, path: str) -> StateOutput:
        """Make a new file, and the directories it lies in, where there are any."""
        if not self._is_object_store:
            self.make_directory(parent(path))
        with _errors_at(path):
            return _RemoteOutput(path, self._fs, self._path(path))

    def open(self, path: str) -> StateInput:
        """Open a file; FileNotFoundError if it does not exist."""
        with _errors_at(path):
            return _RemoteInput(path, self._fs.open_input_file(self._path(path)))

    def put(self, path: str, data: bytes) -> None:
        """Write a whole file: object stores show it when it is whole, elsewhere it has another name first."""
        with _errors_at(path):
            if self._type_of(path):
                raise FileExistsError(f"{path} is there already: it is never written again")
        temporary = path if self._is_object_store else child(parent(path), f".{name_of(path)}-{uuid.uuid4().hex}")
        with self.create(temporary) as output:
            output.write(data)
            output.finish()
        if temporary != path:
            with _errors_at(path):
                self._fs.move(self._path(temporary), self._path(path))

    def delete(self, path: str) -> None:
        """Delete a file; if it does not exist: nothing."""
        with _errors_at(path), contextlib.suppress(FileNotFoundError):
            if self._type_of(path):
                self._fs.delete_file(self._path(path))

    def delete_tree(self, location: str) -> None:
        """Delete a directory and all that is in it; if it does not exist: nothing."""
        if not path_within(location):
            raise ValueError(f"{location} is no directory of checkpoints: it is not deleted")
        with _errors_at(location), contextlib.suppress(FileNotFoundError):
            if self._type_of(location):
                self._fs.delete_dir(self._path(location))

    def make_directory(self, location: str) -> None:
        """Make a directory; where there are none this only asks whether one may look there."""
        with _errors_at(location):
            if self._is_object_store:
                self._type_of(location)
            else:
                self._fs.create_dir(self._path(location), recursive=True)

    def entries(self, location: str) -> Sequence[FileEntry]:
        """Return the entries of a directory, by name."""
        from pyarrow import fs

        with _errors_at(location):
            found = self._fs.get_file_info(fs.FileSelector(self._path(location)))
        entries = []
        for info in found:
            modified_ms = (info.mtime_ns or 0) // 1_000_000
            is_directory = info.type == fs.FileType.Directory
            entries.append(FileEntry(child(location, info.base_name), is_directory, info.size or 0, modified_ms))
        return sorted(entries, key=lambda each: each.location)

    def _type_of(self, location: str) -> object:
        """Return the type of a path; false: it does not exist."""
        from pyarrow import fs

        kind = self._fs.get_file_info(self._path(location)).type
        return None if kind == fs.FileType.NotFound else kind


def _from_uri(uri: str) -> tuple[fs.FileSystem, str]:
    scheme, mark, rest = uri.partition("://")
    try:
        from pyarrow import fs
    except ImportError as error:
        raise ImportError(f"checkpoints at {scheme}:// need pyarrow: pip install pyarrow") from error
    try:
        found, path = fs.FileSystem.from_uri(_SAME.get(scheme.lower(), scheme.lower()) + mark + rest)
    except ValueError as error:
        raise ValueError(f"no file system for checkpoints at {scheme}://: {error}") from None
    except OSError as error:
        if scheme.lower() in _OF_HADOOP:
            raise OSError(
                f"checkpoints at {scheme}:// need hdfs-native: pip install 'flinkbuf[hdfs]'. {error}"
            ) from None
        raise
    return found, path


def _without_end(path: str, end: str) -> str:
    """Return the part that a file system has before the path of its URI: the bucket, or ''."""
    bare = path.rstrip("/")
    return bare[: -len(end)] if bare.endswith(end) else bare


@contextlib.contextmanager
def _errors_at(location: str) -> Iterator[None]:
    """Raise pyarrow's errors with their place; pyarrow knows the classes of Python's own."""
    try:
        yield
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{location}: {error}") from None
    except FileExistsError:
        raise
    except PermissionError as error:
        raise PermissionError(f"{location}: {error}") from None
    except OSError as error:
        raise OSError(f"{location}: {error}") from error


class _RemoteOutput(StateOutput):
    def __init__(self, path: str, filesystem: fs.FileSystem, fs_path: str) -> None:
        super().__init__(path)
        self._fs, self._fs_path = filesystem, fs_path
        self._file = filesystem.open_output_stream(fs_path)

    def _write(self, data: memoryview) -> None:
        with _errors_at(self.path):
            self._file.write(data)

    def _finish(self) -> None:
        with _errors_at(self.path):
            self._file.close()

    def _remove(self) -> None:
        with contextlib.suppress(OSError):
            self._file.close()  # which, of an object, makes it
        with contextlib.suppress(OSError):
            self._fs.delete_file(self._fs_path)


class _RemoteInput(StateInput):
    def __init__(self, path: str, file: NativeFile) -> None:
        super().__init__(path, file.size())
        self._file = file

    def _read(self, offset: int, size: int) -> bytes:
        with _errors_at(self.path):
            return bytes(self._file.read_at(size, offset))

    def close(self) -> None:
        """Close the file; again: nothing."""
        self._file.close()
